/* SPDX-License-Identifier: MIT
 *
 * near -- which known word somebody may have meant by one that does not exist. The distance is
 * Levenshtein's: letters put in, left out or changed.
 */
#ifndef BASE_NEAR_H
#define BASE_NEAR_H

#include "base/span.h"

/* Zeroed but for `word`; then each known word is offered, and `name` is the nearest; NULL: none is near. */
struct near {
    struct span word;
    const char *name;
    size_t away;
};

void near_offer(struct near *near, const char *known);

#endif
