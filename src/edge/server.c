/* SPDX-License-Identifier: MIT
 *
 * server -- the edge on its loop. Exchanges that were answered while libmicrohttpd's side of them was
 * suspended are resumed from one place only, the pump, once a turn right before the loop waits.
 *
 *   a suspended exchange is answered -> ready --> pump: resume the ready ones, run the listener
 *                                                 '--- and again, without waiting, while it says so
 */
#include "edge/api.h"
#include "edge/aside.h"
#include "edge/gateway.h"
#include "edge/receive.h"
#include "edge/tls.h"

#include <stdlib.h>
#include <string.h>

#define CLOSE_ROUNDS_MAX 1000 /* turns of libmicrohttpd that the last answers get */

void edge_make_ready(struct exchange *exchange)
{
    struct edge *edge = exchange->edge;

    if (exchange->is_ready) {
        return;
    }
    exchange->is_ready = true;
    exchange->next_ready = edge->ready;
    edge->ready = exchange;
    loop_hook_on(edge->idle); /* the pump may have run in this turn */
}

static void resume_ready(struct edge *edge)
{
    while (edge->ready != NULL) {
        struct exchange *exchange = edge->ready;
        edge->ready = exchange->next_ready;
        exchange->is_suspended = exchange->is_ready = false;
        MHD_resume_connection(exchange->connection->mhd);
        exchange->connection->listener->wants_run = true;
    }
}

static void publish(const struct edge *edge)
{
    struct edge_published *into = edge->published;
    struct edge_stats stats;

    edge_stats(edge, &stats);
    atomic_store_explicit(&into->requests, stats.requests, memory_order_relaxed);
    atomic_store_explicit(&into->refused, stats.refused, memory_order_relaxed);
    for (int i = 0; i < BY_COUNT * CODE_COUNT; i++) {
        atomic_store_explicit(&into->answers[i / CODE_COUNT][i % CODE_COUNT],
                              stats.answers[i / CODE_COUNT][i % CODE_COUNT], memory_order_relaxed);
    }
    atomic_store_explicit(&into->cut, stats.cut, memory_order_relaxed);
    atomic_store_explicit(&into->connections, stats.connections, memory_order_relaxed);
    atomic_store_explicit(&into->waiters, stats.waiters, memory_order_relaxed);
    atomic_store(&into->is_drained, edge->is_draining && edge_is_drained(edge));
}

static void pump(void *user)
{
    struct edge *edge = user;

    if (edge->crossing == NULL) {
        leases_flush_returns(&edge->returns, edge->options.engine);
    }
    resume_ready(edge);
    listener_run(&edge->api);
    listener_run(&edge->gateway);
    if (edge->api.wants_run || edge->gateway.wants_run || edge->ready != NULL) {
        loop_hook_on(edge->idle);
    } else {
        loop_hook_off(edge->idle);
    }
    if (edge->published != NULL) {
        publish(edge);
    }
}

/* While this hook is on, the loop does not wait. */
static void on_idle(void *user)
{
    (void)user;
}

static void on_room(void *user, enum connection_door door)
{
    struct edge *edge = user;

    listener_reopen(door == DOOR_GATEWAY ? &edge->gateway : &edge->api);
}

static struct edge_limits complete(struct edge_limits limits)
{
    return (struct edge_limits){
        .body_bytes_max = limits.body_bytes_max ? limits.body_bytes_max : EDGE_BODY_BYTES_MAX,
        .bodies_bytes_max = limits.bodies_bytes_max ? limits.bodies_bytes_max : EDGE_BODIES_BYTES,
        .connections_max = limits.connections_max ? limits.connections_max : EDGE_CONNECTIONS_MAX,
        .files_max = limits.files_max,
        .waiters_max = limits.waiters_max ? limits.waiters_max : EDGE_WAITERS_MAX,
        .header_time_ms = limits.header_time_ms ? limits.header_time_ms : EDGE_HEADER_TIME_MS,
        .idle_time_ms = limits.idle_time_ms ? limits.idle_time_ms : EDGE_IDLE_TIME_MS,
        .leave_check_ms = limits.leave_check_ms ? limits.leave_check_ms : EDGE_LEAVE_CHECK_MS,
        .grace_ms = limits.grace_ms ? limits.grace_ms : EDGE_GRACE_MS,
    };
}

