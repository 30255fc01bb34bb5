/* SPDX-License-Identifier: MIT
 *
 * fleet -- the nodes, what happens to them, and the dice that decide it. See fleet.h.
 */
#include "fleet.h"

#include "engine/engine_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVER_START_MS INT64_C(1800000000000)
#define ATTEMPTS_MAX    5
#define NO_ROOM         200 /* one in so many times there is no room for what an engine wants */
#define BEAT_ARENA_MAX  (1u << 20)
#define CALM_LEAST_MS   6000 /* … and the time of a lease: every node has seen all others */
#define CALM_ROUNDS_MAX 1000 /* … within which all that was accepted comes to its end */
#define CALM_STEP_MS    200
#define PULSE_MS        400
#define HELD_BYTES      (1 << 16)

struct fleet_options fleet_options;

uint64_t fleet_roll(struct fleet *fleet, uint64_t sides)
{
    return daruma_dice_roll(&fleet->dice) % sides;
}

static int64_t fleet_mono_ms(const struct clock *clock)
{
    return ((const struct fleet *)clock)->mono_ms;
}

static int64_t fleet_wall_ms(const struct clock *clock)
{
    return fleet_server_ms((const struct fleet *)clock);
}

int64_t fleet_server_ms(const struct fleet *fleet)
{
    return fleet->mono_ms + fleet->server_ahead_ms;
}

bool fleet_is_up(const struct fleet *fleet, size_t node)
{
    const struct fleet_node *each = &fleet->nodes[node];

    return (each->face != NULL && each->face->spared_count > 0) ||
           (fleet->server_down_until_ms <= fleet->mono_ms && each->down_until_ms <= fleet->mono_ms);
}

bool fleet_is_running(const struct fleet *fleet, size_t node)
{
    return fleet->nodes[node].engine != NULL &&
           fleet->nodes[node].stopped_until_ms <= fleet->mono_ms;
}

bool fleet_has_lease(const struct fleet *fleet, size_t node)
{
    return fleet->nodes[node].engine->nodes.right.until_ms > fleet->mono_ms;
}

/* --- what an engine wants ---------------------------------------------------------------------------- */

static bool has_room(struct fleet *fleet)
{
    return fleet->is_calm || fleet_roll(fleet, NO_ROOM) != 0;
}

static bool want_commit(void *user, struct op *op)
{
    struct fleet_node *node = user;

    node->wishes++;
    return !node->is_dead && has_room(node->fleet) && committer_submit(node->committer, op);
}

static bool want_read(void *user, struct read *read)
{
    struct fleet_node *node = user;
    struct handover_link **link = &node->reads;

    node->wishes++;
    if (node->is_dead || !has_room(node->fleet)) {
        return false;
    }
    while (*link != NULL) {
        link = &(*link)->next;
    }
    ((struct handover_link *)read)->next = NULL;
    *link = (struct handover_link *)read;
    return true;
}

static void want_reply(void *user, const struct reply *reply)
{
    struct fleet_node *node = user;

    node->wishes++;
    if (!node->is_dead) {
        fleet_replied(node->fleet, reply);
    }
}

static int no_policy(void *user, struct span json, struct arena *arena,
                     struct daruma_policy *ret_policy, struct error *err)
{
    (void)user, (void)json, (void)arena, (void)ret_policy;
    return fail(err, FAULT_INPUT, "the simulation has one policy");
}

static void no_wake(void *user)
{
    (void)user;
}

/* "cb NUMBER ROUND": of which end it tells. */
static bool tell(void *user, const struct record *record, struct span queue, struct arena *arena,
                 struct submission *ret_submission)
{
    struct fleet_node *node = user;
    const struct fleet_task *task = fleet_task_of(node->fleet, record->task.id);

    (void)queue;
    *ret_submission = (struct submission){
        .target = SPAN("http://tell.invalid/"),
        .body =
            arena_printf(arena, "cb %d %" PRIu32,
                         task == NULL ? -1 : (int)(task - node->fleet->tasks), record->life.round)};
    return true;
}

static void beat(struct fleet_node *node);
static void take_beats(struct fleet_node *node);

