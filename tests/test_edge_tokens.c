/* SPDX-License-Identifier: MIT
 *
 * Who may call what: every route, every role, no token, a wrong token. The table below is the
 * contract; a route that is not in it fails the test.
 */
#include "edge_world.h"

#include "edge/routes.h"

#include <stdio.h>
#include <stdlib.h>

#define ADMIN    EDGE_ROLE_ADMIN
#define PRODUCER EDGE_ROLE_PRODUCER
#define WORKER   EDGE_ROLE_WORKER
#define VIEWER   EDGE_ROLE_VIEWER
#define OPERATOR EDGE_ROLE_OPERATOR
#define ALL      (ADMIN | PRODUCER | WORKER | VIEWER | OPERATOR)
#define ANYBODY  (ALL | 32)
#define NOBODY   32 /* no token, or one that is not known */

static const struct edge_token tokens[] = {
    {.name = {"ops", 3}, .roles = EDGE_ROLE_ADMIN, .secret = {"s3cret-of-ops", 13}},
    {.name = {"shop", 4}, .roles = EDGE_ROLE_PRODUCER, .secret = {"s3cret-of-shop", 14}},
    {.name = {"mill", 4}, .roles = EDGE_ROLE_WORKER, .secret = {"s3cret-of-mill", 14}},
    {.name = {"board", 5}, .roles = EDGE_ROLE_VIEWER, .secret = {"s3cret-of-board", 15}},
    {.name = {"night", 5}, .roles = EDGE_ROLE_OPERATOR, .secret = {"s3cret-of-night", 15}},
    {.name = {"both", 4},
     .roles = EDGE_ROLE_PRODUCER | EDGE_ROLE_OPERATOR,
     .secret = {"s3cret-of-both", 14}},
};

static const struct {
    const char *method, *path;
    unsigned roles;
} rows[] = {
    {"POST", "/v1/queues/{queue}/tasks", ADMIN | PRODUCER},
    {"POST", "/v1/queues/{queue}/tasks:batch", ADMIN | PRODUCER},
    {"GET", "/v1/queues/{queue}/tasks", ALL},
    {"GET", "/v1/tasks/{id}", ALL},
    {"POST", "/v1/tasks/{id}:run", ADMIN | OPERATOR},
    {"POST", "/v1/tasks/{id}:cancel", ADMIN | OPERATOR},
    {"GET", "/v1/queues", ALL},
    {"GET", "/v1/queues/{queue}", ALL},
    {"PUT", "/v1/queues/{queue}", ADMIN},
    {"DELETE", "/v1/queues/{queue}", ADMIN},
    {"POST", "/v1/queues/{queue}:pause", ADMIN | OPERATOR},
    {"POST", "/v1/queues/{queue}:resume", ADMIN | OPERATOR},
    {"POST", "/v1/queues/{queue}:purge", ADMIN},
    {"POST", "/v1/queues/{queue}:run", ADMIN | OPERATOR},
    {"GET", "/v1/runs/{id}", ALL},
    {"POST", "/v1/queues/{queue}/leases", ADMIN | WORKER},
    {"POST", "/v1/leases:settle", ADMIN | WORKER},
    {"GET", "/v1/dead-letters", ADMIN | VIEWER | OPERATOR},
    {"POST", "/v1/dead-letters:redrive", ADMIN | OPERATOR},
    {"GET", "/v1/dead-letters/{id}", ADMIN | VIEWER | OPERATOR},
    {"POST", "/v1/dead-letters/{id}:redrive", ADMIN | OPERATOR},
    {"POST", "/v1/dead-letters/{id}:resolve", ADMIN | OPERATOR},
    {"GET", "/v1/redrives/{id}", ADMIN | VIEWER | OPERATOR},
    {"POST", "/v1/redrives/{id}:cancel", ADMIN | OPERATOR},
    {"GET", "/v1/unsettled", ADMIN | VIEWER | OPERATOR},
    {"POST", "/v1/tasks/{id}:settle", ADMIN | OPERATOR},
    {"GET", "/v1/audit", ADMIN | VIEWER | OPERATOR},
    {"GET", "/v1/keys", ADMIN | VIEWER | OPERATOR},
    {"POST", "/v1/keys/{id}:forget", ADMIN},
    {"GET", "/healthz", ANYBODY},
    {"GET", "/readyz", ANYBODY},
    {"GET", "/metrics", ADMIN | VIEWER | OPERATOR},
    {"GET", "/v1/hosts", ADMIN | VIEWER | OPERATOR},
    {"GET", "/v1/openapi.json", ALL},
};

