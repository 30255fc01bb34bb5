/* SPDX-License-Identifier: MIT
 *
 * test_engine_hosts -- one queue, many hosts: those that do not answer are nothing to the others, and
 * what waits for them waits untouched.
 */
#include "engine/engine_internal.h"
#include "engine_rig.h"
#include "harness.h"

#include <malloc.h>
#include <stdio.h>

#define PLACES    64
#define HOST_MAX  32
#define FAR_MS    1000000
#define DEAD_URL  "http://dead.example/"
#define NEW_URL   "http://new.example/"
#define TASKS_MAX 6000
#define CROWD     3500 /* of dead hosts */

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

static void several_targets(struct rig *self)
{
    prepare(self);
    self->settings.host_concurrency = 2;
    self->settings.target_count = 3;
    for (int i = 0; i < 3; i++) {
        self->settings.targets[i] = self->settings.targets[0];
    }
    self->settings.targets[0].url = SPAN("http://one.example/");
    self->settings.targets[1].url = SPAN("http://two.example/");
    self->settings.targets[2].url = SPAN("http://three.example/");
}

/* What waits for its host has not been begun: it goes to the target that it was for. */
static void a_queue_with_several_targets_goes_on(void **state)
{
    int answered = 0;

    (void)state;
    rig = (struct rig){.keep_ms = 1000000,
                       .prepare = several_targets,
                       .latency_ms = FAR_MS,
                       .sends_max = TASKS_MAX};
    rig_open(&rig, "default");
    for (int i = 0; i < 300; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
    rig_settle(&rig);
    while (rig.flight_count > 0) {
        rig_answer_one(&rig, 200);
        rig_pass(&rig, 1);
        answered++;
    }
    assert_int_equal(answered, 300);
    assert_int_equal(rig_life(&rig, rig.id).attempts_all, 1);
    rig_close(&rig);
}

/* Each host that is let in has a place of the silent ones: one whose task is gone gives it to the next. */
static void held_hosts_go_on_though_the_first_have_nothing_left(void **state)
{
    struct task_id ids[200];
    int left = 0;

    (void)state;
    open_hosts();
    for (int i = 0; i < 200; i++) {
        ids[i] = submit(url_of("dead", i), "x");
    }
    for (int i = 0; i < 200; i++) {
        (void)rig_answer_at(&rig, url_of("dead", i), 0);
    }
    rig_wait(&rig,
             120000); /* they are due again, half of the places are taken, the others are held */
    for (int i = 199; i >= 0; i--) {
        bool is_held = rig_life(&rig, ids[i]).state == TASK_WAITING;
        left += is_held;
        if (is_held && left > 5) {
            (void)rig_full_ask(&rig,
                               &(struct ask){.kind = ASK_CANCEL, .id = ids[i], .exchange = 7});
        }
    }
    assert_true(left > 2 * PLACES);
    (void)answer_all("dead", 200);
    for (int i = 0; i < 200; i++) {
        assert_int_not_equal(rig_life(&rig, ids[i]).state, TASK_WAITING);
    }
    rig_close(&rig);
}

#define LINED_UP 40 /* behind those that are under way, before those that are parked */

static struct task_id open_with_a_line(void)
{
    struct task_id id = {0};

    open_hosts();
    for (int i = 0; i < 200; i++) {
        struct task_id next = submit(DEAD_URL, "x");
        id = i == LINED_UP ? next : id;
    }
    assert_int_equal(rig_life(&rig, id).state, TASK_RUNNING);
    return id;
}

static void assert_untouched(struct task_id id)
{
    struct life life = rig_life(&rig, id);

    assert_int_equal(life.state, TASK_WAITING);
    assert_int_equal(life.attempts, 0);
    assert_int_equal(life.attempts_all, 0);
    assert_string_equal(rig_trail(&rig, id), "");
}

static void what_waits_for_a_host_goes_back_when_its_queue_is_paused(void **state)
{
    (void)state;
    struct task_id id = open_with_a_line();
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_QUEUE_PAUSE, .exchange = 6});
    rig_settle(&rig);
    assert_untouched(id);
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_QUEUE_RESUME, .exchange = 6});
    rig_settle(&rig);
    int answered = 0;
    while (rig_answer_at(&rig, DEAD_URL, 200)) {
        answered++;
    }
    assert_int_equal(answered, 200);
    rig_close(&rig);
}

static void what_waits_for_a_host_goes_back_when_the_server_stops(void **state)
{
    (void)state;
    struct task_id id = open_with_a_line();
    engine_drain(rig.engine);
    rig_settle(&rig);
    assert_untouched(id);
    int answered = 0;
    while (rig_answer_at(&rig, DEAD_URL, 200)) {
        answered++;
    }
    assert_int_equal(answered, HOST_MAX); /* and nothing new is begun */
    assert_true(engine_is_drained(rig.engine));
    rig_close(&rig);
}

