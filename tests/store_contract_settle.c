/* SPDX-License-Identifier: MIT
 *
 * store_contract_settle -- the contract suite: who may settle, what it writes, answers and trails.
 */
#include "store_contract_internal.h"

#define ATTEMPTS 5

/* I2 */
static void settling_writes_the_life_but_not_its_counts(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_record(&contract, "key");
    op.life.round = 3;
    assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
    struct op lease = contract_apply_lease(&contract, op.task.id);

    struct op settle = contract_settle(op.task.id, &lease.life, TASK_WAITING);
    settle.life.due_at_ms = CONTRACT_NOW_MS + 5 * CONTRACT_HOUR_MS;
    settle.life.deadline_at_ms = 77;
    settle.life.class_attempts[DARUMA_CLASS_QUOTA] = 9;
    settle.life.previous_ms = 88;
    settle.life.wait_ms = 99;
    settle.life.flags = LIFE_SENT | LIFE_ANSWERED;
    struct life wanted = settle.life;
    settle.life.epoch = 1000; /* these five are not the caller's to change */
    settle.life.attempts = 1001;
    settle.life.attempts_all = 1002;
    settle.life.round = 1003;
    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, op.task.id);
    contract_expect_life(&record.life, &wanted);
    contract_end(&contract);
}

/* I2 */
static void a_stale_settle_changes_nothing(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "key");
    struct answer answer = {.status = 500, .body = SPAN("wrong")};
    struct trail_row trail = {.attempt = 1};
    struct op lease = contract_apply_lease(&contract, op.task.id);

    for (int i = -1; i <= 1; i += 2) {
        struct op stale = contract_settle(op.task.id, &lease.life, TASK_FAILED);
        stale.life.fence += (uint64_t)i;
        stale.answer = &answer;
        stale.trail = &trail;
        stale.trail_count = 1;
        assert_int_equal(contract_apply(&contract, &stale), RESULT_STALE);
    }
    struct record record = contract_read(&contract, op.task.id);
    contract_expect_life(&record.life, &lease.life);
    assert_int_equal(record.answer.status, 0);
    assert_int_equal(record.trail_count, 0);
    contract_end(&contract);
}

/* I2, I4 */
static void what_is_settled_stays_as_it_is(void **state)
{
    static const enum task_state ends[] = {TASK_SUCCEEDED, TASK_FAILED, TASK_DEAD};
    struct contract contract = contract_begin(state);

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct op op = contract_apply_record(&contract, "");
        struct op lease = contract_apply_lease(&contract, op.task.id);
        struct op first = contract_settle(op.task.id, &lease.life, ends[i]);
        struct op second = contract_settle(op.task.id, &lease.life, TASK_WAITING);
        assert_int_equal(contract_apply(&contract, &first), RESULT_DONE);
        assert_int_equal(contract_apply(&contract, &second), RESULT_STALE);
        contract_expect_state(&contract, op.task.id, ends[i]);
    }
    contract_end(&contract);
}

/* I2 */
static void a_lost_lease_cannot_settle(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "");
    struct op old = contract_apply_lease(&contract, op.task.id);
    struct op recover = contract_settle(op.task.id, &old.life, TASK_WAITING);
    assert_int_equal(contract_apply(&contract, &recover), RESULT_DONE);

    struct op late = contract_settle(op.task.id, &old.life, TASK_SUCCEEDED);
    assert_int_equal(contract_apply(&contract, &late), RESULT_STALE); /* nobody holds it */
    struct op new = contract_apply_lease(&contract, op.task.id);
    assert_true(new.life.fence > old.life.fence);
    assert_int_equal(contract_apply(&contract, &late), RESULT_STALE); /* somebody else does */
    struct op settle = contract_settle(op.task.id, &new.life, TASK_SUCCEEDED);
    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    contract_end(&contract);
}

/* I2: unsettled keeps the fence of the attempt in doubt. */
static void a_late_answer_settles_what_is_in_doubt_once(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "key");
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct op doubt = contract_settle(op.task.id, &lease.life, TASK_UNSETTLED);
    struct answer answer = {.status = 201, .body = SPAN("late")};

    assert_int_equal(contract_apply(&contract, &doubt), RESULT_DONE);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, op.task.id);
    assert_int_equal(record.life.state, TASK_UNSETTLED);
    assert_int_equal(record.life.fence, lease.life.fence);
    struct op again = contract_lease(op.task.id);
    assert_int_equal(contract_apply(&contract, &again), RESULT_NOT_WAITING);

    struct op late = contract_settle(op.task.id, &lease.life, TASK_SUCCEEDED);
    struct op person = contract_settle(op.task.id, &record.life, TASK_FAILED);
    late.answer = &answer;
    assert_int_equal(contract_apply(&contract, &late), RESULT_DONE);
    assert_int_equal(contract_apply(&contract, &person), RESULT_STALE);
    record = contract_read(&contract, op.task.id);
    assert_int_equal(record.life.state, TASK_SUCCEEDED);
    contract_expect_span(record.answer.body, answer.body);
    contract_end(&contract);
}

