/* SPDX-License-Identifier: MIT
 *
 * store_contract_leases -- the contract suite: leases that are over by time, what a settle may do
 * besides writing the life, and who wins when many settle at once.
 */
#include "store/committer.h"
#include "store_contract_internal.h"

#include <pthread.h>
#include <stdlib.h>

#define LEASE_MS INT64_C(30000)
#define RIVALS   16

static struct op pull_record(struct contract *contract)
{
    struct op op = contract_record(contract, "");

    op.life.flags = LIFE_PULL;
    assert_int_equal(contract_apply(contract, &op), RESULT_DONE);
    return op;
}

static struct op pull_lease(struct contract *contract, struct task_id id)
{
    struct op op = contract_lease(id);

    op.lease_until_ms = CONTRACT_NOW_MS + LEASE_MS;
    op.lease_ms = LEASE_MS;
    assert_int_equal(contract_apply(contract, &op), RESULT_DONE);
    return op;
}

static struct op extend_op(struct task_id id, uint64_t fence, int64_t until_ms)
{
    struct op op = contract_op(OP_EXTEND, id);

    op.life.fence = fence;
    op.lease_until_ms = until_ms;
    return op;
}

static struct op expire_op(struct task_id id, const struct life *leased, int64_t now_ms)
{
    struct op op = contract_settle(id, leased, TASK_WAITING);

    op.kind = OP_EXPIRE;
    op.now_ms = now_ms;
    op.life.due_at_ms = now_ms;
    return op;
}

/* --- what may be repeated ------------------------------------------------------------------------ */

static struct op lease_with(struct contract *contract, struct task_id id, struct target_round round)
{
    struct op lease = contract_lease(id);

    lease.targets = round;
    assert_int_equal(contract_apply(contract, &lease), RESULT_DONE);
    struct op back = contract_settle(id, &lease.life, TASK_WAITING);
    back.life.due_at_ms = 0;
    assert_int_equal(contract_apply(contract, &back), RESULT_DONE);
    return lease;
}

/* I5: after a crash the lease is all there is to tell whether the attempt may be repeated. */
static void a_lease_says_whether_its_target_may_be_asked_twice(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_record(&contract, "");

    op.life.flags = LIFE_TARGETS | LIFE_SENT;
    assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
    static const struct {
        struct target_round round;
        bool is_once;
    } cases[] = {
        {{.count = 2, .once = 2}, false},               /* turn 0: the first */
        {{.count = 2, .once = 2}, true},                /* turn 1: the second */
        {{.count = 2, .once = 1, .stopped = 1}, false}, /* turn 2: the first is out of the round */
        {{.count = 1, .once = 1}, true},                /* the queue was changed meanwhile */
        {{.count = 0}, true},                           /* no targets: as it was */
        {{.count = 1}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct op lease = lease_with(&contract, op.task.id, cases[i].round);
        assert_int_equal(lease.life.flags,
                         LIFE_TARGETS | LIFE_SENT | (cases[i].is_once ? LIFE_ONCE : 0));
    }
    contract_end(&contract);
}

static void what_a_task_says_itself_no_lease_changes(void **state)
{
    struct contract contract = contract_begin(state);

    for (uint32_t flags = 0; flags <= LIFE_ONCE; flags += LIFE_ONCE) {
        struct op op = contract_record(&contract, "");
        op.life.flags = flags;
        assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
        const struct target_round all = {.count = 1, .once = 1}, none = {.count = 1};
        assert_int_equal(lease_with(&contract, op.task.id, all).life.flags, flags);
        assert_int_equal(lease_with(&contract, op.task.id, none).life.flags, flags);
    }
    contract_end(&contract);
}

/* --- leases that are over by time ------------------------------------------------------------ */

static void a_lease_that_is_over_by_time_says_when(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = pull_record(&contract);
    struct op lease = pull_lease(&contract, op.task.id);

    assert_int_equal(lease.life.due_at_ms, CONTRACT_NOW_MS + LEASE_MS);
    assert_int_equal(lease.life.wait_ms, LEASE_MS); /* so that it is known when it began */
    assert_int_equal(lease.life.state, TASK_RUNNING);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, op.task.id);
    contract_expect_life(&record.life, &lease.life);
    contract_end(&contract);
}

