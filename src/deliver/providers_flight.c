/* SPDX-License-Identifier: MIT
 *
 * providers_flight -- the way of one attempt, top to bottom: begin, step to the next provider, call
 * it, see what it said, step again. Each provider is called once in an attempt (once for each of its
 * keys, when a key is limited or refused): providers do not multiply retries. No answer of one ends it
 * for the others; refused by all of them it ends for good, which is the policy's word on `invalid`.
 */
#include "deliver/providers_internal.h"

#include "base/json_value.h"
#include "task/fields.h"

#include <stdlib.h>

#define REQUEST_MAX (64u << 20) /* of one request: far above any article */

static void wipe(struct buf *buf)
{
    for (volatile char *byte = buf->at; byte != NULL && byte < buf->at + buf->len; byte++) {
        *byte = 0; /* the key is in there (I10) */
    }
    buf_clear(buf);
}

struct flight *flight_new(struct providers *providers, struct delivery *whole)
{
    struct flight *flight = calloc(1, sizeof *flight);

    if (flight == NULL) {
        return NULL;
    }
    flight->owner = providers;
    flight->whole = whole;
    flight->step = FLIGHT_ENDED;
    providers->resting_count++;
    whole->carrier = flight;
    buf_init(&flight->url, REQUEST_MAX);
    buf_init(&flight->headers, REQUEST_MAX);
    buf_init(&flight->body, REQUEST_MAX);
    return flight;
}

void flight_free(struct flight *flight)
{
    flight->owner->resting_count -= flight->step != FLIGHT_CALLING;
    flight->whole->carrier = NULL;
    wipe(&flight->headers);
    buf_done(&flight->url);
    buf_done(&flight->headers);
    buf_done(&flight->body);
    delivery_done(&flight->leg);
    free(flight);
}

static void move(struct flight *flight, enum flight_step step)
{
    flight->owner->resting_count += step != FLIGHT_CALLING;
    flight->owner->resting_count -= flight->step != FLIGHT_CALLING;
    flight->step = step;
}

static void end(struct flight *flight)
{
    flight->whole->ended_at_ms = clock_wall_ms(flight->owner->options.clock);
    move(flight, FLIGHT_ENDED);
    flight->owner->has_ended = true;
}

/* --- begin ---------------------------------------------------------------------------------------- */

void flight_begin(struct flight *flight)
{
    struct delivery *whole = flight->whole;
    int64_t now_ms = clock_mono_ms(flight->owner->options.clock);
    struct error why = {0};

    whole->outcome = (struct outcome){.sent = TASK_SENT_NO};
    whole->message[0] = '\0';
    whole->sends = 0;
    whole->is_unframed = whole->is_uncounted = whole->is_short = false;
    whole->is_unnamed = whole->is_unvouched = false;
    whole->started_at_ms = clock_wall_ms(flight->owner->options.clock);
    whole->leg_count = 0;
    whole->settled_by = SPAN("");
    buf_init(&whole->response_headers, REQUEST_MAX);
    buf_init(&whole->response_body, REQUEST_MAX);
    if (whole->timeout_ms > 0) {
        flight->end_by_ms = now_ms + whole->timeout_ms;
    }
    if (article_read(whole->body, &flight->article, &why) != 0) {
        result_invalid(flight, why.text);
        end(flight);
        return;
    }
    book_order(flight);
    flight_step(flight, now_ms);
}

/* --- which provider ------------------------------------------------------------------------------- */

static size_t unasked_count(const struct flight *flight)
{
    size_t count = 0;

    for (size_t i = 0; i < flight->order_count; i++) {
        count += flight->tried[i] == 0;
    }
    return count;
}

/* 0: the provider may be called, with flight->now_key. Else how long until it may, or -1: no more in
 * this attempt. One that has not been asked has one of the attempt's calls for itself, however many
 * keys the others have. */
