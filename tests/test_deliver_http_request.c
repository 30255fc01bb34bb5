/* SPDX-License-Identifier: MIT
 *
 * What a delivery looks like on the wire, what is not sent at all, and TLS.
 */
#include "rig.h"
#include "harness.h"

#include <daruma/version.h>

#include <stdio.h>
#include <stdlib.h>

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define TEXT_MAX  1024

static const struct target_step answers[] = {TARGET_READS, TARGET_WRITES(OK_ANSWER),
                                             TARGET_REPEATS};

/* The request that the target saw, with %d for its port. */
static void expect_on_wire(const struct delivery *wanted, const char *format)
{
    struct rig rig = {0};
    char text[TEXT_MAX];
    RIG_OPEN(&rig, answers);
    struct delivery delivery = rig_delivery(&rig, "GET");

    delivery.method = wanted->method;
    delivery.headers = wanted->headers;
    delivery.body = wanted->body;
    rig_carry_out(&rig, &delivery);
    assert_int_equal(delivery.outcome.sent, TASK_SENT_YES);
    int len = snprintf(text, sizeof text, format, (int)target_port(rig.target));
    struct span seen = target_request(rig.target, 0);
    if (!span_equal(seen, (struct span){.at = text, .len = (size_t)len})) {
        fail_msg("on the wire:\n%.*s", SPAN_ARGS(seen));
    }
    delivery_done(&delivery);
    rig_close(&rig);
}

static void a_post_has_what_was_given_and_what_http_needs(void **state)
{
    (void)state;
    expect_on_wire(&(struct delivery){.method = SPAN("POST"),
                                      .headers = SPAN("Content-Type: text/plain\n"
                                                      "Idempotency-Key: k1\n"
                                                      "X-Twice: a\nX-Twice: b\nX-Empty: \n"),
                                      .body = SPAN("hi")},
                   "POST /path?query HTTP/1.1\r\n"
                   "Host: 127.0.0.1:%d\r\n"
                   "User-Agent: daruma/" DARUMA_VERSION "\r\n"
                   "Content-Type: text/plain\r\n"
                   "Idempotency-Key: k1\r\n"
                   "X-Twice: a\r\nX-Twice: b\r\nX-Empty:\r\n"
                   "Content-Length: 2\r\n\r\nhi");
}

/* Those that libcurl does not look for are one line to it, see http_request.c. */
static void fields_keep_their_order_and_their_lines(void **state)
{
    (void)state;
    expect_on_wire(&(struct delivery){.method = SPAN("POST"),
                                      .headers = SPAN("X-First: 1\nx-second:  a b \n"
                                                      "Accept: text/html\nidempotency-key: k\n"
                                                      "X-Empty: \nX-Third: c: d;\n"
                                                      "traceparent: 00\nUser-Agent: me\n"
                                                      "X-Last: e\n"),
                                      .body = SPAN("hi")},
                   "POST /path?query HTTP/1.1\r\n"
                   "Host: 127.0.0.1:%d\r\n"
                   "X-First: 1\r\nx-second: a b\r\n"
                   "Accept: text/html\r\nidempotency-key: k\r\n"
                   "X-Empty:\r\nX-Third: c: d;\r\n"
                   "traceparent: 00\r\nUser-Agent: me\r\n"
                   "X-Last: e\r\n"
                   "Content-Length: 2\r\n\r\nhi");
}

