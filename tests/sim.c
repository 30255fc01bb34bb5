/* SPDX-License-Identifier: MIT
 *
 * sim -- the world around the engine, and the dice that decide what happens next. See sim.h.
 */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WALL_START_MS  INT64_C(1800000000000)
#define SUBMISSION_MAX (1 << 16)
#define AGAIN          100000 /* exchanges of submissions that repeat an earlier one */
#define OTHER          200000 /* … that use its key for something else */
#define CALM_STEPS_MAX 20000
#define CALM_CALLS     60  /* steps in which keys are still used */
#define NO_ROOM        150 /* one in so many times there is no room for what is wanted */

uint64_t sim_roll(struct sim *sim, uint64_t sides)
{
    return daruma_dice_roll(&sim->dice) % sides;
}

static int64_t sim_wall_ms(const struct clock *clock)
{
    return ((const struct sim *)clock)->wall_ms;
}

static int64_t sim_mono_ms(const struct clock *clock)
{
    return ((const struct sim *)clock)->mono_ms;
}

/* --- what the engine wants ------------------------------------------------------------------------ */

/* A process can die between any two things it does. */
bool sim_is_dead(struct sim *sim)
{
    if (!sim->is_calm && !sim->is_crashing && sim_roll(sim, 400) == 0) {
        sim->is_crashing = true;
    }
    return sim->is_crashing;
}

static bool has_room(struct sim *sim)
{
    return sim->is_calm || sim_roll(sim, NO_ROOM) != 0;
}

static bool want_commit(void *user, struct op *op)
{
    struct sim *sim = user;

    sim->wishes++;
    return !sim_is_dead(sim) && has_room(sim) && committer_submit(sim->committer, op);
}

static bool want_read(void *user, struct read *read)
{
    struct sim *sim = user;
    struct handover_link *link = (struct handover_link *)read;

    sim->wishes++;
    if (sim_is_dead(sim) || !has_room(sim)) {
        return false;
    }
    link->next = sim->reads;
    sim->reads = link;
    return true;
}

static void told(struct sim *sim, uint32_t number, const struct reply *reply)
{
    struct sim_task *task = &sim->tasks[number];

    task->pending--;
    if (reply->kind == REPLY_CREATED || reply->kind == REPLY_DUPLICATE) {
        bool was_created = task->told == SIM_CREATED;
        if (was_created && reply->records[0].task.id.row != task->id.row) {
            sim_fail(sim, "I3: the key of task %u has two tasks", number);
        }
        task->told = SIM_CREATED;
        task->id = reply->records[0].task.id;
        sim_check_created(sim, number);
    } else if (reply->kind == REPLY_CONFLICT) {
        sim_fail(sim, "I3: task %u conflicts with itself", number);
    } else if (task->told == SIM_CREATED) {
        return;
    } else if (reply->error.fault == FAULT_UNKNOWN) {
        task->told = SIM_UNKNOWN;
    } else if (task->told == SIM_UNTOLD && task->pending == 0) {
        task->told = SIM_REFUSED; /* this one, and no other is under way */
    }
}

static void want_reply(void *user, const struct reply *reply)
{
    struct sim *sim = user;

    sim->wishes++;
    if (sim_is_dead(sim)) {
        return;
    }
    if (reply->exchange >= SIM_CALLERS) {
        sim_gateway_told(sim, reply);
        return;
    }
    if (reply->exchange >= SIM_WORDS) {
        sim_worded(sim, reply->exchange - SIM_WORDS, reply);
        return;
    }
    if (reply->exchange >= SIM_TAKES) {
        sim_leased(sim, reply);
        return;
    }
    if (reply->exchange >= SIM_ASIDE) {
        if (reply->kind == REPLY_REDRIVE && reply->redrive.id != 0) {
            sim->redrive = (int64_t)reply->redrive.id;
            sim_check_redrive(sim, &reply->redrive);
        }
        return;
    }
    if (reply->exchange >= OTHER) {
        if (reply->kind == REPLY_CREATED || reply->kind == REPLY_DUPLICATE) {
            sim_fail(sim, "I3: another request took the key of task %u",
                     (uint32_t)(reply->exchange - OTHER));
        }
        return;
    }
    told(sim, (uint32_t)(reply->exchange % AGAIN), reply);
}

