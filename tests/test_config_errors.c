/* SPDX-License-Identifier: MIT
 *
 * Tests of what the configuration refuses: tables of files that are wrong, each with the exact words
 * that a person gets to read. E1, and the part of I10 that is about errors.
 */
#include "config_mistakes.h"
#include "harness.h"

#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>

#define SECRET CONFIG_SECRET

#define QUEUE  "queues:\n  - name: q\n    "
#define TARGET QUEUE "targets: [{name: t, url: 'http://h/', "

static void an_unknown_key_is_named_with_what_may_have_been_meant(void **state)
{
    static const struct mistake mistakes[] = {
        {"stores: memory\n", "t.yaml:1:1: stores: unknown key, did you mean store?"},
        {"api:\n  listn: 127.0.0.1:1\n",
         "t.yaml:2:3: api.listn: unknown key, did you mean listen?"},
        {"queue: []\n", "t.yaml:1:1: queue: unknown key, did you mean queues?"},
        {TARGET "timout: 1s}]\n",
         "t.yaml:3:43: queues[0].targets[0].timout: unknown key, did you mean timeout?"},
        {"policies: [{name: x, transient: {bakcoff: fixed}}]\n",
         "t.yaml:1:34: policies[0].transient.bakcoff: unknown key, did you mean backoff?"},
        {"frobnicate: 1\n",
         "t.yaml:1:1: frobnicate: unknown key, expected store, api, threads, "
         "log, limits, keep, outbound, policies, providers, queues, gateway, routes, pass"},
        {"xy: 1\n", "t.yaml:1:1: xy: unknown key, expected store, api, threads, log, limits, keep, "
                    "outbound, policies, providers, queues, gateway, routes, pass"},
        {"\"\\x07bell\": 1\n",
         "t.yaml:1:1: ?bell: unknown key, expected store, api, threads, log, "
         "limits, keep, outbound, policies, providers, queues, gateway, routes, pass"},
        {"routes: [{qqqqqq: 1}]\n",
         "t.yaml:1:11: routes[0].qqqqqq: unknown key, expected name, match, upstream, timeout, "
         "deadline, policy, concurrency, repeatable, key, header, strict, scope, fingerprint, "
         "keep, expired, in_progress, wait, …"},
        {"a-key-that-is-far-too-long-to-be-shown-in-full-anywhere: 1\n",
         "t.yaml:1:1: a-key-that-is-far-too-long-to-be-shown-i: unknown key, expected store, api, "
         "threads, log, limits, keep, outbound, policies, providers, queues, gateway, routes, "
         "pass"},
    };

    (void)state;
    REFUSES(mistakes);
}

static void sections_of_parts_that_do_not_exist_are_unknown(void **state)
{
    static const char *const top[] = {"alerts", "cluster", "plugins"};
    static const char *const queue[] = {"providers", "routes"};
    char text[256], start[64];
    struct config *config;

    (void)state;
    for (size_t i = 0; i < sizeof top / sizeof *top; i++) {
        struct error err = {0};
        (void)snprintf(text, sizeof text, "%s: {}\n", top[i]);
        assert_int_equal(config_parse(span_of(text), "f", &config, &err), FAULT_INPUT);
        (void)snprintf(start, sizeof start, "f:1:1: %s: unknown key, ", top[i]);
        assert_int_equal(strncmp(err.text, start, strlen(start)), 0);
        assert_string_equal(err.field, top[i]);
    }
    for (size_t i = 0; i < sizeof queue / sizeof *queue; i++) {
        struct error err = {0};
        (void)snprintf(text, sizeof text, QUEUE "%s: {}\n", queue[i]);
        assert_int_equal(config_parse(span_of(text), "f", &config, &err), FAULT_INPUT);
        (void)snprintf(start, sizeof start, "f:3:5: queues[0].%s: unknown key, ", queue[i]);
        assert_int_equal(strncmp(err.text, start, strlen(start)), 0);
    }
}

