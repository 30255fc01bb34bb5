/* SPDX-License-Identifier: MIT
 *
 * nodes -- one of several processes on one store. Nothing here is special to a store: it is what the
 * engine does differently when others work on the same tasks (store->nodes is there).
 *
 *   what is due     the schedules hold moments, not rows: a lease asks for whatever is due in its
 *                   queue, and the store gives each task to one node
 *   limits          are shared out among the nodes that are there; who joins gets a share once all
 *                   have seen it, so that the sum never exceeds the limit
 *   time            is the server's, carried on by the monotonic clock
 *   the lease       runs from the last beat that the store took: what has not gone out when it is
 *                   over does not go out, nor what was leased before this node was taken for dead
 *                   and joined anew (the last gate asks, see delivery.right)
 *   a dead node     what it was running is recovered by the one that has the duty
 *   counts          are read again, for others change them
 *   queues          that others have changed come with a beat, and this node says when it has followed:
 *                   nodes_follow.c
 */
#include "engine/kept_internal.h"
#include "engine/lists_internal.h"
#include "engine/reach_internal.h"
#include "base/plant.h"

#include <stdlib.h>

#define LEASE_SHARE    8      /* tenths of the lease that are used: clocks may run apart */
#define HINTS_MAX      100000 /* moments that are remembered for a queue; more are found by beats */
#define HINTS_ENOUGH   2048   /* that are due: until the next beat no more are needed */
#define COUNT_REST     20     /* times as long as counting took until it is done again, */
#define COUNT_QUICK_MS 100    /* unless it took no longer than this, */
#define COUNT_REST_MAX 60000 /* but not longer: a process that stood still meanwhile took no time */
#define COUNT_EVERY_MS 1000
#define CLOCK_WEAR_MS  1
#define CLOCK_STEP_MS  1000 /* a difference of more is a clock that was set */
#define OPEN_ARENA_MAX (64u << 20)
#define AWAITS_MS      30000 /* after the last caller who waited: the next one comes soon, perhaps */

bool nodes_are_many(const struct engine *engine)
{
    return engine->store != NULL && engine->store->nodes != NULL;
}

/* --- shares ------------------------------------------------------------------------------------------ */

/* How many nodes send what a queue has: the first ones, and no more than there are places, in all and
 * at one host. The others leave its tasks to them and have no share of anything. */
static uint32_t senders_of(const struct engine *engine, const struct queue_settings *settings)
{
    uint32_t count = engine->nodes.count;
    uint32_t host = settings->host_concurrency;

    count = settings->concurrency < count ? settings->concurrency : count;
    return host > 0 && host < count && !PLANT_HERE(HOST_UNSHARED) ? host : count;
}

/* Of a number that is shared out among them: the first ones get what is left over. No share grows when a
 * node joins and none shrinks when one is gone, so nodes that do not know yet do no harm. */
static uint32_t share_of(const struct engine *engine, uint32_t whole, uint32_t senders)
{
    uint32_t place = engine->nodes.place;

    if (!engine->nodes.has_settled_in || place >= senders) {
        return 0;
    }
    return whole / senders + (place < whole % senders);
}

void nodes_share(const struct engine *engine, struct queue *queue)
{
    const struct queue_settings *settings = &queue->settings;
    uint32_t senders = senders_of(engine, settings);

    queue->concurrency = settings->concurrency;
    queue->host_concurrency = settings->host_concurrency;
    queue->rate = settings->rate_per_second;
    queue->rate_burst = settings->rate_burst;
    if (!nodes_are_many(engine)) {
        return;
    }
    queue->concurrency = share_of(engine, settings->concurrency, senders);
    if (!PLANT_HERE(HOST_UNSHARED)) {
        queue->host_concurrency = share_of(engine, settings->host_concurrency, senders);
    }
    if (senders > 0) {
        queue->rate /= senders;
        queue->rate_burst /= senders;
    }
}

/* --- what is due ------------------------------------------------------------------------------------- */

/* One for each kind of work. */
static unsigned bit_of(uint32_t flags)
{
    unsigned kind = ((flags & LIFE_FORCED) != 0 ? 1u : 0) | ((flags & LIFE_LOW) != 0 ? 2u : 0) |
                    ((flags & LIFE_PULL) != 0 ? 4u : 0);

    return 1u << kind;
}

/* An entry of the schedule that stands for no task in particular. */
static bool add_moment(struct schedule *schedule, int64_t due_ms, bool is_once)
{
    return schedule->count < HINTS_MAX &&
           schedule_add(schedule, (struct schedule_entry){.due_ms = due_ms, .is_once = is_once});
}

