/* SPDX-License-Identifier: MIT
 *
 * One libcurl handle for one kind of delivery after another: whatever an earlier one was, the next
 * goes out and comes back as on a handle that is new.
 */
#include "rig.h"
#include "harness.h"

#include <daruma/dice.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define SSE_ANSWER                                                                                 \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"     \
    "6\r\ndata:1\r\n0\r\n\r\n"
#define LONG_ANSWER "HTTP/1.1 201 Created\r\nContent-Length: 40\r\n\r\n" TEN TEN TEN TEN
#define TEN         "0123456789"
#define LONG_MAX    20 /* response_max of what is handed on because of its length */

#define STREAM_MS 1000 /* the time-out of streams; of silence, in whole seconds of libcurl */
#define SLOW_MS   3500 /* of an answer that comes later than a forgotten time-out of silence */

/* -- targets: one for each way of answering -- */

enum place { PLAIN, SSE, LONG, STALLED, SLOW, TLS, MOVED_303, MOVED_307, SILENT, PLACE_COUNT };

static char moved_303[256], moved_307[256];
static const struct target_step plain[] = {TARGET_READS, TARGET_WRITES(OK_ANSWER), TARGET_REPEATS};
static const struct target_step sse[] = {TARGET_READS, TARGET_WRITES(SSE_ANSWER), TARGET_REPEATS};
static const struct target_step too_long[] = {TARGET_READS, TARGET_WRITES(LONG_ANSWER),
                                              TARGET_REPEATS};
static const struct target_step stalled[] = {
    TARGET_READS, TARGET_WRITES("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata:"),
    TARGET_HOLDS};
static const struct target_step slow[] = {TARGET_READS, TARGET_TELLS, TARGET_WRITES(OK_ANSWER),
                                          TARGET_REPEATS};
static const struct target_step silent[] = {TARGET_READS, TARGET_HOLDS};
static struct target_step redirects_303[] = {
    TARGET_READS, {.act = TARGET_WRITE, .bytes = moved_303}, TARGET_REPEATS};
static struct target_step redirects_307[] = {
    TARGET_READS, {.act = TARGET_WRITE, .bytes = moved_307}, TARGET_REPEATS};

static const struct target_script scripts[PLACE_COUNT] = {
    [PLAIN] = TARGET_SCRIPT(plain),
    [SSE] = TARGET_SCRIPT(sse),
    [LONG] = TARGET_SCRIPT(too_long),
    [STALLED] = TARGET_SCRIPT(stalled),
    [SLOW] = TARGET_SCRIPT(slow),
    [TLS] = TARGET_SCRIPT(plain),
    [MOVED_303] = TARGET_SCRIPT(redirects_303),
    [MOVED_307] = TARGET_SCRIPT(redirects_307),
    [SILENT] = TARGET_SCRIPT(silent),
};

struct world {
    struct rig rig; /* first */
    struct outbound outbound;
    struct target *targets[PLACE_COUNT];
    char urls[PLACE_COUNT][RIG_URL_MAX];
    struct buf streamed; /* of the latest */
};

static void wait_slowly(void *user)
{
    struct timespec pause = {.tv_sec = SLOW_MS / 1000, .tv_nsec = SLOW_MS % 1000 * 1000000L};

    (void)user;
    (void)nanosleep(&pause, NULL);
}

/* A stream that stalls is not asked for more. */
static void on_stream(void *user, struct delivery *delivery, struct span bytes)
{
    struct world *world = user;

    if (bytes.at != NULL) {
        assert_int_equal(buf_add(&world->streamed, bytes), 0);
    }
    if (delivery->ticket != STALLED) {
        deliver_pull(world->rig.deliver, delivery);
    }
}

static void say_where(const struct world *world, struct target_step *step, char *text, int status)
{
    (void)snprintf(text, sizeof moved_303,
                   "HTTP/1.1 %d Moved\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n", status,
                   world->urls[PLAIN]);
    step->len = strlen(text);
}

static struct world *world_new(void)
{
    struct world *world = calloc(1, sizeof *world);

    assert_non_null(world);
    buf_init(&world->streamed, RIG_BODY_MAX);
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        world->targets[i] = target_start(&(struct target_plan){
            .scripts = &scripts[i],
            .count = 1,
            .tls_name = i == TLS ? "IP:127.0.0.1" : NULL,
            .told = wait_slowly,
        });
        (void)snprintf(world->urls[i], sizeof world->urls[i], "%s://127.0.0.1:%d/path?query",
                       i == TLS ? "https" : "http", (int)target_port(world->targets[i]));
    }
    say_where(world, &redirects_303[1], moved_303, 303);
    say_where(world, &redirects_307[1], moved_307, 307);
    return world;
}

static void world_open(struct world *world, uint32_t handles)
{
    world->outbound = (struct outbound){.redirects_max = 2};
    world->rig.options = (struct http_options){.handles_kept = handles,
                                               .outbound = &world->outbound,
                                               .stream = on_stream,
                                               .stream_user = world};
    rig_open(&world->rig, NULL);
}

