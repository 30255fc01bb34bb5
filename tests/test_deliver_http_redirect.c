/* SPDX-License-Identifier: MIT
 *
 * Redirects: which are followed, what the request then looks like, and what does not go along.
 */
#include "names.h"
#include "rig.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX  512
#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static const struct target_step answers[] = {TARGET_READS, TARGET_WRITES(OK_ANSWER),
                                             TARGET_REPEATS};

static struct outbound_rule rule_of(const char *text)
{
    struct outbound_rule rule;

    assert_true(outbound_parse_rule(span_of(text), &rule));
    return rule;
}

#define REDIRECT(status, location)                                                                 \
    "HTTP/1.1 " status " Over there\r\nLocation: " location "\r\nContent-Length: 4\r\n\r\ngone"

/* A POST to a target that first redirects, then says ok. Its rules are `outbound`. */
static void follow(struct rig *rig, const char *redirect, bool is_repeatable,
                   struct delivery *ret_delivery)
{
    static struct target_step steps[] = {TARGET_READS,
                                         {.act = TARGET_WRITE},
                                         TARGET_READS,
                                         TARGET_WRITES(OK_ANSWER),
                                         TARGET_REPEATS};

    steps[1].bytes = redirect;
    steps[1].len = strlen(redirect);
    rig_open_script(rig, steps, sizeof steps / sizeof *steps);
    *ret_delivery = rig_delivery(rig, "POST");
    ret_delivery->body = SPAN("body");
    ret_delivery->headers = SPAN("Authorization: Bearer s3cret\nCookie: a=b\nX-Own: 1\n"
                                 "Content-Type: text/plain\nIdempotency-Key: k\n");
    ret_delivery->repeatable = is_repeatable;
    rig_carry_out(rig, ret_delivery);
    rig_end(rig);
}

static void expect_not_followed(const struct outbound *outbound, const char *redirect,
                                const char *message)
{
    struct rig rig = {.options = {.outbound = outbound}};
    struct delivery delivery;

    follow(&rig, redirect, true, &delivery);
    assert_string_equal(delivery.message, message);
    assert_int_equal(delivery.outcome.sent, TASK_SENT_YES);
    assert_int_equal(delivery.outcome.status, 302);
    assert_int_equal(delivery.outcome.error_class, DARUMA_CLASS_INVALID);
    assert_int_equal(delivery.sends, 1);
    assert_int_equal(target_request_count(rig.target), 1);
    assert_true(
        span_is(buf_span(&delivery.response_body), "gone")); /* the answer is the redirect */
    delivery_done(&delivery);
    rig_close(&rig);
}

static void a_redirect_to_where_nothing_may_go_is_not_followed(void **state)
{
    struct outbound_rule denied[] = {rule_of("127.0.0.2"), rule_of("10.0.0.0/8"),
                                     rule_of("evil.example")};
    const struct outbound outbound = {.deny = denied, .deny_count = 3, .redirects_max = 3};

    (void)state;
    names_addresses[0] = "127.0.0.2";
    expect_not_followed(&outbound, REDIRECT("302", "http://10.0.0.8/"),
                        "HTTP 302, not followed: outbound: 10.0.0.8 is denied (outbound.deny)");
    expect_not_followed(&outbound, REDIRECT("302", "http://evil.example/"),
                        "HTTP 302, not followed: outbound: evil.example is denied (outbound.deny)");
    expect_not_followed(&outbound, REDIRECT("302", "http://0x7f000002/"),
                        "HTTP 302, not followed: outbound: 127.0.0.2 is denied (outbound.deny)");
    expect_not_followed(&outbound, REDIRECT("302", "http://resolves.example/"),
                        "HTTP 302, not followed: outbound: 127.0.0.2 is denied (outbound.deny)");
    expect_not_followed(&outbound, REDIRECT("302", "//evil.example/x"),
                        "HTTP 302, not followed: outbound: evil.example is denied (outbound.deny)");
}