/* Something will be due: remembered as a moment. Beats find what is not. */
void nodes_schedule(struct queue *queue, const struct life *life)
{
    (void)add_moment(engine_schedule_of(queue, life->flags), life->due_at_ms,
                     (life->flags & LIFE_ONCE) != 0);
}

/* A lease of whatever is due. */
void nodes_ask(const struct queue *queue, uint32_t flags, struct op *op)
{
    op->task.id = (struct task_id){0};
    op->task.queue = queue->number;
    op->life.flags = flags;
}

/* It was answered. As long as there is more than was counted, one more is asked for each that was
 * got; nothing to be had means that the rest was counted wrong. */
void nodes_answered(const struct engine *engine, struct queue *queue, uint32_t flags, bool is_got)
{
    unsigned bit = bit_of(flags);

    if (!is_got) {
        queue->backlog &= ~bit;
    } else if ((queue->backlog & bit) != 0) {
        (void)add_moment(engine_schedule_of(queue, flags), engine_now_ms(engine),
                         queue->settings.target_count > 0 &&
                             !queue->settings.targets[0].repeatable);
    }
}

static void take_hint(const struct engine *engine, const struct beat_hint *hint)
{
    struct queue *queue = engine_queue_at(engine, hint->queue);
    unsigned bit = bit_of(hint->flags);
    struct schedule_entry first;

    PLANT(HINT_LOST, return )
    if (queue == NULL) {
        return;
    }
    struct schedule *schedule = engine_schedule_of(queue, hint->flags);
    bool is_once = queue->settings.target_count > 0 && !queue->settings.targets[0].repeatable;
    int64_t now_ms = engine_now_ms(engine);
    size_t known = schedule_due_count(schedule, now_ms, HINTS_ENOUGH);
    bool is_enough = known == HINTS_ENOUGH; /* each moment too many is a lease of nothing */
    for (; known < hint->due_count; known++) {
        (void)add_moment(schedule, now_ms, is_once); /* no room: there are enough */
    }
    if (hint->due_count == STORE_BEAT_DUE_MAX && !is_enough) {
        queue->backlog |= bit;
    }
    if (hint->next_ms != INT64_MAX &&
        (!schedule_first(schedule, &first) || first.due_ms > hint->next_ms)) {
        (void)add_moment(schedule, hint->next_ms, is_once);
    }
}

/* --- what a dead node was running ------------------------------------------------------------------------ */

/* One of them has been dealt with; the last one tells. */
static void orphan_done(struct engine *engine)
{
    if (--engine->nodes.orphan_count > 0 ||
        engine->nodes.orphans_waiting + engine->nodes.orphans_unsettled == 0) {
        return;
    }
    DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "recovered",
               daruma_log_uint("waiting", engine->nodes.orphans_waiting),
               daruma_log_uint("unsettled", engine->nodes.orphans_unsettled));
    engine->nodes.orphans_waiting = engine->nodes.orphans_unsettled = 0;
}

static void orphan_taken(struct engine *engine, struct errand *errand)
{
    struct queue *queue = engine_queue_at(engine, errand->op.task.queue);

    if (errand->op.fault == 0 && errand->op.result == RESULT_DONE) {
        bool is_unsettled = errand->op.life.state == TASK_UNSETTLED;
        bool is_waiting = errand->op.life.state == TASK_WAITING;
        engine->stats.recovered_unsettled += is_unsettled;
        engine->stats.recovered_waiting += is_waiting;
        engine->nodes.orphans_unsettled += is_unsettled;
        engine->nodes.orphans_waiting += is_waiting;
        if (queue != NULL) {
            settle_log(engine, queue, errand->op.task.id, &errand->op.life,
                       &(struct settle_cause){.attempts = errand->trail.attempt,
                                              .reason = errand->trail.message});
            numbers_attempt(engine, queue, &errand->op);
            settle_follow(engine, queue, errand->op.task.id, &errand->op);
            dispatch_queue(engine, queue);
        } else {
            leftovers_settled(engine, errand->op.task.queue, errand->op.task.id);
        }
    }
    errand_free(errand);
    orphan_done(engine);
}

/* What was told by a beat may be old: another node may have recovered the task since, and be running
 * it now. */
static bool is_dead_nodes(const struct read *read)
{
    PLANT(ORPHAN_OF_ANYONE, return true)
    return read->records[0].life.epoch == read->epoch;
}

