/* SPDX-License-Identifier: MIT
 *
 * gates -- see gates.h.
 */
#include "deliver/gates.h"

static int64_t larger(int64_t one, int64_t other)
{
    return one > other ? one : other;
}

/* A step that was answered lets twice as many through in the next one. */
static void roll_steps(struct gate *gate, int64_t now_ms)
{
    if (gate->state != GATE_RAMPING || now_ms - gate->step_at_ms < GATE_RAMP_STEP_MS) {
        return;
    }
    if (gate->is_answered) {
        gate->allowed *= 2;
    }
    gate->is_answered = false;
    gate->begun = 0;
    gate->step_at_ms = now_ms;
    if (gate->allowed > GATE_RAMP_FULL) {
        *gate = (struct gate){.state = GATE_OPEN};
    }
}

int64_t gate_wait_ms(struct gate *gate, int64_t now_ms)
{
    roll_steps(gate, now_ms);
    switch (gate->state) {
    case GATE_SHUT:
        if (gate->until_ms > now_ms) {
            return gate->until_ms - now_ms;
        }
        return gate->is_probing ? GATE_PROBE_WAIT_MS : 0;
    case GATE_RAMPING:
        if (gate->under_way < gate->allowed && gate->begun < gate->allowed) {
            return 0;
        }
        return larger(gate->step_at_ms + GATE_RAMP_STEP_MS - now_ms, 1);
    case GATE_OPEN:
    default:
        return 0;
    }
}

enum gate_pass gate_enter(struct gate *gate, int64_t now_ms)
{
    roll_steps(gate, now_ms);
    if (gate->state == GATE_SHUT) {
        gate->is_probing = true;
        return GATE_PASS_PROBE;
    }
    if (gate->state == GATE_RAMPING) {
        gate->under_way++;
        gate->begun++;
        return GATE_PASS_RAMP;
    }
    return GATE_PASS_OPEN;
}

enum gate_pass gate_force(struct gate *gate)
{
    return gate->state == GATE_SHUT ? GATE_PASS_FORCED : GATE_PASS_OPEN;
}

static void begin_ramp(struct gate *gate, int64_t now_ms)
{
    *gate = (struct gate){.state = GATE_RAMPING, .allowed = 1, .step_at_ms = now_ms};
}

void gate_leave(struct gate *gate, enum gate_pass pass, enum gate_result result, int64_t now_ms)
{
    bool is_trial = pass == GATE_PASS_PROBE || pass == GATE_PASS_FORCED;

    if (pass == GATE_PASS_PROBE) {
        gate->is_probing = false;
    }
    if (pass == GATE_PASS_RAMP && gate->under_way > 0) {
        gate->under_way--;
    }
    if (is_trial && result == GATE_ANSWERED && gate->state == GATE_SHUT) {
        begin_ramp(gate, now_ms);
    } else if (pass == GATE_PASS_RAMP && gate->state == GATE_RAMPING) {
        gate->is_answered = gate->is_answered || result == GATE_ANSWERED;
        if (result == GATE_FAILED && gate->allowed > 1) {
            gate->allowed /= 2;
        }
    }
}

void gate_hold(struct gate *gate, int64_t now_ms, int64_t hold_ms)
{
    int64_t until_ms = now_ms + (hold_ms < GATE_HOLD_MAX_MS ? hold_ms : GATE_HOLD_MAX_MS);

    if (hold_ms <= 0) {
        return;
    }
    if (gate->state != GATE_SHUT) {
        *gate = (struct gate){.state = GATE_SHUT, .until_ms = until_ms};
    }
    gate->until_ms = larger(gate->until_ms, until_ms);
}
