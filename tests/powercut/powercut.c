/* SPDX-License-Identifier: MIT
 *
 * powercut -- a shared object for LD_PRELOAD that writes down what a program does to the files of one
 * folder, in order, and kills it at a chosen moment. tests/powercut/disk.py reads what was written
 * down and makes the folder as a disk shows it after a power cut: kill -9 alone leaves the page cache
 * alive and so never finds a missing fsync. It can also make a write or an fsync fail.
 *
 *   DARUMA_POWERCUT_DIR     the folder, absolute; nothing else is looked at. Not its subfolders
 *   DARUMA_POWERCUT_LOG     where to write, outside of it
 *   DARUMA_POWERCUT_AT      SIGKILL in place of the n-th call that is looked at
 *   DARUMA_POWERCUT_NOSYNC  1: every fsync succeeds and is not written down: a disk that lies
 *   DARUMA_FAIL_WRITE_AT    the n-th write, truncation, fsync or rename fails and does nothing …
 *   DARUMA_FAIL_ERRNO       … with ENOSPC or EIO …
 *   DARUMA_FAIL_STICKY      … 1: and so does every one after it
 *
 * Files whose name ends in -shm are left out: SQLite maps them and makes them anew.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define HANDLES_MAX 1024
#define WHOLE_MAX   (2 * PATH_MAX + 2)
#define LINE_BYTES  (2 * WHOLE_MAX + 100)

#define REAL(name) ((__typeof__(&name))(uintptr_t)real_of(#name))

/* Under the lock, like all below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX];
static int log_file = -1;
static uint64_t call_count, kill_at, write_count, fail_at;
static int fail_errno;
static bool is_sticky, is_lying;
static uint64_t opened_count;
static uint64_t handles[HANDLES_MAX]; /* by descriptor; 0: not ours */
static bool is_folder[HANDLES_MAX];

static void *real_of(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (found == NULL) {
        abort();
    }
    return found;
}

static uint64_t number_from(const char *variable)
{
    const char *text = getenv(variable);

    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void start(void)
{
    const char *given = getenv("DARUMA_POWERCUT_DIR"), *path = getenv("DARUMA_POWERCUT_LOG");
    const char *named = getenv("DARUMA_FAIL_ERRNO");

    if (given == NULL || path == NULL || realpath(given, folder) == NULL) {
        folder[0] = '\0';
        return;
    }
    kill_at = number_from("DARUMA_POWERCUT_AT");
    fail_at = number_from("DARUMA_FAIL_WRITE_AT");
    fail_errno = named != NULL && strcmp(named, "ENOSPC") == 0 ? ENOSPC : EIO;
    is_sticky = number_from("DARUMA_FAIL_STICKY") != 0;
    is_lying = number_from("DARUMA_POWERCUT_NOSYNC") != 0;
    log_file = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_file < 0) {
        abort();
    }
}

/* --- what is ours -------------------------------------------------------------------------------- */

/* The name within the folder, "" for the folder itself, NULL for what is elsewhere. */
static const char *name_of(const char *path, char whole[WHOLE_MAX])
{
    size_t len = strlen(folder);

    if (len == 0) {
        return NULL;
    }
    if (path[0] == '/') {
        (void)snprintf(whole, WHOLE_MAX, "%s", path);
    } else {
        char here[PATH_MAX];
        (void)snprintf(whole, WHOLE_MAX, "%s/%s", getcwd(here, sizeof here) != NULL ? here : "",
                       strcmp(path, ".") == 0 ? "" : path);
    }
    size_t end = strlen(whole);
    while (end > 1 && whole[end - 1] == '/') {
        whole[--end] = '\0';
    }
    if (strncmp(whole, folder, len) != 0 || (whole[len] != '/' && whole[len] != '\0')) {
        return NULL;
    }
    const char *name = whole[len] == '/' ? whole + len + 1 : "";
    bool is_shared = end > 4 && strcmp(whole + end - 4, "-shm") == 0;
    return is_shared || strchr(name, '/') != NULL ? NULL : name;
}

static uint64_t handle_of(int descriptor)
{
    return descriptor >= 0 && descriptor < HANDLES_MAX ? handles[descriptor] : 0;
}

/* --- writing it down ----------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void note(const void *bytes, size_t len,
                                                       const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    int used = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    struct iovec parts[] = {{.iov_base = line, .iov_len = (size_t)used},
                            {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len}};
    if (REAL(writev)(log_file, parts, 2) != (ssize_t)(used + (ssize_t)len)) {
        abort();
    }
}

/* Every call that is looked at passes here first. */
static void pass(void)
{
    if (++call_count == kill_at) {
        note(NULL, 0, "K %llu\n", (unsigned long long)call_count);
        (void)kill(getpid(), SIGKILL);
        (void)pause();
    }
}

