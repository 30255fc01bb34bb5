/* SPDX-License-Identifier: MIT
 *
 * fleet_server -- the simulated server's side of nodes: the table of those that are there, their
 * beats, the duty, and what a beat tells. It does what store_postgres_beat.c and
 * store_postgres_look.c do, with the same watching of peers (store/peers.c). See fleet.h.
 */
#include "fleet.h"

#include <inttypes.h>

#define SLOTS       63
#define OVERDUE_MS  2000 /* a lease that is over is left to the node that knows of it for so long */
#define LANES       7
#define LANE_LEASED 4
#define LANE_PROBED 5

/* --- the node table ---------------------------------------------------------------------------------- */

static struct fleet_row *find_row(struct fleet *fleet, uint64_t epoch)
{
    for (size_t i = 0; i < FLEET_ROWS_MAX; i++) {
        if (fleet->rows[i].epoch == epoch && epoch != 0) {
            return &fleet->rows[i];
        }
    }
    return NULL;
}

bool fleet_epoch_is_live(const struct fleet *fleet, uint64_t epoch)
{
    for (size_t i = 0; i < FLEET_ROWS_MAX; i++) {
        if (fleet->rows[i].epoch == epoch && epoch != 0) {
            return true;
        }
    }
    return false;
}

/* The lowest one that no live node has: perhaps that of a stopped node that was taken for dead. */
static int64_t free_slot(const struct fleet *fleet)
{
    if (!fleet_options.shared_slots) {
        return (int64_t)fleet->epoch_last % SLOTS;
    }
    for (int64_t slot = 0; slot < SLOTS; slot++) {
        bool is_taken = false;
        for (size_t i = 0; i < FLEET_ROWS_MAX; i++) {
            is_taken |= fleet->rows[i].epoch != 0 && fleet->rows[i].slot == slot;
        }
        if (!is_taken) {
            return slot;
        }
    }
    return 0;
}

void fleet_join(struct fleet *fleet, struct fleet_face *face)
{
    struct fleet_row *row = NULL;

    for (size_t i = 0; i < FLEET_ROWS_MAX && row == NULL; i++) {
        row = fleet->rows[i].epoch == 0 ? &fleet->rows[i] : NULL;
    }
    if (row == NULL) {
        fleet_fail(fleet, "the table of nodes is full");
        return;
    }
    int64_t slot = free_slot(fleet);
    *row = (struct fleet_row){.epoch = ++fleet->epoch_last, .slot = slot};
    face->epoch = row->epoch;
    face->slot = slot;
    face->watched = (struct peers){0};
    fleet_trace(fleet, "node %zu joins as %" PRIu64, face->node, row->epoch);
    if (face->epoch_first == 0) {
        face->epoch_first = face->base.epoch = row->epoch;
        face->base.slot = slot;
    }
}

/* The connection of its pulse is over, and with it the duty. */
void fleet_end_session(struct fleet *fleet, struct fleet_face *face)
{
    if (fleet->duty_session == face->session) {
        fleet->duty_session = 0;
    }
    face->session = 0;
    face->has_duty = false;
}

/* A hung node keeps its connection, so the server ends it when peers drop the node (beat >= 0). */
bool fleet_drop_row(struct fleet *fleet, uint64_t epoch, int64_t beat)
{
    struct fleet_row *row = find_row(fleet, epoch);

    if (row == NULL || (beat >= 0 && row->beat != beat)) {
        return false;
    }
    if (beat >= 0 && row->session != 0 && fleet->duty_session == row->session) {
        fleet->duty_session = 0;
        for (size_t i = 0; i < fleet->node_count; i++) {
            struct fleet_face *face = fleet->nodes[i].face;
            if (face != NULL && face->session == row->session) {
                face->session = 0;
            }
        }
    }
    fleet_trace(fleet, "epoch %" PRIu64 " is dropped", epoch);
    *row = (struct fleet_row){0};
    fleet->seen.dropped_nodes += beat >= 0;
    return true;
}

/* As store_postgres_renew.c: two nodes that share a slot for a moment may make the same row. */
void fleet_renew_row(struct fleet *fleet, struct op *op)
{
    const struct version *there =
        op != NULL && op->kind == OP_RECORD ? fleet_version(fleet, op->task.id.row) : NULL;

    if (there != NULL && there->task->task.id.tail != op->task.id.tail) {
        op->task.id.row = id_make(&fleet->ids, fleet_server_ms(fleet)).row;
    }
}