static int64_t pick_key(struct flight *flight, size_t at, int64_t now_ms)
{
    struct provider *provider = flight->order[at];
    size_t kept = flight->whole->leg_count + unasked_count(flight);

    if (flight->tried[at] != 0 && kept >= DELIVERY_LEGS_MAX) {
        return -1;
    }
    if (flight->whole->is_forced) {
        return book_pick_any_key(provider, flight->tried[at], &flight->now_key) ? 0 : -1;
    }
    return book_pick_key(provider, flight->tried[at], now_ms, &flight->now_key);
}

/* The first in order that may be called: 0. Else how long until one may, or -1: none is left. What is
 * avoided comes behind all others. */
static int64_t pick(struct flight *flight, int64_t now_ms)
{
    size_t avoided = flight->order_count, avoided_key = 0;
    int64_t least_ms = -1;

    for (size_t i = 0; i < flight->order_count; i++) {
        int64_t wait_ms = pick_key(flight, i, now_ms);
        bool is_open = wait_ms == 0;
        if (is_open && !book_is_avoided(flight->order[i], flight->now_key, now_ms)) {
            flight->now_provider = i;
            return 0;
        }
        if (is_open && avoided == flight->order_count) {
            avoided = i;
            avoided_key = flight->now_key;
        }
        least_ms = wait_ms > 0 && (least_ms < 0 || wait_ms < least_ms) ? wait_ms : least_ms;
    }
    if (avoided < flight->order_count) {
        flight->now_provider = avoided;
        flight->now_key = avoided_key;
        return 0;
    }
    return least_ms;
}

static int64_t smaller_time(int64_t at_ms, int64_t other_ms)
{
    return other_ms != 0 && other_ms < at_ms ? other_ms : at_ms;
}

/* How long a wait for a gate may last, from the first time on. */
static int64_t patience_ends(struct flight *flight, int64_t now_ms)
{
    if (flight->wait_until_ms == 0) {
        flight->wait_until_ms = now_ms + flight->whole->fallback->wait_under_ms;
    }
    int64_t until_ms = smaller_time(flight->wait_until_ms, flight->end_by_ms);
    return smaller_time(until_ms, flight->whole->send_until_ms);
}

int64_t flight_wait_ms(struct flight *flight, int64_t now_ms)
{
    int64_t wait_ms = pick(flight, now_ms), left_ms = patience_ends(flight, now_ms) - now_ms;

    wait_ms = wait_ms < left_ms ? wait_ms : left_ms;
    return wait_ms > 0 ? wait_ms : 0;
}

static void give_up(struct flight *flight, int64_t wait_ms, int64_t now_ms)
{
    if (flight->whole->leg_count == 0 && wait_ms > 0) {
        result_put_off(flight, wait_ms);
    } else {
        result_failed(flight, now_ms);
    }
    end(flight);
}

static bool call(struct flight *flight, int64_t now_ms);

/* A call that cannot even begin is a failure like another, and the next one is tried. */
void flight_step(struct flight *flight, int64_t now_ms)
{
    for (;;) {
        int64_t wait_ms = flight->is_cancelled ? -1 : pick(flight, now_ms);
        if (wait_ms == 0 && call(flight, now_ms)) {
            return;
        }
        if (wait_ms > 0 && now_ms + wait_ms <= patience_ends(flight, now_ms)) {
            move(flight, FLIGHT_WAITING);
            return;
        }
        if (wait_ms != 0) {
            give_up(flight, wait_ms, now_ms);
            return;
        }
    }
}

/* --- one call ------------------------------------------------------------------------------------- */

/* What is left of the task's own time is shared by those that have not been called. */
static int64_t timeout_of(const struct flight *flight, const struct provider_settings *settings,
                          int64_t now_ms)
{
    int64_t timeout_ms = settings->timeout_ms;
    size_t left = unasked_count(flight);

    if (flight->end_by_ms == 0) {
        return timeout_ms;
    }
    int64_t share_ms = (flight->end_by_ms - now_ms) / (int64_t)(left > 0 ? left : 1);
    share_ms = share_ms > 1 ? share_ms : 1;
    return share_ms < timeout_ms ? share_ms : timeout_ms;
}

