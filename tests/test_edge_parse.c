/* SPDX-License-Identifier: MIT
 *
 * A task as a caller writes it: what is taken and how it arrives, what is refused and which field is
 * named.
 */
#include "harness.h"

#include "edge/parse_task.h"
#include "task/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW_MS INT64_C(1800000000000)

struct parsed {
    struct submission submission;
    struct error error;
    int failed;
};

static int parse_policy(void *user, struct span json, struct arena *arena,
                        struct daruma_policy *ret_policy, struct error *err)
{
    (void)user, (void)arena, (void)ret_policy;
    if (span_is(json, "{\"max_attempts\":0}")) {
        return fail_field(err, FAULT_INPUT, "max_attempts", "found 0, expected 1 or more");
    }
    return span_is(json, "{\"x\":1}") ? fail(err, FAULT_INPUT, "not a policy") : 0;
}

static struct parsed parse_with(const char *text, size_t len, struct span key)
{
    const struct parse_options options = {
        .parse_policy = parse_policy, .now_ms = NOW_MS, .key = key};
    struct parsed parsed = {.submission.arena = parse_arena_new(len)};
    char *exact = malloc(len > 0 ? len : 1); /* reading past its end is seen */

    assert_non_null(exact);
    assert_non_null(parsed.submission.arena);
    memcpy(exact, text, len);
    parsed.failed = parse_task(&options, (struct span){.at = exact, .len = len}, &parsed.submission,
                               &parsed.error);
    free(exact);
    return parsed;
}

static struct parsed parse(const char *text)
{
    return parse_with(text, strlen(text), SPAN(""));
}

static void release(struct parsed *parsed)
{
    arena_free(parsed->submission.arena);
}

static void assert_refused(const char *text, const char *field)
{
    struct parsed parsed = parse(text);

    if (parsed.failed != FAULT_INPUT || strcmp(parsed.error.field, field) != 0) {
        fail_msg("%s: %d, field %s, %s", text, parsed.failed, parsed.error.field,
                 parsed.error.text);
    }
    assert_true(parsed.error.text[0] != '\0');
    release(&parsed);
}

static void assert_taken(const char *text)
{
    struct parsed parsed = parse(text);

    if (parsed.failed != 0) {
        fail_msg("%s: %s, field %s", text, parsed.error.text, parsed.error.field);
    }
    release(&parsed);
}

static void every_field_arrives(void **state)
{
    struct parsed parsed =
        parse("{\"target\":\"http://127.0.0.1:9000/sync\",\"method\":\"PATCH\","
              "\"headers\":{\"Content-Type\":\"text/plain\",\"X-A\":\" b "
              "\"},\"body\":\"h\\u00e9\\u0000\","
              "\"key\":\"order-123\",\"labels\":{\"bookmark_id\":\"7\",\"job_type\":\"a: b\"},"
              "\"delay_ms\":5,\"deadline_ms\":3600000,\"timeout_ms\":30000,\"repeatable\":false,"
              "\"retry\":{ \"max_attempts\" : 3 },"
              "\"callback\":{\"url\":\"http://c/\", \"on\":[\"failed\",\"succeeded\"]}}");
    const struct submission *in = &parsed.submission;
    struct span value;

    (void)state;
    assert_int_equal(parsed.failed, 0);
    assert_true(span_is(in->target, "http://127.0.0.1:9000/sync"));
    assert_true(span_is(in->method, "PATCH"));
    assert_true(fields_find(in->headers, "content-type", &value) && span_is(value, "text/plain"));
    assert_true(fields_find(in->headers, "x-a", &value) && span_is(value, "b"));
    assert_true(span_equal(in->body, SPAN("h\xc3\xa9\0")));
    assert_true(span_is(in->key, "order-123"));
    assert_true(fields_has(in->labels, SPAN("job_type"), SPAN("a: b")));
    assert_int_equal(in->delay_ms, 5);
    assert_int_equal(in->due_at_ms, 0);
    assert_int_equal(in->deadline_ms, 3600000);
    assert_int_equal(in->options.timeout_ms, 30000);
    assert_true(in->options.has_repeatable && !in->options.repeatable);
    assert_true(span_is(in->options.retry, "{\"max_attempts\":3}"));
    assert_true(
        span_is(in->options.callback, "{\"url\":\"http://c/\",\"on\":[\"failed\",\"succeeded\"]}"));
    release(&parsed);
}

