/* SPDX-License-Identifier: MIT
 *
 * store_memory -- what the store in memory offers beside the verbs of store.h.
 */
#ifndef STORE_STORE_MEMORY_H
#define STORE_STORE_MEMORY_H

#include "store/store.h"

/* A copy of all that is committed, with the epoch raised as if it had been closed and opened again:
 * what a crash leaves behind. With no other thread about. NULL: out of memory. */
struct store *store_memory_clone(const struct store *store);

#endif
