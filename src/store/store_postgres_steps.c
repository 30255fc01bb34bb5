/* SPDX-License-Identifier: MIT
 *
 * store_postgres_steps -- the schema `daruma`, step by step; a database's version is how many of them
 * it has been through. A step that has been released is never edited: append one. docs/decisions/
 * 0007-postgres.md says why the tables are what they are.
 *
 *   task, answer   large and written once; a partition a day, so that forgetting is dropping one
 *   life           small and changed in place: no index on anything that changes (HOT)
 *   ready          what waits, by the time it is due: the only index that churns
 *   key            whose a key is, by its hash: one row a key, whatever the partition of its task
 *   node, batch    who is there, and what each holds
 */
#include "store/store_postgres_schema.h"

#include <stddef.h>

#define TABLES                                                                                     \
    "CREATE SEQUENCE daruma.epoch START 1000;"                                                     \
    "CREATE TABLE daruma.meta (name text PRIMARY KEY, value int8 NOT NULL);"                       \
    "INSERT INTO daruma.meta VALUES ('schema', 0), ('last_row', 0);"                               \
    "CREATE TABLE daruma.node (epoch int8 PRIMARY KEY, slot int2 NOT NULL UNIQUE,"                 \
    " pid int4, beat int8 NOT NULL DEFAULT 0, beat_at timestamptz NOT NULL DEFAULT "               \
    "clock_timestamp(),"                                                                           \
    " started_at timestamptz NOT NULL DEFAULT clock_timestamp(), name text NOT NULL)"              \
    " WITH (fillfactor = 50);"                                                                     \
    "CREATE TABLE daruma.batch (epoch int8, number int8, tasks int8[] NOT NULL,"                   \
    " at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (epoch, number));"            \
    "CREATE TABLE daruma.queue (number int4 PRIMARY KEY, name bytea NOT NULL,"                     \
    " paused bool NOT NULL, dropped bool NOT NULL, version int8 NOT NULL DEFAULT 0,"               \
    " settings bytea NOT NULL);"                                                                   \
    "CREATE UNIQUE INDEX queue_name ON daruma.queue (name) WHERE NOT dropped;"                     \
    "CREATE TABLE daruma.task (id int8 NOT NULL, tail int8 NOT NULL, queue int4 NOT NULL,"         \
    " scope bytea NOT NULL, key bytea NOT NULL, fingerprint bytea NOT NULL,"                       \
    " method bytea NOT NULL, target bytea NOT NULL, headers bytea NOT NULL,"                       \
    " labels bytea NOT NULL, options bytea NOT NULL, body bytea NOT NULL, PRIMARY KEY (id))"       \
    " PARTITION BY RANGE (id);"                                                                    \
    "CREATE TABLE daruma.task_rest PARTITION OF daruma.task DEFAULT;"                              \
    "CREATE TABLE daruma.answer (id int8 NOT NULL, status int4 NOT NULL, attempt int4,"            \
    " started_at int8, ended_at int8, class int4, trail_status int4, sent int4, sends int4,"       \
    " wait int8, target bytea, message bytea, settled_by bytea NOT NULL, headers bytea NOT NULL,"  \
    " body bytea NOT NULL, PRIMARY KEY (id)) PARTITION BY RANGE (id);"                             \
    "CREATE TABLE daruma.answer_rest PARTITION OF daruma.answer DEFAULT;"