static void a_wrong_type_says_what_was_found_and_what_was_expected(void **state)
{
    static const struct mistake mistakes[] = {
        {"- a\n", "t.yaml:1:1: found a list, expected a mapping of settings"},
        {"hello\n", "t.yaml:1:1: found hello, expected a mapping of settings"},
        {"api: 1\n", "t.yaml:1:6: api: found 1, expected a mapping of keys to values"},
        {"api:\nthreads: 1\n",
         "t.yaml:1:5: api: found nothing, expected a mapping of keys to values"},
        {"threads: [1]\n",
         "t.yaml:1:10: threads: found a list, expected a whole number from 1 to 64"},
        {"threads: '4'\n",
         "t.yaml:1:10: threads: found \"4\", expected a whole number from 1 to 64"},
        {"threads: 1.5\n", "t.yaml:1:10: threads: found 1.5, expected a whole number from 1 to 64"},
        {"threads: 010\n", "t.yaml:1:10: threads: found 010, expected a whole number from 1 to 64"},
        {"queues: {}\n", "t.yaml:1:9: queues: found a mapping, expected a list"},
        {"queues: [q]\n", "t.yaml:1:10: queues[0]: found q, expected a mapping of keys to values"},
        {"policies: x\n", "t.yaml:1:11: policies: found x, expected a list"},
        {"policies: [x]\n",
         "t.yaml:1:12: policies[0]: found x, expected a mapping of keys to values"},
        {"log: {level: loud}\n",
         "t.yaml:1:14: log.level: found loud, expected one of debug, info, warn, error or off"},
        {"log: {format: [x]}\n",
         "t.yaml:1:15: log.format: found a list, expected one of auto, text, kv or json"},
        {"outbound: {deny_private: yes}\n",
         "t.yaml:1:26: outbound.deny_private: found yes, expected true or false"},
        {"outbound: {deny_private: 'true'}\n",
         "t.yaml:1:26: outbound.deny_private: found \"true\", expected true or false"},
        {TARGET "headers: {a: b}}]\n",
         "t.yaml:3:52: queues[0].targets[0].headers: found a mapping, "
         "expected a list of names and values"},
        {TARGET "headers: [x]}]\n", "t.yaml:3:53: queues[0].targets[0].headers[0]: found x, "
                                    "expected a mapping of keys to values"},
        {QUEUE "policy: [sync]\n", "t.yaml:3:13: queues[0].policy: found a list, expected the name "
                                   "of a policy, or a policy"},
        {TARGET "ca: \"a\\0b\"}]\n", "t.yaml:3:47: queues[0].targets[0].ca: found \"a\", expected "
                                     "the path of a PEM file"},
    };

    (void)state;
    REFUSES(mistakes);
}

