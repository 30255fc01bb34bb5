/* SPDX-License-Identifier: MIT
 *
 * providers: the way of one attempt through several, to the millisecond.
 */
#include "harness.h"

#include "newsroom.h"

#include <stdio.h>
#include <string.h>

#define RATE  "{\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"slow\"}}"
#define QUOTA "{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"pay\"}}"

#define NO_ACCESS                                                                                  \
    "{\"error\":{\"code\":\"model_not_found\",\"message\":\"Project does not have access\"}}"
#define FILTERED                                                                                   \
    "{\"choices\":[{\"finish_reason\":\"content_filter\",\"message\":{\"content\":\"half\"}}]}"
#define REFUSED                                                                                    \
    "{\"choices\":[{\"message\":{\"content\":null,\"refusal\":\"I cannot help with that\"}}]}"
#define BROKEN_OFF                                                                                 \
    "{\"choices\":[{\"finish_reason\":\"error\",\"message\":{\"content\":\"half\"}}]}"

static struct newsroom room;

static void expect_legs(const struct delivery *delivery, const char *expected)
{
    char seen[256] = "";

    for (size_t i = 0; i < delivery->leg_count; i++) {
        const struct leg *leg = &delivery->legs[i];
        size_t used = strlen(seen);
        snprintf(seen + used, sizeof seen - used, "%s%.*s:%s:%d", i > 0 ? " " : "",
                 SPAN_ARGS(leg->target),
                 leg->error_class < 0 ? "ok"
                                      : daruma_class_text((enum daruma_class)leg->error_class),
                 leg->status);
    }
    assert_string_equal(seen, expected);
}

static void a_success_is_one_delivery(void **state)
{
    (void)state;
    room_open(&room);
    struct delivery delivery = room_carry_out(&room);
    assert_int_equal(delivery.outcome.status, 200);
    assert_int_equal(delivery.outcome.sent, TASK_SENT_YES);
    assert_true(span_is(delivery.settled_by, "openai"));
    assert_true(span_is(buf_span(&delivery.response_body),
                        "{\"summary\":\"short\",\"provider\":\"openai\",\"model\":\"m\","
                        "\"usage\":{\"prompt_tokens\":1}}"));
    assert_true(span_is(buf_span(&delivery.response_headers), "content-type: application/json\n"));
    expect_legs(&delivery, "openai:ok:200");
    assert_non_null(strstr(room.last_headers, "Idempotency-Key: task-1-openai\n"));
    delivery_done(&delivery);
    room_close(&room);
}

static void what_has_no_list_goes_straight_on(void **state)
{
    struct delivery plain;

    (void)state;
    room_open(&room);
    plain = room_delivery(&room);
    plain.fallback = NULL;
    plain.url = SPAN("claude/anything");
    plain.headers = SPAN("");
    room_send(&room, &plain);
    deliver_pull(room.deliver, &plain);
    assert_int_equal(room.pull_count, 1);
    assert_true(room_step(&room));
    assert_int_equal(room.done_count, 1);
    assert_int_equal(plain.leg_count, 0);
    delivery_done(&plain);
    room_close(&room);
}

