/* SPDX-License-Identifier: MIT
 *
 * leases -- tasks for workers that pull. A lease is the task, its fence and the epoch; it is over
 * by time. The store decides everything: a worker that comes too late is told `stale` and changes
 * nothing (I2). What is in memory is only when to look: the leases' ends, and who waits for work.
 *
 *   ask --> something due? --> LEASE each --> all committed --> reply with what was got
 *            '-- no: in line until something is due, or empty-handed when the time is over
 *   what the worker says, and the end of a lease --> lease_words.c
 */
#include "engine/hold_internal.h"

#include <stdlib.h>

#define MISSES_MAX  1000 /* tasks in vain before an ask that does not wait is answered empty, */
#define MISSING_MS  1000 /* or so long */
#define NONE_FORCED 1u   /* among nodes: no task that a person wants run, */
#define NONE_DUE    2u   /* none that is due */

/* One ask that is being answered: LEASE operations under way. */
struct lease_grant {
    struct lease_waiter asked;
    struct queue *queue;
    struct record *records;
    struct errand **errands; /* own the records' bytes until the reply is out */
    size_t count, pending;
    size_t missed;      /* others were faster, or they were in the schedule twice */
    int64_t begun_ms;   /* monotonic */
    unsigned none;      /* of which kinds the store has nothing */
    bool has_failed;    /* the store did not take one of them */
    int64_t expired_ms; /* leases that were over by then have been ended since it began */
    struct lease_grant *next, **link; /* among those that are not answered yet */
};

static void grant_free(struct lease_grant *grant)
{
    *grant->link = grant->next;
    if (grant->next != NULL) {
        grant->next->link = grant->link;
    }
    for (size_t i = 0; i < grant->count; i++) {
        errand_free(grant->errands[i]);
    }
    free(grant->records);
    free(grant->errands);
    free(grant);
}

static void reply_leases(struct engine *engine, uint64_t exchange, const struct record *records,
                         size_t count)
{
    engine_reply(engine, &(struct reply){.kind = REPLY_LEASES,
                                         .exchange = exchange,
                                         .records = records,
                                         .record_count = count});
}

/* --- granting ------------------------------------------------------------------------------------------ */

/* A worker gets what a person has made of it. */
static void apply_edit(struct task *task, const struct edit *edit)
{
    task->target = (edit->parts & EDIT_TARGET) != 0 ? edit->target : task->target;
    task->headers = (edit->parts & EDIT_HEADERS) != 0 ? edit->headers : task->headers;
    task->body = (edit->parts & EDIT_BODY) != 0 ? edit->body : task->body;
}

static uint32_t kind_of(const struct errand *errand)
{
    return LIFE_PULL | (errand->force ? LIFE_FORCED : 0);
}

/* The store did not take the lease, so the task still waits, and must be found again. */
static void put_back(struct engine *engine, struct queue *queue, const struct errand *errand)
{
    const struct life life = {
        .state = TASK_WAITING, .due_at_ms = errand->op.now_ms, .flags = kind_of(errand)};

    engine_schedule(engine, queue, &life, errand->op.task.id.row);
}

static void keep_lease(struct lease_grant *grant, struct errand *errand)
{
    const struct op *op = &errand->op;
    struct record *record = &grant->records[grant->count];

    *record = (struct record){.task = op->task, .life = op->life};
    apply_edit(&record->task, &op->edited);
    record->life.flags |= errand->force ? LIFE_FORCED : 0; /* should it have to be given back */
    grant->errands[grant->count++] = errand;
}

/* People have stopped the queue while the store was at it: what a worker is not to get any more. */
static bool is_stopped(const struct queue *queue, const struct record *record)
{
    return queue->dropped || (queue->paused && (record->life.flags & LIFE_FORCED) == 0);
}

/* The store may have been slow. No worker is told a lease that is over by now, also if the clock was
 * set back after it was found to be over; what is past its deadline no worker may begin (I6). How many
 * are left, at the front. */
static size_t drop_late(struct engine *engine, struct lease_grant *grant)
{
    int64_t now_ms = engine_now_ms(engine);
    int64_t over_ms = grant->expired_ms > now_ms ? grant->expired_ms : now_ms;
    size_t left = 0;

    for (size_t i = 0; i < grant->count; i++) {
        const struct record *record = &grant->records[i];
        if (judge_is_expired(&record->life, now_ms)) {
            lease_bury(engine, &grant->errands[i]->op);
        } else if (is_stopped(grant->queue, record)) {
            lease_return(engine, &grant->errands[i]->op);
        } else if (record->life.due_at_ms > over_ms) {
            grant->records[left++] = *record;
        }
    }
    return left;
}

