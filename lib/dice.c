/* SPDX-License-Identifier: MIT
 *
 * dice -- splitmix64: one addition and a mixing function, the same on every machine. The thread's
 * own dice mixes the process id into each roll, because a forked child inherits the state and two
 * processes with one schedule are what jitter is there to prevent. Rolls happen when something has
 * failed, never on the success path, so a getpid() each is no cost that matters.
 */
#define _GNU_SOURCE
#include <daruma/dice.h>
#include <daruma/env.h>

#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

static uint64_t mix(uint64_t bits)
{
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

static uint64_t advance(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(*state);
}

static uint64_t entropy(const void *salt)
{
    uint64_t bits = 0;

    if (getentropy(&bits, sizeof bits) != 0) {
        /* No entropy is no reason to fail: time and address differ enough to spread retries. */
        bits = mix((uint64_t)daruma_now_ms()) ^ (uint64_t)(uintptr_t)salt;
    }
    return bits;
}

static uint64_t roll_own(void)
{
    static _Thread_local uint64_t state;
    static _Thread_local bool seeded;

    if (!seeded) {
        state = entropy(&state);
        seeded = true;
    }
    return advance(&state) ^ mix((uint64_t)getpid());
}

struct daruma_dice daruma_dice_seed(uint64_t seed)
{
    return (struct daruma_dice){.state = seed};
}

uint64_t daruma_dice_roll(struct daruma_dice *dice)
{
    if (dice == NULL) {
        return roll_own();
    }
    return dice->roll != NULL ? dice->roll(dice) : advance(&dice->state);
}
