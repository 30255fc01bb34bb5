/* SPDX-License-Identifier: MIT
 *
 * store_contract_ops -- the contract suite: record, lease, cancel, run, purge, queues.
 */
#include "store_contract_internal.h"

#include <stdlib.h>

#define BODY_BYTES ((size_t)1 << 20)

/* --- record ---------------------------------------------------------------------------------- */

/* Every field its own value, every span with the bytes that are easily lost. */
static struct op odd_record(struct contract *contract, char *body, char key[TASK_KEY_MAX])
{
    struct op op = contract_record(contract, "");

    for (size_t i = 0; i < BODY_BYTES; i++) {
        body[i] = (char)daruma_dice_roll(&contract->dice);
    }
    for (size_t i = 0; i < TASK_KEY_MAX; i++) {
        key[i] = (char)('!' + i % 94);
    }
    op.task.queue = UINT32_MAX;
    op.task.scope = SPAN("\0sc\xff"
                         "ope\n");
    op.task.key = (struct span){.at = key, .len = TASK_KEY_MAX};
    for (size_t i = 0; i < TASK_FINGERPRINT_BYTES; i++) {
        op.task.fingerprint[i] = (unsigned char)(i * 37);
    }
    op.task.method = SPAN("M\x80");
    op.task.target = SPAN("http://\xe3\x81\xa0\xe3\x82\x8b\xe3\x81\xbe/?q=\"'\\");
    op.task.headers = SPAN("x-odd: \xff\xfe\x01\t\0 end\r\n");
    op.task.labels = SPAN("a: \xc3\x28\n");
    op.task.options = SPAN("{\"json\": \"\\u0000\"}");
    op.task.body = (struct span){.at = body, .len = BODY_BYTES};
    op.life = (struct life){.state = TASK_RUNNING,
                            .due_at_ms = CONTRACT_NOW_MS + 1,
                            .deadline_at_ms = INT64_MAX,
                            .settled_at_ms = 3,
                            .fence = INT64_MAX - 4,
                            .epoch = INT64_MAX - 5,
                            .attempts = UINT32_MAX - 6,
                            .attempts_all = UINT32_MAX - 7,
                            .round = UINT32_MAX - 8,
                            .previous_ms = INT64_MAX - 9,
                            .wait_ms = 10,
                            .flags = UINT32_MAX};
    for (size_t i = 0; i < DARUMA_CLASS_COUNT; i++) {
        op.life.class_attempts[i] = UINT32_MAX - (uint32_t)i;
    }
    return op;
}

/* I1 */
static void what_is_recorded_comes_back_byte_for_byte(void **state)
{
    struct contract contract = contract_begin(state);
    char *body = malloc(BODY_BYTES);
    char key[TASK_KEY_MAX];
    assert_non_null(body);
    struct op op = odd_record(&contract, body, key);

    assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
    for (int i = 0; i < 2; i++) {
        struct record record = contract_read(&contract, op.task.id);
        contract_expect_task(&record.task, &op.task);
        contract_expect_life(&record.life, &op.life);
        assert_int_equal(record.answer.status, 0);
        assert_int_equal(record.trail_count, 0);
        contract_reopen(&contract);
    }
    free(body);
    contract_end(&contract);
}

static void what_is_empty_comes_back_empty(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = {.kind = OP_RECORD, .task.id = {.row = 1}, .now_ms = CONTRACT_NOW_MS};

    assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, op.task.id);
    contract_expect_task(&record.task, &op.task);
    contract_expect_life(&record.life, &op.life);
    contract_end(&contract);
}

static void a_record_keeps_its_own_copy(void **state)
{
    struct contract contract = contract_begin(state);
    char body[] = "before";
    struct op op = contract_record(&contract, "key");
    op.task.body = span_of(body);

    assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
    memset(body, 'x', sizeof body - 1);
    contract_expect_span(contract_read(&contract, op.task.id).task.body, SPAN("before"));
    contract_end(&contract);
}

