/* SPDX-License-Identifier: MIT
 *
 * janitor -- forgets what is past its keeping time, oldest first, a page at a time, between other
 * work. Keeping time runs from the settle and never applies to what waits, runs, is unsettled or is
 * a dead letter; the key of a task that is past it is free already, whether purged or not.
 */
#include "engine/engine_internal.h"
#include "store/rules.h"

#define JANITOR_EVERY_MS    10000
#define JANITOR_REST_TIMES  10
#define JANITOR_REST_MAX_MS 300000
#define PAGE_TASKS          500
#define PAGE_PAUSE_MS       5 /* others want to read too */
/* On a server that several share, purging 6,300 a second cost live traffic a third, 1,900 a second a
 * seventh. So it gives way to traffic; but what comes in all day has to go at some time. */
#define PAGE_PAUSE_BUSY_MS  500
#define PAGE_PAUSE_QUIET_MS 20
#define QUIET_PER_SECOND    200     /* records and attempts */
#define BEHIND_MS           3600000 /* a round that takes longer does not give way any more */
#define AHEAD_MS            60000   /* ids further ahead than this were made by a clock that was */
#define AHEAD_TOLD_EVERY_MS 3600000

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
            engine_count_out(engine, queue, &errand->op.life);
        }
    }
    engine->janitor.pending--;
    errand_free(errand);
}

/* Forgets one task, unless it is under way. No room now: later. */
static void purge(struct engine *engine, struct task_id id)
{
    struct errand *errand = errand_new(engine, OP_PURGE);

    if (errand != NULL) {
        errand->op.task.id = id;
        errand->op.is_patient = true;
        errand->then = purged;
    }
    engine->janitor.pending += errand_start(engine, errand);
}

static void buried(struct engine *engine, struct errand *errand)
{
    struct queue *queue = engine_queue_at(engine, errand->op.task.queue);

    if (errand->op.fault == 0 && errand->op.result == RESULT_DONE && queue != NULL) {
        engine_count_move(engine, queue, errand->op.was_state, &errand->op.life);
    }
    engine->janitor.pending--;
    errand_free(errand);
}

/* Forgets all but the key of one: a duplicate that comes later is told so, and not run again. */
static void bury(struct engine *engine, const struct record *record)
{
    struct errand *errand = errand_new(engine, OP_BURY);

    if (errand != NULL) {
        errand->op.task.id = record->task.id;
        errand->op.life.keep_until_ms = rules_kept_until_ms(&record->life, &engine->options.keep);
        errand->op.is_patient = true;
        errand->then = buried;
    }
    engine->janitor.pending += errand_start(engine, errand);
}

/* Of a request of the gateway whose key is its own the key outlives the rest, unless the route would
 * run it again anyway. */
static bool has_tombstone(const struct engine *engine, const struct record *record)
{
    const struct queue *queue = engine_queue_at(engine, record->task.queue);
    bool reruns =
        queue != NULL && queue->route != NULL && queue->route->expired == ROUTE_EXPIRED_RERUN;

    return (record->life.flags & LIFE_ROUTE) != 0 && record->life.state != TASK_GONE &&
           record->is_bound && !reruns;
}

/* Pages are in order of creation, and nothing is settled before it is created: what is younger than
 * the shortest keeping time need not be looked at. Ids that a clock made that was ahead, and those that
 * had to be larger, say nothing about when that was. */
static bool is_young(const struct engine *engine, const struct read *read)
{
    const struct store_keep *keep = &engine->options.keep;
    int64_t least_ms = keep->succeeded_ms;

    least_ms = keep->failed_ms < least_ms ? keep->failed_ms : least_ms;
    least_ms = keep->cancelled_ms < least_ms ? keep->cancelled_ms : least_ms;
    for (size_t i = 0; i < engine->queue_count; i++) {
        const struct route_settings *route = engine->queues[i]->route;
        least_ms = route != NULL && route->keep_ms < least_ms ? route->keep_ms : least_ms;
    }
    int64_t created_ms = id_created_ms(read->next_row), now_ms = engine_now_ms(engine);
    return created_ms > now_ms - least_ms && created_ms <= now_ms + AHEAD_MS;
}

