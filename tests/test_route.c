/* SPDX-License-Identifier: MIT
 *
 * The gateway's pure rules: keys, scopes, fingerprints, preferences, header fields, and the texts
 * it says. Paths are in test_route_paths.c, the table of outcomes is in test_route_judge.c.
 */
#include "harness.h"

#include "task/fields.h"
#include "task/prefer.h"
#include "task/route_answer.h"
#include "task/route_headers.h"
#include "task/route_key.h"
#include "task/route_match.h"

#include <stdio.h>
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

/* --- keys --------------------------------------------------------------------------------------- */

static void a_quoted_and_a_bare_key_are_one(void **state) /* A1 */
{
    static const struct {
        const char *value, *key;
    } rows[] = {
        {"k", "k"},
        {"\"k\"", "k"},
        {"  \"k\"  ", "k"},
        {"\"k\";a=1;b", "k"},
        {"\"a\\\"b\\\\c\"", "a\"b\\c"},
        {"8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"},
        {"stripe-node-retry-abc", "stripe-node-retry-abc"},
        {"a;b=c", "a;b=c"},
        {"!~", "!~"},
    };
    char room[TASK_KEY_MAX];
    struct span key;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_null(route_key_parse(span_of(rows[i].value), false, room, &key));
        ASSERT_SPAN(key, rows[i].key);
    }
}

static void a_key_that_is_none_is_refused(void **state)
{
    static const char *const bad[] = {
        "",       "\"\"",    " ",       "a b",  "a,b",      "\"a\",\"b\"",     "\"a\", b", "\"a",
        "\"a\"b", "\"\\n\"", "\"a b\"", "a\tb", "\xc3\xa9", "\"a\";x=\"1,2\"", "\"a\\",
    };
    char room[TASK_KEY_MAX], longest[TASK_KEY_MAX + 1];
    struct span key = SPAN("untouched");

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_non_null(route_key_parse(span_of(bad[i]), false, room, &key));
        ASSERT_SPAN(key, "untouched");
    }
    memset(longest, 'k', sizeof longest);
    assert_non_null(route_key_parse((struct span){longest, 256}, false, room, &key));
    assert_null(route_key_parse((struct span){longest, 255}, false, room, &key));
    assert_int_equal(key.len, 255);
    assert_non_null(route_key_parse(SPAN("bare"), true, room, &key));
    assert_null(route_key_parse(SPAN("\"quoted\""), true, room, &key));
    assert_non_null(route_key_parse((struct span){"a\0b", 3}, false, room, &key));
}

static void a_scope_is_a_digest_of_who_asks(void **state)
{
    struct route_settings route = {.scope = ROUTE_SCOPE_HEADER,
                                   .scope_name = SPAN("authorization")};
    char one[ROUTE_SCOPE_TEXT_LEN + 1], other[ROUTE_SCOPE_TEXT_LEN + 1];

    (void)state;
    assert_int_equal(route_scope_text(&route, SPAN("Bearer a"), one, NULL), 0);
    assert_int_equal(route_scope_text(&route, SPAN("Bearer b"), other, NULL), 0);
    assert_int_equal(strlen(one), 32);
    assert_string_not_equal(one, other);
    assert_null(strstr(one, "Bearer"));
    route.scope = ROUTE_SCOPE_GLOBAL;
    assert_int_equal(route_scope_text(&route, SPAN("x"), one, NULL), 0);
    assert_string_equal(one, "");
}

static void a_cookie_is_found_by_its_name(void **state)
{
    struct span value = SPAN("");

    (void)state;
    assert_true(route_cookie_find(SPAN("a=1; session=x=y ;b=2"), SPAN("session"), &value));
    ASSERT_SPAN(value, "x=y");
    assert_false(route_cookie_find(SPAN("a=1; xsession=1; session"), SPAN("session"), &value));
}

static void a_derived_key_depends_on_scope_key_and_route(void **state)
{
    char keys[4][ROUTE_DERIVED_TEXT_LEN + 1];

    (void)state;
    assert_int_equal(route_key_derive(SPAN("r"), SPAN("s"), SPAN("k"), keys[0], NULL), 0);
    assert_int_equal(route_key_derive(SPAN("r"), SPAN("t"), SPAN("k"), keys[1], NULL), 0);
    assert_int_equal(route_key_derive(SPAN("r"), SPAN("s"), SPAN("l"), keys[2], NULL), 0);
    assert_int_equal(route_key_derive(SPAN("q"), SPAN("s"), SPAN("k"), keys[3], NULL), 0);
    for (int i = 1; i < 4; i++) {
        assert_string_not_equal(keys[0], keys[i]);
    }
    assert_int_equal(strlen(keys[0]), 64);
}

