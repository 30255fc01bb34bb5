/* SPDX-License-Identifier: MIT
 *
 * keys -- the table: every key that a configuration may have, what its value may be, what it is when
 * it is not written, and where it goes. A key that is not here is refused; a new part of the program
 * adds its rows here and nowhere else.
 */
#include "config/keys_internal.h"
#include "config/checks_internal.h"
#include "config/config.h"
#include "config/policies_internal.h"
#include "config/providers_internal.h"
#include "config/routes_internal.h"
#include "config/rows_internal.h"
#include "config/values_internal.h"

#include "base/log_writer.h"
#include "task/url.h"

#include <stddef.h>

#define NAME(type, need)                                                                           \
    TEXT("name", type, name, .flags = (need), .least = 1, .most = CONFIG_TEXT_MAX,                 \
         .expected = "a name of letters, digits, - _ and ., up to 100", .refuse = name_refuse)
#define PATH(word, type, field, need)                                                              \
    TEXT(word, type, field, .flags = (need), .least = 1, .most = CONFIG_TEXT_MAX,                  \
         .expected = "the path of a PEM file")

/* Bounds. */
#define LONG_MS              ((double)DARUMA_BACKOFF_LIMIT_MS)
#define DAY_MS               86400000
#define HOUR_MS              3600000
#define SOCKET_TIME_MIN_MS   10
#define NODE_LEASE_MIN_MS    1000
#define KEEP_MIN_MS          1000
#define SIZE_BYTES_MAX       (256.0 * 1024 * 1024)
#define CONNECTIONS_MIN      2 /* one to wait, one for everybody else */
#define MILLION              1e6
#define BACKLOG_MAX          1e9
#define LISTS_MAX            1000 /* well below READER_WAITING_MAX */
#define THREADS_MAX          64
#define REDIRECTS_MAX        20
#define DOUBLINGS_MAX        64
#define RATE_MIN             0.001
#define OUTAGE_FAILURES_MAX  1000000
#define OUTAGE_TRY_MIN_MS    100
#define OUTAGE_TRY_MAX_MS    86400000
#define CONCURRENCY_MAX      10000
#define HOST_CONCURRENCY_MAX 256 /* past it libcurl searches one host's connections too slowly */
#define METHOD_BYTES_MAX     32
#define MODEL_BYTES_MAX      200

/* --- policies -------------------------------------------------------------------------------- */

static const struct key_word daruma_backoff_kinds[] = {
    {"exponential", DARUMA_BACKOFF_EXPONENTIAL}, {"fixed", DARUMA_BACKOFF_FIXED},
    {"linear", DARUMA_BACKOFF_LINEAR},           {"schedule", DARUMA_BACKOFF_SCHEDULE},
    {"doublings", DARUMA_BACKOFF_DOUBLINGS},     {NULL, 0}};

/* What is not written stays zero, which to the library is its default. */
#define RULE    struct daruma_rule_options
#define BACKOFF struct daruma_backoff_options
static const struct schema_key rule_keys[] = {
    COUNT("max_attempts", RULE, max_attempts, 1, MILLION, 0),
    WORD("backoff", RULE, backoff.kind, daruma_backoff_kind, DARUMA_BACKOFF_EXPONENTIAL, ),
    DURATION("base", RULE, backoff.base_ms, 1, LONG_MS, 0),
    DURATION("cap", RULE, backoff.max_ms, 1, LONG_MS, 0),
    OWN("jitter", RULE, backoff, BACKOFF, jitter_read,
        .expected = "none, full, equal, decorrelated or a number from 0 to 1"),
    OWN("schedule", RULE, backoff, BACKOFF, schedule_read,
        .expected = "a list of durations: [1s, 5s, 1m]"),
    COUNT("doublings", RULE, backoff.doublings, 0, DOUBLINGS_MAX, 0),
    DURATION("hint_cap", RULE, hint_cap_ms, 1, LONG_MS, 0),
};
static const struct schema rule_schema = SCHEMA(rule_keys, rule_finish);

