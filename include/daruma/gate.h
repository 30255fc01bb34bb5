/* SPDX-License-Identifier: MIT
 *
 * gate -- one "come back later" holds everyone. When one caller is told to wait (a 429 with
 * Retry-After), every caller that shares the gate waits until that moment; a later, shorter hint
 * never shortens it. Lock-free; a zeroed gate is open.
 */
#ifndef DARUMA_GATE_H
#define DARUMA_GATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct daruma_gate {
    int64_t until_ms;   /* private, atomic */
    uint64_t spread_ms; /* callers leave over this span instead of all at once; 0: at once */
};

void daruma_gate_hold(struct daruma_gate *gate, int64_t now_ms, uint64_t hold_ms);
/* How long the gate still is closed; 0: open. */
uint64_t daruma_gate_wait_ms(const struct daruma_gate *gate, int64_t now_ms);

#ifdef __cplusplus
}
#endif
#endif