/* --- fingerprints ----------------------------------------------------------------------------------- */

static bool is_same_print(const struct route_settings *route, const struct route_request *one,
                          const struct route_request *other)
{
    unsigned char a[TASK_FINGERPRINT_BYTES], b[TASK_FINGERPRINT_BYTES];

    assert_int_equal(route_fingerprint(route, one, a, NULL), 0);
    assert_int_equal(route_fingerprint(route, other, b, NULL), 0);
    return memcmp(a, b, sizeof a) == 0;
}

static struct route_request with_body(const char *body)
{
    return (struct route_request){SPAN("POST"), SPAN("/v1?a=1"), SPAN("application/json"),
                                  span_of(body)};
}

static void every_part_of_a_request_is_in_its_fingerprint(void **state) /* A2.3, C6 */
{
    struct route_settings route = {.print = ROUTE_PRINT_BODY};
    struct route_request first = with_body("{}"), other;

    (void)state;
    assert_true(is_same_print(&route, &first, &first));
    other = with_body("{ }");
    assert_false(is_same_print(&route, &first, &other));
    other = first, other.method = SPAN("PUT");
    assert_false(is_same_print(&route, &first, &other));
    other = first, other.target = SPAN("/v1?a=2");
    assert_false(is_same_print(&route, &first, &other));
    other = first, other.content_type = SPAN("text/plain");
    assert_false(is_same_print(&route, &first, &other));
    route.print = ROUTE_PRINT_OFF;
    assert_true(is_same_print(&route, &first, &other));
}

static void selected_fields_alone_make_the_fingerprint(void **state)
{
    struct route_settings route = {.print = ROUTE_PRINT_FIELDS,
                                   .fields = {SPAN("a"), SPAN("b.c"), SPAN("l.1")},
                                   .field_count = 3};
    struct route_request first = with_body("{\"a\":1,\"b\":{\"c\":[1, 2]},\"l\":[0,7],\"t\":1}");
    struct route_request same[] = {
        with_body("{\"t\":99,\"a\":1, \"b\" : {\"c\" : [1,2],\"d\":0},\"l\":[1,7,9]}"),
        with_body("{\"\\u0061\":1,\"b\":{\"c\":[1,2]},\"l\":[0,7]}"),
    };
    struct route_request others[] = {
        with_body("{\"a\":2,\"b\":{\"c\":[1,2]},\"l\":[0,7]}"),
        with_body("{\"b\":{\"c\":[1,2]},\"l\":[0,7]}"),
        with_body("{\"a\":1,\"b\":{\"c\":[1,2,3]},\"l\":[0,7]}"),
        with_body("{\"a\":1,\"b\":{\"c\":[1,2]},\"l\":[0]}"),
        with_body("{\"a\":1,\"a\":1,\"b\":{\"c\":[1,2]},\"l\":[0,7]}"), /* a name twice */
        with_body("not json"),
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_true(is_same_print(&route, &first, &same[i]));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(is_same_print(&route, &first, &others[i]));
    }
    struct route_request twice = with_body("{\"a\":1,\"a\":2}");
    struct route_request thrice = with_body("{\"a\":1,\"a\":3}");
    assert_false(is_same_print(&route, &twice, &thrice));
    struct route_request empty = with_body("");
    assert_true(is_same_print(&route, &empty, &empty));
}

/* --- the probe ------------------------------------------------------------------------------------- */

static void a_probe_names_key_id_and_the_path_s_own_parts(void **state)
{
    struct route_settings route = {.upstream = SPAN("http://u/base/")};
    struct buf url;

    (void)state;
    buf_init(&url, 1000);
    assert_null(route_pattern_parse(SPAN("POST /v1/{shop}/orders"), &route.pattern));
    assert_null(route_probe_parse(SPAN("GET /v1/{shop}/by-key/{key}?t={id}"), &route.pattern,
                                  &route.probe));
    assert_int_equal(
        route_probe_url(
            &(struct route_probe_input){.route = &route,
                                        .target = SPAN("http://u/base/v1/tok%20yo/orders"),
                                        .key = SPAN("a/b?c"),
                                        .id_text = SPAN("ID")},
            &url),
        0);
    ASSERT_SPAN(buf_span(&url), "http://u/base/v1/tok%20yo/by-key/a%2Fb%3Fc?t=ID");
    buf_done(&url);
}

/* --- preferences -------------------------------------------------------------------------------------- */

