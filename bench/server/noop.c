/* SPDX-License-Identifier: MIT
 *
 * noop -- libmicrohttpd in external epoll mode, reading each request whole and answering it with a
 * few bytes: what HTTP alone costs. It is the limit for taking requests in, and the target for
 * sending them out; --body is what it says instead. It listens on a free port of the loopback, prints the number, and serves until
 * a TERM.
 *
 * With --late a request's body may begin with the moment it was due, in milliseconds since 1970; at
 * the end it prints how late the first bytes of these came: count, earliest, p50, p99, p99.9 and
 * latest, in microseconds; with --slot-ms N a line for each N milliseconds of due time. With
 * --refuse N the first N requests are answered with 500. With --any 1 it answers at every address of the
 * loopback, each of which is a host of its own.
 */
#define _GNU_SOURCE
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
    int64_t *due_ms; /* of each */
    size_t count, room;
    int64_t slot_ms; /* 0: one for all */
    bool is_wanted;
} late;

static long long refuse_count; /* how many more are refused */

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

    if (body[0] < '0' || body[0] > '9') {
        return; /* nobody waits for this one */
    }
    for (size_t i = 0; i < len && body[i] >= '0' && body[i] <= '9'; i++) {
        due_ms = due_ms * 10 + (body[i] - '0');
    }
    if (late.count == late.room) {
        late.room = late.room == 0 ? LATE_ROOM_FIRST : late.room * 2;
        late.us = realloc(late.us, late.room * sizeof *late.us);
        late.due_ms = realloc(late.due_ms, late.room * sizeof *late.due_ms);
        if (late.us == NULL || late.due_ms == NULL) {
            bench_give_up("no memory");
        }
    }
    late.due_ms[late.count] = due_ms;
    late.us[late.count++] = wall_us() - due_ms * 1000;
}

static int compare(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;

    return (a > b) - (a < b);
}

static void print_late(int64_t *us, size_t count)
{
    if (count == 0) {
        bench_give_up("nothing came");
    }
    qsort(us, count, sizeof *us, compare);
    printf("%zu %lld %lld %lld %lld %lld\n", count, (long long)us[0],
           (long long)us[(size_t)(0.5 * (double)(count - 1))],
           (long long)us[(size_t)(0.99 * (double)(count - 1))],
           (long long)us[(size_t)(0.999 * (double)(count - 1))], (long long)us[count - 1]);
}

/* Slot by slot, from the first due time on, as long as there is one with something in it. */
static void print_slots(void)
{
    int64_t *us = calloc(late.count + 1, sizeof *us), first_ms = INT64_MAX;
    size_t left = late.count;

    if (us == NULL) {
        bench_give_up("no memory");
    }
    for (size_t i = 0; i < late.count; i++) {
        first_ms = late.due_ms[i] < first_ms ? late.due_ms[i] : first_ms;
    }
    for (int64_t slot = 0; left > 0; slot++) {
        size_t count = 0;
        for (size_t i = 0; i < late.count; i++) {
            if ((late.due_ms[i] - first_ms) / late.slot_ms == slot) {
                us[count++] = late.us[i];
            }
        }
        print_late(us, count);
        left -= count;
    }
    free(us);
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
    if (refuse_count > 0) {
        refuse_count--;
        return MHD_queue_response(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, answer);
    }
    return MHD_queue_response(connection, MHD_HTTP_OK, answer);
}

static int listen_at(bool is_any)
{
    in_addr_t where = is_any ? INADDR_ANY : INADDR_LOOPBACK;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(where)}};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (is_any && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", sizeof "lo") != 0) {
        bench_give_up("it would be reached from elsewhere");
    }
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

    refuse_count = bench_number(argc, argv, "--refuse", 0);
    bool is_any = bench_number(argc, argv, "--any", 0) != 0;
    late.slot_ms = bench_number(argc, argv, "--slot-ms", 0);
    late.is_wanted = bench_number(argc, argv, "--late", 0) != 0;
    (void)signal(SIGPIPE, SIG_IGN); /* cannot fail for a signal that exists; nor the next */
    (void)sigaction(SIGTERM, &on_end, NULL);
    struct MHD_Daemon *daemon = answer == NULL
                                    ? NULL
                                    : MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, serve, answer,
                                                       MHD_OPTION_LISTEN_SOCKET, listen_at(is_any),
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
    if (late.is_wanted && late.slot_ms > 0) {
        print_slots();
    } else if (late.is_wanted) {
        print_late(late.us, late.count);
    }
    free(late.us);
    free(late.due_ms);
    return 0;
}
