/* SPDX-License-Identifier: MIT
 *
 * metrics -- see metrics.h. One table for what is a single number, a form for histograms, and what has
 * labels.
 */
#include "watch/metrics.h"
#include "watch/metrics_internal.h"

#include <daruma/version.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 512
#define TOTAL          "_total"

/* --- the sheet ------------------------------------------------------------------------------------ */

void sheet_add(struct sheet *sheet, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list arguments;

    if (sheet->failed != 0) {
        return;
    }
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof line) {
        sheet->failed = FAULT_LIMIT; /* no name is that long */
        return;
    }
    sheet->failed = buf_add(sheet->out, (struct span){.at = line, .len = (size_t)length});
}

/* OpenMetrics names a family of counters without the end of its samples' names. */
void sheet_head(struct sheet *sheet, const char *name, const char *kind, const char *help)
{
    size_t length = strlen(name);
    bool is_cut = (sheet->how & METRICS_OPEN) != 0 && strcmp(kind, "counter") == 0 &&
                  length > strlen(TOTAL) && strcmp(name + length - strlen(TOTAL), TOTAL) == 0;
    int shown = (int)(is_cut ? length - strlen(TOTAL) : length);

    sheet_add(sheet, "# HELP %.*s %s\n# TYPE %.*s %s\n", shown, name, help, shown, name, kind);
}

void sheet_one(struct sheet *sheet, const char *name, const char *kind, const char *help,
               double value)
{
    sheet_head(sheet, name, kind, help);
    sheet_add(sheet, "%s %.15g\n", name, value);
}

void sheet_histogram(struct sheet *sheet, const char *name, const char *help,
                     const struct histogram *histogram, const int64_t bounds[HISTOGRAM_BOUNDS],
                     enum sheet_unit unit)
{
    double one = unit == SHEET_SECONDS ? 1000 : 1;
    uint64_t up_to = 0;

    sheet_head(sheet, name, "histogram", help);
    for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        up_to += histogram->buckets[i];
        sheet_add(sheet, "%s_bucket{le=\"%.15g\"} %" PRIu64 "\n", name, (double)bounds[i] / one,
                  up_to);
    }
    sheet_add(sheet, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.15g\n%s_count %" PRIu64 "\n",
              name, histogram->count, name, (double)histogram->sum_ms / one, name,
              histogram->count);
}

/* --- single numbers ---------------------------------------------------------------------------------- */

struct line {
    const char *name;
    const char *kind; /* counter, gauge */
    const char *help;
    uint64_t value;
};

static void add_lines(struct sheet *sheet, const struct line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sheet_head(sheet, lines[i].name, lines[i].kind, lines[i].help);
        sheet_add(sheet, "%s %" PRIu64 "\n", lines[i].name, lines[i].value);
    }
}

static void add_engine(struct sheet *sheet, const struct engine_stats *stats)
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
        {"daruma_attempts_short_total", "counter",
         "Attempts given back because this machine had no descriptor, port or memory for them.",
         stats->short_attempts},
        {"daruma_attempts_unnamed_total", "counter",
         "Of these, the ones given back because too many names were being looked up.",
         stats->unnamed_attempts},
        {"daruma_attempts_max", "gauge", "Attempts that may be under way at once, as it is now.",
         stats->attempts_now},
        {"daruma_in_flight", "gauge", "Attempts under way.", stats->in_flight},
        {"daruma_nodes", "gauge", "Nodes that share the store, this one too.", stats->nodes},
        {"daruma_node_has_duty", "gauge", "1 while this node recovers and cleans up for all.",
         stats->has_duty},
        {"daruma_outcomes_unsaved", "gauge", "Outcomes not yet taken by the store.",
         stats->unsaved},
    };

    add_lines(sheet, lines, sizeof lines / sizeof *lines);
}

static void add_gateway(struct sheet *sheet, const struct engine_stats *stats)
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

    add_lines(sheet, lines, sizeof lines / sizeof *lines);
}

static void add_rest(struct sheet *sheet, const struct metrics_input *input)
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
        {"daruma_names_looking_up", "gauge",
         "Names of hosts being looked up, also for attempts that are over.",
         input->names_looking_up},
        {"daruma_log_lost_total", "counter", "Lines of the log that were dropped.",
         input->log_lost},
    };

    add_lines(sheet, lines, sizeof lines / sizeof *lines);
}

/* --- what has labels --------------------------------------------------------------------------------- */

static const char *const doors[] = {[BY_API] = "api", [BY_GATEWAY] = "gateway"};