/* What is sent, and what it makes of the caller. */
static const struct {
    const char *authorization; /* the header's line, or "" */
    unsigned role;
} callers[] = {
    {"", NOBODY},
    {"Authorization: Bearer s3cret-of-nobody\r\n", NOBODY},
    {"Authorization: Bearer s3cret-of-ops\r\n", ADMIN},
    {"Authorization: Bearer s3cret-of-shop\r\n", PRODUCER},
    {"Authorization: Bearer s3cret-of-mill\r\n", WORKER},
    {"Authorization: Bearer s3cret-of-board\r\n", VIEWER},
    {"Authorization: Bearer s3cret-of-night\r\n", OPERATOR},
    {"Authorization: Bearer s3cret-of-both\r\n", PRODUCER | OPERATOR},
};

static void script_full(void *user, const struct stub_call *call)
{
    struct world *world = user;

    edge_reply(world->edge, &(struct reply){.kind = REPLY_FAULT,
                                            .exchange = call->exchange,
                                            .index = call->submission.index,
                                            .error = {.fault = FAULT_FULL, .text = "full"}});
}

static void open_guarded(struct world *world)
{
    world_open(world, &(struct edge_options){.tokens = tokens,
                                             .token_count = sizeof tokens / sizeof *tokens});
    world->engine->script = script_full;
}

static void ask(struct client *client, const char *method, const char *target,
                const char *authorization, struct answer_view *ret_answer)
{
    bool has_body = strcmp(method, "GET") != 0;

    client_sendf(client, "%s %s HTTP/1.1\r\nHost: x\r\n%s%s\r\n%s", method, target, authorization,
                 has_body ? "Content-Length: 2\r\n" : "", has_body ? "{}" : "");
    client_await(client, ret_answer);
}

/* The path with real names in it. */
static void fill(const char *path, char *ret_target, size_t room)
{
    struct span rest = span_of(path), part;
    size_t len = 0;

    ret_target[0] = '\0';
    while (rest.len > 0) {
        bool has_name = span_cut(&rest, '{', &part);
        len += (size_t)snprintf(ret_target + len, room - len, "%.*s", SPAN_ARGS(part));
        if (!has_name) {
            return;
        }
        assert_true(span_cut(&rest, '}', &part));
        len +=
            (size_t)snprintf(ret_target + len, room - len, "%s",
                             span_is(part, "id") ? "01932c07-0000-7000-8000-00000000002a" : "sync");
    }
}

static unsigned roles_of(const struct route *route)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].method, route->method) == 0 && strcmp(rows[i].path, route->path) == 0) {
            return rows[i].roles;
        }
    }
    fail_msg("%s %s has no row: say who may call it", route->method, route->path);
    return 0;
}

static void check(struct world *world, const struct route *route, unsigned roles, size_t caller)
{
    unsigned role = callers[caller].role;
    size_t calls = world->engine->call_count;
    struct answer_view answer;
    struct client client;
    struct span value;
    char target[256];

    fill(route->path, target, sizeof target);
    client_open(&client, world);
    ask(&client, route->method, target, callers[caller].authorization, &answer);
    bool is_let_in = answer.status != 401 && answer.status != 403;
    if (is_let_in != ((roles & role) != 0)) {
        fail_msg("%s %s, %s: %d", route->method, route->path, callers[caller].authorization,
                 answer.status);
    }
    if (!is_let_in) {
        assert_int_equal(answer.status, role == NOBODY ? 401 : 403);
        assert_int_equal(world->engine->call_count, calls);
        assert_true(answer_header(&answer, "WWW-Authenticate", &value) == (role == NOBODY));
    }
    client_close(&client);
}

