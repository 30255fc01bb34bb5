/* SPDX-License-Identifier: MIT
 *
 * store_contract_faults -- the contract suite: what a failure leaves behind (I7, I9). A scenario
 * runs with its first write failing, then its second, and so on, until none fails any more; whoever
 * drives it does what a committer does.
 */
#include "store_contract_internal.h"
#include "store_faulty.h"

#define SCENARIO_TASKS 3
#define SMALL_ARENA    64
#define HALF_WAY_OPS   10

/* --- a batch that fails half way ------------------------------------------------------------- */

static int see_act(void *user, const struct audit_row *row)
{
    (void)row;
    ++*(size_t *)user;
    return 0;
}

static int see_memo(void *user, const struct memo *memo)
{
    (void)memo;
    ++*(size_t *)user;
    return 0;
}

/* Acts and memos. */
static size_t count_notes(struct contract *contract)
{
    struct audit_filter filter = {.limit = 10};
    size_t count = 0;
    int64_t next;

    assert_int_equal(
        store_audit(contract->store, &filter, contract->arena, see_act, &count, &next, NULL), 0);
    assert_int_equal(store_memos(contract->store, see_memo, &count, NULL), 0);
    return count;
}

/* What the batch is about, and what it is to leave as it was. */
struct half_way {
    struct op lease_me, cancel_me, purge_me, expired, dead, settle_me; /* recorded */
    struct op leased, spawn;
    struct op ops[HALF_WAY_OPS], *list[HALF_WAY_OPS];
};

static const struct edit half_way_edit = {.parts = EDIT_BODY, .body = {"edited", 6}};
static const struct audit_row half_way_act = {.who = {"alice", 5}, .act = {"cancel", 6}};

static void prepare_tasks(struct contract *contract, struct half_way *half)
{
    half->lease_me = contract_apply_record(contract, "a");
    half->cancel_me = contract_apply_record(contract, "b");
    half->purge_me = contract_apply_record(contract, "c");
    half->expired = contract_apply_record(contract, "d");
    contract_end_task(contract, half->expired.task.id, TASK_SUCCEEDED);
    half->dead = contract_apply_record(contract, "");
    contract_end_task(contract, half->dead.task.id, TASK_DEAD);
    half->settle_me = contract_apply_record(contract, "e");
    half->leased = contract_apply_lease(contract, half->settle_me.task.id);
    half->spawn = contract_record(contract, "spawned");
}

static void prepare_batch(struct contract *contract, struct half_way *half)
{
    const struct op ops[HALF_WAY_OPS] = {
        contract_record(contract, "new"),
        contract_op(OP_CANCEL, half->cancel_me.task.id),
        contract_op(OP_PURGE, half->purge_me.task.id),
        contract_record(contract, "d"),
        {.kind = OP_QUEUE, .queue.name = SPAN("queue")},
        contract_settle(half->settle_me.task.id, &half->leased.life, TASK_FAILED),
        contract_op(OP_REDRIVE, half->dead.task.id),
        contract_record(contract, "imported"),
        {.kind = OP_MEMO, .memo = {SPAN("name"), SPAN("value")}},
        contract_lease(half->lease_me.task.id)};

    memcpy(half->ops, ops, sizeof ops);
    for (size_t i = 0; i < HALF_WAY_OPS; i++) {
        half->list[i] = &half->ops[i];
    }
    half->ops[1].audit = &half_way_act;
    half->ops[3].now_ms = CONTRACT_NOW_MS + CONTRACT_KEEP_MS;
    half->ops[5].spawn = &half->spawn;
    half->ops[5].releases_key = true;
    half->ops[6].edit = &half_way_edit;
    half->ops[7].kind = OP_IMPORT;
    half->ops[9].wants_request = true;
}

static void expect_bound(struct contract *contract, const char *key, const struct op *holder)
{
    struct op op = contract_record(contract, key);

    assert_int_equal(contract_apply(contract, &op), RESULT_DUPLICATE);
    assert_int_equal(op.task.id.row, holder->task.id.row);
}