static void world_free(struct world *world)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        target_free(world->targets[i]);
    }
    buf_done(&world->streamed);
    free(world);
}

static struct delivery delivery_to(struct world *world, const char *method, enum place place)
{
    struct delivery delivery = rig_delivery(&world->rig, method);

    delivery.url = span_of(world->urls[place]);
    delivery.ticket = place;
    return delivery;
}

/* -- time-outs -- */

static struct delivery stream_to(struct world *world, enum place place)
{
    struct delivery delivery = delivery_to(world, "POST", place);

    delivery.body = SPAN("body");
    delivery.is_proxied = true;
    delivery.timeout_ms = STREAM_MS;
    delivery.response_max = LONG_MAX;
    return delivery;
}

static void a_streamed_answer_leaves_no_time_out_on_its_handle(void **state)
{
    (void)state;
    struct world *world = world_new();
    struct delivery streams[] = {stream_to(world, SSE), stream_to(world, LONG),
                                 stream_to(world, STALLED)};
    struct delivery posts[3];

    world_open(world, 3);
    for (size_t i = 0; i < 3; i++) {
        rig_send(&world->rig, &streams[i]);
    }
    rig_wait(&world->rig, 2);
    rig_cancel(&world->rig, &streams[2]);
    rig_wait(&world->rig, 1);
    assert_int_equal(streams[0].outcome.status, 200);
    assert_int_equal(streams[1].outcome.status, 201);
    assert_int_equal(streams[2].outcome.sent, TASK_SENT_MAYBE);
    for (size_t i = 0; i < 3; i++) { /* on the same three handles */
        posts[i] = delivery_to(world, "POST", SLOW);
        posts[i].body = SPAN("pay");
        rig_send(&world->rig, &posts[i]);
    }
    rig_wait(&world->rig, 3);
    for (size_t i = 0; i < 3; i++) {
        rig_expect(&posts[i], TASK_SENT_YES, "");
        assert_int_equal(posts[i].outcome.status, 200);
        assert_int_equal(posts[i].sends, 1);
        delivery_done(&streams[i]);
        delivery_done(&posts[i]);
    }
    rig_close(&world->rig);
    world_free(world);
}

/* -- every kind after every other -- */

struct kind {
    const char *method;
    enum place place;
    const char *body;
    const char *headers;
    bool has_ca, is_repeatable, is_proxied;
    int64_t timeout_ms;
    int status; /* 0: it has none */
};

static const struct kind kinds[] = {
    {.method = "POST", .body = "a body", .status = 200},
    {.method = "POST", .status = 200},
    {.method = "POST", .body = "another", .is_repeatable = true, .status = 200},
    {.method = "POST", .body = "x", .headers = "X-A: 1\nUser-Agent: mine\n", .status = 200},
    {.method = "POST", .body = "x", .is_proxied = true, .status = 200},
    {.method = "GET", .status = 200},
    {.method = "GET", .headers = "X-B: 2\n", .is_repeatable = true, .status = 200},
    {.method = "GET", .body = "with a body", .status = 200},
    {.method = "HEAD", .place = MOVED_303, .status = 303},
    {.method = "PUT", .body = "put", .status = 200},
    {.method = "PUT", .status = 200},
    {.method = "PATCH", .body = "patch", .status = 200},
    {.method = "DELETE", .status = 200},
    {.method = "OPTIONS", .is_repeatable = true, .status = 200},
    {.method = "POST", .place = TLS, .body = "sealed", .has_ca = true, .status = 200},
    {.method = "GET", .place = TLS, .has_ca = true, .status = 200},
    {.method = "POST", .place = TLS, .body = "not to be trusted"},
    {.method = "POST", .place = MOVED_303, .body = "moved", .is_repeatable = true, .status = 200},
    {.method = "PUT", .place = MOVED_307, .body = "moved", .is_repeatable = true, .status = 200},
    {.method = "POST", .place = MOVED_307, .body = "not followed", .status = 307},
    {.method = "POST", .place = SSE, .body = "s", .is_proxied = true, .status = 200},
    {.method = "GET", .place = SSE, .is_proxied = true, .status = 200},
    {.method = "PUT", .place = LONG, .body = "s", .is_proxied = true, .status = 201},
    {.method = "POST", .place = LONG, .body = "s", .is_proxied = true, .status = 201},
    {.method = "POST", .place = SILENT, .body = "late", .timeout_ms = RIG_SENT_MS},
    {.method = "NO METHOD", .body = "invalid"},
};

#define KINDS (sizeof kinds / sizeof *kinds)

static struct delivery delivery_of(struct world *world, const struct kind *kind)
{
    struct delivery delivery = delivery_to(world, kind->method, kind->place);

    delivery.body = span_of(kind->body != NULL ? kind->body : "");
    delivery.headers = span_of(kind->headers != NULL ? kind->headers : "");
    delivery.ca = kind->has_ca ? span_of(target_certificate(world->targets[TLS])) : SPAN("");
    delivery.repeatable = kind->is_repeatable;
    delivery.is_proxied = kind->is_proxied;
    delivery.timeout_ms = kind->timeout_ms > 0 ? kind->timeout_ms : RIG_TIMEOUT_MS;
    delivery.response_max = kind->is_proxied ? LONG_MAX : RIG_BODY_MAX;
    return delivery;
}

