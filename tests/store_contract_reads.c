/* SPDX-License-Identifier: MIT
 *
 * store_contract_reads -- the contract suite: list, due, scan, epochs, and reads beside writes.
 */
#include "store_contract_internal.h"

#include <pthread.h>
#include <stdlib.h>

#define LIST_ROWS   25
#define SEEN_MAX    32000
#define BESIDE_ROWS 100

struct seen {
    int64_t rows[SEEN_MAX];
    size_t count;
    size_t stop_at; /* 0: never */
};

static int see_record(void *user, const struct record *record)
{
    struct seen *seen = user;

    assert_true(seen->count < SEEN_MAX);
    seen->rows[seen->count++] = record->task.id.row;
    return seen->count == seen->stop_at ? FAULT_LIMIT : 0;
}

static int see_brief(void *user, const struct brief *brief)
{
    struct seen *seen = user;

    assert_true(seen->count < SEEN_MAX);
    seen->rows[seen->count++] = brief->row;
    return seen->count == seen->stop_at ? FAULT_LIMIT : 0;
}

static int compare_rows(const void *one, const void *other)
{
    int64_t left = *(const int64_t *)one, right = *(const int64_t *)other;

    return left < right ? -1 : left > right;
}

/* All pages, and how many there were. */
static size_t list_all(struct contract *contract, struct store_filter filter, struct seen *seen)
{
    size_t pages = 0;
    int64_t next = filter.after_row;

    *seen = (struct seen){0};
    do {
        int64_t before = next;
        filter.after_row = next;
        size_t count = seen->count;
        assert_int_equal(
            store_list(contract->store, &filter, contract->arena, see_record, seen, &next, NULL),
            0);
        assert_true(seen->count - count <= filter.limit);
        assert_true(next == 0 || next > before);
        pages++;
    } while (next != 0);
    return pages;
}

/* Every third in another queue, states in turn, a label on every fifth. */
static void fill(struct contract *contract, struct op ops[LIST_ROWS])
{
    for (size_t i = 0; i < LIST_ROWS; i++) {
        ops[i] = contract_record(contract, "");
        ops[i].task.queue = i % 3 == 0 ? 3 : CONTRACT_QUEUE;
        ops[i].task.labels =
            i % 5 == 0 ? SPAN("colour: red\nsize: large\n") : SPAN("size: small\n");
        ops[i].life.state = (enum task_state)(i % TASK_STATE_COUNT);
    }
    contract_apply_all(contract, ops, LIST_ROWS);
}

static void a_list_is_in_order_of_creation_page_by_page(void **state)
{
    struct contract contract = contract_begin(state);
    struct op ops[LIST_ROWS];
    static struct seen seen;
    fill(&contract, ops);

    for (size_t limit = 1; limit <= LIST_ROWS + 1; limit++) {
        struct store_filter filter = {.states = STORE_ALL_STATES, .limit = limit};
        size_t pages = list_all(&contract, filter, &seen);
        assert_int_equal(pages, (LIST_ROWS + limit - 1) / limit);
        assert_int_equal(seen.count, LIST_ROWS);
        for (size_t i = 0; i < LIST_ROWS; i++) {
            assert_int_equal(seen.rows[i], ops[i].task.id.row);
        }
    }
    contract_end(&contract);
}

static void an_empty_store_lists_nothing(void **state)
{
    struct contract contract = contract_begin(state);
    static struct seen seen;
    struct store_filter filter = {.states = STORE_ALL_STATES, .limit = 10};

    assert_int_equal(list_all(&contract, filter, &seen), 1);
    assert_int_equal(seen.count, 0);
    assert_int_equal(store_scan(contract.store, see_brief, &seen, NULL), 0);
    assert_int_equal(store_due(contract.store, 0, INT64_MAX, see_brief, &seen, NULL), 0);
    assert_int_equal(seen.count, 0);
    contract_end(&contract);
}

static void a_list_filters_by_queue_and_state(void **state)
{
    struct contract contract = contract_begin(state);
    struct op ops[LIST_ROWS];
    static struct seen seen;
    fill(&contract, ops);

    for (unsigned states = 0; states <= STORE_ALL_STATES; states++) {
        struct store_filter filter = {
            .queue = states % 2 == 0 ? CONTRACT_QUEUE : 0, .states = states, .limit = 4};
        (void)list_all(&contract, filter, &seen);
        size_t at = 0;
        for (size_t i = 0; i < LIST_ROWS; i++) {
            bool is_wanted = (filter.queue == 0 || ops[i].task.queue == filter.queue) &&
                             (states >> ops[i].life.state & 1) != 0;
            if (is_wanted) {
                assert_true(at < seen.count);
                assert_int_equal(seen.rows[at++], ops[i].task.id.row);
            }
        }
        assert_int_equal(at, seen.count);
    }
    contract_end(&contract);
}

