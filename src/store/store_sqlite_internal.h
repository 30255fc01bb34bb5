/* SPDX-License-Identifier: MIT
 *
 * store_sqlite_internal -- shared by the files of the SQLite store only; nobody else names its
 * driver.
 *
 *   store_sqlite.c         open, close, touch, the table of verbs
 *   store_sqlite_file.c    what is on the disk before SQLite sees it: lock, header, a new file
 *   store_sqlite_schema.c  tables, version, how to change them
 *   store_sqlite_query.c   statements, and rows to and from structs
 *   store_sqlite_apply.c   writes, one transaction a batch
 *   store_sqlite_record.c  how a task comes in, and what an operation leaves behind
 *   store_sqlite_read.c    reads, beside them
 *   store_sqlite_notes.c   queues, acts, memos: both
 *   store_sqlite_wal.c     keeping the log short
 *   store_sqlite_compact.c the file written anew
 */
#ifndef STORE_STORE_SQLITE_INTERNAL_H
#define STORE_STORE_SQLITE_INTERNAL_H

#include "store/key_index.h"
#include "store/number_set.h"
#include "store/stage.h"
#include "store/store.h"

#include <pthread.h>
#include <sqlite3.h>

#define FILE_APPLICATION_ID 0x64617275 /* "daru", in the header of the file */
#define FILE_NEW_SQL        "PRAGMA application_id = 0x64617275"
#define FILE_PAGE_BYTES     8192
#define WRITER_BUSY_MS      1000 /* for other programs that write to the file by hand */

/* --- statements ------------------------------------------------------------------------------ */

#define LIFE_COLUMNS                                                                               \
    "id, tail, queue, key_hash, state, due_at, deadline_at, settled_at, fence, epoch, "            \
    "attempts, attempts_all, round, previous, wait, flags, trail, counts, rare"
#define LIFE_CHANGES                                                                               \
    "state = ?5, due_at = ?6, deadline_at = ?7, settled_at = ?8, fence = ?9, epoch = ?10, "        \
    "attempts = ?11, attempts_all = ?12, round = ?13, previous = ?14, wait = ?15, flags = ?16, "   \
    "trail = ?17, counts = ?18, slot = ?20"
#define EDIT_COLUMNS  "parts, round, note, target, headers"
#define AUDIT_COLUMNS "at, task, tail, from_state, to_state, who, act, subject, note"
/* 5 is TASK_DEAD: of others nobody asks when they failed. */
#define BRIEF_COLUMNS                                                                              \
    "id, due_at, epoch, queue, flags, state, key_hash, CASE state WHEN 5 THEN rare END"
#define TASK_COLUMNS "queue, scope, key, fingerprint, method, target, headers, labels, options"
#define TRAIL_COLUMNS                                                                              \
    "attempt, started_at, ended_at, class, trail_status, sent, sends, wait, target, message"

/* ?2: with the body? Not looking at it spares reading it: it is the last column, on pages of its
 * own. */
#define TASK_READ_SQL "SELECT " TASK_COLUMNS ", CASE WHEN ?2 THEN body END FROM task WHERE id = ?1"
#define EDIT_READ_SQL "SELECT " EDIT_COLUMNS ", CASE WHEN ?2 THEN body END FROM edit WHERE id = ?1"
#define LIFE_READ_SQL "SELECT " LIFE_COLUMNS " FROM life WHERE id = ?1"

