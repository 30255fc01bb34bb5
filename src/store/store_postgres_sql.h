/* SPDX-License-Identifier: MIT
 *
 * store_postgres_sql -- inside the PostgreSQL store only: every statement it runs. Writes are
 * set-based: a parameter is a column of the batch, an array with a value for each row. Numbers are
 * sent as bigint and take the column's type where they are written.
 */
#ifndef STORE_STORE_POSTGRES_SQL_H
#define STORE_STORE_POSTGRES_SQL_H

#define LIFE_COLUMN_COUNT 26
#define LIFE_COLUMNS                                                                               \
    "l.id, l.tail, l.queue, l.key_hash, l.state, l.due_at, l.deadline_at, l.settled_at, l.fence, " \
    "l.epoch, l.attempts, l.attempts_all, l.round, l.previous, l.wait, l.flags, l.failed_class, "  \
    "l.failed_at, l.resolved_at, l.keep_until, l.probe_count, l.probe_due, l.counts, "             \
    "l.trail_count, l.has_answer, l.has_edit"
#define LIFE_NAMES                                                                                 \
    "id, tail, queue, key_hash, state, due_at, deadline_at, settled_at, fence, epoch, attempts, "  \
    "attempts_all, round, previous, wait, flags, failed_class, failed_at, resolved_at, "           \
    "keep_until, probe_count, probe_due, counts, trail_count, has_answer, has_edit"
#define LIFE_UNNEST                                                                                \
    "unnest($1::int8[], $2::int8[], $3::int8[], $4::bytea[], $5::int8[], $6::int8[], $7::int8[], " \
    "$8::int8[], $9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::int8[], $14::int8[], "    \
    "$15::int8[], $16::int8[], $17::int8[], $18::int8[], $19::int8[], $20::int8[], $21::int8[], "  \
    "$22::int8[], $23::bytea[], $24::int8[], $25::int8[], $26::int8[]) AS u(" LIFE_NAMES ")"

#define TASK_COLUMN_COUNT 9
#define TASK_COLUMNS                                                                               \
    "t.queue, t.scope, t.key, t.fingerprint, t.method, t.target, t.headers, t.labels, t.options"
#define EDIT_COLUMNS "e.parts, e.round, e.target, e.headers, e.body, e.note"
#define TRAIL_NAMES                                                                                \
    "attempt, started_at, ended_at, class, trail_status, sent, sends, wait, target, message"
#define TRAIL_COLUMN_COUNT 10
#define ANSWER_COLUMNS                                                                             \
    "a.attempt, a.started_at, a.ended_at, a.class, a.trail_status, a.sent, a.sends, a.wait, "      \
    "a.target, a.message, a.status, a.headers, a.settled_by"

/* Milliseconds since 1970 by the server's clock, at this moment and not at the transaction's begin. */
#define SERVER_MS "(SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8)"

#define KEYS_UNNEST                                                                                \
    "(SELECT daruma.key_hash(queue::int4, scope, key) AS hash, id, fingerprint FROM "              \
    "unnest($1::int8[], $2::bytea[], $3::bytea[], $4::int8[], $5::bytea[]) "                       \
    "AS v(queue, scope, key, id, fingerprint)) AS u"

#define READY_UNNEST                                                                               \
    "unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[]) AS u(queue, lane, due, id)"

/* Of a page: after a row, so many rows looked at, which of them, so many of those. */
#define LIST_FILTER                                                                                \
    " ($3::int8 = 0 OR l.queue = $3::int8) AND ($4::int8 >> l.state::int4) & 1 = 1"                \
    " AND (l.flags & $5::int8) = $5::int8"                                                         \
    " AND ($6::int8 = 0 OR coalesce(l.failed_class, 0) = $6::int8)"                                \
    " AND ($7::int8 = 0 OR coalesce(l.failed_at, 0) >= $7::int8)"                                  \
    " AND ($8::int8 = 0 OR coalesce(l.failed_at, 0) < $8::int8)"                                   \
    " AND ($9::int8 = 0 OR (l.deadline_at > 0 AND l.deadline_at < $9::int8))"                      \
    " AND ($13::int8 = 0 OR l.queue = ANY ($14::int8[]))"
#define LIST_SEEN                                                                                  \
    "WITH l AS MATERIALIZED (SELECT * FROM daruma.life WHERE id > $1::int8 ORDER BY id"            \
    " LIMIT $2::int8), "
