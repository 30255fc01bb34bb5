/* SPDX-License-Identifier: MIT
 *
 * Tests of what a configuration means: every default, every section, the built-in policies as the
 * contract writes them, what comes from the environment and from files.
 */
#include "certificate.h"
#include "harness.h"

#include "config/config.h"
#include "task/fields.h"

#include <stdio.h>
#include <stdlib.h>

#define HOUR_MS        INT64_C(3600000)
#define THREE_QUARTERS UINT64_C(0xc000000000000000)

static struct config *parsed(const char *text)
{
    struct config *config = NULL;
    struct error err = {0};

    if (config_parse(span_of(text), "t.yaml", &config, &err) != 0) {
        fail_msg("%s", err.text);
    }
    return config;
}

#define ASSERT_SPAN(span, text)                                                                    \
    do {                                                                                           \
        assert_true(span_is((span), (text)));                                                      \
        assert_int_equal((span).at[(span).len], '\0');                                             \
    } while (0)

static void assert_same_rule(const struct daruma_rule *one, const struct daruma_rule *other)
{
    assert_int_equal(one->attempts_max, other->attempts_max);
    assert_int_equal(one->hint_cap_ms, other->hint_cap_ms);
    assert_int_equal(one->backoff.kind, other->backoff.kind);
    assert_int_equal(one->backoff.jitter, other->backoff.jitter);
    assert_int_equal(one->backoff.base_ms, other->backoff.base_ms);
    assert_int_equal(one->backoff.max_ms, other->backoff.max_ms);
    assert_true(one->backoff.jitter_factor == other->backoff.jitter_factor);
    assert_int_equal(one->backoff.doublings, other->backoff.doublings);
    assert_int_equal(one->backoff.schedule_count, other->backoff.schedule_count);
}

static void assert_same_policy(const struct daruma_policy *one, const struct daruma_policy *other)
{
    assert_int_equal(one->attempts_max, other->attempts_max);
    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        assert_same_rule(&one->rules[i], &other->rules[i]);
    }
}

static void assert_built_in(const struct daruma_policy *policy, const char *name)
{
    struct daruma_policy expected;

    assert_non_null(policy);
    assert_int_equal(daruma_policy_create(daruma_policy_named(name), &expected, NULL), 0);
    assert_same_policy(policy, &expected);
}

static void assert_all_default(const struct config *config)
{
    assert_int_equal(config->store.kind, CONFIG_STORE_SQLITE);
    ASSERT_SPAN(config->store.path, "var/daruma.db");
    ASSERT_SPAN(config->api.listen.host, "127.0.0.1");
    assert_int_equal(config->api.listen.port, 8700);
    assert_true(config->api.listen.is_loopback);
    assert_int_equal(config->threads, 1);
    assert_int_equal(config->log.format, CONFIG_LOG_AUTO);
    assert_int_equal(config->log.level, DARUMA_LOG_INFO);
    assert_int_equal(config->log.buffer_bytes, 1048576);
    assert_int_equal(config->limits.body_bytes_max, 1048576);
    assert_int_equal(config->limits.response_bytes_max, 1048576);
    assert_int_equal(config->limits.connections_max, 10000);
    assert_int_equal(config->limits.backlog_max, 10000000);
    assert_int_equal(config->limits.header_time_ms, 10000);
    assert_int_equal(config->limits.idle_time_ms, 60000);
    assert_int_equal(config->limits.waiters_max, 1000);
    assert_int_equal(config->limits.lists_max, 64);
    assert_int_equal(config->limits.bodies_bytes_max, 256 << 20);
    assert_int_equal(config->limits.node_lease_ms, CONFIG_NODE_LEASE_MS);
    assert_int_equal(config->limits.node_writers, CONFIG_NODE_WRITERS);
    assert_int_equal(config->keep.succeeded_ms, 72 * HOUR_MS);
    assert_int_equal(config->keep.failed_ms, 30 * 24 * HOUR_MS);
    assert_int_equal(config->keep.cancelled_ms, 24 * HOUR_MS);
    assert_int_equal(config->keep.tombstones_ms, 30 * 24 * HOUR_MS);
    assert_int_equal(config->outbound.allow_count, 0);
    assert_int_equal(config->outbound.deny_count, 0);
    assert_false(config->outbound.deny_private);
    assert_int_equal(config->outbound.redirects_max, 0);
    assert_int_equal(config->policy_count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        ASSERT_SPAN(config->policies[i].name, daruma_policy_name(i));
        assert_built_in(&config->policies[i].policy, daruma_policy_name(i));
    }
}

