/* SPDX-License-Identifier: MIT
 *
 * store_contract_queues -- the contract suite: a queue takes tasks or is dropped. Which of two comes
 * first is decided by the store, so what was acknowledged is never in a queue that is gone.
 */
#include "store_contract_internal.h"

#include <stdio.h>

static uint32_t make_queue(struct contract *contract, const char *name)
{
    struct op op = {.kind = OP_QUEUE, .queue.name = span_of(name)};

    assert_int_equal(contract_apply(contract, &op), RESULT_DONE);
    return op.queue.number;
}

static struct op drop_op(uint32_t number)
{
    return (struct op){.kind = OP_QUEUE,
                       .queue = {.number = number, .name = SPAN("q"), .dropped = true}};
}

static struct op drop_if_empty(uint32_t number)
{
    struct op op = drop_op(number);

    op.only_if_empty = true;
    return op;
}

static struct op record_in(struct contract *contract, uint32_t queue, const char *key)
{
    struct op op = contract_record(contract, key);

    op.task.queue = queue;
    return op;
}

static enum op_result apply_copy(struct contract *contract, struct op op)
{
    return contract_apply(contract, &op);
}

static enum op_result record_into(struct contract *contract, uint32_t queue, const char *key)
{
    return apply_copy(contract, record_in(contract, queue, key));
}

static void a_queue_that_is_dropped_takes_no_task(void **state)
{
    struct contract contract = contract_begin(state);
    uint32_t other = make_queue(&contract, "other"), queue = make_queue(&contract, "q");
    struct op plain = record_in(&contract, queue, ""), keyed = record_in(&contract, queue, "key");
    struct op imported = record_in(&contract, queue, "imported");

    imported.kind = OP_IMPORT;
    assert_int_equal(apply_copy(&contract, drop_op(queue)), RESULT_DONE);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(apply_copy(&contract, plain), RESULT_NO_QUEUE);
        assert_int_equal(apply_copy(&contract, keyed), RESULT_NO_QUEUE);
        assert_int_equal(apply_copy(&contract, imported), RESULT_NO_QUEUE);
        assert_false(contract_has(&contract, plain.task.id));
        assert_false(contract_has(&contract, keyed.task.id));
        assert_false(contract_has(&contract, imported.task.id));
        contract_reopen(&contract);
    }
    struct op find = record_in(&contract, queue, "key"); /* the key is nobody's */
    find.kind = OP_FIND;
    assert_int_equal(contract_apply(&contract, &find), RESULT_MISSING);
    assert_int_equal(record_into(&contract, other, "key"), RESULT_DONE);
    contract_end(&contract);
}

/* A batch goes on without the record that came too late. */
static void what_came_too_late_for_its_queue_does_not_stop_the_rest_of_its_batch(void **state)
{
    struct contract contract = contract_begin(state);
    uint32_t queue = make_queue(&contract, "q"), other = make_queue(&contract, "other");
    struct op ops[] = {record_in(&contract, other, "a"), record_in(&contract, queue, "b"),
                       record_in(&contract, other, "c"), record_in(&contract, queue, "")};

    assert_int_equal(apply_copy(&contract, drop_op(queue)), RESULT_DONE);
    contract_apply_all(&contract, ops, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(ops[i].result, i % 2 == 0 ? RESULT_DONE : RESULT_NO_QUEUE);
        assert_int_equal(contract_has(&contract, ops[i].task.id), i % 2 == 0);
    }
    contract_end(&contract);
}

/* The end of the task matters more than who is told of it. */
static void a_settle_is_done_though_what_it_spawns_has_no_queue(void **state)
{
    struct contract contract = contract_begin(state);
    uint32_t queue = make_queue(&contract, "q");
    struct op task = contract_apply_record(&contract, "key");
    struct op lease = contract_apply_lease(&contract, task.task.id);
    struct op settle = contract_settle(task.task.id, &lease.life, TASK_SUCCEEDED);
    struct op told = record_in(&contract, queue, "told");

    assert_int_equal(apply_copy(&contract, drop_op(queue)), RESULT_DONE);
    settle.spawn = &told;
    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    assert_int_equal(told.result, RESULT_NO_QUEUE);
    assert_false(contract_has(&contract, told.task.id));
    contract_expect_state(&contract, task.task.id, TASK_SUCCEEDED);
    contract_end(&contract);
}

