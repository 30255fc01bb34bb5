/* SPDX-License-Identifier: MIT
 *
 * cli_import -- `daruma import`: lines that `daruma export` wrote, into a store that no server has
 * open. What is there already is left as it is, so whatever cuts an import off, the same command once
 * more completes it.
 */
#include "cli/cli.h"

#include "base/buf.h"
#include "base/disk.h"
#include "cli/carrying.h"
#include "cli/effect.h"
#include "cli/explain.h"
#include "store/import.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#define READ_BYTES     (256 << 10)
#define LINE_BYTES_MAX ((size_t)512 << 20)
#define SHOWN_MAX      20 /* conflicts that are told one by one */
#define TELL_LINES     256

struct import_flags {
    struct flags common;
    const char *store, *input;
};

/* --- flags ---------------------------------------------------------------------------------------- */

static bool take_store(void *user, const char *value)
{
    ((struct import_flags *)user)->store = value;
    return carrying_is_store(value);
}

static bool take_input(void *user, const char *value)
{
    ((struct import_flags *)user)->input = strcmp(value, "-") == 0 ? NULL : value;
    return value[0] != '\0';
}

static const struct flag table[] = {
    {"--store", "STORE", take_store, CARRYING_STORE, "the store to import into", NULL, true},
    {"--input", "FILE", take_input, "a file", "what to read (standard input)", NULL, false},
};

static const struct flags_form form = {
    .command = "import",
    .purpose = "Reads lines that 'daruma export' wrote into a store, new or not, that no server\n"
               "has open. What is there already stays as it is.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .is_local = true,
};

/* --- lines ---------------------------------------------------------------------------------------- */

struct lines {
    const char *path;
    int file;
    struct buf bytes; /* read, not taken yet */
    size_t taken;     /* of them */
    bool is_over;     /* nothing more comes */
};

static int lines_open(struct lines *lines, const char *path, struct error *err)
{
    *lines = (struct lines){.path = path != NULL ? path : "stdin", .file = STDIN_FILENO};
    buf_init(&lines->bytes, LINE_BYTES_MAX);
    if (path == NULL) {
        return 0;
    }
    lines->file = open(path, O_RDONLY | O_CLOEXEC);
    return lines->file >= 0 ? 0 : disk_fail(err, FAULT_IO, "cannot open", path);
}

static void lines_close(struct lines *lines)
{
    if (lines->file > STDIN_FILENO) {
        (void)close(lines->file); /* only read */
    }
    buf_done(&lines->bytes);
}

static int read_more(struct lines *lines, struct error *err)
{
    static char some[READ_BYTES];
    ssize_t len;

    if (lines->taken > 0) { /* what is left moves to the front: never more than a line */
        memmove(lines->bytes.at, lines->bytes.at + lines->taken, lines->bytes.len - lines->taken);
        lines->bytes.len -= lines->taken;
        lines->taken = 0;
    }
    do {
        len = read(lines->file, some, sizeof some);
    } while (len < 0 && errno == EINTR);
    if (len < 0) {
        return disk_fail(err, FAULT_IO, "cannot be read", lines->path);
    }
    lines->is_over = len == 0;
    int failed = buf_add(&lines->bytes, (struct span){.at = some, .len = (size_t)len});
    return failed == 0 ? 0
                       : fail(err, (enum fault)failed, "%s: a line has more than %zu bytes",
                              lines->path, LINE_BYTES_MAX);
}

/* The next line, without its end. *ret_found false: there is none. *ret_whole false: it has no end. */
static int lines_next(struct lines *lines, struct span *ret_line, bool *ret_found, bool *ret_whole,
                      struct error *err)
{
    size_t looked = 0;

    for (;;) {
        struct span rest = span_from(buf_span(&lines->bytes), lines->taken);
        struct span unseen = span_from(rest, looked);
        const char *end = span_find(unseen, '\n');
        if (end != NULL || lines->is_over) {
            *ret_line = end != NULL ? span_until(rest, (size_t)(end - rest.at)) : rest;
            *ret_whole = end != NULL;
            *ret_found = end != NULL || rest.len > 0;
            lines->taken += ret_line->len + (end != NULL);
            return 0;
        }
        looked = rest.len;
        int failed = read_more(lines, err);
        if (failed != 0) {
            return failed;
        }
    }
}

/* --- the import ----------------------------------------------------------------------------------- */

struct conflicts {
    const char *path;
    uint64_t count;
};

static void tell_conflict(void *user, uint64_t line, const char *text)
{
    struct conflicts *conflicts = user;

    if (conflicts->count++ < SHOWN_MAX) {
        flags_complain(&form, "%s:%" PRIu64 ": %s", conflicts->path, line, text);
    }
}

static int take_lines(struct import *import, struct lines *lines, struct progress *progress,
                      struct error *err)
{
    bool is_found = true, is_whole = true;
    struct span line;