/* Where the round goes on: behind the young, if they are next. 0: it is over. */
static int64_t next_row(const struct engine *engine, const struct read *read)
{
    if (read->fault != 0 || read->next_row == 0) {
        return 0;
    }
    return is_young(engine, read) ? id_row_at(engine_now_ms(engine) + AHEAD_MS) : read->next_row;
}

/* After a page of purging. */
int64_t janitor_pause_ms(struct engine *engine, int64_t began_at_ms)
{
    uint64_t live = engine->stats.recorded + engine->stats.attempts;
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    double came = (double)(live - engine->janitor.live_seen);
    double took_seconds = (double)(now_ms - engine->janitor.paged_at_ms) / 1000;
    bool is_behind = now_ms - began_at_ms > BEHIND_MS;

    engine->janitor.live_seen = live;
    engine->janitor.paged_at_ms = now_ms;
    if (!nodes_are_many(engine)) {
        return PAGE_PAUSE_MS;
    }
    return is_behind || came < QUIET_PER_SECOND * took_seconds ? PAGE_PAUSE_QUIET_MS
                                                               : PAGE_PAUSE_BUSY_MS;
}

static void page_read(struct engine *engine, struct read *read)
{
    int64_t now_ms = engine_now_ms(engine);

    engine->janitor.pending--;
    for (size_t i = 0; read->fault == 0 && i < read->record_count; i++) {
        const struct record *record = &read->records[i];
        if (rules_kept_until_ms(&record->life, &engine->options.keep) <= now_ms) {
            if (has_tombstone(engine, record)) {
                bury(engine, record);
            } else {
                purge(engine, record->task.id);
            }
        }
    }
    engine->janitor.after_row = next_row(engine, read);
    if (engine->janitor.after_row != 0) {
        rest(engine, janitor_pause_ms(engine, engine->janitor.began_at_ms));
        return;
    }
    /* The longer a round takes, the longer the rest after it: most of what is there stays there. */
    int64_t took_ms = clock_mono_ms(engine->options.clock) - engine->janitor.began_at_ms;
    int64_t more_ms = took_ms * JANITOR_REST_TIMES;
    rest(engine,
         JANITOR_EVERY_MS + (more_ms < JANITOR_REST_MAX_MS ? more_ms : JANITOR_REST_MAX_MS));
}

/* Ids only grow, so while the newest is ahead of the clock, tasks look younger than they are. */
static void tell_if_ahead(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    int64_t ahead_ms = id_created_ms(engine->ids.last_row) - engine_now_ms(engine);

    if (ahead_ms > AHEAD_MS && now_ms >= engine->janitor.tell_at_ms) {
        engine->janitor.tell_at_ms = now_ms + AHEAD_TOLD_EVERY_MS;
        DARUMA_LOG(engine->options.log, DARUMA_LOG_WARN, "clock_was_ahead",
                   daruma_log_int("ahead_ms", ahead_ms));
    }
}

void janitor_tick(struct engine *engine)
{
    struct read *read;

    tell_if_ahead(engine);
    if (engine->janitor.pending > 0 || engine->is_draining || !nodes_have_duty(engine) ||
        clock_mono_ms(engine->options.clock) < engine->janitor.next_at_ms) {
        return;
    }
    rest(engine, JANITOR_EVERY_MS);
    if (engine->janitor.after_row == 0) {
        engine->janitor.began_at_ms = clock_mono_ms(engine->options.clock);
    }
    read = inspect_new(READ_LIST);
    if (read == NULL) {
        return;
    }
    read->filter = (struct store_filter){
        .states = 1u << TASK_SUCCEEDED | 1u << TASK_FAILED | 1u << TASK_CANCELLED | 1u << TASK_GONE,
        .after_row = engine->janitor.after_row,
        .limit = PAGE_TASKS,
    };
    read->then = page_read;
    if (inspect_start(engine, read)) {
        engine->janitor.pending = 1;
    }
}
