/* SPDX-License-Identifier: MIT
 *
 * postgres_rig -- a real PostgreSQL server of a test's own: Debian's, in a temporary folder, on a
 * socket there, with fsync on. It ends with the process that started it, however that ends.
 */
#ifndef POSTGRES_RIG_H
#define POSTGRES_RIG_H

#include <stdbool.h>
#include <stdint.h>

/* Starts it and points PGHOST, PGUSER and PGDATABASE at it; false: it said why. */
bool postgres_rig_start(void);
void postgres_rig_stop(void);

/* A new, empty database; the one of that name before it is dropped. */
void postgres_rig_new(const char *database);
/* Runs SQL in a database and asserts that it works. The number it gives first, or 0. */
int64_t postgres_rig_sql(const char *database, const char *sql);
/* Stops the server at once, as a power cut would; starts it again. Only for the process that has
 * started it: a test that wants this starts a server of its own. */
void postgres_rig_halt(void);
void postgres_rig_resume(void);

#endif