/* The writer's. Parameters have the order of the columns. */
#define WRITE_MAP(X)                                                                               \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    X(TASK_INSERT, "INSERT INTO task (id, " TASK_COLUMNS ", body)"                                 \
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")                       \
    X(TASK_READ, TASK_READ_SQL)                                                                    \
    X(TASK_KEY, "SELECT queue, scope, key, fingerprint FROM task WHERE id = ?1")                   \
    X(TASK_DELETE, "DELETE FROM task WHERE id = ?1")                                               \
    X(TASK_BURY, "UPDATE task SET method = '', target = '', headers = '', labels = '',"            \
                 " options = '', body = x'' WHERE id = ?1")                                        \
    X(LIFE_INSERT, "INSERT INTO life (" LIFE_COLUMNS ", slot, letter) VALUES (?1, ?2, ?3, ?4, ?5," \
                   " ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)") \
    X(LIFE_READ, LIFE_READ_SQL)                                                                    \
    X(LIFE_UPDATE, "UPDATE life SET " LIFE_CHANGES " WHERE id = ?1")                               \
    X(LIFE_UPDATE_RARE,                                                                            \
      "UPDATE life SET " LIFE_CHANGES ", rare = ?19, letter = ?21 WHERE id = ?1")                  \
    X(LIFE_UNBIND, "UPDATE life SET key_hash = 0 WHERE id = ?1")                                   \
    X(LIFE_DELETE, "DELETE FROM life WHERE id = ?1")                                               \
    X(ANSWER_PUT, "INSERT OR REPLACE INTO answer (id, status, " TRAIL_COLUMNS ", settled_by,"      \
                  " headers, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,"     \
                  " ?13, ?14, ?15)")                                                               \
    X(ANSWER_DELETE, "DELETE FROM answer WHERE id = ?1")                                           \
    X(TRAIL_INSERT, "INSERT INTO trail (task, previous, " TRAIL_COLUMNS ")"                        \
                    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")                 \
    X(TRAIL_PREVIOUS, "SELECT previous FROM trail WHERE id = ?1")                                  \
    X(TRAIL_DELETE, "DELETE FROM trail WHERE id = ?1")                                             \
    X(QUEUE_FIND, "SELECT number FROM queue WHERE name = ?1 AND dropped = 0")                      \
    X(QUEUE_DROPPED, "SELECT dropped FROM queue WHERE number = ?1")                                \
    X(QUEUE_OPEN, "SELECT 1 FROM life WHERE queue = ?1 AND state IN (0, 1, 3) LIMIT 1")            \
    X(QUEUE_INSERT, "INSERT INTO queue (name, settings, paused, dropped) VALUES (?2, ?3, ?4, ?5)") \
    X(QUEUE_PAUSED, "SELECT paused FROM queue WHERE number = ?1")                                  \
    X(QUEUE_UPDATE, "UPDATE queue SET name = ?2, paused = ?4, dropped = ?5,"                       \
                    " settings = CASE WHEN ?6 THEN settings ELSE ?3 END WHERE number = ?1")        \
    X(EDIT_PUT, "INSERT OR REPLACE INTO edit (id, " EDIT_COLUMNS ", body)"                         \
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")                                            \
    X(EDIT_READ, EDIT_READ_SQL)                                                                    \
    X(EDIT_DELETE, "DELETE FROM edit WHERE id = ?1")                                               \
    X(AUDIT_INSERT, "INSERT INTO audit (" AUDIT_COLUMNS ")"                                        \
                    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")                                \
    X(AUDIT_TRIM, "DELETE FROM audit WHERE id <= ?1")                                              \
    X(MEMO_PUT, "INSERT OR REPLACE INTO memo (name, value) VALUES (?1, ?2)")                       \
    X(MEMO_DELETE, "DELETE FROM memo WHERE name = ?1")                                             \
    X(MEMO_READ, "SELECT value FROM memo WHERE name = ?1")                                         \
    X(LAST_ROW, "UPDATE meta SET value = max(value, ?1) WHERE name = 'last_row'")                  \
    X(TOUCH, "UPDATE meta SET value = value + 1 WHERE name = 'touch'")

