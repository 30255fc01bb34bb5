/* SPDX-License-Identifier: MIT
 *
 * gateway -- see gateway.h.
 *
 *   headers --> begin: which route, whose key --.--> refused: 400, 401, 404
 *   body -----> run: one call of the engine ----+--> engine_submit | engine_pass | engine_ask
 *   reply <---- gateway_reply (gateway_reply.c) <'
 */
#include "edge/gateway.h"

#include "task/fields.h"
#include "task/route_headers.h"
#include "task/route_rename.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>

#define SCOPE_DETAIL_MAX  256
#define HEADERS_BYTES_MAX EDGE_REQUEST_BYTES
#define RENAMED                                                                                    \
    "the request asks for another HTTP method (by a header, a query parameter or a form field "    \
    "named _method, or a part whose name is encoded), which this route does not allow"
#define NEARLY            "nearly a route's: an upstream might read it as that route's path"
#define QUEUE_ROOM        (sizeof ROUTE_QUEUE_PREFIX + ROUTE_NAME_MAX)
#define SPARE_MAX         64           /* that are kept for the next request, */
#define SPARE_HEADERS_MAX 1024         /* each with as many bytes for its headers */
#define ARENA_BYTES_MAX   (300u << 20) /* the largest body that can be configured, and its copy */

/* --- memory ------------------------------------------------------------------------------------------ */

static struct gateway *gateway_new(struct edge *edge)
{
    struct gateway *gateway = edge->spare.first;

    if (gateway == NULL) {
        return calloc(1, sizeof *gateway);
    }
    edge->spare.first = gateway->next_spare;
    edge->spare.count--;
    struct buf headers = gateway->headers;
    *gateway = (struct gateway){.headers = headers};
    return gateway;
}

void gateway_free(struct edge *edge, struct gateway *gateway)
{
    if (gateway == NULL) {
        return;
    }
    if (gateway->headers.room > SPARE_HEADERS_MAX) {
        buf_done(&gateway->headers);
    }
    if (edge->spare.count == SPARE_MAX) {
        buf_done(&gateway->headers);
        free(gateway);
        return;
    }
    gateway->next_spare = edge->spare.first;
    edge->spare.first = gateway;
    edge->spare.count++;
}

void gateway_free_spare(struct edge *edge)
{
    while (edge->spare.first != NULL) {
        struct gateway *gateway = edge->spare.first;
        edge->spare.first = gateway->next_spare;
        buf_done(&gateway->headers);
        free(gateway);
    }
    edge->spare.count = 0;
}

/* --- headers ----------------------------------------------------------------------------------------- */

static enum MHD_Result keep_header(void *user, enum MHD_ValueKind kind, const char *name,
                                   size_t name_len, const char *value, size_t value_len)
{
    struct gateway *gateway = user;
    struct span content = {.at = value != NULL ? value : "", .len = value != NULL ? value_len : 0};

    (void)kind;
    if (guard_is_own_field(name)) {
        return MHD_YES;
    }
    return fields_copy(&gateway->headers, (struct span){.at = name, .len = name_len}, content) == 0
               ? MHD_YES
               : MHD_NO;
}

/* What the guard has let in, as it has. False: no memory. */
static bool keep_headers(struct gateway *gateway, struct MHD_Connection *mhd, int count)
{
    gateway->headers.max = HEADERS_BYTES_MAX * 2;
    buf_clear(&gateway->headers);
    return MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, keep_header, gateway) == count;
}

/* One on a socket of another kind has no address. */
static void write_peer(struct connection *connection, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *known =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = known != NULL ? known->client_addr : NULL;
    const void *bytes = NULL;

    if (address != NULL && address->sa_family == AF_INET) {
        bytes = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
    } else if (address != NULL && address->sa_family == AF_INET6) {
        bytes = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    }
    if (bytes == NULL ||
        inet_ntop(address->sa_family, bytes, connection->peer, sizeof connection->peer) == NULL) {
        connection->peer[0] = '\0';
    }
    connection->has_peer = true;
}

/* Of who is connected: written once, for all of his requests. */
static struct span peer_of(struct connection *connection, struct MHD_Connection *mhd)
{
    if (!connection->has_peer) {
        write_peer(connection, mhd);
    }
    return span_of(connection->peer);
}

