/* SPDX-License-Identifier: MIT
 *
 * summarize_input -- articles out of files: one of a Markdown or text file, one of each line of a
 * file of JSON lines. Title and id are found where people put them; what is JSON goes on byte by byte.
 */
#ifndef CLI_SUMMARIZE_INPUT_H
#define CLI_SUMMARIZE_INPUT_H

#include "base/arena.h"
#include "base/fault.h"

#define SUMMARIZE_FILE_BYTES_MAX (64u << 20)
#define SUMMARIZE_ARTICLES_MAX   100000

/* Everything is in the arena of the list. */
struct summarize_article {
    struct span name;  /* for people: the id */
    struct span title; /* for people */
    struct span body;  /* {"article":…,"key":…}: the request */
    char id[40];       /* the task's, once it is recorded; empty: not yet */
    bool is_over;      /* nothing more is waited for */
};

struct summarize_list {
    struct arena *arena;
    struct summarize_article *articles;
    size_t count, room;
    bool is_keyed; /* the same article again is the same task */
};

int summarize_list_init(struct summarize_list *list) __attribute__((warn_unused_result));
void summarize_list_done(struct summarize_list *list);

/* `-` is standard input. Files whose names end in .json, .jsonl or .ndjson, and what comes in by
 * standard input and begins with {, are JSON lines; others are Markdown or text. err names the file,
 * and the line. */
int summarize_read(struct summarize_list *list, const char *path, struct error *err)
    __attribute__((warn_unused_result));

#endif