static void durations_sizes_and_numbers_are_held_to_their_form_and_bounds(void **state)
{
    static const struct mistake mistakes[] = {
        {TARGET "timeout: 5x}]\n",
         "t.yaml:3:52: queues[0].targets[0].timeout: found 5x, expected a duration such as 250ms, "
         "10s, 5m, 24h or 30d"},
        {TARGET "timeout: 30}]\n",
         "t.yaml:3:52: queues[0].targets[0].timeout: found 30, expected a duration such as 250ms, "
         "10s, 5m, 24h or 30d"},
        {TARGET "timeout: 0s}]\n", "t.yaml:3:52: queues[0].targets[0].timeout: found 0s, expected "
                                   "a duration from 1ms to 1d"},
        {QUEUE "lease: 99ms\n",
         "t.yaml:3:12: queues[0].lease: found 99ms, expected a duration from 100ms to 12h"},
        {QUEUE "lease: 12h1ms\n",
         "t.yaml:3:12: queues[0].lease: found 12h1ms, expected a duration from 100ms to 12h"},
        {"limits: {body: 1MB}\n",
         "t.yaml:1:16: limits.body: found 1MB, expected a size such as 64KiB or 1MiB"},
        {"limits: {body: 1048576}\n",
         "t.yaml:1:16: limits.body: found 1048576, expected a size such as 64KiB or 1MiB"},
        {"limits: {body: KiB}\n",
         "t.yaml:1:16: limits.body: found KiB, expected a size such as 64KiB or 1MiB"},
        {"limits: {body: 1GiB}\n",
         "t.yaml:1:16: limits.body: found 1GiB, expected a size from 1B to 256MiB"},
        {"limits: {response: 0B}\n",
         "t.yaml:1:20: limits.response: found 0B, expected a size from 1B to 256MiB"},
        {"threads: 0\n", "t.yaml:1:10: threads: found 0, expected a whole number from 1 to 64"},
        {"threads: -1\n", "t.yaml:1:10: threads: found -1, expected a whole number from 1 to 64"},
        {"threads: 99999999999999999999\n", "t.yaml:1:10: threads: found 99999999999999999999, "
                                            "expected a whole number from 1 to 64"},
        {QUEUE "host_concurrency: 257\n", "t.yaml:3:23: queues[0].host_concurrency: found 257, "
                                          "expected a whole number from 1 to 256"},
        {QUEUE "rate: {per_second: 0}\n", "t.yaml:3:24: queues[0].rate.per_second: found 0, "
                                          "expected a number from 0.001 to 1000000"},
        {QUEUE "rate: {per_second: .5}\n", "t.yaml:3:24: queues[0].rate.per_second: found .5, "
                                           "expected a number from 0.001 to 1000000"},
        {QUEUE "rate: {per_second: nan}\n", "t.yaml:3:24: queues[0].rate.per_second: found nan, "
                                            "expected a number from 0.001 to 1000000"},
        {QUEUE "rate: {burst: 5}\n", "t.yaml:3:11: queues[0].rate.per_second: missing, expected a "
                                     "number from 0.001 to 1000000"},
        {"keep: {failed: 200y}\n", "t.yaml:1:16: keep.failed: found 200y, expected a duration such "
                                   "as 250ms, 10s, 5m, 24h or 30d"},
        {"keep: {failed: 0s}\n",
         "t.yaml:1:16: keep.failed: found 0s, expected a duration from 1s to 36525d"},
        {"limits: {body: 2MiB, bodies: 1MiB}\n",
         "t.yaml:1:30: limits.bodies: found 1048576 bytes, expected at least the larger one of "
         "limits.body and limits.response, 2097152"},
        {"limits: {connections: 10, waiters: 10}\n",
         "t.yaml:1:36: limits.waiters: found 10, expected less than limits.connections, 10"},
    };

    (void)state;
    REFUSES(mistakes);
}

static void names_must_be_there_be_well_formed_and_differ(void **state)
{
    static const struct mistake mistakes[] = {
        {"threads: 1\nlog: {}\nthreads: 2\n",
         "t.yaml:3:1: threads: found a second time, expected each key once"},
        {QUEUE "lease: 1s\n    lease: 2s\n",
         "t.yaml:4:5: queues[0].lease: found a second time, expected each key once"},
        {"queues: [{name: a}, {name: b}, {name: a}]\n",
         "t.yaml:1:39: queues[2].name: found a a second time, expected each name once"},
        {"policies: [{name: p}, {name: p}]\n",
         "t.yaml:1:30: policies[1].name: found p a second time, expected each name once"},
        {QUEUE "targets: [{name: t, url: 'http://a'}, {name: t, url: 'http://b'}]\n",
         "t.yaml:3:50: queues[0].targets[1].name: found t a second time, expected each name once"},
        {"queues: [{policy: sync}]\n",
         "t.yaml:1:10: queues[0].name: missing, expected a name of letters, digits, - _ and ., up "
         "to 100, not beginning with _"},
        {"queues: [{name: _own}]\n",
         "t.yaml:1:17: queues[0].name: found _own, expected a name of letters, digits, - _ and ., "
         "up to 100, not beginning with _"},
        {"queues: [{name: a b}]\n",
         "t.yaml:1:17: queues[0].name: found a b, expected a name of letters, digits, - _ and ., "
         "up to 100, not beginning with _"},
        {"policies: [{max_attempts: 1}]\n",
         "t.yaml:1:12: policies[0].name: missing, expected a name of letters, digits, - _ and ., "
         "up to 100"},
        {QUEUE "targets: [{name: t}]\n",
         "t.yaml:3:15: queues[0].targets[0].url: missing, expected a URL with a host that begins "
         "with http:// or https://"},
        {QUEUE "policy: sink\n", "t.yaml:3:13: queues[0].policy: found sink, expected a policy: "
                                 "default, sync, articles, llm_jobs, client"},
        {"policies: [{name: mine}]\n" QUEUE "policy: yours\n",
         "t.yaml:4:13: queues[0].policy: found yours, expected a policy: default, sync, articles, "
         "llm_jobs, client, mine"},
        {QUEUE "policy: {name: sync}\n",
         "t.yaml:3:14: queues[0].policy.name: unknown key, expected max_attempts, transient, "
         "rate_limited, quota, auth, invalid, gone, expired"},
    };

    (void)state;
    REFUSES(mistakes);
}

