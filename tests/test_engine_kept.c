/* SPDX-License-Identifier: MIT
 *
 * Kept answers that are held in memory: when they are given without a look into the store, and when
 * the one who has them forgotten is told so, alone and among nodes.
 */
#include "engine/engine_internal.h"
#include "engine_rig.h"
#include "harness.h"

#define FIRST  1
#define SECOND 2
#define PERSON 3
#define THIRD  4

#define LEASE_MS 10000
#define ORDERS   "_route.orders"

static struct rig rig; /* large */
static struct route_settings route;

static struct rig_answer created(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 201};
}

static void open_route(void)
{
    route = (struct route_settings){.name = SPAN("orders"),
                                    .upstream = SPAN("http://127.0.0.1:1"),
                                    .timeout_ms = 10000,
                                    .deadline_ms = 5000,
                                    .concurrency = 8,
                                    .keep_ms = 3600000,
                                    .wait_ms = 1000,
                                    .mismatch = 409};
    assert_int_equal(daruma_policy_create(NULL, &route.policy, NULL), 0);
    rig = (struct rig){.answer = created, .route = &route, .keep_ms = 3600000};
    rig_open(&rig, "sync");
}

static struct submission request(uint64_t exchange)
{
    return (struct submission){.exchange = exchange,
                               .queue = SPAN(ORDERS),
                               .key = SPAN("k"),
                               .method = SPAN("POST"),
                               .target = SPAN("http://127.0.0.1:1/orders"),
                               .body = SPAN("{}"),
                               .route = &route,
                               .has_fingerprint = true};
}

static void submit(uint64_t exchange)
{
    struct submission submission = request(exchange);

    submission.arena = arena_new(1 << 16);
    engine_submit(rig.engine, &submission);
}

static const struct rig_reply *call(uint64_t exchange)
{
    submit(exchange);
    rig_settle(&rig);
    return &rig.replies[exchange];
}

static bool is_held(void)
{
    struct submission submission = request(THIRD);

    return engine_replay(rig.engine, &submission);
}

static struct task_id only_task(void)
{
    return rig_full_ask(&rig, &(struct ask){.kind = ASK_KEYS,
                                            .exchange = PERSON,
                                            .queue = SPAN(ORDERS),
                                            .key = SPAN("k"),
                                            .filter = {.states = STORE_ALL_STATES, .limit = 10}})
        ->ids[0];
}

static void look_around(uint64_t told)
{
    struct beat seen = rig_beat(&rig, 0, 2);

    seen.told = told;
    engine_beat(rig.engine, &seen);
    rig_settle(&rig);
}

/* One of several from here on, with the answer in hand. */
static void join(void)
{
    open_route();
    assert_int_equal(call(FIRST)->status, 201);
    rig_join(&rig);
    rig.store->node_lease_ms = LEASE_MS;
    rig.store->forgotten = 1;
    look_around(0);
    assert_int_equal(call(SECOND)->said, ROUTE_SAID_ANSWER);
    assert_true(is_held());
}

static const struct rig_reply *forget(struct task_id id)
{
    rig.replies[PERSON] = (struct rig_reply){0};
    return rig_full_ask(&rig, &(struct ask){.kind = ASK_FORGET, .exchange = PERSON, .id = id});
}

/* --- giving ------------------------------------------------------------------------------------------ */

static void an_answer_that_was_read_before_its_key_was_forgotten_is_not_held(void **state)
{
    (void)state;
    open_route();
    assert_int_equal(call(FIRST)->status, 201);
    struct task_id id = only_task();
    rig_restart(&rig); /* nothing is held */
    submit(SECOND);
    (void)committer_step(rig.committer, 0);
    engine_committed(rig.engine, committer_take(rig.committer)); /* a duplicate: it is read */
    struct handover_link *read = rig.reads;
    assert_non_null(read);
    rig.reads = NULL;
    rig.read_count = 0;
    read_perform((struct read *)read, rig.store);
    assert_int_equal(forget(id)->kind, REPLY_DELETED);
    engine_read(rig.engine, (struct read *)read);
    assert_int_equal(rig.replies[SECOND].said, ROUTE_SAID_ANSWER); /* it came before */
    assert_false(is_held());
    rig_close(&rig);
}

static void what_was_held_is_not_given_once_something_was_forgotten(void **state)
{
    (void)state;
    join();
    rig.store->forgotten = 2; /* the thread that beats has seen it, the engine has not */
    assert_false(is_held());
    assert_int_equal(call(SECOND)->said, ROUTE_SAID_ANSWER);
    assert_true(is_held());
    rig.store->forgotten = 0; /* a node of an earlier version is there */
    assert_false(is_held());
    assert_int_equal(call(SECOND)->said, ROUTE_SAID_ANSWER);
    assert_false(is_held());
    rig_close(&rig);
}