/* --- a process --------------------------------------------------------------------------------------- */

static void open_engine(struct fleet_node *node)
{
    struct fleet *fleet = node->fleet;
    const int64_t kept_ms = INT64_MAX / 4;
    const struct engine_options options = {
        .clock = &fleet->clock,
        .dice = &fleet->dice,
        .world = {.commit = want_commit,
                  .read = want_read,
                  .send = fleet_send,
                  .reply = want_reply,
                  .pull = fleet_pull,
                  .stop = fleet_stop,
                  .nudge = fleet_nudge,
                  .user = node},
        .parse_queue = fleet_parse_queue,
        .parse_policy = no_policy,
        .parse_user = fleet,
        .callback = tell,
        .callback_user = node,
        .keep = {.succeeded_ms = kept_ms, .failed_ms = kept_ms, .cancelled_ms = kept_ms},
        .response_max = 1000,
        .backlog_max = 10000,
        .waiters_max = 8,
        .attempts_max = fleet->limits.attempts_max,
        .replay_bytes = fleet_options.held_answers ? HELD_BYTES : 0,
    };
    struct error err = {0};
    int failed = 0;

    node->engine = engine_new(&options, &err);
    node->attempts = 0;
    for (size_t i = 0; failed == 0 && i < 3; i++) {
        failed = engine_add_queue(node->engine, &fleet->settings[i], &err);
    }
    for (size_t i = 0; failed == 0 && fleet->has_gateway && i < FLEET_ROUTES; i++) {
        failed = engine_add_route(node->engine, &fleet->routes[i], &err);
    }
    if (failed != 0 || engine_open(node->engine, &node->face->base, &err) != 0) {
        fleet_fail(fleet, "node %zu does not start: %s", node->index, err.text);
    }
}

/* Whose machine is still there knows that the process before is not. */
static void start(struct fleet_node *node)
{
    struct fleet *fleet = node->fleet;
    bool was_calm = fleet->is_calm;

    fleet->is_calm = true; /* a start that fails is made again: not what is tested here */
    node->is_dead = node->is_leaving = false;
    if (!node->is_elsewhere && node->epoch_before != 0) {
        (void)fleet_drop_row(fleet, node->epoch_before, -1);
    }
    node->face = fleet_face_open(fleet, node->index);
    node->committer = committer_new(&node->face->base, &fleet->clock, no_wake, NULL);
    open_engine(node);
    node->queues_seen = fleet->queues_version;
    if (!fleet_options.early_changes) {
        node->face->beaten_at_ms = 0;
        beat(node);
        take_beats(node);
    }
    fleet->is_calm = was_calm;
}

static void take_reads(struct fleet_node *node, struct handover_link **list)
{
    while (*list != NULL) {
        struct handover_link *link = *list;
        *list = link->next;
        engine_read(node->engine, (struct read *)link);
    }
}

static void drop_operations(struct fleet_node *node)
{
    committer_abandon(node->committer);
    for (struct op *op = committer_take(node->committer); op != NULL;) {
        struct op *next = (struct op *)op->link.next;
        op->fault = FAULT_CLOSING;
        engine_committed(node->engine, op);
        op = next;
    }
}

static void drop_beats(struct fleet_node *node)
{
    while (node->beats != NULL) {
        struct fleet_beat *next = node->beats->next;
        arena_free(node->beats->arena);
        free(node->beats);
        node->beats = next;
    }
}

/* The process is gone with all it had in hand. */
static void end_process(struct fleet_node *node)
{
    struct fleet *fleet = node->fleet;

    node->is_dead = true;
    for (size_t i = 0; i < FLEET_FLIGHTS_MAX; i++) {
        if (fleet->flights[i].node == node->index) {
            fleet->flights[i] = (struct fleet_flight){0};
        }
    }
    fleet_forget_callers(fleet, node->index);
    take_reads(node, &node->performed);
    take_reads(node, &node->reads);
    drop_operations(node);
    drop_beats(node);
    engine_free(node->engine);
    committer_free(node->committer);
    store_close(&node->face->base);
    node->engine = NULL;
    node->committer = NULL;
    node->face = NULL;
}

