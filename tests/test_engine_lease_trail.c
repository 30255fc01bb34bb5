/* SPDX-License-Identifier: MIT
 *
 * What the trail tells of the attempts of workers: when each got the task, and when it had ended, to
 * the millisecond; through extensions, restarts and leases that ran out. Requirement A6.2.
 */
#include "harness.h"

#include "engine_rig.h"

#include <string.h>

#define LEASE_MS INT64_C(30000)

static struct rig rig; /* large */
static struct task_id task;

static void prepare_pull(struct rig *self)
{
    self->settings.target_count = 0;
}

static void open_with_task(void)
{
    memset(&rig, 0, sizeof rig);
    rig.prepare = prepare_pull;
    rig.keep_ms = INT64_C(864000000);
    rig_open(&rig, "sync");
    rig_submit(&rig, "", "x", 0, 0);
    task = rig.id;
    rig_pass(&rig, 5000); /* it has waited for a while */
}

static int64_t take(void)
{
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_LEASE, .exchange = 10, .lease_max = 1});
    assert_int_equal(rig.replies[10].record_count, 1);
    return rig.now_ms;
}

static void say(enum lease_word_kind kind, int64_t lease_ms)
{
    const struct rig_reply *got = &rig.replies[10];
    const struct lease_word word = {.kind = kind,
                                    .lease = SPAN("lease"),
                                    .id = got->ids[0],
                                    .fence = got->lives[0].fence,
                                    .epoch = got->lives[0].epoch,
                                    .text = SPAN("no"),
                                    .delay_ms = 0,
                                    .lease_ms = lease_ms};

    (void)rig_full_ask(
        &rig,
        &(struct ask){.kind = ASK_LEASE_SETTLE, .exchange = 9, .words = &word, .word_count = 1});
    assert_int_not_equal(rig.replies[9].results[0], LEASE_STALE);
}

static void expect_attempt(size_t number, int64_t began_ms, int64_t ended_ms)
{
    struct arena *arena = arena_new(1 << 20);
    struct record record = {0};
    bool found = false;

    assert_int_equal(store_read_task(rig.store, task, READ_TRAIL, arena, &record, &found, NULL), 0);
    assert_int_equal(record.trail_count, number);
    assert_int_equal(record.trail[number - 1].started_at_ms, began_ms);
    assert_int_equal(record.trail[number - 1].ended_at_ms, ended_ms);
    arena_free(arena);
}

static void an_attempt_lasts_from_the_lease_to_the_word(void **state) /* A6.2 */
{
    (void)state;
    open_with_task();
    int64_t began_ms = take();
    rig_pass(&rig, 700);
    say(LEASE_RETRY, 0);
    expect_attempt(1, began_ms, began_ms + 700);
    assert_int_equal(rig_life(&rig, task).wait_ms, 0);
    rig_pass(&rig, 300);
    int64_t again_ms = take();
    rig_pass(&rig, 50);
    say(LEASE_ACK, 0);
    expect_attempt(2, again_ms, again_ms + 50);
    assert_int_equal(rig_life(&rig, task).wait_ms, 0);
    rig_close(&rig);
}

static void extensions_and_restarts_do_not_move_its_beginning(void **state) /* A6.2, I8 */
{
    (void)state;
    open_with_task();
    int64_t began_ms = take();
    rig_pass(&rig, 20000);
    say(LEASE_EXTEND, LEASE_MS);
    rig_pass(&rig, 20000);
    rig_restart(&rig);
    say(LEASE_EXTEND, 100); /* shorter than what was left */
    rig_pass(&rig, 50);
    say(LEASE_ACK, 0);
    expect_attempt(1, began_ms, began_ms + 40050);
    rig_close(&rig);
}

static void one_that_ran_out_has_begun_with_its_lease(void **state) /* A6.2 */
{
    (void)state;
    open_with_task();
    int64_t began_ms = take();
    rig_wait(&rig, LEASE_MS + 10);
    expect_attempt(1, began_ms, began_ms + LEASE_MS);
    rig_close(&rig);
}

static void one_that_was_given_back_leaves_nothing(void **state)
{
    (void)state;
    open_with_task();
    (void)take();
    rig_pass(&rig, 700);
    say(LEASE_RETURN, 0);
    assert_int_equal(rig_life(&rig, task).wait_ms, 0);
    int64_t began_ms = take();
    rig_pass(&rig, 10);
    say(LEASE_ACK, 0);
    expect_attempt(1, began_ms, began_ms + 10);
    rig_close(&rig);
}

/* The wall clock is not ours: no attempt ends before it began. */
static void a_clock_that_is_set_back_makes_no_attempt_end_before_it_began(void **state)
{
    (void)state;
    open_with_task();
    int64_t began_ms = take();
    rig.now_ms -= 60000;
    say(LEASE_ACK, 0);
    expect_attempt(1, began_ms - 60000, began_ms - 60000);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_attempt_lasts_from_the_lease_to_the_word),
        cmocka_unit_test(extensions_and_restarts_do_not_move_its_beginning),
        cmocka_unit_test(one_that_ran_out_has_begun_with_its_lease),
        cmocka_unit_test(one_that_was_given_back_leaves_nothing),
        cmocka_unit_test(a_clock_that_is_set_back_makes_no_attempt_end_before_it_began),
    };
    return HARNESS_RUN(argc, argv, tests);
}