/* Of those, as many as have so many bytes together, with what a record costs besides, so that a page
 * that must not become large is not sent whole. Lengths are known without reading what is long. */
#define LIST_FITTING(bytes)                                                                        \
    " b AS MATERIALIZED (SELECT f.id, 1024"                                                        \
    " + coalesce((SELECT octet_length(t.headers) + octet_length(t.target) + "                      \
    "octet_length(t.labels)"                                                                       \
    " + octet_length(t.options) FROM daruma.task t WHERE t.id = f.id), 0)"                         \
    " + CASE WHEN f.has_answer THEN coalesce((SELECT octet_length(a.headers)"                      \
    " FROM daruma.answer a WHERE a.id = f.id), 0) ELSE 0 END"                                      \
    " + CASE WHEN f.has_edit THEN coalesce((SELECT octet_length(e.headers) + octet_length(e.note)" \
    " FROM daruma.edit e WHERE e.id = f.id), 0) ELSE 0 END AS bytes FROM f),"                      \
    " c AS MATERIALIZED (SELECT id, sum(bytes) OVER (ORDER BY id) - bytes AS before FROM b),"      \
    " v AS MATERIALIZED (SELECT f.* FROM f JOIN c ON c.id = f.id WHERE c.before < " bytes "),"
#define LIST_IS_CUT "(SELECT max(id) FROM v) < (SELECT max(id) FROM f)"
/* Where the page ends, by the very rows that it has looked at: at its last one when it is full, else
 * where it stopped looking. 0: there is nothing behind. A statement of its own would see other rows. */
#define LIST_NEXT                                                                                  \
    ", p AS MATERIALIZED (SELECT CASE WHEN s.count >= $10::int8 THEN s.last"                       \
    " WHEN (SELECT count(*) FROM l) >= $2::int8 THEN (SELECT max(id) FROM l) END AS last"          \
    " FROM (SELECT count(*) AS count, max(id) AS last FROM f) AS s)," LIST_FITTING(                \
        "$12::int8") " n AS MATERIALIZED (SELECT CASE WHEN " LIST_IS_CUT                           \
                     " THEN (SELECT max(id) FROM v) ELSE"                                          \
                     " coalesce((SELECT p.last FROM daruma.life WHERE id > p.last ORDER BY id"     \
                     " LIMIT 1), 0) END AS next FROM p) "
/* A row for each that is shown, or one without a task; in each of them where the page ends. */
#define LIST_SHOWN(has_latest)                                                                     \
    "SELECT " LIFE_COLUMNS ", " TASK_COLUMNS ", ''::bytea, " ANSWER_COLUMNS ", ''::bytea,"         \
    " e.parts, e.round, e.target, e.headers, ''::bytea, e.note, r.*, n.next"                       \
    " FROM n LEFT JOIN (v AS l JOIN daruma.task t ON t.id = l.id"                                  \
    " LEFT JOIN daruma.answer a ON a.id = l.id AND l.has_answer"                                   \
    " LEFT JOIN daruma.edit e ON e.id = l.id AND l.has_edit"                                       \
    " LEFT JOIN LATERAL (SELECT " TRAIL_NAMES " FROM daruma.trail WHERE task = l.id"               \
    " AND " has_latest " ORDER BY task DESC, n DESC LIMIT 1) AS r ON true) ON true ORDER BY l.id"

