/* SPDX-License-Identifier: MIT
 *
 * test_recover -- a start: what an earlier process left half done.
 */
#include "engine_rig.h"
#include "harness.h"

#include <string.h>

#define ORPHANS 600 /* more than one batch of them */

static struct rig rig;

static void apply_done(struct op *op)
{
    struct op *list[] = {op};

    assert_int_equal(store_apply(rig.store, list, 1, NULL), 0);
    assert_int_equal(op->result, RESULT_DONE);
}

static bool has_row(int64_t row)
{
    struct arena *arena = arena_new(1 << 16);
    struct record record;
    bool found = false;

    assert_int_equal(store_read_task(rig.store, (struct task_id){row, ID_ANY_TAIL}, 0, arena,
                                     &record, &found, NULL),
                     0);
    arena_free(arena);
    return found;
}

static void record_in(uint32_t queue, int64_t row, enum task_state state)
{
    struct op op = {.kind = OP_RECORD,
                    .now_ms = RIG_START_MS,
                    .task = {.id = {.row = row}, .queue = queue},
                    .life = {.state = state, .due_at_ms = INT64_MAX}};

    apply_done(&op);
}

/* I8: the deletion of a queue is one commit, the end of its tasks are many. */
static void what_is_left_of_a_deleted_queue_is_forgotten_after_the_next_start(void **state)
{
    (void)state;
    rig_open(&rig, "sync");
    struct op gone = {.kind = OP_QUEUE, .queue = {.name = SPAN("gone"), .settings = SPAN("{}")}};
    struct op filed = {.kind = OP_QUEUE, .queue.name = SPAN("was in the file once")};
    apply_done(&gone);
    apply_done(&filed);
    for (int64_t row = 1; row <= ORPHANS; row++) {
        record_in(gone.queue.number, row, (enum task_state)(row % TASK_STATE_COUNT));
    }
    record_in(filed.queue.number, ORPHANS + 1, TASK_DEAD);
    rig_restart(&rig);
    assert_true(has_row(1)); /* it is not deleted yet */

    gone.queue.dropped = true;
    apply_done(&gone);
    rig_restart(&rig);
    rig_wait(&rig, 1000);
    for (int64_t row = 1; row <= ORPHANS; row++) {
        bool is_in_doubt = row % TASK_STATE_COUNT == TASK_UNSETTLED;
        assert_int_equal(has_row(row), is_in_doubt);
    }
    assert_true(has_row(ORPHANS + 1)); /* its queue may come back */
    rig_close(&rig);
}

static struct rig_answer answer_200(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 200};
}

/* A file that was written by hand, or by another program: the options say more than the life does. I5 */
static void a_task_that_says_once_is_leased_as_such_though_its_life_does_not_say_so(void **state)
{
    (void)state;
    rig = (struct rig){.keep_ms = 600000, .answer = answer_200};
    rig_open(&rig, "sync");
    struct queue_view view;
    engine_queue_view(rig.engine, 0, &view);
    struct op op = {
        .kind = OP_RECORD,
        .now_ms = RIG_START_MS,
        .task = {.id = {.row = 1}, .queue = view.number, .options = SPAN("repeatable: false\n")},
        .life = {.due_at_ms = RIG_START_MS}};
    apply_done(&op);
    assert_true(view.settings->targets[0].repeatable);
    rig_restart(&rig);
    engine_tick(rig.engine);
    rig_settle(&rig);
    assert_int_equal(rig.sent_count, 1);
    struct life life = rig_life(&rig, op.task.id);
    assert_int_equal(life.state, TASK_SUCCEEDED);
    assert_int_equal(life.flags & (LIFE_ONCE | LIFE_TARGETS), LIFE_ONCE);
    rig_close(&rig);
}

#define IN_DOUBT 12 /* two more than the log tells of one by one */

static size_t lines_of(const char *text)
{
    size_t count = 0;

    for (const char *at = rig.log_text; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

/* An operator finds each of them by the log, or knows how many there are. */
static void requests_that_a_crash_leaves_in_doubt_are_told_as_at_any_other_time(void **state)
{
    (void)state;
    rig = (struct rig){.keep_ms = 600000};
    rig_open(&rig, "sync");
    struct queue_view view;
    engine_queue_view(rig.engine, 0, &view);
    for (int64_t row = 1; row <= IN_DOUBT; row++) {
        struct op op = {.kind = OP_RECORD,
                        .now_ms = RIG_START_MS,
                        .task = {.id = {.row = row}, .queue = view.number},
                        .life = {.state = TASK_RUNNING,
                                 .due_at_ms = RIG_START_MS,
                                 .flags = LIFE_ONCE,
                                 .attempts = 1,
                                 .attempts_all = 1}};
        apply_done(&op);
    }
    rig_restart(&rig);
    rig_wait(&rig, 2000);
    assert_int_equal(lines_of("event=recovered waiting=0 unsettled=12"), 1);
    assert_int_equal(lines_of("event=task_unsettled task="), 10);
    assert_int_equal(lines_of("event=task_unsettled count=2 queue=q class=transient "
                              "reason=\"interrupted by a restart\""),
                     1);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_of_a_deleted_queue_is_forgotten_after_the_next_start),
        cmocka_unit_test(requests_that_a_crash_leaves_in_doubt_are_told_as_at_any_other_time),
        cmocka_unit_test(a_task_that_says_once_is_leased_as_such_though_its_life_does_not_say_so),
    };
    return HARNESS_RUN(argc, argv, tests);
}
