/* SPDX-License-Identifier: MIT
 *
 * http_socket -- libcurl's sockets and its timer, on the loop.
 *
 * A connection's socket is watched until it is closed, whatever libcurl wants in between: see
 * loop_watch_set for what that saves. That is safe only where libcurl tells us before it closes.
 * libcurl 7.88 does not for sockets that are still connecting, nor for those of its resolver
 * threads. So only what we made and what it has once wanted to read from is kept; anything else is
 * given up as soon as libcurl no longer wants it watched.
 */
#include "deliver/http_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKETS_ROOM_FIRST 64
#define RECOVER_MS         100

static struct socket_watch *find(const struct http *http, int fd)
{
    return fd >= 0 && (size_t)fd < http->sockets_room ? http->sockets[fd] : NULL;
}

static void forget(struct socket_watch *socket)
{
    http_connection_forget(socket);
    socket->http->sockets[socket->fd] = NULL;
    loop_watch_free(socket->watch);
    free(socket);
}

static int make_room(struct http *http, size_t fd)
{
    size_t room = http->sockets_room == 0 ? SOCKETS_ROOM_FIRST : http->sockets_room;

    while (room <= fd) {
        room *= 2;
    }
    if (room == http->sockets_room) {
        return 0;
    }
    struct socket_watch **grown = realloc(http->sockets, room * sizeof(struct socket_watch *));
    if (grown == NULL) {
        return FAULT_MEMORY;
    }
    for (size_t i = http->sockets_room; i < room; i++) {
        grown[i] = NULL;
    }
    http->sockets = grown;
    http->sockets_room = room;
    return 0;
}

/* When libcurl is out of memory in the middle of this it forgets to say when it wants to run again,
 * and may have lost sight of a socket. Asked again later it goes by its timers: then what was lost
 * ends at its timeout at the latest. */
static void run_libcurl(struct http *http, curl_socket_t fd, int flags)
{
    int running = 0;

    http->run++;
    if (curl_multi_socket_action(http->multi, fd, flags, &running) != CURLM_OK) {
        loop_timer_set(http->timer, loop_now_ms(http->loop) + RECOVER_MS);
    }
    http_after_run(http, running);
}

static void on_ready(void *user, unsigned events)
{
    struct socket_watch *socket = user;
    int flags = ((events & LOOP_READABLE) != 0 ? CURL_CSELECT_IN : 0) |
                ((events & LOOP_WRITABLE) != 0 ? CURL_CSELECT_OUT : 0);

    if (!http_connection_is_stray(socket)) {
        run_libcurl(socket->http, socket->fd, flags); /* which may close the socket */
    }
}

static struct socket_watch *watch(struct http *http, int fd)
{
    struct socket_watch *socket = calloc(1, sizeof *socket);

    if (socket == NULL || make_room(http, (size_t)fd) != 0 ||
        loop_watch_new(http->loop, fd, on_ready, socket, &socket->watch, NULL) != 0) {
        free(socket);
        return NULL;
    }
    socket->http = http;
    socket->fd = fd;
    http->sockets[fd] = socket;
    return socket;
}

curl_socket_t http_socket_open(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct transfer *transfer = user;
    struct http *http = transfer->http;

    (void)purpose;
    if (!http_lookup_found(transfer)) {
        errno = ETIMEDOUT;
        return CURL_SOCKET_BAD;
    }
    if (!http_hop_may_connect(transfer, address)) {
        errno = EACCES;
        return CURL_SOCKET_BAD;
    }
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd >= 0 && http->options.files_max > 0 && fd >= (int)http->options.files_max) {
        (void)close(fd); /* nothing was written: the rest is kept back for callers and the store */
        fd = -1;
        errno = EMFILE;
    }
    if (fd < 0) {
        http_shortage_note(transfer, errno);
        return CURL_SOCKET_BAD;
    }
    transfer->shortage = 0;
    transfer->address_bytes = 0;
    if (address->addrlen <= sizeof transfer->address) {
        memcpy(&transfer->address, &address->addr, address->addrlen);
        transfer->address_bytes = address->addrlen;
    }
    struct socket_watch *stale = find(http, fd); /* closed while connecting, not told yet */
    if (stale != NULL) {
        forget(stale);
    }
    struct socket_watch *made = watch(http, fd);
    if (made == NULL) {
        (void)close(fd); /* nothing was written */
        errno = ENOMEM;
        http_shortage_note(transfer, errno);
        return CURL_SOCKET_BAD;
    }
    made->is_ours = true;
    http_connection_opened(transfer, made);
    return fd;
}

