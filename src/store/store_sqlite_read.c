/* SPDX-License-Identifier: MIT
 *
 * store_sqlite_read -- reads on a connection of their own, beside the writer. Each page is a short
 * transaction: one that stays open keeps the log from being reset, however long it gets. Walks go
 * on by cursor, and visitors are called between transactions.
 */
#include "store/page.h"
#include "store/store_sqlite_internal.h"
#include "task/fields.h"

#define BRIEFS_MAX 256    /* of a walk, in one transaction */
#define LIST_ROWS  1000   /* looked at in one transaction */
#define TRAIL_MAX  100000 /* a list that is longer has bitten its own tail */

static sqlite3_stmt *statement_of(struct store_sqlite *sqlite, enum fetch_statement which)
{
    return sqlite->fetch[which];
}

static int run(struct store_sqlite *sqlite, enum fetch_statement which, struct error *err)
{
    struct query query = query_begin(statement_of(sqlite, which));

    return query_run(&query, err);
}

int sqlite_page_begin(struct store_sqlite *sqlite, struct error *err)
{
    sqlite_gate_enter(&sqlite->gate);
    int failed = run(sqlite, FETCH_BEGIN, err);
    if (failed != 0) {
        sqlite_gate_leave(&sqlite->gate);
    }
    return failed;
}

int sqlite_page_end(struct store_sqlite *sqlite, int failed, struct error *err)
{
    int ended = run(sqlite, FETCH_COMMIT, failed == 0 ? err : NULL);

    sqlite_gate_leave(&sqlite->gate);
    return failed != 0 ? failed : ended;
}

/* --- one record ------------------------------------------------------------------------------ */

struct trail_line {
    struct trail_line *next;
    struct trail_row row;
};

/* Where a record is being put together. */
struct assembly {
    struct arena *arena;
    unsigned wants;
    struct record *record;
    struct trail_line *last; /* the attempt that is kept beside the answer */
};

static int read_task_row(struct store_sqlite *sqlite, const struct assembly *to, struct error *err)
{
    struct query query = query_begin(statement_of(sqlite, FETCH_TASK));

    query_int(&query, 1, to->record->task.id.row);
    query_int(&query, 2, (to->wants & READ_BODIES) != 0);
    if (query_row(&query)) {
        query_task(&query, to->arena, &to->record->task);
    } else if (query.code == SQLITE_OK) {
        query.code = SQLITE_CORRUPT; /* a life without a request */
    }
    return query_end(&query, err);
}

static struct trail_line *add_line(struct query *query, int first, struct arena *arena)
{
    struct trail_line *line = arena_alloc(arena, sizeof *line);

    if (line == NULL) {
        query->code = SQLITE_NOMEM;
        return NULL;
    }
    query_trail(query, first, arena, &line->row);
    return line;
}

static int read_answer(struct store_sqlite *sqlite, struct assembly *to, struct error *err)
{
    struct query query = query_begin(statement_of(sqlite, FETCH_ANSWER));
    struct answer *answer = &to->record->answer;

    query_int(&query, 1, to->record->task.id.row);
    query_int(&query, 2, (to->wants & READ_BODIES) != 0);
    if (query_row(&query)) {
        answer->status = (int)sqlite3_column_int64(query.statement, 0);
        if ((to->wants & (READ_TRAIL | READ_LATEST)) != 0 &&
            sqlite3_column_type(query.statement, 1) != SQLITE_NULL) {
            to->last = add_line(&query, 1, to->arena);
        }
        query_span(&query, 11, to->arena, &answer->settled_by);
        query_span(&query, 12, to->arena, &answer->headers);
        query_span(&query, 13, to->arena, &answer->body);
    }
    return query_end(&query, err);
}

static int read_trail_row(struct store_sqlite *sqlite, struct arena *arena, int64_t *trail,
                          struct trail_line **ret_line, struct error *err)
{
    struct query query = query_begin(statement_of(sqlite, FETCH_TRAIL));

    query_int(&query, 1, *trail);
    if (query_row(&query)) {
        *trail = sqlite3_column_int64(query.statement, 0);
        *ret_line = add_line(&query, 1, arena);
    } else if (query.code == SQLITE_OK) {
        query.code = SQLITE_CORRUPT;
    }
    return query_end(&query, err);
}

/* Stored newest first, told oldest first; or the newest only. */
static int read_trail(struct store_sqlite *sqlite, const struct assembly *to, int64_t trail,
                      struct error *err)
{
    struct trail_line *oldest = to->last;
    size_t count = oldest != NULL;
    bool is_whole = (to->wants & READ_TRAIL) != 0;

