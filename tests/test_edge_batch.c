/* SPDX-License-Identifier: MIT
 *
 * Many tasks in one call: each by itself, results in order, whenever the engine replies.
 */
#include "edge_world.h"

#include <stdio.h>
#include <stdlib.h>

#define BATCH "/v1/queues/sync/tasks:batch"

static void created(struct world *world, const struct stub_call *call)
{
    struct record record = world_record(TASK_WAITING);

    record.task.id.tail = call->submission.index;
    edge_reply(world->edge, &(struct reply){.kind = REPLY_CREATED,
                                            .exchange = call->exchange,
                                            .index = call->submission.index,
                                            .records = &record,
                                            .record_count = 1});
}

static void script_each(void *user, const struct stub_call *call)
{
    created(user, call);
}

static bool has_sent(void *user)
{
    const struct client *client = user;

    return client->sent_len == client->sent.len;
}

static void an_array_gives_results_in_order(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    world.engine->script = script_each;
    fetch(&world, "POST", BATCH,
          "[{\"body\":\"a\"}, {\"bodi\":\"b\"},\n3, {\"json\":{\"x\":1.10}, \"key\":\"k\"}]",
          &answer);
    assert_int_equal(answer.status, 200);
    assert_contains(answer.body, "{\"results\":[{\"id\":\"01a3185c-5000-7001-8000-000000000000\"},"
                                 "{\"error\":{\"type\":\"urn:daruma:problem:invalid_request\"");
    assert_contains(answer.body, "\"field\":\"bodi\"}},{\"error\":{");
    assert_contains(answer.body, "\"}},{\"id\":\"01a3185c-5000-7001-8000-000000000003\"}]}");
    assert_int_equal(world.engine->call_count, 2);
    assert_true(span_is(world.engine->calls[1].submission.body, "{\"x\":1.10}"));
    assert_true(span_is(world.engine->calls[1].submission.queue, "sync"));
    assert_int_equal(world.engine->calls[1].submission.index, 3);
    world_close(&world);
}

static void lines_are_tasks_too(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    world.engine->script = script_each;
    fetch(&world, "POST", BATCH, "{\"body\":\"a\"}\r\n\n  \n{\"body\":\"b\"}\n{broken\n{}",
          &answer);
    assert_int_equal(answer.status, 200);
    assert_int_equal(world.engine->call_count, 3);
    assert_contains(answer.body, "{\"results\":[{\"id\":");
    assert_contains(answer.body, "000000000001\"},{\"error\":{");
    world_close(&world);
}

static void replies_may_come_late_and_in_any_order(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_request(&client, "POST", BATCH, "[{},{},{},{}]");
    world_run_calls(&world, 4);
    const struct stub_call *calls = world.engine->calls;
    created(&world, &calls[2]);
    edge_reply(world.edge,
               &(struct reply){.kind = REPLY_CONFLICT, .exchange = calls[0].exchange, .index = 0});
    edge_reply(world.edge,
               &(struct reply){.kind = REPLY_CONFLICT, .exchange = calls[0].exchange, .index = 0});
    edge_reply(world.edge,
               &(struct reply){.kind = REPLY_CONFLICT, .exchange = calls[0].exchange, .index = 4});
    edge_reply(world.edge, &(struct reply){.kind = REPLY_FAULT,
                                           .exchange = calls[0].exchange,
                                           .index = 3,
                                           .error = {.fault = FAULT_FULL, .text = "full"}});
    assert_int_equal(client.got.len, 0);
    edge_reply(
        world.edge,
        &(struct reply){.kind = REPLY_UNKNOWN_QUEUE, .exchange = calls[0].exchange, .index = 1});
    client_await(&client, &answer);
    assert_int_equal(answer.status, 200);
    char *body = strndup(answer.body.at, answer.body.len);
    assert_contains(body, "{\"results\":[{\"error\":{\"type\":\"urn:daruma:problem:key_conflict\"");
    assert_contains(body, "}},{\"error\":{\"type\":\"urn:daruma:problem:queue_unknown\"");
    assert_contains(body, "}},{\"id\":\"01a3185c-5000-7001-8000-000000000002\"},{\"error\":");
    assert_contains(body, "\"detail\":\"full\",\"code\":\"overloaded\"}}]}");
    free(body);
    client_close(&client);
    world_close(&world);
}