/* --- the process ----------------------------------------------------------------------------------- */

static int no_queue(void *user, struct span json, struct span name, struct arena *arena,
                    struct queue_settings *ret_settings, struct error *err)
{
    (void)user, (void)json, (void)name, (void)arena, (void)ret_settings;
    return fail(err, FAULT_INPUT, "the simulation has one queue");
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

/* "cb NUMBER ROUND STATE": who is told what. */
static bool tell(void *user, const struct record *record, struct span queue, struct arena *arena,
                 struct submission *ret_submission)
{
    struct arena *own = arena_new(SUBMISSION_MAX);
    struct record whole;
    bool is_known = sim_read(user, record->task.id, own, &whole);

    (void)queue;
    *ret_submission = (struct submission){
        .target = SPAN(SIM_TELL_URL),
        .body = arena_printf(arena, "cb %.*s %" PRIu32 " %s",
                             SPAN_ARGS(is_known ? whole.task.body : SPAN("?")), record->life.round,
                             task_state_text(record->life.state))};
    arena_free(own);
    return true;
}

static void start(struct sim *sim)
{
    struct error err = {0};
    const struct engine_options options = {
        .clock = &sim->clock,
        .dice = &sim->dice,
        .world = {.commit = want_commit,
                  .read = want_read,
                  .send = sim_send,
                  .reply = want_reply,
                  .pull = sim_upstream_pull,
                  .stop = sim_upstream_stop,
                  .user = sim},
        .parse_queue = no_queue,
        .parse_policy = no_policy,
        .callback = tell,
        .callback_user = sim,
        .keep = {.succeeded_ms = INT64_MAX / 4,
                 .failed_ms = INT64_MAX / 4,
                 .cancelled_ms = INT64_MAX / 4,
                 .tombstones_ms = SIM_TOMBSTONES_MS},
        .response_max = 1000,
        .backlog_max = SIM_TASKS_MAX,
        .replay_bytes = sim->seed % 2 == 0 ? 64 << 10 : 0,
        .attempts_max = sim->attempts_max,
        .waiters_max = 8,
    };
    bool was_calm = sim->is_calm;

    sim->is_crashing = false;
    sim->is_calm = true; /* a start that fails is started again: not what is tested here */
    sim->committer = committer_new(sim->store, &sim->clock, no_wake, NULL);
    sim->engine = engine_new(&options, &err);
    sim->attempts = 0;
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < sizeof sim->settings / sizeof *sim->settings; i++) {
        failed = engine_add_queue(sim->engine, &sim->settings[i], &err);
    }
    for (size_t i = 0; failed == 0 && i < SIM_ROUTE_COUNT; i++) {
        failed = engine_add_route(sim->engine, &sim->routes[i], &err);
    }
    if (failed != 0 || engine_open(sim->engine, sim->store, &err) != 0) {
        sim_fail(sim, "the engine does not start: %s", err.text);
    }
    sim->is_calm = was_calm;
}

static void drop_reads(struct sim *sim)
{
    while (sim->reads != NULL) {
        struct handover_link *next = sim->reads->next;
        sim->is_crashing = true; /* nobody hears the replies */
        engine_read(sim->engine, (struct read *)sim->reads);
        sim->reads = next;
    }
}

/* Errands under way belong to nobody but the committer: they come back with a fault and are freed. */
static void drop_operations(struct sim *sim)
{
    sim->is_crashing = true;
    committer_abandon(sim->committer);
    for (struct op *op = committer_take(sim->committer); op != NULL;) {
        struct op *next = (struct op *)op->link.next;
        op->fault = FAULT_CLOSING;
        engine_committed(sim->engine, op);
        op = next;
    }
}

static void note_seen(struct sim *sim)
{
    struct engine_stats stats;

    engine_stats(sim->engine, &stats);
    sim->seen.sent += stats.attempts;
    sim->seen.leased += stats.leased;
    sim->seen.expired_leases += stats.expired_leases;
    sim->seen.redriven += stats.redriven;
    sim->seen.resolved += stats.resolved;
    sim->seen.callbacks += stats.callbacks;
    sim->seen.outages += stats.outages;
    sim->seen.probes += stats.probes;
    sim->seen.released += stats.released;
}

