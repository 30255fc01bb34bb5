/* SPDX-License-Identifier: MIT
 *
 * providers: one that hangs, one that cannot work until an operator does something, one article that
 * must not stop the others, and one provider that must not keep the next from its turn.
 */
#include "harness.h"

#include "newsroom.h"

#include <stdio.h>
#include <string.h>

#define NO_MODEL "{\"error\":{\"code\":\"model_not_found\",\"message\":\"no\"}}"
#define DISABLED                                                                                   \
    "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"This "        \
    "organization has been disabled.\"}}"
#define TOO_LARGE                                                                                  \
    "{\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"Request too large for m on "       \
    "tokens per min "                                                                              \
    "(TPM): Limit 30000, Requested 36278.\"}}"
#define QUOTA "{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"pay\"}}"

static struct newsroom room;

static void carry_out_many(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct delivery delivery = room_carry_out(&room);
        delivery_done(&delivery);
    }
}

static struct provider_stats stats_of(int provider)
{
    struct provider_stats stats;

    providers_stats(room.providers, (size_t)provider, &stats);
    return stats;
}

static const struct room_answer hangs = {.is_timeout = true, .takes_ms = PROVIDER_TIMEOUT_MS};

static void a_provider_that_hangs_is_left_alone(void **state)
{
    (void)state;
    room_open(&room);
    room.script[ROOM_OPENAI] = hangs;
    carry_out_many(PROVIDERS_SILENT_AFTER);
    assert_int_equal(room.called[ROOM_OPENAI], PROVIDERS_SILENT_AFTER);
    assert_int_equal(room.alert_count, 1);
    assert_int_equal(room.alert.trouble, PROVIDER_TROUBLE_SILENT);
    assert_int_equal(room.alert.rest_ms, PROVIDERS_SILENT_REST_MS);
    assert_int_equal(stats_of(ROOM_OPENAI).troubles, 1u << PROVIDER_TROUBLE_SILENT);
    assert_int_equal(stats_of(ROOM_OPENAI).closed_ms, PROVIDERS_SILENT_REST_MS);

    int64_t before_ms = room.now_ms;
    carry_out_many(100); /* the second one takes no time */
    assert_int_equal(room.now_ms, before_ms);
    assert_int_equal(room.called[ROOM_OPENAI], PROVIDERS_SILENT_AFTER);
    assert_int_equal(room.called[ROOM_CLAUDE], PROVIDERS_SILENT_AFTER + 100);
    room_close(&room);
}

/* Each rest is twice the last; one call tries it; when that is answered all is well. */
static void a_provider_that_hangs_is_tried_by_one_call(void **state)
{
    static const int64_t rests_ms[] = {5000, 10000, 20000, 40000, 60000, 60000};

    (void)state;
    room_open(&room);
    room.script[ROOM_OPENAI] = hangs;
    carry_out_many(PROVIDERS_SILENT_AFTER);
    for (size_t i = 0; i < sizeof rests_ms / sizeof *rests_ms; i++) {
        size_t called = room.called[ROOM_OPENAI];
        room_pass(&room, rests_ms[i] - 1);
        carry_out_many(1);
        assert_int_equal(room.called[ROOM_OPENAI], called);
        room_pass(&room, 1);
        struct delivery trial = room_delivery(&room), other = room_delivery(&room);
        room_send(&room, &trial);
        room_send(&room, &other); /* while it is tried, by whichever key, the others go on */
        room_pass(&room, PROVIDER_TIMEOUT_MS);
        assert_int_equal(room.called[ROOM_OPENAI], called + 1);
        assert_true(span_is(trial.settled_by, "claude") && span_is(other.settled_by, "claude"));
        delivery_done(&trial);
        delivery_done(&other);
    }
    assert_int_equal(room.alert_count, 1); /* told once */
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 200};
    room_pass(&room, PROVIDERS_SILENT_REST_MAX_MS);
    struct delivery back = room_carry_out(&room);
    assert_true(span_is(back.settled_by, "openai"));
    delivery_done(&back);
    assert_int_equal(stats_of(ROOM_OPENAI).troubles, 0);
    room_close(&room);
}

