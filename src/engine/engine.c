/* SPDX-License-Identifier: MIT
 *
 * engine -- what its flows share: counts and schedules, replies, time.
 */
#include "engine/hold_internal.h"
#include "engine/kept_internal.h"
#include "engine/lists_internal.h"
#include "engine/reach_internal.h"

#include <stdlib.h>

int64_t engine_now_ms(const struct engine *engine)
{
    const struct clock *clock = engine->options.clock;

    return engine->nodes.has_clock ? clock_mono_ms(clock) + engine->nodes.ahead_ms
                                   : clock_wall_ms(clock);
}

struct engine *engine_new(const struct engine_options *options, struct error *err)
{
    struct engine *engine = calloc(1, sizeof *engine);

    if (engine == NULL) {
        (void)fail(err, FAULT_MEMORY, "no memory for the engine"); /* NULL says it */
        return NULL;
    }
    engine->options = *options;
    engine->cache = cache_new(options->replay_bytes); /* NULL: it does without */
    engine->waiter_next_ms = INT64_MAX;
    places_open(engine);
    hosts_open(engine);
    return engine;
}

void engine_free(struct engine *engine)
{
    if (engine == NULL) {
        return;
    }
    sums_flush(engine);
    while (engine->attempts != NULL) {
        attempt_free(engine, engine->attempts);
    }
    for (size_t i = 0; i < WAITER_BUCKETS; i++) {
        while (engine->waiters[i] != NULL) {
            struct waiter *next = engine->waiters[i]->next;
            free(engine->waiters[i]);
            engine->waiters[i] = next;
        }
    }
    probe_free_all(engine);
    cache_free(engine->cache);
    forget_free_all(engine);
    pass_free_all(engine);
    manage_free(engine);
    walk_free_all(engine);
    leftovers_free(engine);
    gone_free(engine);
    redrive_free_all(engine);
    redrive_peers_free_all(engine);
    leases_free_all(engine);
    hosts_free_all(engine);
    queues_free_all(engine);
    free(engine);
}

int engine_open(struct engine *engine, struct store *store, struct error *err)
{
    int failed = queues_open(engine, store, err);

    return failed != 0 ? failed : recover_open(engine, store, err);
}

int engine_policy(const struct engine *engine, const struct queue *queue, const struct task *task,
                  struct arena *arena, struct daruma_policy *ret_policy)
{
    struct task_options options;

    options_read(task->options, &options);
    if (options.retry.len > 0) {
        return engine->options.parse_policy(engine->options.parse_user, options.retry, arena,
                                            ret_policy, NULL);
    }
    if (queue == NULL) {
        return FAULT_INPUT;
    }
    *ret_policy = queue->settings.policy;
    return 0;
}

/* --- counts and schedules -------------------------------------------------------------------------- */

/* Among nodes others move them too: what is here is what was last read and what this node has done
 * since, and may have been counted already. It never falls below nothing. */
static void count_by(uint64_t *count, int by)
{
    *count = by < 0 && *count == 0 ? 0 : *count + (uint64_t)(int64_t)by;
}

static void count_add(struct engine *engine, struct queue *queue, enum task_state state, int by)
{
    count_by(&queue->counts[state], by);
    if (state == TASK_WAITING) {
        count_by(&engine->waiting_count, by);
    }
}

void engine_count_in(struct engine *engine, struct queue *queue, const struct life *life)
{
    count_add(engine, queue, life->state, 1);
    if (life->state == TASK_DEAD) {
        ages_add(&queue->letters, life->failed_at_ms, 1);
    }
    bool is_only = queue->counts[TASK_WAITING] == 1;
    if (life->state == TASK_WAITING && (is_only || life->due_at_ms < queue->waiting_due_ms)) {
        queue->waiting_due_ms = life->due_at_ms;
    }
}

void engine_count_out(struct engine *engine, struct queue *queue, const struct life *life)
{
    count_add(engine, queue, life->state, -1);
    if (life->state == TASK_DEAD) {
        ages_remove(&queue->letters, life->failed_at_ms);
    }
}

