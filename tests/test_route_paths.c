/* SPDX-License-Identifier: MIT
 *
 * Which route a request's path belongs to, which are refused, and which an upstream may take for a
 * route's. What asks for another method is in test_route_rename.c.
 */
#include "harness.h"

#include "base/buf.h"
#include "task/route_like.h"
#include "task/route_rename.h"

#include <stdio.h>
#include <time.h>

static void a_path_that_can_be_read_in_two_ways_is_refused(void **state)
{
    static const char *const bad[] = {
        "",           "v1",           "//v1",       "/v1//x",     "/v1/./x",   "/v1/../x",
        "/v1/..",     "/v1/%62x",     "/v1/%2e%2e", "/v1/a%2fb",  "/v1/a%2Fb", "/v1/%5c",
        "/v1/%",      "/v1/%4",       "/v1/%zz",    "/v1/a b",    "/v1/a\\b",  "/v1#x",
        "/v1/%00",    "/v1/%0a",      "/\xc3\xa9",  "/v1?x=\x7f", "*",         "/v1/x?a b",
        "?x",         "/v1/..;/x",    "/.;/v1",     "/v1/;x/y",   "/v1/;",     "/v1/%3Bx",
        "/v1/%3bx/y", "/v1/..%3Ba/y", "/v1/.%3B/y",
    };
    static const char *const good[] = {
        "/",
        "/v1",
        "/v1/",
        "/v1/a%20b",
        "/v1?x=%2F..//",
        "/v1/a:b;c=d,e@f",
        "http://h:1/v1",
        "/a.b/..c",
        "/v1/a%3Bb",
        "/v1/%3Fx",
        "/v1/100%25",
    };
    struct route_target target;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (route_target_parse(span_of(bad[i]), &target) == NULL) {
            fail_msg("%s was taken", bad[i]);
        }
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const char *why = route_target_parse(span_of(good[i]), &target);
        if (why != NULL) {
            fail_msg("%s: %s", good[i], why);
        }
    }
}

static size_t routes_of(const char *const *patterns, size_t count, struct route_settings *routes)
{
    for (size_t i = 0; i < count; i++) {
        assert_null(route_pattern_parse(span_of(patterns[i]), &routes[i].pattern));
    }
    return count;
}

static void the_first_route_that_matches_counts(void **state)
{
    static const char *const patterns[] = {
        "POST /v1/orders",   "POST,PUT /v1/orders/{id}/confirm",
        "POST /v1/orders/*", "POST /v1/*/x",
        "POST /slash/",      "POST /",
    };
    static const struct {
        const char *method, *target;
        enum route_found found;
        size_t index;
    } rows[] = {
        {"POST", "/v1/orders", ROUTE_FOUND, 0},
        {"POST", "/v1/orders?x=1", ROUTE_FOUND, 0},
        {"POST", "http://h/v1/orders", ROUTE_FOUND, 0},
        {"PUT", "/v1/orders/7/confirm", ROUTE_FOUND, 1},
        {"POST", "/v1/orders/7/confirm", ROUTE_FOUND, 1},
        {"POST", "/v1/orders/7/cancel", ROUTE_FOUND, 2},
        {"POST", "/v1/orders/7", ROUTE_FOUND, 2},
        {"POST", "/v1/orders/7/", ROUTE_FOUND, 2},
        {"POST", "/v1/things/x", ROUTE_FOUND, 3},
        {"POST", "/slash/", ROUTE_FOUND, 4},
        {"POST", "/", ROUTE_FOUND, 5},
        {"POST", "/slash", ROUTE_FOUND_SLASH, 0},
        {"POST", "/v1/orders/", ROUTE_FOUND_SLASH, 0},
        {"GET", "/v1/orders", ROUTE_FOUND_METHOD, 0},
        {"POST", "/v2", ROUTE_FOUND_NOWHERE, 0},
        {"POST", "/V1/orders", ROUTE_FOUND_NOWHERE, 0},
        {"post", "/v1/orders", ROUTE_FOUND_METHOD, 0},
    };
    static struct route_settings routes[6];
    struct route_target target;
    size_t count = routes_of(patterns, 6, routes), index;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_null(route_target_parse(span_of(rows[i].target), &target));
        index = 99;
        enum route_found found =
            route_find(routes, count, span_of(rows[i].method), &target, &index);
        if (found != rows[i].found || (found == ROUTE_FOUND && index != rows[i].index)) {
            fail_msg("%s %s: found %d, %zu", rows[i].method, rows[i].target, (int)found, index);
        }
    }
}

