/* SPDX-License-Identifier: MIT
 *
 * store_postgres -- tasks in PostgreSQL 13 or newer, for as many nodes as share the database. A node's
 * connections: a few write, one reads beside them, one beats. Nothing is kept in memory that another
 * node could change, so no node is special and any may be killed at any moment; and the writers of one
 * node mean no more to each other than those of two.
 */
#include "store/store_postgres_internal.h"
#include "base/database_url.h"
#include "store/store_postgres_schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define URL_SCHEME "postgres:"
#define SQL_MAX    320

/* Everything the writer does is a lookup by key of as many rows as the batch has; the planner, which
 * does not know how many that are, would sometimes think of reading whole tables. A transaction whose
 * client has stopped must not hold its locks for ever. */
#define WRITER_SETUP                                                                               \
    "SET lock_timeout = 50; SET default_transaction_isolation = 'read committed';"                 \
    " SET enable_seqscan = off; SET enable_hashjoin = off;"                                        \
    " SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan; SET jit = off;"        \
    " SET idle_in_transaction_session_timeout = 5000; SET client_encoding = 'UTF8';"               \
    " SET statement_timeout = 0; SET " SESSION_LOCKS                                               \
    " = 'on'; SELECT set_config('synchronous_commit', 'on', false)"                                \
    " WHERE current_setting('synchronous_commit') = 'off'" /* I1 is not for a role to give up */
#define READER_SETUP                                                                               \
    "SET lock_timeout = 5000; SET jit = off; SET default_transaction_read_only = on;"              \
    " SET statement_timeout = 60000;"                                                              \
    " SET idle_in_transaction_session_timeout = 60000; SET client_encoding = 'UTF8'"
#define PULSE_SETUP                                                                                \
    "SET lock_timeout = 500; SET default_transaction_isolation = 'read committed';"                \
    " SET jit = off; SET client_encoding = 'UTF8';"                                                \
    " SET statement_timeout = 5000; SET idle_in_transaction_session_timeout = 5000"

/* What libpq says of a URL that it cannot read has a piece of it, which may be of the password. */
static bool is_readable(const char *url)
{
    char *said = NULL;
    PQconninfoOption *parts = PQconninfoParse(url, &said);

    PQfreemem(said); /* NULL is fine, for the next one too */
    PQconninfoFree(parts);
    return parts != NULL;
}

/* A URL, libpq's name=value pairs, or the name of a database. */
static int set_url(struct store_postgres *postgres, struct span location, struct error *err)
{
    struct span shown;
    bool is_url = span_starts(location, "//"), is_name = span_find(location, '=') == NULL;
    size_t before = is_url ? strlen(URL_SCHEME) : 0;

    postgres->url = calloc(1, before + location.len + 1);
    if (postgres->url == NULL) {
        return fail(err, FAULT_MEMORY, "out of memory");
    }
    memcpy(postgres->url, URL_SCHEME, before);
    span_copy(postgres->url + before, location);
    if (is_url ? database_url_read(location, &shown) && is_readable(postgres->url)
               : is_name || is_readable(postgres->url)) {
        return 0;
    }
    return fail(err, FAULT_INPUT, "%s", DATABASE_URL_UNREADABLE);
}

static int read_meta(struct store_postgres *postgres, struct link *link, struct error *err)
{
    return link_number(link,
                       "SELECT greatest((SELECT max(id) FROM daruma.life),"
                       " (SELECT value FROM daruma.meta WHERE name = 'last_row'))",
                       &postgres->base.last_row, err);
}

/* For whoever looks or enqueues with SQL: how long what has ended is kept. Only a server knows: an
 * import has no times of its own, and nothing is kept for no time at all. */
static int write_keep(void *user, struct error *err)
{
    struct store_postgres *postgres = user;
    char sql[SQL_MAX];

    if (postgres->keep.succeeded_ms == 0) {
        return 0;
    }
    (void)snprintf(sql, sizeof sql,
                   "UPDATE daruma.meta SET value = CASE name WHEN 'keep_succeeded' THEN %" PRId64
                   " WHEN 'keep_failed' THEN %" PRId64 " ELSE %" PRId64
                   " END WHERE name LIKE 'keep\\_%%'",
                   postgres->keep.succeeded_ms, postgres->keep.failed_ms,
                   postgres->keep.cancelled_ms); /* fits */
    return link_exec(&postgres->writers[0].link, sql, err);
}