static void nothing_is_added_to_a_get(void **state)
{
    (void)state;
    expect_on_wire(&(struct delivery){.method = SPAN("GET")},
                   "GET /path?query HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                   "User-Agent: daruma/" DARUMA_VERSION "\r\n\r\n");
}

static void a_get_may_have_a_body(void **state)
{
    (void)state;
    expect_on_wire(&(struct delivery){.method = SPAN("GET"), .body = SPAN("{}")},
                   "GET /path?query HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                   "User-Agent: daruma/" DARUMA_VERSION "\r\n"
                   "Content-Length: 2\r\n\r\n{}");
}

static void a_post_without_a_body_says_so(void **state)
{
    (void)state;
    expect_on_wire(&(struct delivery){.method = SPAN("POST")},
                   "POST /path?query HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                   "User-Agent: daruma/" DARUMA_VERSION "\r\nContent-Length: 0\r\n\r\n");
    expect_on_wire(&(struct delivery){.method = SPAN("PATCH")},
                   "PATCH /path?query HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                   "User-Agent: daruma/" DARUMA_VERSION "\r\nContent-Length: 0\r\n\r\n");
}

static void any_token_is_a_method(void **state)
{
    (void)state;
    expect_on_wire(&(struct delivery){.method = SPAN("DELETE")},
                   "DELETE /path?query HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                   "User-Agent: daruma/" DARUMA_VERSION "\r\n\r\n");
    expect_on_wire(&(struct delivery){.method = SPAN("x-sync!"), .body = SPAN("1")},
                   "x-sync! /path?query HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                   "User-Agent: daruma/" DARUMA_VERSION "\r\nContent-Length: 1\r\n\r\n1");
}

static void fields_given_replace_the_usual_ones(void **state)
{
    (void)state;
    expect_on_wire(&(struct delivery){.method = SPAN("GET"),
                                      .headers = SPAN("Host: example.org\nUser-Agent: mine\n"
                                                      "Accept: */*\nX-Port: none\n")},
                   "GET /path?query HTTP/1.1\r\nHost: example.org\r\nUser-Agent: mine\r\n"
                   "Accept: */*\r\nX-Port: none\r\n\r\n");
}

static bool has_agent(struct span request)
{
    struct span line;
    bool has_more = true, is_there = false;

    while (has_more && !is_there) {
        has_more = span_cut(&request, '\n', &line);
        is_there = span_starts(line, "User-Agent:");
    }
    return is_there;
}

/* The handle is used again, and not reset between two POSTs. */
static void nothing_of_one_request_is_in_the_next(void **state)
{
    static const struct {
        const char *method, *headers, *body, *first_line, *last;
        bool is_proxied;
    } all[] = {
        {"PUT", "X-A: 1\n", "longer", "PUT ", "\r\nX-A: 1\r\nContent-Length: 6\r\n\r\nlonger",
         false},
        {"POST", "X-B: 2\n", "body", "POST ", "\r\nX-B: 2\r\nContent-Length: 4\r\n\r\nbody", false},
        {"POST", "", "", "POST ",
         "User-Agent: daruma/" DARUMA_VERSION "\r\nContent-Length: 0\r\n\r\n", false},
        {"POST", "X-C: 3\n", "c", "POST ", "\r\nX-C: 3\r\nContent-Length: 1\r\n\r\nc", true},
        {"POST", "", "", "POST ",
         "User-Agent: daruma/" DARUMA_VERSION "\r\nContent-Length: 0\r\n\r\n", false},
        {"GET", "", "", "GET ", "User-Agent: daruma/" DARUMA_VERSION "\r\n\r\n", false},
        {"POST", "", "z", "POST ", "Content-Length: 1\r\n\r\nz", false},
        {"DELETE", "", "", "DELETE ", "User-Agent: daruma/" DARUMA_VERSION "\r\n\r\n", false},
    };
    struct rig rig = {0};

    (void)state;
    RIG_OPEN(&rig, answers);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct delivery delivery = rig_delivery(&rig, all[i].method);
        const char *last = all[i].last;
        delivery.headers = span_of(all[i].headers);
        delivery.body = span_of(all[i].body);
        delivery.is_proxied = all[i].is_proxied;
        rig_carry_out(&rig, &delivery);
        assert_int_equal(delivery.outcome.sent, TASK_SENT_YES);
        struct span seen = target_request(rig.target, i);
        assert_true(span_starts(seen, all[i].first_line));
        if (!span_is(span_from(seen, seen.len - strlen(last)), last)) {
            fail_msg("request %zu on the wire:\n%.*s", i, SPAN_ARGS(seen));
        }
        /* For a caller who has not said who he is nothing is said. */
        assert_int_equal(!has_agent(seen), all[i].is_proxied);
        delivery_done(&delivery);
    }
    rig_close(&rig);
}

/* A URL that was read once is not read again; the next one is, also after one that was none. */
static void each_request_goes_to_its_own_url(void **state)
{
    static const struct {
        const char *end, *target; /* NULL: not a URL */
    } all[] = {
        {"/a?b=1", "/a?b=1"},
        {"/a?b=1", "/a?b=1"},
        {"/a?b=2", "/a?b=2"},
        {"/a/../c", "/a/../c"},
        {"x/", NULL},
        {"/a/../c", "/a/../c"},
        {"", "/"},
        {"/a?b=1#c", "/a?b=1"},
    };
    struct rig rig = {0};
    size_t seen_count = 0;
    char url[RIG_URL_MAX], line[RIG_URL_MAX];

    (void)state;
    RIG_OPEN(&rig, answers);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct delivery delivery = rig_delivery(&rig, "POST");
        (void)snprintf(url, sizeof url, "http://127.0.0.1:%d%s", (int)target_port(rig.target),
                       all[i].end);
        delivery.url = span_of(url);
        rig_carry_out(&rig, &delivery);
        assert_int_equal(delivery.outcome.sent,
                         all[i].target != NULL ? TASK_SENT_YES : TASK_SENT_NO);
        if (all[i].target != NULL) {
            (void)snprintf(line, sizeof line, "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n",
                           all[i].target, (int)target_port(rig.target));
            assert_true(span_starts(target_request(rig.target, seen_count++), line));
        }
        delivery_done(&delivery);
    }
    rig_close(&rig);
}

/* A length or a coding of the sender's own would make two requests of one. */
static void fields_of_the_connection_are_ours(void **state)
{
    (void)state;
    expect_on_wire(&(struct delivery){.method = SPAN("POST"),
                                      .headers = SPAN("content-length: 0\nExpect: 100-continue\n"
                                                      "Transfer-Encoding: chunked\nTE: trailers\n"
                                                      "Connection: close, X-A\nKeep-Alive: 5\n"
                                                      "Upgrade: h2c\nTrailer: X-B\n"
                                                      "Proxy-Connection: close\n"
                                                      "HTTP2-Settings: x\n"
                                                      "Content_Length: 9\ntransfer_encoding: x\n"),
                                      .body = SPAN("abc")},
                   "POST /path?query HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                   "User-Agent: daruma/" DARUMA_VERSION "\r\nContent-Length: 3\r\n\r\nabc");
}

static void a_large_body_goes_out_without_asking(void **state)
{
    (void)state;
    enum { BYTES = 3 * 1024 * 1024 };
    struct rig rig = {0};
    char *body = calloc(1, BYTES);
    assert_non_null(body);
    RIG_OPEN(&rig, answers);
    struct delivery delivery = rig_delivery(&rig, "POST");

    delivery.body = (struct span){.at = body, .len = BYTES};
    rig_carry_out(&rig, &delivery);
    assert_int_equal(delivery.outcome.status, 200);
    struct span head = span_until(target_request(rig.target, 0), 200);
    for (size_t i = 0; i + 7 < head.len; i++) {
        assert_false(span_is_nocase(span_until(span_from(head, i), 7), "expect:"));
    }
    assert_int_equal(target_request_body(rig.target, 0).len, BYTES);
    delivery_done(&delivery);
    rig_close(&rig);
    free(body);
}

static void cookies_are_not_remembered(void **state)
{
    (void)state;
    static const struct target_step steps[] = {
        TARGET_READS,
        TARGET_WRITES("HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\n\r\n"),
        TARGET_REPEATS};
    struct rig rig = {0};
    RIG_OPEN(&rig, steps);

    for (int i = 0; i < 2; i++) {
        struct delivery delivery = rig_delivery(&rig, "GET");
        rig_carry_out(&rig, &delivery);
        delivery_done(&delivery);
    }
    assert_true(span_equal(target_request(rig.target, 0), target_request(rig.target, 1)));
    rig_close(&rig);
}

/* It would lead past the address guard. */
static void a_proxy_in_the_environment_is_not_used(void **state)
{
    (void)state;
    struct rig rig = {0};
    char proxy[TEXT_MAX];

    (void)snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", (int)target_free_port());
    assert_int_equal(setenv("http_proxy", proxy, 1), 0);
    assert_int_equal(setenv("all_proxy", proxy, 1), 0);
    RIG_OPEN(&rig, answers);
    struct delivery delivery = rig_delivery(&rig, "GET");
    rig_carry_out(&rig, &delivery);
    assert_int_equal(delivery.outcome.status, 200);
    delivery_done(&delivery);
    rig_close(&rig);
}

static void what_is_no_request_is_invalid_and_not_sent(void **state)
{
    (void)state;
    struct rig rig = {0};
    RIG_OPEN(&rig, answers);
    struct span url = span_of(rig.url);
    const struct delivery cases[] = {
        {.url = url, .method = SPAN("")},
        {.url = url, .method = SPAN("GET /x HTTP/1.1\r\nX:")},
        {.url = url, .method = SPAN("CONNECT")},
        {.url = url, .method = SPAN("HEAD"), .body = SPAN("x")},
        {.url = SPAN(""), .method = SPAN("GET")},
        {.url = SPAN("ftp://127.0.0.1/"), .method = SPAN("GET")},
        {.url = SPAN("file:///etc/passwd"), .method = SPAN("GET")},
        {.url = SPAN("127.0.0.1/"), .method = SPAN("GET")},
        {.url = SPAN("http://"), .method = SPAN("GET")},
        {.url = SPAN("http://a b/"), .method = SPAN("GET")},
        {.url = SPAN("http://127.0.0.1:99999/"), .method = SPAN("GET")},
        {.url = SPAN("http://127.0.0.1/\0x"), .method = SPAN("GET")},
        {.url = SPAN("http://127.0.0.1/\r\nX: y"), .method = SPAN("GET")},
        {.url = url, .method = SPAN("GET"), .headers = SPAN("X: a\rY: b\n")},
        {.url = url, .method = SPAN("GET"), .headers = SPAN("a b: c\n")},
        {.url = url, .method = SPAN("GET"), .headers = SPAN("X: a\0b\n")},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct delivery delivery = cases[i];
        rig_carry_out(&rig, &delivery);
        assert_int_equal(delivery.outcome.sent, TASK_SENT_NO);
        assert_int_equal(delivery.outcome.error_class, DARUMA_CLASS_INVALID);
        assert_int_equal(delivery.outcome.status, 0);
        assert_true(delivery.message[0] != '\0');
        delivery_done(&delivery);
    }
    rig_end(&rig);
    assert_int_equal(target_connection_count(rig.target), 0);
    rig_close(&rig);
}

static void too_many_fields_are_invalid(void **state)
{
    (void)state;
    static char headers[6 * (HTTP_REQUEST_FIELDS_MAX + 1) + 1];
    struct rig rig = {0};
    RIG_OPEN(&rig, answers);

    for (size_t count = HTTP_REQUEST_FIELDS_MAX; count <= HTTP_REQUEST_FIELDS_MAX + 1; count++) {
        struct delivery delivery = rig_delivery(&rig, "GET");
        for (size_t i = 0; i < count; i++) {
            memcpy(headers + i * 6, "X-A: 1", 6);
            headers[i * 6 + 2] = (char)('A' + i % 26);
        }
        for (size_t i = 0; i < count; i++) { /* X-A:1 and a newline */
            memcpy(headers + i * 6 + 4, "1\n", 2);
        }
        delivery.headers = (struct span){.at = headers, .len = 6 * count};
        rig_carry_out(&rig, &delivery);
        assert_int_equal(delivery.outcome.sent,
                         count > HTTP_REQUEST_FIELDS_MAX ? TASK_SENT_NO : TASK_SENT_YES);
        delivery_done(&delivery);
    }
    rig_close(&rig);
}

/* -- redirects ---------------------------------------------------------------------------------- */

static const struct target_step redirects[] = {
    TARGET_READS,
    TARGET_WRITES("HTTP/1.1 307 Over there\r\nLocation: /there\r\nContent-Length: 4\r\n\r\ngone"),
    TARGET_READS, TARGET_WRITES(OK_ANSWER)};

static void expect_redirect(uint32_t followed, bool is_repeatable, int status, uint32_t sends)
{
    const struct outbound outbound = {.redirects_max = followed};
    struct rig rig = {.options = {.outbound = &outbound}};
    RIG_OPEN(&rig, redirects);
    struct delivery delivery = rig_delivery(&rig, "POST");

    delivery.body = SPAN("x");
    delivery.repeatable = is_repeatable;
    rig_carry_out(&rig, &delivery);
    assert_int_equal(delivery.outcome.sent, TASK_SENT_YES);
    assert_int_equal(delivery.outcome.status, status);
    assert_int_equal(delivery.sends, sends);
    assert_true(span_is(buf_span(&delivery.response_body), status == 200 ? "ok" : "gone"));
    rig_end(&rig);
    assert_int_equal(target_request_count(rig.target), sends);
    delivery_done(&delivery);
    rig_close(&rig);
}

static void redirects_are_not_followed(void **state)
{
    (void)state;
    expect_redirect(0, true, 307, 1);
    expect_redirect(0, false, 307, 1);
}

static void redirects_are_followed_when_asked_for_and_repeatable(void **state)
{
    (void)state;
    expect_redirect(1, true, 200, 2);
    expect_redirect(1, false, 307, 1);
}

/* -- TLS ------------------------------------------------------------------------------------------ */

static const struct target_script tls_script[] = {TARGET_SCRIPT(answers)};

static void carry_out_over_tls(struct rig *rig, const char *name, struct delivery *ret_delivery,
                               const char *ca)
{
    rig_open(rig, &(struct target_plan){.scripts = tls_script, .count = 1, .tls_name = name});
    *ret_delivery = rig_delivery(rig, "POST");
    ret_delivery->body = SPAN("secret");
    ret_delivery->ca = span_of(ca != NULL ? ca : target_certificate(rig->target));
    rig_carry_out(rig, ret_delivery);
    rig_end(rig);
}

static void expect_tls_refused(const char *name, const char *ca, const char *message)
{
    struct rig rig = {0};
    struct delivery delivery;

    carry_out_over_tls(&rig, name, &delivery, ca);
    if (strstr(delivery.message, message) != delivery.message) {
        fail_msg("%s", delivery.message);
    }
    assert_int_equal(delivery.outcome.sent, TASK_SENT_NO);
    assert_int_equal(delivery.outcome.error_class, DARUMA_CLASS_TRANSIENT);
    assert_int_equal(target_request_count(rig.target), 0);
    rig_close(&rig);
}

static void a_certificate_of_its_own_making_is_refused(void **state)
{
    (void)state;
    expect_tls_refused("IP:127.0.0.1", "", "tls: SSL certificate problem: self-signed certificate");
}

static void a_certificate_for_another_name_is_refused(void **state)
{
    (void)state;
    expect_tls_refused("DNS:other.example", NULL, "tls: SSL: ");
}

/* It is this machine's affair: no attempt, and nothing is learnt of the target. */
static void expect_no_authority(const char *ca)
{
    struct rig rig = {0};
    struct delivery delivery;

    carry_out_over_tls(&rig, "IP:127.0.0.1", &delivery, ca);
    if (strstr(delivery.message, "this machine, not the target: tls: ") != delivery.message) {
        fail_msg("%s", delivery.message);
    }
    assert_int_equal(delivery.outcome.sent, TASK_SENT_NO);
    assert_int_equal(delivery.outcome.error_class, DARUMA_CLASS_TRANSIENT);
    assert_true(delivery.is_uncounted);
    assert_true(delivery.is_short);
    assert_true(delivery.is_unvouched); /* other targets lack nothing */
    assert_int_equal(delivery.outcome.hint_ms, HTTP_AUTHORITY_AGAIN_MS);
    assert_int_equal(target_request_count(rig.target), 0);
    rig_close(&rig);
}

static void a_ca_that_is_not_there_is_no_attempt(void **state)
{
    (void)state;
    expect_no_authority("no-such-file.pem");
    expect_no_authority("."); /* a folder */
    FILE *file = fopen("none.pem", "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    expect_no_authority("none.pem");
}

static void a_certificate_of_the_given_ca_is_accepted(void **state)
{
    (void)state;
    struct rig rig = {0};
    struct delivery delivery;

    carry_out_over_tls(&rig, "IP:127.0.0.1", &delivery, NULL);
    assert_string_equal(delivery.message, "");
    assert_int_equal(delivery.outcome.status, 200);
    assert_true(span_is(target_request_body(rig.target, 0), "secret"));
    delivery_done(&delivery);
    rig_close(&rig);
}

static void a_connection_made_with_one_ca_does_not_serve_another(void **state)
{
    (void)state;
    struct rig rig = {0};
    rig_open(&rig,
             &(struct target_plan){.scripts = tls_script, .count = 1, .tls_name = "IP:127.0.0.1"});
    struct delivery trusted = rig_delivery(&rig, "GET"), usual = trusted;

    trusted.ca = span_of(target_certificate(rig.target));
    rig_carry_out(&rig, &trusted);
    assert_int_equal(trusted.outcome.sent, TASK_SENT_YES);
    rig_carry_out(&rig, &usual);
    assert_int_equal(usual.outcome.sent, TASK_SENT_NO);
    delivery_done(&trusted);
    rig_close(&rig);
}

/* It answers in plain HTTP, or not at all: no request was written. */
static void without_tls_on_the_other_side_nothing_is_sent(void **state)
{
    (void)state;
    static const struct target_step silent[] = {TARGET_HOLDS},
                                    plain[] = {TARGET_WRITES(OK_ANSWER), TARGET_HOLDS};
    const struct target_script scripts[] = {TARGET_SCRIPT(silent), TARGET_SCRIPT(plain)};
    struct rig rig = {0};
    char url[TEXT_MAX];
    rig_open(&rig, &(struct target_plan){.scripts = scripts, .count = 2});
    struct delivery delivery = rig_delivery(&rig, "POST");

    (void)snprintf(url, sizeof url, "https://127.0.0.1:%d/", (int)target_port(rig.target));
    delivery.url = span_of(url);
    delivery.timeout_ms = RIG_SENT_MS;
    rig_carry_out(&rig, &delivery);
    assert_string_equal(delivery.message, "timeout after 500 ms (sent: no)");
    delivery.timeout_ms = RIG_TIMEOUT_MS;
    rig_carry_out(&rig, &delivery);
    assert_int_equal(delivery.outcome.sent, TASK_SENT_NO);
    assert_true(strncmp(delivery.message, "tls: ", 5) == 0);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_post_has_what_was_given_and_what_http_needs),
        cmocka_unit_test(fields_keep_their_order_and_their_lines),
        cmocka_unit_test(nothing_is_added_to_a_get),
        cmocka_unit_test(a_get_may_have_a_body),
        cmocka_unit_test(a_post_without_a_body_says_so),
        cmocka_unit_test(any_token_is_a_method),
        cmocka_unit_test(fields_given_replace_the_usual_ones),
        cmocka_unit_test(nothing_of_one_request_is_in_the_next),
        cmocka_unit_test(each_request_goes_to_its_own_url),
        cmocka_unit_test(fields_of_the_connection_are_ours),
        cmocka_unit_test(a_large_body_goes_out_without_asking),
        cmocka_unit_test(cookies_are_not_remembered),
        cmocka_unit_test(a_proxy_in_the_environment_is_not_used),
        cmocka_unit_test(what_is_no_request_is_invalid_and_not_sent),
        cmocka_unit_test(too_many_fields_are_invalid),
        cmocka_unit_test(redirects_are_not_followed),
        cmocka_unit_test(redirects_are_followed_when_asked_for_and_repeatable),
        cmocka_unit_test(a_certificate_of_its_own_making_is_refused),
        cmocka_unit_test(a_certificate_for_another_name_is_refused),
        cmocka_unit_test(a_ca_that_is_not_there_is_no_attempt),
        cmocka_unit_test(a_certificate_of_the_given_ca_is_accepted),
        cmocka_unit_test(a_connection_made_with_one_ca_does_not_serve_another),
        cmocka_unit_test(without_tls_on_the_other_side_nothing_is_sent),
    };

    return HARNESS_RUN(argc, argv, tests);
}
