/* SPDX-License-Identifier: MIT
 *
 * classify -- what a provider's answer means: one table over status, type, code, details and text.
 * It tells "slow down" from "no money left" from "your request is wrong", which providers say with
 * the same status, and reads when to come back where that is only said in words. What a provider
 * refuses is refused by that provider: names of models, windows, organisations and content policies are
 * its own, and another one may take the same article.
 *
 * Pure: bytes in, a verdict out. Answers come from outside: any bytes, any length.
 */
#ifndef DELIVER_CLASSIFY_H
#define DELIVER_CLASSIFY_H

#include "task/fallback.h"
#include "task/provider_stats.h"
#include "task/task.h"

struct classify_input {
    enum provider_kind kind;
    int status;
    struct span headers; /* task/fields.h */
    struct span body;
    bool has_hint; /* what the header fields say about when to come back */
    int64_t hint_ms;
    int64_t now_ms; /* wall clock */
    const struct provider_settings
        *settings; /* whose secrets are never in the message (I10); NULL: there are none */
};

struct verdict {
    enum daruma_class error_class;
    int status; /* what the answer amounts to: of an error inside a 200, the status it stands for */
    enum provider_trouble trouble; /* what only an operator can mend */
    bool has_hint;
    int64_t hint_ms;
    bool
        has_secret; /* the answer repeats one of ours: nothing of it may be kept (deliver/leak.h) */
    char message[TASK_MESSAGE_MAX + 1]; /* for people */
};

/* False: it is no error, ret_verdict is untouched. */
bool classify_answer(const struct classify_input *input, struct verdict *ret_verdict);

#endif
