/* SPDX-License-Identifier: MIT
 *
 * Lists and walks among tasks with very long headers: more of them than fit into the memory of one read.
 * A page ends and goes on, and what a caller does not ask for or must not see costs that caller nothing.
 */
#include "harness.h"

#include "engine_rig.h"
#include "task/reach.h"

#include <stdio.h>

#define LARGE_TASKS     80
#define LARGE_BYTES     ((size_t)1 << 20)
#define LOOKS_MAX       (2 * LARGE_TASKS)
#define JANITOR_WAIT_MS 200000
#define READ_BYTES_MAX  ((size_t)64 << 20) /* of one task: ARENA_MAX */

static struct rig rig; /* large */

static struct route_settings route = {
    .name = {"orders", 6},
    .upstream = {"http://127.0.0.1:1", 18},
    .timeout_ms = 1000,
    .deadline_ms = 5000,
    .concurrency = 8,
    .keep_ms = 3600000,
    .mismatch = 409,
    .scope = ROUTE_SCOPE_HEADER,
};

static uint32_t number_of(const char *queue)
{
    struct queue_view view;

    for (size_t i = 0; i < engine_queue_count(rig.engine); i++) {
        engine_queue_view(rig.engine, i, &view);
        if (span_equal(view.name, span_of(queue))) {
            return view.number;
        }
    }
    fail_msg("there is no queue %s", queue);
    return 0;
}

static void put(uint32_t number, const char *queue, size_t header_bytes, struct life life)
{
    struct arena *arena = arena_new(SIZE_MAX);
    char *text = arena_alloc(arena, header_bytes + 1);
    struct op op = {.kind = OP_IMPORT,
                    .arena = arena,
                    .now_ms = rig.now_ms,
                    .task = {.id = {.row = ((rig.now_ms - INT64_C(1577836800000)) << 12) + number,
                                    .tail = number},
                             .queue = number_of(queue),
                             .scope = SPAN("somebody"),
                             .key = arena_printf(arena, "k-%u", number),
                             .method = SPAN("POST"),
                             .body = SPAN("{}")},
                    .life = life};
    struct op *ops[] = {&op};

    assert_non_null(text);
    memset(text, 'x', header_bytes);
    op.task.headers = arena_printf(arena, "X-A: %s\n", text);
    assert_int_equal(store_apply(rig.store, ops, 1, NULL), 0);
    assert_int_equal(op.result, RESULT_DONE);
    arena_free(arena);
}

static void put_letters(void)
{
    const struct life letter = {.state = TASK_DEAD,
                                .flags = LIFE_LETTER,
                                .failed_class = 1,
                                .failed_at_ms = rig.now_ms,
                                .settled_at_ms = rig.now_ms};

    for (uint32_t i = 1; i <= LARGE_TASKS; i++) {
        put(i, RIG_QUEUE, LARGE_BYTES, letter);
    }
    put(LARGE_TASKS + 1, "r", 10, letter);
}

static struct ask list_of(enum ask_kind kind, size_t limit)
{
    return (struct ask){
        .kind = kind, .exchange = 5, .filter = {.states = STORE_ALL_STATES, .limit = limit}};
}

/* As rig_full_ask, but of all queues when none is named. */
static const struct rig_reply *see(const struct ask *ask)
{
    engine_ask(rig.engine, ask);
    rig_settle(&rig);
    return &rig.replies[ask->exchange];
}

/* Of all pages; each has something, but perhaps the last. */
static size_t count_all(struct ask ask, size_t *ret_pages)
{
    size_t count = 0;

    *ret_pages = 0;
    do {
        const struct rig_reply *reply = see(&ask);
        assert_int_not_equal(reply->kind, REPLY_FAULT);
        assert_true(reply->record_count > 0 || reply->next_row == 0);
        count += reply->record_count;
        ask.filter.after_row = reply->next_row;
        assert_true(++*ret_pages < LOOKS_MAX);
    } while (ask.filter.after_row != 0);
    return count;
}

static void a_page_of_large_tasks_ends_and_goes_on(void **state)
{
    size_t pages;
    (void)state;
    rig = (struct rig){0};
    rig_open(&rig, "default");
    (void)rig_change(&rig);
    put_letters();

    struct ask ask = list_of(ASK_LIST, 1000);
    ask.queue = SPAN(RIG_QUEUE);
    assert_int_equal(count_all(ask, &pages), LARGE_TASKS);
    assert_in_range(pages, 2, LARGE_TASKS / 4);
    ask = list_of(ASK_LETTERS, 1000);
    ask.filter.flags = LIFE_LETTER;
    assert_int_equal(count_all(ask, &pages), LARGE_TASKS + 1);
    assert_in_range(pages, 2, LARGE_TASKS / 4);
    rig_close(&rig);
}

