/* SPDX-License-Identifier: MIT
 *
 * test_engine_places -- all queues together send no more than they may, in turn; and what this machine
 * lacks costs no task an attempt.
 */
#include "engine_rig.h"
#include "harness.h"

#include <stdio.h>

#define FAR_MS 1000000
#define QUEUES 20
#define MOST   80

static struct rig rig;

static void prepare(struct rig *self)
{
    self->settings.concurrency = 16;
    self->settings.host_concurrency = 0;
}

static const char *queue_name(int number)
{
    static char name[16];

    (void)snprintf(name, sizeof name, "m%d", number); /* fits */
    return name;
}

/* Queues and a target that answers nothing by itself. */
static void open_places(uint32_t attempts_max, size_t files_max)
{
    rig = (struct rig){.keep_ms = 1000000,
                       .prepare = prepare,
                       .latency_ms = FAR_MS,
                       .sends_max = 4000,
                       .attempts_max = attempts_max,
                       .files_max = files_max,
                       .backlog_max = 100000};
    rig_open(&rig, "default");
    for (int i = 0; i < QUEUES; i++) {
        engine_ask(rig.engine, &(struct ask){.kind = ASK_QUEUE_PUT,
                                             .exchange = 3,
                                             .queue = span_of(queue_name(i)),
                                             .settings = SPAN("{}")});
        rig_settle(&rig);
        assert_int_equal(rig.reply_kind, REPLY_QUEUE);
    }
}

static void fill(int queue, int tasks)
{
    for (int i = 0; i < tasks; i++) {
        rig_submit_to(&rig, queue_name(queue));
    }
}

static uint64_t succeeded(int queue)
{
    rig.queue = span_of(queue_name(queue));
    rig_ask(&rig, ASK_QUEUE);
    return rig.queue_counts[TASK_SUCCEEDED];
}

static void all_queues_together_send_no_more_than_they_may(void **state)
{
    (void)state;
    open_places(MOST, 0);
    for (int i = 0; i < QUEUES; i++) {
        fill(i, 30);
    }
    while (rig.flight_count > 0) {
        rig_answer_one(&rig, 200);
    }
    assert_true(rig.flight_most <= MOST);
    for (int i = 0; i < QUEUES; i++) {
        assert_int_equal(succeeded(i), 30);
    }
    rig_close(&rig);
}

static void queues_take_turns_when_places_are_few(void **state)
{
    (void)state;
    open_places(MOST, 0);
    for (int i = 0; i < QUEUES; i++) {
        fill(i, 200);
    }
    for (int i = 0; i < QUEUES * 40; i++) { /* a fifth of all, the earliest first */
        assert_true(rig_answer_at(&rig, rig.last_url, 200));
    }
    for (int i = 0; i < QUEUES; i++) {
        assert_in_range(succeeded(i), 20, 80); /* 40 each, but for the head start */
    }
    rig_close(&rig);
}

/* Half of the queues have targets that hang. */
static void queues_that_hang_leave_room_for_the_others(void **state)
{
    (void)state;
    open_places(MOST, 0);
    for (int i = 0; i < QUEUES / 2; i++) {
        fill(i, 100);
    }
    size_t hung = rig.flight_count;
    assert_true(hung < MOST);
    for (int i = QUEUES / 2; i < QUEUES; i++) {
        fill(i, 5);
        while (rig.flight_count > hung) { /* the latest ones are of this queue */
            rig_answer_one(&rig, 200);
        }
        assert_int_equal(succeeded(i), 5);
    }
    rig_close(&rig);
}

static uint32_t held_by(int queue)
{
    struct queue_view view;

    engine_queue_view(rig.engine, (size_t)queue + 1, &view); /* behind the rig's own */
    return view.held;
}

static void a_queue_that_waits_for_a_place_among_all_queues_says_so(void **state)
{
    (void)state;
    open_places(8, 0);
    fill(0, 6); /* three quarters */
    assert_int_equal(held_by(0), 0);
    fill(0, 1);
    assert_int_equal(rig.flight_count, 6);
    assert_int_equal(held_by(0), 1u << HOLD_ATTEMPTS);
    assert_int_equal(held_by(1), 0);
    assert_true(rig_answer_at(&rig, rig.last_url, 200));
    rig_wait(&rig, 10);
    assert_int_equal(held_by(0), 0);
    rig_close(&rig);
}

