/* SPDX-License-Identifier: MIT
 *
 * number_set -- see number_set.h.
 */
#include "store/number_set.h"

#include "base/fault.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 16

/* Where the number is, or belongs. */
static size_t place_of(const struct number_set *set, int64_t number)
{
    size_t low = 0, high = set->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->at[middle] < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_at(const struct number_set *set, size_t place, int64_t number)
{
    return place < set->count && set->at[place] == number;
}

bool number_set_has(const struct number_set *set, int64_t number)
{
    return set->count > 0 && is_at(set, place_of(set, number), number);
}

int number_set_add(struct number_set *set, int64_t number)
{
    size_t place = place_of(set, number);

    if (is_at(set, place, number)) {
        return 0;
    }
    if (set->count == set->room) {
        size_t room = set->room == 0 ? ROOM_FIRST : set->room * 2;
        int64_t *grown = realloc(set->at, room * sizeof *grown);
        if (grown == NULL) {
            return FAULT_MEMORY;
        }
        set->at = grown;
        set->room = room;
    }
    memmove(set->at + place + 1, set->at + place, (set->count - place) * sizeof *set->at);
    set->at[place] = number;
    set->count++;
    return 0;
}

void number_set_remove(struct number_set *set, int64_t number)
{
    size_t place = place_of(set, number);

    if (is_at(set, place, number)) {
        set->count--;
        memmove(set->at + place, set->at + place + 1, (set->count - place) * sizeof *set->at);
    }
}

void number_set_clear(struct number_set *set)
{
    set->count = 0;
}

void number_set_done(struct number_set *set)
{
    free(set->at);
    *set = (struct number_set){0};
}
