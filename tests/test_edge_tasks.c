/* SPDX-License-Identifier: MIT
 *
 * The calls about tasks, over real connections: what reaches the engine, and what its replies look
 * like outside.
 */
#include "edge_world.h"

#include <stdio.h>

#define TASKS "/v1/queues/sync/tasks"

/* Replies with whatever kind is in `scripted`. */
static struct reply scripted;

static void script_reply(void *user, const struct stub_call *call)
{
    struct world *world = user;

    scripted.exchange = call->exchange;
    scripted.index = call->submission.index;
    edge_reply(world->edge, &scripted);
}

static void open_scripted(struct world *world, struct reply reply)
{
    world_open(world, NULL);
    scripted = reply;
    world->engine->script = script_reply;
}

static void a_created_task_is_answered_with_its_place(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    world.engine->script = script_created;
    fetch(&world, "POST", TASKS, "{\"target\":\"http://h/p\",\"body\":\"x\"}", &answer);
    assert_int_equal(answer.status, 201);
    assert_contains(answer.headers, "Location: /v1/tasks/" WORLD_TASK_ID "\r\n");
    assert_contains(answer.headers, "Content-Type: application/json\r\n");
    assert_string_equal(answer.body,
                        "{\"id\":\"" WORLD_TASK_ID "\",\"queue\":\"sync\",\"state\":\"waiting\","
                        "\"key\":\"order-1\",\"labels\":{\"kind\":\"a \\\"b\\\"\"},"
                        "\"created_at\":\"2027-01-15T08:00:00.000Z\","
                        "\"due_at\":\"2027-01-15T08:00:01.500Z\",\"attempts\":0,"
                        "\"max_attempts\":10,\"next_wait_ms\":null}");
    const struct submission *in = &stub_last(world.engine)->submission;
    assert_true(span_is(in->queue, "sync") && span_is(in->body, "x"));
    assert_true(span_is(in->target, "http://h/p"));
    world_close(&world);
}

/* Record first, answer later: nothing is sent before the engine replies (I1). */
static void a_create_waits_for_the_engine(void **state)
{
    struct answer_view answer;
    struct client client, other;
    struct fetched health;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_request(&client, "POST", TASKS, "{}");
    world_run_calls(&world, 1);
    fetch(&world, "GET", "/healthz", "", &health); /* the loop goes on meanwhile */
    assert_int_equal(health.status, 200);
    assert_int_equal(client.got.len, 0);
    script_created(&world, stub_last(world.engine));
    client_await(&client, &answer);
    assert_int_equal(answer.status, 201);
    client_close(&client);
    client_open(&other, &world);
    client_close(&other);
    world_close(&world);
}

static void a_duplicate_is_the_same_task_and_says_so(void **state)
{
    struct record record = world_record(TASK_SUCCEEDED);
    struct fetched answer;
    struct world world;

    (void)state;
    open_scripted(&world,
                  (struct reply){.kind = REPLY_DUPLICATE, .records = &record, .record_count = 1});
    fetch(&world, "POST", TASKS, "{\"key\":\"order-1\"}", &answer);
    assert_int_equal(answer.status, 200);
    assert_contains(answer.headers, "Idempotent-Replayed: true\r\n");
    assert_contains(answer.headers, "Location: /v1/tasks/" WORLD_TASK_ID "\r\n");
    assert_contains(answer.body, "\"state\":\"succeeded\"");
    assert_contains(answer.body, "\"queue\":\"sync\"");
    assert_lacks(answer.body, "\"request\"");
    world_close(&world);
}

