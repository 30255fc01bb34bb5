/* SPDX-License-Identifier: MIT
 *
 * route_keys -- the gateway's part of the table of keys: see keys.c.
 */
#include "config/config.h"
#include "config/policies_internal.h"
#include "config/routes_internal.h"
#include "config/rows_internal.h"
#include "config/values_internal.h"

#include "task/url.h"

#define DAY_MS          86400000
#define WAIT_MAX_MS     3600000
#define KEEP_MIN_MS     1
#define LONG_MS         ((double)DARUMA_BACKOFF_LIMIT_MS)
#define MISSES_MAX      1000
#define CONCURRENCY_MAX 256 /* past it libcurl searches one host's connections too slowly */

static const struct schema_key gateway_keys[] = {
    OWN("listen", struct config_gateway, listen, struct config_listen, listen_read,
        .standard_text = CONFIG_GATEWAY_LISTEN,
        .expected = "an address and a port such as 127.0.0.1:8701 or [::1]:8701"),
    OBJECT("tls", struct config_gateway, tls, struct config_tls, tls_schema),
};
const struct schema gateway_schema = SCHEMA(gateway_keys, NULL);

/* --- a probe ----------------------------------------------------------------------------------- */

static const struct key_word route_missings[] = {
    {"release", ROUTE_MISSING_RELEASE}, {"send", ROUTE_MISSING_SEND}, {NULL, 0}};

/* The request is taken apart once the pattern, whose names it may have, is known. */
#define PROBE struct route_probe
static const struct schema_key probe_keys[] = {
    TEXT("request", PROBE, path, .flags = KEY_REQUIRED, .least = 1, .most = CONFIG_URL_MAX,
         .expected = "a request such as GET /v1/orders/by-key/{key}"),
    DURATION("every", PROBE, every_ms, 1, DAY_MS, ROUTE_PROBE_EVERY_MS),
    COUNT("misses", PROBE, misses, 1, MISSES_MAX, ROUTE_PROBE_MISSES),
    DURATION("settle_after", PROBE, settle_after_ms, 0, LONG_MS, -1),
    WORD("on_missing", PROBE, on_missing, route_missing, ROUTE_MISSING_RELEASE, ),
    COUNT("status", PROBE, status, 200, 299, 0),
    TEXT("field", PROBE, field, .least = 1, .most = CONFIG_TEXT_MAX,
         .expected = "a JSON field such as order.receipt", .refuse = json_path_refuse),
};
static const struct schema probe_schema = SCHEMA(probe_keys, NULL);

/* --- a route ----------------------------------------------------------------------------------- */

static const struct key_word route_needs[] = {
    {"required", ROUTE_KEY_REQUIRED}, {"optional", ROUTE_KEY_OPTIONAL}, {NULL, 0}};
static const struct key_word route_expireds[] = {
    {"refuse", ROUTE_EXPIRED_REFUSE}, {"rerun", ROUTE_EXPIRED_RERUN}, {NULL, 0}};
static const struct key_word route_ways[] = {{"accepted", ROUTE_WAY_ACCEPTED},
                                             {"wait", ROUTE_WAY_WAIT},
                                             {"conflict", ROUTE_WAY_CONFLICT},
                                             {NULL, 0}};
static const struct key_word route_replays[] = {{"all", ROUTE_REPLAY_ALL},
                                                {"settled", ROUTE_REPLAY_SETTLED},
                                                {"success", ROUTE_REPLAY_SUCCESS},
                                                {NULL, 0}};
static const struct key_word route_not_sents[] = {{"retry", ROUTE_NOT_SENT_RETRY},
                                                  {"release", ROUTE_NOT_SENT_RELEASE},
                                                  {"fail", ROUTE_NOT_SENT_FAIL},
                                                  {NULL, 0}};
static const struct key_word route_ambiguouss[] = {{"hold", ROUTE_AMBIGUOUS_HOLD},
                                                   {"retry", ROUTE_AMBIGUOUS_RETRY},
                                                   {"probe", ROUTE_AMBIGUOUS_PROBE},
                                                   {NULL, 0}};
static const struct key_word route_unframeds[] = {
    {"keep", ROUTE_UNFRAMED_KEEP}, {"doubt", ROUTE_UNFRAMED_DOUBT}, {NULL, 0}};

