/* SPDX-License-Identifier: MIT
 *
 * http_outcome -- what an ended transfer means: how far it got, its class, its hint, and why in
 * words. http.h says which is which.
 */
#include "deliver/http_internal.h"
#include "task/fields.h"

#include <daruma/retry_after.h>

#include <stdarg.h>
#include <stdio.h>

#define OS_REASON_MAX 128
#define MISSING_MAX   128

static void __attribute__((format(printf, 2, 3)))
say(struct delivery *delivery, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(delivery->message, sizeof delivery->message, format, arguments); /* or cut */
    va_end(arguments);
    for (char *at = delivery->message; *at != '\0'; at++) { /* some of it came from outside */
        if (*at < ' ' || *at > '~') {
            *at = '?';
        }
    }
}

/* A reason follows a colon, so it begins small, unless it is an abbreviation. */
static const char *begin_small(char *reason)
{
    if (reason[0] >= 'A' && reason[0] <= 'Z' && reason[1] >= 'a' && reason[1] <= 'z') {
        reason[0] = (char)(reason[0] - 'A' + 'a');
    }
    return reason;
}

static const char *reason_of(struct transfer *transfer, CURLcode code)
{
    if (transfer->reason[0] == '\0') {
        (void)snprintf(transfer->reason, sizeof transfer->reason, "%s", curl_easy_strerror(code));
    }
    return begin_small(transfer->reason);
}

static void say_not_connected(struct transfer *transfer, CURLcode code)
{
    char words[OS_REASON_MAX];
    long number = 0;

    (void)curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &number); /* 0: not known */
    if (number != 0 && strerror_r((int)number, words, sizeof words) == 0) {
        say(transfer->delivery, "connect: %s", begin_small(words));
    } else {
        say(transfer->delivery, "connect: %s", reason_of(transfer, code));
    }
}

static void say_cut_off(struct transfer *transfer)
{
    const struct answer_state *answer = &transfer->answer;

    if (answer->part == ANSWER_BODY) {
        say(transfer->delivery, "answer cut off after %zu bytes", answer->body_bytes);
    } else if (answer->part == ANSWER_FIELDS) {
        say(transfer->delivery, "answer cut off within its header");
    } else {
        say(transfer->delivery, "connection closed before the answer");
    }
}

static const char *why_malformed(const struct answer_state *answer)
{
    if (answer->is_misframed) {
        return "its length can be read in more than one way";
    }
    return answer->is_of_another ? "it is of another version than its connection"
                                 : "it switches to a protocol that was not asked for";
}

static void say_our_ending(struct transfer *transfer)
{
    struct delivery *delivery = transfer->delivery;
    const char *sent = task_sent_text(delivery->outcome.sent);

    switch (transfer->ending) {
    case ENDING_LATE:
        say(delivery, "too late to send (sent: %s)", sent);
        break;
    case ENDING_DISOWNED:
        say(delivery, "this node's lease is over (sent: %s)", sent);
        break;
    case ENDING_CANCELLED:
        say(delivery, "cancelled (sent: %s)", sent);
        break;
    case ENDING_UNWATCHED:
        say(delivery, "no memory to watch the connection (sent: %s)", sent);
        break;
    case ENDING_LINES:
        say(delivery, "answer_headers_too_large: over %d bytes or %d lines of header (sent: %s)",
            HTTP_ANSWER_LINES_MAX, HTTP_ANSWER_LINE_COUNT_MAX, sent);
        break;
    case ENDING_MALFORMED:
        say(delivery, "answer is not HTTP: %s", why_malformed(&transfer->answer));
        break;
    case ENDING_FOLD:
        say(delivery, "answer is not HTTP: it begins with a folded line");
        break;
    case ENDING_FRAMING:
        say(delivery, "answer_framing_too_large: over %u bytes that are no part of it (sent: %s)",
            HTTP_ANSWER_FRAMING_MAX, sent);
        break;
    case ENDING_EARLY:
        say(delivery, "the target sent bytes before it was asked (sent: %s)", sent);
        break;
    case ENDING_UNNAMED: /* where a redirect has led to */
        say(delivery, "no more names can be looked up (sent: %s)", sent);
        break;
    case ENDING_REFUSED: /* see is_refused */
    case ENDING_SPOILT:  /* it begins again */
    case ENDING_REPEAT:  /* libcurl repeats only what got no answer at all */
    case ENDING_NONE:
    default:
        say(delivery, "connection closed before the answer");
        break;
    }
}

static void say_shortage(struct delivery *delivery, int number)
{
    char words[OS_REASON_MAX] = "out of memory";

    (void)strerror_r(number, words, sizeof words); /* or what it is already */
    say(delivery, "this machine, not the target: %s (not sent)", begin_small(words));
}

