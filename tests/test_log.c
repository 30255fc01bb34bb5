/* SPDX-License-Identifier: MIT
 *
 * Tests of log: the three forms with a clock that stands still, what foreign bytes become, how a
 * line that is too long is cut, and that a level which is off costs nothing and says nothing.
 */
#include "harness.h"

#include "../fuzz/line_check.h"

#include <daruma/log.h>
#include <daruma/retry_after.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NOW_MS INT64_C(1794738030500) /* 2026-11-15T10:20:30.500Z */

/* Where lines arrive. */
struct page {
    char text[2 * DARUMA_LOG_LINE_MAX];
    size_t length;
    int count;
    enum daruma_log_level level;
};

static void keep_line(void *user, enum daruma_log_level level, const char *line, size_t length)
{
    struct page *page = user;

    assert_true(length < sizeof page->text);
    memcpy(page->text, line, length);
    page->text[length] = '\0';
    page->length = length;
    page->level = level;
    page->count++;
}

static int64_t standing_clock(void *user)
{
    return *(const int64_t *)user;
}

static struct daruma_logger logger_to(struct page *page, enum daruma_log_form form)
{
    static int64_t now_ms = NOW_MS;

    return (struct daruma_logger){.form = form,
                                  .sink = keep_line,
                                  .sink_user = page,
                                  .unix_ms = standing_clock,
                                  .unix_user = &now_ms};
}

static void assert_line(enum daruma_log_form form, struct daruma_log_field field,
                        const char *expected)
{
    struct page page = {0};
    struct daruma_logger logger = logger_to(&page, form);

    daruma_log_write(&logger, DARUMA_LOG_INFO, "e", &field, 1);
    assert_int_equal(page.count, 1);
    assert_string_equal(page.text, expected);
}

static void a_key_value_line_has_time_level_event_and_fields(void **state) /* B7 */
{
    struct page page = {0};
    struct daruma_logger logger = logger_to(&page, DARUMA_LOG_KV);

    (void)state;
    DARUMA_LOG(&logger, DARUMA_LOG_WARN, "retrying", daruma_log_uint("attempt", 2),
               daruma_log_text("error", "connection refused"), daruma_log_text("host", "a.b:80"));
    assert_string_equal(page.text, "time=2026-11-15T10:20:30.500Z level=warn event=retrying "
                                   "attempt=2 error=\"connection refused\" host=a.b:80");
    assert_int_equal(page.length, strlen(page.text));
    assert_int_equal(page.level, DARUMA_LOG_WARN);
}

static void a_json_line_is_one_object(void **state) /* B7 */
{
    struct page page = {0};
    struct daruma_logger logger = logger_to(&page, DARUMA_LOG_JSON);

    (void)state;
    DARUMA_LOG(&logger, DARUMA_LOG_ERROR, "gave up", daruma_log_uint("attempt", 4),
               daruma_log_text("error", "say \"no\""), daruma_log_bool("final", true));
    assert_string_equal(page.text,
                        "{\"time\":\"2026-11-15T10:20:30.500Z\",\"level\":\"error\","
                        "\"event\":\"gave up\",\"attempt\":4,\"error\":\"say \\\"no\\\"\","
                        "\"final\":true}");
    assert_true(line_is_json(page.text, page.length));
}

static void a_text_line_is_for_a_person(void **state) /* B7 */
{
    struct page page = {0};
    struct daruma_logger logger = logger_to(&page, DARUMA_LOG_TEXT);

    (void)state;
    DARUMA_LOG(&logger, DARUMA_LOG_INFO, "retry gave up", daruma_log_int("delay_ms", 412),
               daruma_log_text("error", "a b"));
    assert_string_equal(page.text, "10:20:30.500  info retry gave up delay_ms=412 error=\"a b\"");
}

static void a_line_needs_no_fields(void **state)
{
    struct page page = {0};
    struct daruma_logger logger = logger_to(&page, DARUMA_LOG_JSON);

    (void)state;
    daruma_log_write(&logger, DARUMA_LOG_DEBUG, "started", NULL, 0);
    assert_string_equal(page.text, "{\"time\":\"2026-11-15T10:20:30.500Z\",\"level\":\"debug\","
                                   "\"event\":\"started\"}");
}

