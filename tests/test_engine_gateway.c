/* SPDX-License-Identifier: MIT
 *
 * What callers of the gateway are told where it takes time, or a person, to see it: the engine with a
 * clock and an upstream of our own.
 */
#include "harness.h"

#include "engine_rig.h"

#define FIRST  1
#define SECOND 2
#define PERSON 3
#define POLL   4

static struct rig rig; /* large */
static struct route_settings route;

static struct rig_answer never_sent(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.sent = TASK_SENT_NO};
}

static struct rig_answer lost(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.sent = TASK_SENT_MAYBE};
}

static struct rig_answer slow_down(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 429};
}

static struct rig_answer created(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 201};
}

static void open_route(struct rig_answer (*answer)(struct rig *, uint32_t))
{
    route = (struct route_settings){.name = SPAN("orders"),
                                    .upstream = SPAN("http://127.0.0.1:1"),
                                    .timeout_ms = 10000,
                                    .deadline_ms = 5000,
                                    .concurrency = 8,
                                    .keep_ms = 3600000,
                                    .wait_ms = 1000,
                                    .retry_after_ms = 1000,
                                    .replay = ROUTE_REPLAY_SETTLED,
                                    .release = {{.status = 429}},
                                    .release_count = 1,
                                    .mismatch = 409};
    assert_int_equal(daruma_policy_create(NULL, &route.policy, NULL), 0);
    rig = (struct rig){.answer = answer, .route = &route, .waiters_max = 2};
    rig_open(&rig, "sync");
}

static const struct rig_reply *call_key(uint64_t exchange, struct span key, struct route_wish wish)
{
    struct arena *arena = arena_new(1 << 16);

    engine_submit(rig.engine, &(struct submission){.exchange = exchange,
                                                   .arena = arena,
                                                   .queue = SPAN("_route.orders"),
                                                   .scope = SPAN(""),
                                                   .key = key,
                                                   .method = SPAN("POST"),
                                                   .target = SPAN("http://127.0.0.1:1/orders"),
                                                   .body = arena_copy(arena, SPAN("{}")),
                                                   .route = &route,
                                                   .wish = wish,
                                                   .has_fingerprint = true});
    rig_settle(&rig);
    return &rig.replies[exchange];
}

static const struct rig_reply *call_as(uint64_t exchange, struct route_wish wish)
{
    return call_key(exchange, SPAN("k"), wish);
}

static const struct rig_reply *call(uint64_t exchange)
{
    return call_as(exchange, (struct route_wish){0});
}

/* The one task of the route. */
static struct task_id only_task(void)
{
    return rig_full_ask(&rig, &(struct ask){.kind = ASK_KEYS,
                                            .exchange = PERSON,
                                            .queue = SPAN("_route.orders"),
                                            .key = SPAN("k"),
                                            .filter = {.states = STORE_ALL_STATES, .limit = 10}})
        ->ids[0];
}

/* A caller of the task API waits for a reply of another kind, and one of a batch for his own. */
static void a_route_takes_only_what_came_by_it(void **state)
{
    (void)state;
    open_route(never_sent);
    for (uint32_t index = 0; index < 2; index++) {
        engine_submit(rig.engine, &(struct submission){.exchange = FIRST,
                                                       .index = index,
                                                       .arena = arena_new(1 << 16),
                                                       .queue = SPAN("_route.orders"),
                                                       .key = SPAN("k"),
                                                       .target = SPAN("http://127.0.0.1:1/"),
                                                       .body = SPAN("{}"),
                                                       .delay_ms = index * 1000});
        rig_settle(&rig);
        assert_int_equal(rig.replies[FIRST].count, index + 1);
        assert_int_equal(rig.replies[FIRST].kind, REPLY_UNKNOWN_QUEUE);
    }
    engine_submit(rig.engine, &(struct submission){.exchange = SECOND,
                                                   .arena = arena_new(1 << 16),
                                                   .queue = SPAN(RIG_QUEUE),
                                                   .body = SPAN("{}"),
                                                   .route = &route});
    rig_settle(&rig);
    assert_int_equal(rig.replies[SECOND].kind, REPLY_UNKNOWN_QUEUE);
    rig_close(&rig);
}

static void what_was_not_sent_in_time_is_a_504(void **state)
{
    (void)state;
    open_route(never_sent);
    rig.latency_ms = 6000; /* beyond the deadline */
    (void)call(FIRST);
    for (int i = 0; i < 8 && rig.replies[FIRST].count == 0; i++) {
        rig_pass(&rig, 1000);
    }
    assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_UNKEPT);
    assert_int_equal(rig.replies[FIRST].status, 504);
    rig_close(&rig);
}