/* What is to vouch for the target, a file of this machine, cannot be read (any more). */
static void say_no_authority(struct transfer *transfer)
{
    say(transfer->delivery, "this machine, not the target: tls: %s (not sent)",
        reason_of(transfer, CURLE_SSL_CACERT_BADFILE));
}

static void say_failure(struct transfer *transfer, CURLcode code)
{
    struct delivery *delivery = transfer->delivery;

    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        say(delivery, "resolve: %s", reason_of(transfer, code));
        break;
    case CURLE_COULDNT_CONNECT:
        say_not_connected(transfer, code);
        break;
    case CURLE_OPERATION_TIMEDOUT:
        say(delivery, "timeout after %ld ms (sent: %s)", http_timeout_ms(delivery),
            task_sent_text(delivery->outcome.sent));
        break;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE: /* of where a redirect has led to */
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
        say(delivery, "tls: %s", reason_of(transfer, code));
        break;
    case CURLE_OK: /* libcurl takes an end within the header for an end */
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        say_cut_off(transfer);
        break;
    case CURLE_BAD_FUNCTION_ARGUMENT: /* no other call has such an argument */
        say(delivery, "answer is not HTTP: a header line cannot be read");
        break;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
        say(delivery, "answer is not HTTP: %s", reason_of(transfer, code));
        break;
    default:
        say(delivery, "%s", reason_of(transfer, code));
        break;
    }
}

/* Of an answer: what of it is not kept, and why; empty: nothing is missing. */
static void write_missing(const struct transfer *transfer, char missing[MISSING_MAX])
{
    const struct answer_state *answer = &transfer->answer;

    missing[0] = '\0';
    if (answer->body_fault == FAULT_LIMIT) {
        (void)snprintf(missing, MISSING_MAX, "answer longer than %zu bytes, body not kept",
                       transfer->delivery->response_max);
    } else if (answer->body_fault != 0) {
        (void)snprintf(missing, MISSING_MAX, "no memory for the answer, body not kept");
    } else if (answer->field_count > HTTP_ANSWER_COUNT_MAX) {
        (void)snprintf(missing, MISSING_MAX, "more than %d header fields, some not kept",
                       HTTP_ANSWER_COUNT_MAX);
    } else if (answer->is_fields_cut) {
        (void)snprintf(missing, MISSING_MAX, "header fields over %d bytes, some not kept",
                       HTTP_ANSWER_FIELDS_MAX);
    } else if (answer->is_trailer_cut) {
        (void)snprintf(
            missing, MISSING_MAX,
            "answer_headers_too_large: over %d bytes or %d lines of trailers, not read on",
            HTTP_ANSWER_LINES_MAX, HTTP_ANSWER_LINE_COUNT_MAX);
    }
}

static void say_answer(struct transfer *transfer, int status)
{
    struct delivery *delivery = transfer->delivery;
    char missing[MISSING_MAX];

    write_missing(transfer, missing);
    if (status < 300) {
        say(delivery, "%s", missing);
    } else {
        say(delivery, "HTTP %d%s%s", status, missing[0] != '\0' ? ", " : "", missing);
    }
}

/* The answer's own Date is only something to count from, and takes long to read: it is when there
 * is a hint. */
static void read_hints(struct transfer *transfer)
{
    struct delivery *delivery = transfer->delivery;
    struct span fields = buf_span(&delivery->response_headers), rest = fields, name, value;
    struct daruma_hint hint;

    daruma_hint_init(&hint, delivery->ended_at_ms);
    while (fields_next(&rest, &name, &value)) {
        if (!span_is_nocase(name, "Date")) {
            daruma_hint_field(&hint, name.at, name.len, value.at, value.len);
        }
    }
    delivery->outcome.has_hint = daruma_hint_is_given(&hint);
    if (!delivery->outcome.has_hint) {
        delivery->outcome.hint_ms = 0;
        return;
    }
    for (rest = fields; fields_next(&rest, &name, &value);) {
        if (span_is_nocase(name, "Date")) {
            daruma_hint_field(&hint, name.at, name.len, value.at, value.len);
        }
    }
    delivery->outcome.hint_ms = daruma_hint_ms(&hint);
}

/* What came before a redirect was followed is no answer to what went out afterwards. */
bool http_outcome_is_whole(const struct transfer *transfer, CURLcode code)
{
    if (transfer->answer.part != ANSWER_BODY || transfer->ending != ENDING_NONE ||
        transfer->delivery->sends == transfer->hop.sends_before) {
        return false;
    }
    return code == CURLE_OK || (code == CURLE_WRITE_ERROR && (transfer->answer.body_fault != 0 ||
                                                              transfer->answer.is_trailer_cut));
}

