/* SPDX-License-Identifier: MIT
 *
 * route -- what the gateway is told to do with the requests that a pattern matches: whose keys they
 * are, which answers are kept, what happens when nobody knows whether it happened. Made by the
 * configuration; read by the engine and the edge. The rules themselves are in task/route_*.h.
 */
#ifndef TASK_ROUTE_H
#define TASK_ROUTE_H

#include "base/span.h"

#include <daruma/policy.h>

#define ROUTE_NAME_MAX     80 /* of a route; its queue's name has ROUTE_QUEUE_PREFIX in front */
#define ROUTE_METHODS_MAX  8
#define ROUTE_SEGMENTS_MAX 32
#define ROUTE_RELEASE_MAX  32 /* statuses that free the key */
#define ROUTE_FIELDS_MAX   16 /* JSON fields of a fingerprint */
#define ROUTE_HEADERS_MAX  32 /* names of an allow list */

#define ROUTE_QUEUE_PREFIX "_route." /* a route's tasks are in a queue of this name */
#define ROUTE_OWN_PATH     "/.daruma/"
#define ROUTE_POLICY_PATH  ROUTE_OWN_PATH "idempotency"
#define ROUTE_POLL_PATH    ROUTE_OWN_PATH "requests/"

#define ROUTE_KEY_HEADER     "Idempotency-Key"
#define ROUTE_TIMEOUT_MS     30000
#define ROUTE_WAIT_MS        10000
#define ROUTE_RETRY_AFTER_MS 2000
#define ROUTE_KEEP_MS        INT64_C(259200000)
#define ROUTE_POLICY         "client"
#define ROUTE_CONCURRENCY    256
#define ROUTE_PROBE_EVERY_MS 5000
#define ROUTE_PROBE_MISSES   3
#define ROUTE_PROBE_GRACE_MS 60000 /* settle_after, where it is not written: timeout + this */

enum route_scope { ROUTE_SCOPE_GLOBAL = 0, ROUTE_SCOPE_HEADER, ROUTE_SCOPE_COOKIE };
enum route_need { ROUTE_KEY_REQUIRED = 0, ROUTE_KEY_OPTIONAL };
enum route_print { ROUTE_PRINT_BODY = 0, ROUTE_PRINT_OFF, ROUTE_PRINT_FIELDS };
enum route_expired { ROUTE_EXPIRED_REFUSE = 0, ROUTE_EXPIRED_RERUN };
enum route_way { ROUTE_WAY_ACCEPTED = 0, ROUTE_WAY_WAIT, ROUTE_WAY_CONFLICT };
enum route_replay { ROUTE_REPLAY_ALL = 0, ROUTE_REPLAY_SETTLED, ROUTE_REPLAY_SUCCESS };
enum route_not_sent { ROUTE_NOT_SENT_RETRY = 0, ROUTE_NOT_SENT_RELEASE, ROUTE_NOT_SENT_FAIL };
enum route_ambiguous { ROUTE_AMBIGUOUS_HOLD = 0, ROUTE_AMBIGUOUS_RETRY, ROUTE_AMBIGUOUS_PROBE };
enum route_missing { ROUTE_MISSING_RELEASE = 0, ROUTE_MISSING_SEND };
enum route_unframed { ROUTE_UNFRAMED_KEEP = 0, ROUTE_UNFRAMED_DOUBT };

/* "POST,PUT /v1/orders/{id}/confirm". A segment is text, {name} or *: one segment; * at the end
 * stands for one or more. */
struct route_pattern {
    struct span text; /* as written */
    struct span methods[ROUTE_METHODS_MAX];
    size_t method_count;
    struct span segments[ROUTE_SEGMENTS_MAX]; /* with their braces */
    size_t segment_count;
    bool ends_with_slash;
    bool is_open; /* the last segment is * */
};

struct route_release {
    uint16_t status;
    bool needs_hint; /* only with Retry-After */
};

/* How the target is asked whether it happened. */
struct route_probe {
    struct span method; /* empty: there is no probe */
    struct span path;   /* with {key}, {id} and the names of the pattern to be filled in */
    int64_t every_ms;
    uint32_t misses;
    int64_t settle_after_ms; /* misses are spread over this, from the attempt in doubt on */
    enum route_missing on_missing;
    uint32_t status;   /* of the answer that is kept; 0: the probe's own */
    struct span field; /* of the probe's JSON that becomes the body; empty: all of it */
};

/* Spans and arrays belong to whoever made the settings, and live as long. */
struct route_settings {
    struct span name;
    struct route_pattern pattern;
    struct span upstream; /* URL without query; its path goes before the request's */
    int64_t timeout_ms;
    int64_t deadline_ms;
    struct daruma_policy policy;
    uint32_t concurrency;
    bool repeatable;
    enum route_need need;
    struct span header;
    bool is_strict;
    enum route_scope scope;
    struct span scope_name; /* of the header or cookie */
    enum route_print print;
    struct span fields[ROUTE_FIELDS_MAX];
    size_t field_count;
    int64_t keep_ms;
    enum route_expired expired;
    enum route_way in_progress;
    int64_t wait_ms;
    enum route_way wait_then; /* when the time of a waiting duplicate is over: ACCEPTED, CONFLICT */
    int64_t retry_after_ms;
    enum route_replay replay;
    struct route_release release[ROUTE_RELEASE_MAX];
    size_t release_count;
    enum route_not_sent not_sent;
    enum route_ambiguous ambiguous;
    enum route_unframed unframed;
    struct route_probe probe;
    uint32_t mismatch; /* 409 or 422 */
    bool derives_key;
    struct span kept_headers[ROUTE_HEADERS_MAX];
    size_t kept_header_count; /* 0: the deny list holds */
    struct span ca;           /* path of a CA file; empty: the system's */
};

#endif