static void a_list_filters_by_label(void **state)
{
    struct contract contract = contract_begin(state);
    struct op ops[LIST_ROWS];
    static struct seen seen;
    struct store_filter filter = {.states = STORE_ALL_STATES,
                                  .limit = 2,
                                  .label_name = SPAN("size"),
                                  .label_value = SPAN("large")};
    fill(&contract, ops);

    (void)list_all(&contract, filter, &seen);
    assert_int_equal(seen.count, LIST_ROWS / 5);
    for (size_t i = 0; i < seen.count; i++) {
        assert_int_equal(seen.rows[i], ops[5 * i].task.id.row);
    }
    filter.label_value = SPAN("larg");
    (void)list_all(&contract, filter, &seen);
    assert_int_equal(seen.count, 0);
    contract_end(&contract);
}

static int check_listed(void *user, const struct record *record)
{
    const struct op *op = user;

    assert_int_equal(record->task.body.len, 0);
    assert_int_equal(record->answer.body.len, 0);
    assert_int_equal(record->trail_count, 0);
    assert_int_equal(record->answer.status, 200);
    assert_int_equal(record->life.state, TASK_SUCCEEDED);
    assert_int_equal(record->task.id.tail, op->task.id.tail);
    contract_expect_span(record->task.key, op->task.key);
    contract_expect_span(record->task.headers, op->task.headers);
    contract_expect_span(record->task.labels, op->task.labels);
    return 0;
}

static void a_list_has_all_but_bodies_and_trails(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "key");
    struct op lease = contract_apply_lease(&contract, op.task.id);
    struct op settle = contract_settle(op.task.id, &lease.life, TASK_SUCCEEDED);
    struct answer answer = {.status = 200, .body = SPAN("answer")};
    struct trail_row trail = {.attempt = 1};
    struct store_filter filter = {.states = STORE_ALL_STATES, .limit = 2};
    int64_t next = -1;
    settle.answer = &answer;
    settle.trail = &trail;
    settle.trail_count = 1;

    assert_int_equal(contract_apply(&contract, &settle), RESULT_DONE);
    assert_int_equal(
        store_list(contract.store, &filter, contract.arena, check_listed, &op, &next, NULL), 0);
    assert_int_equal(next, 0);
    contract_end(&contract);
}

static void a_visitor_that_has_seen_enough_is_obeyed(void **state)
{
    struct contract contract = contract_begin(state);
    struct op ops[LIST_ROWS];
    struct store_filter filter = {.states = STORE_ALL_STATES, .limit = LIST_ROWS};
    int64_t next = -1;
    fill(&contract, ops);

    static struct seen seen;
    seen = (struct seen){.stop_at = 3};
    assert_int_equal(
        store_list(contract.store, &filter, contract.arena, see_record, &seen, &next, NULL),
        FAULT_LIMIT);
    assert_int_equal(next, -1);
    assert_int_equal(seen.count, 3);
    seen = (struct seen){.stop_at = 3};
    assert_int_equal(store_scan(contract.store, see_brief, &seen, NULL), FAULT_LIMIT);
    assert_int_equal(seen.count, 3);
    seen = (struct seen){.stop_at = 2};
    assert_int_equal(store_due(contract.store, 0, INT64_MAX, see_brief, &seen, NULL), FAULT_LIMIT);
    assert_int_equal(seen.count, 2);
    contract_end(&contract);
}

/* Those who have others to serve in between look at a few rows at a time, and miss none. */
static void a_slice_looks_at_as_many_rows_as_it_is_told(void **state)
{
    struct contract contract = contract_begin(state);
    struct op ops[LIST_ROWS];
    static struct seen seen;
    fill(&contract, ops);

    struct store_filter filter = {.states = STORE_ALL_STATES,
                                  .limit = LIST_ROWS,
                                  .label_name = SPAN("none"),
                                  .label_value = SPAN("has it"),
                                  .scan_max = 3};
    int64_t next = 0;
    seen = (struct seen){0};
    assert_int_equal(
        store_list(contract.store, &filter, contract.arena, see_record, &seen, &next, NULL), 0);
    assert_int_equal(seen.count, 0);
    assert_int_equal(next, ops[2].task.id.row);
    filter.label_name = (struct span){0};
    seen = (struct seen){0};
    assert_int_equal(list_all(&contract, filter, &seen), (LIST_ROWS + 2) / 3);
    assert_int_equal(seen.count, LIST_ROWS);
    filter.limit = 2; /* whichever comes first */
    assert_int_equal(
        store_list(contract.store, &filter, contract.arena, see_record, &seen, &next, NULL), 0);
    assert_int_equal(next, ops[1].task.id.row);
    contract_end(&contract);
}

