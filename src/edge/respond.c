/* SPDX-License-Identifier: MIT
 *
 * respond -- an exchange's answer, handed to libmicrohttpd. When there is no memory for that, one of
 * two answers that were made at the start goes out instead: which one depends on whether the engine
 * has seen the request (I7: what is refused leaves no trace, so what may have been recorded must not
 * look refused).
 */
#include "edge/edge_internal.h"

#include "edge/gateway.h"
#include "task/fields.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>

/* The body of an answer to HEAD, which nobody asks for. */
static ssize_t read_nothing(void *user, uint64_t at, char *into, size_t max)
{
    (void)user, (void)at, (void)into, (void)max;
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

static struct MHD_Response *make_body(struct response *response)
{
    if (response->fixed.at != NULL) {
        return MHD_create_response_from_buffer(response->fixed.len,
                                               (void *)(uintptr_t)response->fixed.at,
                                               MHD_RESPMEM_PERSISTENT); /* not written to */
    }
    if (response->shared != NULL) {
        struct span body = shared_body_span(response->shared);
        struct MHD_Response *made = MHD_create_response_from_buffer_with_free_callback(
            body.len, (void *)(uintptr_t)body.at, shared_body_release_bytes); /* not written to */
        if (made != NULL) {
            response->shared = NULL;
        }
        return made;
    }
    if (response->head_length > 0 && response->body.len == 0) {
        return MHD_create_response_from_callback(response->head_length, 1, read_nothing, NULL,
                                                 NULL);
    }
    size_t len;
    char *bytes = buf_take(&response->body, &len);
    if (bytes == NULL) {
        return MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    }
    struct MHD_Response *made = MHD_create_response_from_buffer(len, bytes, MHD_RESPMEM_MUST_FREE);
    if (made == NULL) {
        free(bytes);
    }
    return made;
}

/* Nothing for an empty value. */
static bool add_header(struct MHD_Response *made, const char *name, const char *value)
{
    return value == NULL || value[0] == '\0' ||
           MHD_add_response_header(made, name, value) == MHD_YES;
}

/* Each field's colon and line end become the NULs that libmicrohttpd wants. */
static bool add_fields(struct MHD_Response *made, struct buf *fields)
{
    struct span rest = buf_span(fields), name, value;

    while (fields_next(&rest, &name, &value)) {
        fields->at[name.at + name.len - fields->at] = '\0';
        fields->at[value.at + value.len - fields->at] = '\0';
        if (MHD_add_response_header(made, name.at, value.at) != MHD_YES && value.len > 0) {
            return false;
        }
    }
    return true;
}

static bool add_headers(struct MHD_Response *made, struct response *response)
{
    char seconds[16] = "";

    if (response->retry_after_s > 0) {
        (void)snprintf(seconds, sizeof seconds, "%d", response->retry_after_s); /* fits */
    }
    return add_fields(made, &response->fields) &&
           add_header(made, "Content-Type", response->content_type) &&
           add_header(made, "Location", response->location) &&
           add_header(made, "Allow", response->allow) && add_header(made, "Retry-After", seconds) &&
           add_header(made, "Idempotent-Replayed", response->is_replay ? "true" : NULL) &&
           add_header(made, "WWW-Authenticate", response->asks_who ? "Bearer" : NULL) &&
           add_header(made, "Connection", response->closes ? "close" : NULL);
}

static struct MHD_Response *make_response(struct response *response, struct exchange *exchange)
{
    bool is_streamed = response->stream.is_on && response->fixed.at == NULL;
    struct MHD_Response *made =
        is_streamed ? gateway_stream_response(exchange) : make_body(response);

    if (made != NULL && !add_headers(made, response)) {
        MHD_destroy_response(made);
        return NULL;
    }
    return made;
}

static uint64_t length_of(const struct response *response)
{
    if (response->fixed.at != NULL) {
        return response->fixed.len;
    }
    return response->shared != NULL ? shared_body_span(response->shared).len : response->body.len;
}

/* False: no room for it beside those of all others. A shared one is counted where it was made. */
static bool count_body(struct exchange *exchange)
{
    struct response *response = &exchange->response;

    if (response->fixed.at != NULL || response->body.len == 0) {
        return true;
    }
    if (!bodies_take(exchange->edge->bodies, 0, response->body.len)) {
        buf_done(&response->body);
        response->status = 503;
        return false;
    }
    response->counted = response->body.len;
    return true;
}

static void count_answer(struct exchange *exchange, const struct response *response)
{
    struct edge *edge = exchange->edge;
    enum engine_door door = exchange->gateway != NULL ? BY_GATEWAY : BY_API;
    int hundreds = response->status / 100;
    enum edge_code code = hundreds <= 2   ? CODE_2XX
                          : hundreds >= 5 ? CODE_5XX
                          : hundreds == 3 ? CODE_3XX
                                          : CODE_4XX;

    edge->request_count++;
    edge->refused_count += response->status >= 400;
    edge->answer_counts[door][response->is_relayed ? CODE_RELAYED : code]++;
}

/* With all places taken, a caller of whom nothing is known but that he asks gets one answer: else he
 * would keep his place by asking on. Where there are no tokens every caller of the api is known. */
static bool makes_room(const struct exchange *exchange)
{
    return exchange->gateway == NULL && exchange->roles == 0 &&
           !house_has_place(exchange->edge->connections.house, exchange->connection->door);
}

bool edge_respond(struct exchange *exchange, struct MHD_Connection *mhd)
{
    struct edge *edge = exchange->edge;
    struct response *response = &exchange->response;
    uint64_t len = length_of(response);
    enum MHD_Result queued;

    response->closes = response->closes || edge->is_draining || makes_room(exchange);
    struct MHD_Response *made = count_body(exchange) ? make_response(response, exchange) : NULL;
    if (made != NULL) {
        queued = MHD_queue_response(mhd, (unsigned)response->status, made);
        MHD_destroy_response(made); /* libmicrohttpd keeps its own hold on it */
    } else {
        bool is_unknown = exchange_lost_problem(exchange) == PROBLEM_STORE_UNKNOWN;
        queued = MHD_queue_response(mhd, 503, is_unknown ? edge->unknown : edge->overloaded);
        response->status = 503;
        response->is_relayed = false;
    }
    exchange->step = EXCHANGE_SENT;
    count_answer(exchange, response);
    connection_enter(&edge->connections, exchange->connection, PHASE_ANSWER, len);
    return queued == MHD_YES;
}

static struct MHD_Response *make_fixed(enum problem problem)
{
    struct response response = {.status = 503, .content_type = CONTENT_PROBLEM, .closes = true};
    struct writer writer = {.out = &response.body};

    buf_init(&response.body, EDGE_RESPONSE_BYTES_MAX);
    response.retry_after_s = problem_retry_after_s(problem);
    problem_write(&writer, problem, SPAN("out of memory"), SPAN(""));
    struct MHD_Response *made = writer.failed == 0 ? make_response(&response, NULL) : NULL;
    buf_done(&response.body);
    return made;
}

int edge_make_fixed_responses(struct edge *edge, struct error *err)
{
    edge->overloaded = make_fixed(PROBLEM_OVERLOADED);
    edge->unknown = make_fixed(PROBLEM_STORE_UNKNOWN);
    if (edge->overloaded == NULL || edge->unknown == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for the HTTP server");
    }
    return 0;
}

void edge_free_fixed_responses(struct edge *edge)
{
    if (edge->overloaded != NULL) {
        MHD_destroy_response(edge->overloaded);
    }
    if (edge->unknown != NULL) {
        MHD_destroy_response(edge->unknown);
    }
}
