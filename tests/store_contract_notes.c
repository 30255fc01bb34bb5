/* SPDX-License-Identifier: MIT
 *
 * store_contract_notes -- the contract suite: what people did, and memos.
 */
#include "store_contract_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define ACTS       30
#define PAGE       7
#define MEMOS      20
#define TRIM_MORE  150
#define TRIM_SLACK 100
#define TRIM_OPS   500

struct acts {
    struct audit_row rows[ACTS];
    size_t count, stop_at;
};

static int see_act(void *user, const struct audit_row *row)
{
    struct acts *acts = user;

    assert_true(acts->count < ACTS);
    acts->rows[acts->count++] = *row;
    return acts->count == acts->stop_at ? FAULT_LIMIT : 0;
}

/* All pages. */
static void read_acts(struct contract *contract, struct audit_filter filter, struct acts *ret_acts)
{
    int64_t next = filter.after_number;

    *ret_acts = (struct acts){0};
    do {
        size_t count = ret_acts->count;
        int64_t before = next;
        filter.after_number = next;
        assert_int_equal(
            store_audit(contract->store, &filter, contract->arena, see_act, ret_acts, &next, NULL),
            0);
        assert_true(ret_acts->count - count <= filter.limit);
        assert_true(next == 0 || next > before);
    } while (next != 0);
}

static struct audit_row act_of(const char *who, const char *act)
{
    return (struct audit_row){.at_ms = CONTRACT_NOW_MS,
                              .who = span_of(who),
                              .act = span_of(act),
                              .subject = SPAN("queue"),
                              .from_state = -1,
                              .to_state = -1,
                              .note = SPAN("a \0 note \xff")};
}

static void expect_act(const struct audit_row *got, const struct audit_row *wanted)
{
    assert_int_equal(got->at_ms, wanted->at_ms);
    assert_int_equal(got->task.row, wanted->task.row);
    assert_int_equal(got->task.tail, wanted->task.tail);
    assert_int_equal(got->from_state, wanted->from_state);
    assert_int_equal(got->to_state, wanted->to_state);
    contract_expect_span(got->who, wanted->who);
    contract_expect_span(got->act, wanted->act);
    contract_expect_span(got->subject, wanted->subject);
    contract_expect_span(got->note, wanted->note);
}

/* --- acts ------------------------------------------------------------------------------------ */

static void an_act_is_kept_with_what_it_did(void **state)
{
    static const struct {
        enum op_kind kind;
        enum task_state from;
        int to;
    } moves[] = {
        {OP_RUN, TASK_WAITING, TASK_WAITING},     {OP_CANCEL, TASK_WAITING, TASK_CANCELLED},
        {OP_REDRIVE, TASK_DEAD, TASK_WAITING},    {OP_RESOLVE, TASK_DEAD, TASK_FAILED},
        {OP_SETTLE, TASK_UNSETTLED, TASK_FAILED}, {OP_PURGE, TASK_FAILED, -1}};
    struct contract contract = contract_begin(state);
    struct audit_row wanted[6];
    static struct acts acts;

    for (size_t i = 0; i < 6; i++) {
        struct op op = contract_record(&contract, "");
        op.life.state = moves[i].from;
        assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
        struct op act = contract_op(moves[i].kind, op.task.id);
        act.life.state = TASK_FAILED;
        wanted[i] = act_of("alice", "act");
        act.audit = &wanted[i];
        assert_int_equal(contract_apply(&contract, &act), RESULT_DONE);
        wanted[i].task = op.task.id;
        wanted[i].from_state = (int)moves[i].from;
        wanted[i].to_state = moves[i].to;
    }
    for (int round = 0; round < 2; round++) {
        read_acts(&contract, (struct audit_filter){.limit = PAGE}, &acts);
        assert_int_equal(acts.count, 6);
        for (size_t i = 0; i < 6; i++) {
            expect_act(&acts.rows[i], &wanted[i]);
            assert_true(acts.rows[i].number > (i > 0 ? acts.rows[i - 1].number : 0));
        }
        contract_reopen(&contract);
    }
    contract_end(&contract);
}

