/* SPDX-License-Identifier: MIT
 *
 * ages -- see ages.h. Slots in an array by time: what comes is new, so it goes to the end; what is
 * brought in at a start, in no order, is put in its place. Empty slots before the first full one are
 * passed over at once, those in the middle go before the array would have to grow.
 */
#include "engine/ages.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 8

struct ages_slot {
    int64_t first_ms; /* of those that came in this slot of time, the first one */
    uint64_t count;   /* of those that are still there */
};

static int64_t slot_of(int64_t at_ms)
{
    return at_ms / AGES_SLOT_MS;
}

/* Where the slot of this moment is, or would have to be put. */
static size_t place_of(const struct ages *ages, int64_t at_ms)
{
    size_t low = ages->first, high = ages->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slot_of(ages->slots[middle].first_ms) < slot_of(at_ms)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct ages_slot *find(const struct ages *ages, int64_t at_ms)
{
    size_t at = place_of(ages, at_ms);
    bool is_there = at < ages->count && slot_of(ages->slots[at].first_ms) == slot_of(at_ms);

    return is_there ? &ages->slots[at] : NULL;
}

static void drop_empty(struct ages *ages)
{
    size_t kept = 0;

    for (size_t i = ages->first; i < ages->count; i++) {
        if (ages->slots[i].count > 0) {
            ages->slots[kept++] = ages->slots[i];
        }
    }
    ages->first = 0;
    ages->count = kept;
}

/* Half of it stays free after it was cleaned up: else each one that comes would do so again. */
static bool make_room(struct ages *ages)
{
    if (ages->count < ages->room) {
        return true;
    }
    drop_empty(ages);
    if (ages->count < ages->room / 2) {
        return true;
    }
    size_t room = ages->room == 0 ? ROOM_FIRST : ages->room * 2;
    struct ages_slot *grown = realloc(ages->slots, room * sizeof *grown);
    if (grown == NULL) {
        return ages->count < ages->room;
    }
    ages->slots = grown;
    ages->room = room;
    return true;
}

void ages_add(struct ages *ages, int64_t at_ms, uint64_t many)
{
    if (at_ms <= 0 || many == 0) {
        return;
    }
    struct ages_slot *slot = find(ages, at_ms);
    if (slot == NULL) {
        if (!make_room(ages)) {
            return;
        }
        size_t at = place_of(ages, at_ms);
        slot = &ages->slots[at];
        memmove(slot + 1, slot, (ages->count - at) * sizeof *slot);
        ages->count++;
        *slot = (struct ages_slot){.first_ms = at_ms};
    }
    if (slot->count == 0 || at_ms < slot->first_ms) {
        slot->first_ms = at_ms;
    }
    slot->count += many;
}

void ages_remove(struct ages *ages, int64_t at_ms)
{
    struct ages_slot *slot = at_ms > 0 ? find(ages, at_ms) : NULL;

    if (slot == NULL || slot->count == 0) {
        return;
    }
    slot->count--;
    while (ages->first < ages->count && ages->slots[ages->first].count == 0) {
        ages->first++;
    }
}

int64_t ages_oldest_ms(const struct ages *ages)
{
    return ages->first < ages->count ? ages->slots[ages->first].first_ms : 0;
}

void ages_clear(struct ages *ages)
{
    ages->first = ages->count = 0;
}

void ages_done(struct ages *ages)
{
    free(ages->slots);
    *ages = (struct ages){0};
}
