/* SPDX-License-Identifier: MIT
 *
 * recover -- the start: what an earlier process left running is taken back (I5, I8), and the near
 * future is loaded into the schedules.
 *
 * A task that was running belongs to a process that is no more. Whether its request went out is not
 * known, so it counts as maybe sent: a target that may see it twice gets it again, as a counted
 * transient failure; any other task is unsettled.
 *
 * Where a deleted queue still has tasks, because a crash came between its deletion and the last of
 * them, is noted here: leftovers.c purges them.
 */
#include "engine/hold_internal.h"
#include "engine/key_rules_internal.h"
#include "engine/restored_internal.h"
#include "base/plant.h"

#include <stdlib.h>

#define RECOVER_BATCH 256
#define INTERRUPTED   "interrupted by a restart"

/* Rows of tasks. */
struct numbers {
    int64_t *at;
    size_t count, room;
};

struct scan {
    struct engine *engine;
    struct numbers running;
    struct error *err;
};

static int note_number(struct scan *scan, struct numbers *numbers, int64_t number)
{
    if (numbers->count == numbers->room) {
        size_t room = numbers->room == 0 ? RECOVER_BATCH : numbers->room * 2;
        int64_t *grown = realloc(numbers->at, room * sizeof *grown);
        if (grown == NULL) {
            return fail(scan->err, FAULT_MEMORY, "no memory to recover what was running");
        }
        numbers->at = grown;
        numbers->room = room;
    }
    numbers->at[numbers->count++] = number;
    return 0;
}

static int scan_brief(void *user, const struct brief *brief)
{
    struct scan *scan = user;
    struct engine *engine = scan->engine;
    struct queue *queue = engine_queue_at(engine, brief->queue);

    bool is_pulled = (brief->flags & LIFE_PULL) != 0;
    PLANT(LEASE_FORGOTTEN, is_pulled = false)
    if (brief->state == TASK_RUNNING && is_pulled) {
        if (!leases_note(engine, brief->due_at_ms, brief->row)) { /* a worker may still be at it */
            return fail(scan->err, FAULT_MEMORY, "no memory for the leases of workers");
        }
    } else if (brief->state == TASK_RUNNING && brief->epoch != engine->store->epoch) {
        int failed = note_number(scan, &scan->running, brief->row);
        if (failed != 0) {
            return failed;
        }
    }
    if (queue == NULL) {
        leftovers_note(engine, brief->queue);
        return 0;
    }
    struct life life = {.state = brief->state,
                        .due_at_ms = brief->due_at_ms,
                        .flags = brief->flags,
                        .failed_at_ms = brief->failed_at_ms};
    engine_count_in(engine, queue, &life);
    PLANT(DUE_ENTRY_LOST, return 0)
    if (brief->state == TASK_WAITING) {
        engine_schedule(engine, queue, &life, brief->row);
    } else if (brief->state == TASK_UNSETTLED &&
               queue->route != NULL) { /* when it is due is read with the task */
        probe_note(engine, &(struct life){.state = TASK_UNSETTLED, .probe_due_ms = 1}, brief->row);
    }
    return 0;
}

/* One task whose owner is gone: what is to be written. */
struct taken_back {
    struct op op;
    struct trail_row trail;
};

/* (status, omitted) was on disk before its first byte went on, so it is never run again. What it ends
 * as was decided then, by the route as it was, and written with it; a version that did not write it
 * left no keeping time either. */
static void end_streamed(const struct engine *engine, const struct queue *queue,
                         const struct record *record, struct judgement *ret_judgement)
{
    struct judgement judgement = {.life = record->life, .error_class = DARUMA_CLASS_TRANSIENT};
    struct life *life = &judgement.life;

    bool is_decided = life->keep_until_ms != 0;
    judgement.succeeded = is_decided ? life->failed_class == 0 : record->answer.status < 400;
    life->state = judgement.succeeded ? TASK_SUCCEEDED : TASK_FAILED;
    life->settled_at_ms = engine_now_ms(engine);
    life->flags |= LIFE_ANSWERED | LIFE_TRUNCATED;
    if (is_decided) {
        judgement.error_class = (enum daruma_class)(
            life->failed_class > 0 ? life->failed_class - 1 : DARUMA_CLASS_TRANSIENT);
    } else {
        life->failed_class = judgement.succeeded ? 0 : DARUMA_CLASS_TRANSIENT + 1;
    }
    if (!is_decided && queue != NULL && queue->route != NULL) {
        life->keep_until_ms = life->settled_at_ms + queue->route->keep_ms;
    }
    *ret_judgement = judgement;
}

