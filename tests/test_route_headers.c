/* SPDX-License-Identifier: MIT
 *
 * Which header fields pass the gateway, and which of an answer are kept.
 */
#include "harness.h"

#include "task/route_headers.h"

#include <string.h>

#define ASSERT_SPAN(span, text)                                                                    \
    do {                                                                                           \
        if (!span_is((span), (text))) {                                                            \
            print_message("found \"%.*s\", expected \"%s\"\n", SPAN_ARGS(span), (text));           \
        }                                                                                          \
        assert_true(span_is((span), (text)));                                                      \
    } while (0)

static bool has(const struct buf *buf, const char *text)
{
    for (struct span rest = buf_span(buf); rest.len > 0; rest = span_from(rest, 1)) {
        if (span_starts(rest, text)) {
            return true;
        }
    }
    return false;
}

#define ANSWER                                                                                     \
    "Content-Type: text/plain\nSet-Cookie: a=1\nConnection: close, X-Hop\nX-Hop: 1\n"              \
    "Date: today\nX-RateLimit-Remaining: 1\nX-Request-Id: 7\nLink: <a>\nLink: <b>\n"               \
    "Content-Length: 3\nTransfer-Encoding: chunked\nRetry-After: 3\nServer: x\nAge: 1\n"           \
    "WWW-Authenticate: Basic\nAlt-Svc: h2\nLocation: /x\n"

static void what_is_true_of_one_moment_is_not_kept(void **state)
{
    struct route_settings route = {0};
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    assert_int_equal(route_headers_keep(&route, SPAN(ANSWER), &out), 0);
    ASSERT_SPAN(buf_span(&out), "Content-Type: text/plain\nLink: <a>\nLink: <b>\nRetry-After: 3\n"
                                "Location: /x\n");
    buf_clear(&out);
    route.kept_headers[0] = SPAN("set-cookie");
    route.kept_headers[1] = SPAN("x-hop");
    route.kept_header_count = 2;
    assert_int_equal(route_headers_keep(&route, SPAN(ANSWER), &out), 0);
    ASSERT_SPAN(buf_span(&out), "Content-Type: text/plain\nSet-Cookie: a=1\n");
    buf_clear(&out);
    assert_int_equal(route_headers_share(SPAN(ANSWER), &out), 0);
    assert_false(has(&out, "Set-Cookie"));
    assert_false(has(&out, "X-Hop"));
    assert_true(has(&out, "WWW-Authenticate"));
    buf_clear(&out);
    assert_int_equal(route_headers_pass(SPAN(ANSWER), &out), 0);
    assert_true(has(&out, "Set-Cookie"));
    assert_false(has(&out, "Content-Length"));
    buf_done(&out);
}

/* Whether an answer is a replay is the gateway's own word. */
static void an_upstream_does_not_say_that_its_answer_is_a_replay(void **state)
{
    const struct span answer = SPAN("Idempotent-Replayed: true\nX-A: 1\n"
                                    "IDEMPOTENCY-replayed: true\n");
    struct route_settings route = {0};
    struct buf out;

    (void)state;
    buf_init(&out, 1000);
    assert_int_equal(route_headers_keep(&route, answer, &out), 0);
    ASSERT_SPAN(buf_span(&out), "X-A: 1\n");
    buf_clear(&out);
    route.kept_headers[0] = SPAN("idempotency-replayed");
    route.kept_header_count = 1;
    assert_int_equal(route_headers_keep(&route, answer, &out), 0);
    ASSERT_SPAN(buf_span(&out), "");
    assert_int_equal(route_headers_pass(answer, &out), 0);
    ASSERT_SPAN(buf_span(&out), "X-A: 1\n");
    buf_clear(&out);
    assert_int_equal(route_headers_share(answer, &out), 0);
    ASSERT_SPAN(buf_span(&out), "X-A: 1\n");
    buf_done(&out);
}

#define REQUEST                                                                                    \
    "Host: gateway\nAuthorization: Bearer x\nConnection: keep-alive, X-Own\nX-Own: 1\n"            \
    "Accept-Encoding: gzip\nIdempotency-Key: k\nPrefer: wait=5\nX-Daruma-Task: forged\n"           \
    "Expect: 100-continue\nAccept: a\nAccept: b\n"

static void a_request_is_sent_on_without_what_is_not_its_own(void **state)
{
    struct route_forward forward = {
        .headers = SPAN(REQUEST), .key_header = SPAN("idempotency-key"), .is_keyed = true};
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    assert_int_equal(route_headers_forward(&forward, &out), 0);
    ASSERT_SPAN(buf_span(&out), "Authorization: Bearer x\nAccept: a\nAccept: b\n");
    buf_clear(&out);
    forward.is_keyed = false;
    assert_int_equal(route_headers_forward(&forward, &out), 0);
    ASSERT_SPAN(buf_span(&out),
                "Authorization: Bearer x\nAccept-Encoding: gzip\nIdempotency-Key: k\n"
                "Prefer: wait=5\nAccept: a\nAccept: b\n");
    buf_done(&out);
}

/* RFC 9110 7.6.1: what is meant for all who read the request is no option of a connection. The gateway has
 * read it, so the upstream reads the same. */