static void expect_nothing_done(struct contract *contract, const struct half_way *half)
{
    for (size_t i = 0; i < HALF_WAY_OPS; i++) {
        assert_int_equal(half->ops[i].result, RESULT_NONE);
        assert_int_equal(half->ops[i].fault, FAULT_MEMORY);
    }
    assert_int_equal(half->spawn.result, RESULT_NONE);
    assert_false(contract_has(contract, half->ops[0].task.id));
    assert_false(contract_has(contract, half->ops[7].task.id));
    assert_false(contract_has(contract, half->spawn.task.id));
    contract_expect_state(contract, half->lease_me.task.id, TASK_WAITING);
    contract_expect_state(contract, half->cancel_me.task.id, TASK_WAITING);
    contract_expect_state(contract, half->purge_me.task.id, TASK_WAITING);
    contract_expect_state(contract, half->settle_me.task.id, TASK_RUNNING);
    assert_int_equal(contract_read(contract, half->dead.task.id).edit.parts, 0);
    expect_bound(contract, "c", &half->purge_me);
    expect_bound(contract, "d", &half->expired);
    expect_bound(contract, "e", &half->settle_me);
    assert_int_equal(count_notes(contract), 0);
}

/* I7: the last operation finds no memory for its result. */
static void a_batch_that_fails_half_way_leaves_nothing(void **state)
{
    struct contract contract = contract_begin(state);
    struct half_way half;

    prepare_tasks(&contract, &half);
    prepare_batch(&contract, &half);
    struct op given = half.ops[0], *last = &half.ops[HALF_WAY_OPS - 1];
    last->arena = arena_new(SMALL_ARENA);
    assert_non_null(last->arena);

    assert_int_equal(store_apply(contract.store, half.list, HALF_WAY_OPS, NULL), FAULT_MEMORY);
    contract_expect_task(&half.ops[0].task, &given.task);
    expect_nothing_done(&contract, &half);
    contract_reopen(&contract);
    expect_nothing_done(&contract, &half);
    arena_free(last->arena);
    last->arena = contract.arena;
    contract_apply_all(&contract, half.ops, HALF_WAY_OPS); /* the same once more, with room */
    for (size_t i = 0; i < HALF_WAY_OPS; i++) {
        assert_int_equal(half.ops[i].result, RESULT_DONE);
    }
    assert_int_equal(half.spawn.result, RESULT_DONE);
    assert_int_equal(count_notes(&contract), 2);
    assert_int_equal(half.ops[4].queue.number, 1);
    contract_end(&contract);
}

/* --- every write and every read fails once --------------------------------------------------- */

enum { STEP_RECORD, STEP_LEASE, STEP_SETTLE, STEP_COUNT };

struct scenario {
    struct contract *contract;
    struct op records[SCENARIO_TASKS];
    struct life lives[SCENARIO_TASKS];
    struct answer answer;
    struct trail_row trail;
    struct audit_row act;
    struct op spawns[SCENARIO_TASKS];
};

static void prepare_step(struct scenario *scenario, int step, struct op ops[SCENARIO_TASKS])
{
    for (size_t i = 0; i < SCENARIO_TASKS; i++) {
        struct task_id id = scenario->records[i].task.id;
        if (step == STEP_RECORD) {
            ops[i] = scenario->records[i];
        } else if (step == STEP_LEASE) {
            ops[i] = contract_lease(id);
        } else {
            ops[i] = contract_settle(id, &scenario->lives[i], TASK_SUCCEEDED);
            ops[i].answer = &scenario->answer;
            ops[i].trail = &scenario->trail;
            ops[i].trail_count = 1;
            ops[i].spawn = &scenario->spawns[i];
            ops[i].audit = &scenario->act;
            ops[i].releases_key = true;
        }
    }
}

