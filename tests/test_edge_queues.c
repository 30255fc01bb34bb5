/* SPDX-License-Identifier: MIT
 *
 * The calls about queues and runs, what operators ask, and what is said where there is nothing.
 */
#include "edge_world.h"

#include <stdio.h>

static struct reply scripted;

static void script_reply(void *user, const struct stub_call *call)
{
    struct world *world = user;

    scripted.exchange = call->exchange;
    edge_reply(world->edge, &scripted);
}

static void open_scripted(struct world *world, struct reply reply)
{
    world_open(world, NULL);
    scripted = reply;
    world->engine->script = script_reply;
}

static const struct queue_settings settings = {.concurrency = 64};

static const struct queue_view views[] = {
    {.name = {"sync", 4},
     .settings = &settings,
     .counts = {[TASK_WAITING] = 3, [TASK_RUNNING] = 1, [TASK_FAILED] = 2, [TASK_DEAD] = 5},
     .due_count = 2,
     .in_flight = 1,
     .paused = true},
    {.name = {"other", 5}, .settings = &settings, .in_file = true},
};

#define SYNC                                                                                       \
    "{\"name\":\"sync\",\"paused\":true,\"in_file\":false,\"counts\":{\"waiting\":3,"              \
    "\"running\":1,\"unsettled\":0,\"succeeded\":0,\"failed\":7,\"cancelled\":0},"                 \
    "\"dead_letters\":5,\"due\":2,"                                                                \
    "\"in_flight\":1,\"held_by\":\"paused\",\"held_because\":null,\"outage_since\":null,"          \
    "\"stopped\":[],\"settings\":{\"concurrency\":64}}"

static void a_queue_is_shown_with_counts_and_settings(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    open_scripted(&world, (struct reply){.kind = REPLY_QUEUE, .queues = views, .queue_count = 1});
    fetch(&world, "GET", "/v1/queues/sync", "", &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, SYNC);
    assert_int_equal(stub_last(world.engine)->ask.kind, ASK_QUEUE);
    assert_true(span_is(stub_last(world.engine)->ask.queue, "sync"));
    world_close(&world);
}

static void a_queue_that_is_slowed_down_says_by_what(void **state)
{
    static const struct {
        uint32_t held;
        const char *told;
    } rows[] = {{1u << HOLD_ATTEMPTS, "\"held_by\":\"attempts\""},
                {1u << HOLD_RATE | 1u << HOLD_HOST, "\"held_by\":\"rate\""},
                {1u << HOLD_CONCURRENCY, "\"held_by\":\"concurrency\""},
                {1u << HOLD_HOST, "\"held_by\":\"host\""},
                {1u << HOLD_STORE | 1u << HOLD_HOST, "\"held_by\":\"store\""}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct queue_view slow = views[1];
        struct fetched answer;
        struct world world;

        slow.held = rows[i].held;
        open_scripted(&world,
                      (struct reply){.kind = REPLY_QUEUE, .queues = &slow, .queue_count = 1});
        fetch(&world, "GET", "/v1/queues/other", "", &answer);
        assert_non_null(strstr(answer.body, rows[i].told));
        world_close(&world);
    }
}

static void all_queues_are_listed(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    open_scripted(&world, (struct reply){.kind = REPLY_QUEUES, .queues = views, .queue_count = 2});
    fetch(&world, "GET", "/v1/queues", "", &answer);
    assert_int_equal(answer.status, 200);
    assert_contains(answer.body, "{\"queues\":[" SYNC ",{\"name\":\"other\",\"paused\":false,"
                                 "\"in_file\":true,");
    assert_contains(answer.body, "],\"next\":null}");
    world_close(&world);
}

static void a_queue_is_put_as_it_was_written(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    open_scripted(
        &world,
        (struct reply){.kind = REPLY_QUEUE, .queues = views, .queue_count = 1, .is_new = true});
    fetch(&world, "PUT", "/v1/queues/new-1", "{\"concurrency\": 1.0}", &answer);
    assert_int_equal(answer.status, 201);
    assert_int_equal(stub_last(world.engine)->ask.kind, ASK_QUEUE_PUT);
    assert_true(span_is(stub_last(world.engine)->ask.settings, "{\"concurrency\": 1.0}"));
    assert_true(span_is(stub_last(world.engine)->ask.queue, "new-1"));
    scripted.is_new = false;
    fetch(&world, "PUT", "/v1/queues/new-1", "{}", &answer);
    assert_int_equal(answer.status, 200);
    scripted = (struct reply){.kind = REPLY_QUEUE_IN_FILE};
    fetch(&world, "PUT", "/v1/queues/new-1", "{}", &answer);
    assert_problem(&answer, 409, "queue_in_file");
    scripted = (struct reply){
        .kind = REPLY_FAULT,
        .error = {.fault = FAULT_INPUT, .field = "targets[0].url", .text = "found 1"}};
    fetch(&world, "PUT", "/v1/queues/new-1", "{}", &answer);
    assert_problem(&answer, 400, "invalid_request");
    assert_contains(answer.body, "\"field\":\"targets[0].url\"");
    world_close(&world);
}