#define POLICY struct policy_written
#define CLASS(class, word, again)                                                                  \
    OBJECT(word, POLICY, options.rules[DARUMA_CLASS_##class], RULE, rule_schema),
#define POLICY_ROWS                                                                                \
    COUNT("max_attempts", POLICY, options.max_attempts, 1, MILLION, 0), DARUMA_CLASS_MAP(CLASS)

static const struct schema_key policy_keys[] = {POLICY_ROWS};
static const struct schema_key named_policy_keys[] = {NAME(POLICY, KEY_REQUIRED), POLICY_ROWS};
const struct schema policy_schema = SCHEMA(policy_keys, NULL);
const struct schema named_policy_schema = SCHEMA(named_policy_keys, NULL);

/* --- queues ---------------------------------------------------------------------------------- */

#define HEADER struct header_written
static const struct schema_key header_keys[] = {
    TEXT("name", HEADER, name, .flags = KEY_REQUIRED, .least = 1, .most = CONFIG_TEXT_MAX,
         .expected = "the name of a header", .refuse = header_name_refuse),
    TEXT("value", HEADER, value, .flags = KEY_REQUIRED | KEY_HIDDEN, .most = CONFIG_TEXT_MAX,
         .expected = "the value of a header", .refuse = header_value_refuse),
};
const struct schema header_schema = SCHEMA(header_keys, NULL);

#define TARGET struct target
static const struct schema_list sign_list = {
    .item = {.kind = KEY_OWN,
             .flags = KEY_HIDDEN,
             .expected = "env:NAME or file:PATH",
             .read = sign_read},
    .item_bytes = sizeof(struct signing_key),
    .items_max = QUEUE_SIGN_MAX,
    .count_offset = AT(TARGET, sign_count, size_t),
};
static const struct schema_key target_keys[] = {
    NAME(TARGET, KEY_REQUIRED),
    TEXT("url", TARGET, url, .flags = KEY_REQUIRED | KEY_HIDDEN, .least = 1, .most = CONFIG_URL_MAX,
         .expected = "a URL with a host that begins with http:// or https://",
         .refuse = url_refuse),
    TEXT("method", TARGET, method, .least = 1, .most = METHOD_BYTES_MAX,
         .expected = "a method in capital letters such as POST", .refuse = method_refuse),
    OWN("headers", TARGET, headers, struct span, headers_read,
        .expected = "a list of names and values"),
    DURATION("timeout", TARGET, timeout_ms, 1, DAY_MS, QUEUE_TIMEOUT_MS),
    FLAG("repeatable", TARGET, repeatable, true),
    PATH("ca", TARGET, ca, 0),
    {.name = "sign", /* a secret that is written in place of the list is not shown either */
     .kind = KEY_LIST,
     .flags = KEY_HIDDEN,
     .offset = AT(TARGET, sign, struct signing_key *),
     .list = &sign_list},
};
static const struct schema target_schema = SCHEMA(target_keys, target_finish);

/* --- AI providers ----------------------------------------------------------------------------- */

static const struct key_word prompt_languages[] = {
    {"ja", PROMPT_JAPANESE}, {"en", PROMPT_ENGLISH}, {NULL, 0}};
static const struct key_word provider_kinds[] = {
    {"openai", PROVIDER_OPENAI}, {"anthropic", PROVIDER_ANTHROPIC}, {NULL, 0}};

#define PROMPT   struct prompt_written
#define TEMPLATE "text up to 64KiB, with {title} and {content} where the article goes"
static const struct schema_key prompt_keys[] = {
    OWN("system", PROMPT, system, struct span, template_read, .expected = TEMPLATE),
    OWN("user", PROMPT, user, struct span, template_read, .expected = TEMPLATE),
    WORD("language", PROMPT, language, prompt_language, PROMPT_JAPANESE, ),
    COUNT("length", PROMPT, length, 1, PROMPT_LENGTH_MAX, 0),
};
const struct schema prompt_schema = SCHEMA(prompt_keys, NULL);

#define PROVIDER struct provider_settings
static const struct schema_key price_keys[] = {
    NUMBER("input", PROVIDER, price_in, 0, MILLION, .flags = KEY_REQUIRED),
    NUMBER("output", PROVIDER, price_out, 0, MILLION, .flags = KEY_REQUIRED),
};
static const struct schema price_schema = SCHEMA(price_keys, NULL);

static const struct schema_key provider_keys[] = {
    NAME(PROVIDER, KEY_REQUIRED),
    WORD("kind", PROVIDER, kind, provider_kind, PROVIDER_OPENAI, .flags = KEY_REQUIRED),
    TEXT("url", PROVIDER, url, .flags = KEY_HIDDEN, .least = 1, .most = CONFIG_URL_MAX,
         .expected = "a URL with a host that begins with http:// or https:// and has no query",
         .refuse = provider_url_refuse),
    TEXT("path", PROVIDER, path, .flags = KEY_HIDDEN, .least = 1, .most = CONFIG_URL_MAX,
         .expected = "a path that begins with / and follows the url, such as /chat/completions",
         .refuse = provider_path_refuse),
    FLAG("allow_http", PROVIDER, allow_http, false),
    TEXT("model", PROVIDER, model, .flags = KEY_REQUIRED, .least = 1, .most = MODEL_BYTES_MAX,
         .expected = "the name of a model"),
    {.name = "keys", /* into the whole struct, as is the prompt */
     .kind = KEY_OWN,
     .flags = KEY_REQUIRED | KEY_HIDDEN,
     .expected = "a list of secrets: [env:NAME] or [file:PATH]",
     .read = keys_read},
    {.name = "prompt",
     .kind = KEY_OWN,
     .expected = "a mapping with language and length, or with system and user",
     .read = prompt_read},
    COUNT("max_tokens", PROVIDER, max_tokens, 1, MILLION, PROVIDER_MAX_TOKENS),
    FLAG("old", PROVIDER, is_old, false),
    TEXT("version", PROVIDER, version, .least = 1, .most = MODEL_BYTES_MAX,
         .standard_text = PROVIDER_VERSION, .expected = "a version such as " PROVIDER_VERSION),
    OWN("headers", PROVIDER, headers, struct span, headers_read,
        .expected = "a list of names and values"),
    DURATION("timeout", PROVIDER, timeout_ms, 1, DAY_MS, PROVIDER_TIMEOUT_MS),
    PATH("ca", PROVIDER, ca, 0),
    {.name = "price",
     .kind = KEY_OBJECT,
     .object = &price_schema}, /* its fields are the struct's */
};
static const struct schema provider_schema = SCHEMA(provider_keys, provider_finish);

/* --- queues, the rest ------------------------------------------------------------------------- */

#define QUEUE struct queue_settings
static const struct schema_list target_list = {
    .item = {.kind = KEY_OBJECT, .object = &target_schema},
    .item_bytes = sizeof(TARGET),
    .items_max = QUEUE_TARGETS_MAX,
    .count_offset = AT(QUEUE, target_count, size_t),
    .is_in_place = true,
    .has_names = true,
};

static const struct schema_key rate_keys[] = {
    NUMBER("per_second", QUEUE, rate_per_second, RATE_MIN, MILLION, .flags = KEY_REQUIRED),
    NUMBER("burst", QUEUE, rate_burst, 1, MILLION, ),
};
static const struct schema rate_schema = SCHEMA(rate_keys, rate_finish);

static const struct schema_key outage_keys[] = {
    COUNT("after_failures", QUEUE, outage_after, 1, OUTAGE_FAILURES_MAX, 0),
    DURATION("try_every", QUEUE, outage_try_ms, OUTAGE_TRY_MIN_MS, OUTAGE_TRY_MAX_MS, 0),
};
static const struct schema outage_schema = SCHEMA(outage_keys, outage_finish);

static const struct schema_key queue_keys[] = {
    TEXT("name", QUEUE, name, .flags = KEY_REQUIRED_IN_FILE, .least = 1, .most = CONFIG_TEXT_MAX,
         .expected = "a name of letters, digits, - _ and ., up to 100, not beginning with _",
         .refuse = queue_name_refuse),
    OWN("policy", QUEUE, policy, struct daruma_policy, policy_read, .standard_text = CONFIG_POLICY,
        .expected = "the name of a policy, or a policy"),
    LIST("targets", QUEUE, targets[0], TARGET, target_list),
    OWN("fallback", QUEUE, fallback, const struct fallback *, fallback_read,
        .expected = "a list of providers by name"),
    OWN("order", QUEUE, fallback, const struct fallback *, order_read,
        .expected = "fixed, sticky or round_robin"),
    OWN("wait_under", QUEUE, fallback, const struct fallback *, wait_under_read,
        .expected = "a duration such as 250ms or 2s, at most 1m"),
    {.name = "rate", .kind = KEY_OBJECT, .object = &rate_schema}, /* its fields are the queue's */
    {.name = "outage", .kind = KEY_OBJECT, .object = &outage_schema}, /* likewise */
    COUNT("concurrency", QUEUE, concurrency, 1, CONCURRENCY_MAX, QUEUE_CONCURRENCY),
    COUNT("host_concurrency", QUEUE, host_concurrency, 1, HOST_CONCURRENCY_MAX,
          QUEUE_HOST_CONCURRENCY),
    DURATION("lease", QUEUE, lease_ms, QUEUE_LEASE_MIN_MS, QUEUE_LEASE_MAX_MS, QUEUE_LEASE_MS),
};
const struct schema queue_schema = SCHEMA(queue_keys, queue_finish);

/* --- the server ------------------------------------------------------------------------------ */

static const struct key_word config_roles[] = {
    {"admin", CONFIG_ROLE_ADMIN},       {"producer", CONFIG_ROLE_PRODUCER},
    {"worker", CONFIG_ROLE_WORKER},     {"viewer", CONFIG_ROLE_VIEWER},
    {"operator", CONFIG_ROLE_OPERATOR}, {NULL, 0}};

#define TOKEN struct config_token
static const struct schema_list role_list = {
    .item = {.kind = KEY_WORD, .words = config_roles},
    .item_bytes = sizeof(enum config_role),
    .items_max = CONFIG_ROLES_MAX,
    .count_offset = AT(TOKEN, role_count, size_t),
};
static const struct schema_list token_queue_list = {
    .item = {.kind = KEY_TEXT,
             .least = 1,
             .most = CONFIG_TEXT_MAX,
             .expected = "the name of a queue, or its beginning and a *",
             .refuse = queue_pattern_refuse},
    .item_bytes = sizeof(struct span),
    .items_max = CONFIG_TOKEN_QUEUES_MAX,
    .count_offset = AT(TOKEN, queue_count, size_t),
};
static const struct schema_key token_keys[] = {
    NAME(TOKEN, KEY_REQUIRED),
    WORD("role", TOKEN, role, config_role, 0, ),
    LIST("roles", TOKEN, roles, enum config_role *, role_list),
    LIST("queues", TOKEN, queues, struct span *, token_queue_list),
    OWN("token", TOKEN, secret, struct span, secret_read, .flags = KEY_REQUIRED | KEY_HIDDEN,
        .expected = "env:NAME or file:PATH"),
};
static const struct schema token_schema = SCHEMA(token_keys, token_finish);

#define TLS struct config_tls
static const struct schema_key tls_keys[] = {
    PATH("cert", TLS, cert, KEY_REQUIRED),
    PATH("key", TLS, key, KEY_REQUIRED),
};
const struct schema tls_schema = SCHEMA(tls_keys, NULL);

#define API struct config_api
static const struct schema_list token_list = {
    .item = {.kind = KEY_OBJECT, .object = &token_schema},
    .item_bytes = sizeof(TOKEN),
    .items_max = CONFIG_TOKENS_MAX,
    .count_offset = AT(API, token_count, size_t),
    .has_names = true,
};
static const struct schema_list api_host_list = {
    .item = {.kind = KEY_OWN,
             .expected = "a host name or an address such as daruma.example.org, 10.0.0.5 or "
                         "[fd00::5], without a port",
             .read = api_host_read},
    .item_bytes = sizeof(struct span),
    .items_max = CONFIG_API_HOSTS_MAX,
    .count_offset = AT(API, host_count, size_t),
};
static const struct schema_key api_keys[] = {
    OWN("listen", API, listen, struct config_listen, listen_read,
        .standard_text = CONFIG_API_LISTEN,
        .expected = "an address and a port such as 127.0.0.1:8700 or [::1]:8700"),
    LIST("tokens", API, tokens, TOKEN *, token_list),
    LIST("hosts", API, hosts, struct span *, api_host_list),
    OBJECT("tls", API, tls, TLS, tls_schema),
};
static const struct schema api_schema = SCHEMA(api_keys, api_finish);

static const struct key_word config_log_formats[] = {{"auto", CONFIG_LOG_AUTO},
                                                     {"text", CONFIG_LOG_TEXT},
                                                     {"kv", CONFIG_LOG_KV},
                                                     {"json", CONFIG_LOG_JSON},
                                                     {NULL, 0}};
static const struct key_word daruma_log_levels[] = {
    {"debug", DARUMA_LOG_DEBUG}, {"info", DARUMA_LOG_INFO}, {"warn", DARUMA_LOG_WARN},
    {"error", DARUMA_LOG_ERROR}, {"off", DARUMA_LOG_OFF},   {NULL, 0}};
static const struct schema_key log_keys[] = {
    WORD("format", struct config_log, format, config_log_format, CONFIG_LOG_AUTO, ),
    WORD("level", struct config_log, level, daruma_log_level, DARUMA_LOG_INFO, ),
    SIZE("buffer", struct config_log, buffer_bytes, LOG_WRITER_BYTES_MIN, SIZE_BYTES_MAX,
         LOG_WRITER_BYTES),
};
static const struct schema log_schema = SCHEMA(log_keys, NULL);

#define LIMITS struct config_limits
static const struct schema_key limit_keys[] = {
    COUNT("attempts", LIMITS, attempts_max, 1, MILLION, CONFIG_ATTEMPTS),
    SIZE("body", LIMITS, body_bytes_max, 1, SIZE_BYTES_MAX, CONFIG_BODY_BYTES),
    SIZE("response", LIMITS, response_bytes_max, 1, SIZE_BYTES_MAX, CONFIG_RESPONSE_BYTES),
    SIZE("bodies", LIMITS, bodies_bytes_max, 1, SIZE_BYTES_MAX, CONFIG_BODIES_BYTES),
    COUNT("connections", LIMITS, connections_max, CONNECTIONS_MIN, MILLION, CONFIG_CONNECTIONS),
    COUNT("backlog", LIMITS, backlog_max, 1, BACKLOG_MAX, CONFIG_BACKLOG),
    DURATION("header_time", LIMITS, header_time_ms, SOCKET_TIME_MIN_MS, HOUR_MS,
             CONFIG_HEADER_TIME_MS),
    DURATION("idle_time", LIMITS, idle_time_ms, SOCKET_TIME_MIN_MS, DAY_MS, CONFIG_IDLE_TIME_MS),
    DURATION("node_lease", LIMITS, node_lease_ms, NODE_LEASE_MIN_MS, HOUR_MS, CONFIG_NODE_LEASE_MS),
    COUNT("node_writers", LIMITS, node_writers, 1, CONFIG_NODE_WRITERS_MAX, CONFIG_NODE_WRITERS),
    COUNT("lists", LIMITS, lists_max, 1, LISTS_MAX, CONFIG_LISTS),
    COUNT("waiters", LIMITS, waiters_max, 1, MILLION, CONFIG_WAITERS),
};
static const struct schema limits_schema = SCHEMA(limit_keys, limits_finish);

#define KEEP struct config_keep
static const struct schema_key keep_keys[] = {
    DURATION("succeeded", KEEP, succeeded_ms, KEEP_MIN_MS, LONG_MS, CONFIG_KEEP_SUCCEEDED_MS),
    DURATION("failed", KEEP, failed_ms, KEEP_MIN_MS, LONG_MS, CONFIG_KEEP_FAILED_MS),
    DURATION("cancelled", KEEP, cancelled_ms, KEEP_MIN_MS, LONG_MS, CONFIG_KEEP_CANCELLED_MS),
    DURATION("tombstones", KEEP, tombstones_ms, KEEP_MIN_MS, LONG_MS, CONFIG_KEEP_TOMBSTONES_MS),
};
static const struct schema keep_schema = SCHEMA(keep_keys, NULL);

#define OUTBOUND struct outbound
#define HOST_LIST(count)                                                                           \
    {                                                                                              \
        .item = {.kind = KEY_OWN,                                                                  \
                 .expected = "a host such as example.org or *.example.org, or a range such "       \
                             "as 10.0.0.0/8",                                                      \
                 .read = host_read},                                                               \
        .item_bytes = sizeof(struct outbound_rule), .items_max = CONFIG_HOSTS_MAX,                 \
        .count_offset = AT(OUTBOUND, count, size_t),                                               \
    }
static const struct schema_list allow_list = HOST_LIST(allow_count);
static const struct schema_list deny_list = HOST_LIST(deny_count);
static const struct schema_key outbound_keys[] = {
    LIST("allow", OUTBOUND, allow, struct outbound_rule *, allow_list),
    LIST("deny", OUTBOUND, deny, struct outbound_rule *, deny_list),
    FLAG("deny_private", OUTBOUND, deny_private, false),
    COUNT("redirects", OUTBOUND, redirects_max, 0, REDIRECTS_MAX, CONFIG_REDIRECTS),
};
static const struct schema outbound_schema = SCHEMA(outbound_keys, NULL);

/* --- the file -------------------------------------------------------------------------------- */

#define CONFIG struct config
static const struct schema_list queue_list = {
    .item = {.kind = KEY_OBJECT, .object = &queue_schema},
    .item_bytes = sizeof(QUEUE),
    .items_max = CONFIG_QUEUES_MAX,
    .count_offset = AT(CONFIG, queue_count, size_t),
    .has_names = true,
};

static const struct schema_list provider_list = {
    .item = {.kind = KEY_OBJECT, .object = &provider_schema},
    .item_bytes = sizeof(PROVIDER),
    .items_max = CONFIG_PROVIDERS_MAX,
    .count_offset = AT(CONFIG, provider_count, size_t),
    .has_names = true,
};

static const struct schema_list route_list = {
    .item = {.kind = KEY_OBJECT, .object = &route_schema},
    .item_bytes = sizeof(struct route_settings),
    .items_max = CONFIG_ROUTES_MAX,
    .count_offset = AT(CONFIG, route_count, size_t),
};

/* Policies and providers before queues and routes, which name them. */
static const struct schema_key config_keys[] = {
    OWN("store", CONFIG, store, struct config_store, store_read, .flags = KEY_HIDDEN,
        .standard_text = CONFIG_STORE,
        .expected = "memory, json:PATH, sqlite:PATH or postgres://HOST/DATABASE"),
    OBJECT("api", CONFIG, api, API, api_schema),
    COUNT("threads", CONFIG, threads, 1, THREADS_MAX, CONFIG_THREADS),
    OBJECT("log", CONFIG, log, struct config_log, log_schema),
    OBJECT("limits", CONFIG, limits, LIMITS, limits_schema),
    OBJECT("keep", CONFIG, keep, KEEP, keep_schema),
    OBJECT("outbound", CONFIG, outbound, OUTBOUND, outbound_schema),
    {.name = "policies", /* into the whole struct, which has the built-in ones already */
     .kind = KEY_OWN,
     .expected = "a list",
     .read = policies_read},
    LIST("providers", CONFIG, providers, PROVIDER *, provider_list),
    LIST("queues", CONFIG, queues, QUEUE *, queue_list),
    OBJECT("gateway", CONFIG, gateway, struct config_gateway, gateway_schema),
    LIST("routes", CONFIG, routes, struct route_settings *, route_list),
    TEXT("pass", CONFIG, pass, .flags = KEY_HIDDEN, .least = 1, .most = CONFIG_URL_MAX,
         .expected = "a URL without a query that begins with http:// or https://",
         .refuse = upstream_refuse),
};
const struct schema config_schema = SCHEMA(config_keys, addresses_finish);
