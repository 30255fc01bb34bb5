/* SPDX-License-Identifier: MIT
 *
 * store_sqlite_query -- running statements, and rows to and from structs. Bytes from outside are
 * bound with their length and never become part of a statement.
 */
#include "store/store_sqlite_internal.h"

#define SLOT_MS     INT64_C(3600000)
#define COUNT_BYTES 4
#define RARE_EACH   8
#define RARE_COUNT  (RARE_BYTES / RARE_EACH)

static const char *file_of(sqlite3 *database)
{
    const char *path = database != NULL ? sqlite3_db_filename(database, "main") : NULL;

    return path != NULL ? path : "the database";
}

int sqlite_fault(sqlite3 *database, int code, struct error *err)
{
    bool is_latest = database != NULL && sqlite3_extended_errcode(database) == code;
    const char *text = is_latest ? sqlite3_errmsg(database) : sqlite3_errstr(code);

    switch (code & 0xff) {
    case SQLITE_FULL:
        return fail_inside(err, FAULT_FULL, "sqlite: %s", text);
    case SQLITE_NOMEM:
        return fail(err, FAULT_MEMORY, "sqlite: out of memory");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return fail(err, FAULT_CORRUPT, "%s: sqlite: %s", file_of(database), text);
    case SQLITE_TOOBIG:
        return fail_inside(err, FAULT_LIMIT, "sqlite: %s", text);
    case SQLITE_CONSTRAINT:
        return fail_inside(err, FAULT_INPUT, "sqlite: %s", text);
    default:
        return fail(err, FAULT_IO, "%s: sqlite: %s (%d)", file_of(database), text, code);
    }
}

int sqlite_exec(sqlite3 *database, const char *sql, struct error *err)
{
    int code = sqlite3_exec(database, sql, NULL, NULL, NULL);

    return code == SQLITE_OK ? 0 : sqlite_fault(database, code, err);
}

int sqlite_prepare(sqlite3 *database, const char *const sql[], size_t count, sqlite3_stmt *to[],
                   struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        int code =
            sqlite3_prepare_v3(database, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &to[i], NULL);
        if (code != SQLITE_OK) {
            return sqlite_fault(database, code, err);
        }
    }
    return 0;
}

int64_t sqlite_slot(int64_t due_at_ms)
{
    int64_t slot = due_at_ms / SLOT_MS;

    return due_at_ms % SLOT_MS < 0 ? slot - 1 : slot; /* downwards, also before 1970 */
}

/* --- running --------------------------------------------------------------------------------- */

struct query query_begin(sqlite3_stmt *statement)
{
    return (struct query){.statement = statement};
}

static void note(struct query *query, int code)
{
    if (query->code == SQLITE_OK) {
        query->code = code;
    }
}

void query_int(struct query *query, int at, int64_t value)
{
    note(query, sqlite3_bind_int64(query->statement, at, value));
}

void query_text(struct query *query, int at, struct span value)
{
    note(query, sqlite3_bind_text64(query->statement, at, value.at != NULL ? value.at : "",
                                    value.len, SQLITE_STATIC, SQLITE_UTF8));
}

void query_blob(struct query *query, int at, struct span value)
{
    note(query, sqlite3_bind_blob64(query->statement, at, value.at != NULL ? value.at : "",
                                    value.len, SQLITE_STATIC));
}

bool query_row(struct query *query)
{
    if (query->code != SQLITE_OK) {
        return false;
    }
    int code = sqlite3_step(query->statement);
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        query->code = code;
    }
    return code == SQLITE_ROW;
}

int query_end(struct query *query, struct error *err)
{
    int failed = query->code == SQLITE_OK
                     ? 0
                     : sqlite_fault(sqlite3_db_handle(query->statement), query->code, err);

    (void)sqlite3_reset(query->statement); /* says the same as the step did */
    return failed;
}

int query_run(struct query *query, struct error *err)
{
    (void)query_row(query); /* query_end tells */
    return query_end(query, err);
}

/* --- columns --------------------------------------------------------------------------------- */

