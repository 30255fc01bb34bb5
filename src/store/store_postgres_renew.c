/* SPDX-License-Identifier: MIT
 *
 * store_postgres_renew -- other rows for records whose own are taken. A node that stood still may
 * have lost its slot to another one without knowing it yet: until its next beat both make ids of the
 * same numbers. The life that is there stays as it is, the one that comes later gets a row of those
 * that SQL functions give out, and its caller hears of nothing. A row with the same tail is no other
 * task but the record itself, which is there already. An import brings the ids that its tasks have
 * always had. Neither is replaced.
 */
#include "store/store_postgres_internal.h"

static void ask(struct sheet *rows, const struct op *op)
{
    if (op != NULL && op->kind == OP_RECORD) {
        sheet_row(rows);
        sheet_int(rows, op->task.id.row);
        sheet_int(rows, (int64_t)op->task.id.tail);
    }
}

static size_t replace(struct op *op, struct cell cell)
{
    if (op == NULL || op->kind != OP_RECORD || op->task.id.row != cell_int(cell, 0)) {
        return 0;
    }
    op->task.id.row = cell_int(cell, 1);
    return 1;
}

int renew_rows(struct writer *writer, struct op *ops[], size_t count, size_t *ret_renewed,
               struct error *err)
{
    struct sheet rows = {0};
    struct step step = {.statement = STATEMENT_ROWS_RENEW, .sheet = &rows};
    size_t renewed = 0;

    for (size_t i = 0; i < count; i++) {
        ask(&rows, ops[i]);
        ask(&rows, ops[i]->spawn);
    }
    int failed = rows.rows > 0 ? link_run(&writer->link, &step, 1, err) : 0;
    for (int i = 0; failed == 0 && rows.rows > 0 && i < PQntuples(step.result); i++) {
        struct cell cell = {step.result, i};
        for (size_t at = 0; at < count; at++) {
            renewed += replace(ops[at], cell);
            renewed += replace(ops[at]->spawn, cell);
        }
    }
    steps_clear(&step, 1);
    sheet_done(&rows);
    if (failed == 0) {
        *ret_renewed = renewed;
    }
    return failed;
}