static void only_time_outs_in_a_row_count(void **state)
{
    static const struct room_answer between[] = {{.status = 500}, {.status = 429}, {.status = 400}};

    (void)state;
    for (size_t i = 0; i < sizeof between / sizeof *between; i++) {
        room_open(&room);
        for (int round = 0; round < 3; round++) {
            room.script[ROOM_OPENAI] = hangs;
            carry_out_many(PROVIDERS_SILENT_AFTER - 1);
            room.script[ROOM_OPENAI] = between[i];
            carry_out_many(1);
        }
        assert_int_equal(room.alert_count, 0);
        assert_int_equal(stats_of(ROOM_OPENAI).closed_ms, 0);
        room_close(&room);
    }
    room_open(&room); /* a refused connection costs no test any time */
    room.script[ROOM_OPENAI] = (struct room_answer){0};
    carry_out_many(20);
    assert_int_equal(room.called[ROOM_OPENAI], 20);
    room_close(&room);
}

static void a_task_that_gives_little_time_does_not_stop_the_others(void **state)
{
    (void)state;
    room_open(&room);
    room.script[ROOM_OPENAI] = (struct room_answer){.is_timeout = true, .takes_ms = 5};
    for (int i = 0; i < 20; i++) {
        struct delivery hasty = room_delivery(&room);
        hasty.timeout_ms = 10;
        room_send(&room, &hasty);
        while (room_step(&room)) {
        }
        delivery_done(&hasty);
    }
    assert_int_equal(room.called[ROOM_OPENAI], 20);
    assert_int_equal(stats_of(ROOM_OPENAI).closed_ms, 0);
    room_close(&room);
}

static void a_front_that_runs_out_of_time_counts_as_hanging(void **state)
{
    (void)state;
    room_open(&room);
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 504, .takes_ms = 60000};
    carry_out_many(10);
    assert_int_equal(room.called[ROOM_OPENAI], PROVIDERS_SILENT_AFTER);
    room_close(&room);
}

static void what_only_an_operator_can_mend_is_told_once(void **state)
{
    static const struct {
        struct room_answer answer;
        enum provider_trouble trouble;
    } rows[] = {
        {{.status = 404, .body = NO_MODEL}, PROVIDER_TROUBLE_MODEL},
        {{.status = 404, .body = "<html>"}, PROVIDER_TROUBLE_ADDRESS},
        {{.status = 405}, PROVIDER_TROUBLE_ADDRESS},
        {{.status = 308}, PROVIDER_TROUBLE_ADDRESS},
        {{.is_forbidden = true}, PROVIDER_TROUBLE_ADDRESS},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        room_open(&room);
        room.script[ROOM_OPENAI] = rows[i].answer;
        carry_out_many(3);
        assert_int_equal(room.called[ROOM_OPENAI], 3); /* an operator may mend it any moment */
        assert_int_equal(room.alert_count, 1);
        assert_int_equal(room.alert.trouble, rows[i].trouble);
        assert_int_equal(room.alert.key, 0);
        assert_int_equal(room.alert.status, rows[i].answer.status);
        assert_true(span_is(room.alert.settings->name, "openai"));
        assert_int_equal(stats_of(ROOM_OPENAI).troubles, 1u << rows[i].trouble);
        room.script[ROOM_OPENAI] = (struct room_answer){.status = 200};
        carry_out_many(1);
        assert_int_equal(stats_of(ROOM_OPENAI).troubles, 0);
        room.script[ROOM_OPENAI] = rows[i].answer;
        carry_out_many(2);
        assert_int_equal(room.alert_count, 2); /* it was well in between */
        room_close(&room);
    }
}

