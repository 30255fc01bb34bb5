/* SPDX-License-Identifier: MIT
 *
 * How an asynchronous operation ends and is refused: the code it tells is the one its last attempt was
 * finished with, as the synchronous form returns what its last call did, and its error is that attempt's.
 */
#include "harness.h"
#include "fake.h"

#include <daruma/breaker.h>
#include <daruma/retry_async.h>

struct ending {
    struct fake_loop fake;
    struct daruma_retry_options options;
    struct daruma_retry_op op;
    uint32_t generation; /* of the attempt under way */
    int calls, done_count, code;
    struct daruma_error error;
};

static const struct daruma_error seven = {.code = 7, .message = "seven"};

static void ending_call(void *user, struct daruma_retry_op *op,
                        const struct daruma_attempt *attempt)
{
    struct ending *ending = user;

    (void)op;
    ending->calls++;
    ending->generation = attempt->generation;
}

static void ending_done(void *user, struct daruma_retry_op *op, int code,
                        const struct daruma_error *error)
{
    struct ending *ending = user;

    (void)op;
    ending->done_count++;
    ending->code = code;
    ending->error = error != NULL ? *error : (struct daruma_error){0};
}

static int start(struct ending *ending)
{
    return daruma_retry_async_start(&ending->op, ending_call, ending, &ending->options,
                                    ending_done);
}

static void ending_init(struct ending *ending)
{
    *ending = (struct ending){0};
    fake_loop_init(&ending->fake, 1);
    ending->options.loop = &ending->fake.loop;
}

/* Ticks for so long, and sees that it has ended like this. */
static void has_ended(struct ending *ending, int code, int error_code)
{
    for (int i = 0; i < 100 && ending->done_count == 0; i++) {
        (void)daruma_retry_tick(&ending->fake.loop); /* how many it moved is not the question */
    }
    assert_int_equal(ending->done_count, 1);
    assert_int_equal(ending->code, code);
    assert_int_equal(ending->error.code, error_code);
}

static void the_code_of_the_end_is_that_of_the_last_finish(void **state)
{
    struct ending ending;

    (void)state;
    ending_init(&ending);
    ending.options.max_retries = DARUMA_NO_RETRIES;
    assert_int_equal(start(&ending), 0);
    assert_true(daruma_retry_async_finish(&ending.op, ending.generation, 5, &seven));
    has_ended(&ending, 5, 7);
}

static void an_error_without_a_code_has_that_of_the_finish(void **state)
{
    struct ending ending;

    (void)state;
    ending_init(&ending);
    ending.options.max_retries = DARUMA_NO_RETRIES;
    assert_int_equal(start(&ending), 0);
    assert_true(daruma_retry_async_finish(&ending.op, ending.generation, 5, NULL));
    has_ended(&ending, 5, 5);
}

static void the_code_outlives_the_wait_after_it(void **state)
{
    struct ending ending;

    (void)state;
    ending_init(&ending);
    ending.options.timeout_ms = 1000;
    assert_int_equal(start(&ending), 0);
    assert_true(daruma_retry_async_finish(&ending.op, ending.generation, 5, &seven));
    ending.fake.now_ms += 2000; /* the loop was late, and the next attempt is not let in */
    has_ended(&ending, 5, 7);
    assert_int_equal(ending.calls, 1);
}

/* The breaker knows an attempt by its ticket, which is kept where the code is at other times. */
static void a_breaker_opens_and_closes_as_attempts_end(void **state)
{
    struct daruma_breaker breaker;
    struct ending ending;

    (void)state;
    assert_int_equal(daruma_breaker_init(&breaker, NULL, NULL), 0);
    for (int i = 0; i < 1000 && daruma_breaker_state(&breaker) == DARUMA_BREAKER_CLOSED; i++) {
        ending_init(&ending);
        ending.options.breaker = &breaker;
        ending.options.max_retries = DARUMA_NO_RETRIES;
        assert_int_equal(start(&ending), 0);
        assert_true(daruma_retry_async_finish(&ending.op, ending.generation, -1, &seven));
        has_ended(&ending, -1, 7);
    }
    assert_int_equal(daruma_breaker_state(&breaker), DARUMA_BREAKER_IS_OPEN);
    ending_init(&ending);
    ending.options.breaker = &breaker;
    assert_int_equal(start(&ending), 0);
    has_ended(&ending, DARUMA_BREAKER_OPEN, DARUMA_BREAKER_OPEN);
    int64_t wait_ms = ending.error.retry_after_ms;
    ending_init(&ending);
    ending.options.breaker = &breaker;
    ending.fake.now_ms += wait_ms;
    assert_int_equal(start(&ending), 0);
    assert_int_equal(ending.calls, 1); /* the probe */
    assert_true(daruma_retry_async_finish(&ending.op, ending.generation, 0, NULL));
    has_ended(&ending, 0, 0);
    assert_int_equal(daruma_breaker_state(&breaker), DARUMA_BREAKER_CLOSED);
}

static void a_second_start_is_refused_with_words(void **state)
{
    struct ending ending;

    (void)state;
    ending_init(&ending);
    assert_int_equal(start(&ending), 0);
    assert_int_equal(start(&ending), DARUMA_INVALID);
    assert_string_equal(ending.op.error.message, "op: is under way");
    assert_true(daruma_retry_async_finish(&ending.op, ending.generation, 5, &seven));
    assert_int_equal(start(&ending), DARUMA_INVALID);
    assert_string_equal(ending.op.error.message, "seven"); /* what the operation has to tell */
    assert_true(daruma_retry_async_cancel(&ending.op));
    has_ended(&ending, DARUMA_CANCELLED, DARUMA_CANCELLED);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_code_of_the_end_is_that_of_the_last_finish),
        cmocka_unit_test(an_error_without_a_code_has_that_of_the_finish),
        cmocka_unit_test(the_code_outlives_the_wait_after_it),
        cmocka_unit_test(a_breaker_opens_and_closes_as_attempts_end),
        cmocka_unit_test(a_second_start_is_refused_with_words),
    };
    return HARNESS_RUN(argc, argv, tests);
}
