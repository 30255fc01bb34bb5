/* SPDX-License-Identifier: MIT
 *
 * deadlines -- a task whose deadline passes while it waits fails then, with the class `expired`: not
 * when its turn comes, which in a paused queue, in an outage or without workers may be never. (One
 * that is due in time is looked at by dispatch as well, right before it goes out.)
 *
 * Every second the store is asked which waiting tasks are past their deadline. What is told is settled
 * by an operation that is conditional on the task still waiting and on the deadline itself, so a lease
 * or a redrive that comes first wins.
 */
#include "engine/engine_internal.h"

#define SWEEP_EVERY_MS 1000
#define PAGE_TASKS     500
#define PAGE_PAUSE_MS  5 /* others want to read too */
#define PASSED         "the deadline passed while it waited"

static void rest(struct engine *engine, int64_t wait_ms)
{
    engine->deadlines.next_at_ms = clock_mono_ms(engine->options.clock) + wait_ms;
}

static void expired(struct engine *engine, struct errand *errand)
{
    const struct op *op = &errand->op;
    struct queue *queue = engine_queue_at(engine, op->task.queue);

    engine->deadlines.pending--;
    if (op->fault == 0 && op->result == RESULT_DONE && queue != NULL) {
        settle_log(engine, queue, op->task.id, &op->life, op->life.attempts);
        settle_follow(engine, queue, op->task.id, op);
    }
    errand_free(errand);
}

/* What has no room now has it a second later. */
static void expire(struct engine *engine, const struct record *record)
{
    struct errand *errand = errand_new(engine, OP_EXPIRE);
    struct judgement judgement;

    if (errand == NULL) {
        return;
    }
    judge_expire(&record->life, errand->op.now_ms, &judgement);
    errand->op.task.id = record->task.id;
    errand->op.life = judgement.life;
    errand->op.is_patient = true;
    errand->then = expired;
    errand->trail = (struct trail_row){.attempt = record->life.attempts_all,
                                       .started_at_ms = errand->op.now_ms,
                                       .ended_at_ms = errand->op.now_ms,
                                       .error_class = DARUMA_CLASS_EXPIRED,
                                       .message = SPAN(PASSED)};
    errand->op.trail = &errand->trail;
    errand->op.trail_count = 1;
    struct record ended = *record;
    ended.life = judgement.life;
    ended.trail = &errand->trail;
    ended.trail_count = 1;
    errand->op.spawn = callback_make(engine, &ended, errand->arena);
    engine->deadlines.pending += errand_start(engine, errand);
}

static void page_read(struct engine *engine, struct read *read)
{
    engine->deadlines.pending--;
    for (size_t i = 0; read->fault == 0 && i < read->record_count; i++) {
        const struct record *record = &read->records[i];
        const struct queue *queue = engine_queue_at(engine, record->task.queue);
        bool is_route =
            queue != NULL && queue->route != NULL; /* its callers are told by replay.c */
        if (record->life.state == TASK_WAITING && !is_route &&
            judge_is_expired(&record->life, engine_now_ms(engine))) {
            expire(engine, record);
        }
    }
    bool is_end = read->fault != 0 || read->next_row == 0;
    engine->deadlines.after_row = is_end ? 0 : read->next_row;
    bool is_slow = is_end || nodes_are_many(engine); /* there it costs others more than it brings */
    rest(engine, is_slow ? SWEEP_EVERY_MS : PAGE_PAUSE_MS);
}

/* May some waiting task have one? With nodes: one of them looks, whoever has recorded it. */
static bool are_there(const struct engine *engine)
{
    return nodes_are_many(engine) ? nodes_have_duty(engine) : engine->deadlines.are_there;
}

void deadlines_tick(struct engine *engine)
{
    struct read *read;

    if (!are_there(engine) || engine->deadlines.pending > 0 || engine->is_draining ||
        clock_mono_ms(engine->options.clock) < engine->deadlines.next_at_ms) {
        return;
    }
    rest(engine, SWEEP_EVERY_MS);
    read = inspect_new(READ_LIST);
    if (read == NULL) {
        return;
    }
    read->filter = (struct store_filter){.states = 1u << TASK_WAITING,
                                         .deadline_until_ms = engine_now_ms(engine) + 1,
                                         .after_row = engine->deadlines.after_row,
                                         .limit = PAGE_TASKS};
    read->then = page_read;
    engine->deadlines.pending += inspect_start(engine, read);
}

/* Wall time at which a tick is wanted: only while some waiting task may have a deadline. */
int64_t deadlines_next_ms(const struct engine *engine)
{
    if (engine->deadlines.pending > 0 || !are_there(engine)) {
        return INT64_MAX;
    }
    int64_t wait_ms = engine->deadlines.next_at_ms - clock_mono_ms(engine->options.clock);
    return engine_now_ms(engine) + (wait_ms > 0 ? wait_ms : 0);
}
