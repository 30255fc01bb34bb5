/* SPDX-License-Identifier: MIT
 *
 * spool_file -- see spool_internal.h. A file is only ever put there whole:
 *
 *   ASIDE written -> fsynced -> renamed to NAME -> folder fsynced
 *      '------- a failure here: as before -'        '--- here: FAULT_UNKNOWN
 *
 * After a failed fsync nobody knows what the disk has, so what is aside is made anew each time.
 */
#include "cli/spool_internal.h"

#include "base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE_FILE   0600
#define MODE_FOLDER 0700

int spool_path(const struct spool *spool, const char *name, char ret_path[SPOOL_PATH_MAX],
               struct error *err)
{
    int len = snprintf(ret_path, SPOOL_PATH_MAX, "%s/%s", spool->folder, name);

    return len > 0 && len < SPOOL_PATH_MAX ? 0
                                           : fail(err, FAULT_LIMIT, "the spool's path is too long");
}

/* --- the folder ---------------------------------------------------------------------------------- */

/* One folder, and its name in the one above it, on the disk. */
static int make_one(char *path, struct error *err)
{
    struct stat status;

    if (stat(path, &status) == 0) {
        return S_ISDIR(status.st_mode)
                   ? 0
                   : fail(err, FAULT_IO, "%.150s is there, but is no folder", path);
    }
    if (mkdir(path, MODE_FOLDER) != 0) {
        return errno == EEXIST ? 0 : disk_fail_writing(err, "cannot be made", path);
    }
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return disk_sync_folder(".", err);
    }
    if (slash == path) {
        return disk_sync_folder("/", err);
    }
    *slash = '\0';
    int failed = disk_sync_folder(path, err);
    *slash = '/';
    return failed;
}

int spool_make_folder(const struct spool *spool, struct error *err)
{
    char path[SPOOL_PATH_MAX];
    int failed = 0;

    (void)snprintf(path, sizeof path, "%s", spool->folder); /* fits: the same size */
    for (char *at = path + 1; failed == 0 && *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            failed = make_one(path, err);
            *at = '/';
        }
    }
    failed = failed != 0 ? failed : make_one(path, err);
    return failed != 0 ? failed : spool_check_folder(spool, err);
}

int spool_check_folder(const struct spool *spool, struct error *err)
{
    struct stat status;

    if (stat(spool->folder, &status) != 0 || !S_ISDIR(status.st_mode)) {
        return 0; /* there is none yet, or what is there is refused when it is opened */
    }
    if (status.st_uid != geteuid()) {
        return fail(
            err, FAULT_IO,
            "%.110s belongs to user %lu: run this as that user, or give a folder of your own "
            "with --spool",
            spool->folder, (unsigned long)status.st_uid);
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return fail(
            err, FAULT_IO,
            "%.110s may be written by others (mode %04o): see what is in it, then chmod 700 "
            "it, or give another folder with --spool",
            spool->folder, (unsigned)(status.st_mode & 07777));
    }
    return 0;
}

/* --- putting, dropping ----------------------------------------------------------------------------- */

/* Leaves it whole and on the disk, open and locked; or not at all. */
static int write_aside(const char *path, struct span bytes, int *ret_file, struct error *err)
{
    int failed = 0;

    if (unlink(path) != 0 && errno != ENOENT) {
        return disk_fail_writing(err, "cannot be removed", path);
    }
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MODE_FILE);
    if (file < 0) {
        return disk_fail_writing(err, "cannot be made", path);
    }
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
        failed = disk_fail_writing(err, "cannot be locked", path);
    } else if (disk_write_all(file, bytes) != 0) {
        failed = disk_fail_writing(err, "cannot be written", path);
    } else if (fsync(file) != 0) {
        failed = disk_fail_writing(err, "cannot be synced", path);
    }
    if (failed != 0) {
        (void)close(file);  /* it has failed already */
        (void)unlink(path); /* gives its room back; the next one would remove it anyway */
        return failed;
    }
    *ret_file = file;
    return 0;
}