/* Is this the write that fails? */
static bool must_fail(void)
{
    write_count++;
    if (fail_at == 0 || write_count < fail_at || (write_count > fail_at && !is_sticky)) {
        return false;
    }
    errno = fail_errno;
    return true;
}

/* --- open, close --------------------------------------------------------------------------------- */

typedef int (*open_fn)(const char *path, int flags, ...);

static void keep_handle(int descriptor, const char *name, bool was_there, int flags)
{
    if (descriptor < 0 || descriptor >= HANDLES_MAX) {
        return;
    }
    handles[descriptor] = ++opened_count;
    is_folder[descriptor] = name[0] == '\0';
    if (!is_folder[descriptor]) {
        const char *how = !was_there ? "new" : (flags & O_TRUNC) != 0 ? "empty" : "old";
        note(NULL, 0, "O %llu %s %s\n", (unsigned long long)opened_count, how, name);
    }
}

static int open_noted(open_fn open_really, const char *path, int flags, mode_t mode)
{
    char whole[WHOLE_MAX];

    pthread_mutex_lock(&lock);
    const char *name = name_of(path, whole);
    bool is_change = (flags & (O_CREAT | O_TRUNC)) != 0;
    if (name != NULL && is_change) {
        pass();
    }
    struct stat status;
    bool was_there = name != NULL && stat(path, &status) == 0;
    int descriptor = open_really(path, flags, mode);
    int kept = errno;
    if (name != NULL) {
        keep_handle(descriptor, name, was_there, flags);
    }
    pthread_mutex_unlock(&lock);
    errno = kept;
    return descriptor;
}

static mode_t mode_from(int flags, va_list arguments)
{
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? (mode_t)va_arg(arguments, int) : 0;
}

#define OPEN_LIKE(name)                                                                            \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        mode_t mode = mode_from(flags, arguments);                                                 \
        va_end(arguments);                                                                         \
        return open_noted((open_fn)REAL(name), path, flags, mode);                                 \
    }
OPEN_LIKE(open)
OPEN_LIKE(open64)

#define OPENAT_LIKE(name)                                                                          \
    int name(int at, const char *path, int flags, ...)                                             \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        mode_t mode = mode_from(flags, arguments);                                                 \
        va_end(arguments);                                                                         \
        if (at == AT_FDCWD) {                                                                      \
            return open_noted((open_fn)REAL(open), path, flags, mode);                             \
        }                                                                                          \
        return REAL(name)(at, path, flags, mode);                                                  \
    }
OPENAT_LIKE(openat)
OPENAT_LIKE(openat64)

int creat(const char *path, mode_t mode)
{
    return open_noted((open_fn)REAL(open), path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int creat64(const char *path, mode_t mode)
{
    return creat(path, mode);
}

int close(int descriptor)
{
    pthread_mutex_lock(&lock);
    if (handle_of(descriptor) != 0) {
        handles[descriptor] = 0;
    }
    pthread_mutex_unlock(&lock);
    return REAL(close)(descriptor);
}

/* --- write --------------------------------------------------------------------------------------- */

/* Where it goes: `at`, or for a negative one the descriptor's own place. */
static off_t place_of(int descriptor, off_t at)
{
    struct stat status;
    int flags = fcntl(descriptor, F_GETFL);

    if ((flags & O_APPEND) != 0 && fstat(descriptor, &status) == 0) {
        return status.st_size;
    }
    return at >= 0 ? at : lseek(descriptor, 0, SEEK_CUR);
}

static ssize_t write_parts(int descriptor, const struct iovec *parts, int count, off_t at)
{
    return at < 0 ? REAL(writev)(descriptor, parts, count)
                  : REAL(pwritev)(descriptor, parts, count, at);
}

static void note_parts(uint64_t handle, off_t at, const struct iovec *parts, ssize_t written)
{
    for (; written > 0; parts++) {
        size_t len = parts->iov_len < (size_t)written ? parts->iov_len : (size_t)written;
        note(parts->iov_base, len, "W %llu %lld %zu\n", (unsigned long long)handle, (long long)at,
             len);
        at += (off_t)len;
        written -= (ssize_t)len;
    }
}

static ssize_t write_noted(int descriptor, const struct iovec *parts, int count, off_t at)
{
    pthread_mutex_lock(&lock);
    uint64_t handle = handle_of(descriptor);
    ssize_t written = -1;
    if (handle == 0) {
        pthread_mutex_unlock(&lock);
        return write_parts(descriptor, parts, count, at);
    }
    pass();
    if (!must_fail()) {
        off_t place = place_of(descriptor, at);
        written = write_parts(descriptor, parts, count, at);
        int kept = errno;
        note_parts(handle, place, parts, written);
        errno = kept;
    }
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
    return written;
}

ssize_t write(int descriptor, const void *bytes, size_t len)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};

    return write_noted(descriptor, &part, 1, -1);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t len, off_t at)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};

    return write_noted(descriptor, &part, 1, at);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t len, off64_t at)
{
    return pwrite(descriptor, bytes, len, at);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    return write_noted(descriptor, parts, count, -1);
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t at)
{
    return write_noted(descriptor, parts, count, at);
}

ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t at)
{
    return write_noted(descriptor, parts, count, at);
}

