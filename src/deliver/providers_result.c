/* SPDX-License-Identifier: MIT
 *
 * providers_result -- what came of an attempt, as the one delivery that the engine gets back.
 *
 * When all have failed: of the classes that were seen the policy chooses (outcome.also_classes); the
 * one named here is the first of quota, rate_limited, transient, auth, invalid. The earliest moment
 * that any of them has named, those that were not even called included, is the hint.
 */
#include "deliver/providers_internal.h"

#include "base/json_value.h"
#include "deliver/leak.h"
#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RESULT_EXTRA_MAX 4096 /* what stands around a summary */
#define PUT_OFF_SPREAD   10   /* those that are put off come back over a tenth of the wait */

static const int ranks[DARUMA_CLASS_COUNT] = {
    [DARUMA_CLASS_INVALID] = 1,      [DARUMA_CLASS_AUTH] = 2,  [DARUMA_CLASS_TRANSIENT] = 3,
    [DARUMA_CLASS_RATE_LIMITED] = 4, [DARUMA_CLASS_QUOTA] = 5,
};

static void say(char *message, const char *text)
{
    (void)snprintf(message, TASK_MESSAGE_MAX + 1, "%s", text); /* cut if long */
}

void result_invalid(struct flight *flight, const char *why)
{
    flight->whole->outcome =
        (struct outcome){.sent = TASK_SENT_NO, .error_class = DARUMA_CLASS_INVALID};
    say(flight->whole->message, why);
}

/* A row of the trail. Without memory for it the attempt goes on: the outcome stands by itself. */
static void add_row(struct flight *flight, const struct leg *row)
{
    struct delivery *whole = flight->whole;
    struct leg *grown = realloc(whole->legs, (whole->leg_count + 1) * sizeof *grown);

    if (grown != NULL) {
        whole->legs = grown;
        grown[whole->leg_count++] = *row;
    }
}

void result_note_leg(struct flight *flight, const struct verdict *verdict)
{
    const struct delivery *leg = &flight->leg;
    struct delivery *whole = flight->whole;
    struct leg row = {
        .target = flight->order[flight->now_provider]->settings->name,
        .started_at_ms = leg->started_at_ms,
        .ended_at_ms = leg->ended_at_ms,
        .error_class = verdict != NULL ? (int)verdict->error_class : -1,
        .status = leg->outcome.status,
        .sent = leg->outcome.sent,
        .sends = leg->sends,
    };

    memcpy(row.message, verdict != NULL ? verdict->message : whole->message, sizeof row.message);
    add_row(flight, &row);
    whole->sends += leg->sends;
    if (leg->outcome.sent > whole->outcome.sent) {
        whole->outcome.sent = leg->outcome.sent;
    }
}

/* What people need to ask the provider about it; not its cookies. */
static void keep_headers(struct delivery *whole, struct span headers)
{
    static const char *const kept[] = {"content-type", "request-id", "x-request-id"};
    struct span value;

    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (fields_find(headers, kept[i], &value)) {
            (void)!fields_add(&whole->response_headers, span_of(kept[i]),
                              value); /* or without it */
        }
    }
}

/* The answer of the failure that decides, for people; never one that repeats a secret (I10), nor what
 * is said about a key, of which parts may be shown. */
static void keep_answer(struct flight *flight, const struct verdict *verdict)
{
    struct delivery *whole = flight->whole, *leg = &flight->leg;

    buf_clear(&whole->response_headers);
    buf_done(&whole->response_body);
    buf_init(&whole->response_body, whole->response_max);
    if (verdict->has_secret) {
        return;
    }
    keep_headers(whole, buf_span(&leg->response_headers));
    if (verdict->trouble != PROVIDER_TROUBLE_KEY) {
        whole->response_body = leg->response_body;
        leg->response_body = (struct buf){0};
    }
}

void result_note_failure(struct flight *flight, const struct verdict *verdict)
{
    struct outcome *outcome = &flight->whole->outcome;
    int rank = ranks[verdict->error_class];

    if (verdict->hint_ms > 0 &&
        (flight->earliest_ms == 0 || verdict->hint_ms < flight->earliest_ms)) {
        flight->earliest_ms = verdict->hint_ms;
    }
    outcome->also_classes |= 1u << verdict->error_class;
    if (rank < flight->rank) {
        return;
    }
    flight->rank = rank;
    outcome->error_class = verdict->error_class;
    outcome->status = verdict->status;
    say(flight->whole->message, verdict->message);
    keep_answer(flight, verdict);
}