static void only_what_a_person_wants_run_can_be_asked_for(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = pull_record(&contract);
    struct op forced = contract_lease(op.task.id);

    forced.lease_until_ms = CONTRACT_NOW_MS + LEASE_MS;
    forced.life.flags = LIFE_FORCED;
    struct op again = forced, run = contract_op(OP_RUN, op.task.id);
    assert_int_equal(contract_apply(&contract, &forced), RESULT_NOT_DUE); /* though it is due */
    contract_expect_life(&forced.life, &op.life);
    assert_int_equal(contract_apply(&contract, &run), RESULT_DONE);
    contract_reopen(&contract);
    assert_int_equal(contract_apply(&contract, &again), RESULT_DONE);
    assert_int_equal(again.life.flags, LIFE_PULL);
    assert_int_equal(again.life.due_at_ms, CONTRACT_NOW_MS + LEASE_MS);
    contract_end(&contract);
}

static void a_holder_may_ask_for_more_time(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = pull_record(&contract);
    struct op lease = pull_lease(&contract, op.task.id);
    struct op extend = extend_op(op.task.id, lease.life.fence, CONTRACT_NOW_MS + 2 * LEASE_MS);

    assert_int_equal(contract_apply(&contract, &extend), RESULT_DONE);
    struct life wanted = lease.life;
    wanted.due_at_ms = CONTRACT_NOW_MS + 2 * LEASE_MS;
    wanted.wait_ms = 2 * LEASE_MS;
    contract_expect_life(&extend.life, &wanted);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, op.task.id);
    contract_expect_life(&record.life, &wanted);

    struct op settle = contract_settle(op.task.id, &extend.life, TASK_SUCCEEDED);
    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE); /* the fence is the same */
    contract_end(&contract);
}

/* I2 */
static void who_does_not_hold_the_lease_cannot_extend_it(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = pull_record(&contract), push = contract_apply_record(&contract, "");
    struct op waiting = extend_op(op.task.id, 0, CONTRACT_NOW_MS + LEASE_MS);
    assert_int_equal(contract_apply(&contract, &waiting), RESULT_STALE);
    struct op lease = pull_lease(&contract, op.task.id);
    struct op pushed = contract_apply_lease(&contract, push.task.id);

    for (int i = -1; i <= 1; i += 2) {
        struct op stale = extend_op(op.task.id, lease.life.fence + (uint64_t)i, 1);
        assert_int_equal(contract_apply(&contract, &stale), RESULT_STALE);
    }
    struct op not_pull = extend_op(push.task.id, pushed.life.fence, 1);
    assert_int_equal(contract_apply(&contract, &not_pull), RESULT_STALE);
    struct op nobody = extend_op((struct task_id){.row = 5}, 1, 1);
    assert_int_equal(contract_apply(&contract, &nobody), RESULT_MISSING);
    struct record record = contract_read(&contract, op.task.id);
    contract_expect_life(&record.life, &lease.life);
    contract_end(&contract);
}

static void a_lease_expires_to_the_millisecond(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = pull_record(&contract);
    struct op lease = pull_lease(&contract, op.task.id);
    const struct trail_row trail = {.attempt = 1, .message = SPAN("lease expired")};
    struct op early = expire_op(op.task.id, &lease.life, CONTRACT_NOW_MS + LEASE_MS - 1);
    struct op late = expire_op(op.task.id, &lease.life, CONTRACT_NOW_MS + LEASE_MS);
    early.trail = late.trail = &trail;
    early.trail_count = late.trail_count = 1;

    assert_int_equal(contract_apply(&contract, &early), RESULT_NOT_DUE);
    assert_int_equal(contract_read(&contract, op.task.id).trail_count, 0);
    assert_int_equal(contract_apply(&contract, &late), RESULT_DONE);
    struct record record = contract_read(&contract, op.task.id);
    assert_int_equal(record.life.state, TASK_WAITING);
    assert_int_equal(record.life.attempts, 1); /* it counts: a task may kill its worker */
    assert_int_equal(record.trail_count, 1);
    struct op again = expire_op(op.task.id, &lease.life, CONTRACT_NOW_MS + 2 * LEASE_MS);
    assert_int_equal(contract_apply(&contract, &again), RESULT_STALE);
    contract_end(&contract);
}

