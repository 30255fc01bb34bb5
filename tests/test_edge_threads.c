/* SPDX-License-Identifier: MIT
 *
 * Several loops for HTTP, one for the engine: what holds for one edge holds for all of them together,
 * and no thread touches what is another's (this runs under TSan).
 */
#include "edge_world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define TASKS   "/v1/queues/sync/tasks"
#define BATCH   "/v1/queues/sync/tasks:batch"
#define CLIENTS 24

static pthread_t engines_thread;

static void script_any(void *user, const struct stub_call *call)
{
    static const struct queue_settings settings = {.concurrency = 64};
    const struct queue_view queue = {.name = SPAN("sync"), .settings = &settings};
    struct record record = world_record(TASK_WAITING);
    struct reply reply = {.exchange = call->exchange,
                          .records = &record,
                          .record_count = 1,
                          .queues = &queue,
                          .queue_count = 1};

    assert_true(pthread_equal(pthread_self(), engines_thread));
    if (call->kind == STUB_SUBMIT) {
        reply.kind = REPLY_CREATED;
        reply.index = call->submission.index;
        record.task.id.tail = call->submission.index;
    } else if (call->kind == STUB_ASK) {
        reply.kind = call->ask.kind == ASK_TASK    ? REPLY_TASK
                     : call->ask.kind == ASK_QUEUE ? REPLY_QUEUE
                                                   : REPLY_LIST;
    } else {
        return;
    }
    world_reply(user, &reply);
}

static void open_three(struct world *world, const struct edge_options *options)
{
    engines_thread = pthread_self();
    world_open_threads(world, options, 3);
}

static void close_all(struct client *clients, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        client_close(&clients[i]);
    }
}

static void answers_are_the_same_as_with_one(void **state)
{
    static const char *const calls[][3] = {
        {"POST", TASKS, "{\"body\":\"a\"}"},
        {"POST", TASKS, "{\"bodi\":1}"},
        {"GET", TASKS "?limit=3", ""},
        {"GET", "/v1/tasks/" WORLD_TASK_ID, ""},
        {"GET", "/v1/queues/sync", ""},
        {"PUT", "/v1/queues/sync", "{\"concurrency\":3}"},
        {"POST", BATCH, "[{}, 3, {}]"},
        {"POST", BATCH, "[]"},
        {"POST", BATCH, "[1]"},
        {"GET", "/metrics", ""},
        {"GET", "/readyz", ""},
        {"GET", "/healthz", ""},
        {"GET", "/v1/openapi.json", ""},
        {"GET", "/nowhere", ""},
        {"POST", "/v1/queues/sync:run", "1"},
    };
    static struct fetched one, several;
    struct world alone, world;

    (void)state;
    open_three(&world, NULL);
    world_open(&alone, NULL);
    world.engine->script = alone.engine->script = script_any;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fetch(&alone, calls[i][0], calls[i][1], calls[i][2], &one);
        for (int again = 0; again < 4; again++) { /* on whichever loop takes it */
            fetch(&world, calls[i][0], calls[i][1], calls[i][2], &several);
            assert_int_equal(several.status, one.status);
            assert_string_equal(several.body, one.body);
        }
    }
    world_close(&alone);
    world_close(&world);
}

static void answers_find_their_callers(void **state)
{
    struct client clients[CLIENTS];
    struct answer_view answer;
    struct world world;

    (void)state;
    open_three(&world, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        client_open(&clients[i], &world);
        client_sendf(&clients[i],
                     "POST " TASKS
                     " HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n{\"key\":\"%03d\"}",
                     i);
    }
    world_run_calls(&world, CLIENTS);
    for (size_t i = CLIENTS; i-- > 0;) { /* the other way round */
        const struct stub_call *call = &world.engine->calls[i];
        struct record record = world_record(TASK_WAITING);
        record.task.key = call->submission.key;
        world_reply(&world, &(struct reply){.kind = REPLY_CREATED,
                                            .exchange = call->exchange,
                                            .records = &record,
                                            .record_count = 1});
    }
    for (int i = 0; i < CLIENTS; i++) {
        char wanted[32], body[4096];
        client_await(&clients[i], &answer);
        assert_int_equal(answer.status, 201);
        snprintf(wanted, sizeof wanted, "\"key\":\"%03d\"", i);
        snprintf(body, sizeof body, "%.*s", SPAN_ARGS(answer.body));
        assert_contains(body, wanted);
    }
    close_all(clients, CLIENTS);
    world_close(&world);
}

