/* SPDX-License-Identifier: MIT
 *
 * postgres_rig_ops -- what tests of the PostgreSQL store ask of it: see postgres_rig.h for its server. Each
 * asserts that the store does it.
 */
#ifndef POSTGRES_RIG_OPS_H
#define POSTGRES_RIG_OPS_H

#include "store/store.h"

#define POSTGRES_RIG_QUEUE 3 /* whose tasks they are */

struct store *postgres_rig_open(const char *database, const struct store_keep *keep);
void postgres_rig_apply(struct store *store, struct op *ops[], size_t count);
enum op_result postgres_rig_apply_one(struct store *store, struct op *op); /* what became of it */

struct op postgres_rig_record_op(int64_t row, int64_t due_ms);
void postgres_rig_record(struct store *store, int64_t row, int64_t due_ms);
/* Of whatever is due. */
struct op postgres_rig_lease_op(const struct store *store, struct arena *arena, uint32_t flags);

#endif
