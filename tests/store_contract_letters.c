/* SPDX-License-Identifier: MIT
 *
 * store_contract_letters -- the contract suite: dead letters. Who may redrive, resolve, cancel and
 * purge them, what a new round begins with, edits, and how long what is closed is kept.
 */
#include "store_contract_internal.h"

#include <stdlib.h>

#define LETTERS 60
#define MANY    21000 /* more than one page of a list looks at */

/* A dead letter with a life behind it: three attempts, one of them in this round. */
static struct op letter_op(struct contract *contract, const char *key)
{
    struct op op = contract_record(contract, key);

    op.life = (struct life){.state = TASK_DEAD,
                            .due_at_ms = CONTRACT_NOW_MS - 5,
                            .deadline_at_ms = CONTRACT_NOW_MS - 4,
                            .settled_at_ms = CONTRACT_NOW_MS - 3,
                            .fence = 3,
                            .epoch = 2,
                            .attempts = 1,
                            .attempts_all = 3,
                            .round = 1,
                            .class_attempts = {1, 2, 3},
                            .previous_ms = 77,
                            .wait_ms = 88,
                            .flags = LIFE_SENT | LIFE_LETTER | LIFE_LOW | LIFE_UNFRAMED,
                            .failed_class = 2,
                            .failed_at_ms = CONTRACT_NOW_MS - 3};
    return op;
}

static struct op apply_letter(struct contract *contract, const char *key)
{
    struct op op = letter_op(contract, key);

    assert_int_equal(contract_apply(contract, &op), RESULT_DONE);
    return op;
}

/* A6: attempt numbers go on, everything that is counted against the policy starts anew. */
static void a_redrive_begins_a_new_round(void **state)
{
    struct contract contract = contract_begin(state);
    struct op letter = apply_letter(&contract, "key");
    struct op redrive = contract_op(OP_REDRIVE, letter.task.id);
    redrive.life.deadline_at_ms = CONTRACT_NOW_MS + CONTRACT_HOUR_MS;

    assert_int_equal(contract_apply(&contract, &redrive), RESULT_DONE);
    struct life wanted = letter.life;
    wanted.state = TASK_WAITING;
    wanted.round = 2;
    wanted.attempts = 0;
    memset(wanted.class_attempts, 0, sizeof wanted.class_attempts);
    wanted.previous_ms = 0;
    wanted.wait_ms = 0;
    wanted.settled_at_ms = 0;
    wanted.due_at_ms = CONTRACT_NOW_MS;
    wanted.deadline_at_ms = CONTRACT_NOW_MS + CONTRACT_HOUR_MS;
    wanted.flags = LIFE_SENT | LIFE_LETTER;
    contract_expect_life(&redrive.life, &wanted);
    assert_int_equal(redrive.was_state, TASK_DEAD);
    assert_int_equal(redrive.task.queue, CONTRACT_QUEUE);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, letter.task.id);
    contract_expect_life(&record.life, &wanted);
    assert_true(record.is_bound);

    struct op lease = contract_apply_lease(&contract, letter.task.id);
    assert_int_equal(lease.life.attempts, 1);
    assert_int_equal(lease.life.attempts_all, 4);
    assert_int_equal(lease.life.fence, 4);
    contract_end(&contract);
}

static void a_redrive_with_many_others_goes_behind_live_traffic(void **state)
{
    struct contract contract = contract_begin(state);
    struct op letter = apply_letter(&contract, "");
    struct op redrive = contract_op(OP_REDRIVE, letter.task.id);
    redrive.life.flags = LIFE_LOW | LIFE_FORCED | LIFE_PULL; /* only the first is asked about */

    assert_int_equal(contract_apply(&contract, &redrive), RESULT_DONE);
    assert_int_equal(redrive.life.flags, LIFE_SENT | LIFE_LETTER | LIFE_LOW);
    contract_end(&contract);
}

/* The operator's word was about the round before, which ended before it could be kept. */
static void a_redrive_is_not_forced_by_what_was_said_before(void **state)
{
    struct contract contract = contract_begin(state);
    struct op letter = letter_op(&contract, "");
    letter.life.flags |= LIFE_FORCED;
    assert_int_equal(contract_apply(&contract, &letter), RESULT_DONE);
    struct op redrive = contract_op(OP_REDRIVE, letter.task.id);

    assert_int_equal(contract_apply(&contract, &redrive), RESULT_DONE);
    assert_int_equal(redrive.life.flags & LIFE_FORCED, 0);
    contract_end(&contract);
}

