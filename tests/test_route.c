/* SPDX-License-Identifier: MIT
 *
 * The gateway's pure rules: keys, scopes, fingerprints, preferences, and the texts it says.
 * Header fields are in test_route_headers.c, paths in test_route_paths.c, the table of outcomes is in test_route_judge.c.
 */
#include "harness.h"

#include "task/fields.h"
#include "task/prefer.h"
#include "task/route_answer.h"
#include "task/route_key.h"
#include "task/route_match.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

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

static void a_written_key_reads_back_as_itself(void **state)
{
    static const struct {
        const char *key, *written, *strictly;
    } rows[] = {
        {"k-1", "k-1", "\"k-1\""},
        {"a\"b\\c", "a\"b\\c", "\"a\\\"b\\\\c\""},
        {"a,b", "\"a,b\"", "\"a,b\""},
        {"\"k\"", "\"\\\"k\\\"\"", "\"\\\"k\\\"\""},
    };
    char room[ROUTE_KEY_WRITTEN_MAX], read[TASK_KEY_MAX];
    struct span key;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct span written = route_key_write(span_of(rows[i].key), false, room);
        ASSERT_SPAN(written, rows[i].written);
        assert_null(route_key_parse(written, false, read, &key));
        ASSERT_SPAN(key, rows[i].key);
        written = route_key_write(span_of(rows[i].key), true, room);
        ASSERT_SPAN(written, rows[i].strictly);
        assert_null(route_key_parse(written, true, read, &key));
        ASSERT_SPAN(key, rows[i].key);
    }
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

/* Fields below others, indices, names in escapes: what one walk for all of them must tell apart. */
static void fields_that_lie_in_one_another_are_found_together(void **state)
{
    struct route_settings route = {.print = ROUTE_PRINT_FIELDS,
                                   .fields = {SPAN("a"), SPAN("a.b"), SPAN("a.c.1.d"),
                                              SPAN("a.c.0"), SPAN("x.y"), SPAN("a.c.1"),
                                              SPAN("a.b")},
                                   .field_count = 7};
    struct route_request first = with_body("{\"a\":{\"b\":1,\"c\":[2,{\"d\":3}]},\"x\":4}");
    struct route_request same = with_body(
        " {\"z\":{\"a\":0,\"a\":0},\"\\u0061\":{\"b\":1, \"c\":[2,{\"d\":3}]},\"x\":{}} ");
    const char *const others[] = {
        "{\"a\":{\"b\":1,\"c\":[2,{\"d\":4}]},\"x\":4}",
        "{\"a\":{\"b\":1,\"c\":[2,{\"d\":3}]},\"x\":{\"y\":0}}",
        "{\"a\":{\"b\":1,\"c\":[2,{\"d\":3}]},\"x\":4} x", /* as a whole, from here on */
        "{\"a\":{\"b\":1,\"c\":[2,{\"d\":3}]},\"x\":4,}",
        "{\"a\":{\"b\":1,\"c\":[2,{\"d\":3}]},\"x\":4,\"\\u0078\":4}",
        "{\"a\":{\"b\":1,\"c\":[2,{\"d\":3,\"d\":3}]},\"x\":4}",
        "[]",
        "4",
    };
    struct span value;

    (void)state;
    assert_true(is_same_print(&route, &first, &same));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct route_request other = with_body(others[i]);
        assert_false(is_same_print(&route, &first, &other));
    }
    assert_int_equal(route_json_find(SPAN("[[7], 8]"), SPAN("0.0"), &value), ROUTE_JSON_FOUND);
    ASSERT_SPAN(value, "7");
    assert_int_equal(route_json_find(SPAN("[[7], 8]"), SPAN("2"), &value), ROUTE_JSON_MISSING);
    assert_int_equal(route_json_find(SPAN("[[7], 8"), SPAN("0"), &value), ROUTE_JSON_UNSURE);
    assert_int_equal(route_json_find(SPAN("{\"a\":1}"), SPAN("a.b"), &value), ROUTE_JSON_MISSING);
    assert_int_equal(route_json_find(SPAN(""), SPAN("a"), &value), ROUTE_JSON_UNSURE);
}

#define PRINT_BYTES  (1u << 20)
#define PRINT_RUNS   5
#define PRINT_FACTOR 5 /* of the time for one field; sixteen searches are sixteen times as long */

static double seconds_of_print(const struct route_settings *route, struct span body)
{
    struct route_request request = {.method = SPAN("POST"), .target = SPAN("/"), .body = body};
    unsigned char digest[TASK_FINGERPRINT_BYTES];
    struct timespec began, ended;
    double least = 1e9;

    for (int i = 0; i < PRINT_RUNS; i++) {
        assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began), 0);
        assert_int_equal(route_fingerprint(route, &request, digest, NULL), 0);
        assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended), 0);
        double used =
            (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
        least = used < least ? used : least;
    }
    return least;
}