#define MORE_TABLES                                                                                \
    "CREATE TABLE daruma.life (id int8 PRIMARY KEY, tail int8 NOT NULL, due_at int8 NOT NULL,"     \
    " fence int8 NOT NULL, epoch int8 NOT NULL, queue int4 NOT NULL, attempts int4 NOT NULL,"      \
    " attempts_all int4 NOT NULL, round int4 NOT NULL, flags int4 NOT NULL,"                       \
    " trail_count int4 NOT NULL, state int2 NOT NULL, has_answer bool NOT NULL,"                   \
    " has_edit bool NOT NULL, key_hash bytea, deadline_at int8, settled_at int8, previous int8,"   \
    " wait int8, failed_class int4, failed_at int8, resolved_at int8, keep_until int8,"            \
    " probe_count int4, probe_due int8, counts bytea) WITH (fillfactor = 50);"                     \
    "CREATE TABLE daruma.ready (queue int4, lane int2, due int8, id int8,"                         \
    " PRIMARY KEY (queue, lane, due, id));"                                                        \
    "CREATE TABLE daruma.key (hash bytea PRIMARY KEY, id int8 NOT NULL,"                           \
    " fingerprint bytea NOT NULL);"                                                                \
    "CREATE TABLE daruma.trail (task int8, n int4, attempt int4 NOT NULL,"                         \
    " started_at int8 NOT NULL, ended_at int8 NOT NULL, class int4 NOT NULL,"                      \
    " trail_status int4 NOT NULL, sent int4 NOT NULL, sends int4 NOT NULL, wait int8 NOT NULL,"    \
    " target bytea NOT NULL, message bytea NOT NULL, PRIMARY KEY (task, n));"                      \
    "CREATE TABLE daruma.edit (id int8 PRIMARY KEY, parts int4 NOT NULL, round int4 NOT NULL,"     \
    " target bytea NOT NULL, headers bytea NOT NULL, body bytea NOT NULL, note bytea NOT NULL);"   \
    "CREATE TABLE daruma.audit (number int8 PRIMARY KEY, at int8 NOT NULL, who bytea NOT NULL,"    \
    " act bytea NOT NULL, task int8 NOT NULL, tail int8 NOT NULL, subject bytea NOT NULL,"         \
    " from_state int4 NOT NULL, to_state int4 NOT NULL, note bytea NOT NULL);"                     \
    "CREATE TABLE daruma.memo (name bytea PRIMARY KEY, value bytea NOT NULL);"

/* What changes all the time is vacuumed often and without holding back. */
#define VACUUM                                                                                     \
    "ALTER TABLE daruma.ready SET (autovacuum_vacuum_scale_factor = 0,"                            \
    " autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);"                      \
    "ALTER TABLE daruma.life SET (autovacuum_vacuum_scale_factor = 0,"                             \
    " autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);"                      \
    "ALTER TABLE daruma.batch SET (autovacuum_vacuum_scale_factor = 0,"                            \
    " autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);"

#define KEY_HASH                                                                                   \
    "CREATE FUNCTION daruma.key_hash(queue int4, scope bytea, key bytea) RETURNS bytea"            \
    " LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT substring(sha256(int4send(queue) ||"       \
    " int4send(length(scope)) || scope || key) FROM 1 FOR 16) $$;"