void recover_judge(struct engine *engine, struct op *op, struct trail_row *trail,
                   const struct record *record, struct arena *arena)
{
    const struct outcome outcome = {.sent = TASK_SENT_MAYBE, .error_class = DARUMA_CLASS_TRANSIENT};
    struct queue *queue = engine_queue_at(engine, record->task.queue);
    struct daruma_policy policy;
    struct judgement judgement;

    if (engine_policy(engine, queue, &record->task, arena, &policy) != 0) {
        (void)daruma_policy_create(NULL, &policy, NULL); /* the default one is always good */
    }
    struct life life = record->life;
    PLANT(COUNTED_FROM_ZERO, life.attempts = 1)
    const struct judge_input input = {
        .outcome = &outcome,
        .policy = &policy,
        .life = &life,
        .repeatable = (record->life.flags & LIFE_ONCE) == 0,
        .now_ms = engine_now_ms(engine),
        .random = daruma_dice_roll(engine->options.dice),
    };
    bool is_streamed = (record->life.flags & LIFE_OMITTED) != 0;
    PLANT(STREAM_FORGOTTEN, is_streamed = false)
    if (is_streamed) { /* it was answered: only the rest is missing */
        end_streamed(engine, queue, record, &judgement);
    } else if (queue != NULL && queue->route != NULL) {
        bool releases; /* never: it may have been sent */
        (void)route_judge(&(struct route_judge_input){.route = queue->route, .attempt = input},
                          &judgement, &releases);
    } else {
        judge_attempt(&input, &judgement);
    }
    if (queue != NULL) {
        targets_be_careful(queue, &judgement.life);
    }
    *trail = (struct trail_row){
        .attempt = record->life.attempts_all,
        .started_at_ms = record->life.due_at_ms,
        .ended_at_ms = engine_now_ms(engine),
        .error_class = (int)judgement.error_class,
        .sent = TASK_SENT_MAYBE,
        .message = SPAN(INTERRUPTED),
        .wait_ms = judgement.life.wait_ms,
    };
    struct record ended = *record;
    ended.life = judgement.life;
    ended.trail = trail;
    ended.trail_count = 1;
    *op = (struct op){.kind = OP_SETTLE,
                      .now_ms = engine_now_ms(engine),
                      .arena = arena,
                      .task.id = record->task.id,
                      .life = judgement.life,
                      .trail = trail,
                      .trail_count = 1,
                      .answer = judgement.life.state == TASK_UNSETTLED || record->answer.status == 0
                                    ? NULL
                                    : &record->answer,
                      .spawn = callback_make(engine, &ended, arena)};
    PLANT(CALLBACK_FORGOTTEN, op->spawn = NULL)
}

static void taken(struct engine *engine, const struct record *record, const struct op *op)
{
    struct queue *queue = engine_queue_at(engine, record->task.queue);

    if (op->life.state == TASK_UNSETTLED) {
        engine->stats.recovered_unsettled++;
    } else if (op->life.state == TASK_WAITING) {
        engine->stats.recovered_waiting++;
    }
    if (queue != NULL) {
        engine_count_move(engine, queue, TASK_RUNNING, &op->life);
        engine_schedule(engine, queue, &op->life, record->task.id.row);
        probe_note(engine, &op->life, record->task.id.row);
        numbers_attempt(engine, queue, op);
        numbers_ended(engine, queue, op);
        if (op->life.state == TASK_DEAD || op->life.state == TASK_UNSETTLED) {
            settle_log(engine, queue, record->task.id, &op->life, /* D3.3; others: in one line */
                       &(struct settle_cause){.attempts = record->life.attempts,
                                              .reason = SPAN(INTERRUPTED)});
        }
    }
    if (op->spawn != NULL) {
        callback_born(engine, op->spawn);
    }
}

static int take_back_batch(struct engine *engine, const int64_t *rows, size_t count,
                           struct arena *arena, struct error *err)
{
    struct taken_back *backs = arena_alloc(arena, count * sizeof *backs);
    struct record *records = arena_alloc(arena, count * sizeof *records);
    struct op *ops[RECOVER_BATCH];
    size_t found_count = 0;

    if (backs == NULL || records == NULL) {
        return fail(err, FAULT_MEMORY, "no memory to recover what was running");
    }
    for (size_t i = 0; i < count; i++) {
        struct task_id id = {.row = rows[i], .tail = ID_ANY_TAIL};
        bool found = false;
        int failed =
            store_read_task(engine->store, id, 0, arena, &records[found_count], &found, err);
        if (failed != 0) {
            return failed;
        }
        if (found) {
            struct taken_back *back = &backs[found_count];
            recover_judge(engine, &back->op, &back->trail, &records[found_count], arena);
            ops[found_count] = &backs[found_count].op;
            found_count++;
        }
    }
    int failed = found_count == 0 ? 0 : store_apply_patiently(engine->store, ops, found_count, err);
    for (size_t i = 0; failed == 0 && i < found_count; i++) {
        taken(engine, &records[i], ops[i]);
    }
    return failed;
}

static int take_back(struct engine *engine, const struct scan *scan, struct error *err)
{
    for (size_t at = 0; at < scan->running.count; at += RECOVER_BATCH) {
        size_t count = scan->running.count - at;
        struct arena *arena = arena_new(ARENA_MAX);
        if (arena == NULL) {
            return fail(err, FAULT_MEMORY, "no memory to recover what was running");
        }
        int failed = take_back_batch(engine, scan->running.at + at,
                                     count < RECOVER_BATCH ? count : RECOVER_BATCH, arena, err);
        arena_free(arena);
        if (failed != 0) {
            return failed;
        }
    }
    return 0;
}

