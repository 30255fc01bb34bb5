/* SPDX-License-Identifier: MIT
 *
 * The adapter for libuv, on a real loop with waits of a few milliseconds. Nothing here depends on
 * how long they take, only on what is called and that the loop ends by itself.
 */
#include "harness.h"

#include <daruma/retry_uv.h>

#include <string.h>

#define BASE_MS 2

/* An operation whose answers come from libuv: each attempt is a timer of its own. */
struct client {
    struct daruma_retry_options options;
    struct daruma_retry_op op;
    uv_timer_t answer;
    uint32_t generation;
    uint32_t success_at;
    uint32_t calls;
    uint64_t called_at_ms[16];
    uint32_t done_count;
    int code;
};

static void client_on_answer(uv_timer_t *timer)
{
    struct client *client = timer->data;
    int code = client->calls == client->success_at ? 0 : 5;

    assert_true(daruma_retry_async_finish(&client->op, client->generation, code, NULL));
}

static void client_call(void *user, struct daruma_retry_op *op,
                        const struct daruma_attempt *attempt)
{
    struct client *client = user;

    (void)op;
    client->called_at_ms[client->calls % 16] = uv_now(client->answer.loop);
    client->calls++;
    client->generation = attempt->generation;
    assert_int_equal(uv_timer_start(&client->answer, client_on_answer, 1, 0), 0);
}

static void client_done(void *user, struct daruma_retry_op *op, int code,
                        const struct daruma_error *error)
{
    struct client *client = user;

    assert_ptr_equal(op, &client->op);
    assert_int_equal(error == NULL, code == 0);
    client->done_count++;
    client->code = code;
    uv_close((uv_handle_t *)&client->answer, NULL);
}

static int client_start(struct client *client, struct daruma_uv *uv, uint32_t success_at)
{
    memset(client, 0, sizeof *client);
    client->success_at = success_at;
    client->options.loop = &uv->loop;
    client->options.backoff = daruma_backoff_exponential(BASE_MS);
    assert_int_equal(uv_timer_init(uv->timer.loop, &client->answer), 0);
    client->answer.data = client;
    return daruma_retry_async_start(&client->op, client_call, client, &client->options,
                                    client_done);
}

/* The loop runs out by itself and can be closed: nothing of ours is left in it. */
static void run_out(struct daruma_uv *uv, uv_loop_t *loop)
{
    assert_int_equal(uv_run(loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(daruma_retry_next_timeout_ms(&uv->loop), -1);
    daruma_uv_close(uv, NULL);
    assert_int_equal(uv_run(loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(loop), 0);
}

static void an_idle_adapter_does_not_keep_the_loop_alive(void **state)
{
    uv_loop_t loop;
    struct daruma_uv uv;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(daruma_uv_init(&uv, &loop), 0);
    assert_int_equal(uv_loop_alive(&loop), 0);
    run_out(&uv, &loop);
}

static void the_third_try_succeeds_on_a_real_loop(void **state) /* B3.2, B8 */
{
    uv_loop_t loop;
    struct daruma_uv uv;
    struct client client;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(daruma_uv_init(&uv, &loop), 0);
    assert_int_equal(client_start(&client, &uv, 3), 0);
    assert_int_equal(client.calls, 1);
    assert_int_equal(client.done_count, 0);
    run_out(&uv, &loop);
    assert_int_equal(client.calls, 3);
    assert_int_equal(client.done_count, 1);
    assert_int_equal(client.code, 0);
    /* Never early: an answer after 1 ms, then the wait. */
    assert_true(client.called_at_ms[1] - client.called_at_ms[0] >= 1 + BASE_MS);
    assert_true(client.called_at_ms[2] - client.called_at_ms[1] >= 1 + 2 * BASE_MS);
}

static void the_last_error_is_told_on_a_real_loop(void **state) /* B6 */
{
    uv_loop_t loop;
    struct daruma_uv uv;
    struct client client;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(daruma_uv_init(&uv, &loop), 0);
    assert_int_equal(client_start(&client, &uv, 0), 0);
    run_out(&uv, &loop);
    assert_int_equal(client.calls, DARUMA_MAX_RETRIES + 1);
    assert_int_equal(client.done_count, 1);
    assert_int_equal(client.code, 5);
}

static void many_operations_share_one_timer(void **state)
{
    static struct client clients[100];
    uv_loop_t loop;
    struct daruma_uv uv;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(daruma_uv_init(&uv, &loop), 0);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(client_start(&clients[i], &uv, 1 + i % 4), 0);
    }
    run_out(&uv, &loop);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(clients[i].calls, 1 + i % 4);
        assert_int_equal(clients[i].done_count, 1);
        assert_int_equal(clients[i].code, 0);
    }
}

static void a_cancel_ends_the_loop_without_waiting(void **state)
{
    uv_loop_t loop;
    struct daruma_uv uv;
    struct client client;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(daruma_uv_init(&uv, &loop), 0);
    assert_int_equal(client_start(&client, &uv, 0), 0);
    client.options.backoff = daruma_backoff_exponential(3600000); /* the test would take an hour */
    client.options.backoff.max_ms = 3600000;
    while (client.op.attempts == 1 && daruma_retry_next_timeout_ms(&uv.loop) < 0) {
        (void)uv_run(&loop, UV_RUN_ONCE); /* until the first answer */
    }
    assert_true(daruma_retry_async_cancel(&client.op));
    assert_int_equal(client.done_count, 0);
    run_out(&uv, &loop);
    assert_int_equal(client.done_count, 1);
    assert_int_equal(client.code, DARUMA_CANCELLED);
    assert_int_equal(client.calls, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_adapter_does_not_keep_the_loop_alive),
        cmocka_unit_test(the_third_try_succeeds_on_a_real_loop),
        cmocka_unit_test(the_last_error_is_told_on_a_real_loop),
        cmocka_unit_test(many_operations_share_one_timer),
        cmocka_unit_test(a_cancel_ends_the_loop_without_waiting),
    };
    return HARNESS_RUN(argc, argv, tests);
}
