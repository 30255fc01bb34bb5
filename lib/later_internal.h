/* SPDX-License-Identifier: MIT
 *
 * later -- inside lib/ only: a moment so long after another. A clock of the caller's own may stand
 * anywhere; what would lie behind the end of time is the end of time, and never wraps.
 */
#ifndef DARUMA_LATER_INTERNAL_H
#define DARUMA_LATER_INTERNAL_H

#include <stdint.h>

#define LATEST_MS (INT64_MAX - 1) /* INT64_MAX itself means never */

static inline int64_t later_ms(int64_t now_ms, uint64_t by_ms)
{
    uint64_t left_ms = now_ms < LATEST_MS ? (uint64_t)LATEST_MS - (uint64_t)now_ms : 0;

    return by_ms >= left_ms ? LATEST_MS : (int64_t)((uint64_t)now_ms + by_ms);
}

#endif