static void crash(struct sim *sim)
{
    sim->crashes++;
    note_seen(sim);
    for (uint32_t i = 0; i < sim->task_count; i++) {
        struct sim_task *task = &sim->tasks[i];
        if (task->pending > 0 && task->told != SIM_CREATED) {
            task->told = SIM_CALLER_LOST;
        }
        task->pending = 0;
        if (task->in_flight) {
            task->zombie_fence = task->fence_seen;
        }
        task->in_flight = false;
    }
    sim_gateway_crash(sim);
    memset(sim->flights, 0, sizeof sim->flights);
    drop_reads(sim);
    drop_operations(sim);
    engine_free(sim->engine);
    committer_free(sim->committer);
    sim->store = sim_store_crash(sim->store);
    start(sim);
}

/* An engine that wants nothing of the world lets time pass: else its loop never sleeps. */
static void tick(struct sim *sim)
{
    struct engine_stats stats;

    engine_tick(sim->engine);
    uint64_t wishes = sim->wishes;
    if (engine_next_tick_ms(sim->engine) == 0) {
        engine_tick(sim->engine);
        if (engine_next_tick_ms(sim->engine) == 0 && sim->wishes == wishes) {
            sim_fail(sim, "the engine wants a tick at once, again, and has nothing to do");
        }
    }
    engine_stats(sim->engine, &stats);
    if (stats.attempts != sim->attempts) {
        sim_fail(sim, "an attempt is counted that was not made");
    }
}

/* --- what happens ------------------------------------------------------------------------------------ */

static void submit(struct sim *sim, uint32_t number, uint64_t exchange, const char *method)
{
    struct sim_task *task = &sim->tasks[number];
    struct arena *arena = arena_new(SUBMISSION_MAX);
    struct submission submission = {
        .exchange = exchange,
        .arena = arena,
        .queue = task->pulled ? SPAN(SIM_PULLED) : SPAN(SIM_QUEUE),
        .method = span_of(method),
        .target = task->pulled ? SPAN("") : sim_target_of(sim, number),
        .body = arena_printf(arena, "%" PRIu32, number),
        .key = task->keyed ? arena_printf(arena, "key-%" PRIu32, number) : SPAN(""),
        .options = {.has_repeatable = true,
                    .repeatable = !task->once,
                    .callback = task->called ? SPAN("{}") : SPAN("")},
        .delay_ms = sim_roll(sim, 3) == 0 ? (int64_t)sim_roll(sim, 5000) : 0,
        .deadline_ms = task->deadline_at_ms != 0 ? SIM_DEADLINE_MS : 0,
    };

    if (exchange < OTHER) {
        task->pending++;
        task->told = task->told == SIM_REFUSED ? SIM_UNTOLD : task->told;
    }
    engine_submit(sim->engine, &submission);
}

static void submit_new(struct sim *sim)
{
    uint32_t number = sim->task_count;

    if (sim->is_calm || number == SIM_TASKS_MAX) {
        return;
    }
    sim->task_count++;
    sim->tasks[number] = (struct sim_task){
        .once = sim_roll(sim, 2) == 0,
        .keyed = sim_roll(sim, 2) == 0,
        .pulled = sim_roll(sim, 3) == 0,
        .called = sim_roll(sim, 2) == 0,
        .deadline_at_ms = sim_roll(sim, 4) == 0 ? sim->wall_ms + SIM_DEADLINE_MS : 0,
    };
    submit(sim, number, number, "POST");
}

/* Somebody sends it again, or uses its key for something else. */
static void submit_again(struct sim *sim)
{
    uint32_t number = sim->task_count == 0 ? 0 : (uint32_t)sim_roll(sim, sim->task_count);
    const struct sim_task *task = &sim->tasks[number];

    if (sim->task_count == 0 || !task->keyed || task->deadline_at_ms != 0) {
        return;
    }
    if (sim_roll(sim, 2) == 0) {
        submit(sim, number, AGAIN + number, "POST");
    } else if (task->told == SIM_CREATED) {
        submit(sim, number, OTHER + number, "PUT");
    }
}