#define KV(rest) "time=2026-11-15T10:20:30.500Z level=info event=e v=" rest
#define JSON(rest)                                                                                 \
    "{\"time\":\"2026-11-15T10:20:30.500Z\",\"level\":\"info\",\"event\":\"e\",\"v\":" rest "}"

static void every_kind_of_field_is_written_as_it_is(void **state)
{
    const struct {
        struct daruma_log_field field;
        const char *kv, *json;
    } rows[] = {
        {daruma_log_int("v", INT64_MIN), KV("-9223372036854775808"), JSON("-9223372036854775808")},
        {daruma_log_int("v", INT64_MAX), KV("9223372036854775807"), JSON("9223372036854775807")},
        {daruma_log_uint("v", UINT64_MAX), KV("18446744073709551615"),
         JSON("18446744073709551615")},
        {daruma_log_uint("v", 0), KV("0"), JSON("0")},
        {daruma_log_bool("v", true), KV("true"), JSON("true")},
        {daruma_log_bool("v", false), KV("false"), JSON("false")},
        {daruma_log_real("v", 0.1), KV("0.1"), JSON("0.1")},
        {daruma_log_real("v", -1.5), KV("-1.5"), JSON("-1.5")},
        {daruma_log_real("v", 1e21), KV("1e+21"), JSON("1e+21")},
        {daruma_log_real("v", DBL_MAX), KV("1.79769313486232e+308"), JSON("1.79769313486232e+308")},
        {daruma_log_real("v", INFINITY), KV("inf"), JSON("null")},
        {daruma_log_real("v", -INFINITY), KV("-inf"), JSON("null")},
        {daruma_log_real("v", NAN), NULL, JSON("null")}, /* libc chooses the sign of a NaN */
        {daruma_log_text("v", "plain"), KV("plain"), JSON("\"plain\"")},
        {daruma_log_text("v", ""), KV("\"\""), JSON("\"\"")},
        {daruma_log_text("v", NULL), KV("\"\""), JSON("\"\"")},
        {daruma_log_bytes("v", NULL, 9), KV("\"\""), JSON("\"\"")},
        {daruma_log_text("v", "true"), KV("true"), JSON("\"true\"")},
        {daruma_log_text("v", "a=b"), KV("\"a=b\""), JSON("\"a=b\"")},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].kv != NULL) {
            assert_line(DARUMA_LOG_KV, rows[i].field, rows[i].kv);
        }
        assert_line(DARUMA_LOG_JSON, rows[i].field, rows[i].json);
    }
}

/* What foreign bytes become between quotes, in every form alike. */
static const struct {
    const char *bytes;
    size_t length;
    const char *expected;
} escapes[] = {
#define BYTES(literal) literal, sizeof(literal) - 1
    {BYTES("say \"no\""), "say \\\"no\\\""},
    {BYTES("back\\slash"), "back\\\\slash"},
    {BYTES("two\nlines"), "two\\nlines"},
    {BYTES("over\rwritten"), "over\\rwritten"},
    {BYTES("a\tb"), "a\\tb"},
    {BYTES("nul\0 inside"), "nul\\u0000 inside"},
    {BYTES("\x01\x1f"), "\\u0001\\u001f"},
    {BYTES("\x1b[31mred\x1b[0m"), "\\u001b[31mred\\u001b[0m"}, /* colours of a terminal */
    {BYTES("\x1b]0;title\x07"), "\\u001b]0;title\\u0007"},     /* its title */
    {BYTES("rub\x7fout"), "rub\\u007fout"},
    {BYTES("\xc2\x9b"
           "31m"),
     "\\u009b31m"}, /* CSI in one character */
    {BYTES("\xc2\x80\xc2\x9f"), "\\u0080\\u009f"},
    {BYTES("\xc2\xa0"), "\xc2\xa0"}, /* the first that is none of those */
    {BYTES("\xe5\xa4\xb1\xe6\x95\x97"), "\xe5\xa4\xb1\xe6\x95\x97"},
    {BYTES("\xf0\x9f\x8e\x8e"), "\xf0\x9f\x8e\x8e"},
    {BYTES("\xf4\x8f\xbf\xbf"), "\xf4\x8f\xbf\xbf"},
#define BAD "\xef\xbf\xbd"
    {BYTES("\xff\xfe"), BAD BAD},
    {BYTES("\x80"), BAD},
    {BYTES("\xc0\xaf"), BAD BAD},                 /* overlong */
    {BYTES("\xe0\x80\xaf"), BAD BAD BAD},         /* overlong */
    {BYTES("\xed\xa0\x80"), BAD BAD BAD},         /* a surrogate */
    {BYTES("\xf4\x90\x80\x80"), BAD BAD BAD BAD}, /* above U+10FFFF */
    {BYTES("\xe3\x81"), BAD BAD},                 /* cut off */
    {BYTES("\xe3\x81\""), BAD BAD "\\\""},        /* does not swallow the quote */
    {BYTES("\xf0\x9f\x8e"), BAD BAD BAD},
    {BYTES("\xc2"), BAD},
    {BYTES("\xc2\n"), BAD "\\n"},
};

