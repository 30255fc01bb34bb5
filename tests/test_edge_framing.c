/* SPDX-License-Identifier: MIT
 *
 * Requests that could be read in two ways: refused, and the connection ends; what is well formed
 * passes (engineering 3.2: trap_4, trap_5).
 */
#define _GNU_SOURCE
#include "edge_world.h"

#include <stdio.h>
#include <stdlib.h>

#define TASKS "/v1/queues/sync/tasks"

/* --- trap 4: framing that can be read in two ways ------------------------------------------- */

static const char *const ambiguous[] = {
    "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
    "Content-Length: 2\r\nContent-Length: 3\r\n",
    "Content-Length: 2\r\nContent-Length: 2\r\n",
    "Content-Length : 2\r\n",
    "Content-Length\t: 2\r\n",
    " Content-Length: 2\r\n",
    "Content-Length: 2, 2\r\n",
    "Content-Length: +2\r\n",
    "Content-Length: -2\r\n",
    "Content-Length: 0x2\r\n",
    "Content-Length: \r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Transfer-Encoding: gzip\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Transfer-Encoding: chunked, identity\r\n",
    "Transfer-Encoding: identity\r\n",
    "Transfer-Encoding: xchunked\r\n",
    "Transfer-Encoding: \"chunked\"\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding : chunked\r\n",
    "Transfer-Encoding:\vchunked\r\n",
    "X-A: 1\r\n Content-Length: 2\r\n",
    "X-A: 1\r\n\tfolded\r\n",
    "Content-Len: 2\r\n gth\r\n",
    "X-A: 1\nX-B: 2\r\n",
    "X-A: 1\n",
    "Content-Length: 2\r\nX-A: 1\n",
    "Transfer-Encoding: chunked\r\nX-A: 1\n",
    "X(A): 1\r\n",
    "X A: 1\r\n",
    "X\x80: 1\r\n",
    ": 1\r\n",
    "X-A\r\n",
    "X-A: a\x01z\r\n",
    "X-A: a\x7fz\r\n",
    "X-A: a\rb\r\n",
    "Host: y\r\n",
    "Idempotency-Key: a\r\nIdempotency-Key: b\r\n",
};

/* 400 and the end of the connection; what follows is never a second request. With each body, so that
 * whichever way it is read, it would be a whole request. */
static void trap_4_ambiguous_framing_is_refused(void **state)
{
    static const char *const bodies[] = {"{}", "2\r\n{}\r\n0\r\n\r\n"};
    struct world world;
    char text[1024];

    (void)state;
    world_open(&world, NULL);
    for (size_t i = 0; i < 2 * (sizeof ambiguous / sizeof *ambiguous); i++) {
        int len = snprintf(text, sizeof text,
                           "POST " TASKS " HTTP/1.1\r\nHost: x\r\n%s\r\n%s"
                           "POST " TASKS " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
                           ambiguous[i / 2], bodies[i % 2]);
        assert_cut_off(&world, (struct span){.at = text, .len = (size_t)len}, ambiguous[i / 2]);
    }
    world_close(&world);
}

static void trap_4_a_nul_is_refused_wherever_it_is(void **state)
{
#define AFTER "\r\nContent-Length: 2\r\n\r\n{}"
    static const struct span texts[] = {
        {"POST " TASKS "\0x HTTP/1.1\r\nHost: x" AFTER, sizeof TASKS + 47},
        {"POST " TASKS " HTTP/1.1\r\nHost: x\0y" AFTER, sizeof TASKS + 47},
        {"POST " TASKS " HTTP/1.1\r\nHost: x\0" AFTER, sizeof TASKS + 46},
        {"POST " TASKS " HTTP/1.1\r\nHost: x\0\0yz" AFTER, sizeof TASKS + 49},
        {"POST " TASKS " HTTP/1.1\r\nHo\0st: x" AFTER, sizeof TASKS + 46},
        {"PO\0ST " TASKS " HTTP/1.1\r\nHost: x" AFTER, sizeof TASKS + 46},
        {"POST " TASKS " HTTP/1.1\0\r\nHost: x" AFTER, sizeof TASKS + 46},
        {"POST " TASKS " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\0\r\n\r\n{}", sizeof TASKS + 48},
        {"POST " TASKS " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\0\0\r\n\r\n{}",
         sizeof TASKS + 49},
        {"POST " TASKS " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n",
         sizeof TASKS + 60},
        {"POST " TASKS " HTTP/1.1\r\nHost: x\r\nX: a\0\0\0\0Content-Length: 50\r\n\r\n",
         sizeof TASKS + 54},
    };
    struct world world;

    (void)state;
    world_open(&world, NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char what[24];
        snprintf(what, sizeof what, "row %zu", i);
        assert_cut_off(&world, texts[i], what);
    }
    world_close(&world);
}