static void nothing_has_to_be_given(void **state)
{
    struct parsed parsed = parse("{}");
    const struct submission *in = &parsed.submission;

    (void)state;
    assert_int_equal(parsed.failed, 0);
    assert_int_equal(in->target.len + in->method.len + in->body.len + in->key.len, 0);
    assert_int_equal(in->headers.len + in->labels.len, 0);
    assert_false(in->options.has_repeatable);
    release(&parsed);
}

/* engineering 1.14: jansson would make 1.1000000000000001 of it, or refuse it. */
static void json_is_the_exact_bytes_that_were_written(void **state)
{
    static const char *const values[] = {
        "1.10",
        "12345678901234567890123456789",
        "1e999",
        "{ \"a\" : 1.10 , \"a\" : 2, \"n\":12345678901234567890 }",
        "\"\\u0000\\ud800\"",
        "[ ]",
        "null",
        "\"text\"",
    };
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct span type;
        snprintf(text, sizeof text, "{\"method\":\"PUT\", \"json\" : %s ,\"delay_ms\":1}",
                 values[i]);
        struct parsed parsed = parse(text);
        assert_int_equal(parsed.failed, 0);
        assert_true(span_is(parsed.submission.body, values[i]));
        assert_true(fields_find(parsed.submission.headers, "content-type", &type));
        assert_true(span_is(type, "application/json"));
        assert_int_equal(parsed.submission.delay_ms, 1);
        release(&parsed);
    }
}

static void a_given_content_type_stands(void **state)
{
    struct parsed parsed =
        parse("{\"json\":1,\"headers\":{\"CONTENT-TYPE\":\"application/vnd.x+json\",\"a\":\"b\"}}");
    struct span value;

    (void)state;
    assert_int_equal(parsed.failed, 0);
    assert_true(fields_find(parsed.submission.headers, "content-type", &value));
    assert_true(span_is(value, "application/vnd.x+json"));
    release(&parsed);
}

static void a_body_may_come_as_base64(void **state)
{
    struct parsed parsed = parse("{\"body_base64\":\"AP8K\"}");

    (void)state;
    assert_int_equal(parsed.failed, 0);
    assert_true(span_equal(parsed.submission.body, SPAN("\0\xff\n")));
    release(&parsed);
    assert_refused("{\"body_base64\":\"AP8\"}", "body_base64");
    assert_refused("{\"body_base64\":1}", "body_base64");
}

static void what_excludes_each_other_is_refused(void **state)
{
    (void)state;
    assert_refused("{\"body\":\"a\",\"json\":1}", "json");
    assert_refused("{\"json\":1,\"body\":\"a\"}", "body");
    assert_refused("{\"body\":\"a\",\"body_base64\":\"\"}", "body_base64");
    assert_refused("{\"delay_ms\":0,\"due_at\":\"2027-01-15T08:00:00Z\"}", "due_at");
}

static void unknown_and_repeated_fields_are_refused(void **state)
{
    (void)state;
    assert_refused("{\"targets\":\"http://a\"}", "targets");
    assert_refused("{\"\":1}", "");
    assert_refused("{\"Target\":\"http://a\"}", "Target");
    assert_refused("{\"json\\u0000\":1}", "json");
    assert_refused("{\"method\":\"PUT\",\"method\":\"PUT\"}", "method");
    assert_refused("{\"json\":1,\"json\":2}", "json");
    assert_refused("{\"json\":1,\"js\\u006fn\":2}", "json");
    assert_refused("{\"retry\":{},\"r\\u0065try\":{}}", "retry");
    assert_refused("{\"headers\":{\"a\":\"1\",\"a\":\"2\"}}", "headers.a");
    assert_refused("{\"headers\":{\"a\":\"1\",\"A\":\"2\"}}", "headers.A");
    assert_refused("{\"labels\":{\"a\":\"1\",\"\\u0061\":\"2\"}}", "labels.a");
    assert_refused("{\"callback\":{\"url\":\"http://a\",\"method\":\"PUT\"}}", "callback.method");
    assert_refused("{\"callback\":{\"url\":\"http://a\",\"url\":\"http://a\"}}", "callback.url");
}

static void escapes_are_read_wherever_text_is(void **state)
{
    struct parsed parsed =
        parse("{\"b\\u006fdy\":\"\\ud83d\\ude00\\u00e9\\u20ac\\n\\/\",\"l\\u0061bels\":"
              "{\"\\u0061\":\"\\u0062\"}}");

    (void)state;
    assert_int_equal(parsed.failed, 0);
    assert_true(span_is(parsed.submission.body, "\xf0\x9f\x98\x80\xc3\xa9\xe2\x82\xac\n/"));
    assert_true(fields_has(parsed.submission.labels, SPAN("a"), SPAN("b")));
    release(&parsed);
    assert_refused("{\"body\":\"\\ud800\"}", "body");
    assert_refused("{\"body\":\"\\ud800x\\udc00\"}", "body");
    assert_refused("{\"body\":\"\\udc00\"}", "body");
    assert_refused("{\"body\":\"\\ud800\\ud800\"}", "body");
    assert_refused("{\"\\ud800\":1}", "");
}