/* Others were faster with all of it, and the worker has said that it waits: it goes on doing so, first
 * in line. When the store fails it is told so by an empty list, and asks again at its own pace. */
static bool wait_on(struct engine *engine, const struct lease_grant *grant)
{
    struct lease_waiter *waiter;

    if (grant->has_failed || engine->is_draining || grant->queue->dropped ||
        grant->asked.until_ms <= clock_mono_ms(engine->options.clock)) {
        return false;
    }
    waiter = malloc(sizeof *waiter);
    if (waiter == NULL) {
        return false;
    }
    *waiter = grant->asked;
    waiter->next = grant->queue->lease_waiters;
    grant->queue->lease_waiters = waiter;
    return true;
}

static void one_leased(struct engine *engine, struct errand *errand);

/* Its end is noted before it begins: for want of memory there may be no lease, but none that nobody
 * looks after. */
static bool start_lease(struct engine *engine, struct lease_grant *grant,
                        const struct schedule *from, int64_t lease_ms)
{
    struct schedule_entry first = {0};
    (void)schedule_first(from, &first); /* due_from has looked */
    bool is_noted = leases_note(engine, engine_now_ms(engine) + lease_ms, first.row);
    struct errand *errand = is_noted ? errand_new(engine, OP_LEASE) : NULL;

    if (errand != NULL) {
        errand->op.task.id = (struct task_id){.row = first.row, .tail = ID_ANY_TAIL};
        errand->force = from == &grant->queue->pull_forced;
        errand->op.life.flags = errand->force ? LIFE_FORCED : 0; /* it may be there twice */
        errand->op.epoch = engine->store->epoch;
        errand->op.lease_until_ms = errand->op.now_ms + lease_ms;
        errand->op.lease_ms = lease_ms;
        errand->op.wants_request = true;
        if (nodes_are_many(engine)) {
            nodes_ask(grant->queue, kind_of(errand), &errand->op);
        }
        errand->grant = grant;
        errand->then = one_leased;
    }
    return errand_start(engine, errand);
}

/* Where the next one is: what a person wants run goes first, paused or not. NULL: nothing is due, but for
 * kinds of which there is none. */
static struct schedule *due_from(const struct engine *engine, struct queue *queue, unsigned none)
{
    struct schedule_entry first;

    if (queue->dropped || engine->is_draining) {
        return NULL;
    }
    if ((none & NONE_FORCED) == 0 && schedule_first(&queue->pull_forced, &first)) {
        return &queue->pull_forced;
    }
    bool is_due = (none & NONE_DUE) == 0 && schedule_first(&queue->pull, &first) &&
                  first.due_ms <= engine_now_ms(engine);
    return is_due && !queue->paused ? &queue->pull : NULL;
}

/* As many as are wanted and due. False: none, or there is no memory for it. */
static bool pick(struct engine *engine, struct lease_grant *grant)
{
    struct schedule *from = due_from(engine, grant->queue, grant->none);

    while (grant->pending < grant->asked.max && from != NULL &&
           start_lease(engine, grant, from, grant->asked.lease_ms)) {
        schedule_pop(from);
        grant->pending++;
        from = due_from(engine, grant->queue, grant->none);
    }
    return grant->pending > 0;
}

/* All of it was in vain: what the schedule says is a hint. Others may be due behind it. */
static bool pick_again(struct engine *engine, struct lease_grant *grant)
{
    int64_t taken_ms = clock_mono_ms(engine->options.clock) - grant->begun_ms;
    bool is_enough = grant->missed >= MISSES_MAX || taken_ms >= MISSING_MS;

    return grant->count == 0 && !grant->has_failed && !is_enough && !hold_is_shut(grant->queue) &&
           pick(engine, grant);
}

static void grant_end(struct engine *engine, struct lease_grant *grant)
{
    if (pick_again(engine, grant)) {
        return;
    }
    size_t left = drop_late(engine, grant);

    if (left > 0 || !wait_on(engine, grant)) {
        reply_leases(engine, grant->asked.exchange, grant->records, left);
    }
    grant_free(grant);
}

/* Among nodes it was whatever is due of its kind, so there is none. */
static void note_miss(struct engine *engine, struct lease_grant *grant, const struct errand *errand)
{
    if (errand->op.fault != 0) {
        grant->has_failed = true;
        put_back(engine, grant->queue, errand);
        return;
    }
    grant->missed++;
    if (nodes_are_many(engine)) {
        grant->none |= errand->force ? NONE_FORCED : NONE_DUE;
    }
}