/* Spec: Operations, authentication. */
static void each_role_may_call_its_routes_and_no_others(void **state)
{
    size_t count;
    const struct route *routes = routes_all(&count);
    struct world world;

    (void)state;
    open_guarded(&world);
    for (size_t i = 0; i < count; i++) {
        unsigned roles = roles_of(&routes[i]);
        for (size_t caller = 0; caller < sizeof callers / sizeof *callers; caller++) {
            check(&world, &routes[i], roles, caller);
        }
    }
    assert_int_equal(count, sizeof rows / sizeof *rows);
    world_close(&world);
}

static void fetch_as(struct world *world, const char *method, const char *target,
                     const char *authorization, struct fetched *ret_fetched)
{
    struct answer_view answer;
    struct client client;

    client_open(&client, world);
    ask(&client, method, target, authorization, &answer);
    ret_fetched->status = answer.status;
    snprintf(ret_fetched->headers, sizeof ret_fetched->headers, "%.*s", SPAN_ARGS(answer.headers));
    snprintf(ret_fetched->body, sizeof ret_fetched->body, "%.*s", SPAN_ARGS(answer.body));
    client_close(&client);
}

static void a_refusal_says_what_is_missing_and_nothing_else(void **state)
{
    struct fetched without, wrong, answer;
    struct world world;

    (void)state;
    open_guarded(&world);
    fetch_as(&world, "GET", "/v1/queues", "", &without);
    assert_problem(&without, 401, "unauthorized");
    assert_contains(without.headers, "WWW-Authenticate: Bearer\r\n");
    fetch_as(&world, "GET", "/v1/queues", "Authorization: Bearer s3cret-of-op\r\n", &wrong);
    assert_string_equal(without.body, wrong.body);
    fetch_as(&world, "DELETE", "/v1/queues/sync", callers[5].authorization, &answer);
    assert_problem(&answer, 403, "forbidden");
    assert_lacks(answer.body, "s3cret");
    world_close(&world);
}

static void a_stranger_does_not_learn_what_there_is(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    open_guarded(&world);
    fetch_as(&world, "GET", "/nowhere", "", &answer);
    assert_problem(&answer, 401, "unauthorized");
    fetch_as(&world, "PATCH", "/v1/queues", "", &answer);
    assert_problem(&answer, 401, "unauthorized");
    assert_lacks(answer.headers, "Allow:");
    fetch_as(&world, "GET", "/v1/../x", "", &answer);
    assert_problem(&answer, 401, "unauthorized");
    fetch_as(&world, "GET", "/v1/../x", callers[2].authorization, &answer);
    assert_problem(&answer, 400, "invalid_request");
    fetch_as(&world, "GET", "/nowhere", callers[5].authorization, &answer);
    assert_problem(&answer, 404, "not_found");
    fetch_as(&world, "POST", "/healthz", "", &answer);
    assert_problem(&answer, 401, "unauthorized");
    world_close(&world);
}

