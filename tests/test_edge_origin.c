/* SPDX-License-Identifier: MIT
 *
 * Requests that a browser makes for a page of another site, and names that are not this server's: the
 * rule as a table, and the door that holds to it.
 */
#include "edge_world.h"

#include "edge/origin.h"

#include <stdio.h>

#define NONE  PROBLEM_NONE
#define HOST  PROBLEM_HOST_UNKNOWN
#define CROSS PROBLEM_CROSS_SITE

static struct span given(const char *text)
{
    return text != NULL ? span_of(text) : (struct span){0};
}

/* --- whose name --------------------------------------------------------------------------------- */

static void only_known_hosts_are_answered(void **state)
{
    static const struct span hosts[] = {
        {"daruma.example.org", 18}, {"10.0.0.5", 8}, {"fd00::5", 7}};
    static const struct {
        const char *host;
        bool is_known;
    } rows[] = {
        {"127.0.0.1", true},
        {"127.0.0.1:8700", true},
        {"127.0.0.1:1", true},
        {"127.8.9.10:8700", true},
        {"localhost", true},
        {"LocalHost:8700", true},
        {"[::1]", true},
        {"[::1]:8700", true},
        {"[0:0:0:0:0:0:0:1]:8700", true},
        {"192.0.2.7:8700", true}, /* the listen address */
        {"192.0.2.7", true},
        {"daruma.example.org", true},
        {"Daruma.Example.ORG:443", true},
        {"10.0.0.5:8700", true},
        {"[FD00::5]:8700", true},
        {"[fd00:0::5]", true},
        {NULL, true}, /* HTTP/1.0: no browser sends that */
        {"", false},
        {":8700", false},
        {"evil.example", false},
        {"evil.example:8700", false},
        {"localhost.evil.example", false},
        {"127.0.0.1.evil.example", false},
        {"evil.example.daruma.example.org", false},
        {"daruma.example.org.evil.example", false},
        {"daruma.example.orgx", false},
        {"xlocalhost", false},
        {"127.0.0.1:8700:8700", false},
        {"127.0.0.1:", false},
        {"127.0.0.1:99999", false},
        {"127.0.0.1:x", false},
        {"127.0.0.1@evil.example", false},
        {"128.0.0.1", false},
        {"0.0.0.0:8700", false},
        {"192.0.2.8", false},
        {"[::2]:8700", false},
        {"[::ffff:10.0.0.6]", false},
        {"[::1", false},
        {"::1", false},
        {"[localhost]", false},
        {"localhost, evil.example", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct origin_rule rule = {
            .knows_hosts = true, .listen = SPAN("192.0.2.7"), .hosts = hosts, .host_count = 3};
        struct origin_view view = {
            .method = SPAN("GET"), .target = SPAN("/v1/queues"), .host = given(rows[i].host)};
        enum problem found = origin_check(&rule, &view);
        if ((found == NONE) != rows[i].is_known || (found != NONE && found != HOST)) {
            fail_msg("Host: %s: %d", rows[i].host, (int)found);
        }
        rule.knows_hosts = false; /* tokens, and no list: any */
        assert_int_equal(origin_check(&rule, &view), NONE);
        rule.knows_hosts = true;
        view.target = SPAN("/healthz");
        assert_int_equal(origin_check(&rule, &view), NONE);
        view.target = SPAN("/readyz?x");
        assert_int_equal(origin_check(&rule, &view), NONE);
    }
}

/* --- whose page --------------------------------------------------------------------------------- */

static const struct {
    const char *method, *target, *host, *origin, *site, *mode;
    bool is_tls;
    enum problem problem;
} page_rows[] = {
    /* programs */
    {"POST", "/v1/x", "localhost:8700", NULL, NULL, NULL, false, NONE},
    {"POST", "/v1/x", NULL, NULL, NULL, NULL, false, NONE},
    /* browsers that say where the page is from: then Origin has no part in it */
    {"POST", "/v1/x", "localhost:8700", NULL, "same-origin", "cors", false, NONE},
    {"GET", "/v1/x", "localhost:8700", NULL, "none", "navigate", false, NONE},
    {"POST", "/v1/x", "localhost:8700", "https://localhost", "same-origin", NULL, false, NONE},
    {"POST", "/v1/x", "localhost:8700", "http://localhost:8700", "cross-site", NULL, false, CROSS},
    {"GET", "/v1/x", "localhost:8700", NULL, "cross-site", "no-cors", false, CROSS},
    {"GET", "/v1/x", "localhost:8700", NULL, "same-site", "no-cors", false, CROSS},
    {"GET", "/healthz", "localhost:8700", NULL, "cross-site", "no-cors", false, CROSS},
    {"GET", "/v1/x", "localhost:8700", NULL, "", "cors", false, CROSS},
    {"GET", "/v1/x", "localhost:8700", NULL, "Same-Origin", "cors", false, CROSS},
    {"GET", "/v1/x", "localhost:8700", NULL, "same-origin, cross-site", "cors", false, CROSS},
    {"GET", "/v1/x", "localhost:8700", NULL, "newer", "cors", false, CROSS},
    /* links that lead here */
    {"GET", "/", "localhost:8700", NULL, "cross-site", "navigate", false, NONE},
    {"GET", "/?a=b", "localhost:8700", NULL, "same-site", "navigate", false, NONE},
    {"GET", "/console", "localhost:8700", NULL, "cross-site", "navigate", false, NONE},
    {"GET", "/console/", "localhost:8700", NULL, "cross-site", "navigate", false, NONE},
    {"GET", "/console/?x", "localhost:8700", NULL, "cross-site", "navigate", false, NONE},
    {"POST", "/", "localhost:8700", "http://evil.example", "cross-site", "navigate", false, CROSS},
    {"POST", "/console/", "localhost:8700", NULL, "cross-site", "navigate", false, CROSS},
    {"HEAD", "/", "localhost:8700", NULL, "cross-site", "navigate", false, CROSS},
    {"GET", "/console/", "localhost:8700", NULL, "cross-site", "no-cors", false, CROSS},
    {"GET", "/console/", "localhost:8700", NULL, "cross-site", NULL, false, CROSS},
    {"GET", "/consolex", "localhost:8700", NULL, "cross-site", "navigate", false, CROSS},
    {"GET", "/v1/queues", "localhost:8700", NULL, "cross-site", "navigate", false, CROSS},
    {"GET", "/v1/queues?/console/", "localhost:8700", NULL, "cross-site", "navigate", false, CROSS},
    {"GET", "//console/", "localhost:8700", NULL, "cross-site", "navigate", false, CROSS},
    /* browsers that do not: plain HTTP beyond loopback */
    {"POST", "/v1/x", "localhost:8700", "http://localhost:8700", NULL, NULL, false, NONE},
    {"POST", "/v1/x", "LOCALHOST:8700", "http://localhost:8700", NULL, NULL, false, NONE},
    {"POST", "/v1/x", "localhost:8700", "HTTP://LocalHost:8700", NULL, NULL, false, NONE},
    {"POST", "/v1/x", "d.example", "http://d.example", NULL, NULL, false, NONE},
    {"POST", "/v1/x", "d.example:80", "http://d.example", NULL, NULL, false, NONE},
    {"POST", "/v1/x", "d.example", "http://d.example:80", NULL, NULL, false, NONE},
    {"POST", "/v1/x", "d.example", "https://d.example", NULL, NULL, true, NONE},
    {"POST", "/v1/x", "d.example:443", "https://d.example", NULL, NULL, true, NONE},
    {"POST", "/v1/x", "[::1]:8700", "http://[::1]:8700", NULL, NULL, false, NONE},
    {"POST", "/v1/x", "d.example:443", "http://d.example", NULL, NULL, false, CROSS},
    {"POST", "/v1/x", "d.example", "http://d.example:443", NULL, NULL, true, CROSS},
    {"POST", "/v1/x", "d.example", "http://d.example", NULL, NULL, true, CROSS},
    {"POST", "/v1/x", "d.example", "https://d.example", NULL, NULL, false, CROSS},
    {"POST", "/v1/x", "localhost:8700", "http://localhost:8701", NULL, NULL, false, CROSS},
    {"POST", "/v1/x", "localhost:8700", "http://localhost", NULL, NULL, false, CROSS},
    {"POST", "/v1/x", "localhost:8700", "http://127.0.0.1:8700", NULL, NULL, false, CROSS},
    {"POST", "/v1/x", "localhost:8700", "http://evil.example", NULL, NULL, false, CROSS},
    {"POST", "/v1/x", "localhost:8700", "http://localhost:8700.evil.example", NULL, NULL, false,
     CROSS},
    {"POST", "/v1/x", "localhost:8700", "http://localhost:8700/", NULL, NULL, false, CROSS},
    {"POST", "/v1/x", "localhost:8700", "http://a@localhost:8700", NULL, NULL, false, CROSS},
    {"POST", "/v1/x", "localhost:8700", "http://localhost:8700 http://evil.example", NULL, NULL,
     false, CROSS},
    {"POST", "/v1/x", "localhost:8700", "null", NULL, NULL, false, CROSS},
    {"POST", "/v1/x", "localhost:8700", "", NULL, NULL, false, CROSS},
    {"POST", "/v1/x", "localhost:8700", "localhost:8700", NULL, NULL, false, CROSS},
    {"POST", "/v1/x", "localhost:8700", "file://", NULL, NULL, false, CROSS},
    {"POST", "/v1/x", "localhost:8700", "chrome-extension://abc", NULL, NULL, false, CROSS},
    {"POST", "/v1/x", NULL, "http://localhost:8700", NULL, NULL, false, CROSS},
    {"GET", "/console/", "localhost:8700", "http://evil.example", NULL, NULL, false, CROSS},
};

static void pages_of_other_sites_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof page_rows / sizeof *page_rows; i++) {
        const struct origin_rule rule = {.is_tls = page_rows[i].is_tls,
                                         .listen = SPAN("127.0.0.1")};
        const struct origin_view view = {.method = span_of(page_rows[i].method),
                                         .target = span_of(page_rows[i].target),
                                         .host = given(page_rows[i].host),
                                         .origin = given(page_rows[i].origin),
                                         .site = given(page_rows[i].site),
                                         .mode = given(page_rows[i].mode)};
        enum problem found = origin_check(&rule, &view);
        if (found != page_rows[i].problem) {
            fail_msg("row %zu: %s %s: %d", i, page_rows[i].method, page_rows[i].target, (int)found);
        }
    }
}

