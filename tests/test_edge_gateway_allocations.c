/* SPDX-License-Identifier: MIT
 *
 * The n-th allocation fails, for every n, on the gateway's door: requests under a key, answers that are
 * handed on piece by piece, polls, the policy. Nothing leaks, nothing crashes, nobody is left hanging;
 * no caller gets the upstream's bytes under another status; and of every stream that was begun the
 * engine hears that the caller has left, or has handed on all of it (I7).
 */
#include "alloc_fail.h"
#include "edge_world.h"

#include "task/route_match.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define NTH_MAX    2000
#define PIECES     3
#define PIECE_TEXT "upstream's own bytes"

static struct route_settings route;
static char got[FETCH_BODY_MAX];
static size_t got_len;

/* One call on its way through the edge. */
struct door {
    struct world world;
    uint64_t streaming; /* the exchange that gets a stream; 0: none does */
    int64_t length;     /* of the stream, as it is announced */
    size_t given;       /* pieces of it */
    bool is_wanted;     /* the edge has asked for the next one */
    bool has_ended, has_left;
};

static struct door door; /* large */

/* --- what the engine says ------------------------------------------------------------------------ */

static void say(uint64_t exchange, const struct route_reply *said)
{
    world_reply(&door.world,
                &(struct reply){.kind = REPLY_ROUTE, .exchange = exchange, .route = said});
}

static void begin_stream(const struct stub_call *call, bool is_recorded)
{
    const struct answer answer = {.status = 200,
                                  .headers = SPAN("Content-Type: text/plain\nX-Upstream: yes\n")};

    door.streaming = call->exchange;
    say(call->exchange, &(struct route_reply){.said = ROUTE_SAID_STREAM,
                                              .route = &route,
                                              .id = {.row = is_recorded ? 4096 : 0, .tail = 1},
                                              .answer = &answer,
                                              .length = door.length,
                                              .is_first = true});
}

static void answer_whole(const struct stub_call *call)
{
    const struct answer answer = {.status = 201,
                                  .headers = SPAN("Content-Type: text/plain\nX-Upstream: yes\n"),
                                  .body = SPAN(PIECE_TEXT)};

    say(call->exchange, &(struct route_reply){.said = ROUTE_SAID_ANSWER,
                                              .route = &route,
                                              .id = {.row = 4096, .tail = 1},
                                              .answer = &answer});
}

static void answer_poll(const struct stub_call *call)
{
    say(call->exchange, &(struct route_reply){.said = ROUTE_SAID_PROGRESS,
                                              .route = &route,
                                              .scope = SPAN(""),
                                              .id = {.row = 4096, .tail = 1},
                                              .state = TASK_RUNNING});
}

static void hear(void *user, const struct stub_call *call)
{
    (void)user;
    switch (call->kind) {
    case STUB_SUBMIT:
        if (call->submission.key.len == 0) {
            begin_stream(call, false);
        } else if (span_is(call->submission.key, "stream")) {
            begin_stream(call, true);
        } else {
            answer_whole(call);
        }
        break;
    case STUB_ASK:
        answer_poll(call);
        break;
    case STUB_MORE:
        door.is_wanted |= call->exchange == door.streaming;
        break;
    case STUB_LEAVE:
        door.has_left |= call->exchange == door.streaming;
        break;
    }
}

/* As in the server: what was asked for comes in a later turn. */
static void hand_on(void *user)
{
    const struct answer piece = {.body = SPAN(PIECE_TEXT)};

    (void)user;
    if (!door.is_wanted || door.has_left) {
        return;
    }
    door.is_wanted = false;
    door.has_ended = door.given == PIECES;
    door.given++;
    say(door.streaming,
        &(struct route_reply){.said = door.has_ended ? ROUTE_SAID_END : ROUTE_SAID_PIECE,
                              .answer = &piece});
}

/* --- one call -------------------------------------------------------------------------------------- */

static void open_door(int64_t length)
{
    const struct edge_options options = {.gateway_host = SPAN("127.0.0.1"),
                                         .routes = &route,
                                         .route_count = 1,
                                         .pass = SPAN("http://127.0.0.1:9")};

    route = (struct route_settings){.name = SPAN("orders"),
                                    .upstream = SPAN("http://127.0.0.1:9"),
                                    .header = SPAN("Idempotency-Key"),
                                    .timeout_ms = 1000,
                                    .keep_ms = 1000,
                                    .retry_after_ms = 1000,
                                    .concurrency = 1,
                                    .mismatch = 409};
    assert_null(route_pattern_parse(SPAN("POST /orders"), &route.pattern));
    door = (struct door){.length = length};
    world_open(&door.world, &options);
    door.world.engine->script = hear;
    door.world.before_wait = hand_on;
    door.world.port = edge_gateway_port(door.world.edge);
}

struct reader {
    int fd;
    bool is_over;
};

/* Into static memory: the client must not be the one who needs what is refused. */
static void on_answer(void *user, unsigned events)
{
    struct reader *reader = user;
    ssize_t len = recv(reader->fd, got + got_len, sizeof got - 1 - got_len, MSG_DONTWAIT);

    (void)events;
    got_len += len > 0 ? (size_t)len : 0;
    got[got_len] = '\0';
    reader->is_over = len <= 0;
    if (reader->is_over) {
        loop_stop(door.world.loop);
    }
}