static void an_act_that_is_not_about_a_task_has_none(void **state)
{
    struct contract contract = contract_begin(state);
    struct audit_row acts_given[] = {act_of("bob", "queue_put"), act_of("carol", "alert")};
    struct op ops[] = {
        {.kind = OP_QUEUE, .queue.name = SPAN("queue"), .audit = &acts_given[0]},
        {.kind = OP_MEMO, .memo = {SPAN("name"), SPAN("value")}, .audit = &acts_given[1]}};
    static struct acts acts;

    contract_apply_all(&contract, ops, 2);
    contract_reopen(&contract);
    read_acts(&contract, (struct audit_filter){.limit = PAGE}, &acts);
    assert_int_equal(acts.count, 2);
    for (size_t i = 0; i < 2; i++) {
        expect_act(&acts.rows[i], &acts_given[i]);
    }
    contract_end(&contract);
}

static void what_did_not_happen_is_not_told(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "key");
    struct audit_row row = act_of("alice", "act");
    struct op ops[] = {contract_op(OP_REDRIVE, op.task.id),
                       contract_op(OP_CANCEL, (struct task_id){.row = 5}),
                       contract_record(&contract, "key"),
                       {.kind = OP_QUEUE, .queue = {.number = 99, .name = SPAN("none")}}};
    static struct acts acts;

    for (size_t i = 0; i < 4; i++) {
        ops[i].audit = &row;
        assert_int_not_equal(contract_apply(&contract, &ops[i]), RESULT_DONE);
    }
    read_acts(&contract, (struct audit_filter){.limit = PAGE}, &acts);
    assert_int_equal(acts.count, 0);
    contract_end(&contract);
}

static bool is_wanted(const struct audit_filter *filter, const struct audit_row *row)
{
    return (filter->task_row == 0 || filter->task_row == row->task.row) &&
           (filter->who.len == 0 || span_equal(filter->who, row->who)) &&
           (filter->act.len == 0 || span_equal(filter->act, row->act)) &&
           (filter->subject.len == 0 || span_equal(filter->subject, row->subject)) &&
           (filter->from_ms == 0 || row->at_ms >= filter->from_ms) &&
           (filter->until_ms == 0 || row->at_ms < filter->until_ms);
}

/* Two people, three acts, two tasks, a second apart. */
static void fill(struct contract *contract, struct audit_row rows[ACTS])
{
    static const char *const names[] = {"run", "cancel", "redrive"};
    struct task_id tasks[] = {contract_apply_record(contract, "").task.id,
                              contract_apply_record(contract, "").task.id};

    for (size_t i = 0; i < ACTS; i++) {
        rows[i] = act_of(i % 2 == 0 ? "alice" : "bob", names[i % 3]);
        rows[i].at_ms = CONTRACT_NOW_MS + 1000 * (int64_t)i;
        rows[i].subject = i % 5 == 0 ? SPAN("five") : SPAN("");
        struct op op = i % 4 == 0
                           ? (struct op){.kind = OP_MEMO, .memo = {SPAN("name"), SPAN("value")}}
                           : contract_op(OP_RUN, tasks[i % 2]);
        op.audit = &rows[i];
        assert_int_equal(contract_apply(contract, &op), RESULT_DONE);
        rows[i].task = i % 4 == 0 ? (struct task_id){0} : tasks[i % 2];
        rows[i].from_state = rows[i].to_state = i % 4 == 0 ? -1 : TASK_WAITING;
    }
}

static void acts_are_found_by_who_what_and_when(void **state)
{
    struct contract contract = contract_begin(state);
    static struct audit_row rows[ACTS];
    static struct acts acts;
    fill(&contract, rows);

    for (size_t i = 0; i < 64; i++) {
        struct audit_filter filter = {.limit = 1 + i % PAGE};
        filter.who = (i & 1) != 0 ? SPAN("bob") : SPAN("");
        filter.act = (i & 2) != 0 ? SPAN("cancel") : SPAN("");
        filter.subject = (i & 4) != 0 ? SPAN("five") : SPAN("");
        filter.task_row = (i & 8) != 0 ? rows[1].task.row : 0;
        filter.from_ms = (i & 16) != 0 ? rows[5].at_ms : 0;
        filter.until_ms = (i & 32) != 0 ? rows[25].at_ms : 0;
        read_acts(&contract, filter, &acts);
        size_t at = 0;
        for (size_t n = 0; n < ACTS; n++) {
            if (is_wanted(&filter, &rows[n])) {
                assert_true(at < acts.count);
                expect_act(&acts.rows[at++], &rows[n]);
            }
        }
        assert_int_equal(at, acts.count);
    }
    contract_end(&contract);
}

