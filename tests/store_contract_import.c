/* SPDX-License-Identifier: MIT
 *
 * store_contract_import -- the contract suite: whole tasks from another store, and reading the newest
 * attempt without the others.
 */
#include "store_contract_internal.h"

#define TRAILS 4

/* Every field something else than its default. */
static const struct life full_life = {.state = TASK_DEAD,
                                      .due_at_ms = 1,
                                      .deadline_at_ms = 2,
                                      .settled_at_ms = 3,
                                      .fence = 4,
                                      .epoch = 5,
                                      .attempts = 6,
                                      .attempts_all = 7,
                                      .round = 8,
                                      .class_attempts = {9, 10, 11},
                                      .previous_ms = 12,
                                      .wait_ms = 13,
                                      .flags = LIFE_SENT | LIFE_LETTER | LIFE_EDITED | LIFE_ROUTE,
                                      .failed_class = 14,
                                      .failed_at_ms = INT64_C(15) << 40,
                                      .resolved_at_ms = -16,
                                      .keep_until_ms = INT64_MAX,
                                      .probe_count = UINT32_MAX,
                                      .probe_due_ms = 19};
static const struct answer full_answer = {
    .status = 500, .headers = {"a: b\n", 5}, .body = {"\0\xff", 2}, .settled_by = {"target", 6}};
static const struct edit full_edit = {
    .parts = EDIT_BODY, .round = 8, .body = {"edited", 6}, .note = {"note", 4}};
static const struct trail_row full_trail[TRAILS] = {
    {.attempt = 1, .target = {"one", 3}, .error_class = 1, .status = 503, .wait_ms = 5},
    {.attempt = 2, .message = {"cut", 3}, .error_class = 2, .sent = TASK_SENT_MAYBE, .sends = 2},
    {.attempt = 3, .started_at_ms = 7, .ended_at_ms = 8, .error_class = 3},
    {.attempt = 4, .target = {"four", 4}, .error_class = -1, .status = 200}};

static struct op import_op(struct contract *contract, const char *key)
{
    struct op op = contract_record(contract, key);

    op.kind = OP_IMPORT;
    op.life = full_life;
    op.trail = full_trail;
    op.trail_count = TRAILS;
    op.answer = &full_answer;
    op.edit = &full_edit;
    return op;
}

static void expect_whole(struct contract *contract, const struct op *op)
{
    struct record record = contract_read(contract, op->task.id);

    contract_expect_task(&record.task, &op->task);
    contract_expect_life(&record.life, &op->life);
    contract_expect_edit(&record.edit, &full_edit);
    assert_int_equal(record.answer.status, full_answer.status);
    contract_expect_span(record.answer.headers, full_answer.headers);
    contract_expect_span(record.answer.body, full_answer.body);
    contract_expect_span(record.answer.settled_by, full_answer.settled_by);
    assert_int_equal(record.trail_count, TRAILS);
    for (size_t i = 0; i < TRAILS; i++) {
        contract_expect_trail(&record.trail[i], &full_trail[i]);
    }
}

static void an_imported_task_is_the_same_in_every_part(void **state)
{
    struct contract contract = contract_begin(state);

    for (int found = 0; found < TASK_STATE_COUNT; found++) {
        struct op op = import_op(&contract, "");
        op.life.state = (enum task_state)found;
        assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
        expect_whole(&contract, &op);
        contract_reopen(&contract);
        expect_whole(&contract, &op);
        assert_true(contract.store->last_row >= op.task.id.row);
    }
    struct op bare = {.kind = OP_IMPORT, .task.id = {.row = 77, .tail = 78}};
    assert_int_equal(contract_apply(&contract, &bare), RESULT_DONE);
    struct record record = contract_read(&contract, bare.task.id);
    assert_int_equal(record.trail_count, 0);
    assert_int_equal(record.answer.status, 0);
    assert_int_equal(record.edit.parts, 0);
    contract_end(&contract);
}

static void an_imported_task_goes_on_living(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = import_op(&contract, "key");
    struct op redrive = contract_op(OP_REDRIVE, op.task.id);

    assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
    contract_reopen(&contract);
    assert_int_equal(contract_apply(&contract, &redrive), RESULT_DONE);
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct op settle = contract_settle(op.task.id, &lease.life, TASK_SUCCEEDED);
    const struct trail_row last = {.attempt = 8, .error_class = -1};
    settle.trail = &last;
    settle.trail_count = 1;
    settle.answer = &full_answer;
    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    struct record record = contract_read(&contract, op.task.id);
    assert_int_equal(record.trail_count, TRAILS + 1);
    contract_expect_trail(&record.trail[TRAILS], &last);
    struct op purge = contract_op(OP_PURGE, op.task.id);
    assert_int_equal(contract_apply(&contract, &purge), RESULT_DONE);
    contract_end(&contract);
}

