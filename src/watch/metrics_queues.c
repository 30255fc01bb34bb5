/* SPDX-License-Identifier: MIT
 *
 * metrics_queues -- what has a queue: one family after the other, each with all queues. Names of queues
 * are letters, digits, - _ and . only. Every series is there, at 0, as soon as its queue is.
 */
#include "watch/metrics_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define WHOLE_MAX 1e15

struct queues {
    struct queue_view *views;
    size_t count;
};

/* A thousand queues have some fifty thousand series: what is the same in each is not formatted anew. */
static void put(struct sheet *sheet, const char *name, struct span queue, const char *more,
                uint64_t value)
{
    char digits[24];
    size_t at = sizeof digits;

    digits[--at] = '\n';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    struct span family = span_of(name), rest = span_of(more);
    struct span number = {.at = digits + at, .len = sizeof digits - at};
    size_t length = family.len + queue.len + rest.len + number.len + 16;
    if (sheet->failed == 0) {
        sheet->failed = buf_reserve(sheet->out, length);
    }
    if (sheet->failed == 0) {
        buf_put(sheet->out, family);
        buf_put(sheet->out, SPAN("{queue=\""));
        buf_put(sheet->out, queue);
        buf_put(sheet->out, SPAN("\""));
        buf_put(sheet->out, rest);
        buf_put(sheet->out, SPAN("} "));
        buf_put(sheet->out, number);
    }
}

/* Most are whole, and most of them 0. */
static void put_real(struct sheet *sheet, const char *name, struct span queue, double value)
{
    if (value >= 0 && value < WHOLE_MAX && value == (double)(uint64_t)value) {
        put(sheet, name, queue, "", (uint64_t)value);
    } else {
        sheet_add(sheet, "%s{queue=\"%.*s\"} %.15g\n", name, SPAN_ARGS(queue), value);
    }
}

/* The states as they are told outside: failed is both kinds. */
static void add_states(struct sheet *sheet, const struct queues *queues)
{
    static const char *const labels[TASK_STATE_COUNT] = {[TASK_WAITING] = ",state=\"waiting\"",
                                                         [TASK_RUNNING] = ",state=\"running\"",
                                                         [TASK_SUCCEEDED] = ",state=\"succeeded\"",
                                                         [TASK_FAILED] = ",state=\"failed\"",
                                                         [TASK_CANCELLED] = ",state=\"cancelled\"",
                                                         [TASK_UNSETTLED] = ",state=\"unsettled\"",
                                                         [TASK_GONE] = ",state=\"gone\""};

    sheet_head(sheet, "daruma_queue_tasks", "gauge", "Tasks by queue and state.");
    for (size_t i = 0; i < queues->count; i++) {
        const struct queue_view *view = &queues->views[i];
        for (int state = 0; state < TASK_STATE_COUNT; state++) {
            uint64_t count = view->counts[state];
            if (labels[state] != NULL) {
                count += state == TASK_FAILED ? view->counts[TASK_DEAD] : 0;
                put(sheet, "daruma_queue_tasks", view->name, labels[state], count);
            }
        }
    }
}

/* --- what attempts and tasks came to ------------------------------------------------------------------ */

static void add_attempts(struct sheet *sheet, const struct queues *queues)
{
    char labels[OUTCOME_COUNT][64];

    for (int i = 0; i < OUTCOME_COUNT; i++) {
        const char *word = i == OUTCOME_SUCCEEDED   ? "succeeded"
                           : i == OUTCOME_UNSETTLED ? "unsettled"
                                                    : daruma_class_text((enum daruma_class)i);
        (void)snprintf(labels[i], sizeof labels[i], ",outcome=\"%s\"", word); /* fits */
    }
    sheet_head(sheet, "daruma_queue_attempts_total", "counter",
               "Attempts that ended, by what they came to: succeeded, unsettled, or a class.");
    for (size_t i = 0; i < queues->count; i++) {
        for (int outcome = 0; outcome < OUTCOME_COUNT; outcome++) {
            put(sheet, "daruma_queue_attempts_total", queues->views[i].name, labels[outcome],
                queues->views[i].numbers->attempts[outcome]);
        }
    }
}

