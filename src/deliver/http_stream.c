/* SPDX-License-Identifier: MIT
 *
 * http_stream -- answers that are handed on as they come: longer than is kept, or an event stream.
 * Nothing more is read from the target than the receiver has asked for, but for one piece.
 *
 *   header or too long --> head told --pull--> piece told --pull--> piece told ... --> done
 *                          libcurl is paused whenever a whole piece waits to be pulled
 *
 * The time-out of the whole becomes one of silence: a stream may take as long as it says something.
 */
#include "deliver/http_internal.h"
#include "task/fields.h"

#define PIECE_BYTES 65536 /* that wait to be pulled; then libcurl is paused */

static bool is_event_stream(const struct delivery *delivery)
{
    struct span type;

    return fields_find(buf_span(&delivery->response_headers), "Content-Type", &type) &&
           span_is_nocase(span_until(type, strlen("text/event-stream")), "text/event-stream");
}

void http_stream_note(struct transfer *transfer)
{
    struct http *http = transfer->http;

    if (transfer->news_at == NULL) {
        transfer->news_next = NULL;
        transfer->news_at = http->news_last;
        *http->news_last = transfer;
        http->news_last = &transfer->news_next;
    }
    loop_hook_on(http->finishing);
}

/* Nothing is to be told of it any more. */
static void unnote(struct transfer *transfer)
{
    struct http *http = transfer->http;

    if (transfer->news_at == NULL) {
        return;
    }
    *transfer->news_at = transfer->news_next;
    if (transfer->news_next != NULL) {
        transfer->news_next->news_at = transfer->news_at;
    } else if (http->news_last == &transfer->news_next) {
        http->news_last = transfer->news_at;
    }
    transfer->news_at = NULL;
}

static void begin(struct transfer *transfer)
{
    struct http *http = transfer->http;
    struct delivery *delivery = transfer->delivery;
    long quiet_s = (http_timeout_ms(delivery) + 999) / 1000;

    transfer->is_streaming = true;
    transfer->stream_next = http->streams;
    transfer->stream_at = &http->streams;
    if (transfer->stream_next != NULL) {
        transfer->stream_next->stream_at = &transfer->stream_next;
    }
    http->streams = transfer;
    transfer->piece = delivery->response_body; /* what has come so far is the first piece */
    transfer->piece.max = SIZE_MAX;
    buf_init(&delivery->response_body, 0);
    delivery->is_omitted = true;
    delivery->outcome.status = transfer->answer.status;
    /* Refused only for values that are out of range. */
    (void)HTTP_SET(transfer, CURLOPT_TIMEOUT_MS, 0L);
    (void)HTTP_SET(transfer, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)HTTP_SET(transfer, CURLOPT_LOW_SPEED_TIME, quiet_s);
    http_stream_note(transfer);
}

static bool may_stream(const struct transfer *transfer)
{
    return transfer->delivery->is_proxied && transfer->http->options.stream != NULL;
}

/* The header is whole. */
void http_stream_look(struct transfer *transfer)
{
    if (may_stream(transfer) && is_event_stream(transfer->delivery)) {
        begin(transfer);
    }
}

/* Some of the body. False: it is to be kept as any other. *ret_taken: what libcurl is to be told. */
bool http_stream_take(struct transfer *transfer, struct span bytes, size_t *ret_taken)
{
    const struct delivery *delivery = transfer->delivery;

    if (!transfer->is_streaming) {
        bool is_long = delivery->response_body.len + bytes.len > delivery->response_max;
        if (!is_long || !may_stream(transfer)) {
            return false;
        }
        begin(transfer);
    } else if (transfer->piece.len >= PIECE_BYTES) {
        transfer->is_paused = true;
        *ret_taken = CURL_WRITEFUNC_PAUSE;
        return true;
    }
    *ret_taken = buf_add(&transfer->piece, bytes) == 0 ? bytes.len : 0; /* 0: libcurl ends it */
    if (transfer->is_pulled) {
        http_stream_note(transfer);
    }
    return true;
}

static void tell_piece(struct transfer *transfer)
{
    struct http *http = transfer->http;
    struct buf piece = transfer->piece;

    buf_init(&transfer->piece, SIZE_MAX);
    transfer->is_pulled = false;
    http->options.stream(http->options.stream_user, transfer->delivery, buf_span(&piece));
    buf_done(&piece);
    if (transfer->is_paused && !transfer->has_ended) {
        transfer->is_paused = false;
        http_read_on(transfer);
    }
}

/* False: it has ended, and its last piece has been told. */
static bool tell(struct transfer *transfer)
{
    struct http *http = transfer->http;

    if (!transfer->is_head_told) {
        transfer->is_head_told = true;
        http->options.stream(http->options.stream_user, transfer->delivery,
                             (struct span){.at = NULL, .len = 0});
    } else if (transfer->is_pulled && transfer->piece.len > 0) {
        tell_piece(transfer);
    }
    return !transfer->has_ended || transfer->piece.len > 0;
}

/* What there is to tell; what comes up meanwhile is told in the next turn. Those that have ended are
 * returned: the caller finishes them. */
struct transfer *http_stream_tell(struct http *http)
{
    struct transfer *ended = NULL, *told = http->news;

    if (told == NULL) {
        return NULL;
    }
    told->news_at = &told; /* a list of its own, so that this comes to an end */
    http->news = NULL;
    http->news_last = &http->news;
    while (told != NULL) {
        struct transfer *transfer = told;
        told = transfer->news_next;
        if (told != NULL) {
            told->news_at = &told;
        }
        transfer->news_at = NULL;
        if (!tell(transfer)) {
            http_stream_forget(transfer);
            transfer->next = ended;
            ended = transfer;
        }
    }
    return ended;
}

void http_stream_forget(struct transfer *transfer)
{
    unnote(transfer);
    *transfer->stream_at = transfer->stream_next;
    if (transfer->stream_next != NULL) {
        transfer->stream_next->stream_at = transfer->stream_at;
    }
    buf_done(&transfer->piece);
    transfer->is_streaming = transfer->is_head_told = transfer->is_pulled = false;
    transfer->is_paused = transfer->has_ended = false;
}

/* One that was cut off before its receiver knew of it is no answer, like any other. */
void http_stream_unbegin(struct transfer *transfer)
{
    struct delivery *delivery = transfer->delivery;

    if (transfer->is_streaming && !transfer->is_head_told &&
        delivery->outcome.sent != TASK_SENT_YES) {
        http_stream_forget(transfer);
        delivery->is_omitted = false;
    }
}

void http_stream_pull(struct deliver *deliver, struct delivery *delivery)
{
    struct transfer *transfer = delivery->carrier;

    (void)deliver;
    if (transfer == NULL || !transfer->is_streaming) {
        return;
    }
    transfer->is_pulled = true;
    if (transfer->piece.len > 0) {
        http_stream_note(transfer);
    }
}

/* Nobody wants the rest of one that has ended. */
void http_stream_drop(struct transfer *transfer)
{
    if (transfer->is_streaming && transfer->has_ended) {
        buf_done(&transfer->piece);
        transfer->is_head_told = true;
        http_stream_note(transfer);
    }
}
