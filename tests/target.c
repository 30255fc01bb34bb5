/* SPDX-License-Identifier: MIT
 *
 * target -- see target.h. Blocking sockets and a thread for each connection: what it does is then
 * exactly what the script says, in that order.
 */
#include "target.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX  512
#define REQUESTS_MAX     4096
#define READ_BYTES       65536
#define FULL_CONNECTIONS 4
#define VALID_SECONDS    (365L * 24 * 3600)

struct request {
    char *bytes;
    size_t len;
};

struct connection {
    struct target *target;
    const struct target_script *script;
    int fd;
    SSL *tls; /* NULL: plain */
    char *bytes;
    size_t len, room; /* read and not used up yet */
    pthread_t thread;
};

struct target {
    struct target_plan plan;
    int listener;
    uint16_t port;
    SSL_CTX *tls;
    char certificate[64];
    pthread_t acceptor;
    bool is_stopped;
    pthread_mutex_t lock;
    pthread_cond_t is_over;
    uint16_t last_port; /* under lock, like all below: where the last connection comes from */
    struct connection *connections[CONNECTIONS_MAX];
    size_t connection_count, over_count;
    struct request requests[REQUESTS_MAX];
    size_t request_count;
};

static void need(bool holds, const char *what)
{
    if (!holds) {
        perror(what);
        abort();
    }
}

/* Memory is there, or will be: tests that refuse allocations do not mean these. */
static void *grow(void *memory, size_t size)
{
    void *grown;

    do {
        grown = realloc(memory, size);
    } while (grown == NULL);
    return grown;
}

static ssize_t connection_read(struct connection *connection, char *bytes, size_t len)
{
    return connection->tls != NULL ? SSL_read(connection->tls, bytes, (int)len)
                                   : recv(connection->fd, bytes, len, 0);
}

static bool connection_write(struct connection *connection, const char *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t count = connection->tls != NULL
                            ? SSL_write(connection->tls, bytes + done, (int)(len - done))
                            : send(connection->fd, bytes + done, len - done, MSG_NOSIGNAL);
        if (count <= 0) {
            return false;
        }
        done += (size_t)count;
    }
    return true;
}

static bool fill(struct connection *connection)
{
    if (connection->room - connection->len < READ_BYTES) {
        connection->room = connection->room * 2 + READ_BYTES;
        connection->bytes = grow(connection->bytes, connection->room);
    }
    ssize_t count = connection_read(connection, connection->bytes + connection->len, READ_BYTES);
    connection->len += count > 0 ? (size_t)count : 0;
    return count > 0;
}

/* Bytes of the head with its empty line; 0: not all there. */
static size_t head_length(struct span bytes)
{
    for (size_t i = 0; i + 4 <= bytes.len; i++) {
        if (memcmp(bytes.at + i, "\r\n\r\n", 4) == 0) {
            return i + 4;
        }
    }
    return 0;
}

static size_t body_length(struct span head)
{
    struct span line, name;
    int64_t len = 0;

    while (span_cut(&head, '\n', &line)) {
        if (span_cut(&line, ':', &name) && span_is_nocase(name, "Content-Length")) {
            struct span value = span_trim(line);
            value.len -= value.len > 0 && value.at[value.len - 1] == '\r';
            need(span_to_int(value, &len), "a Content-Length that is no number");
        }
    }
    return (size_t)len;
}

static void record(struct connection *connection, size_t len)
{
    struct target *target = connection->target;
    char *copy = grow(NULL, len + 1);

    memcpy(copy, connection->bytes, len);
    copy[len] = '\0';
    memmove(connection->bytes, connection->bytes + len, connection->len - len);
    connection->len -= len;
    pthread_mutex_lock(&target->lock);
    need(target->request_count < REQUESTS_MAX, "too many requests");
    target->requests[target->request_count++] = (struct request){.bytes = copy, .len = len};
    pthread_mutex_unlock(&target->lock);
}

static bool read_request(struct connection *connection)
{
    for (;;) {
        struct span bytes = {.at = connection->bytes, .len = connection->len};
        size_t head_len = head_length(bytes);
        size_t len = head_len > 0 ? head_len + body_length(span_until(bytes, head_len)) : 0;
        if (len > 0 && bytes.len >= len) {
            record(connection, len);
            return true;
        }
        if (!fill(connection)) {
            return false;
        }
    }
}

static void drip(struct connection *connection, const struct target_step *step)
{
    for (size_t i = 0; i < step->len; i++) {
        if (!connection_write(connection, step->bytes + i, 1)) {
            return;
        }
    }
}

static void hold(struct connection *connection)
{
    char ignored[256];

    while (connection_read(connection, ignored, sizeof ignored) > 0) {
    }
}

static void reset_at_close(struct connection *connection)
{
    struct linger now = {.l_onoff = 1};

    need(setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0, "SO_LINGER");
}