static void each_failure_has_its_way_on(void **state) /* D6.1, D6.2 */
{
    static const struct {
        struct room_answer answer;
        const char *legs;
    } rows[] = {
        {{.status = 429, .body = RATE}, /* its other key is tried first */
         "openai:rate_limited:429 openai:rate_limited:429 claude:ok:200"},
        {{.status = 429, .body = QUOTA}, "openai:quota:429 openai:quota:429 claude:ok:200"},
        {{.status = 401}, "openai:auth:401 openai:auth:401 claude:ok:200"},
        {{.status = 503}, "openai:transient:503 claude:ok:200"},
        {{.status = 0}, "openai:transient:0 claude:ok:200"},
        {{.status = 200, .body = "{}"}, "openai:transient:200 claude:ok:200"},
        {{.status = 200, .body = "{\"choices\":[{\"message\":{\"content\":\" \\n\"}}]}"},
         "openai:transient:200 claude:ok:200"},
        {{.status = 200, .body = "{\"choices\":[{\"message\":{\"content\":\"\xff\"}}]}"},
         "openai:transient:200 claude:ok:200"},
        {{.cannot_begin = true}, "openai:transient:0 claude:ok:200"},
        {{.status = 500, .headers = "x-should-retry: false\n"}, "openai:invalid:500 claude:ok:200"},
        {{.status = 400}, "openai:invalid:400 claude:ok:200"}, /* its own rules, not everybody's */
        {{.status = 404}, "openai:invalid:404 claude:ok:200"},
        {{.status = 413}, "openai:invalid:413 claude:ok:200"},
        {{.status = 422}, "openai:invalid:422 claude:ok:200"},
        {{.status = 301}, "openai:invalid:301 claude:ok:200"},
        {{.status = 403, .body = "<html>"}, "openai:transient:403 claude:ok:200"},
        {{.status = 403, .body = NO_ACCESS}, "openai:invalid:403 openai:invalid:403 claude:ok:200"},
        {{.status = 200, .body = FILTERED}, "openai:invalid:200 claude:ok:200"},
        {{.status = 200, .body = REFUSED}, "openai:invalid:200 claude:ok:200"},
        {{.status = 200, .body = BROKEN_OFF}, "openai:transient:200 claude:ok:200"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        room_open(&room);
        room.script[ROOM_OPENAI] = rows[i].answer;
        struct delivery delivery = room_carry_out(&room);
        expect_legs(&delivery, rows[i].legs);
        assert_false(delivery.is_uncounted);
        delivery_done(&delivery);
        room_close(&room);
    }
}

static void when_all_fail_the_policy_is_told_every_class(void **state) /* D6.3 */
{
    (void)state;
    room_open(&room);
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 500};
    room.script[ROOM_CLAUDE] = (struct room_answer){.status = 429, .hint_ms = 90000};
    struct delivery delivery = room_carry_out(&room);
    assert_int_equal(delivery.outcome.error_class, DARUMA_CLASS_RATE_LIMITED);
    assert_int_equal(delivery.outcome.also_classes,
                     1u << DARUMA_CLASS_RATE_LIMITED | 1u << DARUMA_CLASS_TRANSIENT);
    assert_int_equal(delivery.outcome.hint_ms, 90000);
    assert_true(delivery.outcome.has_hint);
    delivery_done(&delivery);
    room_close(&room);
}

static void the_earliest_moment_that_was_named_is_the_hint(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) { /* of two that were called, whichever it is */
        room_open(&room);
        room.settings[ROOM_OPENAI].key_count = 1;
        room.script[i] = (struct room_answer){.status = 429, .hint_ms = 20000};
        room.script[1 - i] = (struct room_answer){.status = 429, .hint_ms = 7000};
        struct delivery both = room_carry_out(&room);
        assert_int_equal(both.outcome.hint_ms, 7000);
        delivery_done(&both);
        room_close(&room);
    }
    room_open(&room);
    room.settings[ROOM_OPENAI].key_count = 1;
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 429, .hint_ms = 60000};
    room.script[ROOM_CLAUDE] = (struct room_answer){.status = 500};
    struct delivery delivery = room_carry_out(&room);
    delivery_done(&delivery);
    room_pass(&room, 20000);
    room.script[ROOM_CLAUDE] = (struct room_answer){.status = 429, .hint_ms = 50000};
    delivery = room_carry_out(&room); /* openai is not even called: 40 s are left of its 60 */
    expect_legs(&delivery, "claude:rate_limited:429");
    assert_int_equal(delivery.outcome.hint_ms, 40000);
    delivery_done(&delivery);
    room_close(&room);
}

static void nobody_called_is_no_attempt(void **state)
{
    (void)state;
    room_open(&room);
    for (int i = 0; i < 2; i++) {
        room.script[i] = (struct room_answer){.status = 429, .hint_ms = 600000};
    }
    struct delivery delivery = room_carry_out(&room);
    delivery_done(&delivery);
    size_t called = room.called[ROOM_OPENAI] + room.called[ROOM_CLAUDE];
    delivery = room_carry_out(&room);
    assert_true(delivery.is_uncounted);
    assert_int_equal(delivery.leg_count, 0);
    assert_int_equal(delivery.outcome.sent, TASK_SENT_NO);
    assert_true(delivery.outcome.hint_ms >= 600000 && delivery.outcome.hint_ms <= 660000);
    assert_int_equal(room.called[ROOM_OPENAI] + room.called[ROOM_CLAUDE], called);
    delivery_done(&delivery);
    delivery = room_delivery(&room); /* a person's word */
    delivery.is_forced = true;
    room.script[ROOM_CLAUDE] = (struct room_answer){.status = 200};
    room_send(&room, &delivery);
    while (room_step(&room)) {
    }
    assert_true(span_is(delivery.settled_by, "claude"));
    delivery_done(&delivery);
    room_close(&room);
}