static void a_bad_url_is_described_and_not_shown(void **state)
{
    static const struct {
        const char *url, *found;
    } urls[] = {
        {"ftp://" SECRET "/", "another scheme"},
        {"example.org/" SECRET, "no scheme"},
        {"http:/" SECRET, "no scheme"},
        {"http://", "no host"},
        {"http://:80/", "no host"},
        {"http:///" SECRET, "no host"},
        {"http://me:" SECRET "@example.org/", "a user name or password in it"},
        {"http://h:0/", "a port that is none"},
        {"http://h:65536/", "a port that is none"},
        {"http://h:/", "a port that is none"},
        {"http://h:8x/", "a port that is none"},
        {"http://[::1/", "a host that cannot be one"},
        {"http://[::1]x/", "a port that is none"},
        {"http://[1.2.3.4]/", "a host that cannot be one"},
        {"http://1.2.3/", "a host that cannot be one"},
        {"http://1.2.3.400/", "a host that cannot be one"},
        {"http://a..b/", "a host that cannot be one"},
        {"http://-a/", "a host that cannot be one"},
        {"http://h/a b", "a character that has to be escaped"},
        {"http://h/\\u00e9", "a character that has to be escaped"},
        {"http://h/#" SECRET, "a fragment"},
    };
    char text[256], error[256];

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        (void)snprintf(text, sizeof text, QUEUE "targets: [{name: t, url: \"%s\"}]\n", urls[i].url);
        (void)snprintf(error, sizeof error,
                       "t.yaml:3:30: queues[0].targets[0].url: found %s, expected a URL with a "
                       "host that begins with http:// or https://",
                       urls[i].found);
        config_refuses(&(struct mistake){text, error}, 1);
    }
}

static void addresses_to_listen_on_are_addresses_with_a_port(void **state)
{
    static const char *const bad[] = {
        "8700",           "127.0.0.1",       "127.0.0.1:",       ":8700", "127.0.0.1:99999",
        "example.org:80", "::1:8700",        "[127.0.0.1]:8700", "[::1]", "127.0.0.1:-1",
        "[::1%lo]:1",     "127.0.0.1:080000"};
    char text[128], error[256];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(text, sizeof text, "api: {listen: \"%s\"}\n", bad[i]);
        (void)snprintf(error, sizeof error,
                       "t.yaml:1:15: api.listen: found \"%s\", expected an address and a port such "
                       "as 127.0.0.1:8700 or [::1]:8700",
                       bad[i]);
        config_refuses(&(struct mistake){text, error}, 1);
    }
}

static void two_do_not_listen_at_one_place(void **state)
{
    static const struct mistake mistakes[] = {
        {"api: {listen: '127.0.0.1:8701'}\ngateway: {listen: '127.0.0.1:8701'}\n",
         "t.yaml:2:19: gateway.listen: found what api.listen (127.0.0.1 port 8701) takes, expected "
         "another"},
        {"api: {listen: '127.0.0.1:8701'}\ngateway: {listen: '0.0.0.0:8701'}\npass: http://h\n",
         "t.yaml:2:19: gateway.listen: found what api.listen (127.0.0.1 port 8701) takes, expected "
         "another"},
        {"pass: http://h\napi: {listen: '127.0.0.1:8701'}\n",
         "t.yaml:2:15: api.listen: found what gateway.listen (127.0.0.1 port 8701) takes, expected "
         "another"},
        {"gateway: {listen: '127.0.0.1:8700'}\n",
         "t.yaml:1:19: gateway.listen: found what api.listen (127.0.0.1 port 8700) takes, expected "
         "another"},
    };
    static const char *const good[] = {
        "api: {listen: '127.0.0.1:8701'}\n",
        "api: {listen: '127.0.0.1:0'}\ngateway: {listen: '127.0.0.1:0'}\npass: http://h\n",
        "api: {listen: '127.0.0.1:1'}\ngateway: {listen: '127.0.0.2:1'}\npass: http://h\n",
        "api: {listen: '127.0.0.1:1'}\ngateway: {listen: '[::1]:1'}\npass: http://h\n",
    };

    (void)state;
    config_refuses(mistakes, sizeof mistakes / sizeof *mistakes);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct config *config = NULL;
        assert_int_equal(config_parse(span_of(good[i]), "t.yaml", &config, NULL), 0);
        config_free(config);
    }
}

