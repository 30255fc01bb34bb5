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
        {"daruma_attempts_short_total", "counter",
         "Attempts given back because this machine had no descriptor, port or memory for them.",
         stats->short_attempts},
        {"daruma_attempts_max", "gauge", "Attempts that may be under way at once, as it is now.",
         stats->attempts_now},
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
        {"daruma_leases_total", "counter", "Tasks leased to workers.", stats->leased},
        {"daruma_leases_expired_total", "counter",
         "Leases that were over before their worker spoke.", stats->expired_leases},
        {"daruma_dead_letters_redriven_total", "counter", "Dead letters sent again.",
         stats->redriven},
        {"daruma_dead_letters_resolved_total", "counter", "Dead letters closed by a person.",
         stats->resolved},
        {"daruma_callbacks_total", "counter", "Callbacks recorded.", stats->callbacks},
        {"daruma_callbacks_lost_total", "counter", "Callbacks whose key belonged to another task.",
         stats->callbacks_lost},
        {"daruma_outages_total", "counter", "Outages begun: a target that kept failing.",
         stats->outages},
        {"daruma_peer_words_total", "counter",
         "Tasks that callers waited for at this node and another node said that they moved.",
         stats->peer_words},
        {"daruma_in_flight", "gauge", "Attempts under way.", stats->in_flight},
        {"daruma_outcomes_unsaved", "gauge", "Outcomes not yet taken by the store.",
         stats->unsaved},
    };

    return add_lines(out, lines, sizeof lines / sizeof *lines);
}

static int add_gateway(struct buf *out, const struct engine_stats *stats)
{
    const struct line lines[] = {
        {"daruma_gateway_replayed_total", "counter", "Kept answers given again.", stats->replayed},
        {"daruma_gateway_replayed_held_total", "counter",
         "Kept answers given again from memory, without a look into the store.",
         stats->replayed_held},
        {"daruma_gateway_released_total", "counter", "Keys freed because nothing happened.",
         stats->released},
        {"daruma_gateway_probes_total", "counter", "Probes sent about unsettled requests.",
         stats->probes},
        {"daruma_gateway_late_answers_total", "counter",
         "Answers to attempts that somebody else had settled.", stats->late_answers},
        {"daruma_gateway_waiting", "gauge", "Duplicates waiting for an answer.",
         stats->route_waiters},
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
        {"daruma_store_healthy", "gauge",
         "1 while the last commit worked and the store can be reached.", input->store_is_healthy},
        {"daruma_http_requests_total", "counter", "Requests answered by the api.",
         input->http_requests},
        {"daruma_http_refused_total", "counter", "Of them, with 4xx or 5xx.", input->http_refused},
        {"daruma_http_connections", "gauge", "Connections open.", input->http_connections},
        {"daruma_http_waiters", "gauge", "Long polls waiting.", input->http_waiters},
        {"daruma_http_body_bytes", "gauge", "Bytes of callers' bodies in memory.",
         input->http_body_bytes},
        {"daruma_log_lost_total", "counter", "Lines of the log that were dropped.",
         input->log_lost},
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

/* --- one number for each queue -------------------------------------------------------------------- */

static double dead_letters(const struct queue_view *view)
{
    return (double)view->counts[TASK_DEAD];
}

static double due(const struct queue_view *view)
{
    return (double)view->due_count;
}

static double oldest_due_seconds(const struct queue_view *view)
{
    return (double)view->oldest_due_ms / 1000;
}

static double in_flight(const struct queue_view *view)
{
    return view->in_flight;
}

static double host_waiting(const struct queue_view *view)
{
    return (double)view->host_waiting;
}

static double is_paused(const struct queue_view *view)
{
    return view->paused;
}

static double has_outage(const struct queue_view *view)
{
    return view->outage_since_ms != 0;
}

static double is_missing(const struct queue_view *view)
{
    return view->hold == QUEUE_HOLD_MISSING;
}

static double is_unusable(const struct queue_view *view)
{
    return view->hold == QUEUE_HOLD_SETTINGS || view->hold == QUEUE_HOLD_TARGETS;
}

static double stopped_targets(const struct queue_view *view)
{
    double count = 0;

    for (uint32_t bits = view->stopped; bits != 0; bits &= bits - 1) {
        count++;
    }
    return count;
}

static const struct {
    const char *name;
    const char *help;
    double (*of)(const struct queue_view *view);
} queue_gauges[] = {
    {"daruma_queue_dead_letters", "Dead letters that wait for a person.", dead_letters},
    {"daruma_queue_due", "Waiting tasks that are due within the next two hours.", due},
    {"daruma_queue_oldest_due_seconds", "How long the longest-due waiting task has been due.",
     oldest_due_seconds},
    {"daruma_queue_in_flight", "Attempts under way.", in_flight},
    {"daruma_queue_host_waiting", "Due tasks whose host has no place for them.", host_waiting},
    {"daruma_queue_paused", "1 while the queue is paused.", is_paused},
    {"daruma_queue_missing", "1 while no configuration defines the queue, and tasks are in it.",
     is_missing},
    {"daruma_queue_unusable",
     "1 while the configuration lacks targets, providers or secrets that the queue needs.",
     is_unusable},
    {"daruma_queue_outage", "1 while the target keeps failing and only trials are sent.",
     has_outage},
    {"daruma_queue_targets_stopped", "Targets that answered 410 and get nothing more.",
     stopped_targets},
};

static int add_queue_gauges(struct buf *out, const struct engine *engine)
{
    struct queue_view view;
    int failed = 0;

    for (size_t i = 0; failed == 0 && i < sizeof queue_gauges / sizeof *queue_gauges; i++) {
        const char *name = queue_gauges[i].name;
        failed = buf_addf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, queue_gauges[i].help, name);
        for (size_t j = 0; failed == 0 && j < engine_queue_count(engine); j++) {
            engine_queue_view(engine, j, &view);
            if (!view.is_shown) {
                continue;
            }
            failed = buf_addf(out, "%s{queue=\"%.*s\"} %.15g\n", name, SPAN_ARGS(view.name),
                              queue_gauges[i].of(&view));
        }
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
        failed = view.is_shown ? add_queue(out, &view) : 0;
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
    failed = failed != 0 ? failed : add_gateway(out, &stats);
    failed = failed != 0 ? failed : add_rest(out, input);
    failed = failed != 0 ? failed : add_queues(out, input->engine);
    failed = failed != 0 ? failed : add_queue_gauges(out, input->engine);
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