/* A page of any site has the browser fetch what may be wanted next, and the browser says `none` of it. */
static void what_a_browser_fetches_ahead_is_refused(void **state)
{
    static const char *const targets[] = {"/v1/queues", "/metrics", "/", "/console/", "/healthz"};
    static const char *const sites[] = {NULL, "none", "same-origin", "cross-site"};
    const struct origin_rule rule = {.listen = SPAN("127.0.0.1")};
    (void)state;

    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        for (size_t n = 0; n < sizeof sites / sizeof *sites; n++) {
            const struct origin_view view = {.method = SPAN("GET"),
                                             .target = span_of(targets[i]),
                                             .host = SPAN("localhost:8700"),
                                             .site = given(sites[n]),
                                             .mode = SPAN("navigate"),
                                             .is_ahead = true};
            assert_int_equal(origin_check(&rule, &view), CROSS);
        }
    }
}

/* --- the door ----------------------------------------------------------------------------------- */

static void ask(struct world *world, const char *line, const char *headers,
                struct fetched *ret_fetched)
{
    struct answer_view answer;
    struct client client;

    client_open(&client, world);
    client_sendf(&client, "%s\r\n%s\r\n", line, headers);
    client_await(&client, &answer);
    ret_fetched->status = answer.status;
    snprintf(ret_fetched->headers, sizeof ret_fetched->headers, "%.*s", SPAN_ARGS(answer.headers));
    snprintf(ret_fetched->body, sizeof ret_fetched->body, "%.*s", SPAN_ARGS(answer.body));
    client_close(&client);
}

