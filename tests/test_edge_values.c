/* SPDX-License-Identifier: MIT
 *
 * The small readers and writers of the edge: JSON out, base64, times, URLs, paths.
 */
#include "harness.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/base64.h"
#include "edge/moment.h"
#include "edge/path.h"
#include "edge/problem.h"
#include "task/url.h"
#include "edge/writer.h"

#include <jansson.h>
#include <stdlib.h>

static void whatever_bytes_come_in_what_goes_out_is_json(void **state)
{
    struct buf out;
    char bytes[512];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(i < 256 ? i : (i * 167) >> 3);
    }
    for (size_t from = 0; from < sizeof bytes; from++) {
        struct writer writer = {.out = &out};
        buf_init(&out, 65536);
        write_open(&writer, '[');
        write_text(&writer, (struct span){.at = bytes + from, .len = sizeof bytes - from});
        write_close(&writer, ']');
        assert_int_equal(writer.failed, 0);
        json_t *read = json_loadb(out.at, out.len, JSON_ALLOW_NUL, NULL);
        assert_non_null(read);
        json_decref(read);
        buf_done(&out);
    }
}

static void text_is_escaped_as_json_asks(void **state)
{
    struct buf out;
    struct writer writer = {.out = &out};

    (void)state;
    buf_init(&out, 4096);
    write_text(&writer, SPAN("a\"\\\b\f\n\r\t\x01\x7f\xc3\xa9\xff\xe2\x82"));
    assert_true(span_is(buf_span(&out), "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u007f\xc3\xa9"
                                        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""));
    buf_done(&out);
}

static void no_text_is_an_empty_text(void **state)
{
    struct buf out;
    struct writer writer = {.out = &out};

    (void)state;
    buf_init(&out, 100);
    write_open(&writer, '{');
    write_named_text(&writer, "a", (struct span){.at = NULL, .len = 0});
    write_close(&writer, '}');
    assert_true(span_is(buf_span(&out), "{\"a\":\"\"}"));
    buf_done(&out);
}

static void a_full_buf_is_reported_once(void **state)
{
    struct buf out;
    struct writer writer = {.out = &out};

    (void)state;
    buf_init(&out, 8);
    write_open(&writer, '{');
    write_named_text(&writer, "name", SPAN("value"));
    write_close(&writer, '}');
    assert_int_equal(writer.failed, FAULT_LIMIT);
    buf_done(&out);
}

static void base64_there_and_back(void **state)
{
    struct arena *arena = arena_new(1u << 20);
    struct buf out;
    struct span bytes;

    (void)state;
    for (size_t len = 0; len < 70; len++) {
        char text[70];
        memset(text, (int)(len * 7 + 1), sizeof text);
        buf_init(&out, 4096);
        assert_int_equal(base64_encode((struct span){.at = text, .len = len}, &out), 0);
        assert_true(base64_decode(buf_span(&out), arena, &bytes));
        assert_true(span_equal(bytes, (struct span){.at = text, .len = len}));
        buf_done(&out);
    }
    assert_true(base64_decode(SPAN("aGVsbG8="), arena, &bytes) && span_is(bytes, "hello"));
    arena_free(arena);
}

static void base64_has_one_way_to_be_written(void **state)
{
    static const char *const texts[] = {"a",    "ab",       "abc",  "a===", "=abc",
                                        "ab=c", "aGVsbG9=", "aGV-", "aGV_", "aGVs\nbA==",
                                        "====", "QQ=",      "QR=="};
    struct arena *arena = arena_new(65536);
    struct span bytes;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (base64_decode(span_of(texts[i]), arena, &bytes)) {
            fail_msg("taken: %s", texts[i]);
        }
    }
    arena_free(arena);
}

static void a_time_reads_back_as_it_was_written(void **state)
{
    char text[CLOCK_TEXT_MAX];
    int64_t read_ms;

    (void)state;
    for (int64_t ms = 0; ms < INT64_C(253402300800000); ms += INT64_C(86400000) * 13 + 12345677) {
        clock_format(ms, text);
        assert_true(moment_parse(span_of(text), &read_ms));
        assert_int_equal(read_ms, ms);
    }
}

static void times_have_fractions_and_offsets(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01t00:00:00.1z", 100},
        {"1970-01-01 00:00:00.123456789Z", 123},
        {"1970-01-01T02:00:00+02:00", 0},
        {"1970-01-01T00:00:00-01:30", 5400000},
        {"2000-02-29T00:00:00Z", INT64_C(951782400000)},
        {"2016-12-31T23:59:60Z", INT64_C(1483228800000)},
    };
    int64_t read_ms;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(moment_parse(span_of(rows[i].text), &read_ms));
        assert_int_equal(read_ms, rows[i].ms);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "2026",
        "2026-11-15",
        "2026-11-15T10:20:30",
        "2026-11-15T10:20:30.Z",
        "2026-11-15T10:20Z",
        "2026-13-15T10:20:30Z",
        "2026-00-15T10:20:30Z",
        "2026-02-29T10:20:30Z",
        "1900-02-29T10:20:30Z",
        "2026-11-31T10:20:30Z",
        "2026-11-15T24:20:30Z",
        "2026-11-15T10:60:30Z",
        "2026-11-15T10:20:61Z",
        "2026-11-15T10:20:30+24:00",
        "2026-11-15T10:20:30+02",
        "2026-11-15T10:20:30ZZ",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+00:01",
        "-026-11-15T10:20:30Z",
        "2026-1-15T10:20:30Z",
        " 2026-11-15T10:20:30Z",
    };
    int64_t read_ms;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (moment_parse(span_of(texts[i]), &read_ms)) {
            fail_msg("taken: %s", texts[i]);
        }
    }
}

