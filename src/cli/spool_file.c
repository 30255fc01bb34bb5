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

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE_FILE     0600
#define MODE_FOLDER   0700
#define READ_AT_ONCE  65536
#define WRITE_AT_ONCE ((size_t)1 << 20)
#define PID_TEXT_MAX  24

static const char *reason_of(int number, char buffer[ERROR_FIELD_MAX])
{
    return strerror_r(number, buffer, ERROR_FIELD_MAX) == 0 ? buffer : "an unknown error";
}

static int fail_system(struct error *err, enum fault fault, const char *what, const char *path)
{
    char reason[ERROR_FIELD_MAX];

    return fail(err, fault, "%.150s %s: %s", path, what, reason_of(errno, reason));
}

static int fail_writing(struct error *err, const char *what, const char *path)
{
    bool is_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;

    return fail_system(err, is_full ? FAULT_FULL : FAULT_IO, what, path);
}

int spool_path(const struct spool *spool, const char *name, char ret_path[SPOOL_PATH_MAX],
               struct error *err)
{
    int len = snprintf(ret_path, SPOOL_PATH_MAX, "%s/%s", spool->folder, name);

    return len > 0 && len < SPOOL_PATH_MAX ? 0
                                           : fail(err, FAULT_LIMIT, "the spool's path is too long");
}

/* --- the folder ---------------------------------------------------------------------------------- */

static int sync_folder(const char *path, struct error *err)
{
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (descriptor < 0) {
        return fail_system(err, FAULT_UNKNOWN, "cannot be opened", path);
    }
    int failed =
        fsync(descriptor) != 0 ? fail_system(err, FAULT_UNKNOWN, "cannot be synced", path) : 0;
    (void)close(descriptor); /* nothing was written through it */
    return failed;
}

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
        return errno == EEXIST ? 0 : fail_writing(err, "cannot be made", path);
    }
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return sync_folder(".", err);
    }
    if (slash == path) {
        return sync_folder("/", err);
    }
    *slash = '\0';
    int failed = sync_folder(path, err);
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
    return failed != 0 ? failed : make_one(path, err);
}

/* --- putting, dropping ----------------------------------------------------------------------------- */

static int write_all(int descriptor, struct span bytes)
{
    while (bytes.len > 0) {
        ssize_t len = write(descriptor, bytes.at, span_until(bytes, WRITE_AT_ONCE).len);
        if (len < 0 && errno != EINTR) {
            return -1;
        }
        bytes = span_from(bytes, len > 0 ? (size_t)len : 0);
    }
    return 0;
}

/* Leaves it whole and on the disk, open and locked; or not at all. */
static int write_aside(const char *path, struct span bytes, int *ret_file, struct error *err)
{
    int failed = 0;

    if (unlink(path) != 0 && errno != ENOENT) {
        return fail_writing(err, "cannot be removed", path);
    }
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MODE_FILE);
    if (file < 0) {
        return fail_writing(err, "cannot be made", path);
    }
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
        failed = fail_writing(err, "cannot be locked", path);
    } else if (write_all(file, bytes) != 0) {
        failed = fail_writing(err, "cannot be written", path);
    } else if (fsync(file) != 0) {
        failed = fail_writing(err, "cannot be synced", path);
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
        failed = fail_writing(err, "cannot be renamed", path_aside);
        (void)close(file); /* as above */
        (void)unlink(path_aside);
        return failed;
    }
    failed = sync_folder(spool->folder, err);
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
        return fail_writing(err, "cannot be removed", path);
    }
    return sync_folder(spool->folder, err);
}

/* --- getting --------------------------------------------------------------------------------------- */

static int read_all(int descriptor, const char *path, struct buf *bytes, struct error *err)
{
    char some[READ_AT_ONCE];

    for (;;) {
        ssize_t len = read(descriptor, some, sizeof some);
        if (len == 0) {
            return 0;
        }
        if (len < 0 && errno != EINTR) {
            return fail_system(err, FAULT_IO, "cannot be read", path);
        }
        int failed = len < 0 ? 0 : buf_add(bytes, (struct span){.at = some, .len = (size_t)len});
        if (failed == FAULT_LIMIT) {
            return fail(err, FAULT_CORRUPT, "it has more than %zu bytes", bytes->max);
        }
        if (failed != 0) {
            return fail(err, FAULT_MEMORY, "no memory to read it");
        }
    }
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
                                : fail_system(err, FAULT_IO, "cannot be opened", path);
    }
    found->is_there = true;
    found->is_claimed = is_locked(file);
    failed = fstat(file, &status) != 0  ? fail_system(err, FAULT_IO, "cannot be read", path)
             : !S_ISREG(status.st_mode) ? fail(err, FAULT_CORRUPT, "it is no ordinary file")
                                        : read_all(file, path, &found->file, err);
    (void)close(file); /* only read */
    return failed;
}

/* --- locks ----------------------------------------------------------------------------------------- */

/* Whoever holds a lock has written its number into it. */
static int64_t holder_of(int lock)
{
    char text[PID_TEXT_MAX + 1] = "";
    int64_t holder = 0;
    ssize_t len = pread(lock, text, PID_TEXT_MAX, 0);
    struct span number = span_until(span_of(text), strcspn(text, "\n"));

    return len > 0 && span_to_int(number, &holder) ? holder : 0;
}

static void sign_lock(int lock)
{
    char text[PID_TEXT_MAX];
    int len = snprintf(text, sizeof text, "%lld\n", (long long)getpid());

    /* For people: the lock holds without it. */
    if (ftruncate(lock, 0) == 0 && pwrite(lock, text, (size_t)len, 0) != len) {
        return;
    }
}

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
        return fail_writing(err, "cannot be opened", path);
    }
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
        sign_lock(lock);
        *ret_lock = lock;
        return 0;
    }
    failed = errno == EWOULDBLOCK ? 0 : fail_system(err, FAULT_IO, "cannot be locked", path);
    *ret_holder = holder_of(lock);
    *ret_lock = -1;
    (void)close(lock); /* nothing was written */
    return failed;
}
