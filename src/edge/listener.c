/* SPDX-License-Identifier: MIT
 *
 * listener -- see listener.h. libmicrohttpd runs in external epoll mode and is called from one place
 * only, listener_run, once a turn right before the loop waits: nobody calls back into it from a
 * reply, and after a resume somebody does run it (its epoll descriptor does not fire for that).
 */
#define _GNU_SOURCE /* accept4 */
#include "edge/listener.h"

#include "edge/receive.h"
#include "edge/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define OPTIONS_MAX 8

static void on_readable(void *user, unsigned events)
{
    struct listener *listener = user;

    (void)events;
    listener->wants_run = true;
}

static void rest(struct listener *listener, int64_t time_ms)
{
    struct loop *loop = listener->edge->options.loop;

    listener->is_resting = true;
    (void)!loop_watch_set(listener->door, 0); /* fewer wishes cannot fail */
    loop_timer_set(listener->rest, loop_now_ms(loop) + time_ms);
}

void listener_reopen(struct listener *listener)
{
    if (listener->door != NULL && listener->is_resting) {
        listener->is_resting = false;
        if (loop_watch_set(listener->door, LOOP_READABLE) != 0) {
            rest(listener, LISTENER_REST_MS);
        }
    }
}

static void on_rested(void *user)
{
    listener_reopen(user);
}

enum connection_door listener_door(const struct listener *listener)
{
    return listener == &listener->edge->gateway ? DOOR_GATEWAY : DOOR_API;
}

/* Nobody is sent away for nobody. */
static bool is_caller_waiting(const struct listener *listener)
{
    struct pollfd door = {.fd = listener->fd, .events = POLLIN};

    return poll(&door, 1, 0) > 0;
}

/* Would the next connection get a descriptor that is kept for others? The lowest one is what it gets. */
static bool is_kept(const struct listener *listener)
{
    uint32_t files_max = listener->edge->options.limits.files_max;

    if (files_max == 0 || listener_door(listener) != DOOR_GATEWAY) {
        return false;
    }
    int fd = fcntl(listener->fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0) {
        (void)close(fd); /* nothing was written to it */
    }
    return fd < 0 || fd >= (int)files_max;
}

/* No descriptor, most likely: one is cut if any can be, and it is tried again soon. */
static void run_short(struct listener *listener, enum connection_door door)
{
    bool is_over = connection_set_make_room(&listener->edge->connections, door) != ROOM_LATER;

    rest(listener, is_over ? LISTENER_REST_MS : LISTENER_YIELD_MS);
}

/* -1: nobody waits, or he is gone, or there is no descriptor for him. Room is made once he is in: another
 * thread may have been faster at the door. */
static int accept_one(struct listener *listener, struct sockaddr_storage *ret_address,
                      socklen_t *ret_len)
{
    struct connection_set *set = &listener->edge->connections;
    enum connection_door door = listener_door(listener);

    bool has_place = connection_set_take_place(set, door);
    if (!has_place && !is_caller_waiting(listener)) {
        connection_set_note_room(set, door);
        return -1;
    }
    enum connection_room room = has_place ? ROOM_NOW : connection_set_can_make_room(set, door);
    if (room == ROOM_NONE) {
        connection_set_note_full(set, door);
        rest(listener, LISTENER_REST_MS);
    }
    if (room != ROOM_NOW) { /* at ROOM_LATER the socket stays readable: on in the next turn */
        return -1;
    }
    connection_set_note_room(set, door);
    if (is_kept(listener)) {
        if (has_place) {
            connection_set_give_place(set, door);
        }
        if (is_caller_waiting(listener)) {
            run_short(listener, door);
        }
        return -1;
    }
    *ret_len = sizeof *ret_address;
    int fd = accept4(listener->fd, (struct sockaddr *)ret_address, ret_len,
                     SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        bool is_short = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
        if (has_place) {
            connection_set_give_place(set, door);
        }
        if (is_short) {
            run_short(listener, door);
        }
        return -1;
    }
    if (!has_place) { /* who was idle a moment ago may have spoken: one more, then */
        connection_set_take_any_place(set, door);
        (void)connection_set_make_room(set, door);
    }
    return fd;
}

static void on_door(void *user, unsigned events)
{
    struct listener *listener = user;
    struct sockaddr_storage address;
    socklen_t len;

    (void)events;
    if (edge_is_ahead(listener->edge) && !listener->has_yielded) {
        listener->has_yielded = true;
        rest(listener, LISTENER_YIELD_MS);
        return;
    }
    int accepts_max = listener->has_yielded ? 1 : LISTENER_ACCEPTS_MAX;
    listener->has_yielded = false;
    for (int i = 0; i < accepts_max; i++) {
        int fd = accept_one(listener, &address, &len);
        if (fd < 0) {
            return;
        }
        /* Fails for want of memory, and has closed it then. */
        (void)MHD_add_connection(listener->daemon, fd, (struct sockaddr *)&address, len);
        listener->wants_run = true;
    }
}

