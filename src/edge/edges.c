/* SPDX-License-Identifier: MIT
 *
 * edges -- see edges.h.
 *
 * The loops share one listening socket: the one that has time accepts. The places for connections are
 * those of all of them (house.h). Stopping: the thread is told, answers
 * whoever is still there, and closes its edge itself, since everything on its loop is its own.
 */
#include "edge/edges.h"

#include "edge/crossing.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* One loop more. */
struct edge_thread {
    struct loop *loop;
    struct edge *edge;
    struct crossing crossing;
    struct edge_published published;
    pthread_t thread;
    bool has_thread;
    atomic_bool wants_drain, wants_stop;
};

struct edges {
    struct edge *only;    /* with one thread; then there is nothing below */
    struct edge *gateway; /* what it takes in is the engine's: on the engine's loop; or NULL */
    struct shore shore;
    struct edge_thread *threads;
    uint32_t thread_count;
    struct waiting waiting;
    struct bodies bodies;
    struct house house;
    struct loop_waker *gateway_waker; /* of the engine's loop, for the house; or NULL */
    struct edge_published *published[EDGES_THREADS_MAX]; /* of each */
    struct edge_peers peers;
    int fd; /* the socket that they share */
    uint16_t port;
};

/* --- in the edge's thread ------------------------------------------------------------------------ */

static void woken(void *user)
{
    struct edge_thread *thread = user;

    crossing_take(thread->edge);
    edge_woken(thread->edge);
    if (atomic_load(&thread->wants_drain)) {
        edge_drain(thread->edge);
    }
    if (atomic_load(&thread->wants_stop)) {
        loop_stop(thread->loop);
    }
}

static void *run(void *argument)
{
    struct edge_thread *thread = argument;

    loop_run(thread->loop);
    edge_close(thread->edge);
    thread->edge = NULL;
    return NULL;
}

/* --- in the engine's --------------------------------------------------------------------------- */

static int open_thread(struct edges *edges, const struct edge_options *options, uint32_t number,
                       struct error *err)
{
    struct edge_thread *thread = &edges->threads[number];
    struct edge_options own = *options;
    const struct edge_place place = {.number = number,
                                     .crossing = &thread->crossing,
                                     .published = &thread->published,
                                     .peers = &edges->peers,
                                     .waiting = &edges->waiting,
                                     .bodies = &edges->bodies,
                                     .house = &edges->house,
                                     .fd = edges->fd,
                                     .port = edges->port};

    int failed = loop_new(&thread->loop, err);
    failed = failed != 0 ? failed
                         : crossing_open(&thread->crossing, &edges->shore, thread->loop, woken,
                                         thread, err);
    own.loop = thread->loop;
    own.engine = NULL; /* it is not this thread's */
    if (failed == 0) {
        house_add_loop(&edges->house, thread->crossing.waker, DOOR_API);
    }
    return failed != 0 ? failed : edge_open_at(&own, &place, &thread->edge, err);
}

static void gateway_woken(void *user)
{
    struct edges *edges = user;

    if (edges->gateway != NULL) {
        edge_woken(edges->gateway);
    }
}

static int start_threads(struct edges *edges, struct error *err)
{
    for (uint32_t i = 0; i < edges->thread_count; i++) {
        struct edge_thread *thread = &edges->threads[i];
        if (pthread_create(&thread->thread, NULL, run, thread) != 0) {
            return fail(err, FAULT_SYSTEM, "no thread for the HTTP server");
        }
        thread->has_thread = true;
    }
    return 0;
}

static int open_gateway(struct edges *edges, const struct edge_options *options, struct error *err)
{
    const struct edge_place place = {.number = edges->thread_count,
                                     .waiting = &edges->waiting,
                                     .bodies = &edges->bodies,
                                     .house = &edges->house,
                                     .is_gateway = true};

    if (options->gateway_host.len == 0) {
        return 0;
    }
    int failed = loop_waker_new(options->loop, gateway_woken, edges, &edges->gateway_waker, err);
    if (failed == 0) {
        house_add_loop(&edges->house, edges->gateway_waker, DOOR_GATEWAY);
    }
    return failed != 0 ? failed : edge_open_at(options, &place, &edges->gateway, err);
}

static int open_threads(struct edges *edges, const struct edge_options *options, uint32_t count,
                        struct error *err)
{
    edges->threads = calloc(count, sizeof *edges->threads);
    if (edges->threads == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for the HTTP server's threads");
    }
    edges->thread_count = count;
    bodies_init(&edges->bodies, options->room,
                options->limits.bodies_bytes_max != 0 ? options->limits.bodies_bytes_max
                                                      : EDGE_BODIES_BYTES);
    house_init(&edges->house, options->limits.connections_max != 0 ? options->limits.connections_max
                                                                   : EDGE_CONNECTIONS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        edges->published[i] = &edges->threads[i].published;
    }
    edges->peers = (struct edge_peers){.published = edges->published, .count = count};
    int failed = waiting_init(&edges->waiting, options->token_count, err);
    failed = failed != 0 ? failed : shore_open(&edges->shore, options->engine, options->loop, err);
    failed = failed != 0 ? failed : edge_listen(options, &edges->fd, &edges->port, err);
    for (uint32_t i = 0; failed == 0 && i < count; i++) {
        failed = open_thread(edges, options, i, err);
    }
    failed = failed != 0 ? failed : open_gateway(edges, options, err);
    return failed != 0 ? failed : start_threads(edges, err);
}

