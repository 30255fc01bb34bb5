/* SPDX-License-Identifier: MIT
 *
 * receive -- libmicrohttpd's callbacks, in the order of a request. The same one is called for the
 * headers, for each piece of the body, for its end, and once more after a resume; what is done each
 * time depends on the exchange's step alone.
 *
 *   target --> headers: begin --> body: take_body ... --> end: run, and answer or suspend
 *                                                           '--> resumed: end: answer --> completed
 */
#include "edge/receive.h"

#include "edge/gateway.h"
#include "edge/guard.h"

#include <sys/socket.h>

#define AS_TEXT(number) #number
#define TEXT_OF(number) AS_TEXT(number)
#define TARGET_LIMITS                                                                              \
    "a target has up to " TEXT_OF(PATH_BYTES_MAX) " bytes and " TEXT_OF(                           \
        EDGE_PARAMETERS_MAX) " parameters"
#define HEADER_LIMITS                                                                              \
    "request line and header fields have up to " TEXT_OF(                                          \
        EDGE_REQUEST_BYTES) " bytes, 64 more for each field and parameter"

void receive_connection(void *user, struct MHD_Connection *mhd, void **socket_context,
                        enum MHD_ConnectionNotificationCode code)
{
    struct listener *listener = user;
    struct edge *edge = listener->edge;

    listener->heard++;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        connection_free(&edge->connections, *socket_context);
        *socket_context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *found =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct connection *connection =
        connection_new(&edge->connections, found->connect_fd, listener_door(listener));
    if (connection == NULL) {
        (void)shutdown(found->connect_fd, SHUT_RDWR); /* no memory to know it by */
        return;
    }
    connection->listener = listener;
    connection->mhd = mhd;
    *socket_context = connection;
}

void *receive_target(void *user, const char *target, struct MHD_Connection *mhd)
{
    struct connection *connection =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    size_t len = target != NULL ? strlen(target) : 0;

    ((struct listener *)user)->heard++;
    if (connection == NULL) {
        return NULL;
    }
    guard_hide_cookies(mhd);
    connection->target_is_long =
        len > PATH_BYTES_MAX || (len > 0 && guard_has_many_parameters(target));
    if (connection->target_is_long) {
        guard_hide_parameters(target);
        connection_set_target(connection, (struct span){0});
    } else {
        connection_set_target(connection,
                              (struct span){.at = target != NULL ? target : "", .len = len});
    }
    return connection;
}

/* Framing that could be read in two ways: answered now, before a byte of the body. */
static bool pass_guard(struct exchange *exchange, struct MHD_Connection *mhd,
                       const struct guard_line *line, struct guard_view *ret_view)
{
    const char *detail = NULL;
    enum problem problem = guard_check(mhd, line, ret_view, &detail);

    if (problem == PROBLEM_NONE && !ret_view->leaves_room) {
        problem = PROBLEM_HEADERS_TOO_LARGE;
        detail = HEADER_LIMITS;
    }
    if (problem == PROBLEM_NONE) {
        return true;
    }
    exchange->response.closes = true;
    exchange_refuse(exchange, problem, span_of(detail), SPAN(""));
    return false;
}

/* Who it is; false: refused, as it could not even be found out. */
static bool know(struct exchange *exchange, struct span authorization)
{
    struct error error = {0};
    struct caller caller;

    if (tokens_know(&exchange->edge->tokens, authorization, &caller, &error) != 0) {
        exchange_refuse_error(exchange, &error);
        return false;
    }
    exchange->roles = caller.roles;
    exchange->reach = caller.reach;
    exchange->who = caller.name;
    exchange->token = caller.number;
    return true;
}

static void find_route(struct exchange *exchange, struct span method)
{
    enum path_result result = path_parse(exchange->connection->target, &exchange->path);

    if (result == PATH_OK) {
        routes_find(exchange, method);
    } else if (exchange->roles == 0) {
        routes_refuse_stranger(exchange);
    } else if (result == PATH_BAD) {
        exchange_refuse(exchange, PROBLEM_INVALID, SPAN("the target is malformed"), SPAN(""));
    } else {
        exchange_refuse(exchange, PROBLEM_NOT_FOUND, SPAN(""), SPAN(""));
    }
}

/* Whose page sends it, and for whom it is meant: what a browser does for a page of another site is
 * refused for every caller. */