static int64_t column_int(const struct query *query, int column)
{
    return sqlite3_column_int64(query->statement, column);
}

struct span query_peek(const struct query *query, int column)
{
    const char *at = sqlite3_column_blob(query->statement, column); /* before its length */

    return (struct span){.at = at, .len = (size_t)sqlite3_column_bytes(query->statement, column)};
}

void query_span(struct query *query, int column, struct arena *arena, struct span *ret_span)
{
    *ret_span = arena_copy(arena, query_peek(query, column));
    if (ret_span->at == NULL) {
        note(query, SQLITE_NOMEM);
    }
}

void query_task(struct query *query, struct arena *arena, struct task *ret_task)
{
    struct span fingerprint = query_peek(query, 3);

    ret_task->queue = (uint32_t)column_int(query, 0);
    query_span(query, 1, arena, &ret_task->scope);
    query_span(query, 2, arena, &ret_task->key);
    if (fingerprint.len == TASK_FINGERPRINT_BYTES) {
        span_copy(ret_task->fingerprint, fingerprint);
    } else {
        note(query, SQLITE_CORRUPT);
    }
    query_span(query, 4, arena, &ret_task->method);
    query_span(query, 5, arena, &ret_task->target);
    query_span(query, 6, arena, &ret_task->headers);
    query_span(query, 7, arena, &ret_task->labels);
    query_span(query, 8, arena, &ret_task->options);
    query_span(query, 9, arena, &ret_task->body);
}

static enum task_state column_state(struct query *query, int column)
{
    int64_t state = column_int(query, column);

    if (state < 0 || state >= TASK_STATE_COUNT) {
        note(query, SQLITE_CORRUPT);
        return TASK_WAITING;
    }
    return (enum task_state)state;
}

/* Lowest byte first; classes that came later than the row are 0. */
static void read_counts(struct span bytes, uint32_t ret_counts[DARUMA_CLASS_COUNT])
{
    for (size_t i = 0; i < DARUMA_CLASS_COUNT * COUNT_BYTES && i < bytes.len; i++) {
        ret_counts[i / COUNT_BYTES] |= (uint32_t)(unsigned char)bytes.at[i]
                                       << 8 * (i % COUNT_BYTES);
    }
}

/* Eight bytes each, in this order; fields that came later than the row are 0. */
static void read_rare(struct span bytes, struct life *ret_life)
{
    uint64_t values[RARE_COUNT] = {0};

    for (size_t i = 0; i < RARE_BYTES && i < bytes.len; i++) {
        values[i / RARE_EACH] |= (uint64_t)(unsigned char)bytes.at[i] << 8 * (i % RARE_EACH);
    }
    ret_life->failed_class = (uint32_t)values[0];
    ret_life->failed_at_ms = (int64_t)values[1];
    ret_life->resolved_at_ms = (int64_t)values[2];
    ret_life->keep_until_ms = (int64_t)values[3];
    ret_life->probe_count = (uint32_t)values[4];
    ret_life->probe_due_ms = (int64_t)values[5];
}

void query_life(struct query *query, struct life_row *ret_life)
{
    *ret_life = (struct life_row){
        .id = {.row = column_int(query, 0), .tail = (uint64_t)column_int(query, 1)},
        .queue = (uint32_t)column_int(query, 2),
        .key_hash = (uint64_t)column_int(query, 3),
        .trail = column_int(query, 16),
        .life = {.state = column_state(query, 4),
                 .due_at_ms = column_int(query, 5),
                 .deadline_at_ms = column_int(query, 6),
                 .settled_at_ms = column_int(query, 7),
                 .fence = (uint64_t)column_int(query, 8),
                 .epoch = (uint64_t)column_int(query, 9),
                 .attempts = (uint32_t)column_int(query, 10),
                 .attempts_all = (uint32_t)column_int(query, 11),
                 .round = (uint32_t)column_int(query, 12),
                 .previous_ms = (uint64_t)column_int(query, 13),
                 .wait_ms = column_int(query, 14),
                 .flags = (uint32_t)column_int(query, 15)},
    };
    read_counts(query_peek(query, 17), ret_life->life.class_attempts);
    struct span rare = query_peek(query, 18);
    if (rare.len > 0) {
        ret_life->has_rare = true;
        read_rare(rare, &ret_life->life);
    }
}