static void bodies_are_read_only_when_asked_for(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "key");
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct op settle = contract_settle(op.task.id, &lease.life, TASK_SUCCEEDED);
    struct answer answer = {.status = 200, .headers = SPAN("a: b\n"), .body = SPAN("answer")};
    struct trail_row trail = {.attempt = 1};
    struct record record;
    bool found = false;
    settle.answer = &answer;
    settle.trail = &trail;
    settle.trail_count = 1;

    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    assert_int_equal(
        store_read_task(contract.store, op.task.id, 0, contract.arena, &record, &found, NULL), 0);
    assert_true(found);
    assert_int_equal(record.task.body.len, 0);
    assert_int_equal(record.answer.body.len, 0);
    assert_int_equal(record.trail_count, 0);
    assert_int_equal(record.answer.status, 200);
    contract_expect_span(record.task.headers, op.task.headers);
    contract_expect_span(record.answer.headers, answer.headers);
    contract_end(&contract);
}

static void a_task_answers_only_to_its_whole_id(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "key");
    struct task_id guessed = {.row = op.task.id.row, .tail = op.task.id.tail ^ 1};
    struct op cancel = contract_op(OP_CANCEL, guessed);

    assert_false(contract_has(&contract, guessed));
    assert_int_equal(contract_apply(&contract, &cancel), RESULT_MISSING);
    contract_expect_state(&contract, op.task.id, TASK_WAITING);
    contract_end(&contract);
}

/* The scheduler knows rows only: the task says who it is. */
static void whoever_knows_the_row_is_told_the_rest(void **state)
{
    static const enum op_kind kinds[] = {OP_RUN, OP_LEASE, OP_CANCEL, OP_SETTLE, OP_PURGE};
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "key");
    struct task_id row = {.row = op.task.id.row, .tail = ID_ANY_TAIL};

    assert_int_equal(contract_read(&contract, row).task.id.tail, op.task.id.tail);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct op by_row = contract_op(kinds[i], row);
        by_row.wants_request = kinds[i] == OP_LEASE;
        by_row.arena = contract.arena;
        assert_int_not_equal(contract_apply(&contract, &by_row), RESULT_MISSING);
        assert_int_equal(by_row.task.id.row, op.task.id.row);
        assert_int_equal(by_row.task.id.tail, op.task.id.tail);
        assert_int_equal(by_row.task.queue, op.task.queue);
        if (kinds[i] == OP_LEASE) {
            contract_expect_task(&by_row.task, &op.task);
        }
    }
    contract_end(&contract);
}

/* I7: a row that is taken is the caller's mistake, and costs the batch. */
/* Nodes that share a store may make the same row for a moment: the later task gets another one. */
static void assert_row_replaced(struct contract *contract, struct op *ops[2], struct task_id taken)
{
    assert_int_equal(store_apply(contract->store, ops, 2, NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(ops[i]->result, RESULT_DONE);
        assert_true(contract_has(contract, ops[i]->task.id));
    }
    assert_int_not_equal(ops[1]->task.id.row, taken.row);
    assert_true(contract_has(contract, taken));
}

static void a_taken_row_is_refused_with_all_of_its_batch(void **state)
{
    struct contract contract = contract_begin(state);
    struct op taken = contract_apply_record(&contract, "");
    struct op good = contract_record(&contract, "good"), bad = contract_record(&contract, "bad");
    struct op *ops[] = {&good, &bad};
    bad.task.id.row = taken.task.id.row;

    if (contract.store->nodes != NULL) {
        assert_row_replaced(&contract, ops, taken.task.id);
        contract_end(&contract);
        return;
    }
    assert_int_not_equal(store_apply(contract.store, ops, 2, NULL), 0);
    assert_int_equal(good.result, RESULT_NONE);
    assert_int_not_equal(good.fault, 0);
    assert_false(contract_has(&contract, good.task.id));
    assert_int_equal(contract_apply(&contract, &good), RESULT_DONE);
    contract_end(&contract);
}

static void rows_may_come_in_any_order(void **state)
{
    struct contract contract = contract_begin(state);
    struct op first = contract_record(&contract, ""), second = contract_record(&contract, "");

    assert_int_equal(contract_apply(&contract, &second), RESULT_DONE);
    assert_int_equal(contract_apply(&contract, &first), RESULT_DONE);
    assert_true(contract_has(&contract, first.task.id));
    assert_true(contract_has(&contract, second.task.id));
    assert_int_equal(contract.store->last_row, second.task.id.row);
    contract_end(&contract);
}

/* --- lease ----------------------------------------------------------------------------------- */

/* I2, I5 */
static void a_lease_counts_the_attempt_and_raises_the_fence(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_record(&contract, "");
    op.life.fence = 5;
    op.life.attempts = 2;
    op.life.attempts_all = 3;
    op.life.wait_ms = 100;

    assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct life wanted = op.life;
    wanted.state = TASK_RUNNING;
    wanted.fence = 6;
    wanted.epoch = CONTRACT_EPOCH_TEST;
    wanted.attempts = 3;
    wanted.attempts_all = 4;
    wanted.wait_ms = 0;
    contract_expect_life(&lease.life, &wanted);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, op.task.id);
    contract_expect_life(&record.life, &wanted);
    contract_end(&contract);
}