/* A day has 86,400,000 ms, and an id 4096 numbers for each, from 2020 on. */
#define PARTITIONS                                                                                 \
    "CREATE FUNCTION daruma.day_of(id int8) RETURNS int8 LANGUAGE sql IMMUTABLE PARALLEL SAFE"     \
    " AS $$ SELECT (id >> 12) / 86400000 $$;"                                                      \
    "CREATE FUNCTION daruma.today() RETURNS int8 LANGUAGE sql AS $$ SELECT"                        \
    " floor((extract(epoch FROM clock_timestamp()) - 1577836800) / 86400)::int8 $$;"               \
    "CREATE FUNCTION daruma.make_partitions(first int8, last int8) RETURNS int4"                   \
    " LANGUAGE plpgsql AS $$ DECLARE made int4 := 0; day int8; parent text; BEGIN"                 \
    " FOR day IN SELECT generate_series(first, last) LOOP FOREACH parent IN ARRAY ARRAY['task', "  \
    "'answer'] LOOP"                                                                               \
    " IF to_regclass(format('daruma.%I', parent || '_' || day)) IS NULL THEN"                      \
    " EXECUTE format('CREATE TABLE daruma.%I PARTITION OF daruma.%I FOR VALUES FROM (%s) TO (%s)'" \
    ", parent || '_' || day, parent, (day * 86400000) << 12, ((day + 1) * 86400000) << 12);"       \
    " made := made + 1; END IF; END LOOP; END LOOP; RETURN made; END $$;"                          \
    "CREATE FUNCTION daruma.drop_partitions(before int8) RETURNS int4"                             \
    " LANGUAGE plpgsql AS $$ DECLARE dropped int4 := 0; day int8; BEGIN"                           \
    " FOR day IN SELECT substring(c.relname FROM 6)::int8 FROM pg_inherits i"                      \
    " JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'daruma.task'::regclass"           \
    " AND c.relname ~ '^task_[0-9]+$' ORDER BY 1 LOOP EXIT WHEN day >= before;"                    \
    " IF NOT EXISTS (SELECT 1 FROM daruma.life WHERE id >= (day * 86400000) << 12"                 \
    " AND id < ((day + 1) * 86400000) << 12) THEN"                                                 \
    " EXECUTE format('DROP TABLE daruma.%I, daruma.%I', 'task_' || day, 'answer_' || day);"        \
    " dropped := dropped + 1; END IF; END LOOP; RETURN dropped; END $$;"                           \
    "CREATE FUNCTION daruma.drop_remains(before int8, most int8) RETURNS int8"                     \
    " LANGUAGE plpgsql AS $$ DECLARE gone int8; BEGIN"                                             \
    " WITH dead AS (SELECT t.id FROM daruma.task t WHERE t.id < (before * 86400000) << 12"         \
    " AND NOT EXISTS (SELECT 1 FROM daruma.life l WHERE l.id = t.id) LIMIT most),"                 \
    " a AS (DELETE FROM daruma.answer USING dead WHERE answer.id = dead.id)"                       \
    " DELETE FROM daruma.task USING dead WHERE task.id = dead.id;"                                 \
    " GET DIAGNOSTICS gone = ROW_COUNT; RETURN gone; END $$;"

/* What the columns mean, for whoever looks at them with psql. */
#define ON(column, text)      "COMMENT ON COLUMN daruma." column " IS '" text "'"
#define ON_TABLE(table, text) "COMMENT ON TABLE daruma." table " IS '" text "'"

