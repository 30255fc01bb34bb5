/* SPDX-License-Identifier: MIT
 *
 * postgres_older -- a node of the release before this one, as the database sees it: a session that joins,
 * records, claims, settles and changes queues by that release's own statements (postgres_older_sql.c).
 * What this program's schema makes of them is what a rolling upgrade has to rely on.
 */
#ifndef POSTGRES_OLDER_H
#define POSTGRES_OLDER_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OLDER_VERSION 5 /* of its schema */
#define OLDER_BUSY    "55P03"

struct older_statement {
    const char *name, *sql;
};
extern const struct older_statement older_statements[];
extern const size_t older_statement_count;

struct older {
    PGconn *connection;
    int64_t epoch;
    int64_t batch; /* number of the latest */
};

/* A database as that release leaves it, without tasks. */
void older_make(const char *database);

/* Joins; asserts that it may. */
struct older older_join(const char *database);
/* It is gone without a word, as after kill -9. */
void older_die(struct older *older);
void older_beat(struct older *older);

/* What a batch of it does. "" or the SQLSTATE of what the server has refused: then the batch is rolled
 * back. Nothing is committed before older_commit. */
const char *older_begin(struct older *older);
const char *older_record(struct older *older, int64_t row, int64_t queue);
const char *older_commit(struct older *older);
/* Whole batches. A drop is one for an operator who has not forced it, or has: it does not say. */
const char *older_put_queue(struct older *older, int64_t number, const char *name, bool is_dropped);
/* The row that it leases, 0: none. */
int64_t older_claim(struct older *older, int64_t queue);
const char *older_settle(struct older *older, int64_t row);
/* A task is put off and claimed in one batch, which that release does not tell apart. */
const char *older_claim_and_put_off(struct older *older, int64_t queue);

#endif