static void a_lease_that_was_extended_is_not_over(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = pull_record(&contract);
    struct op lease = pull_lease(&contract, op.task.id);
    struct op extend = extend_op(op.task.id, lease.life.fence, CONTRACT_NOW_MS + 2 * LEASE_MS);
    struct op expire = expire_op(op.task.id, &lease.life, CONTRACT_NOW_MS + LEASE_MS);

    assert_int_equal(contract_apply(&contract, &extend), RESULT_DONE);
    assert_int_equal(contract_apply(&contract, &expire), RESULT_NOT_DUE);
    expire = expire_op(op.task.id, &lease.life, CONTRACT_NOW_MS + 2 * LEASE_MS);
    expire.life.fence++;
    assert_int_equal(contract_apply(&contract, &expire), RESULT_STALE);
    expire = expire_op(op.task.id, &lease.life, CONTRACT_NOW_MS + 2 * LEASE_MS);
    assert_int_equal(contract_apply(&contract, &expire), RESULT_DONE);
    contract_end(&contract);
}

/* --- settling -------------------------------------------------------------------------------- */

static void an_attempt_that_was_none_is_given_back(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "");

    for (uint32_t i = 1; i <= 3; i++) {
        struct op lease = contract_apply_lease(&contract, op.task.id);
        struct op settle = contract_settle(op.task.id, &lease.life, TASK_WAITING);
        settle.uncounts = i < 3;
        assert_int_equal(lease.life.attempts, 1);
        assert_int_equal(lease.life.attempts_all, i); /* the number of an attempt is its own */
        assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
        assert_int_equal(contract_read(&contract, op.task.id).life.attempts, i < 3 ? 0 : 1);
    }
    struct op redrawn = contract_record(&contract, ""); /* never below zero */
    redrawn.life.state = TASK_RUNNING;
    assert_int_equal(contract_apply(&contract, &redrawn), RESULT_DONE);
    struct op settle = contract_settle(redrawn.task.id, &redrawn.life, TASK_WAITING);
    settle.uncounts = true;
    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    assert_int_equal(contract_read(&contract, redrawn.task.id).life.attempts, 0);
    contract_end(&contract);
}

static void a_settle_may_free_the_key(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "key");
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct op stale = contract_settle(op.task.id, &lease.life, TASK_FAILED);
    stale.life.fence++;
    stale.releases_key = true;
    assert_int_equal(contract_apply(&contract, &stale), RESULT_STALE);
    struct op bound = contract_record(&contract, "key");
    assert_int_equal(contract_apply(&contract, &bound), RESULT_DUPLICATE);
    assert_true(contract_read(&contract, op.task.id).is_bound);

    struct op settle = contract_settle(op.task.id, &lease.life, TASK_FAILED);
    settle.releases_key = true;
    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    assert_false(contract_read(&contract, op.task.id).is_bound);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, op.task.id);
    assert_false(record.is_bound);
    contract_expect_span(record.task.key, SPAN("key"));

    struct op next = contract_record(&contract, "key"); /* another request, at once */
    next.task.fingerprint[0] ^= 1;
    assert_int_equal(contract_apply(&contract, &next), RESULT_DONE);
    struct op purge = contract_op(OP_PURGE, op.task.id);
    assert_int_equal(contract_apply(&contract, &purge), RESULT_DONE);
    contract_reopen(&contract);
    assert_true(contract_read(&contract, next.task.id).is_bound);
    contract_end(&contract);
}

