/* SPDX-License-Identifier: MIT
 *
 * cli_restore -- `daruma restore`: puts a backup in the place of a store and has it know that it is one:
 * what was sent since then waits again in it, and keys that were used since then are not in it. So its
 * queues are paused, and the moment is written down (store/restored.h). No server may run on it.
 *
 * A store is never written over. The copy gets its name when it is whole and on the disk.
 */
#include "cli/cli.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/disk.h"
#include "cli/carrying.h"
#include "cli/explain.h"
#include "edge/writer.h"
#include "store/restored.h"
#include "store/store.h"
#include "task/id.h"
#include "task/route.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE          0600
#define PATH_BYTES         4200
#define COPY_BYTES         65536
#define DOCUMENT_BYTES_MAX 1024

struct restore_flags {
    struct flags common;
    const char *store, *from;
    int64_t unknown_ms; /* below 0: as long as each route keeps answers */
    bool leaves_queues;
};

/* --- flags ---------------------------------------------------------------------------------------- */

static bool take_store(void *user, const char *value)
{
    ((struct restore_flags *)user)->store = value;
    return carrying_is_store(value);
}

static bool take_from(void *user, const char *value)
{
    ((struct restore_flags *)user)->from = value;
    return value[0] != '\0';
}

static bool take_unknown(void *user, const char *value)
{
    return flags_duration(value, &((struct restore_flags *)user)->unknown_ms);
}

static bool take_known(void *user, const char *value)
{
    (void)value;
    ((struct restore_flags *)user)->unknown_ms = 0;
    return true;
}

static bool take_leave(void *user, const char *value)
{
    (void)value;
    ((struct restore_flags *)user)->leaves_queues = true;
    return true;
}

static const struct flag table[] = {
    {"--store", "STORE", take_store, CARRYING_STORE, "the store that is restored", NULL, true},
    {"--from", "FILE", take_from, "a file",
     "the backup of an SQLite or JSON store, to be copied there", NULL, false},
    {"--unknown-for", "TIME", take_unknown, FLAGS_DURATION,
     "how long a key that is not known may have been used (as long as each route keeps answers)",
     NULL, false},
    {"--keys-are-known", NULL, take_known, NULL, "no request came since the backup: trust all keys",
     NULL, false},
    {"--leave-queues", NULL, take_leave, NULL, "do not pause the queues", NULL, false},
};

static const struct flags_form form = {
    .command = "restore",
    .purpose =
        "Puts a backup in the place of a store, pauses its queues, and writes down that keys\n"
        "which were used since the backup are not in it. Without --from the store is there\n"
        "already (pg_restore), and is only marked. No server may run on it.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .is_local = true,
};

/* --- the file ------------------------------------------------------------------------------------- */

/* Of sqlite:PATH or json:PATH; NULL: it is no file. */
static const char *path_of(const char *store)
{
    return strncmp(store, "sqlite:", 7) == 0 ? store + 7
           : strncmp(store, "json:", 5) == 0 ? store + 5
                                             : NULL;
}

static bool is_there(const char *path, const char *suffix)
{
    char whole[PATH_BYTES];
    struct stat found;

    (void)snprintf(whole, sizeof whole, "%s%s", path, suffix); /* cut: then it is not there */
    return lstat(whole, &found) == 0;
}

static int copy_bytes(int from, int to, const struct restore_flags *flags, const char *path,
                      struct error *err)
{
    static char some[COPY_BYTES];
    ssize_t len;

    while ((len = read(from, some, sizeof some)) != 0) {
        if (len < 0 && errno == EINTR) {
            continue;
        }
        if (len < 0) {
            return disk_fail(err, FAULT_IO, "cannot be read", flags->from);
        }
        if (disk_write_all(to, (struct span){.at = some, .len = (size_t)len}) != 0) {
            return disk_fail_writing(err, "cannot be written", path);
        }
    }
    return fsync(to) == 0 ? 0 : disk_fail_writing(err, "cannot be written", path);
}

static void folder_of(const char *path, char ret_folder[PATH_BYTES])
{
    (void)snprintf(ret_folder, PATH_BYTES, "%s", path); /* put_in_place has measured it */
    char *slash = strrchr(ret_folder, '/');
    if (slash == NULL) {
        (void)snprintf(ret_folder, PATH_BYTES, ".");
    } else {
        slash[slash == ret_folder] = '\0';
    }
}

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

