/* SPDX-License-Identifier: MIT
 *
 * host_tally -- which hosts fail, of late, by queue: for GET /v1/hosts. A host is noted with its first
 * failure, so that healthy ones cost nothing but a look; the table has a fixed size, and of those that
 * fall into one set the one with the fewest failures makes room.
 */
#include "engine/engine_internal.h"

#include <string.h>

static uint64_t hash_of(const struct queue *queue, struct span host)
{
    uint64_t hash = queue->serial * UINT64_C(0x9e3779b97f4a7c15);

    for (size_t i = 0; i < host.len; i++) {
        hash = (hash ^ (unsigned char)host.at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Those of the last one to two windows count. */
static void turn(struct host_tally *tally, int64_t now_ms)
{
    int64_t passed_ms = now_ms - tally->began_ms;

    if (passed_ms < RECENT_MS) {
        return;
    }
    bool is_next = passed_ms < 2 * RECENT_MS;
    tally->failures[1] = is_next ? tally->failures[0] : 0;
    tally->attempts[1] = is_next ? tally->attempts[0] : 0;
    tally->failures[0] = tally->attempts[0] = 0;
    tally->began_ms = now_ms;
}

static uint64_t failures_of(const struct host_tally *tally, int64_t now_ms)
{
    int64_t passed_ms = now_ms - tally->began_ms;

    return (passed_ms < 2 * RECENT_MS ? tally->failures[0] : 0) +
           (passed_ms < RECENT_MS ? tally->failures[1] : 0);
}

/* Of a failure: a row for it, if need be one that is taken from another host. NULL: it has none. */
static struct host_tally *row_of(struct engine *engine, const struct attempt *attempt,
                                 struct span host, bool is_failure)
{
    uint64_t hash = hash_of(attempt->queue, host);
    struct host_tally *set = engine->host_tallies.rows[hash >> 32 & (HOST_TALLY_SETS - 1)];
    struct host_tally *least = &set[0];
    int64_t now_ms = clock_mono_ms(engine->options.clock);

    for (int i = 0; i < HOST_TALLY_WAYS; i++) {
        if (set[i].queue == attempt->queue && set[i].hash == hash) {
            turn(&set[i], now_ms);
            return &set[i];
        }
        least = failures_of(&set[i], now_ms) < failures_of(least, now_ms) ? &set[i] : least;
    }
    if (!is_failure) {
        return NULL;
    }
    engine->host_tallies.is_used = true;
    *least = (struct host_tally){.hash = hash, .queue = attempt->queue, .began_ms = now_ms};
    least->name_len = host.len < sizeof least->name ? host.len : sizeof least->name;
    span_copy(least->name, span_until(host, least->name_len));
    return least;
}

void host_tally_note(struct engine *engine, const struct attempt *attempt)
{
    const struct op *op = &attempt->op;
    bool is_failure = op->life.state != TASK_SUCCEEDED;

    if (!is_failure && !engine->host_tallies.is_used) {
        return;
    }
    struct span host = sums_host_of(attempt->delivery.url);
    if (op->uncounts || host.len == 0 || attempt->delivery.fallback != NULL) {
        return;
    }
    struct host_tally *tally = row_of(engine, attempt, host, is_failure);
    if (tally == NULL) {
        return;
    }
    tally->attempts[0]++;
    if (is_failure) {
        tally->failures[0]++;
        tally->status = attempt->delivery.outcome.status;
        tally->failed_class = op->life.failed_class;
        tally->failed_at_ms = engine_now_ms(engine);
        memcpy(tally->reason, attempt->delivery.message, sizeof tally->reason);
    }
}

static void fill(const struct host_tally *tally, int64_t now_ms, struct host_view *ret_view)
{
    bool has_older = now_ms - tally->began_ms < RECENT_MS;

    *ret_view = (struct host_view){
        .queue = tally->queue->name,
        .host = {.at = tally->name, .len = tally->name_len},
        .attempts = tally->attempts[0] + (has_older ? tally->attempts[1] : 0),
        .failures = failures_of(tally, now_ms),
        .status = tally->status,
        .error_class = tally->failed_class == 0
                           ? NULL
                           : daruma_class_text((enum daruma_class)(tally->failed_class - 1)),
        .reason = span_of(tally->reason),
        .failed_at_ms = tally->failed_at_ms,
    };
}

size_t engine_hosts(const struct engine *engine, const struct reach *reach, struct host_view *views,
                    size_t max)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    size_t count = 0;

    for (size_t i = 0; i < HOST_TALLY_SETS * HOST_TALLY_WAYS; i++) {
        const struct host_tally *tally =
            &engine->host_tallies.rows[i / HOST_TALLY_WAYS][i % HOST_TALLY_WAYS];
        if (tally->queue == NULL || failures_of(tally, now_ms) == 0 ||
            !reach_has(reach, tally->queue->name)) {
            continue;
        }
        struct host_view view;
        fill(tally, now_ms, &view);
        size_t at = count < max ? count : max;
        while (at > 0 && views[at - 1].failures < view.failures) {
            at--;
        }
        if (at < max) {
            size_t moved = (count < max ? count : max - 1) - at;
            memmove(&views[at + 1], &views[at], moved * sizeof *views);
            views[at] = view;
            count += count < max;
        }
    }
    return count;
}
