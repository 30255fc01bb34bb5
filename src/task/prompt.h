/* SPDX-License-Identifier: MIT
 *
 * prompt -- what a provider is told to do with an article: templates in which {id}, {title} and
 * {content} stand for its parts. Two are built in, Japanese and English.
 */
#ifndef TASK_PROMPT_H
#define TASK_PROMPT_H

#include "base/arena.h"
#include "base/buf.h"
#include "task/article.h"

#define PROMPT_LENGTH_JA  300 /* characters, where nothing is said */
#define PROMPT_LENGTH_EN  120 /* words */
#define PROMPT_LENGTH_MAX 100000

enum prompt_language { PROMPT_JAPANESE = 0, PROMPT_ENGLISH, PROMPT_LANGUAGE_COUNT };

/* The built-in templates; length 0: the language's own. at is NULL when there is no memory. */
struct span prompt_system(enum prompt_language language, uint32_t length, struct arena *arena);
struct span prompt_user(enum prompt_language language);

/* Adds the template as a JSON string, quotes included. The article's parts go in byte for byte; other
 * braces stay what they are. */
int prompt_add(struct buf *json, struct span template, const struct article *article)
    __attribute__((warn_unused_result));

/* Adds any text as a JSON string. */
int prompt_add_text(struct buf *json, struct span text) __attribute__((warn_unused_result));

#endif
