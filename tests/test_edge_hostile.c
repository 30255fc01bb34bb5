/* SPDX-License-Identifier: MIT
 *
 * Clients that are broken or mean, with sockets of their own, and the traps of libmicrohttpd that have
 * to do with its callbacks and its life (engineering 3.2: trap_1, trap_2, trap_6).
 */
#define _GNU_SOURCE
#include "edge_world.h"

#include <stdlib.h>
#include <sys/socket.h>

#define TASKS "/v1/queues/sync/tasks"

/* --- trap 1: after a resume somebody must run the daemon ------------------------------------- */

struct late_reply {
    struct world *world;
    struct stub_call call;
};

static void reply_late(void *user)
{
    struct late_reply *late = user;

    script_created(late->world, &late->call);
}

/* Nothing but a timer of somebody else's happens while the caller waits. */
static void trap_1_a_resumed_connection_is_run_without_any_other_event(void **state)
{
    struct late_reply late;
    struct loop_timer *timer;
    struct answer_view answer;
    struct error error;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_request(&client, "POST", TASKS, "{}");
    world_run_calls(&world, 1);
    late = (struct late_reply){&world, *stub_last(world.engine)};
    assert_int_equal(loop_timer_new(world.loop, reply_late, &late, &timer, &error), 0);
    loop_timer_set(timer, clock_mono_ms(&clock_real) + 30);
    client_await(&client, &answer);
    assert_int_equal(answer.status, 201);
    loop_timer_free(timer);
    client_close(&client);
    world_close(&world);
}

/* A reply from a hook that runs right before the wait, after the pump has run. */
static void trap_1_a_reply_right_before_the_wait_is_not_slept_on(void **state)
{
    struct late_reply late;
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_request(&client, "POST", TASKS, "{}");
    world_run_calls(&world, 1);
    late = (struct late_reply){&world, *stub_last(world.engine)};
    world.before_wait = reply_late;
    world.before_wait_user = &late;
    client_await(&client, &answer);
    assert_int_equal(answer.status, 201);
    client_close(&client);
    world_close(&world);
}

/* "Run me again" without any descriptor firing: the requests are all in its buffer already. */
static void trap_1_pipelined_requests_are_all_answered_in_order(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    for (int i = 0; i < 300; i++) {
        client_sendf(&client,
                     "POST " TASKS " HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n"
                     "{\"delay_ms\":%5d}",
                     i);
    }
    for (int i = 0; i < 300; i++) {
        world_run_calls(&world, (size_t)i + 1);
        assert_int_equal(world.engine->call_count, i + 1); /* one at a time */
        assert_int_equal(stub_last(world.engine)->submission.delay_ms, i);
        edge_reply(world.edge, &(struct reply){.kind = REPLY_FAULT,
                                               .exchange = stub_last(world.engine)->exchange,
                                               .error = {.fault = FAULT_INPUT, .text = "x"}});
        client_await(&client, &answer);
        assert_int_equal(answer.status, 400);
    }
    client_close(&client);
    world_close(&world);
}

/* --- trap 2: stopping with suspended connections aborts the process --------------------------- */

static void trap_2_closing_answers_everybody_first(void **state)
{
    struct answer_view answer;
    struct client writer, reader;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&writer, &world);
    client_open(&reader, &world);
    client_request(&writer, "POST", TASKS, "{}");
    world_run_calls(&world, 1);
    client_request(&reader, "GET", "/v1/tasks/" WORLD_TASK_ID "?wait_ms=60000", "");
    world_run_calls(&world, 2);
    edge_close(world.edge);
    world.edge = NULL;
    client_await(&writer, &answer); /* what became of it is not known: I7 */
    assert_int_equal(answer.status, 503);
    assert_non_null(memmem(answer.body.at, answer.body.len, "store_unknown", 13));
    client_await(&reader, &answer);
    assert_int_equal(answer.status, 503);
    assert_non_null(memmem(answer.body.at, answer.body.len, "draining", 8));
    client_await_close(&writer);
    client_await_close(&reader);
    client_close(&writer);
    client_close(&reader);
    world_close(&world);
}

/* --- trap 6: an early answer in the middle of an upload is a reset -------------------------------- */

static void open_small(struct world *world)
{
    world_open(world, &(struct edge_options){.limits = {.body_bytes_max = 1000}});
}

static void send_bytes(struct client *client, size_t count)
{
    char *bytes = malloc(count);

    assert_non_null(bytes);
    memset(bytes, 'x', count);
    client_send(client, (struct span){.at = bytes, .len = count});
    free(bytes);
}