static void urls_that_can_be_sent_to(void **state)
{
    static const char *const good[] = {
        "http://a",
        "https://a.b:1/c?d=e",
        "HTTP://A:65535/",
        "http://127.0.0.1:9000/x",
        "http://[::1]/",
        "http://[::1]:80/x",
        "http://a_b-c.example",
        "http://a?b@c",
        "https://a/b@c:d%20",
    };
    static const char *const bad[] = {
        "",
        "http",
        "http://",
        "http:///x",
        "ftp://a",
        "//a/b",
        "/a",
        "http//a",
        "http://u@a",
        "http://u:p@a/",
        "http://a b",
        "http://a/\n",
        "http://a/\x7f",
        "http://a/\xc3\xa9",
        "http://a/#b",
        "http://a\\@b",
        "http://a:",
        "http://a:0",
        "http://a:65536",
        "http://a:-1",
        "http://a:1x",
        "http://[::1",
        "http://[]",
        "http://[::1]x",
        "http://[::1]:",
        "http://[a]",
        "http://.a",
        "http://-a",
        "http://a,b",
        "http://a%41",
    };

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (url_refuse(span_of(good[i])) != NULL) {
            fail_msg("refused: %s", good[i]);
        }
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (url_refuse(span_of(bad[i])) == NULL) {
            fail_msg("taken: %s", bad[i]);
        }
    }
}

static enum path_result parse(const char *text, struct path *ret_path)
{
    static char raw[65536];

    assert_true(strlen(text) < sizeof raw);
    memcpy(raw, text, strlen(text) + 1);
    return path_parse(raw, ret_path);
}

/* engineering 3.2, 5 */
static void each_segment_is_decoded_by_itself(void **state)
{
    struct span value;
    struct path path;

    (void)state;
    assert_int_equal(parse("/v1/queues/a%2Fb/tasks:batch?state=a%26b&label.x=+1%2B&empty", &path),
                     PATH_OK);
    assert_int_equal(path.segment_count, 4);
    assert_true(span_is(path.segments[2], "a/b"));
    assert_true(span_is(path.segments[3], "tasks") && span_is(path.verb, "batch"));
    assert_true(path_find(&path, "state", &value) && span_is(value, "a&b"));
    assert_true(path_find(&path, "label.x", &value) && span_is(value, " 1+"));
    assert_true(path_find(&path, "empty", &value) && value.len == 0);
    assert_false(path_find(&path, "limit", &value));
    assert_int_equal(parse("http://host:1/v1/queues", &path), PATH_OK);
    assert_int_equal(path.segment_count, 2);
    assert_int_equal(parse("/a+b", &path), PATH_OK);
    assert_true(span_is(path.segments[0], "a+b"));
}

/* engineering 3.2, 5 */
static void paths_that_could_mean_two_things_are_refused(void **state)
{
    static const struct {
        const char *text;
        enum path_result result;
    } rows[] = {
        {"", PATH_BAD},
        {"*", PATH_BAD},
        {"v1", PATH_BAD},
        {"/..", PATH_BAD},
        {"/v1/../x", PATH_BAD},
        {"/v1/%2e%2e/x", PATH_BAD},
        {"/v1/.", PATH_BAD},
        {"/v1/%00", PATH_BAD},
        {"/v1/a%0ab", PATH_BAD},
        {"/v1/%", PATH_BAD},
        {"/v1/%4", PATH_BAD},
        {"/v1/%zz", PATH_BAD},
        {"/v1/%ff", PATH_BAD},
        {"/v1?a=%", PATH_BAD},
        {"/v1?a=%00", PATH_BAD},
        {"/", PATH_NOWHERE},
        {"//v1", PATH_NOWHERE},
        {"/v1/", PATH_NOWHERE},
        {"/v1//x", PATH_NOWHERE},
        {"/1/2/3/4/5/6/7/8/9", PATH_NOWHERE},
        {"http://host", PATH_BAD},
        {"//../x", PATH_BAD},
    };
    struct path path;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (parse(rows[i].text, &path) != rows[i].result) {
            fail_msg("wrong: %s", rows[i].text);
        }
    }
}

