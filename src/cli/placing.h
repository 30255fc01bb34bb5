/* SPDX-License-Identifier: MIT
 *
 * placing -- a copy of a backup, put in the place of an SQLite or JSON store when it is ready and not
 * before: a server that is started meanwhile, or after a restore that failed, finds no store there.
 *
 *   placing_copy --> PATH.restoring --> the caller marks it, and closes it --> placing_put --> PATH
 *                                                   '--> placing_done takes it away
 *
 * A restore that was killed leaves PATH.restoring behind; the next one replaces it. PATH.lock is held from
 * the copy on, so no server has the store, and no other restore is at work. One thread.
 */
#ifndef CLI_PLACING_H
#define CLI_PLACING_H

#include "base/fault.h"

#include <stdbool.h>

#define PLACING_PATH_BYTES 4200

struct placing {
    char path[PLACING_PATH_BYTES], aside[PLACING_PATH_BYTES], folder[PLACING_PATH_BYTES];
    char store[PLACING_PATH_BYTES]; /* the copy, as one that can be opened */
    int lock;                       /* -1: not held */
    bool has_copy;                  /* not in its place yet */
    bool has_replaced;              /* what another restore had left behind */
};

/* Zero and lock -1 before. `store` is sqlite:PATH or json:PATH, where nothing may be. Done is to be called
 * also if it fails. */
int placing_copy(struct placing *placing, const char *store, const char *from, struct error *err)
    __attribute__((warn_unused_result));

/* The copy is closed: on the disk, and under its name. */
int placing_put(struct placing *placing, struct error *err) __attribute__((warn_unused_result));

/* Nothing of a copy that was not put in its place is left. */
void placing_done(struct placing *placing);

#endif
