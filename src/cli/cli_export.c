/* SPDX-License-Identifier: MIT
 *
 * cli_export -- `daruma export`: a store as lines of JSON, to be kept or carried to another store.
 * The store is only looked at, also while a server works on it.
 *
 * A file is never written over: what was begun goes on with --after, behind the last whole line. It
 * is as safe on the disk as a task when the program ends with 0.
 */
#include "cli/cli.h"

#include "base/disk.h"
#include "cli/carrying.h"
#include "cli/effect.h"
#include "cli/explain.h"
#include "store/export.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE  0600 /* requests hold what is nobody else's business */
#define BACK_BYTES 65536

struct export_flags {
    struct flags common;
    const char *store, *queue, *after, *output;
    unsigned states;
};

/* --- flags ---------------------------------------------------------------------------------------- */

static bool take_store(void *user, const char *value)
{
    ((struct export_flags *)user)->store = value;
    return carrying_is_store(value);
}

static bool take_queue(void *user, const char *value)
{
    return flags_queue(value, &((struct export_flags *)user)->queue);
}

static bool take_state(void *user, const char *value)
{
    unsigned states = strcmp(value, "dead") == 0 ? 1u << TASK_DEAD : 0;
    bool is_state = states != 0 || task_state_parse(span_of(value), &states);

    ((struct export_flags *)user)->states |= states;
    return is_state;
}

static bool take_after(void *user, const char *value)
{
    return flags_task(value, &((struct export_flags *)user)->after);
}

static bool take_output(void *user, const char *value)
{
    ((struct export_flags *)user)->output = strcmp(value, "-") == 0 ? NULL : value;
    return value[0] != '\0';
}

static const struct flag table[] = {
    {"--store", "STORE", take_store, CARRYING_STORE, "the store to export", NULL, true},
    {"--queue", "Q", take_queue, "the name of a queue", "only this queue and its tasks", NULL,
     false},
    {"--state", "S", take_state, "a state such as waiting, unsettled, failed or dead",
     "only tasks in this state; may be given more than once", NULL, false},
    {"--after", "ID", take_after, "the id of a task", "only tasks created after this one", NULL,
     false},
    {"--output", "FILE", take_output, "a file", "where to write (standard output)", NULL, false},
};

static const struct flags_form form = {
    .command = "export",
    .purpose = "Writes what is in a store as lines of JSON, a queue, task, memo or act each, for\n"
               "'daruma import' or to be kept. The store may be in use.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .is_local = true,
};

/* --- the file ------------------------------------------------------------------------------------- */

static int fail_file(const struct export_flags *flags, const char *what, struct error *err)
{
    return disk_fail_writing(err, what, flags->output != NULL ? flags->output : "stdout");
}

/* How much of it is whole lines. */
static int find_whole(int file, off_t size, off_t *ret_whole)
{
    char bytes[BACK_BYTES];

    while (size > 0) {
        size_t want = size < BACK_BYTES ? (size_t)size : BACK_BYTES;
        if (pread(file, bytes, want, size - (off_t)want) != (ssize_t)want) {
            return -1;
        }
        size_t at = want;
        while (at > 0 && bytes[at - 1] != '\n') {
            at--;
        }
        if (at > 0) {
            *ret_whole = size - (off_t)(want - at);
            return 0;
        }
        size -= (off_t)want;
    }
    *ret_whole = 0;
    return 0;
}

/* Goes on behind the last whole line. */
static int go_on(const struct export_flags *flags, int file, struct error *err)
{
    struct stat status;
    off_t whole = 0;

    if (fstat(file, &status) != 0 ||
        (S_ISREG(status.st_mode) &&
         (find_whole(file, status.st_size, &whole) != 0 || ftruncate(file, whole) != 0 ||
          lseek(file, whole, SEEK_SET) < 0))) {
        return fail_file(flags, "cannot go on with", err);
    }
    return 0;
}

static int open_output(const struct export_flags *flags, int *ret_file, struct error *err)
{
    int mode = flags->after != NULL ? O_RDWR | O_CREAT : O_WRONLY | O_CREAT | O_EXCL;

    *ret_file = STDOUT_FILENO;
    if (flags->output == NULL) {
        return 0;
    }
    *ret_file = open(flags->output, mode | O_CLOEXEC, FILE_MODE);
    if (*ret_file < 0 && errno == EEXIST) {
        return fail(err, FAULT_INPUT,
                    "%s is there already; remove it, or go on with --after and the id of the last "
                    "task in it",
                    flags->output);
    }
    if (*ret_file < 0) {
        return fail_file(flags, "cannot open", err);
    }
    return flags->after != NULL ? go_on(flags, *ret_file, err) : 0;
}

