/* SPDX-License-Identifier: MIT
 *
 * Clients that are slow: each phase of a connection has an end (engineering 3.2: trap_3).
 */
#define _GNU_SOURCE
#include "edge_world.h"

#include "edge/connection.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define TASKS "/v1/queues/sync/tasks"

/* --- trap 3: its time-out counts from the last byte ------------------------------------------- */

static void open_impatient(struct world *world, int64_t header_ms, int64_t idle_ms)
{
    world_open(world, &(struct edge_options){
                          .limits = {.header_time_ms = header_ms, .idle_time_ms = idle_ms}});
}

static void trap_3_headers_byte_by_byte_have_an_end(void **state)
{
    char *endless = malloc(100001);
    struct edge_stats stats;
    struct client client;
    struct world world;
    struct drip drip;

    (void)state;
    assert_non_null(endless);
    memset(endless, 'a', 100000);
    endless[100000] = '\0';
    memcpy(endless, "GET /healthz HTTP/1.1\r\nX: ", 26);
    open_impatient(&world, 100, 100000);
    client_open(&client, &world);
    drip_start(&drip, &client, endless);
    client_await_close(&client); /* always active, and yet */
    edge_stats(world.edge, &stats);
    assert_int_equal(stats.cut, 1);
    loop_timer_free(drip.timer);
    client_close(&client);
    world_close(&world);
    free(endless);
}

static void a_connection_that_says_nothing_has_an_end(void **state)
{
    struct client client;
    struct world world;

    (void)state;
    open_impatient(&world, 30, 100000);
    client_open(&client, &world);
    client_await_close(&client);
    assert_int_equal(client.got.len, 0);
    client_close(&client);
    world_close(&world);
}

static void between_requests_idle_time_counts(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;
    struct drip drip;

    (void)state;
    open_impatient(&world, 100000, 50);
    client_open(&client, &world);
    client_request(&client, "GET", "/healthz", "");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 200);
    drip_start(&drip, &client,
               "GET /healthz HTTP/1.1\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    client_await_close(&client);
    loop_timer_free(drip.timer);
    client_close(&client);
    world_close(&world);
}

