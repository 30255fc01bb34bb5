/* SPDX-License-Identifier: MIT
 *
 * orders -- the order service of docs/requirements.md, part C: POST /api/orders/confirm takes its time
 * and confirms an order; it knows nothing of keys, so whoever calls it twice has two confirmations. That is what the gateway
 * in front of it is for. GET /api/orders/by-key/KEY tells whether a confirmation under that key was
 * made, so that the gateway can ask.
 *
 *   orders PORT [SECONDS]      PORT 0: any free one; it is printed
 *
 * What goes wrong is asked for by the request's own body: "fail": "400", "500", "503", "hang" (never
 * answers), "cut" (confirms, then cuts the connection). One thread a connection, everything in memory:
 * an example, not a server.
 */
#define _GNU_SOURCE /* strcasestr */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_MAX 16384
#define KEY_MAX     256
#define ORDERS_MAX  1000

struct order {
    char key[KEY_MAX];
    int number;
};

static struct {
    pthread_mutex_t lock;
    struct order orders[ORDERS_MAX];
    int count;
} book = {.lock = PTHREAD_MUTEX_INITIALIZER};

static long seconds = 5;

/* --- the book ------------------------------------------------------------------------------------ */

static int confirm(const char *key)
{
    pthread_mutex_lock(&book.lock);
    int number = 1000 + ++book.count;
    struct order *order = &book.orders[book.count % ORDERS_MAX];
    (void)snprintf(order->key, sizeof order->key, "%s", key); /* a longer one is cut */
    order->number = number;
    printf("  order service: confirmation %d\n", number);
    fflush(stdout);
    pthread_mutex_unlock(&book.lock);
    return number;
}

/* 0: there is none. */
static int find(const char *key)
{
    int number = 0;

    pthread_mutex_lock(&book.lock);
    for (int i = 0; i < ORDERS_MAX && number == 0; i++) {
        bool is_it = book.orders[i].number != 0 && strcmp(book.orders[i].key, key) == 0;
        number = is_it ? book.orders[i].number : 0;
    }
    pthread_mutex_unlock(&book.lock);
    return number;
}

/* --- HTTP, as little as it takes --------------------------------------------------------------------- */

struct request {
    char text[REQUEST_MAX];
    size_t len, head; /* what was read; of it the header */
};

/* The value of a header field, with a NUL behind it. */
static void header(const struct request *request, const char *name, char *value, size_t size)
{
    const char *at = strcasestr(request->text, name);
    size_t len = 0;

    value[0] = '\0';
    if (at == NULL || at > request->text + request->head) {
        return;
    }
    for (at += strlen(name) + 1; *at == ' '; at++) {
    }
    while (at[len] != '\r' && at[len] != '\0' && len + 1 < size) {
        value[len] = at[len];
        len++;
    }
    value[len] = '\0';
}

/* False: there is no more, or it is too long. */
static bool read_request(int fd, struct request *request)
{
    char length[32];
    size_t wanted = SIZE_MAX;

    request->len = request->head = 0;
    while (request->len < wanted) {
        ssize_t got = recv(fd, request->text + request->len, REQUEST_MAX - 1 - request->len, 0);
        if (got <= 0) {
            return false;
        }
        request->len += (size_t)got;
        request->text[request->len] = '\0';
        const char *end = strstr(request->text, "\r\n\r\n");
        if (request->head == 0 && end != NULL) {
            request->head = (size_t)(end - request->text) + 4;
            header(request, "\ncontent-length", length, sizeof length);
            wanted = request->head + strtoul(length, NULL, 10);
        }
        if (wanted != SIZE_MAX && wanted >= REQUEST_MAX) {
            return false;
        }
    }
    return true;
}

static bool answer(int fd, int status, const char *more, const char *body)
{
    char text[1024];
    int len = snprintf(text, sizeof text,
                       "HTTP/1.1 %d Said\r\nContent-Type: application/json\r\n%sContent-Length: "
                       "%zu\r\n\r\n%s",
                       status, more, strlen(body), body);

    return len > 0 && send(fd, text, (size_t)len, MSG_NOSIGNAL) == len;
}

/* --- what it does ------------------------------------------------------------------------------------ */

static bool confirmed(int fd, int number, int status)
{
    char body[96];

    (void)snprintf(body, sizeof body, "{\"confirmation\": %d, \"status\": \"confirmed\"}", number);
    return answer(fd, status, "", body);
}

static bool wants(const struct request *request, const char *failure)
{
    return strstr(request->text + request->head, failure) != NULL;
}

static bool take_order(int fd, const struct request *request)
{
    char key[KEY_MAX];
    struct timespec time = {.tv_sec = seconds};

    header(request, "\nidempotency-key", key, sizeof key);
    if (wants(request, "\"400\"")) {
        return answer(fd, 400, "", "{\"error\": \"no such order\"}");
    }
    if (wants(request, "\"503\"")) {
        return answer(fd, 503, "Retry-After: 1\r\n", "{\"error\": \"too busy\"}");
    }
    nanosleep(&time, NULL);
    if (wants(request, "\"hang\"")) {
        pause();
    }
    int number = confirm(key);
    if (wants(request, "\"500\"")) {
        return answer(fd, 500, "", "{\"error\": \"something broke on the way\"}");
    }
    return !wants(request, "\"cut\"") && confirmed(fd, number, 201);
}

static bool take(int fd, const struct request *request)
{
    static const char by_key[] = "GET /api/orders/by-key/";
    char key[KEY_MAX];

    if (strncmp(request->text, by_key, sizeof by_key - 1) == 0) {
        (void)snprintf(key, sizeof key, "%.*s",
                       (int)strcspn(request->text + sizeof by_key - 1, " ?"),
                       request->text + sizeof by_key - 1);
        int number = find(key);
        return number != 0 ? confirmed(fd, number, 200)
                           : answer(fd, 404, "", "{\"error\": \"no such key\"}");
    }
    if (strncmp(request->text, "POST /api/orders/confirm ", 25) == 0) {
        return take_order(fd, request);
    }
    return answer(fd, 404, "", "{\"error\": \"nothing here\"}");
}

static void *serve(void *argument)
{
    int fd = (int)(intptr_t)argument;
    struct request *request = malloc(sizeof *request);

    while (request != NULL && read_request(fd, request) && take(fd, request)) {
    }
    free(request);
    (void)close(fd);
    return NULL;
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 64) != 0) {
        perror("orders");
        return -1;
    }
    return fd;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: orders PORT [SECONDS]\n");
        return 2;
    }
    seconds = argc > 2 ? (long)strtoul(argv[2], NULL, 10) : seconds;
    int listener = listen_on((uint16_t)strtoul(argv[1], NULL, 10));
    if (listener < 0) {
        return 1;
    }
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    if (getsockname(listener, (struct sockaddr *)&address, &len) == 0) {
        printf("listening on %u\n", ntohs(address.sin_port));
        fflush(stdout);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    for (;;) {
        pthread_t thread;
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0 && pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0) {
            pthread_detach(thread);
        }
    }
}