/* A lease is committed, or another worker was faster. When all are answered, so is the worker. */
static void one_leased(struct engine *engine, struct errand *errand)
{
    struct lease_grant *grant = errand->grant;
    const struct op *op = &errand->op;

    bool is_leased = op->fault == 0 && op->result == RESULT_DONE;
    if (nodes_are_many(engine)) {
        nodes_answered(engine, grant->queue, kind_of(errand), is_leased);
    }
    if (is_leased) {
        engine->stats.leased++;
        engine_count_move(engine, grant->queue, TASK_WAITING, &op->life);
        leases_watch(engine, op);
        keep_lease(grant, errand);
    } else {
        note_miss(engine, grant, errand);
        errand_free(errand);
    }
    if (--grant->pending == 0) {
        grant_end(engine, grant);
    }
}

/* False: nothing is due, or there is no memory for it. */
static bool grant_due(struct engine *engine, struct queue *queue, const struct lease_waiter *asked)
{
    bool is_due = due_from(engine, queue, 0) != NULL;
    struct lease_grant *grant = is_due ? calloc(1, sizeof *grant) : NULL;

    if (grant == NULL) {
        return false;
    }
    *grant = (struct lease_grant){.asked = *asked,
                                  .queue = queue,
                                  .begun_ms = clock_mono_ms(engine->options.clock),
                                  .next = engine->grants,
                                  .link = &engine->grants};
    engine->grants = grant;
    if (grant->next != NULL) {
        grant->next->link = &grant->next;
    }
    grant->records = calloc(asked->max, sizeof *grant->records);
    grant->errands = calloc(asked->max, sizeof(struct errand *));
    if (grant->records == NULL || grant->errands == NULL || !pick(engine, grant)) {
        grant_free(grant);
        return false;
    }
    return true;
}

/* --- waiting ------------------------------------------------------------------------------------------- */

/* Something may have become due: whoever waits longest is served first. */
void leases_serve(struct engine *engine, struct queue *queue)
{
    while (!hold_is_shut(queue) && queue->lease_waiters != NULL &&
           grant_due(engine, queue, queue->lease_waiters)) {
        struct lease_waiter *served = queue->lease_waiters;
        queue->lease_waiters = served->next;
        free(served);
    }
}

static void wait_in_line(struct engine *engine, struct queue *queue,
                         const struct lease_waiter *asked)
{
    struct lease_waiter *waiter = malloc(sizeof *waiter), **link = &queue->lease_waiters;

    if (waiter == NULL) {
        inspect_no_room(engine, asked->exchange, 0);
        return;
    }
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *waiter = *asked;
    *link = waiter;
}

static void ask_lease(struct engine *engine, const struct ask *ask)
{
    struct queue *queue = hold_find(engine, ask->queue);
    struct lease_waiter asked = {.exchange = ask->exchange,
                                 .max = ask->lease_max < 1 ? 1 : ask->lease_max,
                                 .until_ms = clock_mono_ms(engine->options.clock) + ask->wait_ms};

    if (queue == NULL) {
        engine_reply(engine,
                     &(struct reply){.kind = REPLY_UNKNOWN_QUEUE, .exchange = ask->exchange});
        return;
    }
    if (hold_is_shut(queue)) {
        engine_reply(engine, &(struct reply){.kind = hold_reply(queue), .exchange = ask->exchange});
        return;
    }
    if (queue->pull.count + queue->pull_forced.count == 0 &&
        (queue->settings.target_count > 0 || queue->settings.fallback != NULL)) {
        engine_reply(engine, &(struct reply){.kind = REPLY_PUSHED, .exchange = ask->exchange});
        return;
    }
    int64_t most_ms = queue->settings.lease_ms;
    asked.lease_ms = ask->lease_ms == 0 || ask->lease_ms > most_ms ? most_ms : ask->lease_ms;
    if (asked.lease_ms <= 0) {
        asked.lease_ms = QUEUE_LEASE_MS;
    }
    if (queue->lease_waiters == NULL && grant_due(engine, queue, &asked)) {
        return;
    }
    if (ask->wait_ms <= 0 || engine->is_draining) {
        reply_leases(engine, ask->exchange, NULL, 0);
    } else {
        wait_in_line(engine, queue, &asked);
    }
}