static void refuse(struct exchange *exchange, enum route_problem problem, const char *detail)
{
    gateway_refuse_as(exchange,
                      &(struct route_refusal){.problem = problem, .detail = span_of(detail)});
}

/* --- whose request ----------------------------------------------------------------------------------- */

/* How often the route's header comes; *ret_value: the last one. */
static size_t count_header(struct span headers, struct span wanted, struct span *ret_value)
{
    struct span name, value;
    size_t count = 0;

    while (fields_next(&headers, &name, &value)) {
        if (name.len == wanted.len && span_is_nocase(name, wanted.at)) { /* settings end in NUL */
            *ret_value = value;
            count++;
        }
    }
    return count;
}

/* What the route knows its callers by. */
static bool find_scope(const struct route_settings *route, struct span headers,
                       struct span *ret_value)
{
    struct span value = {.at = "", .len = 0};

    if (route->scope == ROUTE_SCOPE_GLOBAL) {
        *ret_value = value;
        return true;
    }
    if (route->scope == ROUTE_SCOPE_HEADER) {
        *ret_value = value;
        return count_header(headers, route->scope_name, ret_value) == 1 && ret_value->len > 0;
    }
    return fields_find(headers, "Cookie", &value) &&
           route_cookie_find(value, route->scope_name, ret_value) && ret_value->len > 0;
}

int gateway_read_scope(struct gateway *gateway, const struct route_settings *route, bool *ret_found,
                       struct error *err)
{
    struct span value;

    *ret_found = find_scope(route, buf_span(&gateway->headers), &value);
    return *ret_found ? route_scope_text(route, value, gateway->scope, err) : 0;
}

/* Whose it is, or it is refused. */
static void know_scope(struct exchange *exchange, const struct route_settings *route)
{
    struct error error = {0};
    bool is_found = false;

    if (gateway_read_scope(exchange->gateway, route, &is_found, &error) != 0) {
        exchange_refuse_error(exchange, &error);
    } else if (!is_found) {
        char detail[SCOPE_DETAIL_MAX];
        (void)snprintf(detail, sizeof detail, /* cut where the name is long */
                       route->scope == ROUTE_SCOPE_COOKIE
                           ? "the cookie %.*s says whose key this is, and has to be there"
                           : "the header %.*s says whose key this is, and has to be there, once",
                       SPAN_ARGS(route->scope_name));
        refuse(exchange, ROUTE_PROBLEM_SCOPE_MISSING, detail);
    }
}

static bool is_safe(struct span method)
{
    return span_is(method, "GET") || span_is(method, "HEAD") || span_is(method, "OPTIONS");
}

static void read_preferences(struct gateway *gateway)
{
    struct span rest = buf_span(&gateway->headers), name, value;

    while (fields_next(&rest, &name, &value)) {
        if (span_is_nocase(name, "Prefer")) {
            prefer_read(&gateway->prefer, value);
        }
    }
}

/* How often the route's key header comes; *ret_text: the last one. The usual one has been counted. */
static size_t count_keys(const struct gateway *gateway, const struct guard_view *view,
                         struct span *ret_text)
{
    if (!span_is_nocase(gateway->route->header, "Idempotency-Key")) {
        return count_header(buf_span(&gateway->headers), gateway->route->header, ret_text);
    }
    *ret_text = view->key;
    return (size_t)view->key_count;
}

/* What passes by a route of optional keys may be a request of a route before it, whose keys are not. */
static bool slips_past(const struct exchange *exchange)
{
    const struct edge_options *options = &exchange->edge->options;
    const struct gateway *gateway = exchange->gateway;
    size_t count = (size_t)(gateway->route - options->routes);
    bool has_required = false;

    for (size_t i = 0; i < count && !has_required; i++) {
        has_required = options->routes[i].need == ROUTE_KEY_REQUIRED;
    }
    return has_required && route_like_find(options->routes, count, gateway->method,
                                           &gateway->target) == ROUTE_LIKE_METHOD;
}