static void what_is_not_written_is_the_default(void **state)
{
    static const char sections[] = "api: {}\nlog: {}\nlimits: {}\nkeep: {}\noutbound: {}\n"
                                   "policies: []\nqueues: []\n";
    const char *const texts[] = {"",       "# nothing\n",  "---\n", "{}",
                                 "null\n", "\xef\xbb\xbf", sections};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct config *config = parsed(texts[i]);
        assert_all_default(config);
        assert_int_equal(config->api.token_count, 0);
        assert_int_equal(config->api.tls.cert.len, 0);
        assert_int_equal(config->queue_count, 0);
        config_free(config);
    }
}

/* As in the contract, but for the parts that do not exist yet. */
static const char contract[] =
    "store: sqlite:var/daruma.db          # memory | json:PATH | sqlite:PATH\n"
    "api:\n"
    "  listen: 127.0.0.1:8700\n"
    "  tokens: [ {name: ops, role: admin, token: env:DARUMA_TOKEN} ]\n"
    "  hosts: [Daruma.example.org, 10.0.0.5, '[fd00::5]']\n"
    "  tls: {cert: cert.pem, key: key.pem}\n"
    "threads: 1\n"
    "log:      { format: auto, level: info }\n"
    "limits:   { body: 1MiB, response: 1MiB, connections: 10000, backlog: 10000000,\n"
    "            header_time: 10s, idle_time: 60s, waiters: 1000 }\n"
    "keep:     { succeeded: 72h, failed: 30d, cancelled: 24h, tombstones: 30d }\n"
    "outbound: { allow: [], deny: [], deny_private: false, redirects: 0 }\n"
    "policies:\n"
    "  - name: default\n"
    "    max_attempts: 10\n"
    "    transient:    { backoff: exponential, base: 1s, cap: 1h, jitter: full }\n"
    "    rate_limited: { backoff: exponential, base: 5s, cap: 1h, jitter: full }\n"
    "    quota:        { backoff: exponential, base: 5m, cap: 24h, jitter: full }\n"
    "  - name: sync\n"
    "    max_attempts: 10\n"
    "    transient:    { backoff: exponential, base: 1s, cap: 1h, jitter: none }\n"
    "    rate_limited: { max_attempts: 4, backoff: fixed, base: 10s }\n"
    "  - name: articles\n"
    "    max_attempts: 6\n"
    "    transient:    { backoff: exponential, base: 5m, cap: 24h, jitter: none }\n"
    "    rate_limited: { backoff: exponential, base: 5m, cap: 24h, jitter: none }\n"
    "    quota:        { backoff: exponential, base: 5m, cap: 24h, jitter: none }\n"
    "  - name: llm_jobs\n"
    "    max_attempts: 5\n"
    "    transient:    { backoff: exponential, base: 120s, cap: 24h, jitter: none }\n"
    "  - name: client\n"
    "    max_attempts: 3\n"
    "    transient:    { backoff: exponential, base: 1s, cap: 1m, jitter: 0.1 }\n"
    "queues:\n"
    "  - name: bigquery-sync\n"
    "    policy: sync\n"
    "    targets: [ {name: bq, url: \"http://127.0.0.1:9000/sync\", method: POST,\n"
    "                headers: [{name: x, value: y}], timeout: 30s, repeatable: true,\n"
    "                sign: [env:SECRET], ca: file.pem} ]\n"
    "    rate: {per_second: 500, burst: 100}\n"
    "    concurrency: 64\n"
    "    lease: 30s\n"
    "  - name: webhooks\n"
    "    targets: [ {name: them, url: \"https://example.org/hook\"} ]\n"
    "  - name: articles\n"
    "    policy: articles\n";

