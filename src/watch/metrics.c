/* SPDX-License-Identifier: MIT
 *
 * metrics -- see metrics.h. One table for what is a single number, a loop for queues, a form for
 * histograms.
 */
#include "watch/metrics.h"
#include "watch/metrics_internal.h"

#include <daruma/version.h>

#include <inttypes.h>

struct line {
    const char *name;
    const char *kind; /* counter, gauge */
    const char *help;
    uint64_t value;
};

static int add_lines(struct buf *out, const struct line *lines, size_t count)
{
    int failed = 0;

    for (size_t i = 0; failed == 0 && i < count; i++) {
        failed =
            buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", lines[i].name,
                     lines[i].help, lines[i].name, lines[i].kind, lines[i].name, lines[i].value);
    }
    return failed;
}

static int add_engine(struct buf *out, const struct engine_stats *stats)
{
    const struct line lines[] = {
        {"daruma_tasks_recorded_total", "counter", "Tasks recorded.", stats->recorded},
        {"daruma_key_duplicates_total", "counter",
         "Requests answered from the record of their key.", stats->duplicates},
        {"daruma_key_conflicts_total", "counter", "Requests whose key belongs to another request.",
         stats->conflicts},
        {"daruma_tasks_refused_total", "counter", "Requests refused: no room, or the store failed.",
         stats->refused},
        {"daruma_attempts_total", "counter", "Attempts begun.", stats->attempts},
        {"daruma_tasks_succeeded_total", "counter", "Tasks that succeeded.", stats->succeeded},
        {"daruma_tasks_retried_total", "counter", "Attempts that failed and will be repeated.",
         stats->retried},
        {"daruma_tasks_failed_total", "counter", "Tasks that failed for good.", stats->failed},
        {"daruma_tasks_unsettled_total", "counter", "Attempts whose outcome is not known.",
         stats->unsettled},
        {"daruma_settles_stale_total", "counter", "Outcomes that came too late to count.",
         stats->stale},
        {"daruma_recovered_total", "counter", "Tasks taken back from an earlier process.",
         stats->recovered_waiting + stats->recovered_unsettled},
        {"daruma_tasks_purged_total", "counter", "Tasks forgotten after their keeping time.",
         stats->purged},
        {"daruma_in_flight", "gauge", "Attempts under way.", stats->in_flight},
        {"daruma_outcomes_unsaved", "gauge", "Outcomes not yet taken by the store.",
         stats->unsaved},
    };

    return add_lines(out, lines, sizeof lines / sizeof *lines);
}

static int add_rest(struct buf *out, const struct metrics_input *input)
{
    const struct line lines[] = {
        {"daruma_commits_total", "counter", "Transactions committed.", input->commits},
        {"daruma_commit_operations_total", "counter", "Operations in them.",
         input->commit_operations},
        {"daruma_store_faults_total", "counter", "Commits that failed.", input->store_faults},
        {"daruma_store_healthy", "gauge", "1 while the last commit worked.",
         input->store_is_healthy},
        {"daruma_http_requests_total", "counter", "Requests answered by the api.",
         input->http_requests},
        {"daruma_http_refused_total", "counter", "Of them, with 4xx or 5xx.", input->http_refused},
        {"daruma_http_connections", "gauge", "Connections open.", input->http_connections},
        {"daruma_http_waiters", "gauge", "Long polls waiting.", input->http_waiters},
    };

    return add_lines(out, lines, sizeof lines / sizeof *lines);
}

static int add_histogram(struct buf *out, const char *name, const char *help,
                         const struct histogram *histogram)
{
    uint64_t up_to = 0;
    int failed = buf_addf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);

    for (size_t i = 0; failed == 0 && i < HISTOGRAM_BOUNDS; i++) {
        up_to += histogram->buckets[i];
        failed = buf_addf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name,
                          (double)histogram_bounds_ms[i] / 1000, up_to);
    }
    if (failed == 0) {
        failed = buf_addf(
            out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.3f\n%s_count %" PRIu64 "\n", name,
            histogram->count, name, (double)histogram->sum_ms / 1000, name, histogram->count);
    }
    return failed;
}

/* The states as they are told outside: failed is both kinds. */
static int add_queue(struct buf *out, const struct queue_view *view)
{
    int failed = 0;

    for (int state = 0; failed == 0 && state < TASK_STATE_COUNT; state++) {
        uint64_t count = view->counts[state];
        if (state == TASK_DEAD) {
            continue;
        }
        if (state == TASK_FAILED) {
            count += view->counts[TASK_DEAD];
        }
        failed = buf_addf(out, "daruma_queue_tasks{queue=\"%.*s\",state=\"%s\"} %" PRIu64 "\n",
                          SPAN_ARGS(view->name), task_state_text((enum task_state)state), count);
    }
    return failed;
}

static int add_queues(struct buf *out, const struct engine *engine)
{
    int failed = buf_addf(out, "# HELP daruma_queue_tasks Tasks by queue and state.\n"
                               "# TYPE daruma_queue_tasks gauge\n");
    struct queue_view view;

    for (size_t i = 0; failed == 0 && i < engine_queue_count(engine); i++) {
        engine_queue_view(engine, i, &view);
        failed = add_queue(out, &view);
    }
    return failed;
}

int metrics_render(const struct metrics_input *input, struct buf *out)
{
    struct engine_stats stats;
    int failed;

    engine_stats(input->engine, &stats);
    failed = buf_addf(out,
                      "# HELP daruma_build_info The version that runs.\n"
                      "# TYPE daruma_build_info gauge\ndaruma_build_info{version=\"%s\"} 1\n",
                      daruma_version());
    failed = failed != 0 ? failed : add_engine(out, &stats);
    failed = failed != 0 ? failed : add_rest(out, input);
    failed = failed != 0 ? failed : add_queues(out, input->engine);
    failed =
        failed != 0 ? failed : metrics_add_providers(out, input->providers, input->provider_count);
    failed = failed != 0
                 ? failed
                 : add_histogram(out, "daruma_lateness_seconds",
                                 "From due to the beginning of the attempt.", &stats.lateness);
    return failed != 0
               ? failed
               : add_histogram(out, "daruma_attempt_seconds",
                               "From the beginning of an attempt to its answer.", &stats.attempt);
}