static void a_letter_is_not_redriven_into_a_queue_that_is_dropped(void **state)
{
    struct contract contract = contract_begin(state);
    uint32_t queue = make_queue(&contract, "q");
    struct op dead = record_in(&contract, queue, "key");

    dead.life.state = TASK_DEAD;
    dead.life.flags = LIFE_LETTER;
    assert_int_equal(contract_apply(&contract, &dead), RESULT_DONE);
    assert_int_equal(apply_copy(&contract, drop_if_empty(queue)), RESULT_DONE);
    assert_int_equal(apply_copy(&contract, contract_op(OP_REDRIVE, dead.task.id)), RESULT_NO_QUEUE);
    contract_expect_state(&contract, dead.task.id, TASK_DEAD);
    assert_int_equal(apply_copy(&contract, contract_op(OP_PURGE, dead.task.id)), RESULT_DONE);
    contract_end(&contract);
}

static void a_redriven_letter_keeps_its_queue(void **state)
{
    struct contract contract = contract_begin(state);
    uint32_t queue = make_queue(&contract, "q");
    struct op dead = record_in(&contract, queue, "key");

    dead.life.state = TASK_DEAD;
    dead.life.flags = LIFE_LETTER;
    assert_int_equal(contract_apply(&contract, &dead), RESULT_DONE);
    assert_int_equal(apply_copy(&contract, contract_op(OP_REDRIVE, dead.task.id)), RESULT_DONE);
    assert_int_equal(apply_copy(&contract, drop_if_empty(queue)), RESULT_NOT_EMPTY);
    contract_end(&contract);
}

static void a_queue_is_dropped_only_if_nothing_waits_runs_or_is_in_doubt(void **state)
{
    struct contract contract = contract_begin(state);

    for (int found = 0; found < TASK_STATE_COUNT; found++) {
        uint32_t queue = make_queue(&contract, "q");
        struct op op = record_in(&contract, queue, "");
        bool is_open = found == TASK_WAITING || found == TASK_RUNNING || found == TASK_UNSETTLED;
        op.life.state = (enum task_state)found;
        assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
        assert_int_equal(apply_copy(&contract, drop_if_empty(queue)),
                         is_open ? RESULT_NOT_EMPTY : RESULT_DONE);
        assert_int_equal(record_into(&contract, queue, ""),
                         is_open ? RESULT_DONE : RESULT_NO_QUEUE);
        if (is_open) { /* by force */
            assert_int_equal(apply_copy(&contract, drop_op(queue)), RESULT_DONE);
            assert_int_equal(record_into(&contract, queue, ""), RESULT_NO_QUEUE);
        }
        assert_true(contract_has(&contract, op.task.id)); /* whoever drops it purges them */
    }
    contract_end(&contract);
}

static void a_queue_that_is_dropped_stays_dropped_and_its_name_is_free(void **state)
{
    struct contract contract = contract_begin(state);
    uint32_t queue = make_queue(&contract, "q");
    struct op pause = {.kind = OP_QUEUE,
                       .queue = {.number = queue, .name = SPAN("q"), .paused = true}};

    assert_int_equal(apply_copy(&contract, drop_if_empty(queue)), RESULT_DONE);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(apply_copy(&contract, pause), RESULT_MISSING);
        assert_int_equal(apply_copy(&contract, drop_op(queue)), RESULT_MISSING);
        assert_int_equal(record_into(&contract, queue, ""), RESULT_NO_QUEUE);
        contract_reopen(&contract);
    }
    uint32_t again = make_queue(&contract, "q");
    assert_int_not_equal(again, queue);
    assert_int_equal(record_into(&contract, again, "key"), RESULT_DONE);
    assert_int_equal(record_into(&contract, queue, "key"), RESULT_NO_QUEUE);
    contract_end(&contract);
}

struct kept_row {
    bool paused;
    char settings[16];
};

static int keep_last(void *user, const struct queue_row *row)
{
    struct kept_row *kept = user;

    kept->paused = row->paused;
    (void)snprintf(kept->settings, sizeof kept->settings, "%.*s", SPAN_ARGS(row->settings));
    return 0;
}

static void expect_row(struct contract *contract, bool paused, const char *settings)
{
    struct kept_row kept = {0};

    for (int round = 0; round < 2; round++) {
        assert_int_equal(store_queues(contract->store, keep_last, &kept, NULL), 0);
        assert_int_equal(kept.paused, paused);
        assert_string_equal(kept.settings, settings);
        contract_reopen(contract);
    }
}

