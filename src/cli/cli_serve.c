/* SPDX-License-Identifier: MIT
 *
 * serve -- wires the parts together and runs them: configuration, store, committer, reader, engine,
 * delivery, edge, on one loop. Decides nothing but the order of starting and stopping.
 *
 *   start   configuration -> store -> engine (recovers) -> threads -> delivery -> edge: ready
 *   TERM    not ready -> no new callers, no new attempts -> what is in flight ends, or
 *           SERVE_DRAIN_MS pass -> flush -> exit 0. A second TERM stops waiting at once: what was
 *           in flight is found by the next start (I8).
 */
#include "cli/cli.h"

#include "cli/openapi.h"
#include "cli/serve_store.h"
#include "cli/serve_providers.h"
#include "cli/unbuilt.h"
#include "config/config.h"
#include "deliver/http.h"
#include "edge/edges.h"
#include "engine/engine.h"
#include "engine/pulse.h"
#include "engine/reader.h"
#include "loop/loop.h"
#include "store/committer.h"
#include "watch/metrics.h"

#include <daruma/version.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REPLAY_BYTES    (64u << 20) /* of kept answers held in memory */
#define SERVE_DRAIN_MS  30000
#define SERVE_CONFIG    "daruma.yaml"
#define DRAIN_LOOK_MS   20
#define LISTEN_TEXT_MAX 80

struct serve {
    struct config *config;
    struct store *store;
    struct committer *committer;
    struct reader *reader;
    struct pulse *pulse; /* NULL: nobody shares the store */
    struct engine *engine;
    struct deliver *deliver;
    struct serve_providers providers;
    struct edges *edges;
    struct edge_renderer renderer;
    struct queue_settings callbacks;
    struct loop *loop;
    struct loop_timer *tick, *drain;
    struct loop_waker *waker;
    struct loop_hook *before_wait;
    struct loop_signal *terminate, *interrupt;
    struct daruma_logger log;
    int64_t drain_until_ms;
    int64_t failing_since_ms; /* of the store; 0: it is well */
    bool is_draining;
};

/* --- what the engine wants -------------------------------------------------------------------- */

static bool want_commit(void *user, struct op *op)
{
    return committer_submit(((struct serve *)user)->committer, op);
}

static bool want_read(void *user, struct read *read)
{
    return reader_give(((struct serve *)user)->reader, read);
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

static int parse_policy(void *user, struct span json, struct arena *arena,
                        struct daruma_policy *ret_policy, struct error *err)
{
    return config_parse_policy(json, ((struct serve *)user)->config, arena, ret_policy, err);
}

/* --- events ------------------------------------------------------------------------------------- */

/* From the committer's, the reader's and the pulse's threads. */
static void wake(void *user)
{
    loop_wake(((struct serve *)user)->waker);
}

static void take_answers(void *user)
{
    struct serve *serve = user;

    for (struct op *op = committer_take(serve->committer); op != NULL;) {
        struct op *next = (struct op *)op->link.next;
        engine_committed(serve->engine, op);
        op = next;
    }
    for (struct handover_link *link = reader_take(serve->reader); link != NULL;) {
        struct handover_link *next = link->next;
        engine_read(serve->engine, (struct read *)link);
        link = next;
    }
    if (serve->pulse != NULL) {
        pulse_take(serve->pulse, serve->engine);
    }
}

static void on_delivered(void *user, struct delivery *delivery)
{
    engine_delivered(((struct serve *)user)->engine, delivery);
}

static void on_streamed(void *user, struct delivery *delivery, struct span bytes)
{
    engine_streamed(((struct serve *)user)->engine, delivery, bytes);
}

static void on_tick(void *user)
{
    engine_tick(((struct serve *)user)->engine);
}

static int is_ready(void *user, struct error *err)
{
    struct serve *serve = user;
    int failed = committer_health(serve->committer);

    if (failed == 0 && serve->pulse != NULL && (failed = pulse_health(serve->pulse)) != 0) {
        return fail(err, (enum fault)failed, "the store cannot be reached");
    }
    return failed == 0 ? 0 : fail(err, (enum fault)failed, "the last commit failed");
}

/* What /readyz says is in the log as well: when it began, and when it was over. */
static void watch_store(struct serve *serve)
{
    int64_t now_ms = clock_mono_ms(&clock_real);
    struct error err = {0};
    int failed = is_ready(serve, &err);

    if (failed != 0 && serve->failing_since_ms == 0) {
        serve->failing_since_ms = now_ms;
        DARUMA_LOG(&serve->log, DARUMA_LOG_ERROR, "store_failing",
                   daruma_log_text("code", fault_code(failed)), daruma_log_text("error", err.text));
    } else if (failed == 0 && serve->failing_since_ms != 0) {
        DARUMA_LOG(&serve->log, DARUMA_LOG_INFO, "store_well",
                   daruma_log_int("after_ms", now_ms - serve->failing_since_ms));
        serve->failing_since_ms = 0;
    }
}

/* Once a turn: when is the engine wanted next? */
static void set_tick(void *user)
{
    struct serve *serve = user;
    int64_t wait_ms = engine_next_tick_ms(serve->engine);

    watch_store(serve);
    loop_timer_set(serve->tick, clock_mono_ms(&clock_real) + wait_ms);
}

static void look_drained(void *user)
{
    struct serve *serve = user;
    int64_t now_ms = clock_mono_ms(&clock_real);

    if ((engine_is_drained(serve->engine) && edges_are_drained(serve->edges)) ||
        now_ms >= serve->drain_until_ms) {
        loop_stop(serve->loop);
        return;
    }
    loop_timer_set(serve->drain, now_ms + DRAIN_LOOK_MS);
}

/* Tells systemd, when it started us with Type=notify. */
static void notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (path == NULL || strlen(path) >= sizeof address.sun_path) {
        return;
    }
    memcpy(address.sun_path, path, strlen(path));
    if (address.sun_path[0] == '@') {
        address.sun_path[0] = '\0';
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
        (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
                      length); /* whoever does not listen misses nothing */
        (void)close(fd);
    }
}

