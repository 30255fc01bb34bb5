/* SPDX-License-Identifier: MIT
 *
 * store_json_values -- shared by the two files that load the JSON store only: single values, each
 * checked for its kind and range.
 */
#ifndef STORE_STORE_JSON_VALUES_H
#define STORE_STORE_JSON_VALUES_H

#include "store/store_json_internal.h"

#include <jansson.h>

#define LOAD_STEPS_MAX 8
#define LOAD_NAME_MAX  32
#define LOAD_ARENA_MAX (2 * STORE_JSON_BYTES_MAX) /* what one task of a file can come to, at most */

struct loading {
    const char *path;
    struct span json;
    unsigned lines_before; /* of the file, when this is only a part of it */
    const struct load_target *target;
    struct arena *arena; /* of the task or queue that is being loaded */
    struct step steps[LOAD_STEPS_MAX];
    size_t depth;
    struct error *err;
};

/* Where we are, for the place of an error. */
void load_enter(struct loading *loading, const char *name, size_t index);
void load_leave(struct loading *loading);

/* FAULT_CORRUPT with path, line and column of where we are. */
int load_damaged(struct loading *loading, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int load_no_memory(struct loading *loading);

int load_value(struct loading *loading, enum member_kind kind, const json_t *value, void *ret_field)
    __attribute__((warn_unused_result));
int load_base64(struct loading *loading, const json_t *value, struct span *ret_bytes)
    __attribute__((warn_unused_result));

#endif
