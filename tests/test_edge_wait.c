/* SPDX-License-Identifier: MIT
 *
 * Long polls, callers that leave, and how the edge stops: not ready first, then nobody new, everybody
 * answered.
 */
#define _GNU_SOURCE
#include "edge_world.h"

#include <stdio.h>
#include <sys/socket.h>

#define TASK       "/v1/tasks/" WORLD_TASK_ID
#define TASKS      "/v1/queues/sync/tasks"
#define CLIENT_MAX 8
#define LEAVERS    (3 * EDGE_LEAVERS_A_TURN)

static void open_watchful(struct world *world, uint32_t waiters)
{
    world_open(world,
               &(struct edge_options){.limits = {.waiters_max = waiters, .leave_check_ms = 10}});
}

static void a_long_poll_is_answered_when_the_engine_replies(void **state)
{
    struct answer_view answer;
    struct edge_stats stats;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_request(&client, "GET", TASK "?wait_ms=60000", "");
    world_run_calls(&world, 1);
    assert_int_equal(stub_last(world.engine)->ask.wait_ms, 60000);
    edge_stats(world.edge, &stats);
    assert_int_equal(stats.waiters, 1);
    script_task(&world, stub_last(world.engine));
    client_await(&client, &answer);
    assert_int_equal(answer.status, 200);
    edge_stats(world.edge, &stats);
    assert_int_equal(stats.waiters, 0);
    client_close(&client);
    world_close(&world);
}

/* engineering 1.3: waiters must not lock out health checks. */
static void long_polls_are_bounded_and_nothing_else_is(void **state)
{
    struct client clients[2];
    struct fetched answer;
    struct answer_view got;
    struct world world;

    (void)state;
    open_watchful(&world, 2);
    for (size_t i = 0; i < 2; i++) {
        client_open(&clients[i], &world);
        client_request(&clients[i], "GET", TASK "?wait_ms=1000", "");
        world_run_calls(&world, i + 1);
    }
    fetch(&world, "GET", TASK "?wait_ms=1000", "", &answer);
    assert_problem(&answer, 503, "overloaded");
    assert_contains(answer.headers, "Retry-After: 1\r\n");
    fetch(&world, "GET", "/healthz", "", &answer);
    assert_int_equal(answer.status, 200);
    world.engine->script = script_task;
    fetch(&world, "GET", TASK "?wait_ms=0", "", &answer); /* does not wait */
    assert_int_equal(answer.status, 200);
    world.engine->script = NULL;
    script_task(&world, &world.engine->calls[0]);
    client_await(&clients[0], &got);
    client_request(&clients[0], "GET", TASK "?wait_ms=1000", ""); /* there is room again */
    world_run_calls(&world, 4);
    script_task(&world, stub_last(world.engine));
    script_task(&world, &world.engine->calls[1]);
    client_await(&clients[0], &got);
    client_await(&clients[1], &got);
    client_close(&clients[0]);
    client_close(&clients[1]);
    world_close(&world);
}

static const struct edge_token tokens[] = {
    {.name = {"mine", 4}, .roles = EDGE_ROLE_WORKER, .secret = {"s3cret-of-mine", 14}},
    {.name = {"theirs", 6}, .roles = EDGE_ROLE_WORKER, .secret = {"s3cret-of-theirs", 16}},
};

static void poll_as(struct client *client, struct world *world, const char *who)
{
    client_open(client, world);
    client_sendf(client,
                 "GET " TASK "?wait_ms=60000 HTTP/1.1\r\nHost: x\r\n"
                 "Authorization: Bearer s3cret-of-%s\r\n\r\n",
                 who);
}

static void lease_as(struct client *client, struct world *world, const char *who)
{
    client_open(client, world);
    client_sendf(client,
                 "POST /v1/queues/q/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n"
                 "Authorization: Bearer s3cret-of-%s\r\n\r\n{\"wait_ms\": 60000}",
                 who);
}

static void expect_refused(struct client *client)
{
    struct answer_view answer;
    struct span value;

    client_await(client, &answer);
    assert_int_equal(answer.status, 503);
    assert_true(answer_header(&answer, "Retry-After", &value));
}

