/* SPDX-License-Identifier: MIT
 *
 * store_postgres_link -- one connection to the server, which may go away at any moment and comes back
 * by itself: after a loss the next use connects again, no more often than the library's backoff
 * allows, and whoever comes in between is told at once instead of waiting.
 *
 * Several statements are sent together (a pipeline) and answered together: one round trip. The first
 * that fails makes the server skip the rest; the transaction is then rolled back here, so that a link
 * that is up is never inside a failed one.
 */
#include "store/store_postgres_internal.h"

#include "base/clock.h"

#include <daruma/backoff.h>

#include <stdio.h>
#include <stdlib.h>

#define RECONNECT_BASE_MS 50
#define RECONNECT_MAX_MS  2000
#define BINARY            1

static const struct {
    const char *name, *sql;
    int parameters;
} statements[] = {
#define STATEMENT_ROW(word, count, text)                                                           \
    [STATEMENT_##word] = {.name = #word, .sql = (text), .parameters = (count)},
    STATEMENT_MAP(STATEMENT_ROW)
#undef STATEMENT_ROW
};

/* --- what an error means ----------------------------------------------------------------------- */

static enum fault fault_of(const char *state)
{
    if (strcmp(state, "53100") == 0) {
        return FAULT_FULL;
    }
    if (strcmp(state, "53200") == 0) {
        return FAULT_MEMORY;
    }
    if (strcmp(state, "55P03") == 0 || strcmp(state, "40P01") == 0) {
        return FAULT_HELD;
    }
    if (strncmp(state, "23", 2) == 0 || strncmp(state, "22", 2) == 0) {
        return FAULT_INPUT;
    }
    if (strncmp(state, "54", 2) == 0) {
        return FAULT_LIMIT;
    }
    return strncmp(state, "XX", 2) == 0 ? FAULT_CORRUPT : FAULT_IO;
}

/* The server's text without its line breaks; libpq's own may name the host, never the password. */
static void say(char ret_text[ERROR_TEXT_MAX], const char *text)
{
    size_t len = 0;

    for (; text[len] != '\0' && len < ERROR_TEXT_MAX - 16; len++) {
        ret_text[len] = text[len] == '\n' ? ' ' : text[len];
    }
    while (len > 0 && ret_text[len - 1] == ' ') {
        len--;
    }
    ret_text[len] = '\0';
}

int link_fault(const struct link *link, const PGresult *result, struct error *err)
{
    const char *state = result != NULL ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *text = result != NULL ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    char said[ERROR_TEXT_MAX];

    say(said, text != NULL ? text : PQerrorMessage(link->connection));
    return fail_inside(err, state != NULL ? fault_of(state) : FAULT_IO, "postgres: %s%s%s%s", said,
                       state != NULL ? " (" : "", state != NULL ? state : "",
                       state != NULL ? ")" : "");
}

/* --- connecting ---------------------------------------------------------------------------------- */

bool link_is_up(const struct link *link)
{
    return link->connection != NULL && PQstatus(link->connection) == CONNECTION_OK;
}

void link_drop(struct link *link)
{
    PQfinish(link->connection); /* NULL is fine */
    link->connection = NULL;
    memset(link->prepared, 0, sizeof link->prepared);
}

/* What the server says besides is nobody's business here: it would go to standard error. */
static void say_nothing(void *user, const PGresult *result)
{
    (void)user;
    (void)result;
}

static int wait_longer(struct link *link, int64_t now_ms, int failed)
{
    const struct daruma_backoff backoff =
        daruma_backoff_exponential_jitter(RECONNECT_BASE_MS, RECONNECT_MAX_MS, 0.2);

    link->failures++;
    link->failed_at_ms = now_ms;
    link->next_try_ms =
        now_ms + (int64_t)daruma_backoff_delay_ms(&backoff, link->failures, 0, NULL);
    link_drop(link);
    return failed;
}

/* What stands before the URL is what it may replace. */
static PGconn *connect(const char *url)
{
    static const char *const names[] = {
        "connect_timeout",      "application_name", "keepalives_idle",
        "keepalives_interval",  "keepalives_count", "tcp_user_timeout",
        "target_session_attrs", "dbname",           NULL};
    const char *values[] = {CONNECT_SECONDS, "daruma",     "5", "2", "3",
                            "10000",         "read-write", url, NULL};

    return PQconnectdbParams(names, values, 1);
}

int link_open(struct link *link, struct error *err)
{
    int64_t now_ms = clock_mono_ms(&clock_real);

    if (link_is_up(link)) {
        return 0;
    }
    link_drop(link);
    bool is_back = __atomic_load_n(link->reached_ms, __ATOMIC_RELAXED) > link->failed_at_ms;
    if (link->failures > 0 && now_ms < link->next_try_ms && !is_back) {
        return fail(err, FAULT_IO, "postgres: not connected");
    }
    link->connection = connect(link->url);
    if (link->connection == NULL) {
        return wait_longer(link, now_ms, fail(err, FAULT_MEMORY, "no memory for a connection"));
    }
    (void)PQsetNoticeReceiver(link->connection, say_nothing, NULL); /* gives the one before */
    if (PQstatus(link->connection) != CONNECTION_OK) {
        return wait_longer(link, now_ms, link_fault(link, NULL, err));
    }
    int failed = link->setup != NULL ? link_exec(link, link->setup, err) : 0;
    if (failed != 0) {
        return wait_longer(link, now_ms, failed);
    }
    __atomic_store_n(link->reached_ms, clock_mono_ms(&clock_real), __ATOMIC_RELAXED);
    link->failures = 0;
    link->connections++;
    return 0;
}

/* --- running ------------------------------------------------------------------------------------- */

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* An error without a code is not the server's but libpq's own, which may take a while to admit that
 * the connection is gone. A server that turned into a standby, or is shutting down, is as good as
 * gone. */
static bool is_hopeless(const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    if (state == NULL) {
        return PQresultStatus(result) == PGRES_FATAL_ERROR;
    }
    return strcmp(state, "25006") == 0 || strncmp(state, "57P", 3) == 0;
}

/* After an answer: lets go of a connection that is no use any more. */
static void drop_if_lost(struct link *link, const PGresult *result)
{
    if (!link_is_up(link) || is_hopeless(result)) {
        link_drop(link);
    }
}

int link_exec(struct link *link, const char *sql, struct error *err)
{
    PGresult *result = PQexec(link->connection, sql);
    int failed = is_good(result) ? 0 : link_fault(link, result, err);

    drop_if_lost(link, result);
    PQclear(result);
    return failed;
}

int link_number(struct link *link, const char *sql, int64_t *ret_number, struct error *err)
{
    PGresult *result = PQexec(link->connection, sql);
    int failed = is_good(result) ? 0 : link_fault(link, result, err);

    if (failed == 0 && PQntuples(result) > 0 && !PQgetisnull(result, 0, 0) &&
        !span_to_int(span_of(PQgetvalue(result, 0, 0)), ret_number)) {
        failed = fail(err, FAULT_CORRUPT, "postgres: a number was expected");
    }
    drop_if_lost(link, result);
    PQclear(result);
    return failed;
}

void steps_clear(struct step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        PQclear(steps[i].result); /* NULL is fine */
        steps[i].result = NULL;
    }
}