static void many_fields_take_little_more_time_than_one(void **state)
{
    static const char *const starts[] = {"{\"z\":[1", "{\"f0\":{\"f0\":[1"};
    static const char *const ends[] = {"]}", "]}}"};
    struct route_settings route = {.print = ROUTE_PRINT_FIELDS, .field_count = ROUTE_FIELDS_MAX};
    char names[ROUTE_FIELDS_MAX][16];
    struct buf body;

    (void)state;
    buf_init(&body, PRINT_BYTES + 16);
    for (size_t shape = 0; shape < 2; shape++) {
        for (size_t i = 0; i < ROUTE_FIELDS_MAX; i++) {
            (void)snprintf(names[i], sizeof names[i], shape == 0 ? "f%zu" : "f0.g%zu", i);
            route.fields[i] = span_of(names[i]);
        }
        buf_clear(&body);
        assert_int_equal(buf_add(&body, span_of(starts[shape])), 0);
        while (body.len + 2 < PRINT_BYTES) {
            assert_int_equal(buf_add(&body, SPAN(",1")), 0);
        }
        assert_int_equal(buf_add(&body, span_of(ends[shape])), 0);
        route.field_count = 1;
        double one = seconds_of_print(&route, buf_span(&body));
        route.field_count = ROUTE_FIELDS_MAX;
        double all = seconds_of_print(&route, buf_span(&body));
        if (all > one * PRINT_FACTOR) {
            fail_msg("%zu: %.4f s, one field %.4f s", shape, all, one);
        }
    }
    buf_done(&body);
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

static void a_name_in_the_query_of_a_probe_adds_no_parameter(void **state)
{
    struct route_settings route = {.upstream = SPAN("http://u"),
                                   .ambiguous = ROUTE_AMBIGUOUS_PROBE};
    struct buf url;

    (void)state;
    buf_init(&url, 1000);
    assert_null(route_pattern_parse(SPAN("POST /{shop}/orders"), &route.pattern));
    assert_null(route_probe_parse(SPAN("GET /{shop}/by-key?key={key}&shop={shop}"), &route.pattern,
                                  &route.probe));
    assert_int_equal(
        route_probe_url(
            &(struct route_probe_input){.route = &route,
                                        .target = SPAN("http://u/s&key=other;a+b%26c/orders"),
                                        .key = SPAN("mine&key=other")},
            &url),
        0);
    ASSERT_SPAN(buf_span(&url), "http://u/s&key=other;a+b%26c/by-key?key=mine%26key%3Dother"
                                "&shop=s%26key%3Dother%3Ba%2Bb%26c");
    buf_done(&url);
}

static bool is_refused(const char *probe, const char *key)
{
    struct route_settings route = {.upstream = SPAN("http://u"),
                                   .ambiguous = ROUTE_AMBIGUOUS_PROBE};
    struct buf url;

    buf_init(&url, 1000);
    assert_null(route_pattern_parse(SPAN("POST /orders"), &route.pattern));
    assert_null(route_probe_parse(span_of(probe), &route.pattern, &route.probe));
    bool is_sent = route_probe_url(&(struct route_probe_input){.route = &route,
                                                               .target = SPAN("http://u/orders"),
                                                               .key = span_of(key)},
                                   &url) == 0;
    buf_done(&url);
    bool is_taken = route_probe_refuse_key(&route, span_of(key)) == NULL;
    assert_int_equal(is_taken, is_sent);
    return !is_taken;
}

static void a_key_that_is_a_dot_segment_of_a_probe_is_refused(void **state)
{
    static const char *const bad[] = {".", "..", "../x", "x/..", "x/./y", "a\\..\\b", "..;x"};
    static const char *const good[] = {"...", "a.b", "..a", "a..", "a/b", ".a/b."};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_true(is_refused("GET /by-key/{key}", bad[i]));
        assert_true(is_refused("GET /by-key/{key}?also={key}", bad[i]));
        assert_false(is_refused("GET /by-key?key={key}", bad[i]));
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_false(is_refused("GET /by-key/{key}", good[i]));
    }
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
        cmocka_unit_test(a_written_key_reads_back_as_itself),
        cmocka_unit_test(a_scope_is_a_digest_of_who_asks),
        cmocka_unit_test(a_cookie_is_found_by_its_name),
        cmocka_unit_test(a_derived_key_depends_on_scope_key_and_route),
        cmocka_unit_test(every_part_of_a_request_is_in_its_fingerprint),
        cmocka_unit_test(selected_fields_alone_make_the_fingerprint),
        cmocka_unit_test(fields_that_lie_in_one_another_are_found_together),
        cmocka_unit_test(many_fields_take_little_more_time_than_one),
        cmocka_unit_test(a_probe_names_key_id_and_the_path_s_own_parts),
        cmocka_unit_test(a_name_in_the_query_of_a_probe_adds_no_parameter),
        cmocka_unit_test(a_key_that_is_a_dot_segment_of_a_probe_is_refused),
        cmocka_unit_test(preferences_are_read_as_rfc_7240_writes_them),
        cmocka_unit_test(a_refusal_says_what_to_do_next),
        cmocka_unit_test(a_request_under_way_names_its_poll_url),
    };

    return HARNESS_RUN(argc, argv, tests);
}
