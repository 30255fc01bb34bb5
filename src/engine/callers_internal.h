/* SPDX-License-Identifier: MIT
 *
 * callers_internal -- shared only inside engine/: what goes on for a caller who waits for its answer
 * (a stream, a passage, a wait), found by the caller's exchange. Many leave at once, and each
 * is looked for: none may cost a look at the others.
 */
#ifndef ENGINE_CALLERS_INTERNAL_H
#define ENGINE_CALLERS_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#define CALLERS_BUCKETS    4096 /* as many as there are connections, about */
#define CALLERS_HASH_SHIFT 52   /* 64 bits less those of a bucket's number */

/* Part of what goes on. Zeroed: it is in no list. */
struct called {
    struct called *next,
        **at;          /* at: in the bucket of its exchange, or in another list of its kind */
    uint64_t exchange; /* NOBODY: no caller has it */
};

/* One of each kind; an exchange has at most one in it. */
struct callers {
    struct called *buckets[CALLERS_BUCKETS];
};

void callers_add(struct callers *callers, struct called *called, uint64_t exchange);
struct called *callers_find(const struct callers *callers, uint64_t exchange); /* NULL: none */

/* The same links serve for a list of those that no caller has. */
void called_link(struct called *called, struct called **list);
void called_leave(
    struct called *called); /* whichever it is in, if any; its exchange is NOBODY then */

#endif
