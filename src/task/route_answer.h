/* SPDX-License-Identifier: MIT
 *
 * route_answer -- what the gateway itself says, and what it sends on: problem bodies (RFC 9457) with
 * advice on what to do next, the 202 of a request under way, the request of a probe. Pure text.
 */
#ifndef TASK_ROUTE_ANSWER_H
#define TASK_ROUTE_ANSWER_H

#include "base/buf.h"
#include "task/route_match.h"
#include "task/task.h"

/* Name, status, code, title, `retry`. Codes are part of the contract. */
#define ROUTE_PROBLEM_MAP(X)                                                                       \
    X(KEY_MISSING, 400, "key_missing", "Idempotency key is missing", "new_key")                    \
    X(KEY_INVALID, 400, "key_invalid", "Idempotency key is not valid", "new_key")                  \
    X(PATH, 400, "path_invalid", "The path can be read in two ways", "never")                      \
    X(INVALID, 400, "invalid_request", "The request is not valid", "never")                        \
    X(SCOPE_MISSING, 401, "scope_missing", "It is not known whose key this is", "never")           \
    X(NOT_FOUND, 404, "not_found", "There is no such route", "never")                              \
    X(REQUEST_UNKNOWN, 404, "request_unknown", "There is no such request", "never")                \
    X(METHOD, 405, "method_not_allowed", "The route does not take this method", "never")           \
    X(KEY_CONFLICT, 409, "key_conflict", "Idempotency conflict", "new_key")                        \
    X(KEY_IN_PROGRESS, 409, "key_in_progress", "The first request is still under way", "same_key") \
    X(OUTCOME_UNKNOWN, 409, "outcome_unknown", "It is not known yet whether it happened",          \
      "same_key")                                                                                  \
    X(CANCELLED, 409, "cancelled", "A person cancelled the request before it was sent", "new_key") \
    X(KEY_RELEASED, 409, "key_released", "Nothing happened, and the key is free", "same_key")      \
    X(RESULT_EXPIRED, 410, "result_expired", "The answer is not kept any more", "new_key")         \
    X(TOO_LARGE, 413, "too_large", "The request is too large", "never")                            \
    X(INTERNAL, 500, "internal", "Something went wrong inside", "same_key")                        \
    X(NOT_SENT, 502, "not_sent", "The upstream could not be reached", "same_key")                  \
    X(NOT_SENT_KEPT, 502, "not_sent", "The upstream could not be reached", "new_key")              \
    X(NOT_DONE, 502, "not_done", "The upstream says that it did not happen", "same_key")           \
    X(FAILED, 502, "failed", "A person found that the request failed", "new_key")                  \
    X(UPSTREAM, 502, "upstream_failed", "The upstream gave no whole answer", "never")              \
    X(HEADER_TOO_LONG, 502, "answer_header_too_long",                                              \
      "The answer's header is too long to be told", "never")                                       \
    X(HEADER_TOO_LONG_FREE, 502, "answer_header_too_long",                                         \
      "The answer's header is too long to be told", "same_key")                                    \
    X(OVERLOADED, 503, "overloaded", "There is no room at the moment", "same_key")                 \
    X(STORE_UNAVAILABLE, 503, "store_unavailable", "The store does not answer", "same_key")        \
    X(STORE_UNKNOWN, 503, "store_unknown", "It may or may not have been recorded", "same_key")     \
    X(DRAINING, 503, "draining", "The server is stopping", "same_key")

enum route_problem {
#define ROUTE_PROBLEM_ENUM(name, status, code, title, retry) ROUTE_PROBLEM_##name,
    ROUTE_PROBLEM_MAP(ROUTE_PROBLEM_ENUM)
#undef ROUTE_PROBLEM_ENUM
        ROUTE_PROBLEM_COUNT
};

int route_problem_status(enum route_problem problem);
const char *route_problem_code(enum route_problem problem);
const char *route_problem_title(enum route_problem problem);
const char *route_problem_retry(enum route_problem problem);

/* What there is to say about one. Zeroed but for the problem: what the table says. */
struct route_refusal {
    enum route_problem problem;
    int status; /* 0: the table's */
    struct span detail;
    int64_t retry_after_ms; /* 0: not said */
    struct span id_text;    /* the request that it is about: Location; empty: none */
    bool is_replay;         /* in place of a kept answer: nothing of that can be told */
};

/* Header fields (task/fields.h) and the body; returns 0 or what buf_add says. */
int route_refusal_render(const struct route_refusal *refusal, struct buf *headers, struct buf *body)
    __attribute__((warn_unused_result));

/* How a caller is told of what is under way, or in doubt, who does not wait for it or no longer: ACCEPTED or
 * CONFLICT. One who has asked for a 202 gets it whatever this says. */
enum route_way route_way_told(const struct route_settings *route);

/* 202: under way, or its outcome is not known. */
struct route_progress {
    struct span id_text;
    int64_t retry_after_ms;
    bool is_unknown;
    const char *state; /* told to whoever polls; NULL: not */
};
int route_progress_render(const struct route_progress *progress, struct buf *headers,
                          struct buf *body) __attribute__((warn_unused_result));

/* Text as a JSON string, with its quotes; bytes that are not UTF-8 must not be in it. */
int route_json_text(struct buf *out, struct span text) __attribute__((warn_unused_result));

/* The URL of a route's request: the upstream's, and the target behind it. */
int route_url(const struct route_settings *route, struct span target, struct buf *out)
    __attribute__((warn_unused_result));

/* The URL of a probe: {key} (escaped), {id} and the pattern's own names filled in (in the query
 * escaped, so that none begins another parameter); a name of the pattern wins. `target` is the task's
 * URL. FAULT_INPUT: see route_probe_refuse_key. */
struct route_probe_input {
    const struct route_settings *route;
    struct span target;
    struct span key; /* as the upstream knows it */
    struct span id_text;
};
int route_probe_url(const struct route_probe_input *input, struct buf *out)
    __attribute__((warn_unused_result));

/* NULL, or why the route cannot have this key, as the upstream knows it: in the path of its probe it would
 * lead to another place. */
const char *route_probe_refuse_key(const struct route_settings *route, struct span key);

/* NULL, or what is wrong with a probe's request ("GET /v1/by-key/{key}") for this pattern. */
const char *route_probe_parse(struct span text, const struct route_pattern *pattern,
                              struct route_probe *probe);

#endif