static void orphan_read(struct engine *engine, struct read *read)
{
    struct errand *errand;

    if (read->fault != 0 || read->record_count == 0 ||
        read->records[0].life.state != TASK_RUNNING || !is_dead_nodes(read)) {
        orphan_done(engine); /* the next beat tells what is left */
        return;
    }
    PLANT(ORPHAN_REPEATED, read->records[0].life.flags &= ~(uint32_t)LIFE_ONCE)
    errand = errand_new(engine, OP_SETTLE);
    if (errand != NULL) {
        errand->then = orphan_taken;
        arena_free(errand->arena); /* what was read goes with the operation */
        errand->arena = read->arena;
        read->arena = NULL;
        recover_judge(engine, &errand->op, &errand->trail, &read->records[0], errand->arena);
        errand->op.ticket = TICKET_ERRAND;
        errand->op.is_patient = true;
    }
    if (!errand_start(engine, errand)) {
        orphan_done(engine); /* likewise */
    }
}

static void recover_orphan(struct engine *engine, const struct orphan *orphan)
{
    struct read *read = PLANT_HERE(ORPHAN_LEFT) ? NULL : inspect_new(READ_TASK);

    if (read != NULL) {
        read->id = (struct task_id){.row = orphan->row, .tail = ID_ANY_TAIL};
        read->epoch = orphan->epoch;
        read->then = orphan_read;
        engine->nodes.orphan_count += inspect_start(engine, read); /* else the next beat tells */
    }
}

/* --- counts ---------------------------------------------------------------------------------------------- */

static int set_count(void *user, const struct state_count *count)
{
    struct engine *engine = user;
    struct queue *queue = engine_queue_at(engine, count->queue);

    if (queue != NULL) {
        queue->counts[count->state] = count->count;
        if (count->state == TASK_WAITING) {
            queue->waiting_due_ms = count->oldest_ms;
        } else {
            ages_add(&queue->letters, count->oldest_ms, count->count); /* all at that moment */
        }
    }
    engine->waiting_count += count->state == TASK_WAITING ? count->count : 0;
    return 0;
}

static void set_counts(struct engine *engine, const struct read *read)
{
    engine->waiting_count = 0;
    for (size_t i = 0; i < engine->queue_count; i++) {
        for (int state = 0; state < TASK_STATE_COUNT; state++) {
            engine->queues[i]->counts[state] = 0;
        }
        ages_clear(&engine->queues[i]->letters);
        engine->queues[i]->waiting_due_ms = INT64_MAX;
    }
    for (size_t i = 0; i < read->count_count; i++) {
        (void)set_count(engine, &read->counts[i]); /* stops for nothing */
    }
}

static void counted(struct engine *engine, struct read *read)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    int64_t took_ms = now_ms - read->from_ms;

    engine->nodes.is_counting = false;
    int64_t rest_ms =
        took_ms <= COUNT_REST_MAX / COUNT_REST ? took_ms * COUNT_REST : COUNT_REST_MAX;
    engine->nodes.count_at_ms = took_ms <= COUNT_QUICK_MS ? 0 : now_ms + rest_ms;
    if (read->fault != 0) {
        return;
    }
    set_counts(engine, read);
    leftovers_counted(engine, read->counts, read->count_count);
    for (size_t i = 0; i < engine->queue_count; i++) {
        struct queue *queue = engine->queues[i];
        bool is_empty = queue->counts[TASK_WAITING] == 0 && queue->counts[TASK_RUNNING] == 0;
        if (is_empty && queue->has_worked && queue->route == NULL) {
            sums_log_empty(engine, queue);
        }
        queue->has_worked = queue->has_worked && !is_empty;
    }
}

/* What was not counted is told as it was last known, as long as peers wait for this node. What is refused
 * because of it is not: a deletion. */
static void counted_for(struct engine *engine, struct read *read)
{
    counted(engine, read);
    if (read->fault != 0 && (read->ask->kind == ASK_QUEUE_DELETE || nodes_lease_is_over(engine))) {
        engine_reply_fault(engine, read->ask->exchange, 0, &read->error);
        return;
    }
    manage_ask(engine, read->ask);
}

static struct read *count_new(const struct engine *engine)
{
    struct read *read = inspect_new(READ_COUNTS);

    if (read != NULL) {
        read->from_ms = clock_mono_ms(engine->options.clock);
        read->then = counted;
    }
    return read;
}

/* Whoever asks about a queue is told what is there now, unless that was looked at a moment ago.
 * False: what is known will do. */
