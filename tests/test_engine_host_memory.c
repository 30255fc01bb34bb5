/* SPDX-License-Identifier: MIT
 *
 * test_engine_host_memory -- hosts that gave no answer lately: new tasks for them leave places to others,
 * though nothing is under way at them and nothing waits.
 */
#include "engine/hosts_internal.h"
#include "engine_rig.h"
#include "harness.h"

#include <stdio.h>

#define PLACES   64
#define HOST_MAX 32
#define FAR_MS   1000000
#define CROWD    100000 /* of dead hosts */

static struct rig rig;

static void prepare(struct rig *self)
{
    self->settings.concurrency = PLACES;
    self->settings.host_concurrency = HOST_MAX;
}

/* Nothing is answered by itself. */
static void open_hosts(void)
{
    rig = (struct rig){.keep_ms = 1000000,
                       .prepare = prepare,
                       .latency_ms = FAR_MS,
                       .sends_max = 4000,
                       .backlog_max = 100000};
    rig_open(&rig, "default");
}

static struct task_id submit(const char *url, const char *body)
{
    rig_submit_as(&rig, &(struct submission){.target = span_of(url), .body = span_of(body)});
    rig_settle(&rig);
    return rig.id;
}

static const char *url_of(const char *name, int number)
{
    static char url[64];

    (void)snprintf(url, sizeof url, "http://%s%d.example/", name, number); /* fits */
    return url;
}

/* The hosts of that name answer whatever they get, at once; how many times. */
static int answer_all(const char *name, int hosts)
{
    int answered = 0, before = -1;

    while (answered > before) {
        before = answered;
        for (int i = 0; i < hosts; i++) {
            while (rig_answer_at(&rig, url_of(name, i), 200)) {
                answered++;
            }
        }
        rig_pass(&rig, 1);
    }
    return answered;
}

/* One task each, which fails and is gone: nothing is under way at these hosts, and nothing waits. */
static void let_hosts_fail(const char *name, int hosts)
{
    for (int i = 0; i < hosts; i++) {
        struct task_id id = submit(url_of(name, i), "x");
        assert_true(rig_answer_at(&rig, url_of(name, i), 0));
        rig_settle(&rig);
        (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_CANCEL, .id = id, .exchange = 7});
        assert_int_equal(rig_life(&rig, id).state, TASK_CANCELLED);
    }
}

static void submit_to_each(const char *name, int hosts)
{
    for (int i = 0; i < hosts; i++) {
        (void)submit(url_of(name, i), "x");
    }
}

/* More dead hosts than places, each with one new task. */
static void new_tasks_for_hosts_that_failed_lately_leave_half_of_the_places(void **state)
{
    (void)state;
    open_hosts();
    let_hosts_fail("dead", 200);
    rig_wait(&rig, 60000);
    submit_to_each("dead", 200);
    assert_int_equal(rig.flight_count, PLACES / 2);
    for (int i = 0; i < 600; i++) {
        (void)submit(url_of("good", i % 200), "x");
    }
    assert_int_equal(answer_all("good", 200), 600);
    assert_int_equal(answer_all("dead", 200), 200); /* they are back: all of it goes */
    rig_close(&rig);
}

/* Half of the places hang, for a day perhaps; a host that failed once waits behind them, and is well again. */
static void a_host_that_is_well_again_does_not_wait_for_those_that_hang(void **state)
{
    (void)state;
    open_hosts();
    let_hosts_fail("dead", 100);
    let_hosts_fail("back", 1);
    submit_to_each("dead", 40);
    assert_int_equal(rig.flight_count, PLACES / 2);
    submit_to_each("back", 1);
    submit_to_each("back", 1);
    assert_false(rig_answer_at(&rig, url_of("back", 0), 200)); /* held */
    for (int i = 0; i < 20 && !rig_answer_at(&rig, url_of("back", 0), 200); i++) {
        rig_wait(&rig, 1000);
    }
    rig_pass(&rig, 1);
    assert_true(rig_answer_at(&rig, url_of("back", 0), 200)); /* it is as any other */
    rig_wait(&rig, 60000);
    assert_in_range(rig.flight_count, PLACES / 2, PLACES / 2 + PLACES / 4);
    rig_close(&rig);
}

/* A host that answers too late for one task's own wish may answer the others in time. */
static void a_time_out_that_a_task_wished_for_says_nothing_of_its_host(void **state)
{
    (void)state;
    open_hosts();
    let_hosts_fail("dead", 100);
    submit_to_each("dead", 40);
    rig_submit_as(&rig, &(struct submission){.target = span_of(url_of("good", 0)),
                                             .body = SPAN("x"),
                                             .options = {.timeout_ms = 999}});
    rig_settle(&rig);
    assert_true(rig_answer_at(&rig, url_of("good", 0), 0));
    rig_settle(&rig);
    submit_to_each("good", 1);
    assert_true(rig_answer_at(&rig, url_of("good", 0), 200));
    rig_close(&rig);
}

