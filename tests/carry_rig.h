/* SPDX-License-Identifier: MIT
 *
 * carry_rig -- for the tests of export and import: a store with something of everything, and both
 * ways in a line.
 */
#ifndef CARRY_RIG_H
#define CARRY_RIG_H

#include "base/buf.h"
#include "harness.h"
#include "store/export.h"
#include "store/import.h"

#define CARRY_TASKS     40
#define CARRY_BYTES_MAX ((size_t)64 << 20)

/* What was said of tasks that have no place. */
struct carry_told {
    uint64_t count, line;
    char text[256];
};

struct store *carry_open(const char *spec); /* fails the test when it cannot */
void carry_apply(struct store *store, struct op op, enum op_result wanted);
void carry_add_queue(struct store *store, const char *name, bool dropped);
struct task_id carry_id(int number);
void carry_fill(struct store *store); /* three queues, CARRY_TASKS tasks, a memo, three acts */

int carry_add_lines(void *user, struct span lines, const struct export_counts *counts);
/* The lines, malloced. ret_counts may be NULL. */
char *carry_export(struct store *store, const struct export_options *options,
                   struct export_counts *ret_counts);
char *carry_export_all(struct store *store);
void carry_tell(void *user, uint64_t line, const char *text);
/* The first `lines_max` lines of them; the fault. */
int carry_import_some(struct store *store, const char *text, size_t lines_max,
                      struct carry_told *told, struct import_counts *ret_counts, struct error *err);
struct import_counts carry_import(struct store *store, const char *text);
struct record carry_read(struct store *store, int number, struct arena *arena);

#endif