static void on_signal(void *user, int number)
{
    struct serve *serve = user;

    if (serve->is_draining) {
        DARUMA_LOG(&serve->log, DARUMA_LOG_WARN, "stopping_at_once",
                   daruma_log_int("signal", number));
        loop_stop(serve->loop);
        return;
    }
    serve->is_draining = true;
    DARUMA_LOG(&serve->log, DARUMA_LOG_INFO, "stopping", daruma_log_int("signal", number));
    notify("STOPPING=1");
    edges_drain(serve->edges); /* readiness flips first */
    engine_drain(serve->engine);
    serve->drain_until_ms = clock_mono_ms(&clock_real) + SERVE_DRAIN_MS;
    look_drained(serve);
}

/* --- what the edge asks ------------------------------------------------------------------------- */

static int render_metrics(void *user, struct buf *out)
{
    struct serve *serve = user;
    struct committer_stats commits = committer_stats(serve->committer);
    struct edge_stats http;
    size_t provider_count;
    const struct provider_stats *providers =
        serve_providers_stats(&serve->providers, &provider_count);

    edges_stats(serve->edges, &http);
    return metrics_render(&(struct metrics_input){.engine = serve->engine,
                                                  .commits = commits.commits,
                                                  .commit_operations = commits.operations,
                                                  .store_faults = commits.faults,
                                                  .http_requests = http.requests,
                                                  .http_refused = http.refused,
                                                  .http_connections = http.connections,
                                                  .http_waiters = http.waiters,
                                                  .providers = providers,
                                                  .provider_count = provider_count,
                                                  .store_is_healthy = is_ready(serve, NULL) == 0},
                          out);
}

/* --- starting ------------------------------------------------------------------------------------- */

static void open_log(struct serve *serve)
{
    const struct config_log *log = &serve->config->log;
    enum daruma_log_form form = DARUMA_LOG_KV;

    if (log->format == CONFIG_LOG_JSON) {
        form = DARUMA_LOG_JSON;
    } else if (log->format == CONFIG_LOG_TEXT ||
               (log->format == CONFIG_LOG_AUTO && isatty(STDERR_FILENO))) {
        form = DARUMA_LOG_TEXT;
    }
    serve->log = (struct daruma_logger){.level = log->level,
                                        .form = form,
                                        .sink = daruma_log_to_fd,
                                        .sink_user = (void *)(intptr_t)STDERR_FILENO};
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

static int open_engine(struct serve *serve, struct error *err)
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
                  .stop = want_stop},
        .log = &serve->log,
        .parse_queue = parse_queue,
        .parse_policy = parse_policy,
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
        .replay_bytes = config->store.kind == CONFIG_STORE_POSTGRES ? 0 : REPLAY_BYTES,
    };
    int failed = 0;

    serve->renderer = (struct edge_renderer){parse_policy, serve};
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