static void a_far_away_date_is_looked_at_daily(void **state) /* D2.3 */
{
    (void)state;
    room_open(&room);
    room.fallback.provider_count = 1;
    room.settings[ROOM_OPENAI].key_count = 1;
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 429, .hint_ms = INT64_C(864000000)};
    struct delivery delivery = room_carry_out(&room);
    assert_true(delivery.outcome.hint_ms ==
                INT64_C(864000000)); /* the policy's hint_cap bounds it */
    delivery_done(&delivery);
    delivery = room_carry_out(&room);
    assert_int_equal(delivery.outcome.hint_ms, PROVIDERS_PUT_OFF_MAX_MS);
    delivery_done(&delivery);
    room_close(&room);
}

static void a_short_wait_is_waited_and_a_long_one_is_not(void **state)
{
    (void)state;
    room_open(&room);
    room.fallback.provider_count = 1;
    room.settings[ROOM_OPENAI].key_count = 1;
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 429, .hint_ms = 1500};
    struct delivery delivery = room_carry_out(&room);
    int64_t before_ms = room.now_ms;
    delivery_done(&delivery);
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 200};
    delivery = room_carry_out(&room);
    assert_int_equal(room.now_ms - before_ms, 1500);
    expect_legs(&delivery, "openai:ok:200");
    delivery_done(&delivery);
    room_pass(&room, 10000);
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 429, .hint_ms = 2001};
    delivery = room_carry_out(&room);
    delivery_done(&delivery);
    before_ms = room.now_ms;
    delivery = room_carry_out(&room);
    assert_true(delivery.is_uncounted);
    assert_int_equal(room.now_ms, before_ms);
    delivery_done(&delivery);
    room_close(&room);
}

static void one_probe_and_the_others_wait_for_it(void **state)
{
    struct delivery deliveries[40];

    (void)state;
    room_open(&room);
    room.fallback.provider_count = 1;
    room.settings[ROOM_OPENAI].key_count = 1;
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 429, .hint_ms = 1000};
    struct delivery first = room_carry_out(&room);
    delivery_done(&first);
    room_pass(&room, 1000);
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 200, .takes_ms = 500};
    for (size_t i = 0; i < 40; i++) {
        deliveries[i] = room_delivery(&room);
        room_send(&room, &deliveries[i]);
    }
    room_pass(&room, 499);
    assert_int_equal(room.called[ROOM_OPENAI], 2); /* the first ever, and the probe */
    room_pass(&room, 250);
    assert_int_equal(room.called[ROOM_OPENAI], 3); /* the ramp has begun */
    while (room_step(&room)) {
    }
    size_t put_off = 0;
    for (size_t i = 0; i < 40; i++) {
        put_off += deliveries[i].is_uncounted;
        assert_true(deliveries[i].is_uncounted || deliveries[i].outcome.status == 200);
        delivery_done(&deliveries[i]);
    }
    assert_true(put_off > 0 && put_off < 40); /* two seconds are enough for some */
    assert_int_equal(room.called[ROOM_OPENAI], 41 - put_off);
    room_close(&room);
}

