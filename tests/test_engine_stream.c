/* SPDX-License-Identifier: MIT
 *
 * Answers that are handed on as they come, the engine with an upstream of our own: what is kept of
 * them, whole or cut off, and that out of memory nobody is left waiting for a piece.
 */
#include "harness.h"

#include "alloc_fail.h"
#include "base/room.h"
#include "engine_rig.h"
#include "engine/engine_internal.h"

#define FIRST  1
#define SECOND 2
#define PERSON 3

static struct rig rig; /* large */
static struct route_settings route;

/* A first caller, whose request is at the upstream. */
static void open_called(void)
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
                                    .mismatch = 409};
    assert_int_equal(daruma_policy_create(NULL, &route.policy, NULL), 0);
    rig = (struct rig){.route = &route};
    rig_open(&rig, "sync");
}

static void call(uint64_t exchange)
{
    struct arena *arena = arena_new(1 << 16);

    engine_submit(rig.engine, &(struct submission){.exchange = exchange,
                                                   .arena = arena,
                                                   .queue = SPAN("_route.orders"),
                                                   .scope = SPAN(""),
                                                   .key = SPAN("k"),
                                                   .method = SPAN("POST"),
                                                   .target = SPAN("http://127.0.0.1:1/orders"),
                                                   .body = arena_copy(arena, SPAN("{}")),
                                                   .route = &route,
                                                   .has_fingerprint = true});
    rig_settle(&rig);
}

/* The upstream begins to answer. */
static void give_head(int status)
{
    rig.flights[0]->outcome.status = status;
    engine_streamed(rig.engine, rig.flights[0], (struct span){0});
    rig_settle(&rig);
}

static void give_piece(void)
{
    engine_streamed(rig.engine, rig.flights[0], SPAN("piece"));
    rig_settle(&rig);
}

static struct life life_of_key(void)
{
    return rig_life(
        &rig, rig_full_ask(&rig, &(struct ask){.kind = ASK_KEYS,
                                               .exchange = PERSON,
                                               .queue = SPAN("_route.orders"),
                                               .key = SPAN("k"),
                                               .filter = {.states = STORE_ALL_STATES, .limit = 1}})
                  ->ids[0]);
}

static void what_came_whole_is_kept_as_whole(void **state)
{
    (void)state;
    open_called();
    call(FIRST);
    give_head(200);
    assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_STREAM);
    assert_int_equal(rig.pull_count, 0); /* when the caller can take it */
    engine_more(rig.engine, FIRST);
    assert_int_equal(rig.pull_count, 1);
    give_piece();
    assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_PIECE);
    rig_answer_one(&rig, 200);
    assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_END);
    struct life life = life_of_key();
    assert_int_equal(life.state, TASK_SUCCEEDED);
    assert_int_equal(life.flags & (LIFE_OMITTED | LIFE_TRUNCATED), LIFE_OMITTED);
    rig_close(&rig);
}

/* Whether an answer is a success is the route's word at the time of its head; a start reads it. */
static void what_a_crash_cut_off_ends_as_its_head_said(void **state)
{
    static const enum route_replay modes[] = {ROUTE_REPLAY_ALL, ROUTE_REPLAY_SETTLED};
    static const int statuses[] = {500, 404, 302, 200};
    (void)state;

    for (size_t i = 0; i < 2; i++) {
        for (size_t n = i == 0 ? 0 : 1; n < sizeof statuses / sizeof *statuses; n++) {
            open_called();
            route.replay = modes[i];
            call(FIRST);
            int64_t began_ms = rig.now_ms;
            give_head(statuses[n]);
            assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_STREAM);
            rig_pass(&rig, 250);
            rig_restart(&rig);
            struct life life = life_of_key();
            bool is_good = statuses[n] < 400;
            assert_int_equal(life.state, is_good ? TASK_SUCCEEDED : TASK_FAILED);
            assert_int_equal(life.failed_class == 0, is_good);
            assert_int_equal(life.keep_until_ms,
                             began_ms + route.keep_ms); /* not from the start on */
            rig_close(&rig);
        }
    }
}