static int open_threads(struct serve *serve, struct error *err)
{
    serve->committer = committer_new(serve->store, &clock_real, wake, serve);
    serve->reader = reader_new(serve->store, wake, serve);
    if (serve->committer == NULL || serve->reader == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for the store's threads");
    }
    int failed = loop_waker_new(serve->loop, take_answers, serve, &serve->waker, err);
    failed = failed != 0 ? failed : committer_start(serve->committer, err);
    failed = failed != 0 ? failed : reader_start(serve->reader, err);
    if (failed != 0 || serve->store->nodes == NULL) {
        return failed;
    }
    serve->store->node_lease_ms = serve->config->limits.node_lease_ms;
    serve->pulse = pulse_new(serve->store, wake, serve);
    return serve->pulse == NULL ? fail(err, FAULT_MEMORY, "no memory for the node's beats")
                                : pulse_start(serve->pulse, err);
}

static int open_loop(struct serve *serve, struct error *err)
{
    int failed = loop_new(&serve->loop, err);

    failed = failed != 0 ? failed : loop_timer_new(serve->loop, on_tick, serve, &serve->tick, err);
    failed =
        failed != 0 ? failed : loop_timer_new(serve->loop, look_drained, serve, &serve->drain, err);
    failed = failed != 0 ? failed
                         : loop_hook_new(serve->loop, LOOP_HOOK_BEFORE_WAIT, set_tick, serve,
                                         &serve->before_wait, err);
    failed = failed != 0
                 ? failed
                 : loop_signal_new(serve->loop, SIGTERM, on_signal, serve, &serve->terminate, err);
    return failed != 0
               ? failed
               : loop_signal_new(serve->loop, SIGINT, on_signal, serve, &serve->interrupt, err);
}

/* The configuration's tokens as the edge wants them. NULL: no memory. */
static struct edge_token *make_tokens(const struct config_api *api)
{
    static const enum edge_role roles[] = {[CONFIG_ROLE_ADMIN] = EDGE_ROLE_ADMIN,
                                           [CONFIG_ROLE_PRODUCER] = EDGE_ROLE_PRODUCER,
                                           [CONFIG_ROLE_WORKER] = EDGE_ROLE_WORKER,
                                           [CONFIG_ROLE_VIEWER] = EDGE_ROLE_VIEWER};
    struct edge_token *tokens = calloc(api->token_count + 1, sizeof *tokens);

    for (size_t i = 0; tokens != NULL && i < api->token_count; i++) {
        tokens[i] = (struct edge_token){.name = api->tokens[i].name,
                                        .role = roles[api->tokens[i].role],
                                        .secret = api->tokens[i].secret};
    }
    return tokens;
}

static bool has_gateway(const struct config *config)
{
    return config->route_count > 0 || config->pass.len > 0;
}

static int open_edge(struct serve *serve, struct error *err)
{
    const struct config *config = serve->config;
    struct edge_token *tokens = make_tokens(&config->api);

    if (tokens == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for the tokens");
    }
    int failed = edges_open(
        &(struct edge_options){
            .loop = serve->loop,
            .engine = serve->engine,
            .clock = &clock_real,
            .host = config->api.listen.host,
            .port = config->api.listen.port,
            .tls_cert = config->api.tls.cert,
            .tls_key = config->api.tls.key,
            .tokens = tokens,
            .token_count = config->api.token_count,
            .gateway_host = has_gateway(config) ? config->gateway.listen.host : SPAN(""),
            .gateway_cert = config->gateway.tls.cert,
            .gateway_key = config->gateway.tls.key,
            .gateway_port = config->gateway.listen.port,
            .routes = config->routes,
            .route_count = config->route_count,
            .pass = config->pass,
            .limits = {.body_bytes_max = config->limits.body_bytes_max,
                       .connections_max = config->limits.connections_max,
                       .waiters_max = config->limits.waiters_max,
                       .header_time_ms = config->limits.header_time_ms,
                       .idle_time_ms = config->limits.idle_time_ms},
            .parse_policy = parse_policy,
            .parse_user = serve,
            .metrics = render_metrics,
            .ready = is_ready,
            .show_queue = config_show_queue,
            .user = serve,
            .openapi = {.at = (const char *)openapi_json, .len = openapi_json_len},
            .log = &serve->log,
        },
        config->threads, &serve->edges, err);
    free(tokens);
    config_wipe_secrets(serve->config); /* the edge knows their hashes */
    return failed;
}

static int open_deliver(struct serve *serve, struct error *err)
{
    serve->providers = (struct serve_providers){
        .config = serve->config,
        .http = {.stream = on_streamed, .stream_user = serve, .outbound = &serve->config->outbound},
        .loop = serve->loop,
        .log = &serve->log,
        .done = on_delivered,
        .user = serve,
    };
    return serve_providers_open(&serve->providers, &serve->deliver, err);
}