int edges_open(const struct edge_options *options, uint32_t threads, struct edges **ret_edges,
               struct error *err)
{
    if (threads < 1 || threads > EDGES_THREADS_MAX) {
        return fail_field(err, FAULT_INPUT, "threads", "threads: found %u, expected 1 to %d",
                          threads, EDGES_THREADS_MAX);
    }
    struct edges *edges = calloc(1, sizeof *edges);
    if (edges == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for the HTTP server");
    }
    edges->fd = -1;
    int failed = threads == 1 ? edge_open(options, &edges->only, err)
                              : open_threads(edges, options, threads - 1, err);
    if (failed != 0) {
        edges_close(edges);
        return failed;
    }
    *ret_edges = edges;
    return 0;
}

static void stop_thread(struct edge_thread *thread)
{
    if (thread->has_thread) {
        atomic_store(&thread->wants_stop, true);
        loop_wake(thread->crossing.waker);
        (void)pthread_join(thread->thread, NULL); /* fails only for a thread that is not there */
    }
    edge_close(thread->edge); /* of a thread that was never begun */
}

static void free_thread(struct edge_thread *thread)
{
    crossing_close(&thread->crossing);
    loop_free(thread->loop);
}

void edges_close(struct edges *edges)
{
    if (edges == NULL) {
        return;
    }
    edge_close(edges->only);
    edge_close(edges->gateway);
    edges->gateway = NULL;
    for (uint32_t i = 0; i < edges->thread_count; i++) {
        stop_thread(&edges->threads[i]);
    }
    for (uint32_t i = 0; i < edges->thread_count; i++) { /* no loop wakes another any more */
        free_thread(&edges->threads[i]);
    }
    loop_waker_free(edges->gateway_waker);
    shore_close(&edges->shore);
    if (edges->fd >= 0) {
        (void)close(edges->fd); /* nothing was written to it */
    }
    waiting_done(&edges->waiting);
    free(edges->threads);
    free(edges);
}

void edges_reply(struct edges *edges, const struct reply *reply)
{
    uint32_t number = exchange_edge(reply->exchange);

    if (edges->only != NULL) {
        edge_reply(edges->only, reply);
    } else if (number < edges->thread_count) {
        crossing_reply(&edges->threads[number].crossing, reply);
    } else if (edges->gateway != NULL) {
        edge_reply(edges->gateway, reply);
    }
}

void edges_drain(struct edges *edges)
{
    if (edges->only != NULL) {
        edge_drain(edges->only);
        return;
    }
    edges->shore.is_draining = true;
    if (edges->gateway != NULL) {
        edge_drain(edges->gateway);
    }
    if (edges->fd >= 0) {
        (void)close(edges->fd); /* each of them has its own */
        edges->fd = -1;
    }
    for (uint32_t i = 0; i < edges->thread_count; i++) {
        atomic_store(&edges->threads[i].wants_drain, true);
        loop_wake(edges->threads[i].crossing.waker);
    }
}

bool edges_are_drained(const struct edges *edges)
{
    if (edges->only != NULL) {
        return edge_is_drained(edges->only);
    }
    if (edges->gateway != NULL && !edge_is_drained(edges->gateway)) {
        return false;
    }
    for (uint32_t i = 0; i < edges->thread_count; i++) {
        if (!atomic_load(&edges->threads[i].published.is_drained)) {
            return false;
        }
    }
    return true;
}

uint16_t edges_port(const struct edges *edges)
{
    return edges->only != NULL ? edge_port(edges->only) : edges->port;
}

uint16_t edges_gateway_port(const struct edges *edges)
{
    const struct edge *edge = edges->only != NULL ? edges->only : edges->gateway;

    return edge != NULL ? edge_gateway_port(edge) : 0;
}

void edges_stats(const struct edges *edges, struct edge_stats *ret_stats)
{
    struct edge_stats sum = {0};

    if (edges->only != NULL) {
        edge_stats(edges->only, ret_stats);
        return;
    }
    if (edges->gateway != NULL) {
        edge_stats(edges->gateway, &sum);
    }
    for (uint32_t i = 0; i < edges->thread_count; i++) {
        const struct edge_published *each = &edges->threads[i].published;
        sum.requests += atomic_load_explicit(&each->requests, memory_order_relaxed);
        sum.refused += atomic_load_explicit(&each->refused, memory_order_relaxed);
        for (int code = 0; code < BY_COUNT * CODE_COUNT; code++) {
            sum.answers[code / CODE_COUNT][code % CODE_COUNT] += atomic_load_explicit(
                &each->answers[code / CODE_COUNT][code % CODE_COUNT], memory_order_relaxed);
        }
        sum.cut += atomic_load_explicit(&each->cut, memory_order_relaxed);
        sum.connections += atomic_load_explicit(&each->connections, memory_order_relaxed);
        sum.waiters += atomic_load_explicit(&each->waiters, memory_order_relaxed);
    }
    sum.body_bytes = atomic_load_explicit(&edges->bodies.room->bytes, memory_order_relaxed);
    *ret_stats = sum;
}