static void secrets_are_named_and_never_written_nor_shown(void **state) /* I10 */
{
    static const struct mistake mistakes[] = {
        {"api: {tokens: [{name: a, role: admin, token: " SECRET "}]}\n",
         "t.yaml:1:46: api.tokens[0].token: expected env:NAME or file:PATH, not the secret itself"},
        {"api: {tokens: [{name: a, role: admin, token: env:NOT_SET}]}\n",
         "t.yaml:1:46: api.tokens[0].token: the environment variable NOT_SET is not set"},
        {"api: {tokens: [{name: a, role: admin, token: env:EMPTY}]}\n",
         "t.yaml:1:46: api.tokens[0].token: the secret is empty"},
        {"api: {tokens: [{name: a, role: admin, token: env:SPACED}]}\n",
         "t.yaml:1:46: api.tokens[0].token: the secret has a blank or a byte that is not ASCII"},
        {"api: {tokens: [{name: a, role: admin, token: 'env:" SECRET "'}]}\n",
         "t.yaml:1:46: api.tokens[0].token: found a name that no environment variable has, "
         "expected letters, digits and _"},
        {"api: {tokens: [{name: a, role: admin, token: file:not/there}]}\n",
         "t.yaml:1:46: api.tokens[0].token: the file of the secret cannot be read: No such file or "
         "directory"},
        {"api: {tokens: [{name: a, role: admin, token: file:long}]}\n",
         "t.yaml:1:46: api.tokens[0].token: the secret is longer than 1024 bytes"},
        {"api: {tokens: [{name: a, role: admin, token: [" SECRET "]}]}\n",
         "t.yaml:1:46: api.tokens[0].token: found a list, expected env:NAME or file:PATH"},
        {"api: {tokens: [{name: a, role: admin}]}\n",
         "t.yaml:1:16: api.tokens[0].token: missing, expected env:NAME or file:PATH"},
        {"api: {tokens: [{name: a, role: admin, token: env:GOOD}, {name: b, role: viewer, token: "
         "env:GOOD}]}\n",
         "t.yaml:1:15: api.tokens: found one secret under the names a and b, expected two"},
        {"store: postgres:me:" SECRET "@db/x\n",
         "t.yaml:1:8: store: expected memory, json:PATH, sqlite:PATH or postgres://HOST/DATABASE"},
        {"store: ${GOOD}\n",
         "t.yaml:1:8: store: expected memory, json:PATH, sqlite:PATH or postgres://HOST/DATABASE"},
        {"threads: ${GOOD}\n",
         "t.yaml:1:10: threads: found ${GOOD}, expected a whole number from 1 to 64"},
        {TARGET "headers: [{name: a, value: \"" SECRET "\\n\"}]}]\n",
         "t.yaml:3:70: queues[0].targets[0].headers[0].value: expected the value of a header"},
        {TARGET "headers: [{name: a, value: (hidden)}]}]\n",
         "t.yaml:3:70: queues[0].targets[0].headers[0].value: found (hidden), which stands for a "
         "value that was not shown, expected the value of a header"},
    };
    FILE *file = fopen("long", "w");

    (void)state;
    assert_non_null(file);
    assert_int_equal(fprintf(file, "%1025d\n", 7), 1026);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("EMPTY", "", 1), 0);
    assert_int_equal(setenv("SPACED", "a " SECRET, 1), 0);
    assert_int_equal(setenv("GOOD", SECRET, 1), 0);
    REFUSES(mistakes);
}

