/* SPDX-License-Identifier: MIT
 *
 * placing -- see placing.h.
 */
#include "cli/placing.h"

#include "base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE  0600
#define COPY_BYTES 65536
#define ASIDE      ".restoring"
#define SUFFIX_MAX 8 /* bytes of those below */

/* Files that a store makes beside its own. */
static const char *const beside[] = {"", "-wal", "-shm", "-journal", ".new", ".lock"};

/* Empty if it is too long, which names no file. */
static void join(const char *path, const char *suffix, char ret_path[PLACING_PATH_BYTES])
{
    int len = snprintf(ret_path, PLACING_PATH_BYTES, "%s%s", path, suffix);

    if (len < 0 || len >= PLACING_PATH_BYTES) {
        ret_path[0] = '\0';
    }
}

static bool is_there(const char *path, const char *suffix)
{
    char whole[PLACING_PATH_BYTES];
    struct stat found;

    join(path, suffix, whole);
    return lstat(whole, &found) == 0;
}

/* --- the paths ------------------------------------------------------------------------------------ */

static int name_all(struct placing *placing, const char *store, struct error *err)
{
    size_t kind = strcspn(store, ":") + 1;
    const char *path = store + kind;

    if (strlen(store) + sizeof ASIDE + SUFFIX_MAX > PLACING_PATH_BYTES) {
        return fail(err, FAULT_INPUT, "the path is too long");
    }
    join(path, "", placing->path);
    join(path, ASIDE, placing->aside);
    join(store, ASIDE, placing->store);
    join(path, "", placing->folder);
    char *slash = strrchr(placing->folder, '/');
    if (slash == NULL) {
        join(".", "", placing->folder);
    } else {
        slash[slash == placing->folder] = '\0';
    }
    return 0;
}

static int check_place(const struct placing *placing, const char *from, struct error *err)
{
    if (is_there(placing->path, "") || is_there(placing->path, "-wal") ||
        is_there(placing->path, "-shm")) {
        return fail(err, FAULT_INPUT,
                    "%s: is there already, or its -wal or -shm: move all of them aside first",
                    placing->path);
    }
    if (is_there(from, "-wal")) {
        return fail(err, FAULT_INPUT,
                    "%s: has a -wal beside it and is no backup alone: make one of it with sqlite3 "
                    "\".backup\"",
                    from);
    }
    return 0;
}

/* --- the files ------------------------------------------------------------------------------------ */

/* Root puts it there for the service: it is whose the folder is. */
static int give_away(int file, const char *folder, struct error *err)
{
    struct stat found;

    if (geteuid() != 0 || stat(folder, &found) != 0) {
        return 0;
    }
    return fchown(file, found.st_uid, found.st_gid) == 0
               ? 0
               : disk_fail(err, FAULT_IO, "its owner cannot be given a file in it", folder);
}

/* The one that a store takes under this name. */
static int take_lock(struct placing *placing, struct error *err)
{
    char path[PLACING_PATH_BYTES];

    join(placing->path, ".lock", path);
    placing->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    if (placing->lock < 0) {
        return disk_fail_writing(err, "cannot be made", path);
    }
    if (flock(placing->lock, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK
                   ? fail(err, FAULT_IO,
                          "%s: a server or another restore is at work on it: stop it first",
                          placing->path)
                   : disk_fail(err, FAULT_IO, "cannot be locked", path);
    }
    return give_away(placing->lock, placing->folder, err);
}

static int remove_aside(const struct placing *placing, struct error *err)
{
    char path[PLACING_PATH_BYTES];

    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        join(placing->aside, beside[i], path);
        if (unlink(path) != 0 && errno != ENOENT) {
            return disk_fail_writing(err, "was left by another restore, and cannot be removed",
                                     path);
        }
    }
    return 0;
}

static int copy_bytes(int from, int to, const char *from_path, const char *to_path,
                      struct error *err)
{
    static char some[COPY_BYTES];
    uint64_t bytes = 0;
    ssize_t len;

    while ((len = read(from, some, sizeof some)) != 0) {
        if (len < 0 && errno == EINTR) {
            continue;
        }
        if (len < 0) {
            return disk_fail(err, FAULT_IO, "cannot be read", from_path);
        }
        if (disk_write_all(to, (struct span){.at = some, .len = (size_t)len}) != 0) {
            return disk_fail_writing(err, "cannot be written", to_path);
        }
        bytes += (uint64_t)len;
    }
    return bytes > 0 ? 0 : fail(err, FAULT_INPUT, "%s: is empty, and no backup", from_path);
}

static int copy(struct placing *placing, int from, const char *from_path, struct error *err)
{
    placing->has_replaced = is_there(placing->aside, "");
    int failed = remove_aside(placing, err);
    if (failed != 0) {
        return failed;
    }
    int to = open(placing->aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (to < 0) {
        return disk_fail_writing(err, "cannot be made", placing->aside);
    }
    placing->has_copy = true;
    failed = copy_bytes(from, to, from_path, placing->aside, err);
    if (close(to) != 0 && failed == 0) {
        failed = disk_fail_writing(err, "cannot be written", placing->aside);
    }
    return failed;
}

int placing_copy(struct placing *placing, const char *store, const char *from, struct error *err)
{
    int failed = name_all(placing, store, err);

    failed = failed != 0 ? failed : check_place(placing, from, err);
    if (failed != 0) {
        return failed;
    }
    int file = open(from, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return disk_fail(err, FAULT_IO, "cannot open", from);
    }
    failed = take_lock(placing, err);
    failed = failed != 0 ? failed : copy(placing, file, from, err);
    (void)close(file); /* only read */
    return failed;
}

int placing_put(struct placing *placing, struct error *err)
{
    if (is_there(placing->aside, "-wal") || is_there(placing->aside, "-journal")) {
        return fail(err, FAULT_IO, "%s: cannot be written whole: is the disk full?",
                    placing->aside);
    }
    int file = open(placing->aside, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) {
        return disk_fail_writing(err, "cannot open", placing->aside);
    }
    int failed = give_away(file, placing->folder, err);
    if (failed == 0 && fsync(file) != 0) {
        failed = disk_fail_writing(err, "cannot be written", placing->aside);
    }
    (void)close(file); /* it is on the disk, or that was said */
    if (failed == 0 && rename(placing->aside, placing->path) != 0) {
        failed = disk_fail_writing(err, "cannot get its name", placing->aside);
    }
    if (failed != 0) {
        return failed;
    }
    placing->has_copy = false;
    (void)remove_aside(placing, NULL); /* its lock: the next restore would remove it */
    return disk_sync_folder(placing->folder, err);
}

void placing_done(struct placing *placing)
{
    if (placing->has_copy) {
        (void)remove_aside(placing, NULL); /* the next restore replaces it */
        placing->has_copy = false;
    }
    if (placing->lock >= 0) {
        (void)close(placing->lock); /* which unlocks it; the file stays, as that of a store does */
        placing->lock = -1;
    }
}