static void a_body_byte_by_byte_has_an_end(void **state)
{
    struct client client;
    struct world world;
    struct drip drip;

    (void)state;
    open_impatient(&world, 100000, 60);
    client_open(&client, &world);
    client_sendf(&client, "POST " TASKS " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
    drip_start(&drip, &client,
               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    client_await_close(&client);
    loop_timer_free(drip.timer);
    client_close(&client);
    world_close(&world);
}

static void chunks_without_end_have_an_end(void **state)
{
    struct client client;
    struct world world;

    (void)state;
    open_impatient(&world, 100000, 60);
    client_open(&client, &world);
    client_sendf(&client, "POST " TASKS " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "5\r\nhello\r\n");
    client_await_close(&client);
    assert_int_equal(world.engine->call_count, 0);
    client_close(&client);
    world_close(&world);
}

/* A body that gets on is not cut, however often its time is over. */
static void a_large_body_that_gets_on_is_read(void **state)
{
    size_t size = 900000;
    char *body = malloc(size + 1);
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    assert_non_null(body);
    memset(body, 'x', size);
    memcpy(body, "{\"body\":\"", 9);
    memcpy(body + size - 2, "\"}", 3);
    open_impatient(&world, 100000, 100000);
    world.engine->script = script_created;
    client_open(&client, &world);
    client_request(&client, "POST", TASKS, body);
    client_await(&client, &answer);
    assert_int_equal(answer.status, 201);
    assert_int_equal(stub_last(world.engine)->submission.body.len, size - 11);
    client_close(&client);
    world_close(&world);
    free(body);
}

static int big_metrics(void *user, unsigned how, struct buf *out)
{
    (void)user, (void)how;
    for (int i = 0; i < 400000; i++) {
        if (buf_addf(out, "daruma_x{n=\"%d\"} 1\n", i) != 0) {
            return FAULT_MEMORY;
        }
    }
    return 0;
}

static bool has_cut(void *user)
{
    struct edge_stats stats;

    edge_stats(((struct world *)user)->edge, &stats);
    return stats.cut > 0;
}

/* Answers are held in memory: who does not read them may not keep them. */
static void a_client_that_does_not_read_is_cut(void **state)
{
    struct client client;
    struct world world;
    struct edge_options options = {.limits = {.header_time_ms = 100000, .idle_time_ms = 1},
                                   .metrics = big_metrics};

    (void)state;
    world_open(&world, &options);
    client_open(&client, &world);
    client.is_deaf = true;
    client_request(&client, "GET", "/metrics", "");
    world_run(&world, has_cut, &world);
    client_close(&client);
    world_close(&world);
}

static void count_turn(void *user)
{
    ++*(int *)user;
}

static void stop(void *user)
{
    loop_stop(((struct world *)user)->loop);
}

/* Somebody waits for the engine, somebody is idle, somebody is in the middle of a header. */
static void waiting_for_clients_costs_no_turns(void **state)
{
    struct client waiting, idle, slow;
    struct answer_view answer;
    struct loop_timer *timer;
    struct error error;
    struct world world;
    int turns = 0;

    (void)state;
    world_open(&world, NULL);
    client_open(&waiting, &world);
    client_open(&idle, &world);
    client_open(&slow, &world);
    client_sendf(&slow, "GET /healthz HTT");
    client_request(&waiting, "POST", TASKS, "{}");
    world_run_calls(&world, 1);
    client_request(&idle, "GET", "/healthz", "");
    client_await(&idle, &answer);
    assert_int_equal(loop_timer_new(world.loop, stop, &world, &timer, &error), 0);
    loop_timer_set(timer, clock_mono_ms(&clock_real) + 50);
    world.before_wait = count_turn;
    world.before_wait_user = &turns;
    loop_run(world.loop);
    assert_in_range(turns, 1, 10);
    loop_timer_free(timer);
    client_close(&waiting);
    client_close(&idle);
    client_close(&slow);
    world_close(&world);
}

/* --- connections that are stuck -------------------------------------------------------------------- */

static void no_room(void *user, enum connection_door door)
{
    (void)user;
    (void)door;
}

static void a_request_as_long_as_the_one_before_is_not_stuck(void **state)
{
    const struct connection_limits limits = {
        .header_time_ms = 1000, .idle_time_ms = 1000, .room = no_room};
    struct connection_set set;
    struct house house;
    struct loop *loop = NULL;
    char bytes[8];
    int ends[2];

    (void)state;
    assert_int_equal(loop_new(&loop, NULL), 0);
    house_init(&house, 10);
    assert_int_equal(connection_set_init(&set, loop, &house, &limits, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    struct connection *connection = connection_new(&set, ends[0], DOOR_API);
    assert_non_null(connection);

    assert_int_equal(write(ends[1], "first", 5), 5);
    connection_set_cut_stuck(&set); /* seen, not yet read */
    assert_int_equal(read(ends[0], bytes, sizeof bytes), 5);
    connection_enter(&set, connection, PHASE_IDLE, 0);
    assert_int_equal(write(ends[1], "other", 5), 5);
    connection_set_cut_stuck(&set);
    assert_int_not_equal(connection->phase, PHASE_CUT);
    connection_set_cut_stuck(&set); /* as it was: this one is */
    assert_int_equal(connection->phase, PHASE_CUT);

    connection_free(&set, connection);
    connection_set_done(&set);
    (void)close(ends[0]);
    (void)close(ends[1]);
    loop_free(loop);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trap_3_headers_byte_by_byte_have_an_end),
        cmocka_unit_test(a_connection_that_says_nothing_has_an_end),
        cmocka_unit_test(between_requests_idle_time_counts),
        cmocka_unit_test(a_request_as_long_as_the_one_before_is_not_stuck),
        cmocka_unit_test(a_body_byte_by_byte_has_an_end),
        cmocka_unit_test(chunks_without_end_have_an_end),
        cmocka_unit_test(a_large_body_that_gets_on_is_read),
        cmocka_unit_test(a_client_that_does_not_read_is_cut),
        cmocka_unit_test(waiting_for_clients_costs_no_turns),
    };
    return HARNESS_RUN(argc, argv, tests);
}