static void what_was_cut_off_is_kept_as_truncated(void **state)
{
    (void)state;
    open_called();
    call(FIRST);
    give_head(200);
    engine_more(rig.engine, FIRST);
    give_piece();
    rig_cut_one(&rig);
    assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_CUT);
    struct life life = life_of_key();
    assert_int_equal(life.state, TASK_SUCCEEDED); /* it was answered: it is never run again */
    assert_int_equal(life.flags & (LIFE_OMITTED | LIFE_TRUNCATED), LIFE_OMITTED | LIFE_TRUNCATED);
    call(SECOND);
    assert_int_equal(rig.replies[SECOND].said, ROUTE_SAID_ANSWER);
    assert_int_equal(rig.replies[SECOND].status, 200);
    assert_int_equal(rig.sent_count, 1);
    rig_close(&rig);
}

/* The committer has the head; what comes of the answer is written behind it. */
static void what_ends_while_its_head_is_written_is_kept(void **state) /* I2 */
{
    (void)state;
    for (int is_cut = 0; is_cut < 2; is_cut++) {
        open_called();
        call(FIRST);
        rig.flights[0]->outcome.status = 200;
        engine_streamed(rig.engine, rig.flights[0], (struct span){0});
        if (is_cut) {
            rig_cut_one(&rig);
        } else {
            rig_answer_one(&rig, 200);
        }
        assert_int_equal(rig.replies[FIRST].said, is_cut ? ROUTE_SAID_CUT : ROUTE_SAID_END);
        struct life life = life_of_key();
        assert_int_equal(life.state, TASK_SUCCEEDED);
        assert_int_equal(life.flags & (LIFE_OMITTED | LIFE_TRUNCATED),
                         LIFE_OMITTED | (is_cut ? LIFE_TRUNCATED : 0));
        call(SECOND);
        assert_int_equal(rig.replies[SECOND].status, 200);
        assert_int_equal(rig.sent_count, 1);
        rig_close(&rig);
    }
}

/* With the n-th allocation refused from the head on: whoever is told of a stream can pull it, and
 * what nobody is told of is read on without being asked. */
static void without_memory_every_stream_is_pulled_by_somebody(void **state) /* I7, I9 */
{
    struct alloc_count count;
    uint64_t nth = 0;

    (void)state;
    do {
        open_called();
        call(FIRST);
        alloc_fail_start(++nth);
        give_head(200);
        count = alloc_fail_stop();
        if (rig.replies[FIRST].said == ROUTE_SAID_STREAM) {
            assert_int_equal(rig.pull_count, 0);
            engine_more(rig.engine, FIRST);
        }
        assert_int_equal(rig.pull_count, 1);
        give_piece();
        rig_answer_one(&rig, 200);
        rig_pass(&rig, 2000);
        assert_true(rig.replies[FIRST].count > 0);
        assert_int_not_equal(life_of_key().state, TASK_RUNNING);
        rig_close(&rig);
    } while (count.refused > 0);
    print_message("%u allocations\n", (unsigned)nth - 1);
    assert_true(nth > 1);
}

static void expect_truncated(void)
{
    struct life life = life_of_key();

    assert_int_equal(life.state, TASK_SUCCEEDED);
    assert_int_equal(life.flags & (LIFE_OMITTED | LIFE_TRUNCATED), LIFE_OMITTED | LIFE_TRUNCATED);
    call(SECOND);
    assert_int_equal(rig.replies[SECOND].said, ROUTE_SAID_ANSWER);
    assert_int_equal(rig.sent_count, 1);
}