int spool_put(const struct spool *spool, const char *aside, const char *name, struct span bytes,
              int *ret_claim, struct error *err)
{
    char path_aside[SPOOL_PATH_MAX], path[SPOOL_PATH_MAX];
    int failed = spool_path(spool, aside, path_aside, err), file = -1;

    failed = failed != 0 ? failed : spool_path(spool, name, path, err);
    failed = failed != 0 ? failed : write_aside(path_aside, bytes, &file, err);
    if (failed != 0) {
        return failed;
    }
    if (rename(path_aside, path) != 0) {
        failed = disk_fail_writing(err, "cannot be renamed", path_aside);
        (void)close(file); /* as above */
        (void)unlink(path_aside);
        return failed;
    }
    failed = disk_sync_folder(spool->folder, err);
    if (ret_claim != NULL) {
        *ret_claim = file;
    } else {
        (void)close(file); /* it is synced: there is nothing left to fail */
    }
    return failed;
}

int spool_drop(const struct spool *spool, const char *name, struct error *err)
{
    char path[SPOOL_PATH_MAX];
    int failed = spool_path(spool, name, path, err);

    if (failed != 0) {
        return failed;
    }
    if (unlink(path) != 0 && errno != ENOENT) {
        return disk_fail_writing(err, "cannot be removed", path);
    }
    return disk_sync_folder(spool->folder, err);
}

/* --- getting --------------------------------------------------------------------------------------- */

static int read_whole(int file, const char *path, struct spool_found *found, struct error *err)
{
    int failed = disk_read_all(file, path, &found->file, err);

    return failed == FAULT_LIMIT
               ? fail(err, FAULT_CORRUPT, "it has more than %zu bytes", found->file.max)
               : failed;
}

/* Nobody waits for the lock: it is asked for and given back at once. */
static bool is_locked(int file)
{
    bool is_free = flock(file, LOCK_SH | LOCK_NB) == 0;

    if (is_free) {
        (void)flock(file, LOCK_UN); /* closing it does the same */
    }
    return !is_free && errno == EWOULDBLOCK;
}

int spool_get(const struct spool *spool, const char *name, struct spool_found *found,
              struct error *err)
{
    char path[SPOOL_PATH_MAX];
    struct stat status;
    int failed = spool_path(spool, name, path, err);

    if (failed != 0) {
        return failed;
    }
    /* Without waiting: a pipe of that name would never answer. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (file < 0) {
        found->is_there = errno != ENOENT;
        return errno == ENOENT  ? 0
               : errno == ELOOP ? fail(err, FAULT_CORRUPT, "it is a link")
                                : disk_fail(err, FAULT_IO, "cannot be opened", path);
    }
    found->is_there = true;
    found->is_claimed = is_locked(file);
    failed = fstat(file, &status) != 0  ? disk_fail(err, FAULT_IO, "cannot be read", path)
             : !S_ISREG(status.st_mode) ? fail(err, FAULT_CORRUPT, "it is no ordinary file")
                                        : read_whole(file, path, found, err);
    (void)close(file); /* only read */
    return failed;
}

/* --- locks ----------------------------------------------------------------------------------------- */

int spool_lock(const struct spool *spool, const char *name, int *ret_lock, int64_t *ret_holder,
               struct error *err)
{
    char path[SPOOL_PATH_MAX];
    int failed = spool_path(spool, name, path, err);

    if (failed != 0) {
        return failed;
    }
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, MODE_FILE);
    if (lock < 0) {
        return disk_fail_writing(err, "cannot be opened", path);
    }
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
        disk_sign_lock(lock);
        *ret_lock = lock;
        return 0;
    }
    failed = errno == EWOULDBLOCK ? 0 : disk_fail(err, FAULT_IO, "cannot be locked", path);
    *ret_holder = disk_lock_holder(lock);
    *ret_lock = -1;
    (void)close(lock); /* nothing was written */
    return failed;
}