/* Idempotency-Key: the same task at the same provider, however often. */
static int add_identity(struct flight *flight, const struct provider_settings *settings)
{
    struct buf key;

    buf_init(&key, REQUEST_MAX);
    int failed = buf_add(&key, flight->whole->task_id_text);
    failed = failed != 0 ? failed : buf_add(&key, SPAN("-"));
    failed = failed != 0 ? failed : buf_add(&key, settings->name);
    failed = failed != 0 ? failed
                         : fields_add(&flight->headers, SPAN("Idempotency-Key"), buf_span(&key));
    buf_done(&key);
    return failed;
}

static int write_request(struct flight *flight, const struct provider_settings *settings)
{
    const struct provider_format *format = provider_format_of(settings->kind);
    struct span path = settings->path.len > 0 ? settings->path : span_of(format->path);
    struct buf *headers = &flight->headers;

    wipe(headers);
    buf_clear(&flight->url);
    buf_clear(&flight->body);
    int failed = buf_add(&flight->url, settings->url);
    failed = failed != 0 ? failed : buf_add(&flight->url, path);
    failed = failed != 0 ? failed : format->add_request(settings, &flight->article, &flight->body);
    failed =
        failed != 0 ? failed : fields_add(headers, SPAN("Content-Type"), SPAN("application/json"));
    failed = failed != 0 ? failed : fields_add(headers, SPAN("Accept"), SPAN("application/json"));
    failed = failed != 0 ? failed : add_identity(flight, settings);
    failed = failed != 0 ? failed : buf_add(headers, settings->headers);
    return failed != 0 ? failed
                       : format->add_headers(settings, settings->keys[flight->now_key], headers);
}

static int send_leg(struct flight *flight, const struct provider_settings *settings, int64_t now_ms,
                    struct error *why)
{
    int failed = write_request(flight, settings);

    if (failed != 0) {
        return fail(why, (enum fault)failed, "no memory for a request");
    }
    delivery_done(&flight->leg);
    flight->leg = (struct delivery){
        .method = SPAN("POST"),
        .url = buf_span(&flight->url),
        .headers = buf_span(&flight->headers),
        .body = buf_span(&flight->body),
        .ca = settings->ca,
        .timeout_ms = timeout_of(flight, settings, now_ms),
        .response_max = flight->whole->response_max,
        .send_until_ms = flight->whole->send_until_ms,
        .right = flight->whole->right,
        .right_epoch = flight->whole->right_epoch,
        .repeatable = true,
        .sender = flight->whole->sender,
        .fallback = flight->whole->fallback, /* tells a leg from what only passes through */
        .started_at_ms = clock_wall_ms(flight->owner->options.clock),
    };
    return deliver_send(flight->owner->inner, &flight->leg, why);
}

static void take_failure(struct flight *flight, const struct verdict *verdict, int64_t now_ms);

/* True: it is under way. */
static bool call(struct flight *flight, int64_t now_ms)
{
    struct provider *provider = flight->order[flight->now_provider];
    struct gate *gate = &provider->keys[flight->now_key].gate;
    struct verdict verdict = {.error_class = DARUMA_CLASS_TRANSIENT};
    struct error why = {0};

    flight->pass = flight->whole->is_forced ? gate_force(gate) : gate_enter(gate, now_ms);
    provider->key_next = (flight->now_key + 1) % provider->settings->key_count;
    provider->stats.calls++;
    provider->stats.calls_under_way++;
    if (send_leg(flight, provider->settings, now_ms, &why) == 0) {
        move(flight, FLIGHT_CALLING);
        return true;
    }
    flight->leg.outcome = (struct outcome){.sent = TASK_SENT_NO};
    flight->leg.sends = 0;
    flight->leg.started_at_ms = flight->leg.ended_at_ms =
        clock_wall_ms(flight->owner->options.clock);
    memcpy(verdict.message, why.text, sizeof verdict.message - 1); /* both are 256 long */
    take_failure(flight, &verdict, now_ms);
    return false;
}