static void begin_keyed(struct exchange *exchange, const struct guard_view *view)
{
    struct gateway *gateway = exchange->gateway;
    const struct route_settings *route = gateway->route;
    size_t count = count_keys(gateway, view, &gateway->key_text);

    bool is_passed = is_safe(gateway->method) || (count == 0 && route->need == ROUTE_KEY_OPTIONAL);
    if (is_passed && route_renames_method(buf_span(&gateway->headers), &gateway->target)) {
        refuse(exchange, ROUTE_PROBLEM_METHOD, RENAMED);
        return;
    }
    if (is_passed && !is_safe(gateway->method) && slips_past(exchange)) {
        refuse(exchange, ROUTE_PROBLEM_PATH, NEARLY);
        return;
    }
    if (is_passed) {
        gateway->kind = GATEWAY_PASS;
        return;
    }
    size_t index = (size_t)(route - exchange->edge->options.routes);
    if (route_is_behind(exchange->edge->options.routes, index, gateway->method, &gateway->target)) {
        refuse(exchange, ROUTE_PROBLEM_PATH, NEARLY);
        return;
    }
    if (count == 0) {
        refuse(exchange, ROUTE_PROBLEM_KEY_MISSING,
               "this request needs a key of its own: see the policy at " ROUTE_POLICY_PATH);
        return;
    }
    const char *why = count > 1 ? "more than one key"
                                : route_key_parse(gateway->key_text, route->is_strict,
                                                  gateway->key_room, &gateway->key);
    if (why == NULL && !route->derives_key) {
        why = route_probe_refuse_key(route, gateway->key);
    }
    if (why != NULL) {
        refuse(exchange, ROUTE_PROBLEM_KEY_INVALID, why);
        return;
    }
    gateway->kind = GATEWAY_KEYED;
    if (view->has_preference) {
        read_preferences(gateway);
    }
    know_scope(exchange, route);
}

/* --- which request ----------------------------------------------------------------------------------- */

static void begin_own(struct exchange *exchange)
{
    struct gateway *gateway = exchange->gateway;
    struct span rest = span_from(gateway->target.path, strlen(ROUTE_OWN_PATH));
    bool is_poll = span_starts(gateway->target.path, ROUTE_POLL_PATH);

    if (is_poll) {
        rest = span_from(gateway->target.path, strlen(ROUTE_POLL_PATH));
    }
    if (is_poll ? !id_parse(rest, &gateway->id) : !span_is(rest, "idempotency")) {
        refuse(exchange, is_poll ? ROUTE_PROBLEM_REQUEST_UNKNOWN : ROUTE_PROBLEM_NOT_FOUND, NULL);
        return;
    }
    if (!span_is(gateway->method, "GET") && !span_is(gateway->method, "HEAD")) {
        refuse(exchange, ROUTE_PROBLEM_METHOD, "only GET and HEAD");
        return;
    }
    gateway->kind = is_poll ? GATEWAY_POLL : GATEWAY_POLICY;
}

/* What the upstream could take for a route's request is not passed on beside the route. */
static void begin_pass(struct exchange *exchange)
{
    const struct edge_options *options = &exchange->edge->options;
    struct gateway *gateway = exchange->gateway;

    gateway->like =
        route_like_find(options->routes, options->route_count, gateway->method, &gateway->target);
    if (gateway->like == ROUTE_LIKE_METHOD) {
        refuse(exchange, ROUTE_PROBLEM_PATH, NEARLY);
    } else if (gateway->like == ROUTE_LIKE_PATH &&
               route_renames_method(buf_span(&gateway->headers), &gateway->target)) {
        refuse(exchange, ROUTE_PROBLEM_METHOD, RENAMED);
    } else {
        gateway->kind = GATEWAY_PASS;
    }
}

static void begin_routed(struct exchange *exchange, const struct guard_view *view)
{
    const struct edge_options *options = &exchange->edge->options;
    struct gateway *gateway = exchange->gateway;
    size_t index = 0;
    enum route_found found = route_find(options->routes, options->route_count, gateway->method,
                                        &gateway->target, &index);

    if (found == ROUTE_FOUND) {
        gateway->route = &options->routes[index];
        begin_keyed(exchange, view);
    } else if (found == ROUTE_FOUND_SLASH) {
        refuse(exchange, ROUTE_PROBLEM_PATH, "a slash at the end too many or too few for a route");
    } else if (options->pass.len == 0) {
        refuse(exchange, ROUTE_PROBLEM_NOT_FOUND, NULL);
    } else {
        begin_pass(exchange);
    }
}

