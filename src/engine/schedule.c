/* SPDX-License-Identifier: MIT
 *
 * schedule -- see schedule.h.
 */
#include "engine/schedule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 4 /* there is one for each host that something waits for */
#define ROWS_FIRST 16

struct schedule_packed {
    int64_t due_ms;
    int64_t row_once; /* row * 2 + is_once: rows are far below 2^62 */
};

/* Open addressing; 0: free. */
struct schedule_rows {
    size_t room;
    int64_t at[];
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
    if (schedule->room > UINT32_MAX / 2) {
        return false;
    }
    uint32_t room = schedule->room == 0 ? ROOM_FIRST : schedule->room * 2;
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

/* --- rows that are there once ---------------------------------------------------------------------------- */

static size_t home_of(const struct schedule_rows *rows, int64_t row)
{
    return (size_t)(((uint64_t)row * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (rows->room - 1);
}

/* Where it is, or where it would be. */
static size_t place_of(const struct schedule_rows *rows, int64_t row)
{
    size_t at = home_of(rows, row);

    while (rows->at[at] != 0 && rows->at[at] != row) {
        at = (at + 1) & (rows->room - 1);
    }
    return at;
}

static void note_rows(struct schedule *schedule)
{
    for (size_t i = 0; i < schedule->count; i++) {
        int64_t row = schedule->entries[i].row_once / 2;
        schedule->rows->at[place_of(schedule->rows, row)] = row;
    }
}

/* For one more; no more than half of it is taken. */
static bool make_row_room(struct schedule *schedule)
{
    size_t room = schedule->rows != NULL ? schedule->rows->room : 0;

    if (((size_t)schedule->count + 1) * 2 <= room) {
        return true;
    }
    room = room == 0 ? ROWS_FIRST : room * 2;
    struct schedule_rows *rows = calloc(1, sizeof *rows + room * sizeof rows->at[0]);
    if (rows == NULL) {
        return false;
    }
    rows->room = room;
    free(schedule->rows);
    schedule->rows = rows;
    note_rows(schedule);
    return true;
}

static void drop_rows(struct schedule *schedule)
{
    free(schedule->rows);
    schedule->rows = NULL;
}

/* What lies behind it is moved up, so that it is found from its home without a gap. */
static void forget_row(struct schedule_rows *rows, int64_t row)
{
    size_t mask = rows->room - 1, at = place_of(rows, row);

    for (size_t next = (at + 1) & mask; rows->at[next] != 0; next = (next + 1) & mask) {
        size_t home = home_of(rows, rows->at[next]);
        if (((next - home) & mask) >= ((next - at) & mask)) {
            rows->at[at] = rows->at[next];
            at = next;
        }
    }
    rows->at[at] = 0;
}

bool schedule_add_once(struct schedule *schedule, struct schedule_entry entry)
{
    assert(entry.row > 0 && (schedule->rows != NULL || schedule->count == 0));

    if (!make_row_room(schedule)) {
        return false;
    }
    size_t at = place_of(schedule->rows, entry.row);
    if (schedule->rows->at[at] != 0) {
        return true;
    }
    if (!schedule_add(schedule, entry)) {
        return false;
    }
    schedule->rows->at[at] = entry.row;
    return true;
}

/* --- what is due ------------------------------------------------------------------------------------------ */

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

/* What is due has a parent that is due: behind the children of the last one there are none. */
size_t schedule_due_count(const struct schedule *schedule, int64_t by_ms, size_t most)
{
    size_t count = 0, last = 0;

    for (size_t i = 0; i < schedule->count && i <= 2 * last + 2 && count < most; i++) {
        if (schedule->entries[i].due_ms <= by_ms) {
            count++;
            last = i;
        }
    }
    return count;
}

/* Where it belongs, from there down. */
static void sift_down(struct schedule *schedule, size_t at, struct schedule_packed moved)
{
    for (size_t child = 2 * at + 1; child < schedule->count; child = 2 * at + 1) {
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
    schedule->entries[at] = moved;
}

void schedule_pop(struct schedule *schedule)
{
    if (schedule->rows != NULL) { /* then there is a first one */
        forget_row(schedule->rows, schedule->entries[0].row_once / 2);
    }
    if (schedule->count > 0 && --schedule->count > 0) {
        sift_down(schedule, 0, schedule->entries[schedule->count]);
    }
    if (schedule->count == 0) {
        drop_rows(schedule);
    }
}

static bool has_row(const int64_t *rows, size_t count, int64_t row)
{
    size_t from = 0, until = count;

    while (from < until) {
        size_t middle = from + (until - from) / 2;
        if (rows[middle] < row) {
            from = middle + 1;
        } else {
            until = middle;
        }
    }
    return from < count && rows[from] == row;
}

void schedule_remove(struct schedule *schedule, const int64_t *rows, size_t count)
{
    uint32_t kept = 0;

    for (size_t i = 0; i < schedule->count; i++) {
        if (!has_row(rows, count, schedule->entries[i].row_once / 2)) {
            schedule->entries[kept++] = schedule->entries[i];
        }
    }
    if (kept == schedule->count) {
        return;
    }
    schedule->count = kept;
    for (size_t at = kept / 2; at-- > 0;) {
        sift_down(schedule, at, schedule->entries[at]);
    }
    if (kept == 0) {
        drop_rows(schedule);
    } else if (schedule->rows != NULL) {
        memset(schedule->rows->at, 0, schedule->rows->room * sizeof schedule->rows->at[0]);
        note_rows(schedule);
    }
}

void schedule_done(struct schedule *schedule)
{
    free(schedule->entries);
    free(schedule->rows);
    *schedule = (struct schedule){0};
}