/* Nobody was called: it is no attempt, and the task waits until somebody may be. */
void result_put_off(struct flight *flight, int64_t wait_ms)
{
    struct delivery *whole = flight->whole;
    uint64_t spread_ms = (uint64_t)(wait_ms / PUT_OFF_SPREAD) + 1;

    wait_ms += (int64_t)(daruma_dice_roll(flight->owner->options.dice) % spread_ms);
    if (wait_ms > PROVIDERS_PUT_OFF_MAX_MS) {
        wait_ms = PROVIDERS_PUT_OFF_MAX_MS;
    }
    whole->is_uncounted = true;
    whole->outcome = (struct outcome){.sent = TASK_SENT_NO,
                                      .error_class = DARUMA_CLASS_RATE_LIMITED,
                                      .hint_ms = wait_ms,
                                      .has_hint = true};
    (void)snprintf(whole->message, sizeof whole->message,
                   "no provider may be called for %" PRId64 " ms", wait_ms); /* fits */
}

/* In the trail too: a task that waits for a provider has a row that says so. */
static void note_unasked(struct flight *flight, struct provider *provider, enum daruma_class held,
                         int64_t wait_ms)
{
    int64_t now_ms = clock_wall_ms(flight->owner->options.clock);
    struct leg row = {.target = provider->settings->name,
                      .started_at_ms = now_ms,
                      .ended_at_ms = now_ms,
                      .error_class = (int)held,
                      .sent = TASK_SENT_NO};

    if (wait_ms > 0) {
        (void)snprintf(row.message, sizeof row.message,
                       "not asked: it is to be left alone for %" PRId64 " ms", wait_ms); /* fits */
    } else {
        say(row.message, "not asked");
    }
    add_row(flight, &row);
}

/* Whom it waits for, when none of those that were asked is worth waiting for: an article that one
 * provider refuses is offered to every other, so those that could not be asked now count by what keeps
 * them from it. */
static void count_unasked(struct flight *flight, int64_t now_ms)
{
    struct outcome *outcome = &flight->whole->outcome;
    unsigned hopeless = 1u << DARUMA_CLASS_INVALID | 1u << DARUMA_CLASS_AUTH;
    size_t key;

    if (flight->rank == 0 || (outcome->also_classes & ~hopeless) != 0) {
        return;
    }
    for (size_t i = 0; i < flight->order_count; i++) {
        if (flight->tried[i] != 0) {
            continue;
        }
        enum daruma_class held = book_held_class(flight->order[i]);
        int64_t wait_ms = book_pick_key(flight->order[i], 0, now_ms, &key);
        if (wait_ms > 0 && (flight->earliest_ms == 0 || wait_ms < flight->earliest_ms)) {
            flight->earliest_ms = wait_ms;
        }
        note_unasked(flight, flight->order[i], held, wait_ms);
        outcome->also_classes |= 1u << held;
        if (ranks[held] > flight->rank) {
            flight->rank = ranks[held];
            outcome->error_class = held;
        }
    }
}

/* This machine had nothing to call with: it is no attempt. */
void result_short(struct flight *flight)
{
    struct delivery *whole = flight->whole;

    whole->is_uncounted = whole->is_short = true;
    whole->is_unnamed = flight->leg.is_unnamed;
    whole->outcome = (struct outcome){.sent = TASK_SENT_NO,
                                      .error_class = DARUMA_CLASS_TRANSIENT,
                                      .hint_ms = flight->leg.outcome.hint_ms};
    say(whole->message, flight->leg.message);
}

/* All have failed, or nobody is left to be asked. */
void result_failed(struct flight *flight, int64_t now_ms)
{
    struct outcome *outcome = &flight->whole->outcome;

    for (size_t i = 0; i < flight->order_count; i++) {
        int64_t shut_ms = flight->tried[i] == 0 ? book_shut_ms(flight->order[i], now_ms) : 0;
        if (shut_ms > 0 && (flight->earliest_ms == 0 || shut_ms < flight->earliest_ms)) {
            flight->earliest_ms = shut_ms;
        }
    }
    count_unasked(flight, now_ms);
    outcome->hint_ms = flight->earliest_ms;
    outcome->has_hint = flight->earliest_ms > 0;
    if (flight->rank == 0) {
        outcome->error_class = DARUMA_CLASS_TRANSIENT;
        say(flight->whole->message,
            flight->is_cancelled ? "cancelled (sent: no)" : "no provider was called");
    }
}