static int join_loop(struct edge *edge, struct error *err)
{
    struct loop *loop = edge->options.loop;
    int failed = loop_hook_new(loop, LOOP_HOOK_BEFORE_WAIT, pump, edge, &edge->before_wait, err);

    failed =
        failed != 0 ? failed : loop_hook_new(loop, LOOP_HOOK_IDLE, on_idle, edge, &edge->idle, err);
    failed = failed != 0
                 ? failed
                 : loop_timer_new(loop, edge_look_for_leavers, edge, &edge->leave_timer, err);
    if (failed == 0) {
        loop_hook_on(edge->before_wait);
    }
    return failed;
}

/* Of options that may not be complete yet. */
static int64_t patience_ms(const struct edge_options *options)
{
    int64_t time_ms = options->limits.idle_time_ms;

    return time_ms != 0 ? time_ms : EDGE_IDLE_TIME_MS;
}

static struct listener_options api_options(const struct edge_options *options)
{
    return (struct listener_options){.key = "api",
                                     .host = options->host,
                                     .port = options->port,
                                     .is_public = options->token_count > 0,
                                     .cert = options->tls_cert,
                                     .key_file = options->tls_key,
                                     .patience_ms = patience_ms(options)};
}

static struct listener_options gateway_options(const struct edge_options *options)
{
    return (struct listener_options){.key = "gateway",
                                     .host = options->gateway_host,
                                     .port = options->gateway_port,
                                     .is_public = true,
                                     .cert = options->gateway_cert,
                                     .key_file = options->gateway_key,
                                     .patience_ms = patience_ms(options)};
}

static int open_gateway(struct edge *edge, struct error *err)
{
    const struct listener_options gateway = gateway_options(&edge->options);

    return gateway.host.len > 0 ? listener_open(&edge->gateway, edge, &gateway, err) : 0;
}

static int check_tls(const struct listener_options *options, struct error *err)
{
    struct tls tls = {0};
    int failed = options->cert.len > 0 ? tls_load(&tls, options, err) : 0;

    tls_done(&tls);
    return failed;
}

int edge_check_tls(const struct edge_options *options, struct error *err)
{
    const struct listener_options api = api_options(options), gateway = gateway_options(options);
    int failed = check_tls(&api, err);

    return failed != 0 || gateway.host.len == 0 ? failed : check_tls(&gateway, err);
}

int edge_listen(const struct edge_options *options, int *ret_fd, uint16_t *ret_port,
                struct error *err)
{
    struct listener_options api = api_options(options);

    return listen_open(&api, ret_fd, ret_port, err);
}

static int open_api(struct edge *edge, const struct edge_place *place, struct error *err)
{
    struct listener_options api = api_options(&edge->options);

    if (place != NULL) {
        api.has_fd = true;
        api.fd = place->fd;
        api.port = place->port;
    }
    return listener_open(&edge->api, edge, &api, err);
}

static void take_place(struct edge *edge, const struct edge_place *place)
{
    edge->waiting = &edge->own_waiting;
    edge->bodies = &edge->own_bodies;
    bodies_init(&edge->own_bodies, edge->options.room, edge->options.limits.bodies_bytes_max);
    house_init(&edge->own_house, edge->options.limits.connections_max);
    if (place != NULL) {
        edge->exchanges.number = place->number;
        edge->crossing = place->crossing;
        edge->published = place->published;
        edge->peers = place->peers;
        edge->waiting = place->waiting;
        edge->bodies = place->bodies;
    }
}

static int start(struct edge *edge, const struct edge_place *place, struct error *err)
{
    const struct edge_limits *limits = &edge->options.limits;
    struct house *house = place != NULL ? place->house : &edge->own_house;
    const struct connection_limits connections = {.header_time_ms = limits->header_time_ms,
                                                  .idle_time_ms = limits->idle_time_ms,
                                                  .grace_ms = limits->grace_ms,
                                                  .room = on_room,
                                                  .room_user = edge};
    int failed =
        connection_set_init(&edge->connections, edge->options.loop, house, &connections, err);

    failed = failed != 0
                 ? failed
                 : tokens_init(&edge->tokens, edge->options.tokens, edge->options.token_count, err);
    failed =
        failed != 0 ? failed : waiting_init(&edge->own_waiting, edge->options.token_count, err);
    failed = failed != 0 ? failed : edge_make_fixed_responses(edge, err);
    failed = failed != 0 ? failed : join_loop(edge, err);
    bool has_api = place == NULL || !place->is_gateway;
    bool has_gateway = place == NULL || place->is_gateway;
    if (failed == 0 && has_api) {
        failed = open_api(edge, place, err);
    }
    return failed == 0 && has_gateway ? open_gateway(edge, err) : failed;
}

