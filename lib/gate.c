/* SPDX-License-Identifier: MIT
 *
 * gate -- one moment that only moves forward while it is ahead.
 */
#include <daruma/gate.h>
#include <daruma/backoff.h>

#include "later_internal.h"

void daruma_gate_hold(struct daruma_gate *gate, int64_t now_ms, uint64_t hold_ms)
{
    int64_t until_ms = __atomic_load_n(&gate->until_ms, __ATOMIC_RELAXED);
    uint64_t limit_ms = (uint64_t)DARUMA_BACKOFF_LIMIT_MS;
    int64_t wanted_ms = later_ms(now_ms, hold_ms < limit_ms ? hold_ms : limit_ms);

    while (until_ms < wanted_ms &&
           !__atomic_compare_exchange_n(&gate->until_ms, &until_ms, wanted_ms, true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

uint64_t daruma_gate_wait_ms(const struct daruma_gate *gate, int64_t now_ms)
{
    int64_t until_ms = __atomic_load_n(&gate->until_ms, __ATOMIC_ACQUIRE);

    return until_ms > now_ms ? (uint64_t)until_ms - (uint64_t)now_ms : 0;
}