/* I4 */
static void what_a_caller_has_as_the_answer_is_not_redriven(void **state)
{
    struct contract contract = contract_begin(state);
    struct op letter = letter_op(&contract, "key");
    letter.life.flags |= LIFE_ANSWERED;
    assert_int_equal(contract_apply(&contract, &letter), RESULT_DONE);
    struct edit edit = {.parts = EDIT_BODY, .body = SPAN("other")};
    struct op redrive = contract_op(OP_REDRIVE, letter.task.id);
    redrive.edit = &edit;

    assert_int_equal(contract_apply(&contract, &redrive), RESULT_ANSWERED);
    contract_expect_life(&redrive.life, &letter.life);
    struct record record = contract_read(&contract, letter.task.id);
    contract_expect_life(&record.life, &letter.life);
    assert_int_equal(record.edit.parts, 0);
    struct op resolve = contract_op(OP_RESOLVE, letter.task.id);
    assert_int_equal(contract_apply(&contract, &resolve), RESULT_DONE); /* closing it is fine */
    contract_end(&contract);
}

static void only_what_is_dead_is_redriven_or_resolved(void **state)
{
    static const enum op_kind kinds[] = {OP_REDRIVE, OP_RESOLVE};
    struct contract contract = contract_begin(state);

    for (int found = 0; found < TASK_STATE_COUNT; found++) {
        struct op op = contract_record(&contract, "");
        op.life.state = (enum task_state)found;
        op.life.flags = LIFE_LETTER;
        assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
        for (size_t i = 0; i < 2 && found != TASK_DEAD; i++) {
            struct op act = contract_op(kinds[i], op.task.id);
            assert_int_equal(contract_apply(&contract, &act), RESULT_NOT_DEAD);
            assert_int_equal(act.life.state, found); /* the loser is told what there is */
            assert_int_equal(act.was_state, found);
            contract_expect_state(&contract, op.task.id, (enum task_state)found);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        struct op act = contract_op(kinds[i], (struct task_id){.row = 5, .tail = 5});
        assert_int_equal(contract_apply(&contract, &act), RESULT_MISSING);
    }
    contract_end(&contract);
}

/* Its deadline passed while it waited: it has no attempt, and so the same fence in each round. */
static struct op expire_op(struct task_id id, uint32_t round)
{
    struct op op = contract_op(OP_EXPIRE, id);

    op.life = (struct life){.state = TASK_DEAD,
                            .round = round,
                            .flags = LIFE_LETTER,
                            .failed_class = DARUMA_CLASS_EXPIRED + 1,
                            .settled_at_ms = CONTRACT_NOW_MS};
    return op;
}

static void what_was_seen_of_one_round_does_nothing_to_the_next(void **state)
{
    struct contract contract = contract_begin(state);
    struct op task = contract_record(&contract, "");
    task.life.deadline_at_ms = CONTRACT_NOW_MS - 1;
    assert_int_equal(contract_apply(&contract, &task), RESULT_DONE);
    struct op first = expire_op(task.task.id, 0), late = expire_op(task.task.id, 0);
    struct op spawn = contract_record(&contract, "cb:0");
    late.spawn = &spawn;
    struct op redrive = contract_op(OP_REDRIVE, task.task.id);
    redrive.is_as_seen = true;
    redrive.life.deadline_at_ms = CONTRACT_NOW_MS - 1;
    struct op once_more = redrive;

    assert_int_equal(contract_apply(&contract, &first), RESULT_DONE);
    assert_int_equal(contract_apply(&contract, &redrive), RESULT_DONE);
    assert_int_equal(contract_apply(&contract, &late), RESULT_STALE);
    assert_int_equal(spawn.result, RESULT_NONE); /* it would tell of the first round */
    struct op second = expire_op(task.task.id, 1);
    assert_int_equal(contract_apply(&contract, &second), RESULT_DONE);
    assert_int_equal(contract_apply(&contract, &once_more), RESULT_NOT_DEAD);
    assert_int_equal(contract_read(&contract, task.task.id).life.fence, 0);
    contract_end(&contract);
}

static void a_resolved_letter_is_closed(void **state)
{
    struct contract contract = contract_begin(state);
    struct op letter = apply_letter(&contract, "key");
    struct edit edit = {.note = SPAN("refunded by hand")};
    struct op resolve = contract_op(OP_RESOLVE, letter.task.id);
    resolve.edit = &edit;

    assert_int_equal(contract_apply(&contract, &resolve), RESULT_DONE);
    struct life wanted = letter.life;
    wanted.state = TASK_FAILED;
    wanted.resolved_at_ms = CONTRACT_NOW_MS;
    wanted.flags |= LIFE_EDITED;
    contract_expect_life(&resolve.life, &wanted);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, letter.task.id);
    contract_expect_life(&record.life, &wanted);
    contract_expect_edit(&record.edit, &edit);
    assert_int_equal(letter_status(&record.life), LETTER_RESOLVED);
    contract_end(&contract);
}

