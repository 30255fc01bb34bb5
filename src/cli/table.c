/* SPDX-License-Identifier: MIT
 *
 * table -- see table.h.
 */
#include "cli/table.h"

#include "base/buf.h"
#include "base/fault.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define GAP         2 /* cells between columns */
#define CELLS_FIRST 256

struct cell {
    size_t from, len; /* in table->text */
    size_t cells;
    enum screen_colour colour;
};

struct table {
    struct screen screen;
    const struct table_column *columns;
    size_t column_count;
    size_t wanted[TABLE_COLUMNS_MAX]; /* cells, so far */
    struct buf text;                  /* of all cells, one behind the other */
    struct cell *cells;
    size_t cell_count, cell_room;
    int failed;
    bool is_begun; /* the titles are printed */
};

struct table *table_new(const struct screen *screen, const struct table_column *columns,
                        size_t count)
{
    struct table *table = calloc(1, sizeof *table);

    assert(count <= TABLE_COLUMNS_MAX);
    if (table == NULL) {
        return NULL;
    }
    table->screen = *screen;
    table->columns = columns;
    table->column_count = count;
    buf_init(&table->text, TABLE_BYTES_MAX);
    for (size_t i = 0; i < count; i++) {
        table->wanted[i] = screen_cells(span_of(columns[i].title));
    }
    return table;
}

void table_free(struct table *table)
{
    if (table != NULL) {
        buf_done(&table->text);
        free(table->cells);
        free(table);
    }
}

/* --- filling ------------------------------------------------------------------------------------ */

static struct cell *cell_new(struct table *table)
{
    if (table->cell_count == table->cell_room) {
        size_t room = table->cell_room == 0 ? CELLS_FIRST : table->cell_room * 2;
        struct cell *grown = realloc(table->cells, room * sizeof *grown);
        if (grown == NULL) {
            return NULL;
        }
        table->cells = grown;
        table->cell_room = room;
    }
    return &table->cells[table->cell_count];
}

void table_add_coloured(struct table *table, struct span text, enum screen_colour colour)
{
    struct cell *cell = cell_new(table);
    size_t from = table->text.len;

    if (cell == NULL || table->failed != 0) {
        table->failed = table->failed != 0 ? table->failed : FAULT_MEMORY;
        return;
    }
    table->failed = buf_add(&table->text, text);
    if (table->failed != 0) {
        return;
    }
    *cell =
        (struct cell){.from = from, .len = text.len, .cells = screen_cells(text), .colour = colour};
    size_t *wanted = &table->wanted[table->cell_count % table->column_count];
    *wanted = cell->cells > *wanted ? cell->cells : *wanted;
    table->cell_count++;
}

void table_add(struct table *table, struct span text)
{
    table_add_coloured(table, text, SCREEN_PLAIN);
}

void table_add_number(struct table *table, int64_t number)
{
    char digits[24];

    (void)snprintf(digits, sizeof digits, "%" PRId64, number); /* fits */
    table_add(table, span_of(digits));
}

/* --- printing ----------------------------------------------------------------------------------- */

/* What a column is not cut below. */
static size_t least_of(const struct table *table, size_t column)
{
    const struct table_column *about = &table->columns[column];
    size_t title = screen_cells(span_of(about->title));
    size_t least = about->least > 0 ? about->least : TABLE_CUT_MIN;
    size_t wanted = table->wanted[column];

    least = title > least ? title : least;
    return about->is_flexible && wanted > least ? least : wanted;
}

/* How many columns the terminal has room for, cut as far as they may be. */
static size_t columns_that_fit(const struct table *table)
{
    size_t width = least_of(table, 0), count = 1;

    while (
        count < table->column_count &&
        (table->screen.width == 0 || width + GAP + least_of(table, count) <= table->screen.width)) {
        width += GAP + least_of(table, count);
        count++;
    }
    return count;
}

static size_t width_of(const size_t *widths, size_t count)
{
    size_t width = GAP * (count - 1);

    for (size_t i = 0; i < count; i++) {
        width += widths[i];
    }
    return width;
}

