/* SPDX-License-Identifier: MIT
 *
 * The gateway's part of a configuration: what it is when nothing is written, every key, and every
 * mistake with the exact words that a person gets to read. A1, C2, C3.
 */
#include "certificate.h"
#include "config_mistakes.h"
#include "harness.h"

#include "config/config.h"

#include <stdio.h>

static struct config *parsed(const char *text)
{
    struct config *config = NULL;
    struct error err = {0};

    if (config_parse(span_of(text), "t.yaml", &config, &err) != 0) {
        fail_msg("refused: %s", err.text);
    }
    return config;
}

#define ASSERT_SPAN(span, text) assert_true(span_is((span), (text)))

#define SMALL "routes:\n  - match: POST /v1/bookmarks\n    upstream: http://u\n    scope: global\n"

static void a_route_has_the_documented_defaults(void **state) /* A1 */
{
    struct config *config = parsed(SMALL);
    const struct route_settings *route = config->routes;

    (void)state;
    assert_int_equal(config->route_count, 1);
    ASSERT_SPAN(config->gateway.listen.host, "127.0.0.1");
    assert_int_equal(config->gateway.listen.port, 8701);
    ASSERT_SPAN(config->pass, "");
    ASSERT_SPAN(route->name, "POST-v1-bookmarks");
    ASSERT_SPAN(route->upstream, "http://u");
    assert_int_equal(route->timeout_ms, 30000);
    assert_int_equal(route->wait_ms, 10000);
    assert_int_equal(route->deadline_ms, 40000);
    assert_int_equal(route->policy.attempts_max, 3);
    assert_false(route->repeatable);
    assert_int_equal(route->need, ROUTE_KEY_REQUIRED);
    ASSERT_SPAN(route->header, "Idempotency-Key");
    assert_false(route->is_strict);
    assert_int_equal(route->print, ROUTE_PRINT_BODY);
    assert_int_equal(route->keep_ms, 72 * 3600000);
    assert_int_equal(route->expired, ROUTE_EXPIRED_REFUSE);
    assert_int_equal(route->in_progress, ROUTE_WAY_WAIT);
    assert_int_equal(route->wait_then, ROUTE_WAY_CONFLICT); /* no 202 for who did not ask */
    assert_int_equal(route->retry_after_ms, 2000);
    assert_int_equal(route->replay, ROUTE_REPLAY_ALL);
    assert_int_equal(route->release_count, 0);
    assert_int_equal(route->not_sent, ROUTE_NOT_SENT_RETRY);
    assert_int_equal(route->ambiguous, ROUTE_AMBIGUOUS_HOLD);
    assert_int_equal(route->mismatch, 409);
    assert_int_equal(route->probe.method.len, 0);
    assert_false(route->derives_key);
    config_free(config);
}