/* An answer may be endless. While its caller reads, that is the caller's; then the time-out counts. */
static void what_its_caller_has_left_is_ended_after_the_time_out(void **state)
{
    (void)state;
    open_called();
    call(FIRST);
    give_head(200);
    engine_more(rig.engine, FIRST);
    for (int i = 0; i < 5; i++) {
        rig_wait(&rig, route.timeout_ms);
        give_piece();
        engine_more(rig.engine, FIRST);
    }
    assert_int_equal(rig.stop_count, 0);
    engine_leave(rig.engine, FIRST);
    rig_wait(&rig, route.timeout_ms - 1);
    give_piece();
    assert_int_equal(rig.stop_count, 0);
    assert_int_equal(life_of_key().state, TASK_RUNNING);
    rig_wait(&rig, 1);
    assert_int_equal(rig.stop_count, 1);
    rig_wait(&rig, route.timeout_ms); /* once */
    assert_int_equal(rig.stop_count, 1);
    rig_cut_one(&rig);
    expect_truncated();
    rig_close(&rig);
}

/* The caller was told 202 and is not there when the head comes. */
static void what_no_caller_reads_from_its_head_on_is_ended_too(void **state)
{
    (void)state;
    open_called();
    call(FIRST);
    engine_leave(rig.engine, FIRST);
    give_head(200);
    rig_wait(&rig, route.timeout_ms - 1);
    assert_int_equal(rig.stop_count, 0);
    rig_wait(&rig, 1);
    assert_int_equal(rig.stop_count, 1);
    rig_cut_one(&rig);
    expect_truncated();
    rig_close(&rig);
}

/* A 500 under `settled`: no caller gets a byte, and what came of it is as little known as before. */
static void what_leaves_doubt_is_ended_and_stays_in_doubt(void **state)
{
    (void)state;
    open_called();
    call(FIRST);
    give_head(500);
    rig_wait(&rig, route.timeout_ms);
    assert_int_equal(rig.stop_count, 1);
    rig_cut_one(&rig);
    assert_int_equal(life_of_key().state, TASK_UNSETTLED);
    rig_close(&rig);
}

/* It ends by itself within the time-out: nothing is stopped. */
static void what_ends_in_time_is_whole_without_its_caller(void **state)
{
    (void)state;
    open_called();
    call(FIRST);
    give_head(200);
    engine_leave(rig.engine, FIRST);
    rig_wait(&rig, route.timeout_ms / 2);
    rig_answer_one(&rig, 200);
    rig_wait(&rig, 2 * route.timeout_ms);
    assert_int_equal(rig.stop_count, 0);
    struct life life = life_of_key();
    assert_int_equal(life.flags & (LIFE_OMITTED | LIFE_TRUNCATED), LIFE_OMITTED);
    rig_close(&rig);
}

#define MANY      1000
#define EDGE      (UINT64_C(3) << 32) /* ids as the second and further edges make them */
#define USE       (UINT64_C(1) << 38)
#define CHAIN_MAX 8

static void pass(uint64_t exchange)
{
    engine_pass(rig.engine, &(struct submission){.exchange = exchange,
                                                 .arena = arena_new(1 << 12),
                                                 .method = SPAN("GET"),
                                                 .target = SPAN("http://127.0.0.1:1/events"),
                                                 .route = &route});
}

static uint64_t exchange_of(size_t n)
{
    return (n % 2 == 0 ? 0 : EDGE) | (USE * (n % 7)) | (n + 1);
}