static void a_limited_caller_s_list_does_not_depend_on_other_queues(void **state)
{
    static const struct span mine = {"r", 1};
    (void)state;
    rig = (struct rig){0};
    rig_open(&rig, "default");
    (void)rig_change(&rig);
    put_letters();

    struct ask ask = list_of(ASK_LETTERS, 1);
    ask.filter.flags = LIFE_LETTER;
    ask.reach = (struct reach){.queues = &mine, .queue_count = 1};
    const struct rig_reply *reply = see(&ask);
    assert_int_equal(reply->kind, REPLY_LETTERS);
    assert_int_equal(reply->record_count, 1);
    assert_int_equal(reply->ids[0].tail, LARGE_TASKS + 1);
    rig_close(&rig);
}

static void a_key_is_found_among_large_requests_of_others(void **state)
{
    const struct life ended = {.state = TASK_FAILED,
                               .flags = LIFE_ROUTE | LIFE_ANSWERED,
                               .settled_at_ms = RIG_START_MS,
                               .keep_until_ms = RIG_START_MS + 3600000};
    char key[32];
    (void)state;
    rig = (struct rig){.route = &route};
    rig_open(&rig, "sync");
    for (uint32_t i = 1; i <= LARGE_TASKS + 1; i++) {
        put(i, "_route.orders", i <= LARGE_TASKS ? LARGE_BYTES : 10, ended);
    }

    (void)snprintf(key, sizeof key, "k-%d", LARGE_TASKS + 1);
    struct ask ask = list_of(ASK_KEYS, 1); /* whose key it is nobody has said */
    ask.filter.flags = LIFE_ROUTE;
    ask.queue = SPAN("_route.orders");
    ask.key = span_of(key);
    const struct rig_reply *reply = see(&ask);
    assert_int_equal(reply->kind, REPLY_KEYS);
    assert_int_equal(reply->record_count, 1);
    assert_int_equal(reply->ids[0].tail, LARGE_TASKS + 1);
    rig_close(&rig);
}

static uint64_t kept(const char *queue)
{
    struct ask ask = list_of(ASK_LIST, 1);

    ask.queue = span_of(queue);
    return see(&ask)->record_count;
}

/* What is past its time is forgotten, and a person can purge, however large it is. */
static void walks_get_past_large_tasks(void **state)
{
    const struct life ended = {.state = TASK_SUCCEEDED, .settled_at_ms = RIG_START_MS};
    (void)state;
    rig = (struct rig){0};
    rig_open(&rig, "default");
    (void)rig_change(&rig);
    put_letters();
    rig_restart(&rig);
    assert_int_equal(kept(RIG_QUEUE), 1);
    struct ask ask = {.kind = ASK_QUEUE_PURGE, .exchange = 5, .queue = SPAN(RIG_QUEUE)};
    assert_int_equal(see(&ask)->kind, REPLY_QUEUE);
    assert_int_equal(kept(RIG_QUEUE), 0);

    for (uint32_t i = 1; i <= LARGE_TASKS; i++) {
        put(1000 + i, RIG_QUEUE, LARGE_BYTES, ended);
    }
    rig_restart(&rig);
    assert_int_equal(kept(RIG_QUEUE), 1);
    rig_wait(&rig, JANITOR_WAIT_MS);
    assert_int_equal(kept(RIG_QUEUE), 0);
    rig_close(&rig);
}

/* One that an earlier version let in: more than all that one read of a task may take. */
static void walks_get_past_a_task_of_any_size(void **state)
{
    const struct life ended = {.state = TASK_SUCCEEDED, .settled_at_ms = RIG_START_MS};
    (void)state;
    rig = (struct rig){0};
    rig_open(&rig, "default");
    (void)rig_change(&rig);
    for (uint32_t i = 1; i <= 3; i++) {
        put(i, RIG_QUEUE, i == 2 ? READ_BYTES_MAX + 1 : 10, ended);
    }
    rig_restart(&rig);
    size_t pages;
    struct ask list = list_of(ASK_LIST, 1000);
    list.queue = SPAN(RIG_QUEUE);
    assert_int_equal(count_all(list, &pages), 3);
    struct ask ask = {.kind = ASK_QUEUE_PURGE, .exchange = 5, .queue = SPAN(RIG_QUEUE)};
    assert_int_equal(see(&ask)->kind, REPLY_QUEUE);
    assert_int_equal(kept(RIG_QUEUE), 0);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_of_large_tasks_ends_and_goes_on),
        cmocka_unit_test(a_limited_caller_s_list_does_not_depend_on_other_queues),
        cmocka_unit_test(a_key_is_found_among_large_requests_of_others),
        cmocka_unit_test(walks_get_past_large_tasks),
        cmocka_unit_test(walks_get_past_a_task_of_any_size),
    };
    return HARNESS_RUN(argc, argv, tests);
}