static void the_engine_hears_nothing_of_another_site(void **state)
{
    struct fetched got;
    struct world world;

    (void)state;
    world_open(&world, NULL);
    ask(&world, "POST /v1/queues/q:purge HTTP/1.1",
        "Host: x\r\nContent-Length: 0\r\nSec-Fetch-Site: cross-site\r\n", &got);
    assert_int_equal(got.status, 403);
    assert_non_null(strstr(got.body, "\"cross_site\""));
    ask(&world, "GET /v1/queues HTTP/1.1", "Host: evil.example\r\n", &got);
    assert_int_equal(got.status, 421);
    assert_non_null(strstr(got.body, "\"host_unknown\""));
    static const char *const foreign[] = {
        "http://evil.example/v1/queues", "HTTPS://evil.example/v1/queues",
        "http://localhost:80@evil.example/v1/queues", "http:///v1/queues", "http://?/v1/queues"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        char line[100];
        snprintf(line, sizeof line, "GET %s HTTP/1.1", foreign[i]);
        ask(&world, line, "Host: localhost\r\n", &got); /* the target says which host is meant */
        assert_int_equal(got.status, 421);
        assert_non_null(strstr(got.body, "\"host_unknown\""));
    }
    ask(&world, "GET http://localhost:1/v1/openapi.json HTTP/1.1", "Host: evil.example\r\n", &got);
    assert_int_equal(got.status, 200);
    ask(&world, "GET http://any.name/healthz HTTP/1.1", "Host: any.name\r\n", &got);
    assert_int_equal(got.status, 200);
    ask(&world, "GET /v1/queues HTTP/1.1",
        "Host: x\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Site: same-origin\r\n", &got);
    assert_int_equal(got.status, 403);
    ask(&world, "OPTIONS /v1/queues/q/tasks HTTP/1.1",
        "Host: x\r\nOrigin: http://x\r\nAccess-Control-Request-Method: POST\r\n", &got);
    assert_int_equal(got.status, 405);
    assert_lacks(got.headers, "Access-Control");
    assert_int_equal(world.engine->call_count, 0);
    ask(&world, "GET /healthz HTTP/1.1", "Host: any.name\r\n", &got);
    assert_int_equal(got.status, 200);
    ask(&world, "GET /healthz HTTP/1.0", "", &got);
    assert_int_equal(got.status, 200);
    world_close(&world);
}

