/* SPDX-License-Identifier: MIT
 *
 * dice -- where chance comes from. A seeded one repeats its rolls bit for bit on every machine, so
 * a schedule can be replayed; NULL, wherever a dice is asked for, is the thread's own, seeded from
 * the system and different in each forked child. Not for secrets.
 *
 * A dice belongs to one thread at a time.
 */
#ifndef DARUMA_DICE_H
#define DARUMA_DICE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct daruma_dice {
    uint64_t state;
    /* Replaces the built-in generator when set: 64 uniform bits. */
    uint64_t (*roll)(struct daruma_dice *dice);
};

struct daruma_dice daruma_dice_seed(uint64_t seed);
uint64_t daruma_dice_roll(struct daruma_dice *dice); /* NULL: the thread's own */

#ifdef __cplusplus
}
#endif
#endif