static bool pass_origin(struct exchange *exchange, struct span method,
                        const struct guard_view *view)
{
    const struct edge_options *options = &exchange->edge->options;
    const struct origin_rule rule = {.is_tls = options->tls_cert.len > 0,
                                     .knows_hosts =
                                         options->token_count == 0 || options->host_count > 0,
                                     .listen = options->host,
                                     .hosts = options->hosts,
                                     .host_count = options->host_count};
    enum problem problem =
        origin_check(&rule, &(struct origin_view){.method = method,
                                                  .target = span_of(exchange->connection->target),
                                                  .host = view->host,
                                                  .origin = view->origin,
                                                  .site = view->fetch_site,
                                                  .mode = view->fetch_mode,
                                                  .is_ahead = view->is_ahead});

    if (problem == PROBLEM_NONE && view->is_of_two_origins) {
        exchange->response.closes = true;
        problem = PROBLEM_CROSS_SITE;
    }
    if (problem == PROBLEM_NONE) {
        return true;
    }
    exchange_refuse(exchange, problem,
                    problem == PROBLEM_HOST_UNKNOWN
                        ? SPAN("Host is neither loopback nor the listen address nor in api.hosts")
                        : SPAN(""),
                    SPAN(""));
    return false;
}

/* What can be known before the body. A refusal waits until the body has been read and dropped: an
 * answer in the middle of an upload is a reset, and the caller would never read it. */
static void look_ahead(struct exchange *exchange, struct span method, const struct guard_view *view)
{
    exchange->key = view->key;
    exchange->accept = view->accept;
    if (!pass_origin(exchange, method, view)) {
        return;
    }
    if (view->key_count > 1) {
        exchange->response.closes = true;
        exchange_refuse(exchange, PROBLEM_INVALID, SPAN("Idempotency-Key is given twice"),
                        SPAN(""));
    } else if (know(exchange, view->authorization)) {
        find_route(exchange, method);
    }
}

/* With nothing of the body sent, or too much of it to come, the answer need not or cannot wait. */
static bool answers_now(const struct exchange *exchange, const struct guard_view *view)
{
    uint64_t drop_max =
        (uint64_t)exchange->edge->options.limits.body_bytes_max * EDGE_SWALLOW_TIMES;

    return exchange->step == EXCHANGE_ANSWERED &&
           (view->expects_continue || view->content_length > drop_max);
}

static enum MHD_Result begin(struct connection *connection, struct MHD_Connection *mhd,
                             struct guard_line *line)
{
    struct edge *edge = connection->listener->edge;
    struct exchange *exchange = exchange_open(&edge->exchanges);
    struct guard_view view;

    if (exchange == NULL || (connection->target == NULL && !connection->target_is_long)) {
        if (exchange != NULL) {
            exchange_close(&edge->exchanges, exchange);
        }
        return MHD_queue_response(mhd, 503, edge->overloaded);
    }
    exchange->edge = edge;
    exchange->connection = connection;
    connection->exchange = exchange;
    connection_enter(&edge->connections, connection, PHASE_BODY, 0);
    if (connection->target_is_long) {
        exchange->response.closes = true;
        exchange_refuse(exchange, PROBLEM_TARGET_TOO_LONG, SPAN(TARGET_LIMITS), SPAN(""));
        return edge_respond(exchange, mhd) ? MHD_YES : MHD_NO;
    }
    line->raw = span_of(connection->target);
    if (!pass_guard(exchange, mhd, line, &view)) {
        return edge_respond(exchange, mhd) ? MHD_YES : MHD_NO;
    }
    /* Where chunks end, libmicrohttpd may see otherwise than a proxy in front: it takes a bare line
     * feed. And behind a CONNECT come bytes for the other end of a tunnel, which this server never
     * opens. Nothing can hide behind the last request of a connection. */
    exchange->response.closes = view.is_chunked || strcmp(line->method, "CONNECT") == 0;
    buf_init(&exchange->body, edge->options.limits.body_bytes_max);
    if (connection->listener == &edge->gateway) {
        gateway_begin(exchange, mhd, span_of(line->method), &view);
    } else {
        look_ahead(exchange, span_of(line->method), &view);
    }
    if (view.content_length > edge->options.limits.body_bytes_max) {
        exchange_refuse(exchange, PROBLEM_TOO_LARGE, SPAN("the body is over the limit"), SPAN(""));
    }
    if (answers_now(exchange, &view)) {
        exchange->response.closes = true;
        return edge_respond(exchange, mhd) ? MHD_YES : MHD_NO;
    }
    return MHD_YES;
}

