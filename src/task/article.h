/* SPDX-License-Identifier: MIT
 *
 * article -- what a queue with a fallback list takes: {"article":{"id","title","content"}}. Read
 * where it stands: the parts are the bytes between the quotes, escapes and all, so that they can be
 * put into another JSON string without being changed by a byte.
 */
#ifndef TASK_ARTICLE_H
#define TASK_ARTICLE_H

#include "base/arena.h"
#include "base/fault.h"

#define ARTICLE_LABEL "article_id" /* the label that tells articles apart in lists */

struct article {
    struct span id; /* a number is its digits */
    struct span title;
    struct span content;
};

/* FAULT_INPUT: err->field is the member at fault (article.title). Unknown members are refused: what
 * nobody reads should not be sent. */
int article_read(struct span json, struct article *ret_article, struct error *err)
    __attribute__((warn_unused_result));

/* Checks the body of a new task and adds ARTICLE_LABEL to its labels (task/fields.h) unless there is
 * one or there is no room for one. What is made lives in the arena. */
int article_take(struct span json, struct span labels, struct arena *arena, struct span *ret_labels,
                 struct error *err) __attribute__((warn_unused_result));

#endif