void gateway_begin(struct exchange *exchange, struct MHD_Connection *mhd, struct span method,
                   const struct guard_view *view)
{
    struct gateway *gateway = gateway_new(exchange->edge);

    exchange->gateway = gateway;
    if (gateway == NULL || !keep_headers(gateway, mhd, view->header_count)) {
        exchange_refuse(exchange, PROBLEM_OVERLOADED, SPAN(""), SPAN(""));
        return;
    }
    gateway->peer = peer_of(exchange->connection, mhd);
    gateway->method = method;
    gateway->content_type = view->content_type.at != NULL ? view->content_type : SPAN("");
    const char *why = route_target_parse(span_of(exchange->connection->target), &gateway->target);
    if (why != NULL) {
        refuse(exchange, ROUTE_PROBLEM_PATH, why);
    } else if (!route_method_is_plain(method)) {
        refuse(exchange, ROUTE_PROBLEM_METHOD, "a method in small letters");
    } else if (span_starts(gateway->target.path, ROUTE_OWN_PATH)) {
        begin_own(exchange);
    } else {
        begin_routed(exchange, view);
    }
}

/* --- what goes on ------------------------------------------------------------------------------------ */

static struct span scope_header(const struct route_settings *route)
{
    bool has_one = route != NULL && route->scope == ROUTE_SCOPE_HEADER;

    return has_one ? route->scope_name : (struct span){.at = "", .len = 0};
}

static int fill_headers(const struct exchange *exchange, struct arena *arena,
                        struct span *ret_headers)
{
    const struct gateway *gateway = exchange->gateway;
    const struct route_settings *route = gateway->route;
    bool is_keyed = gateway->kind == GATEWAY_KEYED;
    char derived[ROUTE_DERIVED_TEXT_LEN + 1], written[ROUTE_KEY_WRITTEN_MAX];
    struct span key = {.at = "", .len = 0};
    struct buf headers;
    int failed = 0;

    buf_init(&headers, HEADERS_BYTES_MAX * 3);
    if (is_keyed && route->derives_key) {
        failed =
            route_key_derive(route->name, span_of(gateway->scope), gateway->key, derived, NULL);
        key = span_of(derived);
    } else if (is_keyed) {
        key = route_key_write(gateway->key, route->is_strict, written);
    }
    if (failed == 0) {
        failed = route_headers_forward(
            &(struct route_forward){.headers = buf_span(&gateway->headers),
                                    .key_header = is_keyed ? route->header : SPAN(""),
                                    .scope_header = scope_header(route),
                                    .is_keyed = is_keyed,
                                    .peer = gateway->peer,
                                    .scheme = exchange->edge->options.gateway_cert.len > 0
                                                  ? SPAN("https")
                                                  : SPAN("http")},
            &headers);
    }
    if (failed == 0 && is_keyed) {
        failed = fields_add(&headers, route->header, key);
    }
    *ret_headers = arena_copy(arena, buf_span(&headers));
    buf_done(&headers);
    return failed != 0 || ret_headers->at == NULL ? FAULT_MEMORY : 0;
}

static int fill_url(const struct exchange *exchange, struct arena *arena, struct span *ret_url)
{
    const struct gateway *gateway = exchange->gateway;
    const struct route_settings passed = {.upstream = exchange->edge->options.pass};
    struct buf url;

    buf_init(&url, PATH_BYTES_MAX + EDGE_REQUEST_BYTES);
    int failed =
        route_url(gateway->route != NULL ? gateway->route : &passed, gateway->target.whole, &url);
    *ret_url = arena_copy(arena, buf_span(&url));
    buf_done(&url);
    return failed != 0 || ret_url->at == NULL ? FAULT_MEMORY : 0;
}

/* By hand: it is made twice for each request. */
static struct span queue_name(const struct route_settings *route, char room[QUEUE_ROOM])
{
    const size_t prefix = strlen(ROUTE_QUEUE_PREFIX);

    memcpy(room, ROUTE_QUEUE_PREFIX, prefix);
    span_copy(room + prefix, route->name);
    return (struct span){.at = room, .len = prefix + route->name.len};
}

