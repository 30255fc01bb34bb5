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

/* One lease, or what became of the words. */
static void script_leases(void *user, const struct stub_call *call)
{
    struct world *world = user;
    const struct record record = {.task = {.id = {.row = 4096, .tail = 1},
                                           .headers = SPAN("x-a: 1\n"),
                                           .labels = SPAN("l: 1\n"),
                                           .body = SPAN("body")},
                                  .life = {.state = TASK_RUNNING, .fence = 1, .epoch = 1}};
    const struct lease_answer result = {.lease = SPAN("l"), .result = LEASE_SETTLED};
    bool is_take = call->ask.kind == ASK_LEASE;

    edge_reply(world->edge, &(struct reply){.kind = is_take ? REPLY_LEASES : REPLY_LEASE_RESULTS,
                                            .exchange = call->exchange,
                                            .records = &record,
                                            .record_count = is_take,
                                            .results = &result,
                                            .result_count = !is_take});
}

static void script_any(void *user, const struct stub_call *call)
{
    bool is_lease = call->ask.kind == ASK_LEASE || call->ask.kind == ASK_LEASE_SETTLE;

    if (call->kind == STUB_SUBMIT) {
        script_created(user, call);
    } else if (call->kind == STUB_ASK && is_lease) {
        script_leases(user, call);
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

static void acts_survive_every_failed_allocation(void **state)
{
    static const struct {
        const char *path, *body;
    } acts[] = {
        {"/v1/dead-letters/" WORLD_TASK_ID ":redrive",
         "{\"target\":\"http://h/\",\"headers\":{\"x-a\":\"1\"},\"json\":[1.10]}"},
        {"/v1/dead-letters/" WORLD_TASK_ID ":resolve", "{\"note\":\"paid by hand\"}"},
        {"/v1/tasks/" WORLD_TASK_ID ":settle",
         "{\"outcome\":\"succeeded\",\"response\":{\"status\":201,\"body_base64\":\"AP8=\","
         "\"headers\":{\"a\":\"b\"}}}"},
        {"/v1/dead-letters:redrive",
         "{\"filter\":{\"queue\":\"q\",\"class\":\"quota\"},\"rate_per_second\":5}"},
        {"/v1/queues/q/leases", "{\"max\":3,\"lease_ms\":1000,\"wait_ms\":1000}"},
        {"/v1/leases:settle",
         "{\"acks\":[{\"lease\":\"a.1.1\",\"response\":{\"body\":\"x\"}}],\"retries\":[{\"lease\":"
         "\"b\",\"error\":{\"message\":\"m\"}}],\"extend\":[{\"lease\":\"c\"}]}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        char request[1024];
        (void)snprintf(request, sizeof request,
                       "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", acts[i].path,
                       strlen(acts[i].body), acts[i].body);
        assert_true(fail_each(request) > 5);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_fails_whole_or_not_at_all),
        cmocka_unit_test(a_create_survives_every_failed_allocation),
        cmocka_unit_test(a_batch_survives_every_failed_allocation),
        cmocka_unit_test(a_get_survives_every_failed_allocation),
        cmocka_unit_test(acts_survive_every_failed_allocation),
    };
    return HARNESS_RUN(argc, argv, tests);
}