/* --- success -------------------------------------------------------------------------------------- */

static bool is_blank_text(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '\\' && i + 1 < text.len && strchr("nrt", text.at[i + 1]) != NULL) {
            i++;
        } else if (text.at[i] != ' ') {
            return false;
        }
    }
    return true;
}

static void count_tokens(struct flight *flight, const struct provider_answer *answer)
{
    struct provider *provider = flight->order[flight->now_provider];
    const struct provider_settings *settings = provider->settings;

    provider->stats.tokens_in += answer->tokens_in;
    provider->stats.tokens_out += answer->tokens_out;
    provider->stats.cost += ((double)answer->tokens_in * settings->price_in +
                             (double)answer->tokens_out * settings->price_out) /
                            1e6;
}

static bool refuse_answer(struct flight *flight, const struct provider_answer *answer, int fault,
                          struct verdict *ret_verdict)
{
    const struct provider_settings *settings = flight->order[flight->now_provider]->settings;
    struct verdict verdict = {.error_class = DARUMA_CLASS_TRANSIENT, .status = 502};

    verdict.has_secret = leak_in(settings, buf_span(&flight->leg.response_body)) ||
                         leak_in(settings, buf_span(&flight->leg.response_headers));
    if (verdict.has_secret) {
        say(verdict.message, "HTTP 200, which repeats a secret: not kept");
    } else if (fault == FAULT_MEMORY) {
        say(verdict.message, "HTTP 200, but no memory for the summary");
    } else if (answer->is_refused) {
        verdict.error_class = DARUMA_CLASS_INVALID;
        verdict.status = 400;
        say(verdict.message, "HTTP 200, but the model refused, or its answer was filtered");
    } else if (answer->finish.len > 0) {
        (void)snprintf(verdict.message, sizeof verdict.message,
                       "HTTP 200 without a text, ended by %.*s",
                       SPAN_ARGS(span_until(answer->finish, 64))); /* fits */
    } else {
        say(verdict.message, "HTTP 200, but not an answer of this kind of provider");
    }
    *ret_verdict = verdict;
    return false;
}

/* Into `result`, which has room for it. What is no answer, or may not be kept, is FAULT_INPUT. */
static int write_result(const struct provider_settings *settings, struct span body,
                        struct provider_answer *answer, struct buf *result)
{
    struct span rest = body, value;
    struct buf text;

    buf_init(result, body.len + RESULT_EXTRA_MAX + settings->model.len);
    if (!span_is_utf8(body) || !json_value_take(&rest, &value) || rest.len > 0) {
        return FAULT_INPUT;
    }
    buf_init(&text, body.len);
    int failed = provider_format_of(settings->kind)->read_answer(value, &text, answer);
    if (failed == 0 &&
        (answer->is_refused || is_blank_text(buf_span(&text)) || leak_in(settings, body))) {
        failed = FAULT_INPUT;
    }
    if (failed == 0) {
        failed = provider_add_result(settings, buf_span(&text), answer, result);
    }
    buf_done(&text);
    return failed;
}

bool result_succeeded(struct flight *flight, struct verdict *ret_verdict)
{
    struct delivery *whole = flight->whole, *leg = &flight->leg;
    const struct provider_settings *settings = flight->order[flight->now_provider]->settings;
    struct provider_answer answer = {0};
    struct buf result;
    int failed = write_result(settings, buf_span(&leg->response_body), &answer, &result);

    count_tokens(flight, &answer);
    if (failed == 0) {
        buf_clear(&whole->response_headers);
        failed =
            fields_add(&whole->response_headers, SPAN("content-type"), SPAN("application/json"));
    }
    if (failed != 0) {
        buf_done(&result);
        return refuse_answer(flight, &answer, failed, ret_verdict);
    }
    buf_done(&whole->response_body);
    whole->response_body = result;
    bool is_cut = span_is(answer.finish, "length") || span_is(answer.finish, "max_tokens");
    say(whole->message, is_cut ? "the summary was cut off at max_tokens" : "");
    result_note_leg(flight, NULL);
    whole->outcome = (struct outcome){.sent = TASK_SENT_YES, .status = 200};
    whole->settled_by = settings->name;
    return true;
}
