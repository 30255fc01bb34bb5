/* SPDX-License-Identifier: MIT
 *
 * gates: closed until the moment that was named, one probe, then a ramp.
 */
#include "harness.h"

#include "deliver/gates.h"

static void a_smaller_hint_never_shortens_a_hold(void **state)
{
    struct gate gate = {0};

    (void)state;
    assert_int_equal(gate_wait_ms(&gate, 0), 0);
    gate_hold(&gate, 0, 1000);
    gate_hold(&gate, 100, 10);
    assert_int_equal(gate_wait_ms(&gate, 100), 900);
    gate_hold(&gate, 100, 2000);
    assert_int_equal(gate_wait_ms(&gate, 100), 2000);
    gate_hold(&gate, 100, 0);
    gate_hold(&gate, 100, -5);
    assert_int_equal(gate_wait_ms(&gate, 100), 2000);
    gate_hold(&gate, 100, INT64_MAX);
    assert_true(gate_wait_ms(&gate, 100) == GATE_HOLD_MAX_MS);
}

static void one_single_call_tries_a_gate_that_opens(void **state)
{
    struct gate gate = {0};

    (void)state;
    gate_hold(&gate, 0, 1000);
    assert_int_equal(gate_wait_ms(&gate, 1000), 0);
    enum gate_pass pass = gate_enter(&gate, 1000);
    assert_int_equal(pass, GATE_PASS_PROBE);
    assert_true(gate_wait_ms(&gate, 1000) > 0);
    assert_true(gate_wait_ms(&gate, 60000) > 0); /* however long it takes */
    gate_leave(&gate, pass, GATE_FAILED, 60000); /* and says nothing about when */
    assert_int_equal(gate_wait_ms(&gate, 60000), 0);
    pass = gate_enter(&gate, 60000);
    assert_int_equal(pass, GATE_PASS_PROBE); /* the next one tries, alone again */
    gate_leave(&gate, pass, GATE_FAILED, 60100);
    gate_hold(&gate, 60100, 5000);
    assert_int_equal(gate_wait_ms(&gate, 60100), 5000);
}

static void an_answer_to_an_older_call_opens_nothing(void **state)
{
    struct gate gate = {0};
    enum gate_pass older = gate_enter(&gate, 0);

    (void)state;
    gate_hold(&gate, 0, 1000);
    gate_leave(&gate, older, GATE_ANSWERED, 10);
    assert_int_equal(gate_wait_ms(&gate, 10), 990);
}

/* Calls that take no time: how many go out in each step of the ramp. */
static void after_the_probe_calls_ramp_up(void **state)
{
    static const int expected[] = {1, 2, 4, 8, 16, 32, 64};
    struct gate gate = {0};
    int64_t now_ms = 1000;

    (void)state;
    gate_hold(&gate, 0, 1000);
    gate_leave(&gate, gate_enter(&gate, now_ms), GATE_ANSWERED, now_ms);
    for (size_t step = 0; step < sizeof expected / sizeof *expected; step++) {
        int count = 0;
        while (gate_wait_ms(&gate, now_ms) == 0 && count < 1000) {
            gate_leave(&gate, gate_enter(&gate, now_ms), GATE_ANSWERED, now_ms);
            count++;
        }
        assert_int_equal(count, expected[step]);
        assert_true(gate_wait_ms(&gate, now_ms) <= GATE_RAMP_STEP_MS);
        now_ms += GATE_RAMP_STEP_MS;
    }
    assert_int_equal(gate_wait_ms(&gate, now_ms), 0);
    assert_int_equal(gate.state, GATE_OPEN);
}

static void a_ramp_waits_for_answers_and_backs_off(void **state)
{
    struct gate gate = {0};

    (void)state;
    gate_hold(&gate, 0, 10);
    gate_leave(&gate, gate_enter(&gate, 10), GATE_ANSWERED, 10);
    enum gate_pass pass = gate_enter(&gate, 10);
    assert_int_equal(pass, GATE_PASS_RAMP);
    assert_true(gate_wait_ms(&gate, 10 + 5 * GATE_RAMP_STEP_MS) > 0); /* it is still under way */
    gate_leave(&gate, pass, GATE_ANSWERED, 2000);
    assert_int_equal(gate_wait_ms(&gate, 2000 + GATE_RAMP_STEP_MS), 0);
    assert_int_equal(gate.allowed, 2);
    pass = gate_enter(&gate, 3000);
    gate_leave(&gate, pass, GATE_FAILED, 3000);
    assert_int_equal(gate.allowed, 1);
    pass = gate_enter(&gate, 3300);
    gate_leave(&gate, pass, GATE_FAILED, 3300);
    gate_hold(&gate, 3300, 7000);
    assert_int_equal(gate_wait_ms(&gate, 3300), 7000);
}

static void a_persons_word_passes_and_its_success_opens(void **state)
{
    struct gate gate = {0};

    (void)state;
    assert_int_equal(gate_force(&gate), GATE_PASS_OPEN);
    gate_hold(&gate, 0, 100000);
    enum gate_pass pass = gate_force(&gate);
    gate_leave(&gate, pass, GATE_FAILED, 10);
    assert_int_equal(gate_wait_ms(&gate, 10), 99990);
    gate_leave(&gate, gate_force(&gate), GATE_ANSWERED, 20);
    assert_int_equal(gate.state, GATE_RAMPING);
    assert_int_equal(gate_wait_ms(&gate, 20), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_smaller_hint_never_shortens_a_hold),
        cmocka_unit_test(one_single_call_tries_a_gate_that_opens),
        cmocka_unit_test(an_answer_to_an_older_call_opens_nothing),
        cmocka_unit_test(after_the_probe_calls_ramp_up),
        cmocka_unit_test(a_ramp_waits_for_answers_and_backs_off),
        cmocka_unit_test(a_persons_word_passes_and_its_success_opens),
    };

    return HARNESS_RUN(argc, argv, tests);
}