void query_brief(struct query *query, struct brief *ret_brief)
{
    *ret_brief = (struct brief){
        .row = column_int(query, 0),
        .due_at_ms = column_int(query, 1),
        .epoch = (uint64_t)column_int(query, 2),
        .queue = (uint32_t)column_int(query, 3),
        .flags = (uint32_t)column_int(query, 4),
        .state = column_state(query, 5),
    };
    if (ret_brief->state == TASK_DEAD) {
        struct life life = {0};
        read_rare(query_peek(query, 7), &life);
        ret_brief->failed_at_ms = life.failed_at_ms;
    }
}

void query_trail(struct query *query, int first, struct arena *arena, struct trail_row *ret_trail)
{
    *ret_trail = (struct trail_row){
        .attempt = (uint32_t)column_int(query, first),
        .started_at_ms = column_int(query, first + 1),
        .ended_at_ms = column_int(query, first + 2),
        .error_class = (int)column_int(query, first + 3),
        .status = (int)column_int(query, first + 4),
        .sent = (enum task_sent)column_int(query, first + 5),
        .sends = (uint32_t)column_int(query, first + 6),
        .wait_ms = column_int(query, first + 7),
    };
    query_span(query, first + 8, arena, &ret_trail->target);
    query_span(query, first + 9, arena, &ret_trail->message);
}

void query_edit(struct query *query, struct arena *arena, struct edit *ret_edit)
{
    ret_edit->parts = (unsigned)column_int(query, 0);
    ret_edit->round = (uint32_t)column_int(query, 1);
    query_span(query, 2, arena, &ret_edit->note);
    query_span(query, 3, arena, &ret_edit->target);
    query_span(query, 4, arena, &ret_edit->headers);
    query_span(query, 5, arena, &ret_edit->body);
}

void query_audit(const struct query *query, struct audit_row *ret_row)
{
    *ret_row = (struct audit_row){
        .number = column_int(query, 0),
        .at_ms = column_int(query, 1),
        .task = {.row = column_int(query, 2), .tail = (uint64_t)column_int(query, 3)},
        .from_state = (int)column_int(query, 4),
        .to_state = (int)column_int(query, 5),
        .who = query_peek(query, 6),
        .act = query_peek(query, 7),
        .subject = query_peek(query, 8),
        .note = query_peek(query, 9),
    };
}

/* --- parameters ------------------------------------------------------------------------------ */

void query_bind_task(struct query *query, const struct task *task)
{
    query_int(query, 1, task->id.row);
    query_int(query, 2, task->queue);
    query_text(query, 3, task->scope);
    query_text(query, 4, task->key);
    query_blob(
        query, 5,
        (struct span){.at = (const char *)task->fingerprint, .len = sizeof task->fingerprint});
    query_text(query, 6, task->method);
    query_text(query, 7, task->target);
    query_text(query, 8, task->headers);
    query_text(query, 9, task->labels);
    query_text(query, 10, task->options);
    query_blob(query, 11, task->body);
}

/* Most lives have had no failure: nothing is stored then. Copied by SQLite. */
static void bind_counts(struct query *query, int at, const uint32_t counts[DARUMA_CLASS_COUNT])
{
    unsigned char bytes[DARUMA_CLASS_COUNT * COUNT_BYTES];
    uint32_t any = 0;

    for (size_t i = 0; i < sizeof bytes; i++) {
        any |= counts[i / COUNT_BYTES];
        bytes[i] = (unsigned char)(counts[i / COUNT_BYTES] >> 8 * (i % COUNT_BYTES));
    }
    note(query,
         any == 0 ? sqlite3_bind_null(query->statement, at)
                  : sqlite3_bind_blob(query->statement, at, bytes, sizeof bytes, SQLITE_TRANSIENT));
}