/* The widest of the first columns that can still be cut; their count: none. */
static size_t widest_of(const struct table *table, const size_t *widths, size_t count)
{
    size_t widest = count;

    for (size_t i = 0; i < count; i++) {
        if (widths[i] > least_of(table, i) && (widest == count || widths[i] > widths[widest])) {
            widest = i;
        }
    }
    return widest;
}

/* What the columns get of the terminal's width; how many of them are shown. */
static size_t widths_share(const struct table *table, size_t *ret_widths)
{
    size_t count = columns_that_fit(table);

    memcpy(ret_widths, table->wanted, table->column_count * sizeof *ret_widths);
    if (table->screen.width == 0) {
        return count;
    }
    for (size_t i = 0; i < count; i++) { /* bounds the loop below */
        if (ret_widths[i] > table->screen.width) {
            ret_widths[i] = table->screen.width;
        }
    }
    while (width_of(ret_widths, count) > table->screen.width) {
        size_t widest = widest_of(table, ret_widths, count);
        if (widest == count) {
            break;
        }
        ret_widths[widest]--;
    }
    return count;
}

static void blanks_put(const struct table *table, size_t count)
{
    fprintf(table->screen.out, "%*s", (int)count, "");
}

/* A row that is being printed. */
struct line {
    const struct table *table;
    const size_t *widths;
    size_t column;
    size_t room;    /* cells that are left */
    size_t pending; /* blanks before what comes next: none are left at the end of a line */
};

static void line_put(struct line *line, struct span text, size_t cells, enum screen_colour colour)
{
    const struct table *table = line->table;
    size_t width = line->widths[line->column];

    if (table->columns[line->column].is_number && cells < width) {
        line->pending += width - cells;
    }
    if (cells > 0 && line->pending < line->room) {
        blanks_put(table, line->pending);
        line->room -= line->pending;
        line->pending = 0;
        size_t most = table->screen.width == 0 ? SCREEN_UNCUT
                      : width < line->room     ? width
                                               : line->room;
        size_t put = screen_put_coloured(&table->screen, colour, text, most);
        line->room -= put;
        cells = put;
    } else if (cells > 0) {
        line->room = 0;
    }
    if (!table->columns[line->column].is_number && cells < width) {
        line->pending += width - cells;
    }
    line->pending += GAP;
    line->column++;
}

static struct line line_begin(const struct table *table, const size_t *widths)
{
    return (struct line){.table = table,
                         .widths = widths,
                         .room = table->screen.width == 0 ? SIZE_MAX : table->screen.width};
}

static void titles_print(const struct table *table, const size_t *widths, size_t count)
{
    struct line line = line_begin(table, widths);

    for (size_t i = 0; i < count; i++) {
        struct span title = span_of(table->columns[i].title);
        line_put(&line, title, screen_cells(title), SCREEN_BOLD);
    }
    fprintf(table->screen.out, "\n");
}

int table_print(struct table *table)
{
    bool is_held = !table->is_begun && table->text.len < TABLE_HELD_BYTES &&
                   table->cell_count < TABLE_HELD_ROWS * table->column_count;

    return is_held ? table->failed : table_end(table);
}

int table_end(struct table *table)
{
    size_t widths[TABLE_COLUMNS_MAX];
    struct line line = {0};

    assert(table->cell_count % table->column_count == 0 || table->failed != 0);
    if (table->failed != 0 || table->cell_count == 0) {
        return table->failed;
    }
    size_t count = widths_share(table, widths);
    if (!table->is_begun) {
        titles_print(table, widths, count);
        table->is_begun = true;
    }
    for (size_t i = 0; i < table->cell_count; i++) {
        const struct cell *cell = &table->cells[i];
        if (i % table->column_count == 0) {
            line = line_begin(table, widths);
        }
        struct span text = {.at = table->text.at + cell->from, .len = cell->len};
        if (i % table->column_count < count) {
            line_put(&line, cell->len > 0 ? text : SPAN(""), cell->cells, cell->colour);
        }
        if ((i + 1) % table->column_count == 0) {
            fprintf(table->screen.out, "\n");
        }
    }
    table->cell_count = 0;
    buf_clear(&table->text);
    return 0;
}