static int copy(const struct restore_flags *flags, const char *path, struct error *err)
{
    char aside[PATH_BYTES], folder[PATH_BYTES];
    int from = open(flags->from, O_RDONLY | O_CLOEXEC), to = -1;

    if (from < 0) {
        return disk_fail(err, FAULT_IO, "cannot open", flags->from);
    }
    folder_of(path, folder);
    (void)snprintf(aside, sizeof aside, "%s.restoring", path); /* checked by the caller */
    to = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    int failed = to >= 0 ? 0 : disk_fail_writing(err, "cannot be made", aside);
    failed = failed != 0 ? failed : copy_bytes(from, to, flags, aside, err);
    failed = failed != 0 ? failed : give_away(to, folder, err);
    if (failed == 0 && rename(aside, path) != 0) {
        failed = disk_fail_writing(err, "cannot get its name", aside);
    }
    failed = failed != 0 ? failed : disk_sync_folder(folder, err);
    (void)close(from); /* only read */
    if (to >= 0) {
        (void)close(to); /* it is on the disk, or that was said */
    }
    return failed;
}

/* Opened to be marked, an empty one would be made a store. */
static int look_at_database(const struct restore_flags *flags, struct error *err)
{
    struct store *store = NULL;
    int failed = store_open_to_read(span_of(flags->store), &store, err);

    store_close(store);
    return failed;
}

static int put_in_place(const struct restore_flags *flags, struct error *err)
{
    const char *path = path_of(flags->store);

    if (path == NULL) {
        return flags->from == NULL ? look_at_database(flags, err)
                                   : fail(err, FAULT_INPUT,
                                          "--from: expected for SQLite and JSON only: use "
                                          "pg_restore, then 'daruma restore' without it");
    }
    if (strlen(path) + sizeof ".restoring" > PATH_BYTES) {
        return fail(err, FAULT_INPUT, "the path is too long");
    }
    if (flags->from == NULL) {
        return is_there(path, "") ? 0 : fail(err, FAULT_INPUT, "%s: there is no store", path);
    }
    if (is_there(path, "") || is_there(path, "-wal") || is_there(path, "-shm")) {
        return fail(err, FAULT_INPUT,
                    "%s: is there already, or its -wal or -shm: move all of them aside first",
                    path);
    }
    if (is_there(flags->from, "-wal")) {
        return fail(err, FAULT_INPUT,
                    "%s: has a -wal beside it and is no backup alone: make one of it with sqlite3 "
                    "\".backup\"",
                    flags->from);
    }
    return copy(flags, path, err);
}

/* --- the mark ------------------------------------------------------------------------------------- */

struct marking {
    struct store *store;
    struct arena *arena;
    struct op **ops;
    size_t count, room;
    struct error *err;
};

AUTO_POINTER(struct store, store_close)
AUTO_POINTER(struct arena, arena_free)

static int no_memory(struct error *err)
{
    return fail(err, FAULT_MEMORY, "no memory to mark the store");
}

static struct op *add_op(struct marking *marking)
{
    if (marking->count == marking->room) {
        size_t room = marking->room == 0 ? 64 : 2 * marking->room;
        struct op **grown = realloc(marking->ops, room * sizeof(struct op *));
        if (grown == NULL) {
            return NULL;
        }
        marking->ops = grown;
        marking->room = room;
    }
    struct op *op = arena_alloc(marking->arena, sizeof *op);
    if (op != NULL) {
        *op = (struct op){.arena = marking->arena, .now_ms = clock_wall_ms(&clock_real)};
        marking->ops[marking->count++] = op;
    }
    return op;
}

/* Requests of the gateway have callers and deadlines: what is in doubt of them is unsettled anyway. */
static int pause_queue(void *user, const struct queue_row *row)
{
    struct marking *marking = user;

    if (row->dropped || row->paused || span_starts(row->name, ROUTE_QUEUE_PREFIX)) {
        return 0;
    }
    struct op *op = add_op(marking);
    struct span name = arena_copy(marking->arena, row->name);
    if (op == NULL || name.at == NULL) {
        return no_memory(marking->err);
    }
    op->kind = OP_QUEUE;
    op->keeps = QUEUE_KEEPS_SETTINGS;
    op->queue = (struct queue_row){
        .number = row->number, .name = name, .settings = SPAN(""), .paused = true};
    return 0;
}