static int sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    int file = folder != NULL ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int failed = file < 0 ? -1 : fsync(file);

    free(folder);
    if (file >= 0) {
        (void)close(file); /* only read */
    }
    return failed;
}

static int close_output(const struct export_flags *flags, int file, struct error *err)
{
    if (flags->output == NULL) {
        return 0;
    }
    if (fsync(file) != 0 || close(file) != 0 || sync_folder(flags->output) != 0) {
        return fail_file(flags, "cannot write", err);
    }
    return 0;
}

/* --- the export ----------------------------------------------------------------------------------- */

struct writing {
    const struct export_flags *flags;
    int file;
    struct progress progress;
    struct error *err;
};

static int write_lines(void *user, struct span lines, const struct export_counts *counts)
{
    struct writing *writing = user;

    while (lines.len > 0) {
        ssize_t len = write(writing->file, lines.at, lines.len);
        if (len < 0 && errno != EINTR) {
            return fail_file(writing->flags, "cannot write", writing->err);
        }
        lines = span_from(lines, len > 0 ? (size_t)len : 0);
    }
    progress_tell(&writing->progress, counts->tasks);
    return 0;
}

/* Where the lines go to standard output, this does not. */
static void print_summary(const struct export_flags *flags, const struct export_counts *counts,
                          int64_t took_ms)
{
    FILE *out = flags->output != NULL ? stdout : stderr;
    char last[ID_TEXT_LEN + 1] = "";

    if (counts->last.row != 0) {
        id_format(counts->last, last);
    }
    if (flags->common.is_json) {
        fprintf(out,
                "{\"queues\":%" PRIu64 ",\"tasks\":%" PRIu64 ",\"memos\":%" PRIu64
                ",\"acts\":%" PRIu64 ",\"last\":%s%s%s,\"took_ms\":%" PRId64 "}\n",
                counts->queues, counts->tasks, counts->memos, counts->acts,
                last[0] != '\0' ? "\"" : "", last[0] != '\0' ? last : "null",
                last[0] != '\0' ? "\"" : "", took_ms);
        return;
    }
    fprintf(out, "exported ");
    carrying_print_counts(
        out, (const uint64_t[4]){counts->queues, counts->tasks, counts->memos, counts->acts});
    fprintf(out, "\n");
}

/* What was written stays: it can go on from there. */
static void print_cursor(const struct export_counts *counts)
{
    char last[ID_TEXT_LEN + 1];

    if (counts->last.row != 0) {
        id_format(counts->last, last);
        fprintf(stderr, "  --after %s goes on from here\n", last);
    }
}

static int run(const struct export_flags *flags, struct store *store, struct error *err)
{
    struct export_options options = {.states = flags->states};
    struct writing writing = {.flags = flags, .err = err};
    struct export_counts counts = {0};
    struct task_id after = {0};

    if (flags->queue != NULL) {
        options.queue = span_of(flags->queue);
    }
    if (flags->after != NULL && id_parse(span_of(flags->after), &after)) {
        options.after_row = after.row;
    }
    int failed = open_output(flags, &writing.file, err);
    if (failed != 0) {
        return carrying_complain(&form, err);
    }
    writing.progress = progress_begin("exported");
    failed = export_run(store, &options, write_lines, &writing, &counts, err);
    progress_end(&writing.progress);
    failed = failed != 0 ? failed : close_output(flags, writing.file, err);
    if (failed != 0) {
        (void)carrying_complain(&form, err);
        print_cursor(&counts);
        return CLI_FAILED;
    }
    print_summary(flags, &counts, progress_ms(&writing.progress));
    return CLI_DONE;
}

int cli_export(int argc, char **argv)
{
    struct export_flags flags = {0};
    struct store *store = NULL;
    struct error err = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if (flags.store == NULL) {
        flags_complain(&form, "--store is missing: %s is expected", CARRYING_STORE);
        return CLI_USAGE;
    }
    if (flags.output != NULL) {
        effect_begin();
    }
    if (store_open_to_read(span_of(flags.store), &store, &err) != 0) {
        return carrying_complain(&form, &err);
    }
    exit_code = run(&flags, store, &err);
    store_close(store);
    return flags.output != NULL ? effect_finish(&form, exit_code)
                                : explain_finish(&form, exit_code);
}
