/* SPDX-License-Identifier: MIT
 *
 * judge -- what an attempt means for its task: the pure rule behind every settle. An outcome and a
 * life in, the life that is to be written out.
 *
 *   sent  status                              target repeatable       not repeatable
 *   yes   2xx                                 succeeded               succeeded
 *   yes   401 403 407 408 425 429, 503+hint   by the policy           by the policy
 *   yes   other 4xx, 3xx                      by the policy (final)   by the policy (final)
 *   yes   other 5xx                           by the policy           unsettled
 *   maybe no whole answer                     by the policy           unsettled
 *   no                                        by the policy           by the policy
 *
 * "By the policy" is daruma_policy_next: again later, or failed.
 */
#ifndef TASK_JUDGE_H
#define TASK_JUDGE_H

#include "task/task.h"

/* What an attempt came to. */
struct outcome {
    enum task_sent sent;
    int status;                    /* 0: no whole answer */
    enum daruma_class error_class; /* what is wrong; not read for a success */
    int64_t hint_ms;               /* "not before"; 0 or less: none */
    bool has_hint;                 /* also when it says "now": 503 with Retry-After */
    bool timed_out;                /* no whole answer in time */
    /* Where several were asked: every class that came of it, as bits. Of those that may be tried again
     * the one with the longest wait decides. 0: error_class alone. */
    unsigned also_classes;
};

struct judge_input {
    const struct outcome *outcome;
    const struct daruma_policy *policy;
    const struct life *life; /* as leased: the attempt is counted already */
    bool repeatable;
    int64_t now_ms; /* wall clock */
    uint64_t random;
};

struct judgement {
    struct life life; /* to be written */
    enum daruma_class error_class;
    enum daruma_stop stop; /* why it failed; NONE when it goes on */
    bool succeeded;
};

void judge_attempt(const struct judge_input *input, struct judgement *ret_judgement);

/* Nobody was asked: it waits as long as it was told to, and nothing is counted. */
void judge_put_off(const struct judge_input *input, struct judgement *ret_judgement);

/* Is it over the deadline before it even begins? Then it fails, class expired. */
bool judge_is_expired(const struct life *life, int64_t now_ms);
void judge_expire(const struct life *life, int64_t now_ms, struct judgement *ret_judgement);

#endif