/* A retry at a host that answered is not one at a silent host. */
static void a_retry_after_an_answer_is_not_held(void **state)
{
    (void)state;
    open_hosts();
    let_hosts_fail("dead", 100);
    submit_to_each("dead", 40);
    submit_to_each("good", 1);
    assert_true(rig_answer_at(&rig, url_of("good", 0), 503));
    int waited = 0;
    while (!rig_answer_at(&rig, url_of("good", 0), 200) && waited < 600) {
        rig_wait(&rig, 100);
        waited++;
    }
    assert_int_equal(rig.sent_count, 100 + PLACES / 2 + 2 + (size_t)waited / 10);
    rig_close(&rig);
}

/* While the queue is paused no look at the next task would find out that it is gone. */
static void what_was_cancelled_while_it_waited_for_its_host_is_not_counted(void **state)
{
    struct task_id ids[100];
    struct queue_view view;

    (void)state;
    open_hosts();
    let_hosts_fail("dead", 100);
    for (int i = 0; i < 100; i++) {
        ids[i] = submit(url_of("dead", i), "x");
    }
    rig_pass(&rig, 500);
    engine_queue_view(rig.engine, 0, &view);
    assert_int_equal(view.host_waiting, 100 - PLACES / 2);
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_QUEUE_PAUSE, .exchange = 7});
    for (int i = 0; i < 100; i++) {
        (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_CANCEL, .id = ids[i], .exchange = 7});
    }
    rig_pass(&rig, 2000);
    engine_queue_view(rig.engine, 0, &view);
    assert_int_equal(view.host_waiting, 0);
    assert_int_equal(view.oldest_due_ms, 0);
    assert_int_equal(view.held & (1u << HOLD_HOST), 0);
    rig_close(&rig);
}

/* It is not leased in vain, either: that would be two commits. */
static void a_new_task_for_a_host_that_is_held_is_not_leased(void **state)
{
    (void)state;
    open_hosts();
    let_hosts_fail("dead", 200);
    submit_to_each("dead", 200);
    assert_int_equal(rig_life(&rig, rig.id).state, TASK_WAITING);
    assert_int_equal(rig_life(&rig, rig.id).fence, 0);
    rig_close(&rig);
}

static void hosts_that_failed_long_ago_are_as_any_others(void **state)
{
    (void)state;
    open_hosts();
    let_hosts_fail("dead", 100);
    rig_wait(&rig, HOST_MEMORY_MS);
    submit_to_each("dead", 100);
    assert_int_equal(rig.flight_count, PLACES);
    rig_close(&rig);
}

static void hosts_that_have_answered_since_are_as_any_others(void **state)
{
    (void)state;
    open_hosts();
    let_hosts_fail("back", 100);
    submit_to_each("back", 100);
    assert_int_equal(answer_all("back", 100), 100);
    submit_to_each("back", 100);
    assert_int_equal(rig.flight_count, PLACES);
    rig_close(&rig);
}

static uint32_t held_by(const char *queue)
{
    struct queue_view view = {0};

    for (size_t i = 0; !span_is(view.name, queue); i++) {
        assert_true(i < engine_queue_count(rig.engine));
        engine_queue_view(rig.engine, i, &view);
    }
    return view.held;
}

static void what_waits_for_hosts_unleased_is_said_to_be_held(void **state)
{
    (void)state;
    open_hosts();
    let_hosts_fail("dead", 100);
    assert_int_equal(held_by(RIG_QUEUE), 0);
    submit_to_each("dead", 100);
    assert_int_equal(held_by(RIG_QUEUE), 1u << HOLD_HOST);
    rig_close(&rig);
}

/* Half of these are in the line of their host and have no place: it is the rate that holds the next. */
static void what_waits_for_a_host_is_not_said_to_be_under_way(void **state)
{
    (void)state;
    open_hosts();
    rig.settings.rate_per_second = 1;
    rig.settings.rate_burst = PLACES;
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    for (int i = 0; i <= PLACES; i++) {
        rig_submit_as(&rig, &(struct submission){.queue = SPAN("r"),
                                                 .target = span_of(url_of("dead", i == PLACES)),
                                                 .body = SPAN("x")});
    }
    rig_settle(&rig);
    assert_int_equal(rig.flight_count, HOST_MAX);
    assert_int_equal(held_by("r"), 1u << HOLD_HOST | 1u << HOLD_RATE);
    rig_close(&rig);
}

/* One task each, which the target refuses: a dead letter. */
static void make_letters(const char *name, int hosts)
{
    for (int i = 0; i < hosts; i++) {
        (void)submit(url_of(name, i), "x");
        assert_true(rig_answer_at(&rig, url_of(name, i), 400));
        rig_settle(&rig);
    }
}