static int64_t horizon_after(int64_t now_ms)
{
    return (now_ms / SLOT_MS + 2) * SLOT_MS;
}

static void log_start(const struct engine *engine)
{
    DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "recovered",
               daruma_log_uint("waiting", engine->stats.recovered_waiting),
               daruma_log_uint("unsettled", engine->stats.recovered_unsettled));
    for (size_t i = 0; i < engine->queue_count; i++) {
        const struct queue *queue = engine->queues[i];
        bool is_idle_own = queue == engine->callbacks && queue->counts[TASK_WAITING] == 0;
        if (is_idle_own || queue->hold == QUEUE_HOLD_MISSING) {
            continue;
        }
        DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "queue_length",
                   daruma_log_bytes("queue", queue->name.at, queue->name.len),
                   daruma_log_uint("waiting", queue->counts[TASK_WAITING]));
    }
    hold_log_start(engine);
    restored_log(engine);
}

static int note_deadline(void *user, const struct record *record)
{
    struct engine *engine = user;

    (void)record;
    engine->deadlines.are_there = true;
    return 0;
}

/* Does anything that waits, or may wait again, have a deadline? */
static int look_for_deadlines(struct engine *engine, struct store *store, struct error *err)
{
    const struct store_filter filter = {.states = 1u << TASK_WAITING | 1u << TASK_RUNNING |
                                                  1u << TASK_UNSETTLED,
                                        .deadline_until_ms = INT64_MAX,
                                        .limit = 1};
    struct arena *arena = arena_new(ARENA_MAX);
    int64_t next = 0;

    if (arena == NULL) {
        return fail(err, FAULT_MEMORY, "no memory to look for deadlines");
    }
    int failed = store_list(store, &filter, arena, note_deadline, engine, &next, err);
    engine->deadlines.are_there |= next != 0; /* it did not see all of them */
    arena_free(arena);
    return failed;
}

static int restore_memo(void *user, const struct memo *memo)
{
    struct engine *engine = user;
    restored_memo(engine, memo);
    int failed = targets_restore(engine, memo->name, memo->value);

    if (failed != 0 || nodes_are_many(engine)) { /* redrives are others', perhaps: see nodes.c */
        return failed;
    }
    return redrive_restore(engine, memo->name, memo->value);
}

/* Nobody else works on it: whatever runs was left by a process that is no more. */
static int recover_alone(struct engine *engine, struct store *store, struct error *err)
{
    struct scan scan = {.engine = engine, .err = err};
    int failed = store_scan(store, scan_brief, &scan, err);

    failed = failed != 0 ? failed : take_back(engine, &scan, err);
    free(scan.running.at);
    return failed;
}

int recover_open(struct engine *engine, struct store *store, struct error *err)
{
    engine->store = store;
    engine->ids = (struct id_maker){.last_row = store->last_row,
                                    .dice = engine->options.dice,
                                    .slot = store->slot,
                                    .has_slot = nodes_are_many(engine)};
    engine->horizon_ms = horizon_after(engine_now_ms(engine));
    engine->callbacks = engine_find_queue(engine, SPAN(ENGINE_CALLBACK_QUEUE));
    int failed = store_memos(store, restore_memo, engine, err);
    failed = failed != 0 ? failed : restored_check(engine, err);
    failed = failed != 0 ? failed : look_for_deadlines(engine, store, err);
    if (failed == 0) {
        failed =
            nodes_are_many(engine) ? nodes_open(engine, err) : recover_alone(engine, store, err);
    }
    failed = failed != 0 ? failed : key_rules_check(engine, err);
    if (failed == 0) {
        log_start(engine);
    }
    return failed;
}

static void loaded(struct engine *engine, struct read *read)
{
    engine->is_loading = false;
    if (read->fault != 0) {
        engine->horizon_ms = read->from_ms; /* not loaded: the next tick tries again */
        return;
    }
    for (size_t i = 0; i < read->brief_count; i++) {
        const struct brief *brief = &read->briefs[i];
        struct queue *queue = engine_queue_at(engine, brief->queue);
        struct life life = {
            .state = TASK_WAITING, .due_at_ms = brief->due_at_ms, .flags = brief->flags};
        if (queue != NULL) {
            engine_schedule(engine, queue, &life, brief->row);
        }
    }
}

/* Moves the horizon before asking the store: what is committed from now on is scheduled by whoever
 * commits it, what was committed before is found by the read. Both at once does no harm. */
void recover_load_due(struct engine *engine)
{
    int64_t wanted_ms = horizon_after(engine_now_ms(engine));
    struct read *read;

    if (engine->is_loading || wanted_ms <= engine->horizon_ms) {
        return;
    }
    if (nodes_are_many(engine)) {
        engine->horizon_ms = wanted_ms; /* beats tell */
        return;
    }
    read = inspect_new(READ_DUE);
    if (read == NULL) {
        return;
    }
    read->from_ms = engine->horizon_ms;
    read->until_ms = wanted_ms;
    read->then = loaded;
    engine->is_loading = inspect_start(engine, read);
    if (engine->is_loading) {
        engine->horizon_ms = wanted_ms;
    }
}
