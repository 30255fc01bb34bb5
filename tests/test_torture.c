/* SPDX-License-Identifier: MIT
 *
 * Torture: create, deliver and settle, with the n-th allocation refused, for n = 1, 2, 3 … until
 * nothing is refused any more. Out of memory is an ordinary fault: the caller is told, nothing leaks,
 * and what was acknowledged comes to its end once there is memory again.
 */
#include "harness.h"

#include "alloc_fail.h"
#include "engine_rig.h"

#include <string.h>

static struct rig rig; /* large */

static struct rig_answer fail_once(struct rig *self, uint32_t attempt)
{
    (void)self;
    return (struct rig_answer){.status = attempt == 1 ? 503 : 200};
}

struct told {
    enum reply_kind kind;
};

/* Everything from the submission to the end, under the watch of alloc_fail. */
static void create_deliver_settle(struct told *told)
{
    struct arena *arena = arena_new(1 << 16);
    struct span key = {0}, body = {0};

    if (arena != NULL) {
        key = arena_copy(arena, SPAN("k"));
        body = arena_copy(arena, SPAN("x"));
    }
    if (key.at == NULL || body.at == NULL) {
        arena_free(arena);
        return; /* the edge would have said 503 */
    }
    engine_submit(
        rig.engine,
        &(struct submission){
            .exchange = 1, .arena = arena, .queue = SPAN(RIG_QUEUE), .key = key, .body = body});
    rig_settle(&rig);
    told->kind = rig.reply_kind;
    rig_pass(&rig, 1000);
    rig.id = told->kind == REPLY_CREATED ? rig.id : (struct task_id){0};
    rig_ask(&rig, ASK_TASK);
}

/* Now there is memory: what was acknowledged ends well, what was refused left nothing (I1, I7). */
static void after(const struct told *told)
{
    rig_run(&rig, 60000);
    for (int i = 0; i < 3; i++) {
        rig_pass(&rig, 2000);
    }
    struct queue_view view;
    engine_queue_view(rig.engine, 0, &view);
    if (told->kind == REPLY_CREATED) {
        assert_int_equal(view.counts[TASK_SUCCEEDED], 1);
        assert_int_equal(view.counts[TASK_WAITING] + view.counts[TASK_RUNNING], 0);
    } else {
        assert_int_equal(
            view.counts[TASK_SUCCEEDED] + view.counts[TASK_WAITING] + view.counts[TASK_RUNNING], 0);
    }
}

static void no_allocation_that_fails_loses_or_leaks_anything(void **state) /* I1, I7, I9 */
{
    struct alloc_count count;
    uint64_t number = 0;

    (void)state;
    do {
        struct told told = {.kind = REPLY_FAULT};
        memset(&rig, 0, sizeof rig);
        rig.answer = fail_once;
        rig_open(&rig, "sync");
        alloc_fail_start(++number);
        create_deliver_settle(&told);
        count = alloc_fail_stop();
        after(&told);
        rig_close(&rig);
    } while (count.refused > 0);
    print_message("%u allocations\n", (unsigned)number - 1);
    assert_true(number > 10);
}

/* --- the gateway ------------------------------------------------------------------------------------- */

#define HELD_TASKS "_route.held"

static struct route_settings held = {
    .name = {"held", 4},
    .upstream = {"http://127.0.0.1:1", 18},
    .timeout_ms = 1000,
    .deadline_ms = 5000,
    .concurrency = 8,
    .keep_ms = 3600000,
    .wait_ms = 1000,
    .retry_after_ms = 1000,
    .replay = ROUTE_REPLAY_SETTLED,
    .mismatch = 409,
    .probe = {.method = {"GET", 3},
              .path = {"/by-key/{key}", 13},
              .every_ms = 100,
              .misses = 2,
              .settle_after_ms = 200},
};

static struct rig_answer done_at_once(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 201};
}

/* The answer is lost on its way; whoever asks afterwards is told. */
static struct rig_answer lost_then_found(struct rig *self, uint32_t attempt)
{
    (void)self;
    return attempt == 1 ? (struct rig_answer){.sent = TASK_SENT_MAYBE}
                        : (struct rig_answer){.status = 200};
}