static void foreign_bytes_cannot_fake_a_field_a_line_or_an_escape(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        char *exact = malloc(escapes[i].length); /* no NUL behind it */
        char kv[256], json[256];
        assert_non_null(exact);
        memcpy(exact, escapes[i].bytes, escapes[i].length);
        (void)snprintf(kv, sizeof kv, KV("\"%s\""), escapes[i].expected);
        (void)snprintf(json, sizeof json, JSON("\"%s\""), escapes[i].expected);
        struct daruma_log_field field = daruma_log_bytes("v", exact, escapes[i].length);
        assert_line(DARUMA_LOG_KV, field, kv);
        assert_line(DARUMA_LOG_JSON, field, json);
        assert_true(line_is_clean(kv, strlen(kv)));
        assert_true(line_is_json(json, strlen(json)));
        free(exact);
    }
}

/* Usually a literal, but nothing that it is made from can break the line. */
static void an_event_cannot_fake_anything_either(void **state)
{
    static const char event[] = "a b\n\x1b[2J\" level=error \xff";
    static const char *const expected[] = {
        [DARUMA_LOG_KV] = "time=2026-11-15T10:20:30.500Z level=info "
                          "event=\"a b\\n\\u001b[2J\\\" level=error " BAD "\"",
        [DARUMA_LOG_JSON] = "{\"time\":\"2026-11-15T10:20:30.500Z\",\"level\":\"info\","
                            "\"event\":\"a b\\n\\u001b[2J\\\" level=error " BAD "\"}",
        [DARUMA_LOG_TEXT] = "10:20:30.500  info \"a b\\n\\u001b[2J\\\" level=error " BAD "\"",
    };

    (void)state;
    for (int form = DARUMA_LOG_KV; form <= DARUMA_LOG_TEXT; form++) {
        struct page page = {0};
        struct daruma_logger logger = logger_to(&page, (enum daruma_log_form)form);
        daruma_log_write(&logger, DARUMA_LOG_INFO, event, NULL, 0);
        assert_string_equal(page.text, expected[form]);
        daruma_log_write(&logger, DARUMA_LOG_INFO, NULL, NULL, 0);
        assert_int_equal(page.count, 2); /* no event at all is no crash */
    }
}

/* In every form the line is whole, however long it would have been, and says when it was cut. */
static void assert_cut_well(enum daruma_log_form form, const struct page *page, bool was_cut)
{
    static const char *const marks[] = {" \xe2\x80\xa6", ",\"cut\":true}", " \xe2\x80\xa6"};
    size_t mark = strlen(marks[form]);

    assert_int_equal(page->count, 1);
    assert_true(page->length <= DARUMA_LOG_LINE_MAX);
    assert_true(line_is_clean(page->text, page->length));
    assert_true(form == DARUMA_LOG_JSON ? line_is_json(page->text, page->length)
                                        : line_is_key_value(page->text, page->length));
    assert_int_equal(strcmp(page->text + page->length - mark, marks[form]) == 0, was_cut);
}

