/* SPDX-License-Identifier: MIT
 *
 * How long the oldest dead letter of a queue has waited for a person, as it is told to the operator:
 * through redrive, resolve, purge and restart, under a clock that the test moves.
 */
#include "harness.h"

#include "engine_rig.h"

#include "engine/ages.h"

#include <string.h>

#define HOUR_MS 3600000

static struct rig rig; /* large */
static int status_now; /* what the target answers */

static struct rig_answer answer_now(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = status_now};
}

static void open_rig(void)
{
    memset(&rig, 0, sizeof rig);
    rig.answer = answer_now;
    rig_open(&rig, "sync");
}

static struct task_id dead_letter(void)
{
    status_now = 400;
    rig_submit(&rig, "", "first", 0, 0);
    assert_int_equal(rig_life(&rig, rig.id).state, TASK_DEAD);
    return rig.id;
}

static int64_t age_ms(void)
{
    struct queue_view view;

    engine_queue_view(rig.engine, 0, &view);
    return view.oldest_letter_ms;
}

static void act(enum ask_kind kind, struct task_id id)
{
    (void)rig_full_ask(&rig,
                       &(struct ask){.kind = kind, .exchange = 5, .id = id, .who = SPAN("ann")});
}

static void it_grows_from_the_moment_of_the_failure(void **state)
{
    (void)state;
    open_rig();
    assert_int_equal(age_ms(), 0);
    (void)dead_letter();
    rig_pass(&rig, HOUR_MS);
    assert_int_equal(age_ms(), HOUR_MS);
    (void)dead_letter();
    rig_pass(&rig, HOUR_MS);
    assert_int_equal(age_ms(), 2 * HOUR_MS);
    rig_close(&rig);
}

static void a_restart_does_not_make_it_young(void **state)
{
    (void)state;
    open_rig();
    (void)dead_letter();
    rig_pass(&rig, HOUR_MS);
    rig_restart(&rig);
    assert_int_equal(age_ms(), HOUR_MS);
    rig_close(&rig);
}

static void the_next_oldest_follows_when_one_is_dealt_with(void **state)
{
    (void)state;
    open_rig();
    struct task_id first = dead_letter();
    rig_pass(&rig, HOUR_MS);
    struct task_id second = dead_letter();
    rig_pass(&rig, HOUR_MS);
    (void)dead_letter();
    rig_pass(&rig, HOUR_MS);
    act(ASK_RESOLVE, first);
    assert_int_equal(age_ms(), 2 * HOUR_MS);
    status_now = 200;
    act(ASK_REDRIVE, second);
    assert_int_equal(rig_life(&rig, second).state, TASK_SUCCEEDED);
    assert_int_equal(age_ms(), HOUR_MS);
    rig_ask(&rig, ASK_QUEUE_PURGE);
    rig_run(&rig, HOUR_MS);
    assert_int_equal(age_ms(), 0);
    rig_close(&rig);
}

static void one_that_was_redriven_and_fails_again_begins_anew(void **state)
{
    (void)state;
    open_rig();
    struct task_id id = dead_letter();
    rig_pass(&rig, HOUR_MS);
    act(ASK_REDRIVE, id); /* 400 again */
    assert_int_equal(rig_life(&rig, id).state, TASK_DEAD);
    assert_int_equal(age_ms(), 0);
    rig_pass(&rig, 5000);
    assert_int_equal(age_ms(), 5000);
    rig_close(&rig);
}

static void a_redrive_of_many_leaves_none(void **state)
{
    (void)state;
    open_rig();
    for (int i = 0; i < 20; i++) {
        (void)dead_letter();
        rig_pass(&rig, AGES_SLOT_MS);
    }
    assert_int_equal(age_ms(), 20 * AGES_SLOT_MS);
    status_now = 200;
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_REDRIVE_MANY,
                                           .exchange = 5,
                                           .rate_per_second = 1000,
                                           .who = SPAN("ann")});
    rig_wait(&rig, HOUR_MS);
    assert_int_equal(age_ms(), 0);
    (void)dead_letter(); /* none of those before it is taken for the oldest */
    rig_pass(&rig, 5000);
    assert_int_equal(age_ms(), 5000);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_grows_from_the_moment_of_the_failure),
        cmocka_unit_test(a_restart_does_not_make_it_young),
        cmocka_unit_test(the_next_oldest_follows_when_one_is_dealt_with),
        cmocka_unit_test(one_that_was_redriven_and_fails_again_begins_anew),
        cmocka_unit_test(a_redrive_of_many_leaves_none),
    };
    return HARNESS_RUN(argc, argv, tests);
}
