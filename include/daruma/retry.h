/* SPDX-License-Identifier: MIT
 *
 * retry -- call a function until it succeeds, waiting longer each time.
 *
 *     static int fetch(void *user, const struct daruma_attempt *attempt,
 *                      struct daruma_error *ret_error);
 *
 *     struct daruma_error error;
 *     if (daruma_retry(fetch, &page, NULL, &error) != 0) {
 *         fprintf(stderr, "gave up: %s\n", error.message);
 *     }
 *
 * With NULL options: at most 3 retries, exponential backoff from 200 ms to 8 s, +/- 20 %. A call
 * that succeeds at once costs no allocation, no system call and no look at the clock.
 *
 * Never aborts, never prints, never leaves errno other than the call left it. Any number of threads
 * may retry at once; what they share (budget, breaker, gate, cancel) is made for it, except env
 * with a dice of its own, which belongs to one thread.
 */
#ifndef DARUMA_RETRY_H
#define DARUMA_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include <daruma/backoff.h>
#include <daruma/result.h>

#ifdef __cplusplus
extern "C" {
#endif

struct daruma_env;
struct daruma_budget;
struct daruma_breaker;
struct daruma_gate;
struct daruma_trail;
struct daruma_cancel;
struct daruma_retry_loop;

#define DARUMA_MAX_RETRIES 3           /* the default */
#define DARUMA_NO_RETRIES  0x80000000u /* max_retries 0 means the default, this means none */
#define DARUMA_RETRIES_MAX 0x7fffffffu /* the most: with timeout_ms, as many as fit into it */

struct daruma_attempt {
    uint32_t number;     /* from 1 */
    uint32_t generation; /* asynchronous form: hand it back with the answer */
    int64_t deadline_ms; /* when this attempt should be over, on env's clock; 0: no deadline */
};

/* 0 = success. Anything else is a failure; it says more in ret_error, which comes zeroed. What it
 * leaves out is filled in: code with the value returned, type and message with a word. */
typedef int (*daruma_call_fn)(void *user, const struct daruma_attempt *attempt,
                              struct daruma_error *ret_error);
typedef struct daruma_result (*daruma_result_fn)(void *user, const struct daruma_attempt *attempt);

/* A zeroed field means its default; "attempt" is the number, from 1, of the call that just failed. */
struct daruma_retry_options {
    /* So max_retries + 1 calls. Counts also where timeout_ms is given: the first of the two that is
     * reached ends it. -1 is refused, since it could mean none or without end. */
    uint32_t max_retries;
    struct daruma_backoff backoff;
    /* Retry after this error? Default: always; for daruma_retry_result: when it is recoverable. */
    bool (*condition)(void *user, const struct daruma_error *error, uint32_t attempt);
    /* Before each wait. */
    void (*on_retry)(void *user, uint32_t attempt, const struct daruma_error *error,
                     uint64_t delay_ms);
    /* For everything: no wait goes past it; when the next wait would, the retry ends at once with
     * the last error. 0: none. */
    int64_t timeout_ms;
    /* For one attempt, told to the call as attempt->deadline_ms; the asynchronous form abandons an
     * attempt that is over it. 0: none. */
    int64_t attempt_timeout_ms;
    struct daruma_env *env;         /* clock, sleep, dice; the asynchronous form has its loop */
    struct daruma_budget *budget;   /* asked before each retry */
    struct daruma_breaker *breaker; /* asked before each call, told of each outcome */
    struct daruma_gate *gate;       /* waited for before each call, held by each hint */
    struct daruma_trail *trail;
    struct daruma_cancel *cancel;   /* synchronous form only */
    struct daruma_retry_loop *loop; /* asynchronous form only */
    void *user;                     /* for condition and on_retry */
    /* A hint (retry_after_ms of an error) counts up to here. 0: DARUMA_HINT_CAP_MS, which is 24 hours;
     * less for a synchronous call that may not block so long. */
    int64_t hint_cap_ms;
};

/* Returns 0, or what the last call returned, with its error in ret_error (may be NULL; untouched on
 * success). When the library itself ends it: DARUMA_INVALID (bad options: nothing was called),
 * DARUMA_CANCELLED, DARUMA_BREAKER_OPEN or DARUMA_TIMED_OUT (before any call was made). */
int daruma_retry(daruma_call_fn call, void *user, const struct daruma_retry_options *options,
                 struct daruma_error *ret_error);

/* For functions that return a result: again only while its error is recoverable (or the condition
 * says so). Gives back the last result as it is; where daruma_retry would return a code of the
 * library, a failure with that code. */
struct daruma_result daruma_retry_result(daruma_result_fn call, void *user,
                                         const struct daruma_retry_options *options);

#ifdef __cplusplus
}
#endif
#endif