static int add_mark(struct marking *marking, const struct restored *restored)
{
    char text[RESTORED_TEXT_MAX];
    struct op *op = add_op(marking);

    restored_render(restored, text);
    struct span value = arena_copy(marking->arena, span_of(text));
    if (op == NULL || value.at == NULL) {
        return no_memory(marking->err);
    }
    op->kind = OP_MEMO;
    op->memo = (struct memo){.name = SPAN(RESTORED_MEMO), .value = value};
    return 0;
}

static int mark(const struct restore_flags *flags, struct marking *marking,
                struct restored *ret_restored)
{
    struct store *store = marking->store;
    struct restored restored = {
        .at_ms = clock_wall_ms(&clock_real),
        .backup_ms = store->last_row > 0 ? id_created_ms(store->last_row) : 0,
        .unknown_ms = flags->unknown_ms,
    };
    int failed = flags->leaves_queues ? 0 : store_queues(store, pause_queue, marking, marking->err);

    failed = failed != 0 ? failed : add_mark(marking, &restored);
    failed = failed != 0 ? failed
                         : store_apply_patiently(store, marking->ops, marking->count, marking->err);
    if (failed == 0) {
        *ret_restored = restored;
    }
    return failed;
}

/* --- what is told --------------------------------------------------------------------------------- */

static int tell(const struct restored *restored, size_t paused)
{
    AUTO(buf_done) struct buf text;
    struct writer writer = {.out = &text};

    buf_init(&text, DOCUMENT_BYTES_MAX);
    write_open(&writer, '{');
    write_name(&writer, "newest_task_at");
    if (restored->backup_ms > 0) {
        write_time(&writer, restored->backup_ms);
    } else {
        write_null(&writer);
    }
    write_named_uint(&writer, "queues_paused", paused);
    write_name(&writer, "keys_unknown_for_ms");
    if (restored->unknown_ms >= 0) {
        write_int(&writer, restored->unknown_ms);
    } else {
        write_null(&writer);
    }
    write_close(&writer, '}');
    if (writer.failed != 0) {
        return explain_fault(&form, writer.failed);
    }
    printf("%.*s\n", SPAN_ARGS(buf_span(&text)));
    return CLI_DONE;
}

static void tell_people(const struct restored *restored, size_t paused)
{
    printf("restored: %zu queue%s paused ('daruma queue resume NAME' has one go on)\n", paused,
           paused == 1 ? "" : "s");
    if (restored->unknown_ms == 0) {
        printf("every key that it does not know is taken for a new one\n");
    } else if (restored->unknown_ms < 0) {
        printf("requests of the gateway with keys that it does not know are unsettled, and not "
               "sent, for as long as their route keeps answers\n");
    } else {
        printf("requests of the gateway with keys that it does not know are unsettled, and not "
               "sent, for %" PRId64 " s\n",
               restored->unknown_ms / 1000);
    }
}

static int restore(const struct restore_flags *flags)
{
    AUTO(store_close_p) struct store *store = NULL;
    AUTO(arena_free_p) struct arena *arena = arena_new(SIZE_MAX);
    struct restored restored = {0};
    struct error err = {0};
    int failed = arena == NULL ? no_memory(&err) : put_in_place(flags, &err);

    failed = failed != 0 ? failed : store_open_to_import(span_of(flags->store), &store, &err);
    struct marking marking = {.store = store, .arena = arena, .err = &err};
    failed = failed != 0 ? failed : mark(flags, &marking, &restored);
    free(marking.ops);
    if (failed != 0) {
        return carrying_complain(&form, &err);
    }
    if (flags->common.is_json) {
        return tell(&restored, marking.count - 1);
    }
    tell_people(&restored, marking.count - 1);
    return CLI_DONE;
}

int cli_restore(int argc, char **argv)
{
    struct restore_flags flags = {.unknown_ms = -1};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if (flags.store == NULL) {
        flags_complain(&form, "--store is missing: %s is expected", CARRYING_STORE);
        return CLI_USAGE;
    }
    return explain_finish(&form, restore(&flags));
}
