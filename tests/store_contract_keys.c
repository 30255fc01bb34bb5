/* SPDX-License-Identifier: MIT
 *
 * store_contract_keys -- the contract suite: what a key is bound to, and for how long (I3).
 */
#include "store_contract_internal.h"

#include <stdio.h>

#define KEYS 600

/* I3 */
static void the_same_request_under_the_same_key_is_a_duplicate(void **state)
{
    struct contract contract = contract_begin(state);
    struct op first = contract_apply_record(&contract, "key");
    struct op lease = contract_apply_lease(&contract, first.task.id);

    for (int i = 0; i < 2; i++) {
        struct op second = contract_record(&contract, "key");
        struct task_id unused = second.task.id;
        assert_int_equal(contract_apply(&contract, &second), RESULT_DUPLICATE);
        assert_int_equal(second.task.id.row, first.task.id.row);
        assert_int_equal(second.task.id.tail, first.task.id.tail);
        contract_expect_life(&second.life, &lease.life);
        assert_false(contract_has(&contract, unused));
        contract_reopen(&contract);
    }
    contract_end(&contract);
}

/* I3 */
static void another_request_under_the_same_key_is_a_conflict(void **state)
{
    struct contract contract = contract_begin(state);
    struct op first = contract_apply_record(&contract, "key");

    for (int i = 0; i < 2; i++) {
        struct op second = contract_record(&contract, "key");
        struct task_id unused = second.task.id;
        second.task.fingerprint[TASK_FINGERPRINT_BYTES - 1] ^= 1;
        second.task.body = SPAN("something else");
        assert_int_equal(contract_apply(&contract, &second), RESULT_CONFLICT);
        assert_int_equal(second.task.id.row, first.task.id.row);
        assert_false(contract_has(&contract, unused));
        struct record record = contract_read(&contract, first.task.id);
        contract_expect_task(&record.task, &first.task);
        contract_expect_life(&record.life, &first.life);
        contract_reopen(&contract);
    }
    contract_end(&contract);
}

static void a_key_is_found_without_changing_anything(void **state)
{
    struct contract contract = contract_begin(state);
    struct op first = contract_apply_record(&contract, "key");
    struct op lease = contract_apply_lease(&contract, first.task.id);

    contract_apply_record(&contract, "another");
    for (int i = 0; i < 2; i++) {
        struct op find = contract_record(&contract, "key");
        struct task_id unused = find.task.id;
        find.kind = OP_FIND;
        find.task.fingerprint[0] ^= 1; /* is not looked at */
        assert_int_equal(contract_apply(&contract, &find), RESULT_DUPLICATE);
        assert_int_equal(find.task.id.row, first.task.id.row);
        assert_int_equal(find.task.id.tail, first.task.id.tail);
        contract_expect_life(&find.life, &lease.life);
        assert_false(contract_has(&contract, unused));
        find = contract_record(&contract, "nobody's");
        find.kind = OP_FIND;
        assert_int_equal(contract_apply(&contract, &find), RESULT_MISSING);
        assert_int_equal(contract_apply_record(&contract, "nobody's").result, RESULT_DONE);
        contract_open_new(&contract);
        first = contract_apply_record(&contract, "key");
        lease = contract_apply_lease(&contract, first.task.id);
    }
    contract_end(&contract);
}

static void a_key_belongs_to_its_queue_and_scope(void **state)
{
    struct contract contract = contract_begin(state);
    static const struct {
        uint32_t queue;
        const char *scope, *key;
    } different[] = {{1, "a", "bc"},  {2, "a", "bc"}, {1, "ab", "c"}, {1, "", "abc"},
                     {1, "abc", "x"}, {1, "a", "BC"}, {1, "a", "bc "}};

    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof different / sizeof *different; i++) {
            struct op op = contract_record(&contract, different[i].key);
            op.task.queue = different[i].queue;
            op.task.scope = span_of(different[i].scope);
            assert_int_equal(contract_apply(&contract, &op),
                             round == 0 ? RESULT_DONE : RESULT_DUPLICATE);
        }
    }
    contract_end(&contract);
}

static void without_a_key_nothing_is_a_duplicate(void **state)
{
    struct contract contract = contract_begin(state);

    (void)contract_apply_record(&contract, "");
    (void)contract_apply_record(&contract, "");
    contract_reopen(&contract);
    (void)contract_apply_record(&contract, "");
    contract_end(&contract);
}