/* --- what it said --------------------------------------------------------------------------------- */

static void leave(struct flight *flight, enum gate_result result, int64_t now_ms)
{
    struct provider *provider = flight->order[flight->now_provider];

    provider->stats.calls_under_way--;
    flight->tried[flight->now_provider] |= 1u << flight->now_key;
    gate_leave(&provider->keys[flight->now_key].gate, flight->pass, result, now_ms);
    if (flight->pass != GATE_PASS_OPEN) {
        flight->owner->is_changed = true;
    }
}

static void take_failure(struct flight *flight, const struct verdict *verdict, int64_t now_ms)
{
    bool works = verdict->error_class == DARUMA_CLASS_INVALID;

    leave(flight, works ? GATE_ANSWERED : GATE_FAILED, now_ms);
    book_failed(flight, verdict, now_ms);
    result_note_leg(flight, verdict);
    result_note_failure(flight, verdict);
    flight->owner->is_changed = true;
}

/* Without an answer: what the deliverer behind says. A refusal of its own (a host that may not be
 * called) is the operator's business and says nothing about the article: the next one is tried. */
static void judge_silence(const struct delivery *leg, struct verdict *ret_verdict)
{
    bool is_refused = leg->outcome.error_class == DARUMA_CLASS_INVALID;

    *ret_verdict =
        (struct verdict){.error_class = leg->outcome.error_class,
                         .trouble = is_refused ? PROVIDER_TROUBLE_ADDRESS : PROVIDER_TROUBLE_NONE,
                         .has_hint = leg->outcome.has_hint,
                         .hint_ms = leg->outcome.hint_ms};
    memcpy(ret_verdict->message, leg->message, sizeof ret_verdict->message);
}

/* False: it has succeeded. */
static bool judge_leg(struct flight *flight, struct verdict *ret_verdict)
{
    const struct provider_settings *settings = flight->order[flight->now_provider]->settings;
    const struct delivery *leg = &flight->leg;

    if (leg->outcome.status == 0) {
        judge_silence(leg, ret_verdict);
        return true;
    }
    return classify_answer(
        &(struct classify_input){
            .kind = settings->kind,
            .status = leg->outcome.status,
            .headers = buf_span(&leg->response_headers),
            .body = buf_span(&leg->response_body),
            .has_hint = leg->outcome.has_hint,
            .hint_ms = leg->outcome.hint_ms,
            .now_ms = leg->ended_at_ms,
            .settings = settings,
        },
        ret_verdict);
}

void flight_leg_end(struct flight *flight)
{
    int64_t now_ms = clock_mono_ms(flight->owner->options.clock);
    struct verdict verdict;

    bool is_short =
        flight->leg.is_short && !flight->leg.is_unvouched; /* the next one has another */

    if (is_short && flight->whole->leg_count == 0) { /* no provider was called */
        leave(flight, flight->pass == GATE_PASS_OPEN ? GATE_ANSWERED : GATE_FAILED, now_ms);
        result_short(flight);
        end(flight);
        return;
    }
    if (!judge_leg(flight, &verdict) && result_succeeded(flight, &verdict)) {
        leave(flight, GATE_ANSWERED, now_ms);
        book_answered(flight);
        end(flight);
        return;
    }
    take_failure(flight, &verdict, now_ms);
    flight_step(flight, now_ms);
}

void flight_cancel(struct flight *flight)
{
    flight->is_cancelled = true;
    if (flight->step == FLIGHT_CALLING) {
        deliver_cancel(flight->owner->inner, &flight->leg);
    } else if (flight->step == FLIGHT_WAITING) {
        flight_step(flight, clock_mono_ms(flight->owner->options.clock));
    }
}
