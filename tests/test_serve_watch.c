/* SPDX-License-Identifier: MIT
 *
 * Tests of serve_watch: one line when the store begins to fail, one when it is well again, however
 * often it changes its mind in between.
 */
#include "harness.h"

#include "cli/serve_watch.h"

#include <string.h>

struct page {
    char first[DARUMA_LOG_LINE_MAX], last[DARUMA_LOG_LINE_MAX];
    int count;
};

static void keep_line(void *user, enum daruma_log_level level, const char *line, size_t length)
{
    struct page *page = user;

    (void)level;
    assert_true(length < sizeof page->last);
    memcpy(page->last, line, length);
    page->last[length] = '\0';
    if (page->count++ == 0) {
        memcpy(page->first, page->last, length + 1);
    }
}

static void a_store_that_fails_now_and_then_is_one_failure(void **state)
{
    struct page page = {.count = 0};
    struct daruma_logger log = {
        .level = DARUMA_LOG_INFO, .form = DARUMA_LOG_KV, .sink = keep_line, .sink_user = &page};
    struct serve_watch watch = {0};
    const struct error err = {.fault = FAULT_FULL, .text = "no room"};
    int64_t now_ms = 1000;

    (void)state;
    serve_watch_look(&watch, &log, now_ms, 0, &err);
    assert_int_equal(page.count, 0);
    for (int i = 0; i < 10; i++, now_ms += SERVE_WATCH_WELL_MS - 1) {
        serve_watch_look(&watch, &log, now_ms, FAULT_FULL, &err);
        serve_watch_look(&watch, &log, now_ms, 0, &err);
        serve_watch_look(&watch, &log, now_ms + SERVE_WATCH_WELL_MS - 1, 0, &err);
    }
    assert_int_equal(page.count, 1);
    assert_non_null(strstr(page.first, "event=store_failing code=overloaded error=\"no room\""));
}

static void well_again_is_said_once_with_how_long_it_took(void **state)
{
    struct page page = {.count = 0};
    struct daruma_logger log = {
        .level = DARUMA_LOG_INFO, .form = DARUMA_LOG_KV, .sink = keep_line, .sink_user = &page};
    struct serve_watch watch = {0};
    const struct error err = {.fault = FAULT_IO, .text = "gone"};

    (void)state;
    serve_watch_look(&watch, &log, 1000, FAULT_IO, &err);
    assert_int_equal(serve_watch_wait_ms(&watch, 60000), 60000);
    serve_watch_look(&watch, &log, 1500, 0, &err);
    assert_int_equal(serve_watch_wait_ms(&watch, 60000), SERVE_WATCH_WELL_MS);
    assert_int_equal(serve_watch_wait_ms(&watch, 5), 5);
    serve_watch_look(&watch, &log, 1500 + SERVE_WATCH_WELL_MS, 0, &err);
    serve_watch_look(&watch, &log, 1501 + SERVE_WATCH_WELL_MS, 0, &err);
    assert_int_equal(page.count, 2);
    assert_non_null(strstr(page.last, "event=store_well after_ms=500"));
    assert_int_equal(serve_watch_wait_ms(&watch, 60000), 60000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_that_fails_now_and_then_is_one_failure),
        cmocka_unit_test(well_again_is_said_once_with_how_long_it_took),
    };

    return HARNESS_RUN(argc, argv, tests);
}