static void a_field_that_does_not_fit_is_left_out_whole(void **state)
{
    static char value[DARUMA_LOG_LINE_MAX + 100];

    (void)state;
    memset(value, 'x', sizeof value);
    for (size_t length = DARUMA_LOG_LINE_MAX - 200; length < sizeof value; length++) {
        for (int form = DARUMA_LOG_KV; form <= DARUMA_LOG_TEXT; form++) {
            struct page page = {0};
            struct daruma_logger logger = logger_to(&page, (enum daruma_log_form)form);
            DARUMA_LOG(&logger, DARUMA_LOG_INFO, "long", daruma_log_uint("before", 7),
                       daruma_log_bytes("value", value, length), daruma_log_uint("after", 8));
            bool has_after = strstr(page.text, "after") != NULL;
            assert_non_null(strstr(page.text, "before"));
            assert_cut_well((enum daruma_log_form)form, &page, !has_after);
            assert_true(page.length < 200 || page.length > length); /* whole or not there */
        }
    }
}

static void escapes_are_not_cut_in_two(void **state)
{
    static char value[DARUMA_LOG_LINE_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof value; i++) {
        value[i] = "\"\xe5\xa4\xb1\x1b\xff"[i % 6];
    }
    for (size_t length = 0; length < sizeof value; length += 7) {
        for (int form = DARUMA_LOG_KV; form <= DARUMA_LOG_TEXT; form++) {
            struct page page = {0};
            struct daruma_logger logger = logger_to(&page, (enum daruma_log_form)form);
            DARUMA_LOG(&logger, DARUMA_LOG_INFO, "long", daruma_log_bytes("value", value, length));
            assert_cut_well((enum daruma_log_form)form, &page, strstr(page.text, "value") == NULL);
        }
    }
}

static void many_fields_are_cut_between_two_of_them(void **state)
{
    struct daruma_log_field fields[1000];

    (void)state;
    for (size_t i = 0; i < 1000; i++) {
        fields[i] = daruma_log_uint("number", i);
    }
    for (int form = DARUMA_LOG_KV; form <= DARUMA_LOG_TEXT; form++) {
        struct page page = {0};
        struct daruma_logger logger = logger_to(&page, (enum daruma_log_form)form);
        daruma_log_write(&logger, DARUMA_LOG_INFO, "many", fields, 1000);
        assert_cut_well((enum daruma_log_form)form, &page, true);
        assert_true(page.length > DARUMA_LOG_LINE_MAX - 40); /* as much as there is room for */
    }
}

static void an_event_of_any_length_leaves_the_line_whole(void **state)
{
    static char event[2 * DARUMA_LOG_LINE_MAX];

    (void)state;
    for (size_t length = 3000; length<sizeof event - 1; length += length> 4200 ? 97 : 1) {
        memset(event, length % 2 == 0 ? 'x' : '"', length);
        for (int form = DARUMA_LOG_KV; form <= DARUMA_LOG_TEXT; form++) {
            struct page page = {0};
            struct daruma_logger logger = logger_to(&page, (enum daruma_log_form)form);
            DARUMA_LOG(&logger, DARUMA_LOG_INFO, event, daruma_log_uint("after", 8));
            assert_cut_well((enum daruma_log_form)form, &page, strstr(page.text, "after") == NULL);
        }
    }
}

static uint64_t counted(int *calls)
{
    return (uint64_t)++ * calls;
}

static void a_level_that_is_off_is_not_written_and_its_fields_not_made(void **state)
{
    struct page page = {0};
    struct daruma_logger logger = logger_to(&page, DARUMA_LOG_KV);
    int calls = 0;

    (void)state;
    logger.level = DARUMA_LOG_WARN;
    DARUMA_LOG(&logger, DARUMA_LOG_INFO, "quiet", daruma_log_uint("n", counted(&calls)));
    daruma_log_write(&logger, DARUMA_LOG_DEBUG, "quiet", NULL, 0);
    assert_int_equal(page.count, 0);
    assert_int_equal(calls, 0);
    DARUMA_LOG(&logger, DARUMA_LOG_WARN, "heard", daruma_log_uint("n", counted(&calls)));
    assert_int_equal(page.count, 1);
    assert_int_equal(calls, 1);
}