static void crash(struct fleet_node *node)
{
    struct fleet *fleet = node->fleet;
    static const int64_t away_ms[] = {0, 0, 500, 4000, 12000};

    if (node->engine == NULL) {
        return;
    }
    fleet_trace(fleet, "node %zu crashes", node->index);
    fleet->seen.crashes++;
    node->epoch_before = node->face->epoch;
    node->is_elsewhere = fleet_roll(fleet, 2) == 0;
    if (!node->is_elsewhere) {
        fleet_end_session(fleet, node->face);
    }
    end_process(node);
    node->stopped_until_ms = 0;
    node->start_at_ms = fleet->mono_ms + away_ms[fleet_roll(fleet, 5)];
}

/* One that wants nothing of the world lets time pass: else its loop never sleeps. */
static void tick(struct fleet_node *node)
{
    engine_tick(node->engine);
    uint64_t wishes = node->wishes;
    for (int again = 0; engine_next_tick_ms(node->engine) == 0 && again < 2; again++) {
        engine_tick(node->engine);
        if (again == 1 && node->wishes == wishes) {
            fleet_fail(node->fleet, "node %zu wants tick after tick and does nothing", node->index);
        }
    }
    fleet_check_lines(node->fleet, node->index);
}

/* --- turns ------------------------------------------------------------------------------------------- */

static void commit(struct fleet_node *node)
{
    (void)committer_step(node->committer, 0); /* says whether more is to come; we come anyway */
    if (!node->fleet->is_calm && fleet_roll(node->fleet, 8) == 0) {
        return; /* the answers are taken in a later turn */
    }
    engine_doubts(node->engine);
    for (struct op *op = committer_take(node->committer); op != NULL;) {
        struct op *next = (struct op *)op->link.next;
        engine_committed(node->engine, op);
        op = next;
    }
}

/* What runs under an epoch that is live is no dead node's. */
static void spare_live(const struct fleet *fleet, struct read *read)
{
    const struct life *life = read->record_count > 0 ? &read->records[0].life : NULL;

    if (!fleet_options.stale_orphans && read->kind == READ_TASK && read->id.tail == ID_ANY_TAIL &&
        life != NULL && life->state == TASK_RUNNING && (life->flags & LIFE_PULL) == 0 &&
        fleet_epoch_is_live(fleet, life->epoch)) {
        read->record_count = 0;
    }
}

/* In order; what was read may be taken in a later turn. */
static void perform_reads(struct fleet_node *node)
{
    struct handover_link **last = &node->performed;

    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = node->reads;
    node->reads = NULL;
    for (struct handover_link *link = *last; link != NULL; link = link->next) {
        read_perform((struct read *)link, &node->face->base);
        spare_live(node->fleet, (struct read *)link);
    }
    if (node->fleet->is_calm || !fleet_options.late_reads || fleet_roll(node->fleet, 3) != 0) {
        take_reads(node, &node->performed);
    }
}

static void beat(struct fleet_node *node)
{
    struct fleet_beat *seen = calloc(1, sizeof *seen), **link = &node->beats;

    seen->arena = arena_new(BEAT_ARENA_MAX);
    if (store_beat(&node->face->base, 0, seen->arena, &seen->beat, NULL) != 0) {
        arena_free(seen->arena);
        free(seen);
        return;
    }
    if (fleet_options.dropped_reads && !has_room(node->fleet)) { /* its engine is far behind */
        node->has_missed |= seen->beat.is_fresh;
        arena_free(seen->arena);
        free(seen);
        return;
    }
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = seen;
}

static void take_beats(struct fleet_node *node)
{
    while (node->beats != NULL) {
        struct fleet_beat *seen = node->beats;
        node->beats = seen->next;
        engine_beat(node->engine, &seen->beat);
        node->has_missed = node->has_missed && !seen->beat.is_fresh;
        node->queues_seen =
            seen->beat.queues_serial != 0 ? seen->beat.queues_version : node->queues_seen;
        arena_free(seen->arena);
        free(seen);
    }
    for (size_t i = 0; !fleet_options.lost_turns && i < node->engine->queue_count; i++) {
        dispatch_ready(node->engine, node->engine->queues[i]);
    }
}

