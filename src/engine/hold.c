/* SPDX-License-Identifier: MIT
 *
 * hold -- see hold_internal.h. A held queue has the settings of none: the default policy, by which
 * recovery judges what was running in it, and no target.
 */
#include "engine/hold_internal.h"
#include "task/route.h"

#define HOLD_ARENA_MAX (1u << 20)

#define MISSING_HINT                                                                               \
    "put it back into the file, have it worked like another with 'daruma queue adopt', or end "    \
    "its tasks with "                                                                              \
    "'daruma queue purge'"
#define ROUTE_HINT                                                                                 \
    "its keys are not looked at: a request that is repeated with one is sent again. If a route "   \
    "was "                                                                                         \
    "edited, give it this name"

static uint64_t task_count(const struct queue *queue)
{
    uint64_t count = 0;

    for (int state = 0; state < TASK_STATE_COUNT; state++) {
        count += queue->counts[state];
    }
    return count;
}

bool hold_is_shown(const struct queue *queue)
{
    if (span_is(queue->name, ENGINE_KEYS_QUEUE)) {
        return false;
    }
    return !queue->dropped && (queue->hold != QUEUE_HOLD_MISSING || task_count(queue) > 0);
}

struct queue *hold_find(const struct engine *engine, struct span name)
{
    struct queue *queue = engine_find_queue(engine, name);

    return queue != NULL && hold_is_shown(queue) ? queue : NULL;
}

bool hold_is_shut(const struct queue *queue)
{
    return queue->hold == QUEUE_HOLD_MISSING || queue->hold == QUEUE_HOLD_SETTINGS;
}

enum reply_kind hold_reply(const struct queue *queue)
{
    return queue->hold == QUEUE_HOLD_MISSING ? REPLY_QUEUE_MISSING : REPLY_QUEUE_HELD;
}

static struct queue *install(struct engine *engine, const struct queue_row *row,
                             enum queue_hold hold, struct span why)
{
    struct arena *arena = arena_new(HOLD_ARENA_MAX);
    struct queue_settings settings = {.concurrency = QUEUE_CONCURRENCY,
                                      .host_concurrency = QUEUE_HOST_CONCURRENCY,
                                      .lease_ms = QUEUE_LEASE_MS};
    struct span stored = arena == NULL ? (struct span){0} : arena_copy(arena, row->settings);
    struct span copy = arena == NULL ? (struct span){0} : arena_copy(arena, why);
    struct queue *queue = NULL;

    (void)daruma_policy_create(NULL, &settings.policy, NULL); /* the default one is always good */
    if (stored.at != NULL && copy.at != NULL) {
        settings.name = arena_copy(arena, row->name);
        queue = settings.name.at == NULL
                    ? NULL
                    : engine_install_queue(engine, settings.name, arena, &settings);
    }
    if (queue == NULL) {
        arena_free(arena);
        return NULL;
    }
    queue->stored = stored;
    queue->hold = hold;
    queue->hold_why = copy;
    queues_set_number(engine, queue, row->number);
    queue->paused = row->paused;
    return queue;
}

static int no_memory(struct error *err)
{
    return fail(err, FAULT_MEMORY, "no memory for the queues");
}

int hold_missing(struct engine *engine, const struct queue_row *row, struct error *err)
{
    struct queue *queue =
        install(engine, row, QUEUE_HOLD_MISSING, SPAN("no configuration defines it any more"));

    return queue == NULL ? no_memory(err) : 0;
}

int hold_settings(struct engine *engine, const struct queue_row *row, struct span why,
                  struct error *err)
{
    return install(engine, row, QUEUE_HOLD_SETTINGS, why) == NULL ? no_memory(err) : 0;
}

static void log_held(const struct engine *engine, const struct queue *queue, uint64_t waiting)
{
    DARUMA_LOG(
        engine->options.log, DARUMA_LOG_WARN, "queue_held",
        daruma_log_bytes("queue", queue->name.at, queue->name.len),
        daruma_log_text("reason", queue->hold == QUEUE_HOLD_TARGETS ? "targets" : "settings"),
        daruma_log_uint("waiting", waiting),
        daruma_log_bytes("error", queue->hold_why.at, queue->hold_why.len));
}

/* The queue had targets when the task was recorded, and has none now. That is the configuration's doing
 * and no outcome: it waits, and with it what would find the same. */
bool hold_is_stranded(struct engine *engine, const struct attempt *attempt)
{
    struct queue *queue = attempt->queue;

    if (attempt->delivery.url.len > 0 || attempt->delivery.fallback != NULL) {
        return false;
    }
    if (queue->hold == QUEUE_HOLD_NONE) {
        queue->hold = QUEUE_HOLD_TARGETS;
        queue->hold_why = SPAN("it has no targets, and tasks that were recorded for them");
        stranded_note(engine, attempt);
        log_held(engine, queue, queue->counts[TASK_WAITING] + 1); /* it goes back to the others */
    }
    return true;
}

void hold_try_again(struct queue *queue)
{
    if (queue->hold == QUEUE_HOLD_TARGETS) {
        queue->hold = QUEUE_HOLD_NONE;
    }
}

static void log_missing(const struct engine *engine, const struct queue *queue)
{
    const uint64_t *counts = queue->counts;
    struct span name = queue->name;
    bool is_route = span_starts(name, ROUTE_QUEUE_PREFIX);
    uint64_t open = counts[TASK_WAITING] + counts[TASK_RUNNING] + counts[TASK_UNSETTLED];

    if (is_route) {
        name = span_from(name, sizeof ROUTE_QUEUE_PREFIX - 1);
        DARUMA_LOG(engine->options.log, DARUMA_LOG_WARN, "route_missing",
                   daruma_log_bytes("route", name.at, name.len),
                   daruma_log_uint("keys", task_count(queue)), daruma_log_uint("open", open),
                   daruma_log_text("hint", ROUTE_HINT));
        return;
    }
    bool is_over = open + counts[TASK_DEAD] == 0; /* only what is kept for its keys */
    DARUMA_LOG(engine->options.log, is_over ? DARUMA_LOG_INFO : DARUMA_LOG_WARN, "queue_missing",
               daruma_log_bytes("queue", name.at, name.len),
               daruma_log_uint("waiting", counts[TASK_WAITING]),
               daruma_log_uint("running", counts[TASK_RUNNING]),
               daruma_log_uint("unsettled", counts[TASK_UNSETTLED]),
               daruma_log_uint("letters", counts[TASK_DEAD]),
               daruma_log_text("hint", MISSING_HINT));
}

void hold_log(const struct engine *engine, const struct queue *queue)
{
    if (queue->hold == QUEUE_HOLD_MISSING && hold_is_shown(queue)) {
        log_missing(engine, queue);
    } else if (queue->hold == QUEUE_HOLD_SETTINGS) {
        log_held(engine, queue, queue->counts[TASK_WAITING]);
    }
}

void hold_log_start(const struct engine *engine)
{
    for (size_t i = 0; i < engine->queue_count; i++) {
        hold_log(engine, engine->queues[i]);
    }
}