static void trap_4_request_lines_are_exact(void **state)
{
    static const char *const lines[] = {
        "POST " TASKS "\r\n",
        "POST " TASKS " HTTP/1.1 \r\n",
        "POST  " TASKS " HTTP/1.1\r\n",
        "POST " TASKS "  HTTP/1.1\r\n",
        "POST " TASKS " HTTP/1.1\n",
        "POST " TASKS " HTTP/1.2\r\n",
        "POST " TASKS " HTTP/2.0\r\n",
        "POST " TASKS " HTTP/0.9\r\n",
        "POST " TASKS " http/1.1\r\n",
        "POST " TASKS " x HTTP/1.1\r\n",
        "POST\r\n",
        "POST \r\n",
        "P(ST " TASKS " HTTP/1.1\r\n",
        "POST " TASKS "\rx HTTP/1.1\r\n",
        "POST " TASKS "\tx HTTP/1.1\r\n",
        "POST " TASKS "\x01 HTTP/1.1\r\n",
        "POST " TASKS "\x7f HTTP/1.1\r\n",
        "\x16\x03\x01\x02\r\n",
    };
    struct world world;
    char text[512];

    (void)state;
    world_open(&world, NULL);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(text, sizeof text, "%sHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
                 lines[i]);
        assert_cut_off(&world, span_of(text), lines[i]);
    }
    world_close(&world);
}

/* What is well formed is not mistaken for it, however it is cut up or laid out. */
static void trap_4_well_formed_requests_pass_however_they_arrive(void **state)
{
    static const char *const headers[] = {
        "",
        "X-A:1\r\n",
        "X-A:   \t  1\r\n",
        "X-A:\r\n",
        "X-A: \r\nX-B:\r\n",
        "X-A: a b\tc \xc3\xa9\r\n",
        "Cookie: a=b; c=\"d\"; e\r\nX-B: 1\r\n",
        "X-A: 1\r\nX-A: 2\r\n",
        "Connection: keep-alive\r\nAccept: */*\r\n",
        "transfer-ENCODING: Chunked\r\n",
    };
    struct answer_view answer;
    struct world world;
    struct drip drip;

    (void)state;
    world_open(&world, NULL);
    world.engine->script = script_created;
    for (size_t i = 0; i < 2 * (sizeof headers / sizeof *headers); i++) {
        bool is_chunked = strstr(headers[i / 2], "ENC") != NULL;
        struct client client;
        char text[512];
        snprintf(text, sizeof text, "\r\nPOST " TASKS "?%%20 HTTP/1.1\r\nHost: x\r\n%s%s",
                 headers[i / 2],
                 is_chunked ? "\r\n2\r\n{}\r\n0\r\n\r\n" : "Content-Length: 2\r\n\r\n{}");
        char *query = strstr(text, "?%20");
        memmove(query, query + 4, strlen(query + 4) + 1);
        client_open(&client, &world);
        drip.timer = NULL;
        if (i % 2 == 0) {
            client_send(&client, span_of(text));
        } else {
            drip_start(&drip, &client, text);
        }
        client_await(&client, &answer);
        if (answer.status != 201) {
            fail_msg("%s: %.*s", headers[i / 2], SPAN_ARGS(answer.body));
        }
        loop_timer_free(drip.timer);
        client_close(&client);
    }
    world_close(&world);
}

/* Headers of many kilobytes make libmicrohttpd's buffer grow while it is being read. */
static void trap_4_long_headers_pass_up_to_the_limit(void **state)
{
    static const size_t sizes[] = {100, 4000, 7000, 7900, 8100, 9000, 12000, 40000, 200000};
    char *value = malloc(200001);
    struct answer_view answer;
    struct world world;
    int refused = 0;

    (void)state;
    assert_non_null(value);
    world_open(&world, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct client client;
        memset(value, 'v', sizes[i]);
        value[sizes[i]] = '\0';
        client_open(&client, &world);
        client_sendf(&client,
                     "GET /healthz HTTP/1.1\r\nHost: x\r\nX-1: 1\r\nX-2: %s\r\nX-3: 3\r\n\r\n",
                     value);
        client_await(&client, &answer);
        if (answer.status == 431) {
            refused++;
            client_await_close(&client);
        } else {
            assert_int_equal(answer.status, 200);
            assert_int_equal(refused, 0); /* above a size, never again below */
        }
        client_close(&client);
    }
    assert_in_range(refused, 2, 4);
    world_close(&world);
    free(value);
}