static void the_contract_is_read_and_its_values_are_the_defaults(void **state) /* E1, D2, A6.2 */
{
    assert_int_equal(setenv("DARUMA_TOKEN", "t0ken", 1), 0);
    assert_int_equal(setenv("SECRET", "of-twenty-four-letters-or-more", 1), 0);
    certificate_write("file.pem");
    struct config *config = parsed(contract);

    (void)state;
    assert_all_default(config);
    assert_int_equal(config->api.token_count, 1);
    ASSERT_SPAN(config->api.tokens[0].name, "ops");
    ASSERT_SPAN(config->api.tokens[0].secret, "t0ken");
    assert_int_equal(config->api.tokens[0].role, CONFIG_ROLE_ADMIN);
    assert_int_equal(config->api.host_count, 3);
    ASSERT_SPAN(config->api.hosts[0], "Daruma.example.org");
    ASSERT_SPAN(config->api.hosts[2], "fd00::5");
    ASSERT_SPAN(config->api.tls.cert, "cert.pem");
    ASSERT_SPAN(config->api.tls.key, "key.pem");
    assert_int_equal(config->queue_count, 3);
    const struct queue_settings *queue = &config->queues[0];
    ASSERT_SPAN(queue->name, "bigquery-sync");
    assert_built_in(&queue->policy, "sync");
    assert_int_equal(queue->target_count, 1);
    ASSERT_SPAN(queue->targets[0].name, "bq");
    ASSERT_SPAN(queue->targets[0].url, "http://127.0.0.1:9000/sync");
    ASSERT_SPAN(queue->targets[0].method, "POST");
    ASSERT_SPAN(queue->targets[0].headers, "x: y\n");
    ASSERT_SPAN(queue->targets[0].ca, "file.pem");
    assert_true(queue->rate_per_second == 500 && queue->rate_burst == 100);
    assert_built_in(&config->queues[2].policy, "articles");
    assert_int_equal(config->queues[2].target_count, 0);
    config_free(config);
}

static void a_queue_has_its_defaults(void **state)
{
    struct config *config = parsed("queues: [{name: q, targets: [{name: t, url: 'http://h'}]}]\n");
    const struct queue_settings *queue = &config->queues[0];

    (void)state;
    assert_built_in(&queue->policy, "default");
    assert_int_equal(queue->targets[0].timeout_ms, 30000);
    assert_true(queue->targets[0].repeatable);
    assert_int_equal(queue->targets[0].method.len, 0);
    assert_int_equal(queue->targets[0].headers.len, 0);
    assert_int_equal(queue->targets[0].ca.len, 0);
    assert_true(queue->rate_per_second == 0);
    assert_int_equal(queue->concurrency, 64);
    assert_int_equal(queue->host_concurrency, 32);
    assert_int_equal(queue->lease_ms, 30000);
    config_free(config);
}

static void a_byte_order_mark_and_carriage_returns_change_nothing(void **state)
{
    struct config *config = parsed("\xef\xbb\xbfthreads: 2\r\nkeep: {failed: 1h30m}\r\n");

    (void)state;
    assert_int_equal(config->threads, 2);
    assert_int_equal(config->keep.failed_ms, HOUR_MS * 3 / 2);
    config_free(config);
}

static void a_rate_without_a_burst_has_a_second_of_it(void **state)
{
    struct config *config = parsed("queues: [{name: a, rate: {per_second: 2.5}},"
                                   " {name: b, rate: {per_second: 1e-1}}]\n");

    (void)state;
    assert_true(config->queues[0].rate_per_second == 2.5 && config->queues[0].rate_burst == 2.5);
    assert_true(config->queues[1].rate_per_second == 0.1 && config->queues[1].rate_burst == 1);
    config_free(config);
}

static void waiters_leave_room_among_few_connections(void **state)
{
    struct config *config = parsed("limits: {connections: 100}\n");

    (void)state;
    assert_int_equal(config->limits.waiters_max, 50);
    config_free(config);
}

