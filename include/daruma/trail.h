/* SPDX-License-Identifier: MIT
 *
 * trail -- what happened, attempt by attempt, in an array that the caller gives. Kept on success
 * and on failure alike.
 */
#ifndef DARUMA_TRAIL_H
#define DARUMA_TRAIL_H

#include <stdint.h>

#include <daruma/policy.h>

#ifdef __cplusplus
extern "C" {
#endif

struct daruma_trail_entry {
    uint64_t delay_ms; /* the wait chosen after this attempt; 0 after the last */
    uint32_t attempt;  /* from 1 */
    int code;          /* the error's code; 0 for success */
};

/* The caller sets entries and capacity; the rest is reset when a retry starts. When there are more
 * attempts than room, the last entry always is the latest attempt. */
struct daruma_trail {
    struct daruma_trail_entry *entries;
    uint32_t capacity;
    uint32_t count;        /* attempts made, also when more than capacity */
    enum daruma_stop stop; /* why it ended; DARUMA_STOP_NONE while it has not */
};

#ifdef __cplusplus
}
#endif
#endif
