/* SPDX-License-Identifier: MIT
 *
 * spool -- the folder in which requests wait to be sent (A9): a file each, named so that `ls` shows
 * them in the order they came in, whatever the clock did:
 *
 *   20261115T102030.123Z-000000.request    written aside, fsynced, renamed, folder fsynced
 *   .adding .sending                       locks: a moment for each new name; as long as one flushes
 *   .added .changed                        what is being written aside; of no meaning when found
 *
 * Adding never waits for whoever is sending: a flush of a thousand requests does not hold up a save.
 * Only whoever holds the spool (spool_hold) sends what is in it; only whoever has added a request may
 * claim it, that is keep it back for itself, by a lock on the file: it is free again when that process
 * ends, however it ends.
 *
 * What is in the folder and is not ours, or is torn, is told and never touched. Files are for their
 * owner only: headers may hold secrets. One thread; several processes.
 */
#ifndef CLI_SPOOL_H
#define CLI_SPOOL_H

#include "base/arena.h"
#include "base/auto.h"
#include "cli/spooled.h"

#define SPOOL_COUNT_MAX      10000      /* requests in one spool, failed ones too */
#define SPOOL_BYTES_MAX      (1u << 30) /* of all of them */
#define SPOOL_LIST_MAX       100000     /* names that are looked at */
#define SPOOL_LOCK_WAIT_MS   5000       /* for another process that adds */
#define SPOOL_PATH_MAX       4096
#define SPOOL_NAME_LEN       35
#define SPOOL_STRANGERS_MAX  16 /* that are told by name */
#define SPOOL_ARENA_BYTES    ((size_t)SPOOLED_HEAD_BYTES_MAX * 4)
#define SPOOL_FILE_BYTES_MAX ((size_t)SPOOLED_BODY_BYTES_MAX + SPOOLED_HEAD_BYTES_MAX + 64)

struct spool; /* opaque */

/* The folder that is meant when none is given: $XDG_STATE_HOME/daruma/spool, or the same under
 * ~/.local/state. FAULT_INPUT: there is no home. */
int spool_usual_folder(char ret_path[SPOOL_PATH_MAX], struct error *err)
    __attribute__((warn_unused_result));

/* Makes nothing yet: a folder that is not there is an empty spool. FAULT_IO: it is another user's, or
 * others may write to it. */
int spool_open(const char *folder, struct spool **ret_spool, struct error *err)
    __attribute__((warn_unused_result));
void spool_close(struct spool *spool); /* NULL is fine; lets go */

const char *spool_folder(const struct spool *spool);

struct spool_name {
    char text[SPOOL_NAME_LEN + 1];
};

/* To be the one who sends. *ret_is_ours is false when another process is, whose number is in
 * *ret_holder (0: not known). Makes the folder. */
int spool_hold(struct spool *spool, bool *ret_is_ours, int64_t *ret_holder, struct error *err)
    __attribute__((warn_unused_result));
void spool_let_go(struct spool *spool);

/* --- what is in it ------------------------------------------------------------------------------- */

/* Names in order. */
struct spool_list {
    struct spool_name *names;
    size_t count;
    size_t room; /* private */
    char *strangers[SPOOL_STRANGERS_MAX];
    size_t stranger_count; /* may be more than are named */
};

int spool_list_read(const struct spool *spool, struct spool_list *ret_list, struct error *err)
    __attribute__((warn_unused_result));
void spool_list_done(struct spool_list *list); /* zeroed is fine */

bool spool_name_is_valid(const char *name);

/* One request as it was found, with the memory that it needs: for many, one after the other. */
struct spool_found {
    struct spooled request;
    bool is_there;   /* false: gone meanwhile, and the rest says nothing */
    bool is_claimed; /* another process keeps it back */
    struct buf file;
    struct arena *arena;
};

void spool_found_init(struct spool_found *found);
void spool_found_done(struct spool_found *found);

/* FAULT_CORRUPT: it is torn or foreign. */
int spool_read(const struct spool *spool, const char *name, struct spool_found *found,
               struct error *err) __attribute__((warn_unused_result));

/* --- changes: each is on the disk when it returns 0 ----------------------------------------------- */

/* Behind everything that is in it, and claimed, until spool_close or the next one. FAULT_FULL: the
 * disk is, or the spool (SPOOL_COUNT_MAX, SPOOL_BYTES_MAX), and it is as it was. FAULT_UNKNOWN: it is
 * there, but may not outlive a power cut. */
int spool_add(struct spool *spool, const struct spooled *request, int64_t now_ms,
              struct spool_name *ret_name, struct error *err) __attribute__((warn_unused_result));

/* In place of the one of that name, which stays as it was on a failure but FAULT_UNKNOWN. A claim on
 * it ends. */
int spool_change(struct spool *spool, const char *name, const struct spooled *request,
                 struct error *err) __attribute__((warn_unused_result));

/* FAULT_UNKNOWN: it is gone, but may be back after a power cut. */
int spool_remove(struct spool *spool, const char *name, struct error *err)
    __attribute__((warn_unused_result));

AUTO_POINTER(struct spool, spool_close)

#endif
