/* SPDX-License-Identifier: MIT
 *
 * store_sqlite_file -- the file before SQLite sees it. One process has it at a time: a lock on
 * PATH.lock, held as long as the store is open (the kernel lets go of it whatever happens to the
 * process), and one on the file itself, which holds when the file is renamed, is mounted under another
 * name, or its PATH.lock is removed meanwhile. A file with two names (hard links) is refused: its log is
 * found by name, so under the other one the latest commits would be missing. What is not a database of ours is refused by its first bytes: nothing has been written
 * to it by then.
 */
#define _GNU_SOURCE /* F_OFD_SETLK */
#include "store/store_sqlite_internal.h"

#include "base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE          0600 /* requests hold what is nobody else's business */
#define HEADER_BYTES       100  /* https://www.sqlite.org/fileformat.html, 1.3 */
#define HEADER_MAGIC       "SQLite format 3"
#define HEADER_PAGE_SIZE   16
#define HEADER_PAGE_COUNT  28
#define HEADER_APPLICATION 68
#define PAGE_SIZE_OF_64K   1               /* how the header writes it */
#define OWN_BYTE           (INT64_MAX - 1) /* that is locked: far behind those that SQLite locks */

static uint32_t number_at(const unsigned char *bytes, int count)
{
    uint32_t value = 0;

    for (int i = 0; i < count; i++) {
        value = value << 8 | bytes[i];
    }
    return value;
}

static int refuse(const struct store_sqlite *sqlite, const char *why, struct error *err)
{
    return fail(err, FAULT_CORRUPT, "%s: %s; it was not touched", sqlite->path, why);
}

static int system_fault(const char *path, const char *what, struct error *err)
{
    return disk_fail(err, errno == ENOSPC ? FAULT_FULL : FAULT_SYSTEM, what, path);
}

static char *path_with(const char *path, const char *suffix)
{
    size_t len = strlen(path), more = strlen(suffix);
    char *whole = malloc(len + more + 1);

    if (whole != NULL) {
        memcpy(whole, path, len);
        memcpy(whole + len, suffix, more + 1);
    }
    return whole;
}

static int fail_open(const struct store_sqlite *sqlite, struct error *err)
{
    return fail(err, FAULT_IO, "%s: is open already, by this or another process", sqlite->path);
}

/* SQLite's own locks belong to the process and go with any descriptor of the file that the process
 * closes; this one belongs to its descriptor and is on another byte, so neither is in the way of the
 * other as long as the descriptor stays open. */
static int lock_file(const struct store_sqlite *sqlite, struct error *err)
{
#ifdef F_OFD_SETLK
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = OWN_BYTE, .l_len = 1};

    if (fcntl(sqlite->file_fd, F_OFD_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES)) {
        return fail_open(sqlite, err);
    }
#else
    (void)sqlite;
    (void)err;
#endif
    return 0; /* else the file system knows no such locks: there is PATH.lock */
}

static int take_lock(struct store_sqlite *sqlite, struct error *err)
{
    char *path = path_with(sqlite->path, ".lock");

    if (path == NULL) {
        return fail(err, FAULT_MEMORY, "out of memory");
    }
    int failed = 0;
    sqlite->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    if (sqlite->lock_fd < 0) {
        failed = system_fault(path, "cannot open", err);
    } else if (flock(sqlite->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        failed =
            errno == EWOULDBLOCK ? fail_open(sqlite, err) : system_fault(path, "cannot lock", err);
    }
    free(path);
    return failed;
}

/* With a log or a journal beside it, SQLite makes the file whole. */
static bool has_log(const struct store_sqlite *sqlite, const char *suffix)
{
    char *path = path_with(sqlite->path, suffix);
    struct stat status;
    bool is_there = path == NULL || (stat(path, &status) == 0 && status.st_size > 0);

    free(path);
    return is_there;
}

static int check_header(const struct store_sqlite *sqlite, int file, off_t size, struct error *err)
{
    unsigned char header[HEADER_BYTES];
    ssize_t got = pread(file, header, sizeof header, 0);

    if (got < 0) {
        return system_fault(sqlite->path, "cannot read", err);
    }
    if (got < HEADER_BYTES || memcmp(header, HEADER_MAGIC, sizeof HEADER_MAGIC) != 0) {
        return refuse(sqlite, "is not a database", err);
    }
    if (number_at(header + HEADER_APPLICATION, 4) != FILE_APPLICATION_ID) {
        return refuse(sqlite, "is the database of another program", err);
    }
    uint32_t page_size = number_at(header + HEADER_PAGE_SIZE, 2);
    uint32_t page_count = number_at(header + HEADER_PAGE_COUNT, 4);
    int64_t bytes = (int64_t)page_count * (page_size == PAGE_SIZE_OF_64K ? 65536 : page_size);
    if (size < bytes && !has_log(sqlite, "-wal") && !has_log(sqlite, "-journal")) {
        return refuse(sqlite, "is cut short", err);
    }
    return 0;
}

static int check_file(const struct store_sqlite *sqlite, int file, struct error *err)
{
    struct stat status;

    if (fstat(file, &status) != 0) {
        return system_fault(sqlite->path, "cannot look at", err);
    }
    if (!S_ISREG(status.st_mode)) {
        return refuse(sqlite, "is not a file", err);
    }
    if (status.st_nlink > 1) {
        return refuse(sqlite, "has more than one name (hard links)", err);
    }
    return status.st_size == 0 ? 0 : check_header(sqlite, file, status.st_size, err);
}

int sqlite_file_sync(const char *path, struct error *err)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    int failed = 0;

    if (file < 0 || fsync(file) != 0) {
        failed = system_fault(path, "cannot sync", err);
    }
    if (file >= 0) {
        (void)close(file); /* read only */
    }
    return failed;
}

int sqlite_file_open(struct store_sqlite *sqlite, struct error *err)
{
    struct stat status;

    if (stat(sqlite->path, &status) == 0 && !S_ISREG(status.st_mode)) {
        return refuse(sqlite, "is not a file", err); /* and no lock is left beside a folder */
    }
    int failed = take_lock(sqlite, err);
    if (failed != 0) {
        return failed;
    }
    sqlite->file_fd = open(sqlite->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    if (sqlite->file_fd < 0) {
        return system_fault(sqlite->path, "cannot open", err);
    }
    failed = check_file(sqlite, sqlite->file_fd, err);
    failed = failed != 0 ? failed : lock_file(sqlite, err);
    return failed != 0 ? failed : sqlite_file_sync(sqlite->folder, err);
}

int sqlite_file_look(const struct store_sqlite *sqlite, struct error *err)
{
    int file = open(sqlite->path, O_RDONLY | O_CLOEXEC);

    if (file < 0) {
        return system_fault(sqlite->path, "cannot open", err);
    }
    int failed = check_file(sqlite, file, err);
    (void)close(file); /* only read */
    return failed;
}

void sqlite_file_close(struct store_sqlite *sqlite)
{
    if (sqlite->file_fd >= 0) {
        (void)close(sqlite->file_fd); /* nothing was written through it */
        sqlite->file_fd = -1;
    }
    if (sqlite->lock_fd >= 0) {
        (void)close(sqlite->lock_fd); /* and with it the lock; the file stays for the next one */
        sqlite->lock_fd = -1;
    }
}
