/* SPDX-License-Identifier: MIT
 *
 * store_json_file -- see store_json_internal.h. A file that is only ever replaced:
 *
 *   PATH.new written -> fsynced -> renamed to PATH -> folder fsynced
 *       '--------- a failure here: the old file ---'      '--- here: either, FAULT_UNKNOWN
 *
 * After a failed fsync nobody knows what the disk has, so PATH.new is made anew each time and never
 * written on. The lock is beside the file because the rename gives PATH another inode.
 */
#include "store/store_json_internal.h"

#include "base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MODE_NEW  0600u /* there may be secrets in it */
#define MODE_BITS 0777u

static char *join(const char *path, const char *suffix)
{
    size_t len = strlen(path), suffix_len = strlen(suffix) + 1;
    char *joined = malloc(len + suffix_len);

    if (joined != NULL) {
        memcpy(joined, path, len);
        memcpy(joined + len, suffix, suffix_len);
    }
    return joined;
}

/* --- the lock ------------------------------------------------------------------------------------ */

static int fail_locked(int lock, const char *path, struct error *err)
{
    int64_t holder = disk_lock_holder(lock);

    if (holder != 0) {
        return fail(err, FAULT_IO, "%s is in use by process %lld", path, (long long)holder);
    }
    return fail(err, FAULT_IO, "%s is in use by another process", path);
}

static int take_lock(struct json_file *file, struct error *err)
{
    char *path = join(file->path, ".lock");

    if (path == NULL) {
        return fail(err, FAULT_MEMORY, "out of memory");
    }
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, MODE_NEW);
    int failed = lock < 0 ? disk_fail(err, FAULT_IO, "cannot be opened", path) : 0;
    free(path);
    if (failed != 0) {
        return failed;
    }
    if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        failed = errno == EWOULDBLOCK ? fail_locked(lock, file->path, err)
                                      : disk_fail(err, FAULT_IO, "cannot be locked", file->path);
        (void)close(lock); /* nothing was written */
        return failed;
    }
    disk_sign_lock(lock);
    file->lock = lock;
    return 0;
}

/* --- open, close --------------------------------------------------------------------------------- */

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL) {
        return strdup(".");
    }
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

int file_open_to_read(struct json_file *file, struct span path, struct error *err)
{
    *file = (struct json_file){.lock = -1, .mode = MODE_NEW};
    int failed = disk_resolve(path, &file->path, err); /* a rename would replace the link */
    if (failed != 0) {
        return failed;
    }
    file->path_new = join(file->path, ".new");
    file->folder = folder_of(file->path);
    if (file->path_new == NULL || file->folder == NULL) {
        return fail(err, FAULT_MEMORY, "out of memory");
    }
    return 0;
}

int file_open(struct json_file *file, struct span path, struct error *err)
{
    int failed = file_open_to_read(file, path, err);
    struct stat status;

    if (failed == 0 && stat(file->path, &status) == 0 && !S_ISREG(status.st_mode)) {
        return fail(err, FAULT_IO, "%s is not a file", file->path); /* no lock beside a folder */
    }
    return failed != 0 ? failed : take_lock(file, err);
}

void file_close(struct json_file *file)
{
    if (file == NULL || file->path == NULL) {
        return;
    }
    if (file->lock >= 0) {
        (void)close(file->lock); /* which unlocks it; what is in it does not matter */
    }
    free(file->path);
    free(file->path_new);
    free(file->folder);
    *file = (struct json_file){.lock = -1};
}

/* --- read ---------------------------------------------------------------------------------------- */

/* To write, it has to be the only name of the file: the first commit would leave the other name with
 * tasks that are done here, and a server that is given that name would do them again. */
static int check_file(const struct json_file *file, const struct stat *status, struct error *err)
{
    if (!S_ISREG(status->st_mode)) {
        return fail(err, FAULT_IO, "%s is not a file", file->path);
    }
    if (status->st_size > (off_t)STORE_JSON_BYTES_ENDS_MAX) {
        return fail(err, FAULT_LIMIT, "%s has more than %zu bytes", file->path,
                    STORE_JSON_BYTES_ENDS_MAX);
    }
    if (file->lock >= 0 && status->st_nlink > 1) {
        return fail(err, FAULT_IO, "%s has %llu names (hard links), and may have one", file->path,
                    (unsigned long long)status->st_nlink);
    }
    return 0;
}

int file_read(struct json_file *file, struct buf *ret_bytes, bool *ret_found, struct error *err)
{
    struct stat status;
    /* Without waiting: a pipe of that name would never answer. */
    int descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (descriptor < 0) {
        *ret_found = false;
        return errno == ENOENT ? 0 : disk_fail(err, FAULT_IO, "cannot be opened", file->path);
    }
    int failed = fstat(descriptor, &status) != 0
                     ? disk_fail(err, FAULT_IO, "cannot be read", file->path)
                     : check_file(file, &status, err);
    failed = failed != 0 ? failed : disk_read_all(descriptor, file->path, ret_bytes, err);
    (void)close(descriptor); /* only read */
    if (failed == 0) {
        file->mode = (unsigned)status.st_mode & MODE_BITS;
        *ret_found = true;
    }
    return failed;
}

/* --- replace ------------------------------------------------------------------------------------- */

/* Leaves PATH.new whole and on the disk, or not at all. */
static int write_aside(const struct json_file *file, struct span bytes, struct error *err)
{
    const char *path = file->path_new;
    int failed = 0;

    if (unlink(path) != 0 && errno != ENOENT) {
        return disk_fail_writing(err, "cannot be removed", path);
    }
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MODE_NEW);
    if (descriptor < 0) {
        return disk_fail_writing(err, "cannot be made", path);
    }
    if (file->mode != MODE_NEW && fchmod(descriptor, (mode_t)file->mode) != 0) {
        failed = disk_fail_writing(err, "cannot be given its mode", path);
    } else if (disk_write_all(descriptor, bytes) != 0) {
        failed = disk_fail_writing(err, "cannot be written", path);
    } else if (fsync(descriptor) != 0) {
        failed = disk_fail_writing(err, "cannot be synced", path);
    }
    if (close(descriptor) != 0 && failed == 0) {
        failed = disk_fail_writing(err, "cannot be closed", path);
    }
    if (failed != 0) {
        (void)unlink(path); /* it would be replaced next time; gives its room back now */
    }
    return failed;
}

int file_replace(struct json_file *file, struct span bytes, struct error *err)
{
    int failed = write_aside(file, bytes, err);

    if (failed != 0) {
        return failed;
    }
    if (rename(file->path_new, file->path) != 0) {
        return disk_fail(err, FAULT_UNKNOWN, "cannot be replaced", file->path);
    }
    return disk_sync_folder(file->folder, err);
}

int64_t file_disk_free(const struct json_file *file)
{
    struct statvfs status;

    if (statvfs(file->folder, &status) != 0) {
        return INT64_MAX;
    }
    uint64_t blocks = status.f_bavail, size = status.f_frsize > 0 ? status.f_frsize : 1;
    return blocks > (uint64_t)INT64_MAX / size ? INT64_MAX : (int64_t)(blocks * size);
}
