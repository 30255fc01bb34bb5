/* SPDX-License-Identifier: MIT
 *
 * store_postgres_list -- pages and walks. Each page is one statement, so that no snapshot stays open
 * for longer than a page takes: an open snapshot keeps the server from cleaning up. All that a page tells
 * comes from that statement, and so from one moment: what it shows, the attempts, and where it ends. Peers
 * purge meanwhile, and rows that are gone must not move the end of a page over rows that it has not seen.
 */
#include "store/page.h"
#include "store/store_postgres_read.h"

#define WALK_ROWS 2000

/* --- pages ----------------------------------------------------------------------------------------- */

static int64_t bytes_max(const struct store_filter *filter)
{
    bool is_bounded = filter->bytes_max != 0 && filter->bytes_max < INT64_MAX;

    return is_bounded ? (int64_t)filter->bytes_max : INT64_MAX;
}

/* Does the filter ask for what only the requests tell? */
static bool looks_into(const struct store_filter *filter)
{
    return filter->label_name.len > 0 || filter->key.len > 0 || filter->scope.len > 0;
}

static void ask_page(struct sheet *sheet, const struct store_filter *filter, struct span label)
{
    sheet_row(sheet);
    sheet_int(sheet, filter->after_row);
    sheet_int(sheet, (int64_t)page_scan_max(filter->scan_max));
    sheet_int(sheet, (int32_t)filter->queue);
    sheet_int(sheet, filter->states);
    sheet_int(sheet, filter->flags);
    sheet_int(sheet, filter->failed_class);
    sheet_int(sheet, filter->failed_from_ms);
    sheet_int(sheet, filter->failed_until_ms);
    sheet_int(sheet, filter->deadline_until_ms);
    sheet_int(sheet, (int64_t)filter->limit);
    sheet_int(sheet, (filter->wants & READ_LATEST) != 0);
    sheet_int(sheet, bytes_max(filter));
    sheet_int(sheet, filter->queues != NULL);
    sheet_ids(sheet, filter->queues, filter->queue_count);
    if (looks_into(filter)) {
        sheet_bytes(sheet, label);
        sheet_bytes(sheet, filter->key);
        sheet_bytes(sheet, filter->scope);
    }
}

/* One row of it; one without a task only tells where the page ends. */
static int fill_line(struct cell cell, const struct store_filter *filter, struct page *page,
                     struct error *err)
{
    struct life_row life;

    if (cell_is_null(cell, 0)) {
        return 0;
    }
    struct record *record = page_add(page);
    int failed = record == NULL ? fail(err, FAULT_MEMORY, "no memory for a page")
                                : postgres_record(cell, page->arena, record, &life, err);
    if (failed == 0 && (filter->wants & READ_LATEST) != 0) {
        failed = postgres_latest(cell, page->arena, record, err);
    }
    return failed;
}

static int fill_page(struct store_postgres *postgres, const struct store_filter *filter,
                     struct page *page, struct step *step, int64_t *ret_next, struct error *err)
{
    int failed = link_read(&postgres->reader, step, 1, err);
    int rows = failed == 0 ? PQntuples(step->result) : 0;

    *ret_next = 0;
    for (int i = 0; i < rows && failed == 0; i++) {
        struct cell cell = {step->result, i};
        failed = fill_line(cell, filter, page, err);
        *ret_next = cell_int(cell, COLUMN_NEXT);
        if (failed == 0 && i + 1 < rows && page_is_full(page, filter)) {
            *ret_next = page->last->record.task.id.row;
            break; /* what the server has counted is less than what it came to here */
        }
    }
    return failed;
}

static int list_page(struct store_postgres *postgres, const struct store_filter *filter,
                     struct span label, struct page *page, int64_t *ret_next, struct error *err)
{
    struct sheet sheet = {.is_plain = true};
    struct step step = {.statement = looks_into(filter) ? STATEMENT_LIST_TASK : STATEMENT_LIST,
                        .sheet = &sheet};

    ask_page(&sheet, filter, label);
    int failed = fill_page(postgres, filter, page, &step, ret_next, err);
    steps_clear(&step, 1);
    sheet_done(&sheet);
    return failed;
}

/* Waiting, past their deadlines, and nothing else is asked: there is a shorter way. */
static bool is_overdue_only(const struct store_filter *filter)
{
    return filter->states == 1u << TASK_WAITING && filter->deadline_until_ms != 0 &&
           filter->queue == 0 && filter->flags == 0 && filter->failed_class == 0 &&
           filter->failed_from_ms == 0 && filter->failed_until_ms == 0 && filter->queues == NULL &&
           !looks_into(filter) && filter->wants == 0;
}

