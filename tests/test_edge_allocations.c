/* SPDX-License-Identifier: MIT
 *
 * The n-th allocation fails, for every n: opening the edge, and each kind of call. Nothing leaks,
 * nothing crashes, the next caller is served; and what the engine has taken is never answered as
 * refused (I7).
 */
#define _GNU_SOURCE
#include "alloc_fail.h"
#include "edge_world.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define NTH_MAX 2000

/* --- opening --------------------------------------------------------------------------------- */

static int open_and_close(void *user)
{
    struct loop *loop = user;
    struct edge_options options = {.loop = loop, .host = SPAN("127.0.0.1"), .clock = &clock_real};
    struct error error = {0};
    struct edge *edge = NULL;
    int failed = edge_open(&options, &edge, &error);

    if (failed == 0) {
        edge_close(edge);
    }
    return failed == 0 ? 0 : 1;
}

static void opening_fails_whole_or_not_at_all(void **state)
{
    struct alloc_report report;
    struct error error = {0};
    struct loop *loop;

    (void)state;
    assert_int_equal(loop_new(&loop, &error), 0);
    assert_true(alloc_fail_drive(open_and_close, loop, NTH_MAX, &report));
    assert_true(report.reported >= 5);
    loop_free(loop);
}

/* --- calls ------------------------------------------------------------------------------------- */

static char got[FETCH_BODY_MAX];
static size_t got_len;

struct reader {
    struct world *world;
    int fd;
    bool is_over;
};

/* Reads into static memory: the client must not be the one who needs what is refused. */
static void on_answer(void *user, unsigned events)
{
    struct reader *reader = user;
    ssize_t len = recv(reader->fd, got + got_len, sizeof got - 1 - got_len, MSG_DONTWAIT);

    (void)events;
    got_len += len > 0 ? (size_t)len : 0;
    got[got_len] = '\0';
    const char *end = strstr(got, "\r\n\r\n");
    reader->is_over = len <= 0 || (end != NULL && strchr(end, '}') != NULL);
    if (reader->is_over) {
        loop_stop(reader->world->loop);
    }
}

/* One request with the nth allocation of the server refused. False: nothing was left to refuse. */
static bool call_with(struct world *world, const char *request, uint64_t nth)
{
    struct client client;
    struct loop_watch *watch;
    struct error error = {0};

    client_open(&client, world);
    loop_watch_free(client.watch);
    struct reader reader = {.world = world, .fd = client.fd};
    assert_int_equal(loop_watch_new(world->loop, client.fd, on_answer, &reader, &watch, &error), 0);
    assert_int_equal(loop_watch_set(watch, LOOP_READABLE), 0);
    assert_int_equal(send(client.fd, request, strlen(request), 0), strlen(request));
    got_len = 0;
    got[0] = '\0';
    alloc_fail_start(nth);
    loop_run(world->loop);
    struct alloc_count count = alloc_fail_stop();
    assert_true(reader.is_over);
    loop_watch_free(watch);
    client.watch = NULL;
    client_close(&client);
    return count.refused > 0;
}

static void script_any(void *user, const struct stub_call *call)
{
    if (call->kind == STUB_SUBMIT) {
        script_created(user, call);
    } else {
        script_task(user, call);
    }
}

/* I7 */
static void check_answer(const struct world *world, uint64_t nth)
{
    bool is_taken = stub_count(world->engine, STUB_SUBMIT) > 0;

    if (got_len == 0) {
        return; /* closed without a word: it is not known what became of it */
    }
    if (strncmp(got, "HTTP/1.1 20", 11) != 0 && strncmp(got, "HTTP/1.1 503", 12) != 0) {
        fail_msg("allocation %d: %s", (int)nth, got);
    }
    if (is_taken && strstr(got, "\r\n\r\n{\"type\":\"urn:daruma:problem:overloaded\"") != NULL) {
        fail_msg("allocation %d: taken, and answered as refused: %s", (int)nth, got);
    }
}

static uint64_t fail_each(const char *request)
{
    uint64_t nth = 1;

    for (;; nth++) {
        struct fetched health;
        struct world world;
        assert_true(nth < NTH_MAX);
        world_open(&world, NULL);
        world.engine->script = script_any;
        bool is_refused = call_with(&world, request, nth);
        check_answer(&world, nth);
        fetch(&world, "GET", "/healthz", "", &health);
        assert_int_equal(health.status, 200);
        world_close(&world);
        if (!is_refused) {
            assert_int_equal(strncmp(got, "HTTP/1.1 20", 11), 0);
            return nth;
        }
    }
}

static void a_create_survives_every_failed_allocation(void **state)
{
    (void)state;
    uint64_t runs = fail_each(
        "POST /v1/queues/sync/tasks HTTP/1.1\r\nHost: x\r\nIdempotency-Key: order-1\r\n"
        "Content-Length: 172\r\n\r\n"
        "{\"target\":\"http://127.0.0.1:9/x\",\"json\":{\"a\":[1.10]},\"labels\":{\"a\":\"b\"},"
        "\"headers\":{\"X-A\":\"1\"},\"retry\":{\"max_attempts\":3},"
        "\"callback\":{\"url\":\"http://c/\",\"on\":[\"failed\"]} }   ");
    assert_true(runs > 8);
}

static void a_batch_survives_every_failed_allocation(void **state)
{
    (void)state;
    uint64_t runs = fail_each("POST /v1/queues/sync/tasks:batch HTTP/1.1\r\nHost: x\r\n"
                              "Content-Length: 27\r\n\r\n[{\"body\":\"a\"},{\"bad\":1},{}]");
    assert_true(runs > 8);
}

static void a_get_survives_every_failed_allocation(void **state)
{
    (void)state;
    uint64_t runs =
        fail_each("GET /v1/tasks/" WORLD_TASK_ID "?wait_ms=10 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(runs > 3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_fails_whole_or_not_at_all),
        cmocka_unit_test(a_create_survives_every_failed_allocation),
        cmocka_unit_test(a_batch_survives_every_failed_allocation),
        cmocka_unit_test(a_get_survives_every_failed_allocation),
    };
    return HARNESS_RUN(argc, argv, tests);
}
