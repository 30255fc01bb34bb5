/* SPDX-License-Identifier: MIT
 *
 * spool_internal -- shared by the files of the spool only: names, and files that are replaced whole.
 */
#ifndef CLI_SPOOL_INTERNAL_H
#define CLI_SPOOL_INTERNAL_H

#include "cli/spool.h"

struct spool {
    char folder[SPOOL_PATH_MAX];
    int sending; /* the lock, when we hold it; -1 */
    int claim;   /* the file that was added last, locked; -1 */
};

/* --- names (spool_name.c): pure --------------------------------------------------------------------- */

/* The first name that is behind `last` (NULL: there is none) and not before now. False: there is no
 * name left, at the end of the year 9999. */
bool spool_name_next(const struct spool_name *last, int64_t now_ms, struct spool_name *ret_name);

/* --- files (spool_file.c) --------------------------------------------------------------------------- */

/* FOLDER/NAME. FAULT_LIMIT: too long. */
int spool_path(const struct spool *spool, const char *name, char ret_path[SPOOL_PATH_MAX],
               struct error *err) __attribute__((warn_unused_result));

/* The folder and those above it that are missing, for their owner only. */
int spool_make_folder(const struct spool *spool, struct error *err)
    __attribute__((warn_unused_result));

/* FAULT_IO: another user owns it, or others may write to it, and could have anything sent from here. A
 * folder that is not there is fine. */
int spool_check_folder(const struct spool *spool, struct error *err)
    __attribute__((warn_unused_result));

/* Writes the bytes aside and renames them. Up to the rename nothing has happened; a failure after it
 * is FAULT_UNKNOWN. With `ret_claim` (NULL: without) the file stays open and locked, before anybody can
 * see it. */
int spool_put(const struct spool *spool, const char *aside, const char *name, struct span bytes,
              int *ret_claim, struct error *err) __attribute__((warn_unused_result));
int spool_drop(const struct spool *spool, const char *name, struct error *err)
    __attribute__((warn_unused_result));

/* Fills file, is_there and is_claimed. FAULT_CORRUPT: it is no ordinary file, or too large. */
int spool_get(const struct spool *spool, const char *name, struct spool_found *found,
              struct error *err) __attribute__((warn_unused_result));

/* The lock's descriptor; -1: another process has it, and *ret_holder is its number or 0. */
int spool_lock(const struct spool *spool, const char *name, int *ret_lock, int64_t *ret_holder,
               struct error *err) __attribute__((warn_unused_result));

#endif