static void a_lease_hands_over_the_whole_request_when_asked(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "key");
    struct op lease = contract_lease(op.task.id);
    lease.wants_request = true;
    lease.arena = contract.arena;

    assert_int_equal(contract_apply(&contract, &lease), RESULT_DONE);
    contract_expect_task(&lease.task, &op.task);
    contract_end(&contract);
}

/* I6 */
static void what_is_not_due_is_leased_only_after_run(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_record(&contract, "");
    op.life.due_at_ms = CONTRACT_NOW_MS + 1;
    assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);

    struct op early = contract_lease(op.task.id);
    assert_int_equal(contract_apply(&contract, &early), RESULT_NOT_DUE);
    contract_expect_life(&early.life, &op.life);
    struct op run = early; /* at a later time than the lease: somebody sets the clock back */
    run.kind = OP_RUN;
    run.now_ms = CONTRACT_NOW_MS + 1;
    assert_int_equal(contract_apply(&contract, &run), RESULT_DONE);
    struct op forced = contract_lease(op.task.id);
    assert_int_equal(contract_apply(&contract, &forced), RESULT_DONE);
    assert_int_equal(forced.life.flags & LIFE_FORCED, 0);

    struct op other = contract_record(&contract, "");
    other.life.due_at_ms = CONTRACT_NOW_MS + 1;
    assert_int_equal(contract_apply(&contract, &other), RESULT_DONE);
    struct op punctual = contract_lease(other.task.id);
    punctual.now_ms = CONTRACT_NOW_MS + 1;
    assert_int_equal(contract_apply(&contract, &punctual), RESULT_DONE);
    contract_end(&contract);
}

/* I2 */
static void a_second_lease_finds_it_running(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "");
    struct op first = contract_apply_lease(&contract, op.task.id);
    struct op second = contract_lease(op.task.id);

    assert_int_equal(contract_apply(&contract, &second), RESULT_NOT_WAITING);
    contract_expect_life(&second.life, &first.life);
    contract_end(&contract);
}

/* --- cancel, run, purge ---------------------------------------------------------------------- */

static void cancel_and_lease_have_one_winner(void **state)
{
    struct contract contract = contract_begin(state);
    struct op one = contract_apply_record(&contract, ""),
              two = contract_apply_record(&contract, "");

    struct op cancel = contract_op(OP_CANCEL, one.task.id), lease = contract_lease(one.task.id);
    assert_int_equal(contract_apply(&contract, &cancel), RESULT_DONE);
    assert_int_equal(cancel.life.state, TASK_CANCELLED);
    assert_int_equal(cancel.life.settled_at_ms, CONTRACT_NOW_MS);
    assert_int_equal(contract_apply(&contract, &lease), RESULT_NOT_WAITING);
    assert_int_equal(lease.life.state, TASK_CANCELLED);

    (void)contract_apply_lease(&contract, two.task.id);
    cancel = contract_op(OP_CANCEL, two.task.id);
    assert_int_equal(contract_apply(&contract, &cancel), RESULT_NOT_WAITING);
    assert_int_equal(cancel.life.state, TASK_RUNNING);
    contract_reopen(&contract);
    contract_expect_state(&contract, one.task.id, TASK_CANCELLED);
    contract_expect_state(&contract, two.task.id, TASK_RUNNING);
    contract_end(&contract);
}

