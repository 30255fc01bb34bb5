/* SPDX-License-Identifier: MIT
 *
 * What becomes of workers' leases when the clock is set forward or back.
 */
#include "harness.h"

#include "engine_rig.h"

#include <string.h>

#define LEASE_MS INT64_C(5000)

static struct rig rig; /* large */
static struct task_id task;

static void prepare_pull(struct rig *self)
{
    self->settings.target_count = 0;
}

/* A worker asks for the queue's one task; the store has not replied yet. */
static void ask_for_it(void)
{
    memset(&rig, 0, sizeof rig);
    rig.prepare = prepare_pull;
    rig_open(&rig, "sync");
    rig_submit(&rig, "", "x", 0, 0);
    task = rig.id;
    engine_ask(rig.engine, &(struct ask){.kind = ASK_LEASE,
                                         .exchange = 10,
                                         .queue = SPAN(RIG_QUEUE),
                                         .lease_max = 1,
                                         .lease_ms = LEASE_MS});
}

static void one_that_is_set_back_does_not_keep_a_lease_for_ever(void **state)
{
    (void)state;
    ask_for_it();
    rig_settle(&rig);
    rig.now_ms += LEASE_MS;
    engine_tick(rig.engine); /* its end is looked at … */
    rig.now_ms -= 20000;     /* … by a clock that shows an earlier time */
    rig_settle(&rig);
    assert_int_equal(rig_life(&rig, task).state, TASK_RUNNING);
    rig_wait(&rig, 20000);
    assert_int_equal(rig_life(&rig, task).state, TASK_WAITING);
    rig_close(&rig);
}

static void a_lease_that_was_over_once_is_told_to_no_worker(void **state) /* I5 */
{
    (void)state;
    ask_for_it();
    rig.now_ms += LEASE_MS;
    engine_tick(rig.engine);
    rig.now_ms -= 2000;
    rig_settle(&rig);
    assert_int_equal(rig.replies[10].kind, REPLY_LEASES);
    assert_int_equal(rig.replies[10].record_count, 0);
    rig_wait(&rig, 4000);
    assert_int_equal(rig_life(&rig, task).state, TASK_WAITING);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_set_back_does_not_keep_a_lease_for_ever),
        cmocka_unit_test(a_lease_that_was_over_once_is_told_to_no_worker),
    };
    return HARNESS_RUN(argc, argv, tests);
}
