/* SPDX-License-Identifier: MIT
 *
 * server -- libmicrohttpd in external epoll mode, on the loop. It is called from one place only, the
 * pump, once a turn right before the loop waits: nobody calls back into it from a reply, and after a
 * resume somebody does run it (its epoll descriptor does not fire for that).
 *
 *   its descriptor is readable --> wants_run --+
 *   a suspended exchange is answered -> ready -+--> pump: resume the ready ones, MHD_run
 *                                              '--- and again, without waiting, while it says so
 */
#include "edge/aside.h"
#include "edge/receive.h"

#include <stdlib.h>
#include <unistd.h>

#define CLOSE_ROUNDS_MAX 1000 /* turns of libmicrohttpd that the last answers get */

void edge_make_ready(struct exchange *exchange)
{
    struct edge *edge = exchange->edge;

    exchange->next_ready = edge->ready;
    edge->ready = exchange;
    loop_hook_on(edge->idle); /* the pump may have run in this turn */
}

static void resume_ready(struct edge *edge)
{
    while (edge->ready != NULL) {
        struct exchange *exchange = edge->ready;
        edge->ready = exchange->next_ready;
        exchange->is_suspended = false;
        MHD_resume_connection(exchange->connection->mhd);
        edge->wants_run = true;
    }
}

static void pump(void *user)
{
    struct edge *edge = user;
    MHD_UNSIGNED_LONG_LONG wait_ms = 1;

    resume_ready(edge);
    if (!edge->wants_run) {
        loop_hook_off(edge->idle);
        return;
    }
    edge->has_closed = false;
    (void)MHD_run(edge->daemon); /* fails only for daemons of another kind */
    /* At its limit it stops listening, and begins again only in the run after a connection went. */
    edge->wants_run =
        edge->has_closed || (MHD_get_timeout(edge->daemon, &wait_ms) == MHD_YES && wait_ms == 0);
    if (edge->wants_run || edge->ready != NULL) {
        loop_hook_on(edge->idle);
    } else {
        loop_hook_off(edge->idle);
    }
}

static void on_readable(void *user, unsigned events)
{
    struct edge *edge = user;

    (void)events;
    edge->wants_run = true;
}

/* While this hook is on, the loop does not wait. */
static void on_idle(void *user)
{
    (void)user;
}

static struct edge_limits complete(struct edge_limits limits)
{
    return (struct edge_limits){
        .body_bytes_max = limits.body_bytes_max ? limits.body_bytes_max : EDGE_BODY_BYTES_MAX,
        .connections_max = limits.connections_max ? limits.connections_max : EDGE_CONNECTIONS_MAX,
        .waiters_max = limits.waiters_max ? limits.waiters_max : EDGE_WAITERS_MAX,
        .header_time_ms = limits.header_time_ms ? limits.header_time_ms : EDGE_HEADER_TIME_MS,
        .idle_time_ms = limits.idle_time_ms ? limits.idle_time_ms : EDGE_IDLE_TIME_MS,
        .leave_check_ms = limits.leave_check_ms ? limits.leave_check_ms : EDGE_LEAVE_CHECK_MS,
    };
}

static int start_daemon(struct edge *edge, struct error *err)
{
    int fd = -1;
    int failed = edge_listen(&edge->options, &fd, &edge->port, err);

    if (failed != 0) {
        return failed;
    }
    edge->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, receive_request, edge,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)edge->options.limits.connections_max, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)EDGE_POOL_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION,
        receive_connection, edge, MHD_OPTION_URI_LOG_CALLBACK, receive_target, edge,
        MHD_OPTION_NOTIFY_COMPLETED, receive_completed, edge, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_END);
    if (edge->daemon == NULL) {
        (void)close(fd); /* nothing was written to it */
        return fail(err, FAULT_SYSTEM, "the HTTP server does not start");
    }
    return 0;
}

static int join_loop(struct edge *edge, struct error *err)
{
    struct loop *loop = edge->options.loop;
    const union MHD_DaemonInfo *found = MHD_get_daemon_info(edge->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    int failed = loop_watch_new(loop, found->epoll_fd, on_readable, edge, &edge->watch, err);

    failed = failed != 0
                 ? failed
                 : loop_hook_new(loop, LOOP_HOOK_BEFORE_WAIT, pump, edge, &edge->before_wait, err);
    failed =
        failed != 0 ? failed : loop_hook_new(loop, LOOP_HOOK_IDLE, on_idle, edge, &edge->idle, err);
    failed = failed != 0
                 ? failed
                 : loop_timer_new(loop, edge_look_for_leavers, edge, &edge->leave_timer, err);
    if (failed != 0) {
        return failed;
    }
    if (loop_watch_set(edge->watch, LOOP_READABLE) != 0) {
        return fail(err, FAULT_SYSTEM, "the HTTP server's descriptor cannot be watched");
    }
    loop_hook_on(edge->before_wait);
    edge->wants_run = true;
    return 0;
}

static int start(struct edge *edge, struct error *err)
{
    const struct edge_limits *limits = &edge->options.limits;
    int failed = connection_set_init(&edge->connections, edge->options.loop, limits->header_time_ms,
                                     limits->idle_time_ms, err);

    failed = failed != 0
                 ? failed
                 : tokens_init(&edge->tokens, edge->options.tokens, edge->options.token_count, err);
    failed = failed != 0 ? failed : edge_make_fixed_responses(edge, err);
    failed = failed != 0 ? failed : start_daemon(edge, err);
    return failed != 0 ? failed : join_loop(edge, err);
}

int edge_open(const struct edge_options *options, struct edge **ret_edge, struct error *err)
{
    struct edge *edge = calloc(1, sizeof *edge);

    if (edge == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for the HTTP server");
    }
    edge->options = *options;
    edge->options.limits = complete(options->limits);
    int failed = start(edge, err);
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
    MHD_socket fd = MHD_quiesce_daemon(edge->daemon);
    if (fd != MHD_INVALID_SOCKET) {
        (void)close(fd); /* nothing was written to it */
    }
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
            enum problem problem =
                route_is_write(exchange->route) ? PROBLEM_STORE_UNKNOWN : PROBLEM_DRAINING;
            exchange_refuse(exchange, problem, SPAN("the server is stopping"), SPAN(""));
        }
    }
    for (int i = 0; i < CLOSE_ROUNDS_MAX && (edge->ready != NULL || edge->wants_run); i++) {
        pump(edge);
    }
}

void edge_close(struct edge *edge)
{
    if (edge == NULL) {
        return;
    }
    aside_close(edge->aside); /* whoever waits for it is answered like all the others */
    edge->aside = NULL;
    if (edge->daemon != NULL && edge->idle != NULL) {
        edge_drain(edge);
        answer_everybody(edge);
    }
    loop_watch_free(edge->watch);
    if (edge->daemon != NULL) {
        MHD_stop_daemon(edge->daemon);
    }
    loop_hook_free(edge->before_wait);
    loop_hook_free(edge->idle);
    loop_timer_free(edge->leave_timer);
    edge_free_fixed_responses(edge);
    tokens_done(&edge->tokens);
    exchange_table_done(&edge->exchanges);
    connection_set_done(&edge->connections);
    free(edge);
}

uint16_t edge_port(const struct edge *edge)
{
    return edge->port;
}

void edge_stats(const struct edge *edge, struct edge_stats *ret_stats)
{
    *ret_stats = (struct edge_stats){
        .requests = edge->request_count,
        .refused = edge->refused_count,
        .cut = edge->connections.cut_count,
        .connections = edge->connections.count,
        .waiters = edge->waiter_count,
    };
}
