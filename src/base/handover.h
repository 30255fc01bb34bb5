/* SPDX-License-Identifier: MIT
 *
 * handover -- how one thread gives things to another: a bounded queue, a lock for a few lines, and a
 * way to wake the taker. What has been given is no longer the giver's.
 *
 * Things are linked through a `struct handover_link` that they embed first.
 */
#ifndef BASE_HANDOVER_H
#define BASE_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct handover_link {
    struct handover_link *next;
};

struct handover; /* opaque */

/* NULL: out of memory. `max` things wait at most. */
struct handover *handover_new(size_t max);
void handover_free(struct handover *handover); /* NULL is fine; nobody may use it any more */

/* False when it is full or closed: it is still the giver's. From any thread. */
bool handover_give(struct handover *handover, struct handover_link *thing);

/* Everything that waits, oldest first, NULL-terminated; at most `max` of them. Waits up to wait_ms
 * for the first (0: does not wait, negative: for ever). NULL: nothing came, or it is closed and
 * empty. From any one thread. */
struct handover_link *handover_take(struct handover *handover, size_t max, int64_t wait_ms);

void handover_close(struct handover *handover); /* no more giving; takers wake */
bool handover_is_closed(struct handover *handover);
size_t handover_count(struct handover *handover);

#endif