/* How many of the tasks a step has changed already. */
static size_t count_done(struct scenario *scenario, int step)
{
    static const enum task_state after[] = {TASK_WAITING, TASK_RUNNING, TASK_SUCCEEDED};
    size_t count = 0, ended = 0;

    for (size_t i = 0; i < SCENARIO_TASKS; i++) {
        struct task_id id = scenario->records[i].task.id;
        if (contract_has(scenario->contract, id)) {
            struct record record = contract_read(scenario->contract, id);
            count += record.life.state == after[step];
            assert_int_equal(record.trail_count, record.life.state == TASK_SUCCEEDED);
            assert_int_equal(record.answer.status != 0, record.life.state == TASK_SUCCEEDED);
            assert_int_equal(record.is_bound,
                             record.task.key.len > 0 && record.life.state != TASK_SUCCEEDED);
            assert_int_equal(contract_has(scenario->contract, scenario->spawns[i].task.id),
                             record.life.state == TASK_SUCCEEDED); /* born with it */
            ended += record.life.state == TASK_SUCCEEDED;
        }
    }
    assert_int_equal(count_notes(scenario->contract), ended);
    return count;
}

static void keep_lives(struct scenario *scenario)
{
    for (size_t i = 0; i < SCENARIO_TASKS; i++) {
        scenario->lives[i] = contract_read(scenario->contract, scenario->records[i].task.id).life;
    }
}

/* The store cannot be used any more: a restart, and a look at what is there. True when the step's
 * commit was. */
static bool look_after_restart(struct scenario *scenario, int step)
{
    struct contract *contract = scenario->contract;

    contract->store = store_faulty_take(contract->store);
    contract_reopen(contract);
    size_t done = count_done(scenario, step);
    assert_true(done == 0 || done == SCENARIO_TASKS); /* I7: whole or not at all */
    contract->store = store_faulty_new(contract->store, FAULTY_BEFORE, 0);
    assert_non_null(contract->store);
    return done > 0;
}

/* As a committer: "failed" is believed when it is certain, and looked into when it is not. */
static void drive_step(struct scenario *scenario, int step, enum faulty_how how)
{
    struct contract *contract = scenario->contract;
    struct op ops[SCENARIO_TASKS], *list[SCENARIO_TASKS];

    prepare_step(scenario, step, ops);
    for (size_t i = 0; i < SCENARIO_TASKS; i++) {
        list[i] = &ops[i];
    }
    int failed = store_apply(contract->store, list, SCENARIO_TASKS, NULL);
    for (size_t i = 0; i < SCENARIO_TASKS; i++) {
        assert_int_equal(ops[i].result, failed != 0 ? RESULT_NONE : RESULT_DONE);
        assert_int_equal(ops[i].fault, failed);
    }
    if (failed == FAULT_UNKNOWN && store_touch(contract->store, NULL) != 0) {
        if (look_after_restart(scenario, step)) {
            assert_int_equal(how, FAULTY_AFTER);
            keep_lives(scenario);
            return;
        }
    }
    if (failed != 0) {
        if (how != FAULTY_AFTER) {
            assert_int_equal(count_done(scenario, step), 0);
        }
        assert_int_equal(store_apply(contract->store, list, SCENARIO_TASKS, NULL), 0);
    }
    for (size_t i = 0; i < SCENARIO_TASKS; i++) {
        assert_int_equal(ops[i].result, RESULT_DONE);
    }
    keep_lives(scenario);
}

