/* SPDX-License-Identifier: MIT
 *
 * schedule -- see schedule.h.
 */
#include "engine/schedule.h"

#include <stdlib.h>

#define ROOM_FIRST 64

struct schedule_packed {
    int64_t due_ms;
    int64_t row_once; /* row * 2 + is_once: rows are far below 2^62 */
};

static bool is_before(struct schedule_packed one, struct schedule_packed other)
{
    return one.due_ms < other.due_ms ||
           (one.due_ms == other.due_ms && one.row_once < other.row_once);
}

static bool make_room(struct schedule *schedule)
{
    if (schedule->count < schedule->room) {
        return true;
    }
    size_t room = schedule->room == 0 ? ROOM_FIRST : schedule->room * 2;
    struct schedule_packed *entries = realloc(schedule->entries, room * sizeof *entries);
    if (entries == NULL) {
        return false;
    }
    schedule->entries = entries;
    schedule->room = room;
    return true;
}

bool schedule_add(struct schedule *schedule, struct schedule_entry added)
{
    struct schedule_packed entry = {.due_ms = added.due_ms,
                                    .row_once = added.row * 2 + added.is_once};

    if (!make_room(schedule)) {
        return false;
    }
    size_t at = schedule->count++;
    while (at > 0 && is_before(entry, schedule->entries[(at - 1) / 2])) {
        schedule->entries[at] = schedule->entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    schedule->entries[at] = entry;
    return true;
}

bool schedule_first(const struct schedule *schedule, struct schedule_entry *ret_entry)
{
    if (schedule->count == 0) {
        return false;
    }
    const struct schedule_packed *first = &schedule->entries[0];
    *ret_entry = (struct schedule_entry){
        .due_ms = first->due_ms, .row = first->row_once / 2, .is_once = (first->row_once & 1) != 0};
    return true;
}

void schedule_pop(struct schedule *schedule)
{
    if (schedule->count == 0) {
        return;
    }
    struct schedule_packed moved = schedule->entries[--schedule->count];
    size_t at = 0;
    for (size_t child = 1; child < schedule->count; child = 2 * at + 1) {
        if (child + 1 < schedule->count &&
            is_before(schedule->entries[child + 1], schedule->entries[child])) {
            child++;
        }
        if (!is_before(schedule->entries[child], moved)) {
            break;
        }
        schedule->entries[at] = schedule->entries[child];
        at = child;
    }
    if (schedule->count > 0) {
        schedule->entries[at] = moved;
    }
}

void schedule_done(struct schedule *schedule)
{
    free(schedule->entries);
    *schedule = (struct schedule){0};
}