/* The reader's. */
#define FETCH_MAP(X)                                                                               \
    X(BEGIN, "BEGIN")                                                                              \
    X(COMMIT, "COMMIT")                                                                            \
    X(TASK, TASK_READ_SQL)                                                                         \
    X(LIFE, LIFE_READ_SQL)                                                                         \
    X(LABELS, "SELECT labels FROM task WHERE id = ?1")                                             \
    X(KEY, "SELECT key, scope FROM task WHERE id = ?1")                                            \
    X(ANSWER, "SELECT status, " TRAIL_COLUMNS ", settled_by, headers,"                             \
              " CASE WHEN ?2 THEN body END FROM answer WHERE id = ?1")                             \
    X(TRAIL, "SELECT previous, " TRAIL_COLUMNS " FROM trail WHERE id = ?1")                        \
    X(LIST, "SELECT " LIFE_COLUMNS " FROM life WHERE id > ?1 ORDER BY id LIMIT ?2")                \
    X(LIST_OPEN, "SELECT " LIFE_COLUMNS " FROM life INDEXED BY life_open"                          \
                 " WHERE state IN (3, 5) AND state = 3 AND id > ?1 UNION ALL"                      \
                 " SELECT " LIFE_COLUMNS " FROM life INDEXED BY life_open"                         \
                 " WHERE state IN (3, 5) AND state = 5 AND id > ?1 ORDER BY id LIMIT ?2")          \
    X(LIST_IN, "SELECT " LIFE_COLUMNS " FROM life INDEXED BY life_open"                            \
               " WHERE state IN (3, 5) AND state = ?3 AND id > ?1 ORDER BY id LIMIT ?2")           \
    X(LIST_LETTER, "SELECT " LIFE_COLUMNS " FROM life INDEXED BY life_letter"                      \
                   " WHERE letter = 1 AND id > ?1 ORDER BY id LIMIT ?2")                           \
    X(LIST_OVERDUE, "SELECT " LIFE_COLUMNS " FROM life INDEXED BY life_deadline"                   \
                    " WHERE state = 0 AND deadline_at > 0 AND deadline_at < ?3 AND id > ?1"        \
                    " ORDER BY id LIMIT ?2")                                                       \
    X(SCAN, "SELECT " BRIEF_COLUMNS " FROM life WHERE id > ?1 ORDER BY id LIMIT ?2")               \
    X(SLOT, "SELECT slot FROM life INDEXED BY life_slot WHERE state = 0 AND slot >= ?1"            \
            " ORDER BY slot LIMIT 1")                                                              \
    X(DUE, "SELECT " BRIEF_COLUMNS " FROM life INDEXED BY life_slot"                               \
           " WHERE state = 0 AND slot = ?3 AND id > ?1 ORDER BY id LIMIT ?2")                      \
    X(EDIT, EDIT_READ_SQL)                                                                         \
    X(AUDIT, "SELECT id, " AUDIT_COLUMNS " FROM audit WHERE id > ?1 ORDER BY id LIMIT ?2")         \
    X(AUDIT_TASK, "SELECT id, " AUDIT_COLUMNS " FROM audit INDEXED BY audit_task"                  \
                  " WHERE task != 0 AND task = ?3 AND id > ?1 ORDER BY id LIMIT ?2")               \
    X(MEMO, "SELECT name, value FROM memo WHERE name > ?1 ORDER BY name LIMIT 1")                  \
    X(QUEUES, "SELECT number, name, settings, paused, dropped FROM queue WHERE number > ?1"        \
              " ORDER BY number LIMIT ?2")

enum write_statement {
#define WRITE_ENUM(name, sql) WRITE_##name,
    WRITE_MAP(WRITE_ENUM)
#undef WRITE_ENUM
        WRITE_COUNT
};

enum fetch_statement {
#define FETCH_ENUM(name, sql) FETCH_##name,
    FETCH_MAP(FETCH_ENUM)
#undef FETCH_ENUM
        FETCH_COUNT
};

/* --- the store ------------------------------------------------------------------------------- */

/* Lets the reader in for one page at a time, and keeps it out while the log is being reset. */
struct gate {
    pthread_mutex_t lock; /* the two below */
    bool is_closed, is_reading;
    pthread_cond_t changed;
};

#define STORE_SQLITE_RESERVED   (INT64_C(32) * 1024 * 1024) /* bytes of the disk, for ends of lives */
#define STORE_SQLITE_OMIT_AFTER 30000                       /* ms */
#define STORE_SQLITE_CHECKPOINT (INT64_C(8) * 1024 * 1024)  /* by which the log has grown */
#define STORE_SQLITE_RESET      (INT64_C(64) * 1024 * 1024) /* the log is not left to be longer */

struct store_sqlite {
    struct store base;
    struct store_keep keep;
    char *path, *folder;
    int lock_fd; /* of PATH.lock; -1: none */
    int file_fd; /* of the file itself, locked; open for as long as SQLite has it open */
    struct gate gate;
    bool has_gate;