/* When it failed stays in the life until it fails again. */
void engine_count_move(struct engine *engine, struct queue *queue, enum task_state from,
                       const struct life *life)
{
    const struct life before = {.state = from, .failed_at_ms = life->failed_at_ms};

    engine_count_out(engine, queue, &before);
    engine_count_in(engine, queue, life);
}

struct schedule *engine_schedule_of(struct queue *queue, uint32_t flags)
{
    if ((flags & LIFE_PULL) != 0) {
        return (flags & LIFE_FORCED) != 0 ? &queue->pull_forced : &queue->pull;
    }
    if ((flags & LIFE_FORCED) != 0) {
        return &queue->forced;
    }
    return (flags & LIFE_LOW) != 0 ? &queue->low : &queue->due;
}

/* Into the schedule, if it waits and is due within the horizon. What does not get
 * in for want of memory is found by a later load. A person may say the same word of a task again and again:
 * it is there once. */
void engine_schedule(struct engine *engine, struct queue *queue, const struct life *life,
                     int64_t row)
{
    bool is_forced = (life->flags & LIFE_FORCED) != 0;

    if (life->state != TASK_WAITING || (!is_forced && life->due_at_ms >= engine->horizon_ms)) {
        return;
    }
    if (nodes_are_many(engine)) {
        nodes_schedule(queue, life);
        return;
    }
    const struct schedule_entry entry = {
        .due_ms = life->due_at_ms, .row = row, .is_once = (life->flags & LIFE_ONCE) != 0};
    struct schedule *schedule = engine_schedule_of(queue, life->flags);
    bool is_added = is_forced ? schedule_add_once(schedule, entry) : schedule_add(schedule, entry);
    if (!is_added) {
        engine->horizon_ms = 0; /* everything is loaded again */
        return;
    }
    engine->stats.scheduled++;
}

/* --- replies, events, time --------------------------------------------------------------------------- */

/* Tasks are told with the queues that they are in. */
static void name_queue(const struct queue *queue, struct queue_view *ret_view)
{
    *ret_view = (struct queue_view){
        .number = queue->number,
        .name = queue->name,
        .settings = hold_is_shut(queue) ? NULL : &queue->settings,
        .attempts_max = queue->settings.policy.attempts_max,
    };
}

/* Does it tell how queues are, by what the node holds in memory? One queue alone also answers those who
 * have changed it, which is known: see ask_queue in manage.c. */
static bool is_of_queues(const struct reply *reply)
{
    switch (reply->kind) {
    case REPLY_UNKNOWN_QUEUE:
    case REPLY_QUEUE_DELETED:
    case REPLY_QUEUES:
    case REPLY_QUEUE_NOT_EMPTY:
    case REPLY_QUEUE_MISSING:
    case REPLY_QUEUE_HELD:
    case REPLY_PUSHED:
        return true;
    case REPLY_LEASES:
        return reply->record_count == 0; /* that nothing waits for a worker */
    default:
        return false;
    }
}

/* What this node knows of queues may be old once its lease is over: peers no longer wait for it to follow.
 * How they are, or that there is no such queue, is not for it to say then. */
static struct reply as_known(const struct engine *engine, const struct reply *reply)
{
    struct reply known = *reply;

    if (is_of_queues(reply) && nodes_lease_is_over(engine)) {
        known.kind = REPLY_FAULT;
        (void)fail_told(&known.error, FAULT_IO, /* the reply carries it */
                        "this node has lost the store, and does not know how its queues are now");
    }
    return known;
}

void engine_reply(struct engine *engine, const struct reply *reply)
{
    struct reply whole = as_known(engine, reply);
    uint32_t number = reply->record_count > 0 ? reply->records[0].task.queue : 0;
    struct queue_view view, *views = NULL;
    bool is_mixed = false;

    for (size_t i = 1; i < reply->record_count; i++) {
        is_mixed |= reply->records[i].task.queue != number;
    }
    if (is_mixed) {
        views = calloc(engine->queue_count, sizeof *views);
    }
    for (size_t i = 0; reply->record_count > 0 && i < engine->queue_count; i++) {
        if (views != NULL) {
            name_queue(engine->queues[i], &views[i]);
        } else if (engine->queues[i]->number == number) {
            name_queue(engine->queues[i], &view);
            whole.queues = &view;
            whole.queue_count = 1;
        }
    }
    if (views != NULL) {
        whole.queues = views;
        whole.queue_count = engine->queue_count;
    }
    engine->options.world.reply(engine->options.world.user, &whole);
    free(views);
}

