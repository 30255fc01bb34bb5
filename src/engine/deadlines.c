/* SPDX-License-Identifier: MIT
 *
 * deadlines -- a task whose deadline passes while it waits fails then, with the class `expired`: not
 * when its turn comes, which in a paused queue, in an outage or without workers may be never. (One
 * that is due in time is looked at by dispatch as well, right before it goes out.)
 *
 * Every second the store is asked which waiting tasks are past their deadline. What is told is settled
 * by an operation that is conditional on the task still waiting and on the deadline itself, so a lease
 * or a redrive that comes first wins.
 *
 * Among nodes the one with the duty looks. What has passed since the last look is found at once; what
 * came to wait with a deadline long over (a dead node's) by a look at all of them, now and then.
 */
#include "engine/engine_internal.h"
#include "base/plant.h"

#define SWEEP_EVERY_MS 1000
#define PAGE_TASKS     500
#define PAGE_PAUSE_MS  5      /* others want to read too */
#define FULL_EVERY_MS  600000 /* with nodes: all that is past, not only what has passed of late */
#define OVERLAP_MS     60000  /* and what of late means: commits of others take their time */
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
        settle_log(
            engine, queue, op->task.id, &op->life,
            &(struct settle_cause){.attempts = op->life.attempts, .reason = span_of(PASSED)});
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
    if (is_end && read->fault == 0) {
        engine->deadlines.swept_ms = engine->deadlines.begun_ms;
    } else if (is_end) {
        engine->deadlines.full_at_ms = 0;
    }
    rest(engine, is_end ? SWEEP_EVERY_MS : PAGE_PAUSE_MS);
}

/* May some waiting task have one? With nodes: one of them looks, whoever has recorded it. */
static bool are_there(const struct engine *engine)
{
    PLANT(DEADLINE_UNSEEN, return false)
    return nodes_are_many(engine) ? nodes_have_duty(engine) : engine->deadlines.are_there;
}

/* A sweep begins: how far back? Alone, the store knows what waits. */
static void begin(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    bool is_full = !nodes_are_many(engine) || now_ms >= engine->deadlines.full_at_ms;

    engine->deadlines.begun_ms = engine_now_ms(engine);
    engine->deadlines.from_ms = is_full ? 0 : engine->deadlines.swept_ms - OVERLAP_MS;
    if (is_full) {
        engine->deadlines.full_at_ms = now_ms + FULL_EVERY_MS;
    }
}

/* The duty came here: whoever had it may have left something. */
void deadlines_take_over(struct engine *engine)
{
    engine->deadlines.full_at_ms = 0;
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
    if (engine->deadlines.after_row == 0) {
        begin(engine);
    }
    read->filter = (struct store_filter){.states = 1u << TASK_WAITING,
                                         .deadline_from_ms = engine->deadlines.from_ms,
                                         .deadline_until_ms = engine_now_ms(engine) + 1,
                                         .after_row = engine->deadlines.after_row,
                                         .limit = PAGE_TASKS};
    read->then = page_read;
    engine->deadlines.pending += inspect_start(engine, read);
}

/* Wall time at which a tick is wanted: only while some waiting task may have a deadline. */
int64_t deadlines_next_ms(const struct engine *engine)
{
    if (engine->deadlines.pending > 0 || engine->is_draining || !are_there(engine)) {
        return INT64_MAX;
    }
    int64_t wait_ms = engine->deadlines.next_at_ms - clock_mono_ms(engine->options.clock);
    return engine_now_ms(engine) + (wait_ms > 0 ? wait_ms : 0);
}
