/* SPDX-License-Identifier: MIT
 *
 * gates -- when a provider's key may be used: one gate for each key, shared by every task. An answer
 * that says "come back at T" closes it until T, and a smaller hint never shortens that. At T one
 * single call tries it; when that is answered, the others follow by a ramp, not all at once.
 *
 *            hold(T)                    T is over: one enters         answered
 *    OPEN ------------> SHUT until T ------------------------> probe ----------> RAMPING --> OPEN
 *     ^                    ^   ^--- hold(T'), or failed: the next one tries ---'    |
 *     |                    '------------------------- hold(T) ----------------------'
 *     '-- 1, 2, 4 … GATE_RAMP_FULL calls in each GATE_RAMP_STEP_MS, doubled while they are answered
 *
 * Plain values: time is handed in (monotonic), nothing is allocated, one thread.
 */
#ifndef DELIVER_GATES_H
#define DELIVER_GATES_H

#include <stdbool.h>
#include <stdint.h>

#define GATE_HOLD_MAX_MS   86400000 /* a day: then one call looks whether a later date still holds */
#define GATE_PROBE_WAIT_MS 1000     /* guessed, while a probe is under way */
#define GATE_RAMP_STEP_MS  250
#define GATE_RAMP_FULL     64 /* calls a step: with this many it is open */

enum gate_state { GATE_OPEN = 0, GATE_SHUT, GATE_RAMPING };

/* Zeroed: open. */
struct gate {
    enum gate_state state;
    int64_t until_ms; /* SHUT */
    bool is_probing;  /* SHUT: the one that tries it is under way */
    /* RAMPING */
    uint32_t allowed; /* under way at once, and begun in one step */
    uint32_t under_way, begun;
    int64_t step_at_ms;
    bool is_answered; /* in this step */
};

/* What a call was let through as; it is handed back when the call ends. */
enum gate_pass { GATE_PASS_OPEN = 0, GATE_PASS_PROBE, GATE_PASS_RAMP, GATE_PASS_FORCED };

/* How long until it may be entered, as far as can be known; 0: now. */
int64_t gate_wait_ms(struct gate *gate, int64_t now_ms);

/* After gate_wait_ms has said 0. */
enum gate_pass gate_enter(struct gate *gate, int64_t now_ms);
/* Whatever state it is in: a person's word. */
enum gate_pass gate_force(struct gate *gate);

enum gate_result {
    GATE_ANSWERED, /* the service works */
    GATE_FAILED,   /* it does not, and does not say until when */
};

void gate_leave(struct gate *gate, enum gate_pass pass, enum gate_result result, int64_t now_ms);

/* "Come back in": after gate_leave when it is a call's own answer. */
void gate_hold(struct gate *gate, int64_t now_ms, int64_t hold_ms);

#endif