/* --- what a beat tells ------------------------------------------------------------------------------- */

static void note_hint(struct beat_hint *hints, const struct life *life, int64_t now_ms)
{
    static const uint32_t flags[LANES] = {
        [0] = LIFE_FORCED, [2] = LIFE_LOW, [3] = LIFE_PULL, [6] = LIFE_PULL | LIFE_FORCED};
    int lane = fleet_lane(life);

    if (lane < 0 || lane == LANE_LEASED || lane == LANE_PROBED) {
        return;
    }
    struct beat_hint *hint = &hints[lane];
    hint->flags = flags[lane];
    if (life->due_at_ms <= now_ms) {
        hint->due_count += hint->due_count < STORE_BEAT_DUE_MAX;
    } else if (life->due_at_ms < hint->next_ms) {
        hint->next_ms = life->due_at_ms;
    }
}

static void look_hints(const struct fleet *fleet, struct arena *arena, struct beat *ret_beat)
{
    const struct rows *rows = &fleet->inner->rows;
    int64_t now_ms = fleet_server_ms(fleet);

    ret_beat->hints =
        arena_alloc(arena, (rows->queue_count + 1) * LANES * sizeof(struct beat_hint));
    for (size_t at = 0; at < rows->queue_count; at++) {
        const struct queue_row *queue = &rows->queues[at]->row;
        struct beat_hint hints[LANES];
        for (int lane = 0; lane < LANES; lane++) {
            hints[lane] = (struct beat_hint){.queue = queue->number, .next_ms = INT64_MAX};
        }
        for (size_t i = 0; !queue->dropped && i < rows->task_count; i++) {
            const struct version *version = rows->tasks[i];
            if (version->task->task.queue == queue->number) {
                note_hint(hints, &version->life, now_ms);
            }
        }
        for (int lane = 0; lane < LANES; lane++) {
            if (hints[lane].due_count > 0 || hints[lane].next_ms != INT64_MAX) {
                ret_beat->hints[ret_beat->hint_count++] = hints[lane];
            }
        }
    }
}

static bool is_orphan(const struct fleet *fleet, const struct life *life)
{
    return life->state == TASK_RUNNING && (life->flags & LIFE_PULL) == 0 &&
           !fleet_epoch_is_live(fleet, life->epoch);
}

static void look_orphans(const struct fleet *fleet, struct arena *arena, struct beat *ret_beat)
{
    const struct rows *rows = &fleet->inner->rows;
    int64_t now_ms = fleet_server_ms(fleet);
    size_t bytes = (rows->task_count + 1) * sizeof(int64_t);

    ret_beat->orphans = arena_alloc(arena, (rows->task_count + 1) * sizeof *ret_beat->orphans);
    ret_beat->overdue = arena_alloc(arena, bytes);
    ret_beat->unprobed = arena_alloc(arena, bytes);
    for (size_t i = 0; i < rows->task_count; i++) {
        const struct version *version = rows->tasks[i];
        int64_t row = version->task->task.id.row;
        int lane = fleet_lane(&version->life);
        if (is_orphan(fleet, &version->life)) {
            ret_beat->orphans[ret_beat->orphan_count++] =
                (struct orphan){.row = row, .epoch = version->life.epoch};
        } else if (lane == LANE_LEASED && version->life.due_at_ms <= now_ms - OVERDUE_MS) {
            ret_beat->overdue[ret_beat->overdue_count++] = row;
        } else if (lane == LANE_PROBED && version->life.probe_due_ms <= now_ms - OVERDUE_MS) {
            ret_beat->unprobed[ret_beat->unprobed_count++] = row;
        }
    }
}

/* --- beating ----------------------------------------------------------------------------------------- */

static void note_peers(struct fleet *fleet, struct fleet_face *face, struct arena *arena,
                       struct beat *ret_beat)
{
    struct peer seen[PEERS_MAX];
    size_t count = 0;

    ret_beat->live = arena_alloc(arena, FLEET_ROWS_MAX * sizeof *ret_beat->live);
    for (uint64_t epoch = 1; epoch <= fleet->epoch_last; epoch++) { /* in order of epochs */
        const struct fleet_row *row = find_row(fleet, epoch);
        if (row != NULL) {
            seen[count++] = (struct peer){.epoch = epoch, .beat = row->beat};
            ret_beat->live[ret_beat->live_count++] = epoch;
            ret_beat->place += epoch < face->epoch;
        }
    }
    peers_look(&face->watched, seen, count, ret_beat->begun_ms, face->base.node_lease_ms / 2);
    ret_beat->node_count = (uint32_t)count;
    ret_beat->has_settled_in = peers_have_seen_us(&face->watched, face->epoch);
}

