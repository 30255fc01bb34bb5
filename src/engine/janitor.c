/* SPDX-License-Identifier: MIT
 *
 * janitor -- forgets what is past its keeping time, oldest first, a page at a time, between other
 * work. Keeping time runs from the settle and never applies to what waits, runs, is unsettled or is
 * a dead letter; the key of a task that is past it is free already, whether purged or not.
 */
#include "engine/engine_internal.h"
#include "store/rules.h"

#define JANITOR_EVERY_MS 10000
#define PAGE_TASKS       500
#define PAGE_PAUSE_MS    5 /* others want to read too */

static void rest(struct engine *engine, int64_t wait_ms)
{
    engine->janitor.next_at_ms = clock_mono_ms(engine->options.clock) + wait_ms;
}

static void purged(struct engine *engine, struct errand *errand)
{
    struct queue *queue = engine_queue_at(engine, errand->op.task.queue);

    if (errand->op.fault == 0 && errand->op.result == RESULT_DONE) {
        engine->stats.purged++;
        if (queue != NULL) {
            engine_count_add(engine, queue, errand->op.life.state, -1);
        }
    }
    engine->janitor.pending--;
    errand_free(errand);
}

/* Forgets one task, unless it is under way. */
bool janitor_purge(struct engine *engine, struct task_id id)
{
    struct errand *errand = errand_new(engine, OP_PURGE);

    if (errand != NULL) {
        errand->op.task.id = id;
        errand->op.is_patient = true;
        errand->then = purged;
    }
    bool is_started = errand_start(engine, errand);
    engine->janitor.pending += is_started;
    return is_started;
}

/* Pages are in order of creation, and nothing is settled before it is created: what is younger than
 * the shortest keeping time need not be looked at. */
static bool is_young(const struct engine *engine, const struct read *read)
{
    const struct store_keep *keep = &engine->options.keep;
    int64_t least_ms = keep->succeeded_ms;

    least_ms = keep->failed_ms < least_ms ? keep->failed_ms : least_ms;
    least_ms = keep->cancelled_ms < least_ms ? keep->cancelled_ms : least_ms;
    return id_created_ms(read->next_row) > engine_now_ms(engine) - least_ms;
}

static void page_read(struct engine *engine, struct read *read)
{
    int64_t now_ms = engine_now_ms(engine);

    engine->janitor.pending--;
    for (size_t i = 0; read->fault == 0 && i < read->record_count; i++) {
        const struct record *record = &read->records[i];
        if (rules_kept_until_ms(&record->life, &engine->options.keep) <= now_ms) {
            (void)janitor_purge(engine, record->task.id); /* what has no room now has it later */
        }
    }
    bool is_end = read->fault != 0 || read->next_row == 0 || is_young(engine, read);
    engine->janitor.after_row = is_end ? 0 : read->next_row;
    rest(engine, is_end ? JANITOR_EVERY_MS : PAGE_PAUSE_MS);
}

void janitor_tick(struct engine *engine)
{
    struct read *read;

    if (engine->janitor.pending > 0 || engine->is_draining || !nodes_have_duty(engine) ||
        clock_mono_ms(engine->options.clock) < engine->janitor.next_at_ms) {
        return;
    }
    rest(engine, JANITOR_EVERY_MS);
    read = inspect_new(READ_LIST);
    if (read == NULL) {
        return;
    }
    read->filter = (struct store_filter){
        .states = 1u << TASK_SUCCEEDED | 1u << TASK_FAILED | 1u << TASK_CANCELLED,
        .after_row = engine->janitor.after_row,
        .limit = PAGE_TASKS,
    };
    read->then = page_read;
    if (inspect_start(engine, read)) {
        engine->janitor.pending = 1;
    }
}
