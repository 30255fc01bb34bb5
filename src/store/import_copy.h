/* SPDX-License-Identifier: MIT
 *
 * import_copy -- for import.c: what a line holds, as an operation of a batch that outlives the line.
 */
#ifndef STORE_IMPORT_COPY_H
#define STORE_IMPORT_COPY_H

#include "store/store.h"

/* False: out of memory. */
bool import_copy_task(struct arena *arena, const struct record *record, struct op *ret_op);
bool import_copy_act(struct arena *arena, const struct audit_row *row, struct op *ret_op);

#endif
