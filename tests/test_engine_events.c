/* SPDX-License-Identifier: MIT
 *
 * What the log says of a queue, by name and field, and what a run by hand does, under a clock that
 * the test moves. Requirements D3.1-4, D4.1-4.
 */
#include "harness.h"

#include "engine_rig.h"
#include "engine/sums_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE_MS INT64_C(60000)

static struct rig rig; /* large */
static int status_now; /* what the target answers */

static struct rig_answer answer_now(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = status_now};
}

static void open_with(const char *policy, void (*prepare)(struct rig *))
{
    memset(&rig, 0, sizeof rig);
    rig.answer = answer_now;
    rig.prepare = prepare;
    rig.keep_ms = MINUTE_MS * 60 * 1000;
    rig_open(&rig, policy);
}

static int count_of(const char *text)
{
    int count = 0;

    for (const char *at = rig.log_text; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

static void forget_log(void)
{
    rig.log_text[0] = '\0';
}

static void the_length_of_a_queue_is_told_at_start_and_with_each_run(void **state) /* D3.1 */
{
    (void)state;
    open_with("articles", NULL);
    assert_int_equal(count_of("event=queue_length queue=q waiting=0"), 1);
    status_now = 503;
    for (int i = 0; i < 3; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
    forget_log();
    rig_restart(&rig);
    assert_int_equal(count_of("event=queue_length queue=q waiting=3"), 1);
    forget_log();
    rig_ask(&rig, ASK_QUEUE_RUN);
    assert_int_equal(count_of("event=queue_length queue=q waiting=3"), 1);
    forget_log();
    rig_wait(&rig, 10 * MINUTE_MS); /* the retries that are due are a run */
    assert_int_equal(count_of("event=queue_length queue=q waiting=3"), 1);
    rig_close(&rig);
}

static void retries_that_were_due_together_are_told_as_a_run(void **state) /* D3.2 */
{
    (void)state;
    open_with("articles", NULL);
    status_now = 503;
    for (int i = 0; i < 4; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
    assert_int_equal(count_of("event=run_done"), 0); /* first tries are none */
    status_now = 200;
    rig_wait(&rig, 5 * MINUTE_MS);
    assert_int_equal(count_of("event=run_done queue=q kind=scheduled taken=4 succeeded=4 failed=0"),
                     1);
    assert_int_equal(count_of("event=run_done"), 1);
    rig_close(&rig);
}

static void prepare_one_at_a_time(struct rig *self)
{
    self->settings.concurrency = 1;
}

static void a_run_that_needs_many_turns_is_one_run(void **state) /* D3.2 */
{
    (void)state;
    open_with("articles", prepare_one_at_a_time);
    status_now = 503;
    for (int i = 0; i < 5; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
    rig_wait(&rig, 5 * MINUTE_MS);
    assert_int_equal(count_of("event=run_done queue=q kind=scheduled taken=5 succeeded=0 failed=5 "
                              "retrying=5"),
                     1);
    assert_int_equal(count_of("event=run_done"), 1);
    rig_close(&rig);
}

static void a_run_ends_although_new_tasks_keep_coming(void **state) /* D3.2 */
{
    (void)state;
    open_with("articles", prepare_one_at_a_time);
    status_now = 503;
    rig_submit(&rig, "", "x", 0, 0);
    rig_wait(&rig, 5 * MINUTE_MS - 1);
    rig.answer = NULL;
    rig_wait(&rig, 1); /* the retry is under way … */
    for (int i = 0; i < 3; i++) {
        rig_submit(&rig, "", "new", 0, 0); /* … and new ones wait behind it */
    }
    status_now = 200;
    rig.answer = answer_now;
    rig_settle(&rig);
    assert_int_equal(count_of("event=run_done queue=q kind=scheduled taken=1 succeeded=1 failed=0"),
                     1);
    rig_close(&rig);
}

static void a_retry_and_a_permanent_failure_are_told_with_their_fields(void **state) /* D3.3 */
{
    char id[ID_TEXT_LEN + 1], line[256];

    (void)state;
    open_with("articles", NULL);
    status_now = 429;
    rig_submit(&rig, "", "x", 0, 0);
    id_format(rig.id, id);
    (void)snprintf(line, sizeof line,
                   "event=task_retry task=%s queue=q attempt=1 wait_ms=300000 "
                   "class=rate_limited host=127.0.0.1:1 status=429",
                   id);
    assert_int_equal(count_of(line), 1);
    rig_run(&rig, MINUTE_MS * 60 * 24);
    (void)snprintf(line, sizeof line,
                   "level=warn event=task_failed_permanently task=%s queue=q attempts=6 "
                   "class=rate_limited host=127.0.0.1:1 status=429",
                   id);
    assert_int_equal(count_of(line), 1);
    assert_int_equal(count_of("event=task_failed_permanently"), 1);
    assert_int_equal(count_of("event=task_retry"), 5);
    rig_close(&rig);
}

static void a_queue_that_becomes_empty_is_told(void **state) /* D3.4 */
{
    (void)state;
    open_with("articles", NULL);
    status_now = 503;
    rig_submit(&rig, "", "x", 0, 0);
    rig_submit(&rig, "", "y", 0, 0);
    assert_int_equal(count_of("event=queue_empty"), 0);
    status_now = 200;
    rig_wait(&rig, 5 * MINUTE_MS);
    assert_int_equal(count_of("event=queue_empty queue=q"), 1);
    rig_close(&rig);
}

static void the_last_one_that_is_cancelled_empties_the_queue(void **state) /* D3.4 */
{
    (void)state;
    open_with("articles", NULL);
    rig_submit(&rig, "", "x", MINUTE_MS, 0);
    rig_ask(&rig, ASK_CANCEL);
    assert_int_equal(count_of("event=queue_empty queue=q"), 1);
    rig_submit(&rig, "", "x", MINUTE_MS, 0);
    rig_submit(&rig, "", "x", MINUTE_MS, 0);
    forget_log();
    rig_ask(&rig, ASK_QUEUE_PURGE);
    assert_int_equal(count_of("event=queue_empty"), 0); /* not twice in a minute */
    rig_wait(&rig, MINUTE_MS);
    assert_int_equal(count_of("event=queue_empty queue=q"), 1);
    rig_close(&rig);
}

static void a_queue_that_is_often_empty_is_told_once_a_minute(void **state) /* D3.4 */
{
    (void)state;
    open_with("articles", NULL);
    status_now = 200;
    for (int i = 0; i < 300; i++) { /* a task a second, each the only one */
        rig_submit(&rig, "", "x", 0, 0);
        rig_wait(&rig, 1000);
    }
    assert_int_equal(count_of("event=queue_empty queue=q"), 6); /* at the ends of five minutes */
    rig_submit(&rig, "", "x", 0, 0);
    rig_wait(&rig, 10 * MINUTE_MS);
    assert_int_equal(count_of("event=queue_empty queue=q"), 7); /* the last word is true */
    rig_close(&rig);
}

static void many_at_once(struct rig *self)
{
    self->settings.concurrency = 1000;
}

static void a_storm_of_failures_is_a_few_lines_and_their_count(void **state)
{
    unsigned told = 0, summed = 0;

    (void)state;
    open_with("articles", many_at_once);
    status_now = 503;
    for (int i = 0; i < 500; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
    assert_int_equal(count_of("event=task_retry task="), SUMS_QUEUE_MAX);
    rig_wait(&rig, 5000);
    told = (unsigned)count_of("event=task_retry task=");
    for (const char *at = rig.log_text; (at = strstr(at, "event=task_retry count=")) != NULL;) {
        summed += (unsigned)strtoul(at + strlen("event=task_retry count="), (char **)&at, 10);
        assert_int_equal(strncmp(at, " queue=q class=transient host=127.0.0.1:1 status=503", 52),
                         0);
    }
    assert_int_equal(told + summed, 500);
    assert_int_equal(count_of("event=task_retry count="), 1);
    rig_close(&rig);
}

static void what_is_summed_up_is_told_before_the_end(void **state)
{
    (void)state;
    open_with("articles", many_at_once);
    status_now = 503;
    for (int i = 0; i < 20; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
    assert_int_equal(count_of("event=task_retry count="), 0);
    rig_close(&rig);
    assert_int_equal(count_of("event=task_retry count=10 queue=q"), 1);
}

static void a_run_by_hand_takes_all_at_once_and_sets_the_next_time(void **state) /* D4.1-4 */
{
    (void)state;
    open_with("articles", NULL);
    status_now = 503;
    for (int i = 0; i < 3; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
    rig_submit(&rig, "", "x", 60 * MINUTE_MS, 0); /* one that has not been tried at all */
    struct task_id id = rig.id;
    rig_pass(&rig, MINUTE_MS);
    size_t before = rig.sent_count;
    rig_ask(&rig, ASK_QUEUE_RUN);
    assert_int_equal(rig.run.taken, 4);
    assert_int_equal(rig.sent_count, before + 4); /* whatever their waiting times */
    assert_int_equal(count_of("event=run_done queue=q kind=manual taken=4 succeeded=0 failed=4"),
                     1);
    struct life life = rig_life(&rig, id);
    assert_int_equal(life.attempts, 1);                           /* counts up */
    assert_int_equal(life.due_at_ms, rig.now_ms + 5 * MINUTE_MS); /* the next automatic time */
    status_now = 200;
    rig_ask(&rig, ASK_QUEUE_RUN);
    assert_int_equal(count_of("event=run_done queue=q kind=manual taken=4 succeeded=4 failed=0"),
                     1);
    rig_ask(&rig, ASK_QUEUE);
    assert_int_equal(rig.queue_counts[TASK_WAITING], 0); /* success removes */
    rig_close(&rig);
}

static void prepare_slow(struct rig *self)
{
    self->settings.rate_per_second = 2;
    self->settings.rate_burst = 1;
}

static void a_run_by_hand_of_a_paused_queue_keeps_to_the_rate(void **state) /* D4.1 */
{
    (void)state;
    open_with("articles", prepare_slow);
    status_now = 200;
    rig_ask(&rig, ASK_QUEUE_PAUSE);
    for (int i = 0; i < 6; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
    rig_ask(&rig, ASK_QUEUE_RUN);
    rig_wait(&rig, 3100); /* and does not wait for anything else to happen */
    assert_int_equal(rig.sent_count, 6);
    for (int i = 1; i < 6; i++) {
        assert_in_range(rig.sent_at_ms[i] - rig.sent_at_ms[i - 1], 500, 502);
    }
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_length_of_a_queue_is_told_at_start_and_with_each_run),
        cmocka_unit_test(retries_that_were_due_together_are_told_as_a_run),
        cmocka_unit_test(a_run_that_needs_many_turns_is_one_run),
        cmocka_unit_test(a_run_ends_although_new_tasks_keep_coming),
        cmocka_unit_test(a_retry_and_a_permanent_failure_are_told_with_their_fields),
        cmocka_unit_test(a_queue_that_becomes_empty_is_told),
        cmocka_unit_test(a_queue_that_is_often_empty_is_told_once_a_minute),
        cmocka_unit_test(a_storm_of_failures_is_a_few_lines_and_their_count),
        cmocka_unit_test(what_is_summed_up_is_told_before_the_end),
        cmocka_unit_test(the_last_one_that_is_cancelled_empties_the_queue),
        cmocka_unit_test(a_run_by_hand_takes_all_at_once_and_sets_the_next_time),
        cmocka_unit_test(a_run_by_hand_of_a_paused_queue_keeps_to_the_rate),
    };
    return HARNESS_RUN(argc, argv, tests);
}