static int list_overdue(struct store_postgres *postgres, const struct store_filter *filter,
                        struct page *page, int64_t *ret_next, struct error *err)
{
    struct sheet sheet = {.is_plain = true};
    struct step step = {.statement = STATEMENT_LIST_OVERDUE, .sheet = &sheet};

    sheet_row(&sheet);
    sheet_int(&sheet, filter->deadline_from_ms);
    sheet_int(&sheet, filter->deadline_until_ms);
    sheet_int(&sheet, filter->after_row);
    sheet_int(&sheet, (int64_t)filter->limit);
    sheet_int(&sheet, bytes_max(filter));
    int failed = fill_page(postgres, filter, page, &step, ret_next, err);
    steps_clear(&step, 1);
    sheet_done(&sheet);
    return failed;
}

int postgres_list(struct store *store, const struct store_filter *filter, struct arena *arena,
                  store_record_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    struct page page = page_begin(arena);
    struct span label = {0};
    int64_t next = 0;

    if (filter->label_name.len > 0) {
        label = arena_printf(arena, "\n%.*s: %.*s\n", SPAN_ARGS(filter->label_name),
                             SPAN_ARGS(filter->label_value));
        if (label.at == NULL) {
            return fail(err, FAULT_MEMORY, "no memory for a page");
        }
    }
    struct store_postgres *postgres = (struct store_postgres *)store;
    int failed = is_overdue_only(filter) ? list_overdue(postgres, filter, &page, &next, err)
                                         : list_page(postgres, filter, label, &page, &next, err);
    if (failed != 0) {
        return failed;
    }
    int stopped = page_show(&page, visit, user);
    if (stopped == 0) {
        *ret_next = next;
    }
    return stopped;
}

/* --- walks ----------------------------------------------------------------------------------------- */

static struct brief brief_of(struct cell cell)
{
    return (struct brief){.row = cell_int(cell, 3),
                          .due_at_ms = cell_int(cell, 2),
                          .epoch = (uint64_t)cell_int(cell, 4),
                          .queue = (uint32_t)cell_int(cell, 0),
                          .flags = (uint32_t)cell_int(cell, 5),
                          .state = (enum task_state)cell_int(cell, 6),
                          .failed_at_ms = cell_int(cell, 7)};
}

static int show_walk(const PGresult *result, store_brief_fn visit, void *user)
{
    int stopped = 0;

    for (int i = 0; i < PQntuples(result) && stopped == 0; i++) {
        struct brief brief = brief_of((struct cell){result, i});
        stopped = visit(user, &brief);
    }
    return stopped;
}

int postgres_due(struct store *store, int64_t from_ms, int64_t until_ms, store_brief_fn visit,
                 void *user, struct error *err)
{
    struct store_postgres *postgres = (struct store_postgres *)store;
    int64_t after[] = {INT32_MIN, -1, INT64_MIN, 0};
    int rows = WALK_ROWS, stopped = 0;

    while (rows == WALK_ROWS && stopped == 0) {
        struct sheet sheet = {.is_plain = true};
        struct step step = {.statement = STATEMENT_DUE, .sheet = &sheet};
        sheet_row(&sheet);
        sheet_int(&sheet, from_ms);
        sheet_int(&sheet, until_ms);
        for (size_t i = 0; i < 4; i++) {
            sheet_int(&sheet, after[i]);
        }
        sheet_int(&sheet, WALK_ROWS);
        stopped = link_read(&postgres->reader, &step, 1, err);
        rows = stopped == 0 ? PQntuples(step.result) : 0;
        for (int i = 0; rows > 0 && i < 4; i++) {
            after[i] = cell_int((struct cell){step.result, rows - 1}, i);
        }
        stopped = stopped != 0 ? stopped : show_walk(step.result, visit, user);
        steps_clear(&step, 1);
        sheet_done(&sheet);
    }
    return stopped;
}

int postgres_scan(struct store *store, store_brief_fn visit, void *user, struct error *err)
{
    struct store_postgres *postgres = (struct store_postgres *)store;
    int64_t after = 0;
    int rows = WALK_ROWS, stopped = 0;

    while (rows == WALK_ROWS && stopped == 0) {
        struct sheet sheet = {.is_plain = true};
        struct step step = {.statement = STATEMENT_SCAN, .sheet = &sheet};
        sheet_row(&sheet);
        sheet_int(&sheet, after);
        sheet_int(&sheet, WALK_ROWS);
        stopped = link_read(&postgres->reader, &step, 1, err);
        rows = stopped == 0 ? PQntuples(step.result) : 0;
        after = rows > 0 ? cell_int((struct cell){step.result, rows - 1}, 3) : after;
        stopped = stopped != 0 ? stopped : show_walk(step.result, visit, user);
        steps_clear(&step, 1);
        sheet_done(&sheet);
    }
    return stopped;
}