static size_t requests_of(const struct world *world)
{
    size_t count = 0;

    for (size_t i = 0; i < PLACE_COUNT; i++) {
        count += target_request_count(world->targets[i]);
    }
    return count;
}

static void add_last_request(struct buf *seen, struct target *target)
{
    size_t count = target_request_count(target);

    if (count > 0) {
        assert_int_equal(buf_add(seen, target_request(target, count - 1)), 0);
    }
}

/* What its target saw and what came back, as text. */
static void carry_out(struct world *world, const struct kind *kind, struct buf *ret_seen)
{
    struct delivery delivery = delivery_of(world, kind);
    size_t before = requests_of(world);

    buf_init(ret_seen, RIG_BODY_MAX);
    buf_clear(&world->streamed);
    rig_carry_out(&world->rig, &delivery);
    assert_int_equal(delivery.outcome.status, kind->status);
    assert_int_equal(buf_addf(ret_seen, "sent %d status %d sends %d requests %d: %s\n",
                              (int)delivery.outcome.sent, delivery.outcome.status,
                              (int)delivery.sends, (int)(requests_of(world) - before),
                              delivery.message),
                     0);
    if (delivery.sends > 0) {
        add_last_request(ret_seen, world->targets[kind->place]);
    }
    if (delivery.sends > 1) { /* where it was redirected to */
        add_last_request(ret_seen, world->targets[PLAIN]);
    }
    assert_int_equal(buf_add(ret_seen, buf_span(&delivery.response_headers)), 0);
    assert_int_equal(buf_add(ret_seen, buf_span(&delivery.response_body)), 0);
    assert_int_equal(buf_add(ret_seen, buf_span(&world->streamed)), 0);
    delivery_done(&delivery);
}

static void carry_out_anew(struct world *world, const struct kind *kind, struct buf *ret_seen)
{
    world_open(world, 1);
    carry_out(world, kind, ret_seen);
    rig_close(&world->rig);
}

static void a_delivery_goes_as_on_a_new_handle_whatever_was_before_it(void **state)
{
    (void)state;
    struct world *world = world_new();
    uint64_t rounds = harness_size("DARUMA_HANDLE_ROUNDS", 300), seed = harness_seed();
    struct daruma_dice dice = daruma_dice_seed(seed);
    struct buf wanted[KINDS], seen;
    size_t before = 0;

    for (size_t i = 0; i < KINDS; i++) {
        carry_out_anew(world, &kinds[i], &wanted[i]);
    }
    world_open(world, 1);
    for (uint64_t i = 0; i < rounds; i++) {
        size_t n = (size_t)(daruma_dice_roll(&dice) % KINDS);
        if (kinds[n].place == SILENT && i % 16 != 0) {
            continue; /* it takes its time */
        }
        carry_out(world, &kinds[n], &seen);
        if (!span_equal(buf_span(&seen), buf_span(&wanted[n]))) {
            fail_msg("seed %llu, round %llu: kind %zu after kind %zu:\n%.*s\nand not\n%.*s",
                     (unsigned long long)seed, (unsigned long long)i, n, before, (int)seen.len,
                     seen.at, (int)wanted[n].len, wanted[n].at);
        }
        before = n;
        buf_done(&seen);
    }
    rig_close(&world->rig);
    for (size_t i = 0; i < KINDS; i++) {
        buf_done(&wanted[i]);
    }
    world_free(world);
}

/* libcurl 7.88 appends such a line to the last field of the answer before, which it has freed; only a
 * sanitizer sees that for sure. */
static void a_folded_line_goes_on_with_nothing_of_the_answer_before(void **state)
{
    (void)state;
    static const struct target_step steps[] = {
        TARGET_READS,
        TARGET_WRITES("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Last: some text\r\n\r\nok"),
        TARGET_READS,
        TARGET_WRITES("HTTP/1.1 200 OK\r\n folded: first\r\nContent-Length: 2\r\n\r\nok"),
        TARGET_HOLDS};
    struct rig rig = {0};
    RIG_OPEN(&rig, steps);

    for (int i = 0; i < 20; i++) {
        struct delivery first = rig_delivery(&rig, "POST"), folded = first;
        rig_carry_out(&rig, &first);
        rig_expect(&first, TASK_SENT_YES, "");
        rig_carry_out(&rig, &folded);
        rig_expect(&folded, TASK_SENT_MAYBE, "answer is not HTTP: it begins with a folded line");
        delivery_done(&first);
    }
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_streamed_answer_leaves_no_time_out_on_its_handle),
        cmocka_unit_test(a_delivery_goes_as_on_a_new_handle_whatever_was_before_it),
        cmocka_unit_test(a_folded_line_goes_on_with_nothing_of_the_answer_before),
    };

    return HARNESS_RUN(argc, argv, tests);
}