static void trap_6_an_upload_over_the_limit_is_read_before_it_is_refused(void **state)
{
    static const size_t sizes[] = {1001, 5000, 8000};
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    open_small(&world);
    client_open(&client, &world);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        client_sendf(&client, "POST " TASKS " HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
                     sizes[i]);
        send_bytes(&client, sizes[i]);
        client_await(&client, &answer);
        assert_int_equal(answer.status, 413);
        assert_non_null(memmem(answer.body.at, answer.body.len, "too_large", 9));
    }
    client_request(&client, "GET", "/healthz", ""); /* the connection lives on */
    client_await(&client, &answer);
    assert_int_equal(answer.status, 200);
    client_close(&client);
    world_close(&world);
}

static void trap_6_chunks_over_the_limit_are_read_before_they_are_refused(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    open_small(&world);
    client_open(&client, &world);
    client_sendf(&client,
                 "POST " TASKS " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 7; i++) {
        client_sendf(&client, "3e8\r\n");
        send_bytes(&client, 1000);
        client_sendf(&client, "\r\n");
    }
    client_sendf(&client, "0\r\n\r\n");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 413);
    client_await_close(&client); /* as after every body of chunks */
    client_close(&client);
    world_close(&world);
}

static void trap_6_what_is_swallowed_has_an_end(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    open_small(&world);
    client_open(&client, &world); /* said beforehand: refused at once */
    client_sendf(&client, "POST " TASKS " HTTP/1.1\r\nHost: x\r\nContent-Length: 8001\r\n\r\n");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 413);
    client_await_close(&client);
    client_close(&client);
    client_open(&client, &world); /* not said: cut when it is too much */
    client_sendf(&client, "POST " TASKS " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "ffffffff\r\n");
    send_bytes(&client, 200000);
    client_await_close(&client);
    client_close(&client);
    assert_int_equal(world.engine->call_count, 0);
    world_close(&world);
}