/* False: the connection is over. */
static bool take_step(struct connection *connection, const struct target_step *step)
{
    const struct target_plan *plan = &connection->target->plan;

    switch (step->act) {
    case TARGET_READ:
        return read_request(connection);
    case TARGET_HEAR:
        return fill(connection);
    case TARGET_WRITE:
        return connection_write(connection, step->bytes, step->len);
    case TARGET_DRIP:
        drip(connection, step);
        return true;
    case TARGET_TELL:
        plan->told(plan->user);
        return true;
    case TARGET_HOLD:
        hold(connection);
        return false;
    case TARGET_RESET:
        reset_at_close(connection);
        return false;
    case TARGET_REPEAT:
    default:
        return true;
    }
}

static void follow(struct connection *connection)
{
    const struct target_script *script = connection->script;

    for (size_t i = 0; i < script->count; i++) {
        const struct target_step *step = &script->steps[i];
        if (!take_step(connection, step)) {
            return;
        }
        if (step->act == TARGET_REPEAT) {
            i = (size_t)-1;
        }
    }
}

static void *serve(void *user)
{
    struct connection *connection = user;

    if (connection->tls == NULL || SSL_accept(connection->tls) == 1) {
        follow(connection);
    }
    pthread_mutex_lock(&connection->target->lock);
    (void)close(connection->fd); /* a reset, if it was asked for */
    connection->fd = -1;
    connection->target->over_count++;
    pthread_cond_broadcast(&connection->target->is_over);
    pthread_mutex_unlock(&connection->target->lock);
    return NULL;
}

static void begin_connection(struct target *target, int fd)
{
    struct connection *connection = grow(NULL, sizeof *connection);
    int yes = 1;

    *connection = (struct connection){.target = target, .fd = fd};
    need(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0, "TCP_NODELAY");
    if (target->tls != NULL) {
        connection->tls = SSL_new(target->tls);
        need(connection->tls != NULL && SSL_set_fd(connection->tls, fd) == 1, "SSL_new");
    }
    pthread_mutex_lock(&target->lock);
    size_t number = target->connection_count++;
    need(number < CONNECTIONS_MAX, "too many connections");
    connection->script =
        &target->plan.scripts[number < target->plan.count ? number : target->plan.count - 1];
    target->connections[number] = connection;
    pthread_mutex_unlock(&target->lock);
    need(pthread_create(&connection->thread, NULL, serve, connection) == 0, "pthread_create");
}

static bool is_last(struct target *target, const struct sockaddr_in *peer)
{
    pthread_mutex_lock(&target->lock);
    bool is_same = ntohs(peer->sin_port) == target->last_port;
    pthread_mutex_unlock(&target->lock);
    return is_same;
}

static void *accept_all(void *user)
{
    struct target *target = user;

    for (;;) {
        struct sockaddr_in peer = {0};
        socklen_t len = sizeof peer;
        int fd = accept(target->listener, (struct sockaddr *)&peer, &len);
        need(fd >= 0, "accept");
        if (is_last(target, &peer)) {
            (void)close(fd);
            return NULL;
        }
        begin_connection(target, fd);
    }
}

static int bind_somewhere(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    need(fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0, "bind");
    need(getsockname(fd, (struct sockaddr *)&address, &len) == 0, "getsockname");
    *ret_port = ntohs(address.sin_port);
    return fd;
}

uint16_t target_free_port(void)
{
    uint16_t port = 0;
    int fd = bind_somewhere(&port);

    (void)close(fd); /* it was never listened on */
    return port;
}

uint16_t target_full_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    uint16_t port = 0;
    int fd = bind_somewhere(&port);

    address.sin_port = htons(port);
    need(listen(fd, 0) == 0, "listen");
    for (int i = 0; i < FULL_CONNECTIONS; i++) {
        int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        need(one >= 0, "socket");
        (void)connect(one, (struct sockaddr *)&address, sizeof address); /* under way, or stuck */
    }
    return port;
}

/* Self-signed, its own authority. */
static X509 *make_certificate(EVP_PKEY *key, const char *name)
{
    X509 *made = X509_new();
    X509_NAME *subject = X509_get_subject_name(made);
    char names[128];

    (void)snprintf(names, sizeof names, "%s", name);
    X509_EXTENSION *alternative = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
    X509_EXTENSION *basic = X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "CA:TRUE");
    need(made != NULL && alternative != NULL && basic != NULL, "certificate");
    need(X509_set_version(made, X509_VERSION_3) == 1 &&
             ASN1_INTEGER_set(X509_get_serialNumber(made), 1) == 1 &&
             X509_gmtime_adj(X509_getm_notBefore(made), -3600) != NULL &&
             X509_gmtime_adj(X509_getm_notAfter(made), VALID_SECONDS) != NULL &&
             X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                        (const unsigned char *)"target", -1, -1, 0) == 1 &&
             X509_set_issuer_name(made, subject) == 1 && X509_set_pubkey(made, key) == 1 &&
             X509_add_ext(made, alternative, -1) == 1 && X509_add_ext(made, basic, -1) == 1 &&
             X509_sign(made, key, EVP_sha256()) > 0,
         "certificate");
    X509_EXTENSION_free(alternative);
    X509_EXTENSION_free(basic);
    return made;
}