/* A page has a budget of rows to look at: short, with a next, rather than slow. */
static void a_page_looks_at_so_many_rows_and_no_more(void **state)
{
    struct contract contract = contract_begin(state);
    size_t count = STORE_LIST_SCAN_MAX + 500;
    static struct seen seen;
    if (contract.subject->rows_max != 0 && contract.subject->rows_max < count) {
        contract_end(&contract);
        return;
    }
    struct op *ops = calloc(count, sizeof *ops);
    assert_non_null(ops);
    for (size_t i = 0; i < count; i++) {
        ops[i] = contract_record(&contract, "");
        ops[i].life.state = i == count - 1 ? TASK_SUCCEEDED : TASK_WAITING;
    }
    contract_apply_all(&contract, ops, count);

    struct store_filter filter = {.states = 1u << TASK_SUCCEEDED, .limit = 10};
    int64_t next = 0;
    assert_int_equal(
        store_list(contract.store, &filter, contract.arena, see_record, &seen, &next, NULL), 0);
    assert_int_equal(seen.count, 0);
    assert_int_equal(next, ops[STORE_LIST_SCAN_MAX - 1].task.id.row);
    assert_int_equal(list_all(&contract, filter, &seen), 2);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.rows[0], ops[count - 1].task.id.row);

    filter.scan_max = STORE_LIST_SCAN_MAX + 1; /* no more than that, whatever is asked for */
    assert_int_equal(
        store_list(contract.store, &filter, contract.arena, see_record, &seen, &next, NULL), 0);
    assert_int_equal(next, ops[STORE_LIST_SCAN_MAX - 1].task.id.row);

    seen = (struct seen){0}; /* walks of many pages see everything once */
    assert_int_equal(store_scan(contract.store, see_brief, &seen, NULL), 0);
    assert_int_equal(seen.count, count);
    seen = (struct seen){0};
    assert_int_equal(store_due(contract.store, 0, INT64_MAX, see_brief, &seen, NULL), 0);
    assert_int_equal(seen.count, count - 1);
    qsort(seen.rows, seen.count, sizeof *seen.rows, compare_rows);
    for (size_t i = 0; i < count - 1; i++) {
        assert_int_equal(seen.rows[i], ops[i].task.id.row);
    }
    free(ops);
    contract_end(&contract);
}

/* --- due, scan ------------------------------------------------------------------------------- */

static size_t due_count(struct contract *contract, int64_t from_ms, int64_t until_ms)
{
    static struct seen seen;

    seen = (struct seen){0};
    assert_int_equal(store_due(contract->store, from_ms, until_ms, see_brief, &seen, NULL), 0);
    return seen.count;
}

static void due_ranges_are_exact(void **state)
{
    static const int64_t due_at_ms[] = {0,
                                        1,
                                        CONTRACT_HOUR_MS - 1,
                                        CONTRACT_HOUR_MS,
                                        CONTRACT_HOUR_MS + 1,
                                        CONTRACT_NOW_MS,
                                        CONTRACT_NOW_MS + CONTRACT_HOUR_MS / 2,
                                        INT64_MAX - 1};
    enum { COUNT = sizeof due_at_ms / sizeof *due_at_ms };
    struct contract contract = contract_begin(state);

    for (size_t i = 0; i < COUNT; i++) {
        struct op op = contract_record(&contract, "");
        op.life.due_at_ms = due_at_ms[i];
        assert_int_equal(contract_apply(&contract, &op), RESULT_DONE);
    }
    for (size_t from = 0; from < COUNT; from++) {
        for (size_t until = 0; until < COUNT; until++) {
            size_t wanted = until > from ? until - from : 0;
            assert_int_equal(due_count(&contract, due_at_ms[from], due_at_ms[until]), wanted);
            wanted = until + 1 > from ? until + 1 - from : 0;
            assert_int_equal(due_count(&contract, due_at_ms[from], due_at_ms[until] + 1), wanted);
        }
    }
    assert_int_equal(due_count(&contract, INT64_MIN, INT64_MAX), COUNT);
    contract_end(&contract);
}