    /* The applying thread's. */
    sqlite3 *writer;
    sqlite3_stmt *write[WRITE_COUNT];
    struct key_index keys;
    bool has_keys; /* the index is what the file says: sqlite_keys_ensure */
    struct key_log key_log;
    struct number_set dropped; /* queues, as the file has them */
    struct stage stage;
    int64_t wal_bytes, wal_checked_bytes;  /* now; when a checkpoint last ran */
    int64_t checkpoint_bytes, reset_bytes; /* of the log: store_sqlite_wal.c */
    int64_t reserve_bytes;                 /* kept free: below it nothing new is taken in */
    int64_t room_asked_ms;                 /* monotonic: when the disk was last asked */
    bool is_short;                         /* what it said */
    int64_t omit_after_ms;                 /* that an answer waits for room */
    int64_t rest_until_ms;                 /* monotonic: before that none is tried again */
    bool is_lost;

    /* The reading thread's. */
    sqlite3 *reader;
    sqlite3_stmt *fetch[FETCH_COUNT];
};

/* A life as it is stored. */
struct life_row {
    struct task_id id;
    uint32_t queue;
    uint64_t key_hash; /* 0: not bound */
    int64_t trail;     /* the newest trail row; 0: none */
    bool has_rare;     /* as it is in the file: something of what hardly a life has */
    struct life life;
};

/* --- queries --------------------------------------------------------------------------------- */

/* A statement being run: bind, step, end. The first failure is kept and told at the end. */
struct query {
    sqlite3_stmt *statement;
    int code; /* SQLITE_OK so far, or what went wrong */
};

struct query query_begin(sqlite3_stmt *statement);
void query_int(struct query *query, int at, int64_t value);
void query_text(struct query *query, int at, struct span value); /* any bytes; it must stay */
void query_blob(struct query *query, int at, struct span value);
bool query_row(struct query *query);                   /* false: no more, or it failed */
int query_end(struct query *query, struct error *err); /* 0 or the fault */
int query_run(struct query *query, struct error *err); /* for those that give no rows */

/* Columns; a span copied to the arena. */
void query_span(struct query *query, int column, struct arena *arena, struct span *ret_span);
struct span query_peek(const struct query *query, int column); /* until the next step */
void query_task(struct query *query, struct arena *arena, struct task *ret_task);
void query_life(struct query *query, struct life_row *ret_life);
void query_brief(struct query *query, struct brief *ret_brief);
void query_trail(struct query *query, int first, struct arena *arena, struct trail_row *ret_trail);
void query_edit(struct query *query, struct arena *arena, struct edit *ret_edit);
void query_audit(const struct query *query, struct audit_row *ret_row); /* until the next row */

/* Parameters, numbered as the columns. NULL trail: its columns stay NULL. */
void query_bind_task(struct query *query, const struct task *task);
void query_bind_life(struct query *query, const struct life_row *life); /* for LIFE_UPDATE */
void query_bind_rare(struct query *query, const struct life *life);     /* and for the others */

/* What hardly a life has: the fields from failed_class on, and whether it is a letter. */
#define RARE_BYTES 48
bool life_has_rare(const struct life *life);
void life_pack_rare(const struct life *life, unsigned char ret_bytes[RARE_BYTES]);
void query_bind_trail(struct query *query, int first, const struct trail_row *trail);
void query_bind_edit(struct query *query, int64_t row, const struct edit *edit);
void query_bind_audit(struct query *query, const struct audit_row *row);

int sqlite_fault(sqlite3 *database, int code, struct error *err);
int sqlite_exec(sqlite3 *database, const char *sql, struct error *err);
int sqlite_prepare(sqlite3 *database, const char *const sql[], size_t count, sqlite3_stmt *to[],
                   struct error *err);
int64_t sqlite_slot(int64_t due_at_ms);

/* --- parts ----------------------------------------------------------------------------------- */

/* Takes the lock beside the file; refuses a file that is not ours, before anything writes to it;
 * makes an empty one where there is none. */