static void without_a_key_nothing_is_bound(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "");
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct op settle = contract_settle(op.task.id, &lease.life, TASK_FAILED);
    settle.releases_key = true;

    assert_false(contract_read(&contract, op.task.id).is_bound);
    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    contract_end(&contract);
}

static void an_operation_may_bring_several_attempts(void **state)
{
    struct contract contract = contract_begin(state);
    struct answer answer = {.status = 200, .body = SPAN("answer")};
    const struct trail_row trail[] = {
        {.attempt = 1, .target = SPAN("first"), .error_class = 1, .status = 503},
        {.attempt = 1, .target = SPAN("second"), .error_class = 2, .message = SPAN("refused")},
        {.attempt = 1, .target = SPAN("third"), .error_class = -1, .status = 200}};
    static const enum task_state ends[] = {TASK_SUCCEEDED, TASK_FAILED, TASK_WAITING};

    for (size_t i = 0; i < 6; i++) {
        struct op op = contract_apply_record(&contract, "");
        struct op lease = contract_apply_lease(&contract, op.task.id);
        struct op settle = contract_settle(op.task.id, &lease.life, ends[i / 2]);
        settle.trail = trail;
        settle.trail_count = 3;
        settle.answer = i % 2 == 0 ? &answer : NULL;
        assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
        contract_reopen(&contract);
        struct record record = contract_read(&contract, op.task.id);
        assert_int_equal(record.trail_count, 3);
        for (size_t n = 0; n < 3; n++) {
            contract_expect_trail(&record.trail[n], &trail[n]);
        }
    }
    contract_end(&contract);
}

/* --- what is born with a settle -------------------------------------------------------------- */

static struct op settle_with(struct task_id id, const struct life *leased, struct op *spawn)
{
    struct op settle = contract_settle(id, leased, TASK_FAILED);

    settle.spawn = spawn;
    return settle;
}

static void what_a_settle_spawns_is_born_with_it(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "key");
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct op spawn = contract_record(&contract, "cb:1"), given = spawn;
    struct op settle = settle_with(op.task.id, &lease.life, &spawn);

    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    assert_int_equal(spawn.result, RESULT_DONE);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, given.task.id);
    contract_expect_task(&record.task, &given.task);
    contract_expect_life(&record.life, &given.life);
    assert_true(record.is_bound);
    assert_true(contract.store->last_row >= given.task.id.row);
    contract_expect_state(&contract, op.task.id, TASK_FAILED);
    contract_end(&contract);
}

static void a_stale_settle_spawns_nothing(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "");
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct op spawn = contract_record(&contract, "cb:1");
    struct task_id unborn = spawn.task.id;
    struct op stale = settle_with(op.task.id, &lease.life, &spawn);
    struct op missing = settle_with((struct task_id){.row = 5}, &lease.life, &spawn);
    stale.life.fence++;

    assert_int_equal(contract_apply(&contract, &stale), RESULT_STALE);
    assert_int_equal(spawn.result, RESULT_NONE);
    assert_int_equal(contract_apply(&contract, &missing), RESULT_MISSING);
    struct op early = expire_op(op.task.id, &lease.life, CONTRACT_NOW_MS - 1);
    early.spawn = &spawn;
    assert_int_equal(contract_apply(&contract, &early), RESULT_NOT_DUE);
    assert_int_equal(spawn.result, RESULT_NONE);
    assert_false(contract_has(&contract, unborn));
    contract_end(&contract);
}

/* The same end told twice (a commit that was in doubt) has one callback. */
static void a_spawn_that_is_there_already_is_a_duplicate(void **state)
{
    struct contract contract = contract_begin(state);
    struct op there = contract_apply_record(&contract, "cb:1");
    struct op op = contract_apply_record(&contract, "");
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct op spawn = contract_record(&contract, "cb:1");
    struct task_id unborn = spawn.task.id;
    struct op settle = settle_with(op.task.id, &lease.life, &spawn);

    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    assert_int_equal(spawn.result, RESULT_DUPLICATE);
    assert_int_equal(spawn.task.id.row, there.task.id.row);
    assert_false(contract_has(&contract, unborn));
    contract_expect_state(&contract, op.task.id, TASK_FAILED);
    contract_end(&contract);
}

