/* SPDX-License-Identifier: MIT
 *
 * Where JSON values begin and end: exactly, strictly, and no deeper than allowed.
 */
#include "harness.h"

#include "base/json_value.h"

#include <stdlib.h>

/* A copy without anything behind it, so that reading too far is seen. */
static struct span exact(const char *text)
{
    size_t len = strlen(text);
    char *copy = malloc(len > 0 ? len : 1);

    assert_non_null(copy);
    memcpy(copy, text, len);
    return (struct span){.at = copy, .len = len};
}

static bool is_taken(const char *text, const char *value, const char *rest)
{
    struct span all = exact(text), left = all, found = {0};
    bool is_ok = json_value_take(&left, &found) && span_is(found, value) && span_is(left, rest);

    free((char *)(uintptr_t)all.at);
    return is_ok;
}

static bool is_refused(const char *text)
{
    struct span all = exact(text), left = all, found;
    bool is_ok = !json_value_take(&left, &found) && left.at == all.at && left.len == all.len;

    free((char *)(uintptr_t)all.at);
    return is_ok;
}

/* engineering 1.14 */
static void a_value_is_its_exact_bytes(void **state)
{
    (void)state;
    assert_true(is_taken("1.10", "1.10", ""));
    assert_true(is_taken("12345678901234567890123", "12345678901234567890123", ""));
    assert_true(is_taken(" { \"a\" : [ 1 , 2 ] } ,x", "{ \"a\" : [ 1 , 2 ] }", ",x"));
    assert_true(is_taken("{\"a\":1,\"a\":1.0}", "{\"a\":1,\"a\":1.0}", ""));
    assert_true(is_taken("\"a\\u0041\\\"\\\\\\/\\b\" 1", "\"a\\u0041\\\"\\\\\\/\\b\"", "1"));
    assert_true(is_taken("[]", "[]", ""));
    assert_true(is_taken("{}", "{}", ""));
    assert_true(is_taken("[{},[],[[]],{\"\":{}}]", "[{},[],[[]],{\"\":{}}]", ""));
    assert_true(is_taken("-0.5e+10]", "-0.5e+10", "]"));
    assert_true(is_taken("0", "0", ""));
    assert_true(is_taken("1E5", "1E5", ""));
    assert_true(is_taken("true", "true", ""));
    assert_true(is_taken("false,", "false", ","));
    assert_true(is_taken("\t\r\n null\n", "null", ""));
    assert_true(is_taken("01", "0", "1")); /* what is left over is the caller's to refuse */
}

static void what_is_not_well_formed_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "[",
        "}",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{,}",
        "[}",
        "{]",
        "{\"a\":1]",
        "[1}",
        "\"",
        "\"a",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "\"\t\"",
        "\"\x01\"",
        "tru",
        "nul",
        "falsy",
        "-",
        "+1",
        ".5",
        "1.",
        "1.e5",
        "1e",
        "1e+",
        "-a",
        "'a'",
        "NaN",
        "Infinity",
        "//1",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!is_refused(texts[i])) {
            fail_msg("taken: %s", texts[i]);
        }
    }
}

static void depth_is_bounded(void **state)
{
    char text[2 * (JSON_DEPTH_MAX + 1) + 1];

    (void)state;
    for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = '\0';
        assert_int_equal(is_taken(text, text, ""), depth == JSON_DEPTH_MAX);
    }
    char *deep = malloc(1000001);
    assert_non_null(deep);
    memset(deep, '{', 1000000);
    deep[1000000] = '\0';
    assert_true(is_refused(deep));
    free(deep);
}

/* Kinds of bracket do not get mixed up at any depth. */
static void each_bracket_is_closed_by_its_own(void **state)
{
    (void)state;
    assert_true(is_taken("[[{\"a\":[{\"b\":[]}]}]]", "[[{\"a\":[{\"b\":[]}]}]]", ""));
    assert_true(is_refused("[[{\"a\":[{\"b\":[]]}]}]"));
    assert_true(is_refused("{\"a\":[1,\"b\":2]}"));
    assert_true(is_refused("[\"a\":1]"));
    assert_true(is_refused("{\"a\",\"b\"}"));
}

static void an_object_is_walked_member_by_member(void **state)
{
    struct json_walk walk;
    struct span name, value;

    (void)state;
    assert_true(json_walk_begin(&walk, SPAN(" { \"a\" : 1 , \"b\\\"\":[2,{}]} x"), '{'));
    assert_int_equal(json_walk_next(&walk, &name, &value), JSON_STEP_VALUE);
    assert_true(span_is(name, "a") && span_is(value, "1"));
    assert_int_equal(json_walk_next(&walk, &name, &value), JSON_STEP_VALUE);
    assert_true(span_is(name, "b\\\"") && span_is(value, "[2,{}]"));
    assert_int_equal(json_walk_next(&walk, &name, &value), JSON_STEP_END);
    assert_true(span_is(walk.rest, "x"));
}