static void settling_what_was_purged_is_missing(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "");
    struct op purge = contract_op(OP_PURGE, op.task.id);
    struct op settle = contract_settle(op.task.id, &op.life, TASK_SUCCEEDED);

    assert_int_equal(contract_apply(&contract, &purge), RESULT_DONE);
    assert_int_equal(contract_apply(&contract, &settle), RESULT_MISSING);
    contract_end(&contract);
}

/* I4 */
static void the_answer_comes_back_byte_for_byte(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "");
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct op settle = contract_settle(op.task.id, &lease.life, TASK_FAILED);
    struct answer answer = {.status = 599,
                            .headers = SPAN("x: \xff\0\x01\n"),
                            .body = SPAN("\0\0answer\xfe\r\n"),
                            .settled_by = SPAN("http://b/\xe3\x81\xa0")};
    settle.answer = &answer;

    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    for (int i = 0; i < 2; i++) {
        struct record record = contract_read(&contract, op.task.id);
        assert_int_equal(record.answer.status, answer.status);
        contract_expect_span(record.answer.headers, answer.headers);
        contract_expect_span(record.answer.body, answer.body);
        contract_expect_span(record.answer.settled_by, answer.settled_by);
        contract_reopen(&contract);
    }
    contract_end(&contract);
}

static void an_empty_answer_is_an_answer(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "");
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct op settle = contract_settle(op.task.id, &lease.life, TASK_SUCCEEDED);
    struct answer answer = {.status = 204};
    settle.answer = &answer;

    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, op.task.id);
    assert_int_equal(record.answer.status, 204);
    assert_int_equal(record.answer.body.len, 0);
    contract_end(&contract);
}

/* --- trails ---------------------------------------------------------------------------------- */

static struct trail_row trail_of(uint32_t attempt)
{
    return (struct trail_row){.attempt = attempt,
                              .target = attempt % 2 == 0 ? SPAN("http://even/\xff") : SPAN(""),
                              .started_at_ms = CONTRACT_NOW_MS + attempt,
                              .ended_at_ms = CONTRACT_NOW_MS + 10 * (int64_t)attempt,
                              .error_class = (int)attempt % DARUMA_CLASS_COUNT - 1,
                              .status = 500 + (int)attempt,
                              .sent = (enum task_sent)(attempt % 3),
                              .sends = attempt + 2,
                              .message = attempt % 2 == 1 ? SPAN("odd \0 text") : SPAN(""),
                              .wait_ms = 1000 * (int64_t)attempt};
}

/* Attempts that fail, and one that ends it: in `state`, with an answer or without. */
static void run_attempts(struct contract *contract, struct task_id id, enum task_state state,
                         const struct answer *answer)
{
    for (uint32_t i = 1; i <= ATTEMPTS; i++) {
        struct op lease = contract_apply_lease(contract, id);
        struct op settle = contract_settle(id, &lease.life, i < ATTEMPTS ? TASK_WAITING : state);
        struct trail_row trail = trail_of(i);
        settle.trail = &trail;
        settle.trail_count = 1;
        settle.answer = i < ATTEMPTS ? NULL : answer;
        assert_int_equal(contract_apply(contract, &settle), RESULT_DONE);
    }
}

static void the_trail_is_told_oldest_first(void **state)
{
    static const enum task_state ends[] = {TASK_SUCCEEDED, TASK_FAILED, TASK_DEAD, TASK_UNSETTLED};
    struct contract contract = contract_begin(state);
    struct answer answer = {.status = 200, .headers = SPAN("a: b\n"), .body = SPAN("answer")};
    struct op ops[8];

    for (size_t i = 0; i < 8; i++) {
        ops[i] = contract_apply_record(&contract, "");
        run_attempts(&contract, ops[i].task.id, ends[i / 2], i % 2 == 0 ? &answer : NULL);
    }
    contract_reopen(&contract);
    for (size_t i = 0; i < 8; i++) {
        struct record record = contract_read(&contract, ops[i].task.id);
        assert_int_equal(record.life.state, ends[i / 2]);
        assert_int_equal(record.trail_count, ATTEMPTS);
        for (uint32_t n = 0; n < ATTEMPTS; n++) {
            struct trail_row wanted = trail_of(n + 1);
            contract_expect_trail(&record.trail[n], &wanted);
        }
        assert_int_equal(record.answer.status, i % 2 == 0 ? 200 : 0);
    }
    contract_end(&contract);
}

