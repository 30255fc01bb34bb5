/* SPDX-License-Identifier: MIT
 *
 * http_connection -- which connection a request is about to go out on, and whether it may be used: on
 * a connection of HTTP/1 the only thing that says which request an answer belongs to is the order, so
 * a byte that no request has asked for would shift every answer behind it (RFC 9112 6.3 forbids to
 * take it for an answer). Three looks keep such a connection from being used:
 *
 *   behind an answer   libcurl has read more than the answer: the connection is not kept
 *   while it is idle   it is watched; a byte makes it useless at once
 *   at the last gate   nothing may wait on it when the next request is about to be written
 *
 * What is left open is the time from the last look until the request is with the target: bytes that
 * come within it cannot be told from an answer. docs/outbound.md has how long that is.
 *
 * libcurl 7.88 uses a connection on which something waits, does not say which socket a request goes
 * out on, and cannot be told to drop a connection. So sockets are known here by their two ends, and
 * a transfer that was about to use a spoilt one is ended unsent and begun again on a new connection.
 * Connections of HTTP/2 are left out: there each answer says to which request it belongs.
 */
#include "deliver/http_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#define DRAIN_BYTES     4096
#define DRAIN_TIMES_MAX 4096 /* more than a kernel keeps for a socket */

/* --- by their ends ------------------------------------------------------------------------------- */

static struct socket_watch **bucket_of(struct http *http, int local_port)
{
    unsigned half = (unsigned)local_port / 2; /* kernels give away every second port first */

    return &http->connections[half % HTTP_CONNECTION_BUCKETS];
}

static void link_to(struct socket_watch *socket, struct socket_watch **list)
{
    socket->next = *list;
    socket->at = list;
    if (socket->next != NULL) {
        socket->next->at = &socket->next;
    }
    *list = socket;
}

static void unlink_from(struct socket_watch *socket)
{
    if (socket->at == NULL) {
        return;
    }
    *socket->at = socket->next;
    if (socket->next != NULL) {
        socket->next->at = socket->at;
    }
    socket->next = NULL;
    socket->at = NULL;
}

/* What a transfer has opened is in a list of its own until a request goes out on one of them. */
void http_connection_opened(struct transfer *transfer, struct socket_watch *socket)
{
    link_to(socket, &transfer->opened);
}

static struct socket_watch *find_known(struct http *http, const struct connection_ends *ends)
{
    struct socket_watch *socket = *bucket_of(http, ends->local_port);

    while (socket != NULL && (socket->ends.local_port != ends->local_port ||
                              socket->ends.remote_port != ends->remote_port ||
                              strcmp(socket->ends.remote_ip, ends->remote_ip) != 0 ||
                              strcmp(socket->ends.local_ip, ends->local_ip) != 0)) {
        socket = socket->next;
    }
    return socket;
}

static int local_port_of(int fd)
{
    union {
        struct sockaddr_storage any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } address = {0};
    socklen_t len = sizeof address;

    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        return -1;
    }
    return ntohs(address.any.ss_family == AF_INET6 ? address.ipv6.sin6_port
                                                   : address.ipv4.sin_port);
}

static void keep_ends(struct socket_watch *socket, const struct connection_ends *ends)
{
    (void)snprintf(socket->ips[0], sizeof socket->ips[0], "%s", ends->local_ip);  /* fits */
    (void)snprintf(socket->ips[1], sizeof socket->ips[1], "%s", ends->remote_ip); /* fits */
    socket->ends = *ends;
    socket->ends.local_ip = socket->ips[0];
    socket->ends.remote_ip = socket->ips[1];
}

/* Of the sockets that the transfer has opened, the one that it got. */
static struct socket_watch *find_opened(struct transfer *transfer,
                                        const struct connection_ends *ends)
{
    struct socket_watch *socket = transfer->opened;

    while (socket != NULL && local_port_of(socket->fd) != ends->local_port) {
        socket = socket->next;
    }
    if (socket != NULL) {
        unlink_from(socket);
        keep_ends(socket, ends);
        link_to(socket, bucket_of(transfer->http, ends->local_port));
    }
    return socket;
}

/* --- who uses one -------------------------------------------------------------------------------- */

static void use(struct transfer *transfer, struct socket_watch *socket)
{
    http_connection_release(transfer); /* libcurl goes out again, perhaps over another one */
    transfer->socket = socket;
    transfer->user_next = socket->users;
    transfer->user_at = &socket->users;
    if (transfer->user_next != NULL) {
        transfer->user_next->user_at = &transfer->user_next;
    }
    socket->users = transfer;
}

static void leave(struct transfer *transfer)
{
    *transfer->user_at = transfer->user_next;
    if (transfer->user_next != NULL) {
        transfer->user_next->user_at = transfer->user_at;
    }
    transfer->user_at = NULL;
    transfer->user_next = NULL;
    transfer->socket = NULL;
}

static bool is_idle(const struct socket_watch *socket)
{
    bool has_been_used = socket->ends.local_ip != NULL; /* before, what comes is a handshake's */

    return has_been_used && socket->users == NULL && socket->is_kept && !socket->is_multiplexed &&
           !socket->is_spoilt;
}