static void a_refused_key_is_set_aside_and_told(void **state) /* I10 */
{
    (void)state;
    room_open(&room);
    room.script[ROOM_OPENAI] =
        (struct room_answer){.status = 401, .body = "{\"error\":\"" ROOM_KEY "\"}"};
    struct delivery delivery = room_carry_out(&room);
    expect_legs(&delivery, "openai:auth:401 openai:auth:401 claude:ok:200");
    assert_int_equal(room.alert_count, 2);
    assert_true(span_is(room.alert.settings->name, "openai"));
    assert_int_equal(room.alert.key, 2);
    assert_int_equal(strlen(room.alert.fingerprint), PROVIDERS_FINGERPRINT_LEN);
    delivery_done(&delivery);
    delivery = room_carry_out(&room);
    expect_legs(&delivery, "claude:ok:200");
    delivery_done(&delivery);
    struct provider_stats stats;
    providers_stats(room.providers, ROOM_OPENAI, &stats);
    assert_int_equal(stats.keys_dead, 2);
    room_pass(&room, PROVIDERS_KEY_REST_MS); /* it is tried again, and works */
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 200};
    delivery = room_carry_out(&room);
    expect_legs(&delivery, "openai:ok:200");
    providers_stats(room.providers, ROOM_OPENAI, &stats);
    assert_int_equal(stats.keys_dead, 1);
    delivery_done(&delivery);
    room_close(&room);
}

static void keys_take_turns_and_a_limited_one_rests(void **state)
{
    char used[5] = "";

    (void)state;
    room_open(&room);
    for (int i = 0; i < 2; i++) {
        struct delivery delivery = room_carry_out(&room);
        used[i] = room.last_key;
        delivery_done(&delivery);
    }
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 429, .hint_ms = 5000};
    room.fallback.provider_count = 1;
    struct delivery delivery = room_carry_out(&room);
    expect_legs(&delivery, "openai:rate_limited:429 openai:rate_limited:429");
    delivery_done(&delivery);
    assert_memory_equal(used, "12", 2);
    room_close(&room);
}

static void the_order_can_rotate(void **state)
{
    static const struct {
        enum fallback_order order;
        const char *called;
    } rows[] = {
        {FALLBACK_FIXED, "ococococ"}, {FALLBACK_STICKY, "occcc"}, {FALLBACK_ROUND_ROBIN, "occtoc"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        room_open(&room);
        room.fallback.provider_count = 3;
        room.fallback.order = rows[i].order;
        room.settings[ROOM_OPENAI].key_count = 1;
        room.script[ROOM_OPENAI] = (struct room_answer){.status = 500};
        for (int call = 0; call < 4; call++) {
            struct delivery delivery = room_carry_out(&room);
            delivery_done(&delivery);
        }
        assert_string_equal(room.order, rows[i].called);
        room_close(&room);
    }
}

static void a_tasks_own_time_is_shared(void **state)
{
    (void)state;
    room_open(&room);
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 500, .takes_ms = 400};
    struct delivery delivery = room_delivery(&room);
    delivery.timeout_ms = 3000;
    room_send(&room, &delivery);
    assert_int_equal(room.last_timeout_ms, 1500);
    room_pass(&room, 400);
    assert_int_equal(room.last_timeout_ms, 2600);
    while (room_step(&room)) {
    }
    delivery_done(&delivery);
    room_close(&room);
}

static void a_cancelled_one_comes_back_once(void **state)
{
    (void)state;
    room_open(&room);
    room.script[ROOM_OPENAI].takes_ms = 1000;
    struct delivery calling = room_delivery(&room);
    room_send(&room, &calling);
    deliver_cancel(room.deliver, &calling);
    assert_int_equal(room.done_count, 0);
    while (room_step(&room)) {
    }
    assert_int_equal(room.done_count, 1);
    expect_legs(&calling, "openai:transient:0");
    delivery_done(&calling);
    for (int i = 0; i < 2; i++) {
        room.script[i] = (struct room_answer){.status = 429, .hint_ms = 1000};
    }
    struct delivery limited = room_carry_out(&room);
    delivery_done(&limited);
    struct delivery waiting = room_delivery(&room);
    room_send(&room, &waiting);
    deliver_cancel(room.deliver, &waiting);
    assert_int_equal(room.done_count, 2);
    assert_true(room_step(&room));
    assert_int_equal(room.done_count, 3);
    assert_int_equal(waiting.outcome.sent, TASK_SENT_NO);
    delivery_done(&waiting);
    struct delivery dropped = room_delivery(&room); /* closing drops what is under way */
    room.script[ROOM_OPENAI].takes_ms = 5000;
    room_pass(&room, 5000);
    room_send(&room, &dropped);
    room_close(&room);
    delivery_done(&dropped);
}