/* Every pair of two acts on one letter, one after the other: what the first has made of it decides. */
static void of_two_acts_on_a_letter_the_first_wins(void **state)
{
    static const enum op_kind kinds[] = {OP_REDRIVE, OP_RESOLVE, OP_PURGE, OP_CANCEL};
    static const enum op_result wanted[4][4] = {
        /* redrive */ {RESULT_NOT_DEAD, RESULT_NOT_DEAD, RESULT_DONE, RESULT_DONE},
        /* resolve */ {RESULT_NOT_DEAD, RESULT_NOT_DEAD, RESULT_DONE, RESULT_NOT_WAITING},
        /* purge */ {RESULT_MISSING, RESULT_MISSING, RESULT_MISSING, RESULT_MISSING},
        /* cancel: it is not waiting */ {RESULT_DONE, RESULT_DONE, RESULT_DONE, RESULT_NOT_WAITING},
    };
    static const enum task_state after[] = {TASK_WAITING, TASK_FAILED, TASK_DEAD, TASK_DEAD};
    struct contract contract = contract_begin(state);

    for (size_t one = 0; one < 4; one++) {
        for (size_t two = 0; two < 4; two++) {
            struct op letter = apply_letter(&contract, "");
            struct op first = contract_op(kinds[one], letter.task.id);
            struct op second = contract_op(kinds[two], letter.task.id);
            assert_int_equal(contract_apply(&contract, &first),
                             kinds[one] == OP_CANCEL ? RESULT_NOT_WAITING : RESULT_DONE);
            assert_int_equal(contract_apply(&contract, &second), wanted[one][two]);
            if (second.result == RESULT_NOT_DEAD || second.result == RESULT_NOT_WAITING) {
                assert_int_equal(second.life.state, after[one]);
            }
        }
    }
    contract_end(&contract);
}

static void cancelling_a_redriven_letter_closes_it(void **state)
{
    struct contract contract = contract_begin(state);
    struct op letter = apply_letter(&contract, "");
    struct op redrive = contract_op(OP_REDRIVE, letter.task.id);
    struct op cancel = contract_op(OP_CANCEL, letter.task.id);
    struct op plain = contract_apply_record(&contract, "");
    struct op cancel_plain = contract_op(OP_CANCEL, plain.task.id);

    assert_int_equal(contract_apply(&contract, &redrive), RESULT_DONE);
    assert_int_equal(contract_apply(&contract, &cancel), RESULT_DONE);
    assert_int_equal(cancel.life.resolved_at_ms, CONTRACT_NOW_MS);
    assert_int_equal(contract_apply(&contract, &cancel_plain), RESULT_DONE);
    assert_int_equal(cancel_plain.life.resolved_at_ms, 0); /* it never was one */
    contract_end(&contract);
}

/* --- edits ----------------------------------------------------------------------------------- */

static const struct edit full_edit = {.parts = EDIT_TARGET | EDIT_HEADERS | EDIT_BODY,
                                      .round = 2,
                                      .target = {"http://other.test/\xff", 19},
                                      .headers = {"a: b\n", 5},
                                      .body = {"\0edited\xfe", 8},
                                      .note = {"because", 7}};

/* I3: the request and its key stay as they were. */
static void an_edit_stands_beside_the_request_and_comes_with_the_lease(void **state)
{
    struct contract contract = contract_begin(state);
    struct op letter = apply_letter(&contract, "key");
    struct op redrive = contract_op(OP_REDRIVE, letter.task.id);
    redrive.edit = &full_edit;

    assert_int_equal(contract_apply(&contract, &redrive), RESULT_DONE);
    assert_true((redrive.life.flags & LIFE_EDITED) != 0);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, letter.task.id);
    contract_expect_task(&record.task, &letter.task);
    contract_expect_edit(&record.edit, &full_edit);
    struct op same = contract_record(&contract, "key");
    assert_int_equal(contract_apply(&contract, &same), RESULT_DUPLICATE);

    struct op lease = contract_lease(letter.task.id);
    lease.wants_request = true;
    lease.arena = contract.arena;
    assert_int_equal(contract_apply(&contract, &lease), RESULT_DONE);
    contract_expect_task(&lease.task, &letter.task);
    contract_expect_edit(&lease.edited, &full_edit);
    contract_end(&contract);
}

