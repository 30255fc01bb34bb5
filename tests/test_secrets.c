/* SPDX-License-Identifier: MIT
 *
 * secrets: what is hidden of a request, and what is not (I10). tests/e2e/test_redaction.py looks for
 * secrets in everything that the program says.
 */
#include "harness.h"

#include "base/fault.h"
#include "task/secrets.h"
#include "task/url.h"

#include <stdio.h>
#include <string.h>

static void names_that_say_so_are_secret(void **state)
{
    static const char *const secret[] = {"Authorization",
                                         "PROXY-AUTHORIZATION",
                                         "cookie",
                                         "Set-Cookie",
                                         "X-Api-Key",
                                         "api_key",
                                         "apiKey",
                                         "access_token",
                                         "X-Auth-Token",
                                         "client_secret",
                                         "password",
                                         "Passwd",
                                         "key",
                                         "sig",
                                         "X-Amz-Signature",
                                         "AWSAccessKeyId",
                                         "X-Goog-Credential",
                                         "auth",
                                         "X-Vault-Token",
                                         "pwd"};
    static const char *const plain[] = {
        "Idempotency-Key", "Content-Type", "X-Daruma-Task", "page", "q",
        "monkey",          "keyboard",     "author",        "",     "x-sign",
        "compass",         "X-Request-Id"};

    (void)state;
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++) {
        if (!secrets_is_name(span_of(secret[i]))) {
            fail_msg("%s is shown", secret[i]);
        }
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (secrets_is_name(span_of(plain[i]))) {
            fail_msg("%s is hidden", plain[i]);
        }
    }
}

static void urls_are_shown_without_them(void **state)
{
    static const struct {
        const char *url, *shown;
    } rows[] = {
        {"http://h/a?b=c#d", "http://h/a?b=c#d"},
        {"http://h", "http://h"},
        {"the-name-of-a-target", "the-name-of-a-target"},
        {"", ""},
        {"http://u:p@h/", "http://(hidden)@h/"},
        {"http://u@h?x", "http://(hidden)@h?x"},
        {"http://u:p@x@h/", "http://(hidden)@h/"},
        {"http://h/u@x?m=u@x", "http://h/u@x?m=u@x"},
        {"http://h/?api_key=s&a=b", "http://h/?api_key=(hidden)&a=b"},
        {"http://h?a=b&TOKEN=s", "http://h?a=b&TOKEN=(hidden)"},
        {"http://h/?%61pi%5Fkey=s", "http://h/?%61pi%5Fkey=(hidden)"},
        {"http://h/?key=", "http://h/?key="},
        {"http://h/?key", "http://h/?key"},
        {"http://h/?key=a=b=c&&", "http://h/?key=(hidden)&&"},
        {"/there?sig=s", "/there?sig=(hidden)"},
        {"?sig=s", "?sig=(hidden)"},
        {"//u:p@h/?sig=s", "//(hidden)@h/?sig=(hidden)"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out;
        buf_init(&out, 1024);
        assert_int_equal(secrets_add_url(&out, span_of(rows[i].url)), 0);
        if (!span_is(buf_span(&out), rows[i].shown)) {
            fail_msg("%s is shown as %.*s", rows[i].url, (int)out.len, out.at);
        }
        buf_done(&out);
    }
}

static void a_buf_that_is_too_small_stays_as_it_was(void **state)
{
    (void)state;
    for (size_t max = 1; max < strlen("xhttp://(hidden)@h/p?key=(hidden)&b"); max++) {
        struct buf out;
        buf_init(&out, max);
        assert_int_equal(buf_add(&out, SPAN("x")), 0);
        assert_int_equal(secrets_add_url(&out, SPAN("http://u:p@h/p?key=s&b")), FAULT_LIMIT);
        assert_int_equal(out.len, 1);
        buf_done(&out);
    }
}

static void what_was_shown_cannot_be_sent_back(void **state)
{
    (void)state;
    assert_string_equal(url_refuse(SPAN("http://h/?key=(hidden)")),
                        "(hidden), which stands for what was not shown");
    assert_null(url_refuse(SPAN("http://h/?key=hidden(x)")));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_say_so_are_secret),
        cmocka_unit_test(urls_are_shown_without_them),
        cmocka_unit_test(a_buf_that_is_too_small_stays_as_it_was),
        cmocka_unit_test(what_was_shown_cannot_be_sent_back),
    };

    return HARNESS_RUN(argc, argv, tests);
}