static void who_looks_at_acts_may_stop(void **state)
{
    struct contract contract = contract_begin(state);
    static struct audit_row rows[ACTS];
    static struct acts acts;
    struct audit_filter filter = {.limit = PAGE};
    int64_t next = -1;
    fill(&contract, rows);

    acts = (struct acts){.stop_at = 3};
    assert_int_equal(
        store_audit(contract.store, &filter, contract.arena, see_act, &acts, &next, NULL),
        FAULT_LIMIT);
    assert_int_equal(acts.count, 3);
    assert_int_equal(next, -1);
    contract_end(&contract);
}

static void add_acts(struct contract *contract, size_t first, size_t count)
{
    static struct op ops[TRIM_OPS];
    static struct audit_row rows[TRIM_OPS];
    static char names[TRIM_OPS][16];

    for (size_t i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "none-%zu", i);
        rows[i] = act_of("alice", "act");
        rows[i].at_ms = (int64_t)(first + i);
        ops[i] = (struct op){.kind = OP_MEMO, .memo.name = span_of(names[i]), .audit = &rows[i]};
    }
    contract_apply_all(contract, ops, count);
}

/* The oldest go, and only they; a store may let a few gather before it sweeps. */
static void acts_beyond_the_number_kept_go(void **state)
{
    struct contract contract = contract_begin(state);
    size_t kept = contract.subject->audit_kept;
    static struct acts acts;

    kept = kept == 0 ? STORE_AUDIT_KEPT : kept;
    size_t all = kept + TRIM_MORE;
    for (size_t count = 0; count < all; count += TRIM_OPS) {
        add_acts(&contract, count, all - count < TRIM_OPS ? all - count : TRIM_OPS);
    }
    for (int round = 0; round < 2; round++) {
        struct audit_filter oldest = {.limit = 1};
        struct audit_filter newest = {.limit = PAGE, .from_ms = (int64_t)all - 1};
        int64_t next;
        acts = (struct acts){0};
        assert_int_equal(
            store_audit(contract.store, &oldest, contract.arena, see_act, &acts, &next, NULL), 0);
        assert_in_range(acts.rows[0].at_ms, TRIM_MORE - TRIM_SLACK, TRIM_MORE);
        read_acts(&contract, newest, &acts);
        assert_int_equal(acts.count, 1);
        assert_int_equal(acts.rows[0].at_ms, all - 1);
        contract_reopen(&contract);
    }
    contract_end(&contract);
}

/* --- memos ----------------------------------------------------------------------------------- */

struct memos {
    struct memo memos[MEMOS];
    char bytes[MEMOS][2 * STORE_MEMO_NAME_MAX + 64];
    size_t count, stop_at;
};

static int see_memo(void *user, const struct memo *memo)
{
    struct memos *memos = user;
    char *to = memos->bytes[memos->count];
    struct memo *seen = &memos->memos[memos->count];

    assert_true(memos->count < MEMOS);
    assert_true(memo->name.len + memo->value.len <= sizeof memos->bytes[0]);
    memcpy(to, memo->name.at, memo->name.len);
    memcpy(to + memo->name.len, memo->value.at, memo->value.len);
    seen->name = (struct span){.at = to, .len = memo->name.len};
    seen->value = (struct span){.at = to + memo->name.len, .len = memo->value.len};
    memos->count++;
    return memos->count == memos->stop_at ? FAULT_LIMIT : 0;
}

static void put_memo(struct contract *contract, struct span name, struct span value)
{
    struct op op = {.kind = OP_MEMO, .memo = {name, value}};

    assert_int_equal(contract_apply(contract, &op), RESULT_DONE);
}

/* The value; empty: there is no such memo. */
static struct span find_memo(struct contract *contract, struct span name, size_t *ret_count)
{
    static struct memos memos;
    struct span value = {0};

    memos = (struct memos){.count = 0};
    assert_int_equal(store_memos(contract->store, see_memo, &memos, NULL), 0);
    for (size_t i = 0; i < memos.count; i++) {
        value = span_equal(memos.memos[i].name, name) ? memos.memos[i].value : value;
    }
    *ret_count = memos.count;
    return value;
}

