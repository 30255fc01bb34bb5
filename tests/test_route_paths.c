/* SPDX-License-Identifier: MIT
 *
 * Which route a request's path belongs to, which are refused, and which an upstream may take for a
 * route's.
 */
#include "harness.h"

#include "task/route_like.h"

#include <stdio.h>

static void a_path_that_can_be_read_in_two_ways_is_refused(void **state)
{
    static const char *const bad[] = {
        "",        "v1",        "//v1",       "/v1//x",     "/v1/./x",   "/v1/../x",
        "/v1/..",  "/v1/%62x",  "/v1/%2e%2e", "/v1/a%2fb",  "/v1/a%2Fb", "/v1/%5c",
        "/v1/%",   "/v1/%4",    "/v1/%zz",    "/v1/a b",    "/v1/a\\b",  "/v1#x",
        "/v1/%00", "/v1/%0a",   "/\xc3\xa9",  "/v1?x=\x7f", "*",         "/v1/x?a b",
        "?x",      "/v1/..;/x", "/.;/v1",     "/v1/;x/y",   "/v1/;",
    };
    static const char *const good[] = {
        "/",        "/v1", "/v1/", "/v1/a%20b", "/v1?x=%2F..//", "/v1/a:b;c=d,e@f", "http://h:1/v1",
        "/a.b/..c",
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
};
static const char *const other[] = {
    "/v1/order",
    "/v1/orders2",
    "/v1.1/orders",
    "/v1/orders/7",
    "/v1/orders-old",
    "/v1/orders/7/pays",
    "/v1/orders:batch",
    "/v1/orders.something-long",
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
        if (!route_is_like(routes, count, SPAN("POST"), &target) ||
            !route_is_like(routes, count, SPAN(""), &target) ||
            route_is_like(routes, count, SPAN("GET"), &target)) {
            fail_msg("%s goes around its route", like[i]);
        }
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        assert_null(route_target_parse(span_of(other[i]), &target));
        if (route_is_like(routes, count, SPAN("POST"), &target)) {
            fail_msg("%s is taken for a route's", other[i]);
        }
    }
}

static void what_renames_a_method_is_known(void **state)
{
    static const char *const renaming[] = {
        "X-HTTP-Method-Override",
        "X_HTTP_Method_Override",
        "X-Http-Methodoverride",
        "X-HTTP-Method",
        "x-http-method",
        "X_Http_Method",
        "X-Method-Override",
        "HTTP-Method-Override",
        "X.HTTP.Method",
        "Method-Override",
        "X-HttpMethod",
        "X-Method",
        "_method",
        "X-Override-Method",
    };
    static const char *const others[] = {
        "Access-Control-Request-Method",
        "Access-Control-Allow-Methods",
        "X-Payment-Method",
        "X-Shipping-Method-Code",
        "X-Methodology",
        "Override",
        "X-Auth-Method",
        "X-Forwarded-Method",
    };
    static const struct {
        const char *target;
        bool renames;
    } targets[] = {{"/v1/orders?_method=PUT", true},
                   {"/v1/orders?a=1&_method=PUT", true},
                   {"/v1/orders?%5fMethod=PUT", true},
                   {"/v1/orders?_method", true},
                   {"/v1/orders?a=_method=PUT", false},
                   {"/v1/orders?payment_method=card", false},
                   {"/v1/_method", false},
                   {"/v1/orders?", false},
                   {"/v1/orders?x&&y", false}};
    struct route_target target;
    char field[64];

    (void)state;
    assert_null(route_target_parse(SPAN("/v1/orders"), &target));
    for (size_t i = 0; i < sizeof renaming / sizeof *renaming; i++) {
        (void)snprintf(field, sizeof field, "a: b\n%s: PUT\n", renaming[i]);
        if (!route_renames_method(span_of(field), &target)) {
            fail_msg("%s renames", renaming[i]);
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        (void)snprintf(field, sizeof field, "%s: PUT\n", others[i]);
        if (route_renames_method(span_of(field), &target)) {
            fail_msg("%s does not rename", others[i]);
        }
    }
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        assert_null(route_target_parse(span_of(targets[i].target), &target));
        if (route_renames_method(SPAN(""), &target) != targets[i].renames) {
            fail_msg("%s", targets[i].target);
        }
    }
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
        cmocka_unit_test(what_renames_a_method_is_known),
        cmocka_unit_test(a_pattern_that_is_none_is_refused),
    };
    return HARNESS_RUN(argc, argv, tests);
}