static int prepare(struct link *link, enum statement statement, struct error *err)
{
    if (link->prepared[statement]) {
        return 0;
    }
    PGresult *result =
        PQprepare(link->connection, statements[statement].name, statements[statement].sql, 0, NULL);
    int failed = is_good(result) ? 0 : link_fault(link, result, err);
    link->prepared[statement] = failed == 0;
    drop_if_lost(link, result);
    PQclear(result);
    return failed;
}

static int send_step(struct link *link, struct step *step, struct error *err)
{
    const char *values[SHEET_COLUMNS_MAX];
    int lengths[SHEET_COLUMNS_MAX], formats[SHEET_COLUMNS_MAX];
    int count = statements[step->statement].parameters;
    int failed = step->sheet != NULL ? sheet_parameters(step->sheet, values, lengths) : 0;

    if (failed != 0) {
        return fail(err, (enum fault)failed, "no room for what a batch writes");
    }
    for (int i = 0; i < count; i++) {
        formats[i] = BINARY;
    }
    int is_sent = PQsendQueryPrepared(link->connection, statements[step->statement].name, count,
                                      values, lengths, formats, BINARY);
    return is_sent != 0 ? 0 : link_fault(link, NULL, err);
}

/* The answer to one statement; NULL: none will come. */
static PGresult *take(struct link *link)
{
    PGresult *result = PQgetResult(link->connection), *more;

    if (result != NULL && PQresultStatus(result) != PGRES_PIPELINE_SYNC) {
        while ((more = PQgetResult(link->connection)) != NULL) {
            PQclear(more);
        }
    }
    return result;
}