static void every_key_of_a_route_is_read(void **state)
{
    certificate_write("c.pem");
    struct config *config = parsed(
        "gateway: {listen: '0.0.0.0:80'}\npass: http://p/base\n"
        "routes:\n"
        "  - name: orders\n    match: 'PUT, PATCH /v1/orders/{order}/*'\n    upstream: "
        "https://u/x/\n"
        "    timeout: 5s\n    deadline: 7s\n    policy: sync\n    concurrency: 9\n"
        "    key: optional\n    header: X-Key\n    strict: true\n"
        "    scope: 'cookie:session'\n    fingerprint: [a, b.c.0]\n    keep: 1h\n"
        "    expired: rerun\n    in_progress: wait\n    wait: 3s\n    wait_then: accepted\n"
        "    retry_after: 4s\n    replay: settled\n    release: [409, 503+retry-after]\n"
        "    not_sent: fail\n    ambiguous: probe\n    unframed: doubt\n"
        "    probe: {request: 'GET /v1/orders/{order}?key={key}&id={id}', every: 1s, misses: 2,\n"
        "            on_missing: send, status: 201, field: data.order}\n"
        "    mismatch: 422\n    derive: true\n    replay_headers: [Location, ETag]\n    ca: "
        "c.pem\n");
    const struct route_settings *route = config->routes;

    (void)state;
    ASSERT_SPAN(config->gateway.listen.host, "0.0.0.0");
    ASSERT_SPAN(config->pass, "http://p/base");
    ASSERT_SPAN(route->name, "orders");
    assert_int_equal(route->pattern.method_count, 2);
    ASSERT_SPAN(route->pattern.methods[1], "PATCH");
    assert_int_equal(route->pattern.segment_count, 4);
    assert_true(route->pattern.is_open);
    assert_int_equal(route->deadline_ms, 7000);
    assert_int_equal(route->concurrency, 9);
    assert_int_equal(route->need, ROUTE_KEY_OPTIONAL);
    assert_int_equal(route->scope, ROUTE_SCOPE_COOKIE);
    ASSERT_SPAN(route->scope_name, "session");
    assert_int_equal(route->print, ROUTE_PRINT_FIELDS);
    assert_int_equal(route->field_count, 2);
    assert_int_equal(route->wait_then, ROUTE_WAY_ACCEPTED);
    assert_int_equal(route->release_count, 2);
    assert_int_equal(route->release[0].status, 409);
    assert_true(route->release[1].needs_hint);
    assert_int_equal(route->not_sent, ROUTE_NOT_SENT_FAIL);
    assert_int_equal(route->unframed, ROUTE_UNFRAMED_DOUBT);
    ASSERT_SPAN(route->probe.method, "GET");
    ASSERT_SPAN(route->probe.path, "/v1/orders/{order}?key={key}&id={id}");
    assert_int_equal(route->probe.settle_after_ms, 65000);
    assert_int_equal(route->probe.misses, 2);
    assert_int_equal(route->probe.on_missing, ROUTE_MISSING_SEND);
    assert_int_equal(route->probe.status, 201);
    ASSERT_SPAN(route->probe.field, "data.order");
    assert_int_equal(route->mismatch, 422);
    assert_int_equal(route->kept_header_count, 2);
    config_free(config);
}

static void what_frees_the_key_depends_on_what_is_kept(void **state) /* C3.2 */
{
    struct config *config = parsed(SMALL "    replay: settled\n");

    (void)state;
    assert_int_equal(config->routes[0].release_count, 7);
    config_free(config);
    config = parsed(SMALL "    replay: success\n    release: []\n");
    assert_int_equal(config->routes[0].release_count, 0);
    config_free(config);
}

static void repeatable_and_ambiguous_retry_mean_each_other(void **state)
{
    struct config *config = parsed(SMALL "    repeatable: true\n");

    (void)state;
    assert_int_equal(config->routes[0].ambiguous, ROUTE_AMBIGUOUS_RETRY);
    config_free(config);
    config = parsed(SMALL "    ambiguous: retry\n");
    assert_true(config->routes[0].repeatable);
    config_free(config);
}

#define ROUTE(rest) SMALL "    " rest "\n"
#define AT(key)     "t.yaml:5:" key