static struct link link_to(struct store_postgres *postgres, const char *setup)
{
    return (struct link){.url = postgres->url, .setup = setup, .reached_ms = &postgres->reached_ms};
}

/* Behind a pooler that lends a session for a transaction only, settings, prepared statements, LISTEN
 * and the duty's lock would be somebody else's. Two connections with one session give it away. */
static int check_sessions(struct store_postgres *postgres, struct error *err)
{
    int64_t one = 0, other = 0;
    struct link *writer = &postgres->writers[0].link;
    int failed = link_number(writer, "SELECT pg_backend_pid()", &one, err);

    failed = failed != 0 ? failed
                         : link_number(&postgres->reader, "SELECT pg_backend_pid()", &other, err);
    if (failed == 0 && one == other) {
        failed =
            fail(err, FAULT_INPUT,
                 "the database is behind a pooler in transaction mode: session mode is needed");
    }
    return failed;
}

static int open_to_write(struct store_postgres *postgres, struct error *err)
{
    struct link *writer = &postgres->writers[0].link;
    int failed = link_open(writer, err);

    failed = failed != 0 ? failed : link_open(&postgres->reader, err);
    failed = failed != 0 ? failed : check_sessions(postgres, err);
    failed = failed != 0 ? failed : postgres_schema_open(writer, postgres_step_count, err);
    return failed != 0 ? failed : read_meta(postgres, writer, err);
}

static int join(void *user, struct error *err)
{
    struct store_postgres *postgres = user;

    return postgres_join(postgres, &postgres->pulse, err);
}

/* Nodes that start together write the same rows, and on a busy server one of them waits longer than
 * the others may. */
static int open_node(struct store_postgres *postgres, struct error *err)
{
    int failed = open_to_write(postgres, err);

    words_init(postgres);
    postgres->base.writer_count = STORE_WRITERS;
    failed = failed != 0 ? failed : store_in_turn(write_keep, postgres, err);
    failed = failed != 0 ? failed : link_open(&postgres->pulse, err);
    return failed != 0 ? failed : store_in_turn(join, postgres, err);
}

/* A name of its own for its batches, and no node behind it: what it holds is for nodes to recover. */
static int open_to_import(struct store_postgres *postgres, struct error *err)
{
    int64_t epoch = 0;
    int failed = open_to_write(postgres, err);

    failed = failed != 0 ? failed
                         : link_number(&postgres->writers[0].link, "SELECT nextval('daruma.epoch')",
                                       &epoch, err);
    postgres->epoch = postgres->epoch_first = postgres->base.epoch = (uint64_t)epoch;
    return failed;
}

/* No schema is made or changed, and no node joins: peers would share their work with it. A replica
 * will do, where the URL says so (target_session_attrs=any). */
static int open_to_read(struct store_postgres *postgres, struct error *err)
{
    int failed = link_open(&postgres->reader, err);

    return failed != 0 ? failed : postgres_schema_check(&postgres->reader, err);
}

static int writer_touch(struct store *store, struct error *err)
{
    struct writer *writer = (struct writer *)store;
    struct sheet mark = {.is_plain = true};
    struct step steps[] = {{.statement = STATEMENT_BEGIN},
                           {.statement = STATEMENT_BATCH_PUT, .sheet = &mark},
                           {.statement = STATEMENT_COMMIT}};
    int failed = doubt_look(writer, err);

    if (failed != 0) {
        return failed;
    }
    sheet_row(&mark);
    sheet_int(&mark, (int64_t)__atomic_load_n(&writer->postgres->epoch, __ATOMIC_ACQUIRE));
    sheet_int(&mark, ++writer->batch_number);
    sheet_ids(&mark, NULL, 0);
    failed = link_run(&writer->link, steps, 3, err);
    steps_clear(steps, 3);
    sheet_done(&mark);
    return failed;
}

static bool writer_recall(struct store *store, struct op *op)
{
    struct writer *writer = (struct writer *)store;

    if (!doubt_publish(writer, op)) {
        return false;
    }
    store_note_rows(&writer->postgres->base, &op, 1);
    return true;
}