static void a_level_lets_itself_and_what_is_above_through(void **state)
{
    (void)state;
    for (int set = DARUMA_LOG_DEBUG; set <= DARUMA_LOG_OFF; set++) {
        for (int asked = DARUMA_LOG_DEBUG; asked <= DARUMA_LOG_OFF; asked++) {
            struct page page = {0};
            struct daruma_logger logger = logger_to(&page, DARUMA_LOG_KV);
            bool on = asked >= set && asked != DARUMA_LOG_OFF;
            daruma_log_set_level(&logger, (enum daruma_log_level)set);
            assert_int_equal(daruma_log_is_on(&logger, (enum daruma_log_level)asked), on);
            daruma_log_write(&logger, (enum daruma_log_level)asked, "e", NULL, 0);
            assert_int_equal(page.count, on);
        }
    }
}

static void without_a_logger_or_a_sink_nothing_happens(void **state)
{
    struct daruma_logger zeroed = {0};
    int calls = 0;

    (void)state;
    DARUMA_LOG((struct daruma_logger *)NULL, DARUMA_LOG_ERROR, "e",
               daruma_log_uint("n", counted(&calls)));
    DARUMA_LOG(&zeroed, DARUMA_LOG_ERROR, "e", daruma_log_uint("n", counted(&calls)));
    daruma_log_write(NULL, DARUMA_LOG_ERROR, "e", NULL, 0);
    assert_false(daruma_log_is_on(NULL, DARUMA_LOG_ERROR));
    assert_false(daruma_log_is_on(&zeroed, DARUMA_LOG_ERROR));
    assert_int_equal(calls, 0);
}

static void every_level_has_a_word_that_reads_back(void **state)
{
    static const char *const words[] = {"debug", "info", "warn", "error", "off"};
    enum daruma_log_level found = DARUMA_LOG_DEBUG;

    (void)state;
    for (int i = DARUMA_LOG_DEBUG; i <= DARUMA_LOG_OFF; i++) {
        assert_string_equal(daruma_log_level_text((enum daruma_log_level)i), words[i]);
        assert_true(daruma_log_level_parse(words[i], &found));
        assert_int_equal(found, i);
    }
    assert_string_equal(daruma_log_level_text((enum daruma_log_level)5), "unknown");
    assert_string_equal(daruma_log_level_text((enum daruma_log_level) - 1), "unknown");
    assert_false(daruma_log_level_parse("INFO", &found));
    assert_false(daruma_log_level_parse("warning", &found));
    assert_false(daruma_log_level_parse("", &found));
    assert_false(daruma_log_level_parse(NULL, &found));
    assert_int_equal(found, DARUMA_LOG_OFF); /* untouched */
}

static void the_time_is_that_of_the_clock(void **state)
{
    static const struct {
        int64_t unix_ms;
        const char *expected;
    } rows[] = {
        {0, "time=1970-01-01T00:00:00.000Z level=info event=e"},
        {999, "time=1970-01-01T00:00:00.999Z level=info event=e"},
        {1709208000001, "time=2024-02-29T12:00:00.001Z level=info event=e"},
        {253402300799999, "time=9999-12-31T23:59:59.999Z level=info event=e"},
        {-1, "time=1970-01-01T00:00:00.000Z level=info event=e"}, /* a clock never set */
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct page page = {0};
        int64_t unix_ms = rows[i].unix_ms;
        struct daruma_logger logger = logger_to(&page, DARUMA_LOG_KV);
        logger.unix_user = &unix_ms;
        daruma_log_write(&logger, DARUMA_LOG_INFO, "e", NULL, 0);
        assert_string_equal(page.text, rows[i].expected);
    }
}

static void no_clock_reading_is_too_far_away(void **state)
{
    struct page page = {0};
    int64_t unix_ms = INT64_MAX;
    struct daruma_logger logger = logger_to(&page, DARUMA_LOG_JSON);

    (void)state;
    logger.unix_user = &unix_ms;
    daruma_log_write(&logger, DARUMA_LOG_INFO, "e", NULL, 0);
    assert_true(line_is_json(page.text, page.length));
}

/* The time at the front of a line, read back by other code. */
static int64_t time_of(const struct page *page)
{
    const char *start = page->text + strlen("time=");
    int64_t ms = -1;

    assert_true(daruma_rfc3339_parse(start, strcspn(start, " "), &ms));
    return ms;
}