/* A2.4: to the millisecond, by the operation's own time. */
static void a_key_is_kept_to_the_millisecond(void **state)
{
    static const struct {
        enum task_state state;
        int64_t keep_ms;
    } ends[] = {{TASK_SUCCEEDED, CONTRACT_KEEP_MS},
                {TASK_FAILED, 2 * CONTRACT_KEEP_MS},
                {TASK_CANCELLED, 3 * CONTRACT_KEEP_MS}};
    struct contract contract = contract_begin(state);

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char key[2] = {(char)('a' + i), '\0'};
        struct op old = contract_record(&contract, key);
        old.life.state = ends[i].state;
        old.life.settled_at_ms = CONTRACT_NOW_MS;
        assert_int_equal(contract_apply(&contract, &old), RESULT_DONE);

        struct op early = contract_record(&contract, key);
        early.now_ms = CONTRACT_NOW_MS + ends[i].keep_ms - 1;
        assert_int_equal(contract_apply(&contract, &early), RESULT_DUPLICATE);
        struct op after = contract_record(&contract, key);
        after.now_ms = CONTRACT_NOW_MS + ends[i].keep_ms;
        assert_int_equal(contract_apply(&contract, &after), RESULT_DONE);

        contract_reopen(&contract); /* bound to the new one, and only to it */
        struct op again = contract_record(&contract, key);
        again.now_ms = after.now_ms;
        assert_int_equal(contract_apply(&contract, &again), RESULT_DUPLICATE);
        assert_int_equal(again.task.id.row, after.task.id.row);
        assert_true(contract_has(&contract, old.task.id));
    }
    contract_end(&contract);
}

static void what_has_not_ended_keeps_its_key(void **state)
{
    static const enum task_state open[] = {TASK_WAITING, TASK_RUNNING, TASK_UNSETTLED, TASK_DEAD};
    struct contract contract = contract_begin(state);

    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        char key[2] = {(char)('a' + i), '\0'};
        struct op op = contract_record(&contract, key);
        op.life.state = open[i];
        op.life.settled_at_ms = 1;
        assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
        struct op later = contract_record(&contract, key);
        later.now_ms = CONTRACT_NOW_MS + 1000 * CONTRACT_HOUR_MS;
        assert_int_equal(contract_apply(&contract, &later), RESULT_DUPLICATE);
    }
    contract_end(&contract);
}

static void a_purge_frees_the_key(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "key");
    struct op purge = contract_op(OP_PURGE, op.task.id);

    assert_int_equal(contract_apply(&contract, &purge), RESULT_DONE);
    struct op next = contract_apply_record(&contract, "key");
    purge = contract_op(OP_PURGE, next.task.id);
    assert_int_equal(contract_apply(&contract, &purge), RESULT_DONE);
    contract_reopen(&contract);
    (void)contract_apply_record(&contract, "key");
    contract_end(&contract);
}

static void purging_an_old_holder_leaves_the_key_to_the_new_one(void **state)
{
    struct contract contract = contract_begin(state);
    struct op old = contract_apply_record(&contract, "key");
    contract_end_task(&contract, old.task.id, TASK_SUCCEEDED);
    struct op new = contract_record(&contract, "key");
    new.now_ms = CONTRACT_NOW_MS + CONTRACT_KEEP_MS;
    assert_int_equal(contract_apply(&contract, &new), RESULT_DONE);

    struct op purge = contract_op(OP_PURGE, old.task.id);
    assert_int_equal(contract_apply(&contract, &purge), RESULT_DONE);
    for (int i = 0; i < 2; i++) {
        struct op again = contract_record(&contract, "key");
        assert_int_equal(contract_apply(&contract, &again), RESULT_DUPLICATE);
        assert_int_equal(again.task.id.row, new.task.id.row);
        contract_reopen(&contract);
    }
    contract_end(&contract);
}

