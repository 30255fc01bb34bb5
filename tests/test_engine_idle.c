/* SPDX-License-Identifier: MIT
 *
 * test_engine_idle -- an engine that has nothing to do lets its loop sleep, whatever holds its tasks.
 */
#include "engine_rig.h"
#include "harness.h"

#define FAR_MS 1000000

static struct rig rig;

static void prepare(struct rig *self)
{
    self->settings.concurrency = 8;
    self->settings.host_concurrency = 2;
    self->settings.outage_after = 2;
    self->settings.outage_try_ms = 5000;
}

/* A target that answers nothing by itself. */
static void open_idle(void)
{
    rig = (struct rig){.keep_ms = 1000000, .prepare = prepare, .files_max = 4, .attempts_max = 64};
    rig_open(&rig, "default");
}

/* At several moments, also past those at which something is done once in a while. */
static void expect_sleep(void)
{
    static const int64_t later_ms[] = {0, 1, 999, 10001, 60001, 3600001};

    for (size_t i = 0; i < sizeof later_ms / sizeof *later_ms; i++) {
        rig_pass(&rig, later_ms[i]);
        engine_tick(rig.engine);
        rig_settle(&rig);
        assert_true(engine_next_tick_ms(rig.engine) > 0);
    }
}

static void fill(int tasks)
{
    for (int i = 0; i < tasks; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
}

static void it_sleeps_when_it_is_empty(void **state)
{
    (void)state;
    open_idle();
    expect_sleep();
    rig_close(&rig);
}

static void it_sleeps_while_its_targets_hang(void **state)
{
    (void)state;
    open_idle();
    fill(40);
    expect_sleep();
    rig_close(&rig);
}

static void it_sleeps_while_a_queue_is_paused(void **state)
{
    (void)state;
    open_idle();
    rig_ask(&rig, ASK_QUEUE_PAUSE);
    fill(10);
    expect_sleep();
    rig_close(&rig);
}

static void it_sleeps_during_an_outage(void **state)
{
    (void)state;
    open_idle();
    fill(10);
    rig_cut_one(&rig);
    rig_cut_one(&rig);
    expect_sleep();
    rig_close(&rig);
}

static void it_sleeps_while_it_drains(void **state)
{
    (void)state;
    open_idle();
    fill(10);
    engine_drain(rig.engine);
    expect_sleep();
    rig_close(&rig);
}

static void it_sleeps_while_it_drains_and_a_task_has_a_deadline(void **state)
{
    (void)state;
    open_idle();
    rig_submit(&rig, "", "x", FAR_MS, FAR_MS);
    rig_settle(&rig);
    engine_drain(rig.engine);
    expect_sleep();
    rig_close(&rig);
}

static void it_sleeps_while_it_lacks_descriptors(void **state)
{
    (void)state;
    open_idle();
    for (int i = 0; i < 8; i++) { /* at hosts of their own, and there is room for four */
        char url[] = "http://a.example/";
        url[7] = (char)('a' + i);
        rig_submit_as(&rig, &(struct submission){.target = span_of(url), .body = SPAN("x")});
        rig_settle(&rig);
    }
    expect_sleep();
    rig_close(&rig);
}

static void it_sleeps_without_the_duty(void **state)
{
    (void)state;

    open_idle();
    rig_join(&rig);
    rig.store->node_lease_ms = FAR_MS;
    engine_beat(rig.engine, &(struct beat){.is_fresh = true,
                                           .epoch = rig.store->epoch,
                                           .server_ms = rig.now_ms,
                                           .seen_ms = rig.now_ms,
                                           .begun_ms = rig.now_ms,
                                           .node_count = 2,
                                           .place = 1,
                                           .has_settled_in = true});
    rig_settle(&rig);
    expect_sleep();
    rig.store->nodes = NULL;
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_sleeps_when_it_is_empty),
        cmocka_unit_test(it_sleeps_while_its_targets_hang),
        cmocka_unit_test(it_sleeps_while_a_queue_is_paused),
        cmocka_unit_test(it_sleeps_during_an_outage),
        cmocka_unit_test(it_sleeps_while_it_drains),
        cmocka_unit_test(it_sleeps_while_it_drains_and_a_task_has_a_deadline),
        cmocka_unit_test(it_sleeps_while_it_lacks_descriptors),
        cmocka_unit_test(it_sleeps_without_the_duty),
    };
    return HARNESS_RUN(argc, argv, tests);
}