static void the_environment_is_asked_only_for_what_is_there(void **state)
{
    static const struct mistake mistakes[] = {
        {"store: json:${NOT_SET}\n",
         "t.yaml:1:8: store: the environment variable NOT_SET is not set"},
        {"store: json:${BROKEN}\n",
         "t.yaml:1:8: store: the environment variable BROKEN is not UTF-8"},
        {"store: json:${HOME\n", "t.yaml:1:8: store: found ${ without }, expected ${NAME} or $$"},
        {"store: json:${}\n", "t.yaml:1:8: store: found a name that no environment variable has, "
                              "expected letters, digits and _"},
        {"store: json:${1}\n", "t.yaml:1:8: store: found a name that no environment variable has, "
                               "expected letters, digits and _"},
    };

    (void)state;
    assert_int_equal(setenv("BROKEN", "\xff", 1), 0);
    REFUSES(mistakes);
}

static void rules_are_refused_at_the_line_that_is_to_blame(void **state)
{
    static const struct mistake mistakes[] = {
        {"policies:\n  - name: p\n    quota: {base: 5m,\n            cap: 1m}\n",
         "t.yaml:4:18: policies[0].quota.cap: found 1m, expected at least the base, 5m"},
        {"policies:\n  - name: p\n    quota: {cap: 500ms}\n",
         "t.yaml:3:18: policies[0].quota.cap: found 500ms, expected at least the base, 1s"},
        {"policies: [{name: p, auth: {jitter: 1.5}}]\n",
         "t.yaml:1:37: policies[0].auth.jitter: found 1.5, expected none, full, equal, "
         "decorrelated "
         "or a number from 0 to 1"},
        {"policies: [{name: p, auth: {jitter: some}}]\n",
         "t.yaml:1:37: policies[0].auth.jitter: found some, expected none, full, equal, "
         "decorrelated or a number from 0 to 1"},
        {"policies: [{name: p, auth: {max_attempts: 0}}]\n",
         "t.yaml:1:43: policies[0].auth.max_attempts: found 0, expected a whole number from 1 to "
         "1000000"},
        {"policies: [{name: p, auth: {base: 0s}}]\n",
         "t.yaml:1:35: policies[0].auth.base: found 0s, expected a duration from 1ms to 36525d"},
        {"policies: [{name: p, auth: {backoff: quadratic}}]\n",
         "t.yaml:1:38: policies[0].auth.backoff: found quadratic, expected one of exponential, "
         "fixed, linear, schedule or doublings"},
        {"policies: [{name: p, auth: {backoff: schedule}}]\n",
         "t.yaml:1:28: policies[0].auth.schedule: missing, expected a list of durations: [1s, 5s, "
         "1m]"},
        {"policies: [{name: p, auth: {backoff: doublings}}]\n",
         "t.yaml:1:28: policies[0].auth.doublings: missing, expected a whole number"},
        {"policies: [{name: p, auth: {backoff: fixed, schedule: [1s]}}]\n",
         "t.yaml:1:38: policies[0].auth.backoff: found fixed beside a schedule, expected schedule"},
        {"policies: [{name: p, auth: {backoff: linear, doublings: 3}}]\n",
         "t.yaml:1:38: policies[0].auth.backoff: found linear beside doublings, expected "
         "exponential"},
        {"policies: [{name: p, auth: {doublings: 3, schedule: [1s]}}]\n",
         "t.yaml:1:29: policies[0].auth.doublings: found beside a schedule, expected one of the "
         "two"},
        {"policies: [{name: p, auth: {schedule: []}}]\n",
         "t.yaml:1:39: policies[0].auth.schedule: found 0 entries, expected 1 to 64"},
        {"policies: [{name: p, auth: {schedule: 1s}}]\n",
         "t.yaml:1:39: policies[0].auth.schedule: found 1s, expected a list of durations: [1s, 5s, "
         "1m]"},
        {"policies: [{name: p, auth: {schedule: [1s, 2]}}]\n",
         "t.yaml:1:44: policies[0].auth.schedule[1]: found 2, expected a duration such as 250ms, "
         "10s or 5m"},
    };

    (void)state;
    REFUSES(mistakes);
}