/* Of the routes POST /v1/orders and POST /v1/orders/{id}/pay. */
static const char *const like[] = {
    "/V1/orders",
    "/v1/Orders",
    "/v1/orders;x=1",
    "/v1;a/orders",
    "/v1/orders.json",
    "/v1/orders.",
    "/v1/orders%20",
    "/v1/orders%3Bx",
    "/v1/orders%3bx",
    "/v1/orders%3Fx=1",
    "/v1/orders%23x",
    "/v1/orders%20.",
    "/v1./orders",
    "/v1/ORDERS.JSON",
    "/v1/orders/7/PAY",
    "/v1/orders/7/pay;x",
    "/v1/orders/",
    "/v1/orders;x=1.json",
    "/v1/orders/7/pay.xml",
    "/v1/orders::$DATA",
    "/v1/orders::$INDEX_ALLOCATION",
    "/v1/orders:$I30:$INDEX_ALLOCATION",
    "/v1/orders%3A%3a$data",
    "/v1/orders:x:%24DATA",
    "/v1::$DATA/orders",
    "/v1/orders::",
    "/v1/orders.json.json",
    "/v1/orders.json.xml.",
    "/v1/orders.json;a.json",
    "/v1.json/orders",
    "/v1.json.json/orders",
    "/V1.JSON/Orders.xml",
    "/v1/order%C5%BF",
    "/v1/order%c5%bf.json",
    "/v1/orders%20.json",
    "/v1/orders..json",
    "/v1/orders.%20.json",
    "/v1/orders.%20x.json",
    "/v1/orders%20%20.a.b",
    "/v1/orders.abcdefghi",
    "/v1/orders.something-long",
    "/v1/orders.a.something-long.b",
    "/v1/orders.1",
    "/v1/orders%3Fa/b", /* the path may end there */
    "/v1/orders%23a/b",
    "/v1/orders.abcdefghi%3Fa/b",
    "/v1/orders/%3Fx",
    "/v1/orders/%23x/y",
    "/v1/orders/%20/%3Fx",
    "/v1/orders/%20",
    "/v1/orders/%20/%20/",
    "/v1/orders/...",
    "/v1/%20orders",
    "/v1/%C2%A0orders%E3%80%80",
    "/v1/orders%C2%A0",
    "/v1/orders+",
    "/v1/%20/orders",
    "/v1/x/..%20/orders",
    "/v1/orders/7/pay%3F/x",
    "/v1/orders%2520", /* decoded twice, or three times */
    "/v1/orders%253Fx",
    "/v1/orders%25253Fx",
    "/v1/%256frders",
    "/v1/%25256Frders",
    "/v1/%25C5%25BFx%252F%252e%252e%252forders",
    "/v1%252Forders",
    "/v1/orders%252F",
    "/v1/%253Bx/orders",
    "/v1%255corders",
    "/v1/orders%2500x",
    "/v1/x/..%253Ba/orders",
    "/v1/orders/a%252Fpay",
};
static const char *const other[] = {
    "/v1/order",
    "/v1/orders2",
    "/v1.1/orders",
    "/v1/orders/7",
    "/v1/orders-old",
    "/v1/orders/7/pays",
    "/v1/orders:batch",
    "/v1/orders%C3%A9",
    "/",
    "/v1",
    "/v1/.json",
    "/v1/.json.json",
    "/v1/orders:7",
    "/v1/orders:cancel:all",
    "/v1/a.json.orders",
    "/v1/order%C5%BE",
    "/v1.2.3/orders",
    "/v1/orders%20x.json",
    "/v1/orders%20x",
    "/v1.json.2/orders",
    "/v1.something-long/orders",
    "/v1/a$b:orders",
    "/v1/orders%3Abatch",
    "/v1/%3Forders",
    "/v1%3Fx/orders2",
    "/v1/a%3Fb/orders",
    "/v1/orders%21",
    "/v1/orders/.well-known",
    "/v1/orders%252Fx%252F7",
    "/v1/orders%25",
    "/v1/100%25",
    "/v1/orders%25zz",
    "/v1/o%20rders",
    "/v1/%20x/orders",
    "/files/a%252Fb",
    "/%E3%83%86%E3%82%B9%E3%83%88",
};

