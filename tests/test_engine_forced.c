/* SPDX-License-Identifier: MIT
 *
 * A person wants one task run that a worker pulls: due now, whatever its backoff and whether or not
 * its queue is paused, as for one that is sent; and nothing but that task. Requirement D4.
 */
#include "harness.h"

#include "engine_rig.h"

#include <string.h>

#define HOUR_MS INT64_C(3600000)

static struct rig rig; /* large */

static void prepare_pull(struct rig *self)
{
    self->settings.target_count = 0;
}

/* A paused queue with two tasks, of which one is due now. */
static void open_paused(struct task_id *ret_due, struct task_id *ret_later)
{
    memset(&rig, 0, sizeof rig);
    rig.prepare = prepare_pull;
    rig.keep_ms = 1000 * HOUR_MS;
    rig_open(&rig, "sync");
    rig_submit(&rig, "", "due", 0, 0);
    *ret_due = rig.id;
    rig_submit(&rig, "", "later", 2 * HOUR_MS, 0);
    *ret_later = rig.id;
    rig_ask(&rig, ASK_QUEUE_PAUSE);
}

static enum reply_kind run(struct task_id id)
{
    return rig_full_ask(&rig, &(struct ask){.kind = ASK_RUN, .exchange = 5, .id = id})->kind;
}

static const struct rig_reply *take(uint64_t worker, int64_t wait_ms)
{
    return rig_full_ask(
        &rig,
        &(struct ask){.kind = ASK_LEASE, .exchange = worker, .lease_max = 10, .wait_ms = wait_ms});
}

static enum lease_result say(uint64_t worker, enum lease_word_kind kind)
{
    const struct rig_reply *got = &rig.replies[worker];
    const struct lease_word word = {.kind = kind,
                                    .lease = SPAN("lease"),
                                    .id = got->ids[0],
                                    .fence = got->lives[0].fence,
                                    .epoch = got->lives[0].epoch,
                                    .text = SPAN(""),
                                    .delay_ms = 0,
                                    .is_forced = (got->lives[0].flags & LIFE_FORCED) != 0};

    (void)rig_full_ask(
        &rig,
        &(struct ask){.kind = ASK_LEASE_SETTLE, .exchange = 9, .words = &word, .word_count = 1});
    assert_int_equal(rig.replies[9].result_count, 1);
    return rig.replies[9].results[0];
}

/* Nobody gets anything. */
static void expect_nothing(uint64_t worker)
{
    assert_int_equal(take(worker, 0)->record_count, 0);
}

static void expect_only(uint64_t worker, struct task_id id)
{
    assert_int_equal(rig.replies[worker].record_count, 1);
    assert_int_equal(rig.replies[worker].ids[0].row, id.row);
}

static void a_paused_queue_gives_nothing_until_it_is_resumed(void **state)
{
    struct task_id due, later;

    (void)state;
    open_paused(&due, &later);
    (void)take(10, 20000);
    rig_wait(&rig, 10000);
    assert_int_equal(rig.replies[10].count, 0);
    rig_ask(&rig, ASK_QUEUE_RESUME);
    expect_only(10, due);
    rig_close(&rig);
}

static void what_is_run_is_handed_out_though_the_queue_is_paused(void **state) /* D4 */
{
    struct task_id due, later;

    (void)state;
    open_paused(&due, &later);
    expect_nothing(10);
    assert_int_equal(run(later), REPLY_TASK);
    (void)take(10, 0);
    expect_only(10, later);
    assert_int_equal(rig.replies[10].lives[0].attempts, 1);
    expect_nothing(11);
    assert_int_equal(say(10, LEASE_ACK), LEASE_SETTLED);
    assert_int_equal(run(due), REPLY_TASK);
    (void)take(11, 0);
    expect_only(11, due);
    rig_close(&rig);
}

static void a_worker_that_waits_gets_it_at_once(void **state) /* D4 */
{
    struct task_id due, later;

    (void)state;
    open_paused(&due, &later);
    (void)take(10, HOUR_MS);
    rig_wait(&rig, 10000);
    assert_int_equal(rig.replies[10].count, 0);
    assert_int_equal(run(later), REPLY_TASK);
    expect_only(10, later);
    rig_close(&rig);
}

static void it_is_known_after_a_restart(void **state) /* D4, I8 */
{
    struct task_id due, later;

    (void)state;
    open_paused(&due, &later);
    assert_int_equal(run(later), REPLY_TASK);
    rig_restart(&rig);
    (void)take(10, 0);
    expect_only(10, later);
    rig_close(&rig);
}

/* A person's word is good for one attempt: after it the pause holds the task as any other. */
static void a_word_that_was_said_twice_is_good_for_one_attempt(void **state)
{
    struct task_id due, later;

    (void)state;
    open_paused(&due, &later);
    assert_int_equal(run(due), REPLY_TASK);
    assert_int_equal(run(due), REPLY_TASK);
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_LEASE, .exchange = 10, .lease_max = 1});
    expect_only(10, due);
    assert_int_equal(say(10, LEASE_RETRY), LEASE_WAITING);
    rig_wait(&rig, 1000);
    expect_nothing(11);
    rig_ask(&rig, ASK_QUEUE_RESUME);
    (void)take(11, 0);
    expect_only(11, due);
    rig_close(&rig);
}

