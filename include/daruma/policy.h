/* SPDX-License-Identifier: MIT
 *
 * policy -- the core: what just happened in, "again after N ms" or "stop, and why" out. No clock,
 * no heap, no thread, no I/O: time and chance are handed in. The synchronous call, the
 * asynchronous one and the server's scheduler are skins over this one function.
 *
 * A failure has a class, and a policy has a rule for each class. The n of a backoff is the number
 * of failed attempts so far, of any class.
 */
#ifndef DARUMA_POLICY_H
#define DARUMA_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include <daruma/backoff.h>
#include <daruma/result.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong. Name, word in configurations and answers, whether it may be tried again when a
 * policy has no rule for it (by the transient rule). */
#define DARUMA_CLASS_MAP(X)                                                                        \
    X(TRANSIENT, "transient", true)       /* network, timeout, 408, 425, 5xx, 529 */               \
    X(RATE_LIMITED, "rate_limited", true) /* 429 */                                                \
    X(QUOTA, "quota", true)               /* a hard limit: seconds will not help */                \
    X(AUTH, "auth", false)                /* 401, 403 */                                           \
    X(INVALID, "invalid", false)          /* every other 4xx, a 3xx that is not followed */        \
    X(GONE, "gone", false)                /* 410 */                                                \
    X(EXPIRED, "expired", false)          /* the deadline passed */

enum daruma_class {
#define DARUMA_CLASS_ENUM(name, word, again) DARUMA_CLASS_##name,
    DARUMA_CLASS_MAP(DARUMA_CLASS_ENUM)
#undef DARUMA_CLASS_ENUM
        DARUMA_CLASS_COUNT
};

/* Why there is no next attempt. */
#define DARUMA_STOP_MAP(X)                                                                         \
    X(NONE, "go on")                                                                               \
    X(SUCCESS, "succeeded")                                                                        \
    X(ATTEMPTS, "no attempts left")                                                                \
    X(CLASS, "no attempts left for this class of error")                                           \
    X(FINAL, "an error of this class is not retried")                                              \
    X(DEADLINE, "no time left before the deadline")                                                \
    X(CONDITION, "the condition says not to retry")                                                \
    X(BUDGET, "the retry budget is spent")                                                         \
    X(BREAKER, "the circuit breaker is open")                                                      \
    X(CANCELLED, "cancelled")

enum daruma_stop {
#define DARUMA_STOP_ENUM(name, text) DARUMA_STOP_##name,
    DARUMA_STOP_MAP(DARUMA_STOP_ENUM)
#undef DARUMA_STOP_ENUM
        DARUMA_STOP_COUNT
};

#define DARUMA_POLICY_ATTEMPTS_MAX 10       /* tries in all where a policy says nothing */
#define DARUMA_POLICY_BASE_MS      1000     /* of a rule that says nothing */
#define DARUMA_POLICY_CAP_MS       3600000  /* likewise */
#define DARUMA_HINT_CAP_MS         86400000 /* a hint counts up to here */

/* What is done about one class. */
struct daruma_rule {
    struct daruma_backoff backoff;
    uint64_t hint_cap_ms;
    uint32_t attempts_max; /* failures of this class; 0: only the policy's own bound */
};

/* A checked policy, every class filled in. Made by daruma_policy_create. */
struct daruma_policy {
    struct daruma_rule rules[DARUMA_CLASS_COUNT];
    uint32_t attempts_max;
};

/* One class as written. Zeroed but for `given`: exponential, 1 s to 1 h, full jitter. */
struct daruma_rule_options {
    bool given; /* false: the class has no rule of its own */
    uint32_t max_attempts;
    int64_t hint_cap_ms;                   /* 0: DARUMA_HINT_CAP_MS */
    struct daruma_backoff_options backoff; /* zeroed fields: the defaults of a policy, above */
};

/* Zeroed: DARUMA_POLICY_ATTEMPTS_MAX tries, the default rule for what may be retried. */
struct daruma_policy_options {
    uint32_t max_attempts;
    struct daruma_rule_options rules[DARUMA_CLASS_COUNT];
};

/* What is remembered between attempts. Zeroed at the start of a life. */
struct daruma_policy_state {
    uint64_t previous_ms; /* the last wait that a backoff chose */
    int64_t deadline_ms;  /* on the clock of now_ms; 0: none */
    uint32_t attempts;    /* failed so far */
    uint32_t class_attempts[DARUMA_CLASS_COUNT];
};

struct daruma_outcome {
    enum daruma_class error_class;
    int64_t hint_ms; /* "not before": 0 or less is none */
};

struct daruma_decision {
    enum daruma_stop stop; /* DARUMA_STOP_NONE: again, after wait_ms */
    uint64_t wait_ms;
};

/* 0, or DARUMA_INVALID with an error that names the option. NULL options: the zeroed ones.
 * Schedules are not copied: they live as long as the policy. */
int daruma_policy_create(const struct daruma_policy_options *options,
                         struct daruma_policy *ret_policy, struct daruma_error *ret_error);

/* One of the built-in policies (default, sync, articles, llm_jobs, client) as it would be written,
 * or NULL. */
const struct daruma_policy_options *daruma_policy_named(const char *name);
const char *daruma_policy_name(uint32_t index); /* the built-in names in turn, then NULL */

/* The core. Counts the failure in `state` and says what now. */
struct daruma_decision daruma_policy_next(const struct daruma_policy *policy,
                                          struct daruma_policy_state *state,
                                          const struct daruma_outcome *outcome, int64_t now_ms,
                                          uint64_t random);

/* The class of an HTTP status; false when it is a success (2xx). What is no status at all (below
 * 100) is transient: nothing came back. */
bool daruma_class_of_status(int status, enum daruma_class *ret_class);

const char *
daruma_class_text(enum daruma_class error_class); /* the word; "unknown" if out of range */
bool daruma_class_parse(const char *word, enum daruma_class *ret_class);
const char *daruma_stop_text(enum daruma_stop stop);

#ifdef __cplusplus
}
#endif
#endif
