/* SPDX-License-Identifier: MIT
 *
 * route_judge -- what an attempt means for a request that came through the gateway. The one table:
 *
 *   outcome                                  all         settled     success
 *   2xx, 3xx                                 keep        keep        keep        succeeded
 *   a status of the route's `release`        release     release     release     failed, key free
 *   other 4xx                                keep        keep        release     failed, answered
 *   503 with Retry-After                     keep        keep        release     (see below)
 *   other 5xx                                keep        unsettled   unsettled
 *   sent, no whole answer                    unsettled   unsettled   unsettled
 *   not sent                                 by `not_sent`: again | release | keep
 *
 * `release` has 401 403 407 408 425 429 and 503 with Retry-After unless it is written otherwise
 * (under `all`: nothing), so that row 4 is only for routes that say so. Unsettled on a route whose
 * upstream may see a request twice is tried again as long as the policy and the deadline let it.
 */
#ifndef TASK_ROUTE_JUDGE_H
#define TASK_ROUTE_JUDGE_H

#include "task/judge.h"
#include "task/route.h"

enum route_verdict {
    ROUTE_KEEP_SUCCESS, /* succeeded */
    ROUTE_KEEP_FAILURE, /* failed; the answer is kept */
    ROUTE_RELEASE,      /* failed; callers present get the answer, the key is free */
    ROUTE_UNSETTLED,    /* nobody knows */
    ROUTE_NOT_SENT,     /* nothing happened */
};

/* The table. */
enum route_verdict route_verdict(const struct route_settings *route, const struct outcome *outcome,
                                 bool is_unframed);

struct route_judge_input {
    const struct route_settings *route;
    struct judge_input attempt; /* its policy and `repeatable` are filled in */
    bool is_unframed;
};

/* What is to be written: judgement->life, and whether the key is free from then on. The verdict says
 * what the callers get: NOT_SENT with a life that ended is our own answer (502, 504). */
enum route_verdict route_judge(const struct route_judge_input *input,
                               struct judgement *ret_judgement, bool *ret_releases);

/* The deadline is over before it was sent: the key is free. */
void route_judge_expire(const struct life *life, int64_t now_ms, struct judgement *ret_judgement);

/* A probe's answer about an unsettled life. */
enum route_probed {
    ROUTE_PROBE_FOUND,   /* it happened */
    ROUTE_PROBE_AGAIN,   /* ask again at life.probe_due_ms */
    ROUTE_PROBE_NOT_DONE /* it did not: released, or due again (on_missing: send) */
};

/* `since_ms` is when the attempt in doubt ended. Misses count only as they are spread over
 * settle_after: the k-th of n not before k/n of it. */
enum route_probed route_judge_probe(const struct route_settings *route,
                                    const struct outcome *outcome, const struct life *life,
                                    int64_t since_ms, int64_t now_ms, struct life *ret_life);

#endif
