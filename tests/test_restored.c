/* SPDX-License-Identifier: MIT
 *
 * restored -- the mark of a store that was put back is read as it was written, and nothing else is one.
 */
#include "harness.h"

#include "store/restored.h"

static void a_mark_is_read_as_it_was_written(void **state)
{
    const struct restored written = {.at_ms = INT64_MAX, .backup_ms = INT64_MIN, .unknown_ms = -1};
    struct restored read = {0};
    char text[RESTORED_TEXT_MAX];

    (void)state;
    restored_render(&written, text);
    assert_true(restored_parse(span_of(text), &read));
    assert_true(read.at_ms == written.at_ms && read.backup_ms == written.backup_ms &&
                read.unknown_ms == written.unknown_ms);
}

static void what_is_no_mark_is_refused(void **state)
{
    static const char *const texts[] = {"",      "1",      "1 2",     "1 2 x",
                                        "0 2 3", "-1 2 3", "1 2 3 4", "1  3"};
    struct restored read = {.at_ms = 7};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_false(restored_parse(span_of(texts[i]), &read));
    }
    assert_int_equal(read.at_ms, 7);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mark_is_read_as_it_was_written),
        cmocka_unit_test(what_is_no_mark_is_refused),
    };
    return HARNESS_RUN(argc, argv, tests);
}