static void the_engines_refusals_have_their_codes(void **state)
{
    static const struct {
        struct reply reply;
        int status;
        const char *code;
        bool has_retry_after;
    } rows[] = {
        {{.kind = REPLY_CONFLICT}, 409, "key_conflict", false},
        {{.kind = REPLY_UNKNOWN_QUEUE}, 404, "queue_unknown", false},
        {{.kind = REPLY_QUEUE_DELETED}, 409, "queue_deleted", false},
        {{.kind = REPLY_FAULT, .error = {.fault = FAULT_FULL, .text = "the backlog is full"}},
         503,
         "overloaded",
         true},
        {{.kind = REPLY_FAULT, .error = {.fault = FAULT_MEMORY}}, 503, "overloaded", true},
        {{.kind = REPLY_FAULT, .error = {.fault = FAULT_IO, .text = "/a/b"}},
         503,
         "store_unavailable",
         true},
        {{.kind = REPLY_FAULT, .error = {.fault = FAULT_UNKNOWN}}, 503, "store_unknown", false},
        {{.kind = REPLY_FAULT, .error = {.fault = FAULT_CLOSING}}, 503, "draining", true},
        {{.kind = REPLY_FAULT, .error = {.fault = FAULT_CORRUPT}}, 500, "store_corrupt", false},
        {{.kind = REPLY_FAULT, .error = {.fault = FAULT_LIMIT}}, 413, "too_large", false},
        {{.kind = REPLY_FAULT,
          .error = {.fault = FAULT_INPUT, .field = "target", .text = "no target"}},
         400,
         "invalid_request",
         false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fetched answer;
        struct world world;
        open_scripted(&world, rows[i].reply);
        fetch(&world, "POST", TASKS, "{}", &answer);
        assert_problem(&answer, rows[i].status, rows[i].code);
        assert_int_equal(strstr(answer.headers, "Retry-After: 1\r\n") != NULL,
                         rows[i].has_retry_after);
        assert_lacks(answer.body, "/a/b");
        world_close(&world);
    }
}

static void bad_input_names_its_field(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    fetch(&world, "POST", TASKS, "{\"delay_ms\":\"soon\"}", &answer);
    assert_problem(&answer, 400, "invalid_request");
    assert_contains(answer.body, "\"field\":\"delay_ms\"");
    assert_contains(answer.body, "\"type\":\"urn:daruma:problem:invalid_request\"");
    assert_contains(answer.body, "\"status\":400");
    assert_contains(answer.body, "\"title\":");
    assert_contains(answer.body, "\"detail\":");
    fetch(&world, "POST", TASKS, "", &answer);
    assert_problem(&answer, 400, "invalid_request");
    fetch(&world, "POST", TASKS "?x=1", "{}", &answer);
    assert_contains(answer.body, "\"field\":\"x\"");
    assert_int_equal(world.engine->call_count, 0);
    world_close(&world);
}

static void the_key_may_come_as_a_header(void **state)
{
    static const struct {
        const char *key;
        int status;
    } rows[] = {{"abc", 201}, {"\"abc\"", 201}, {"a b", 400}};
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    world.engine->script = script_created;
    client_open(&client, &world);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        client_sendf(&client,
                     "POST " TASKS " HTTP/1.1\r\nHost: x\r\nidempotency-key: %s\r\n"
                     "Content-Length: 2\r\n\r\n{}",
                     rows[i].key);
        client_await(&client, &answer);
        assert_int_equal(answer.status, rows[i].status);
        assert_true(span_is(stub_last(world.engine)->submission.key, "abc"));
    }
    client_sendf(&client, "POST " TASKS " HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n"
                          "Content-Length: 13\r\n\r\n{\"key\":\"abc\"}");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 400);
    client_close(&client);
    world_close(&world);
}

static void a_body_may_come_in_chunks(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    world.engine->script = script_created;
    client_open(&client, &world);
    client_sendf(&client, "POST " TASKS " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "3\r\n{\"b\r\nb;x=y\r\nody\":\"hey\"}\r\n0\r\nX-Trailer: 1\r\n\r\n");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 201);
    assert_true(span_is(stub_last(world.engine)->submission.body, "hey"));
    client_close(&client);
    world_close(&world);
}