/* What a restore does with what waits in a backup. */
static void what_waits_is_revised_as_it_was_seen(void **state)
{
    struct contract contract = contract_begin(state);
    const struct trail_row trail = {
        .attempt = 0, .error_class = 0, .sent = TASK_SENT_MAYBE, .message = SPAN("why")};
    struct op record = contract_record(&contract, "key"), other = contract_record(&contract, "");
    record.life.flags = LIFE_ROUTE | LIFE_ONCE;
    assert_int_equal(contract_apply(&contract, &record), RESULT_DONE);
    assert_int_equal(contract_apply(&contract, &other), RESULT_DONE);

    struct op revise = contract_op(OP_REVISE, record.task.id);
    revise.life = record.life;
    revise.life.state = TASK_UNSETTLED;
    revise.life.probe_due_ms = CONTRACT_NOW_MS;
    revise.life.failed_class = 1;
    revise.trail = &trail;
    revise.trail_count = 1;
    struct op stale = revise;
    stale.life.fence++;
    assert_int_equal(contract_apply(&contract, &stale), RESULT_NOT_WAITING);
    assert_int_equal(contract_apply(&contract, &revise), RESULT_DONE);
    assert_int_equal(revise.life.state, TASK_UNSETTLED);
    assert_true(revise.life.fence == record.life.fence + 1); /* nothing older may settle it */
    assert_int_equal(contract_apply(&contract, &revise), RESULT_NOT_WAITING);

    struct op word = contract_op(OP_RUN, other.task.id);
    assert_int_equal(contract_apply(&contract, &word), RESULT_DONE);
    struct op forget = contract_op(OP_REVISE, other.task.id);
    forget.life = word.life;
    forget.life.flags &= ~(uint32_t)LIFE_FORCED;
    forget.life.due_at_ms = CONTRACT_NOW_MS + 1;
    assert_int_equal(contract_apply(&contract, &forget), RESULT_DONE);

    contract_reopen(&contract);
    struct record doubted = contract_read(&contract, record.task.id);
    contract_expect_life(&doubted.life, &revise.life);
    assert_true(doubted.is_bound);
    assert_int_equal(doubted.trail_count, 1);
    contract_expect_trail(&doubted.trail[0], &trail);
    struct record freed = contract_read(&contract, other.task.id);
    contract_expect_life(&freed.life, &forget.life);
    struct op lease = contract_lease(other.task.id);
    assert_int_equal(contract_apply(&contract, &lease), RESULT_NOT_DUE);
    struct op settle = contract_settle(record.task.id, &revise.life, TASK_SUCCEEDED);
    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    contract_end(&contract);
}