static void replies_to_nobody_are_dropped(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    open_three(&world, NULL);
    world.engine->script = script_any;
    fetch(&world, "POST", TASKS, "{}", &answer);
    const struct stub_call call = *stub_last(world.engine);
    script_any(&world, &call); /* once more */
    for (uint64_t edge = 0; edge < 64; edge++) {
        struct stub_call wrong = call;
        wrong.exchange = edge << 32 | 12345;
        script_any(&world, &wrong);
    }
    fetch(&world, "POST", TASKS, "{}", &answer);
    assert_int_equal(answer.status, 201);
    world_close(&world);
}

static void the_limit_for_waiters_is_for_all_of_them(void **state)
{
    struct client clients[CLIENTS];
    struct answer_view answer;
    struct world world;
    int refused = 0;

    (void)state;
    open_three(&world, &(struct edge_options){.limits = {.waiters_max = 5}});
    for (int i = 0; i < 5; i++) {
        client_open(&clients[i], &world);
        client_request(&clients[i], "GET", "/v1/tasks/" WORLD_TASK_ID "?wait_ms=60000", "");
    }
    world_run_calls(&world, 5);
    for (int i = 5; i < CLIENTS; i++) {
        client_open(&clients[i], &world);
        client_request(&clients[i], "GET", "/v1/tasks/" WORLD_TASK_ID "?wait_ms=60000", "");
        client_await(&clients[i], &answer);
        refused += answer.status == 503;
    }
    assert_int_equal(refused, CLIENTS - 5);
    assert_int_equal(world.engine->call_count, 5);
    for (size_t i = 0; i < 5; i++) {
        script_any(&world, &world.engine->calls[i]);
    }
    for (int i = 0; i < 5; i++) {
        client_await(&clients[i], &answer);
        assert_int_equal(answer.status, 200);
    }
    close_all(clients, CLIENTS);
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
                 "GET /v1/tasks/" WORLD_TASK_ID "?wait_ms=60000 HTTP/1.1\r\nHost: x\r\n"
                 "Authorization: Bearer s3cret-of-%s\r\n\r\n",
                 who);
}

static void the_share_of_a_token_is_of_all_of_them(void **state)
{
    struct client clients[4], late;
    struct answer_view answer;
    struct world world;

    (void)state;
    open_three(&world, &(struct edge_options){
                           .tokens = tokens, .token_count = 2, .limits = {.waiters_max = 4}});
    for (size_t i = 0; i < 3; i++) {
        poll_as(&clients[i], &world, "mine");
        world_run_calls(&world, i + 1);
    }
    for (int i = 0; i < CLIENTS; i++) { /* whichever thread it comes to */
        poll_as(&late, &world, "mine");
        client_await(&late, &answer);
        assert_int_equal(answer.status, 503);
        client_close(&late);
    }
    poll_as(&clients[3], &world, "theirs");
    world_run_calls(&world, 4);
    for (size_t i = 0; i < 4; i++) {
        script_any(&world, &world.engine->calls[i]);
        client_await(&clients[i], &answer);
        assert_int_equal(answer.status, 200);
    }
    poll_as(&late, &world, "mine"); /* all gave theirs back */
    world_run_calls(&world, 5);
    client_close(&late);
    close_all(clients, 4);
    world_close(&world);
}

static bool has_six(void *user)
{
    struct world *world = user;
    struct edge_stats stats;

    edges_stats(world->edges, &stats);
    return stats.connections == 6;
}