static void a_task_is_shown_whole(void **state)
{
    struct trail_row trail[] = {
        {.attempt = 1,
         .target = SPAN("main"),
         .started_at_ms = WORLD_NOW_MS,
         .ended_at_ms = WORLD_NOW_MS + 5,
         .error_class = DARUMA_CLASS_TRANSIENT,
         .status = 503,
         .sent = TASK_SENT_YES,
         .sends = 2,
         .message = SPAN("HTTP 503"),
         .wait_ms = 1000},
        {.attempt = 2,
         .started_at_ms = WORLD_NOW_MS + 1005,
         .ended_at_ms = WORLD_NOW_MS + 1010,
         .error_class = -1,
         .status = 200,
         .sent = TASK_SENT_YES,
         .sends = 1},
    };
    struct record record = world_record(TASK_SUCCEEDED);
    struct fetched answer;
    struct world world;

    (void)state;
    record.life.attempts = 2;
    record.answer = (struct answer){.status = 200,
                                    .headers = SPAN("content-type: image/png\nSet-Cookie: a=b\n"
                                                    "set-cookie: c=d\n"),
                                    .body = SPAN("\x89PNG"),
                                    .settled_by = SPAN("main")};
    record.trail = trail;
    record.trail_count = 2;
    open_scripted(&world,
                  (struct reply){.kind = REPLY_TASK, .records = &record, .record_count = 1});
    fetch(&world, "GET", "/v1/tasks/" WORLD_TASK_ID, "", &answer);
    assert_int_equal(answer.status, 200);
    assert_contains(
        answer.body,
        "\"request\":{\"method\":\"PUT\",\"target\":\"http://127.0.0.1:9/x\",\"headers\":"
        "{\"content-type\":\"text/plain\",\"Authorization\":\"(hidden)\"},\"body\":\"hello\"}");
    assert_contains(answer.body,
                    "\"response\":{\"status\":200,\"headers\":{\"content-type\":\"image/png\","
                    "\"Set-Cookie\":\"(hidden)\"},\"body_base64\":\"iVBORw==\"}");
    assert_contains(answer.body,
                    "\"settled_by\":\"main\",\"error\":null,\"trail\":[{\"attempt\":1,"
                    "\"target\":\"main\",\"started_at\":\"2027-01-15T08:00:00.000Z\","
                    "\"ended_at\":\"2027-01-15T08:00:00.005Z\",\"class\":\"transient\","
                    "\"status\":503,\"sent\":\"yes\",\"sends\":2,\"message\":"
                    "\"HTTP 503\",\"wait_ms\":1000},{\"attempt\":2,");
    assert_lacks(answer.body, "s3cret"); /* I10 */
    const struct ask *ask = &stub_last(world.engine)->ask;
    assert_int_equal(ask->kind, ASK_TASK);
    assert_int_equal(ask->id.tail, 42);
    assert_int_equal(ask->wait_ms, 0);
    world_close(&world);
}

static void a_pending_retry_shows_its_wait_and_its_error(void **state)
{
    struct trail_row trail = {.attempt = 1,
                              .error_class = DARUMA_CLASS_TRANSIENT,
                              .message = SPAN("connect: connection refused")};
    struct record record = world_record(TASK_WAITING);
    struct fetched answer;
    struct world world;

    (void)state;
    record.life.attempts = 1;
    record.life.wait_ms = 2000;
    record.trail = &trail;
    record.trail_count = 1;
    record.task.options = SPAN("retry: {\"max_attempts\":7}\n");
    open_scripted(&world,
                  (struct reply){.kind = REPLY_TASK, .records = &record, .record_count = 1});
    fetch(&world, "GET", "/v1/tasks/" WORLD_TASK_ID, "", &answer);
    assert_contains(answer.body, "\"attempts\":1,\"max_attempts\":7,\"next_wait_ms\":2000,");
    assert_contains(answer.body, "\"response\":null,\"settled_by\":null,\"error\":{\"class\":"
                                 "\"transient\",\"message\":\"connect: connection refused\","
                                 "\"status\":null}");
    world_close(&world);
}

/* Engineering 2.5: the same bytes, whoever renders them. */
static void what_was_rendered_ahead_is_sent_as_it_is(void **state)
{
    static const struct {
        enum reply_kind kind;
        const char *method, *target;
    } rows[] = {{REPLY_TASK, "GET", "/v1/tasks/" WORLD_TASK_ID},
                {REPLY_LIST, "GET", TASKS},
                {REPLY_DUPLICATE, "POST", TASKS}};
    const struct queue_view queue = {.name = SPAN("sync"), .attempts_max = 9};
    struct record record = world_record(TASK_SUCCEEDED);
    struct edge_renderer renderer = {0};
    struct fetched here, ahead;
    struct world world;

    (void)state;
    record.answer = (struct answer){.status = 200, .body = SPAN("yes")};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct reply reply = {.kind = rows[i].kind,
                              .records = &record,
                              .record_count = 1,
                              .queues = &queue,
                              .queue_count = 1};
        struct buf rendered;
        buf_init(&rendered, 1 << 20);
        open_scripted(&world, reply);
        fetch(&world, rows[i].method, rows[i].target, i == 2 ? "{}" : "", &here);
        scripted.queue_count = rows[i].kind == REPLY_LIST;
        assert_int_equal(edge_render(&renderer, &scripted, &rendered), 0);
        assert_true(rendered.len > 0);
        scripted.queue_count = 1;
        scripted.rendered = &rendered;
        record.task.target = SPAN("http://another/"); /* it is not looked at any more */
        fetch(&world, rows[i].method, rows[i].target, i == 2 ? "{}" : "", &ahead);
        assert_string_equal(here.body, ahead.body);
        record.task.target = world_record(TASK_WAITING).task.target;
        buf_done(&rendered);
        world_close(&world);
    }
}