static void hosts_methods_and_headers_are_held_to_their_form(void **state)
{
    static const struct mistake mistakes[] = {
        {"outbound: {deny: [10.0.0.0/33]}\n", "t.yaml:1:19: outbound.deny[0]: found 10.0.0.0/33, "
                                              "expected a host such as example.org or "
                                              "*.example.org, or a range such as 10.0.0.0/8"},
        {"outbound: {allow: [a.org, '10.0.0']}\n",
         "t.yaml:1:27: outbound.allow[1]: found \"10.0.0\", expected a host such as example.org or "
         "*.example.org, or a range such as 10.0.0.0/8"},
        {"outbound: {allow: [a_b/8]}\n",
         "t.yaml:1:20: outbound.allow[0]: found a_b/8, expected a host such as example.org or "
         "*.example.org, or a range such as 10.0.0.0/8"},
        {"outbound: {allow: [.example.org]}\n",
         "t.yaml:1:20: outbound.allow[0]: found .example.org, expected a host such as example.org "
         "or *.example.org, or a range such as 10.0.0.0/8"},
        {"outbound: {deny: ['*']}\n",
         "t.yaml:1:19: outbound.deny[0]: found \"*\", expected a host such as example.org or "
         "*.example.org, or a range such as 10.0.0.0/8"},
        {"outbound: {deny: ['a.*.org']}\n",
         "t.yaml:1:19: outbound.deny[0]: found \"a.*.org\", expected a host such as example.org "
         "or *.example.org, or a range such as 10.0.0.0/8"},
        {"outbound: {deny: ['http://a.org']}\n",
         "t.yaml:1:19: outbound.deny[0]: found \"http://a.org\", expected a host such as "
         "example.org or *.example.org, or a range such as 10.0.0.0/8"},
        {TARGET "method: post}]\n",
         "t.yaml:3:51: queues[0].targets[0].method: found post, expected "
         "a method in capital letters such as POST"},
        {TARGET "headers: [{name: 'a:b', value: c}]}]\n",
         "t.yaml:3:60: queues[0].targets[0].headers[0].name: found \"a:b\", expected the name of a "
         "header"},
        {TARGET "headers: [{name: a}]}]\n",
         "t.yaml:3:53: queues[0].targets[0].headers[0].value: missing, expected the value of a "
         "header"},
        {"api: {tls: {cert: a.pem}}\n",
         "t.yaml:1:12: api.tls.key: missing, expected the path of a PEM file"},
    };

    (void)state;
    REFUSES(mistakes);
}

static void what_yaml_has_and_a_configuration_does_not_is_refused(void **state)
{
    static const struct mistake mistakes[] = {
        {"a: &x 1\n", "t.yaml:1:4: a: found an anchor, expected a plain value"},
        {"api: &x {}\n", "t.yaml:1:6: api: found an anchor, expected a plain value"},
        {"queues: &x []\n", "t.yaml:1:9: queues: found an anchor, expected a plain value"},
        {"threads: *x\n", "t.yaml:1:10: found an alias, expected a plain value"},
        {"&x threads: 1\n", "t.yaml:1:1: found an anchor or a tag, expected key: value"},
        {"threads: !!int 1\n", "t.yaml:1:10: threads: found a tag, expected a plain value"},
        {"[a]: 1\n", "t.yaml:1:1: found a key that is no text, expected key: value"},
        {"threads: 1\n---\nthreads: 2\n", "t.yaml:2:1: found a second document, expected one"},
        {"threads: 1\n...\n---\n{}\n", "t.yaml:3:1: found a second document, expected one"},
        {"threads: [1\n", "t.yaml:2:1: not valid YAML: did not find expected ',' or ']'"},
        {"a: 1\n  b: 2\n",
         "t.yaml:2:4: not valid YAML: mapping values are not allowed in this context"},
        {"a: \x01\n", "t.yaml:1:4: not valid YAML: control characters are not allowed"},
        {"a: 1\nb: \xff\n", "t.yaml:2:1: not UTF-8"},
        {"a: [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]\n",
         "t.yaml:1:19: a[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: nested deeper than 16"},
    };

    (void)state;
    REFUSES(mistakes);
}

