/* SPDX-License-Identifier: MIT
 *
 * Which queues a caller sees: names, beginnings of names, and the server's own.
 */
#include "harness.h"

#include "task/reach.h"

static void only_what_is_named_is_in_reach(void **state)
{
    static const struct {
        const char *patterns[3];
        const char *queue;
        bool is_seen, is_seen_with_own;
    } rows[] = {
        {{NULL}, "orders", true, true},
        {{NULL}, "_callbacks", false, true},
        {{"orders"}, "orders", true, true},
        {{"orders"}, "orders2", false, false},
        {{"orders"}, "order", false, false},
        {{"orders"}, "Orders", false, false},
        {{"orders*"}, "orders", true, true},
        {{"orders*"}, "orders.eu", true, true},
        {{"orders*"}, "order", false, false},
        {{"mail", "orders*"}, "orders-2", true, true},
        {{"mail", "orders*"}, "mail", true, true},
        {{"mail", "orders*"}, "mail2", false, false},
        {{"*"}, "orders", true, true},
        {{"*"}, "_callbacks", false, false},
        {{"*", "_callbacks"}, "_callbacks", false, true},
        {{"_*"}, "_route.x", false, true},
        {{"_*"}, "orders", false, false},
        {{"_route.x"}, "_route.x", false, true},
        {{"_route.*"}, "_callbacks", false, false},
        {{"orders*"}, "", false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct span patterns[3];
        struct reach reach = {.queues = patterns, .hides_own = true};
        while (reach.queue_count < 3 && rows[i].patterns[reach.queue_count] != NULL) {
            patterns[reach.queue_count] = span_of(rows[i].patterns[reach.queue_count]);
            reach.queue_count++;
        }
        bool is_seen = reach_has(&reach, span_of(rows[i].queue));
        reach.hides_own = false;
        bool is_seen_with_own = reach_has(&reach, span_of(rows[i].queue));
        if (is_seen != rows[i].is_seen || is_seen_with_own != rows[i].is_seen_with_own) {
            fail_msg("row %zu: %s", i, rows[i].queue);
        }
        assert_true(reach_is_whole(&reach) == (reach.queue_count == 0));
    }
}

static void a_star_stands_at_the_end_or_nowhere(void **state)
{
    static const char *const good[] = {"a", "a*", "*", "_*", "_route.*", "a.b-c_d", "A1"};
    static const char *const bad[] = {"",   "**",  "*a", "a*b",      "a**",
                                      ".a", "a b", "a/", "\xc3\xa4", "a?"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(reach_pattern_is_valid(span_of(good[i])));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(reach_pattern_is_valid(span_of(bad[i])));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        cmocka_unit_test(only_what_is_named_is_in_reach),
        cmocka_unit_test(a_star_stands_at_the_end_or_nowhere),
    };
    return HARNESS_RUN(argc, argv, claims);
}