static void nothing_is_given_from_memory_when_the_node_s_lease_is_over(void **state)
{
    (void)state;
    join();
    rig.now_ms += LEASE_MS * 7 / 10;
    assert_true(is_held());
    rig.now_ms += LEASE_MS / 10; /* peers may take it for dead soon: clocks may run apart */
    assert_false(is_held());
    look_around(0);
    assert_true(is_held()); /* nothing was forgotten meanwhile */
    rig_close(&rig);
}

/* --- telling ----------------------------------------------------------------------------------------- */

static void who_has_a_key_forgotten_is_told_when_every_node_knows(void **state)
{
    (void)state;
    join();
    assert_int_equal(forget(only_task())->count, 0);
    assert_int_equal(rig.wish.asked, 1);
    assert_false(is_held()); /* here it is known at once */
    look_around(0);
    assert_int_equal(rig.replies[PERSON].count, 0);
    look_around(1);
    assert_int_equal(rig.replies[PERSON].count, 1);
    assert_int_equal(rig.replies[PERSON].kind, REPLY_DELETED);
    rig_close(&rig);
}

static void who_has_a_key_forgotten_is_not_left_waiting_without_a_word_of_peers(void **state)
{
    (void)state;
    join();
    assert_int_equal(forget(only_task())->count, 0);
    assert_true(engine_next_tick_ms(rig.engine) <= INT64_C(2) * LEASE_MS);
    rig.now_ms += 2 * LEASE_MS;
    engine_tick(rig.engine);
    assert_int_equal(rig.replies[PERSON].kind, REPLY_FAULT);
    assert_int_equal(rig.error.fault, FAULT_UNKNOWN); /* done, and who knows of it is not known */
    assert_true(error_is_told(&rig.error));
    assert_non_null(strstr(rig.error.text, "it was done"));
    look_around(1);
    assert_int_equal(rig.replies[PERSON].count, 1);
    rig_close(&rig);
}

/* Its page cannot be read, and no peer says a word. */
static void a_purge_that_stopped_is_not_said_to_be_done(void **state)
{
    (void)state;
    join();
    rig.replies[PERSON] = (struct rig_reply){0};
    engine_ask(rig.engine,
               &(struct ask){.kind = ASK_QUEUE_PURGE, .exchange = PERSON, .queue = SPAN(ORDERS)});
    struct read *read = (struct read *)rig.reads;
    assert_non_null(read);
    rig.reads = NULL;
    rig.read_count = 0;
    read->fault = fail(&read->error, FAULT_IO, "what a disk says");
    engine_read(rig.engine, read);
    rig_settle(&rig);
    assert_int_equal(rig.replies[PERSON].count, 0);
    rig.now_ms += 2 * LEASE_MS;
    engine_tick(rig.engine);
    assert_int_equal(rig.replies[PERSON].kind, REPLY_FAULT);
    assert_int_equal(rig.error.fault, FAULT_IO);
    assert_true(error_is_told(&rig.error));
    assert_non_null(strstr(rig.error.text, "stopped after 0 tasks"));
    rig_close(&rig);
}

static void a_purge_and_a_deletion_are_told_when_every_node_knows(void **state)
{
    const struct ask purge = {.kind = ASK_QUEUE_PURGE, .exchange = PERSON, .queue = SPAN(ORDERS)};
    const struct ask gone = {
        .kind = ASK_QUEUE_DELETE, .exchange = SECOND, .queue = SPAN("r"), .force = true};
    (void)state;

    join();
    (void)rig_change(&rig); /* makes r */
    look_around(1);
    rig.replies[SECOND] = rig.replies[PERSON] = (struct rig_reply){0};
    assert_int_equal(rig_full_ask(&rig, &purge)->count, 0);
    assert_int_equal(rig_full_ask(&rig, &gone)->count, 0);
    assert_int_equal(rig.wish.asked, 3);
    look_around(2);
    assert_int_equal(rig.replies[PERSON].kind, REPLY_QUEUE);
    assert_int_equal(rig.replies[SECOND].count, 0);
    look_around(3);
    assert_int_equal(rig.replies[SECOND].kind, REPLY_DELETED);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_that_was_read_before_its_key_was_forgotten_is_not_held),
        cmocka_unit_test(what_was_held_is_not_given_once_something_was_forgotten),
        cmocka_unit_test(nothing_is_given_from_memory_when_the_node_s_lease_is_over),
        cmocka_unit_test(who_has_a_key_forgotten_is_told_when_every_node_knows),
        cmocka_unit_test(who_has_a_key_forgotten_is_not_left_waiting_without_a_word_of_peers),
        cmocka_unit_test(a_purge_that_stopped_is_not_said_to_be_done),
        cmocka_unit_test(a_purge_and_a_deletion_are_told_when_every_node_knows),
    };
    return HARNESS_RUN(argc, argv, tests);
}