void engine_reply_fault(struct engine *engine, uint64_t exchange, uint32_t index,
                        const struct error *error)
{
    struct reply reply = {
        .kind = REPLY_FAULT, .exchange = exchange, .index = index, .error = *error};

    engine_reply(engine, &reply);
}

/* A store that fails does so for all at once: a line a second says as much as a thousand. */
void engine_log_fault(struct engine *engine, const char *what, int fault, const struct error *error)
{
    sums_log(engine, &(struct sums_line){
                         .event = "store_fault",
                         .level = DARUMA_LOG_ERROR,
                         .budget = &engine->fault_told,
                         .most = 1,
                         .shared = {daruma_log_text("what", what),
                                    daruma_log_text("code", fault_code(fault)),
                                    daruma_log_text("error", error->text)},
                         .shared_count = 3,
                     });
}

void engine_committed(struct engine *engine, struct op *op)
{
    if (op->fault != 0 &&
        op->fault != FAULT_BUSY) { /* that is a peer's commit, and no fault of the store */
        engine_log_fault(engine, "commit", op->fault, &op->error);
    }
    if (op->ticket == TICKET_ERRAND) {
        struct errand *errand = (struct errand *)op;
        errand->then(engine, errand);
    } else if (op->ticket == TICKET_RECORD) {
        record_committed(engine, (struct attempt *)op);
    } else if (op->kind == OP_LEASE) {
        dispatch_leased(engine, (struct attempt *)op);
    } else {
        settle_committed(engine, (struct attempt *)op);
    }
}

void engine_ask(struct engine *engine, const struct ask *ask)
{
    if (reach_refuse_queue(engine, ask)) {
        return;
    }
    switch (ask->kind) {
    case ASK_TASK:
    case ASK_LETTER:
        inspect_ask(engine, ask);
        break;
    case ASK_LIST:
    case ASK_LETTERS:
    case ASK_UNSETTLED:
    case ASK_KEYS:
        pages_ask(engine, ask);
        break;
    case ASK_REDRIVE:
    case ASK_RESOLVE:
    case ASK_SETTLE:
        letters_ask(engine, ask);
        break;
    case ASK_REDRIVE_MANY:
    case ASK_REDRIVE_STATE:
    case ASK_REDRIVE_CANCEL:
        redrive_ask(engine, ask);
        break;
    case ASK_AUDIT:
        pages_ask_audit(engine, ask);
        break;
    case ASK_LEASE:
    case ASK_LEASE_SETTLE:
        leases_ask(engine, ask);
        break;
    case ASK_POLL:
    case ASK_FORGET:
        replay_ask(engine, ask);
        break;
    default:
        if (!nodes_count_first(engine, ask)) {
            manage_ask(engine, ask);
        }
        break;
    }
}

void engine_leave(struct engine *engine, uint64_t exchange)
{
    if (!lists_leave(engine, exchange) && !leases_leave(engine, exchange) &&
        !stream_leave(engine, exchange)) {
        inspect_leave(engine, exchange);
    }
}

void engine_dismiss(struct engine *engine, uint64_t exchange)
{
    if (!pass_dismiss(engine, exchange)) {
        inspect_dismiss(engine, exchange);
    }
}

void engine_tick(struct engine *engine)
{
    retire_tick(engine);
    settle_tick(engine);
    record_tick(engine);
    places_tick(engine);
    inspect_tick(engine);
    stream_tick(engine);
    forget_tick(engine);
    recover_load_due(engine);
    janitor_tick(engine);
    leftovers_tick(engine);
    deadlines_tick(engine);
    leases_tick(engine);
    redrive_tick(engine);
    redrive_peers_tick(engine);
    walk_tick(engine);
    gone_tick(engine);
    probe_tick(engine);
    stranded_tick(engine);
    dispatch_queues(engine);
    sums_tick(engine);
}