/* --- many at once ---------------------------------------------------------------------------- */

static void wake(void *user)
{
    (void)user;
}

struct rival {
    struct committer *committer;
    struct op op;
    struct answer answer;
    pthread_t thread;
};

static void *submit_settle(void *user)
{
    struct rival *rival = user;

    assert_true(committer_submit(rival->committer, &rival->op));
    return NULL;
}

/* Which of them was told DONE; all were told something. */
static int find_winner(struct committer *committer, const struct rival rivals[RIVALS])
{
    int winner = -1, answered = 0;

    for (struct op *next, *op = committer_take(committer); op != NULL; op = next) {
        next = (struct op *)op->link.next;
        answered++;
        assert_true(op->result == RESULT_DONE || op->result == RESULT_STALE);
        for (int i = 0; i < RIVALS && op->result == RESULT_DONE; i++) {
            if (op == &rivals[i].op) {
                assert_int_equal(winner, -1);
                winner = i;
            }
        }
    }
    assert_int_equal(answered, RIVALS);
    return winner;
}

/* I2: all of them believe that they hold the lease. */
static void of_sixteen_who_settle_exactly_one_does(void **state)
{
    struct contract contract = contract_begin(state);
    struct committer *committer = committer_new(contract.store, &clock_real, wake, NULL);
    struct op op = contract_apply_record(&contract, "key");
    struct op lease = contract_apply_lease(&contract, op.task.id);
    static struct rival rivals[RIVALS];

    assert_non_null(committer);
    assert_int_equal(committer_start(committer, NULL), 0);
    for (int i = 0; i < RIVALS; i++) {
        rivals[i] = (struct rival){.committer = committer, .answer.status = 200 + i};
        rivals[i].op = contract_settle(op.task.id, &lease.life, TASK_SUCCEEDED);
        rivals[i].op.answer = &rivals[i].answer;
        assert_int_equal(pthread_create(&rivals[i].thread, NULL, submit_settle, &rivals[i]), 0);
    }
    for (int i = 0; i < RIVALS; i++) {
        assert_int_equal(pthread_join(rivals[i].thread, NULL), 0);
    }
    committer_stop(committer);
    int winner = find_winner(committer, rivals);
    assert_int_not_equal(winner, -1);
    assert_int_equal(contract_read(&contract, op.task.id).answer.status, 200 + winner);
    committer_free(committer);
    contract_end(&contract);
}

size_t contract_tests_leases(struct CMUnitTest *ret_tests)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_says_whether_its_target_may_be_asked_twice),
        cmocka_unit_test(what_a_task_says_itself_no_lease_changes),
        cmocka_unit_test(a_lease_that_is_over_by_time_says_when),
        cmocka_unit_test(only_what_a_person_wants_run_can_be_asked_for),
        cmocka_unit_test(a_holder_may_ask_for_more_time),
        cmocka_unit_test(who_does_not_hold_the_lease_cannot_extend_it),
        cmocka_unit_test(a_lease_expires_to_the_millisecond),
        cmocka_unit_test(a_lease_that_was_extended_is_not_over),
        cmocka_unit_test(an_attempt_that_was_none_is_given_back),
        cmocka_unit_test(a_settle_may_free_the_key),
        cmocka_unit_test(without_a_key_nothing_is_bound),
        cmocka_unit_test(an_operation_may_bring_several_attempts),
        cmocka_unit_test(what_a_settle_spawns_is_born_with_it),
        cmocka_unit_test(a_stale_settle_spawns_nothing),
        cmocka_unit_test(a_spawn_that_is_there_already_is_a_duplicate),
        cmocka_unit_test(of_sixteen_who_settle_exactly_one_does),
    };
    return CONTRACT_COPY(ret_tests, tests);
}