static bool is_row_taken(const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *name = PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);

    return state != NULL && name != NULL && strcmp(state, "23505") == 0 &&
           strcmp(name, "life_pkey") == 0;
}

/* What was waited for in vain is a key. */
static bool is_about_key(const struct step *step)
{
    return step->statement == STATEMENT_KEY_PUT || step->statement == STATEMENT_KEY_TAKE ||
           step->statement == STATEMENT_KEY_BIND;
}

/* One answer for each that was sent, then the mark that ends them. */
static int collect(struct link *link, struct step *steps, size_t sent, struct error *err)
{
    int failed = 0;

    for (size_t i = 0; i < sent; i++) {
        steps[i].result = take(link);
        if (failed == 0 && !is_good(steps[i].result)) {
            failed = link_fault(link, steps[i].result, err);
            if (failed == FAULT_HELD && is_about_key(&steps[i])) {
                failed = fail(err, FAULT_BUSY, "the key is being recorded at this moment");
            }
            link->is_row_taken = is_row_taken(steps[i].result);
        }
    }
    PGresult *mark = take(link);
    PQclear(mark);
    return failed;
}

static int pipeline(struct link *link, struct step *steps, size_t count, struct error *err)
{
    size_t sent = 0;
    int failed = PQenterPipelineMode(link->connection) == 1 ? 0 : link_fault(link, NULL, err);

    if (failed != 0) {
        return failed;
    }
    while (failed == 0 && sent < count) {
        failed = send_step(link, &steps[sent], err);
        sent += failed == 0;
    }
    if (PQpipelineSync(link->connection) != 1 && failed == 0) {
        failed = link_fault(link, NULL, err);
    }
    int refused = collect(link, steps, sent, failed != 0 ? NULL : err);
    failed = failed != 0 ? failed : refused;
    (void)PQexitPipelineMode(link->connection); /* fails only for a connection that is gone */
    return failed;
}

static bool has_commit(const struct step *steps, size_t count)
{
    return count > 0 && steps[count - 1].statement == STATEMENT_COMMIT;
}

/* Leaves the link out of any transaction, or dropped. */
static int clean_up(struct link *link, struct step *steps, size_t count, int failed,
                    struct error *err)
{
    bool is_lost = !link_is_up(link);

    for (size_t i = 0; i < count; i++) {
        is_lost = is_lost || (steps[i].result != NULL && is_hopeless(steps[i].result));
    }
    steps_clear(steps, count);
    if (is_lost) {
        link_drop(link);
        return has_commit(steps, count) ? fail(err, FAULT_UNKNOWN,
                                               "the connection to the server"
                                               " was lost during a commit")
                                        : fail(err, FAULT_IO,
                                               "the connection to the server was"
                                               " lost");
    }
    if (PQtransactionStatus(link->connection) != PQTRANS_IDLE &&
        link_exec(link, "ROLLBACK", NULL) != 0) {
        link_drop(link);
    }
    return failed;
}

int link_run(struct link *link, struct step *steps, size_t count, struct error *err)
{
    int failed = link_open(link, err);

    link->is_row_taken = false;
    for (size_t i = 0; failed == 0 && i < count; i++) {
        failed = prepare(link, steps[i].statement, err);
    }
    if (failed == 0) {
        failed = pipeline(link, steps, count, err);
        if (failed == 0 && has_commit(steps, count) &&
            strcmp(PQcmdStatus(steps[count - 1].result), "COMMIT") != 0) {
            failed = fail(err, FAULT_IO, "postgres: the transaction was rolled back");
        }
        return failed == 0 ? 0 : clean_up(link, steps, count, failed, err);
    }
    if (link->connection == NULL) {
        return failed;
    }
    if (!link_is_up(link) || PQtransactionStatus(link->connection) != PQTRANS_IDLE) {
        link_drop(link); /* a statement could not be prepared inside a transaction */
    }
    return failed;
}

int link_read(struct link *link, struct step *steps, size_t count, struct error *err)
{
    struct error first = {0}; /* nobody hears of it when the second try works */
    int failed = link_run(link, steps, count, &first);

    if (failed != 0 && !link_is_up(link)) {
        failed = link_run(link, steps, count, &first);
    }
    if (failed == 0) {
        return 0;
    }
    return fail(err, failed == FAULT_UNKNOWN ? FAULT_IO : (enum fault)failed, "%s", first.text);
}
