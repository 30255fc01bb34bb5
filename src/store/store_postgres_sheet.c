/* SPDX-License-Identifier: MIT
 *
 * store_postgres_sheet -- the parameters of a statement, in PostgreSQL's binary form: no byte from
 * outside ever becomes part of a statement's text, and any byte can be stored.
 *
 * An array is: dimensions, has-nulls, type, length, lower bound (four bytes each, highest byte
 * first); then for each value its length (-1: NULL) and its bytes. The first three and the length
 * are known only at the end, so their room is kept at the front.
 */
#include "store/store_postgres_internal.h"

#define ARRAY_HEAD_BYTES 20
#define TYPE_BYTEA       17
#define TYPE_INT8        20
#define TYPE_INT8_ARRAY  1016

static void put_bytes(unsigned char *to, uint64_t value, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        to[i] = (unsigned char)value;
        value >>= 8;
    }
}

static void add(struct sheet *sheet, struct column *column, const void *bytes, size_t len)
{
    int failed = buf_add(&column->bytes, (struct span){.at = bytes, .len = len});

    sheet->fault = sheet->fault != 0 ? sheet->fault : failed;
}

static void add_number(struct sheet *sheet, struct column *column, uint64_t value, int count)
{
    unsigned char bytes[8];

    put_bytes(bytes, value, count);
    add(sheet, column, bytes, (size_t)count);
}

/* The column that the next value belongs to, with room for its head. */
static struct column *next_column(struct sheet *sheet, uint32_t type)
{
    static const char head[ARRAY_HEAD_BYTES];
    struct column *column = &sheet->columns[sheet->at++];

    if (column->type == 0) {
        buf_init(&column->bytes, SHEET_BYTES_MAX);
    }
    if (column->bytes.len == 0 && !sheet->is_plain) {
        add(sheet, column, head, sizeof head);
    }
    column->type = type;
    column->count++;
    return column;
}

void sheet_row(struct sheet *sheet)
{
    sheet->at = 0;
    sheet->rows++;
}

void sheet_int(struct sheet *sheet, int64_t value)
{
    struct column *column = next_column(sheet, TYPE_INT8);

    if (!sheet->is_plain) {
        add_number(sheet, column, 8, 4);
    }
    add_number(sheet, column, (uint64_t)value, 8);
}

static void put_null(struct sheet *sheet, uint32_t type)
{
    struct column *column = next_column(sheet, type);

    column->has_null = true;
    if (!sheet->is_plain) {
        add_number(sheet, column, UINT32_MAX, 4);
    }
}

void sheet_int_or_null(struct sheet *sheet, int64_t value)
{
    if (value == 0) {
        put_null(sheet, TYPE_INT8);
    } else {
        sheet_int(sheet, value);
    }
}

void sheet_bytes(struct sheet *sheet, struct span value)
{
    struct column *column = next_column(sheet, TYPE_BYTEA);

    if (!sheet->is_plain) {
        add_number(sheet, column, value.len, 4);
    }
    if (value.len > 0) {
        add(sheet, column, value.at, value.len);
    }
}

void sheet_null_bytes(struct sheet *sheet)
{
    put_null(sheet, TYPE_BYTEA);
}

static void fill_head(struct column *column)
{
    unsigned char *head = (unsigned char *)column->bytes.at;

    put_bytes(head, 1, 4);
    put_bytes(head + 4, column->has_null, 4);
    put_bytes(head + 8, column->type, 4);
    put_bytes(head + 12, (uint64_t)column->count, 4);
    put_bytes(head + 16, 1, 4);
}

void sheet_ids(struct sheet *sheet, const int64_t *rows, size_t count)
{
    struct column *column = next_column(sheet, TYPE_INT8_ARRAY);

    add_number(sheet, column, count > 0, 4); /* no dimension when it is empty */
    add_number(sheet, column, 0, 4);
    add_number(sheet, column, TYPE_INT8, 4);
    if (count > 0) {
        add_number(sheet, column, count, 4);
        add_number(sheet, column, 1, 4);
    }
    for (size_t i = 0; i < count; i++) {
        add_number(sheet, column, 8, 4);
        add_number(sheet, column, (uint64_t)rows[i], 8);
    }
}

int sheet_parameters(struct sheet *sheet, const char *ret_values[], int ret_lengths[])
{
    if (sheet->fault != 0) {
        return sheet->fault;
    }
    for (size_t i = 0; i < sheet->at; i++) {
        struct column *column = &sheet->columns[i];
        if (!sheet->is_plain) {
            fill_head(column);
        }
        bool is_null = sheet->is_plain && column->has_null;
        ret_values[i] = is_null ? NULL : column->bytes.len > 0 ? column->bytes.at : "";
        ret_lengths[i] = (int)column->bytes.len;
    }
    return 0;
}

void sheet_clear(struct sheet *sheet)
{
    for (size_t i = 0; i < SHEET_COLUMNS_MAX; i++) {
        buf_clear(&sheet->columns[i].bytes);
        sheet->columns[i].count = 0;
        sheet->columns[i].has_null = false;
    }
    sheet->at = sheet->rows = 0;
    sheet->fault = 0;
}

void sheet_done(struct sheet *sheet)
{
    for (size_t i = 0; i < SHEET_COLUMNS_MAX; i++) {
        buf_done(&sheet->columns[i].bytes);
    }
    *sheet = (struct sheet){0};
}
