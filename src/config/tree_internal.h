/* SPDX-License-Identifier: MIT
 *
 * tree -- inside config/ only: text as nodes that know where they were written, and the one way to
 * say what is wrong with one. tree.c reads YAML and is the only place that names its library;
 * tree_json.c reads JSON. What comes after cannot tell them apart but for reading->file.
 */
#ifndef CONFIG_TREE_INTERNAL_H
#define CONFIG_TREE_INTERNAL_H

#include "base/arena.h"
#include "base/fault.h"

struct config;

enum node_kind { NODE_TEXT = 0, NODE_LIST, NODE_OBJECT };

/* A value and its place. */
struct node {
    enum node_kind kind;
    bool is_quoted;      /* TEXT: in quotes, or a block of text: never a number */
    struct span key;     /* below an object: the key it is under */
    struct span text;    /* TEXT: with ${ENV} replaced */
    struct span source;  /* TEXT: as written, so that errors show no environment */
    size_t line, column; /* from 1 */
    size_t key_line, key_column;
    size_t index, count; /* its place below a list; what is below it */
    struct node *up, *next, *first, *last;
};

/* What one reading is about. */
struct reading {
    const char *file;    /* the name in errors; NULL: JSON, errors without a place, no ${ENV} */
    struct arena *nodes; /* may be gone after the reading */
    struct arena *arena; /* what the result points at */
    const struct config *config; /* whose policies may be named; NULL: the built-in ones */
    struct error *err;
    size_t node_count;
    struct span ca; /* the latest file that was found to be good: many targets name the same */
};

/* The file. *ret_root: NULL when there is nothing in the text. */
int tree_read(struct reading *reading, struct span text, struct node **ret_root);

/* JSON, which always has a root. Nodes may point into the text. */
int tree_read_json(struct reading *reading, struct span text, struct node **ret_root);

/* For both: a node as the last one below `up` (NULL: the root). NULL: out of memory. */
struct node *node_add(struct reading *reading, struct node *up, enum node_kind kind);

/* What is under a key, or NULL. */
const struct node *node_child(const struct node *object, const char *key);

/* True for what stands for no value: nothing at all, null, ~ */
bool node_is_nothing(const struct node *node);

/* Describes what is wrong with a value; FAULT_INPUT. */
int complain(const struct reading *reading, const struct node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, pointing at its key. */
int complain_key(const struct reading *reading, const struct node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same about a key that is missing below an object. */
int complain_missing(const struct reading *reading, const struct node *object, const char *key,
                     const char *expected);

/* About the text at a place, before there is a node. */
int complain_at(const struct reading *reading, size_t line, size_t column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

int complain_memory(const struct reading *reading); /* FAULT_MEMORY */

#define FOUND_MAX 64

/* The value as an error shows it: cut, and without control characters. */
const char *found_text(const struct node *node, char ret_text[FOUND_MAX]);

#endif