static void commit(struct sim *sim)
{
    (void)committer_step(sim->committer, 0); /* says whether more is to come; we come anyway */
    if (sim_is_dead(sim)) {
        return; /* committed, and nobody was told */
    }
    engine_doubts(sim->engine);
    for (struct op *op = committer_take(sim->committer); op != NULL;) {
        struct op *next = (struct op *)op->link.next;
        engine_committed(sim->engine, op);
        op = next;
    }
}

static void perform_reads(struct sim *sim)
{
    struct handover_link *link = sim->reads;

    sim->reads = NULL;
    while (link != NULL) {
        struct handover_link *next = link->next;
        read_perform((struct read *)link, sim->store);
        engine_read(sim->engine, (struct read *)link);
        link = next;
    }
}

/* A process that was thought dead wakes up and settles an attempt that is not its own any more. */
static void zombie(struct sim *sim)
{
    uint32_t number = sim->task_count == 0 ? 0 : (uint32_t)sim_roll(sim, sim->task_count);
    struct sim_task *task = &sim->tasks[number];
    struct arena *arena = arena_new(SUBMISSION_MAX);
    struct record record;

    if (task->zombie_fence != 0 && sim_read(sim, task->id, arena, &record) &&
        record.life.fence != task->zombie_fence) {
        struct op op = {.kind = OP_SETTLE,
                        .arena = arena,
                        .now_ms = sim->wall_ms,
                        .task.id = task->id,
                        .life = {.state = TASK_DEAD,
                                 .fence = task->zombie_fence,
                                 .settled_at_ms = sim->wall_ms}};
        struct op *ops[] = {&op};
        struct error err;
        if (store_apply(sim_store_inner(sim->store), ops, 1, &err) != 0 ||
            op.result != RESULT_STALE) {
            sim_fail(sim, "I2: a stale attempt settled task %u", number);
        }
        task->zombie_fence = 0;
    }
    arena_free(arena);
}

static void ask(struct sim *sim)
{
    uint32_t number = sim->task_count == 0 ? 0 : (uint32_t)sim_roll(sim, sim->task_count);
    static const enum ask_kind kinds[] = {ASK_TASK, ASK_RUN, ASK_CANCEL, ASK_LIST, ASK_QUEUE_RUN};
    struct ask question = {.kind = kinds[sim_roll(sim, 5)],
                           .exchange = SIM_ASIDE,
                           .id = sim->tasks[number].id,
                           .queue = sim_roll(sim, 2) == 0 ? SPAN(SIM_QUEUE) : SPAN(SIM_PULLED),
                           .filter = {.states = STORE_ALL_STATES, .limit = 10},
                           .wait_ms = (int64_t)sim_roll(sim, 2000)};

    if (sim->task_count > 0 && sim->tasks[number].told == SIM_CREATED && sim_roll(sim, 3) == 0) {
        engine_ask(sim->engine, &question);
    }
}

static void pass_time(struct sim *sim)
{
    int64_t by_ms = (int64_t)sim_roll(sim, 1500);

    sim->mono_ms += by_ms;
    sim->wall_ms += by_ms;
    if (!sim->is_calm && sim_roll(sim, 40) == 0) { /* somebody sets the clock */
        int64_t step_ms = (int64_t)sim_roll(sim, 20000) - 10000;
        sim->wall_ms += step_ms;
        sim->has_stepped_back |= step_ms < 0;
    }
    if (sim->wall_ms > sim->wall_max_ms) {
        sim->wall_max_ms = sim->wall_ms;
    }
    tick(sim);
}

static void step(struct sim *sim)
{
    sim->steps++;
    switch (sim_roll(sim, 15)) {
    case 0:
    case 1:
        submit_new(sim);
        break;
    case 2:
        submit_again(sim);
        break;
    case 3:
    case 4:
        commit(sim);
        break;
    case 5:
        sim_deliver(sim);
        break;
    case 6:
        pass_time(sim);
        break;
    case 7:
        perform_reads(sim);
        break;
    case 8:
        ask(sim);
        break;
    case 9:
        sim_operate(sim);
        break;
    case 10:
    case 11:
        sim_work(sim);
        break;
    case 12:
    case 13:
        sim_gateway_call(sim);
        break;
    default:
        zombie(sim);
        break;
    }
    if (sim->is_crashing || (!sim->is_calm && sim_roll(sim, 100) == 0)) {
        crash(sim);
    }
    sim_check_all(sim);
}

