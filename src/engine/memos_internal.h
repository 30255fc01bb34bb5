/* SPDX-License-Identifier: MIT
 *
 * memos -- inside src/engine only: what is kept as fields under a name, for after a restart, or for other
 * nodes to tell of.
 */
#ifndef ENGINE_MEMOS_INTERNAL_H
#define ENGINE_MEMOS_INTERNAL_H

#include "engine/engine_internal.h"

#define MEMO_NAME_BYTES  64
#define MEMO_VALUE_BYTES 1024

/* Writes PREFIX:ID. */
struct span memos_name(const char *prefix, uint64_t id, char text[MEMO_NAME_BYTES]);
/* Is it one of those, and whose? */
bool memos_is(struct span name, const char *prefix, uint64_t *ret_id);

int memos_add_number(struct buf *fields, const char *name, int64_t number);
int64_t memos_number(struct span fields, const char *name); /* 0: not there */

/* To be started by errand_start; an empty value forgets the memo. NULL: no memory. */
struct errand *memos_errand(struct engine *engine, struct span name, struct span value);
/* It is written only while that holds. NULL, and the errand is freed: no memory, or there was no errand. */
struct errand *memos_only_while(struct errand *errand, const struct memo_condition *condition);
/* Forgets it, some time; or only if it is still as it was read or written. */
void memos_forget(struct engine *engine, struct span name);
void memos_forget_as_is(struct engine *engine, const struct memo *memo);

/* Of READ_MEMOS. */
bool memos_find(const struct read *read, const char *prefix, uint64_t id, struct span *ret_value);
/* Was it written by a node that is there? */
bool memos_is_live(const struct read *read, struct span value);

#endif
