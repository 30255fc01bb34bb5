/* SPDX-License-Identifier: MIT
 *
 * Fuzz target of the lines that `daruma import` reads. A line that is refused is refused with its
 * place. What was taken is exported and imported into another store, which then exports the same
 * bytes: nothing is lost, nothing is there twice.
 */
#include "base/buf.h"
#include "store/export.h"
#include "store/import.h"

#include <stdio.h>
#include <stdlib.h>

#define HOLDS(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #claim);             \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define BYTES_MAX ((size_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

static const struct store_keep keep = {1000, 1000, 1000, 1000};

static void note_conflict(void *user, uint64_t line, const char *text)
{
    (void)user;
    HOLDS(line > 0 && text[0] != '\0');
}

/* lines:LINE:COLUMN: reason */
static void check_place(const char *text, uint64_t wanted)
{
    unsigned line = 0, column = 0;
    int end = 0;

    (void)sscanf(text, "lines:%u:%u: %n", &line, &column, &end);
    HOLDS(end > 0 && line == wanted && column > 0 && text[end] != '\0');
}

static void take(struct store *store, struct span text)
{
    struct import *import = NULL;
    struct error err = {0};
    struct span line;
    int failed = 0;

    HOLDS(import_new(store, "lines", note_conflict, NULL, &import, &err) == 0);
    while (failed == 0 && text.len > 0) {
        if (!span_cut(&text, '\n', &line)) {
            line = text;
            text = span_from(text, text.len);
        }
        failed = import_line(import, line, &err);
    }
    HOLDS(failed == 0 || failed == FAULT_CORRUPT);
    if (failed != 0) {
        check_place(err.text, import_counts(import).lines);
    }
    HOLDS(import_flush(import, &err) == 0);
    import_free(import);
}

static int add_lines(void *user, struct span lines, const struct export_counts *counts)
{
    (void)counts;
    return buf_add(user, lines);
}

static void give(struct store *store, struct buf *text)
{
    struct export_counts counts;

    buf_init(text, BYTES_MAX);
    HOLDS(export_run(store, &(struct export_options){.states = 0}, add_lines, text, &counts,
                     NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    struct store *first = NULL, *second = NULL;
    struct buf once, twice;

    HOLDS(store_open(SPAN("memory"), &keep, &first, NULL) == 0);
    HOLDS(store_open(SPAN("memory"), &keep, &second, NULL) == 0);
    take(first, (struct span){.at = (const char *)input, .len = length});
    give(first, &once);
    take(second, buf_span(&once));
    give(second, &twice);
    HOLDS(span_equal(buf_span(&once), buf_span(&twice)));
    buf_done(&once);
    buf_done(&twice);
    store_close(first);
    store_close(second);
    return 0;
}
