/* SPDX-License-Identifier: MIT
 *
 * test_store_memory -- the contract, on the store in memory; and the copy that a simulated crash
 * goes back to.
 */
#include "store/store_memory.h"
#include "store_contract.h"

static struct store *reopen(struct store *store)
{
    struct store *copy = store_memory_clone(store);

    store_close(store);
    return copy;
}

static const struct store_subject subject = {
    .kind = "memory", .reopen = reopen, .audit_kept = STORE_AUDIT_KEPT_FEW};

/* I8 */
static void a_clone_does_not_see_what_comes_later(void **state)
{
    struct store *store = NULL;
    struct op op = {.kind = OP_RECORD, .task = {.id = {.row = 1, .tail = 2}, .key = SPAN("key")}};
    struct op cancel = {.kind = OP_CANCEL, .task.id = op.task.id};
    struct op *ops[] = {&op, &cancel};
    struct record record;
    bool found = false;
    struct arena *arena = arena_new(10000);
    (void)state;

    assert_int_equal(store_open(SPAN("memory"), &(struct store_keep){0}, &store, NULL), 0);
    assert_int_equal(store_apply(store, ops, 1, NULL), 0);
    struct store *copy = store_memory_clone(store);
    assert_non_null(copy);
    assert_int_equal(store_apply(store, ops + 1, 1, NULL), 0);
    store_close(store);
    assert_int_equal(store_read_task(copy, op.task.id, 0, arena, &record, &found, NULL), 0);
    assert_true(found);
    assert_int_equal(record.life.state, TASK_WAITING);
    store_close(copy);
    arena_free(arena);
}

static void a_store_is_named_exactly(void **state)
{
    static const char *const wrong[] = {"",      "memori", "memory:", "memory:x", "json",
                                        "json:", "sqlite", "sqlite:", "postgres", "Memory"};
    (void)state;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct store *store = NULL;
        struct error err = {0};
        assert_int_equal(store_open(span_of(wrong[i]), &(struct store_keep){0}, &store, &err),
                         FAULT_INPUT);
        assert_null(store);
        assert_true(err.text[0] != '\0');
    }
    store_close(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(a_clone_does_not_see_what_comes_later),
        cmocka_unit_test(a_store_is_named_exactly),
    };
    return store_contract_run(argc, argv, &subject, own, sizeof own / sizeof *own);
}
