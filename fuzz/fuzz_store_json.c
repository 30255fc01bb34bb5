/* SPDX-License-Identifier: MIT
 *
 * Fuzz target of the JSON store: any bytes as its file. What is refused is left exactly as it was,
 * with a reason that has a place in it. What is taken is written in our own form, and that form loads
 * and is written again as the same bytes, but for the epoch that each opening raises.
 */
#define _GNU_SOURCE
#include "store/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOLDS(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #claim);             \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define SPEC_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

static const struct store_keep keep = {
    .succeeded_ms = 1000, .failed_ms = 1000, .cancelled_ms = 1000};

struct text {
    char *at;
    size_t len;
    struct stat status;
};

static char spec[SPEC_MAX], path_new[SPEC_MAX], path_lock[SPEC_MAX];
static char folder[SPEC_MAX] = "/dev/shm/fuzz-json-XXXXXX";
static const char *path;

static void move_out(void)
{
    (void)unlink(path); /* left behind at worst */
    (void)unlink(path_lock);
    (void)rmdir(folder);
}

/* A folder of our own, in memory where there is one: fsync costs nothing there. */
static void settle_in(void)
{
    if (path != NULL) {
        return;
    }
    if (mkdtemp(folder) == NULL) {
        (void)snprintf(folder, sizeof folder, "/tmp/fuzz-json-XXXXXX");
        HOLDS(mkdtemp(folder) != NULL);
    }
    (void)snprintf(spec, sizeof spec, "json:%.40s/tasks.json", folder);
    path = spec + sizeof "json:" - 1;
    (void)snprintf(path_new, sizeof path_new, "%.50s.new", path);
    (void)snprintf(path_lock, sizeof path_lock, "%.50s.lock", path);
    HOLDS(atexit(move_out) == 0);
}

static void put(const void *bytes, size_t len)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    HOLDS(file >= 0 && write(file, bytes, len) == (ssize_t)len && close(file) == 0);
}

static struct text get(void)
{
    struct text text = {0};
    int file = open(path, O_RDONLY);

    HOLDS(file >= 0 && fstat(file, &text.status) == 0);
    text.len = (size_t)text.status.st_size;
    text.at = malloc(text.len + 1);
    HOLDS(text.at != NULL && read(file, text.at, text.len) == (ssize_t)text.len);
    text.at[text.len] = '\0';
    HOLDS(close(file) == 0);
    return text;
}

/* path:LINE:COLUMN: reason */
static bool has_place(const char *text)
{
    unsigned line = 0, column = 0;
    int end = 0;

    if (!span_starts(span_of(text), path)) {
        return false;
    }
    text += strlen(path);
    (void)sscanf(text, ":%u:%u: %n", &line, &column, &end);
    return end > 0 && line > 0 && column > 0 && text[end] != '\0';
}

static void check_refused(const uint8_t *input, size_t length, int fault, const char *reason)
{
    struct text left = get();

    HOLDS(fault == FAULT_CORRUPT);
    HOLDS(has_place(reason));
    HOLDS(left.len == length && (length == 0 || memcmp(left.at, input, length) == 0));
    HOLDS(access(path_new, F_OK) != 0);
    free(left.at);
}

/* What stands before and after the number of the epoch. */
static void split_epoch(const struct text *text, struct span *ret_front, struct span *ret_rest)
{
    char *epoch = strstr(text->at, "\"epoch\": ");

    HOLDS(epoch != NULL);
    size_t front = (size_t)(epoch - text->at);
    *ret_front = (struct span){.at = text->at, .len = front};
    struct span rest = {.at = text->at + front, .len = text->len - front};
    HOLDS(span_cut(&rest, '\n', ret_rest));
    *ret_rest = rest;
}

static void check_taken(void)
{
    struct store *store = NULL;
    struct error err = {0};
    struct span front, rest, front_again, rest_again;
    struct text written = get();

    HOLDS(store_open(span_of(spec), &keep, &store, &err) == 0);
    store_close(store);
    struct text again = get();
    split_epoch(&written, &front, &rest);
    split_epoch(&again, &front_again, &rest_again);
    HOLDS(span_equal(front, front_again) && span_equal(rest, rest_again));
    free(written.at);
    free(again.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    struct store *store = NULL;
    struct error err = {0};

    settle_in();
    put(input, length);
    int failed = store_open(span_of(spec), &keep, &store, &err);
    if (failed != 0) {
        check_refused(input, length, failed, err.text);
        return 0;
    }
    HOLDS(store_touch(store, &err) == 0);
    store_close(store);
    check_taken();
    return 0;
}