/* Clocks differ: a key is judged by the time of the operation, so it can come back. */
static void a_key_that_was_taken_over_stays_with_its_new_task(void **state)
{
    struct contract contract = contract_begin(state);
    struct op old = contract_apply_record(&contract, "key");
    contract_end_task(&contract, old.task.id, TASK_SUCCEEDED);
    struct op new = contract_record(&contract, "key");
    new.now_ms = CONTRACT_NOW_MS + CONTRACT_KEEP_MS;
    assert_int_equal(contract_apply(&contract, &new), RESULT_DONE);

    struct op back = contract_record(&contract, "key"); /* the clock was set back */
    assert_int_equal(contract_apply(&contract, &back), RESULT_DUPLICATE);
    assert_int_equal(back.task.id.row, new.task.id.row);
    contract_end(&contract);
}

/* I8 */
static void every_key_is_found_again_after_a_restart(void **state)
{
    struct contract contract = contract_begin(state);
    static struct op ops[KEYS];
    static char keys[KEYS][16];

    for (size_t i = 0; i < KEYS; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "key-%zu", i);
        ops[i] = contract_record(&contract, keys[i]);
    }
    contract_apply_all(&contract, ops, KEYS);
    contract_reopen(&contract);
    for (size_t i = 0; i < KEYS; i++) {
        int64_t row = ops[i].task.id.row;
        ops[i] = contract_record(&contract, keys[i]);
        ops[i].user = (void *)(intptr_t)row;
    }
    contract_apply_all(&contract, ops, KEYS);
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(ops[i].result, RESULT_DUPLICATE);
        assert_int_equal(ops[i].task.id.row, (intptr_t)ops[i].user);
    }
    contract_end(&contract);
}

static int stop_at_once(void *user, const struct brief *brief)
{
    (void)user;
    (void)brief;
    return FAULT_LIMIT;
}

static int go_on(void *user, const struct brief *brief)
{
    (void)brief;
    ++*(size_t *)user;
    return 0;
}

/* I3, I8: whatever a start does in which order, and how far it comes. */
static void keys_are_found_before_after_and_in_spite_of_a_scan(void **state)
{
    struct contract contract = contract_begin(state);
    struct op first = contract_apply_record(&contract, "a");
    struct op second = contract_apply_record(&contract, "b");

    for (int way = 0; way < 4; way++) {
        size_t seen = 0;
        contract_reopen(&contract);
        if (way == 1 || way == 2) {
            assert_int_equal(store_scan(contract.store, stop_at_once, NULL, NULL), FAULT_LIMIT);
        }
        if (way >= 2) {
            assert_int_equal(store_scan(contract.store, go_on, &seen, NULL), 0);
            assert_int_equal(seen, 2);
        }
        for (int i = 0; i < 2; i++) {
            struct op op = contract_record(&contract, i == 0 ? "a" : "b");
            assert_int_equal(contract_apply(&contract, &op), RESULT_DUPLICATE);
            assert_int_equal(op.task.id.row, (i == 0 ? first : second).task.id.row);
        }
        assert_int_equal(store_scan(contract.store, go_on, &seen, NULL), 0);
    }
    struct op purge = contract_op(OP_PURGE, first.task.id);
    assert_int_equal(contract_apply(&contract, &purge), RESULT_DONE);
    struct op again = contract_record(&contract, "a"); /* bound once, so free after one purge */
    assert_int_equal(contract_apply(&contract, &again), RESULT_DONE);
    contract_end(&contract);
}

size_t contract_tests_keys(struct CMUnitTest *ret_tests)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_request_under_the_same_key_is_a_duplicate),
        cmocka_unit_test(another_request_under_the_same_key_is_a_conflict),
        cmocka_unit_test(a_key_is_found_without_changing_anything),
        cmocka_unit_test(a_key_belongs_to_its_queue_and_scope),
        cmocka_unit_test(without_a_key_nothing_is_a_duplicate),
        cmocka_unit_test(a_key_is_kept_to_the_millisecond),
        cmocka_unit_test(what_has_not_ended_keeps_its_key),
        cmocka_unit_test(a_purge_frees_the_key),
        cmocka_unit_test(purging_an_old_holder_leaves_the_key_to_the_new_one),
        cmocka_unit_test(a_key_that_was_taken_over_stays_with_its_new_task),
        cmocka_unit_test(every_key_is_found_again_after_a_restart),
        cmocka_unit_test(keys_are_found_before_after_and_in_spite_of_a_scan),
    };
    return CONTRACT_COPY(ret_tests, tests);
}