static void make_tls(struct target *target)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = make_certificate(key, target->plan.tls_name);

    (void)snprintf(target->certificate, sizeof target->certificate, "target-%d.pem",
                   (int)target->port);
    FILE *file = fopen(target->certificate, "w");
    need(file != NULL && PEM_write_X509(file, certificate) == 1 && fclose(file) == 0, "pem");
    target->tls = SSL_CTX_new(TLS_server_method());
    need(target->tls != NULL && SSL_CTX_use_certificate(target->tls, certificate) == 1 &&
             SSL_CTX_use_PrivateKey(target->tls, key) == 1,
         "tls");
    X509_free(certificate);
    EVP_PKEY_free(key);
    (void)signal(SIGPIPE, SIG_IGN); /* libssl writes without MSG_NOSIGNAL */
}

struct target *target_start(const struct target_plan *plan)
{
    struct target *target = calloc(1, sizeof *target);

    need(target != NULL && pthread_mutex_init(&target->lock, NULL) == 0 &&
             pthread_cond_init(&target->is_over, NULL) == 0,
         "target");
    target->plan = *plan;
    target->listener = bind_somewhere(&target->port);
    if (plan->tls_name != NULL) {
        make_tls(target);
    }
    need(listen(target->listener, CONNECTIONS_MAX) == 0, "listen");
    need(pthread_create(&target->acceptor, NULL, accept_all, target) == 0, "pthread_create");
    return target;
}

uint16_t target_port(const struct target *target)
{
    return target->port;
}

const char *target_certificate(const struct target *target)
{
    return target->certificate;
}

/* Closing a listener drops what waits in its queue, and with it a request that ought to be counted.
 * Connections are accepted in order, so one of our own marks the end. */
static void end_accepting(struct target *target)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(target->port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    uint16_t port = 0;
    int fd = bind_somewhere(&port);

    pthread_mutex_lock(&target->lock);
    target->last_port = port;
    pthread_mutex_unlock(&target->lock);
    need(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    need(pthread_join(target->acceptor, NULL) == 0, "pthread_join");
    (void)close(fd);
    (void)close(target->listener);
}

void target_stop(struct target *target)
{
    if (target->is_stopped) {
        return;
    }
    target->is_stopped = true;
    end_accepting(target);
    for (size_t i = 0; i < target->connection_count; i++) {
        struct connection *connection = target->connections[i];
        pthread_mutex_lock(&target->lock);
        if (connection->fd >= 0) {
            (void)shutdown(connection->fd, SHUT_RD); /* what has come can still be read */
        }
        pthread_mutex_unlock(&target->lock);
        need(pthread_join(connection->thread, NULL) == 0, "pthread_join");
        SSL_free(connection->tls);
        free(connection->bytes);
        free(connection);
    }
}

void target_free(struct target *target)
{
    if (target == NULL) {
        return;
    }
    target_stop(target);
    for (size_t i = 0; i < target->request_count; i++) {
        free(target->requests[i].bytes);
    }
    SSL_CTX_free(target->tls);
    (void)pthread_cond_destroy(&target->is_over);
    (void)pthread_mutex_destroy(&target->lock);
    free(target);
}

void target_wait_over(struct target *target, size_t count)
{
    pthread_mutex_lock(&target->lock);
    while (target->over_count < count) {
        pthread_cond_wait(&target->is_over, &target->lock);
    }
    pthread_mutex_unlock(&target->lock);
}

size_t target_connection_count(struct target *target)
{
    pthread_mutex_lock(&target->lock);
    size_t count = target->connection_count;
    pthread_mutex_unlock(&target->lock);
    return count;
}

size_t target_request_count(struct target *target)
{
    pthread_mutex_lock(&target->lock);
    size_t count = target->request_count;
    pthread_mutex_unlock(&target->lock);
    return count;
}

struct span target_request(struct target *target, size_t n)
{
    pthread_mutex_lock(&target->lock);
    need(n < target->request_count, "no such request");
    struct span bytes = {.at = target->requests[n].bytes, .len = target->requests[n].len};
    pthread_mutex_unlock(&target->lock);
    return bytes;
}

struct span target_request_body(struct target *target, size_t n)
{
    struct span bytes = target_request(target, n);

    return span_from(bytes, head_length(bytes));
}