int http_socket_close(void *user, curl_socket_t fd)
{
    struct socket_watch *socket = find(user, fd);

    if (socket != NULL) {
        forget(socket);
    }
    return close(fd);
}

static void mark_unwatched(struct http *http, CURL *easy)
{
    char *held = NULL;

    (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &held); /* NULL for libcurl's own handles */
    struct transfer *transfer = (struct transfer *)(void *)held;
    if (transfer != NULL && transfer->ending == ENDING_NONE) {
        transfer->ending = ENDING_UNWATCHED;
        http->has_marked = true;
        loop_hook_on(http->finishing);
    }
}

/* Returns 0 come what may: anything else would make libcurl drop every transfer there is. */
static int on_wish(CURL *easy, curl_socket_t fd, int what, void *user, void *assigned)
{
    struct http *http = user;
    struct socket_watch *socket = find(http, fd);
    unsigned wishes = ((what & CURL_POLL_IN) != 0 ? LOOP_READABLE : 0) |
                      ((what & CURL_POLL_OUT) != 0 ? LOOP_WRITABLE : 0);

    (void)assigned;
    if (socket != NULL && wishes == 0 && !socket->is_kept) {
        /* It may be closed already and its number taken by another thread: then epoll is asked to
         * drop a descriptor that it does not have, which harms nobody. */
        forget(socket);
        return 0;
    }
    if (socket == NULL && wishes != 0) {
        socket = watch(http, fd);
    }
    if (socket != NULL && socket->is_ours && (wishes & LOOP_READABLE) != 0) {
        socket->is_kept = true;
    }
    bool is_watched = socket != NULL ? loop_watch_set(socket->watch, wishes) == 0 : wishes == 0;
    if (!is_watched) {
        mark_unwatched(http, easy);
    }
    return 0;
}

static void on_timer(void *user)
{
    run_libcurl(user, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timer_wish(CURLM *multi, long wait_ms, void *user)
{
    struct http *http = user;

    (void)multi;
    if (wait_ms < 0) {
        loop_timer_cancel(http->timer);
    } else {
        loop_timer_set(http->timer, loop_now_ms(http->loop) + wait_ms);
    }
    return 0;
}

int http_sockets_open(struct http *http, struct error *err)
{
    CURLM *multi = http->multi;
    int failed = loop_timer_new(http->loop, on_timer, http, &http->timer, err);

    if (failed != 0) {
        return failed;
    }
    if (curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_wish) != CURLM_OK ||
        curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, http) != CURLM_OK ||
        curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer_wish) != CURLM_OK ||
        curl_multi_setopt(multi, CURLMOPT_TIMERDATA, http) != CURLM_OK) {
        return fail(err, FAULT_SYSTEM, "libcurl refuses its socket interface");
    }
    return 0;
}

void http_sockets_quiet(struct http *http)
{
    /* Neither can fail: both options were taken before. */
    (void)curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, NULL);
    (void)curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, NULL);
}

void http_sockets_close(struct http *http)
{
    for (size_t i = 0; i < http->sockets_room; i++) {
        if (http->sockets[i] != NULL) {
            forget(http->sockets[i]);
        }
    }
    free(http->sockets);
    loop_timer_free(http->timer);
}