static void a_batch_is_applied_in_order(void **state)
{
    struct contract contract = contract_begin(state);
    if (contract.subject->groups) {
        contract_end(&contract);
        return;
    }
    struct op record = contract_record(&contract, "key"), again = contract_record(&contract, "key");
    struct task_id id = record.task.id;
    struct op ops[] = {record, again, contract_lease(id), contract_op(OP_CANCEL, id),
                       contract_op(OP_PURGE, id)};
    contract_apply_all(&contract, ops, 5);

    assert_int_equal(ops[0].result, RESULT_DONE);
    assert_int_equal(ops[1].result, RESULT_DUPLICATE);
    assert_int_equal(ops[1].task.id.row, id.row);
    assert_int_equal(ops[2].result, RESULT_DONE);
    assert_int_equal(ops[3].result, RESULT_NOT_WAITING);
    assert_int_equal(ops[4].result, RESULT_NOT_WAITING);

    struct op more[] = {contract_settle(id, &ops[2].life, TASK_SUCCEEDED),
                        contract_settle(id, &ops[2].life, TASK_FAILED), contract_op(OP_PURGE, id),
                        contract_op(OP_PURGE, id), contract_record(&contract, "key")};
    contract_apply_all(&contract, more, 5);
    assert_int_equal(more[0].result, RESULT_DONE);
    assert_int_equal(more[1].result, RESULT_STALE);
    assert_int_equal(more[2].result, RESULT_DONE);
    assert_int_equal(more[3].result, RESULT_MISSING);
    assert_int_equal(more[4].result, RESULT_DONE);
    contract_reopen(&contract);
    assert_false(contract_has(&contract, id));
    assert_true(contract_has(&contract, more[4].task.id));
    contract_end(&contract);
}

static void run_makes_it_due_now_and_forced(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_record(&contract, "");
    op.life.due_at_ms = CONTRACT_NOW_MS + 100 * CONTRACT_HOUR_MS;
    assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);

    struct op run = contract_op(OP_RUN, op.task.id);
    assert_int_equal(contract_apply(&contract, &run), RESULT_DONE);
    assert_int_equal(run.life.due_at_ms, CONTRACT_NOW_MS);
    assert_int_equal(run.life.flags & LIFE_FORCED, LIFE_FORCED);
    struct record record = contract_read(&contract, op.task.id);
    contract_expect_life(&record.life, &run.life);

    (void)contract_apply_lease(&contract, op.task.id);
    assert_int_equal(contract_apply(&contract, &run), RESULT_NOT_WAITING);
    assert_int_equal(run.life.state, TASK_RUNNING);
    contract_end(&contract);
}

static void purge_forgets_what_is_not_busy(void **state)
{
    static const enum op_result wanted[TASK_STATE_COUNT] = {
        [TASK_WAITING] = RESULT_DONE,   [TASK_RUNNING] = RESULT_NOT_WAITING,
        [TASK_SUCCEEDED] = RESULT_DONE, [TASK_UNSETTLED] = RESULT_NOT_WAITING,
        [TASK_FAILED] = RESULT_DONE,    [TASK_DEAD] = RESULT_DONE,
        [TASK_CANCELLED] = RESULT_DONE, [TASK_GONE] = RESULT_DONE};
    struct contract contract = contract_begin(state);
    struct op ops[TASK_STATE_COUNT];

    for (size_t i = 0; i < TASK_STATE_COUNT; i++) {
        ops[i] = contract_record(&contract, "");
        ops[i].life.state = (enum task_state)i;
    }
    contract_apply_all(&contract, ops, TASK_STATE_COUNT);
    for (size_t i = 0; i < TASK_STATE_COUNT; i++) {
        struct op purge = contract_op(OP_PURGE, ops[i].task.id);
        assert_int_equal(contract_apply(&contract, &purge), wanted[i]);
    }
    contract_reopen(&contract);
    for (size_t i = 0; i < TASK_STATE_COUNT; i++) {
        assert_int_equal(contract_has(&contract, ops[i].task.id), wanted[i] != RESULT_DONE);
    }
    contract_end(&contract);
}

static void what_is_not_there_is_missing(void **state)
{
    struct contract contract = contract_begin(state);
    struct task_id id = {.row = 99, .tail = 1};
    static const enum op_kind kinds[] = {OP_LEASE, OP_SETTLE, OP_CANCEL, OP_RUN, OP_PURGE};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct op op = contract_op(kinds[i], id);
        assert_int_equal(contract_apply(&contract, &op), RESULT_MISSING);
        assert_int_equal(op.task.id.row, id.row);
    }
    contract_end(&contract);
}

/* --- queues ---------------------------------------------------------------------------------- */

struct seen_queues {
    struct queue_row rows[8];
    char names[8][32];
    char settings[8][64];
    size_t count;
};