void leases_ask(struct engine *engine, const struct ask *ask)
{
    if (ask->kind == ASK_LEASE) {
        ask_lease(engine, ask);
    } else {
        lease_words_ask(engine, ask);
    }
}

/* Whose time is over goes empty-handed. */
static void dismiss(struct engine *engine, struct queue *queue, int64_t now_ms)
{
    struct lease_waiter **link = &queue->lease_waiters;

    while (*link != NULL) {
        struct lease_waiter *waiter = *link;
        if (waiter->until_ms > now_ms && !engine->is_draining) {
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        reply_leases(engine, waiter->exchange, NULL, 0);
        free(waiter);
    }
}

/* The worker has gone: is it one of those who wait? */
bool leases_leave(struct engine *engine, uint64_t exchange)
{
    for (size_t i = 0; i < engine->queue_count; i++) {
        struct lease_waiter **link = &engine->queues[i]->lease_waiters;
        for (; *link != NULL; link = &(*link)->next) {
            if ((*link)->exchange == exchange) {
                struct lease_waiter *gone = *link;
                *link = gone->next;
                free(gone);
                reply_leases(engine, exchange, NULL, 0); /* whoever only half-closed reads it */
                return true;
            }
        }
    }
    return false;
}

/* --- time ---------------------------------------------------------------------------------------------- */

/* When a lease is over it is looked at; once too often does no harm. False: no memory. */
bool leases_note(struct engine *engine, int64_t until_ms, int64_t row)
{
    return schedule_add(&engine->leases, (struct schedule_entry){.due_ms = until_ms, .row = row});
}

/* A lease was committed that had been noted before. That was looked at, perhaps, before the commit; if
 * so it has left room for this one. */
void leases_watch(struct engine *engine, const struct op *op)
{
    (void)!leases_note(engine, op->life.due_at_ms, op->task.id.row);
}

/* Leases that were over by now are ended. A grant that is not answered yet may hold one of them. */
static void tell_grants(const struct engine *engine, int64_t now_ms)
{
    for (struct lease_grant *grant = engine->grants; grant != NULL; grant = grant->next) {
        grant->expired_ms = now_ms > grant->expired_ms ? now_ms : grant->expired_ms;
    }
}

void leases_tick(struct engine *engine)
{
    int64_t now_ms = engine_now_ms(engine);
    struct schedule_entry first;
    bool is_over = false;

    for (size_t i = 0; i < engine->queue_count; i++) {
        dismiss(engine, engine->queues[i], clock_mono_ms(engine->options.clock));
    }
    while (schedule_first(&engine->leases, &first) && first.due_ms <= now_ms) {
        is_over = true;
        if (!lease_expire(engine, first.row)) {
            break;
        }
        schedule_pop(&engine->leases);
    }
    if (is_over) {
        tell_grants(engine, now_ms);
    }
}

/* Wall time at which a tick is wanted. */
int64_t leases_next_ms(const struct engine *engine)
{
    int64_t mono_ms = clock_mono_ms(engine->options.clock), wall_ms = engine_now_ms(engine);
    int64_t next_ms = INT64_MAX;
    struct schedule_entry first;

    if (schedule_first(&engine->leases, &first)) {
        next_ms = first.due_ms;
    }
    for (size_t i = 0; i < engine->queue_count; i++) {
        const struct queue *queue = engine->queues[i];
        if (queue->lease_waiters == NULL) {
            continue;
        }
        for (const struct lease_waiter *each = queue->lease_waiters; each != NULL;
             each = each->next) {
            int64_t at_ms = wall_ms + each->until_ms - mono_ms;
            next_ms = at_ms < next_ms ? at_ms : next_ms;
        }
        if (hold_is_shut(queue)) {
            continue; /* as leases_serve has it */
        }
        if (!queue->paused && schedule_first(&queue->pull, &first) && first.due_ms < next_ms) {
            next_ms = first.due_ms;
        }
        if (!queue->dropped && queue->pull_forced.count > 0) {
            next_ms = wall_ms < next_ms ? wall_ms : next_ms;
        }
    }
    return next_ms;
}

void leases_free_all(struct engine *engine)
{
    for (size_t i = 0; i < engine->queue_count; i++) {
        while (engine->queues[i]->lease_waiters != NULL) {
            struct lease_waiter *next = engine->queues[i]->lease_waiters->next;
            free(engine->queues[i]->lease_waiters);
            engine->queues[i]->lease_waiters = next;
        }
    }
    schedule_done(&engine->leases);
}