void http_connection_release(struct transfer *transfer)
{
    struct socket_watch *socket = transfer->socket;

    transfer->is_multiplexed = false;
    while (transfer->opened != NULL) {
        unlink_from(transfer->opened);
    }
    if (socket == NULL) {
        return;
    }
    leave(transfer);
    if (is_idle(socket)) {
        (void)!loop_watch_set(socket->watch, LOOP_READABLE); /* it is, or else the gate will see */
    }
}

void http_connection_forget(struct socket_watch *socket)
{
    unlink_from(socket);
    while (socket->users != NULL) {
        leave(socket->users);
    }
}

/* --- the looks ----------------------------------------------------------------------------------- */

/* Does anything wait on it, or has it ended? */
static bool has_input(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
           (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* Emptied and shut down it looks to libcurl like one that the target has closed, and the target
 * cannot fill the kernel's memory any further. The gate does not rely on it. */
static void spoil(struct socket_watch *socket)
{
    char bytes[DRAIN_BYTES];

    socket->is_spoilt = true;
    (void)!loop_watch_set(socket->watch, 0); /* fewer wishes cannot fail */
    (void)shutdown(socket->fd, SHUT_RDWR);   /* it may be closed already */
    for (int i = 0; i < DRAIN_TIMES_MAX; i++) {
        if (recv(socket->fd, bytes, sizeof bytes, MSG_DONTWAIT) <= 0) {
            return;
        }
    }
}

/* Something has come on a socket. False: it is for libcurl. */
bool http_connection_is_stray(struct socket_watch *socket)
{
    char byte;

    if (!is_idle(socket)) {
        return false;
    }
    if (recv(socket->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
        spoil(socket);
    } else {
        (void)!loop_watch_set(socket->watch, 0); /* closed: libcurl finds out when it looks */
    }
    return true;
}

/* Over TLS it cannot be told what waits. On a new connection that are the target's session tickets as
 * a rule; on one that had an answer they have been read before it. */
enum connection_state http_connection_take(struct transfer *transfer,
                                           const struct connection_ends *ends)
{
    long connects = 0;

    (void)HTTP_SET(transfer, CURLOPT_VERBOSE, 1L); /* for http_answer_log; cannot fail */
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_NUM_CONNECTS, &connects); /* 0: none */
    bool is_new = connects > 0;
    struct socket_watch *socket =
        is_new ? find_opened(transfer, ends) : find_known(transfer->http, ends);

    if (socket == NULL) {
        return is_new ? CONNECTION_CLEAN : CONNECTION_SPOILT; /* cannot be looked at */
    }
    socket->is_multiplexed = is_new ? transfer->is_multiplexed : socket->is_multiplexed;
    bool is_looked_at = is_new ? http_is_plain(transfer) : !socket->is_multiplexed;
    if (socket->is_spoilt || (is_looked_at && has_input(socket->fd))) {
        socket->is_spoilt = true;
        return is_new ? CONNECTION_EARLY : CONNECTION_SPOILT;
    }
    use(transfer, socket);
    return CONNECTION_CLEAN;
}

/* --- behind an answer ---------------------------------------------------------------------------- */

/* libcurl 7.88 drops what it has read behind an answer without a body, or behind the last chunk, and
 * keeps the connection. It says so in its log, from which this is known; later ones close it. */
static bool tells_of_excess(struct span text)
{
    return span_starts(text, "Excess found") || span_starts(text, "Leftovers after chunking");
}

/* What an answer says of its own version is no more than its target's word. */
static bool tells_of_multiplexing(struct span text)
{
    return span_starts(text, "ALPN: server accepted h2") ||
           span_starts(text, "ALPN, server accepted to use h2");
}

bool http_connection_is_other(const struct transfer *transfer, struct span status_line)
{
    bool is_multiplexed = transfer->socket != NULL && transfer->socket->is_multiplexed;

    return !is_multiplexed && !span_starts(status_line, "HTTP/1.");
}

void http_connection_note(struct transfer *transfer, struct span text)
{
    if (tells_of_multiplexing(text)) {
        transfer->is_multiplexed = true;
    } else if (tells_of_excess(text)) {
        (void)HTTP_SET(transfer, CURLOPT_FORBID_REUSE, 1L); /* cannot fail */
    }
}

/* The first word of a challenge, or of credentials. */
static bool is_of_connection(struct span said)
{
    static const char *const schemes[] = {"NTLM", "Negotiate", "Kerberos", "Nego2"};
    struct span scheme;

    said = span_trim(said);
    (void)span_cut(&said, ' ', &scheme); /* without one it is all of it */
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (span_is_nocase(scheme, schemes[i])) {
            return true;
        }
    }
    return false;
}

bool http_connection_is_personal(struct span name, struct span value)
{
    char letter = name.len > 0 ? (char)(name.at[0] | 0x20) : '\0';
    struct span one;

    if (letter != 'a' && letter != 'p' && letter != 'w') {
        return false; /* as with most */
    }
    bool has_more =
        span_is_nocase(name, "Authorization") || span_is_nocase(name, "Proxy-Authorization") ||
        span_is_nocase(name, "WWW-Authenticate") || span_is_nocase(name, "Proxy-Authenticate");

    while (has_more) { /* an answer may offer several */
        has_more = span_cut(&value, ',', &one);
        if (is_of_connection(one)) {
            return true;
        }
    }
    return span_is_nocase(name, "Persistent-Auth") && span_is_nocase(span_trim(value), "true");
}