static void many_headers_are_refused(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_sendf(&client, "GET /healthz HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < 5000; i++) {
        client_sendf(&client, "X-%d: 1\r\n", i);
    }
    client_sendf(&client, "\r\n");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 431);
    client_close(&client);
    world_close(&world);
}

/* What is over the limit by up to the half of it is told so, whatever it is made of. */
static void what_is_somewhat_too_long_is_told(void **state)
{
    static char text[EDGE_REQUEST_BYTES + EDGE_REQUEST_BYTES / 2];
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    for (size_t len = EDGE_REQUEST_BYTES; len < sizeof text - EDGE_OWN_BYTES; len += 100) {
        memset(text, 'v', len);
        text[len] = '\0';
        client_open(&client, &world);
        client_sendf(&client, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-1: %s\r\n\r\n", text);
        client_await(&client, &answer);
        assert_int_equal(answer.status, 431);
        client_close(&client);
    }
    world_close(&world);
}

/* libmicrohttpd would know each by an entry of its own, and answer nothing once it has no room for them. */
static void cookies_cost_no_more_than_their_bytes(void **state)
{
    static const struct {
        int count;
        int status;
    } rows[] = {{1, 200},    {200, 200},  {300, 200},  {320, 200},   {400, 200},  {1000, 200},
                {3000, 200}, {3500, 431}, {4500, 431}, {10000, 431}, {20000, 431}};
    static char text[100000 + 8];
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t len = (size_t)snprintf(text, sizeof text, "a=b");
        for (int n = 1; n < rows[i].count; n++) {
            len += (size_t)snprintf(text + len, sizeof text - len, "; a=b");
        }
        client_open(&client, &world);
        client_sendf(&client, "GET /healthz HTTP/1.1\r\nHost: x\r\nCookie: %s\r\n\r\n", text);
        client_await(&client, &answer);
        assert_int_equal(answer.status, rows[i].status);
        assert_false(span_starts(answer.body, "HTTP/1.1")); /* one header, not two */
        client_close(&client);
    }
    world_close(&world);
}

/* libmicrohttpd, left to itself, answers nothing at all once it has no room for them. */
static void many_parameters_are_told(void **state)
{
    static const int counts[] = {
        EDGE_PARAMETERS_MAX, EDGE_PARAMETERS_MAX + 1, 300, 500, 1000, 2000, 3000, 20000};
    static char target[100000];
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    world.engine->script = script_task;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t len = (size_t)snprintf(target, sizeof target, "/nothing?a=b");
        for (int n = 1; n < counts[i]; n++) {
            len += (size_t)snprintf(target + len, sizeof target - len, "&a=b");
        }
        client_open(&client, &world);
        client_request(&client, "GET", target, "");
        client_await(&client, &answer);
        assert_int_equal(answer.status, counts[i] == EDGE_PARAMETERS_MAX ? 400 : 414);
        client_close(&client);
    }
    world_close(&world);
}

/* --- trap 5: the target is unescaped as a whole ------------------------------------------------- */

static void trap_5_the_target_is_taken_as_it_came(void **state)
{
    static const struct {
        const char *target;
        int status;
    } rows[] = {
        {"/v1%2Fqueues", 404},
        {"/v1/queues/a%2Ftasks", 404},
        {"/v1/%71ueues", 200}, /* decoded in its segment */
        {"/v1/queues?", 200},
        {"/v1/queues%3Flimit=1", 404},
        {"/v1/./queues", 400},
        {"/v1/x/../queues", 400},
        {"/v1/x/%2E%2e/queues", 400},
        {"/v1/queues%00", 400},
        {"/v1/queues%", 400},
        {"/v1/queues/%0d%0aX:1", 400},
        {"/v1/queues/%c3%28", 400},
        {"v1/queues", 400},
        {"*", 400},
        {"http://x/v1/queues", 200},
        {"http://x", 400},
    };
    struct fetched answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    world.engine->script = script_task;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fetch(&world, "GET", rows[i].target, "", &answer);
        if (answer.status != rows[i].status) {
            fail_msg("%s: %d", rows[i].target, answer.status);
        }
    }
    world_close(&world);
}

