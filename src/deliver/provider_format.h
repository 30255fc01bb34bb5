/* SPDX-License-Identifier: MIT
 *
 * provider_format -- how a provider is spoken to: what a request for a summary looks like, and where
 * in an answer the text, the model and the tokens are. One table of functions for each kind; a third
 * kind of provider is one more file and one more line.
 *
 * Pure: no I/O, no time. Whether an answer is an error is classify.h's business.
 */
#ifndef DELIVER_PROVIDER_FORMAT_H
#define DELIVER_PROVIDER_FORMAT_H

#include "base/buf.h"
#include "task/article.h"
#include "task/fallback.h"

#define PROVIDER_TOKENS_MAX 100000000 /* of one answer: far above any model's window */

/* Spans point into the answer, and are JSON as it stands there. Empty: not said. */
struct provider_answer {
    struct span model;  /* between its quotes */
    struct span usage;  /* an object */
    struct span finish; /* why it ended, between its quotes */
    uint64_t tokens_in, tokens_out;
    bool is_refused; /* the model would not, or its text was filtered: what there is of it is no
                        summary */
};

struct provider_format {
    const char *path; /* behind the provider's url, unless its settings have another */
    /* The header fields that carry the key and the version (task/fields.h). */
    int (*add_headers)(const struct provider_settings *settings, struct span key,
                       struct buf *headers);
    int (*add_request)(const struct provider_settings *settings, const struct article *article,
                       struct buf *json);
    /* Adds the text of the answer to `text`, as it stands between quotes. 0; FAULT_INPUT: this is no
     * answer with a text in it; or what buf_add says. */
    int (*read_answer)(struct span body, struct buf *text, struct provider_answer *ret_answer);
};

const struct provider_format *provider_format_of(enum provider_kind kind);

extern const struct provider_format openai_format;
extern const struct provider_format anthropic_format;

/* {"summary":…,"provider":…,"model":…,"usage":…}: what the task's answer is. `text` as from
 * read_answer. */
int provider_add_result(const struct provider_settings *settings, struct span text,
                        const struct provider_answer *answer, struct buf *json)
    __attribute__((warn_unused_result));

/* For the formats: the value of a member, or false. */
bool provider_member(struct span object, const char *name, struct span *ret_value);
/* The same for strings: what stands between the quotes; empty when it is none. */
struct span provider_string(struct span object, const char *name);
/* 0 when it is no number, or more than PROVIDER_TOKENS_MAX: nothing is counted by what cannot be. */
uint64_t provider_count(struct span object, const char *name);

#endif