    for (; trail != 0 && (is_whole || count == 0); count++) {
        struct trail_line *line = NULL;
        int failed = read_trail_row(sqlite, to->arena, &trail, &line, err);
        if (failed != 0) {
            return failed;
        }
        if (count >= TRAIL_MAX) {
            return fail(err, FAULT_CORRUPT, "the trail of a task has no end");
        }
        line->next = oldest;
        oldest = line;
    }
    struct trail_row *rows = arena_alloc(to->arena, count * sizeof *rows);
    if (rows == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a trail of %zu", count);
    }
    to->record->trail = rows;
    to->record->trail_count = count;
    for (; oldest != NULL; oldest = oldest->next) {
        *rows++ = oldest->row;
    }
    return 0;
}

static int read_edit(struct store_sqlite *sqlite, const struct assembly *to, struct error *err)
{
    struct query query = query_begin(statement_of(sqlite, FETCH_EDIT));

    query_int(&query, 1, to->record->task.id.row);
    query_int(&query, 2, (to->wants & READ_BODIES) != 0);
    if (query_row(&query)) {
        query_edit(&query, to->arena, &to->record->edit);
    }
    return query_end(&query, err);
}

/* All but the life, which is known. */
static int read_rest(struct store_sqlite *sqlite, const struct life_row *life, struct assembly *to,
                     struct error *err)
{
    to->record->task.id = life->id;
    to->record->life = life->life;
    to->record->is_bound = life->key_hash != 0;
    int failed = read_task_row(sqlite, to, err);
    failed = failed != 0 ? failed : read_answer(sqlite, to, err);
    if (failed == 0 && (life->life.flags & LIFE_EDITED) != 0) {
        failed = read_edit(sqlite, to, err);
    }
    if (failed == 0 && (to->wants & (READ_TRAIL | READ_LATEST)) != 0) {
        failed = read_trail(sqlite, to, life->trail, err);
    }
    return failed;
}

static int read_life(struct store_sqlite *sqlite, int64_t row, struct life_row *ret_life,
                     struct error *err)
{
    struct query query = query_begin(statement_of(sqlite, FETCH_LIFE));

    query_int(&query, 1, row);
    if (query_row(&query)) {
        query_life(&query, ret_life);
    }
    return query_end(&query, err);
}

int sqlite_read_task(struct store *store, struct task_id id, unsigned wants, struct arena *arena,
                     struct record *ret_record, bool *ret_found, struct error *err)
{
    struct store_sqlite *sqlite = (struct store_sqlite *)store;
    struct record record = {0};
    struct assembly to = {.arena = arena, .wants = wants, .record = &record};
    struct life_row life = {0};

    int failed = sqlite_page_begin(sqlite, err);
    if (failed != 0) {
        return failed;
    }
    failed = read_life(sqlite, id.row, &life, err);
    bool is_found = failed == 0 && life.id.row != 0 && id_matches(id, life.id);
    if (is_found) {
        failed = read_rest(sqlite, &life, &to, err);
    }
    failed = sqlite_page_end(sqlite, failed, err);
    if (failed == 0) {
        *ret_record = record;
        *ret_found = is_found;
    }
    return failed;
}

/* --- lists ----------------------------------------------------------------------------------- */

struct list {
    const struct store_filter *filter;
    struct page page;
    enum fetch_statement statement;
    int64_t state; /* FETCH_LIST_IN */
    int64_t after_row;
    size_t looked, looked_max;
    bool is_over; /* nothing lies behind after_row */
};

/* Nothing is copied of those that lack it: they may be thousands. */
static int look_for_label(struct store_sqlite *sqlite, const struct store_filter *filter,
                          int64_t row, bool *ret_has, struct error *err)
{
    struct query query = query_begin(statement_of(sqlite, FETCH_LABELS));

    query_int(&query, 1, row);
    if (query_row(&query)) {
        *ret_has = fields_has(query_peek(&query, 0), filter->label_name, filter->label_value);
    } else if (query.code == SQLITE_OK) {
        query.code = SQLITE_CORRUPT; /* a life without a request */
    }
    return query_end(&query, err);
}

/* Apart from the labels: those lie behind the headers, which may be long. */
static int look_for_key(struct store_sqlite *sqlite, const struct store_filter *filter, int64_t row,
                        bool *ret_has, struct error *err)
{
    struct query query = query_begin(statement_of(sqlite, FETCH_KEY));

    query_int(&query, 1, row);
    if (query_row(&query)) {
        struct span key = query_peek(&query, 0), scope = query_peek(&query, 1);
        *ret_has = page_wants_key(filter, key, scope);
    } else if (query.code == SQLITE_OK) {
        query.code = SQLITE_CORRUPT; /* a life without a request */
    }
    return query_end(&query, err);
}