/* An attempt stays told whatever comes after it, a second answer included. */
static void a_second_answer_does_not_cost_the_trail(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "");
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct answer answers[] = {{.status = 500, .body = SPAN("first")},
                               {.status = 201, .body = SPAN("second")}};
    enum task_state states[] = {TASK_UNSETTLED, TASK_SUCCEEDED};

    for (uint32_t i = 0; i < 2; i++) {
        struct op settle = contract_settle(op.task.id, &lease.life, states[i]);
        struct trail_row trail = trail_of(i + 1);
        settle.trail = &trail;
        settle.trail_count = 1;
        settle.answer = &answers[i];
        assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    }
    contract_reopen(&contract);
    struct record record = contract_read(&contract, op.task.id);
    assert_int_equal(record.answer.status, 201);
    contract_expect_span(record.answer.body, SPAN("second"));
    assert_int_equal(record.trail_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        struct trail_row wanted = trail_of(i + 1);
        contract_expect_trail(&record.trail[i], &wanted);
    }
    contract_end(&contract);
}

/* I2, I4: an attempt that was judged before its answer began to be handed on was judged too early. */
static void a_settle_that_does_not_know_of_a_stream_is_stale(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "");
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct op head = contract_settle(op.task.id, &lease.life, TASK_RUNNING);
    struct op doubt = contract_settle(op.task.id, &lease.life, TASK_UNSETTLED);
    struct op end = contract_settle(op.task.id, &lease.life, TASK_SUCCEEDED);
    struct answer answer = {.status = 200};

    head.life.flags |= LIFE_OMITTED;
    head.answer = &answer;
    assert_int_equal(contract_apply(&contract, &head), RESULT_DONE);
    assert_int_equal(contract_apply(&contract, &doubt), RESULT_STALE);
    contract_expect_state(&contract, op.task.id, TASK_RUNNING);
    end.life.flags |= LIFE_OMITTED;
    end.answer = &answer;
    assert_int_equal(contract_apply(&contract, &end), RESULT_DONE);
    contract_expect_state(&contract, op.task.id, TASK_SUCCEEDED);
    contract_end(&contract);
}

static void a_purge_takes_answer_and_trail_along(void **state)
{
    struct contract contract = contract_begin(state);
    struct op one = contract_apply_record(&contract, ""),
              two = contract_apply_record(&contract, "");
    struct answer answer = {.status = 200, .body = SPAN("answer")};
    run_attempts(&contract, one.task.id, TASK_FAILED, &answer);
    run_attempts(&contract, two.task.id, TASK_FAILED, &answer);

    struct op purge = contract_op(OP_PURGE, one.task.id);
    assert_int_equal(contract_apply(&contract, &purge), RESULT_DONE);
    one.result = RESULT_NONE; /* the same row again shows what would have been left behind */
    assert_int_equal(contract_apply(&contract, &one), RESULT_DONE);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, one.task.id);
    assert_int_equal(record.answer.status, 0);
    assert_int_equal(record.trail_count, 0);
    assert_int_equal(contract_read(&contract, two.task.id).trail_count, ATTEMPTS);
    contract_end(&contract);
}

size_t contract_tests_settle(struct CMUnitTest *ret_tests)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settling_writes_the_life_but_not_its_counts),
        cmocka_unit_test(a_stale_settle_changes_nothing),
        cmocka_unit_test(what_is_settled_stays_as_it_is),
        cmocka_unit_test(a_lost_lease_cannot_settle),
        cmocka_unit_test(a_late_answer_settles_what_is_in_doubt_once),
        cmocka_unit_test(settling_what_was_purged_is_missing),
        cmocka_unit_test(the_answer_comes_back_byte_for_byte),
        cmocka_unit_test(an_empty_answer_is_an_answer),
        cmocka_unit_test(the_trail_is_told_oldest_first),
        cmocka_unit_test(a_second_answer_does_not_cost_the_trail),
        cmocka_unit_test(a_settle_that_does_not_know_of_a_stream_is_stale),
        cmocka_unit_test(a_purge_takes_answer_and_trail_along),
    };
    return CONTRACT_COPY(ret_tests, tests);
}