static void types_are_exact(void **state)
{
    static const char *const rows[][2] = {
        {"{\"target\":1}", "target"},
        {"{\"target\":null}", "target"},
        {"{\"method\":true}", "method"},
        {"{\"headers\":[]}", "headers"},
        {"{\"headers\":{\"a\":1}}", "headers.a"},
        {"{\"body\":{}}", "body"},
        {"{\"key\":7}", "key"},
        {"{\"labels\":[]}", "labels"},
        {"{\"labels\":{\"a\":1}}", "labels.a"},
        {"{\"delay_ms\":\"5\"}", "delay_ms"},
        {"{\"delay_ms\":5.0}", "delay_ms"},
        {"{\"delay_ms\":1e3}", "delay_ms"},
        {"{\"delay_ms\":null}", "delay_ms"},
        {"{\"due_at\":5}", "due_at"},
        {"{\"deadline_ms\":true}", "deadline_ms"},
        {"{\"timeout_ms\":[]}", "timeout_ms"},
        {"{\"repeatable\":1}", "repeatable"},
        {"{\"repeatable\":\"true\"}", "repeatable"},
        {"{\"retry\":\"sync\"}", "retry"},
        {"{\"retry\":[]}", "retry"},
        {"{\"callback\":\"http://a\"}", "callback"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_refused(rows[i][0], rows[i][1]);
    }
}

static void numbers_have_bounds(void **state)
{
    (void)state;
    assert_taken("{\"delay_ms\":315576000000}");
    assert_refused("{\"delay_ms\":315576000001}", "delay_ms");
    assert_refused("{\"delay_ms\":-1}", "delay_ms");
    assert_refused("{\"delay_ms\":12345678901234567890}", "delay_ms");
    assert_refused("{\"deadline_ms\":0}", "deadline_ms");
    assert_refused("{\"timeout_ms\":0}", "timeout_ms");
    assert_taken("{\"timeout_ms\":86400000}");
    assert_refused("{\"timeout_ms\":86400001}", "timeout_ms");
}

static void a_due_time_is_read_and_bounded(void **state)
{
    struct parsed parsed = parse("{\"due_at\":\"2027-01-15T09:00:00.5+01:00\"}");

    (void)state;
    assert_int_equal(parsed.failed, 0);
    assert_int_equal(parsed.submission.due_at_ms, NOW_MS + 500);
    release(&parsed);
    assert_taken("{\"due_at\":\"1999-01-01T00:00:00Z\"}"); /* past: now */
    assert_refused("{\"due_at\":\"2099-01-01T00:00:00Z\"}", "due_at");
    assert_refused("{\"due_at\":\"tomorrow\"}", "due_at");
}

static void headers_that_delivery_sets_are_refused(void **state)
{
    static const char *const names[] = {
        "Host",
        "content-length",
        "Transfer-Encoding",
        "CONNECTION",
        "keep-alive",
        "TE",
        "Trailer",
        "upgrade",
        "Expect",
        "Idempotency-Key",
        "X-Daruma-Task",
        "x-daruma-",
        "Proxy-Connection",
    };
    char text[128], field[64];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(text, sizeof text, "{\"headers\":{\"%s\":\"a\"}}", names[i]);
        snprintf(field, sizeof field, "headers.%s", names[i]);
        assert_refused(text, field);
    }
    assert_taken("{\"headers\":{\"X-Darumax\":\"a\",\"Hostx\":\"\"}}");
}

static void names_and_values_of_headers_are_clean(void **state)
{
    (void)state;
    assert_refused("{\"headers\":{\"\":\"a\"}}", "headers.");
    assert_refused("{\"headers\":{\"a b\":\"a\"}}", "headers.a b");
    assert_refused("{\"headers\":{\"a:\":\"a\"}}", "headers.a:");
    assert_refused("{\"headers\":{\"h\\u00e9\":\"a\"}}", "headers.h\xc3\xa9");
    assert_refused("{\"headers\":{\"a\":\"b\\r\\nc: d\"}}", "headers.a");
    assert_refused("{\"headers\":{\"a\":\"b\\u0000\"}}", "headers.a");
    assert_refused("{\"headers\":{\"a\":\"\\u007f\"}}", "headers.a");
    assert_taken("{\"headers\":{\"a\":\"b\\tc h\\u00e9\"}}");
}

