/* SPDX-License-Identifier: MIT
 *
 * leftovers -- what is left in a queue that was deleted is purged, a page at a time, between other
 * work. What runs or is in doubt stays, and is purged when it is settled.
 *
 *   noted --> read a page --> purge each --> all are committed --> a pause, the next page … the end
 *     ^                           ^-- a fault: the same page again, later --'
 *     |
 *     '-- by the deletion, by a start that finds tasks of a deleted queue, by what nodes count
 *
 * Only a queue whose row in the store says that it was deleted is gone through: one that is merely
 * missing from the configuration keeps its tasks.
 *
 * Among nodes the one that has the duty purges, whichever node deleted the queue. What it misses (it
 * was not there at the deletion, it crashed or lost the duty in between, another node put a task back)
 * is told by the next count of all tasks, so nothing has to be remembered.
 */
#include "engine/engine_internal.h"
#include "base/plant.h"
#include "store/rules.h"

#define PAGE_TASKS     500
#define RETRY_AFTER_MS 1000

static int64_t mono_ms(const struct engine *engine)
{
    return clock_mono_ms(engine->options.clock);
}

static void rest(struct engine *engine, int64_t wait_ms)
{
    engine->leftovers.next_at_ms = mono_ms(engine) + wait_ms;
}

/* --- where something is left ----------------------------------------------------------------------- */

int leftovers_dropped(struct engine *engine, uint32_t queue)
{
    return number_set_add(&engine->leftovers.dropped, queue);
}

static bool is_dropped(const struct engine *engine, uint32_t number)
{
    const struct queue *queue = engine_queue_at(engine, number);

    return queue != NULL ? queue->dropped : number_set_has(&engine->leftovers.dropped, number);
}

void leftovers_note(struct engine *engine, uint32_t queue)
{
    if (nodes_have_duty(engine) && is_dropped(engine, queue)) {
        int failed = number_set_add(&engine->leftovers.wanted, queue);
        (void)failed; /* no memory now: the next count finds it, or the next start */
    }
}

void leftovers_counted(struct engine *engine, const struct state_count *counts, size_t count)
{
    PLANT(LEFTOVERS_UNCOUNTED, return )
    for (size_t i = 0; i < count; i++) {
        if (counts[i].count > 0 && (RULES_PURGED_STATES & 1u << counts[i].state) != 0) {
            leftovers_note(engine, counts[i].queue);
        }
    }
}

/* --- one task ---------------------------------------------------------------------------------------- */

static void forget(struct engine *engine, const struct op *op)
{
    struct queue *queue = engine_queue_at(engine, op->task.queue);

    if (op->fault != 0 || op->result != RESULT_DONE) {
        return;
    }
    engine->stats.purged++;
    runs_tally(engine, queue, op->task.id.row, TASK_CANCELLED);
    if (queue != NULL) {
        engine_count_out(engine, queue, &op->life);
    }
}

static bool purge(struct engine *engine, uint32_t queue, struct task_id id,
                  void (*then)(struct engine *engine, struct errand *errand))
{
    struct errand *errand = errand_new(engine, OP_PURGE);

    if (errand != NULL) {
        errand->op.task.id = id;
        errand->op.task.queue = queue; /* known also when the store does not answer */
        errand->op.is_patient = true;
        errand->then = then;
    }
    return errand_start(engine, errand);
}

static void settled_purged(struct engine *engine, struct errand *errand)
{
    forget(engine, &errand->op);
    if (errand->op.fault != 0) {
        leftovers_note(engine, errand->op.task.queue);
    }
    errand_free(errand);
}

void leftovers_settled(struct engine *engine, uint32_t queue, struct task_id id)
{
    if (is_dropped(engine, queue) && !purge(engine, queue, id, settled_purged)) {
        leftovers_note(engine, queue);
    }
}

/* --- a page ------------------------------------------------------------------------------------------ */

/* Every operation of the page is answered. */
static void page_end(struct engine *engine)
{
    struct leftovers *left = &engine->leftovers;

    if (left->has_failed) {
        rest(engine, RETRY_AFTER_MS);
        return;
    }
    left->after_row = left->page_row;
    left->queue = left->page_row == 0 ? 0 : left->queue;
    rest(engine, janitor_pause_ms(engine, left->began_at_ms));
}

static void one_purged(struct engine *engine, struct errand *errand)
{
    forget(engine, &errand->op);
    engine->leftovers.has_failed |= errand->op.fault != 0;
    errand_free(errand);
    if (--engine->leftovers.pending == 0) {
        page_end(engine);
    }
}

static void page_read(struct engine *engine, struct read *read)
{
    struct leftovers *left = &engine->leftovers;

    left->has_failed = read->fault != 0;
    left->page_row = read->next_row;
    for (size_t i = 0; read->fault == 0 && i < read->record_count; i++) {
        bool is_started = purge(engine, left->queue, read->records[i].task.id, one_purged);
        left->pending += is_started;
        left->has_failed |= !is_started;
    }
    if (--left->pending == 0) { /* the read itself */
        page_end(engine);
    }
}

static void read_page(struct engine *engine)
{
    struct leftovers *left = &engine->leftovers;
    struct read *read = inspect_new(READ_LIST);

    if (read != NULL) {
        read->filter = (struct store_filter){.queue = left->queue,
                                             .states = RULES_PURGED_STATES,
                                             .after_row = left->after_row,
                                             .limit = PAGE_TASKS};
        read->then = page_read;
    }
    rest(engine, RETRY_AFTER_MS);
    left->pending = read != NULL && inspect_start(engine, read) ? 1 : 0;
}

static bool is_idle(const struct leftovers *left)
{
    return left->queue == 0 && left->wanted.count == 0;
}

void leftovers_tick(struct engine *engine)
{
    struct leftovers *left = &engine->leftovers;

    if (is_idle(left) || left->pending > 0 || engine->is_draining) {
        return;
    }
    if (!nodes_have_duty(engine)) { /* the node that has it counts what is left */
        number_set_clear(&left->wanted);
        left->queue = 0;
        return;
    }
    if (mono_ms(engine) < left->next_at_ms) {
        return;
    }
    if (left->queue == 0) {
        left->queue = (uint32_t)left->wanted.at[0];
        left->after_row = 0;
        left->began_at_ms = mono_ms(engine);
        number_set_remove(&left->wanted, left->queue);
    }
    read_page(engine);
}

int64_t leftovers_next_ms(const struct engine *engine)
{
    const struct leftovers *left = &engine->leftovers;

    return is_idle(left) || left->pending > 0 || engine->is_draining ? INT64_MAX : left->next_at_ms;
}

void leftovers_free(struct engine *engine)
{
    number_set_done(&engine->leftovers.dropped);
    number_set_done(&engine->leftovers.wanted);
}