static size_t longest_chain(const struct callers *callers)
{
    size_t longest = 0;

    for (size_t i = 0; i < CALLERS_BUCKETS; i++) {
        size_t length = 0;
        for (const struct called *called = callers->buckets[i]; called != NULL;
             called = called->next) {
            length++;
        }
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* Counted, not timed: what a caller or an event has to look through stays short. */
static void each_of_many_streams_is_found_without_the_others(void **state)
{
    struct delivery *deliveries[MANY];

    (void)state;
    route = (struct route_settings){.name = SPAN("orders"), .upstream = SPAN("http://127.0.0.1:1")};
    assert_int_equal(daruma_policy_create(NULL, &route.policy, NULL), 0);
    rig = (struct rig){.route = &route, .sends_max = MANY};
    rig_open(&rig, "sync");
    for (size_t i = 0; i < MANY; i++) {
        pass(exchange_of(i));
        deliveries[i] = rig.flights[i];
        deliveries[i]->outcome.status = 200;
        engine_streamed(rig.engine, deliveries[i], (struct span){0});
    }
    assert_in_range(longest_chain(&rig.engine->streams), 1, CHAIN_MAX);
    for (size_t i = 0; i < MANY; i++) {
        engine_more(rig.engine, exchange_of(i));
        assert_ptr_equal(rig.last_pulled, deliveries[i]);
    }
    assert_int_equal(rig.pull_count, MANY);
    engine_more(rig.engine, exchange_of(MANY));
    engine_leave(rig.engine, exchange_of(MANY));
    assert_int_equal(rig.pull_count, MANY);
    for (size_t i = 0; i < MANY; i += 2) { /* what is only passed on ends with its caller */
        engine_leave(rig.engine, exchange_of(i));
        engine_more(rig.engine, exchange_of(i));
    }
    assert_int_equal(rig.pull_count, MANY);
    assert_int_equal(rig.stop_count, MANY / 2);
    while (rig.flight_count > 0) {
        rig_answer_one(&rig, 200);
    }
    assert_int_equal(longest_chain(&rig.engine->streams), 0);
    rig_close(&rig);
}

static void each_of_many_that_pass_is_found_without_the_others(void **state)
{
    (void)state;
    route = (struct route_settings){.name = SPAN("orders"), .upstream = SPAN("http://127.0.0.1:1")};
    assert_int_equal(daruma_policy_create(NULL, &route.policy, NULL), 0);
    rig = (struct rig){.route = &route, .sends_max = MANY};
    rig_open(&rig, "sync");
    for (size_t i = 0; i < MANY; i++) {
        pass(exchange_of(i));
    }
    assert_in_range(longest_chain(&rig.engine->passing), 1, CHAIN_MAX);
    for (size_t i = 0; i < MANY; i += 2) {
        engine_dismiss(rig.engine, exchange_of(i));
        assert_int_equal(rig.stop_count, i / 2 + 1);
    }
    engine_dismiss(rig.engine, exchange_of(MANY));
    assert_int_equal(rig.stop_count, MANY / 2);
    while (rig.flight_count > 0) {
        rig_answer_one(&rig, 200);
    }
    assert_int_equal(longest_chain(&rig.engine->passing), 0);
    rig_close(&rig);
}

/* --- what was sent ---------------------------------------------------------------------------------- */

#define LARGE_BYTES 100000
#define COUNTED     (LARGE_BYTES - ROOM_SMALL_BYTES)

static struct room room;

/* A request whose body counts in `room`. */
static struct submission large(uint64_t exchange)
{
    static char bytes[LARGE_BYTES];
    struct arena *arena = arena_new(1 << 20);

    assert_true(room_take(&room, 0, LARGE_BYTES));
    arena_count(arena, &room, LARGE_BYTES);
    return (struct submission){.exchange = exchange,
                               .arena = arena,
                               .queue = SPAN("_route.orders"),
                               .scope = SPAN(""),
                               .key = SPAN("k"),
                               .method = SPAN("POST"),
                               .target = SPAN("http://127.0.0.1:1/orders"),
                               .body = arena_copy(arena, (struct span){bytes, LARGE_BYTES}),
                               .route = &route,
                               .has_fingerprint = true};
}

static void open_large(void)
{
    open_called();
    room_init(&room, 1 << 20);
}

static void what_passes_counts_until_it_was_sent_or_is_over(void **state)
{
    struct submission in;

    (void)state;
    open_large();
    in = large(FIRST);
    engine_pass(rig.engine, &in);
    give_head(200); /* the upstream has not read all of it */
    assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_STREAM);
    assert_int_equal(room.bytes, COUNTED);
    assert_int_equal(rig.flights[0]->body.len, LARGE_BYTES);
    rig.flights[0]->is_body_spent = true;
    give_piece();
    assert_int_equal(room.bytes, 0);
    assert_int_equal(rig.flights[0]->body.len, 0);
    give_piece();
    rig_answer_one(&rig, 200);
    assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_END);

    in = large(SECOND);
    engine_pass(rig.engine, &in);
    give_head(200);
    engine_leave(rig.engine, SECOND);
    assert_int_equal(room.bytes, COUNTED);
    rig_cut_one(&rig);
    assert_int_equal(room.bytes, 0);
    rig_close(&rig);
}

