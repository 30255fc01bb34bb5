/* SPDX-License-Identifier: MIT
 *
 * ages -- how long the oldest of many things has been there, while they come and go: dead letters of a
 * queue. Neither the things nor their order are kept, only how many there are of each minute, so that
 * a hundred thousand that came in one bad hour take sixty entries and no store has to be searched.
 * Exact until the oldest one has gone; from then on to within AGES_SLOT_MS.
 */
#ifndef ENGINE_AGES_H
#define ENGINE_AGES_H

#include <stddef.h>
#include <stdint.h>

#define AGES_SLOT_MS 60000

struct ages_slot;

/* Zeroed: empty. */
struct ages {
    struct ages_slot *slots; /* in order; the first one is never empty */
    size_t first, count, room;
};

/* `many` that came at this moment. One that is not above 0 is not known, and not counted. Without
 * memory they are not counted either: then the oldest is told younger than it is. */
void ages_add(struct ages *ages, int64_t at_ms, uint64_t many);
/* One that came at this moment has gone. One that was never counted does no harm. */
void ages_remove(struct ages *ages, int64_t at_ms);
int64_t ages_oldest_ms(const struct ages *ages); /* when it came; 0: there is none */
void ages_clear(struct ages *ages);
void ages_done(struct ages *ages);

#endif