bool nodes_count_first(struct engine *engine, const struct ask *ask)
{
    bool is_about =
        ask->kind == ASK_QUEUE || ask->kind == ASK_QUEUES || ask->kind == ASK_QUEUE_DELETE;

    bool is_known = clock_mono_ms(engine->options.clock) < engine->nodes.count_at_ms &&
                    ask->kind != ASK_QUEUE_DELETE;
    if (!nodes_are_many(engine) || !is_about || is_known || nodes_lease_is_over(engine)) {
        return false; /* once it is over, it would be waited for in vain */
    }
    struct read *read = count_new(engine);
    if (read == NULL || !reach_copy_ask(read, ask)) {
        inspect_drop(read);
        return false;
    }
    read->then = counted_for;
    return lists_start(engine, read, ask->who);
}

static void count_again(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);

    if (engine->nodes.is_counting || now_ms < engine->nodes.count_at_ms ||
        now_ms < engine->nodes.counted_ms + COUNT_EVERY_MS) {
        return;
    }
    struct read *read = count_new(engine);
    engine->nodes.counted_ms = now_ms;
    engine->nodes.is_counting = read != NULL && inspect_start(engine, read);
}

/* --- beats ----------------------------------------------------------------------------------------------- */

/* What the server's clock says, as far as is known: its word takes a while to arrive, so this is a
 * little behind and never ahead, and nothing is taken for due too early. The quickest word counts; an
 * older one wears off, for clocks may run apart. */
static void set_clock(struct engine *engine, const struct beat *beat)
{
    int64_t known_ms = engine->nodes.ahead_ms - CLOCK_WEAR_MS;
    int64_t ahead_ms = beat->server_ms - beat->seen_ms;
    bool is_known =
        engine->nodes.has_clock && ahead_ms < known_ms && known_ms - ahead_ms < CLOCK_STEP_MS;

    engine->nodes.ahead_ms = is_known ? known_ms : ahead_ms;
    engine->nodes.has_clock = true;
}

static void take_fresh(struct engine *engine, const struct beat *beat)
{
    int64_t lease_ms = engine->store->node_lease_ms * LEASE_SHARE / 10;

    if (engine->nodes.right.epoch != 0 && engine->nodes.right.epoch != beat->epoch) {
        DARUMA_LOG(engine->options.log, DARUMA_LOG_WARN, "node_rejoined",
                   daruma_log_uint("epoch", beat->epoch));
    }
    if (!PLANT_HERE(EPOCH_NOT_TAKEN)) {
        engine->store->epoch = beat->epoch;
    }
    engine->ids.slot = beat->slot;
    set_clock(engine, beat);
    engine->nodes.right =
        (struct send_right){.epoch = beat->epoch, .until_ms = beat->begun_ms + lease_ms};
    nodes_note_change(engine, beat);
    engine->nodes.count = beat->node_count;
    engine->nodes.place = beat->place;
    engine->nodes.has_settled_in = beat->has_settled_in;
    engine->nodes.live_count = beat->live_count < NODES_MAX ? beat->live_count : NODES_MAX;
    for (size_t i = 0; i < engine->nodes.live_count; i++) {
        engine->nodes.live[i] = beat->live[i];
        engine->nodes.newest =
            beat->live[i] > engine->nodes.newest ? beat->live[i] : engine->nodes.newest;
    }
    for (size_t i = 0; i < engine->queue_count; i++) {
        PLANT(SHARE_KEPT, break)
        nodes_share(engine, engine->queues[i]);
    }
    if (beat->has_duty && !engine->nodes.has_duty) {
        DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "node_has_duty",
                   daruma_log_uint("epoch", beat->epoch));
    }
    if (beat->has_lost_peer) {
        DARUMA_LOG(engine->options.log, DARUMA_LOG_WARN, "node_lost",
                   daruma_log_uint("nodes", beat->node_count));
    }
    if (beat->upkeep_trouble.at != NULL) {
        DARUMA_LOG(engine->options.log, DARUMA_LOG_WARN, "upkeep_failing",
                   daruma_log_bytes("error", beat->upkeep_trouble.at, beat->upkeep_trouble.len));
    }
}

/* Something that peers have to know, or to be asked, before the next beat is due. */
void nodes_nudge(const struct engine *engine)
{
    const struct node_wish wish = {.asked = engine->nodes.asked,
                                   .followed = engine->nodes.followed,
                                   .awaits = engine->nodes.awaits};

    engine->options.world.nudge(engine->options.world.user, &wish);
}

void nodes_await(struct engine *engine)
{
    if (!nodes_are_many(engine)) {
        return;
    }
    engine->nodes.awaits_until_ms = clock_mono_ms(engine->options.clock) + AWAITS_MS;
    if (!engine->nodes.awaits) {
        engine->nodes.awaits = true;
        nodes_nudge(engine);
    }
}