static void what_is_refused_is_not_counted(void **state)
{
    struct submission in;

    (void)state;
    open_large();
    engine_drain(rig.engine);
    in = large(FIRST);
    engine_pass(rig.engine, &in);
    assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_REFUSAL);
    assert_int_equal(room.bytes, 0);
    in = large(SECOND);
    engine_submit(rig.engine, &in);
    rig_settle(&rig);
    assert_int_equal(room.bytes, 0);
    rig_close(&rig);
}

static void what_is_recorded_counts_until_it_was_sent_or_is_over(void **state)
{
    struct submission in;

    (void)state;
    open_large();
    in = large(FIRST);
    engine_submit(rig.engine, &in);
    rig_settle(&rig);
    assert_int_equal(room.bytes, COUNTED);
    in = large(SECOND); /* a duplicate, which waits without its body */
    engine_submit(rig.engine, &in);
    rig_settle(&rig);
    assert_int_equal(room.bytes, COUNTED);
    rig.flights[0]->is_body_spent = true;
    give_head(200);
    assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_STREAM);
    assert_int_equal(room.bytes, 0);
    give_piece();
    rig_answer_one(&rig, 200);
    assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_END);
    assert_int_equal(life_of_key().state, TASK_SUCCEEDED);
    rig_close(&rig);
}

static void what_goes_on_without_a_caller_counts_no_more(void **state)
{
    struct submission in;

    (void)state;
    open_large();
    in = large(FIRST);
    in.wish.is_async = true;
    engine_submit(rig.engine, &in);
    rig_settle(&rig);
    assert_int_equal(rig.replies[FIRST].said, ROUTE_SAID_PROGRESS);
    assert_int_equal(room.bytes, 0);
    rig_answer_one(&rig, 200);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_came_whole_is_kept_as_whole),
        cmocka_unit_test(what_a_crash_cut_off_ends_as_its_head_said),
        cmocka_unit_test(what_was_cut_off_is_kept_as_truncated),
        cmocka_unit_test(what_ends_while_its_head_is_written_is_kept),
        cmocka_unit_test(without_memory_every_stream_is_pulled_by_somebody),
        cmocka_unit_test(what_its_caller_has_left_is_ended_after_the_time_out),
        cmocka_unit_test(what_no_caller_reads_from_its_head_on_is_ended_too),
        cmocka_unit_test(what_leaves_doubt_is_ended_and_stays_in_doubt),
        cmocka_unit_test(what_ends_in_time_is_whole_without_its_caller),
        cmocka_unit_test(each_of_many_streams_is_found_without_the_others),
        cmocka_unit_test(each_of_many_that_pass_is_found_without_the_others),
        cmocka_unit_test(what_passes_counts_until_it_was_sent_or_is_over),
        cmocka_unit_test(what_is_refused_is_not_counted),
        cmocka_unit_test(what_is_recorded_counts_until_it_was_sent_or_is_over),
        cmocka_unit_test(what_goes_on_without_a_caller_counts_no_more),
    };
    return HARNESS_RUN(argc, argv, tests);
}