/* Clients take a 202 that they did not ask for as the created object. */
static void only_a_caller_who_asks_is_told_202_of_a_doubt(void **state)
{
    static const struct {
        enum route_way way, then;
        bool is_async, is_told_202;
    } cases[] = {
        {ROUTE_WAY_WAIT, ROUTE_WAY_CONFLICT, false, false},
        {ROUTE_WAY_WAIT, ROUTE_WAY_CONFLICT, true, true},
        {ROUTE_WAY_WAIT, ROUTE_WAY_ACCEPTED, false, true},
        {ROUTE_WAY_CONFLICT, ROUTE_WAY_CONFLICT, false, false},
        {ROUTE_WAY_CONFLICT, ROUTE_WAY_CONFLICT, true, true},
        {ROUTE_WAY_ACCEPTED, ROUTE_WAY_CONFLICT, false, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_route(lost);
        route.in_progress = cases[i].way;
        route.wait_then = cases[i].then;
        for (uint64_t exchange = FIRST; exchange <= SECOND; exchange++) {
            const struct rig_reply *told =
                call_as(exchange, (struct route_wish){.is_async = cases[i].is_async});
            assert_int_equal(told->said,
                             cases[i].is_told_202 ? ROUTE_SAID_PROGRESS : ROUTE_SAID_REFUSAL);
            if (!cases[i].is_told_202) {
                assert_int_equal(told->problem, ROUTE_PROBLEM_OUTCOME_UNKNOWN);
            }
        }
        assert_int_equal(rig.sent_count, 1);
        rig_close(&rig);
    }
}

static void a_person_s_word_is_kept_as_long_as_an_answer(void **state)
{
    const struct answer answer = {.status = 201, .headers = SPAN(""), .body = SPAN("by hand")};

    (void)state;
    open_route(lost);
    (void)call(FIRST);
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_SETTLE,
                                           .exchange = PERSON,
                                           .who = SPAN("ann"),
                                           .id = only_task(),
                                           .settlement = SETTLEMENT_SUCCEEDED,
                                           .answer = &answer});
    rig_pass(&rig, 60000); /* a queue's own tasks are kept for less in this rig */
    assert_int_equal(call(SECOND)->said, ROUTE_SAID_ANSWER);
    assert_int_equal(rig.replies[SECOND].status, 201);
    assert_int_equal(rig.sent_count, 1);
    rig_close(&rig);
}

static void a_poll_of_a_released_key_says_so_and_not_the_answer(void **state)
{
    (void)state;
    open_route(slow_down);
    assert_int_equal(call(FIRST)->said, ROUTE_SAID_UNKEPT);
    const struct rig_reply *reply =
        rig_full_ask(&rig, &(struct ask){.kind = ASK_POLL, .exchange = POLL, .id = only_task()});
    assert_int_equal(reply->said, ROUTE_SAID_REFUSAL);
    assert_int_equal(reply->problem, ROUTE_PROBLEM_KEY_RELEASED);
    rig_close(&rig);
}

static void nobody_waits_for_longer_than_the_route_lets_him(void **state)
{
    (void)state;
    open_route(slow_down);
    rig.latency_ms = 4000;
    (void)call_as(FIRST, (struct route_wish){.has_wait = true, .wait_ms = 60000});
    rig_pass(&rig, route.wait_ms - 1);
    assert_int_equal(rig.replies[FIRST].count, 0);
    rig_pass(&rig, 2);
    assert_int_equal(rig.replies[FIRST].count, 1);
    assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_PROGRESS);
    rig_close(&rig);
}

/* A caller who has his answer waits no longer, however late the read comes back that was begun for
 * him. */
static void who_was_told_takes_no_place_of_those_who_wait(void **state)
{
    const struct route_wish none = {0};

    (void)state;
    open_route(created);
    route.in_progress = ROUTE_WAY_WAIT;
    rig.latency_ms = 100;
    rig.holds_reads = true;
    (void)call_key(10, SPAN("a"), none);
    (void)call_key(11, SPAN("a"), none);
    (void)call_key(12, SPAN("a"), none);
    rig_pass(&rig, 101);
    for (uint64_t told = 10; told <= 12; told++) {
        assert_int_equal(rig.replies[told].count, 1);
    }
    (void)call_key(13, SPAN("b"), none);
    (void)call_key(14, SPAN("b"), none);
    (void)call_key(15, SPAN("b"), none);
    assert_int_equal(rig.replies[14].count, 0); /* they wait, and get the answer */
    rig_pass(&rig, 101);
    for (uint64_t told = 13; told <= 15; told++) {
        assert_int_equal(rig.replies[told].count, 1);
        assert_int_equal(rig.replies[told].said, ROUTE_SAID_ANSWER);
    }
    rig.holds_reads = false;
    rig_settle(&rig);
    rig_close(&rig);
}

static void what_still_waits_is_not_forgotten(void **state)
{
    (void)state;
    open_route(never_sent);
    (void)call(FIRST);
    struct task_id id = only_task();
    assert_int_equal(rig_life(&rig, id).state, TASK_WAITING);
    assert_int_equal(
        rig_full_ask(&rig, &(struct ask){.kind = ASK_FORGET, .exchange = PERSON, .id = id})->kind,
        REPLY_BUSY);
    assert_int_equal(rig_life(&rig, id).state, TASK_WAITING);
    rig_close(&rig);
}

