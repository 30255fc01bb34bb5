/* SPDX-License-Identifier: MIT
 *
 * beans -- load for beanstalkd in its own protocol: connections that each wait for an answer before
 * they ask again. Prints how many were done, and the seconds that it took.
 *
 *     beans --port 11300 --connections 64 --seconds 4      puts entries of 400 bytes
 *     beans --port 11300 --connections 64 --take 10000     reserves and deletes that many
 */
#include "../bench.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY_BYTES      400
#define TEXT_MAX        1024
#define CONNECTIONS_MAX 4096
#define EVENTS_MAX      256

struct client {
    int fd;
    size_t len;
    char text[TEXT_MAX];
};

static struct {
    int epoll_fd;
    uint64_t done, wanted; /* wanted 0: until the time is over */
    int64_t until_ns;
    bool takes;
} load;

static void ask(struct client *client, const char *text, size_t len)
{
    if (send(client->fd, text, len, MSG_NOSIGNAL) != (ssize_t)len) {
        bench_give_up("beanstalkd does not read");
    }
}

static void put(struct client *client)
{
    static char text[TEXT_MAX];
    static size_t len;

    if (len == 0) {
        int head = snprintf(text, sizeof text, "put 0 0 60 %d\r\n", BODY_BYTES);
        memset(text + head, 'x', BODY_BYTES);
        memcpy(text + head + BODY_BYTES, "\r\n", 2);
        len = (size_t)head + BODY_BYTES + 2;
    }
    ask(client, text, len);
}

static void begin(struct client *client)
{
    static const char reserve[] = "reserve-with-timeout 0\r\n";

    if (load.takes) {
        ask(client, reserve, sizeof reserve - 1);
    } else {
        put(client);
    }
}

/* How long the answer is that stands in the text; 0: it is not whole yet. */
static size_t answer_len(const struct client *client)
{
    const char *end = memchr(client->text, '\n', client->len);
    unsigned long bytes = 0;

    if (end == NULL) {
        return 0;
    }
    size_t len = (size_t)(end - client->text) + 1;
    if (sscanf(client->text, "RESERVED %*u %lu", &bytes) == 1) {
        len += bytes + 2;
    }
    return len <= client->len ? len : 0;
}

static void go_on(struct client *client)
{
    char text[64];
    unsigned long long id = 0;

    if (sscanf(client->text, "RESERVED %llu", &id) == 1) {
        int len = snprintf(text, sizeof text, "delete %llu\r\n", id);
        ask(client, text, (size_t)len);
        return;
    }
    const char *wanted = load.takes ? "DELETED" : "INSERTED";
    if (strncmp(client->text, wanted, strlen(wanted)) != 0) {
        bench_give_up("beanstalkd answered something else");
    }
    load.done++;
    begin(client);
}

static void hear(struct client *client)
{
    ssize_t got = recv(client->fd, client->text + client->len, TEXT_MAX - 1 - client->len, 0);

    if (got <= 0) {
        bench_give_up("beanstalkd hung up");
    }
    client->len += (size_t)got;
    client->text[client->len] = '\0';
    size_t len = answer_len(client);
    if (len > 0) {
        client->len = 0; /* one question, one answer */
        if (load.wanted == 0 || load.done < load.wanted) {
            go_on(client);
        }
    }
}

static struct client *connect_client(uint64_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    struct client *client = calloc(1, sizeof *client);
    struct epoll_event wish = {.events = EPOLLIN, .data = {.ptr = client}};
    int now = 1;

    if (client == NULL) {
        bench_give_up("no memory");
    }
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0 || connect(client->fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now) != 0 ||
        epoll_ctl(load.epoll_fd, EPOLL_CTL_ADD, client->fd, &wish) != 0) {
        bench_give_up("no connection to beanstalkd");
    }
    return client;
}

static bool goes_on(void)
{
    return load.takes ? load.done < load.wanted : bench_now_ns() < load.until_ns;
}

int main(int argc, char **argv)
{
    uint64_t port = bench_number(argc, argv, "--port", 11300);
    uint64_t connections = bench_number(argc, argv, "--connections", 64);
    struct epoll_event events[EVENTS_MAX];
    static struct client *clients[CONNECTIONS_MAX];

    load.wanted = bench_number(argc, argv, "--take", 0);
    load.takes = load.wanted > 0;
    load.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (load.epoll_fd < 0 || connections == 0 || connections > CONNECTIONS_MAX || port > 65535) {
        bench_give_up("--port and --connections");
    }
    for (uint64_t i = 0; i < connections; i++) {
        clients[i] = connect_client(port);
    }
    int64_t began_ns = bench_now_ns();
    load.until_ns = began_ns + (int64_t)bench_number(argc, argv, "--seconds", 4) * 1000000000;
    for (uint64_t i = 0; i < connections; i++) {
        begin(clients[i]);
    }
    while (goes_on()) {
        int count = epoll_wait(load.epoll_fd, events, EVENTS_MAX, 1000);
        for (int i = 0; i < count; i++) {
            hear(events[i].data.ptr);
        }
    }
    printf("%llu %.6f\n", (unsigned long long)load.done, (double)(bench_now_ns() - began_ns) / 1e9);
    for (uint64_t i = 0; i < connections; i++) {
        free(clients[i]);
    }
    return 0;
}
