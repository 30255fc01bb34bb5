/* SPDX-License-Identifier: MIT
 *
 * alloc_fail -- counts what a piece of code allocates and refuses the n-th of it, so that a
 * scenario can be run with its first, second, third … allocation failing until it comes through.
 *
 * Works by the linker: the program is linked with -Wl,--wrap=NAME for each of malloc, calloc,
 * realloc, strdup and strndup, and then every call of them from our own objects comes here first,
 * under any sanitizer. Calls inside shared libraries are not seen. All threads are counted.
 */
#ifndef ALLOC_FAIL_H
#define ALLOC_FAIL_H

#include <stdbool.h>
#include <stdint.h>

struct alloc_count {
    uint64_t asked;
    uint64_t refused;
};

/* Counts from here on and refuses the nth allocation, from 1; 0 refuses none. */
void alloc_fail_start(uint64_t nth);
struct alloc_count alloc_fail_stop(void);

/* 0 when it came to its end, anything else when it reported a failure. It starts from nothing and
 * leaves nothing behind, each time. */
typedef int (*alloc_scenario_fn)(void *user);

struct alloc_report {
    uint64_t runs;     /* the last one, in which nothing was refused, included */
    uint64_t reported; /* runs in which the scenario said that it failed */
    uint64_t survived; /* runs in which it did without what was refused */
};

/* Fails allocation 1, 2, 3 … of the scenario until nothing is left to refuse. False when the
 * scenario fails although nothing was refused, or has not come through after runs_max runs. */
bool alloc_fail_drive(alloc_scenario_fn scenario, void *user, uint64_t runs_max,
                      struct alloc_report *ret_report);

#endif