/* Nothing has been sent yet, so the answer may come at once, in place of 100. */
static void trap_6_an_expected_upload_is_refused_before_it_begins(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    open_small(&world);
    client_open(&client, &world);
    client_sendf(&client, "POST " TASKS " HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n"
                          "Expect: 100-continue\r\n\r\n");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 413);
    client_await_close(&client);
    client_close(&client);
    client_open(&client, &world);
    client_sendf(&client, "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                          "Expect: 100-continue\r\n\r\n");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 404);
    client_close(&client);
    client_open(&client, &world);
    client_sendf(&client, "POST " TASKS " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                          "Expect: 200-ok\r\n\r\n{}");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 417);
    client_close(&client);
    world_close(&world);
}

static bool has_bytes(void *user)
{
    return ((struct client *)user)->got.len > 0;
}

static void an_expected_upload_is_invited(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    world.engine->script = script_created;
    client_open(&client, &world);
    client_sendf(&client, "POST " TASKS " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                          "Expect: 100-continue\r\n\r\n");
    world_run(&world, has_bytes, &client);
    assert_true(span_starts(buf_span(&client.got), "HTTP/1.1 100"));
    client_sendf(&client, "{}");
    client_await(&client, &answer);
    assert_int_equal(answer.status, 201);
    client_close(&client);
    world_close(&world);
}

/* --- others ---------------------------------------------------------------------------------- */

static void over_the_limit_connections_wait_outside(void **state)
{
    struct client clients[3];
    struct answer_view answer;
    struct edge_stats stats;
    struct world world;

    (void)state;
    world_open(&world, &(struct edge_options){.limits = {.connections_max = 2, .grace_ms = 1}});
    for (int i = 0; i < 3; i++) {
        client_open(&clients[i], &world);
        client_request(&clients[i], "POST", TASKS, "{}");
    }
    world_run_calls(&world, 2);
    edge_stats(world.edge, &stats);
    assert_int_equal(stats.connections, 2);
    script_created(&world, &world.engine->calls[0]);
    client_await(&clients[0], &answer); /* from now on it has nothing to do: there is room */
    assert_int_equal(answer.status, 201);
    world_run_calls(&world, 3);
    script_created(&world, &world.engine->calls[1]);
    script_created(&world, &world.engine->calls[2]);
    client_await(&clients[1], &answer);
    client_await(&clients[2], &answer);
    assert_int_equal(answer.status, 201);
    for (int i = 0; i < 3; i++) {
        client_close(&clients[i]);
    }
    world_close(&world);
}

static void the_longest_idle_connection_makes_room_for_a_new_one(void **state)
{
    struct client clients[4];
    struct answer_view answer;
    struct world world;

    (void)state;
    world_open(&world, &(struct edge_options){.limits = {.connections_max = 3, .grace_ms = 1}});
    for (int i = 0; i < 3; i++) {
        client_open(&clients[i], &world);
        client_request(&clients[i], "GET", "/healthz", "");
        client_await(&clients[i], &answer);
    }
    client_request(&clients[0], "GET", "/healthz", ""); /* so that it is the second by now */
    client_await(&clients[0], &answer);
    client_open(&clients[3], &world);
    client_request(&clients[3], "GET", "/healthz", "");
    client_await(&clients[3], &answer);
    assert_int_equal(answer.status, 200);
    client_await_close(&clients[1]);
    assert_false(clients[0].is_closed || clients[2].is_closed);
    for (int i = 0; i < 4; i++) {
        client_close(&clients[i]);
    }
    world_close(&world);
}

/* Between two requests everybody has a moment. */
static void nobody_is_sent_away_at_once(void **state)
{
    struct client first, second;
    struct answer_view answer;
    struct world world;

    (void)state;
    world_open(&world, &(struct edge_options){.limits = {.connections_max = 1, .grace_ms = 60000}});
    client_open(&first, &world);
    client_open(&second, &world);
    client_request(&second, "GET", "/healthz", "");
    for (int i = 0; i < 5; i++) {
        client_request(&first, "GET", "/healthz", "");
        client_await(&first, &answer);
        assert_int_equal(answer.status, 200);
    }
    assert_int_equal(second.got.len, 0);
    client_close(&first);
    client_await(&second, &answer);
    assert_int_equal(answer.status, 200);
    client_close(&second);
    world_close(&world);
}

/* Who has said all he wants to say still gets his answer. */
static void a_half_closed_client_gets_its_answer(void **state)
{
    struct answer_view answer;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_request(&client, "POST", TASKS, "{}");
    world_run_calls(&world, 1);
    assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
    script_created(&world, stub_last(world.engine));
    client_await(&client, &answer);
    assert_int_equal(answer.status, 201);
    client_close(&client);
    world_close(&world);
}

/* The record was made; that nobody hears of it changes nothing. */
static void a_client_that_resets_harms_nobody(void **state)
{
    const struct linger now = {.l_onoff = 1};
    struct fetched health;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_request(&client, "POST", TASKS, "{}");
    world_run_calls(&world, 1);
    assert_int_equal(setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    client_close(&client);
    script_created(&world, stub_last(world.engine));
    fetch(&world, "GET", "/healthz", "", &health);
    assert_int_equal(health.status, 200);
    world_close(&world);
}

static bool is_empty(void *user)
{
    struct edge_stats stats;

    edge_stats(((struct world *)user)->edge, &stats);
    return stats.connections == 0;
}

static void an_upload_that_is_broken_off_leaves_nothing(void **state)
{
    struct fetched health;
    struct client client;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    client_open(&client, &world);
    client_sendf(&client, "POST " TASKS " HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"bo");
    fetch(&world, "GET", "/healthz", "", &health);
    client_close(&client);
    world_run(&world, is_empty, &world);
    assert_true(edge_is_drained(world.edge));
    assert_int_equal(world.engine->call_count, 0);
    world_close(&world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trap_1_a_resumed_connection_is_run_without_any_other_event),
        cmocka_unit_test(trap_1_a_reply_right_before_the_wait_is_not_slept_on),
        cmocka_unit_test(trap_1_pipelined_requests_are_all_answered_in_order),
        cmocka_unit_test(trap_2_closing_answers_everybody_first),
        cmocka_unit_test(trap_6_an_upload_over_the_limit_is_read_before_it_is_refused),
        cmocka_unit_test(trap_6_chunks_over_the_limit_are_read_before_they_are_refused),
        cmocka_unit_test(trap_6_what_is_swallowed_has_an_end),
        cmocka_unit_test(trap_6_an_expected_upload_is_refused_before_it_begins),
        cmocka_unit_test(an_expected_upload_is_invited),
        cmocka_unit_test(over_the_limit_connections_wait_outside),
        cmocka_unit_test(the_longest_idle_connection_makes_room_for_a_new_one),
        cmocka_unit_test(nobody_is_sent_away_at_once),
        cmocka_unit_test(a_half_closed_client_gets_its_answer),
        cmocka_unit_test(a_client_that_resets_harms_nobody),
        cmocka_unit_test(an_upload_that_is_broken_off_leaves_nothing),
    };
    return HARNESS_RUN(argc, argv, tests);
}