static void a_target_has_a_longest_length(void **state)
{
    static char target[20000];
    struct client client;
    struct answer_view answer;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    for (size_t len = 4096; len <= 4097; len++) {
        memset(target, 'a', len);
        target[0] = '/';
        target[len] = '\0';
        client_open(&client, &world);
        client_request(&client, "GET", target, "");
        client_await(&client, &answer);
        assert_int_equal(answer.status, len == 4096 ? 404 : 414);
        client_close(&client);
    }
    memset(target, 'a', sizeof target - 1); /* this one libmicrohttpd refuses by itself */
    client_open(&client, &world);
    client_request(&client, "GET", target, "");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 414);
    client_close(&client);
    world_close(&world);
}

static void malformed_chunks_end_the_connection(void **state)
{
    static const char *const bodies[] = {"x\r\n{}\r\n0\r\n\r\n",   "2\r\n{}x0\r\n\r\n",
                                         "-2\r\n{}\r\n",           "2 \r\n{}\r\n0\r\n\r\n",
                                         "ffffffffffffffffff\r\n", "\r\n{}\r\n"};
    struct world world;
    char text[512];

    (void)state;
    world_open(&world, NULL);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        snprintf(text, sizeof text,
                 "POST " TASKS " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%s",
                 bodies[i]);
        assert_cut_off(&world, span_of(text), bodies[i]);
    }
    world_close(&world);
}

/* libmicrohttpd takes line ends that a proxy in front may not: no request follows one of chunks. */
static void nothing_follows_a_body_of_chunks(void **state)
{
    static const char *const bodies[] = {
        "2\r\n[]\r\n0\r\n\r\n",      "2\n[]\r\n0\r\n\r\n",         "2;\n[]\r\n0\r\n\r\n",
        "2\r\n[]\n0\r\n\r\n",        "2\r\n[]\r\n0\n\n",           "2\r\n[]\r\n0\r\n\n",
        "2;a\rb\r\n[]\r\n0\r\n\r\n", "2\r\n[]\r\n0\r\nX: y\n\r\n",
    };
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        client_open(&client, &world);
        client_sendf(&client,
                     "POST " TASKS " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%s"
                     "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
                     bodies[i]);
        client_await(&client, &answer);
        assert_true(answer.status != 200); /* no task either */
        client_await_close(&client);
        client_close(&client);
    }
    world_close(&world);
}

/* What a client sends behind it is meant for the other end of a tunnel. */
static void nothing_follows_a_connect(void **state)
{
    static const char *const targets[] = {"x:80", TASKS, "http://x/", "*"};
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        client_open(&client, &world);
        client_sendf(&client,
                     "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n"
                     "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
                     targets[i]);
        client_await(&client, &answer);
        assert_in_range(answer.status, 400, 499);
        client_await_close(&client);
        client_close(&client);
    }
    world_close(&world);
}

static void http_1_0_is_spoken(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_sendf(&client, "GET /healthz HTTP/1.0\r\n\r\n");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 200);
    client_await_close(&client);
    client_close(&client);
    assert_cut_off(&world,
                   SPAN("POST " TASKS " HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"),
                   "chunks in HTTP/1.0");
    world_close(&world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trap_4_ambiguous_framing_is_refused),
        cmocka_unit_test(trap_4_a_nul_is_refused_wherever_it_is),
        cmocka_unit_test(trap_4_request_lines_are_exact),
        cmocka_unit_test(trap_4_well_formed_requests_pass_however_they_arrive),
        cmocka_unit_test(trap_4_long_headers_pass_up_to_the_limit),
        cmocka_unit_test(many_headers_are_refused),
        cmocka_unit_test(what_is_somewhat_too_long_is_told),
        cmocka_unit_test(cookies_cost_no_more_than_their_bytes),
        cmocka_unit_test(many_parameters_are_told),
        cmocka_unit_test(trap_5_the_target_is_taken_as_it_came),
        cmocka_unit_test(a_target_has_a_longest_length),
        cmocka_unit_test(malformed_chunks_end_the_connection),
        cmocka_unit_test(nothing_follows_a_body_of_chunks),
        cmocka_unit_test(nothing_follows_a_connect),
        cmocka_unit_test(http_1_0_is_spoken),
    };
    return HARNESS_RUN(argc, argv, tests);
}
