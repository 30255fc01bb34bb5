/* SPDX-License-Identifier: MIT
 *
 * schema -- inside config/ only: how a table of keys (keys.c) is read against a tree. A row says
 * what a key is called, what its value may be, what it is when it is not written, and where in a
 * struct it goes.
 */
#ifndef CONFIG_SCHEMA_INTERNAL_H
#define CONFIG_SCHEMA_INTERNAL_H

#include "config/tree_internal.h"

#define SCHEMA_KEYS_MAX 40

/* What a value is, and the type of the field that it goes to. */
enum key_kind {
    KEY_TEXT = 0, /* struct span */
    KEY_DURATION, /* int64_t, milliseconds */
    KEY_SIZE,     /* size_t, bytes */
    KEY_COUNT,    /* uint32_t */
    KEY_NUMBER,   /* double */
    KEY_FLAG,     /* bool */
    KEY_WORD,     /* an enum */
    KEY_OBJECT,   /* a struct in place */
    KEY_LIST,     /* an array, in place or pointed at, and its count */
    KEY_OWN,      /* whatever `read` makes of it */
};

enum key_flags {
    KEY_REQUIRED = 1,
    KEY_REQUIRED_IN_FILE = 2, /* JSON has it from elsewhere */
    KEY_HIDDEN = 4,           /* may be a secret: errors do not show it */
};

struct key_word {
    const char *word; /* NULL: the end */
    int value;
};

struct schema_key {
    const char *name;
    enum key_kind kind;
    unsigned flags;
    size_t offset;             /* where it goes, from the start of the object's struct */
    double least, most;        /* of the value; of TEXT its bytes */
    int64_t standard;          /* when it is not written: numbers, flags, words */
    const char *standard_text; /* likewise: TEXT, and OWN, which reads it */
    const char *expected;      /* for errors: TEXT, OWN */
    const struct key_word *words;
    const struct schema *object;
    const struct schema_list *list;
    /* TEXT: NULL when it will do, else what was found ("" where the value itself says it). */
    const char *(*refuse)(struct span text);
    /* OWN: `into` is the field. */
    int (*read)(struct reading *reading, const struct schema_key *key, const struct node *node,
                void *into);
};

struct schema {
    const struct schema_key *keys;
    size_t key_count;
    /* Checks between keys, once all are read; `into` is the struct. NULL: none. */
    int (*finish)(struct reading *reading, const struct node *node, void *into);
};

struct schema_list {
    struct schema_key item; /* its offset is 0 */
    size_t item_bytes;
    size_t items_max;
    size_t count_offset; /* a size_t, in the struct that has the list */
    bool is_in_place;    /* the field is the array, not a pointer to one */
    bool has_names;      /* an item begins with its name, a span; they must differ */
};

/* Reads an object into a zeroed struct, which is half filled on failure. */
int schema_read(struct reading *reading, const struct schema *schema, const struct node *node,
                void *into);

/* What an object is that is not written at all. */
int schema_defaults(struct reading *reading, const struct schema *schema, void *into);

/* True for text; in JSON it is in quotes, in a file it may be bare. */
bool schema_is_text(const struct reading *reading, const struct node *node);

/* "found …, expected …", by the row of the key. */
int schema_complain(const struct reading *reading, const struct schema_key *key,
                    const struct node *node);

#endif