static const struct store_ops writer_ops = {
    .name = "postgres", .apply = writer_apply, .touch = writer_touch, .recall = writer_recall};

/* They connect when they are first used. */
static void open_writers(struct store_postgres *postgres)
{
    for (size_t i = 0; i < STORE_WRITERS_MAX; i++) {
        struct writer *writer = &postgres->writers[i];
        writer->base.ops = &writer_ops;
        writer->postgres = postgres;
        writer->link = link_to(postgres, WRITER_SETUP);
        writer->first_number = (int64_t)i << NUMBER_BITS;
        writer->batch_number = writer->answered_number = writer->folded_number =
            writer->first_number;
        postgres->base.writers[i] = &writer->base;
    }
}

static int open_as(struct store_postgres *postgres, const struct store_options *options,
                   struct error *err)
{
    open_writers(postgres);
    postgres->reader = link_to(postgres, READER_SETUP);
    postgres->counter = link_to(postgres, READER_SETUP); /* opened by the first count */
    postgres->pulse = link_to(postgres, PULSE_SETUP);
    return options->is_reader   ? open_to_read(postgres, err)
           : options->is_import ? open_to_import(postgres, err)
                                : open_node(postgres, err);
}

/* The server's disk is the server's: it refuses by itself when it is full. */
static int64_t postgres_room_bytes(struct store *store)
{
    (void)store;
    return INT64_MAX;
}

/* For those who are alone with it, as at start: the first of its writers. */
static int postgres_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    return writer_apply(store->writers[0], ops, count, err);
}

static int postgres_touch(struct store *store, struct error *err)
{
    return writer_touch(store->writers[0], err);
}

static bool postgres_recall(struct store *store, struct op *op)
{
    return writer_recall(store->writers[0], op);
}

static void postgres_close(struct store *store)
{
    struct store_postgres *postgres = (struct store_postgres *)store;

    postgres_leave(postgres);
    for (size_t i = 0; i < STORE_WRITERS_MAX; i++) {
        struct writer *writer = &postgres->writers[i];
        link_drop(&writer->link);
        stage_done(&writer->stage);
        doubt_done(writer);
        bundle_free(writer->bundle);
    }
    link_drop(&postgres->reader);
    link_drop(&postgres->counter);
    link_drop(&postgres->pulse);
    words_done(postgres);
    (void)pthread_mutex_destroy(&postgres->moved_lock); /* no thread holds it */
    free(postgres->url);
    free(postgres);
}

static const struct store_ops postgres_ops = {
    .name = "postgres",
    .apply = postgres_apply,
    .touch = postgres_touch,
    .recall = postgres_recall,
    .read_task = postgres_read_task,
    .list = postgres_list,
    .due = postgres_due,
    .scan = postgres_scan,
    .queues = postgres_queues,
    .audit = postgres_audit,
    .memos = postgres_memos,
    .room_bytes = postgres_room_bytes,
    .close = postgres_close,
};

static const struct store_nodes postgres_nodes = {.beat = postgres_beat,
                                                  .counts = postgres_counts,
                                                  .fates = postgres_fates,
                                                  .nudge = postgres_nudge};

int store_postgres_open(const struct store_options *options, struct store **ret_store,
                        struct error *err)
{
    struct store_postgres *postgres = calloc(1, sizeof *postgres);

    if (postgres == NULL) {
        return fail(err, FAULT_MEMORY, "out of memory");
    }
    postgres->base.ops = &postgres_ops;
    postgres->base.nodes = &postgres_nodes;
    postgres->base.node_lease_ms = STORE_NODE_LEASE_MS;
    postgres->nudges[0] = postgres->nudges[1] = -1;
    (void)pthread_mutex_init(&postgres->moved_lock, NULL); /* never fails on Linux */
    postgres->keep = options->keep;
    int failed = set_url(postgres, options->location, err);
    failed = failed != 0 ? failed : open_as(postgres, options, err);
    if (failed != 0) {
        postgres_close(&postgres->base);
        return failed;
    }
    *ret_store = &postgres->base;
    return 0;
}