void query_bind_life(struct query *query, const struct life_row *row)
{
    const struct life *life = &row->life;

    query_int(query, 1, row->id.row);
    query_int(query, 5, (int64_t)life->state);
    query_int(query, 6, life->due_at_ms);
    query_int(query, 7, life->deadline_at_ms);
    query_int(query, 8, life->settled_at_ms);
    query_int(query, 9, (int64_t)life->fence);
    query_int(query, 10, (int64_t)life->epoch);
    query_int(query, 11, life->attempts);
    query_int(query, 12, life->attempts_all);
    query_int(query, 13, life->round);
    query_int(query, 14, (int64_t)life->previous_ms);
    query_int(query, 15, life->wait_ms);
    query_int(query, 16, life->flags);
    query_int(query, 17, row->trail);
    bind_counts(query, 18, life->class_attempts);
    query_int(query, 20, sqlite_slot(life->due_at_ms));
}

bool life_has_rare(const struct life *life)
{
    return life->failed_class != 0 || life->failed_at_ms != 0 || life->resolved_at_ms != 0 ||
           life->keep_until_ms != 0 || life->probe_count != 0 || life->probe_due_ms != 0 ||
           (life->flags & LIFE_LETTER) != 0;
}

/* See read_rare. */
void life_pack_rare(const struct life *life, unsigned char ret_bytes[RARE_BYTES])
{
    const uint64_t values[RARE_COUNT] = {life->failed_class,
                                         (uint64_t)life->failed_at_ms,
                                         (uint64_t)life->resolved_at_ms,
                                         (uint64_t)life->keep_until_ms,
                                         life->probe_count,
                                         (uint64_t)life->probe_due_ms};

    for (size_t i = 0; i < RARE_BYTES; i++) {
        ret_bytes[i] = (unsigned char)(values[i / RARE_EACH] >> 8 * (i % RARE_EACH));
    }
}

/* Copied by SQLite. */
void query_bind_rare(struct query *query, const struct life *life)
{
    unsigned char bytes[RARE_BYTES];

    if (!life_has_rare(life)) {
        note(query, sqlite3_bind_null(query->statement, 19));
        note(query, sqlite3_bind_null(query->statement, 21));
        return;
    }
    life_pack_rare(life, bytes);
    note(query, sqlite3_bind_blob(query->statement, 19, bytes, sizeof bytes, SQLITE_TRANSIENT));
    query_int(query, 21, (life->flags & LIFE_LETTER) != 0);
}

void query_bind_trail(struct query *query, int first, const struct trail_row *trail)
{
    if (trail == NULL) {
        for (int i = 0; i < 10; i++) {
            note(query, sqlite3_bind_null(query->statement, first + i));
        }
        return;
    }
    query_int(query, first, trail->attempt);
    query_int(query, first + 1, trail->started_at_ms);
    query_int(query, first + 2, trail->ended_at_ms);
    query_int(query, first + 3, trail->error_class);
    query_int(query, first + 4, trail->status);
    query_int(query, first + 5, (int64_t)trail->sent);
    query_int(query, first + 6, trail->sends);
    query_int(query, first + 7, trail->wait_ms);
    query_text(query, first + 8, trail->target);
    query_text(query, first + 9, trail->message);
}

void query_bind_edit(struct query *query, int64_t row, const struct edit *edit)
{
    query_int(query, 1, row);
    query_int(query, 2, edit->parts);
    query_int(query, 3, edit->round);
    query_text(query, 4, edit->note);
    query_text(query, 5, edit->target);
    query_text(query, 6, edit->headers);
    query_blob(query, 7, edit->body);
}

void query_bind_audit(struct query *query, const struct audit_row *row)
{
    query_int(query, 1, row->at_ms);
    query_int(query, 2, row->task.row);
    query_int(query, 3, (int64_t)row->task.tail);
    query_int(query, 4, row->from_state);
    query_int(query, 5, row->to_state);
    query_text(query, 6, row->who);
    query_text(query, 7, row->act);
    query_text(query, 8, row->subject);
    query_text(query, 9, row->note);
}