static void what_is_no_article_is_invalid_and_calls_nobody(void **state)
{
    (void)state;
    room_open(&room);
    struct delivery delivery = room_delivery(&room);
    delivery.body = SPAN("{\"article\":{\"id\":1}}");
    room_send(&room, &delivery);
    assert_true(room_step(&room));
    assert_int_equal(delivery.outcome.error_class, DARUMA_CLASS_INVALID);
    assert_int_equal(room.called[ROOM_OPENAI], 0);
    assert_non_null(strstr(delivery.message, "article.title"));
    delivery_done(&delivery);
    room_close(&room);
}

static void answers_of_failures_are_kept_without_cookies_and_keys(void **state) /* I10 */
{
    (void)state;
    room_open(&room);
    room.fallback.provider_count = 1;
    room.script[ROOM_OPENAI] =
        (struct room_answer){.status = 400,
                             .body = "{\"error\":{\"message\":\"too long\"}}",
                             .headers = "Set-Cookie: a=b\nContent-Type: x\nx-request-id: r\n"};
    struct delivery delivery = room_carry_out(&room);
    assert_int_equal(delivery.outcome.status, 400);
    assert_true(room_has(buf_span(&delivery.response_body), "too long"));
    assert_true(
        span_is(buf_span(&delivery.response_headers), "content-type: x\nx-request-id: r\n"));
    delivery_done(&delivery);
    room.script[ROOM_OPENAI].body = "{\"error\":{\"message\":\"" ROOM_KEY_2 "\"}}";
    delivery = room_carry_out(&room);
    assert_int_equal(delivery.response_body.len, 0);
    assert_null(strstr(delivery.message, "sk-room"));
    delivery_done(&delivery);
    room.script[ROOM_OPENAI] = (struct room_answer){
        .status = 500, .body = "{}", .headers = "x-request-id: " ROOM_KEY "\ncontent-type: x\n"};
    delivery = room_carry_out(&room);
    assert_int_equal(delivery.response_headers.len, 0);
    assert_int_equal(delivery.response_body.len, 0);
    delivery_done(&delivery);
    room_close(&room);
}

static void an_answer_that_repeats_a_secret_is_no_summary(void **state) /* I10 */
{
    static const char *const bodies[] = {
        "{\"choices\":[{\"message\":{\"content\":\"your key is " ROOM_KEY "\"}}]}",
        "{\"choices\":[{\"message\":{\"content\":\"\\u0073k-room-\\u0073ecret-key-0001\"}}]}",
        "{\"choices\":[{\"message\":{\"content\":\"\"},\"finish_reason\":\"" ROOM_KEY "\"}]}",
        "{\"choices\":[{\"message\":{\"content\":\"x\"}}],\"model\":\"" ROOM_KEY "\"}",
        "{\"choices\":[{\"message\":{\"content\":\"x\"}}],\"usage\":{\"by\":\"" ROOM_KEY "\"}}",
        "{\"choices\":[{\"message\":{\"content\":\"the token of the proxy-0123456789\"}}]}",
        ("echo: Authorization: Bearer " ROOM_KEY),
    };

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        room_open(&room);
        room.fallback.provider_count = 1;
        room.settings[ROOM_OPENAI].headers = SPAN("X-Proxy-Token: proxy-0123456789\n");
        room.script[ROOM_OPENAI] = (struct room_answer){.status = 200, .body = bodies[i]};
        struct delivery delivery = room_carry_out(&room);
        expect_legs(&delivery, "openai:transient:200");
        assert_int_equal(delivery.outcome.status, 502);
        assert_int_equal(delivery.response_body.len, 0);
        assert_string_equal(delivery.message, "HTTP 200, which repeats a secret: not kept");
        assert_string_equal(delivery.legs[0].message, delivery.message);
        delivery_done(&delivery);
        room_close(&room);
    }
}

static void refused_by_every_provider_is_the_end(void **state) /* D6, the resolution */
{
    (void)state;
    room_open(&room);
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 400};
    room.script[ROOM_CLAUDE] = (struct room_answer){.status = 413};
    struct delivery delivery = room_carry_out(&room);
    expect_legs(&delivery, "openai:invalid:400 claude:invalid:413");
    assert_int_equal(delivery.outcome.error_class, DARUMA_CLASS_INVALID);
    assert_int_equal(delivery.outcome.also_classes, 1u << DARUMA_CLASS_INVALID);
    assert_false(delivery.outcome.has_hint);
    delivery_done(&delivery);
    room_close(&room);
}