static void a_redirect_that_is_no_plain_url_is_not_followed(void **state)
{
    const struct outbound outbound = {.redirects_max = 3};

    (void)state;
    expect_not_followed(&outbound, REDIRECT("302", "http://u:p@127.0.0.1/"),
                        "HTTP 302, not followed: it leads to a URL with a user name or password in "
                        "it");
    expect_not_followed(&outbound, REDIRECT("302", "ftp://127.0.0.1/"),
                        "HTTP 302, not followed: it leads to a URL with another scheme");
    expect_not_followed(&outbound, REDIRECT("302", "file:///etc/passwd"),
                        "HTTP 302, not followed: the URL cannot be read: No host part in the URL");
    expect_not_followed(&outbound, REDIRECT("302", "http://h:99999/"),
                        "HTTP 302, not followed: the URL cannot be read: Port number was not a "
                        "decimal number between 0 and 65535");
    expect_not_followed(&outbound, REDIRECT("302", "http://\xef\xbd\x8c.example/"),
                        "HTTP 302, not followed: it leads to a URL with a character that has to be "
                        "escaped");
}

static void a_redirect_of_what_must_not_go_twice_is_not_followed(void **state)
{
    const struct outbound outbound = {.redirects_max = 3};
    struct rig rig = {.options = {.outbound = &outbound}};
    struct delivery delivery;

    (void)state;
    follow(&rig, REDIRECT("307", "/there"), false, &delivery);
    rig_expect(&delivery, TASK_SENT_YES, "HTTP 307, not followed: the target is not repeatable");
    assert_int_equal(target_request_count(rig.target), 1);
    delivery_done(&delivery);
    rig_close(&rig);
}

static void redirects_end_somewhere(void **state)
{
    static const struct target_step circle[] = {
        TARGET_READS, TARGET_WRITES(REDIRECT("308", "/again")), TARGET_REPEATS};
    const struct outbound outbound = {.redirects_max = 3};
    struct rig rig = {.options = {.outbound = &outbound}};

    (void)state;
    RIG_OPEN(&rig, circle);
    struct delivery delivery = rig_delivery(&rig, "GET");
    delivery.repeatable = true;
    rig_carry_out(&rig, &delivery);
    rig_expect(&delivery, TASK_SENT_YES, "HTTP 308, not followed: more than 3 redirects");
    assert_int_equal(delivery.sends, 4);
    delivery_done(&delivery);
    rig_close(&rig);
}

static bool has(struct span request, const char *text)
{
    while (request.len > 0 && !span_starts(request, text)) {
        request = span_from(request, 1);
    }
    return request.len > 0;
}

/* What the second request looks like after each kind of redirect, to the same origin. */
static void the_request_stays_the_same_but_for_303(void **state)
{
    static const struct {
        const char *redirect, *line, *body;
    } rows[] = {
        {REDIRECT("301", "/there"), "POST /there HTTP/1.1\r\n", "body"},
        {REDIRECT("302", "there?a=b#part"), "POST /there?a=b HTTP/1.1\r\n", "body"},
        {REDIRECT("303", "/x/../there"), "GET /there HTTP/1.1\r\n", ""},
        {REDIRECT("307", "?new"), "POST /path?new HTTP/1.1\r\n", "body"},
        {REDIRECT("308", "/a b"), "POST /a%20b HTTP/1.1\r\n", "body"},
    };
    const struct outbound outbound = {.redirects_max = 1};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rig rig = {.options = {.outbound = &outbound}};
        struct delivery delivery;
        follow(&rig, rows[i].redirect, true, &delivery);
        rig_expect(&delivery, TASK_SENT_YES, "");
        assert_int_equal(delivery.outcome.status, 200);
        assert_int_equal(delivery.sends, 2);
        assert_int_equal(target_request_count(rig.target), 2);
        struct span second = target_request(rig.target, 1);
        if (!span_starts(second, rows[i].line)) {
            fail_msg("%.*s", SPAN_ARGS(second));
        }
        assert_true(span_is(target_request_body(rig.target, 1), rows[i].body));
        assert_true(has(second, "Authorization: Bearer s3cret\r\n"));
        assert_int_equal(has(second, "Content-Type:"), rows[i].body[0] != '\0');
        assert_true(has(second, "X-Own: 1\r\n") && has(second, "Idempotency-Key: k\r\n"));
        delivery_done(&delivery);
        rig_close(&rig);
    }
}