/* Into the whole route, whose several fields it fills. */
#define INTO_ROUTE(word, by, ...)                                                                  \
    {                                                                                              \
        .name = (word), .kind = KEY_OWN, .read = (by), __VA_ARGS__                                 \
    }

#define ROUTE struct route_settings
static const struct schema_key route_keys[] = {
    TEXT("name", ROUTE, name, .least = 1, .most = ROUTE_NAME_MAX,
         .expected = "a name of letters, digits, - _ and ., up to 80", .refuse = name_refuse),
    OWN("match", ROUTE, pattern, struct route_pattern, match_read, .flags = KEY_REQUIRED,
        .expected = "a method and a path such as POST /v1/orders or PUT,PATCH /v1/orders/{id}"),
    TEXT("upstream", ROUTE, upstream, .flags = KEY_REQUIRED | KEY_HIDDEN, .least = 1,
         .most = CONFIG_URL_MAX,
         .expected = "a URL without a query that begins with http:// or https://",
         .refuse = upstream_refuse),
    DURATION("timeout", ROUTE, timeout_ms, 1, DAY_MS, ROUTE_TIMEOUT_MS),
    DURATION("deadline", ROUTE, deadline_ms, 1, LONG_MS, 0),
    OWN("policy", ROUTE, policy, struct daruma_policy, policy_read, .standard_text = ROUTE_POLICY,
        .expected = "the name of a policy, or a policy"),
    COUNT("concurrency", ROUTE, concurrency, 1, CONCURRENCY_MAX, ROUTE_CONCURRENCY),
    FLAG("repeatable", ROUTE, repeatable, false),
    WORD("key", ROUTE, need, route_need, ROUTE_KEY_REQUIRED, ),
    TEXT("header", ROUTE, header, .least = 1, .most = CONFIG_TEXT_MAX,
         .standard_text = ROUTE_KEY_HEADER, .expected = "the name of a header",
         .refuse = header_name_refuse),
    FLAG("strict", ROUTE, is_strict, false),
    INTO_ROUTE("scope", scope_read, .flags = KEY_REQUIRED,
               .expected = "header:NAME, cookie:NAME or global"),
    INTO_ROUTE("fingerprint", fingerprint_read, .standard_text = "body",
               .expected = "body, off or a list of JSON fields"),
    DURATION("keep", ROUTE, keep_ms, KEEP_MIN_MS, LONG_MS, ROUTE_KEEP_MS),
    WORD("expired", ROUTE, expired, route_expired, ROUTE_EXPIRED_REFUSE, ),
    WORD("in_progress", ROUTE, in_progress, route_way, ROUTE_WAY_WAIT, ),
    DURATION("wait", ROUTE, wait_ms, 0, WAIT_MAX_MS, ROUTE_WAIT_MS),
    WORD("wait_then", ROUTE, wait_then, route_way, ROUTE_WAY_CONFLICT, ),
    DURATION("retry_after", ROUTE, retry_after_ms, 1, DAY_MS, ROUTE_RETRY_AFTER_MS),
    WORD("replay", ROUTE, replay, route_replay, ROUTE_REPLAY_ALL, ),
    INTO_ROUTE("release", release_read,
               .expected = "a list of statuses such as [429, 503+retry-after]"),
    WORD("not_sent", ROUTE, not_sent, route_not_sent, ROUTE_NOT_SENT_RETRY, ),
    WORD("ambiguous", ROUTE, ambiguous, route_ambiguous, ROUTE_AMBIGUOUS_HOLD, ),
    WORD("unframed", ROUTE, unframed, route_unframed, ROUTE_UNFRAMED_KEEP, ),
    OBJECT("probe", ROUTE, probe, PROBE, probe_schema),
    OWN("mismatch", ROUTE, mismatch, uint32_t, mismatch_read, .standard_text = "409",
        .expected = "409 or 422"),
    FLAG("derive", ROUTE, derives_key, false),
    INTO_ROUTE("replay_headers", kept_headers_read, .expected = "a list of names of headers"),
    TEXT("ca", ROUTE, ca, .least = 1, .most = CONFIG_TEXT_MAX,
         .expected = "the path of a PEM file"),
};
const struct schema route_schema = SCHEMA(route_keys, route_finish);