static void a_queue_that_cannot_be_is_refused(void **state)
{
    static const char *const rows[][2] = {
        {"/v1/queues/a%20b", "{}"}, {"/v1/queues/a%2Fb", "{}"}, {"/v1/queues/.a", "{}"},
        {"/v1/queues/a", "[]"},     {"/v1/queues/a", "{} {}"},  {"/v1/queues/a", "{\"x\":\xff}"},
        {"/v1/queues/a", ""},
    };
    struct fetched answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fetch(&world, "PUT", rows[i][0], rows[i][1], &answer);
        assert_problem(&answer, 400, "invalid_request");
    }
    fetch(&world, "PUT", "/v1/queues/_own", "{}", &answer);
    assert_problem(&answer, 403, "queue_reserved");
    fetch(&world, "GET", "/v1/queues/a%2Fb", "", &answer);
    assert_problem(&answer, 404, "queue_unknown");
    assert_int_equal(world.engine->call_count, 0);
    world_close(&world);
}

static void deleting_asks_first_whether_it_is_empty(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    open_scripted(&world, (struct reply){.kind = REPLY_QUEUE_NOT_EMPTY});
    fetch(&world, "DELETE", "/v1/queues/sync", "", &answer);
    assert_problem(&answer, 409, "queue_not_empty");
    assert_false(stub_last(world.engine)->ask.force);
    scripted.kind = REPLY_DELETED;
    fetch(&world, "DELETE", "/v1/queues/sync?force=true", "", &answer);
    assert_int_equal(answer.status, 204);
    assert_string_equal(answer.body, "");
    assert_true(stub_last(world.engine)->ask.force);
    fetch(&world, "DELETE", "/v1/queues/sync?force=yes", "", &answer);
    assert_problem(&answer, 400, "invalid_request");
    world_close(&world);
}

static void verbs_ask_for_just_that(void **state)
{
    static const struct {
        const char *target;
        enum ask_kind kind;
    } rows[] = {
        {"/v1/queues/sync:pause", ASK_QUEUE_PAUSE},
        {"/v1/queues/sync:resume", ASK_QUEUE_RESUME},
        {"/v1/queues/sync:purge", ASK_QUEUE_PURGE},
        {"/v1/queues/sync%3Apurge", ASK_QUEUE_PURGE},
    };
    struct fetched answer;
    struct world world;

    (void)state;
    open_scripted(&world, (struct reply){.kind = REPLY_QUEUE, .queues = views, .queue_count = 1});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fetch(&world, "POST", rows[i].target, "", &answer);
        assert_int_equal(answer.status, 200);
        assert_string_equal(answer.body, SYNC);
        assert_int_equal(stub_last(world.engine)->ask.kind, rows[i].kind);
        assert_true(span_is(stub_last(world.engine)->ask.queue, "sync"));
    }
    world_close(&world);
}

/* D4 */
static void a_run_is_begun_and_looked_after(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    open_scripted(&world, (struct reply){.kind = REPLY_RUN,
                                         .run = {.id = 7,
                                                 .queue = SPAN("sync"),
                                                 .taken = 5,
                                                 .succeeded = 2,
                                                 .failed = 1,
                                                 .retrying = 1,
                                                 .pending = 2}});
    fetch(&world, "POST", "/v1/queues/sync:run", "", &answer);
    assert_int_equal(answer.status, 202);
    assert_string_equal(answer.body, "{\"run\":\"7\",\"taken\":5}");
    assert_int_equal(stub_last(world.engine)->ask.kind, ASK_QUEUE_RUN);
    fetch(&world, "GET", "/v1/runs/7", "", &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "{\"run\":\"7\",\"queue\":\"sync\",\"taken\":5,"
                                     "\"succeeded\":2,\"failed\":1,\"retrying\":1,\"unsettled\":0,"
                                     "\"pending\":2}");
    assert_int_equal(stub_last(world.engine)->ask.kind, ASK_RUN_STATE);
    assert_int_equal(stub_last(world.engine)->ask.id.row, 7);
    scripted = (struct reply){.kind = REPLY_UNKNOWN_RUN};
    fetch(&world, "GET", "/v1/runs/8", "", &answer);
    assert_problem(&answer, 404, "run_unknown");
    fetch(&world, "GET", "/v1/runs/x", "", &answer);
    assert_problem(&answer, 404, "run_unknown");
    world_close(&world);
}

