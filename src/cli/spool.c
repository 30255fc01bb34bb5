/* SPDX-License-Identifier: MIT
 *
 * spool -- see spool.h.
 */
#include "cli/spool_internal.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAMES_FIRST   64
#define LOCK_PAUSE_NS 5000000

/* --- opening and closing -------------------------------------------------------------------------- */

int spool_usual_folder(char ret_path[SPOOL_PATH_MAX], struct error *err)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int len;

    if (state != NULL && state[0] == '/') { /* the standard: a relative one is ignored */
        len = snprintf(ret_path, SPOOL_PATH_MAX, "%s/daruma/spool", state);
    } else if (home != NULL && home[0] != '\0') {
        len = snprintf(ret_path, SPOOL_PATH_MAX, "%s/.local/state/daruma/spool", home);
    } else {
        return fail_field(err, FAULT_INPUT, "--spool",
                          "expected a folder: neither HOME nor XDG_STATE_HOME is set");
    }
    return len > 0 && len < SPOOL_PATH_MAX ? 0
                                           : fail(err, FAULT_LIMIT, "the spool's path is too long");
}

int spool_open(const char *folder, struct spool **ret_spool, struct error *err)
{
    struct spool *spool = calloc(1, sizeof *spool);

    if (spool == NULL) {
        return fail(err, FAULT_MEMORY, "out of memory");
    }
    spool->sending = -1;
    spool->claim = -1;
    int len = snprintf(spool->folder, sizeof spool->folder, "%s", folder);
    while (len > 1 && len < SPOOL_PATH_MAX && spool->folder[len - 1] == '/') {
        spool->folder[--len] = '\0';
    }
    if (len <= 0 || len >= SPOOL_PATH_MAX) {
        free(spool);
        return fail(err, FAULT_LIMIT, "the spool's path is empty or too long");
    }
    int failed = spool_check_folder(spool, err);
    if (failed != 0) {
        free(spool);
        return failed;
    }
    *ret_spool = spool;
    return 0;
}

static void let_go(int *lock)
{
    if (*lock >= 0) {
        (void)close(*lock); /* which unlocks it; nothing was written that is not synced */
        *lock = -1;
    }
}

void spool_close(struct spool *spool)
{
    if (spool != NULL) {
        let_go(&spool->sending);
        let_go(&spool->claim);
        free(spool);
    }
}

const char *spool_folder(const struct spool *spool)
{
    return spool->folder;
}

int spool_hold(struct spool *spool, bool *ret_is_ours, int64_t *ret_holder, struct error *err)
{
    int failed = spool->sending >= 0 ? 0 : spool_make_folder(spool, err);

    if (failed == 0 && spool->sending < 0) {
        failed = spool_lock(spool, ".sending", &spool->sending, ret_holder, err);
    }
    *ret_is_ours = spool->sending >= 0;
    return failed;
}

void spool_let_go(struct spool *spool)
{
    let_go(&spool->sending);
}

/* --- listing --------------------------------------------------------------------------------------- */

static int add_name(struct spool_list *list, const char *name, struct error *err)
{
    if (list->count == SPOOL_LIST_MAX) {
        return fail(err, FAULT_LIMIT, "the spool has more than %d files", SPOOL_LIST_MAX);
    }
    if (list->count == list->room) {
        size_t room = list->room == 0 ? NAMES_FIRST : list->room * 2;
        struct spool_name *grown = realloc(list->names, room * sizeof *grown);
        if (grown == NULL) {
            return fail(err, FAULT_MEMORY, "no memory to list the spool");
        }
        list->names = grown;
        list->room = room;
    }
    memcpy(list->names[list->count++].text, name, SPOOL_NAME_LEN + 1); /* a valid one has that */
    return 0;
}

static int add_stranger(struct spool_list *list, const char *name, struct error *err)
{
    if (list->stranger_count < SPOOL_STRANGERS_MAX) {
        list->strangers[list->stranger_count] = strdup(name);
        if (list->strangers[list->stranger_count] == NULL) {
            return fail(err, FAULT_MEMORY, "no memory to list the spool");
        }
    }
    list->stranger_count++;
    return 0;
}

static int compare(const void *one, const void *other)
{
    return strcmp(((const struct spool_name *)one)->text, ((const struct spool_name *)other)->text);
}

static int read_names(DIR *folder, const char *path, struct spool_list *list, struct error *err)
{
    char reason[ERROR_FIELD_MAX] = "";
    struct dirent *entry;
    int failed = 0;

    errno = 0;
    while (failed == 0 && (entry = readdir(folder)) != NULL) {
        if (spool_name_is_valid(entry->d_name)) {
            failed = add_name(list, entry->d_name, err);
        } else if (entry->d_name[0] != '.') { /* ours, or nobody's who wants to be seen */
            failed = add_stranger(list, entry->d_name, err);
        }
        errno = 0;
    }
    if (failed == 0 && errno != 0) {
        (void)strerror_r(errno, reason, sizeof reason); /* stays empty: then without it */
        failed = fail(err, FAULT_IO, "%.150s cannot be read: %s", path, reason);
    }
    return failed;
}

int spool_list_read(const struct spool *spool, struct spool_list *ret_list, struct error *err)
{
    struct spool_list list = {0};
    char reason[ERROR_FIELD_MAX] = "";
    DIR *folder = opendir(spool->folder);

    if (folder == NULL && errno == ENOENT) {
        *ret_list = list;
        return 0;
    }
    if (folder == NULL) {
        (void)strerror_r(errno, reason, sizeof reason); /* as above */
        return fail(err, FAULT_IO, "%.150s cannot be opened: %s", spool->folder, reason);
    }
    int failed = read_names(folder, spool->folder, &list, err);
    (void)closedir(folder); /* only read */
    if (failed != 0) {
        spool_list_done(&list);
        return failed;
    }
    if (list.count > 0) {
        qsort(list.names, list.count, sizeof *list.names, compare);
    }
    *ret_list = list;
    return 0;
}