/* The same target under another name: nothing that was given for the first goes along. */
static void secrets_do_not_go_to_another_origin(void **state)
{
    static struct target_step steps[] = {TARGET_READS, {.act = TARGET_WRITE}};
    static const struct target_script scripts[] = {TARGET_SCRIPT(steps), TARGET_SCRIPT(answers)};
    const struct outbound outbound = {.redirects_max = 1};
    struct rig rig = {.options = {.outbound = &outbound}};
    char redirect[TEXT_MAX];

    (void)state;
    names_addresses[0] = "127.0.0.1";
    rig_open(&rig, &(struct target_plan){.scripts = scripts, .count = 2});
    steps[1].len = (size_t)snprintf(redirect, sizeof redirect,
                                    "HTTP/1.1 307 There\r\nContent-Length: 0\r\n"
                                    "Location: http://other.example:%d/x\r\n\r\n",
                                    (int)target_port(rig.target));
    steps[1].bytes = redirect;
    struct delivery delivery = rig_delivery(&rig, "POST");
    delivery.body = SPAN("body");
    delivery.repeatable = true;
    delivery.headers = SPAN("Authorization: Bearer s3cret\nCookie: a=b\nX-Own: s3cret\n"
                            "X-Api-Key: s3cret\nHost: mine\nContent-Type: text/plain\n"
                            "Idempotency-Key: k\nX-Daruma-Task: t\n");
    rig_carry_out(&rig, &delivery);
    rig_expect(&delivery, TASK_SENT_YES, "");
    rig_end(&rig);
    assert_int_equal(target_request_count(rig.target), 2);
    struct span second = target_request(rig.target, 1);
    assert_true(has(target_request(rig.target, 0), "s3cret"));
    assert_false(has(second, "s3cret") || has(second, "Cookie") || has(second, "Host: mine"));
    assert_true(has(second, "Host: other.example:") && has(second, "Content-Type: text/plain\r\n"));
    assert_true(has(second, "Idempotency-Key: k\r\n") && has(second, "X-Daruma-Task: t\r\n"));
    assert_true(span_is(target_request_body(rig.target, 1), "body"));
    delivery_done(&delivery);
    rig_close(&rig);
}

/* A signature is for the body that was signed, and for whom it was meant. */
static void only_the_same_origin_gets_a_signature(void **state)
{
    static const struct signing_key key = {.key = {"a secret of 24 bytes ...", 24}};
    static struct target_step steps[] = {TARGET_READS, {.act = TARGET_WRITE}};
    static const struct target_script scripts[] = {TARGET_SCRIPT(steps), TARGET_SCRIPT(answers)};
    static const struct {
        const char *status, *host;
        bool is_signed;
    } rows[] = {
        {"307", "127.0.0.1", true}, {"303", "127.0.0.1", false}, {"307", "other.example", false}};
    const struct outbound outbound = {.redirects_max = 1};
    char redirect[TEXT_MAX];

    (void)state;
    names_addresses[0] = "127.0.0.1";
    for (size_t i = 0; i < 3; i++) {
        struct rig rig = {.options = {.outbound = &outbound}};
        rig_open(&rig, &(struct target_plan){.scripts = scripts, .count = 2});
        steps[1].bytes = redirect;
        steps[1].len = (size_t)snprintf(redirect, sizeof redirect,
                                        "HTTP/1.1 %s There\r\nContent-Length: 0\r\n"
                                        "Location: http://%s:%d/x\r\n\r\n",
                                        rows[i].status, rows[i].host, (int)target_port(rig.target));
        struct delivery delivery = rig_delivery(&rig, "POST");
        delivery.body = SPAN("body");
        delivery.headers = SPAN("webhook-id: mine\nWebhook-Signature: v1,mine\n");
        delivery.sign = &key;
        delivery.sign_count = 1;
        delivery.task_id_text = SPAN("the-task");
        delivery.repeatable = true;
        rig_carry_out(&rig, &delivery);
        rig_expect(&delivery, TASK_SENT_YES, "");
        rig_end(&rig);
        for (size_t n = 0; n < 2; n++) {
            struct span request = target_request(rig.target, n);
            bool is_signed = n == 0 || rows[i].is_signed;
            assert_int_equal(has(request, "webhook-id: the-task\r\n"), is_signed);
            assert_int_equal(has(request, "webhook-timestamp: 1800000000\r\n"), is_signed);
            assert_int_equal(has(request, "webhook-signature: v1,"), is_signed);
            assert_false(has(request, "mine"));
        }
        delivery_done(&delivery);
        rig_close(&rig);
    }
}