static void add_ends(struct sheet *sheet, const struct queues *queues)
{
    static const char *const labels[END_COUNT][2] = {
        [END_SUCCEEDED] = {",end=\"succeeded\",tries=\"one\"", ",end=\"succeeded\",tries=\"more\""},
        [END_FAILED] = {",end=\"failed\",tries=\"one\"", ",end=\"failed\",tries=\"more\""},
        [END_CANCELLED] = {",end=\"cancelled\",tries=\"one\"",
                           ",end=\"cancelled\",tries=\"more\""}};

    sheet_head(sheet, "daruma_queue_ended_total", "counter",
               "Tasks that ended, and whether in more than one attempt.");
    for (size_t i = 0; i < queues->count; i++) {
        for (int at = 0; at < END_COUNT * 2; at++) {
            put(sheet, "daruma_queue_ended_total", queues->views[i].name, labels[at / 2][at % 2],
                queues->views[i].numbers->ended[at / 2][at % 2]);
        }
    }
}

static void add_left(struct sheet *sheet, const struct queues *queues)
{
    static const char name[] = "daruma_queue_dead_letters_left_total";

    sheet_head(sheet, name, "counter",
               "Dead letters that were closed: redriven with success, or by a person.");
    for (size_t i = 0; i < queues->count; i++) {
        const struct queue_view *view = &queues->views[i];
        put(sheet, name, view->name, ",by=\"redriven\"", view->numbers->letters_redriven);
        put(sheet, name, view->name, ",by=\"closed\"", view->numbers->letters_closed);
    }
}

static void add_held(struct sheet *sheet, const struct queues *queues)
{
    static const char *const labels[HOLD_COUNT] = {
        [HOLD_PAUSED] = ",reason=\"paused\"",     [HOLD_OUTAGE] = ",reason=\"outage\"",
        [HOLD_GONE] = ",reason=\"gone\"",         [HOLD_RATE] = ",reason=\"rate\"",
        [HOLD_HOST] = ",reason=\"host\"",         [HOLD_CONCURRENCY] = ",reason=\"concurrency\"",
        [HOLD_ATTEMPTS] = ",reason=\"attempts\"", [HOLD_STORE] = ",reason=\"store\"",
        [HOLD_MISSING] = ",reason=\"missing\""};

    sheet_head(sheet, "daruma_queue_held", "gauge", "1 while this holds back tasks that are due.");
    for (size_t i = 0; i < queues->count; i++) {
        for (int hold = 0; hold < HOLD_COUNT; hold++) {
            put(sheet, "daruma_queue_held", queues->views[i].name, labels[hold],
                queues->views[i].held >> hold & 1);
        }
    }
}

/* --- times -------------------------------------------------------------------------------------------- */

static void put_seconds(struct sheet *sheet, const char *name, struct span queue, double ms)
{
    put_real(sheet, name, queue, ms / 1000);
}

struct summary {
    const char *name, *sum, *count, *help;
};

static void add_summary(struct sheet *sheet, const struct summary *form,
                        const struct queue_view *view, double p99_ms)
{
    if (p99_ms >= 0) {
        sheet_add(sheet, "%s{queue=\"%.*s\",quantile=\"0.99\"} %.6g\n", form->name,
                  SPAN_ARGS(view->name), p99_ms / 1000);
    } else {
        sheet_add(sheet, "%s{queue=\"%.*s\",quantile=\"0.99\"} NaN\n", form->name,
                  SPAN_ARGS(view->name));
    }
}

static void add_times(struct sheet *sheet, const struct queues *queues)
{
    static const struct summary late = {
        "daruma_queue_lateness_seconds", "daruma_queue_lateness_seconds_sum",
        "daruma_queue_lateness_seconds_count",
        "From due to the beginning of the attempt; the quantile is of the last 5 to 10 minutes."};
    static const struct summary took = {
        "daruma_queue_attempt_seconds", "daruma_queue_attempt_seconds_sum",
        "daruma_queue_attempt_seconds_count",
        "From the beginning of an attempt to its answer; the quantile as that of lateness."};
    static const char life[] = "daruma_queue_end_to_end_seconds";

    sheet_head(sheet, late.name, "summary", late.help);
    for (size_t i = 0; i < queues->count; i++) {
        const struct queue_view *view = &queues->views[i];
        add_summary(sheet, &late, view, view->lateness_p99_ms);
        put_seconds(sheet, late.sum, view->name, (double)view->numbers->late_ms);
        put(sheet, late.count, view->name, "", view->numbers->late_count);
    }
    sheet_head(sheet, took.name, "summary", took.help);
    for (size_t i = 0; i < queues->count; i++) {
        const struct queue_view *view = &queues->views[i];
        add_summary(sheet, &took, view, view->attempt_p99_ms);
        put_seconds(sheet, took.sum, view->name, (double)view->numbers->attempt_ms);
        put(sheet, took.count, view->name, "", view->numbers->attempt_count);
    }
    sheet_head(sheet, life, "summary", "From recorded to ended, of this queue.");
    for (size_t i = 0; i < queues->count; i++) {
        const struct queue_view *view = &queues->views[i];
        put_seconds(sheet, "daruma_queue_end_to_end_seconds_sum", view->name,
                    (double)view->numbers->lives_ms);
        put(sheet, "daruma_queue_end_to_end_seconds_count", view->name, "", view->numbers->lives);
    }
}