static void what_an_upstream_may_take_for_a_route_is_known(void **state)
{
    static const char *const patterns[] = {"POST /v1/orders", "POST /v1/orders/{id}/pay"};
    static struct route_settings routes[2];
    size_t count = routes_of(patterns, 2, routes);
    struct route_target target;

    (void)state;
    for (size_t i = 0; i < sizeof like / sizeof *like; i++) {
        assert_null(route_target_parse(span_of(like[i]), &target));
        if (route_like_find(routes, count, SPAN("POST"), &target) != ROUTE_LIKE_METHOD ||
            route_like_find(routes, count, SPAN("GET"), &target) != ROUTE_LIKE_PATH) {
            fail_msg("%s goes around its route", like[i]);
        }
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        assert_null(route_target_parse(span_of(other[i]), &target));
        if (route_like_find(routes, count, SPAN("POST"), &target) != ROUTE_LIKE_NONE) {
            fail_msg("%s is taken for a route's", other[i]);
        }
    }
}

static void an_escape_does_not_lead_to_a_route_behind(void **state)
{
    static const char *const patterns[] = {"POST /v1/users/@me/x", "PUT /v1/users/@you/x",
                                           "POST /v1/a%2Ab/{id}", "POST,PUT /v1/*"};
    static const struct {
        const char *target;
        bool is_behind;
    } cases[] = {
        {"/v1/users/%40me/x", true},    {"/v1/users/%40ME/x", false},
        {"/v1/users/%40me/y", false},   {"/v1/users/%40you/x", false},
        {"/v1/users/%40/x", false},     {"/v1/users/%40me%21/x", false},
        {"/v1/a*b/%40", true},          {"/v1/a*b/7", true},
        {"/v1/users/%2540me/x", false},
    };
    static struct route_settings routes[4];
    size_t count = routes_of(patterns, 4, routes), index;
    struct route_target target;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(route_target_parse(span_of(cases[i].target), &target));
        assert_int_equal(route_find(routes, count, SPAN("POST"), &target, &index), ROUTE_FOUND);
        assert_int_equal(index, 3);
        if (route_is_behind(routes, index, SPAN("POST"), &target) != cases[i].is_behind) {
            fail_msg("%s", cases[i].target);
        }
    }
}

static void a_slash_at_the_end_leads_to_a_route_behind_only_where_it_was_written(void **state)
{
    static const char *const patterns[] = {"POST /v1/orders", "POST /v1/orders/", "POST /v1/*"};
    static const char *const open_patterns[] = {"POST /v1/orders", "POST /v1/*"};
    static struct route_settings routes[3];
    struct route_target target;
    size_t index, count = routes_of(patterns, 3, routes);

    (void)state;
    assert_null(route_target_parse(SPAN("/v1/orders/"), &target));
    assert_int_equal(route_find(routes, count, SPAN("POST"), &target, &index), ROUTE_FOUND);
    assert_int_equal(index, 1);
    assert_false(route_is_behind(routes, index, SPAN("POST"), &target));
    count = routes_of(open_patterns, 2, routes);
    assert_int_equal(route_find(routes, count, SPAN("POST"), &target, &index), ROUTE_FOUND);
    assert_int_equal(index, 1);
    assert_true(route_is_behind(routes, index, SPAN("POST"), &target));
}