/* A word for each batch costs peers something: not for ever. */
static void stop_awaiting(struct engine *engine)
{
    if (engine->away_count > 0) {
        engine->nodes.awaits_until_ms = clock_mono_ms(engine->options.clock) + AWAITS_MS;
    } else if (engine->nodes.awaits &&
               clock_mono_ms(engine->options.clock) >= engine->nodes.awaits_until_ms) {
        engine->nodes.awaits = false;
        nodes_nudge(engine);
    }
}

/* Those who wait look again when peers say so, and now and then all the same. */
static void hear_moved(struct engine *engine, const struct beat *beat)
{
    for (size_t i = 0; i < beat->moved_count; i++) {
        inspect_moved(engine, beat->moved[i]);
    }
    if (!beat->is_word || beat->has_moved_more) {
        inspect_look_again(engine, beat->is_fresh || beat->has_moved_more);
    }
}

void engine_beat(struct engine *engine, const struct beat *beat)
{
    nodes_follow(engine, beat); /* before there is a right to send in another epoch */
    if (beat->is_fresh) {
        take_fresh(engine, beat);
        count_again(engine);
        redrive_beat(engine);
        stop_awaiting(engine);
    }
    forget_told(engine, beat->told);
    runs_look(engine);
    hear_moved(engine, beat);
    if (beat->is_fresh) {
        nodes_take_over(engine, beat);
    }
    engine->nodes.has_duty = beat->has_duty;
    bool is_recovering = engine->nodes.orphan_count > 0; /* then these are under way */
    for (size_t i = 0; !is_recovering && i < beat->orphan_count; i++) {
        recover_orphan(engine, &beat->orphans[i]);
    }
    for (size_t i = 0; i < beat->overdue_count; i++) {
        PLANT(OVERDUE_LEFT, break)
        leases_note(engine, engine_now_ms(engine), beat->overdue[i]);
    }
    for (size_t i = 0; engine->probes.count < HINTS_MAX && i < beat->unprobed_count; i++) {
        PLANT(UNPROBED_LEFT, break)
        probe_note(engine, &(struct life){.state = TASK_UNSETTLED, .probe_due_ms = 1},
                   beat->unprobed[i]);
    }
    for (size_t i = 0; i < beat->hint_count; i++) {
        take_hint(engine, &beat->hints[i]);
    }
    engine_tick(engine);
}

/* The first look around, before anything runs. */
int nodes_open(struct engine *engine, struct error *err)
{
    struct arena *arena = arena_new(OPEN_ARENA_MAX);
    struct beat beat;

    if (arena == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a look around");
    }
    int failed = store_beat(engine->store, 0, arena, &beat, err);
    if (failed == 0 && beat.is_fresh) {
        nodes_follow_first(engine, &beat);
        take_fresh(engine, &beat);
        engine->nodes.has_duty = beat.has_duty;
        failed = store_counts(engine->store, set_count, engine, err);
    }
    arena_free(arena);
    return failed;
}

/* Peers may take this node for dead from now on: it begins nothing. */
bool nodes_lease_is_over(const struct engine *engine)
{
    return nodes_are_many(engine) &&
           clock_mono_ms(engine->options.clock) >= engine->nodes.right.until_ms;
}

bool nodes_may_number(struct engine *engine, uint64_t exchange)
{
    struct error error = {0};

    if (!nodes_lease_is_over(engine)) {
        return true;
    }
    (void)fail_told(&error, FAULT_IO, /* the reply carries it */
                    "this node has lost the store, and nothing was begun: send it again");
    engine_reply_fault(engine, exchange, 0, &error);
    return false;
}

/* One that was never seen has joined since the last beat. */
bool nodes_has_epoch(const struct engine *engine, uint64_t epoch)
{
    for (size_t i = 0; i < engine->nodes.live_count; i++) {
        if (engine->nodes.live[i] == epoch) {
            return true;
        }
    }
    return epoch > engine->nodes.newest;
}

/* What is to be done once, whatever the number of nodes. */
bool nodes_have_duty(const struct engine *engine)
{
    return !nodes_are_many(engine) || engine->nodes.has_duty;
}

/* No byte of it goes out once the lease is over under which the task was leased. Beats renew it, so a
 * delivery that takes long to connect, or asks one provider after another, is not cut short. */
void nodes_bind(const struct engine *engine, const struct life *life, struct delivery *delivery)
{
    PLANT(BOUND_FORGOTTEN, return )
    if (nodes_are_many(engine)) {
        delivery->right = &engine->nodes.right;
        delivery->right_epoch = life->epoch;
    }
}