/* --- one number for each queue -------------------------------------------------------------------- */

static double recorded(const struct queue_view *view)
{
    return (double)view->numbers->recorded;
}

static double letters_entered(const struct queue_view *view)
{
    return (double)view->numbers->letters_entered;
}

static double dead_letters(const struct queue_view *view)
{
    return (double)view->counts[TASK_DEAD];
}

static double oldest_letter_seconds(const struct queue_view *view)
{
    return (double)view->oldest_letter_ms / 1000;
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

static double is_missing(const struct queue_view *view)
{
    return view->hold == QUEUE_HOLD_MISSING;
}

static double is_unusable(const struct queue_view *view)
{
    return view->hold == QUEUE_HOLD_SETTINGS || view->hold == QUEUE_HOLD_TARGETS;
}

static double held_seconds(const struct queue_view *view)
{
    return (double)view->held_ms / 1000;
}

static double is_paused(const struct queue_view *view)
{
    return view->paused;
}

static double has_outage(const struct queue_view *view)
{
    return view->outage_since_ms != 0;
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
    const char *name, *kind, *help;
    double (*of)(const struct queue_view *view);
} queue_lines[] = {
    {"daruma_queue_recorded_total", "counter", "Tasks recorded, of this queue.", recorded},
    {"daruma_queue_dead_letters_entered_total", "counter", "Tasks that became dead letters.",
     letters_entered},
    {"daruma_queue_dead_letters", "gauge", "Dead letters that wait for a person.", dead_letters},
    {"daruma_queue_dead_letter_oldest_seconds", "gauge",
     "How long the oldest dead letter has waited for a person.", oldest_letter_seconds},
    {"daruma_queue_due", "gauge", "Waiting tasks whose time has come.", due},
    {"daruma_queue_oldest_due_seconds", "gauge",
     "How long the longest-due waiting task has been due.", oldest_due_seconds},
    {"daruma_queue_in_flight", "gauge", "Attempts under way.", in_flight},
    {"daruma_queue_host_waiting", "gauge", "Due tasks whose host has no place for them.",
     host_waiting},
    {"daruma_queue_missing", "gauge",
     "1 while no configuration defines the queue, and tasks are in it.", is_missing},
    {"daruma_queue_unusable", "gauge",
     "1 while the configuration lacks targets, providers or secrets that the queue needs.",
     is_unusable},
    {"daruma_queue_held_seconds", "gauge",
     "How long until an outage lets a trial go out, or the rate the next task.", held_seconds},
    {"daruma_queue_paused", "gauge", "1 while the queue is paused.", is_paused},
    {"daruma_queue_outage", "gauge", "1 while the target keeps failing and only trials are sent.",
     has_outage},
    {"daruma_queue_targets_stopped", "gauge", "Targets that answered 410 and get nothing more.",
     stopped_targets},
};

static void add_lines(struct sheet *sheet, const struct queues *queues)
{
    for (size_t i = 0; i < sizeof queue_lines / sizeof *queue_lines; i++) {
        sheet_head(sheet, queue_lines[i].name, queue_lines[i].kind, queue_lines[i].help);
        for (size_t at = 0; at < queues->count; at++) {
            const struct queue_view *view = &queues->views[at];
            put_real(sheet, queue_lines[i].name, view->name, queue_lines[i].of(view));
        }
    }
}

void metrics_add_queues(struct sheet *sheet, const struct engine *engine)
{
    size_t count = engine_queue_count(engine);
    struct queues queues = {.views = calloc(count + 1, sizeof *queues.views)};

    if (queues.views == NULL) {
        sheet->failed = FAULT_MEMORY;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        engine_queue_view(engine, i, &queues.views[queues.count]);
        queues.count += queues.views[queues.count].is_shown;
    }
    add_states(sheet, &queues);
    add_lines(sheet, &queues);
    add_attempts(sheet, &queues);
    add_ends(sheet, &queues);
    add_left(sheet, &queues);
    add_held(sheet, &queues);
    add_times(sheet, &queues);
    free(queues.views);
}