static void policies_of_the_file_replace_and_add(void **state)
{
    /* Queues come first on purpose: the order of sections does not matter. */
    struct config *config = parsed("queues: [{name: q, policy: sync}, {name: r, policy: mine}]\n"
                                   "policies:\n"
                                   "  - {name: sync, max_attempts: 2}\n"
                                   "  - {name: mine, max_attempts: 3}\n");

    (void)state;
    assert_int_equal(config->policy_count, 6);
    assert_int_equal(config->queues[0].policy.attempts_max, 2);
    assert_int_equal(config->queues[1].policy.attempts_max, 3);
    assert_int_equal(config_policy_find(config, SPAN("sync"))->attempts_max, 2);
    assert_built_in(config_policy_find(config, SPAN("client")), "client");
    assert_null(config_policy_find(config, SPAN("sin")));
    assert_null(config_policy_find(NULL, SPAN("sync")));
    config_free(config);
}

static const struct daruma_policy *policy_of(struct config **ret_config, const char *rules)
{
    char text[512];

    (void)snprintf(text, sizeof text, "policies:\n  - {name: p, %s}\n", rules);
    *ret_config = parsed(text);
    return config_policy_find(*ret_config, SPAN("p"));
}

static void a_rule_has_its_defaults(void **state)
{
    struct config *config;
    const struct daruma_policy *policy = policy_of(&config, "rate_limited: {}, gone: {}");
    const struct daruma_rule *rule = &policy->rules[DARUMA_CLASS_RATE_LIMITED];

    (void)state;
    assert_int_equal(policy->attempts_max, 10);
    assert_int_equal(rule->backoff.kind, DARUMA_BACKOFF_EXPONENTIAL);
    assert_int_equal(rule->backoff.base_ms, 1000);
    assert_int_equal(rule->backoff.max_ms, HOUR_MS);
    assert_int_equal(rule->backoff.jitter, DARUMA_JITTER_FULL);
    assert_int_equal(rule->hint_cap_ms, 24 * HOUR_MS);
    assert_int_equal(rule->attempts_max, 0);
    assert_int_equal(policy->rules[DARUMA_CLASS_GONE].attempts_max, 0); /* written: retried */
    config_free(config);
}

static void a_class_without_a_rule_is_transient_or_final(void **state)
{
    struct config *config;
    const struct daruma_policy *policy =
        policy_of(&config, "transient: {base: 7s, max_attempts: 4, hint_cap: 1h}");

    (void)state;
    assert_same_rule(&policy->rules[DARUMA_CLASS_QUOTA], &policy->rules[DARUMA_CLASS_TRANSIENT]);
    assert_int_equal(policy->rules[DARUMA_CLASS_QUOTA].backoff.base_ms, 7000);
    assert_int_equal(policy->rules[DARUMA_CLASS_QUOTA].attempts_max, 4);
    assert_int_equal(policy->rules[DARUMA_CLASS_QUOTA].hint_cap_ms, HOUR_MS);
    assert_int_equal(policy->rules[DARUMA_CLASS_AUTH].attempts_max, 1);
    assert_int_equal(policy->rules[DARUMA_CLASS_INVALID].attempts_max, 1);
    assert_int_equal(policy->rules[DARUMA_CLASS_GONE].attempts_max, 1);
    assert_int_equal(policy->rules[DARUMA_CLASS_EXPIRED].attempts_max, 1);
    config_free(config);
}