/* The old target never answers. */
static void what_waits_for_a_host_goes_to_the_new_target_of_its_queue(void **state)
{
    int tasks = 5000; /* more than leave their host in one go */
    int answered = 0;

    (void)state;
    open_hosts();
    rig.settings.targets[0].url = SPAN(DEAD_URL);
    assert_int_equal(rig_change(&rig), REPLY_QUEUE); /* makes r */
    for (int i = 0; i < tasks; i++) {
        rig_submit_to(&rig, "r");
        rig_settle(&rig);
    }
    assert_int_equal(rig.flight_count, HOST_MAX);
    rig.settings.targets[0].url = SPAN(NEW_URL);
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    rig_settle(&rig);
    while (rig_answer_at(&rig, NEW_URL, 200)) {
        answered++;
        rig_pass(&rig, 1);
    }
    assert_int_equal(answered, tasks - HOST_MAX);
    assert_int_equal(flights_to(DEAD_URL), HOST_MAX); /* those that were sent */
    assert_int_equal(rig.sent_count, tasks);
    rig_close(&rig);
}

static void prepare_few(struct rig *self)
{
    self->settings.concurrency = 4;
    self->settings.host_concurrency = 2;
}

static void send_to(const char *url)
{
    rig_submit_as(
        &rig, &(struct submission){.queue = SPAN("r"), .target = span_of(url), .body = SPAN("x")});
    rig_settle(&rig);
}

/* It has its place at the host and waits for a turn of its queue when the host's limit falls. */
static void a_host_s_limit_that_falls_holds_for_what_waits_for_its_turn(void **state)
{
    static const char *const urls[] = {"http://a.example/", "http://b.example/",
                                       "http://b.example/", "http://c.example/"};
    (void)state;

    rig = (struct rig){.keep_ms = 1000000, .prepare = prepare_few};
    rig_open(&rig, "default");
    assert_int_equal(rig_change(&rig), REPLY_QUEUE); /* makes r */
    send_to("http://d.example/");
    for (size_t i = 0; i < 4; i++) {
        if (i == 3) { /* answered lately: as many are leased ahead of their turn */
            assert_true(rig_answer_at(&rig, "http://d.example/", 200));
        }
        send_to(urls[i]);
    }
    send_to(urls[0]);
    assert_int_equal(rig_life(&rig, rig.id).state, TASK_RUNNING);
    assert_int_equal(flights_to(urls[0]), 1);
    rig.settings.host_concurrency = 1;
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    assert_true(rig_answer_at(&rig, urls[3], 200));
    assert_int_equal(flights_to(urls[0]), 1);
    assert_true(rig_answer_at(&rig, urls[0], 200));
    assert_int_equal(flights_to(urls[0]), 1); /* now it goes */
    rig_close(&rig);
}

/* After a crash it would be taken for sent. */
static void what_must_not_be_sent_twice_waits_for_a_host_unleased(void **state)
{
    struct task_id ids[200];
    int answered = 0;

    (void)state;
    open_hosts();
    for (int i = 0; i < 200; i++) {
        rig_submit_as(&rig, &(struct submission){.target = SPAN(DEAD_URL),
                                                 .body = SPAN("x"),
                                                 .options = {.has_repeatable = true}});
        rig_settle(&rig);
        ids[i] = rig.id;
    }
    for (int i = 0; i < 200; i++) {
        assert_int_equal(rig_life(&rig, ids[i]).state, i < HOST_MAX ? TASK_RUNNING : TASK_WAITING);
    }
    rig_restart(&rig);
    rig_pass(&rig, 1);
    while (rig_answer_at(&rig, DEAD_URL, 200)) {
        answered++;
        rig_pass(&rig, 1);
    }
    assert_int_equal(answered, 200 - HOST_MAX);
    rig_close(&rig);
}

/* One task for each of many hosts, all of which have failed once and are about to be due again. */
static void submit_to_crowd(void)
{
    for (int i = 0; i < CROWD; i++) {
        (void)submit(url_of("dead", i), "x");
        (void)rig_answer_at(&rig, url_of("dead", i), 0);
    }
    rig_settle(&rig);
}

static struct queue_view view_of_queue(void)
{
    struct queue_view view;

    engine_queue_view(rig.engine, 0, &view);
    return view;
}