/* A quarter, one of six, is left to others. */
static void one_token_leaves_long_polls_to_others(void **state)
{
    struct client clients[6], late;
    struct answer_view answer;
    struct world world;

    (void)state;
    world_open(&world, &(struct edge_options){
                           .tokens = tokens, .token_count = 2, .limits = {.waiters_max = 6}});
    for (size_t i = 0; i < 5; i++) {
        (i % 2 == 0 ? poll_as : lease_as)(&clients[i], &world, "mine");
        world_run_calls(&world, i + 1);
    }
    poll_as(&late, &world, "mine");
    expect_refused(&late);
    client_close(&late);
    lease_as(&late, &world, "mine");
    expect_refused(&late);
    client_close(&late);
    lease_as(&clients[5], &world, "theirs");
    world_run_calls(&world, 6);
    assert_int_equal(stub_last(world.engine)->ask.kind, ASK_LEASE);
    poll_as(&late, &world, "theirs"); /* all of them are taken */
    expect_refused(&late);
    client_close(&late);
    script_task(&world, &world.engine->calls[0]);
    client_await(&clients[0], &answer);
    assert_int_equal(answer.status, 200);
    poll_as(&late, &world, "mine"); /* there is room again, and what was refused holds none */
    world_run_calls(&world, 7);
    client_close(&late);
    for (size_t i = 0; i < 6; i++) {
        client_close(&clients[i]);
    }
    world_close(&world);
}

/* There is nobody to leave any to. */
static void a_single_token_may_have_all_long_polls(void **state)
{
    struct client clients[4], late;
    struct world world;

    (void)state;
    world_open(&world, &(struct edge_options){
                           .tokens = tokens, .token_count = 1, .limits = {.waiters_max = 4}});
    for (size_t i = 0; i < 4; i++) {
        poll_as(&clients[i], &world, "mine");
        world_run_calls(&world, i + 1);
    }
    poll_as(&late, &world, "mine");
    expect_refused(&late);
    client_close(&late);
    for (size_t i = 0; i < 4; i++) {
        client_close(&clients[i]);
    }
    world_close(&world);
}

/* engineering 1.3: a suspended connection is not watched by libmicrohttpd. */
static void a_caller_that_leaves_is_found(void **state)
{
    struct client client;
    struct world world;

    (void)state;
    open_watchful(&world, 10);
    client_open(&client, &world);
    client_request(&client, "GET", TASK "?wait_ms=60000", "");
    world_run_calls(&world, 1);
    uint64_t exchange = stub_last(world.engine)->exchange;
    client_close(&client);
    world_run_calls(&world, 3);
    assert_int_equal(world.engine->calls[1].kind, STUB_LEAVE);
    assert_int_equal(world.engine->calls[1].exchange, exchange);
    assert_int_equal(world.engine->calls[2].kind, STUB_ASK);
    assert_int_equal(world.engine->calls[2].ask.wait_ms, 0);
    assert_int_equal(world.engine->calls[2].exchange, exchange);
    script_task(&world, &world.engine->calls[2]);
    world_close(&world);
}

/* What is being read for him is no longer wanted. */
static void a_caller_that_leaves_a_list_is_found(void **state)
{
    struct client client;
    struct world world;

    (void)state;
    open_watchful(&world, 10);
    client_open(&client, &world);
    client_request(&client, "GET", TASKS "?label.a=b", "");
    world_run_calls(&world, 1);
    assert_int_equal(stub_last(world.engine)->ask.kind, ASK_LIST);
    uint64_t exchange = stub_last(world.engine)->exchange;
    client_close(&client);
    world_run_calls(&world, 2);
    assert_int_equal(world.engine->calls[1].kind, STUB_LEAVE);
    assert_int_equal(world.engine->calls[1].exchange, exchange);
    edge_reply(world.edge, &(struct reply){.kind = REPLY_UNKNOWN_QUEUE, .exchange = exchange});
    world_close(&world);
}

/* Of a world whose callers leave: how many are seen off in a turn at most, and in all. */
struct leaving {
    struct world *world;
    size_t before, most, count;
};

static void count_left(void *user)
{
    struct leaving *leaving = user;
    size_t now = stub_count(leaving->world->engine, STUB_LEAVE);

    leaving->most = now - leaving->before > leaving->most ? now - leaving->before : leaving->most;
    leaving->before = now;
}

static bool have_all_left(void *user)
{
    const struct leaving *leaving = user;

    return leaving->before >= leaving->count;
}

/* Each of them costs the closing of two connections, and one turn of the loop is what all others wait for. */
static void callers_who_leave_all_at_once_are_seen_off_a_few_in_a_turn(void **state)
{
    static struct client clients[LEAVERS];
    struct world world;
    struct leaving leaving = {.world = &world, .count = LEAVERS};

    (void)state;
    open_watchful(&world, LEAVERS);
    for (size_t i = 0; i < LEAVERS; i++) {
        client_open(&clients[i], &world);
        client_request(&clients[i], "GET", TASK "?wait_ms=60000", "");
        world_run_calls(&world, i + 1);
    }
    for (size_t i = 0; i < LEAVERS; i++) {
        client_close(&clients[i]);
    }
    world.before_wait = count_left;
    world.before_wait_user = &leaving;
    world_run(&world, have_all_left, &leaving);
    assert_in_range(leaving.most, 1, EDGE_LEAVERS_A_TURN);
    assert_int_equal(leaving.before, LEAVERS);
    for (size_t i = 0; i < world.engine->call_count; i++) {
        const struct stub_call *call = &world.engine->calls[i];
        if (call->kind == STUB_ASK && call->ask.wait_ms == 0) {
            script_task(&world, call);
        }
    }
    world_close(&world);
}