static void every_kind_of_backoff_and_jitter_can_be_written(void **state)
{
    static const struct {
        const char *rule;
        enum daruma_backoff_kind kind;
        enum daruma_jitter jitter;
        double factor;
        uint64_t third_ms; /* the wait after the third failure, with a draw of three quarters */
    } rules[] = {
        {"backoff: exponential", DARUMA_BACKOFF_EXPONENTIAL, DARUMA_JITTER_FULL, 0, 3000},
        {"backoff: fixed", DARUMA_BACKOFF_FIXED, DARUMA_JITTER_NONE, 0, 1000},
        {"backoff: linear", DARUMA_BACKOFF_LINEAR, DARUMA_JITTER_FULL, 0, 2250},
        {"schedule: [1s, 5s, 1m]", DARUMA_BACKOFF_SCHEDULE, DARUMA_JITTER_NONE, 0, 60000},
        {"backoff: schedule, schedule: [0s, 1500ms]", DARUMA_BACKOFF_SCHEDULE, DARUMA_JITTER_NONE,
         0, 1500},
        {"schedule: [1s, 5s, 1m], cap: 30s", DARUMA_BACKOFF_SCHEDULE, DARUMA_JITTER_NONE, 0, 30000},
        {"doublings: 1, jitter: none", DARUMA_BACKOFF_DOUBLINGS, DARUMA_JITTER_NONE, 0, 4000},
        {"doublings: 0, jitter: none", DARUMA_BACKOFF_DOUBLINGS, DARUMA_JITTER_NONE, 0, 3000},
        {"backoff: exponential, doublings: 0, jitter: none", DARUMA_BACKOFF_DOUBLINGS,
         DARUMA_JITTER_NONE, 0, 3000},
        {"backoff: doublings, doublings: 2, jitter: equal", DARUMA_BACKOFF_DOUBLINGS,
         DARUMA_JITTER_EQUAL, 0, 3500},
        {"jitter: 0", DARUMA_BACKOFF_EXPONENTIAL, DARUMA_JITTER_NONE, 0, 4000},
        {"jitter: 0.2", DARUMA_BACKOFF_EXPONENTIAL, DARUMA_JITTER_FACTOR, 0.2, 4400},
        {"jitter: 1", DARUMA_BACKOFF_EXPONENTIAL, DARUMA_JITTER_FACTOR, 1, 6000},
        {"jitter: decorrelated, base: 2s, cap: 4s", DARUMA_BACKOFF_EXPONENTIAL,
         DARUMA_JITTER_DECORRELATED, 0, 3500},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct config *config;
        char text[128];
        (void)snprintf(text, sizeof text, "transient: {%s}", rules[i].rule);
        const struct daruma_backoff *backoff = &policy_of(&config, text)->rules[0].backoff;
        assert_int_equal(backoff->kind, rules[i].kind);
        assert_int_equal(backoff->jitter, rules[i].jitter);
        assert_true(rules[i].factor == 0 || backoff->jitter_factor == rules[i].factor);
        assert_int_equal(daruma_backoff_draw_ms(backoff, 3, 0, THREE_QUARTERS), rules[i].third_ms);
        config_free(config);
    }
}

static void the_environment_is_put_into_values_and_not_read_again(void **state)
{
    assert_int_equal(setenv("FOLDER", "a: ${HOME} # $$", 1), 0);
    assert_int_equal(setenv("COUNT", "3", 1), 0);
    assert_int_equal(setenv("EMPTY", "", 1), 0);
    struct config *config = parsed("store: json:${FOLDER}/$$x$/${EMPTY}$y$\nthreads: ${COUNT}\n");

    (void)state;
    ASSERT_SPAN(config->store.path, "a: ${HOME} # $$/$x$/$y$");
    assert_int_equal(config->threads, 3);
    config_free(config);
}