static void a_probe_may_be_repeated_and_what_it_asks_about_may_not(void **state)
{
    (void)state;
    open_route(NULL); /* answered here */
    route.ambiguous = ROUTE_AMBIGUOUS_PROBE;
    route.probe = (struct route_probe){
        .method = SPAN("GET"), .path = SPAN("/{key}"), .every_ms = 100, .misses = 3};
    (void)call(FIRST);
    assert_int_equal(rig.flight_count, 1);
    assert_false(rig.flights[0]->repeatable);
    rig_cut_one(&rig);
    rig_pass(&rig, 200);
    assert_int_equal(rig.flight_count, 1); /* the probe: an idle connection that was just closed */
    assert_true(rig.flights[0]->repeatable); /* is no reason not to know */
    rig_answer_one(&rig, 200);
    assert_int_equal(rig_life(&rig, only_task()).state, TASK_SUCCEEDED);
    rig_close(&rig);
}

/* While it is asked about the first attempt, a person has it sent again, and it is in doubt again. */
static void a_probe_that_comes_too_late_is_followed_by_another(void **state)
{
    (void)state;
    open_route(lost);
    route.ambiguous = ROUTE_AMBIGUOUS_PROBE;
    route.probe = (struct route_probe){
        .method = SPAN("GET"), .path = SPAN("/{key}"), .every_ms = 100, .misses = 3};
    (void)call(FIRST);
    rig.latency_ms = 3600000; /* from now on they are answered here */
    rig_pass(&rig, 200);
    assert_int_equal(rig.flight_count, 1); /* the probe */
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_SETTLE,
                                           .exchange = PERSON,
                                           .who = SPAN("ann"),
                                           .id = only_task(),
                                           .settlement = SETTLEMENT_NOT_DONE});
    assert_int_equal(rig.flight_count, 2);
    rig_answer_one(&rig, 500);
    assert_int_equal(rig_life(&rig, only_task()).state, TASK_UNSETTLED);
    rig_pass(&rig, 200);       /* another is due, and one is under way */
    rig_answer_one(&rig, 200); /* of an attempt that nobody is in doubt about any more */
    assert_int_equal(rig_life(&rig, only_task()).state, TASK_UNSETTLED);
    rig_pass(&rig, 2000);
    assert_int_equal(rig.flight_count, 1);
    rig_answer_one(&rig, 200);
    assert_int_equal(rig_life(&rig, only_task()).state, TASK_SUCCEEDED);
    rig_close(&rig);
}

/* Its request waits for another attempt, and none begins any more: the caller asks again, with the same key. */
static void who_would_wait_in_vain_is_told_that_the_server_stops(void **state)
{
    (void)state;
    open_route(never_sent);
    rig.latency_ms = 50;
    assert_int_equal(call(FIRST)->count, 0);
    rig_wait(&rig, 60); /* it did not get there, and is due again later */
    assert_int_equal(rig_life(&rig, only_task()).state, TASK_WAITING);
    assert_int_equal(rig.replies[FIRST].count, 0);
    engine_drain(rig.engine);
    rig_wait(&rig, 10);
    assert_int_equal(rig.replies[FIRST].count, 1);
    assert_int_equal(rig.replies[FIRST].problem, ROUTE_PROBLEM_DRAINING);
    assert_true(engine_next_tick_ms(rig.engine) > 1000); /* no caller waits any more */
    rig_close(&rig);
}

/* Its attempt is under way: it brings the answer. */
static void who_waits_for_an_attempt_that_is_under_way_gets_its_answer(void **state)
{
    (void)state;
    open_route(created);
    rig.latency_ms = 1000;
    assert_int_equal(call(FIRST)->count, 0);
    engine_drain(rig.engine);
    rig_wait(&rig, 900);
    assert_int_equal(rig.replies[FIRST].count, 0);
    rig_wait(&rig, 200);
    assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_ANSWER);
    assert_int_equal(rig.replies[FIRST].status, 201);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_route_takes_only_what_came_by_it),
        cmocka_unit_test(what_was_not_sent_in_time_is_a_504),
        cmocka_unit_test(only_a_caller_who_asks_is_told_202_of_a_doubt),
        cmocka_unit_test(a_person_s_word_is_kept_as_long_as_an_answer),
        cmocka_unit_test(a_poll_of_a_released_key_says_so_and_not_the_answer),
        cmocka_unit_test(nobody_waits_for_longer_than_the_route_lets_him),
        cmocka_unit_test(who_was_told_takes_no_place_of_those_who_wait),
        cmocka_unit_test(what_still_waits_is_not_forgotten),
        cmocka_unit_test(a_probe_may_be_repeated_and_what_it_asks_about_may_not),
        cmocka_unit_test(a_probe_that_comes_too_late_is_followed_by_another),
        cmocka_unit_test(who_would_wait_in_vain_is_told_that_the_server_stops),
        cmocka_unit_test(who_waits_for_an_attempt_that_is_under_way_gets_its_answer),
    };
    return HARNESS_RUN(argc, argv, tests);
}
