/* SPDX-License-Identifier: MIT
 *
 * A task whose deadline passes while it waits fails then, whatever keeps it from its turn.
 */
#include "engine_rig.h"
#include "harness.h"

#include "engine/engine_internal.h"

static struct rig rig;

static struct rig_answer always_200(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 200};
}

static void open_paused(void)
{
    memset(&rig, 0, sizeof rig);
    rig.answer = always_200;
    rig_open(&rig, "sync");
    rig_ask(&rig, ASK_QUEUE_PAUSE);
}

static enum task_state state_now(void)
{
    rig_ask(&rig, ASK_TASK);
    return rig.life.state;
}

static void a_task_whose_deadline_passes_while_its_queue_is_paused_fails_then(void **state) /* I6 */
{
    (void)state;
    open_paused();
    rig_submit(&rig, "", "x", 0, 5000);
    rig_pass(&rig, 4000);
    assert_int_equal(state_now(), TASK_WAITING);
    rig_pass(&rig, 2000);
    assert_int_equal(state_now(), TASK_DEAD);
    assert_int_equal(rig.life.failed_class, DARUMA_CLASS_EXPIRED + 1);
    assert_int_equal(rig.sent_count, 0);
    rig_ask(&rig, ASK_QUEUE_RESUME);
    assert_int_equal(rig.sent_count, 0);
    assert_int_equal(rig.queue_counts[TASK_WAITING], 0);
    rig_close(&rig);
}

static void deadlines_are_known_after_a_restart(void **state) /* I8 */
{
    (void)state;
    open_paused();
    rig_submit(&rig, "", "x", 0, 5000);
    rig_restart(&rig);
    rig_pass(&rig, 6000);
    assert_int_equal(state_now(), TASK_DEAD);
    rig_close(&rig);
}

static void prepare_one_place(struct rig *self)
{
    self->settings.host_concurrency = 1;
}

static void say_it_was_tried(struct task_id id, uint32_t times)
{
    for (struct attempt *each = rig.engine->attempts; each != NULL; each = each->next) {
        each->life.attempts_all += each->task.id.row == id.row ? times : 0;
    }
}

/* Leased, and in line for its host behind one that hangs. Returns which it is, once its turn has come. */
static struct task_id let_pass_in_line(uint32_t times_before)
{
    rig = (struct rig){.keep_ms = 1000000, .latency_ms = 1000000, .prepare = prepare_one_place};
    rig_open(&rig, "sync");
    rig_submit(&rig, "", "first", 0, 0);
    rig_submit(&rig, "", "late", 0, 5000);
    struct task_id late = rig.id;
    assert_int_equal(rig_life(&rig, late).state, TASK_RUNNING);
    say_it_was_tried(late, times_before);
    rig_pass(&rig, 6000);
    rig_answer_one(&rig, 200);
    return late;
}

static void a_deadline_that_passes_in_line_is_no_attempt(void **state)
{
    struct engine_stats stats;

    (void)state;
    struct task_id late = let_pass_in_line(0);
    struct life life = rig_life(&rig, late);
    assert_int_equal(life.state, TASK_DEAD);
    assert_int_equal(life.failed_class, DARUMA_CLASS_EXPIRED + 1);
    assert_int_equal(life.attempts, 0);
    assert_int_equal(life.attempts_all, 0);
    assert_string_equal(rig_trail(&rig, late),
                        "0 expired 0 the deadline passed before it could be sent 0\n");
    assert_non_null(strstr(rig.log_text, "attempts=0"));
    assert_int_equal(rig.sent_count, 1);
    engine_stats(rig.engine, &stats);
    assert_int_equal(stats.attempts, 1);
    assert_int_equal(stats.in_flight, 0);
    rig_close(&rig);
}

/* Of trials in a long outage a trail keeps few, but always the end. */
static void the_trail_of_many_attempts_says_that_the_deadline_passed(void **state)
{
    (void)state;
    struct task_id late = let_pass_in_line(40);
    assert_int_equal(rig_life(&rig, late).state, TASK_DEAD);
    assert_string_equal(rig_trail(&rig, late),
                        "40 expired 0 the deadline passed before it could be sent 0\n");
    rig_close(&rig);
}

/* It was under way then, and waits again now. */
static void a_deadline_of_what_was_running_is_known_after_a_restart(void **state)
{
    (void)state;
    rig = (struct rig){.latency_ms = 1000000};
    rig_open(&rig, "sync");
    rig_submit(&rig, "", "x", 0, 5000);
    rig_settle(&rig);
    assert_int_equal(rig.flight_count, 1);
    rig_ask(&rig, ASK_QUEUE_PAUSE);
    rig_restart(&rig);
    rig_pass(&rig, 6000);
    assert_int_equal(state_now(), TASK_DEAD);
    rig_close(&rig);
}

static void a_redrive_begins_a_deadline_of_its_own(void **state)
{
    (void)state;
    open_paused();
    rig_submit(&rig, "", "x", 0, 5000);
    rig_pass(&rig, 6000);
    assert_int_equal(state_now(), TASK_DEAD);
    rig_ask(&rig, ASK_REDRIVE);
    rig_pass(&rig, 4000);
    assert_int_equal(state_now(), TASK_WAITING);
    rig_pass(&rig, 2000);
    assert_int_equal(state_now(), TASK_DEAD);
    rig_close(&rig);
}

static void a_task_without_a_deadline_waits_on(void **state)
{
    (void)state;
    open_paused();
    rig_submit(&rig, "", "x", 0, 5000);
    rig_submit(&rig, "", "y", 0, 0);
    rig_pass(&rig, 86400000);
    assert_int_equal(state_now(), TASK_WAITING);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_whose_deadline_passes_while_its_queue_is_paused_fails_then),
        cmocka_unit_test(deadlines_are_known_after_a_restart),
        cmocka_unit_test(a_deadline_that_passes_in_line_is_no_attempt),
        cmocka_unit_test(the_trail_of_many_attempts_says_that_the_deadline_passed),
        cmocka_unit_test(a_deadline_of_what_was_running_is_known_after_a_restart),
        cmocka_unit_test(a_redrive_begins_a_deadline_of_its_own),
        cmocka_unit_test(a_task_without_a_deadline_waits_on),
    };

    return HARNESS_RUN(argc, argv, tests);
}
