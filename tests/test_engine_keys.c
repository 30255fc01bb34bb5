/* SPDX-License-Identifier: MIT
 *
 * What became of a request of the gateway, by its key: found at once among more tasks than one answer
 * looks through, and what a key was used for before it was released besides.
 */
#include "harness.h"

#include "engine_rig.h"

#include <stdio.h>

#define TASKS 10100 /* more than ten pages of a thousand */

static struct rig rig; /* large */

static struct route_settings route = {
    .name = {"orders", 6},
    .upstream = {"http://127.0.0.1:1", 18},
    .timeout_ms = 1000,
    .deadline_ms = 5000,
    .concurrency = 8,
    .keep_ms = 3600000,
    .mismatch = 409,
};

static uint32_t queue_number(void)
{
    struct queue_view view;

    engine_queue_view(rig.engine, 1, &view);
    return view.number;
}

/* Key "k-N" of somebody, as number N; released: its key is free. */
static void put(uint32_t number, bool is_released)
{
    struct arena *arena = arena_new(1 << 16);
    struct op op = {.kind = OP_IMPORT,
                    .arena = arena,
                    .now_ms = rig.now_ms,
                    .task = {.id = {.row = ((rig.now_ms - INT64_C(1577836800000)) << 12) + number,
                                    .tail = number},
                             .queue = queue_number(),
                             .scope = SPAN("somebody"),
                             .key = arena_printf(arena, "k-%u", is_released ? 0 : number),
                             .method = SPAN("POST"),
                             .body = SPAN("{}")},
                    .life = {.state = TASK_FAILED,
                             .flags = LIFE_ROUTE | LIFE_ANSWERED,
                             .settled_at_ms = rig.now_ms,
                             .keep_until_ms = rig.now_ms + 3600000},
                    .releases_key = is_released};
    struct op *ops[] = {&op};
    struct error error = {0};

    assert_int_equal(store_apply(rig.store, ops, 1, &error), 0);
    assert_int_equal(op.result, RESULT_DONE);
    arena_free(arena);
}

static const struct rig_reply *look(const char *key, const char *scope)
{
    return rig_full_ask(
        &rig,
        &(struct ask){.kind = ASK_KEYS,
                      .exchange = 5,
                      .queue = SPAN("_route.orders"),
                      .key = span_of(key),
                      .scope = span_of(scope),
                      .filter = {.states = STORE_ALL_STATES, .flags = LIFE_ROUTE, .limit = 100}});
}

static void a_key_is_found_without_looking_through_the_others(void **state)
{
    char key[32];

    (void)state;
    rig.route = &route;
    route.scope = ROUTE_SCOPE_HEADER;
    rig_open(&rig, "sync");
    for (uint32_t i = 1; i <= TASKS; i++) {
        put(i, false);
    }
    (void)snprintf(key, sizeof key, "k-%d", TASKS);
    const struct rig_reply *reply = look(key, "somebody");
    assert_int_equal(reply->kind, REPLY_KEYS);
    assert_int_equal(reply->record_count, 1);
    assert_int_equal(reply->ids[0].tail, TASKS);
    assert_int_equal(reply->next_row, 0);
    reply = look(key, ""); /* whose it is, is not said: the others are passed over */
    assert_int_equal(reply->record_count, 1);
    assert_int_equal(reply->ids[0].tail, TASKS);
    assert_int_equal(reply->next_row, 0);
    reply = look(key, "another");
    assert_int_equal(reply->record_count, 0);
    rig_close(&rig);
}

static void what_a_released_key_was_used_for_is_shown(void **state)
{
    (void)state;
    rig.route = &route;
    route.scope = ROUTE_SCOPE_HEADER;
    rig_open(&rig, "sync");
    put(1, true);
    put(2, true);
    const struct rig_reply *reply = look("k-0", "somebody");
    assert_int_equal(reply->kind, REPLY_KEYS);
    assert_int_equal(reply->record_count, 2);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_found_without_looking_through_the_others),
        cmocka_unit_test(what_a_released_key_was_used_for_is_shown),
    };
    return HARNESS_RUN(argc, argv, tests);
}
