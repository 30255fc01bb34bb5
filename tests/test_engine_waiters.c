/* SPDX-License-Identifier: MIT
 *
 * More wait for one task than can read at once: all of them are told, none is sent away for want of
 * room while there is time, and when nothing can be read any more they are told that.
 */
#include "harness.h"

#include "engine_rig.h"

#include <string.h>

#define WAITERS   30
#define READS_MAX 4
#define WAIT_MS   INT64_C(20000)
#define FIRST     2 /* of their exchanges; 1 is the producer's */

static struct rig rig; /* large */

/* A task that somebody has to acknowledge, and all who wait for that. */
static void prepare_pull(struct rig *self)
{
    self->settings.target_count = 0;
}

static struct task_id open_waited_for(size_t reads_max)
{
    memset(&rig, 0, sizeof rig);
    rig.prepare = prepare_pull;
    rig.keep_ms = INT64_C(864000000);
    rig.reads_max = reads_max;
    rig_open(&rig, "sync");
    rig_submit(&rig, "", "x", 0, 0);
    return rig.id;
}

static void wait_all(struct task_id id)
{
    for (uint64_t i = 0; i < WAITERS; i++) {
        engine_ask(
            rig.engine,
            &(struct ask){.kind = ASK_TASK, .exchange = FIRST + i, .id = id, .wait_ms = WAIT_MS});
    }
    rig_settle(&rig);
}

static size_t told_as(enum reply_kind kind)
{
    size_t count = 0;

    for (uint64_t i = 0; i < WAITERS; i++) {
        count += rig.replies[FIRST + i].count == 1 && rig.replies[FIRST + i].kind == kind;
    }
    return count;
}

static size_t told_at_all(void)
{
    return told_as(REPLY_TASK) + told_as(REPLY_FAULT);
}

static void all_who_wait_for_a_task_are_told(void **state)
{
    (void)state;
    struct task_id id = open_waited_for(READS_MAX);
    wait_all(id);
    rig_wait(&rig, 1000);
    assert_int_equal(told_at_all(), 0);
    engine_ask(rig.engine, &(struct ask){.kind = ASK_CANCEL, .exchange = 1, .id = id});
    rig_wait(&rig, 1000);
    assert_int_equal(told_as(REPLY_TASK), WAITERS);
    for (uint64_t i = 0; i < WAITERS; i++) {
        assert_int_equal(rig.replies[FIRST + i].lives[0].state, TASK_CANCELLED);
    }
    rig_close(&rig);
}

static void all_whose_time_is_over_are_told_what_there_is(void **state)
{
    (void)state;
    struct task_id id = open_waited_for(READS_MAX);
    wait_all(id);
    rig_wait(&rig, WAIT_MS - 1);
    assert_int_equal(told_at_all(), 0);
    rig_wait(&rig, 500);
    assert_int_equal(told_as(REPLY_TASK), WAITERS);
    assert_int_equal(rig.replies[FIRST].lives[0].state, TASK_WAITING);
    rig_close(&rig);
}

/* The store does not read any more: whoever waits hears of it, some time after his own is over. */
static void nobody_waits_for_room_for_ever(void **state) /* I9 */
{
    (void)state;
    struct task_id id = open_waited_for(READS_MAX);
    wait_all(id);
    rig_wait(&rig, 1000);
    rig.read_count = READS_MAX; /* as many are under way, and none comes back */
    for (int i = 0; i < 19 * 10; i++) {
        rig_pass(&rig, 100);
        rig.read_count = READS_MAX;
    }
    assert_int_equal(told_at_all(), 0);
    for (int i = 0; i < 10 * 10; i++) {
        rig_pass(&rig, 100);
        rig.read_count = READS_MAX;
    }
    assert_int_equal(told_as(REPLY_FAULT), WAITERS);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_who_wait_for_a_task_are_told),
        cmocka_unit_test(all_whose_time_is_over_are_told_what_there_is),
        cmocka_unit_test(nobody_waits_for_room_for_ever),
    };
    return HARNESS_RUN(argc, argv, tests);
}
