/* SPDX-License-Identifier: MIT
 *
 * The key of a save (A3): what it depends on, and what it does not.
 */
#include "harness.h"

#include "task/save_key.h"

#include <stdlib.h>
#include <string.h>

#define AT_MS  INT64_C(1794738030000) /* 2026-11-15T10:20:30Z */
#define URL    "https://example.org/"
#define KEY    "d80ef8a5-284b-51bb-a1bf-3e6cc11f2e3e"
#define MINUTE INT64_C(60000)

static struct save usual(void)
{
    return (struct save){
        .url = SPAN(URL), .client = SPAN("a"), .at_ms = AT_MS, .window_ms = SAVE_WINDOW_MS};
}

static const char *key_of(struct save save)
{
    static char keys[4][SAVE_KEY_TEXT_LEN + 1];
    static unsigned next;
    char *key = keys[next++ % 4];
    struct error err = {0};

    assert_int_equal(save_key_make(&save, key, &err), 0);
    return key;
}

/* A3. The expected ones are Python's uuid.uuid5 of the name that the header describes. */
static void a_key_is_the_uuid_5_that_other_languages_make(void **state)
{
    struct save save = usual();

    (void)state;
    assert_string_equal(key_of(save), KEY);
    save.method = SPAN("POST");
    save.body = (struct span){.at = "{\"url\":\"\0\"}", .len = 11};
    assert_string_equal(key_of(save), "8bc4cb50-6aa6-571b-b6fc-84363f08abd9");
}

static void a_double_send_within_a_window_has_one_key(void **state) /* A3 */
{
    struct save first = usual(), second = usual();

    (void)state;
    first.at_ms = save_window_from_ms(&first);
    for (int64_t later_ms = 0; later_ms < SAVE_WINDOW_MS; later_ms += MINUTE - 1) {
        second.at_ms = first.at_ms + later_ms;
        assert_string_equal(key_of(first), key_of(second));
        assert_int_equal(save_window_from_ms(&second), first.at_ms);
    }
    second.at_ms = first.at_ms + SAVE_WINDOW_MS;
    assert_string_not_equal(key_of(first), key_of(second));
    second.at_ms = first.at_ms - 1;
    assert_string_not_equal(key_of(first), key_of(second));
}

static void each_part_of_a_save_makes_another_key(void **state)
{
    struct save others[7];

    (void)state;
    for (size_t i = 0; i < 7; i++) {
        others[i] = usual();
    }
    others[0].url = SPAN(URL "?");
    others[1].client = SPAN("b");
    others[2].window_ms = 2 * SAVE_WINDOW_MS;
    others[3].at_ms += SAVE_WINDOW_MS;
    others[4].method = SPAN("POST");
    others[5].method = SPAN("PUT");
    others[6].method = SPAN("POST"), others[6].body = SPAN("x");
    for (size_t i = 0; i < 7; i++) {
        assert_string_not_equal(key_of(others[i]), KEY);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(key_of(others[i]), key_of(others[j]));
        }
    }
}

static void windows_go_on_before_1970(void **state)
{
    struct save save = usual();

    (void)state;
    save.at_ms = -1;
    assert_int_equal(save_window_from_ms(&save), -SAVE_WINDOW_MS);
    save.at_ms = -SAVE_WINDOW_MS;
    assert_int_equal(save_window_from_ms(&save), -SAVE_WINDOW_MS);
    save.at_ms = 0;
    assert_int_equal(save_window_from_ms(&save), 0);
}

static void check_normal(const char *given, const char *wanted)
{
    struct error err = {0};
    struct buf out;

    buf_init(&out, 65536);
    assert_int_equal(save_url_normalise(span_of(given), &out, &err), 0);
    if (!span_is(buf_span(&out), wanted)) {
        fail_msg("%s became %.*s, not %s", given, SPAN_ARGS(buf_span(&out)), wanted);
    }
    buf_done(&out);
}