static void a_disabled_organisation_sets_its_keys_aside(void **state)
{
    (void)state;
    room_open(&room);
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 400, .body = DISABLED};
    carry_out_many(3);
    assert_int_equal(room.called[ROOM_OPENAI], 2); /* each key once */
    assert_int_equal(room.alert_count, 2);
    assert_int_equal(room.alert.trouble, PROVIDER_TROUBLE_ACCOUNT);
    assert_int_equal(stats_of(ROOM_OPENAI).keys_dead, 2);
    room_pass(&room, PROVIDERS_KEY_REST_MS);
    carry_out_many(3);
    assert_int_equal(room.called[ROOM_OPENAI], 4); /* tried again, still so, not told again */
    assert_int_equal(room.alert_count, 2);
    room_close(&room);
}

static void one_article_does_not_stop_the_others(void **state)
{
    static const struct room_answer poison[] = {
        {.status = 403, .body = "<html>Sorry, you have been blocked</html>"},
        {.status = 403, .body = "<html>", .hint_ms = 60000},
        {.status = 403, .body = "{\"error\":{\"message\":\"flagged\",\"code\":403}}"},
        {.status = 429, .body = TOO_LARGE, .hint_ms = 60000},
        {.status = 413, .hint_ms = 60000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof poison / sizeof *poison; i++) {
        room_open(&room);
        room.fallback.provider_count = 1;
        room.settings[ROOM_OPENAI].key_count = 1;
        room.script[ROOM_OPENAI] = poison[i];
        carry_out_many(1);
        assert_int_equal(room.alert_count, 0);
        assert_int_equal(stats_of(ROOM_OPENAI).closed_ms, 0);
        room.script[ROOM_OPENAI] = (struct room_answer){.status = 200};
        struct delivery good = room_carry_out(&room);
        assert_int_equal(good.outcome.status, 200);
        assert_false(good.is_uncounted);
        delivery_done(&good);
        room_close(&room);
    }
}

static void a_quota_without_a_date_is_asked_last(void **state)
{
    (void)state;
    room_open(&room);
    room.settings[ROOM_OPENAI].key_count = 1;
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 429, .body = QUOTA};
    carry_out_many(1000);
    assert_int_equal(room.called[ROOM_OPENAI], 1);
    assert_int_equal(room.called[ROOM_CLAUDE], 1000);
    assert_int_equal(stats_of(ROOM_OPENAI).keys_resting, 1);
    room_pass(&room, PROVIDERS_QUOTA_AVOID_MS);
    carry_out_many(2);
    assert_int_equal(room.called[ROOM_OPENAI], 2);
    room.script[ROOM_CLAUDE] = (struct room_answer){.status = 500}; /* none else is left: asked */
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 200}; /* paid meanwhile */
    struct delivery delivery = room_carry_out(&room);
    assert_true(span_is(delivery.settled_by, "openai"));
    delivery_done(&delivery);
    room.script[ROOM_CLAUDE] = (struct room_answer){.status = 200};
    delivery = room_carry_out(&room);
    assert_true(span_is(delivery.settled_by, "openai")); /* and in its place again */
    delivery_done(&delivery);
    assert_int_equal(stats_of(ROOM_OPENAI).keys_resting, 0);
    room_close(&room);
}

/* The policy alone says when an article whose providers have no quota left is tried again. */
static void a_quota_without_a_date_puts_nothing_off(void **state)
{
    (void)state;
    room_open(&room);
    for (int i = 0; i < 2; i++) {
        room.script[i] = (struct room_answer){.status = 402};
    }
    for (int i = 0; i < 3; i++) {
        struct delivery delivery = room_carry_out(&room);
        assert_false(delivery.is_uncounted);
        assert_false(delivery.outcome.has_hint);
        assert_int_equal(delivery.leg_count, 3); /* each key of both */
        delivery_done(&delivery);
    }
    room_close(&room);
}

static void no_word_of_a_provider_shuts_it_for_more_than_a_day(void **state)
{
    (void)state;
    room_open(&room);
    room.settings[ROOM_OPENAI].key_count = 1;
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 429, .hint_ms = INT64_C(99999999000)};
    carry_out_many(1);
    assert_int_equal(stats_of(ROOM_OPENAI).closed_ms, 86400000);
    room_close(&room);
}