static int look_into(struct store_sqlite *sqlite, const struct store_filter *filter, int64_t row,
                     bool *ret_is_wanted, struct error *err)
{
    bool is_wanted = true;
    int failed = 0;

    if (filter->key.len > 0 || filter->scope.len > 0) {
        failed = look_for_key(sqlite, filter, row, &is_wanted, err);
    }
    if (failed == 0 && is_wanted && filter->label_name.len > 0) {
        failed = look_for_label(sqlite, filter, row, &is_wanted, err);
    }
    *ret_is_wanted = is_wanted;
    return failed;
}

static int add_record(struct store_sqlite *sqlite, struct list *list, const struct life_row *life,
                      struct error *err)
{
    struct record record = {0};
    const struct store_filter *filter = list->filter;
    struct assembly to = {.arena = list->page.arena, .wants = filter->wants, .record = &record};
    bool is_wanted;
    int failed = look_into(sqlite, filter, life->id.row, &is_wanted, err);

    failed = failed != 0 || !is_wanted ? failed : read_rest(sqlite, life, &to, err);
    if (failed != 0 || !is_wanted) {
        return failed;
    }
    struct record *line = page_add(&list->page);
    if (line == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for the page of a list");
    }
    *line = record;
    return 0;
}

/* One more than is looked at: it tells whether there is more. */
static int look(struct store_sqlite *sqlite, struct list *list, struct error *err)
{
    struct query query = query_begin(statement_of(sqlite, list->statement));
    size_t left = list->looked_max - list->looked;
    size_t rows = left < LIST_ROWS ? left : LIST_ROWS;
    int failed = 0;

    query_int(&query, 1, list->after_row);
    query_int(&query, 2, (int64_t)rows + 1);
    if (list->statement == FETCH_LIST_IN) {
        query_int(&query, 3, list->state);
    } else if (list->statement == FETCH_LIST_OVERDUE) {
        query_int(&query, 3, list->filter->deadline_until_ms);
    }
    list->is_over = true;
    while (failed == 0 && query_row(&query)) {
        struct life_row life;
        if (rows == 0 || page_is_full(&list->page, list->filter)) {
            list->is_over = false;
            break;
        }
        query_life(&query, &life);
        list->after_row = life.id.row;
        list->looked++;
        rows--;
        if (page_wants(list->filter, life.queue, &life.life)) {
            failed = add_record(sqlite, list, &life, err);
        }
    }
    int ended = query_end(&query, failed == 0 ? err : NULL);
    return failed != 0 ? failed : ended;
}

/* The shortest way to what the filter may want: what is in doubt and what is dead have an index, so
 * have those that are or were dead letters. */
static void choose_statement(struct list *list)
{
    const unsigned doubt = 1u << TASK_UNSETTLED, dead = 1u << TASK_DEAD;
    unsigned states = list->filter->states;

    if (states == 1u << TASK_WAITING && list->filter->deadline_until_ms != 0) {
        list->statement = FETCH_LIST_OVERDUE;
    } else if (states == doubt || states == dead) {
        list->statement = FETCH_LIST_IN;
        list->state = states == doubt ? TASK_UNSETTLED : TASK_DEAD;
    } else if ((states & ~(doubt | dead)) == 0) {
        list->statement = FETCH_LIST_OPEN;
    } else {
        bool is_letter = (list->filter->flags & LIFE_LETTER) != 0;
        list->statement = is_letter ? FETCH_LIST_LETTER : FETCH_LIST;
    }
}

int sqlite_list(struct store *store, const struct store_filter *filter, struct arena *arena,
                store_record_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    struct store_sqlite *sqlite = (struct store_sqlite *)store;
    struct list list = {.filter = filter,
                        .page = page_begin(arena),
                        .after_row = filter->after_row,
                        .looked_max = page_scan_max(filter->scan_max)};

    choose_statement(&list);
    while (!list.is_over && list.looked < list.looked_max && !page_is_full(&list.page, filter)) {
        int failed = sqlite_page_begin(sqlite, err);
        if (failed != 0) {
            return failed;
        }
        failed = sqlite_page_end(sqlite, look(sqlite, &list, err), err);
        if (failed != 0) {
            return failed;
        }
    }
    int stopped = page_show(&list.page, visit, user);
    if (stopped == 0) {
        *ret_next = list.is_over ? 0 : list.after_row;
    }
    return stopped;
}

/* --- walks ----------------------------------------------------------------------------------- */

/* Where a walk is, and what it has just read. */
struct walk {
    enum fetch_statement statement;
    int64_t after_row, slot;
    struct brief briefs[BRIEFS_MAX];
    size_t count;
    struct key_index *keys; /* NULL: keys are not looked at */
};