static void two_ways_to_write_one_address_are_one(void **state) /* A3 */
{
    (void)state;
    check_normal("HTTPS://Example.ORG", "https://example.org/");
    check_normal("https://example.org:443/#top", "https://example.org/");
    check_normal("http://example.org:80?q=1#", "http://example.org/?q=1");
    check_normal("http://example.org:080/", "http://example.org/");
    check_normal("http://example.org:0443/", "http://example.org:443/");
    check_normal("http://[2001:DB8::A]:80/", "http://[2001:db8::a]/");
    check_normal("https://ja.wikipedia.org/wiki/\xe3\x81\xa0",
                 "https://ja.wikipedia.org/wiki/%E3%81%A0");
    check_normal("https://e.org?q=\xe3\x81\xa0", "https://e.org/?q=%E3%81%A0");
}

static void what_a_server_may_tell_apart_is_left_alone(void **state)
{
    static const char *const kept[] = {
        "https://example.org/A/b",     "https://example.org/a/../b", "https://example.org/a//b",
        "https://example.org/%7ea%2f", "https://example.org/?b&a",   "https://example.org/a/",
        "https://example.org:80/",     "http://example.org:443/",    "https://example.org./",
        "https://example.org/?",       "https://www.example.org/",
    };

    (void)state;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        check_normal(kept[i], kept[i]);
    }
}

static void what_is_no_address_is_refused_by_name(void **state)
{
    static const char *const bad[] = {"",
                                      "example.org",
                                      "ftp://example.org/",
                                      "http:///",
                                      "http://user:secret@example.org/",
                                      "http://example.org:0/",
                                      "http://exa mple.org/",
                                      "http://e.org/a b",
                                      "http://\xe3\x81\xa0.jp/",
                                      "http://e.org/\xff",
                                      "http://e.org/\n"};
    char key[SAVE_KEY_TEXT_LEN + 1], *longest = calloc(1, 5000);

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct save save = usual();
        struct error err = {0};
        save.url = span_of(bad[i]);
        assert_int_equal(save_key_make(&save, key, &err), FAULT_INPUT);
        assert_string_equal(err.field, "URL");
        assert_null(strstr(err.text, "secret"));
    }
    struct save save = usual();
    struct error err = {0};
    memset(longest, 'a', 4999);
    memcpy(longest, URL, strlen(URL));
    save.url = span_of(longest);
    assert_int_equal(save_key_make(&save, key, &err), FAULT_INPUT);
    free(longest);
}

static void a_client_that_would_run_into_the_next_line_is_refused(void **state)
{
    static const char *const bad[] = {"", "a\nb", "\x7f", "a\tb"};
    char key[SAVE_KEY_TEXT_LEN + 1], longest[SAVE_CLIENT_MAX + 2] = "";

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct save save = usual();
        struct error err = {0};
        save.client = span_of(bad[i]);
        assert_int_equal(save_key_make(&save, key, &err), FAULT_INPUT);
        assert_string_equal(err.field, "client");
    }
    memset(longest, 'c', SAVE_CLIENT_MAX);
    assert_true(save_client_is_valid(span_of(longest)));
    longest[SAVE_CLIENT_MAX] = 'c';
    assert_false(save_client_is_valid((struct span){.at = longest, .len = SAVE_CLIENT_MAX + 1}));
    assert_true(save_client_is_valid(span_of("\xe5\xb1\xb1\xe7\x94\xb0@ios")));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_the_uuid_5_that_other_languages_make),
        cmocka_unit_test(a_double_send_within_a_window_has_one_key),
        cmocka_unit_test(each_part_of_a_save_makes_another_key),
        cmocka_unit_test(windows_go_on_before_1970),
        cmocka_unit_test(two_ways_to_write_one_address_are_one),
        cmocka_unit_test(what_a_server_may_tell_apart_is_left_alone),
        cmocka_unit_test(what_is_no_address_is_refused_by_name),
        cmocka_unit_test(a_client_that_would_run_into_the_next_line_is_refused),
    };

    return HARNESS_RUN(argc, argv, tests);
}