static void a_lease_without_an_edit_says_so(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "");
    struct op lease = contract_lease(op.task.id);
    lease.wants_request = true;
    lease.arena = contract.arena;

    assert_int_equal(contract_apply(&contract, &lease), RESULT_DONE);
    assert_int_equal(lease.edited.parts, 0);
    assert_int_equal(lease.edited.note.len, 0);
    contract_end(&contract);
}

static void an_edit_stays_until_the_next_one(void **state)
{
    struct contract contract = contract_begin(state);
    struct op letter = apply_letter(&contract, "");
    const struct edit next = {.parts = EDIT_BODY, .round = 3, .body = SPAN("again")};
    const struct edit *edits[] = {&full_edit, NULL, &next, NULL};
    const struct edit *wanted[] = {&full_edit, &full_edit, &next, &next};

    for (size_t i = 0; i < 4; i++) {
        struct op redrive = contract_op(OP_REDRIVE, letter.task.id);
        redrive.edit = edits[i];
        assert_int_equal(contract_apply(&contract, &redrive), RESULT_DONE);
        struct op lease = contract_apply_lease(&contract, letter.task.id);
        struct op settle = contract_settle(letter.task.id, &lease.life, TASK_DEAD);
        settle.life.flags = LIFE_LETTER; /* whoever settles cannot lose it */
        assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
        struct record record = contract_read(&contract, letter.task.id);
        assert_true((record.life.flags & LIFE_EDITED) != 0);
        contract_expect_edit(&record.edit, wanted[i]);
        contract_reopen(&contract);
    }
    contract_end(&contract);
}

static void without_bodies_an_edit_has_none(void **state)
{
    struct contract contract = contract_begin(state);
    struct op letter = apply_letter(&contract, "");
    struct op redrive = contract_op(OP_REDRIVE, letter.task.id);
    struct record record;
    bool found = false;
    redrive.edit = &full_edit;

    assert_int_equal(contract_apply(&contract, &redrive), RESULT_DONE);
    assert_int_equal(
        store_read_task(contract.store, letter.task.id, 0, contract.arena, &record, &found, NULL),
        0);
    assert_int_equal(record.edit.parts, full_edit.parts);
    contract_expect_span(record.edit.target, full_edit.target);
    assert_int_equal(record.edit.body.len, 0);
    contract_end(&contract);
}

static void a_purge_takes_the_edit_along(void **state)
{
    struct contract contract = contract_begin(state);
    struct op letter = apply_letter(&contract, "");
    struct op redrive = contract_op(OP_REDRIVE, letter.task.id);
    struct op purge = contract_op(OP_PURGE, letter.task.id);
    redrive.edit = &full_edit;

    assert_int_equal(contract_apply(&contract, &redrive), RESULT_DONE);
    assert_int_equal(contract_apply(&contract, &purge), RESULT_DONE);
    letter.life.flags |=
        LIFE_EDITED; /* the same row again shows what would have been left behind */
    assert_int_equal(contract_apply(&contract, &letter), RESULT_DONE);
    contract_reopen(&contract);
    struct record record = contract_read(&contract, letter.task.id);
    assert_int_equal(record.edit.parts, 0);
    contract_end(&contract);
}

/* --- keeping --------------------------------------------------------------------------------- */

static void expect_bound_until(struct contract *contract, const char *key, int64_t until_ms)
{
    struct op early = contract_record(contract, key), after = contract_record(contract, key);

    early.now_ms = until_ms - 1;
    after.now_ms = until_ms;
    assert_int_equal(contract_apply(contract, &early), RESULT_DUPLICATE);
    assert_int_equal(contract_apply(contract, &after), RESULT_DONE);
    assert_true(contract_read(contract, after.task.id).is_bound);
    assert_false(contract_read(contract, early.task.id).is_bound); /* of the old holder */
}