static void only_what_waits_is_due(void **state)
{
    struct contract contract = contract_begin(state);
    struct op ops[TASK_STATE_COUNT];
    static struct seen seen;

    for (size_t i = 0; i < TASK_STATE_COUNT; i++) {
        ops[i] = contract_record(&contract, "");
        ops[i].life.state = (enum task_state)i;
    }
    contract_apply_all(&contract, ops, TASK_STATE_COUNT);
    assert_int_equal(store_due(contract.store, 0, INT64_MAX, see_brief, &seen, NULL), 0);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.rows[0], ops[TASK_WAITING].task.id.row);
    contract_end(&contract);
}

/* D2, E2: the next attempt is due when the settle says, in this hour or a later one. */
static void a_retry_is_due_when_it_was_settled_to_be(void **state)
{
    static const int64_t waits_ms[] = {1, 1000, CONTRACT_HOUR_MS, 30 * CONTRACT_HOUR_MS, 1};
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "");
    int64_t now_ms = CONTRACT_NOW_MS;

    for (size_t i = 0; i < sizeof waits_ms / sizeof *waits_ms; i++) {
        struct op lease = contract_lease(op.task.id);
        lease.now_ms = now_ms;
        assert_int_equal(contract_apply(&contract, &lease), RESULT_DONE);
        assert_int_equal(due_count(&contract, 0, INT64_MAX), 0);
        now_ms += waits_ms[i];
        struct op again = contract_settle(op.task.id, &lease.life, TASK_WAITING);
        again.life.due_at_ms = now_ms;
        assert_int_equal(contract_apply(&contract, &again), RESULT_DONE);
        assert_int_equal(due_count(&contract, 0, now_ms), 0);
        assert_int_equal(due_count(&contract, now_ms, now_ms + 1), 1);
        assert_int_equal(due_count(&contract, 0, INT64_MAX), 1);
        contract_reopen(&contract);
    }
    contract_end(&contract);
}

static int check_brief(void *user, const struct brief *brief)
{
    struct op **next = user;
    const struct op *op = (*next)++;

    assert_int_equal(brief->row, op->task.id.row);
    assert_int_equal(brief->due_at_ms, op->life.due_at_ms);
    assert_int_equal(brief->epoch, op->life.epoch);
    assert_int_equal(brief->queue, op->task.queue);
    assert_int_equal(brief->flags, op->life.flags);
    assert_int_equal(brief->state, op->life.state);
    return 0;
}

static void a_scan_shows_every_task_by_row(void **state)
{
    struct contract contract = contract_begin(state);
    struct op ops[LIST_ROWS], *next = ops;

    for (size_t i = 0; i < LIST_ROWS; i++) {
        ops[i] = contract_record(&contract, "");
        ops[i].task.queue = (uint32_t)i;
        ops[i].life.state = (enum task_state)(i % TASK_STATE_COUNT);
        ops[i].life.due_at_ms += (int64_t)i;
        ops[i].life.epoch = i;
        ops[i].life.flags = (uint32_t)i % 32 | LIFE_LETTER;
    }
    contract_apply_all(&contract, ops, LIST_ROWS);
    contract_reopen(&contract);
    assert_int_equal(store_scan(contract.store, check_brief, &next, NULL), 0);
    assert_ptr_equal(next, ops + LIST_ROWS);
    contract_end(&contract);
}

/* --- opening --------------------------------------------------------------------------------- */

static void every_opening_raises_the_epoch(void **state)
{
    struct contract contract = contract_begin(state);

    for (int i = 0; i < 3; i++) {
        uint64_t epoch = contract.store->epoch;
        assert_true(epoch > 0);
        contract_reopen(&contract);
        assert_true(contract.store->epoch > epoch);
    }
    contract_end(&contract);
}

static void the_last_row_is_remembered(void **state)
{
    struct contract contract = contract_begin(state);
    assert_int_equal(contract.store->last_row, 0);
    struct op one = contract_apply_record(&contract, ""),
              two = contract_apply_record(&contract, "");

    contract_reopen(&contract);
    assert_int_equal(contract.store->last_row, two.task.id.row);
    struct op ops[] = {contract_op(OP_PURGE, two.task.id), contract_op(OP_PURGE, one.task.id)};
    contract_apply_all(&contract, ops, 2);
    contract_reopen(&contract); /* the row of what was purged is not given out again */
    assert_int_equal(contract.store->last_row, two.task.id.row);
    contract_end(&contract);
}

static void a_touch_changes_nothing_anyone_can_see(void **state)
{
    struct contract contract = contract_begin(state);
    struct op op = contract_apply_record(&contract, "key");

    assert_int_equal(store_touch(contract.store, NULL), 0);
    struct record record = contract_read(&contract, op.task.id);
    contract_expect_task(&record.task, &op.task);
    contract_expect_life(&record.life, &op.life);
    assert_true(store_room_bytes(contract.store) > 0);
    contract_end(&contract);
}

