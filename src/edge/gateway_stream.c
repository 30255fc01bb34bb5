/* SPDX-License-Identifier: MIT
 *
 * gateway_stream -- an answer that is handed on as it comes, with back-pressure: libmicrohttpd asks for
 * bytes when the caller's socket takes them; when a piece is used up the engine is asked for the next,
 * and until it comes the connection is suspended.
 */
#include "edge/gateway.h"

#include <microhttpd.h>

#define BLOCK_BYTES 32768 /* that libmicrohttpd asks for at once */

static void ask_for_more(struct exchange *exchange)
{
    struct response *response = &exchange->response;

    if (!response->stream.is_asked && !response->stream.is_over) {
        response->stream.is_asked = true;
        engine_more(exchange->edge->options.engine, exchange->id);
    }
}

static ssize_t give(struct exchange *exchange, char *into, size_t max)
{
    struct response *response = &exchange->response;
    struct span left = span_from(buf_span(&response->stream.piece), response->stream.sent);
    size_t len = left.len < max ? left.len : max;

    span_copy(into, span_until(left, len));
    response->stream.sent += len;
    if (response->stream.sent == response->stream.piece.len) {
        buf_done(&response->stream.piece);
        response->stream.sent = 0;
        ask_for_more(exchange);
    }
    connection_enter(&exchange->edge->connections, exchange->connection, PHASE_ANSWER, len);
    return (ssize_t)len;
}

/* A connection that is suspended writes its header meanwhile. */
static ssize_t wait(struct exchange *exchange)
{
    MHD_suspend_connection(exchange->connection->mhd);
    exchange->is_suspended = true;
    exchange->response.stream.is_head_out = true;
    edge_watch_leavers(exchange->edge);
    connection_enter(&exchange->edge->connections, exchange->connection, PHASE_ENGINE, 0);
    return 0;
}

/* libmicrohttpd asks for the body before it writes the header, and closes the connection without a
 * word when there is none. What is recorded is told: the header first, then the cut. */
static ssize_t end(struct exchange *exchange)
{
    const struct response *response = &exchange->response;

    if (!response->stream.is_cut) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (response->stream.is_head_out) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    (void)wait(exchange);
    edge_make_ready(exchange);
    return 0;
}

static ssize_t read_stream(void *user, uint64_t at, char *into, size_t max)
{
    struct exchange *exchange = user;
    struct response *response = &exchange->response;

    (void)at;
    if (response->stream.piece.len > 0) {
        response->stream.is_head_out = true; /* it goes out with the piece */
        return give(exchange, into, max);
    }
    if (response->stream.is_over) {
        return end(exchange);
    }
    ask_for_more(exchange);
    return wait(exchange);
}

struct MHD_Response *gateway_stream_response(struct exchange *exchange)
{
    uint64_t length = exchange->response.stream.length;

    return MHD_create_response_from_callback(length > 0 ? length : MHD_SIZE_UNKNOWN, BLOCK_BYTES,
                                             read_stream, exchange, NULL);
}

/* Only passed on, and nothing has gone out yet: there is a better word for it than a broken answer. */
static void refuse_cut(struct exchange *exchange)
{
    buf_done(&exchange->response.fields);
    buf_done(&exchange->response.body);
    exchange->response = (struct response){.closes = exchange->response.closes};
    exchange->step = EXCHANGE_ASKED;
    gateway_refuse_as(exchange,
                      &(struct route_refusal){
                          .problem = ROUTE_PROBLEM_UPSTREAM,
                          .detail = SPAN("the upstream broke off before its answer's first byte")});
}

void gateway_stream_take(struct exchange *exchange, const struct route_reply *said)
{
    struct response *response = &exchange->response;

    if (said->said == ROUTE_SAID_CUT && exchange->step == EXCHANGE_ANSWERED &&
        response->stream.piece.len == 0 && exchange->gateway->kind != GATEWAY_KEYED) {
        refuse_cut(exchange);
        return;
    }
    if (said->said == ROUTE_SAID_PIECE) {
        response->stream.is_asked = false;
        response->stream.piece.max = SIZE_MAX;
        if (buf_add(&response->stream.piece, said->answer->body) != 0) {
            /* No memory for it. The engine goes on without the caller once he has been cut off. */
            response->stream.is_over = response->stream.is_cut = true;
        }
    } else {
        response->stream.is_over = response->stream.has_ended = true;
        response->stream.is_cut = said->said == ROUTE_SAID_CUT;
    }
    if (exchange->is_suspended && exchange->step == EXCHANGE_SENT) {
        edge_make_ready(exchange);
    }
}

/* Nothing more goes to him; the engine is told when the connection is closed. */
void gateway_stream_dismiss(struct exchange *exchange)
{
    struct response *response = &exchange->response;

    response->stream.is_over = response->stream.is_cut = true;
    buf_done(&response->stream.piece);
    response->stream.sent = 0;
    edge_make_ready(exchange);
}

void gateway_stream_leave(struct exchange *exchange)
{
    if (exchange->response.stream.is_on && !exchange->response.stream.has_ended) {
        engine_leave(exchange->edge->options.engine, exchange->id);
    }
}