static void call_gateway(uint64_t exchange)
{
    struct arena *arena = arena_new(1 << 16);
    struct span body = arena == NULL ? (struct span){0} : arena_copy(arena, SPAN("x"));
    const struct submission submission = {.exchange = exchange,
                                          .arena = arena,
                                          .queue = SPAN(HELD_TASKS),
                                          .scope = SPAN(""),
                                          .key = SPAN("k"),
                                          .method = SPAN("POST"),
                                          .target = SPAN("http://127.0.0.1:1/things"),
                                          .body = body,
                                          .route = &held,
                                          .has_fingerprint = true};

    if (body.at == NULL) {
        arena_free(arena);
        return; /* the edge would have said 503 */
    }
    if (engine_replay(rig.engine, &submission)) {
        arena_free(arena);
    } else {
        engine_submit(rig.engine, &submission);
    }
    rig_settle(&rig);
}

static void let_time_pass(void)
{
    for (int i = 0; i < 12; i++) {
        rig_pass(&rig, 200);
    }
}

/* With memory again, and after a start: the request went out once, if it did, and everybody is told
 * what whoever was told first was told. */
static void check_truth(size_t requests_max)
{
    struct rig_reply first = rig.replies[1];
    size_t sent = rig.sent_count;

    let_time_pass();
    rig_restart(&rig);
    let_time_pass();
    call_gateway(3);
    let_time_pass();
    call_gateway(4);
    assert_int_equal(rig.replies[4].kind, REPLY_ROUTE);
    assert_int_equal(rig.replies[4].said,
                     rig.replies[4].status == 0 ? ROUTE_SAID_PROGRESS : ROUTE_SAID_ANSWER);
    if (held.ambiguous == ROUTE_AMBIGUOUS_PROBE) { /* somebody is asked until it is known */
        assert_int_equal(rig.replies[4].status, 200);
    }
    if (first.kind == REPLY_ROUTE && first.said == ROUTE_SAID_ANSWER && first.count > 0) {
        assert_int_equal(rig.replies[4].said, ROUTE_SAID_ANSWER);
        assert_int_equal(rig.replies[4].status, first.status);
    }
    assert_true(rig.replies[1].count <= 1); /* nobody is answered twice */
    assert_true(rig.sent_count <= (sent > 0 ? sent : 1) + requests_max);
}

static void torture_gateway(struct rig_answer (*answer)(struct rig *, uint32_t), size_t probes_max)
{
    struct alloc_count count;
    uint64_t number = 0;

    assert_int_equal(daruma_policy_create(NULL, &held.policy, NULL), 0);
    do {
        memset(&rig, 0, sizeof rig);
        rig.answer = answer;
        rig.route = &held;
        rig_open(&rig, "sync");
        alloc_fail_start(++number);
        call_gateway(1);
        let_time_pass();
        call_gateway(2);
        count = alloc_fail_stop();
        check_truth(probes_max);
        rig_close(&rig);
    } while (count.refused > 0);
    print_message("%u allocations\n", (unsigned)number - 1);
    assert_true(number > 10);
}

static void a_request_of_the_gateway_is_sent_once_whatever_fails(void **state) /* I1, I4, I9 */
{
    (void)state;
    held.ambiguous = ROUTE_AMBIGUOUS_HOLD;
    torture_gateway(done_at_once, 0);
}

static void a_probe_finds_the_answer_whatever_fails(void **state) /* I2, I4, I9 */
{
    (void)state;
    held.ambiguous = ROUTE_AMBIGUOUS_PROBE;
    torture_gateway(lost_then_found, 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_allocation_that_fails_loses_or_leaks_anything),
        cmocka_unit_test(a_request_of_the_gateway_is_sent_once_whatever_fails),
        cmocka_unit_test(a_probe_finds_the_answer_whatever_fails),
    };
    return HARNESS_RUN(argc, argv, tests);
}