/* Of routes in which more than letters stands; what they are like, and what not. */
static const struct {
    const char *target;
    size_t index; /* of the route; the count: none */
} others_routes[] = {
    {"/v1/orders%3Abatch", 0},
    {"/v1/orders%3abatch", 0},
    {"/v1/orders%3Abatch.json", 0},
    {"/v1/orders%253Abatch", 0},
    {"/v1/orders:BATCH", 0},
    {"/v1/orders:batches", 9},
    {"/v1/orders%3A", 9},
    {"/v1/users/%40me/bills", 1},
    {"/v1/users/me/bills", 9},
    {"/v1/a%21%24%26%27%28%29%2A%2B%2C%3Db", 2},
    {"/v1/a!$&'()*+,%3Db", 2},
    {"/v1/b%C4%B1lls", 3},
    {"/v1/b%C4%B0lls", 3},
    {"/v1/b%c4%b1ll%C5%BF.json", 3},
    {"/v1/b%C4%B2lls", 9},
    {"/v1/acce%C3%9F", 4},
    {"/v1/acce%E1%BA%9E", 4},
    {"/v1/o%EF%AC%83ce", 5},
    {"/V1/c++", 6},
    {"/V1/c++.json", 6},
    {"/V1/%2Bc", 9},
    {"/V1/caf%C3%A9", 7},
    {"/v1/caf%25C3%25A9", 7},
    {"/v1/cafe", 9},
    {"/%20", 8},
    {"/%3Fx", 8},
    {"/.well-known", 9},
};

static void a_route_of_more_than_letters_is_known_in_escapes(void **state)
{
    static const char *const patterns[] = {
        "POST /v1/orders:batch", "POST /v1/users/@me/bills", "POST /v1/a!$&'()%2A+,=b",
        "POST /v1/bills",        "POST /v1/access",          "POST /v1/office",
        "POST /v1/c++",          "POST /v1/caf%C3%A9",       "POST /"};
    static struct route_settings routes[9];
    size_t count = routes_of(patterns, 9, routes);
    struct route_target target;

    (void)state;
    for (size_t i = 0; i < sizeof others_routes / sizeof *others_routes; i++) {
        assert_null(route_target_parse(span_of(others_routes[i].target), &target));
        for (size_t route = 0; route < count; route++) {
            bool is_like =
                route_like_find(&routes[route], 1, SPAN("POST"), &target) == ROUTE_LIKE_METHOD;
            if (is_like != (route == others_routes[i].index)) {
                fail_msg("%s is %s %s", others_routes[i].target, is_like ? "like" : "not like",
                         patterns[route]);
            }
        }
    }
}

#define LONG_BYTES       16384
#define MANY_ROUTES      1000
#define LIKE_SECONDS_MAX 0.2 /* much of it is for sanitizers and slow machines */

/* The start, then `again` until it is long, then the end. */
static void fill_long(struct buf *path, const char *start, const char *again, const char *end)
{
    buf_clear(path);
    assert_int_equal(buf_add(path, span_of(start)), 0);
    while (path->len + strlen(again) + strlen(end) <= LONG_BYTES) {
        assert_int_equal(buf_add(path, span_of(again)), 0);
    }
    assert_int_equal(buf_add(path, span_of(end)), 0);
}