static void what_says_that_it_is_fetched_ahead_does_not_reach_the_engine(void **state)
{
    static const char *const fields[] = {
        "Sec-Purpose: prefetch",
        "Sec-Purpose: prefetch;prerender",
        "sec-purpose: newer",
        "Sec-Purpose:",
        "Purpose: prefetch",
        "PURPOSE: prerender",
        "Purpose: x\r\nPurpose: prefetch",
    };
    struct fetched got;
    struct world world;
    char headers[128];
    (void)state;

    world_open(&world, NULL);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        snprintf(headers, sizeof headers, "Host: x\r\nSec-Fetch-Site: none\r\n%s\r\n", fields[i]);
        ask(&world, "GET /v1/queues HTTP/1.1", headers, &got);
        assert_int_equal(got.status, 403);
        assert_non_null(strstr(got.body, "\"cross_site\""));
    }
    assert_int_equal(world.engine->call_count, 0);
    world_close(&world);
}

/* A caller with a token is refused like any other; an unknown one is not told that it is unknown. */
static void a_token_does_not_make_another_site_ours(void **state)
{
    static const struct edge_token tokens[] = {
        {.name = {"ops", 3}, .roles = EDGE_ROLE_ADMIN, .secret = {"s3cret", 6}}};
    static const struct span hosts[] = {{"d.example", 9}};
    struct edge_options options = {.tokens = tokens, .token_count = 1};
    struct fetched got;
    struct world world;

    (void)state;
    world_open(&world, &options);
    ask(&world, "GET /v1/openapi.json HTTP/1.1",
        "Host: any.name\r\nAuthorization: Bearer s3cret\r\nOrigin: http://evil.example\r\n", &got);
    assert_int_equal(got.status, 403);
    ask(&world, "GET /v1/openapi.json HTTP/1.1",
        "Host: any.name\r\nAuthorization: Bearer wrong\r\nOrigin: http://evil.example\r\n", &got);
    assert_int_equal(got.status, 403);
    ask(&world, "GET /v1/openapi.json HTTP/1.1",
        "Host: any.name\r\nAuthorization: Bearer s3cret\r\nOrigin: http://any.name\r\n", &got);
    assert_int_equal(got.status, 200);
    world_close(&world);
    options.hosts = hosts;
    options.host_count = 1;
    world_open(&world, &options);
    ask(&world, "GET /v1/openapi.json HTTP/1.1",
        "Host: any.name\r\nAuthorization: Bearer s3cret\r\n", &got);
    assert_int_equal(got.status, 421);
    ask(&world, "GET /v1/openapi.json HTTP/1.1",
        "Host: D.example:99\r\nAuthorization: Bearer s3cret\r\n", &got);
    assert_int_equal(got.status, 200);
    world_close(&world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        cmocka_unit_test(only_known_hosts_are_answered),
        cmocka_unit_test(pages_of_other_sites_are_refused),
        cmocka_unit_test(what_a_browser_fetches_ahead_is_refused),
        cmocka_unit_test(the_engine_hears_nothing_of_another_site),
        cmocka_unit_test(what_says_that_it_is_fetched_ahead_does_not_reach_the_engine),
        cmocka_unit_test(a_token_does_not_make_another_site_ours),
    };
    return HARNESS_RUN(argc, argv, claims);
}
