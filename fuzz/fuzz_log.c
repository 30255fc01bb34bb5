/* SPDX-License-Identifier: MIT
 *
 * fuzz_log -- values from outside in log lines. The input begins with three characters: the form
 * (k, j or t), how many fields (a digit), and how often each value is repeated (a digit, or + for
 * enough to fill a line); the rest is cut into that many values. The first is the event as well.
 *
 * What must hold for any input: one line of well-formed UTF-8 without control characters, not
 * longer than the limit, the same each time, and whole: JSON is one object, quotes are closed.
 */
#include "line_check.h"

#include <daruma/log.h>

#include <stdio.h>
#include <stdlib.h>

#define PIECES_MAX  9
#define FIELDS_EACH 4
#define REPEAT_FULL 300

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

/* Where the line arrives. */
struct page {
    char *text;
    size_t length;
    int count;
};

struct piece {
    char *bytes;
    size_t length;
};

static void holds(bool claim, const char *text)
{
    if (!claim) {
        fprintf(stderr, "does not hold: %s\n", text);
        abort();
    }
}

#define HOLDS(claim) holds((claim), #claim)

static void keep_line(void *user, enum daruma_log_level level, const char *line, size_t length)
{
    struct page *page = user;

    HOLDS(level == DARUMA_LOG_WARN);
    page->text = malloc(length);
    HOLDS(page->text != NULL);
    memcpy(page->text, line, length);
    page->length = length;
    page->count++;
}

static int64_t piece_clock(void *user)
{
    return *(const int64_t *)user;
}

/* A piece of the input, repeated, in memory of exactly its size. */
static struct piece piece_from(const uint8_t *input, size_t length, size_t repeats)
{
    struct piece piece = {.bytes = malloc(length * repeats), .length = length * repeats};

    HOLDS(piece.bytes != NULL);
    for (size_t i = 0; i < repeats; i++) {
        memcpy(piece.bytes + i * length, input, length);
    }
    return piece;
}

static uint64_t number_from(const struct piece *piece)
{
    uint64_t number = 0;

    memcpy(&number, piece->bytes, piece->length < sizeof number ? piece->length : sizeof number);
    return number;
}

/* The piece as text, and its first bytes as each kind of number. */
static void fields_from(const struct piece *piece, struct daruma_log_field *fields)
{
    uint64_t number = number_from(piece);
    double real;

    memcpy(&real, &number, sizeof real);
    fields[0] = daruma_log_bytes("text", piece->bytes, piece->length);
    fields[1] = number % 2 == 0 ? daruma_log_uint("natural", number)
                                : daruma_log_int("integer", (int64_t)number);
    fields[2] = daruma_log_real("real", real);
    fields[3] = daruma_log_bool("truth", number % 3 == 0);
}

static void check_line(const struct page *page, enum daruma_log_form form)
{
    HOLDS(page->count == 1);
    HOLDS(page->length > 0 && page->length <= DARUMA_LOG_LINE_MAX);
    HOLDS(line_is_clean(page->text, page->length));
    if (form == DARUMA_LOG_JSON) {
        HOLDS(line_is_json(page->text, page->length));
    } else {
        HOLDS(line_is_key_value(page->text, page->length));
    }
}

static void check_pieces(const struct piece *pieces, size_t count, enum daruma_log_form form)
{
    struct daruma_log_field fields[PIECES_MAX * FIELDS_EACH];
    struct page page = {0}, again = {0};
    int64_t unix_ms = (int64_t)number_from(&pieces[0]);
    struct daruma_logger logger = {.form = form,
                                   .sink = keep_line,
                                   .sink_user = &page,
                                   .unix_ms = piece_clock,
                                   .unix_user = &unix_ms};
    char *event = malloc(pieces[0].length + 1);

    HOLDS(event != NULL);
    memcpy(event, pieces[0].bytes, pieces[0].length);
    event[pieces[0].length] = '\0';
    for (size_t i = 0; i < count; i++) {
        fields_from(&pieces[i], &fields[i * FIELDS_EACH]);
    }
    daruma_log_write(&logger, DARUMA_LOG_WARN, event, fields, count * FIELDS_EACH);
    logger.sink_user = &again;
    daruma_log_write(&logger, DARUMA_LOG_WARN, event, fields, count * FIELDS_EACH);
    check_line(&page, form);
    HOLDS(again.length == page.length && memcmp(again.text, page.text, page.length) == 0);
    free(event);
    free(page.text);
    free(again.text);
}

static size_t digit_of(uint8_t byte)
{
    return byte >= '1' && byte <= '9' ? (size_t)(byte - '0') : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    struct piece pieces[PIECES_MAX];

    if (length < 3) {
        return 0;
    }
    enum daruma_log_form form = input[0] == 'j'   ? DARUMA_LOG_JSON
                                : input[0] == 't' ? DARUMA_LOG_TEXT
                                                  : DARUMA_LOG_KV;
    size_t count = digit_of(input[1]);
    size_t repeats = input[2] == '+' ? REPEAT_FULL : digit_of(input[2]);
    input += 3;
    length -= 3;
    for (size_t i = 0; i < count; i++) {
        size_t from = length * i / count, to = length * (i + 1) / count;
        pieces[i] = piece_from(input + from, to - from, repeats);
    }
    check_pieces(pieces, count, form);
    for (size_t i = 0; i < count; i++) {
        free(pieces[i].bytes);
    }
    return 0;
}
