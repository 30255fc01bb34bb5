/* SPDX-License-Identifier: MIT
 *
 * sqlite_rig -- one database in the test's folder, and batches that are told apart by a number, for
 * the tests of the SQLite store.
 */
#ifndef SQLITE_RIG_H
#define SQLITE_RIG_H

#include "harness.h"
#include "store/store.h"

#define RIG_SPEC       "sqlite:test.db"
#define RIG_PATH       "test.db"
#define RIG_NOW_MS     INT64_C(1800000000000)
#define RIG_BATCH      3
#define RIG_BODY_BYTES 3000
#define RIG_KEY_BYTES  32
#define RIG_ARENA_MAX  ((size_t)64 << 20)

struct rig_batch {
    struct op ops[RIG_BATCH];
    struct op *list[RIG_BATCH];
    char keys[RIG_BATCH][RIG_KEY_BYTES];
};

extern const struct store_keep rig_keep;
extern char rig_body[RIG_BODY_BYTES];

void rig_init(void); /* fills the body */
struct store *rig_open(void);
struct task_id rig_id(int number, int i); /* of a task of that batch */
void rig_prepare(struct rig_batch *batch, int number);
int rig_record(struct store *store, int number);                                 /* the fault */
struct record rig_read(struct store *store, struct task_id id, bool *ret_found); /* no spans */
bool rig_has(struct store *store, int number); /* all of a batch, or nothing of it (I7) */

#endif
