/* SPDX-License-Identifier: MIT */
#include "harness.h"

#include "base/span.h"

static void equality_is_by_bytes_and_length(void **state)
{
    (void)state;
    assert_true(span_equal((struct span){"a\0b", 3}, (struct span){"a\0b", 3}));
    assert_false(span_equal((struct span){"a\0b", 3}, (struct span){"a\0c", 3}));
    assert_false(span_equal(SPAN("a"), SPAN("ab")));
    assert_true(span_equal((struct span){0}, SPAN("")));
    assert_true(span_is(SPAN("x"), "x"));
    assert_false(span_is((struct span){"x\0", 2}, "x"));
    assert_true(span_is_nocase(SPAN("Content-TYPE"), "content-type"));
    assert_false(span_is_nocase(SPAN("content-typ"), "content-type"));
    assert_true(span_starts(SPAN("abc"), "ab"));
    assert_false(span_starts(SPAN("a"), "ab"));
    assert_int_equal(span_of(NULL).len, 0);
}

static bool is_letter(unsigned char byte)
{
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
}

/* Every pair of bytes, at every place of texts shorter and longer than a machine word. */
static void case_is_that_of_ascii_letters_alone(void **state)
{
    char one[20], other[20];

    (void)state;
    memset(one, 'k', sizeof one);
    memset(other, 'K', sizeof other);
    for (size_t len = 1; len <= sizeof one; len++) {
        for (unsigned pair = 0; pair < 256 * 256; pair++) {
            size_t at = pair % len;
            unsigned char a = (unsigned char)(pair >> 8), b = (unsigned char)pair;
            one[at] = (char)a;
            other[at] = (char)b;
            bool is_same = a == b || (is_letter(a) && is_letter(b) && (a | 0x20) == (b | 0x20));
            assert_int_equal(span_equal_nocase((struct span){one, len}, (struct span){other, len}),
                             is_same);
            one[at] = 'k';
            other[at] = 'K';
        }
    }
}

static void cutting_takes_the_front_and_the_byte(void **state)
{
    struct span rest = SPAN("a,b"), front;

    (void)state;
    assert_true(span_cut(&rest, ',', &front));
    assert_true(span_is(front, "a"));
    assert_false(span_cut(&rest, ',', &front));
    assert_true(span_is(front, "b"));
    assert_int_equal(rest.len, 0);
    assert_false(span_cut(&rest, ',', &front));
    assert_int_equal(front.len, 0);
    assert_true(span_is(span_trim(SPAN(" \t a b\t")), "a b"));
    assert_true(span_is(span_trim(SPAN("  ")), ""));
    assert_int_equal(span_from(SPAN("ab"), 9).len, 0);
    assert_true(span_is(span_until(SPAN("ab"), 1), "a"));
}

/* A breach of the language's rules, which shows with -fsanitize=undefined. */
static void an_empty_span_may_point_to_nothing(void **state)
{
    struct span nothing = {.at = NULL, .len = 0}, front, rest = nothing;
    char byte = 'x';

    (void)state;
    span_copy(&byte, nothing);
    span_copy(NULL, nothing);
    assert_int_equal(byte, 'x');
    assert_null(span_find(nothing, '\0'));
    assert_int_equal(span_from(nothing, 1).len + span_until(nothing, 1).len, 0);
    assert_int_equal(span_trim(nothing).len, 0);
    assert_false(span_cut(&rest, ',', &front));
    assert_int_equal(front.len + rest.len, 0);
    assert_true(span_equal(nothing, SPAN("")) && span_equal_nocase(nothing, SPAN("")));
    assert_true(span_is(nothing, "") && span_starts(nothing, ""));
    assert_false(span_is(nothing, "a") || span_starts(nothing, "a"));
    assert_true(span_is_utf8(nothing));
}

static void copying_and_finding_take_all_bytes(void **state)
{
    struct span bytes = SPAN("a\0b");
    char copy[3];

    (void)state;
    span_copy(copy, bytes);
    assert_memory_equal(copy, bytes.at, 3);
    assert_ptr_equal(span_find(bytes, 'b'), bytes.at + 2);
    assert_ptr_equal(span_find(bytes, '\0'), bytes.at + 1);
    assert_null(span_find(bytes, 'c'));
}

static void only_well_formed_utf8_is_utf8(void **state)
{
    static const char *const bad[] = {"\x80",
                                      "\xc1\xbf",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xe3\x81",
                                      "a\xff"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(span_is_utf8(span_of(bad[i])));
    }
    assert_true(span_is_utf8(span_of("要約 é \xf0\x9f\x98\x80")));
    assert_true(span_is_utf8((struct span){"\0", 1}));
    assert_true(span_is_utf8(SPAN("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf")));
}

static void numbers_are_whole_and_do_not_overflow(void **state)
{
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.0",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999",
                                      "0x1"};
    int64_t value = 0;

    (void)state;
    assert_true(span_to_int(SPAN("9223372036854775807"), &value));
    assert_true(value == INT64_MAX);
    assert_true(span_to_int(SPAN("-9223372036854775808"), &value));
    assert_true(value == INT64_MIN);
    assert_true(span_to_int(SPAN("-0"), &value));
    assert_true(value == 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(span_to_int(span_of(bad[i]), &value));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equality_is_by_bytes_and_length),
        cmocka_unit_test(case_is_that_of_ascii_letters_alone),
        cmocka_unit_test(cutting_takes_the_front_and_the_byte),
        cmocka_unit_test(an_empty_span_may_point_to_nothing),
        cmocka_unit_test(copying_and_finding_take_all_bytes),
        cmocka_unit_test(only_well_formed_utf8_is_utf8),
        cmocka_unit_test(numbers_are_whole_and_do_not_overflow),
    };
    return HARNESS_RUN(argc, argv, tests);
}