static int see_queue(void *user, const struct queue_row *queue)
{
    struct seen_queues *seen = user;
    size_t at = seen->count++;

    assert_true(at < 8 && queue->name.len < 32 && queue->settings.len < 64);
    seen->rows[at] = *queue;
    memcpy(seen->names[at], queue->name.at, queue->name.len);
    seen->rows[at].name.at = seen->names[at];
    if (queue->settings.len > 0) {
        memcpy(seen->settings[at], queue->settings.at, queue->settings.len);
    }
    seen->rows[at].settings.at = seen->settings[at];
    return 0;
}

static uint32_t write_queue(struct contract *contract, struct queue_row row)
{
    struct op op = {.kind = OP_QUEUE, .queue = row};

    assert_int_equal(contract_apply(contract, &op), RESULT_DONE);
    return op.queue.number;
}

static void queues_have_numbers_that_are_never_used_again(void **state)
{
    struct contract contract = contract_begin(state);
    struct op missing = {.kind = OP_QUEUE, .queue = {.number = 9, .name = SPAN("none")}};
    struct seen_queues seen = {0};

    assert_int_equal(write_queue(&contract, (struct queue_row){.name = SPAN("one")}), 1);
    assert_int_equal(write_queue(&contract, (struct queue_row){.name = SPAN("two")}), 2);
    assert_int_equal(write_queue(&contract, (struct queue_row){.name = SPAN("one"),
                                                               .settings = SPAN("{\"a\": 1}")}),
                     1);
    assert_int_equal(
        write_queue(&contract,
                    (struct queue_row){.number = 2, .name = SPAN("two"), .dropped = true}),
        2);
    contract_reopen(&contract);
    assert_int_equal(
        write_queue(&contract, (struct queue_row){.name = SPAN("two"), .paused = true}), 3);
    assert_int_equal(contract_apply(&contract, &missing), RESULT_MISSING);
    contract_reopen(&contract);

    assert_int_equal(store_queues(contract.store, see_queue, &seen, NULL), 0);
    assert_int_equal(seen.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(seen.rows[i].number, i + 1);
        assert_int_equal(seen.rows[i].dropped, i == 1);
        assert_int_equal(seen.rows[i].paused, i == 2);
    }
    contract_expect_span(seen.rows[0].name, SPAN("one"));
    contract_expect_span(seen.rows[0].settings, SPAN("{\"a\": 1}"));
    contract_expect_span(seen.rows[1].settings, SPAN(""));
    contract_expect_span(seen.rows[2].name, SPAN("two"));
    contract_end(&contract);
}

size_t contract_tests_ops(struct CMUnitTest *ret_tests)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_recorded_comes_back_byte_for_byte),
        cmocka_unit_test(what_is_empty_comes_back_empty),
        cmocka_unit_test(a_record_keeps_its_own_copy),
        cmocka_unit_test(bodies_are_read_only_when_asked_for),
        cmocka_unit_test(a_task_answers_only_to_its_whole_id),
        cmocka_unit_test(whoever_knows_the_row_is_told_the_rest),
        cmocka_unit_test(a_taken_row_is_refused_with_all_of_its_batch),
        cmocka_unit_test(rows_may_come_in_any_order),
        cmocka_unit_test(a_lease_counts_the_attempt_and_raises_the_fence),
        cmocka_unit_test(a_lease_hands_over_the_whole_request_when_asked),
        cmocka_unit_test(what_is_not_due_is_leased_only_after_run),
        cmocka_unit_test(a_second_lease_finds_it_running),
        cmocka_unit_test(cancel_and_lease_have_one_winner),
        cmocka_unit_test(what_waits_is_revised_as_it_was_seen),
        cmocka_unit_test(a_batch_is_applied_in_order),
        cmocka_unit_test(run_makes_it_due_now_and_forced),
        cmocka_unit_test(purge_forgets_what_is_not_busy),
        cmocka_unit_test(what_is_not_there_is_missing),
        cmocka_unit_test(queues_have_numbers_that_are_never_used_again),
    };
    return CONTRACT_COPY(ret_tests, tests);
}