/* Pulses have a thread of their own: they go on while an engine has no turn. Seldom a time passes
 * in which no node does anything. */
static void pass_time(struct fleet *fleet)
{
    uint64_t roll = fleet_roll(fleet, 60);
    int64_t left_ms = 1 + (int64_t)fleet_roll(fleet, roll == 0 ? 15000 : roll < 10 ? 3000 : 500);

    while (left_ms > 0) {
        int64_t step_ms = roll != 0 && left_ms > PULSE_MS ? PULSE_MS : left_ms;
        left_ms -= step_ms;
        fleet->mono_ms += step_ms;
        for (size_t i = 0; i < fleet->node_count; i++) {
            if (fleet_is_running(fleet, i) && fleet_roll(fleet, 8) != 0) {
                beat(&fleet->nodes[i]);
            }
        }
    }
}

static void mishap(struct fleet_node *node)
{
    switch (fleet_roll(node->fleet, node->fleet->limits.has_hosts ? 5 : 4)) {
    case 4:
        fleet_stop_node(node);
        break;
    case 0:
        crash(node);
        break;
    case 1:
        fleet_cut_off(node);
        break;
    default:
        fleet_suspend(node);
        break;
    }
}

static void turn(struct fleet_node *node)
{
    struct fleet *fleet = node->fleet;
    uint64_t roll = node->is_leaving ? 28 + fleet_roll(fleet, 72) : fleet_roll(fleet, 100);

    if (roll < 10) {
        fleet_submit(fleet, node->index);
    } else if (roll < 20) {
        fleet_operate(fleet, node->index);
    } else if (roll < 24) {
        fleet_work(fleet, node->index);
    } else if (roll < 28) {
        fleet_call(fleet, node->index);
    } else if (roll < 30) {
        beat(node);
    } else if (roll < 46) {
        take_beats(node);
    } else if (roll < 68) {
        commit(node);
    } else if (roll < 78) {
        perform_reads(node);
    } else if (roll < 90) {
        fleet_read_on(fleet, node->index);
        fleet_deliver(fleet, node->index);
    } else if (roll < 97) {
        tick(node);
    } else {
        mishap(node);
    }
}

static void step(struct fleet *fleet)
{
    struct fleet_node *node = &fleet->nodes[fleet_roll(fleet, fleet->node_count)];

    fleet->steps++;
    if (fleet_roll(fleet, 100) < 15) {
        pass_time(fleet);
    } else if (fleet_is_running(fleet, node->index)) {
        turn(node);
        if (node->engine != NULL && fleet_has_left(node)) {
            crash(node);
        }
    } else if (node->engine == NULL && !node->is_gone && node->start_at_ms <= fleet->mono_ms &&
               fleet_is_up(fleet, node->index)) {
        start(node);
    }
    fleet_check(fleet);
}

/* --- the end ----------------------------------------------------------------------------------------- */

/* In half of the lives one node is left alone with all there is to be done. */
static void choose_survivors(struct fleet *fleet)
{
    size_t lone = (size_t)fleet_roll(fleet, fleet->node_count);
    bool is_lone = fleet_roll(fleet, 2) == 0;

    fleet->server_down_until_ms = 0;
    for (size_t i = 0; i < fleet->node_count; i++) {
        struct fleet_node *node = &fleet->nodes[i];
        node->stopped_until_ms = node->down_until_ms = 0;
        if (is_lone && i != lone) {
            crash(node);
            node->is_gone = true;
        } else if (node->engine == NULL) {
            start(node);
        }
    }
}

static void calm_round(struct fleet *fleet, struct fleet_node *node)
{
    if (node->engine == NULL) {
        return;
    }
    beat(node);
    take_beats(node);
    commit(node);
    perform_reads(node);
    fleet_read_on(fleet, node->index);
    fleet_deliver(fleet, node->index);
    if (!node->is_leaving) {
        fleet_work(fleet, node->index);
    }
    commit(node);
    tick(node);
    if (fleet_has_left(node)) { /* and comes again: all have to see it once more */
        crash(node);
        start(node);
        fleet->calm_at_ms = fleet->mono_ms;
    }
}