static void the_limit_for_connections_is_for_all_of_them(void **state)
{
    struct client clients[CLIENTS];
    struct answer_view answer;
    struct world world;

    (void)state;
    open_three(&world, &(struct edge_options){.limits = {.connections_max = 6, .grace_ms = 300}});
    for (int i = 0; i < CLIENTS; i++) {
        client_open(&clients[i], &world);
        client_request(&clients[i], "POST", TASKS, "{}");
    }
    world_run_calls(&world, 6);
    world_run_threads(&world, has_six);
    for (size_t answered = 0; answered < CLIENTS; answered++) { /* each makes room for the next */
        world_run_calls(&world, answered + 1);
        assert_true(world.engine->call_count - answered <= 6);
        script_any(&world, &world.engine->calls[answered]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_await(&clients[i], &answer);
        assert_int_equal(answer.status, 201);
    }
    close_all(clients, CLIENTS);
    world_close(&world);
}

static void a_waiter_that_leaves_is_noticed(void **state)
{
    struct client client;
    struct world world;

    (void)state;
    open_three(&world, &(struct edge_options){.limits = {.leave_check_ms = 20}});
    client_open(&client, &world);
    client_request(&client, "GET", "/v1/tasks/" WORLD_TASK_ID "?wait_ms=60000", "");
    world_run_calls(&world, 1);
    client_close(&client);
    world_run_calls(&world, 3);
    assert_int_equal(world.engine->calls[1].kind, STUB_LEAVE);
    assert_int_equal(world.engine->calls[2].kind, STUB_ASK);
    script_any(&world, &world.engine->calls[0]); /* too late */
    script_any(&world, &world.engine->calls[2]);
    world_close(&world);
}

static void reply_leases(struct world *world, const struct stub_call *call, size_t count)
{
    struct record record = world_record(TASK_RUNNING);

    record.life.fence = 7;
    world_reply(world, &(struct reply){.kind = REPLY_LEASES,
                                       .exchange = call->exchange,
                                       .records = &record,
                                       .record_count = count});
}

/* Engineering 1.3: a dead worker's long poll must not swallow tasks for a whole lease. */
static void leases_of_a_worker_that_left_go_back(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    open_three(&world, &(struct edge_options){.limits = {.leave_check_ms = 60000}});
    client_open(&client, &world);
    client_request(&client, "POST", "/v1/queues/sync/leases", "{\"wait_ms\":60000}");
    world_run_calls(&world, 1);
    reply_leases(&world, stub_last(world.engine), 1);
    client_await(&client, &answer);
    assert_int_equal(answer.status, 200);
    client_request(&client, "POST", "/v1/queues/sync/leases", "{\"wait_ms\":60000}");
    world_run_calls(&world, 2);
    const struct stub_call call = *stub_last(world.engine);
    client_close(&client);
    reply_leases(&world, &call, 1);
    world_run_calls(&world, 3);
    assert_int_equal(stub_last(world.engine)->ask.kind, ASK_LEASE_SETTLE);
    assert_int_equal(stub_last(world.engine)->ask.word_count, 1);
    reply_leases(&world, &call, 1); /* to nobody */
    world_run_calls(&world, 4);
    assert_int_equal(stub_last(world.engine)->ask.kind, ASK_LEASE_SETTLE);
    world_close(&world);
}

static void a_worker_in_line_is_sent_home_when_we_drain(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    open_three(&world, NULL);
    client_open(&client, &world);
    client_request(&client, "POST", "/v1/queues/sync/leases", "{\"wait_ms\":60000}");
    world_run_calls(&world, 1);
    edges_drain(world.edges);
    world_run_calls(&world, 2);
    assert_int_equal(stub_last(world.engine)->kind, STUB_LEAVE);
    reply_leases(&world, stub_last(world.engine), 0);
    client_await(&client, &answer);
    assert_int_equal(answer.status, 200);
    client_close(&client);
    world_close(&world);
}

static void large_tasks_and_batches_are_read_aside(void **state)
{
    static char text[400000];
    struct fetched answer;
    struct world world;

    (void)state;
    open_three(&world, NULL);
    world.engine->script = script_any;
    snprintf(text, sizeof text, "[{\"body\":\"a\"},%*s{\"bodi\":1}]", 300000, "");
    fetch(&world, "POST", BATCH, text, &answer);
    assert_int_equal(answer.status, 200);
    assert_contains(answer.body, "\"field\":\"bodi\"");
    snprintf(text, sizeof text, "{\"body\":\"a\"%*s}", 300000, "");
    fetch(&world, "POST", TASKS, text, &answer);
    assert_int_equal(answer.status, 201);
    world_close(&world);
}

static bool is_drained(void *user)
{
    return edges_are_drained(((struct world *)user)->edges);
}

static void draining_lets_all_of_them_finish(void **state)
{
    struct client clients[CLIENTS];
    struct answer_view answer;
    struct edge_stats stats;
    struct world world;

    (void)state;
    open_three(&world, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        client_open(&clients[i], &world);
        client_request(&clients[i], i % 2 == 0 ? "POST" : "GET",
                       i % 2 == 0 ? TASKS : "/v1/tasks/" WORLD_TASK_ID "?wait_ms=60000",
                       i % 2 == 0 ? "{}" : "");
    }
    world_run_calls(&world, CLIENTS);
    assert_false(edges_are_drained(world.edges));
    edges_drain(world.edges);
    world_run_calls(&world, CLIENTS * 2); /* long polls leave, and ask once more */
    assert_false(edges_are_drained(world.edges));
    for (size_t i = 0; i < CLIENTS * 2; i++) {
        script_any(&world, &world.engine->calls[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_await(&clients[i], &answer);
        assert_int_equal(answer.status, i % 2 == 0 ? 201 : 200);
        client_await_close(&clients[i]);
    }
    world_run_threads(&world, is_drained);
    assert_false(world_lets_in(&world));
    edges_stats(world.edges, &stats);
    assert_int_equal(stats.requests, CLIENTS);
    assert_int_equal(stats.refused, 0);
    close_all(clients, CLIENTS);
    world_close(&world);
}

static void closing_answers_whoever_is_still_there(void **state)
{
    struct client clients[CLIENTS];
    struct answer_view answer;
    struct world world;

    (void)state;
    open_three(&world, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        client_open(&clients[i], &world);
        client_request(&clients[i], "POST", i % 3 == 0 ? BATCH : TASKS,
                       i % 3 == 0 ? "[{},{}]" : "{}");
    }
    world_run_calls(&world, CLIENTS / 2); /* some have not got that far */
    edges_close(world.edges);
    world.edges = NULL;
    for (int i = 0; i < CLIENTS; i++) {
        client_await_close(&clients[i]);
        if (clients[i].got.len > 0) {
            client_await(&clients[i], &answer);
            assert_int_equal(answer.status, 503);
        }
    }
    close_all(clients, CLIENTS);
    world_close(&world);
}

static int write_metrics(void *user, unsigned how, struct buf *out)
{
    (void)user, (void)how;
    assert_true(pthread_equal(pthread_self(), engines_thread));
    return buf_addf(out, "daruma_up 1\n");
}

static void metrics_and_readiness_are_told_by_the_engines_thread(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    open_three(&world, &(struct edge_options){.metrics = write_metrics});
    fetch(&world, "GET", "/metrics", "", &answer);
    assert_string_equal(answer.body, "daruma_up 1\n");
    world.is_ready = false;
    fetch(&world, "GET", "/readyz", "", &answer);
    assert_problem(&answer, 503, "store_unavailable");
    world_close(&world);
}

static void threads_have_a_number_between_1_and_64(void **state)
{
    const uint32_t wrong[] = {0, 65, UINT32_MAX};
    struct edges *edges = NULL;
    struct world world;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error error = {0};
        assert_int_equal(edges_open(&(struct edge_options){0}, wrong[i], &edges, &error),
                         FAULT_INPUT);
        assert_string_equal(error.field, "threads");
        assert_contains(error.text, "expected 1 to 64");
    }
    world_open_threads(&world, NULL, 64);
    world_close(&world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_same_as_with_one),
        cmocka_unit_test(answers_find_their_callers),
        cmocka_unit_test(replies_to_nobody_are_dropped),
        cmocka_unit_test(the_limit_for_waiters_is_for_all_of_them),
        cmocka_unit_test(the_share_of_a_token_is_of_all_of_them),
        cmocka_unit_test(the_limit_for_connections_is_for_all_of_them),
        cmocka_unit_test(a_waiter_that_leaves_is_noticed),
        cmocka_unit_test(leases_of_a_worker_that_left_go_back),
        cmocka_unit_test(a_worker_in_line_is_sent_home_when_we_drain),
        cmocka_unit_test(large_tasks_and_batches_are_read_aside),
        cmocka_unit_test(draining_lets_all_of_them_finish),
        cmocka_unit_test(closing_answers_whoever_is_still_there),
        cmocka_unit_test(metrics_and_readiness_are_told_by_the_engines_thread),
        cmocka_unit_test(threads_have_a_number_between_1_and_64),
    };
    return HARNESS_RUN(argc, argv, tests);
}
