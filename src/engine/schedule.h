/* SPDX-License-Identifier: MIT
 *
 * schedule -- rows by the time they are due: a heap of 16 bytes each. It is a hint about what to
 * lease next, never the truth: the store is asked again by each lease, so an entry too many does no
 * harm.
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

/* Zeroed: empty. */
struct schedule {
    struct schedule_packed *entries;
    size_t count, room;
};

/* False: out of memory. */
bool schedule_add(struct schedule *schedule, struct schedule_entry entry)
    __attribute__((warn_unused_result));
/* The earliest, oldest row first among equals; false when empty. */
bool schedule_first(const struct schedule *schedule, struct schedule_entry *ret_entry);
void schedule_pop(struct schedule *schedule);
void schedule_done(struct schedule *schedule);

#endif
