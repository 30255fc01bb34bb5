/* SPDX-License-Identifier: MIT
 *
 * rows -- inside config/ only: how the rows of a table of keys are written. One macro for each kind
 * of key.
 */
#ifndef CONFIG_ROWS_INTERNAL_H
#define CONFIG_ROWS_INTERNAL_H

#include "config/schema_internal.h"

#include <stddef.h>

/* Where a field is; does not compile when its type is not the one that the kind of key fills. */
#define AT(type, field, wanted)                                                                    \
    (offsetof(type, field) + 0 * sizeof(&((type *)0)->field == (wanted *)0))

/* One for each kind of key; what follows are further members of struct schema_key. */
#define TEXT(word, type, field, ...)                                                               \
    {                                                                                              \
        .name = (word), .offset = AT(type, field, struct span), __VA_ARGS__                        \
    }
#define DURATION(word, type, field, from, up_to, usual)                                            \
    {                                                                                              \
        .name = (word), .kind = KEY_DURATION, .offset = AT(type, field, int64_t), .least = (from), \
        .most = (up_to), .standard = (usual)                                                       \
    }
#define SIZE(word, type, field, from, up_to, usual)                                                \
    {                                                                                              \
        .name = (word), .kind = KEY_SIZE, .offset = AT(type, field, size_t), .least = (from),      \
        .most = (up_to), .standard = (usual)                                                       \
    }
#define COUNT(word, type, field, from, up_to, usual)                                               \
    {                                                                                              \
        .name = (word), .kind = KEY_COUNT, .offset = AT(type, field, uint32_t), .least = (from),   \
        .most = (up_to), .standard = (usual)                                                       \
    }
#define NUMBER(word, type, field, from, up_to, ...)                                                \
    {                                                                                              \
        .name = (word), .kind = KEY_NUMBER, .offset = AT(type, field, double), .least = (from),    \
        .most = (up_to), __VA_ARGS__                                                               \
    }
#define FLAG(word, type, field, usual)                                                             \
    {                                                                                              \
        .name = (word), .kind = KEY_FLAG, .offset = AT(type, field, bool), .standard = (usual)     \
    }
#define WORD(word, type, field, set, usual, ...)                                                   \
    {                                                                                              \
        .name = (word), .kind = KEY_WORD, .offset = AT(type, field, enum set), .words = set##s,    \
        .standard = (usual), __VA_ARGS__                                                           \
    }
#define OBJECT(word, type, field, made, rows)                                                      \
    {                                                                                              \
        .name = (word), .kind = KEY_OBJECT, .offset = AT(type, field, made), .object = &(rows)     \
    }
#define LIST(word, type, field, made, of)                                                          \
    {                                                                                              \
        .name = (word), .kind = KEY_LIST, .offset = AT(type, field, made), .list = &(of)           \
    }
#define OWN(word, type, field, made, by, ...)                                                      \
    {                                                                                              \
        .name = (word), .kind = KEY_OWN, .offset = AT(type, field, made), .read = (by),            \
        __VA_ARGS__                                                                                \
    }
#define SCHEMA(rows, check)                                                                        \
    {                                                                                              \
        .keys = (rows), .key_count = sizeof(rows) / sizeof *(rows), .finish = (check)              \
    }

#endif
