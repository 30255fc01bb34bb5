/* SPDX-License-Identifier: MIT
 *
 * near -- see near.h.
 */
#include "base/near.h"

#define DISTANCE_MAX 2
#define WORD_MAX     32 /* longer ones are not compared */

static size_t least(size_t one, size_t other)
{
    return one < other ? one : other;
}

static size_t distance(struct span one, struct span other)
{
    size_t row[WORD_MAX + 1];

    if (one.len > WORD_MAX || other.len > WORD_MAX) {
        return WORD_MAX;
    }
    for (size_t i = 0; i <= other.len; i++) {
        row[i] = i;
    }
    for (size_t i = 0; i < one.len; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < other.len; k++) {
            size_t changed = diagonal + (one.at[i] != other.at[k]);
            diagonal = row[k + 1];
            row[k + 1] = least(changed, least(diagonal, row[k]) + 1);
        }
    }
    return row[other.len];
}

/* A short word is near everything, so at most half of it may differ. */
void near_offer(struct near *near, const char *known)
{
    size_t away = distance(near->word, span_of(known));
    size_t best = near->name != NULL ? near->away : DISTANCE_MAX + 1;

    if (away < best && away * 2 <= span_of(known).len) {
        near->away = away;
        near->name = known;
    }
}
