/* SPDX-License-Identifier: MIT
 *
 * store_postgres_schema -- inside the PostgreSQL store only: the steps that a database goes through.
 */
#ifndef STORE_STORE_POSTGRES_SCHEMA_H
#define STORE_STORE_POSTGRES_SCHEMA_H

#include <stdint.h>

/* Each step is a list of texts that ends with NULL. */
extern const char *const *const postgres_steps[];
extern const int64_t postgres_step_count;
extern const char *const postgres_step_2[];          /* store_postgres_functions.c */
extern const char *const postgres_step_guards[];     /* store_postgres_guards.c */
extern const char *const postgres_step_open_queue[]; /* store_postgres_functions.c */
extern const char *const postgres_step_own_queues[]; /* store_postgres_functions.c */
extern const char *const postgres_step_older[];      /* store_postgres_older.c */
extern const char *const postgres_step_forgotten[];  /* store_postgres_forgotten.c */
extern const char *const postgres_step_by_hand[];    /* store_postgres_forgotten.c */
extern const char *const postgres_step_bounds[];     /* store_postgres_bounds.c */

#endif