/* A key that is refused here does not end an article that only has to wait for the other one. */
static void a_refused_key_does_not_end_what_waits_for_another(void **state)
{
    (void)state;
    room_open(&room);
    room.settings[ROOM_OPENAI].key_count = 1;
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 429, .hint_ms = 60000};
    struct delivery delivery = room_carry_out(&room);
    delivery_done(&delivery);
    room.script[ROOM_CLAUDE] = (struct room_answer){.status = 401};
    delivery = room_carry_out(&room);
    expect_legs(&delivery, "claude:auth:401 openai:rate_limited:0");
    assert_int_equal(delivery.outcome.error_class, DARUMA_CLASS_RATE_LIMITED);
    assert_int_equal(delivery.outcome.hint_ms, 60000);
    delivery_done(&delivery);
    room_close(&room);
}

/* What keeps the second provider from being asked decides whether the article waits for it. */
static void an_article_that_one_refuses_waits_for_the_others(void **state)
{
    static const struct {
        struct room_answer before; /* what shut the other one */
        enum daruma_class error_class;
        int64_t hint_ms;
    } rows[] = {
        {{.status = 429, .hint_ms = 60000}, DARUMA_CLASS_RATE_LIMITED, 60000},
        {{.status = 503, .hint_ms = 30000}, DARUMA_CLASS_TRANSIENT, 30000},
        {{.status = 401}, DARUMA_CLASS_AUTH, PROVIDERS_KEY_REST_MS},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char legs[64];
        room_open(&room);
        room.settings[ROOM_OPENAI].key_count = 1;
        room.script[ROOM_OPENAI] = rows[i].before;
        struct delivery first = room_carry_out(&room);
        delivery_done(&first);
        room.script[ROOM_CLAUDE] = (struct room_answer){.status = 400};
        struct delivery delivery = room_carry_out(&room);
        snprintf(legs, sizeof legs, "claude:invalid:400 openai:%s:0",
                 daruma_class_text(rows[i].error_class));
        expect_legs(&delivery, legs); /* what it waits for has a row too */
        assert_int_equal(room.called[ROOM_OPENAI], 1);
        assert_int_equal(delivery.outcome.error_class, rows[i].error_class);
        assert_int_equal(delivery.outcome.also_classes,
                         1u << DARUMA_CLASS_INVALID | 1u << rows[i].error_class);
        assert_int_equal(delivery.outcome.hint_ms, rows[i].hint_ms);
        delivery_done(&delivery);
        room_close(&room);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_success_is_one_delivery),
        cmocka_unit_test(what_has_no_list_goes_straight_on),
        cmocka_unit_test(each_failure_has_its_way_on),
        cmocka_unit_test(when_all_fail_the_policy_is_told_every_class),
        cmocka_unit_test(the_earliest_moment_that_was_named_is_the_hint),
        cmocka_unit_test(nobody_called_is_no_attempt),
        cmocka_unit_test(a_far_away_date_is_looked_at_daily),
        cmocka_unit_test(a_short_wait_is_waited_and_a_long_one_is_not),
        cmocka_unit_test(one_probe_and_the_others_wait_for_it),
        cmocka_unit_test(a_refused_key_is_set_aside_and_told),
        cmocka_unit_test(keys_take_turns_and_a_limited_one_rests),
        cmocka_unit_test(the_order_can_rotate),
        cmocka_unit_test(a_tasks_own_time_is_shared),
        cmocka_unit_test(a_cancelled_one_comes_back_once),
        cmocka_unit_test(what_is_no_article_is_invalid_and_calls_nobody),
        cmocka_unit_test(answers_of_failures_are_kept_without_cookies_and_keys),
        cmocka_unit_test(an_answer_that_repeats_a_secret_is_no_summary),
        cmocka_unit_test(refused_by_every_provider_is_the_end),
        cmocka_unit_test(an_article_that_one_refuses_waits_for_the_others),
        cmocka_unit_test(a_refused_key_does_not_end_what_waits_for_another),
    };

    return HARNESS_RUN(argc, argv, tests);
}