/* False when nothing failed any more. */
static bool run_scenario(struct contract *contract, enum faulty_how how, size_t nth)
{
    struct scenario scenario = {.contract = contract,
                                .answer = {.status = 200, .body = SPAN("answer")},
                                .trail = {.attempt = 1},
                                .act = {.who = SPAN("alice"), .act = SPAN("settle")}};

    contract_open_new(contract);
    contract->store = store_faulty_new(contract->store, how, nth);
    assert_non_null(contract->store);
    for (size_t i = 0; i < SCENARIO_TASKS; i++) {
        scenario.records[i] = contract_record(contract, i == 0 ? "" : i == 1 ? "one" : "two");
        scenario.spawns[i] = contract_record(contract, i == 0 ? "" : i == 1 ? "cb:1" : "cb:2");
    }
    bool has_failed = false;
    for (int step = 0; step < STEP_COUNT; step++) {
        drive_step(&scenario, step, how);
        has_failed = has_failed || store_faulty_has_failed(contract->store);
        has_failed = has_failed || (how == FAULTY_AFTER && nth == (size_t)step + 1);
    }
    contract->store = store_faulty_take(contract->store);
    contract_reopen(contract);
    assert_int_equal(count_done(&scenario, STEP_SETTLE), SCENARIO_TASKS);
    return has_failed;
}

/* I7, I9 */
static void a_failed_commit_is_refused_or_found_whole(void **state)
{
    static const enum faulty_how writes[] = {FAULTY_BEFORE, FAULTY_FULL, FAULTY_UNSURE,
                                             FAULTY_AFTER};
    struct contract contract = contract_begin(state);

    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        size_t nth = 1;
        while (run_scenario(&contract, writes[i], nth)) {
            nth++;
        }
        assert_true(nth > STEP_COUNT);
    }
    contract_end(&contract);
}

static int see_nothing(void *user, const struct record *record)
{
    (void)record;
    ++*(size_t *)user;
    return 0;
}

static int see_no_brief(void *user, const struct brief *brief)
{
    (void)brief;
    ++*(size_t *)user;
    return 0;
}

/* All reads; 0, or the first fault. */
static int read_everything(struct contract *contract, struct task_id id, size_t *ret_seen)
{
    struct store *store = contract->store;
    struct store_filter filter = {.states = STORE_ALL_STATES, .limit = 10};
    struct audit_filter acts = {.limit = 10};
    struct record record;
    int64_t next = -1;
    bool found;

    int failed = store_read_task(store, id, 0, contract->arena, &record, &found, NULL);
    if (failed == 0) {
        failed = store_list(store, &filter, contract->arena, see_nothing, ret_seen, &next, NULL);
    }
    if (failed == 0) {
        failed = store_due(store, 0, INT64_MAX, see_no_brief, ret_seen, NULL);
    }
    if (failed == 0) {
        failed = store_audit(store, &acts, contract->arena, see_act, ret_seen, &next, NULL);
    }
    if (failed == 0) {
        failed = store_memos(store, see_memo, ret_seen, NULL);
    }
    return failed != 0 ? failed : store_scan(store, see_no_brief, ret_seen, NULL);
}

static void a_failed_read_says_so_and_the_next_one_works(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "key");
    const struct audit_row act = {.act = SPAN("note")};
    struct op memo = {.kind = OP_MEMO, .memo = {SPAN("name"), SPAN("value")}, .audit = &act};
    size_t nth = 0;
    int failed;
    assert_int_equal(contract_apply(&contract, &memo), RESULT_DONE);

    do {
        size_t seen = 0;
        contract.store = store_faulty_new(contract.store, FAULTY_READ, ++nth);
        assert_non_null(contract.store);
        failed = read_everything(&contract, op.task.id, &seen);
        assert_int_equal(failed != 0, store_faulty_has_failed(contract.store));
        seen = 0;
        assert_int_equal(failed == 0 ? 0 : read_everything(&contract, op.task.id, &seen), 0);
        assert_int_equal(seen, failed == 0 ? 0 : 5);
        contract.store = store_faulty_take(contract.store);
    } while (failed != 0);
    assert_int_equal(nth, 7);
    contract_end(&contract);
}

size_t contract_tests_faults(struct CMUnitTest *ret_tests)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_that_fails_half_way_leaves_nothing),
        cmocka_unit_test(a_failed_commit_is_refused_or_found_whole),
        cmocka_unit_test(a_failed_read_says_so_and_the_next_one_works),
    };
    return CONTRACT_COPY(ret_tests, tests);
}
