/* SPDX-License-Identifier: MIT
 *
 * serve_edge -- see serve_internal.h. The listeners as the configuration has them, and what they ask
 * about the server as a whole: whether it is ready, and its metrics.
 */
#include "cli/openapi.h"
#include "cli/serve_internal.h"

#include "watch/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

int serve_is_ready(void *user, struct error *err)
{
    struct serve *serve = user;
    int failed = committer_health(serve->committer);

    if (failed == 0 && serve->pulse != NULL && (failed = pulse_health(serve->pulse)) != 0) {
        return fail(err, (enum fault)failed, "the store cannot be reached");
    }
    return failed == 0 ? 0 : fail(err, (enum fault)failed, "the last commit failed");
}

/* Below 0: not there. */
static int64_t file_bytes(const char *path, const char *end)
{
    char name[CONFIG_TEXT_MAX + 8];
    struct stat found;

    (void)snprintf(name, sizeof name, "%s%s", path, end); /* fits */
    return stat(name, &found) == 0 ? (int64_t)found.st_size : -1;
}

/* A store that is a file here, or what the engine knows of one that is not: the disk of a database is
 * for its own exporter to tell. */
static void measure_store(const struct config_store *store, struct metrics_input *input)
{
    struct engine_stats stats;
    struct statvfs disk;

    engine_stats(input->engine, &stats);
    input->store_bytes = stats.store_bytes > 0 ? stats.store_bytes : -1;
    input->store_free_bytes = -1;
    if (store->kind != CONFIG_STORE_SQLITE && store->kind != CONFIG_STORE_JSON) {
        return;
    }
    int64_t wal_bytes = file_bytes(store->path.at, "-wal");
    input->store_bytes = file_bytes(store->path.at, "");
    if (input->store_bytes >= 0 && wal_bytes > 0) {
        input->store_bytes += wal_bytes;
    }
    if (statvfs(store->path.at, &disk) == 0) {
        input->store_free_bytes = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
    }
}

static int render_metrics(void *user, unsigned how, struct buf *out)
{
    struct serve *serve = user;
    struct committer_stats commits = committer_stats(serve->committer);
    struct edge_stats http;
    size_t provider_count;
    const struct provider_stats *providers =
        serve_providers_stats(&serve->providers, &provider_count);

    edges_stats(serve->edges, &http);
    struct metrics_input input = {.engine = serve->engine,
                                  .commits = commits.commits,
                                  .commit_operations = commits.operations,
                                  .store_faults = commits.faults,
                                  .http_requests = http.requests,
                                  .http_refused = http.refused,
                                  .http_connections = http.connections,
                                  .http_waiters = http.waiters,
                                  .http_body_bytes = http.body_bytes,
                                  .names_looking_up = serve->lookups_now,
                                  .log_lost = log_writer_lost(serve->log_writer),
                                  .providers = providers,
                                  .provider_count = provider_count,
                                  .store_is_healthy = serve_is_ready(serve, NULL) == 0,
                                  .commit_took = commits.took,
                                  .commit_batch = commits.batch,
                                  .started_at_ms = serve->started_at_ms};

    _Static_assert(sizeof input.http_answers == sizeof http.answers, "the same codes");
    memcpy(input.http_answers, http.answers, sizeof http.answers);
    measure_store(&serve->config->store, &input);
    return metrics_render(&input, how, out);
}

static unsigned roles_of(const struct config_token *token)
{
    static const enum edge_role roles[] = {[CONFIG_ROLE_ADMIN] = EDGE_ROLE_ADMIN,
                                           [CONFIG_ROLE_PRODUCER] = EDGE_ROLE_PRODUCER,
                                           [CONFIG_ROLE_WORKER] = EDGE_ROLE_WORKER,
                                           [CONFIG_ROLE_VIEWER] = EDGE_ROLE_VIEWER,
                                           [CONFIG_ROLE_OPERATOR] = EDGE_ROLE_OPERATOR};
    unsigned all = 0;

    for (size_t i = 0; i < token->role_count; i++) {
        all |= (unsigned)roles[token->roles[i]];
    }
    return all;
}

/* The configuration's tokens as the edge wants them. NULL: no memory. */
static struct edge_token *make_tokens(const struct config_api *api)
{
    struct edge_token *tokens = calloc(api->token_count + 1, sizeof *tokens);

    for (size_t i = 0; tokens != NULL && i < api->token_count; i++) {
        const struct config_token *token = &api->tokens[i];
        tokens[i] = (struct edge_token){.name = token->name,
                                        .roles = roles_of(token),
                                        .secret = token->secret,
                                        .queues = token->queues,
                                        .queue_count = token->queue_count};
    }
    return tokens;
}

bool serve_has_gateway(const struct config *config)
{
    return config->route_count > 0 || config->pass.len > 0;
}

int serve_open_edge(struct serve *serve, struct error *err)
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
            .hosts = config->api.hosts,
            .host_count = config->api.host_count,
            .tls_cert = config->api.tls.cert,
            .tls_key = config->api.tls.key,
            .tokens = tokens,
            .token_count = config->api.token_count,
            .gateway_host = serve_has_gateway(config) ? config->gateway.listen.host : SPAN(""),
            .gateway_cert = config->gateway.tls.cert,
            .gateway_key = config->gateway.tls.key,
            .gateway_port = config->gateway.listen.port,
            .routes = config->routes,
            .route_count = config->route_count,
            .pass = config->pass,
            .limits = {.body_bytes_max = config->limits.body_bytes_max,
                       .bodies_bytes_max = config->limits.bodies_bytes_max,
                       .connections_max = config->limits.connections_max,
                       .files_max = serve->files.guests_max,
                       .waiters_max = config->limits.waiters_max,
                       .header_time_ms = config->limits.header_time_ms,
                       .idle_time_ms = config->limits.idle_time_ms},
            .room = &serve->room,
            .parse_policy = serve_parse_policy,
            .parse_user = serve,
            .metrics = render_metrics,
            .ready = serve_is_ready,
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
