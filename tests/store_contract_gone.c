/* SPDX-License-Identifier: MIT
 *
 * store_contract_gone -- the contract suite: keys of the gateway, which are known for a while after
 * what they came to is forgotten. engineering 1.8, A2.4.
 */
#include "store_contract_internal.h"

#define KEPT_UNTIL_MS (CONTRACT_NOW_MS + 500)

/* A request of the gateway that has ended, with all that can be beside it. */
static struct op ended(struct contract *contract, const char *key)
{
    const struct trail_row trail = {
        .attempt = 1, .target = SPAN("t"), .error_class = -1, .message = SPAN("m")};
    const struct answer answer = {
        .status = 201, .headers = SPAN("A: b\n"), .body = SPAN("said"), .settled_by = SPAN("t")};
    struct op record = contract_record(contract, key);

    record.task.scope = SPAN("scope");
    record.life.flags |= LIFE_ROUTE;
    assert_int_equal(contract_apply(contract, &record), RESULT_DONE);
    struct op lease = contract_apply_lease(contract, record.task.id);
    struct op settle = contract_settle(record.task.id, &lease.life, TASK_SUCCEEDED);
    settle.life.keep_until_ms = KEPT_UNTIL_MS;
    settle.trail = &trail;
    settle.trail_count = 1;
    settle.answer = &answer;
    assert_int_equal(contract_apply(contract, &settle), RESULT_DONE);
    return record;
}

static enum op_result record_at(struct contract *contract, const char *key, int64_t now_ms,
                                struct op *ret_op)
{
    struct op op = contract_record(contract, key);

    op.task.scope = SPAN("scope");
    op.life.flags |= LIFE_ROUTE;
    op.now_ms = now_ms;
    enum op_result result = contract_apply(contract, &op);
    *ret_op = op;
    return result;
}

static void bury(struct contract *contract, struct task_id id)
{
    struct op op = contract_op(OP_BURY, id);

    op.life.keep_until_ms = KEPT_UNTIL_MS;
    assert_int_equal(contract_apply(contract, &op), RESULT_DONE);
    assert_int_equal(op.life.state, TASK_GONE);
    assert_int_equal(op.was_state, TASK_SUCCEEDED);
}

static void a_key_past_its_time_is_gone_not_free(void **state)
{
    struct contract contract = contract_begin(state);
    struct op first = ended(&contract, "k"), op;

    for (int round = 0; round < 2; round++) { /* buried or not makes no difference */
        if (round == 0) {
            assert_int_equal(record_at(&contract, "k", KEPT_UNTIL_MS - 1, &op), RESULT_DUPLICATE);
        }
        assert_int_equal(record_at(&contract, "k", KEPT_UNTIL_MS, &op), RESULT_GONE);
        assert_int_equal(op.task.id.row, first.task.id.row);
        op = contract_record(&contract, "k");
        op.task.scope = SPAN("scope");
        op.task.fingerprint[0] ^= 1;
        op.now_ms = KEPT_UNTIL_MS;
        assert_int_equal(contract_apply(&contract, &op), RESULT_CONFLICT); /* beats being gone */
        assert_int_equal(record_at(&contract, "k", KEPT_UNTIL_MS + CONTRACT_TOMBSTONES_MS - 1, &op),
                         RESULT_GONE);
        if (round == 0) {
            bury(&contract, first.task.id);
            contract_reopen(&contract);
        }
    }
    assert_int_equal(record_at(&contract, "k", KEPT_UNTIL_MS + CONTRACT_TOMBSTONES_MS, &op),
                     RESULT_DONE);
    contract_end(&contract);
}

static void what_is_buried_keeps_its_key_and_nothing_else(void **state)
{
    struct contract contract = contract_begin(state);
    struct op first = ended(&contract, "k");

    bury(&contract, first.task.id);
    for (int round = 0; round < 2; round++) {
        struct record record = contract_read(&contract, first.task.id);
        contract_expect_span(record.task.key, SPAN("k"));
        contract_expect_span(record.task.scope, SPAN("scope"));
        assert_memory_equal(record.task.fingerprint, first.task.fingerprint,
                            TASK_FINGERPRINT_BYTES);
        assert_int_equal(record.life.state, TASK_GONE);
        assert_true(record.is_bound);
        assert_int_equal(record.answer.status, 0);
        assert_int_equal(record.trail_count, 0);
        assert_int_equal(record.task.body.len + record.task.headers.len + record.task.target.len,
                         0);
        contract_reopen(&contract);
    }
    struct op purge = contract_op(OP_PURGE, first.task.id);
    assert_int_equal(contract_apply(&contract, &purge), RESULT_DONE);
    assert_false(contract_has(&contract, first.task.id));
    struct op again = contract_apply_record(&contract, "k");
    (void)again; /* the key is free */
    contract_end(&contract);
}

static void only_what_has_ended_is_buried(void **state)
{
    static const enum task_state open[] = {TASK_WAITING, TASK_RUNNING, TASK_UNSETTLED, TASK_DEAD};
    struct contract contract = contract_begin(state);

    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        struct op record = contract_record(&contract, "");
        record.life.state = open[i];
        assert_int_equal(contract_apply(&contract, &record), RESULT_DONE);
        struct op op = contract_op(OP_BURY, record.task.id);
        assert_int_equal(contract_apply(&contract, &op), RESULT_NOT_WAITING);
        contract_expect_state(&contract, record.task.id, open[i]);
    }
    contract_end(&contract);
}

static void a_route_can_have_its_keys_back_at_once(void **state) /* A2.4 */
{
    struct contract contract = contract_begin(state);
    struct op first = ended(&contract, "k"), op = contract_record(&contract, "k");

    op.task.scope = SPAN("scope");
    op.life.flags |= LIFE_ROUTE;
    op.reruns = true;
    op.now_ms = KEPT_UNTIL_MS - 1;
    assert_int_equal(contract_apply(&contract, &op), RESULT_DUPLICATE);
    op = contract_record(&contract, "k");
    op.task.scope = SPAN("scope");
    op.reruns = true;
    op.now_ms = KEPT_UNTIL_MS;
    assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
    assert_false(contract_read(&contract, first.task.id).is_bound);
    assert_true(contract_read(&contract, op.task.id).is_bound);
    contract_end(&contract);
}

size_t contract_tests_gone(struct CMUnitTest *ret_tests)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_past_its_time_is_gone_not_free),
        cmocka_unit_test(what_is_buried_keeps_its_key_and_nothing_else),
        cmocka_unit_test(only_what_has_ended_is_buried),
        cmocka_unit_test(a_route_can_have_its_keys_back_at_once),
    };

    return CONTRACT_COPY(ret_tests, tests);
}
