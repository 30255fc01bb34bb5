/* SPDX-License-Identifier: MIT
 *
 * cells -- what several tables show of a task, the same in each. What a server leaves out is an empty
 * cell.
 */
#ifndef CLI_CELLS_H
#define CLI_CELLS_H

#include "cli/client.h"
#include "cli/table.h"

#define CELLS_WHY_LEAST 24 /* cells of a terminal: less of a reason says nothing */

/* The time since then, in whole seconds: what is shown is a moment old anyway. */
void cells_add_age(struct table *rows, struct span time);

void cells_add_due(struct table *rows, const json_t *task);     /* only while it waits */
void cells_add_tries(struct table *rows, const json_t *task);   /* 2/10 */
void cells_add_request(struct table *rows, const json_t *task); /* POST http://… */
void cells_add_labels(struct table *rows, const json_t *task);  /* a=b c=d */
void cells_add_error(struct table *rows, const json_t *task);   /* transient 503: why */

AUTO_POINTER(struct table, table_free)

#endif