static void note_key(struct query *query, const struct walk *walk)
{
    uint64_t hash = (uint64_t)sqlite3_column_int64(query->statement, 6);
    int64_t row = sqlite3_column_int64(query->statement, 0);

    if (hash != 0 && key_index_add(walk->keys, hash, row) != 0) {
        query->code = SQLITE_NOMEM;
    }
}

static int read_briefs(struct store_sqlite *sqlite, struct walk *walk, struct error *err)
{
    struct query query = query_begin(statement_of(sqlite, walk->statement));

    walk->count = 0;
    query_int(&query, 1, walk->after_row);
    query_int(&query, 2, BRIEFS_MAX);
    if (walk->statement == FETCH_DUE) {
        query_int(&query, 3, walk->slot);
    }
    while (walk->count < BRIEFS_MAX && query_row(&query)) {
        query_brief(&query, &walk->briefs[walk->count++]);
        if (walk->keys != NULL) {
            note_key(&query, walk);
        }
    }
    if (walk->count > 0) {
        walk->after_row = walk->briefs[walk->count - 1].row;
    }
    return query_end(&query, err);
}

static int next_briefs(struct store_sqlite *sqlite, struct walk *walk, struct error *err)
{
    int failed = sqlite_page_begin(sqlite, err);

    return failed != 0 ? failed : sqlite_page_end(sqlite, read_briefs(sqlite, walk, err), err);
}

static int scan_all(struct store_sqlite *sqlite, struct walk *walk, store_brief_fn visit,
                    void *user, struct error *err)
{
    do {
        int failed = next_briefs(sqlite, walk, err);
        if (failed != 0) {
            return failed;
        }
        for (size_t i = 0; i < walk->count; i++) {
            int stopped = visit(user, &walk->briefs[i]);
            if (stopped != 0) {
                return stopped;
            }
        }
    } while (walk->count == BRIEFS_MAX);
    return 0;
}

/* The first one reads the keys in passing: no other thread is about, so says the contract. */
int sqlite_scan(struct store *store, store_brief_fn visit, void *user, struct error *err)
{
    struct store_sqlite *sqlite = (struct store_sqlite *)store;
    struct walk walk = {.statement = FETCH_SCAN, .keys = sqlite->has_keys ? NULL : &sqlite->keys};
    int stopped = scan_all(sqlite, &walk, visit, user, err);

    if (walk.keys != NULL && stopped != 0) {
        key_index_done(walk.keys); /* half of it is worse than none */
    }
    sqlite->has_keys = sqlite->has_keys || stopped == 0;
    return stopped;
}

/* The first hour from `walk->slot` on in which something waits; false: none. */
static int find_slot(struct store_sqlite *sqlite, struct walk *walk, bool *ret_found,
                     struct error *err)
{
    int failed = sqlite_page_begin(sqlite, err);

    if (failed != 0) {
        return failed;
    }
    struct query query = query_begin(statement_of(sqlite, FETCH_SLOT));
    query_int(&query, 1, walk->slot);
    *ret_found = query_row(&query);
    if (*ret_found) {
        walk->slot = sqlite3_column_int64(query.statement, 0);
        walk->after_row = INT64_MIN;
    }
    return sqlite_page_end(sqlite, query_end(&query, err), err);
}

static int show_slot(struct store *store, struct walk *walk, const int64_t range_ms[2],
                     store_brief_fn visit, void *user, struct error *err)
{
    do {
        int failed = next_briefs((struct store_sqlite *)store, walk, err);
        if (failed != 0) {
            return failed;
        }
        for (size_t i = 0; i < walk->count; i++) {
            int64_t due_at_ms = walk->briefs[i].due_at_ms;
            bool is_inside = due_at_ms >= range_ms[0] && due_at_ms < range_ms[1];
            int stopped = is_inside ? visit(user, &walk->briefs[i]) : 0;
            if (stopped != 0) {
                return stopped;
            }
        }
    } while (walk->count == BRIEFS_MAX);
    return 0;
}

int sqlite_due(struct store *store, int64_t from_ms, int64_t until_ms, store_brief_fn visit,
               void *user, struct error *err)
{
    const int64_t range_ms[2] = {from_ms, until_ms};
    struct walk walk = {.statement = FETCH_DUE, .slot = sqlite_slot(from_ms)};

    for (;; walk.slot++) {
        bool is_found = false;
        int failed = find_slot((struct store_sqlite *)store, &walk, &is_found, err);
        if (failed != 0 || !is_found || walk.slot > sqlite_slot(until_ms)) {
            return failed;
        }
        int stopped = show_slot(store, &walk, range_ms, visit, user, err);
        if (stopped != 0) {
            return stopped;
        }
    }
}