    for (;;) {
        int failed = lines_next(lines, &line, &is_found, &is_whole, err);
        if (failed != 0 || !is_found) {
            return failed;
        }
        failed = import_line(import, line, err);
        struct import_counts counts = import_counts(import);
        if (failed == FAULT_CORRUPT && !is_whole) {
            return fail(err, FAULT_CORRUPT,
                        "%s:%" PRIu64 ": the line is cut short; nothing of it was taken",
                        lines->path, counts.lines);
        }
        if (failed != 0) {
            return failed;
        }
        if (counts.lines % TELL_LINES == 0) {
            progress_tell(progress, counts.tasks + counts.tasks_kept);
        }
    }
}

/* The lines before a bad one are good: they are kept. */
static int import_all(struct import *import, struct lines *lines, struct progress *progress,
                      struct error *err)
{
    struct error at_end = {0};
    int failed = take_lines(import, lines, progress, err);
    bool may_go_on = failed == 0 || failed == FAULT_CORRUPT;
    int flushed = may_go_on ? import_flush(import, &at_end) : 0;

    if (failed == 0 && flushed != 0) {
        *err = at_end;
    }
    return failed != 0 ? failed : flushed;
}

static void print_json(const struct import_counts *counts, int64_t took_ms)
{
    printf("{\"queues\":%" PRIu64 ",\"tasks\":%" PRIu64 ",\"memos\":%" PRIu64 ",\"acts\":%" PRIu64
           ",\"kept\":{\"queues\":%" PRIu64 ",\"tasks\":%" PRIu64 ",\"memos\":%" PRIu64
           ",\"acts\":%" PRIu64 "},\"conflicts\":%" PRIu64 ",\"memos_left_out\":%" PRIu64
           ",\"complete\":%s,\"took_ms\":%" PRId64 "}\n",
           counts->queues, counts->tasks, counts->memos, counts->acts, counts->queues_kept,
           counts->tasks_kept, counts->memos_kept, counts->acts_kept, counts->conflicts,
           counts->memos_left, counts->has_end ? "true" : "false", took_ms);
}

static void print_summary(const struct import_flags *flags, const struct import_counts *counts,
                          int64_t took_ms)
{
    const uint64_t kept[4] = {counts->queues_kept, counts->tasks_kept, counts->memos_kept,
                              counts->acts_kept};

    if (flags->common.is_json) {
        print_json(counts, took_ms);
        return;
    }
    printf("imported ");
    carrying_print_counts(
        stdout, (const uint64_t[4]){counts->queues, counts->tasks, counts->memos, counts->acts});
    if (kept[0] + kept[1] + kept[2] + kept[3] > 0) {
        printf("; there already: ");
        carrying_print_counts(stdout, kept);
    }
    if (counts->conflicts > 0) {
        printf("; left out: %" PRIu64 " task%s", counts->conflicts,
               counts->conflicts == 1 ? "" : "s");
    }
    printf("\n");
    if (counts->memos_left > 0) {
        printf("%" PRIu64 " memo%s left out: queues have other numbers here\n", counts->memos_left,
               counts->memos_left == 1 ? "" : "s");
    }
}

static int finish(const struct import_counts *counts, const struct lines *lines, int failed,
                  const struct error *err)
{
    if (failed != 0) {
        (void)carrying_complain(&form, err);
        fprintf(stderr, failed == FAULT_CORRUPT
                            ? "  what stands before it was imported\n"
                            : "  what was imported stays; the same command goes on from there\n");
        return CLI_FAILED;
    }
    if (!counts->has_end) {
        flags_complain(&form, "%s has no end: the export was cut off; what is in it was imported",
                       lines->path);
        return CLI_FAILED;
    }
    return counts->conflicts > 0 ? CLI_FAILED : CLI_DONE;
}

static int run(const struct import_flags *flags, struct lines *lines, struct store *store,
               struct error *err)
{
    struct conflicts conflicts = {.path = lines->path};
    struct import *import = NULL;
    struct progress progress = progress_begin("imported");
    int failed = import_new(store, lines->path, tell_conflict, &conflicts, &import, err);

    if (failed != 0) {
        return carrying_complain(&form, err);
    }
    failed = import_all(import, lines, &progress, err);
    progress_end(&progress);
    struct import_counts counts = import_counts(import);
    print_summary(flags, &counts, progress_ms(&progress));
    import_free(import);
    return finish(&counts, lines, failed, err);
}

/* The lines first: a store that nothing comes into is not made. */
static int import_from(const struct import_flags *flags)
{
    struct lines lines = {.file = -1};
    struct store *store = NULL;
    struct error err = {0};
    int failed = lines_open(&lines, flags->input, &err);

    failed = failed != 0 ? failed : store_open_to_import(span_of(flags->store), &store, &err);
    int exit_code = failed != 0 ? carrying_complain(&form, &err) : run(flags, &lines, store, &err);
    store_close(store);
    lines_close(&lines);
    return exit_code;
}

int cli_import(int argc, char **argv)
{
    struct import_flags flags = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if (flags.store == NULL) {
        flags_complain(&form, "--store is missing: %s is expected", CARRYING_STORE);
        return CLI_USAGE;
    }
    effect_begin();
    return effect_finish(&form, import_from(&flags));
}
