/* SPDX-License-Identifier: MIT
 *
 * rules -- what each operation does to a life, shared by every backend that applies operations one
 * by one. Pure: the backend finds the life, asks, and writes back what comes out. So the conditions
 * that decide between two competitors are written once.
 */
#ifndef STORE_RULES_H
#define STORE_RULES_H

#include "store/store.h"

/* What an operation on a task that is there (LEASE, SETTLE, CANCEL, RUN, PURGE, …) does to the life found. Sets
 * op->result; on DONE *life is what is to be written (for PURGE: nothing). op->life is left alone. */
enum op_result rules_apply(const struct op *op, struct life *life);

/* What a PURGE takes: all but what is under way or in doubt. */
#define RULES_PURGED_STATES (STORE_ALL_STATES & ~(1u << TASK_RUNNING | 1u << TASK_UNSETTLED))

/* Does an operation of this kind bring attempts and an answer (SETTLE, EXPIRE, IMPORT, REVISE), an edit
 * (REDRIVE, RESOLVE, IMPORT)? */
bool rules_brings_outcome(enum op_kind kind);
bool rules_brings_edit(enum op_kind kind);

/* Does a task in this state keep its queue from being dropped: it waits, runs or is unsettled? */
bool rules_is_open(enum task_state state);
/* Must a QUEUE be told whether the queue has such tasks? */
bool rules_asks_if_open(const struct op *op);

/* What a QUEUE with a number finds there. */
enum queue_found { QUEUE_FOUND_NONE, QUEUE_FOUND_DROPPED, QUEUE_FOUND, QUEUE_FOUND_OPEN };

/* DONE: the row may be written. */
enum op_result rules_queue(const struct op *op, enum queue_found found);

/* Of the memo that the condition of a MEMO is about: its value; empty: there is none. DONE or STALE. */
enum op_result rules_memo(const struct op *op, struct span found);

/* RECORD met a key that is bound to `found`: is it still (DUPLICATE or CONFLICT), is only the key
 * still known (GONE), or has its keeping time passed (NONE: as if it were not there)? */
enum op_result rules_key(const struct op *op, const struct task *found, const struct life *life,
                         const struct store_keep *keep);

/* May another task have the key of this one? */
bool rules_key_is_free(const struct op *op, const struct life *life, const struct store_keep *keep);

/* When what has ended may be forgotten; INT64_MAX while it has not ended. */
int64_t rules_kept_until_ms(const struct life *life, const struct store_keep *keep);

#endif
