/* SPDX-License-Identifier: MIT
 *
 * disk -- the steps of keeping a file safely, for those that put files there whole: errors told with
 * their reason, everything written, the folder synced so that a new name survives, and a lock that
 * says who holds it. The order of the steps is the caller's.
 */
#ifndef BASE_DISK_H
#define BASE_DISK_H

#include "base/buf.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

/* "PATH: WHAT: the text of errno". */
int disk_fail(struct error *err, enum fault fault, const char *what, const char *path);
/* The same for writing: FAULT_FULL when there is no room, else FAULT_IO. */
int disk_fail_writing(struct error *err, const char *what, const char *path);

int disk_write_all(int file, struct span bytes); /* 0, or -1 and errno */
/* To its end. FAULT_LIMIT: it is longer than `bytes` may become. */
int disk_read_all(int file, const char *path, struct buf *bytes, struct error *err);
/* The file that `path` leads to when it is a symbolic link, or a chain of them, so that every name of it
 * is locked, replaced and measured at the same place; `path` itself otherwise. The file need not be
 * there: it is made where the last link points. The caller frees *ret_path. */
int disk_resolve(struct span path, char **ret_path, struct error *err);
/* FAULT_UNKNOWN: a name in it may or may not survive. */
int disk_sync_folder(const char *path, struct error *err);

/* Whoever holds a lock has written its number into it, for people: the lock holds without it. */
void disk_sign_lock(int lock);
int64_t disk_lock_holder(int lock); /* 0: nobody knows */

#endif