static void a_file_that_is_too_large_is_refused(void **state)
{
    static char text[CONFIG_FILE_BYTES_MAX + 1];
    static char many[CONFIG_NODES_MAX * 2 + 100];
    size_t len = (size_t)snprintf(many, sizeof many, "queues: [");
    struct config *config = NULL;
    struct error err = {0};

    (void)state;
    memset(text, '#', sizeof text);
    assert_int_equal(config_parse((struct span){text, sizeof text - 1}, "f", &config, &err), 0);
    config_free(config);
    assert_int_equal(config_parse((struct span){text, sizeof text}, "f", &config, &err),
                     FAULT_INPUT);
    assert_string_equal(err.text, "f:1:1: found more than 1048576 bytes");
    while (len < sizeof many) {
        many[len] = len % 2 == 0 ? ',' : '1';
        len++;
    }
    assert_int_equal(config_parse((struct span){many, sizeof many}, "f", &config, &err),
                     FAULT_INPUT);
    assert_string_equal(err.text, "f:1:200006: found more than 100000 values");
}

static void more_entries_than_there_is_room_for_are_refused(void **state)
{
    static char text[65536];
    struct config *config;
    struct error err = {0};
    size_t len = (size_t)snprintf(text, sizeof text, "queues: [");

    (void)state;
    for (int i = 0; i <= CONFIG_QUEUES_MAX; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "{name: q%d},", i);
    }
    (void)snprintf(text + len, sizeof text - len, "]\n");
    assert_int_equal(config_parse(span_of(text), "f", &config, &err), FAULT_INPUT);
    assert_string_equal(err.text, "f:1:9: queues: found 1001 entries, expected at most 1000");
}

static void a_long_file_name_is_cut_so_that_the_rest_can_be_read(void **state)
{
    char name[200];
    struct config *config;
    struct error err = {0};

    (void)state;
    memset(name, 'x', sizeof name);
    (void)snprintf(name + 180, sizeof name - 180, "/daruma.yaml");
    assert_int_equal(config_parse(SPAN("threads: 0\n"), name, &config, &err), FAULT_INPUT);
    assert_string_equal(err.text,
                        "...xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx/daruma.yaml:1:10: "
                        "threads: found 0, expected a whole number from 1 to 64");
}

static void a_file_that_cannot_be_read_says_why(void **state)
{
    struct config *config;
    struct error err = {0};

    (void)state;
    assert_int_equal(config_load("not/there.yaml", &config, &err), FAULT_IO);
    assert_string_equal(err.text, "cannot read not/there.yaml: No such file or directory");
    assert_int_equal(config_load(".", &config, &err), FAULT_IO);
    assert_string_equal(err.text, "cannot read .: Is a directory");
    assert_int_equal(config_load("not/there.yaml", &config, NULL), FAULT_IO);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_key_is_named_with_what_may_have_been_meant),
        cmocka_unit_test(sections_of_parts_that_do_not_exist_are_unknown),
        cmocka_unit_test(a_wrong_type_says_what_was_found_and_what_was_expected),
        cmocka_unit_test(durations_sizes_and_numbers_are_held_to_their_form_and_bounds),
        cmocka_unit_test(names_must_be_there_be_well_formed_and_differ),
        cmocka_unit_test(a_bad_url_is_described_and_not_shown),
        cmocka_unit_test(addresses_to_listen_on_are_addresses_with_a_port),
        cmocka_unit_test(two_do_not_listen_at_one_place),
        cmocka_unit_test(secrets_are_named_and_never_written_nor_shown),
        cmocka_unit_test(the_environment_is_asked_only_for_what_is_there),
        cmocka_unit_test(rules_are_refused_at_the_line_that_is_to_blame),
        cmocka_unit_test(hosts_methods_and_headers_are_held_to_their_form),
        cmocka_unit_test(what_yaml_has_and_a_configuration_does_not_is_refused),
        cmocka_unit_test(a_file_that_is_too_large_is_refused),
        cmocka_unit_test(more_entries_than_there_is_room_for_are_refused),
        cmocka_unit_test(a_long_file_name_is_cut_so_that_the_rest_can_be_read),
        cmocka_unit_test(a_file_that_cannot_be_read_says_why),
    };

    return HARNESS_RUN(argc, argv, tests);
}