static void an_id_that_is_none_is_unknown(void **state)
{
    struct fetched answer;
    struct world world;

    (void)state;
    open_scripted(&world, (struct reply){.kind = REPLY_UNKNOWN_TASK});
    fetch(&world, "GET", "/v1/tasks/7", "", &answer);
    assert_problem(&answer, 404, "task_unknown");
    assert_int_equal(world.engine->call_count, 0);
    fetch(&world, "GET", "/v1/tasks/" WORLD_TASK_ID, "", &answer);
    assert_problem(&answer, 404, "task_unknown");
    world_close(&world);
}

static void a_list_passes_its_filter_on(void **state)
{
    struct record records[] = {world_record(TASK_WAITING), world_record(TASK_DEAD)};
    struct fetched answer;
    struct world world;

    (void)state;
    open_scripted(&world, (struct reply){.kind = REPLY_LIST,
                                         .records = records,
                                         .record_count = 2,
                                         .next_row = INT64_C(9007199254740993)});
    fetch(&world, "GET", TASKS "?state=failed&label.job_type=a%20b&limit=2&after=17", "", &answer);
    assert_int_equal(answer.status, 200);
    assert_contains(answer.body, "{\"tasks\":[{\"id\":");
    assert_contains(answer.body, "\"state\":\"failed\"");
    assert_contains(answer.body, "],\"next\":\"9007199254740993\"}");
    assert_contains(answer.body, "\"target\":\"http://127.0.0.1:9/x\"");
    assert_lacks(answer.body, "hello"); /* never carries bodies */
    assert_lacks(answer.body, "\"body\"");
    const struct ask *ask = &stub_last(world.engine)->ask;
    assert_int_equal(ask->kind, ASK_LIST);
    assert_int_equal(ask->filter.states, 1u << TASK_FAILED | 1u << TASK_DEAD);
    assert_int_equal(ask->filter.limit, 2);
    assert_int_equal(ask->filter.after_row, 17);
    assert_true(span_is(ask->filter.label_name, "job_type"));
    assert_true(span_is(ask->filter.label_value, "a b"));
    assert_true(span_is(ask->queue, "sync"));
    scripted.next_row = 0;
    scripted.record_count = 0;
    fetch(&world, "GET", TASKS, "", &answer);
    assert_string_equal(answer.body, "{\"tasks\":[],\"next\":null}");
    assert_int_equal(stub_last(world.engine)->ask.filter.states,
                     STORE_ALL_STATES & ~(1u << TASK_GONE));
    assert_int_equal(stub_last(world.engine)->ask.filter.limit, ENGINE_LIST_LIMIT);
    world_close(&world);
}

static void queries_are_checked(void **state)
{
    static const char *const rows[][2] = {
        {TASKS "?state=done", "state"},
        {TASKS "?limit=0", "limit"},
        {TASKS "?limit=1001", "limit"},
        {TASKS "?limit=x", "limit"},
        {TASKS "?limit=1&limit=1", "limit"},
        {TASKS "?after=-1", "after"},
        {TASKS "?label.a=1&label.b=2", "label.b"},
        {TASKS "?label=1", "label"},
        {TASKS "?wait_ms=1", "wait_ms"},
        {"/v1/tasks/" WORLD_TASK_ID "?wait_ms=60001", "wait_ms"},
        {"/v1/tasks/" WORLD_TASK_ID "?wait_ms=1.5", "wait_ms"},
        {"/v1/queues?limit=1", "limit"},
        {"/healthz?x", "x"},
    };
    struct fetched answer;
    struct world world;
    char field[64];

    (void)state;
    world_open(&world, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fetch(&world, "GET", rows[i][0], "", &answer);
        assert_problem(&answer, 400, "invalid_request");
        snprintf(field, sizeof field, "\"field\":\"%s\"", rows[i][1]);
        assert_contains(answer.body, field);
    }
    assert_int_equal(world.engine->call_count, 0);
    world_close(&world);
}

