/* SPDX-License-Identifier: MIT
 *
 * touched -- which tasks and keys a batch is about. An operation of a batch must not depend on another
 * one of the same batch, and operations on one thing must be applied in the order in which they came;
 * both are judged by a hash of that thing. Two that only look alike cost a batch, no more.
 */
#ifndef STORE_TOUCHED_H
#define STORE_TOUCHED_H

#include "store/store.h"

#define TOUCHED_SLOTS 2048

/* A small set, emptied by raising its number. */
struct touched {
    uint64_t hash[TOUCHED_SLOTS];
    uint32_t round[TOUCHED_SLOTS];
    uint32_t now;
    size_t count;   /* operations of the batch */
    bool is_closed; /* nothing more: what drops a queue is the one that it has, or comes next */
};

void touched_clear(struct touched *touched);
/* True: the batch is about neither it nor what it spawns yet, and is now. What drops a queue is alone
 * in its batch, and nothing overtakes it: it depends on whatever else goes into that queue. */
bool touched_add(struct touched *touched, const struct op *op);

/* Equal for operations whose order matters: on one task, one key, one queue's work, what people did. */
uint64_t touched_order(const struct op *op);

#endif
