/* SPDX-License-Identifier: MIT
 *
 * id -- the name of a task: a UUIDv7 outside, a row number and a random tail inside.
 *
 *   UUIDv7   48 bits milliseconds since 1970 | 7 | 12 bits sequence | 10 | 62 bits tail
 *   row      (milliseconds since 2020) << 12 | sequence
 *
 * So rows are appended in order of creation, the row is found from the UUID without an index, and
 * the tail keeps ids from being guessed.
 */
#ifndef TASK_ID_H
#define TASK_ID_H

#include "base/span.h"

#include <daruma/dice.h>

#define ID_TEXT_LEN 36
#define ID_TAIL_MAX ((UINT64_C(1) << 62) - 1)

#define ID_SLOTS 64

#define ID_ANY_TAIL                                                                                \
    UINT64_MAX /* whoever knows the row from the store itself need not know the tail */

struct task_id {
    int64_t row; /* above 0; 0: no task */
    uint64_t tail;
};

static inline bool id_matches(struct task_id asked, struct task_id found)
{
    return asked.row == found.row && (asked.tail == found.tail || asked.tail == ID_ANY_TAIL);
}

/* Makes ids that only grow, also when the wall clock is set back. */
struct id_maker {
    int64_t last_row;         /* start with the largest row that is stored */
    struct daruma_dice *dice; /* NULL: bits that cannot be guessed. Another one is for tests */
    int64_t slot; /* has_slot: others make ids at the same time; this one has a part of each
                     millisecond's numbers to itself, one of ID_SLOTS */
    bool has_slot;
};

struct task_id id_make(struct id_maker *maker, int64_t wall_ms);

void id_format(struct task_id id, char ret_text[ID_TEXT_LEN + 1]);
bool id_parse(struct span text, struct task_id *ret_id);
int64_t id_created_ms(int64_t row); /* since 1970 */
int64_t id_row_at(int64_t wall_ms); /* the first row of that millisecond */

#endif