static void run_and_cancel_ask_for_just_that(void **state)
{
    struct record record = world_record(TASK_CANCELLED);
    struct fetched answer;
    struct world world;

    (void)state;
    open_scripted(&world,
                  (struct reply){.kind = REPLY_TASK, .records = &record, .record_count = 1});
    fetch(&world, "POST", "/v1/tasks/" WORLD_TASK_ID ":run", "", &answer);
    assert_int_equal(answer.status, 200);
    assert_int_equal(stub_last(world.engine)->ask.kind, ASK_RUN);
    fetch(&world, "POST", "/v1/tasks/" WORLD_TASK_ID ":cancel", "{}", &answer);
    assert_int_equal(answer.status, 200);
    assert_int_equal(stub_last(world.engine)->ask.kind, ASK_CANCEL);
    record.life.state = TASK_RUNNING;
    scripted.kind = REPLY_NOT_WAITING;
    fetch(&world, "POST", "/v1/tasks/" WORLD_TASK_ID ":cancel", "", &answer);
    assert_problem(&answer, 409, "not_waiting");
    assert_contains(answer.body, "the task is running");
    fetch(&world, "POST", "/v1/tasks/" WORLD_TASK_ID ":run", "{\"x\":1}", &answer);
    assert_problem(&answer, 400, "invalid_request");
    world_close(&world);
}

static void a_late_or_second_reply_finds_nobody(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_request(&client, "POST", TASKS, "{}");
    world_run_calls(&world, 1);
    const struct stub_call first = *stub_last(world.engine);
    script_created(&world, &first);
    edge_reply(world.edge, &(struct reply){.kind = REPLY_CONFLICT, .exchange = first.exchange});
    client_await(&client, &answer);
    assert_int_equal(answer.status, 201);
    client_close(&client);
    edge_reply(world.edge, &(struct reply){.kind = REPLY_CONFLICT, .exchange = first.exchange});
    edge_reply(world.edge, &(struct reply){.kind = REPLY_CONFLICT, .exchange = 0});
    edge_reply(world.edge, &(struct reply){.kind = REPLY_CONFLICT, .exchange = UINT64_MAX});
    client_open(&client, &world); /* the place is used again, by another id */
    client_request(&client, "POST", TASKS, "{}");
    world_run_calls(&world, 2);
    assert_true(stub_last(world.engine)->exchange != first.exchange);
    edge_reply(world.edge, &(struct reply){.kind = REPLY_CONFLICT, .exchange = first.exchange});
    script_created(&world, stub_last(world.engine));
    client_await(&client, &answer);
    assert_int_equal(answer.status, 201);
    client_close(&client);
    world_close(&world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_created_task_is_answered_with_its_place),
        cmocka_unit_test(a_create_waits_for_the_engine),
        cmocka_unit_test(a_duplicate_is_the_same_task_and_says_so),
        cmocka_unit_test(the_engines_refusals_have_their_codes),
        cmocka_unit_test(bad_input_names_its_field),
        cmocka_unit_test(the_key_may_come_as_a_header),
        cmocka_unit_test(a_body_may_come_in_chunks),
        cmocka_unit_test(a_task_is_shown_whole),
        cmocka_unit_test(a_pending_retry_shows_its_wait_and_its_error),
        cmocka_unit_test(what_was_rendered_ahead_is_sent_as_it_is),
        cmocka_unit_test(an_id_that_is_none_is_unknown),
        cmocka_unit_test(a_list_passes_its_filter_on),
        cmocka_unit_test(queries_are_checked),
        cmocka_unit_test(run_and_cancel_ask_for_just_that),
        cmocka_unit_test(a_late_or_second_reply_finds_nobody),
    };
    return HARNESS_RUN(argc, argv, tests);
}