static void what_is_there_is_not_imported_again(void **state)
{
    struct contract contract = contract_begin(state);
    struct op there = contract_apply_record(&contract, "key");

    for (uint64_t tail = 0; tail < 2; tail++) {
        struct op op = import_op(&contract, "other");
        op.task.id = (struct task_id){there.task.id.row, there.task.id.tail ^ tail};
        op.task.queue = 99;
        assert_int_equal(contract_apply(&contract, &op), RESULT_DUPLICATE);
        assert_int_equal(op.task.id.tail, there.task.id.tail); /* whose row it is */
        assert_int_equal(op.task.queue, CONTRACT_QUEUE);
        contract_reopen(&contract);
    }
    struct record record = contract_read(&contract, there.task.id);
    contract_expect_life(&record.life, &there.life);
    assert_int_equal(record.trail_count, 0);
    struct op free = contract_record(&contract, "other");
    assert_int_equal(contract_apply(&contract, &free), RESULT_DONE); /* nothing of it was bound */
    contract_end(&contract);
}

/* A key has one task, also when the time of the one that is there is over. */
static void an_import_takes_no_key_from_another_task(void **state)
{
    struct contract contract = contract_begin(state);
    struct op holder = contract_apply_record(&contract, "key");
    contract_end_task(&contract, holder.task.id, TASK_SUCCEEDED);
    struct op rival = import_op(&contract, "key");
    struct task_id unborn = rival.task.id;
    rival.now_ms = CONTRACT_NOW_MS + 100 * CONTRACT_KEEP_MS;

    assert_int_equal(contract_apply(&contract, &rival), RESULT_CONFLICT);
    assert_int_equal(rival.task.id.row, holder.task.id.row);
    assert_false(contract_has(&contract, unborn));

    struct op unbound = import_op(&contract, "key"); /* it had lost the key already */
    unbound.releases_key = true;
    assert_int_equal(contract_apply(&contract, &unbound), RESULT_DONE);
    contract_reopen(&contract);
    assert_false(contract_read(&contract, unbound.task.id).is_bound);
    assert_true(contract_read(&contract, holder.task.id).is_bound);
    struct op same = contract_record(&contract, "key");
    assert_int_equal(contract_apply(&contract, &same), RESULT_DUPLICATE);
    assert_int_equal(same.task.id.row, holder.task.id.row);
    contract_end(&contract);
}

static void an_imported_key_is_bound(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = import_op(&contract, "key");

    assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
    for (int i = 0; i < 2; i++) {
        struct op same = contract_record(&contract, "key");
        assert_int_equal(contract_apply(&contract, &same), RESULT_DUPLICATE);
        assert_int_equal(same.task.id.row, op.task.id.row);
        assert_true(contract_read(&contract, op.task.id).is_bound);
        contract_reopen(&contract);
    }
    contract_end(&contract);
}

/* --- the newest attempt ---------------------------------------------------------------------- */

static struct record read_with(struct contract *contract, struct task_id id, unsigned wants)
{
    struct record record;
    bool found = false;

    assert_int_equal(
        store_read_task(contract->store, id, wants, contract->arena, &record, &found, NULL), 0);
    assert_true(found);
    return record;
}

static int see_latest(void *user, const struct record *record)
{
    assert_int_equal(record->trail_count, 1);
    contract_expect_trail(&record->trail[0], &full_trail[TRAILS - 1]);
    ++*(size_t *)user;
    return 0;
}

/* Wherever a store keeps it: the attempt that succeeded may stand elsewhere than the others. */
static void the_newest_attempt_is_read_without_the_others(void **state)
{
    static const enum task_state states[] = {TASK_SUCCEEDED, TASK_FAILED, TASK_WAITING};
    struct contract contract = contract_begin(state);
    struct store_filter filter = {.states = STORE_ALL_STATES, .limit = 10, .wants = READ_LATEST};
    size_t seen = 0;
    int64_t next;

    for (size_t i = 0; i < 6; i++) {
        struct op op = import_op(&contract, "");
        op.life.state = states[i / 2];
        op.answer = i % 2 == 0 ? &full_answer : NULL;
        assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
        struct record record = read_with(&contract, op.task.id, READ_LATEST);
        assert_int_equal(record.trail_count, 1);
        contract_expect_trail(&record.trail[0], &full_trail[TRAILS - 1]);
        assert_int_equal(read_with(&contract, op.task.id, 0).trail_count, 0);
        record = read_with(&contract, op.task.id, READ_LATEST | READ_TRAIL);
        assert_int_equal(record.trail_count, TRAILS);
    }
    assert_int_equal(
        store_list(contract.store, &filter, contract.arena, see_latest, &seen, &next, NULL), 0);
    assert_int_equal(seen, 6);
    struct op fresh = contract_apply_record(&contract, "");
    assert_int_equal(read_with(&contract, fresh.task.id, READ_LATEST).trail_count, 0);
    contract_end(&contract);
}

size_t contract_tests_import(struct CMUnitTest *ret_tests)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_imported_task_is_the_same_in_every_part),
        cmocka_unit_test(an_imported_task_goes_on_living),
        cmocka_unit_test(what_is_there_is_not_imported_again),
        cmocka_unit_test(an_import_takes_no_key_from_another_task),
        cmocka_unit_test(an_imported_key_is_bound),
        cmocka_unit_test(the_newest_attempt_is_read_without_the_others),
    };
    return CONTRACT_COPY(ret_tests, tests);
}
