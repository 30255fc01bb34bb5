/* SPDX-License-Identifier: MIT
 *
 * Torture: create, deliver and settle, with the n-th allocation refused, for n = 1, 2, 3 … until
 * nothing is refused any more. Out of memory is an ordinary fault: the caller is told, nothing leaks,
 * and what was acknowledged comes to its end once there is memory again.
 */
#include "harness.h"

#include "alloc_fail.h"
#include "engine_rig.h"

#include <string.h>

static struct rig rig; /* large */

static struct rig_answer fail_once(struct rig *self, uint32_t attempt)
{
    (void)self;
    return (struct rig_answer){.status = attempt == 1 ? 503 : 200};
}

struct told {
    enum reply_kind kind;
};

/* Everything from the submission to the end, under the watch of alloc_fail. */
static void create_deliver_settle(struct told *told)
{
    struct arena *arena = arena_new(1 << 16);
    struct span key = {0}, body = {0};

    if (arena != NULL) {
        key = arena_copy(arena, SPAN("k"));
        body = arena_copy(arena, SPAN("x"));
    }
    if (key.at == NULL || body.at == NULL) {
        arena_free(arena);
        return; /* the edge would have said 503 */
    }
    engine_submit(
        rig.engine,
        &(struct submission){
            .exchange = 1, .arena = arena, .queue = SPAN(RIG_QUEUE), .key = key, .body = body});
    rig_settle(&rig);
    told->kind = rig.reply_kind;
    rig_pass(&rig, 1000);
    rig.id = told->kind == REPLY_CREATED ? rig.id : (struct task_id){0};
    rig_ask(&rig, ASK_TASK);
}

/* Now there is memory: what was acknowledged ends well, what was refused left nothing (I1, I7). */
static void after(const struct told *told)
{
    rig_run(&rig, 60000);
    for (int i = 0; i < 3; i++) {
        rig_pass(&rig, 2000);
    }
    struct queue_view view;
    engine_queue_view(rig.engine, 0, &view);
    if (told->kind == REPLY_CREATED) {
        assert_int_equal(view.counts[TASK_SUCCEEDED], 1);
        assert_int_equal(view.counts[TASK_WAITING] + view.counts[TASK_RUNNING], 0);
    } else {
        assert_int_equal(
            view.counts[TASK_SUCCEEDED] + view.counts[TASK_WAITING] + view.counts[TASK_RUNNING], 0);
    }
}

static void no_allocation_that_fails_loses_or_leaks_anything(void **state) /* I1, I7, I9 */
{
    struct alloc_count count;
    uint64_t number = 0;

    (void)state;
    do {
        struct told told = {.kind = REPLY_FAULT};
        memset(&rig, 0, sizeof rig);
        rig.answer = fail_once;
        rig_open(&rig, "sync");
        alloc_fail_start(++number);
        create_deliver_settle(&told);
        count = alloc_fail_stop();
        after(&told);
        rig_close(&rig);
    } while (count.refused > 0);
    print_message("%u allocations\n", (unsigned)number - 1);
    assert_true(number > 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_allocation_that_fails_loses_or_leaks_anything),
    };
    return HARNESS_RUN(argc, argv, tests);
}