static int fill_submission(struct exchange *exchange, struct submission *submission,
                           struct error *err)
{
    const struct gateway *gateway = exchange->gateway;
    struct arena *arena = submission->arena;
    char room[QUEUE_ROOM];
    int failed = fill_url(exchange, arena, &submission->target);

    failed = failed != 0 ? failed : fill_headers(exchange, arena, &submission->headers);
    submission->method = arena_copy(arena, gateway->method);
    submission->body = arena_copy(arena, buf_span(&exchange->body));
    submission->route = gateway->route;
    submission->options.timeout_ms =
        gateway->route != NULL ? gateway->route->timeout_ms : ROUTE_TIMEOUT_MS;
    if (failed != 0 || submission->method.at == NULL || submission->body.at == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a request");
    }
    if (gateway->kind != GATEWAY_KEYED) {
        return 0;
    }
    submission->options.timeout_ms = 0; /* the queue's own */
    submission->queue = queue_name(gateway->route, room);
    submission->queue = arena_copy(arena, submission->queue);
    submission->key = arena_copy(arena, gateway->key);
    submission->scope = arena_copy(arena, span_of(gateway->scope));
    submission->wish = (struct route_wish){.is_async = gateway->prefer.is_async,
                                           .has_wait = gateway->prefer.has_wait,
                                           .wait_ms = gateway->prefer.wait_ms};
    if (submission->queue.at == NULL || submission->key.at == NULL ||
        submission->scope.at == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a request");
    }
    return submission->has_fingerprint ? 0 : gateway_fill_print(gateway, submission, err);
}

/* A kept answer that is at hand is worth no copy of the request. */
static bool replay(struct exchange *exchange, struct submission *submission, struct error *err)
{
    const struct gateway *gateway = exchange->gateway;
    struct engine *engine = exchange->edge->options.engine;
    char room[QUEUE_ROOM];

    submission->queue = queue_name(gateway->route, room);
    submission->key = gateway->key;
    submission->scope = span_of(gateway->scope);
    submission->body = buf_span(&exchange->body);
    exchange->step = EXCHANGE_ASKED;
    bool is_replayed =
        gateway_fill_print(gateway, submission, err) == 0 && engine_replay(engine, submission);
    if (!is_replayed) {
        exchange->step = EXCHANGE_READING;
    }
    return is_replayed;
}

static void submit(struct exchange *exchange)
{
    struct engine *engine = exchange->edge->options.engine;
    struct submission submission = {.exchange = exchange->id};
    struct error error = {0};
    bool is_keyed = exchange->gateway->kind == GATEWAY_KEYED;

    if (is_keyed && replay(exchange, &submission, &error)) {
        return;
    }
    submission.arena = arena_new(ARENA_BYTES_MAX);
    int failed = submission.arena == NULL ? fail(&error, FAULT_MEMORY, "no memory for a request")
                                          : fill_submission(exchange, &submission, &error);
    if (failed != 0) {
        arena_free(submission.arena);
        exchange_refuse_error(exchange, &error);
        return;
    }
    buf_done(&exchange->body);
    arena_count(submission.arena, exchange->edge->bodies->room, exchange->counted);
    exchange->counted = 0; /* it is in memory for as long as the engine needs it */
    exchange->step = EXCHANGE_ASKED;
    if (is_keyed) {
        engine_submit(engine, &submission); /* the arena is the engine's now */
    } else {
        engine_pass(engine, &submission);
    }
}

void gateway_run(struct exchange *exchange)
{
    if (gateway_read_aside(exchange)) {
        return;
    }
    switch (exchange->gateway->kind) {
    case GATEWAY_PASS:
        if (gateway_form_renames(exchange)) {
            refuse(exchange, ROUTE_PROBLEM_METHOD, RENAMED);
            break;
        }
        submit(exchange);
        break;
    case GATEWAY_KEYED:
        submit(exchange);
        break;
    case GATEWAY_POLL:
        exchange->step = EXCHANGE_ASKED;
        engine_ask(
            exchange->edge->options.engine,
            &(struct ask){.kind = ASK_POLL, .exchange = exchange->id, .id = exchange->gateway->id});
        break;
    case GATEWAY_POLICY:
        gateway_policy(exchange);
        break;
    }
}
