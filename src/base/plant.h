/* SPDX-License-Identifier: MIT
 *
 * plant -- mistakes on purpose. The simulations are worth something only if they find what they are
 * there to find: in their planted builds (-DPLANTED) the mistake that DARUMA_PLANT names is made, and
 * the test must fail. In every other build nothing is left of any of them.
 */
#ifndef BASE_PLANT_H
#define BASE_PLANT_H

#ifdef PLANTED
#include <stdbool.h>
bool plant_is(const char *name); /* tests/planted.c */
#define PLANT_HERE(name) plant_is(#name)
#else
#define PLANT_HERE(name) 0
#endif

/* No do-while around it: a mistake may be a `return` or a `continue`. */
#define PLANT(name, ...)                                                                           \
    if (PLANT_HERE(name)) {                                                                        \
        __VA_ARGS__;                                                                               \
    }

#endif
