/* SPDX-License-Identifier: MIT
 *
 * disk -- see disk.h.
 */
#include "base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_AT_ONCE  65536
#define WRITE_AT_ONCE ((size_t)1 << 20)
#define PID_TEXT_MAX  24
#define LINKS_MAX     40 /* one after the other, as many as Linux follows */

int disk_fail(struct error *err, enum fault fault, const char *what, const char *path)
{
    char reason[ERROR_FIELD_MAX];
    bool is_known = strerror_r(errno, reason, sizeof reason) == 0;

    return fail_inside(err, fault, "%.150s: %s: %s", path, what,
                       is_known ? reason : "an unknown error");
}

int disk_fail_writing(struct error *err, const char *what, const char *path)
{
    bool is_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;

    return disk_fail(err, is_full ? FAULT_FULL : FAULT_IO, what, path);
}

int disk_write_all(int file, struct span bytes)
{
    while (bytes.len > 0) {
        ssize_t len = write(file, bytes.at, span_until(bytes, WRITE_AT_ONCE).len);
        if (len < 0 && errno != EINTR) {
            return -1;
        }
        bytes = span_from(bytes, len > 0 ? (size_t)len : 0);
    }
    return 0;
}

int disk_read_all(int file, const char *path, struct buf *bytes, struct error *err)
{
    char some[READ_AT_ONCE];

    for (;;) {
        ssize_t len = read(file, some, sizeof some);
        if (len == 0) {
            return 0;
        }
        if (len < 0 && errno != EINTR) {
            return disk_fail(err, FAULT_IO, "cannot be read", path);
        }
        int failed = len < 0 ? 0 : buf_add(bytes, (struct span){.at = some, .len = (size_t)len});
        if (failed == FAULT_LIMIT) {
            return fail(err, FAULT_LIMIT, "%.150s has more than %zu bytes", path, bytes->max);
        }
        if (failed != 0) {
            return fail(err, FAULT_MEMORY, "%.150s: out of memory", path);
        }
    }
}

/* Where a link at `path` points: from the folder that the link is in, unless the target is absolute. */
static char *link_target(const char *path, struct span target)
{
    const char *slash = strrchr(path, '/');
    size_t before = target.at[0] == '/' || slash == NULL ? 0 : (size_t)(slash - path) + 1;
    char *joined = malloc(before + target.len + 1);

    if (joined != NULL) {
        memcpy(joined, path, before);
        span_copy(joined + before, target);
        joined[before + target.len] = '\0';
    }
    return joined;
}

int disk_resolve(struct span path, char **ret_path, struct error *err)
{
    char *at = strndup(path.at, path.len), target[PATH_MAX];
    ssize_t len = 0;

    for (int links = 0; at != NULL && links < LINKS_MAX; links++) {
        len = readlink(at, target, sizeof target);
        if (len <= 0) { /* not a link; or not there, or out of reach: opening it will tell */
            *ret_path = at;
            return 0;
        }
        char *next = link_target(at, (struct span){.at = target, .len = (size_t)len});
        free(at);
        at = next;
    }
    bool is_out = at == NULL;
    free(at);
    return is_out ? fail(err, FAULT_MEMORY, "out of memory")
                  : fail(err, FAULT_IO, "%.*s: more than %d links, one after the other",
                         (int)span_until(path, ERROR_FIELD_MAX).len, path.at, LINKS_MAX);
}

int disk_sync_folder(const char *path, struct error *err)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (folder < 0) {
        return disk_fail(err, FAULT_UNKNOWN, "cannot be opened", path);
    }
    int failed = fsync(folder) != 0 ? disk_fail(err, FAULT_UNKNOWN, "cannot be synced", path) : 0;
    (void)close(folder); /* nothing was written through it */
    return failed;
}

void disk_sign_lock(int lock)
{
    char text[PID_TEXT_MAX];
    int len = snprintf(text, sizeof text, "%lld\n", (long long)getpid());

    if (ftruncate(lock, 0) == 0 && pwrite(lock, text, (size_t)len, 0) != len) {
        return; /* for people: see disk.h */
    }
}

int64_t disk_lock_holder(int lock)
{
    char text[PID_TEXT_MAX + 1] = "";
    int64_t holder = 0;
    ssize_t len = pread(lock, text, PID_TEXT_MAX, 0);
    struct span number = span_until(span_of(text), strcspn(text, "\n"));

    return len > 0 && span_to_int(number, &holder) ? holder : 0;
}
