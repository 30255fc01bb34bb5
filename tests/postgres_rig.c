/* SPDX-License-Identifier: MIT
 *
 * postgres_rig -- see postgres_rig.h. The server refuses to run as root; then it runs as the user
 * `postgres`, or nobody.
 */
#define _GNU_SOURCE
#include "postgres_rig.h"
#include "harness.h"

#include "base/clock.h"

#include <glob.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_MS 60000
#define LOOK_MS  10
#define TEXT_MAX 512

static struct {
    char folder[HARNESS_FOLDER_MAX];
    char programs[TEXT_MAX]; /* where initdb and postgres are */
    pid_t pid;
} rig;

static bool find_programs(void)
{
    glob_t found;
    bool is_found = glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) == 0;

    if (is_found) {
        const char *last = found.gl_pathv[found.gl_pathc - 1];
        (void)snprintf(rig.programs, sizeof rig.programs, "%.*s", (int)(strrchr(last, '/') - last),
                       last);
        globfree(&found);
    }
    return is_found;
}

/* As somebody whom the server does not refuse. */
static bool become_user(void)
{
    const struct passwd *user = getpwnam("postgres");

    user = user != NULL ? user : getpwnam("nobody");
    return geteuid() != 0 ||
           (user != NULL && setgid(user->pw_gid) == 0 && setuid(user->pw_uid) == 0);
}

static pid_t start(char *const arguments[])
{
    pid_t parent = getpid();
    pid_t child = fork();

    if (child != 0) {
        return child;
    }
    FILE *log = freopen("/dev/null", "w", stdout);
    if (log == NULL || dup2(STDOUT_FILENO, STDERR_FILENO) < 0 || !become_user() ||
        prctl(PR_SET_PDEATHSIG, SIGQUIT) != 0 || getppid() != parent || chdir("/") != 0) {
        _exit(1);
    }
    (void)execv(arguments[0], arguments); /* comes back only when it failed */
    _exit(1);
}

static bool make_cluster(void)
{
    char program[TEXT_MAX + 16], folder[TEXT_MAX];
    int status = -1;

    (void)snprintf(program, sizeof program, "%s/initdb", rig.programs);
    (void)snprintf(folder, sizeof folder, "%s/data", rig.folder);
    char *const arguments[] = {program, "-D",         folder, "-U",    "daruma", "-E",
                               "UTF8",  "--locale=C", "-A",   "trust", "-N",     NULL};
    pid_t child = start(arguments);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool start_server(void)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    char program[TEXT_MAX + 16], folder[TEXT_MAX];
    int64_t until_ms = clock_mono_ms(&clock_real) + START_MS;

    (void)snprintf(program, sizeof program, "%s/postgres", rig.programs);
    (void)snprintf(folder, sizeof folder, "%s/data", rig.folder);
    char *const arguments[] = {program,
                               "-D",
                               folder,
                               "-k",
                               rig.folder,
                               "-c",
                               "listen_addresses=",
                               "-c",
                               "fsync=on",
                               "-c",
                               "max_connections=200",
                               "-c",
                               "shared_buffers=64MB",
                               "-c",
                               "log_min_messages=fatal",
                               NULL};
    rig.pid = start(arguments);
    while (rig.pid > 0 && clock_mono_ms(&clock_real) < until_ms) {
        PGPing answer = PQping("dbname=postgres");
        if (answer == PQPING_OK || waitpid(rig.pid, NULL, WNOHANG) == rig.pid) {
            return answer == PQPING_OK;
        }
        (void)nanosleep(&pause, NULL); /* nobody tells when a server is ready */
    }
    return false;
}

bool postgres_rig_start(void)
{
    const struct passwd *user = getpwnam("postgres");

    if (!find_programs() || !harness_folder(rig.folder, sizeof rig.folder, "postgres")) {
        printf("Bail out! no PostgreSQL: tools/install-deps test\n");
        return false;
    }
    user = user != NULL ? user : getpwnam("nobody");
    bool is_ours =
        geteuid() != 0 || (user != NULL && chown(rig.folder, user->pw_uid, user->pw_gid) == 0);
    (void)setenv("PGHOST", rig.folder, 1); /* out of memory: the first connection says so */
    (void)setenv("PGUSER", "daruma", 1);
    (void)setenv("PGDATABASE", "postgres", 1);
    if (!is_ours || !make_cluster() || !start_server()) {
        printf("Bail out! PostgreSQL does not start\n");
        return false;
    }
    return true;
}

static void stop(int number)
{
    if (rig.pid > 0) {
        (void)kill(rig.pid, number);
        (void)waitpid(rig.pid, NULL, 0);
        rig.pid = 0;
    }
}

void postgres_rig_stop(void)
{
    char command[TEXT_MAX];

    stop(SIGQUIT);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", rig.folder);
    if (system(command) != 0) {
        printf("# %s is left behind\n", rig.folder);
    }
}

void postgres_rig_halt(void)
{
    stop(SIGQUIT);
}

void postgres_rig_resume(void)
{
    assert_true(start_server());
}

int64_t postgres_rig_sql(const char *database, const char *sql)
{
    const char *const names[] = {"dbname", NULL}, *const values[] = {database, NULL};
    PGconn *connection = PQconnectdbParams(names, values, 0);
    PGresult *result = PQexec(connection, sql);
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    int64_t number = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    PQfinish(connection);
    return number;
}

/* Making a database takes a second: one that is there is only emptied. */
void postgres_rig_new(const char *database)
{
    char sql[TEXT_MAX];

    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM pg_database WHERE datname = '%s'",
                   database);
    if (postgres_rig_sql("postgres", sql) == 0) {
        (void)snprintf(sql, sizeof sql, "CREATE DATABASE \"%s\" TEMPLATE template0", database);
        (void)postgres_rig_sql("postgres", sql);
        return;
    }
    (void)postgres_rig_sql(database, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                                     " WHERE application_name = 'daruma'"
                                     " AND datname = current_database()");
    (void)postgres_rig_sql(database, "SET client_min_messages = error;"
                                     " DROP SCHEMA IF EXISTS daruma CASCADE");
}