static void a_connection_does_not_name_away_what_a_request_means(void **state)
{
    struct route_forward forward = {
        .headers = SPAN("Host: shop\nConnection: content-type, Content-Language, CONTENT-ENCODING\n"
                        "Content-Type: a/b\nContent-Language: en\nContent-Encoding: x\n"
                        "Content-Disposition: c\nConnection: content-disposition,authorization\n"
                        "Authorization: d\nConnection: cookie, x-api-key, Idempotency-Key\n"
                        "Cookie: e\nX-Api-Key: f\nIdempotency-Key: g\nX-Own: h\n"
                        "Connection: x-own, x-forwarded-proto, x-forwarded-host, forwarded\n"
                        "X-Forwarded-Proto: https\nX-Forwarded-Host: i\nForwarded: j\n"
                        "Connection: x-forwarded-for, content-length\nX-Forwarded-For: 1.2.3.4\n"
                        "Content-Length: 7\n"),
        .key_header = SPAN("My-Key"),
        .scope_header = SPAN("x-api-key"),
        .peer = SPAN("10.0.0.7"),
        .scheme = SPAN("http")};
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    assert_int_equal(route_headers_forward(&forward, &out), 0);
    ASSERT_SPAN(buf_span(&out),
                "Content-Type: a/b\nContent-Language: en\nContent-Encoding: x\n"
                "Content-Disposition: c\nAuthorization: d\nCookie: e\nX-Api-Key: f\n"
                "Idempotency-Key: g\nX-Forwarded-Proto: https\nX-Forwarded-Host: i\nForwarded: j\n"
                "X-Forwarded-For: 1.2.3.4, 10.0.0.7\n");
    buf_clear(&out);
    assert_int_equal(
        route_headers_pass(SPAN("Connection: content-type, x-hop\nContent-Type: a/b\nX-Hop: 1\n"),
                           &out),
        0);
    ASSERT_SPAN(buf_span(&out), "Content-Type: a/b\n");
    buf_done(&out);
}

static void look_alikes_of_what_is_ours_are_not_sent_on(void **state)
{
    struct route_forward forward = {
        .headers =
            SPAN("X_Forwarded_For: 1.2.3.4\nx-forwarded_proto: https\nContent_Length: 5\n"
                 "Transfer_Encoding: chunked\nX_Daruma_Task: forged\nIdempotency_Key: other\n"
                 "X_Api_Key: other\nX-Api-Key: mine\nContent_Type: a/b\nX_Other: stays\n"),
        .key_header = SPAN("idempotency-key"),
        .scope_header = SPAN("x-api-key"),
        .is_keyed = true,
        .peer = SPAN("10.0.0.7"),
        .scheme = SPAN("http")};
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    assert_int_equal(route_headers_forward(&forward, &out), 0);
    ASSERT_SPAN(buf_span(&out), "X-Api-Key: mine\nX_Other: stays\nX-Forwarded-For: 10.0.0.7\n"
                                "X-Forwarded-Proto: http\n");
    buf_done(&out);
}

/* However many names a Connection field has, and however many fields there are. */
static void only_so_many_names_of_a_connection_are_read(void **state)
{
    struct buf in, out;

    (void)state;
    buf_init(&in, 1 << 20);
    buf_init(&out, 1 << 20);
    assert_int_equal(buf_add(&in, SPAN("Connection: , x-first")), 0);
    for (int i = 0; i < 30000; i++) {
        assert_int_equal(buf_add(&in, SPAN(",a")), 0);
    }
    assert_int_equal(buf_add(&in, SPAN("\nX-First: 1\n")), 0);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(buf_add(&in, SPAN("b: \n")), 0);
    }
    assert_int_equal(route_headers_pass(buf_span(&in), &out), 0);
    assert_int_equal(out.len, 10000 * strlen("b: \n"));
    buf_done(&in);
    buf_done(&out);
}

static void the_upstream_is_told_where_a_request_came_from(void **state)
{
    struct route_forward forward = {.headers = SPAN("Host: shop\nAccept: a\n"),
                                    .peer = SPAN("10.0.0.7"),
                                    .scheme = SPAN("https")};
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    assert_int_equal(route_headers_forward(&forward, &out), 0);
    ASSERT_SPAN(buf_span(&out), "Accept: a\nX-Forwarded-For: 10.0.0.7\n"
                                "X-Forwarded-Proto: https\nX-Forwarded-Host: shop\n");
    buf_clear(&out);
    forward.headers = SPAN("x-forwarded-for: 1.1.1.1, 2.2.2.2\nHost: inner\n"
                           "X-FORWARDED-FOR: 3.3.3.3\nX-Forwarded-Proto: http\n"
                           "X-Forwarded-Host: outer\n");
    assert_int_equal(route_headers_forward(&forward, &out), 0);
    ASSERT_SPAN(buf_span(&out), "X-Forwarded-Proto: http\nX-Forwarded-Host: outer\n"
                                "X-Forwarded-For: 1.1.1.1, 2.2.2.2, 3.3.3.3, 10.0.0.7\n");
    buf_clear(&out);
    forward.headers = SPAN("X-Forwarded-For: \n");
    assert_int_equal(route_headers_forward(&forward, &out), 0);
    ASSERT_SPAN(buf_span(&out), "X-Forwarded-For: 10.0.0.7\nX-Forwarded-Proto: https\n");
    buf_done(&out);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_true_of_one_moment_is_not_kept),
        cmocka_unit_test(an_upstream_does_not_say_that_its_answer_is_a_replay),
        cmocka_unit_test(a_request_is_sent_on_without_what_is_not_its_own),
        cmocka_unit_test(a_connection_does_not_name_away_what_a_request_means),
        cmocka_unit_test(look_alikes_of_what_is_ours_are_not_sent_on),
        cmocka_unit_test(only_so_many_names_of_a_connection_are_read),
        cmocka_unit_test(the_upstream_is_told_where_a_request_came_from),
    };
    return HARNESS_RUN(argc, argv, tests);
}