/* Redriven tasks of silent hosts have all the places that low ones may have. What is held of them is no
 * reason to pass over a held host that a live task waits for, and no reason to stay awake. */
static void a_bulk_redrive_leaves_live_tasks_of_held_hosts_their_chance(void **state)
{
    (void)state;
    open_hosts();
    make_letters("low", 100);
    let_hosts_fail("low", 100);
    let_hosts_fail("live", 40);
    submit_to_each("live", 32);
    assert_int_equal(rig.flight_count, PLACES / 2);
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_REDRIVE_MANY,
                                           .rate_per_second = 1000,
                                           .exchange = 9,
                                           .who = SPAN("ann")});
    rig_wait(&rig, 500);
    for (int i = 0; i < 32; i++) { /* they end: redriven ones take their places */
        (void)rig_answer_at(&rig, url_of("live", i), 400);
    }
    rig_wait(&rig, 3000);
    assert_true(rig.flight_count >= PLACES / 2);
    assert_true(engine_next_tick_ms(rig.engine) > 0);
    (void)submit(url_of("live", 39), "x");
    bool is_sent = false;
    for (int i = 0; i < 3 && !is_sent; i++) {
        rig_wait(&rig, 1000);
        is_sent = rig_answer_at(&rig, url_of("live", 39), 200);
    }
    assert_true(is_sent);
    rig_close(&rig);
}

static void prepare_one_place(struct rig *self)
{
    prepare(self);
    self->settings.host_concurrency = 1;
}

/* A crash counts an attempt for all that is leased: so few wait leased for their host, though their queue has
 * places, and a crash costs the others nothing. */
static void what_a_crash_costs_is_bounded_by_the_places_at_the_host(void **state)
{
    uint32_t counted = 0;

    (void)state;
    rig = (struct rig){.keep_ms = 1000000,
                       .prepare = prepare_one_place,
                       .latency_ms = FAR_MS,
                       .sends_max = 4000,
                       .backlog_max = 100000};
    rig_open(&rig, "default");
    struct task_id ids[PLACES];
    for (int i = 0; i < PLACES; i++) {
        ids[i] = submit("http://slow.example/", "x");
    }
    assert_int_equal(rig.flight_count, 1);
    rig_restart(&rig);
    for (int i = 0; i < PLACES; i++) {
        counted += rig_life(&rig, ids[i]).attempts;
    }
    assert_in_range(counted, 1, 2);
    rig_close(&rig);
}

/* Of more than are remembered the latest are. */
static void a_crowd_of_dead_hosts_takes_bounded_memory(void **state)
{
    size_t remembered = 0;

    (void)state;
    open_hosts();
    for (uint64_t i = 1; i <= CROWD; i++) {
        host_memory_note(rig.engine, &(struct host){.hash = i}, HOST_FAILED);
        assert_int_equal(host_memory_of(rig.engine, i), HOST_FAILED);
        rig_pass(&rig, i % 100 == 0);
    }
    for (uint64_t i = 1; i <= CROWD; i++) {
        remembered += host_memory_of(rig.engine, i) == HOST_FAILED;
    }
    assert_in_range(remembered, HOST_MEMORY_MAX / 2, HOST_MEMORY_MAX);
    for (uint64_t i = CROWD - 500; i <= CROWD; i++) {
        assert_int_equal(host_memory_of(rig.engine, i), HOST_FAILED);
    }
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_tasks_for_hosts_that_failed_lately_leave_half_of_the_places),
        cmocka_unit_test(a_host_that_is_well_again_does_not_wait_for_those_that_hang),
        cmocka_unit_test(a_time_out_that_a_task_wished_for_says_nothing_of_its_host),
        cmocka_unit_test(a_retry_after_an_answer_is_not_held),
        cmocka_unit_test(what_was_cancelled_while_it_waited_for_its_host_is_not_counted),
        cmocka_unit_test(a_new_task_for_a_host_that_is_held_is_not_leased),
        cmocka_unit_test(hosts_that_failed_long_ago_are_as_any_others),
        cmocka_unit_test(hosts_that_have_answered_since_are_as_any_others),
        cmocka_unit_test(what_waits_for_hosts_unleased_is_said_to_be_held),
        cmocka_unit_test(what_waits_for_a_host_is_not_said_to_be_under_way),
        cmocka_unit_test(a_bulk_redrive_leaves_live_tasks_of_held_hosts_their_chance),
        cmocka_unit_test(what_a_crash_costs_is_bounded_by_the_places_at_the_host),
        cmocka_unit_test(a_crowd_of_dead_hosts_takes_bounded_memory),
    };

    return HARNESS_RUN(argc, argv, tests);
}
