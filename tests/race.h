/* SPDX-License-Identifier: MIT
 *
 * race -- another thread at the worst moment, without one. A test includes this and then a file of
 * lib/ itself; each compare-and-swap in it first lets `race_between` happen, once, so that what was
 * loaded has become old. Threads meet there by luck only (test_threads.c); this meets always.
 */
#ifndef RACE_H
#define RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the other thread does; NULL: nothing. */
static void (*race_between)(void);

static inline void race_happens(void)
{
    void (*between)(void) = race_between;

    race_between = NULL;
    if (between != NULL) {
        between();
    }
}

/* The word as the library sees it; both kinds that it swaps have 64 bits. */
static inline bool race_exchange(void *word, void *expected, uint64_t wanted)
{
    race_happens();
    return __atomic_compare_exchange_n((uint64_t *)word, (uint64_t *)expected, wanted, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

#define __atomic_compare_exchange_n(word, expected, wanted, weak, success, failure)                \
    race_exchange((word), (expected), (uint64_t)(wanted))

#endif
