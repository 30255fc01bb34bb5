/* SPDX-License-Identifier: MIT
 *
 * edge_world -- a real edge on a free loopback port, a stub for the engine, and clients with sockets
 * of their own, all on one loop in one thread: a test writes, lets the loop run until what it waits
 * for has come, and looks.
 */
#ifndef EDGE_WORLD_H
#define EDGE_WORLD_H

#include "harness.h"
#include "stub_engine.h"

#include "base/buf.h"
#include "edge/edges.h"

#define WORLD_PATIENCE_MS 20000 /* then the test has failed */
#define WORLD_NOW_MS      INT64_C(1800000000000)

struct world {
    struct loop *loop;
    struct loop_timer *patience;
    struct loop_hook *look;
    struct loop_hook *last; /* runs after the edge's own hook: libuv begins with the youngest */
    void (*before_wait)(void *); /* what it does; NULL: nothing */
    void *before_wait_user;
    struct engine *engine;
    struct edge *edge;
    struct edges *edges; /* instead, after world_open_threads */
    uint16_t port;
    bool (*is_done)(void *user);
    void *done_user;
    bool is_late;
    bool is_ready; /* what readiness says */
};

/* NULL options: the usual ones; loop, engine, host, clock are filled in. */
void world_open(struct world *world, const struct edge_options *options);
/* The same with edges on so many threads, the world's own being the engine's. */
void world_open_threads(struct world *world, const struct edge_options *options, uint32_t threads);
void world_close(struct world *world);

/* What the engine says, to either. */
void world_reply(struct world *world, const struct reply *reply);

/* Runs the loop until it holds; the test fails when it does not in time. */
void world_run(struct world *world, bool (*is_done)(void *user), void *user);
/* Likewise, for what other threads change without waking this loop; the user is the world. */
void world_run_threads(struct world *world, bool (*is_done)(void *user));
void world_run_calls(struct world *world, size_t count); /* until the engine was called so often */

/* One connection from outside. */
struct client {
    struct world *world;
    struct loop_watch *watch;
    int fd;
    struct buf sent, got;
    size_t sent_len;   /* of `sent`, already on its way */
    size_t wanted_len; /* see client_await_bytes */
    bool is_closed;    /* by the server */
    bool is_reset;
    bool is_deaf; /* does not read */
};

bool world_lets_in(struct world *world); /* can anybody connect? */
void client_open(struct client *client, struct world *world);
void client_close(struct client *client);
void client_send(struct client *client, struct span bytes);
void client_sendf(struct client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A request with a body, its length, and Host. Empty body: no Content-Length. */
void client_request(struct client *client, const char *method, const char *target,
                    const char *body);

/* One whole answer. Spans point into client->got and are gone with the next one. */
struct answer_view {
    int status;
    struct span headers; /* lines */
    struct span body;
};

void client_await(struct client *client, struct answer_view *ret_answer);
void client_await_head(struct client *client, struct answer_view *ret_answer); /* to a HEAD */
void client_await_close(struct client *client);
bool answer_header(const struct answer_view *answer, const char *name, struct span *ret_value);

/* Request and answer on a connection of its own; false in `is_ok` fails the test. The body is copied
 * into `ret_body` (NUL at its end). */
#define FETCH_BODY_MAX 65536
struct fetched {
    int status;
    char headers[4096];
    char body[FETCH_BODY_MAX];
};
void fetch(struct world *world, const char *method, const char *target, const char *body,
           struct fetched *ret_fetched);

/* These bytes end the connection: with a 4xx or 505, or without a word. The engine hears nothing. */
void assert_cut_off(struct world *world, struct span bytes, const char *what);

/* Sends a text byte by byte, one a millisecond. The caller frees the timer. */
struct drip {
    struct client *client;
    struct loop_timer *timer;
    const char *rest;
};
void drip_start(struct drip *drip, struct client *client, const char *text);

/* The answer has this status and this code. */
void assert_problem(const struct fetched *fetched, int status, const char *code);
void assert_contains(const char *text, const char *part);
void assert_lacks(const char *text, const char *part);

/* A task as a store would give it, in static memory. */
struct record world_record(enum task_state state);
#define WORLD_TASK_ID "01a3185c-5000-7001-8000-00000000002a"

/* Scripts for the stub: reply at once with a created task, or with a task. user: the world. */
void script_created(void *user, const struct stub_call *call);
void script_task(void *user, const struct stub_call *call);

#endif