static void preferences_are_read_as_rfc_7240_writes_them(void **state)
{
    static const struct {
        const char *value, *applied;
    } rows[] = {
        {"respond-async", "respond-async"},
        {"Respond-Async, wait=5", "respond-async, wait=5"},
        {"wait=5", "wait=5"},
        {"wait = \"7\"", "wait=7"},
        {"wait=0", "wait=0"},
        {"wait=5, wait=9", "wait=5"},
        {"wait=-1", ""},
        {"wait=x", ""},
        {"wait", ""},
        {"return=minimal", ""},
        {"foo=\"a, respond-async\", wait=2;x=y", "wait=2"},
        {"wait=99999999999", ""},
        {"wait=999999", "wait=86400"},
        {", ,respond-async,", "respond-async"},
        {"foo=\"", ""},
        {"foo=\"\\", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct prefer prefer = {0};
        char room[48];
        prefer_read(&prefer, span_of(rows[i].value));
        ASSERT_SPAN(prefer_applied(&prefer, room), rows[i].applied);
    }
}

/* --- header fields -------------------------------------------------------------------------------------- */

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

/* --- texts ---------------------------------------------------------------------------------------------- */

static void a_refusal_says_what_to_do_next(void **state) /* C6 */
{
    struct buf headers, body;

    (void)state;
    buf_init(&headers, 10000);
    buf_init(&body, 10000);
    assert_int_equal(
        route_refusal_render(&(struct route_refusal){.problem = ROUTE_PROBLEM_KEY_CONFLICT,
                                                     .status = 422,
                                                     .detail = SPAN("a \"b\"\n")},
                             &headers, &body),
        0);
    ASSERT_SPAN(buf_span(&headers),
                "Content-Type: application/problem+json\nx-should-retry: false\n"
                "Stripe-Should-Retry: false\n");
    ASSERT_SPAN(
        buf_span(&body),
        "{\"type\":\"/.daruma/idempotency#key_conflict\",\"title\":\"Idempotency conflict\","
        "\"status\":422,\"detail\":\"a \\\"b\\\"\\u000a\",\"code\":\"key_conflict\","
        "\"retry\":\"new_key\",\"error\":{\"type\":\"idempotency_error\",\"code\":\"key_conflict\","
        "\"message\":\"a \\\"b\\\"\\u000a\"}}");
    buf_done(&headers);
    buf_done(&body);
}

static void a_request_under_way_names_its_poll_url(void **state) /* C2.B */
{
    struct buf headers, body;

    (void)state;
    buf_init(&headers, 10000);
    buf_init(&body, 10000);
    assert_int_equal(route_progress_render(&(struct route_progress){.id_text = SPAN("ID"),
                                                                    .retry_after_ms = 1001,
                                                                    .is_unknown = true},
                                           &headers, &body),
                     0);
    ASSERT_SPAN(buf_span(&headers), "Content-Type: application/json\nRetry-After: 2\n"
                                    "Location: /.daruma/requests/ID\n");
    assert_true(has(&body, "{\"status\":\"processing\",\"message\":\""));
    assert_true(has(&body, "\"pollUrl\":\"/.daruma/requests/ID\""));
    assert_true(has(&body, "\"code\":\"outcome_unknown\",\"retry\":\"same_key\"}"));
    buf_done(&headers);
    buf_done(&body);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quoted_and_a_bare_key_are_one),
        cmocka_unit_test(a_key_that_is_none_is_refused),
        cmocka_unit_test(a_scope_is_a_digest_of_who_asks),
        cmocka_unit_test(a_cookie_is_found_by_its_name),
        cmocka_unit_test(a_derived_key_depends_on_scope_key_and_route),
        cmocka_unit_test(every_part_of_a_request_is_in_its_fingerprint),
        cmocka_unit_test(selected_fields_alone_make_the_fingerprint),
        cmocka_unit_test(a_probe_names_key_id_and_the_path_s_own_parts),
        cmocka_unit_test(preferences_are_read_as_rfc_7240_writes_them),
        cmocka_unit_test(what_is_true_of_one_moment_is_not_kept),
        cmocka_unit_test(an_upstream_does_not_say_that_its_answer_is_a_replay),
        cmocka_unit_test(a_request_is_sent_on_without_what_is_not_its_own),
        cmocka_unit_test(look_alikes_of_what_is_ours_are_not_sent_on),
        cmocka_unit_test(only_so_many_names_of_a_connection_are_read),
        cmocka_unit_test(the_upstream_is_told_where_a_request_came_from),
        cmocka_unit_test(a_refusal_says_what_to_do_next),
        cmocka_unit_test(a_request_under_way_names_its_poll_url),
    };

    return HARNESS_RUN(argc, argv, tests);
}
