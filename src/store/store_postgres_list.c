/* SPDX-License-Identifier: MIT
 *
 * store_postgres_list -- pages and walks. Each page is a statement of its own, so that no snapshot
 * stays open for longer than a page takes: an open snapshot keeps the server from cleaning up.
 */
#include "store/page.h"
#include "store/store_postgres_read.h"

#define WALK_ROWS 2000

/* --- pages ----------------------------------------------------------------------------------------- */

static void ask_page(struct sheet *sheet, const struct store_filter *filter, struct span label)
{
    sheet_row(sheet);
    sheet_int(sheet, filter->after_row);
    sheet_int(sheet, STORE_LIST_SCAN_MAX);
    sheet_int(sheet, (int32_t)filter->queue);
    sheet_int(sheet, filter->states);
    sheet_int(sheet, filter->flags);
    sheet_int(sheet, filter->failed_class);
    sheet_int(sheet, filter->failed_from_ms);
    sheet_int(sheet, filter->failed_until_ms);
    sheet_int(sheet, filter->deadline_until_ms);
    sheet_int(sheet, (int64_t)filter->limit);
    if (label.len > 0) {
        sheet_bytes(sheet, label);
    }
}

/* The newest attempt of each that the page shows. */
static int add_latest(struct store_postgres *postgres, const PGresult *shown, struct page *page,
                      struct error *err)
{
    struct sheet ids = {0};
    struct step step = {.statement = STATEMENT_TRAIL_READ, .sheet = &ids};
    int row = 0;

    if (page->count == 0) {
        return 0;
    }
    for (const struct page_line *line = page->first; line != NULL; line = line->next) {
        sheet_row(&ids);
        sheet_int(&ids, line->record.task.id.row);
    }
    int failed = link_read(&postgres->reader, &step, 1, err);
    for (struct page_line *line = page->first; line != NULL && failed == 0; line = line->next) {
        failed = postgres_trail((struct cell){shown, row++}, step.result, page->arena, READ_LATEST,
                                &line->record, err);
    }
    steps_clear(&step, 1);
    sheet_done(&ids);
    return failed;
}

static int fill_page(struct store_postgres *postgres, const struct store_filter *filter,
                     struct page *page, struct step *steps, size_t count, struct error *err)
{
    int failed = link_read(&postgres->reader, steps, count, err);
    int rows = failed == 0 ? PQntuples(steps[0].result) : 0;

    for (int i = 0; i < rows && failed == 0; i++) {
        struct life_row life;
        struct record *record = page_add(page);
        failed = record == NULL ? fail(err, FAULT_MEMORY, "no memory for a page")
                                : postgres_record((struct cell){steps[0].result, i}, page->arena,
                                                  record, &life, err);
    }
    if (failed == 0 && (filter->wants & READ_LATEST) != 0) {
        failed = add_latest(postgres, steps[0].result, page, err);
    }
    return failed;
}

/* Where the page ended: at its last record when it is full, else where it stopped looking. 0: there
 * is nothing behind. */
static int find_next(struct store_postgres *postgres, const struct store_filter *filter,
                     const struct page *page, const struct step steps[2], int64_t *ret_next,
                     struct error *err)
{
    bool is_full = page->count > 0 && page->count == filter->limit;
    bool is_cut = PQntuples(steps[1].result) > 0;
    struct sheet sheet = {.is_plain = true};
    struct step step = {.statement = STATEMENT_LIST_END, .sheet = &sheet};

    *ret_next = 0;
    if (!is_full && !is_cut) {
        return 0;
    }
    int64_t last =
        is_full ? page->last->record.task.id.row : cell_int((struct cell){steps[1].result, 0}, 0);
    sheet_row(&sheet);
    sheet_int(&sheet, last);
    sheet_int(&sheet, 0);
    int failed = link_read(&postgres->reader, &step, 1, err);
    if (failed == 0 && PQntuples(step.result) > 0) {
        *ret_next = last;
    }
    steps_clear(&step, 1);
    sheet_done(&sheet);
    return failed;
}

static int list_page(struct store_postgres *postgres, const struct store_filter *filter,
                     struct span label, struct page *page, int64_t *ret_next, struct error *err)
{
    struct sheet list = {.is_plain = true}, end = {.is_plain = true};
    struct step steps[] = {
        {.statement = label.len > 0 ? STATEMENT_LIST_LABEL : STATEMENT_LIST, .sheet = &list},
        {.statement = STATEMENT_LIST_END, .sheet = &end}};

    ask_page(&list, filter, label);
    sheet_row(&end);
    sheet_int(&end, filter->after_row);
    sheet_int(&end, STORE_LIST_SCAN_MAX - 1);
    int failed = fill_page(postgres, filter, page, steps, 2, err);
    failed = failed != 0 ? failed : find_next(postgres, filter, page, steps, ret_next, err);
    steps_clear(steps, 2);
    sheet_done(&list);
    sheet_done(&end);
    return failed;
}

/* Waiting, past their deadlines, and nothing else is asked: there is a shorter way. */
static bool is_overdue_only(const struct store_filter *filter)
{
    return filter->states == 1u << TASK_WAITING && filter->deadline_until_ms != 0 &&
           filter->queue == 0 && filter->flags == 0 && filter->failed_class == 0 &&
           filter->failed_from_ms == 0 && filter->failed_until_ms == 0 &&
           filter->label_name.len == 0 && filter->wants == 0;
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
    int failed = fill_page(postgres, filter, page, &step, 1, err);
    bool is_full = page->count > 0 && page->count == filter->limit;
    *ret_next = is_full ? page->last->record.task.id.row : 0;
    steps_clear(&step, 1);
    sheet_done(&sheet);
    return failed;
}

int postgres_list(struct store *store, const struct store_filter *filter, struct arena *arena,
                  store_record_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    struct page page = {.arena = arena};
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
                          .state = (enum task_state)cell_int(cell, 6)};
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