static uint64_t open_count(const struct sim *sim)
{
    uint64_t count = 0;

    for (size_t i = 0; i < engine_queue_count(sim->engine); i++) {
        struct queue_view view;
        engine_queue_view(sim->engine, i, &view);
        count += view.counts[TASK_WAITING] + view.counts[TASK_RUNNING];
        if (span_is(view.name, SIM_PROBED)) { /* somebody is asked */
            count += view.counts[TASK_UNSETTLED];
        }
    }
    return count;
}

/* No more faults: everything that was accepted comes to an end. */
static void calm_down(struct sim *sim)
{
    sim->is_calm = true;
    for (int i = 0; i < CALM_STEPS_MAX && sim->failure[0] == '\0'; i++) {
        commit(sim);
        perform_reads(sim);
        sim_deliver(sim);
        sim_work(sim);
        sim_gateway_read_on(sim);
        if (i % 64 == 0) { /* targets that said they are gone are there again */
            engine_ask(sim->engine, &(struct ask){.kind = ASK_QUEUE_RESUME,
                                                  .exchange = SIM_ASIDE,
                                                  .queue = SPAN(SIM_QUEUE)});
        }
        if (i < CALM_CALLS) {
            sim_gateway_call(sim);
            sim_check_keys(sim);
        }
        pass_time(sim);
        if (open_count(sim) == 0 && sim->reads == NULL && i > 100 && sim_gateway_is_quiet(sim)) {
            break;
        }
    }
    sim_check_calm(sim);
}

static void set_up(struct sim *sim, uint64_t seed)
{
    struct daruma_policy_options policy = {.max_attempts = SIM_ATTEMPTS_MAX};

    *sim = (struct sim){.clock = {.wall_ms = sim_wall_ms, .mono_ms = sim_mono_ms},
                        .wall_ms = WALL_START_MS,
                        .wall_max_ms = WALL_START_MS,
                        .mono_ms = 1000,
                        .dice = daruma_dice_seed(seed),
                        .seed = seed,
                        .has_outages = seed % 4 == 0,
                        .settings = {{.name = SPAN(SIM_QUEUE), .concurrency = 8},
                                     {.name = SPAN(SIM_PULLED), .concurrency = 8, .lease_ms = 6000},
                                     {.name = SPAN(ENGINE_CALLBACK_QUEUE), .concurrency = 8}}};
    policy.rules[DARUMA_CLASS_TRANSIENT] =
        (struct daruma_rule_options){.given = true, .backoff = {.base_ms = 500, .max_ms = 4000}};
    for (size_t i = 0; i < sizeof sim->settings / sizeof *sim->settings; i++) {
        (void)daruma_policy_create(&policy, &sim->settings[i].policy, NULL); /* it is a good one */
    }
    sim_gateway_set_up(sim, &sim->settings[0].policy);
    sim_target_set_up(sim);
    if (sim->has_outages) {
        sim->settings[0].outage_after = 3;
        sim->settings[0].outage_try_ms = 1000;
    }
    sim->store = sim_store_open(sim);
    if (sim->store != NULL) {
        start(sim);
    }
}

static void tear_down(struct sim *sim)
{
    note_seen(sim);
    drop_reads(sim);
    drop_operations(sim);
    engine_free(sim->engine);
    committer_free(sim->committer);
    store_close(sim->store);
}

bool sim_run(struct sim *sim, uint64_t seed, uint32_t steps)
{
    set_up(sim, seed);
    if (sim->failure[0] != '\0') {
        return false;
    }
    for (uint32_t i = 0; i < steps && sim->failure[0] == '\0'; i++) {
        step(sim);
    }
    if (sim->failure[0] == '\0') {
        sim_check_ends(sim);
        calm_down(sim);
    }
    tear_down(sim);
    return sim->failure[0] == '\0';
}
