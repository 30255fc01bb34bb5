/* SPDX-License-Identifier: MIT
 *
 * listen -- the listening socket. Our own and not libmicrohttpd's, so that a refusal says what is
 * wrong.
 */
#include "edge/listener.h"

#include "base/fault.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOST_MAX  64
#define FIELD_MAX 64

#define UNSENT_BYTES 131072 /* of an answer that wait in the kernel of each connection */

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static bool read_address(struct span host, uint16_t port, union address *ret_address)
{
    char text[HOST_MAX];

    *ret_address = (union address){0};
    if (host.len >= sizeof text) {
        return false;
    }
    (void)snprintf(text, sizeof text, "%.*s", SPAN_ARGS(host)); /* fits */
    if (inet_pton(AF_INET, text, &ret_address->four.sin_addr) == 1) {
        ret_address->four.sin_family = AF_INET;
        ret_address->four.sin_port = htons(port);
        return true;
    }
    ret_address->six.sin6_family = AF_INET6;
    ret_address->six.sin6_port = htons(port);
    return inet_pton(AF_INET6, text, &ret_address->six.sin6_addr) == 1;
}

static bool is_loopback(const union address *address)
{
    if (address->any.sa_family == AF_INET) {
        return ntohl(address->four.sin_addr.s_addr) >> 24 == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&address->six.sin6_addr);
}

static uint16_t port_of(int fd)
{
    union address address = {0};
    socklen_t len = sizeof address;

    if (getsockname(fd, &address.any, &len) != 0) {
        return 0;
    }
    return ntohs(address.any.sa_family == AF_INET ? address.four.sin_port : address.six.sin6_port);
}

/* 0, or errno. */
static int open_socket(const union address *address, int *ret_fd)
{
    socklen_t len = address->any.sa_family == AF_INET ? sizeof address->four : sizeof address->six;
    int on = 1, fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        return errno;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* else bind says why */
    if (bind(fd, &address->any, len) != 0 || listen(fd, SOMAXCONN) != 0) {
        int code = errno;
        (void)close(fd); /* nothing was written to it */
        return code;
    }
    *ret_fd = fd;
    return 0;
}

/* What the kernel keeps for callers who do not read; accepted sockets inherit it. A kernel that has one
 * of these not is one that keeps more. */
static void bound_memory(int fd, int64_t patience_ms)
{
    unsigned patience = patience_ms > UINT_MAX ? UINT_MAX : (unsigned)patience_ms;
    unsigned unsent = UNSENT_BYTES;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
}

int listen_open(const struct listener_options *options, int *ret_fd, uint16_t *ret_port,
                struct error *err)
{
    struct span host = options->host;
    union address address;
    char field[FIELD_MAX];

    (void)snprintf(field, sizeof field, "%s.listen", options->key); /* fits */
    if (!read_address(host, options->port, &address)) {
        return fail_field(err, FAULT_INPUT, field, "\"%.*s\" is not an address", SPAN_ARGS(host));
    }
    if (!options->is_public && !is_loopback(&address)) {
        return fail_field(err, FAULT_INPUT, field,
                          "without api.tokens the %s listens on loopback only, not on %.*s",
                          options->key, SPAN_ARGS(host));
    }
    int code = open_socket(&address, ret_fd);
    if (code != 0) {
        return fail_field(err, FAULT_SYSTEM, field, "listening on %.*s, port %u: %s",
                          SPAN_ARGS(host), options->port, strerror(code));
    }
    bound_memory(*ret_fd, options->patience_ms);
    *ret_port = port_of(*ret_fd);
    return 0;
}
