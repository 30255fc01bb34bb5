/* SPDX-License-Identifier: MIT
 *
 * test_engine_hosts -- one queue, many hosts: those that do not answer are nothing to the others, and
 * what waits for them waits untouched.
 */
#include "engine_rig.h"
#include "harness.h"

#include <stdio.h>

#define PLACES    64
#define HOST_MAX  32
#define FAR_MS    1000000
#define DEAD_URL  "http://dead.example/"
#define TASKS_MAX 4000

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
                       .sends_max = TASKS_MAX,
                       .backlog_max = 100000};
    rig_open(&rig, "default");
}

static struct task_id submit(const char *url, const char *body)
{
    rig_submit_as(&rig, &(struct submission){.target = span_of(url), .body = span_of(body)});
    rig_settle(&rig);
    return rig.id;
}

static void submit_dead(int tasks)
{
    for (int i = 0; i < tasks; i++) {
        (void)submit(DEAD_URL, "x");
    }
}

static const char *url_of(const char *name, int number)
{
    static char url[64];

    (void)snprintf(url, sizeof url, "http://%s%d.example/", name, number); /* fits */
    return url;
}

static size_t flights_to(const char *url)
{
    size_t count = 0;

    for (size_t i = 0; i < rig.flight_count; i++) {
        count += span_is(rig.flights[i]->url, url);
    }
    return count;
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

static void a_silent_host_does_not_stop_the_others(void **state)
{
    (void)state;
    open_hosts();
    submit_dead(500);
    for (int i = 0; i < 600; i++) {
        (void)submit(url_of("good", i % 200), "x");
    }
    assert_int_equal(answer_all("good", 200), 600);
    assert_int_equal(flights_to(DEAD_URL), HOST_MAX);
    rig_close(&rig);
}

static void several_silent_hosts_do_not_stop_the_others(void **state)
{
    (void)state;
    open_hosts();
    for (int i = 0; i < 400; i++) {
        (void)submit(url_of("dead", i / 40), "x");
    }
    for (int i = 0; i < 600; i++) {
        (void)submit(url_of("good", i % 200), "x");
    }
    assert_int_equal(answer_all("good", 200), 600);
    assert_true(rig.flight_count <= PLACES);
    rig_close(&rig);
}

/* More dead hosts than places, and all of them have failed before. */
static void retries_at_dead_hosts_leave_half_of_the_places(void **state)
{
    (void)state;
    open_hosts();
    for (int i = 0; i < 200; i++) {
        (void)submit(url_of("dead", i), "x");
    }
    for (int round = 0; round < 200; round++) {
        (void)rig_answer_at(&rig, url_of("dead", round), 0);
    }
    rig_wait(&rig, 120000); /* they are due again, and hang */
    for (int i = 0; i < 600; i++) {
        (void)submit(url_of("good", i % 200), "x");
    }
    assert_int_equal(answer_all("good", 200), 600);
    assert_true(rig.flight_count >= PLACES / 2);
    rig_close(&rig);
}

static void what_waits_for_a_host_goes_in_order_when_it_answers(void **state)
{
    char body[16];
    int next = 0;

    (void)state;
    open_hosts();
    for (int i = 0; i < 300; i++) {
        (void)snprintf(body, sizeof body, "%d", i); /* fits */
        (void)submit(DEAD_URL, body);
        rig_pass(&rig, 1);
    }
    while (rig.flight_count > 0) {
        (void)snprintf(body, sizeof body, "%d", next++); /* fits */
        assert_true(span_is(rig.flights[0]->body, body));
        assert_true(rig_answer_at(&rig, DEAD_URL, 200));
        rig_pass(&rig, 1);
    }
    assert_int_equal(next, 300);
    rig_close(&rig);
}

static void the_backlog_of_a_dead_host_is_walked_once(void **state)
{
    struct task_id ids[500];

    (void)state;
    open_hosts();
    for (int i = 0; i < 500; i++) {
        ids[i] = submit(DEAD_URL, "x");
    }
    rig_restart(&rig); /* nothing is known of any host */
    rig_pass(&rig, 1);
    for (int i = 0; i < 600; i++) {
        (void)submit(url_of("good", i % 200), "x");
    }
    assert_int_equal(answer_all("good", 200), 600);
    rig_wait(&rig, 10000);
    for (int i = 200; i < 500; i++) { /* those before were leased, or are so again */
        struct life life = rig_life(&rig, ids[i]);
        assert_int_equal(life.state, TASK_WAITING);
        assert_int_equal(life.attempts, 0);
        assert_true(life.fence <= 2);
    }
    rig_close(&rig);
}

static void what_waits_for_a_host_can_be_cancelled(void **state)
{
    (void)state;
    open_hosts();
    submit_dead(200);
    struct task_id last = rig.id;
    const struct rig_reply *reply =
        rig_full_ask(&rig, &(struct ask){.kind = ASK_CANCEL, .id = last, .exchange = 7});
    assert_int_equal(reply->kind, REPLY_TASK);
    assert_int_equal(rig_life(&rig, last).state, TASK_CANCELLED);
    assert_string_equal(rig_trail(&rig, last), "");
    int answered = 0;
    while (rig_answer_at(&rig, DEAD_URL, 200)) {
        answered++;
    }
    assert_int_equal(answered, 199);
    rig_close(&rig);
}

static void what_a_person_wants_run_goes_when_its_host_has_a_place(void **state)
{
    (void)state;
    open_hosts();
    submit_dead(200);
    struct task_id last = rig.id;
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_QUEUE_PAUSE, .exchange = 6});
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_RUN, .id = last, .exchange = 7});
    rig_pass(&rig, 1);
    for (int i = 0; i < HOST_MAX; i++) {
        assert_true(rig_answer_at(&rig, DEAD_URL, 200));
    }
    rig_pass(&rig, 1);
    assert_int_equal(rig_life(&rig, last).state, TASK_RUNNING);
    assert_int_equal(rig.flight_count, 1); /* the queue is paused for the others */
    rig_close(&rig);
}

static void a_host_that_is_full_costs_no_rate(void **state)
{
    (void)state;
    open_hosts();
    rig.settings.rate_per_second = 100;
    rig.settings.rate_burst = 100;
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    for (int i = 0; i < 200; i++) {
        rig_submit_as(&rig, &(struct submission){
                                .queue = SPAN("r"), .target = SPAN(DEAD_URL), .body = SPAN("x")});
    }
    rig_wait(&rig, 10000);
    for (int i = 0; i < 60; i++) {
        rig_submit_as(&rig, &(struct submission){.queue = SPAN("r"),
                                                 .target = span_of(url_of("good", i)),
                                                 .body = SPAN("x")});
    }
    rig_settle(&rig);
    int64_t before_ms = rig.now_ms;
    assert_int_equal(answer_all("good", 60), 60);
    assert_true(rig.now_ms - before_ms < 100);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_host_does_not_stop_the_others),
        cmocka_unit_test(several_silent_hosts_do_not_stop_the_others),
        cmocka_unit_test(retries_at_dead_hosts_leave_half_of_the_places),
        cmocka_unit_test(what_waits_for_a_host_goes_in_order_when_it_answers),
        cmocka_unit_test(the_backlog_of_a_dead_host_is_walked_once),
        cmocka_unit_test(what_waits_for_a_host_can_be_cancelled),
        cmocka_unit_test(what_a_person_wants_run_goes_when_its_host_has_a_place),
        cmocka_unit_test(a_host_that_is_full_costs_no_rate),
    };
    return HARNESS_RUN(argc, argv, tests);
}
