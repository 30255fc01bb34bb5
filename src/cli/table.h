/* SPDX-License-Identifier: MIT
 *
 * table -- rows and columns for people. Columns are as wide as what is in them, in cells of the
 * terminal; where a terminal is too narrow, columns at the right are left out, and those that are left and
 * may be cut are, the widest first: what is needed most stands first. What is not a terminal gets every
 * cell whole.
 *
 * A long table is printed in parts: table_print shows the rows since the last time and forgets
 * them, once there are enough of them to know how wide the columns are, and table_end the last ones. Columns
 * only ever grow, so that the parts stay below each other.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "cli/screen.h"

#define TABLE_COLUMNS_MAX 16
#define TABLE_BYTES_MAX   (64u << 20) /* of the rows that are not printed yet */
#define TABLE_CUT_MIN     8          /* no column is cut below so many cells, nor below its title */
#define TABLE_HELD_ROWS   200        /* that are looked at before the first is printed, */
#define TABLE_HELD_BYTES  (8u << 20) /* unless they have more bytes */

struct table_column {
    const char *title;
    bool is_number;   /* stands at the right */
    bool is_flexible; /* may be cut */
    size_t least;     /* cells it is not cut below; 0: TABLE_CUT_MIN */
};

struct table; /* opaque */

/* NULL: out of memory. The columns live as long as the table. */
struct table *table_new(const struct screen *screen, const struct table_column *columns,
                        size_t count);
void table_free(struct table *table); /* NULL is fine */

/* The next cell: rows are filled from left to right. The text is copied. */
void table_add(struct table *table, struct span text);
void table_add_coloured(struct table *table, struct span text, enum screen_colour colour);
void table_add_number(struct table *table, int64_t number);

/* After a page. 0, FAULT_MEMORY or FAULT_LIMIT: some cells had no room, and nothing was printed. */
int table_print(struct table *table) __attribute__((warn_unused_result));

/* The same for all that is left. The titles stand before the first row; without rows, nothing does. */
int table_end(struct table *table) __attribute__((warn_unused_result));

#endif