/* HTTP/1 without length or chunks: the end is where the connection ends. */
static bool is_unframed(const struct transfer *transfer)
{
    const struct answer_state *answer = &transfer->answer;
    long version = 0;

    (void)curl_easy_getinfo(transfer->easy, CURLINFO_HTTP_VERSION, &version); /* 0: not known */
    return version <= CURL_HTTP_VERSION_1_1 && !answer->has_length && !answer->is_chunked &&
           answer->status != 204 && answer->status != 304 &&
           !span_is(transfer->delivery->method, "HEAD");
}

static void fill_answered(struct transfer *transfer)
{
    struct delivery *delivery = transfer->delivery;
    struct outcome *outcome = &delivery->outcome;

    outcome->sent = TASK_SENT_YES;
    outcome->status = transfer->answer.status;
    (void)daruma_class_of_status(outcome->status, &outcome->error_class); /* a success has none */
    delivery->is_unframed = is_unframed(transfer);
    if (transfer->answer.body_fault != 0) {
        buf_done(&delivery->response_body);
        delivery->is_omitted = true;
    }
    say_answer(transfer, outcome->status);
}

static void fill_unanswered(struct transfer *transfer, CURLcode code)
{
    struct delivery *delivery = transfer->delivery;
    bool is_malformed = delivery->sends == 0 && code == CURLE_URL_MALFORMAT;

    delivery->outcome.sent = delivery->sends == 0 ? TASK_SENT_NO : TASK_SENT_MAYBE;
    delivery->outcome.status = 0;
    delivery->outcome.timed_out =
        code == CURLE_OPERATION_TIMEDOUT && transfer->ending != ENDING_UNNAMED;
    delivery->outcome.error_class = is_malformed ? DARUMA_CLASS_INVALID : DARUMA_CLASS_TRANSIENT;
    buf_done(&delivery->response_headers);
    buf_done(&delivery->response_body);
    int shortage = delivery->sends == 0 ? http_shortage_of(transfer, code) : 0;
    delivery->is_unnamed = delivery->sends == 0 && transfer->ending == ENDING_UNNAMED;
    delivery->is_unvouched = delivery->sends == 0 && code == CURLE_SSL_CACERT_BADFILE;
    delivery->is_short = delivery->is_unnamed || delivery->is_unvouched || shortage != 0;
    delivery->is_uncounted =
        delivery->is_short || (transfer->ending == ENDING_DISOWNED && delivery->sends == 0);
    if (delivery->is_unnamed) {
        delivery->outcome.hint_ms = http_lookup_put_off_ms(transfer);
        say(delivery, "this machine, not the target: too many names are looked up (not sent)");
    } else if (delivery->is_unvouched) {
        delivery->outcome.hint_ms = HTTP_AUTHORITY_AGAIN_MS;
        say_no_authority(transfer);
    } else if (delivery->is_short) {
        say_shortage(delivery, shortage);
    } else if (transfer->ending != ENDING_NONE) {
        say_our_ending(transfer);
    } else {
        say_failure(transfer, code);
    }
}

void http_outcome_invalid(struct transfer *transfer, const char *why)
{
    struct delivery *delivery = transfer->delivery;

    delivery->ended_at_ms = clock_wall_ms(transfer->http->options.clock);
    delivery->outcome = (struct outcome){.sent = TASK_SENT_NO, .error_class = DARUMA_CLASS_INVALID};
    say(delivery, "%s", why);
}

/* Every address that its host has, or where the answer points to. */
static bool is_refused(const struct transfer *transfer, CURLcode code)
{
    if (transfer->ending == ENDING_REFUSED) {
        return true;
    }
    return transfer->refusal[0] != '\0' && transfer->ending == ENDING_NONE &&
           (code == CURLE_COULDNT_CONNECT || http_outcome_is_whole(transfer, code));
}

/* The redirect is the answer: nothing that came later has taken its place. */
static void fill_not_followed(struct transfer *transfer)
{
    fill_answered(transfer);
    say(transfer->delivery, "HTTP %d, not followed: %s", transfer->answer.status,
        transfer->refusal);
}

void http_outcome_fill(struct transfer *transfer, CURLcode code)
{
    transfer->delivery->ended_at_ms = clock_wall_ms(transfer->http->options.clock);
    if (transfer->answer.part == ANSWER_BODY) {
        read_hints(transfer);
    }
    if (is_refused(transfer, code) && transfer->delivery->sends == 0) {
        http_outcome_invalid(transfer, transfer->refusal);
    } else if (is_refused(transfer, code)) {
        fill_not_followed(transfer);
    } else if (http_outcome_is_whole(transfer, code)) {
        fill_answered(transfer);
    } else {
        fill_unanswered(transfer, code);
    }
}