/* A call keeps its place for each provider, however many keys those before it have. */
static void every_provider_has_its_turn_behind_sixteen_keys(void **state)
{
    static const struct {
        size_t keys[ROOM_PROVIDERS];
        struct room_answer answer;
        size_t called[ROOM_PROVIDERS];
    } rows[] = {
        {{16, 1, 1}, {.status = 429, .body = QUOTA}, {14, 1, 1}},
        {{16, 1, 1}, {.status = 401}, {14, 1, 1}},
        {{9, 9, 1}, {.status = 429, .body = QUOTA}, {9, 6, 1}},
        {{16, 16, 16}, {.status = 401}, {14, 1, 1}},
        {{2, 2, 2}, {.status = 401}, {2, 2, 1}},
    };
    static char keys[ROOM_PROVIDERS][PROVIDER_KEYS_MAX][48];

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        room_open(&room);
        room.fallback.provider_count = ROOM_PROVIDERS;
        for (int i = 0; i < ROOM_PROVIDERS; i++) {
            room.settings[i].key_count = rows[row].keys[i];
            room.script[i] = i < 2 ? rows[row].answer : (struct room_answer){.status = 200};
            for (size_t key = 0; key < PROVIDER_KEYS_MAX; key++) {
                snprintf(keys[i][key], sizeof keys[i][key], "sk-room-%d-secret-key-%zu", i, key);
                room.settings[i].keys[key] = span_of(keys[i][key]);
            }
        }
        struct delivery delivery = room_carry_out(&room);
        for (int i = 0; i < ROOM_PROVIDERS; i++) {
            assert_int_equal(room.called[i], rows[row].called[i]);
        }
        assert_true(delivery.leg_count <= DELIVERY_LEGS_MAX);
        assert_true(span_is(delivery.settled_by, "third"));
        delivery_done(&delivery);
        room_close(&room);
    }
}

static void an_absurd_usage_is_not_counted(void **state)
{
    struct provider_stats stats;

    (void)state;
    room_open(&room);
    room.settings[ROOM_OPENAI].price_in = 2.5;
    room.script[ROOM_OPENAI] = (struct room_answer){
        .status = 200,
        .body = "{\"choices\":[{\"message\":{\"content\":\"x\"}}],\"usage\":{\"prompt_tokens\":"
                "9223372036854775807,\"completion_tokens\":7}}"};
    for (int i = 0; i < 3; i++) {
        struct delivery delivery = room_carry_out(&room);
        assert_int_equal(delivery.outcome.status, 200);
        delivery_done(&delivery);
    }
    providers_stats(room.providers, ROOM_OPENAI, &stats);
    assert_int_equal(stats.tokens_in, 0);
    assert_int_equal(stats.tokens_out, 21);
    assert_true(stats.cost == 0);
    room_close(&room);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_provider_that_hangs_is_left_alone),
        cmocka_unit_test(a_provider_that_hangs_is_tried_by_one_call),
        cmocka_unit_test(only_time_outs_in_a_row_count),
        cmocka_unit_test(a_task_that_gives_little_time_does_not_stop_the_others),
        cmocka_unit_test(a_front_that_runs_out_of_time_counts_as_hanging),
        cmocka_unit_test(what_only_an_operator_can_mend_is_told_once),
        cmocka_unit_test(a_disabled_organisation_sets_its_keys_aside),
        cmocka_unit_test(one_article_does_not_stop_the_others),
        cmocka_unit_test(a_quota_without_a_date_is_asked_last),
        cmocka_unit_test(a_quota_without_a_date_puts_nothing_off),
        cmocka_unit_test(every_provider_has_its_turn_behind_sixteen_keys),
        cmocka_unit_test(an_absurd_usage_is_not_counted),
        cmocka_unit_test(no_word_of_a_provider_shuts_it_for_more_than_a_day),
    };

    return HARNESS_RUN(argc, argv, tests);
}