static void a_batch_has_a_largest_size(void **state)
{
    static char body[8192];
    static struct fetched answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    world.engine->script = script_each;
    for (int count = EDGE_BATCH_MAX; count <= EDGE_BATCH_MAX + 1; count++) {
        size_t len = (size_t)snprintf(body, sizeof body, "[");
        for (int i = 0; i < count; i++) {
            len += (size_t)snprintf(body + len, sizeof body - len, "%s{}", i > 0 ? "," : "");
        }
        snprintf(body + len, sizeof body - len, "]");
        fetch(&world, "POST", BATCH, body, &answer);
        assert_int_equal(answer.status, count == EDGE_BATCH_MAX ? 200 : 400);
        assert_int_equal(world.engine->call_count, EDGE_BATCH_MAX);
    }
    assert_problem(&answer, 400, "invalid_request");
    world_close(&world);
}

static void what_cannot_be_cut_into_tasks_is_refused_whole(void **state)
{
    static const char *const bodies[] = {"[{}", "[{},]", "[{}]]", "[{} {}]", " \n ", ""};
    struct fetched answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        fetch(&world, "POST", BATCH, bodies[i], &answer);
        assert_problem(&answer, 400, "invalid_request");
    }
    fetch(&world, "POST", BATCH, "[]", &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "{\"results\":[]}");
    assert_int_equal(world.engine->call_count, 0);
    world_close(&world);
}

static void one_key_for_many_tasks_is_refused(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_sendf(&client, "POST " BATCH " HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n"
                          "Content-Length: 4\r\n\r\n[{}]");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 400);
    client_close(&client);
    world_close(&world);
}

/* The caller is gone; what he began goes on, and its replies find nobody. */
static void a_caller_that_leaves_a_batch_changes_nothing(void **state)
{
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_request(&client, "POST", BATCH, "[{},{}]");
    world_run_calls(&world, 2);
    client_close(&client);
    created(&world, &world.engine->calls[0]);
    created(&world, &world.engine->calls[1]);
    created(&world, &world.engine->calls[1]);
    world_close(&world);
}

/* Engineering 7: on a thread of its own, by the same rules. */
static void a_large_batch_is_read_aside(void **state)
{
    static char text[400000];
    struct fetched answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    world.engine->script = script_each;
    snprintf(text, sizeof text, "[{\"body\":\"a\",\"key\":\"k\"},%*s{\"bodi\":1},{\"body\":\"b\"}]",
             300000, "");
    fetch(&world, "POST", BATCH, text, &answer);
    assert_int_equal(answer.status, 200);
    assert_contains(answer.body, "\"field\":\"bodi\"}},{\"id\":");
    assert_int_equal(world.engine->call_count, 2);
    assert_true(world.engine->calls[0].submission.has_fingerprint); /* made there as well */
    assert_true(span_is(world.engine->calls[1].submission.body, "b"));
    assert_true(span_is(world.engine->calls[1].submission.queue, "sync"));
    snprintf(text, sizeof text, "[{\"body\":\"a\"},%*s", 300000, "");
    fetch(&world, "POST", BATCH, text, &answer);
    assert_problem(&answer, 400, "invalid_request");
    snprintf(text, sizeof text, "%*s[]", 300000, "");
    fetch(&world, "POST", BATCH, text, &answer);
    assert_string_equal(answer.body, "{\"results\":[]}");
    assert_int_equal(world.engine->call_count, 2);
    world_close(&world);
}

/* Whatever the thread is doing. */
static void a_large_batch_may_be_on_its_way_when_the_edge_closes(void **state)
{
    static char text[400000];
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    snprintf(text, sizeof text, "[{\"body\":\"a\"},%*s{\"body\":\"b\"}]", 300000, "");
    client_open(&client, &world);
    client_request(&client, "POST", BATCH, text);
    world_run(&world, has_sent, &client);
    client_close(&client);
    world_close(&world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_array_gives_results_in_order),
        cmocka_unit_test(lines_are_tasks_too),
        cmocka_unit_test(replies_may_come_late_and_in_any_order),
        cmocka_unit_test(a_batch_has_a_largest_size),
        cmocka_unit_test(what_cannot_be_cut_into_tasks_is_refused_whole),
        cmocka_unit_test(one_key_for_many_tasks_is_refused),
        cmocka_unit_test(a_caller_that_leaves_a_batch_changes_nothing),
        cmocka_unit_test(a_large_batch_is_read_aside),
        cmocka_unit_test(a_large_batch_may_be_on_its_way_when_the_edge_closes),
    };
    return HARNESS_RUN(argc, argv, tests);
}
