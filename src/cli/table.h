/* SPDX-License-Identifier: MIT
 *
 * table -- rows and columns for people. Columns are as wide as what is in them, in cells of the
 * terminal; where a terminal is too narrow, the columns that may be are cut, the widest first, then
 * what is at the right. What is not a terminal gets every cell whole.
 *
 * A long table is printed in parts: table_print shows the rows since the last time and forgets
 * them. Columns only ever grow, so that the parts stay below each other.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "cli/screen.h"

#define TABLE_COLUMNS_MAX 16
#define TABLE_BYTES_MAX   (64u << 20) /* of the rows that are not printed yet */
#define TABLE_CUT_MIN     8 /* no column is cut below so many cells, nor below its title */

struct table_column {
    const char *title;
    bool is_number;   /* stands at the right */
    bool is_flexible; /* may be cut */
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

/* Prints the titles before the first row; without rows, nothing. 0, FAULT_MEMORY or FAULT_LIMIT:
 * some cells had no room, and nothing was printed. */
int table_print(struct table *table) __attribute__((warn_unused_result));

#endif