/* The earliest moment at which some queue could begin something. */
static int64_t next_due_ms(const struct engine *engine)
{
    int64_t next_ms = engine->horizon_ms - SLOT_MS; /* when the next hour is to be loaded */

    for (size_t i = 0; i < engine->queue_count; i++) {
        int64_t at_ms = dispatch_next_ms(engine, engine->queues[i]);
        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    int64_t leases_ms = leases_next_ms(engine), redrive_ms = redrive_next_ms(engine);
    int64_t probe_ms = probe_next_ms(engine);
    int64_t deadlines_ms = deadlines_next_ms(engine);
    next_ms = leases_ms < next_ms ? leases_ms : next_ms;
    next_ms = deadlines_ms < next_ms ? deadlines_ms : next_ms;
    next_ms = probe_ms < next_ms ? probe_ms : next_ms;
    return redrive_ms < next_ms ? redrive_ms : next_ms;
}

int64_t engine_next_tick_ms(const struct engine *engine)
{
    if (engine->has_more_to_do || engine->unsaved != NULL) {
        return 1;
    }
    int64_t wait_ms = next_due_ms(engine) - engine_now_ms(engine);
    int64_t janitor_ms = engine->janitor.next_at_ms - clock_mono_ms(engine->options.clock);
    bool is_janitor = nodes_have_duty(engine) && !engine->is_draining; /* as janitor_tick has it */
    if (is_janitor && engine->janitor.pending == 0 && janitor_ms < wait_ms) {
        wait_ms = janitor_ms;
    }
    int64_t leftovers_ms = leftovers_next_ms(engine);
    if (leftovers_ms != INT64_MAX) {
        int64_t left_ms = leftovers_ms - clock_mono_ms(engine->options.clock);
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    if (engine->waiter_count > 0 && engine->waiter_next_ms != INT64_MAX) {
        int64_t left_ms = engine->waiter_next_ms - clock_mono_ms(engine->options.clock);
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    int64_t unread_ms = stream_next_ms(engine);
    if (unread_ms != INT64_MAX) {
        int64_t left_ms = unread_ms - clock_mono_ms(engine->options.clock);
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    int64_t forget_ms = forget_wait_ms(engine);
    wait_ms = forget_ms < wait_ms ? forget_ms : wait_ms;
    int64_t gone_ms = gone_wait_ms(engine);
    wait_ms = gone_ms < wait_ms ? gone_ms : wait_ms;
    int64_t walk_ms = walk_wait_ms(engine);
    wait_ms = walk_ms < wait_ms ? walk_ms : wait_ms;
    int64_t stop_ms = redrive_peers_wait_ms(engine);
    wait_ms = stop_ms < wait_ms ? stop_ms : wait_ms;
    int64_t grow_ms = places_grow_wait_ms(engine);
    wait_ms = grow_ms < wait_ms ? grow_ms : wait_ms;
    int64_t stranded_ms = stranded_wait_ms(engine);
    wait_ms = stranded_ms < wait_ms ? stranded_ms : wait_ms;
    int64_t busy_ms = record_wait_ms(engine);
    wait_ms = busy_ms < wait_ms ? busy_ms : wait_ms;
    int64_t sums_ms = sums_wait_ms(engine);
    wait_ms = sums_ms < wait_ms ? sums_ms : wait_ms;
    return wait_ms > 0 ? wait_ms : 0;
}

void engine_drain(struct engine *engine)
{
    engine->is_draining = true;
    give_back_all(engine);
    inspect_drain(engine);
}

bool engine_is_drained(const struct engine *engine)
{
    return engine->is_draining && engine->attempts == NULL;
}

void engine_stats(const struct engine *engine, struct engine_stats *ret_stats)
{
    *ret_stats = engine->stats;
    ret_stats->route_waiters = engine->route_waiter_count;
    ret_stats->attempts_now = engine->places.now;
    ret_stats->nodes = nodes_are_many(engine) ? engine->nodes.count : 1;
    ret_stats->has_duty = nodes_have_duty(engine);
    ret_stats->store_bytes =
        engine->store != NULL ? __atomic_load_n(&engine->store->bytes, __ATOMIC_RELAXED) : 0;
}
