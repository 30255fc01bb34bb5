/* SPDX-License-Identifier: MIT
 *
 * noop -- libmicrohttpd in external epoll mode, reading each request whole and answering it with a
 * few bytes: what HTTP alone costs. It is the limit for taking requests in, and the target for
 * sending them out; --body is what it says instead. It listens on a free port of the loopback, prints the number, and serves until
 * a TERM.
 *
 * With --late a request's body begins with the moment it was due, in milliseconds since 1970; at
 * the end it prints how late the first bytes came: count, earliest, p50, p99, p99.9 and latest, in
 * microseconds.
 */
#include "../bench.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 20000
#define BACKLOG         1024
#define LATE_ROOM_FIRST (1u << 16)
#define WAIT_MS         200

static volatile sig_atomic_t is_over;

static struct {
    int64_t *us;
    size_t count, room;
    bool is_wanted;
} late;

static void end(int number)
{
    (void)number;
    is_over = 1;
}

static int64_t wall_us(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        bench_give_up("no clock");
    }
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void note_late(const char *body, size_t len)
{
    int64_t due_ms = 0;

    for (size_t i = 0; i < len && body[i] >= '0' && body[i] <= '9'; i++) {
        due_ms = due_ms * 10 + (body[i] - '0');
    }
    if (late.count == late.room) {
        late.room = late.room == 0 ? LATE_ROOM_FIRST : late.room * 2;
        late.us = realloc(late.us, late.room * sizeof *late.us);
        if (late.us == NULL) {
            bench_give_up("no memory");
        }
    }
    late.us[late.count++] = wall_us() - due_ms * 1000;
}

static int compare(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;

    return (a > b) - (a < b);
}

static int64_t at_share(double share)
{
    return late.us[(size_t)(share * (double)(late.count - 1))];
}

static void print_late(void)
{
    if (late.count == 0) {
        bench_give_up("nothing came");
    }
    qsort(late.us, late.count, sizeof *late.us, compare);
    printf("%zu %lld %lld %lld %lld %lld\n", late.count, (long long)late.us[0],
           (long long)at_share(0.5), (long long)at_share(0.99), (long long)at_share(0.999),
           (long long)late.us[late.count - 1]);
}

static enum MHD_Result serve(void *user, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *upload,
                             size_t *upload_len, void **seen)
{
    struct MHD_Response *answer = user;

    (void)url, (void)method, (void)version;
    if (*seen == NULL) {
        *seen = answer;
        return MHD_YES;
    }
    if (*upload_len > 0) {
        if (late.is_wanted && *seen == answer) {
            note_late(upload, *upload_len);
            *seen = &late;
        }
        *upload_len = 0;
        return MHD_YES;
    }
    return MHD_queue_response(connection, MHD_HTTP_OK, answer);
}

static int listen_anywhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        bench_give_up("no port to listen on");
    }
    printf("%d\n", ntohs(address.sin_port));
    (void)fflush(stdout); /* whoever started this finds out by not reading it */
    return fd;
}

static void turn(struct MHD_Daemon *daemon, int epoll_fd)
{
    MHD_UNSIGNED_LONG_LONG left_ms = WAIT_MS;
    struct pollfd wait = {.fd = epoll_fd, .events = POLLIN};

    if (MHD_get_timeout(daemon, &left_ms) != MHD_YES || left_ms > WAIT_MS) {
        left_ms = WAIT_MS;
    }
    (void)poll(&wait, 1, (int)left_ms); /* a signal ends it early, which is as well */
    if (MHD_run(daemon) != MHD_YES) {
        bench_give_up("libmicrohttpd does not run");
    }
}

int main(int argc, char **argv)
{
    static char usual[] = "{\"ok\":true}";
    const char *given = bench_word(argc, argv, "--body");
    char *text = given != NULL ? (char *)(uintptr_t)given : usual; /* it is only read */
    struct sigaction on_end = {.sa_handler = end};
    struct MHD_Response *answer =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_PERSISTENT);

    late.is_wanted = bench_number(argc, argv, "--late", 0) != 0;
    (void)signal(SIGPIPE, SIG_IGN); /* cannot fail for a signal that exists; nor the next */
    (void)sigaction(SIGTERM, &on_end, NULL);
    struct MHD_Daemon *daemon = answer == NULL
                                    ? NULL
                                    : MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, serve, answer,
                                                       MHD_OPTION_LISTEN_SOCKET, listen_anywhere(),
                                                       MHD_OPTION_CONNECTION_LIMIT,
                                                       (unsigned)CONNECTIONS_MAX, MHD_OPTION_END);
    if (daemon == NULL) {
        bench_give_up("libmicrohttpd does not start");
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    while (!is_over) {
        turn(daemon, info->epoll_fd);
    }
    MHD_stop_daemon(daemon);
    MHD_destroy_response(answer);
    if (late.is_wanted) {
        print_late();
    }
    free(late.us);
    return 0;
}