static void a_queue_that_hangs_alone_leaves_room_for_another(void **state)
{
    (void)state;
    open_places(8, 0);
    fill(0, 100);
    rig_wait(&rig, 10);
    assert_int_equal(rig.flight_count, 6);
    fill(1, 1);
    assert_int_equal(rig.flight_count, 7);
    rig_close(&rig);
}

#define PLENTY 192 /* of 256; a few of these are gathered before they are given away */

/* Sent, or leased and waiting for a turn of its queue. */
static uint64_t under_way(void)
{
    struct engine_stats stats;

    engine_stats(rig.engine, &stats);
    return stats.in_flight;
}

static void open_crowded(void)
{
    open_places(256, 0);
    for (int i = 0; i < QUEUES; i++) {
        fill(i, 200);
    }
    rig_wait(&rig, 10);
    assert_true(under_way() >= PLENTY);
}

static void answer_earliest(void)
{
    assert_true(rig_answer_at(&rig, rig.last_url, 200));
}

static void a_free_place_is_given_away_by_the_next_tick(void **state)
{
    (void)state;
    open_crowded();
    for (int i = 0; i < 400; i++) {
        answer_earliest();
        assert_true(under_way() >= PLENTY || engine_next_tick_ms(rig.engine) <= 1);
        rig_wait(&rig, 2);
        assert_true(under_way() >= PLENTY);
    }
    while (rig.flight_count > 0) {
        answer_earliest();
        rig_wait(&rig, rig.flight_count == 0 ? 2 : 0);
    }
    for (int i = 0; i < QUEUES; i++) {
        assert_int_equal(succeeded(i), 200);
    }
    rig_close(&rig);
}

static uint64_t leased(int queue)
{
    rig.queue = span_of(queue_name(queue));
    rig_ask(&rig, ASK_QUEUE);
    return rig.queue_counts[TASK_RUNNING] + rig.queue_counts[TASK_SUCCEEDED];
}

static void places_that_are_free_together_go_to_few_queues(void **state)
{
    uint64_t before[QUEUES], count = 0;
    int queues = 0;

    (void)state;
    open_crowded();
    for (int i = 0; i < 50; i++) {
        answer_earliest();
        rig_wait(&rig, 2);
    }
    for (int i = 0; i < QUEUES; i++) {
        before[i] = leased(i);
    }
    for (int i = 0; i < 32; i++) {
        answer_earliest();
        assert_true(under_way() > PLENTY - 10); /* they are not left free for long */
    }
    rig_wait(&rig, 2);
    for (int i = 0; i < QUEUES; i++) {
        uint64_t more = leased(i) - before[i];
        queues += more > 0;
        count += more;
    }
    assert_in_range(count, 24, 40);
    assert_in_range(queues, 1, 10); /* each given away by itself: all of them */
    rig_close(&rig);
}

static void what_cannot_begin_here_keeps_its_attempts(void **state)
{
    (void)state;
    open_places(0, 4);
    fill(0, 10);
    struct task_id last = rig.id;
    assert_int_equal(rig.flight_count, 4);
    assert_int_equal(rig_life(&rig, last).state, TASK_WAITING);
    assert_int_equal(rig_life(&rig, last).attempts, 0);
    assert_string_equal(rig_trail(&rig, last), "");
    for (int i = 0; i < 30; i++) {
        rig_wait(&rig, 500);
        while (rig.flight_count > 0) {
            rig_answer_one(&rig, 200);
        }
    }
    assert_int_equal(succeeded(0), 10);
    assert_int_equal(rig_life(&rig, last).attempts, 1);
    assert_non_null(strstr(rig.log_text, "sending_short"));
    rig_close(&rig);
}

static void sending_rests_while_there_is_no_room(void **state)
{
    struct engine_stats before, after;

    (void)state;
    open_places(MOST, 4);
    fill(0, 16);
    engine_stats(rig.engine, &before);
    rig_wait(&rig, 60000);
    engine_stats(rig.engine, &after);
    assert_true(after.short_attempts - before.short_attempts < 200);
    assert_int_equal(rig.flight_count, 4);
    const char *told = strstr(rig.log_text, "sending_short");
    assert_non_null(told);
    rig_close(&rig);
}