static void add_keys(struct sheet *sheet, const struct engine_stats *stats)
{
    static const char *const answers[] = {
        [KEY_FIRST] = "first",     [KEY_REPLAYED] = "replayed", [KEY_IN_PROGRESS] = "in_progress",
        [KEY_UNKNOWN] = "unknown", [KEY_CONFLICT] = "conflict", [KEY_EXPIRED] = "expired"};

    sheet_head(sheet, "daruma_requests_total", "counter",
               "Requests that were to be recorded or passed on, with a key and without.");
    for (int i = 0; i < BY_COUNT * 2; i++) {
        sheet_add(sheet, "daruma_requests_total{door=\"%s\",key=\"%s\"} %" PRIu64 "\n",
                  doors[i / 2], i % 2 != 0 ? "with" : "without", stats->requests[i / 2][i % 2]);
    }
    sheet_head(sheet, "daruma_key_answers_total", "counter",
               "Requests with a key, by what the key was found to be.");
    for (int i = 0; i < BY_COUNT * KEY_ANSWER_COUNT; i++) {
        int door = i / KEY_ANSWER_COUNT, answer = i % KEY_ANSWER_COUNT;
        sheet_add(sheet, "daruma_key_answers_total{door=\"%s\",answer=\"%s\"} %" PRIu64 "\n",
                  doors[door], answers[answer], stats->key_answers[door][answer]);
    }
}

static void add_manual(struct sheet *sheet, const struct engine_stats *stats)
{
    static const char *const kinds[] = {[MANUAL_RUN] = "run",
                                        [MANUAL_REDRIVE] = "redrive",
                                        [MANUAL_EDITED] = "edited",
                                        [MANUAL_NOT_DONE] = "not_done"};

    sheet_head(sheet, "daruma_manual_retries_total", "counter",
               "Tasks that a person has sent again, or sooner.");
    for (int i = 0; i < MANUAL_COUNT; i++) {
        sheet_add(sheet, "daruma_manual_retries_total{kind=\"%s\"} %" PRIu64 "\n", kinds[i],
                  stats->manual[i]);
    }
}

static void add_answers(struct sheet *sheet, const struct metrics_input *input)
{
    static const char *const codes[METRICS_CODES] = {"2xx", "3xx", "4xx", "5xx", "relayed"};

    sheet_head(sheet, "daruma_http_answers_total", "counter",
               "Answers given, by door and code; relayed: the status is an upstream's.");
    for (int i = 0; i < BY_COUNT * METRICS_CODES; i++) {
        int door = i / METRICS_CODES, code = i % METRICS_CODES;
        sheet_add(sheet, "daruma_http_answers_total{door=\"%s\",code=\"%s\"} %" PRIu64 "\n",
                  doors[door], codes[code], input->http_answers[door][code]);
    }
}

static void add_store(struct sheet *sheet, const struct metrics_input *input)
{
    if (input->store_bytes >= 0) {
        sheet_one(sheet, "daruma_store_bytes", "gauge",
                  "Bytes of the store's files, or of its tables and indexes.",
                  (double)input->store_bytes);
    }
    if (input->store_free_bytes >= 0) {
        sheet_one(sheet, "daruma_store_free_bytes", "gauge",
                  "Bytes that are free on the disk of the store.", (double)input->store_free_bytes);
    }
    sheet_histogram(sheet, "daruma_commit_seconds", "How long a transaction took.",
                    &input->commit_took, histogram_bounds_ms, SHEET_SECONDS);
    sheet_histogram(sheet, "daruma_commit_batch_operations", "Operations in one transaction.",
                    &input->commit_batch, histogram_counts, SHEET_COUNTS);
}

static void add_times(struct sheet *sheet, const struct engine_stats *stats)
{
    sheet_histogram(sheet, "daruma_lateness_seconds", "From due to the beginning of the attempt.",
                    &stats->lateness, histogram_bounds_ms, SHEET_SECONDS);
    sheet_histogram(sheet, "daruma_attempt_seconds",
                    "From the beginning of an attempt to its answer.", &stats->attempt,
                    histogram_bounds_ms, SHEET_SECONDS);
    sheet_histogram(sheet, "daruma_retry_wait_seconds", "Waits that were chosen before a retry.",
                    &stats->waits, histogram_waits_ms, SHEET_SECONDS);
    sheet_histogram(sheet, "daruma_end_to_end_seconds", "From recorded to ended.", &stats->lives,
                    histogram_lives_ms, SHEET_SECONDS);
    sheet_histogram(sheet, "daruma_dead_letter_open_seconds",
                    "Of dead letters, from failed to closed by a person or by success.",
                    &stats->open, histogram_days_ms, SHEET_SECONDS);
}

int metrics_render(const struct metrics_input *input, unsigned how, struct buf *out)
{
    struct sheet sheet = {.out = out, .how = how};
    struct engine_stats stats;

    engine_stats(input->engine, &stats);
    sheet_head(&sheet, "daruma_build_info", "gauge", "The version that runs.");
    sheet_add(&sheet, "daruma_build_info{version=\"%s\"} 1\n", daruma_version());
    add_engine(&sheet, &stats);
    add_gateway(&sheet, &stats);
    add_rest(&sheet, input);
    add_keys(&sheet, &stats);
    add_manual(&sheet, &stats);
    add_answers(&sheet, input);
    add_store(&sheet, input);
    add_times(&sheet, &stats);
    if ((how & METRICS_TOTAL) == 0) {
        metrics_add_queues(&sheet, input->engine);
    }
    metrics_add_providers(&sheet, input->providers, input->provider_count);
    metrics_add_process(&sheet, input->started_at_ms);
    if ((how & METRICS_OPEN) != 0) {
        sheet_add(&sheet, "# EOF\n");
    }
    return sheet.failed;
}
