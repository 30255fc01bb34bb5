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

#include "cli/effect.h"
#include "cli/flags.h"
#include "cli/serve_files.h"
#include "cli/serve_internal.h"
#include "cli/serve_store.h"
#include "cli/unbuilt.h"

#include <daruma/version.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SERVE_DRAIN_MS 30000
#define SERVE_CONFIG   "daruma.yaml"
#define DRAIN_LOOK_MS  20
#define ANSWERS_A_TURN 256 /* of the committer, and as many of the reader */
#define URL_TEXT_MAX   96

/* --- events ------------------------------------------------------------------------------------- */

/* From the committer's, the reader's and the pulse's threads. */
static void wake(void *user)
{
    loop_wake(((struct serve *)user)->waker);
}

/* What was performed, so many at most; how many there were. NULL: there is no such reader. */
static size_t take_reads(struct serve *serve, struct reader *reader, size_t most)
{
    size_t count = 0;

    for (struct handover_link *link = reader != NULL ? reader_take(reader, most) : NULL;
         link != NULL; count++) {
        struct handover_link *next = link->next;
        engine_read(serve->engine, (struct read *)link);
        link = next;
    }
    return count;
}

/* At most so many of each. False: there may be more of them. */
static bool take_some(struct serve *serve, size_t most)
{
    size_t commits = 0;

    for (struct op *op = committer_take_some(serve->committer, most); op != NULL; commits++) {
        struct op *next = (struct op *)op->link.next;
        engine_committed(serve->engine, op);
        op = next;
    }
    size_t reads = take_reads(serve, serve->reader, most);
    size_t counts = take_reads(serve, serve->counter, most);
    return commits < most && reads < most && counts < most;
}

/* A large batch is answered at once, and most answers begin a transfer. So what is left waits for the next
 * turn: connections, the health check among them, are looked at in between. */