static void a_worker_that_was_gone_does_not_use_the_word_up(void **state)
{
    struct task_id due, later;

    (void)state;
    open_paused(&due, &later);
    assert_int_equal(run(later), REPLY_TASK);
    (void)take(10, 0);
    expect_only(10, later);
    assert_int_equal(say(10, LEASE_RETURN), LEASE_WAITING);
    (void)take(11, 0);
    expect_only(11, later);
    assert_int_equal(rig.replies[11].lives[0].attempts, 1);
    rig_close(&rig);
}

static void a_run_of_the_queue_is_a_word_for_each_that_waits(void **state) /* D4 */
{
    struct task_id due, later;

    (void)state;
    open_paused(&due, &later);
    rig_ask(&rig, ASK_QUEUE_RUN);
    rig_submit(&rig, "", "after it", 0, 0);
    assert_int_equal(take(10, 0)->record_count, 2);
    expect_nothing(11);
    rig_close(&rig);
}

static void expect_one_poll_each(uint64_t worker, struct task_id id)
{
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_LEASE, .exchange = worker, .lease_max = 1});
    expect_only(worker, id);
}

/* However often it is said, a word makes one task due, and stands in the way of no other. */
static void a_word_that_is_said_again_and_again_costs_no_worker_a_poll(void **state)
{
    struct task_id due, later;

    (void)state;
    open_paused(&due, &later);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(run(later), REPLY_TASK);
    }
    rig_wait(&rig, 1);
    for (int i = 0; i < 20; i++) { /* more often than a run may be under way: some are refused */
        rig_ask(&rig, ASK_QUEUE_RUN);
    }
    expect_one_poll_each(10, later); /* due since the first word */
    expect_one_poll_each(11, due);
    expect_nothing(12);
    rig_close(&rig);
}

/* What was handed out by a person's word is still in the schedule of what is due. */
static void what_was_handed_out_before_costs_no_worker_a_poll(void **state)
{
    struct task_id due, later;

    (void)state;
    open_paused(&due, &later);
    rig_ask(&rig, ASK_QUEUE_RESUME);
    for (int i = 0; i < 20; i++) {
        rig_submit(&rig, "", "as well", 0, 0);
    }
    rig_ask(&rig, ASK_QUEUE_RUN);
    for (int got = 0; got < 22; got += 2) {
        (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_LEASE, .exchange = 10, .lease_max = 2});
        assert_int_equal(rig.replies[10].record_count, 2);
    }
    rig_wait(&rig, 1);
    rig_submit(&rig, "", "new", 0, 0);
    expect_one_poll_each(11, rig.id);
    rig_close(&rig);
}

/* --- what is sent, among nodes ------------------------------------------------------------------------ */

static void prepare_two_places(struct rig *self)
{
    self->settings.host_concurrency = 2;
}

/* A person wants tasks of a paused queue run, and the queue gets fewer places than there are nodes. */
static void the_word_stays_with_what_goes_back_for_want_of_a_share(void **state)
{
    (void)state;
    rig = (struct rig){.keep_ms = HOUR_MS, .prepare = prepare_two_places, .latency_ms = HOUR_MS};
    rig_open(&rig, "default");
    rig_ask(&rig, ASK_QUEUE_PAUSE);
    for (int i = 0; i < 3; i++) {
        rig_submit(&rig, "", "body", 0, 0);
        assert_int_equal(run(rig.id), REPLY_TASK);
    }
    struct task_id last = rig.id;
    assert_int_equal(rig.flight_count, 2);
    assert_int_equal(rig_life(&rig, last).state, TASK_RUNNING); /* in line for its host */
    rig_pass(&rig, 1);
    rig_join(&rig);
    rig.store->node_lease_ms = HOUR_MS;
    rig_be_one_of(&rig, 2, 3);
    struct life life = rig_life(&rig, last);
    assert_int_equal(life.state, TASK_WAITING);
    assert_int_equal(life.attempts, 0);
    assert_true((life.flags & LIFE_FORCED) != 0);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paused_queue_gives_nothing_until_it_is_resumed),
        cmocka_unit_test(what_is_run_is_handed_out_though_the_queue_is_paused),
        cmocka_unit_test(a_worker_that_waits_gets_it_at_once),
        cmocka_unit_test(it_is_known_after_a_restart),
        cmocka_unit_test(a_word_that_was_said_twice_is_good_for_one_attempt),
        cmocka_unit_test(a_worker_that_was_gone_does_not_use_the_word_up),
        cmocka_unit_test(a_run_of_the_queue_is_a_word_for_each_that_waits),
        cmocka_unit_test(a_word_that_is_said_again_and_again_costs_no_worker_a_poll),
        cmocka_unit_test(what_was_handed_out_before_costs_no_worker_a_poll),
        cmocka_unit_test(the_word_stays_with_what_goes_back_for_want_of_a_share),
    };
    return HARNESS_RUN(argc, argv, tests);
}
