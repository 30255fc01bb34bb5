/* SPDX-License-Identifier: MIT
 *
 * test_store_faulty -- the store that fails as told does what it was told, and nothing else.
 */
#include "harness.h"
#include "store/store_memory.h"
#include "store_faulty.h"

#define WRITES 5

static const struct task_id id = {.row = 1, .tail = 2};

static struct store *open_faulty(enum faulty_how how, size_t nth)
{
    struct store *inner = NULL;

    assert_int_equal(store_open(SPAN("memory"), &(struct store_keep){0}, &inner, NULL), 0);
    struct store *store = store_faulty_new(inner, how, nth);
    assert_non_null(store);
    assert_int_equal(store->epoch, inner->epoch);
    return store;
}

static int apply_one(struct store *store, struct op *op)
{
    struct op *list[] = {op};

    return store_apply(store, list, 1, NULL);
}

static bool has_task(struct store *store)
{
    struct arena *arena = arena_new(100000);
    struct record record;
    bool found = false;

    assert_non_null(arena);
    assert_int_equal(store_read_task(store, id, 0, arena, &record, &found, NULL), 0);
    arena_free(arena);
    return found;
}

static void it_fails_the_nth_write_and_no_other(void **state)
{
    static const int faults[] = {
        [FAULTY_BEFORE] = FAULT_IO, [FAULTY_FULL] = FAULT_FULL, [FAULTY_UNSURE] = FAULT_UNKNOWN};
    (void)state;

    for (size_t how = 0; how < sizeof faults / sizeof *faults; how++) {
        for (size_t nth = 0; nth <= WRITES; nth++) {
            struct store *store = open_faulty((enum faulty_how)how, nth);
            for (size_t i = 1; i <= WRITES; i++) {
                struct op op = {.kind = OP_RECORD, .task.id = {.row = (int64_t)i}};
                assert_int_equal(apply_one(store, &op), i == nth ? faults[how] : 0);
                assert_int_equal(op.result, i == nth ? RESULT_NONE : RESULT_DONE);
                assert_int_equal(store_faulty_has_failed(store), nth != 0 && i >= nth);
            }
            store_close(store);
        }
    }
}

static void a_touch_counts_as_a_write(void **state)
{
    struct store *store = open_faulty(FAULTY_BEFORE, 2);
    (void)state;

    assert_int_equal(store_touch(store, NULL), 0);
    assert_int_equal(store_touch(store, NULL), FAULT_IO);
    assert_int_equal(store_touch(store, NULL), 0);
    store_close(store);
}

static void after_the_commit_the_operation_looks_untouched_and_all_is_lost(void **state)
{
    struct store *store = open_faulty(FAULTY_AFTER, 2);
    struct op op = {.kind = OP_RECORD, .task = {.id = id, .key = SPAN("key")}};
    struct op cancel = {.kind = OP_CANCEL, .task.id = id, .now_ms = 5};
    (void)state;

    assert_int_equal(apply_one(store, &op), 0);
    assert_int_equal(apply_one(store, &cancel), FAULT_UNKNOWN);
    assert_int_equal(cancel.result, RESULT_NONE);
    assert_int_equal(cancel.fault, FAULT_UNKNOWN);
    assert_int_equal(cancel.life.settled_at_ms, 0);
    assert_int_equal(store_touch(store, NULL), FAULT_LOST);
    assert_int_equal(apply_one(store, &cancel), FAULT_LOST);

    struct store *inner = store_faulty_take(store);
    assert_true(has_task(inner));
    assert_int_equal(apply_one(inner, &cancel), 0);
    assert_int_equal(cancel.result, RESULT_NOT_WAITING); /* it was committed */
    store_close(inner);
}

static void it_fails_the_nth_read_and_no_write(void **state)
{
    struct store *store = open_faulty(FAULTY_READ, 2);
    struct op op = {.kind = OP_RECORD, .task.id = id};
    (void)state;

    assert_int_equal(apply_one(store, &op), 0);
    assert_int_equal(store_touch(store, NULL), 0);
    assert_true(has_task(store));
    assert_int_equal(store_queues(store, NULL, NULL, NULL), FAULT_IO);
    assert_true(has_task(store));
    store_close(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_fails_the_nth_write_and_no_other),
        cmocka_unit_test(a_touch_counts_as_a_write),
        cmocka_unit_test(after_the_commit_the_operation_looks_untouched_and_all_is_lost),
        cmocka_unit_test(it_fails_the_nth_read_and_no_write),
    };
    return HARNESS_RUN(argc, argv, tests);
}