/* Name, number of parameters, text. */
#define STATEMENT_MAP(X)                                                                           \
    X(BEGIN, 0, "BEGIN")                                                                           \
    X(BEGIN_READ, 0, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")                            \
    X(COMMIT, 0, "COMMIT")                                                                         \
    X(ROLLBACK, 0, "ROLLBACK")                                                                     \
    X(LOCK, 1, "SELECT pg_advisory_xact_lock($1::int8)")                                           \
    X(LOCKS_SHARED, 1, "SELECT pg_advisory_xact_lock_shared(n) FROM unnest($1::int8[]) AS u(n)")   \
    /* 0: the node is there; else a queue that is dropped. */                                      \
    X(ALIVE, 2,                                                                                    \
      "SELECT 0 FROM daruma.node WHERE epoch = $1::int8 UNION ALL"                                 \
      " SELECT number FROM daruma.queue WHERE dropped AND number = ANY ($2::int8[])")              \
                                                                                                   \
    /* A batch: what is there. Locks are taken in order of ids and hashes. */                      \
    X(LIVES, 1,                                                                                    \
      "SELECT " LIFE_COLUMNS " FROM unnest($1::int8[]) AS u(id) JOIN daruma.life l"                \
      " ON l.id = u.id ORDER BY l.id FOR UPDATE OF l")                                             \
    X(REQUESTS, 1,                                                                                 \
      "SELECT t.id, " TASK_COLUMNS ", t.body FROM unnest($1::int8[]) AS u(id)"                     \
      " JOIN daruma.task t ON t.id = u.id")                                                        \
    X(EDITS, 1,                                                                                    \
      "SELECT e.id, " EDIT_COLUMNS " FROM unnest($1::int8[]) AS u(id)"                             \
      " JOIN daruma.edit e ON e.id = u.id")                                                        \
    X(CLAIM, 5,                                                                                    \
      "SELECT " LIFE_COLUMNS ", " TASK_COLUMNS ", t.body, r.lane FROM daruma.ready r"              \
      " JOIN daruma.life l ON l.id = r.id JOIN daruma.task t ON t.id = r.id"                       \
      " WHERE r.queue = $1::int8 AND r.lane = $2::int8 AND r.due <= " SERVER_MS                    \
      " AND (r.due, r.id) > ($3::int8, $4::int8) ORDER BY r.due, r.id LIMIT $5::int8"              \
      " FOR UPDATE OF r, l SKIP LOCKED")                                                           \
    X(KEY_PUT, 5,                                                                                  \
      "INSERT INTO daruma.key (hash, id, fingerprint) SELECT hash, id, fingerprint"                \
      " FROM " KEYS_UNNEST " ORDER BY hash ON CONFLICT (hash) DO NOTHING RETURNING id, hash")      \
    X(KEY_FIND, 5,                                                                                 \
      "SELECT u.id, k.hash, k.fingerprint, " LIFE_COLUMNS " FROM " KEYS_UNNEST                     \
      " JOIN daruma.key k ON k.hash = u.hash JOIN daruma.life l ON l.id = k.id"                    \
      " WHERE k.id <> u.id")                                                                       \
    X(KEY_LOOK, 5,                                                                                 \
      "SELECT u.id, u.hash, " LIFE_COLUMNS " FROM " KEYS_UNNEST                                    \
      " LEFT JOIN daruma.key k ON k.hash = u.hash LEFT JOIN daruma.life l ON l.id = k.id")         \
    X(KEY_TAKE, 4,                                                                                 \
      "UPDATE daruma.key k SET id = u.id, fingerprint = u.fingerprint FROM"                        \
      " unnest($1::bytea[], $2::int8[], $3::int8[], $4::bytea[]) AS"                               \
      " u(hash, old, id, fingerprint) WHERE k.hash = u.hash AND k.id = u.old RETURNING k.id")      \
    X(MEMO_LOOK, 1,                                                                                \
      "SELECT name, value FROM daruma.memo WHERE name = ANY ($1::bytea[]) ORDER BY name"           \
      " FOR UPDATE")                                                                               \
                                                                                                   \
    /* What it does. */                                                                            \
    X(TASK_PUT, 12,                                                                                \
      "INSERT INTO daruma.task (id, queue, scope, key, fingerprint, method, target, headers,"      \
      " labels, options, body, tail) SELECT * FROM unnest($1::int8[], $2::int8[], $3::bytea[],"    \
      " $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[],"             \
      " $10::bytea[], $11::bytea[], $12::int8[]) ON CONFLICT (id) DO UPDATE SET"                   \
      " queue = excluded.queue, scope = excluded.scope, key = excluded.key,"                       \
      " fingerprint = excluded.fingerprint, method = excluded.method, target = excluded.target,"   \
      " headers = excluded.headers, labels = excluded.labels, options = excluded.options,"         \
      " body = excluded.body, tail = excluded.tail")                                               \
    X(LIFE_PUT, LIFE_COLUMN_COUNT,                                                                 \
      "INSERT INTO daruma.life (" LIFE_NAMES ") SELECT id, tail, queue, key_hash, state, due_at,"  \
      " deadline_at, settled_at, fence, epoch, attempts, attempts_all, round, previous, wait,"     \
      " flags, failed_class, failed_at, resolved_at, keep_until, probe_count, probe_due, counts,"  \
      " trail_count, has_answer <> 0, has_edit <> 0 FROM " LIFE_UNNEST)                            \
    X(LIFE_SET, LIFE_COLUMN_COUNT,                                                                 \
      "UPDATE daruma.life l SET key_hash = u.key_hash, state = u.state, due_at = u.due_at,"        \
      " deadline_at = u.deadline_at, settled_at = u.settled_at, fence = u.fence,"                  \
      " epoch = u.epoch, attempts = u.attempts, attempts_all = u.attempts_all,"                    \
      " round = u.round, previous = u.previous, wait = u.wait, flags = u.flags,"                   \
      " failed_class = u.failed_class, failed_at = u.failed_at, resolved_at = u.resolved_at,"      \
      " keep_until = u.keep_until, probe_count = u.probe_count, probe_due = u.probe_due,"          \
      " counts = u.counts, trail_count = u.trail_count, has_answer = u.has_answer <> 0,"           \
      " has_edit = u.has_edit <> 0 FROM " LIFE_UNNEST " WHERE l.id = u.id")                        \
    X(LIFE_UNBIND, 1,                                                                              \
      "UPDATE daruma.life l SET key_hash = NULL FROM unnest($1::int8[]) AS u(id)"                  \
      " WHERE l.id = u.id")                                                                        \
    X(LIFE_DROP, 1,                                                                                \
      "DELETE FROM daruma.life l USING unnest($1::int8[]) AS u(id)"                                \
      " WHERE l.id = u.id")                                                                        \
    X(KEY_DROP, 2,                                                                                 \
      "DELETE FROM daruma.key k USING unnest($1::bytea[], $2::int8[]) AS u(hash, id)"              \
      " WHERE k.hash = u.hash AND k.id = u.id")                                                    \
    X(KEY_BIND, 3,                                                                                 \
      "INSERT INTO daruma.key (hash, id, fingerprint)"                                             \
      " SELECT * FROM unnest($1::bytea[], $2::int8[], $3::bytea[])")                               \
    X(READY_PUT, 4, "INSERT INTO daruma.ready (queue, lane, due, id) SELECT * FROM " READY_UNNEST) \
    X(READY_DROP, 4,                                                                               \
      "DELETE FROM daruma.ready r USING " READY_UNNEST                                             \
      " WHERE r.queue = u.queue AND r.lane = u.lane AND r.due = u.due AND r.id = u.id")            \
    X(TRAIL_PUT, 12,                                                                               \
      "INSERT INTO daruma.trail (task, n, " TRAIL_NAMES ") SELECT * FROM unnest($1::int8[],"       \
      " $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[],"       \
      " $9::int8[], $10::int8[], $11::bytea[], $12::bytea[])")                                     \
    X(TRAIL_DROP, 1,                                                                               \
      "DELETE FROM daruma.trail t USING unnest($1::int8[]) AS u(id)"                               \
      " WHERE t.task = u.id")                                                                      \
    X(TASK_BURY, 1,                                                                                \
      "UPDATE daruma.task t SET method = '', target = '', headers = '', labels = '',"              \
      " options = '', body = '' FROM unnest($1::int8[]) AS u(id) WHERE t.id = u.id")               \
    X(ANSWER_DROP, 1,                                                                              \
      "DELETE FROM daruma.answer a USING unnest($1::int8[]) AS u(id)"                              \
      " WHERE a.id = u.id")                                                                        \
    X(ANSWER_PUT, 15,                                                                              \
      "INSERT INTO daruma.answer AS a (id, status, settled_by, headers, body, " TRAIL_NAMES ")"    \
      " SELECT * FROM unnest($1::int8[], $2::int8[], $3::bytea[], $4::bytea[], $5::bytea[],"       \
      " $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[], $11::int8[], $12::int8[],"    \
      " $13::int8[], $14::bytea[], $15::bytea[]) ON CONFLICT (id) DO UPDATE SET"                   \
      " status = excluded.status, settled_by = excluded.settled_by, headers = excluded.headers,"   \
      " body = excluded.body, attempt = excluded.attempt, started_at = excluded.started_at,"       \
      " ended_at = excluded.ended_at, class = excluded.class,"                                     \
      " trail_status = excluded.trail_status, sent = excluded.sent, sends = excluded.sends,"       \
      " wait = excluded.wait, target = excluded.target, message = excluded.message")               \
    X(EDIT_PUT, 7,                                                                                 \
      "INSERT INTO daruma.edit (id, parts, round, target, headers, body, note) SELECT * FROM"      \
      " unnest($1::int8[], $2::int8[], $3::int8[], $4::bytea[], $5::bytea[], $6::bytea[],"         \
      " $7::bytea[]) ON CONFLICT (id) DO UPDATE SET parts = excluded.parts,"                       \
      " round = excluded.round, target = excluded.target, headers = excluded.headers,"             \
      " body = excluded.body, note = excluded.note")                                               \
    X(EDIT_DROP, 1,                                                                                \
      "DELETE FROM daruma.edit e USING unnest($1::int8[]) AS u(id)"                                \
      " WHERE e.id = u.id")                                                                        \
    X(QUEUE_LOCK, 1, "SELECT pg_advisory_xact_lock($1::int8)")                                     \
    X(QUEUE_LOOK, 2,                                                                               \
      "SELECT dropped, ($2::int8 <> 0 AND NOT dropped AND EXISTS (SELECT 1"                        \
      " FROM daruma.life WHERE queue = $1::int8 AND state IN (0, 1, 3)))"                          \
      " FROM daruma.queue WHERE number = $1::int8")                                                \
    X(QUEUE_PUT, 7,                                                                                \
      "WITH found AS (SELECT number FROM daruma.queue WHERE"                                       \
      " CASE WHEN $1::int8 = 0 THEN name = $2::bytea AND NOT dropped ELSE number = $1::int8 END)"  \
      " INSERT INTO daruma.queue AS q (number, name, settings, paused, dropped, flags)"            \
      " SELECT coalesce(f.number, (SELECT coalesce(max(number), 0) + 1 FROM daruma.queue)),"       \
      " $2::bytea, $3::bytea, $4::int8 <> 0, $5::int8 <> 0, $6::int8 FROM (SELECT 1) AS one"       \
      " LEFT JOIN found f ON true WHERE $1::int8 = 0 OR f.number IS NOT NULL"                      \
      " ON CONFLICT (number) DO UPDATE SET name = excluded.name, dropped = excluded.dropped,"      \
      " paused = CASE WHEN $7::int8 & 1 <> 0 THEN q.paused ELSE excluded.paused END,"              \
      " settings = CASE WHEN $7::int8 & 2 <> 0 THEN q.settings ELSE excluded.settings END,"        \
      " flags = CASE WHEN $7::int8 & 2 <> 0 THEN q.flags ELSE excluded.flags END,"                 \
      " version = q.version + 1"                                                                   \
      " RETURNING number, paused, version")                                                        \
    X(MEMO_PUT, 2,                                                                                 \
      "INSERT INTO daruma.memo (name, value) SELECT * FROM unnest($1::bytea[], $2::bytea[])"       \
      " ON CONFLICT (name) DO UPDATE SET value = excluded.value")                                  \
    X(MEMO_DROP, 1, "DELETE FROM daruma.memo WHERE name = ANY ($1::bytea[])")                      \
    X(AUDIT_PUT, 9,                                                                                \
      "INSERT INTO daruma.audit (number, at, who, act, task, tail, subject, from_state, to_state," \
      " note) SELECT (SELECT coalesce(max(number), 0) FROM daruma.audit) + row_number() OVER (),"  \
      " u.* FROM unnest($1::int8[], $2::bytea[], $3::bytea[], $4::int8[], $5::int8[],"             \
      " $6::bytea[], $7::int8[], $8::int8[], $9::bytea[]) AS u")                                   \
    X(AUDIT_TRIM, 1,                                                                               \
      "DELETE FROM daruma.audit WHERE number <= (SELECT max(number) FROM daruma.audit)"            \
      " - $1::int8")                                                                               \
    X(LAST_ROW, 1,                                                                                 \
      "UPDATE daruma.meta SET value = greatest(value, $1::int8) WHERE name = 'last_row'")          \
    X(BATCH_PUT, 3,                                                                                \
      "INSERT INTO daruma.batch (epoch, number, tasks)"                                            \
      " VALUES ($1::int8, $2::int8, $3::int8[])")                                                  \
    X(BATCH_FIND, 2, "SELECT 1 FROM daruma.batch WHERE epoch = $1::int8 AND number = $2::int8")    \
    X(BATCH_DROP, 2, "DELETE FROM daruma.batch WHERE epoch = $1::int8 AND number = $2::int8")      \
    X(ROWS_RENEW, 2,                                                                               \
      "SELECT l.id, daruma.new_row() FROM unnest($1::int8[], $2::int8[]) AS u(id, tail)"           \
      " JOIN daruma.life l ON l.id = u.id AND l.tail <> u.tail")                                   \
    X(NOTIFY, 0, "SELECT pg_notify('" CHANNEL_READY "', '')")                                      \
                                                                                                   \
    /* Reads. */                                                                                   \
    X(TASK_READ, 3,                                                                                \
      "SELECT " LIFE_COLUMNS ", " TASK_COLUMNS                                                     \
      ", CASE WHEN $3::int8 <> 0 THEN t.body ELSE ''::bytea END, " ANSWER_COLUMNS                  \
      ", CASE WHEN $3::int8 <> 0 THEN a.body ELSE ''::bytea END, e.parts, e.round, e.target,"      \
      " e.headers, CASE WHEN $3::int8 <> 0 THEN e.body ELSE ''::bytea END, e.note"                 \
      " FROM daruma.life l JOIN daruma.task t ON t.id = $1::int8"                                  \
      " LEFT JOIN daruma.answer a ON a.id = $1::int8 AND l.has_answer"                             \
      " LEFT JOIN daruma.edit e ON e.id = $1::int8 AND l.has_edit"                                 \
      " WHERE l.id = $1::int8 AND ($2::int8 = -1 OR l.tail = $2::int8)")                           \
    X(TRAIL_READ, 1,                                                                               \
      "SELECT task, " TRAIL_NAMES " FROM daruma.trail t JOIN unnest($1::int8[]) AS u(id)"          \
      " ON t.task = u.id ORDER BY task, n")                                                        \
    X(LIST, 14,                                                                                    \
      LIST_SEEN "f AS (SELECT l.* FROM l WHERE" LIST_FILTER                                        \
                " ORDER BY l.id LIMIT $10::int8)" LIST_NEXT LIST_SHOWN("$11::int8 <> 0"))          \
    X(LIST_OVERDUE, 5,                                                                             \
      "WITH d AS MATERIALIZED (SELECT l.* FROM daruma.life l WHERE l.deadline_at > 0"              \
      " AND l.deadline_at >= $1::int8 AND l.deadline_at < $2::int8 AND l.state = 0"                \
      " AND l.id > $3::int8), f AS (SELECT * FROM d ORDER BY id LIMIT $4::int8)," LIST_FITTING(    \
          "$5::int8") " n AS (SELECT CASE WHEN " LIST_IS_CUT " THEN (SELECT max(id) FROM v)"       \
                      " WHEN count(*) >= $4::int8 THEN max(id) ELSE 0 END AS next FROM "           \
                      "f) " LIST_SHOWN("false"))                                                   \
    /* Those are looked into. */                                                                   \
    X(LIST_TASK, 17,                                                                               \
      LIST_SEEN                                                                                    \
      "f AS (SELECT l.* FROM l JOIN daruma.task t ON t.id = l.id WHERE" LIST_FILTER                \
      " AND ($15::bytea = ''::bytea OR position($15::bytea IN '\\x0a'::bytea || t.labels) > 0)"    \
      " AND ($16::bytea = ''::bytea OR t.key = $16::bytea)"                                        \
      " AND ($17::bytea = ''::bytea OR t.scope = $17::bytea)"                                      \
      " ORDER BY l.id LIMIT $10::int8)" LIST_NEXT LIST_SHOWN("$11::int8 <> 0"))                    \
    X(DUE, 7,                                                                                      \
      "SELECT r.queue, r.lane, r.due, r.id, l.epoch, l.flags, l.state, 0 FROM daruma.ready r"      \
      " JOIN daruma.life l ON l.id = r.id WHERE r.due >= $1::int8 AND r.due < $2::int8"            \
      " AND (r.queue, r.lane, r.due, r.id) > ($3::int8, $4::int8, $5::int8, $6::int8)"             \
      " AND l.state = 0 ORDER BY r.queue, r.lane, r.due, r.id LIMIT $7::int8")                     \
    X(SCAN, 2,                                                                                     \
      "SELECT l.queue, 0, l.due_at, l.id, l.epoch, l.flags, l.state, coalesce(l.failed_at, 0)"     \
      " FROM daruma.life l"                                                                        \
      " WHERE l.id > $1::int8 ORDER BY l.id LIMIT $2::int8")                                       \
    X(QUEUES, 0,                                                                                   \
      "SELECT q.number, q.name, q.settings, q.paused, q.dropped, q.version, m.value"               \
      " FROM daruma.queue q LEFT JOIN daruma.memo m"                                               \
      " ON m.name = convert_to('" STORE_MEMO_LET_IN "', 'UTF8') || q.name ORDER BY q.number")      \
    X(FATES, 1,                                                                                    \
      "SELECT u.n, l.state, l.attempts, l.round FROM unnest($1::int8[]) WITH ORDINALITY"           \
      " AS u(id, n) JOIN daruma.life l ON l.id = u.id")                                            \
    X(MEMOS, 0, "SELECT name, value FROM daruma.memo ORDER BY name")                               \
    /* Tables and partitions, each with its indexes and long values. */                            \
    X(SIZE, 0,                                                                                     \
      "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 FROM pg_class c"               \
      " JOIN pg_namespace n ON n.oid = c.relnamespace"                                             \
      " WHERE n.nspname = 'daruma' AND c.relkind = 'r'")                                           \
    /* 0 is WAITING, 5 DEAD: what is read anyway tells ages, an index would churn with leases. */  \
    X(COUNTS, 0,                                                                                   \
      "SELECT queue, state, count(*), coalesce(CASE state WHEN 0 THEN min(due_at)"                 \
      " WHEN 5 THEN min(failed_at) END, 0), count(*) FILTER (WHERE state = 0 AND due_at "          \
      "<= " SERVER_MS ") FROM daruma.life GROUP BY queue, state")                                  \
    X(AUDIT, 8,                                                                                    \
      "SELECT number, at, who, act, task, tail, subject, from_state, to_state, note"               \
      " FROM daruma.audit WHERE number > $1::int8 AND ($2::int8 = 0 OR task = $2::int8)"           \
      " AND ($3::bytea = ''::bytea OR who = $3::bytea)"                                            \
      " AND ($4::bytea = ''::bytea OR act = $4::bytea)"                                            \
      " AND ($5::bytea = ''::bytea OR subject = $5::bytea)"                                        \
      " AND ($6::int8 = 0 OR at >= $6::int8) AND ($7::int8 = 0 OR at < $7::int8)"                  \
      " ORDER BY number LIMIT $8::int8")                                                           \
    X(AUDIT_LAST, 0, "SELECT coalesce(max(number), 0) FROM daruma.audit")                          \
                                                                                                   \
    /* This node and its peers. */                                                                 \
    X(NODE_PUT, 4,                                                                                 \
      "INSERT INTO daruma.node (epoch, slot, name, process, schema, program, forgotten, queues)"   \
      " SELECT nextval('daruma.epoch'),"                                                           \
      " (SELECT min(s) FROM generate_series(0, 62) AS s"                                           \
      " WHERE NOT EXISTS (SELECT 1 FROM daruma.node WHERE slot = s)), convert_from($1, 'UTF8'),"   \
      " convert_from($2, 'UTF8'), $3::int8, convert_from($4, 'UTF8'), 0, 0"                        \
      " RETURNING epoch, slot")                                                                    \
    X(PROCESSES, 0,                                                                                \
      "SELECT epoch, convert_to(process, 'UTF8') FROM daruma.node WHERE process <> ''")            \
    X(NODE_DROP, 3,                                                                                \
      "WITH dead AS (DELETE FROM daruma.node WHERE epoch = $1::int8"                               \
      " AND ($2::int8 = -1 OR beat = $2::int8) RETURNING epoch, pid)"                              \
      " SELECT epoch, (SELECT count(pg_terminate_backend(k.pid)) FROM pg_locks k"                  \
      " WHERE $2::int8 <> -1 AND k.pid = dead.pid AND k.locktype = 'advisory' AND k.objsubid = 1"  \
      " AND k.classid = ($3::int8 >> 32) AND k.objid = ($3::int8 & 4294967295)) FROM dead")        \
    X(BEAT, 1,                                                                                     \
      "UPDATE daruma.node SET beat = beat + 1, beat_at = clock_timestamp(),"                       \
      " pid = pg_backend_pid()"                                                                    \
      " WHERE epoch = $1::int8 RETURNING " SERVER_MS)                                              \
    X(PEERS, 0, "SELECT epoch, beat, forgotten, awaits, queues FROM daruma.node ORDER BY epoch")   \
    X(KNOWN, 5, /* the last: whether peers are to look at once */                                  \
      "WITH own AS (UPDATE daruma.node SET forgotten = $2::int8, queues = $3::int8,"               \
      " awaits = $4::int8 <> 0 WHERE epoch = $1::int8 RETURNING 1)"                                \
      " SELECT pg_notify('" CHANNEL_MOVED "', '" MOVED_LOOK "') FROM own WHERE $5::int8 <> 0")     \
    X(MOVED, 1, "SELECT pg_notify('" CHANNEL_MOVED "', convert_from($1, 'UTF8'))")                 \
    X(LOOK, 0, "SELECT pg_notify('" CHANNEL_FORGOTTEN "', '')")                                    \
    X(FORGOTTEN, 0, "SELECT value FROM daruma.meta WHERE name = 'forgotten'")                      \
    X(DUTY, 1, "SELECT pg_try_advisory_lock($1::int8)")                                            \
    X(HINTS, 1,                                                                                    \
      "WITH t AS (SELECT " SERVER_MS " AS now) SELECT q.number, x.lane, d.due, n.due"              \
      " FROM t CROSS JOIN daruma.queue q CROSS JOIN (VALUES (0), (1), (2), (3), (6)) AS x(lane)"   \
      " CROSS JOIN LATERAL (SELECT count(*) AS due FROM (SELECT 1 FROM daruma.ready"               \
      " WHERE queue = q.number AND lane = x.lane AND due <= t.now LIMIT $1::int8) AS c) AS d"      \
      " CROSS JOIN LATERAL (SELECT (SELECT due FROM daruma.ready WHERE queue = q.number"           \
      " AND lane = x.lane AND due > t.now ORDER BY due LIMIT 1) AS due) AS n"                      \
      " WHERE NOT q.dropped AND (d.due > 0 OR n.due IS NOT NULL)")                                 \
    X(OVERDUE, 2, /* for a while it is left to the node that knows of it */                        \
      "SELECT r.id FROM daruma.queue q CROSS JOIN LATERAL (SELECT id FROM daruma.ready"            \
      " WHERE queue = q.number AND lane = $2::int8 AND due <= " SERVER_MS " - 2000"                \
      " ORDER BY due LIMIT $1::int8) AS r LIMIT $1::int8")                                         \
    X(ORPHANS, 1,                                                                                  \
      "SELECT DISTINCT l.id, l.epoch FROM daruma.batch b CROSS JOIN unnest(b.tasks) AS u(id)"      \
      " JOIN daruma.life l ON l.id = u.id AND l.state = 1 AND l.epoch = b.epoch"                   \
      " WHERE NOT EXISTS (SELECT 1 FROM daruma.node n WHERE n.epoch = b.epoch)"                    \
      " LIMIT $1::int8")                                                                           \
    X(BATCH_OLD, 0,                                                                                \
      "DELETE FROM daruma.batch b WHERE at < clock_timestamp() - interval '1 hour' AND"            \
      " NOT EXISTS (SELECT 1 FROM daruma.node n WHERE n.epoch = b.epoch) AND NOT EXISTS"           \
      " (SELECT 1 FROM unnest(b.tasks) AS u(id) JOIN daruma.life l ON l.id = u.id"                 \
      " AND l.state = 1 AND l.epoch = b.epoch)")                                                   \
    X(PARTITIONS_MAKE, 0, "SELECT daruma.make_partitions(daruma.today(), daruma.today() + 2)")     \
    X(PARTITIONS_DROP, 0, "SELECT daruma.drop_partitions(daruma.today() - 1)")                     \
    X(REMAINS_DROP, 2,                                                                             \
      "SELECT next, more FROM daruma.sweep_remains($1::int8, daruma.today() - 1, $2::int8)")       \
    X(BATCH_FOLD, 3,                                                                               \
      "WITH old AS (DELETE FROM daruma.batch WHERE epoch = $1::int8 AND number < $2::int8"         \
      " AND number >= $3::int8"                                                                    \
      " RETURNING tasks) INSERT INTO daruma.batch AS b (epoch, number, tasks)"                     \
      " SELECT $1::int8, $2::int8, coalesce(array_agg(l.id), '{}') FROM old"                       \
      " CROSS JOIN unnest(old.tasks) AS u(id) JOIN daruma.life l ON l.id = u.id AND l.state = 1"   \
      " AND l.epoch = $1::int8 ON CONFLICT (epoch, number)"                                        \
      " DO UPDATE SET tasks = b.tasks || excluded.tasks")                                          \
    X(QUEUES_VERSION, 0, "SELECT coalesce(sum(version + 1), 0)::int8 FROM daruma.queue")

#endif
