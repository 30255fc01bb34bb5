/* SPDX-License-Identifier: MIT
 *
 * restored_tasks -- what waits in a backup, made so that no server sends what may have been sent since the
 * backup was made, before a server has it: see `daruma restore`.
 */
#ifndef STORE_RESTORED_TASKS_H
#define STORE_RESTORED_TASKS_H

#include "store/store.h"

#include <stddef.h>

struct restored_wish {
    int64_t now_ms;
    /* What waits for an upstream that must not see it twice, and has a caller: it is unsettled. */
    bool doubts_requests;
    /* A person's word to run a task now is about the moment at which it was given: queues that are
     * paused hold such tasks too. */
    bool forgets_words;
};

/* Commits page by page, and may be called again after a fault. FAULT_INPUT: something else is at work on
 * the store. */
int restored_tasks(struct store *store, const struct restored_wish *wish, size_t *ret_unsettled,
                   struct error *err) __attribute__((warn_unused_result));

#endif