/* No more faults: everything that was accepted comes to an end. */
static void calm_down(struct fleet *fleet)
{
    fleet_trace(fleet, "calm");
    fleet->is_calm = true;
    fleet->calm_at_ms = fleet->mono_ms;
    choose_survivors(fleet);
    for (int i = 0; i < CALM_ROUNDS_MAX && fleet->failure[0] == '\0'; i++) {
        for (size_t n = 0; n < fleet->node_count; n++) {
            calm_round(fleet, &fleet->nodes[n]);
        }
        fleet->mono_ms += CALM_STEP_MS;
        fleet_check(fleet);
        bool is_long = fleet->mono_ms - fleet->calm_at_ms > fleet->node_lease_ms + CALM_LEAST_MS;
        if (is_long && fleet_is_over(fleet)) {
            fleet->seen.calm_ms = fleet->mono_ms - fleet->calm_at_ms;
            break;
        }
    }
    fleet_check_calm(fleet);
}

static void set_up(struct fleet *fleet, uint64_t seed)
{
    static const int64_t leases_ms[] = {3000, 5000, 10000};
    static const uint32_t hosts[] = {0, 1, 2, 3, 5}; /* with one, one node sends */
    struct daruma_policy_options policy = {.max_attempts = ATTEMPTS_MAX};
    const struct store_options options = {
        .keep = {INT64_MAX / 4, INT64_MAX / 4, INT64_MAX / 4, 1000}};
    struct store *inner = NULL;
    struct error err;

    *fleet = (struct fleet){
        .clock = {.wall_ms = fleet_wall_ms, .mono_ms = fleet_mono_ms},
        .mono_ms = 100000,
        .server_ahead_ms = SERVER_START_MS,
        .dice = daruma_dice_seed(seed),
        .ids = {.dice = &fleet->dice, .slot = ID_SLOTS - 1, .has_slot = true},
        .seed = seed,
        .is_traced = getenv("DARUMA_SIM_TRACE") != NULL,
        .node_count = 2 + seed % 2,
        .node_lease_ms = leases_ms[seed / 2 % 3],
        .settings = {
            {.name = SPAN(FLEET_PUSHED), .concurrency = 6, .host_concurrency = hosts[seed % 5]},
            {.name = SPAN(FLEET_PULLED), .concurrency = 8, .lease_ms = 6000},
            {.name = SPAN(ENGINE_CALLBACK_QUEUE), .concurrency = 8}}};
    policy.rules[DARUMA_CLASS_TRANSIENT] =
        (struct daruma_rule_options){.given = true, .backoff = {.base_ms = 500, .max_ms = 4000}};
    for (size_t i = 0; i < sizeof fleet->settings / sizeof *fleet->settings; i++) {
        (void)daruma_policy_create(&policy, &fleet->settings[i].policy, NULL); /* it is good */
    }
    if (store_memory_open(&options, &inner, &err) != 0) {
        fleet_fail(fleet, "no store: %s", err.text);
        return;
    }
    fleet->inner = (struct store_memory *)inner;
    fleet_hosts_set_up(fleet);
    fleet->has_gateway = seed % 3 != 0;
    fleet->has_redrives = fleet_options.bulk_redrives && seed % 4 == 3;
    fleet_gateway_set_up(fleet);
    for (size_t i = 0; i < fleet->node_count; i++) {
        fleet->nodes[i] = (struct fleet_node){.fleet = fleet, .index = i};
        start(&fleet->nodes[i]);
    }
}

static void tear_down(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->node_count; i++) {
        if (fleet->nodes[i].engine != NULL) {
            end_process(&fleet->nodes[i]);
        }
    }
    if (fleet->inner != NULL) {
        store_close(&fleet->inner->base);
    }
}

bool fleet_run(struct fleet *fleet, uint64_t seed, uint32_t steps)
{
    set_up(fleet, seed);
    for (uint32_t i = 0; i < steps && fleet->failure[0] == '\0'; i++) {
        step(fleet);
    }
    if (fleet->failure[0] == '\0') {
        calm_down(fleet);
    }
    tear_down(fleet);
    return fleet->failure[0] == '\0';
}