/* Each of two nodes changes a queue that it knows as it was before the other one's change. */
static void a_change_of_a_queue_leaves_what_it_is_not_about(void **state)
{
    struct contract contract = contract_begin(state);
    struct op made = {.kind = OP_QUEUE,
                      .keeps = QUEUE_KEEPS_PAUSED | QUEUE_KEEPS_SETTINGS,
                      .queue = {.name = SPAN("q"), .settings = SPAN("{}"), .paused = true}};

    assert_int_equal(contract_apply(&contract, &made), RESULT_DONE); /* there is nothing to keep */
    expect_row(&contract, true, "{}");
    for (int by_name = 0; by_name < 2; by_name++) {
        struct op put = {.kind = OP_QUEUE, .keeps = QUEUE_KEEPS_PAUSED, .queue = made.queue};
        put.queue.number = by_name ? 0 : made.queue.number;
        put.queue.settings = by_name ? SPAN("[2]") : SPAN("[1]");
        put.queue.paused = by_name != 0;
        struct op pause = {.kind = OP_QUEUE, .keeps = QUEUE_KEEPS_SETTINGS, .queue = made.queue};
        pause.queue.paused = by_name != 0;
        assert_int_equal(contract_apply(&contract, &put), RESULT_DONE);
        assert_int_equal(put.queue.number, made.queue.number);
        assert_int_equal(put.queue.paused, !by_name); /* as it is, not as it was thought to be */
        expect_row(&contract, !by_name, by_name ? "[2]" : "[1]");
        assert_int_equal(contract_apply(&contract, &pause), RESULT_DONE);
        assert_int_equal(pause.queue.paused, by_name);
        expect_row(&contract, by_name, by_name ? "[2]" : "[1]");
    }
    contract_end(&contract);
}

static void within_a_batch_the_first_decides(void **state)
{
    struct contract contract = contract_begin(state);

    if (contract.subject->groups) { /* then the committer gives it a drop alone */
        contract_end(&contract);
        return;
    }
    uint32_t one = make_queue(&contract, "one"), two = make_queue(&contract, "two");
    struct op ops[] = {record_in(&contract, one, ""), drop_if_empty(one), drop_if_empty(two),
                       record_in(&contract, two, "")};
    contract_apply_all(&contract, ops, 4);
    assert_int_equal(ops[0].result, RESULT_DONE);
    assert_int_equal(ops[1].result, RESULT_NOT_EMPTY);
    assert_int_equal(ops[2].result, RESULT_DONE);
    assert_int_equal(ops[3].result, RESULT_NO_QUEUE);
    contract_end(&contract);
}

/* I7: a batch that failed has dropped nothing. */
static void a_drop_whose_batch_failed_leaves_the_queue_as_it_was(void **state)
{
    struct contract contract = contract_begin(state);

    if (contract.subject->groups) {
        contract_end(&contract);
        return;
    }
    uint32_t queue = make_queue(&contract, "q"), other = make_queue(&contract, "other");
    struct op there = record_in(&contract, other, "");
    assert_int_equal(contract_apply(&contract, &there), RESULT_DONE);
    struct op drop = drop_if_empty(queue), taken = there, *list[] = {&drop, &taken};
    assert_int_not_equal(store_apply(contract.store, list, 2, NULL), 0); /* its row is taken */
    assert_int_equal(record_into(&contract, queue, ""), RESULT_DONE);
    assert_int_equal(apply_copy(&contract, drop_if_empty(queue)), RESULT_NOT_EMPTY);
    contract_end(&contract);
}

size_t contract_tests_queues(struct CMUnitTest *ret_tests)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_that_is_dropped_takes_no_task),
        cmocka_unit_test(what_came_too_late_for_its_queue_does_not_stop_the_rest_of_its_batch),
        cmocka_unit_test(a_settle_is_done_though_what_it_spawns_has_no_queue),
        cmocka_unit_test(a_letter_is_not_redriven_into_a_queue_that_is_dropped),
        cmocka_unit_test(a_redriven_letter_keeps_its_queue),
        cmocka_unit_test(a_queue_is_dropped_only_if_nothing_waits_runs_or_is_in_doubt),
        cmocka_unit_test(a_queue_that_is_dropped_stays_dropped_and_its_name_is_free),
        cmocka_unit_test(a_change_of_a_queue_leaves_what_it_is_not_about),
        cmocka_unit_test(within_a_batch_the_first_decides),
        cmocka_unit_test(a_drop_whose_batch_failed_leaves_the_queue_as_it_was),
    };

    return CONTRACT_COPY(ret_tests, tests);
}