int ftruncate(int descriptor, off_t len)
{
    pthread_mutex_lock(&lock);
    uint64_t handle = handle_of(descriptor);
    int failed = -1;
    if (handle != 0) {
        pass();
    }
    if (handle == 0 || !must_fail()) {
        failed = REAL(ftruncate)(descriptor, len);
    }
    int kept = errno;
    if (handle != 0 && failed == 0) {
        note(NULL, 0, "T %llu %lld\n", (unsigned long long)handle, (long long)len);
    }
    pthread_mutex_unlock(&lock);
    errno = kept;
    return failed;
}

int ftruncate64(int descriptor, off64_t len)
{
    return ftruncate(descriptor, len);
}

/* --- fsync --------------------------------------------------------------------------------------- */

typedef int (*sync_fn)(int descriptor);

static int sync_noted(sync_fn sync_really, int descriptor)
{
    pthread_mutex_lock(&lock);
    uint64_t handle = handle_of(descriptor);
    if (handle == 0) {
        pthread_mutex_unlock(&lock);
        return sync_really(descriptor);
    }
    pass();
    int failed = must_fail() ? -1 : 0; /* not really: the model is all that counts, and is quick */
    int kept = errno;
    const char *how = failed != 0 ? "failed" : "done";
    if (is_folder[descriptor] && !is_lying) {
        note(NULL, 0, "D %s\n", how);
    } else if (!is_lying) {
        note(NULL, 0, "S %llu %s\n", (unsigned long long)handle, how);
    }
    pthread_mutex_unlock(&lock);
    errno = kept;
    return failed;
}

int fsync(int descriptor)
{
    return sync_noted(REAL(fsync), descriptor);
}

int fdatasync(int descriptor)
{
    return sync_noted(REAL(fdatasync), descriptor);
}

/* --- names --------------------------------------------------------------------------------------- */

int rename(const char *from, const char *to)
{
    char whole_from[WHOLE_MAX], whole_to[WHOLE_MAX];

    pthread_mutex_lock(&lock);
    const char *name_from = name_of(from, whole_from), *name_to = name_of(to, whole_to);
    bool is_ours = name_from != NULL && name_to != NULL;
    int failed = -1;
    if (is_ours) {
        pass();
    }
    if (!is_ours || !must_fail()) {
        failed = REAL(rename)(from, to);
    }
    int kept = errno;
    if (is_ours && failed == 0) {
        note(NULL, 0, "R %s %s\n", name_from, name_to);
    }
    pthread_mutex_unlock(&lock);
    errno = kept;
    return failed;
}

int renameat(int at_from, const char *from, int at_to, const char *to)
{
    if (at_from == AT_FDCWD && at_to == AT_FDCWD) {
        return rename(from, to);
    }
    return REAL(renameat)(at_from, from, at_to, to);
}

int link(const char *from, const char *to)
{
    char whole_from[WHOLE_MAX], whole_to[WHOLE_MAX];

    pthread_mutex_lock(&lock);
    const char *name_from = name_of(from, whole_from), *name_to = name_of(to, whole_to);
    bool is_ours = name_from != NULL && name_to != NULL;
    if (is_ours) {
        pass();
    }
    int failed = REAL(link)(from, to);
    int kept = errno;
    if (is_ours && failed == 0) {
        note(NULL, 0, "L %s %s\n", name_from, name_to);
    }
    pthread_mutex_unlock(&lock);
    errno = kept;
    return failed;
}

int unlink(const char *path)
{
    char whole[WHOLE_MAX];

    pthread_mutex_lock(&lock);
    const char *name = name_of(path, whole);
    if (name != NULL) {
        pass();
    }
    int failed = REAL(unlink)(path);
    int kept = errno;
    if (name != NULL && failed == 0) {
        note(NULL, 0, "U %s\n", name);
    }
    pthread_mutex_unlock(&lock);
    errno = kept;
    return failed;
}

int unlinkat(int at, const char *path, int flags)
{
    return at == AT_FDCWD && flags == 0 ? unlink(path) : REAL(unlinkat)(at, path, flags);
}

/* A subfolder would not be in the picture: what is put into it would seem never to be lost. */
int mkdir(const char *path, mode_t mode)
{
    char whole[WHOLE_MAX];

    pthread_mutex_lock(&lock);
    bool is_ours = name_of(path, whole) != NULL;
    pthread_mutex_unlock(&lock);
    if (is_ours) {
        (void)!REAL(write)(2, "powercut: subfolders are not modelled\n", 38);
        abort();
    }
    return REAL(mkdir)(path, mode);
}