void spool_list_done(struct spool_list *list)
{
    for (size_t i = 0; i < SPOOL_STRANGERS_MAX; i++) {
        free(list->strangers[i]);
    }
    free(list->names);
    *list = (struct spool_list){0};
}

/* --- reading -------------------------------------------------------------------------- */

void spool_found_init(struct spool_found *found)
{
    *found = (struct spool_found){0};
    buf_init(&found->file, SPOOL_FILE_BYTES_MAX);
}

void spool_found_done(struct spool_found *found)
{
    buf_done(&found->file);
    arena_free(found->arena);
    *found = (struct spool_found){0};
}

int spool_read(const struct spool *spool, const char *name, struct spool_found *found,
               struct error *err)
{
    buf_clear(&found->file);
    arena_free(found->arena);
    found->arena = arena_new(SPOOL_ARENA_BYTES);
    if (found->arena == NULL) {
        return fail(err, FAULT_MEMORY, "no memory to read a request");
    }
    int failed = spool_get(spool, name, found, err);
    if (failed != 0 || !found->is_there) {
        return failed;
    }
    return spooled_parse(buf_span(&found->file), found->arena, &found->request, err);
}

static int put(const struct spool *spool, const char *aside, const char *name,
               const struct spooled *request, int *ret_claim, struct error *err)
{
    AUTO(buf_done) struct buf bytes;

    buf_init(&bytes, SPOOL_FILE_BYTES_MAX);
    int failed = spooled_write(request, &bytes, err);
    return failed != 0 ? failed : spool_put(spool, aside, name, buf_span(&bytes), ret_claim, err);
}

/* --- adding ---------------------------------------------------------------------------------------- */

/* Is there room for `bytes` more? What goes away meanwhile only makes more. */
static int check_room(const struct spool *spool, const struct spool_list *list, uint64_t bytes,
                      struct error *err)
{
    char path[SPOOL_PATH_MAX];
    struct stat status;

    if (list->count >= SPOOL_COUNT_MAX) {
        return fail(err, FAULT_FULL, "the spool is full: it has %zu requests, the most is %d",
                    list->count, SPOOL_COUNT_MAX);
    }
    for (size_t i = 0; i < list->count; i++) {
        int failed = spool_path(spool, list->names[i].text, path, err);
        if (failed != 0) {
            return failed;
        }
        bytes += stat(path, &status) == 0 && status.st_size > 0 ? (uint64_t)status.st_size : 0;
    }
    if (bytes > SPOOL_BYTES_MAX) {
        return fail(err, FAULT_FULL,
                    "the spool is full: with this it has %llu bytes, the most is %u",
                    (unsigned long long)bytes, SPOOL_BYTES_MAX);
    }
    return 0;
}

/* Adding takes a moment; whoever holds the lock for longer has been stopped. */
static int lock_adding(const struct spool *spool, int *ret_lock, struct error *err)
{
    int64_t until_ms = clock_mono_ms(&clock_real) + SPOOL_LOCK_WAIT_MS, holder = 0;

    for (;;) {
        int failed = spool_lock(spool, ".adding", ret_lock, &holder, err);
        if (failed != 0 || *ret_lock >= 0) {
            return failed;
        }
        if (clock_mono_ms(&clock_real) >= until_ms) {
            return fail(err, FAULT_IO, "process %lld is adding to the spool, and does not end",
                        (long long)holder);
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS},
                        NULL); /* or less: asked again */
    }
}

static int add_locked(struct spool *spool, const struct spooled *request, int64_t now_ms,
                      struct spool_name *ret_name, struct error *err)
{
    AUTO(spool_list_done) struct spool_list list = {0};
    struct spool_name name;
    int failed = spool_list_read(spool, &list, err);

    failed = failed != 0 ? failed : check_room(spool, &list, request->body.len, err);
    if (failed != 0) {
        return failed;
    }
    const struct spool_name *last = list.count > 0 ? &list.names[list.count - 1] : NULL;
    if (!spool_name_next(last, now_ms, &name)) {
        return fail(err, FAULT_FULL, "the spool has no name left behind %s", last->text);
    }
    let_go(&spool->claim);
    failed = put(spool, ".added", name.text, request, &spool->claim, err);
    if (failed == 0 || failed == FAULT_UNKNOWN) {
        *ret_name = name;
    }
    return failed;
}

int spool_add(struct spool *spool, const struct spooled *request, int64_t now_ms,
              struct spool_name *ret_name, struct error *err)
{
    int lock = -1;
    int failed = spool_make_folder(spool, err);

    failed = failed != 0 ? failed : lock_adding(spool, &lock, err);
    failed = failed != 0 ? failed : add_locked(spool, request, now_ms, ret_name, err);
    let_go(&lock);
    return failed;
}

/* --- changing and removing ------------------------------------------------------------------------ */

/* Whoever holds the spool has a name aside of its own; whoever has a claim writes as if it added. */
int spool_change(struct spool *spool, const char *name, const struct spooled *request,
                 struct error *err)
{
    int lock = -1;

    if (spool->sending >= 0) {
        return put(spool, ".changed", name, request, NULL, err);
    }
    int failed = lock_adding(spool, &lock, err);
    failed = failed != 0 ? failed : put(spool, ".added", name, request, NULL, err);
    let_go(&lock);
    return failed;
}

int spool_remove(struct spool *spool, const char *name, struct error *err)
{
    return spool_drop(spool, name, err);
}