static void a_memo_is_written_replaced_and_forgotten(void **state)
{
    struct contract contract = contract_begin(state);
    size_t count;

    put_memo(&contract, SPAN("redrive"), SPAN("{\"after\": 17}"));
    put_memo(&contract, SPAN("redriven"), SPAN("b"));
    contract_reopen(&contract);
    contract_expect_span(find_memo(&contract, SPAN("redrive"), &count), SPAN("{\"after\": 17}"));
    assert_int_equal(count, 2);
    put_memo(&contract, SPAN("redrive"), SPAN("x \xff\0 y"));
    contract_reopen(&contract);
    contract_expect_span(find_memo(&contract, SPAN("redrive"), &count), SPAN("x \xff\0 y"));
    assert_int_equal(count, 2);
    put_memo(&contract, SPAN("redrive"), SPAN(""));
    put_memo(&contract, SPAN("never there"), SPAN(""));
    contract_reopen(&contract);
    assert_int_equal(find_memo(&contract, SPAN("redrive"), &count).len, 0);
    assert_int_equal(count, 1);
    contract_end(&contract);
}

static void every_memo_is_told_once(void **state)
{
    struct contract contract = contract_begin(state);
    char names[MEMOS][STORE_MEMO_NAME_MAX];
    static struct memos memos;

    for (size_t i = 0; i < MEMOS; i++) {
        memset(names[i], (int)('a' + i), sizeof names[i]);
        put_memo(&contract,
                 (struct span){names[i], 1 + i * (STORE_MEMO_NAME_MAX - 1) / (MEMOS - 1)},
                 SPAN("value"));
    }
    contract_reopen(&contract);
    memos = (struct memos){.count = 0};
    assert_int_equal(store_memos(contract.store, see_memo, &memos, NULL), 0);
    assert_int_equal(memos.count, MEMOS);
    for (size_t i = 0; i < MEMOS; i++) {
        size_t count;
        struct span name = {names[i], 1 + i * (STORE_MEMO_NAME_MAX - 1) / (MEMOS - 1)};
        contract_expect_span(find_memo(&contract, name, &count), SPAN("value"));
    }
    memos = (struct memos){.stop_at = 2};
    assert_int_equal(store_memos(contract.store, see_memo, &memos, NULL), FAULT_LIMIT);
    assert_int_equal(memos.count, 2);
    contract_end(&contract);
}

/* What a MEMO with a condition comes to. */
static enum op_result put_if(struct contract *contract, struct memo memo,
                             struct memo_condition condition)
{
    struct op op = {.kind = OP_MEMO, .memo = memo, .only_while = &condition};

    return contract_apply(contract, &op);
}

#define OF_SEVEN "now: 1\nepoch: 7\n"
#define OF_NINE  "now: 2\nepoch: 9\n"

/* I2: of two nodes that write the memo of one thing each, one has it. */
static void a_memo_is_written_only_by_the_node_that_has_it(void **state)
{
    struct contract contract = contract_begin(state);
    const struct span name = SPAN("redrive:1");
    size_t count;

    const struct memo nines = {name, SPAN(OF_NINE)}, none = {name, SPAN("")};
    const struct memo_condition sevens = {.name = name, .epochs = {7}};
    const struct memo_condition either = {.name = name, .epochs = {8, 9}};
    assert_int_equal(put_if(&contract, nines, sevens), RESULT_STALE); /* it is not there */
    put_memo(&contract, name, SPAN(OF_SEVEN));
    put_memo(&contract, SPAN("redrive:2"), SPAN(OF_NINE)); /* has nothing to do with it */
    assert_int_equal(put_if(&contract, nines, either), RESULT_STALE);
    assert_int_equal(put_if(&contract, none, either), RESULT_STALE);
    contract_reopen(&contract);
    contract_expect_span(find_memo(&contract, name, &count), SPAN(OF_SEVEN));
    assert_int_equal(put_if(&contract, nines, sevens), RESULT_DONE);
    assert_int_equal(put_if(&contract, nines, sevens), RESULT_STALE); /* one that came late */
    assert_int_equal(put_if(&contract, nines, either), RESULT_DONE);
    contract_reopen(&contract);
    contract_expect_span(find_memo(&contract, name, &count), SPAN(OF_NINE));
    assert_int_equal(put_if(&contract, none, either), RESULT_DONE);
    assert_int_equal(put_if(&contract, none, either), RESULT_STALE);
    assert_int_equal(find_memo(&contract, name, &count).len, 0);
    assert_int_equal(count, 1);
    put_memo(&contract, name, SPAN("by an older release"));
    assert_int_equal(put_if(&contract, nines, (struct memo_condition){.name = name}), RESULT_DONE);
    contract_end(&contract);
}