static void take_answers(void *user)
{
    struct serve *serve = user;

    uint64_t unknowns = committer_unknowns(serve->committer);
    if (unknowns != serve->unknowns) {
        serve->unknowns = unknowns;
        engine_doubts(serve->engine);
    }
    if (!take_some(serve, ANSWERS_A_TURN)) {
        loop_wake(serve->waker);
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

/* Once a turn: when is the engine wanted next? */
static void set_tick(void *user)
{
    struct serve *serve = user;
    int64_t wait_ms = engine_next_tick_ms(serve->engine), now_ms = clock_mono_ms(&clock_real);
    struct error err = {0};

    serve_watch_look(&serve->watch, &serve->log, now_ms, serve_is_ready(serve, &err), &err);
    loop_timer_set(serve->tick, now_ms + serve_watch_wait_ms(&serve->watch, wait_ms));
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

/* --- starting ------------------------------------------------------------------------------------- */

static int open_log(struct serve *serve, struct error *err)
{
    const struct config_log *log = &serve->config->log;
    enum daruma_log_form form = DARUMA_LOG_KV;

    if (log->format == CONFIG_LOG_JSON) {
        form = DARUMA_LOG_JSON;
    } else if (log->format == CONFIG_LOG_TEXT ||
               (log->format == CONFIG_LOG_AUTO && isatty(STDERR_FILENO))) {
        form = DARUMA_LOG_TEXT;
    }
    serve->log = (struct daruma_logger){.level = log->level, .form = form, .sink = log_writer_add};
    int failed =
        log_writer_open(STDERR_FILENO, log->buffer_bytes, &serve->log, &serve->log_writer, err);
    serve->log.sink_user = serve->log_writer;
    if (failed == 0) {
        log_writer_guard(serve->log_writer);
    }
    return failed;
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
    serve->pulse = pulse_new(serve->store, wake, serve);
    serve->counter = reader_new(serve->store, wake, serve);
    if (serve->pulse == NULL || serve->counter == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for the node's beats");
    }
    failed = reader_start(serve->counter, err);
    return failed != 0 ? failed : pulse_start(serve->pulse, err);
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

static int open_deliver(struct serve *serve, struct error *err)
{
    room_init(&serve->room, serve->config->limits.bodies_bytes_max);
    serve->providers = (struct serve_providers){
        .config = serve->config,
        .http = {.stream = on_streamed,
                 .stream_user = serve,
                 .room = &serve->room,
                 .files_max = serve->files.outgoing_max,
                 .lookups_max = serve->files.lookups_max,
                 .lookups_now = &serve->lookups_now,
                 .connections_kept = serve->files.attempts_max < HTTP_CONNECTIONS_KEPT
                                         ? serve->files.attempts_max
                                         : HTTP_CONNECTIONS_KEPT,
                 .outbound = &serve->config->outbound},
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

    failed = failed != 0 ? failed : open_log(serve, err);
    if (failed != 0) {
        return failed;
    }
    serve->files = serve_files_raise(&serve->log, serve->config);
    failed = unbuilt_refuse(serve->config, err);
    failed =
        failed != 0 ? failed : serve_store_open(serve->config, &serve->log, &serve->store, err);
    failed = failed != 0 ? failed : open_loop(serve, err);
    failed = failed != 0 ? failed : serve_open_engine(serve, err);
    failed = failed != 0 ? failed : open_threads(serve, err);
    if (failed == 0) {
        failed = open_deliver(serve, err);
    }
    return failed != 0 ? failed : serve_open_edge(serve, err);
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
    if (serve->counter != NULL) {
        reader_stop(serve->counter);
    }
    if (serve->pulse != NULL) {
        pulse_stop(serve->pulse);
    }
    if (serve->committer != NULL && serve->reader != NULL && serve->engine != NULL) {
        take_answers(serve);
        (void)take_some(serve, SIZE_MAX); /* no turn follows */
    }
    edges_close(serve->edges);
    serve->edges = NULL;
    deliver_close(serve->deliver);
    serve_providers_close(&serve->providers);
    engine_free(serve->engine);
    committer_free(serve->committer);
    reader_free(serve->reader);
    reader_free(serve->counter);
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
    log_writer_close(serve->log_writer); /* last: any of them may have had something to say */
}

static void url_of(const struct config_listen *listen, bool is_tls, unsigned port,
                   char ret_url[URL_TEXT_MAX])
{
    (void)snprintf(ret_url, URL_TEXT_MAX, listen->is_ipv6 ? "%s://[%s]:%u" : "%s://%s:%u",
                   is_tls ? "https" : "http", listen->host.at, port); /* fits */
}

/* Those that can be worked, but for its own. */
static uint64_t queue_count(const struct engine *engine)
{
    uint64_t count = 0;

    for (size_t i = 0; i < engine_queue_count(engine); i++) {
        struct queue_view view;
        engine_queue_view(engine, i, &view);
        count += view.is_shown && view.hold == QUEUE_HOLD_NONE;
    }
    return count - 1;
}

static void greet(const struct serve *serve)
{
    const struct config *config = serve->config;
    char url[URL_TEXT_MAX];

    url_of(&config->api.listen, config->api.tls.cert.len > 0, edges_port(serve->edges), url);
    DARUMA_LOG(&serve->log, DARUMA_LOG_INFO, "ready", daruma_log_text("version", daruma_version()),
               daruma_log_text("api", url), daruma_log_text("store", serve->store->ops->name),
               daruma_log_bytes("path", config->store.shown.at, config->store.shown.len),
               daruma_log_uint("queues", queue_count(serve->engine)));
    if (serve_has_gateway(config)) {
        url_of(&config->gateway.listen, config->gateway.tls.cert.len > 0,
               edges_gateway_port(serve->edges), url);
        DARUMA_LOG(&serve->log, DARUMA_LOG_INFO, "gateway_ready", daruma_log_text("gateway", url),
                   daruma_log_uint("routes", config->route_count));
    }
    notify("READY=1");
}

static void usage(FILE *out)
{
    fprintf(out, "usage: daruma serve [-c FILE | --config FILE]\n\n"
                 "Runs the server on a configuration file (default " SERVE_CONFIG ").\n"
                 "TERM stops it when what is in flight has ended; a second TERM at once.\n");
}

int cli_serve(int argc, char **argv)
{
    const char *path = SERVE_CONFIG;
    struct serve serve = {0};
    struct error err = {0};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            usage(stdout);
            return flags_finish_help("serve");
        }
        bool is_config = strcmp(argv[i], "-c") == 0 || strcmp(argv[i], "--config") == 0;
        if (!is_config || i + 1 == argc) {
            fprintf(stderr,
                    is_config ? "daruma serve: %s: nothing given, expected a file\n"
                              : "daruma serve: '%s' is not understood\n",
                    argv[i]);
            usage(stderr);
            return CLI_USAGE;
        }
        path = argv[++i];
    }
    effect_begin(); /* a log that is not read, or a file that may not grow, does not end a server */
    serve.started_at_ms = clock_wall_ms(&clock_real);
    int failed = serve_open(&serve, path, &err);
    if (failed == 0) {
        greet(&serve);
        loop_hook_on(serve.before_wait);
        loop_run(serve.loop);
        log_writer_flush(serve.log_writer);
        daruma_log_write(&serve.log, DARUMA_LOG_INFO, "stopped", NULL, 0);
    }
    serve_close(&serve);
    if (failed != 0) {
        fprintf(stderr, "daruma: %s\n", err.text); /* after what the log has to say */
    }
    return failed == 0 ? CLI_DONE : CLI_FAILED;
}