static void secrets_come_from_the_environment_or_a_file_and_can_be_wiped(void **state)
{
    FILE *file = fopen("secret", "w");

    (void)state;
    assert_non_null(file);
    assert_true(fputs("from-a-file\r\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("NAME", "ecret", 1), 0);
    assert_int_equal(setenv("TOKEN", "from-the-environment", 1), 0);
    struct config *config = parsed("api:\n  listen: 0.0.0.0:0\n  tokens:\n"
                                   "    - {name: a, role: producer, token: env:TOKEN}\n"
                                   "    - {name: b, roles: [worker, operator], queues: [a, 'b*'],\n"
                                   "       token: 'file:s${NAME}'}\n");
    ASSERT_SPAN(config->api.tokens[0].secret, "from-the-environment");
    ASSERT_SPAN(config->api.tokens[1].secret, "from-a-file");
    assert_int_equal(config->api.tokens[0].roles[0], CONFIG_ROLE_PRODUCER);
    assert_int_equal(config->api.tokens[0].queue_count, 0);
    assert_int_equal(config->api.tokens[1].role_count, 2);
    assert_int_equal(config->api.tokens[1].roles[0], CONFIG_ROLE_WORKER);
    assert_int_equal(config->api.tokens[1].roles[1], CONFIG_ROLE_OPERATOR);
    assert_int_equal(config->api.tokens[1].queue_count, 2);
    ASSERT_SPAN(config->api.tokens[1].queues[1], "b*");
    const char *bytes = config->api.tokens[1].secret.at;
    config_wipe_secrets(config);
    assert_int_equal(config->api.tokens[1].secret.len, 0);
    assert_memory_equal(bytes, "\0\0\0\0\0\0\0\0\0\0\0", 11);
    config_free(config);
}

static void addresses_to_listen_on_say_whether_others_can_reach_them(void **state)
{
    static const struct {
        const char *text, *host;
        uint16_t port;
        bool is_ipv6, is_loopback;
    } addresses[] = {
        {"127.0.0.1:8700", "127.0.0.1", 8700, false, true},
        {"127.9.9.9:1", "127.9.9.9", 1, false, true},
        {"localhost:65535", "127.0.0.1", 65535, false, true},
        {"0.0.0.0:0", "0.0.0.0", 0, false, false},
        {"192.168.1.7:80", "192.168.1.7", 80, false, false},
        {"[::1]:8700", "::1", 8700, true, true},
        {"[::ffff:127.0.0.1]:8700", "::ffff:127.0.0.1", 8700, true, true},
        {"[::]:8700", "::", 8700, true, false},
        {"[fe80::1]:8700", "fe80::1", 8700, true, false},
    };

    (void)state;
    assert_int_equal(setenv("TOKEN", "x", 1), 0);
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "api: {listen: '%s', tokens: [{name: a, role: viewer, token: env:TOKEN}]}",
                       addresses[i].text);
        struct config *config = parsed(text);
        ASSERT_SPAN(config->api.listen.host, addresses[i].host);
        assert_int_equal(config->api.listen.port, addresses[i].port);
        assert_int_equal(config->api.listen.is_ipv6, addresses[i].is_ipv6);
        assert_int_equal(config->api.listen.is_loopback, addresses[i].is_loopback);
        config_free(config);
    }
}

static void hosts_and_ranges_are_told_apart(void **state)
{
    struct config *config = parsed("outbound: {deny_private: true, redirects: 20,\n"
                                   "  allow: [Example.ORG, 10.0.0.0/8, 192.168.255.255/17],\n"
                                   "  deny: ['fd00:ffff::1/12', '::1', 0.0.0.0/0, a-b_c.d1.,\n"
                                   "  '*.Internal.', '::ffff:10.1.0.0/112']}\n");
    const struct outbound *outbound = &config->outbound;

    (void)state;
    assert_true(outbound->deny_private);
    assert_int_equal(outbound->redirects_max, 20);
    assert_int_equal(outbound->allow_count, 3);
    ASSERT_SPAN(outbound->allow[0].name, "example.org");
    assert_int_equal(outbound->allow[1].name.len, 0);
    assert_memory_equal(outbound->allow[1].address, "\x0a\0\0\0", 4);
    assert_int_equal(outbound->allow[1].prefix_bits, 8);
    assert_memory_equal(outbound->allow[2].address, "\xc0\xa8\x80\0", 4);
    assert_int_equal(outbound->deny_count, 6);
    assert_true(outbound->deny[0].is_ipv6);
    assert_memory_equal(outbound->deny[0].address, "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    assert_int_equal(outbound->deny[1].prefix_bits, 128);
    assert_int_equal(outbound->deny[1].address[15], 1);
    assert_int_equal(outbound->deny[2].prefix_bits, 0);
    ASSERT_SPAN(outbound->deny[3].name, "a-b_c.d1");
    assert_false(outbound->deny[3].is_below);
    ASSERT_SPAN(outbound->deny[4].name, "internal");
    assert_true(outbound->deny[4].is_below);
    assert_false(outbound->deny[5].is_ipv6); /* as IPv4: it is the same place */
    assert_memory_equal(outbound->deny[5].address, "\x0a\x01\0\0", 4);
    assert_int_equal(outbound->deny[5].prefix_bits, 16);
    config_free(config);
}

static void urls_of_every_good_form_are_taken(void **state)
{
    static const char *const urls[] = {"http://h",
                                       "HTTPS://Example.org:443/a?b=c&d=%20",
                                       "http://127.0.0.1:65535/",
                                       "http://[::1]:9000/",
                                       "http://[2001:db8::1]",
                                       "https://a_b.example.org./x",
                                       "http://h?q",
                                       "http://xn--r8jz45g.example/~user",
                                       "http://h/@:[]"};

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "queues: [{name: q, targets: [{name: t, url: '%s'}]}]\n",
                       urls[i]);
        struct config *config = parsed(text);
        ASSERT_SPAN(config->queues[0].targets[0].url, urls[i]);
        config_free(config);
    }
}