static void a_memo_takes_the_place_of_another_or_is_not_written(void **state)
{
    struct contract contract = contract_begin(state);
    const struct memo end = {SPAN("redriven:1"), SPAN("done")};
    const struct memo_condition condition = {
        .name = SPAN("redrive:1"), .epochs = {9}, .is_forgotten = true};
    size_t count;

    put_memo(&contract, condition.name, SPAN(OF_SEVEN));
    assert_int_equal(put_if(&contract, end, condition), RESULT_STALE);
    assert_int_equal(find_memo(&contract, end.name, &count).len, 0);
    put_memo(&contract, condition.name, SPAN(OF_NINE));
    assert_int_equal(put_if(&contract, end, condition), RESULT_DONE);
    contract_reopen(&contract);
    contract_expect_span(find_memo(&contract, end.name, &count), end.value);
    assert_int_equal(count, 1);
    contract_end(&contract);
}

static void a_memo_is_forgotten_as_it_was_read(void **state)
{
    struct contract contract = contract_begin(state);
    const struct memo memo = {SPAN("stopped:q:first"), SPAN("gone 17")};
    const struct memo none = {memo.name, SPAN("")};
    const struct memo_condition as_read = {.name = memo.name, .value = memo.value};
    size_t count;

    assert_int_equal(put_if(&contract, none, as_read), RESULT_STALE);
    put_memo(&contract, memo.name, SPAN("gone 18")); /* a peer was faster */
    assert_int_equal(put_if(&contract, none, as_read), RESULT_STALE);
    contract_expect_span(find_memo(&contract, memo.name, &count), SPAN("gone 18"));
    put_memo(&contract, memo.name, memo.value);
    assert_int_equal(put_if(&contract, none, as_read), RESULT_DONE);
    assert_int_equal(find_memo(&contract, memo.name, &count).len, 0);
    contract_end(&contract);
}

/* What is not written leaves no act behind. */
static void a_memo_that_is_not_written_is_no_act(void **state)
{
    struct contract contract = contract_begin(state);
    const struct memo_condition condition = {.name = SPAN("redrive:1"), .epochs = {9}};
    const struct audit_row act = {.who = SPAN("ann"), .act = SPAN("redrive_cancel")};
    struct op op = {.kind = OP_MEMO,
                    .memo = {condition.name, SPAN("")},
                    .only_while = &condition,
                    .audit = &act};
    static struct acts acts;

    assert_int_equal(contract_apply(&contract, &op), RESULT_STALE);
    read_acts(&contract, (struct audit_filter){.limit = PAGE}, &acts);
    assert_int_equal(acts.count, 0);
    put_memo(&contract, condition.name, SPAN(OF_NINE));
    assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
    read_acts(&contract, (struct audit_filter){.limit = PAGE}, &acts);
    assert_int_equal(acts.count, 1);
    contract_end(&contract);
}

size_t contract_tests_notes(struct CMUnitTest *ret_tests)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_act_is_kept_with_what_it_did),
        cmocka_unit_test(an_act_that_is_not_about_a_task_has_none),
        cmocka_unit_test(what_did_not_happen_is_not_told),
        cmocka_unit_test(acts_are_found_by_who_what_and_when),
        cmocka_unit_test(who_looks_at_acts_may_stop),
        cmocka_unit_test(acts_beyond_the_number_kept_go),
        cmocka_unit_test(a_memo_is_written_replaced_and_forgotten),
        cmocka_unit_test(every_memo_is_told_once),
        cmocka_unit_test(a_memo_is_written_only_by_the_node_that_has_it),
        cmocka_unit_test(a_memo_takes_the_place_of_another_or_is_not_written),
        cmocka_unit_test(a_memo_is_forgotten_as_it_was_read),
        cmocka_unit_test(a_memo_that_is_not_written_is_no_act),
    };
    return CONTRACT_COPY(ret_tests, tests);
}
