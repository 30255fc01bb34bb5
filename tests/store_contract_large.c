/* SPDX-License-Identifier: MIT
 *
 * store_contract_large -- the contract suite: lists of tasks with long headers. What memory a page
 * takes is bounded in bytes, and what it passes over takes none.
 */
#include "store_contract_internal.h"

#define LARGE_ROWS  40
#define LARGE_BYTES 16000 /* of the headers of each of those, twice */

/* Long headers, in the request and in the answer; every tenth is in another queue, under another key,
 * in another scope and with another label. */
static void fill_large(struct contract *contract, struct op ops[LARGE_ROWS])
{
    char *long_text = arena_alloc(contract->arena, LARGE_BYTES);

    assert_non_null(long_text);
    memset(long_text, 'x', LARGE_BYTES);
    struct span headers = arena_printf(contract->arena, "X-A: %.*s\n", LARGE_BYTES, long_text);
    struct answer answer = {.status = 200, .headers = headers};
    for (size_t i = 0; i < LARGE_ROWS; i++) {
        bool is_other = i % 10 == 9;
        ops[i] = contract_record(contract, "");
        ops[i].kind = OP_IMPORT;
        ops[i].task.queue = is_other ? 3 : CONTRACT_QUEUE;
        ops[i].task.key = is_other ? SPAN("other") : SPAN("key");
        ops[i].task.scope = is_other ? SPAN("its") : SPAN("theirs");
        ops[i].task.labels = is_other ? SPAN("size: large\n") : SPAN("size: small\n");
        ops[i].task.headers = headers;
        ops[i].life.state = TASK_SUCCEEDED;
        ops[i].answer = &answer;
        ops[i].releases_key = true; /* so that several have it */
    }
    contract_apply_all(contract, ops, LARGE_ROWS);
}

/* Nothing of it is lost: the next page begins where this one has ended. */
static void a_page_ends_when_it_has_become_large(void **state)
{
    struct contract contract = contract_begin(state);
    struct op ops[LARGE_ROWS];
    static struct contract_seen seen;
    struct store_filter filter = {.states = STORE_ALL_STATES, .limit = LARGE_ROWS};
    fill_large(&contract, ops);

    assert_int_equal(contract_list(&contract, filter, &seen), 1); /* no bound */
    for (size_t rows = 1; rows <= LARGE_ROWS; rows *= 3) {        /* two texts each, and a little */
        filter.bytes_max = rows * 2 * LARGE_BYTES;
        assert_int_equal(contract_list(&contract, filter, &seen), (LARGE_ROWS + rows - 1) / rows);
        assert_int_equal(seen.count, LARGE_ROWS);
        for (size_t i = 0; i < LARGE_ROWS; i++) {
            assert_int_equal(seen.rows[i], ops[i].task.id.row);
        }
    }
    filter.bytes_max = 1; /* one is always shown */
    assert_int_equal(contract_list(&contract, filter, &seen), LARGE_ROWS);
    contract_end(&contract);
}

static void what_a_list_passes_over_leaves_nothing_behind(void **state)
{
    static const int64_t others[] = {3, 99};
    struct contract contract = contract_begin(state);
    struct op ops[LARGE_ROWS];
    static struct contract_seen seen;
    struct store_filter filters[] = {
        {.queue = 3},
        {.queues = others, .queue_count = 2},
        {.queues = others, .queue_count = 2, .key = SPAN("other"), .scope = SPAN("its")},
        {.key = SPAN("other")},
        {.scope = SPAN("its")},
        {.label_name = SPAN("size"), .label_value = SPAN("large")},
        {.queue = 3, .key = SPAN("key")}, /* and from here on there is none */
        {.queue = CONTRACT_QUEUE, .queues = others, .queue_count = 2},
        {.queues = others},
        {.key = SPAN("other"), .scope = SPAN("theirs")},
        {.key = SPAN("othe")},
    };
    fill_large(&contract, ops);

    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        size_t wanted = i < 6 ? LARGE_ROWS / 10 : 0;
        size_t before = arena_used(contract.arena);
        filters[i].states = STORE_ALL_STATES;
        filters[i].limit = LARGE_ROWS;
        assert_int_equal(contract_list(&contract, filters[i], &seen), 1);
        assert_int_equal(seen.count, wanted);
        for (size_t k = 0; k < seen.count; k++) {
            assert_int_equal(seen.rows[k], ops[10 * k + 9].task.id.row);
        }
        assert_true(arena_used(contract.arena) - before < (wanted * 2 + 1) * (LARGE_BYTES + 1000));
    }
    contract_end(&contract);
}

size_t contract_tests_large(struct CMUnitTest *ret_tests)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_ends_when_it_has_become_large),
        cmocka_unit_test(what_a_list_passes_over_leaves_nothing_behind),
    };
    return CONTRACT_COPY(ret_tests, tests);
}