static void take_duty(struct fleet *fleet, struct fleet_face *face)
{
    if (fleet->duty_session == 0) {
        fleet->duty_session = face->session;
        face->has_duty = true;
    }
}

static void forget_peer(const struct fleet_face *face, uint64_t epoch, struct beat *ret_beat)
{
    size_t count = 0;

    for (size_t i = 0; i < ret_beat->live_count; i++) {
        if (ret_beat->live[i] != epoch) {
            ret_beat->live[count++] = ret_beat->live[i];
        }
    }
    ret_beat->live_count = count;
    ret_beat->node_count--;
    ret_beat->place -= epoch < face->epoch;
}

static void bury_dead(struct fleet *fleet, struct fleet_face *face, struct beat *ret_beat)
{
    const struct peer *dead =
        peers_dead(&face->watched, face->epoch, ret_beat->begun_ms, face->base.node_lease_ms);

    if (dead != NULL && fleet_drop_row(fleet, dead->epoch, dead->beat)) {
        ret_beat->has_lost_peer = true;
        forget_peer(face, dead->epoch, ret_beat);
    }
}

static int64_t beat_every_ms(const struct fleet_face *face)
{
    int64_t tenth_ms = face->base.node_lease_ms / 10;

    return tenth_ms < STORE_BEAT_MS ? tenth_ms : STORE_BEAT_MS;
}

/* --- what was forgotten ------------------------------------------------------------------------------ */

static void note_forgotten(struct fleet *fleet, const struct op *op)
{
    bool is_kept = (op->life.state == TASK_SUCCEEDED || op->life.state == TASK_FAILED) &&
                   op->life.keep_until_ms > fleet_server_ms(fleet);
    bool is_purge = op->kind == OP_PURGE && is_kept;
    bool is_drop = op->kind == OP_QUEUE && op->queue.dropped;

    fleet->forgotten += op->result == RESULT_DONE && (is_purge || is_drop);
}

/* Words are lost, now and then. */
static void note_moved(struct fleet *fleet, size_t node, int64_t row)
{
    for (size_t i = 0; i < fleet->node_count; i++) {
        struct fleet_face *face = fleet->nodes[i].face;
        const struct fleet_row *there = face == NULL ? NULL : find_row(fleet, face->epoch);
        if (i == node || there == NULL || !there->awaits || fleet_roll(fleet, 3) == 0) {
            continue;
        }
        fleet->seen.words++;
        if (face->moved_count < FLEET_MOVED_MAX) {
            face->moved[face->moved_count++] = row;
        } else {
            face->has_moved_more = true;
        }
    }
}

void fleet_note_commit(struct fleet *fleet, size_t node, const struct op *op)
{
    bool is_end = op->kind == OP_SETTLE || op->kind == OP_EXPIRE || op->kind == OP_CANCEL ||
                  op->kind == OP_PURGE;

    note_forgotten(fleet, op);
    if (op->result == RESULT_DONE && is_end) {
        note_moved(fleet, node, op->task.id.row);
    }
}

static void tell_moved(struct fleet_face *face, struct arena *arena, struct beat *ret_beat)
{
    ret_beat->moved = arena_alloc(arena, sizeof face->moved);
    for (size_t i = 0; i < face->moved_count; i++) {
        ret_beat->moved[ret_beat->moved_count++] = face->moved[i];
    }
    ret_beat->has_moved_more = face->has_moved_more;
    face->moved_count = 0;
    face->has_moved_more = false;
}

void fleet_nudge(void *user, const struct node_wish *wish)
{
    struct fleet_face *face = ((struct fleet_node *)user)->face;

    face->asked = wish->asked;
    face->followed = wish->followed;
    face->awaits = wish->awaits;
    face->is_nudged = true;
}

static bool all_know(const struct fleet *fleet, const struct fleet_face *face)
{
    for (size_t i = 0; i < FLEET_ROWS_MAX; i++) {
        const struct fleet_row *row = &fleet->rows[i];
        if (row->epoch != 0 && row->epoch != face->epoch &&
            (row->forgotten < face->wanted || row->queues < face->queues_wanted)) {
            return false;
        }
    }
    return true;
}