/* False: nothing was left to refuse. */
static bool call_with(const char *request, uint64_t nth)
{
    struct client client;
    struct loop_watch *watch;
    struct error error = {0};

    client_open(&client, &door.world);
    loop_watch_free(client.watch);
    struct reader reader = {.fd = client.fd};
    assert_int_equal(loop_watch_new(door.world.loop, client.fd, on_answer, &reader, &watch, &error),
                     0);
    assert_int_equal(loop_watch_set(watch, LOOP_READABLE), 0);
    assert_int_equal(send(client.fd, request, strlen(request), 0), strlen(request));
    got_len = 0;
    got[0] = '\0';
    loop_timer_set(door.world.patience, clock_mono_ms(&clock_real) + WORLD_PATIENCE_MS / 4);
    alloc_fail_start(nth);
    loop_run(door.world.loop);
    struct alloc_count count = alloc_fail_stop();
    if (!reader.is_over) {
        fail_msg("allocation %d: the caller hangs, with %s", (int)nth, got);
    }
    loop_watch_free(watch);
    client.watch = NULL;
    client_close(&client);
    return count.refused > 0;
}

static bool is_resolved(void *user)
{
    (void)user;
    return door.streaming == 0 || door.has_ended || door.has_left;
}

static void check_answer(uint64_t nth)
{
    bool is_good = strncmp(got, "HTTP/1.1 20", 11) == 0;
    bool is_taken = stub_count(door.world.engine, STUB_SUBMIT) > 0;

    if (got_len == 0) {
        return; /* closed without a word: it is not known what became of it */
    }
    if (!is_good && strncmp(got, "HTTP/1.1 503", 12) != 0) {
        fail_msg("allocation %d: %s", (int)nth, got);
    }
    if (!is_good && (strstr(got, PIECE_TEXT) != NULL || strstr(got, "X-Upstream") != NULL)) {
        fail_msg("allocation %d: the upstream's answer under another status: %s", (int)nth, got);
    }
    if (!is_good && is_taken && door.world.engine->calls[0].submission.key.len > 0 &&
        strstr(got, "\"code\":\"overloaded\"") != NULL) {
        fail_msg("allocation %d: taken, and answered as refused: %s", (int)nth, got);
    }
}

static void fail_each(const char *request, int64_t length)
{
    bool is_refused = true;
    uint64_t nth = 0;

    while (is_refused) {
        assert_true(++nth < NTH_MAX);
        open_door(length);
        is_refused = call_with(request, nth);
        check_answer(nth);
        world_run(&door.world, is_resolved, NULL);
        struct fetched health;
        door.world.port = edge_port(door.world.edge);
        fetch(&door.world, "GET", "/healthz", "", &health);
        assert_int_equal(health.status, 200);
        world_close(&door.world);
    }
    print_message("%u allocations\n", (unsigned)nth - 1);
    assert_int_equal(strncmp(got, "HTTP/1.1 20", 11), 0);
    assert_true(nth > 3);
}

/* --- the calls --------------------------------------------------------------------------------------- */

#define POST_ORDER(key)                                                                            \
    "POST /orders?a=1 HTTP/1.1\r\nHost: x\r\nIdempotency-Key: " key                                \
    "\r\nContent-Type: application/json\r\nPrefer: wait=5\r\nConnection: close\r\n"                \
    "Content-Length: 9\r\n\r\n{\"a\":1.1}"

static void a_kept_answer_survives_every_failed_allocation(void **state) /* I7 */
{
    (void)state;
    fail_each(POST_ORDER("order-1"), 0);
    assert_contains(got, PIECE_TEXT);
}

static void a_recorded_stream_survives_every_failed_allocation(void **state) /* I7 */
{
    (void)state;
    fail_each(POST_ORDER("stream"), 0);
    assert_int_equal(door.given, PIECES + 1);
    fail_each(POST_ORDER("stream"), PIECES * (int64_t)strlen(PIECE_TEXT));
    assert_true(door.given >= PIECES); /* he may go when he has all that was announced */
}

static void a_stream_that_is_passed_on_survives_every_failed_allocation(void **state)
{
    (void)state;
    fail_each("GET /elsewhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 0);
    assert_contains(got, PIECE_TEXT);
}

static void polls_and_the_policy_survive_every_failed_allocation(void **state)
{
    (void)state;
    fail_each("GET /.daruma/requests/" WORLD_TASK_ID
              " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
              0);
    fail_each("GET /.daruma/idempotency HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 0);
    fail_each("GET /.daruma/idempotency HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n"
              "Connection: close\r\n\r\n",
              0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kept_answer_survives_every_failed_allocation),
        cmocka_unit_test(a_recorded_stream_survives_every_failed_allocation),
        cmocka_unit_test(a_stream_that_is_passed_on_survives_every_failed_allocation),
        cmocka_unit_test(polls_and_the_policy_survive_every_failed_allocation),
    };
    return HARNESS_RUN(argc, argv, tests);
}