/* Some of the body. */
static enum MHD_Result take_body(struct exchange *exchange, struct span bytes)
{
    uint64_t drop_max =
        (uint64_t)exchange->edge->options.limits.body_bytes_max * EDGE_SWALLOW_TIMES;

    exchange->received += bytes.len;
    if (exchange->step == EXCHANGE_READING) {
        if (!bodies_take(exchange->edge->bodies, exchange->counted,
                         exchange->counted + bytes.len)) {
            exchange_refuse(exchange, PROBLEM_OVERLOADED,
                            SPAN("the bodies of all callers together are over limits.bodies"),
                            SPAN(""));
            return MHD_YES;
        }
        exchange->counted += bytes.len;
        int failed = buf_add(&exchange->body, bytes);
        if (failed == FAULT_LIMIT) {
            exchange_refuse(exchange, PROBLEM_TOO_LARGE, SPAN("the body is over the limit"),
                            SPAN(""));
        } else if (failed != 0) {
            exchange_refuse(exchange, PROBLEM_OVERLOADED, SPAN(""), SPAN(""));
        }
        return MHD_YES;
    }
    return exchange->received > drop_max ? MHD_NO : MHD_YES;
}

/* What came behind a body of chunks. */
static bool has_long_trailers(struct MHD_Connection *mhd)
{
    return MHD_get_connection_values_n(mhd, MHD_FOOTER_KIND, NULL, NULL) > 0 &&
           !guard_leaves_room(mhd);
}

/* The request is whole; or it has been, and the connection was resumed for the answer. */
static enum MHD_Result end(struct exchange *exchange, struct MHD_Connection *mhd)
{
    struct edge *edge = exchange->edge;

    if (exchange->step == EXCHANGE_READING) {
        connection_enter(&edge->connections, exchange->connection, PHASE_ENGINE, 0);
        if (edge->is_closing) {
            exchange_refuse(exchange, PROBLEM_DRAINING, SPAN(""), SPAN(""));
        } else if (has_long_trailers(mhd)) {
            exchange->response.closes = true;
            exchange_refuse(exchange, PROBLEM_HEADERS_TOO_LARGE, SPAN(HEADER_LIMITS), SPAN(""));
        } else if (exchange->gateway != NULL) {
            gateway_run(exchange);
        } else {
            routes_run(exchange);
        }
    }
    if (exchange->step == EXCHANGE_ANSWERED) {
        return edge_respond(exchange, mhd) ? MHD_YES : MHD_NO;
    }
    MHD_suspend_connection(mhd);
    exchange->is_suspended = true;
    if (exchange->gateway != NULL || edge_is_list(exchange)) {
        edge_watch_leavers(edge);
    }
    return MHD_YES;
}

/* Eight parameters: libmicrohttpd's wish. */
enum MHD_Result receive_request(void *user, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_len, void **context)
{
    struct connection *connection = *context;

    ((struct listener *)user)->heard++;
    if (connection == NULL) {
        return MHD_NO;
    }
    if (connection->exchange == NULL) {
        struct guard_line line = {.method = method, .url = url, .version = version};
        return begin(connection, mhd, &line);
    }
    if (*upload_len == 0) {
        return end(connection->exchange, mhd);
    }
    struct span bytes = {.at = upload, .len = *upload_len};
    *upload_len = 0;
    return take_body(connection->exchange, bytes);
}

void receive_completed(void *user, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode code)
{
    struct edge *edge = ((struct listener *)user)->edge;
    struct connection *connection = *context;

    (void)mhd, (void)code;
    ((struct listener *)user)->heard++;
    if (connection == NULL) {
        return;
    }
    *context = NULL;
    if (connection->exchange != NULL) {
        edge_stop_waiting(connection->exchange);
        gateway_stream_leave(connection->exchange);
        exchange_close(&edge->exchanges, connection->exchange);
        connection->exchange = NULL;
    }
    connection_set_target(connection, (struct span){0});
    connection_enter(&edge->connections, connection, PHASE_IDLE, 0);
}