static void headers_are_kept_in_order_without_blanks_around_them(void **state)
{
    struct config *config =
        parsed("queues: [{name: q, targets: [{name: t, url: 'http://h',\n"
               "  headers: [{name: A, value: '  1: 2 '}, {name: b, value: ''},\n"
               "            {name: A, value: 3}]}]}]\n");
    struct span rest = config->queues[0].targets[0].headers, name, value;

    (void)state;
    ASSERT_SPAN(rest, "A: 1: 2\nb: \nA: 3\n");
    assert_true(fields_next(&rest, &name, &value));
    assert_true(span_is(name, "A") && span_is(value, "1: 2"));
    config_free(config);
}

static void a_file_is_loaded_from_its_path(void **state)
{
    FILE *file = fopen("daruma.yaml", "w");
    struct config *config = NULL;
    struct error err = {0};

    (void)state;
    assert_non_null(file);
    assert_true(fputs("store: memory\nlog: {format: kv, level: 'off'}\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(config_load("daruma.yaml", &config, &err), 0);
    assert_int_equal(config->store.kind, CONFIG_STORE_MEMORY);
    ASSERT_SPAN(config->store.path, "");
    assert_int_equal(config->log.format, CONFIG_LOG_KV);
    assert_int_equal(config->log.level, DARUMA_LOG_OFF);
    config_free(config);
}

static void freeing_nothing_is_fine(void **state)
{
    (void)state;
    config_free(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_written_is_the_default),
        cmocka_unit_test(the_contract_is_read_and_its_values_are_the_defaults),
        cmocka_unit_test(a_queue_has_its_defaults),
        cmocka_unit_test(a_byte_order_mark_and_carriage_returns_change_nothing),
        cmocka_unit_test(a_rate_without_a_burst_has_a_second_of_it),
        cmocka_unit_test(waiters_leave_room_among_few_connections),
        cmocka_unit_test(policies_of_the_file_replace_and_add),
        cmocka_unit_test(a_rule_has_its_defaults),
        cmocka_unit_test(a_class_without_a_rule_is_transient_or_final),
        cmocka_unit_test(every_kind_of_backoff_and_jitter_can_be_written),
        cmocka_unit_test(the_environment_is_put_into_values_and_not_read_again),
        cmocka_unit_test(secrets_come_from_the_environment_or_a_file_and_can_be_wiped),
        cmocka_unit_test(addresses_to_listen_on_say_whether_others_can_reach_them),
        cmocka_unit_test(hosts_and_ranges_are_told_apart),
        cmocka_unit_test(urls_of_every_good_form_are_taken),
        cmocka_unit_test(headers_are_kept_in_order_without_blanks_around_them),
        cmocka_unit_test(a_file_is_loaded_from_its_path),
        cmocka_unit_test(freeing_nothing_is_fine),
    };

    return HARNESS_RUN(argc, argv, tests);
}