static void operators_get_their_answers(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    fetch(&world, "GET", "/healthz", "", &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "{\"status\":\"ok\"}");
    fetch(&world, "GET", "/readyz", "", &answer);
    assert_string_equal(answer.body, "{\"status\":\"ready\"}");
    world.is_ready = false;
    fetch(&world, "GET", "/readyz", "", &answer);
    assert_problem(&answer, 503, "store_unavailable");
    assert_lacks(answer.body, "/secret/path");
    fetch(&world, "GET", "/metrics", "", &answer);
    assert_contains(answer.headers, "Content-Type: text/plain; version=0.0.4");
    assert_string_equal(answer.body, "daruma_up 1\n");
    fetch(&world, "GET", "/v1/openapi.json", "", &answer);
    assert_contains(answer.headers, "Content-Type: application/json\r\n");
    assert_string_equal(answer.body, "{\"openapi\":\"3.1.0\"}");
    world_close(&world);
}

static void head_is_get_without_a_body(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;
    struct span length;

    (void)state;
    world_open(&world, NULL);
    world.engine->script = script_task;
    client_open(&client, &world);
    client_request(&client, "HEAD", "/healthz", "");
    client_await_head(&client, &answer);
    assert_int_equal(answer.status, 200);
    assert_true(answer_header(&answer, "Content-Length", &length) && span_is(length, "15"));
    client_request(&client, "HEAD", "/v1/tasks/" WORLD_TASK_ID, "");
    client_await_head(&client, &answer); /* had there been a body, it would stand here */
    assert_int_equal(answer.status, 200);
    client_request(&client, "HEAD", "/nowhere", "");
    client_await_head(&client, &answer);
    assert_int_equal(answer.status, 404);
    client_close(&client);
    world_close(&world);
}

static void another_method_is_told_which_are_allowed(void **state)
{
    static const struct {
        const char *method, *target, *allow;
    } rows[] = {
        {"DELETE", "/v1/queues/a/tasks", "Allow: POST, GET, HEAD\r\n"},
        {"POST", "/v1/queues/a", "Allow: GET, HEAD, PUT, DELETE\r\n"},
        {"GET", "/v1/tasks/1:run", "Allow: POST\r\n"},
        {"PATCH", "/healthz", "Allow: GET, HEAD\r\n"},
        {"OPTIONS", "/v1/queues", "Allow: GET, HEAD\r\n"},
        {"FOO", "/v1/queues", "Allow: GET, HEAD\r\n"},
    };
    struct fetched answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fetch(&world, rows[i].method, rows[i].target, "", &answer);
        assert_problem(&answer, 405, "method_not_allowed");
        assert_contains(answer.headers, rows[i].allow);
    }
    world_close(&world);
}

static void elsewhere_there_is_nothing(void **state)
{
    static const char *const targets[] = {"/",
                                          "/v1",
                                          "/v1/",
                                          "/v1/queues/",
                                          "/v1/queues/a/",
                                          "/v1/queues/a/tasks/",
                                          "/v1/queues/a/tasks/b",
                                          "/v1/queues/a:explode",
                                          "/v1/queues:run",
                                          "/v1/tasks",
                                          "/v1/queues//tasks",
                                          "//v1/queues",
                                          "/V1/queues",
                                          "/healthz/x",
                                          "/healthz:run",
                                          "/favicon.ico"};
    struct fetched answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        fetch(&world, "GET", targets[i], "", &answer);
        assert_problem(&answer, 404, "not_found");
        fetch(&world, "POST", targets[i], "{}", &answer);
        assert_problem(&answer, 404, "not_found");
    }
    world_close(&world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_is_shown_with_counts_and_settings),
        cmocka_unit_test(a_queue_that_is_slowed_down_says_by_what),
        cmocka_unit_test(all_queues_are_listed),
        cmocka_unit_test(a_queue_is_put_as_it_was_written),
        cmocka_unit_test(a_queue_that_cannot_be_is_refused),
        cmocka_unit_test(deleting_asks_first_whether_it_is_empty),
        cmocka_unit_test(verbs_ask_for_just_that),
        cmocka_unit_test(a_run_is_begun_and_looked_after),
        cmocka_unit_test(operators_get_their_answers),
        cmocka_unit_test(head_is_get_without_a_body),
        cmocka_unit_test(another_method_is_told_which_are_allowed),
        cmocka_unit_test(elsewhere_there_is_nothing),
    };
    return HARNESS_RUN(argc, argv, tests);
}