/* A closed letter is kept from the day it was closed, not from the day it failed. */
static void a_closed_letter_is_kept_from_its_closing(void **state)
{
    struct contract contract = contract_begin(state);
    struct op letter = apply_letter(&contract, "key");
    struct op resolve = contract_op(OP_RESOLVE, letter.task.id);
    resolve.now_ms = CONTRACT_NOW_MS + 50 * CONTRACT_KEEP_MS;

    assert_int_equal(contract_apply(&contract, &resolve), RESULT_DONE);
    contract_reopen(&contract);
    expect_bound_until(&contract, "key", resolve.now_ms + 2 * CONTRACT_KEEP_MS);
    contract_end(&contract);
}

static void an_end_may_say_how_long_it_is_kept(void **state)
{
    static const enum task_state ends[] = {TASK_SUCCEEDED, TASK_FAILED, TASK_CANCELLED};
    struct contract contract = contract_begin(state);

    for (size_t i = 0; i < 3; i++) {
        char key[2] = {(char)('a' + i), '\0'};
        struct op op = contract_record(&contract, key);
        op.life.state = ends[i];
        op.life.settled_at_ms = CONTRACT_NOW_MS;
        op.life.keep_until_ms = CONTRACT_NOW_MS + 100 * CONTRACT_KEEP_MS;
        assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
        contract_reopen(&contract);
        expect_bound_until(&contract, key, op.life.keep_until_ms);
    }
    struct op letter = letter_op(&contract, "d"); /* waits for a person, whatever it says */
    letter.life.keep_until_ms = 1;
    assert_int_equal(contract_apply(&contract, &letter), RESULT_DONE);
    struct op same = contract_record(&contract, "d");
    assert_int_equal(contract_apply(&contract, &same), RESULT_DUPLICATE);
    contract_end(&contract);
}

/* --- lists ----------------------------------------------------------------------------------- */

/* States in turn; every other has been a letter, of three classes, failed a second apart. */
static void fill(struct contract *contract, struct op ops[LETTERS])
{
    for (size_t i = 0; i < LETTERS; i++) {
        ops[i] = contract_record(contract, "");
        ops[i].task.queue = i % 3 == 0 ? 3 : CONTRACT_QUEUE;
        ops[i].life.state = (enum task_state)(i % TASK_STATE_COUNT);
        if (i % 2 == 0) {
            ops[i].life.flags = LIFE_LETTER | (i % 4 == 0 ? LIFE_ANSWERED : 0);
            ops[i].life.failed_class = 1 + (uint32_t)(i / 2 % 3);
            ops[i].life.failed_at_ms = CONTRACT_NOW_MS + 1000 * (int64_t)i;
        }
    }
    contract_apply_all(contract, ops, LETTERS);
}

static bool is_wanted(const struct store_filter *filter, const struct op *op)
{
    const struct life *life = &op->life;
    int64_t at = life->failed_at_ms;

    return (filter->queue == 0 || filter->queue == op->task.queue) &&
           (filter->states >> life->state & 1) != 0 &&
           (life->flags & filter->flags) == filter->flags &&
           (filter->failed_class == 0 || filter->failed_class == life->failed_class) &&
           (filter->failed_from_ms == 0 || at >= filter->failed_from_ms) &&
           (filter->failed_until_ms == 0 || at < filter->failed_until_ms);
}

static void expect_listed(struct contract *contract, struct store_filter filter,
                          const struct op ops[LETTERS])
{
    static struct contract_seen seen;
    size_t at = 0;

    (void)contract_list(contract, filter, &seen);
    for (size_t i = 0; i < LETTERS; i++) {
        if (is_wanted(&filter, &ops[i])) {
            assert_true(at < seen.count);
            assert_int_equal(seen.rows[at++], ops[i].task.id.row);
        }
    }
    assert_int_equal(at, seen.count);
}

static void a_list_filters_letters_by_class_and_time(void **state)
{
    static const unsigned states[] = {STORE_ALL_STATES, 1u << TASK_DEAD, 1u << TASK_UNSETTLED,
                                      1u << TASK_DEAD | 1u << TASK_UNSETTLED,
                                      1u << TASK_WAITING | 1u << TASK_RUNNING | 1u << TASK_FAILED};
    static const uint32_t flags[] = {0, LIFE_LETTER, LIFE_LETTER | LIFE_ANSWERED};
    struct contract contract = contract_begin(state);
    struct op ops[LETTERS];
    fill(&contract, ops);

    for (size_t i = 0; i < 5 * 3 * 4 * 4; i++) {
        struct store_filter filter = {.states = states[i % 5],
                                      .flags = flags[i / 5 % 3],
                                      .failed_class = (uint32_t)(i / 15 % 4),
                                      .queue = i % 2 == 0 ? 0 : CONTRACT_QUEUE,
                                      .limit = 1 + i % 7};
        filter.failed_from_ms = i / 60 % 2 == 0 ? 0 : ops[20].life.failed_at_ms;
        filter.failed_until_ms = i / 120 % 2 == 0 ? 0 : ops[40].life.failed_at_ms;
        expect_listed(&contract, filter, ops);
    }
    contract_end(&contract);
}