/* Too many names are looked up. */
static struct rig_answer no_name(struct rig *self, uint32_t number)
{
    struct delivery *delivery = self->flights[self->flight_count - 1];

    (void)number;
    delivery->is_uncounted = delivery->is_short = delivery->is_unnamed = true;
    self->answer = NULL;
    return (struct rig_answer){.sent = TASK_SENT_NO, .hint_ms = 1000};
}

/* The file of its target's `ca` cannot be read. */
static struct rig_answer no_authority(struct rig *self, uint32_t number)
{
    struct delivery *delivery = self->flights[self->flight_count - 1];

    (void)number;
    delivery->is_uncounted = delivery->is_short = delivery->is_unvouched = true;
    self->answer = NULL;
    return (struct rig_answer){.sent = TASK_SENT_NO, .hint_ms = 1000};
}

static void what_nobody_vouches_for_is_due_later_and_holds_up_no_other(void **state)
{
    struct engine_stats stats;

    (void)state;
    open_places(MOST, 0);
    rig.latency_ms = 0;
    rig.answer = no_authority;
    fill(0, 1);
    rig_settle(&rig);
    struct task_id unvouched = rig.id;
    assert_int_equal(rig.flight_count, 0);
    assert_int_equal(rig_life(&rig, unvouched).state, TASK_WAITING);
    assert_int_equal(rig_life(&rig, unvouched).attempts, 0);
    fill(1, 20);
    assert_int_equal(rig.flight_count, 16); /* sending does not rest */
    while (rig.flight_count > 0) {
        rig_answer_one(&rig, 200);
    }
    rig_wait(&rig, 900);
    assert_int_equal(rig.flight_count, 0);
    rig_wait(&rig, 200);
    assert_int_equal(rig.flight_count, 1);
    rig_answer_one(&rig, 200);
    assert_int_equal(rig_life(&rig, unvouched).attempts, 1);
    engine_stats(rig.engine, &stats);
    assert_int_equal(stats.short_attempts, 1);
    assert_int_equal(stats.unnamed_attempts, 0);
    assert_non_null(strstr(rig.log_text, "sending_short"));
    rig_close(&rig);
}

static void what_finds_no_look_up_is_due_later_and_holds_up_no_other(void **state)
{
    struct engine_stats stats;

    (void)state;
    open_places(MOST, 0);
    rig.latency_ms = 0;
    rig.answer = no_name;
    fill(0, 1);
    rig_settle(&rig);
    struct task_id unnamed = rig.id;
    assert_int_equal(rig.flight_count, 0);
    assert_int_equal(rig_life(&rig, unnamed).state, TASK_WAITING);
    assert_int_equal(rig_life(&rig, unnamed).attempts, 0);
    assert_string_equal(rig_trail(&rig, unnamed), "");
    fill(1, 20);
    assert_int_equal(rig.flight_count, 16); /* sending does not rest */
    while (rig.flight_count > 0) {
        rig_answer_one(&rig, 200);
    }
    rig_wait(&rig, 900);
    assert_int_equal(rig.flight_count, 0);
    rig_wait(&rig, 200);
    assert_int_equal(rig.flight_count, 1);
    rig_answer_one(&rig, 200);
    assert_int_equal(rig_life(&rig, unnamed).attempts, 1);
    engine_stats(rig.engine, &stats);
    assert_int_equal(stats.short_attempts, 1);
    assert_int_equal(stats.unnamed_attempts, 1);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_queues_together_send_no_more_than_they_may),
        cmocka_unit_test(queues_take_turns_when_places_are_few),
        cmocka_unit_test(queues_that_hang_leave_room_for_the_others),
        cmocka_unit_test(a_queue_that_waits_for_a_place_among_all_queues_says_so),
        cmocka_unit_test(a_queue_that_hangs_alone_leaves_room_for_another),
        cmocka_unit_test(a_free_place_is_given_away_by_the_next_tick),
        cmocka_unit_test(places_that_are_free_together_go_to_few_queues),
        cmocka_unit_test(what_cannot_begin_here_keeps_its_attempts),
        cmocka_unit_test(sending_rests_while_there_is_no_room),
        cmocka_unit_test(what_nobody_vouches_for_is_due_later_and_holds_up_no_other),
        cmocka_unit_test(what_finds_no_look_up_is_due_later_and_holds_up_no_other),
    };
    return HARNESS_RUN(argc, argv, tests);
}
