/* SPDX-License-Identifier: MIT
 *
 * line_check -- is this a log line that nothing can be hidden in? Written apart from lib/ on
 * purpose, by another method, so that one mistake is not made twice: a decoder of UTF-8 and a
 * reader for a flat JSON object. Used by the fuzz target and by the unit test of log.
 */
#ifndef LINE_CHECK_H
#define LINE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct line_reader {
    const unsigned char *at;
    const unsigned char *end;
};

/* One character of well-formed UTF-8 (table 3-7 of Unicode); false when there is none. */
static inline bool line_read_character(struct line_reader *reader, uint32_t *ret_code)
{
    static const struct {
        unsigned char first_low, first_high, second_low, second_high, more;
    } rows[] = {
        {0x00, 0x7f, 0, 0, 0},       {0xc2, 0xdf, 0x80, 0xbf, 1}, {0xe0, 0xe0, 0xa0, 0xbf, 2},
        {0xe1, 0xec, 0x80, 0xbf, 2}, {0xed, 0xed, 0x80, 0x9f, 2}, {0xee, 0xef, 0x80, 0xbf, 2},
        {0xf0, 0xf0, 0x90, 0xbf, 3}, {0xf1, 0xf3, 0x80, 0xbf, 3}, {0xf4, 0xf4, 0x80, 0x8f, 3}};
    const unsigned char *at = reader->at;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (at[0] < rows[i].first_low || at[0] > rows[i].first_high) {
            continue;
        }
        if (reader->end - at <= rows[i].more ||
            (rows[i].more > 0 && (at[1] < rows[i].second_low || at[1] > rows[i].second_high))) {
            return false;
        }
        *ret_code = rows[i].more == 0 ? at[0] : at[0] & (0x3fu >> rows[i].more);
        for (int j = 1; j <= rows[i].more; j++) {
            if (at[j] < 0x80 || at[j] > 0xbf) {
                return false;
            }
            *ret_code = *ret_code << 6 | (at[j] & 0x3fu);
        }
        reader->at += rows[i].more + 1;
        return true;
    }
    return false;
}

/* Well-formed UTF-8 without a control character, C1 included: nothing a terminal would obey. */
static inline bool line_is_clean(const char *line, size_t length)
{
    const unsigned char *start = (const unsigned char *)line;
    struct line_reader reader = {start, start + length};
    uint32_t code;

    while (reader.at < reader.end) {
        if (!line_read_character(&reader, &code) || code < 0x20 || (code >= 0x7f && code < 0xa0)) {
            return false;
        }
    }
    return true;
}

static inline bool line_take(struct line_reader *reader, const char *text)
{
    size_t length = strlen(text);

    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, text, length) != 0) {
        return false;
    }
    reader->at += length;
    return true;
}

static inline bool line_take_escape(struct line_reader *reader)
{
    if (reader->at < reader->end && *reader->at != '\0' && strchr("\"\\/bfnrt", *reader->at)) {
        reader->at++;
        return true;
    }
    if (!line_take(reader, "u")) {
        return false;
    }
    for (int i = 0; i < 4; i++, reader->at++) {
        if (reader->at == reader->end || *reader->at == '\0' ||
            strchr("0123456789abcdefABCDEF", *reader->at) == NULL) {
            return false;
        }
    }
    return true;
}

/* A JSON string, from quote to quote. */
static inline bool line_take_string(struct line_reader *reader)
{
    if (!line_take(reader, "\"")) {
        return false;
    }
    while (reader->at < reader->end && *reader->at != '"') {
        if (*reader->at < 0x20) {
            return false;
        }
        if (line_take(reader, "\\")) {
            if (!line_take_escape(reader)) {
                return false;
            }
        } else {
            reader->at++;
        }
    }
    return line_take(reader, "\"");
}

static inline size_t line_take_digits(struct line_reader *reader)
{
    const unsigned char *start = reader->at;

    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        reader->at++;
    }
    return (size_t)(reader->at - start);
}

static inline bool line_take_number(struct line_reader *reader)
{
    (void)line_take(reader, "-");
    const unsigned char *start = reader->at;
    size_t digits = line_take_digits(reader);

    if (digits == 0 || (digits > 1 && *start == '0')) {
        return false;
    }
    if (line_take(reader, ".") && line_take_digits(reader) == 0) {
        return false;
    }
    if (line_take(reader, "e") || line_take(reader, "E")) {
        (void)(line_take(reader, "+") || line_take(reader, "-"));
        return line_take_digits(reader) > 0;
    }
    return true;
}

/* One object of plain values and nothing after it. */
static inline bool line_is_json(const char *line, size_t length)
{
    const unsigned char *start = (const unsigned char *)line;
    struct line_reader reader = {start, start + length};

    if (!line_take(&reader, "{")) {
        return false;
    }
    do {
        if (!line_take_string(&reader) || !line_take(&reader, ":") ||
            !(line_take_string(&reader) || line_take(&reader, "true") ||
              line_take(&reader, "false") || line_take(&reader, "null") ||
              line_take_number(&reader))) {
            return false;
        }
    } while (line_take(&reader, ","));
    return line_take(&reader, "}") && reader.at == reader.end;
}

/* Words apart by single blanks, where a quoted part ends with the quote that it began with. */
static inline bool line_is_key_value(const char *line, size_t length)
{
    const unsigned char *start = (const unsigned char *)line;
    struct line_reader reader = {start, start + length};

    while (reader.at < reader.end) {
        if (*reader.at == '"') {
            if (!line_take_string(&reader) || (reader.at < reader.end && *reader.at != ' ')) {
                return false;
            }
        } else {
            reader.at++;
        }
    }
    return true;
}

#endif