/* What its engine has followed, of what was read by this session. */
static uint64_t queues_known(struct fleet_face *face)
{
    if (face->queues_session != face->session) {
        face->queues_known = 0;
    } else if (face->followed == face->queues_serial) {
        face->queues_known = face->queues_version;
    }
    return face->queues_known;
}

/* The queues go with the beat: one set at a time, and again with one that is fresh. */
static void hand_queues(struct fleet *fleet, struct fleet_face *face, struct arena *arena,
                        struct beat *ret_beat)
{
    const struct rows *rows = &fleet->inner->rows;
    bool is_other =
        face->queues_seen != face->queues_version || face->queues_session != face->session;
    bool is_followed = face->followed == face->queues_serial;

    if (!(is_other && is_followed) && !(ret_beat->is_fresh && (is_other || !is_followed))) {
        return;
    }
    ret_beat->queues = arena_alloc(arena, (rows->queue_count + 1) * sizeof *ret_beat->queues);
    for (size_t i = 0; i < rows->queue_count; i++) {
        struct queue_row row = rows->queues[i]->row;
        row.name = arena_copy(arena, row.name);
        row.settings = arena_copy(arena, row.settings);
        ret_beat->queues[ret_beat->queue_count++] = row;
    }
    ret_beat->queues_version = fleet->queues_version;
    if (face->queues_version != fleet->queues_version || face->queues_session != face->session) {
        face->queues_serial++;
        face->queues_version = fleet->queues_version;
        face->queues_session = face->session;
    }
    ret_beat->queues_serial = face->queues_serial;
}

/* Published first: peers see it from here on. */
static void know(struct fleet *fleet, struct fleet_face *face)
{
    struct fleet_row *row = find_row(fleet, face->epoch);

    if (face->known != fleet->forgotten || face->known_session != face->session) {
        face->known = fleet->forgotten;
        face->known_session = face->session;
        face->base.forgotten++;
    }
    face->queues_seen = fleet->queues_version;
    if (face->asking == 0 && face->asked > face->told) {
        face->asking = face->asked;
        face->wanted = face->known;
        face->queues_wanted = face->queues_seen;
    }
    if (face->asking != 0 && all_know(fleet, face)) {
        face->told = face->asking;
        face->asking = 0;
    }
    if (row != NULL) {
        row->forgotten = face->known;
        row->queues = queues_known(face);
        row->awaits = face->awaits;
    }
    face->is_nudged = false;
}

/* --- beats ------------------------------------------------------------------------------------------- */

/* Its own row is gone when peers took it for dead: then it joins anew, and beats in that name. */
static void raise_beat(struct fleet *fleet, struct fleet_face *face, struct arena *arena,
                       struct beat *ret_beat)
{
    struct fleet_row *row = find_row(fleet, face->epoch);

    ret_beat->begun_ms = ret_beat->seen_ms = fleet->mono_ms;
    face->beaten_at_ms = 0;
    if (row == NULL) {
        fleet_join(fleet, face);
        return;
    }
    row->beat++;
    row->session = face->session;
    ret_beat->is_fresh = true;
    ret_beat->server_ms = fleet_server_ms(fleet);
    if (!face->has_duty) {
        take_duty(fleet, face);
    }
    know(fleet, face);
    note_peers(fleet, face, arena, ret_beat);
    bury_dead(fleet, face, ret_beat);
    face->beaten_at_ms = ret_beat->begun_ms;
}

static int face_beat(struct store *store, int64_t wait_ms, struct arena *arena,
                     struct beat *ret_beat, struct error *err)
{
    struct fleet_face *face = (struct fleet_face *)store;
    struct fleet *fleet = face->fleet;
    struct beat beat = {0};
    bool has_heard = fleet_roll(fleet, 4) == 0; /* a peer's word that something is due */

    (void)wait_ms;
    if (!fleet_is_up(fleet, face->node)) {
        face->beaten_at_ms = 0;
        return fail(err, FAULT_IO, "simulated: no connection");
    }
    if (face->session == 0) {
        face->session = ++fleet->session_last;
        face->has_duty = false;
    }
    if (face->beaten_at_ms == 0 || fleet->mono_ms - face->beaten_at_ms >= beat_every_ms(face)) {
        raise_beat(fleet, face, arena, &beat);
    } else if (face->is_nudged || has_heard) {
        know(fleet, face);
    }
    beat.has_duty = face->has_duty;
    if (beat.is_fresh && face->has_duty) {
        look_orphans(fleet, arena, &beat);
    }
    if (beat.is_fresh || has_heard) {
        look_hints(fleet, arena, &beat);
    }
    hand_queues(fleet, face, arena, &beat);
    tell_moved(face, arena, &beat);
    beat.is_word = !beat.is_fresh && beat.moved_count > 0;
    beat.told = face->told;
    beat.epoch = face->epoch;
    beat.slot = face->slot;
    *ret_beat = beat;
    return 0;
}