static void only_the_whole_token_behind_bearer_counts(void **state)
{
    static const struct {
        const char *line;
        int status;
    } lines[] = {
        {"Authorization: Bearer s3cret-of-ops\r\n", 503},
        {"authorization: bEARER s3cret-of-ops\r\n", 503},
        {"Authorization: Bearer   s3cret-of-ops \r\n", 503},
        {"Authorization: Bearer s3cret-of-ops2\r\n", 401},
        {"Authorization: Bearer S3cret-of-ops\r\n", 401},
        {"Authorization: Bearer s3cret-of-ops,s3cret-of-ops\r\n", 401},
        {"Authorization: Bearer\r\n", 401},
        {"Authorization: Bearer \r\n", 401},
        {"Authorization:\r\n", 401},
        {"Authorization: Bearers3cret-of-ops\r\n", 401},
        {"Authorization: s3cret-of-ops\r\n", 401},
        {"Authorization: Basic s3cret-of-ops\r\n", 401},
        {"X-Authorization: Bearer s3cret-of-ops\r\n", 401},
        {"Authorization: Bearer s3cret-of-ops\r\nAuthorization: Bearer s3cret-of-shop\r\n", 400},
    };
    struct fetched answer;
    struct world world;

    (void)state;
    open_guarded(&world);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        fetch_as(&world, "GET", "/v1/queues", lines[i].line, &answer);
        if (answer.status != lines[i].status) {
            fail_msg("%s: %d", lines[i].line, answer.status);
        }
    }
    world_close(&world);
}

/* The body is neither waited for, when the caller asks first, nor looked at. */
static void a_stranger_is_refused_before_his_body(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    open_guarded(&world);
    client_open(&client, &world);
    client_sendf(&client, "POST /v1/queues/sync/tasks HTTP/1.1\r\nHost: x\r\n"
                          "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 401);
    client_close(&client);
    client_open(&client, &world);
    client_sendf(&client, "POST /v1/queues/sync/tasks HTTP/1.1\r\nHost: x\r\n"
                          "Content-Length: 7\r\n\r\nnotJSON");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 401);
    client_close(&client);
    assert_int_equal(world.engine->call_count, 0);
    world_close(&world);
}

static void the_engine_is_told_who_asks(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    open_guarded(&world);
    fetch_as(&world, "POST", "/v1/queues/sync:pause", callers[2].authorization, &answer);
    assert_true(span_is(stub_last(world.engine)->ask.who, "ops"));
    fetch_as(&world, "GET", "/v1/queues/sync", callers[4].authorization, &answer);
    assert_true(span_is(stub_last(world.engine)->ask.who, "mill"));
    world_close(&world);
    world_open(&world, NULL);
    world.engine->script = script_full;
    fetch_as(&world, "POST", "/v1/queues/sync:pause", "", &answer);
    assert_true(span_is(stub_last(world.engine)->ask.who, "local"));
    fetch_as(&world, "POST", "/v1/queues/sync:pause", callers[1].authorization, &answer);
    assert_true(span_is(stub_last(world.engine)->ask.who, "local"));
    world_close(&world);
}

static void other_machines_are_let_in_only_with_tokens(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    world_open(&world, &(struct edge_options){.host = {"0.0.0.0", 7},
                                              .tokens = tokens,
                                              .token_count = sizeof tokens / sizeof *tokens});
    fetch_as(&world, "GET", "/healthz", "", &answer);
    assert_int_equal(answer.status, 200);
    struct edge *second = NULL;
    struct error error = {0};
    assert_int_equal(edge_open(&(struct edge_options){.loop = world.loop, .host = {"0.0.0.0", 7}},
                               &second, &error),
                     FAULT_INPUT);
    assert_contains(error.text, "api.tokens");
    world_close(&world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        cmocka_unit_test(each_role_may_call_its_routes_and_no_others),
        cmocka_unit_test(a_refusal_says_what_is_missing_and_nothing_else),
        cmocka_unit_test(a_stranger_does_not_learn_what_there_is),
        cmocka_unit_test(only_the_whole_token_behind_bearer_counts),
        cmocka_unit_test(a_stranger_is_refused_before_his_body),
        cmocka_unit_test(the_engine_is_told_who_asks),
        cmocka_unit_test(other_machines_are_let_in_only_with_tokens),
    };
    return HARNESS_RUN(argc, argv, claims);
}