static int serve_open(struct serve *serve, const char *path, struct error *err)
{
    int failed = config_load(path, &serve->config, err);

    if (failed != 0) {
        return failed;
    }
    open_log(serve);
    failed = unbuilt_refuse(serve->config, err);
    failed = failed != 0 ? failed : serve_store_open(serve->config, &serve->store, err);
    failed = failed != 0 ? failed : open_loop(serve, err);
    failed = failed != 0 ? failed : open_engine(serve, err);
    failed = failed != 0 ? failed : open_threads(serve, err);
    if (failed == 0) {
        failed = open_deliver(serve, err);
    }
    return failed != 0 ? failed : open_edge(serve, err);
}

/* --- stopping --------------------------------------------------------------------------------------- */

/* Threads first, so that everything that was accepted is written; then what is left is told and
 * freed. */
static void serve_close(struct serve *serve)
{
    sigset_t late;

    (void)sigemptyset(&late); /* cannot fail, as the two below */
    (void)sigaddset(&late, SIGTERM);
    (void)sigaddset(&late, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &late, NULL); /* one signal more does not cut this short */
    if (serve->committer != NULL) {
        committer_stop(serve->committer);
    }
    if (serve->reader != NULL) {
        reader_stop(serve->reader);
    }
    if (serve->pulse != NULL) {
        pulse_stop(serve->pulse);
    }
    if (serve->committer != NULL && serve->reader != NULL && serve->engine != NULL) {
        take_answers(serve);
    }
    edges_close(serve->edges);
    serve->edges = NULL;
    deliver_close(serve->deliver);
    serve_providers_close(&serve->providers);
    engine_free(serve->engine);
    committer_free(serve->committer);
    reader_free(serve->reader);
    pulse_free(serve->pulse);
    store_close(serve->store);
    loop_timer_free(serve->tick);
    loop_timer_free(serve->drain);
    loop_waker_free(serve->waker);
    loop_hook_free(serve->before_wait);
    loop_signal_free(serve->terminate);
    loop_signal_free(serve->interrupt);
    loop_free(serve->loop);
    config_free(serve->config);
}

static void greet(const struct serve *serve)
{
    const struct config_listen *listen = &serve->config->api.listen;
    const char *scheme = serve->config->api.tls.cert.len > 0 ? "https" : "http";
    char url[LISTEN_TEXT_MAX + 8];

    (void)snprintf(url, sizeof url, listen->is_ipv6 ? "%s://[%s]:%u" : "%s://%s:%u", scheme,
                   listen->host.at, (unsigned)edges_port(serve->edges)); /* fits */
    DARUMA_LOG(&serve->log, DARUMA_LOG_INFO, "ready", daruma_log_text("version", daruma_version()),
               daruma_log_text("api", url), daruma_log_text("store", serve->store->ops->name),
               daruma_log_uint("queues", engine_queue_count(serve->engine) - 1)); /* but its own */
    if (has_gateway(serve->config)) {
        listen = &serve->config->gateway.listen;
        scheme = serve->config->gateway.tls.cert.len > 0 ? "https" : "http";
        (void)snprintf(url, sizeof url, listen->is_ipv6 ? "%s://[%s]:%u" : "%s://%s:%u", scheme,
                       listen->host.at, (unsigned)edges_gateway_port(serve->edges)); /* fits */
        DARUMA_LOG(&serve->log, DARUMA_LOG_INFO, "gateway_ready", daruma_log_text("gateway", url),
                   daruma_log_uint("routes", serve->config->route_count));
    }
    notify("READY=1");
}

static void usage(FILE *out)
{
    fprintf(out, "usage: daruma serve [-c FILE]\n\n"
                 "Runs the server on a configuration file (default " SERVE_CONFIG ").\n"
                 "TERM stops it when what is in flight has ended; a second TERM at once.\n");
}

int cli_serve(int argc, char **argv)
{
    const char *path = SERVE_CONFIG;
    struct serve serve = {0};
    struct error err = {0};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            usage(stdout);
            return CLI_DONE;
        }
        if ((strcmp(argv[i], "-c") != 0 && strcmp(argv[i], "--config") != 0) || i + 1 == argc) {
            fprintf(stderr, "daruma serve: '%s' is not understood\n", argv[i]);
            usage(stderr);
            return CLI_USAGE;
        }
        path = argv[++i];
    }
    int failed = serve_open(&serve, path, &err);
    if (failed == 0) {
        greet(&serve);
        loop_hook_on(serve.before_wait);
        loop_run(serve.loop);
        daruma_log_write(&serve.log, DARUMA_LOG_INFO, "stopped", NULL, 0);
    } else {
        fprintf(stderr, "daruma: %s\n", err.text);
    }
    serve_close(&serve);
    return failed == 0 ? CLI_DONE : CLI_FAILED;
}
