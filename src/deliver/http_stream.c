/* SPDX-License-Identifier: MIT
 *
 * http_stream -- answers that are handed on as they come: longer than is kept, without room to be
 * collected in, or an event stream. Nothing more is read from the target than the receiver has asked
 * for, but for one piece. What has been collected before is told in pieces too, and counted until then.
 *
 *   header or too long --> head told --pull--> piece told --pull--> piece told ... --> done
 *                          libcurl is paused whenever a whole piece waits to be pulled
 *
 * The time-out of the whole becomes one of silence: a stream may take as long as it says something.
 */
#include "deliver/http_internal.h"
#include "task/fields.h"

/* Told at once, and waiting to be pulled before libcurl is paused: a receiver that does not read holds
 * no more than what is small. */
#define PIECE_BYTES ROOM_SMALL_BYTES

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
    transfer->piece = delivery->response_body; /* what has come so far is told first */
    transfer->piece.max = SIZE_MAX;
    transfer->piece_told = 0;
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

void http_stream_uncount(struct transfer *transfer)
{
    room_give(transfer->http->options.room, transfer->counted);
    transfer->counted = 0;
}

/* May it be collected, and told as a whole? */
static bool may_keep(struct transfer *transfer, size_t more)
{
    const struct delivery *delivery = transfer->delivery;
    size_t after = delivery->response_body.len + more;

    if (after > delivery->response_max) {
        return false;
    }
    if (after > transfer->counted) {
        if (!room_take_spare(transfer->http->options.room, transfer->counted, after,
                             delivery->response_max)) {
            return false;
        }
        transfer->counted = after;
    }
    return true;
}

static struct span waiting(const struct transfer *transfer)
{
    return span_from(buf_span(&transfer->piece), transfer->piece_told);
}

/* Some of the body. False: it is to be kept as any other. *ret_taken: what libcurl is to be told. */
bool http_stream_take(struct transfer *transfer, struct span bytes, size_t *ret_taken)
{
    if (!transfer->is_streaming) {
        if (!may_stream(transfer) || may_keep(transfer, bytes.len)) {
            return false;
        }
        begin(transfer);
    }
    if (waiting(transfer).len >= PIECE_BYTES) {
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

/* Gives back what was told. Without memory to do so now, at the next piece. */
static void shrink(struct transfer *transfer)
{
    struct span left = waiting(transfer);
    struct buf rest;

    buf_init(&rest, SIZE_MAX);
    if (left.len < PIECE_BYTES && (left.len == 0 || buf_add(&rest, left) == 0)) {
        buf_done(&transfer->piece);
        transfer->piece = rest;
        transfer->piece_told = 0;
        http_stream_uncount(transfer);
    }
}

/* The receiver may cancel it meanwhile. */
static void tell_piece(struct transfer *transfer)
{
    struct http *http = transfer->http;
    struct span part = span_until(waiting(transfer), PIECE_BYTES);
    char copy[PIECE_BYTES];

    span_copy(copy, part);
    transfer->piece_told += part.len;
    transfer->is_pulled = false;
    http->options.stream(http->options.stream_user, transfer->delivery,
                         (struct span){.at = copy, .len = part.len});
    shrink(transfer);
    if (transfer->is_paused && !transfer->has_ended && waiting(transfer).len < PIECE_BYTES) {
        transfer->is_paused = false;
        http_read_on(transfer);
    }
}

/* libcurl counts what it has written, and has read it before; from an earlier try, too, so only where
 * there was none. It reads the body again only to repeat the request, which the gate does not let out
 * any more. */
static void look_at_body(struct transfer *transfer)
{
    struct delivery *delivery = transfer->delivery;
    curl_off_t sent = 0;

    if (!delivery->is_body_spent && !transfer->has_ended && delivery->sends == 1 &&
        curl_easy_getinfo(transfer->easy, CURLINFO_SIZE_UPLOAD_T, &sent) == CURLE_OK) {
        delivery->is_body_spent = (uint64_t)sent >= transfer->hop.body.len;
    }
}

/* False: it has ended, and its last piece has been told. */
static bool tell(struct transfer *transfer)
{
    struct http *http = transfer->http;

    look_at_body(transfer);
    if (!transfer->is_head_told) {
        transfer->is_head_told = true;
        http->options.stream(http->options.stream_user, transfer->delivery,
                             (struct span){.at = NULL, .len = 0});
    } else if (transfer->is_pulled && waiting(transfer).len > 0) {
        tell_piece(transfer);
    }
    return !transfer->has_ended || waiting(transfer).len > 0;
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
    transfer->piece_told = 0;
    http_stream_uncount(transfer);
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
    if (waiting(transfer).len > 0) {
        http_stream_note(transfer);
    }
}

/* Nobody wants the rest of one that has ended. */
void http_stream_drop(struct transfer *transfer)
{
    if (transfer->is_streaming && transfer->has_ended) {
        buf_done(&transfer->piece);
        transfer->piece_told = 0;
        http_stream_uncount(transfer);
        transfer->is_head_told = true;
        http_stream_note(transfer);
    }
}
