/* SPDX-License-Identifier: MIT
 *
 * serve_engine -- see serve_internal.h. What the engine wants done goes to the part that does it: to
 * the committer, the reader, delivery or the edge.
 */
#include "cli/serve_internal.h"

#define REPLAY_BYTES (64u << 20) /* of kept answers held in memory */

static bool want_commit(void *user, struct op *op)
{
    return committer_submit(((struct serve *)user)->committer, op);
}

static bool want_read(void *user, struct read *read)
{
    const struct serve *serve = user;

    return reader_give(read_is_count(read) ? serve->counter : serve->reader, read);
}

static int want_send(void *user, struct delivery *delivery, struct error *err)
{
    return deliver_send(((struct serve *)user)->deliver, delivery, err);
}

static void want_pull(void *user, struct delivery *delivery)
{
    deliver_pull(((struct serve *)user)->deliver, delivery);
}

static void want_stop(void *user, struct delivery *delivery)
{
    deliver_cancel(((struct serve *)user)->deliver, delivery);
}

static void want_nudge(void *user, const struct node_wish *wish)
{
    store_nudge(((struct serve *)user)->store, wish);
}

static void want_reply(void *user, const struct reply *reply)
{
    struct serve *serve = user;

    if (serve->edges != NULL) {
        edges_reply(serve->edges, reply);
    }
}

static int parse_queue(void *user, struct span json, struct span name, struct arena *arena,
                       struct queue_settings *ret_settings, struct error *err)
{
    return config_parse_queue(json, name, ((struct serve *)user)->config, arena, ret_settings, err);
}

int serve_parse_policy(void *user, struct span json, struct arena *arena,
                       struct daruma_policy *ret_policy, struct error *err)
{
    return config_parse_policy(json, ((struct serve *)user)->config, arena, ret_policy, err);
}

/* The queue that callbacks go by, unless the file has one of that name. */
static const struct queue_settings *callback_queue(struct serve *serve)
{
    serve->callbacks = (struct queue_settings){
        .name = SPAN(ENGINE_CALLBACK_QUEUE),
        .policy = *config_policy_find(serve->config, SPAN(CONFIG_POLICY)),
        .concurrency = QUEUE_CONCURRENCY,
        .host_concurrency = QUEUE_HOST_CONCURRENCY,
        .lease_ms = QUEUE_LEASE_MS,
    };
    return &serve->callbacks;
}

int serve_open_engine(struct serve *serve, struct error *err)
{
    const struct config *config = serve->config;
    bool has_callbacks = false;
    const struct engine_options options = {
        .clock = &clock_real,
        .world = {.commit = want_commit,
                  .read = want_read,
                  .send = want_send,
                  .reply = want_reply,
                  .user = serve,
                  .pull = want_pull,
                  .stop = want_stop,
                  .nudge = want_nudge},
        .log = &serve->log,
        .parse_queue = parse_queue,
        .parse_policy = serve_parse_policy,
        .parse_user = serve,
        .render = edge_render,
        .render_user = &serve->renderer,
        .callback = edge_callback,
        .keep = {.succeeded_ms = config->keep.succeeded_ms,
                 .failed_ms = config->keep.failed_ms,
                 .cancelled_ms = config->keep.cancelled_ms,
                 .tombstones_ms = config->keep.tombstones_ms},
        .response_max = config->limits.response_bytes_max,
        .backlog_max = config->limits.backlog_max,
        .waiters_max = config->limits.waiters_max,
        .lists_max = config->limits.lists_max,
        .attempts_max = serve->files.attempts_max,
        .replay_bytes = REPLAY_BYTES,
    };
    int failed = 0;

    serve->renderer = (struct edge_renderer){serve_parse_policy, serve};
    serve->engine = engine_new(&options, err);
    if (serve->engine == NULL) {
        return FAULT_MEMORY;
    }
    for (size_t i = 0; failed == 0 && i < config->queue_count; i++) {
        failed = engine_add_queue(serve->engine, &config->queues[i], err);
        has_callbacks |= span_is(config->queues[i].name, ENGINE_CALLBACK_QUEUE);
    }
    if (failed == 0 && !has_callbacks) {
        failed = engine_add_queue(serve->engine, callback_queue(serve), err);
    }
    for (size_t i = 0; failed == 0 && i < config->route_count; i++) {
        failed = engine_add_route(serve->engine, &config->routes[i], err);
    }
    return failed != 0 ? failed : engine_open(serve->engine, serve->store, err);
}