static const char *const step_1[] = {
    TABLES,
    MORE_TABLES,
    VACUUM,
    KEY_HASH,
    PARTITIONS,
    "COMMENT ON SCHEMA daruma IS 'daruma: requests that must happen once, and their lives'",
    ON_TABLE("task", "the requests; never changed; gone with their partition"),
    ON("task.id", "milliseconds since 2020, times 4096, plus a number"),
    ON("task.tail", "the random part of the id; an id with another tail is no id"),
    ON("task.queue", "number of the queue"),
    ON("task.scope", "whose key it is, within the queue"),
    ON("task.key", "idempotency key; empty: none"),
    ON("task.fingerprint", "SHA-256 of what the key was first used for"),
    ON("task.target", "URL; empty: the queue''s"),
    ON("task.headers", "name: value, one a line"),
    ON("task.labels", "name: value, one a line"),
    ON("task.options", "JSON; empty: none"),
    ON_TABLE("life", "what changes about a task; times are ms since 1970"),
    ON("life.state",
       "0 waiting 1 running 2 succeeded 3 unsettled 4 failed 5 dead letter 6 cancelled"),
    ON("life.due_at", "when it may go out; of a running pull task: when its lease is over"),
    ON("life.deadline_at", "after this it is not tried any more; NULL: no such moment"),
    ON("life.settled_at", "when it ended"),
    ON("life.fence", "raised by each lease: only its holder may settle"),
    ON("life.epoch", "the node that holds the lease, see node"),
    ON("life.attempts", "begun in this round"),
    ON("life.attempts_all", "begun in all rounds"),
    ON("life.round", "raised by each redrive"),
    ON("life.previous", "the wait before this one, in ms"),
    ON("life.wait", "the wait that is under way, in ms"),
    ON("life.flags", "1 sent 2 answered 4 forced 8 unframed 16 once 32 pull 64 letter 128 low 256 "
                     "edited 512 route"),
    ON("life.failed_class", "of the latest failure, from 1; NULL: none"),
    ON("life.failed_at", "when it last became a dead letter"),
    ON("life.resolved_at", "when the dead letter was closed"),
    ON("life.keep_until", "how long the end is kept; NULL: as configured for its state"),
    ON("life.key_hash", "of its key while the key is its own, see key"),
    ON("life.counts", "failures of this round by class, four bytes each, lowest first"),
    ON("life.trail_count", "rows in trail"),
    ON_TABLE("ready", "what waits for a moment, for whoever is first"),
    ON("ready.lane",
       "0 now, by a person 1 due 2 due, after live traffic 3 for a worker 4 a worker''s lease"),
    ON_TABLE("key", "which task a key belongs to"),
    ON("key.hash", "daruma.key_hash(queue, scope, key)"),
    ON_TABLE("answer", "the end, as it is replayed; and the attempt that made it"),
    ON_TABLE("trail", "attempts that did not succeed, oldest first"),
    ON("trail.class", "of the error, from 0; -1: it succeeded"),
    ON("trail.sent", "0 no 1 maybe 2 yes"),
    ON("trail.sends", "requests on the wire"),
    ON_TABLE("edit", "what a person has changed about a request"),
    ON("edit.parts", "1 target 2 headers 4 body stand for the request''s own"),
    ON_TABLE("queue", "queues; a number is never used again"),
    ON("queue.settings", "JSON; empty: the configuration file defines it"),
    ON_TABLE("audit", "what people did"),
    ON_TABLE("memo", "what has to be known after a restart"),
    ON_TABLE("node", "the processes that are there"),
    ON("node.epoch", "the name in which it leases"),
    ON("node.slot", "the part of each millisecond''s ids that it gives out; 63: SQL functions"),
    ON("node.pid", "of the backend that it beats by"),
    ON("node.beat", "raised every second; one that stands still is a dead node''s"),
    ON_TABLE("batch", "transactions of a node: proof of a commit, and leases"),
    ON("batch.tasks", "leased in it; those that still run are recovered when the node is gone"),
    NULL,
};

static const char *const step_3[] = {
    "ALTER TABLE daruma.node ADD COLUMN process text NOT NULL DEFAULT ''",
    ON("node.process", "the one process that it is; empty: not known"),
    NULL,
};

/* On what a lease or a settle leaves as it is, so that they stay off the index. */
static const char *const step_4[] = {
    "CREATE INDEX life_deadline ON daruma.life (deadline_at) WHERE deadline_at > 0",
    NULL,
};

/* What a person wants run is told apart for workers too: 4 is LIFE_FORCED, 32 LIFE_PULL. */
static const char *const step_5[] = {
    "UPDATE daruma.ready r SET lane = 6 FROM daruma.life l WHERE l.id = r.id AND r.lane = 3"
    " AND l.state = 0 AND l.flags & 36 = 36",
    ON("ready.lane", "0 now, by a person 1 due 2 due, after live traffic 3 for a worker 4 a "
                     "worker''s lease 5 to be probed 6 now, by a person, for a worker"),
    NULL,
};

static const char *const step_11[] = {
    "ALTER TABLE daruma.node ADD COLUMN awaits bool NOT NULL DEFAULT false",
    ON("node.awaits", "callers wait there for tasks of any node: others say when they settle one"),
    NULL,
};

static const char *const step_12[] = {
    "ALTER TABLE daruma.node ADD COLUMN queues int8",
    ON("node.queues",
       "it follows changes of queues up to this number, the sum of version + 1 of all "
       "queues; NULL: it does not say"),
    NULL,
};

const char *const *const postgres_steps[] = {
    step_1,
    postgres_step_2,
    step_3,
    step_4,
    step_5,
    postgres_step_guards,
    postgres_step_open_queue,
    postgres_step_own_queues,
    postgres_step_older,
    postgres_step_forgotten,
    step_11,
    step_12,
    postgres_step_by_hand,
    postgres_step_bounds,
};

const int64_t postgres_step_count = sizeof postgres_steps / sizeof *postgres_steps;