/* Whether he is gone or has only finished speaking cannot be told: he gets things as they are. */
static void a_half_closed_caller_is_answered_at_once(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    open_watchful(&world, 10);
    client_open(&client, &world);
    client_request(&client, "GET", TASK "?wait_ms=60000", "");
    world_run_calls(&world, 1);
    world.engine->script = script_task;
    assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
    client_await(&client, &answer);
    assert_int_equal(answer.status, 200);
    client_close(&client);
    world_close(&world);
}

static void callers_that_stay_are_left_alone(void **state)
{
    struct client clients[CLIENT_MAX];
    struct answer_view answer;
    struct world world;

    (void)state;
    open_watchful(&world, 100);
    for (size_t i = 0; i < CLIENT_MAX; i++) {
        client_open(&clients[i], &world);
        client_request(&clients[i], "GET", TASK "?wait_ms=60000", "");
        world_run_calls(&world, i + 1);
    }
    for (size_t i = 0; i < CLIENT_MAX; i += 2) {
        client_close(&clients[i]);
    }
    world_run_calls(&world, CLIENT_MAX * 2);
    assert_int_equal(stub_count(world.engine, STUB_LEAVE), CLIENT_MAX / 2);
    for (size_t i = CLIENT_MAX; i < CLIENT_MAX * 2; i++) {
        if (world.engine->calls[i].kind == STUB_ASK) {
            script_task(&world, &world.engine->calls[i]);
        }
    }
    for (size_t i = 1; i < CLIENT_MAX; i += 2) {
        script_task(&world, &world.engine->calls[i]);
        client_await(&clients[i], &answer);
        assert_int_equal(answer.status, 200);
        client_close(&clients[i]);
    }
    world_close(&world);
}

static bool is_drained(void *user)
{
    return edge_is_drained(((struct world *)user)->edge);
}

static void draining_flips_readiness_first(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_sendf(&client, "GET /rea"); /* already talking */
    struct fetched health;
    fetch(&world, "GET", "/healthz", "", &health);
    edge_drain(world.edge);
    edge_drain(world.edge); /* once is enough */
    client_sendf(&client, "dyz HTTP/1.1\r\nHost: x\r\n\r\n");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 503);
    assert_non_null(memmem(answer.body.at, answer.body.len, "\"draining\"", 10));
    struct span value;
    assert_true(answer_header(&answer, "Connection", &value) && span_is_nocase(value, "close"));
    client_await_close(&client);
    client_close(&client);
    world_close(&world);
}

static void draining_lets_nobody_new_in(void **state)
{
    struct world world;

    (void)state;
    world_open(&world, NULL);
    struct fetched health;
    fetch(&world, "GET", "/healthz", "", &health);
    edge_drain(world.edge);
    assert_false(world_lets_in(&world));
    world_close(&world);
}

static void draining_answers_everybody(void **state)
{
    struct client poller, writer, idle;
    struct answer_view answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&idle, &world);
    client_request(&idle, "GET", "/healthz", "");
    client_await(&idle, &answer);
    client_open(&poller, &world);
    client_request(&poller, "GET", TASK "?wait_ms=60000", "");
    world_run_calls(&world, 1);
    client_open(&writer, &world);
    client_request(&writer, "POST", TASKS, "{}");
    world_run_calls(&world, 2);
    assert_false(edge_is_drained(world.edge));
    edge_drain(world.edge);
    client_await_close(&idle); /* has nothing to wait for */
    assert_int_equal(world.engine->calls[2].kind, STUB_LEAVE);
    script_task(&world, &world.engine->calls[3]); /* the poll, asked again without waiting */
    client_await(&poller, &answer);
    assert_int_equal(answer.status, 200);
    client_await_close(&poller);
    assert_false(edge_is_drained(world.edge));
    script_created(&world, &world.engine->calls[1]);
    client_await(&writer, &answer);
    assert_int_equal(answer.status, 201);
    client_await_close(&writer);
    world_run(&world, is_drained, &world);
    client_close(&idle);
    client_close(&poller);
    client_close(&writer);
    world_close(&world);
}

static void a_new_long_poll_does_not_wait_while_draining(void **state)
{
    struct answer_view answer;
    struct client client;
    struct fetched health;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_sendf(&client, "GET " TASK "?wait_ms=60000 HTTP/1.1\r\n");
    fetch(&world, "GET", "/healthz", "", &health);
    edge_drain(world.edge);
    world.engine->script = script_task;
    client_sendf(&client, "Host: x\r\n\r\n");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 200);
    assert_int_equal(stub_last(world.engine)->ask.wait_ms, 0);
    client_close(&client);
    world_close(&world);
}