/* What stands between is not what a page is made of, yet looking at it has an end. */
static void a_list_of_letters_among_many_others_ends(void **state)
{
    struct contract contract = contract_begin(state);
    size_t rows_max = contract.subject->rows_max;
    size_t count = rows_max > 0 && rows_max < MANY ? rows_max : MANY;
    struct op *ops = calloc(count, sizeof *ops);
    static struct contract_seen seen;
    struct store_filter filter = {.states = STORE_ALL_STATES, .flags = LIFE_LETTER, .limit = 10};

    assert_non_null(ops);
    for (size_t i = 0; i < count; i++) {
        ops[i] = contract_record(&contract, "");
    }
    ops[0].life.flags = ops[count - 1].life.flags = LIFE_LETTER;
    ops[1].life.state = TASK_UNSETTLED;
    for (size_t i = 2; i < count / 2; i++) {
        ops[i].life.state = TASK_DEAD;
    }
    ops[count - 2].life.state = TASK_UNSETTLED;
    contract_apply_all(&contract, ops, count);
    assert_true(contract_list(&contract, filter, &seen) < 4);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.rows[1], ops[count - 1].task.id.row);

    filter = (struct store_filter){.states = 1u << TASK_UNSETTLED, .limit = 10};
    assert_true(contract_list(&contract, filter, &seen) < 4);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.rows[1], ops[count - 2].task.id.row);
    free(ops);
    contract_end(&contract);
}

static int see_letter(void *user, const struct brief *brief)
{
    int64_t *failed_at_ms = user;

    *failed_at_ms = brief->state == TASK_DEAD ? brief->failed_at_ms : *failed_at_ms;
    return 0;
}

static void a_scan_tells_when_a_letter_failed(void **state)
{
    struct contract contract = contract_begin(state);
    struct op other = contract_record(&contract, "");
    int64_t failed_at_ms = 0;

    assert_int_equal(contract_apply(&contract, &other), RESULT_DONE);
    struct op letter = apply_letter(&contract, "key");
    contract_reopen(&contract);
    assert_int_equal(store_scan(contract.store, see_letter, &failed_at_ms, NULL), 0);
    assert_int_equal(failed_at_ms, letter.life.failed_at_ms);
    contract_end(&contract);
}

size_t contract_tests_letters(struct CMUnitTest *ret_tests)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_redrive_begins_a_new_round),
        cmocka_unit_test(a_redrive_with_many_others_goes_behind_live_traffic),
        cmocka_unit_test(a_redrive_is_not_forced_by_what_was_said_before),
        cmocka_unit_test(what_a_caller_has_as_the_answer_is_not_redriven),
        cmocka_unit_test(only_what_is_dead_is_redriven_or_resolved),
        cmocka_unit_test(what_was_seen_of_one_round_does_nothing_to_the_next),
        cmocka_unit_test(a_resolved_letter_is_closed),
        cmocka_unit_test(of_two_acts_on_a_letter_the_first_wins),
        cmocka_unit_test(cancelling_a_redriven_letter_closes_it),
        cmocka_unit_test(an_edit_stands_beside_the_request_and_comes_with_the_lease),
        cmocka_unit_test(a_lease_without_an_edit_says_so),
        cmocka_unit_test(an_edit_stays_until_the_next_one),
        cmocka_unit_test(without_bodies_an_edit_has_none),
        cmocka_unit_test(a_purge_takes_the_edit_along),
        cmocka_unit_test(a_closed_letter_is_kept_from_its_closing),
        cmocka_unit_test(an_end_may_say_how_long_it_is_kept),
        cmocka_unit_test(a_list_filters_letters_by_class_and_time),
        cmocka_unit_test(a_list_of_letters_among_many_others_ends),
        cmocka_unit_test(a_scan_tells_when_a_letter_failed),
    };
    return CONTRACT_COPY(ret_tests, tests);
}