static void an_array_is_walked_element_by_element(void **state)
{
    struct json_walk walk;
    struct span name, value;

    (void)state;
    assert_true(json_walk_begin(&walk, SPAN("[ 1, \"2\" ]"), '['));
    assert_int_equal(json_walk_next(&walk, &name, &value), JSON_STEP_VALUE);
    assert_true(span_is(value, "1") && name.len == 0);
    assert_int_equal(json_walk_next(&walk, &name, &value), JSON_STEP_VALUE);
    assert_true(span_is(value, "\"2\""));
    assert_int_equal(json_walk_next(&walk, &name, &value), JSON_STEP_END);
    assert_true(json_walk_begin(&walk, SPAN("[]"), '['));
    assert_int_equal(json_walk_next(&walk, &name, &value), JSON_STEP_END);
    assert_false(json_walk_begin(&walk, SPAN("{}"), '['));
    assert_false(json_walk_begin(&walk, SPAN(""), '{'));
}

static void a_broken_walk_says_so(void **state)
{
    static const char *const texts[] = {"{",       "{\"a\":1", "{\"a\":1,}", "{,}",
                                        "{\"a\"}", "{\"a\":}", "{\"a\":1]}", "{\"a\":1 \"b\":1}"};
    struct json_walk walk;
    struct span name, value;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        enum json_step step = JSON_STEP_VALUE;
        assert_true(json_walk_begin(&walk, span_of(texts[i]), '{'));
        while (step == JSON_STEP_VALUE) {
            step = json_walk_next(&walk, &name, &value);
        }
        assert_int_equal(step, JSON_STEP_BROKEN);
    }
}

static void compact_leaves_only_the_blanks_out(void **state)
{
    char bytes[128];
    struct span text = SPAN("{ \"a b\\\" \" :\n [ 1.10 ,\t\"\\\\\" , \" \" ]\r\n}");
    size_t len = json_value_compact(text, bytes);

    (void)state;
    assert_true(len <= text.len);
    assert_true(
        span_is((struct span){.at = bytes, .len = len}, "{\"a b\\\" \":[1.10,\"\\\\\",\" \"]}"));
}

static bool stands_for(const char *written, const char *text)
{
    struct span value = exact(written);
    char bytes[64];
    size_t len = 0;
    bool is_text = json_value_text(value, bytes, &len);

    free((char *)(uintptr_t)value.at);
    assert_true(len <= strlen(written));
    return text == NULL ? !is_text
                        : is_text && span_is((struct span){.at = bytes, .len = len}, text);
}

static void a_string_stands_for_its_text(void **state)
{
    (void)state;
    assert_true(stands_for("\"\"", ""));
    assert_true(stands_for("\"plain \xc3\xa9\"", "plain \xc3\xa9"));
    assert_true(stands_for("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"));
    assert_true(stands_for("\"\\u0041\\u007F\\u0080\\u07ff\"", "A\x7f\xc2\x80\xdf\xbf"));
    assert_true(stands_for("\"\\u0800\\uFFFF\"", "\xe0\xa0\x80\xef\xbf\xbf"));
    assert_true(stands_for("\"\\ud800\\udc00\\uDBFF\\uDFFF\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"));
    assert_true(stands_for("\"\\ud800\"", NULL));
    assert_true(stands_for("\"\\udc00\\ud800\"", NULL));
    assert_true(stands_for("\"\\ud800\\n\\udc00\"", NULL));
    assert_true(stands_for("\"\\ud800\\u0041\"", NULL));
}

static bool name_is(const char *object, const char *name)
{
    struct json_walk walk;
    struct span written, value;

    assert_true(json_walk_begin(&walk, span_of(object), '{'));
    assert_int_equal(json_walk_next(&walk, &written, &value), JSON_STEP_VALUE);
    return json_name_is(written, span_of(name));
}

static void a_name_is_what_it_stands_for(void **state)
{
    char object[1024] = "{\"";

    (void)state;
    assert_true(name_is("{\"url\":1}", "url"));
    assert_true(name_is("{\"u\\u0072l\":1}", "url"));
    assert_true(name_is("{\"\":1}", ""));
    assert_false(name_is("{\"u\\\\u0072l\":1}", "url"));
    assert_false(name_is("{\"u\\u0072\":1}", "url"));
    assert_false(name_is("{\"\\ud800\":1}", "url"));
    assert_false(name_is("{\"URL\":1}", "url"));
    for (int i = 0; i < 100; i++) {
        strncat(object, "\\u0061", sizeof object - strlen(object) - 1);
    }
    strncat(object, "\":1}", sizeof object - strlen(object) - 1);
    assert_false(name_is(object, "url")); /* longer than what is looked for */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_its_exact_bytes),
        cmocka_unit_test(what_is_not_well_formed_is_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(each_bracket_is_closed_by_its_own),
        cmocka_unit_test(an_object_is_walked_member_by_member),
        cmocka_unit_test(an_array_is_walked_element_by_element),
        cmocka_unit_test(a_broken_walk_says_so),
        cmocka_unit_test(compact_leaves_only_the_blanks_out),
        cmocka_unit_test(a_string_stands_for_its_text),
        cmocka_unit_test(a_name_is_what_it_stands_for),
    };
    return HARNESS_RUN(argc, argv, tests);
}
