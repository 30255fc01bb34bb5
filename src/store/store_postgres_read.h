/* SPDX-License-Identifier: MIT
 *
 * store_postgres_read -- inside the PostgreSQL store only: what the reads of one task and of many
 * share.
 */
#ifndef STORE_STORE_POSTGRES_READ_H
#define STORE_STORE_POSTGRES_READ_H

#include "store/store_postgres_internal.h"

/* Where the parts of TASK_READ and LIST begin: the life, the request and its body, the answer, the
 * edit; of LIST also the newest attempt in the trail, and where the page ends. */
#define COLUMN_ANSWER (LIFE_COLUMN_COUNT + TASK_COLUMN_COUNT + 1)
#define COLUMN_EDIT   (COLUMN_ANSWER + TRAIL_COLUMN_COUNT + 4)
#define COLUMN_LATEST (COLUMN_EDIT + 6)
#define COLUMN_NEXT   (COLUMN_LATEST + TRAIL_COLUMN_COUNT)

/* A record of such a row, but for its trail; copied to the arena. */
int postgres_record(struct cell cell, struct arena *arena, struct record *ret_record,
                    struct life_row *ret_life, struct error *err);
/* Its trail, from that row and what TRAIL_READ gave: all of it, or the latest. */
int postgres_trail(struct cell record_cell, const PGresult *trail, struct arena *arena,
                   unsigned wants, struct record *record, struct error *err);
/* Its newest attempt, from a row of LIST. */
int postgres_latest(struct cell cell, struct arena *arena, struct record *record,
                    struct error *err);

#endif