/* --- reads beside writes --------------------------------------------------------------------- */

struct beside {
    struct contract *contract;
    struct task_id ids[BESIDE_ROWS];
    int done; /* atomic: how many are recorded */
    int over; /* atomic */
};

/* Sees each task whole: in the state before or after, never between. */
static void look_once(struct beside *beside, struct arena *arena)
{
    static struct seen seen;
    struct store *store = beside->contract->store;
    int recorded = __atomic_load_n(&beside->done, __ATOMIC_ACQUIRE);
    struct store_filter filter = {.states = STORE_ALL_STATES, .limit = BESIDE_ROWS};
    int64_t next;

    seen = (struct seen){0};
    assert_int_equal(store_list(store, &filter, arena, see_record, &seen, &next, NULL), 0);
    assert_true(seen.count >= (size_t)recorded);
    seen = (struct seen){0};
    assert_int_equal(store_due(store, 0, INT64_MAX, see_brief, &seen, NULL), 0);
    for (int i = 0; i < recorded; i += 7) {
        struct record record;
        bool found = false;
        assert_int_equal(store_read_task(store, beside->ids[i], READ_BODIES | READ_TRAIL, arena,
                                         &record, &found, NULL),
                         0);
        assert_true(found);
        assert_int_equal(record.life.state == TASK_SUCCEEDED, record.answer.status == 200);
        assert_int_equal(record.life.state == TASK_SUCCEEDED, record.trail_count == 1);
        assert_true(record.life.state == TASK_WAITING || record.life.attempts == 1);
    }
}

static void *read_beside(void *user)
{
    struct beside *beside = user;

    while (__atomic_load_n(&beside->over, __ATOMIC_ACQUIRE) == 0) {
        struct arena *arena = arena_new(CONTRACT_ARENA_MAX);
        assert_non_null(arena);
        look_once(beside, arena);
        arena_free(arena);
    }
    return NULL;
}

static void live_once(struct contract *contract, struct task_id id)
{
    struct op lease = contract_apply_lease(contract, id);
    struct op settle = contract_settle(id, &lease.life, TASK_SUCCEEDED);
    struct answer answer = {.status = 200, .body = SPAN("answer")};
    struct trail_row trail = {.attempt = 1};

    settle.answer = &answer;
    settle.trail = &trail;
    settle.trail_count = 1;
    assert_int_equal(contract_apply(contract, &settle), RESULT_DONE);
}

static void reads_run_beside_writes(void **state)
{
    struct contract contract = contract_begin(state);
    static struct beside beside;
    pthread_t reader;
    beside.contract = &contract;

    assert_int_equal(pthread_create(&reader, NULL, read_beside, &beside), 0);
    for (int i = 0; i < BESIDE_ROWS; i++) {
        struct op op = contract_apply_record(&contract, "");
        beside.ids[i] = op.task.id;
        __atomic_store_n(&beside.done, i + 1, __ATOMIC_RELEASE);
        live_once(&contract, op.task.id);
    }
    __atomic_store_n(&beside.over, 1, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(reader, NULL), 0);
    contract_end(&contract);
}

size_t contract_tests_reads(struct CMUnitTest *ret_tests)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_in_order_of_creation_page_by_page),
        cmocka_unit_test(an_empty_store_lists_nothing),
        cmocka_unit_test(a_list_filters_by_queue_and_state),
        cmocka_unit_test(a_list_filters_by_label),
        cmocka_unit_test(a_list_has_all_but_bodies_and_trails),
        cmocka_unit_test(a_visitor_that_has_seen_enough_is_obeyed),
        cmocka_unit_test(a_slice_looks_at_as_many_rows_as_it_is_told),
        cmocka_unit_test(a_page_looks_at_so_many_rows_and_no_more),
        cmocka_unit_test(due_ranges_are_exact),
        cmocka_unit_test(only_what_waits_is_due),
        cmocka_unit_test(a_retry_is_due_when_it_was_settled_to_be),
        cmocka_unit_test(a_scan_shows_every_task_by_row),
        cmocka_unit_test(every_opening_raises_the_epoch),
        cmocka_unit_test(the_last_row_is_remembered),
        cmocka_unit_test(a_touch_changes_nothing_anyone_can_see),
        cmocka_unit_test(reads_run_beside_writes),
    };
    return CONTRACT_COPY(ret_tests, tests);
}