int sqlite_file_open(struct store_sqlite *sqlite, struct error *err);
int sqlite_set_path(struct store_sqlite *sqlite, struct span location, struct error *err);
int sqlite_open_connection(struct store_sqlite *sqlite, int flags, sqlite3 **ret_connection,
                           struct error *err);
int sqlite_file_sync(const char *path, struct error *err);                  /* a file or a folder */
int sqlite_file_look(const struct store_sqlite *sqlite, struct error *err); /* refuses only */
void sqlite_file_close(struct store_sqlite *sqlite);

/* Creates or brings up to date; refuses what is newer. */
int sqlite_schema_open(sqlite3 *database, struct error *err);
int sqlite_schema_check(sqlite3 *database, struct error *err); /* refuses what is older, too */
int sqlite_schema_raise(sqlite3 *database, int64_t from, int64_t to, struct error *err);

/* --- writing: inside the transaction of a batch --- */

/* ret_life->id.row 0: there is none. */
int sqlite_read_life(struct store_sqlite *sqlite, int64_t row, struct life_row *ret_life,
                     struct error *err);
/* A statement whose only parameter is a row. */
int sqlite_run_on_row(struct store_sqlite *sqlite, enum write_statement which, int64_t row,
                      struct error *err);
/* The key is free, also after a restart. */
int sqlite_unbind(struct store_sqlite *sqlite, int64_t row, uint64_t hash, struct error *err);
void sqlite_show_found(const struct life_row *row, struct staged *staged); /* for the result */
int sqlite_find(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                struct error *err);
int sqlite_record(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                  struct error *err);
int sqlite_import(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                  struct error *err);
/* Attempts, answer and edit; row->trail becomes the newest attempt. */
int sqlite_add_outcome(struct store_sqlite *sqlite, const struct op *op, struct life_row *row,
                       struct error *err);
int sqlite_write_queue(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                       struct error *err);
/* Which queues are dropped: at open, and when a batch fails. */
int sqlite_read_dropped(struct store_sqlite *sqlite, struct error *err);
void sqlite_undo_dropped(struct store_sqlite *sqlite, struct op *const ops[], size_t count);
int sqlite_write_memo(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                      struct error *err);
int sqlite_add_audit(struct store_sqlite *sqlite, const struct op *op, const struct staged *staged,
                     struct error *err);

/* Reads every key, unless the scan at start has done so in passing. */
int sqlite_keys_ensure(struct store_sqlite *sqlite, struct error *err);

/* --- reading: a transaction for each page --- */

int sqlite_page_begin(struct store_sqlite *sqlite, struct error *err);
/* Keeps the first failure. */
int sqlite_page_end(struct store_sqlite *sqlite, int failed, struct error *err);

/* --- the verbs --- */

int sqlite_apply(struct store *store, struct op *ops[], size_t count, struct error *err);
int sqlite_touch(struct store *store, struct error *err);

int sqlite_read_task(struct store *store, struct task_id id, unsigned wants, struct arena *arena,
                     struct record *ret_record, bool *ret_found, struct error *err);
int sqlite_list(struct store *store, const struct store_filter *filter, struct arena *arena,
                store_record_fn visit, void *user, int64_t *ret_next, struct error *err);
int sqlite_due(struct store *store, int64_t from_ms, int64_t until_ms, store_brief_fn visit,
               void *user, struct error *err);
int sqlite_scan(struct store *store, store_brief_fn visit, void *user, struct error *err);
int sqlite_audit(struct store *store, const struct audit_filter *filter, struct arena *arena,
                 store_audit_fn visit, void *user, int64_t *ret_next, struct error *err);
int sqlite_memos(struct store *store, store_memo_fn visit, void *user, struct error *err);
int sqlite_queues(struct store *store, store_queue_fn visit, void *user, struct error *err);

int sqlite_wal_init(struct store_sqlite *sqlite, struct error *err);
void sqlite_wal_done(struct store_sqlite *sqlite);
void sqlite_wal_after_commit(struct store_sqlite *sqlite);
void sqlite_gate_enter(struct gate *gate);
void sqlite_gate_leave(struct gate *gate);

#endif