static size_t pool_bytes(const struct listener *listener)
{
    return listener_door(listener) == DOOR_GATEWAY ? EDGE_GATEWAY_POOL_BYTES : EDGE_POOL_BYTES;
}

/* The connections that are cut but not yet gone need a place as well, hence the margin. */
static int start_daemon(struct listener *listener, const struct tls *tls, struct error *err)
{
    struct edge *edge = listener->edge;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET;
    struct MHD_OptionItem secure[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, tls->cert.at},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, tls->key.at},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    bool is_tls = tls->cert.len > 0;

    listener->daemon = MHD_start_daemon(
        flags | (is_tls ? MHD_USE_TLS : 0), 0, NULL, NULL, receive_request, listener,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)edge->options.limits.connections_max * 2 + 64,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, pool_bytes(listener), MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_CONNECTION, receive_connection, listener, MHD_OPTION_URI_LOG_CALLBACK,
        receive_target, listener, MHD_OPTION_NOTIFY_COMPLETED, receive_completed, listener,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_ARRAY, is_tls ? secure : plain,
        MHD_OPTION_END);
    return listener->daemon != NULL ? 0 : fail(err, FAULT_SYSTEM, "the HTTP server does not start");
}

static int start(struct listener *listener, const struct listener_options *options,
                 struct error *err)
{
    struct tls tls = {0};
    int failed = options->cert.len > 0 ? tls_load(&tls, options, err) : 0;

    failed = failed != 0 ? failed : start_daemon(listener, &tls, err);
    tls_done(&tls); /* libmicrohttpd has read them */
    return failed;
}

static int join_loop(struct listener *listener, struct error *err)
{
    struct loop *loop = listener->edge->options.loop;
    const union MHD_DaemonInfo *found =
        MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    int failed =
        loop_watch_new(loop, found->epoll_fd, on_readable, listener, &listener->watch, err);

    failed = failed != 0
                 ? failed
                 : loop_watch_new(loop, listener->fd, on_door, listener, &listener->door, err);
    failed = failed != 0 ? failed : loop_timer_new(loop, on_rested, listener, &listener->rest, err);
    if (failed != 0) {
        return failed;
    }
    if (loop_watch_set(listener->watch, LOOP_READABLE) != 0 ||
        loop_watch_set(listener->door, LOOP_READABLE) != 0) {
        return fail(err, FAULT_SYSTEM, "the HTTP server's descriptor cannot be watched");
    }
    listener->wants_run = true;
    return 0;
}

static int join_socket(struct listener *listener, const struct listener_options *options,
                       struct error *err)
{
    listener->port = options->port;
    listener->fd = fcntl(options->fd, F_DUPFD_CLOEXEC, 0);
    return listener->fd >= 0 ? 0 : fail(err, FAULT_SYSTEM, "the socket cannot be shared");
}

int listener_open(struct listener *listener, struct edge *edge,
                  const struct listener_options *options, struct error *err)
{
    *listener = (struct listener){.edge = edge, .fd = -1};
    int failed = options->has_fd ? join_socket(listener, options, err)
                                 : listen_open(options, &listener->fd, &listener->port, err);

    failed = failed != 0 ? failed : start(listener, options, err);
    return failed != 0 ? failed : join_loop(listener, err);
}

void listener_run(struct listener *listener)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 1;

    if (!listener->wants_run) {
        return;
    }
    uint64_t heard = listener->heard;
    (void)MHD_run(listener->daemon); /* fails only for daemons of another kind */
    /* It has taken all that were accepted; those that it had no memory for are closed. */
    connection_set_give_places(&listener->edge->connections, listener_door(listener));
    listener->wants_run = MHD_get_timeout(listener->daemon, &wait_ms) == MHD_YES && wait_ms == 0;
    bool is_empty = listener->wants_run && listener->heard == heard;
    listener->empty_runs = is_empty ? listener->empty_runs + 1 : 0;
    if (listener->empty_runs >= LISTENER_EMPTY_MAX) {
        listener->empty_runs = 0;
        connection_set_cut_stuck(&listener->edge->connections);
    }
}

void listener_shut(struct listener *listener)
{
    loop_watch_free(listener->door);
    listener->door = NULL;
    if (listener->edge != NULL && listener->fd >= 0) {
        (void)close(listener->fd); /* nothing was written to it */
        listener->fd = -1;
    }
}

void listener_close(struct listener *listener)
{
    listener_shut(listener);
    loop_watch_free(listener->watch);
    loop_timer_free(listener->rest);
    if (listener->daemon != NULL) {
        MHD_stop_daemon(listener->daemon);
    }
    *listener = (struct listener){.fd = -1};
}