static void count_one(struct state_count counts[TASK_STATE_COUNT], const struct life *life,
                      int64_t now_ms)
{
    struct state_count *count = &counts[life->state];

    count->count++;
    count->due_count += life->state == TASK_WAITING && life->due_at_ms <= now_ms;
    int64_t at_ms = life->state == TASK_DEAD      ? life->failed_at_ms
                    : life->state == TASK_WAITING ? life->due_at_ms
                                                  : 0;
    if (count->oldest_ms == 0 || at_ms < count->oldest_ms) {
        count->oldest_ms = at_ms;
    }
}

static int face_counts(struct store *store, store_count_fn visit, void *user, struct error *err)
{
    const struct fleet_face *face = (const struct fleet_face *)store;
    const struct rows *rows = &face->fleet->inner->rows;
    int failed = 0;

    if (!fleet_is_up(face->fleet, face->node)) {
        return fail(err, FAULT_IO, "simulated: no connection");
    }
    for (size_t at = 0; at < rows->queue_count; at++) {
        struct state_count counts[TASK_STATE_COUNT] = {0};
        for (size_t i = 0; i < rows->task_count; i++) {
            if (rows->tasks[i]->task->task.queue == at + 1) {
                count_one(counts, &rows->tasks[i]->life, fleet_server_ms(face->fleet));
            }
        }
        for (int state = 0; state < TASK_STATE_COUNT && failed == 0; state++) {
            counts[state].queue = (uint32_t)at + 1;
            counts[state].state = (enum task_state)state;
            failed = counts[state].count == 0 ? 0 : visit(user, &counts[state]);
        }
    }
    return failed;
}

static int face_fates(struct store *store, const struct fate_question *question,
                      store_fate_fn visit, void *user, struct error *err)
{
    const struct fleet_face *face = (const struct fleet_face *)store;
    const struct rows *rows = &face->fleet->inner->rows;
    int failed = 0;

    if (!fleet_is_up(face->fleet, face->node)) {
        return fail(err, FAULT_IO, "simulated: no connection");
    }
    for (size_t at = 0; at < question->count && failed == 0; at++) {
        for (size_t i = 0; i < rows->task_count && failed == 0; i++) {
            const struct life *life = &rows->tasks[i]->life;
            if (rows->tasks[i]->task->task.id.row == question->rows[at]) {
                failed = visit(user, at,
                               &(struct fate){.is_found = true,
                                              .state = life->state,
                                              .attempts = life->attempts,
                                              .round = life->round});
            }
        }
    }
    return failed;
}

const struct store_nodes fleet_nodes_ops = {
    .beat = face_beat, .counts = face_counts, .fates = face_fates}; /* nudged by fleet_nudge */

void fleet_suspend(struct fleet_node *node)
{
    static const int64_t lengths_ms[] = {300, 2500, 8000, 20000};

    node->fleet->seen.stops++;
    node->stopped_until_ms = node->fleet->mono_ms + lengths_ms[fleet_roll(node->fleet, 4)];
    fleet_trace(node->fleet, "node %zu stops until %" PRId64, node->index, node->stopped_until_ms);
}

void fleet_cut_off(struct fleet_node *node)
{
    static const int64_t lengths_ms[] = {1, 1500, 6000, 15000};
    struct fleet *fleet = node->fleet;
    int64_t until_ms = fleet->mono_ms + lengths_ms[fleet_roll(fleet, 4)];

    fleet->seen.outages++;
    fleet_trace(fleet, "node %zu is cut off until %" PRId64, node->index, until_ms);
    if (fleet_roll(fleet, 3) != 0) {
        node->down_until_ms = until_ms;
        fleet_end_session(fleet, node->face);
        return;
    }
    fleet->server_down_until_ms = until_ms;
    for (size_t i = 0; i < fleet->node_count; i++) {
        if (fleet->nodes[i].face != NULL) {
            fleet_end_session(fleet, fleet->nodes[i].face);
        }
    }
}