static const struct {
    const char *start, *again, *end;
    enum route_like like;
} long_paths[] = {{"/", ":a", "/x", ROUTE_LIKE_NONE},
                  {"/v1/", ":a", "", ROUTE_LIKE_NONE},
                  {"/v1/", "%3ab", "", ROUTE_LIKE_NONE},
                  {"/v1", ".a", "/things7", ROUTE_LIKE_METHOD},
                  {"/v1", ".a", "/x", ROUTE_LIKE_NONE},
                  {"/v1", "%20", ".json/x", ROUTE_LIKE_NONE},
                  {"/v1", "%20", "x.json/x", ROUTE_LIKE_NONE},
                  {"/v1", "..", "/things999", ROUTE_LIKE_METHOD},
                  {"/v1/thing%C5%BF", ";$:", "", ROUTE_LIKE_NONE},
                  {"/v1/things1", "::$", "", ROUTE_LIKE_METHOD},
                  {"/v1/", "a", "", ROUTE_LIKE_NONE},
                  {"/v1/things7", "%25", "3Fx", ROUTE_LIKE_NONE},
                  {"/v1", "%252F", "things7", ROUTE_LIKE_METHOD},
                  {"/v1", "%252Fa", "", ROUTE_LIKE_METHOD}, /* more segments than are counted */
                  {"/v1/things7", "%C3%9F", "", ROUTE_LIKE_NONE},
                  {"/v1/things7", ".", "%3F", ROUTE_LIKE_METHOD},
                  {"/v1/things7", "%3F", "/x", ROUTE_LIKE_METHOD},
                  {"/v1/things7", "%3F%26", "", ROUTE_LIKE_METHOD},
                  {"/v1/things7?", "%26", "", ROUTE_LIKE_METHOD},
                  {"/v1/", "+", "things7", ROUTE_LIKE_METHOD}};

static double seconds_used(void)
{
    struct timespec used;

    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* Work by path times path, or path times routes, would take minutes here. */
static void long_paths_and_many_routes_take_no_time_together(void **state)
{
    static struct route_settings routes[MANY_ROUTES];
    static char patterns[MANY_ROUTES][32];
    struct route_target target;
    struct buf path;

    (void)state;
    for (size_t i = 0; i < MANY_ROUTES; i++) {
        (void)snprintf(patterns[i], sizeof patterns[i], "POST /v1/things%zu", i);
        assert_null(route_pattern_parse(span_of(patterns[i]), &routes[i].pattern));
    }
    buf_init(&path, LONG_BYTES);
    for (size_t i = 0; i < sizeof long_paths / sizeof *long_paths; i++) {
        fill_long(&path, long_paths[i].start, long_paths[i].again, long_paths[i].end);
        assert_null(route_target_parse(buf_span(&path), &target));
        double began = seconds_used();
        assert_int_equal(route_like_find(routes, MANY_ROUTES, SPAN("POST"), &target),
                         long_paths[i].like);
        assert_false(route_renames_method((struct span){0}, &target));
        double used = seconds_used() - began;
        if (used > LIKE_SECONDS_MAX) {
            fail_msg("%s%s...%s: %.3f s", long_paths[i].start, long_paths[i].again,
                     long_paths[i].end, used);
        }
    }
    buf_done(&path);
}

static void a_pattern_that_is_none_is_refused(void **state)
{
    static const char *const bad[] = {
        "",          "/v1",         "POST",       "POST/v1",  "post /v1",      "POST /v1?x",
        "POST /a*",  "POST /{a",    "POST /x{a}", "POST /{}", "POST /{a}/{a}", "P OST /v1",
        "POST, /v1", "CONNECT /v1",
    };
    struct route_pattern pattern;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (route_pattern_parse(span_of(bad[i]), &pattern) == NULL) {
            fail_msg("%s was taken", bad[i]);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_that_can_be_read_in_two_ways_is_refused),
        cmocka_unit_test(the_first_route_that_matches_counts),
        cmocka_unit_test(what_an_upstream_may_take_for_a_route_is_known),
        cmocka_unit_test(an_escape_does_not_lead_to_a_route_behind),
        cmocka_unit_test(a_slash_at_the_end_leads_to_a_route_behind_only_where_it_was_written),
        cmocka_unit_test(a_route_of_more_than_letters_is_known_in_escapes),
        cmocka_unit_test(long_paths_and_many_routes_take_no_time_together),
        cmocka_unit_test(a_pattern_that_is_none_is_refused),
    };
    return HARNESS_RUN(argc, argv, tests);
}