static const struct mistake mistakes[] = {
    {"routes: [{match: POST /v1, upstream: http://u}]\n",
     "t.yaml:1:10: routes[0].scope: missing, expected header:NAME, cookie:NAME or global"},
    {"routes: [{match: /v1, upstream: http://u, scope: global}]\n",
     "t.yaml:1:18: routes[0].match: found no method, blank and path, expected a method and a "
     "path such as POST /v1/orders or PUT,PATCH /v1/orders/{id}"},
    {"routes: [{match: POST /v1/../x, upstream: http://u, scope: global}]\n",
     "t.yaml:1:18: routes[0].match: found a dot segment, expected a method and a path such as "
     "POST /v1/orders or PUT,PATCH /v1/orders/{id}"},
    {"routes: [{match: POST /.daruma/x, upstream: http://u, scope: global}]\n",
     "t.yaml:1:18: routes[0].match: found a path below /.daruma/, expected a method and a path "
     "such as POST /v1/orders or PUT,PATCH /v1/orders/{id}"},
    {"routes: [{match: POST /v1, upstream: ftp://u, scope: global}]\n",
     "t.yaml:1:38: routes[0].upstream: found another scheme, expected a URL without a query "
     "that begins with http:// or https://"},
    {"pass: http://u/?x=1\n", "t.yaml:1:7: pass: found a query, expected a URL without a query "
                              "that begins with http:// or https://"},
    {"routes: [{match: POST /v1, upstream: http://u, scope: everybody}]\n",
     "t.yaml:1:55: routes[0].scope: found everybody, expected header:NAME, cookie:NAME or "
     "global"},
    {ROUTE("release: [200]"),
     AT("15: routes[0].release[0]: found 200, expected a status from 400 to 599, or one such "
        "as 503+retry-after")},
    {ROUTE("ambiguous: probe"),
     "t.yaml:2:5: routes[0].probe: missing, expected a probe, which ambiguous: probe asks by"},
    {ROUTE("probe: {request: 'GET /x/{key}'}"),
     AT("5: routes[0].probe: found without ambiguous: probe, which uses it")},
    {ROUTE("probe: {request: 'DELETE /x/{key}'}\n    ambiguous: probe"),
     AT("22: routes[0].probe.request: found another method than GET or HEAD, expected a "
        "request such as GET /v1/orders/by-key/{key}")},
    {ROUTE("probe: {request: 'GET /x/{kye}'}\n    ambiguous: probe"),
     AT("22: routes[0].probe.request: found a name that is neither key, id nor the route's, "
        "expected a request such as GET /v1/orders/by-key/{key}")},
    {ROUTE("ambiguous: retry\n    repeatable: false"),
     AT("16: routes[0].ambiguous: found retry on a route that is not repeatable, expected hold "
        "or probe")},
    {ROUTE("in_progress: wait\n    wait_then: wait"),
     "t.yaml:6:16: routes[0].wait_then: found wait, expected accepted or conflict"},
    {ROUTE("wait_then: conflict\n    in_progress: accepted"),
     AT("5: routes[0].wait_then: found on a route that does not wait")},
    {ROUTE("mismatch: 400"), AT("15: routes[0].mismatch: found 400, expected 409 or 422")},
    {ROUTE("fingerprint: all"),
     AT("18: routes[0].fingerprint: found all, expected body, off or a list of JSON fields")},
    {ROUTE("fingerprint: [a..b]"),
     AT("19: routes[0].fingerprint[0]: found a..b, expected a JSON field such as "
        "order.amount")},
    {ROUTE("fingerprint: []"), AT("18: routes[0].fingerprint: found 0 entries, expected 1 to 16")},
    {ROUTE("replay_headers: ['a b']"),
     AT("22: routes[0].replay_headers[0]: found \"a b\", expected the name of a header")},
    {ROUTE("replays: all"), AT("5: routes[0].replays: unknown key, did you mean replay?")},
    {ROUTE("wait: forever"),
     AT("11: routes[0].wait: found forever, expected a duration such as 250ms, 10s, 5m, 24h or "
        "30d")},
    {SMALL "  - match: POST /v1/{bookmarks}\n    upstream: http://u\n    scope: global\n",
     "t.yaml:5:12: routes[1].match: found the name POST-v1-bookmarks a second time, expected "
     "each once: give the route another name"},
    {"gateway: {listen: nowhere}\n",
     "t.yaml:1:19: gateway.listen: found nowhere, expected an address and a port such as "
     "127.0.0.1:8701 or [::1]:8701"},
};

static void a_mistake_in_a_route_is_named_exactly(void **state)
{
    (void)state;
    REFUSES(mistakes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_route_has_the_documented_defaults),
        cmocka_unit_test(every_key_of_a_route_is_read),
        cmocka_unit_test(what_frees_the_key_depends_on_what_is_kept),
        cmocka_unit_test(repeatable_and_ambiguous_retry_mean_each_other),
        cmocka_unit_test(a_mistake_in_a_route_is_named_exactly),
    };

    return HARNESS_RUN(argc, argv, tests);
}