static void every_day_of_eight_hundred_years_is_written_right(void **state)
{
    struct page page = {0};
    struct daruma_logger logger = logger_to(&page, DARUMA_LOG_KV);
    int64_t unix_ms;

    (void)state;
    logger.unix_user = &unix_ms;
    for (int64_t day = 0; day < 2 * 146097; day++) {
        unix_ms = day * 86400000 + day * 7919 % 86400000;
        daruma_log_write(&logger, DARUMA_LOG_INFO, "e", NULL, 0);
        if (time_of(&page) != unix_ms) {
            fail_msg("%lld is written as %s", (long long)unix_ms, page.text);
        }
    }
}

static int64_t real_ms(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void without_a_clock_the_time_is_the_real_one(void **state)
{
    struct page page = {0};
    struct daruma_logger logger = {.sink = keep_line, .sink_user = &page};

    (void)state;
    for (int i = 0; i < 200; i++) {
        int64_t before_ms = real_ms();
        daruma_log_write(&logger, DARUMA_LOG_INFO, "e", NULL, 0);
        assert_in_range(time_of(&page), before_ms, real_ms());
    }
}

static void a_line_of_another_making_is_cut_where_ours_end(void **state)
{
    static char line[2 * DARUMA_LOG_LINE_MAX], found[sizeof line];
    int ends[2];

    (void)state;
    memset(line, 'x', sizeof line);
    assert_int_equal(pipe(ends), 0);
    daruma_log_to_fd((void *)(intptr_t)ends[1], DARUMA_LOG_INFO, line, sizeof line);
    assert_int_equal(read(ends[0], found, sizeof found), DARUMA_LOG_LINE_MAX + 1);
    assert_int_equal(found[DARUMA_LOG_LINE_MAX - 1], 'x');
    assert_int_equal(found[DARUMA_LOG_LINE_MAX], '\n');
    close(ends[0]);
    close(ends[1]);
}

static void a_file_descriptor_gets_a_line_with_its_newline(void **state)
{
    char text[64] = {0};
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    daruma_log_to_fd((void *)(intptr_t)ends[1], DARUMA_LOG_INFO, "hello, nobody", 5);
    assert_int_equal(read(ends[0], text, sizeof text), 6);
    assert_string_equal(text, "hello\n");
    close(ends[0]);
    close(ends[1]);
    daruma_log_to_fd((void *)(intptr_t)-1, DARUMA_LOG_INFO, "lost", 4); /* silently */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_value_line_has_time_level_event_and_fields),
        cmocka_unit_test(a_json_line_is_one_object),
        cmocka_unit_test(a_text_line_is_for_a_person),
        cmocka_unit_test(a_line_needs_no_fields),
        cmocka_unit_test(every_kind_of_field_is_written_as_it_is),
        cmocka_unit_test(foreign_bytes_cannot_fake_a_field_a_line_or_an_escape),
        cmocka_unit_test(an_event_cannot_fake_anything_either),
        cmocka_unit_test(a_field_that_does_not_fit_is_left_out_whole),
        cmocka_unit_test(escapes_are_not_cut_in_two),
        cmocka_unit_test(many_fields_are_cut_between_two_of_them),
        cmocka_unit_test(an_event_of_any_length_leaves_the_line_whole),
        cmocka_unit_test(a_level_that_is_off_is_not_written_and_its_fields_not_made),
        cmocka_unit_test(a_level_lets_itself_and_what_is_above_through),
        cmocka_unit_test(without_a_logger_or_a_sink_nothing_happens),
        cmocka_unit_test(every_level_has_a_word_that_reads_back),
        cmocka_unit_test(the_time_is_that_of_the_clock),
        cmocka_unit_test(no_clock_reading_is_too_far_away),
        cmocka_unit_test(a_file_descriptor_gets_a_line_with_its_newline),
        cmocka_unit_test(every_day_of_eight_hundred_years_is_written_right),
        cmocka_unit_test(without_a_clock_the_time_is_the_real_one),
        cmocka_unit_test(a_line_of_another_making_is_cut_where_ours_end),
    };
    return HARNESS_RUN(argc, argv, tests);
}
