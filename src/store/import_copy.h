/* SPDX-License-Identifier: MIT
 *
 * import_copy -- for import.c: what a line holds, as an operation of a batch that outlives the line.
 */
#ifndef STORE_IMPORT_COPY_H
#define STORE_IMPORT_COPY_H

#include "store/store.h"

/* Nothing of it but the bodies is longer than any door lets in, which every walk through a store relies on.
 * FAULT_CORRUPT: which part is. */
int import_check_task(const struct record *record, struct error *err)
    __attribute__((warn_unused_result));

/* False: out of memory. */
bool import_copy_task(struct arena *arena, const struct record *record, struct op *ret_op);
bool import_copy_act(struct arena *arena, const struct audit_row *row, struct op *ret_op);

#endif
