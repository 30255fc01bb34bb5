/* SPDX-License-Identifier: MIT */
#include "harness.h"

#include "base/database_url.h"

static void hosts_and_name_of_a_url_may_be_shown(void **state)
{
    static const struct {
        const char *url, *shown;
    } rows[] = {
        {"//db1/shop", "db1/shop"},
        {"//daruma@db1/shop", "db1/shop"},
        {"//daruma:pw@db1:5432,db2:5433/shop?sslmode=require&user=x", "db1:5432,db2:5433/shop"},
        {"//daruma:a%40b%2Fc%3f%25@[::1]:5432/shop", "[::1]:5432/shop"},
        {"//daruma:a?b#c&d=e:f@db1/shop", "db1/shop"},
        {"///shop?host=/run/postgresql&user=daruma", "/shop"},
        {"//%2Frun%2Fpostgresql/shop", "%2Frun%2Fpostgresql/shop"},
        {"//", ""},
        {"//db1?dbname=shop", "db1"},
    };
    struct span shown;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(database_url_read(span_of(rows[i].url), &shown));
        assert_true(span_is(shown, rows[i].shown));
    }
}

static void what_a_password_may_have_moved_is_refused(void **state)
{
    static const char *const bad[] = {
        "/db1",
        "//daruma:a%zz@db1/shop",
        "//daruma:a%4@db1/shop",
        "//daruma:a%",
        "//daruma:a%00@db1/shop",
        "//daruma:a@b@db1/shop",
        "//daruma:a@b/c@db1/shop",
        "//daruma:a@b?c=d@db1/shop",
        "//daruma:a/b@db1/shop",
        "//daruma:1/b?c=d@db1/shop",
        "//db1:port/shop",
        "//[::1]x/shop",
        "//db1/shop?password=a&b",
        "//db1/shop?password=a=b",
    };
    struct span shown = SPAN("untouched");

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(database_url_read(span_of(bad[i]), &shown));
        assert_true(span_is(shown, "untouched"));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_and_name_of_a_url_may_be_shown),
        cmocka_unit_test(what_a_password_may_have_moved_is_refused),
    };
    return HARNESS_RUN(argc, argv, tests);
}