static void headers_are_bounded_in_number_and_size(void **state)
{
    char *text = malloc(65536);
    size_t len;

    (void)state;
    assert_non_null(text);
    for (int count = TASK_HEADERS_MAX; count <= TASK_HEADERS_MAX + 1; count++) {
        len = (size_t)snprintf(text, 65536, "{\"headers\":{");
        for (int i = 0; i < count; i++) {
            len += (size_t)snprintf(text + len, 65536 - len, "%s\"h%d\":\"\"", i > 0 ? "," : "", i);
        }
        snprintf(text + len, 65536 - len, "}}");
        if (count == TASK_HEADERS_MAX) {
            assert_taken(text);
        } else {
            assert_refused(text, "headers");
        }
    }
    len = (size_t)snprintf(text, 65536, "{\"headers\":{\"a\":\"");
    memset(text + len, 'x', TASK_HEADERS_BYTES_MAX);
    snprintf(text + len + TASK_HEADERS_BYTES_MAX, 16, "\"}}");
    assert_refused(text, "headers");
    free(text);
}

static void labels_are_few_and_short(void **state)
{
    char text[2048];
    size_t len;

    (void)state;
    for (int count = TASK_LABELS_MAX; count <= TASK_LABELS_MAX + 1; count++) {
        len = (size_t)snprintf(text, sizeof text, "{\"labels\":{");
        for (int i = 0; i < count; i++) {
            len += (size_t)snprintf(text + len, sizeof text - len, "%s\"l%d\":\"v\"",
                                    i > 0 ? "," : "", i);
        }
        snprintf(text + len, sizeof text - len, "}}");
        if (count == TASK_LABELS_MAX) {
            assert_taken(text);
        } else {
            assert_refused(text, "labels");
        }
    }
    for (int size = TASK_LABEL_BYTES_MAX; size <= TASK_LABEL_BYTES_MAX + 1; size++) {
        len = (size_t)snprintf(text, sizeof text, "{\"labels\":{\"a\":\"");
        memset(text + len, 'x', (size_t)size);
        snprintf(text + len + size, sizeof text - len - (size_t)size, "\"}}");
        if (size == TASK_LABEL_BYTES_MAX) {
            assert_taken(text);
        } else {
            assert_refused(text, "labels.a");
        }
    }
    assert_refused("{\"labels\":{\"a:b\":\"c\"}}", "labels.a:b");
    assert_refused("{\"labels\":{\"\":\"c\"}}", "labels.");
    assert_refused("{\"labels\":{\"a\":\"b\\n\"}}", "labels.a");
}

static void a_target_is_a_url_without_secrets(void **state)
{
    (void)state;
    assert_refused("{\"target\":\"\"}", "target");
    assert_refused("{\"target\":\"ftp://a\"}", "target");
    assert_refused("{\"target\":\"http://user:pass@a/\"}", "target");
    assert_refused("{\"target\":\"http://a/ b\"}", "target");
    assert_refused("{\"target\":\"http://a/\\u0000\"}", "target");
    assert_taken("{\"target\":\"https://a.example/b?c=d\"}");
}

static void a_method_is_a_token_that_can_be_sent(void **state)
{
    (void)state;
    assert_refused("{\"method\":\"\"}", "method");
    assert_refused("{\"method\":\"GE T\"}", "method");
    assert_refused("{\"method\":\"CONNECT\"}", "method");
    assert_refused("{\"method\":\"trace\"}", "method");
    assert_refused("{\"method\":\"AAAAAAAAAAAAAAAAAAAAA\"}", "method");
    assert_taken("{\"method\":\"PROPFIND\"}");
}

static void a_retry_is_judged_by_the_configurations_parser(void **state)
{
    (void)state;
    assert_refused("{\"retry\":{\"max_attempts\": 0}}", "retry.max_attempts");
    assert_refused("{\"retry\":{\"x\":1}}", "retry");
}

static void a_callback_has_a_url_and_known_events(void **state)
{
    (void)state;
    assert_refused("{\"callback\":{}}", "callback");
    assert_refused("{\"callback\":{\"url\":1}}", "callback.url");
    assert_refused("{\"callback\":{\"url\":\"/x\"}}", "callback.url");
    assert_refused("{\"callback\":{\"url\":\"http://a\",\"on\":[]}}", "callback.on");
    assert_refused("{\"callback\":{\"url\":\"http://a\",\"on\":\"failed\"}}", "callback.on");
    assert_refused("{\"callback\":{\"url\":\"http://a\",\"on\":[\"done\"]}}", "callback.on");
    assert_refused("{\"callback\":{\"url\":\"http://a\",\"on\":[\"failed\",\"failed\"]}}",
                   "callback.on");
    assert_refused("{\"callback\":{\"url\":\"http://a\",\"on\":[1]}}", "callback.on");
    assert_taken("{\"callback\":{\"url\":\"http://a\"}}");
}