static void closing_at_once_is_fine(void **state)
{
    struct client clients[CLIENT_MAX];
    struct world world;

    (void)state;
    world_open(&world, NULL);
    world_close(&world);
    world_open(&world, NULL);
    for (size_t i = 0; i < CLIENT_MAX; i++) { /* in every phase */
        client_open(&clients[i], &world);
        client_sendf(&clients[i], "%.*s", (int)(i * 12),
                     "POST " TASKS " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
    }
    world_run_calls(&world, 1);
    edge_close(world.edge);
    world.edge = NULL;
    for (size_t i = 0; i < CLIENT_MAX; i++) {
        client_close(&clients[i]);
    }
    world_close(&world);
}

/* Nobody is there to ask any more: it must not be left suspended, which ends the process. */
static void a_request_that_ends_while_we_close_is_turned_away(void **state)
{
    struct client first, second;
    struct fetched health;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&first, &world);
    client_request(&first, "POST", TASKS, "{}");
    client_open(&second, &world);
    client_sendf(&second, "POST " TASKS " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{");
    world_run_calls(&world, 1);
    fetch(&world, "GET", "/healthz", "", &health);
    assert_int_equal(send(second.fd, "}", 1, 0), 1);
    edge_close(world.edge);
    world.edge = NULL;
    client_await_close(&second);
    assert_int_equal(world.engine->call_count, 1);
    client_close(&first);
    client_close(&second);
    world_close(&world);
}

/* Nobody is asked who he is yet, so nobody from outside may come. */
static void only_loopback_is_listened_on(void **state)
{
    static const char *const hosts[] = {"0.0.0.0", "::", "192.0.2.1", "localhost", ""};
    struct loop *loop;
    struct edge *edge;
    struct error error = {0};

    (void)state;
    assert_int_equal(loop_new(&loop, &error), 0);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct edge_options options = {
            .loop = loop, .host = span_of(hosts[i]), .clock = &clock_real};
        assert_int_equal(edge_open(&options, &edge, &error), FAULT_INPUT);
        assert_string_equal(error.field, "api.listen");
    }
    loop_free(loop);
}

static void an_address_that_is_taken_is_named(void **state)
{
    struct error error = {0};
    struct world world;
    struct edge *other;
    char port[16];

    (void)state;
    world_open(&world, NULL);
    struct edge_options options = {.loop = world.loop,
                                   .host = SPAN("127.0.0.1"),
                                   .port = edge_port(world.edge),
                                   .clock = &clock_real};
    assert_int_equal(edge_open(&options, &other, &error), FAULT_SYSTEM);
    snprintf(port, sizeof port, "port %u", edge_port(world.edge));
    assert_contains(error.text, port);
    world_close(&world);
}

static void ipv6_loopback_is_fine(void **state)
{
    struct error error = {0};
    struct loop *loop;
    struct edge *edge;

    (void)state;
    assert_int_equal(loop_new(&loop, &error), 0);
    struct edge_options options = {.loop = loop, .host = SPAN("::1"), .clock = &clock_real};
    int failed = edge_open(&options, &edge, &error);
    if (failed == 0) { /* a machine without IPv6 says so */
        assert_true(edge_port(edge) > 0);
        edge_close(edge);
    } else {
        assert_int_equal(failed, FAULT_SYSTEM);
    }
    loop_free(loop);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_poll_is_answered_when_the_engine_replies),
        cmocka_unit_test(long_polls_are_bounded_and_nothing_else_is),
        cmocka_unit_test(one_token_leaves_long_polls_to_others),
        cmocka_unit_test(a_single_token_may_have_all_long_polls),
        cmocka_unit_test(a_caller_that_leaves_is_found),
        cmocka_unit_test(a_caller_that_leaves_a_list_is_found),
        cmocka_unit_test(callers_who_leave_all_at_once_are_seen_off_a_few_in_a_turn),
        cmocka_unit_test(a_half_closed_caller_is_answered_at_once),
        cmocka_unit_test(callers_that_stay_are_left_alone),
        cmocka_unit_test(draining_flips_readiness_first),
        cmocka_unit_test(draining_lets_nobody_new_in),
        cmocka_unit_test(draining_answers_everybody),
        cmocka_unit_test(a_new_long_poll_does_not_wait_while_draining),
        cmocka_unit_test(closing_at_once_is_fine),
        cmocka_unit_test(a_request_that_ends_while_we_close_is_turned_away),
        cmocka_unit_test(only_loopback_is_listened_on),
        cmocka_unit_test(an_address_that_is_taken_is_named),
        cmocka_unit_test(ipv6_loopback_is_fine),
    };
    return HARNESS_RUN(argc, argv, tests);
}