static void a_redirect_from_https_to_http_is_not_followed(void **state)
{
    static const struct target_step steps[] = {
        TARGET_READS, TARGET_WRITES(REDIRECT("307", "http://127.0.0.1:1/"))};
    static const struct target_script scripts[] = {TARGET_SCRIPT(steps)};
    const struct outbound outbound = {.redirects_max = 1};
    struct rig rig = {.options = {.outbound = &outbound}};

    (void)state;
    rig_open(&rig,
             &(struct target_plan){.scripts = scripts, .count = 1, .tls_name = "IP:127.0.0.1"});
    struct delivery delivery = rig_delivery(&rig, "POST");
    delivery.ca = span_of(target_certificate(rig.target));
    delivery.repeatable = true;
    rig_carry_out(&rig, &delivery);
    rig_expect(&delivery, TASK_SENT_YES, "HTTP 307, not followed: it leads from https to http");
    delivery_done(&delivery);
    rig_close(&rig);
}

/* Nothing of the second request went out, but something of the first did. */
static void a_redirect_to_where_nobody_answers_is_maybe_sent(void **state)
{
    const struct outbound outbound = {.redirects_max = 1};
    struct rig rig = {.options = {.outbound = &outbound}};
    struct delivery delivery;
    char redirect[TEXT_MAX];

    (void)state;
    (void)snprintf(redirect, sizeof redirect, REDIRECT("307", "http://127.0.0.1:%d/"),
                   (int)target_free_port());
    follow(&rig, redirect, true, &delivery);
    rig_expect(&delivery, TASK_SENT_MAYBE, "connect: connection refused");
    delivery_done(&delivery);
    rig_close(&rig);
}

static void a_redirect_has_only_what_is_left_of_the_time(void **state)
{
    static const struct target_step steps[] = {
        TARGET_READS, TARGET_WRITES(REDIRECT("307", "/there")), TARGET_READS, TARGET_HOLDS};
    const struct outbound outbound = {.redirects_max = 1};
    struct rig rig = {.options = {.outbound = &outbound}, .mono_step_ms = RIG_TIMEOUT_MS};

    (void)state;
    RIG_OPEN(&rig, steps);
    struct delivery delivery = rig_delivery(&rig, "POST");
    delivery.repeatable = true;
    rig_carry_out(&rig, &delivery); /* by this clock the first hop took all of it */
    rig_expect(&delivery, TASK_SENT_MAYBE, "timeout after 20000 ms (sent: maybe)");
    delivery_done(&delivery);
    rig_close(&rig);
}

static void cancelled_between_two_hops_it_ends(void **state)
{
    static const struct target_step steps[] = {
        TARGET_READS, TARGET_WRITES(REDIRECT("307", "/there")), TARGET_READS, TARGET_HOLDS};
    static const struct target_script scripts[] = {TARGET_SCRIPT(steps)};
    const struct outbound outbound = {.redirects_max = 1};
    struct rig rig = {.options = {.outbound = &outbound}};

    (void)state;
    rig_open(&rig, &(struct target_plan){.scripts = scripts, .count = 1});
    struct delivery delivery = rig_delivery(&rig, "POST"), quick = delivery;
    delivery.repeatable = true;
    delivery.timeout_ms = RIG_TIMEOUT_MS;
    quick.url = SPAN("http://127.0.0.1:99999/"); /* comes back at once: the loop has turned */
    rig_send(&rig, &delivery);
    while (delivery.sends < 2) {
        rig_carry_out(&rig, &quick);
    }
    rig_cancel(&rig, &delivery);
    rig_wait(&rig, 1);
    rig_expect(&delivery, TASK_SENT_MAYBE, "cancelled (sent: maybe)");
    delivery_done(&delivery);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_redirect_to_where_nothing_may_go_is_not_followed),
        cmocka_unit_test(a_redirect_that_is_no_plain_url_is_not_followed),
        cmocka_unit_test(a_redirect_of_what_must_not_go_twice_is_not_followed),
        cmocka_unit_test(redirects_end_somewhere),
        cmocka_unit_test(the_request_stays_the_same_but_for_303),
        cmocka_unit_test(secrets_do_not_go_to_another_origin),
        cmocka_unit_test(only_the_same_origin_gets_a_signature),
        cmocka_unit_test(a_redirect_from_https_to_http_is_not_followed),
        cmocka_unit_test(a_redirect_to_where_nobody_answers_is_maybe_sent),
        cmocka_unit_test(a_redirect_has_only_what_is_left_of_the_time),
        cmocka_unit_test(cancelled_between_two_hops_it_ends),
    };

    return HARNESS_RUN(argc, argv, tests);
}