static void too_many_parameters_are_refused(void **state)
{
    struct path path;

    (void)state;
    assert_int_equal(parse("/a?1&2&3&4&5&6&7&8&9&10&11&12&13&14&15&16", &path), PATH_OK);
    assert_int_equal(path.parameter_count, 16);
    assert_int_equal(parse("/a?1&2&3&4&5&6&7&8&9&10&11&12&13&14&15&16&17", &path), PATH_BAD);
    assert_int_equal(parse("/a?&&1=2&&", &path), PATH_OK);
    assert_int_equal(path.parameter_count, 1);
}

/* I10: texts from below may name files and hosts. */
static void only_a_callers_own_mistakes_are_told_in_full(void **state)
{
    struct error error = {.fault = FAULT_IO, .text = "/var/lib/x.db: gone"};

    (void)state;
    assert_true(span_is(problem_detail(&error), fault_text(FAULT_IO)));
    error.fault = FAULT_INPUT;
    assert_true(span_is(problem_detail(&error), "/var/lib/x.db: gone"));
}

static void a_text_that_is_meant_for_callers_is_told_with_any_fault(void **state)
{
    struct error error = {0};

    (void)state;
    assert_int_equal(fail_told(&error, FAULT_UNKNOWN, "send %s again", ":cancel"), FAULT_UNKNOWN);
    assert_true(span_is(problem_detail(&error), "send :cancel again"));
    assert_int_equal(fail(&error, FAULT_UNKNOWN, "COMMIT failed"), FAULT_UNKNOWN);
    assert_true(span_is(problem_detail(&error), fault_text(FAULT_UNKNOWN)));
}

/* I10: also where the fault is of a kind whose texts are told. */
static void what_a_driver_says_is_told_to_no_caller(void **state)
{
    static const enum fault faults[] = {FAULT_INPUT, FAULT_LIMIT, FAULT_FULL, FAULT_IO};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct error error = {0};
        assert_int_equal(fail_inside(&error, faults[i], "UNIQUE constraint failed: task.id"),
                         faults[i]);
        assert_true(span_is(problem_detail(&error), fault_text(faults[i])));
    }
}

/* engineering 1.4: a retry without a key might do it twice. */
static void store_unknown_invites_nobody_to_try_again(void **state)
{
    (void)state;
    assert_int_equal(problem_retry_after_s(problem_of_fault(FAULT_UNKNOWN)), 0);
    assert_int_equal(problem_retry_after_s(problem_of_fault(FAULT_FULL)), 1);
    assert_int_equal(problem_retry_after_s(PROBLEM_INVALID), 0);
}

static void origins_are_scheme_host_and_port(void **state)
{
    static const char *const same[][2] = {
        {"http://h/a", "http://h/b?c"},
        {"http://h", "http://h:80/"},
        {"https://H.example/", "https://h.EXAMPLE:443?x"},
        {"HTTP://h:8080", "http://h:8080/"},
        {"http://[::1]:1/", "http://[::1]:1/x"},
    };
    static const char *const other[][2] = {
        {"http://h/", "https://h/"},
        {"http://h/", "http://h:81/"},
        {"http://h/", "http://h.x/"},
        {"http://127.0.0.1/", "http://localhost/"},
        {"http://h:443/", "https://h/"},
        {"http://h/", "http://h./"},
        {"http://h/", "http://x@h/"},
        {"http://h/", "http://h\\@x/"},
        {"http://h/", "http://h:80:80/"},
        {"http://h/", ""},
        {"", ""},
        {"ftp://h/", "ftp://h/"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        assert_true(url_is_same_origin(span_of(same[i][0]), span_of(same[i][1])));
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        if (url_is_same_origin(span_of(other[i][0]), span_of(other[i][1]))) {
            fail_msg("%s and %s", other[i][0], other[i][1]);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(origins_are_scheme_host_and_port),
        cmocka_unit_test(whatever_bytes_come_in_what_goes_out_is_json),
        cmocka_unit_test(text_is_escaped_as_json_asks),
        cmocka_unit_test(no_text_is_an_empty_text),
        cmocka_unit_test(a_full_buf_is_reported_once),
        cmocka_unit_test(base64_there_and_back),
        cmocka_unit_test(base64_has_one_way_to_be_written),
        cmocka_unit_test(a_time_reads_back_as_it_was_written),
        cmocka_unit_test(times_have_fractions_and_offsets),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(urls_that_can_be_sent_to),
        cmocka_unit_test(each_segment_is_decoded_by_itself),
        cmocka_unit_test(paths_that_could_mean_two_things_are_refused),
        cmocka_unit_test(too_many_parameters_are_refused),
        cmocka_unit_test(only_a_callers_own_mistakes_are_told_in_full),
        cmocka_unit_test(a_text_that_is_meant_for_callers_is_told_with_any_fault),
        cmocka_unit_test(what_a_driver_says_is_told_to_no_caller),
        cmocka_unit_test(store_unknown_invites_nobody_to_try_again),
    };
    return HARNESS_RUN(argc, argv, tests);
}
