/* SPDX-License-Identifier: MIT
 *
 * checks -- what has to hold between keys, each run once its mapping is read.
 */
#include "config/checks_internal.h"
#include "config/config.h"

#define BODIES_LARGEST 4 /* of the largest bodies have room, unless it is written how many */

/* Without a burst: what a second brings, and never less than one. */
int rate_finish(struct reading *reading, const struct node *node, void *into)
{
    struct queue_settings *settings = into;

    (void)reading;
    if (node_child(node, "burst") == NULL) {
        settings->rate_burst = settings->rate_per_second > 1 ? settings->rate_per_second : 1;
    }
    return 0;
}

/* Off unless written; then what is not written of it is usual. */
int outage_finish(struct reading *reading, const struct node *node, void *into)
{
    struct queue_settings *settings = into;

    (void)reading;
    if (node == NULL) {
        return 0;
    }
    if (settings->outage_after == 0) {
        settings->outage_after = QUEUE_OUTAGE_AFTER;
    }
    if (settings->outage_try_ms == 0) {
        settings->outage_try_ms = QUEUE_OUTAGE_TRY_MS;
    }
    return 0;
}

/* One role or several; a list of nothing would say the opposite of what it looks like. */
int token_finish(struct reading *reading, const struct node *node, void *into)
{
    struct config_token *token = into;
    const struct node *role = node_child(node, "role"), *roles = node_child(node, "roles");
    const struct node *queues = node_child(node, "queues");

    if (role != NULL && roles != NULL) {
        return complain(reading, roles, "found beside role, expected one of the two");
    }
    if (role == NULL && roles == NULL) {
        return complain_missing(reading, node, "role",
                                "one of admin, producer, worker, viewer or operator");
    }
    if (roles != NULL && token->role_count == 0) {
        return complain(reading, roles, "found no role, expected at least one");
    }
    if (queues != NULL && token->queue_count == 0) {
        return complain(reading, queues, "found no queue, expected at least one");
    }
    if (role != NULL) {
        token->roles = &token->role;
        token->role_count = 1;
    }
    return 0;
}

/* A secret must mean one caller, and a door that others can reach must ask for one. */
int api_finish(struct reading *reading, const struct node *node, void *into)
{
    const struct config_api *api = into;
    const struct node *listen = node_child(node, "listen");
    char found[FOUND_MAX];

    for (size_t i = 0; i < api->token_count; i++) {
        for (size_t other = 0; other < i; other++) {
            if (span_equal(api->tokens[i].secret, api->tokens[other].secret)) {
                return complain(reading, node_child(node, "tokens"),
                                "found one secret under the names %.*s and %.*s, expected two",
                                SPAN_ARGS(api->tokens[other].name), SPAN_ARGS(api->tokens[i].name));
            }
        }
    }
    if (api->listen.is_loopback || api->token_count > 0) {
        return 0;
    }
    return complain(reading, listen,
                    "found %s, which other machines can reach: expected api.tokens, or a loopback "
                    "address such as " CONFIG_API_LISTEN,
                    found_text(listen, found));
}

/* Waiters hold connections, and some must be left for everybody else. */
int limits_finish(struct reading *reading, const struct node *node, void *into)
{
    struct config_limits *limits = into;
    const struct node *waiters = node_child(node, "waiters"), *bodies = node_child(node, "bodies");
    size_t largest = limits->body_bytes_max > limits->response_bytes_max
                         ? limits->body_bytes_max
                         : limits->response_bytes_max;

    limits->is_attempts_given = node_child(node, "attempts") != NULL;
    if (bodies == NULL && limits->bodies_bytes_max / BODIES_LARGEST < largest) {
        limits->bodies_bytes_max = largest * BODIES_LARGEST;
    }
    if (limits->bodies_bytes_max < largest) {
        return complain(reading, bodies,
                        "found %zu bytes, expected at least the larger one of limits.body and "
                        "limits.response, %zu",
                        limits->bodies_bytes_max, largest);
    }
    if (waiters == NULL && limits->waiters_max > limits->connections_max / 2) {
        limits->waiters_max = limits->connections_max / 2;
    }
    if (limits->waiters_max < limits->connections_max) {
        return 0;
    }
    return complain(reading, waiters, "found %u, expected less than limits.connections, %u",
                    limits->waiters_max, limits->connections_max);
}

int target_finish(struct reading *reading, const struct node *node, void *into)
{
    const struct target *target = into;

    return ca_check(reading, node, target->ca);
}

static bool is_any(const struct config_listen *listen)
{
    return span_is(listen->host, "0.0.0.0") || span_is(listen->host, "::");
}

/* Port 0 is any free one. */
static bool is_one_place(const struct config_listen *one, const struct config_listen *other)
{
    bool is_same = span_equal(one->host, other->host) || is_any(one) || is_any(other);

    return one->port != 0 && one->port == other->port && one->is_ipv6 == other->is_ipv6 && is_same;
}

/* Two cannot listen at one place: the start would fail, and a check should say so. */
int addresses_finish(struct reading *reading, const struct node *node, void *into)
{
    struct config *config = into;
    const struct node *api = node_child(node, "api"), *gateway = node_child(node, "gateway");
    const struct node *own = gateway != NULL ? node_child(gateway, "listen") : NULL;
    bool is_opened = config->route_count > 0 || config->pass.len > 0;

    config->gateway.is_written = gateway != NULL;
    if ((!is_opened && own == NULL) ||
        !is_one_place(&config->api.listen, &config->gateway.listen)) {
        return 0;
    }
    if (own != NULL) {
        return complain(reading, own,
                        "found what api.listen (%.*s port %d) takes, expected another",
                        SPAN_ARGS(config->api.listen.host), config->api.listen.port);
    }
    return complain(reading, node_child(api, "listen"),
                    "found what gateway.listen (%.*s port %d) takes, expected another",
                    SPAN_ARGS(config->gateway.listen.host), config->gateway.listen.port);
}