static void text_that_is_not_one_json_object_is_refused(void **state)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "null",
                                        "[]",
                                        "1",
                                        "\"a\"",
                                        "{",
                                        "{}{}",
                                        "{} x",
                                        "{\"delay_ms\":1,}",
                                        "{\"delay_ms\":01}",
                                        "{'a':1}",
                                        "{\"body\":\"\xff\"}"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_refused(texts[i], "");
    }
    struct parsed parsed = parse_with("{}\0", 3, SPAN(""));
    assert_int_equal(parsed.failed, FAULT_INPUT);
    release(&parsed);
}

static void deep_values_are_refused_before_they_cost_anything(void **state)
{
    char text[4096] = "{\"json\":";
    size_t len = strlen(text);

    (void)state;
    memset(text + len, '[', 2000);
    text[len + 2000] = '\0';
    assert_refused(text, "");
}

static void a_key_comes_from_the_body_or_the_header(void **state)
{
    struct parsed parsed = parse_with("{}", 2, SPAN("k1"));

    (void)state;
    assert_true(parsed.failed == 0 && span_is(parsed.submission.key, "k1"));
    release(&parsed);
    parsed = parse_with("{\"key\":\"k1\"}", 12, SPAN("k1"));
    assert_true(parsed.failed == 0 && span_is(parsed.submission.key, "k1"));
    release(&parsed);
    parsed = parse_with("{\"key\":\"k2\"}", 12, SPAN("k1"));
    assert_int_equal(parsed.failed, FAULT_INPUT);
    assert_string_equal(parsed.error.field, "key");
    release(&parsed);
    assert_refused("{\"key\":\"\"}", "key");
    assert_refused("{\"key\":\"a b\"}", "key");
}

static void a_key_header_is_bare_or_quoted(void **state)
{
    static const char *const good[][2] = {
        {"abc", "abc"}, {" abc\t", "abc"}, {"\"abc\"", "abc"}, {"\"a\\\"b\\\\\"", "a\"b\\"},
        {"\"", "\""},
    };
    static const char *const bad[] = {"", "\"\"", "a b", "\"a\\b\"", "\"a\"b\"", "\"a\\\"", "\xff"};
    struct arena *arena = arena_new(65536);
    struct error error;
    struct span key;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(parse_key(span_of(good[i][0]), arena, &key, &error), 0);
        assert_true(span_is(key, good[i][1]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (parse_key(span_of(bad[i]), arena, &key, &error) != FAULT_INPUT) {
            fail_msg("taken: %s", bad[i]);
        }
        assert_string_equal(error.field, "Idempotency-Key");
    }
    arena_free(arena);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_arrives),
        cmocka_unit_test(nothing_has_to_be_given),
        cmocka_unit_test(json_is_the_exact_bytes_that_were_written),
        cmocka_unit_test(a_given_content_type_stands),
        cmocka_unit_test(a_body_may_come_as_base64),
        cmocka_unit_test(what_excludes_each_other_is_refused),
        cmocka_unit_test(unknown_and_repeated_fields_are_refused),
        cmocka_unit_test(escapes_are_read_wherever_text_is),
        cmocka_unit_test(types_are_exact),
        cmocka_unit_test(numbers_have_bounds),
        cmocka_unit_test(a_due_time_is_read_and_bounded),
        cmocka_unit_test(headers_that_delivery_sets_are_refused),
        cmocka_unit_test(names_and_values_of_headers_are_clean),
        cmocka_unit_test(headers_are_bounded_in_number_and_size),
        cmocka_unit_test(labels_are_few_and_short),
        cmocka_unit_test(a_target_is_a_url_without_secrets),
        cmocka_unit_test(a_method_is_a_token_that_can_be_sent),
        cmocka_unit_test(a_retry_is_judged_by_the_configurations_parser),
        cmocka_unit_test(a_callback_has_a_url_and_known_events),
        cmocka_unit_test(text_that_is_not_one_json_object_is_refused),
        cmocka_unit_test(deep_values_are_refused_before_they_cost_anything),
        cmocka_unit_test(a_key_comes_from_the_body_or_the_header),
        cmocka_unit_test(a_key_header_is_bare_or_quoted),
    };
    return HARNESS_RUN(argc, argv, tests);
}
