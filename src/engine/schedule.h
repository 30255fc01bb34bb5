/* SPDX-License-Identifier: MIT
 *
 * schedule -- rows by the time they are due: a heap of 16 bytes each. It is a hint about what to
 * lease next, never the truth: the store is asked again by each lease, so an entry too many does no
 * harm. What people may add again and again is added once, so that it does not pile up.
 */
#ifndef ENGINE_SCHEDULE_H
#define ENGINE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct schedule_entry {
    int64_t due_ms;
    int64_t row;
    bool is_once; /* its target must not see it twice: it is never leased ahead of its turn */
};

struct schedule_packed;
struct schedule_rows;

/* Zeroed: empty. */
struct schedule {
    struct schedule_packed *entries;
    struct schedule_rows *rows; /* of all entries, to be found by; NULL: see schedule_add_once */
    uint32_t count, room;       /* there are some for each host: it is kept small */
};

/* False: out of memory. */
bool schedule_add(struct schedule *schedule, struct schedule_entry entry)
    __attribute__((warn_unused_result));
/* The same, but a row that is there already stays as it is. To a schedule all rows are added in this way, or
 * none. */
bool schedule_add_once(struct schedule *schedule, struct schedule_entry entry)
    __attribute__((warn_unused_result));
/* The earliest, oldest row first among equals; false when empty. */
bool schedule_first(const struct schedule *schedule, struct schedule_entry *ret_entry);
/* How many are due by then; no more than `most` are counted. */
size_t schedule_due_count(const struct schedule *schedule, int64_t by_ms, size_t most);
void schedule_pop(struct schedule *schedule);
/* Those of these rows, which are in ascending order. */
void schedule_remove(struct schedule *schedule, const int64_t *rows, size_t count);
void schedule_done(struct schedule *schedule);

#endif