int edge_open(const struct edge_options *options, struct edge **ret_edge, struct error *err)
{
    return edge_open_at(options, NULL, ret_edge, err);
}

int edge_open_at(const struct edge_options *options, const struct edge_place *place,
                 struct edge **ret_edge, struct error *err)
{
    struct edge *edge = calloc(1, sizeof *edge);

    if (edge == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for the HTTP server");
    }
    edge->options = *options;
    edge->options.limits = complete(options->limits);
    take_place(edge, place);
    int failed = start(edge, place, err);
    if (failed != 0) {
        edge_close(edge);
        return failed;
    }
    *ret_edge = edge;
    return 0;
}

void edge_drain(struct edge *edge)
{
    if (edge->is_draining) {
        return;
    }
    edge->is_draining = true;
    listener_shut(&edge->api);
    listener_shut(&edge->gateway);
    edge_dismiss_waiters(edge);
    connection_set_close_idle(&edge->connections);
}

bool edge_is_drained(const struct edge *edge)
{
    return edge->exchanges.open_count == 0;
}

/* libmicrohttpd aborts the process when it is stopped with a connection suspended. */
static void answer_everybody(struct edge *edge)
{
    for (uint32_t i = 0; i < edge->exchanges.used; i++) {
        struct exchange *exchange = edge->exchanges.slots[i];
        if (exchange->is_open && exchange->step == EXCHANGE_ASKED) {
            enum problem problem = exchange_lost_problem(exchange) == PROBLEM_STORE_UNKNOWN
                                       ? PROBLEM_STORE_UNKNOWN
                                       : PROBLEM_DRAINING;
            exchange_refuse(exchange, problem, SPAN("the server is stopping"), SPAN(""));
        } else if (exchange->is_open && exchange->response.stream.is_on) {
            gateway_stream_take(exchange, &(struct route_reply){.said = ROUTE_SAID_CUT});
        }
    }
    for (int i = 0; i < CLOSE_ROUNDS_MAX &&
                    (edge->ready != NULL || edge->api.wants_run || edge->gateway.wants_run);
         i++) {
        pump(edge);
    }
}

void edge_close(struct edge *edge)
{
    if (edge == NULL) {
        return;
    }
    if (edge->crossing == NULL) {
        leases_flush_returns(&edge->returns, edge->options.engine);
    }
    edge->is_closing = true;
    aside_close(edge->aside); /* whoever waits for it is answered like all the others */
    edge->aside = NULL;
    if (edge->api.daemon != NULL || edge->gateway.daemon != NULL) {
        edge_drain(edge);
        answer_everybody(edge);
    }
    listener_close(&edge->api);
    listener_close(&edge->gateway);
    loop_hook_free(edge->before_wait);
    loop_hook_free(edge->idle);
    loop_timer_free(edge->leave_timer);
    edge_free_fixed_responses(edge);
    tokens_done(&edge->tokens);
    waiting_done(&edge->own_waiting);
    exchange_table_done(&edge->exchanges);
    gateway_free_spare(edge);
    connection_set_done(&edge->connections);
    free(edge);
}

void edge_woken(struct edge *edge)
{
    connection_set_woken(&edge->connections, edge->api.edge != NULL ? DOOR_API : DOOR_GATEWAY);
}

bool edge_is_ahead(const struct edge *edge)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; edge->peers != NULL && i < edge->peers->count; i++) {
        uint32_t theirs =
            atomic_load_explicit(&edge->peers->published[i]->connections, memory_order_relaxed);
        least = theirs < least ? theirs : least;
    }
    return least < UINT32_MAX && edge->connections.count > least + LISTENER_ACCEPTS_MAX;
}

uint16_t edge_port(const struct edge *edge)
{
    return edge->api.port;
}

uint16_t edge_gateway_port(const struct edge *edge)
{
    return edge->gateway.port;
}

void edge_stats(const struct edge *edge, struct edge_stats *ret_stats)
{
    *ret_stats = (struct edge_stats){
        .requests = edge->request_count,
        .refused = edge->refused_count,
        .cut = edge->connections.cut_count,
        .connections = edge->connections.count,
        .waiters = edge->waiter_count,
        .body_bytes = atomic_load_explicit(&edge->bodies->room->bytes, memory_order_relaxed),
    };
    memcpy(ret_stats->answers, edge->answer_counts, sizeof ret_stats->answers);
}