static void a_reply_about_a_task_tells_nothing_of_other_tasks(void **state)
{
    (void)state;
    open_hosts();
    submit_dead(200);
    rig_wait(&rig, 10000);
    assert_true(view_of_queue().oldest_due_ms >= 10000);
    (void)submit(url_of("good", 1), "x");
    assert_int_equal(rig.reply_kind, REPLY_CREATED);
    assert_true(span_equal(rig.queue_told.name, view_of_queue().name));
    assert_true(rig.queue_told.attempts_max > 0);
    assert_int_equal(rig.queue_told.oldest_due_ms, 0);
    assert_int_equal(rig.queue_told.counts[TASK_WAITING], 0);
    rig_close(&rig);
}

/* Hosts come to life in an order that is not that of their age. */
static void the_age_of_what_waits_for_hosts_is_that_of_the_oldest(void **state)
{
    enum { HOSTS = 19, STEP = 7 };
    int64_t since_ms[HOSTS];

    (void)state;
    open_hosts();
    submit_dead(HOST_MAX);
    (void)submit(url_of("silent", 0), "x");
    (void)submit(url_of("silent", 0), "x"); /* silent hosts have all that they may have */
    for (int i = 0; i < HOSTS; i++) {
        (void)submit(url_of("slow", i), "goes");
        (void)submit(url_of("slow", i), "waits");
        since_ms[i] = rig.now_ms;
        rig_pass(&rig, 10);
    }
    for (int i = 0; i < HOSTS; i++) {
        int64_t oldest_ms = rig.now_ms;
        for (int host = 0; host < HOSTS; host++) {
            oldest_ms = since_ms[host] < oldest_ms ? since_ms[host] : oldest_ms;
        }
        assert_int_equal(view_of_queue().host_waiting, HOSTS - i);
        assert_int_equal(view_of_queue().oldest_due_ms, rig.now_ms - oldest_ms);
        int host = i * STEP % HOSTS;
        assert_true(rig_answer_at(&rig, url_of("slow", host), 200));
        rig_pass(&rig, 1);
        since_ms[host] = INT64_MAX;
    }
    assert_int_equal(view_of_queue().host_waiting, 0);
    rig_close(&rig);
}

static void a_host_that_a_task_waits_for_takes_little_memory(void **state)
{
    (void)state;
    open_hosts();
    submit_to_crowd();
    size_t before = mallinfo2().uordblks;
    rig_wait(&rig, 120000); /* they are due again, and most have no place */
    size_t after = mallinfo2().uordblks;
    uint64_t parked = view_of_queue().host_waiting;
    assert_true(parked >= CROWD - PLACES);
    assert_true(after <= before || (after - before) / parked < 400); /* ASan counts nothing */
    rig_close(&rig);
}

static void a_deleted_queue_leaves_no_hosts_behind(void **state)
{
    (void)state;
    open_hosts();
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    for (int i = 0; i < 200; i++) {
        rig_submit_as(&rig, &(struct submission){
                                .queue = SPAN("r"), .target = SPAN(DEAD_URL), .body = SPAN("x")});
    }
    rig_settle(&rig);
    assert_int_equal(rig.engine->hosts.host_count, 1);
    const struct rig_reply *reply = rig_full_ask(
        &rig,
        &(struct ask){.kind = ASK_QUEUE_DELETE, .exchange = 7, .queue = SPAN("r"), .force = true});
    assert_int_equal(reply->kind, REPLY_DELETED);
    while (rig_answer_at(&rig, DEAD_URL, 200)) {
    }
    rig_wait(&rig, 10000);
    rig_turn(&rig, 5000, 500);
    assert_int_equal(rig.engine->hosts.host_count, 0);
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
        cmocka_unit_test(a_queue_with_several_targets_goes_on),
        cmocka_unit_test(a_deleted_queue_leaves_no_hosts_behind),
        cmocka_unit_test(held_hosts_go_on_though_the_first_have_nothing_left),
        cmocka_unit_test(what_waits_for_a_host_goes_back_when_its_queue_is_paused),
        cmocka_unit_test(what_waits_for_a_host_goes_back_when_the_server_stops),
        cmocka_unit_test(what_waits_for_a_host_goes_to_the_new_target_of_its_queue),
        cmocka_unit_test(a_host_s_limit_that_falls_holds_for_what_waits_for_its_turn),
        cmocka_unit_test(what_must_not_be_sent_twice_waits_for_a_host_unleased),
        cmocka_unit_test(a_reply_about_a_task_tells_nothing_of_other_tasks),
        cmocka_unit_test(the_age_of_what_waits_for_hosts_is_that_of_the_oldest),
        cmocka_unit_test(a_host_that_a_task_waits_for_takes_little_memory),
    };
    return HARNESS_RUN(argc, argv, tests);
}
