/* SPDX-License-Identifier: MIT
 *
 * writer -- see writer.h.
 */
#include "edge/writer.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define NUMBER_MAX 40
#define PLAIN_MAX  64

static void put(struct writer *writer, struct span bytes)
{
    if (writer->failed == 0) {
        writer->failed = buf_add(writer->out, bytes);
    }
}

static void put_byte(struct writer *writer, char byte)
{
    put(writer, (struct span){.at = &byte, .len = 1});
}

/* Before each value and each name. */
static void separate(struct writer *writer)
{
    if (writer->needs_comma) {
        put_byte(writer, ',');
    }
    writer->needs_comma = true;
}

void write_open(struct writer *writer, char bracket)
{
    separate(writer);
    put_byte(writer, bracket);
    writer->needs_comma = false;
}

void write_close(struct writer *writer, char bracket)
{
    put_byte(writer, bracket);
    writer->needs_comma = true;
}

static bool is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
}

/* Bytes at the front that can be written as they are. */
static size_t plain_len(struct span text)
{
    size_t len = 0;

    while (len < text.len && is_plain((unsigned char)text.at[len])) {
        len++;
    }
    return len;
}

/* Bytes of the character at the front, 0 when it is not well formed. */
static size_t character_len(struct span text)
{
    for (size_t len = 2; len <= 4 && len <= text.len; len++) {
        if (span_is_utf8(span_until(text, len))) {
            return len;
        }
    }
    return 0;
}

static void put_escape(struct writer *writer, unsigned char byte)
{
    static const char letters[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                   ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};
    char text[8];

    if (byte < sizeof letters && letters[byte] != '\0') {
        (void)snprintf(text, sizeof text, "\\%c", letters[byte]); /* fits */
    } else {
        (void)snprintf(text, sizeof text, "\\u%04x", byte); /* fits */
    }
    put(writer, span_of(text));
}

/* What is not plain, at the front; returns how many bytes it took. */
static size_t put_special(struct writer *writer, struct span text)
{
    unsigned char byte = (unsigned char)text.at[0];

    if (byte < 0x80) {
        put_escape(writer, byte);
        return 1;
    }
    size_t len = character_len(text);
    put(writer, len > 0 ? span_until(text, len) : SPAN("\xef\xbf\xbd"));
    return len > 0 ? len : 1;
}

/* Nearly everything is plain and short: one piece, with its quotes. */
static bool put_plain(struct writer *writer, struct span text)
{
    char quoted[PLAIN_MAX + 2];

    if (text.len > PLAIN_MAX || plain_len(text) < text.len) {
        return false;
    }
    quoted[0] = quoted[text.len + 1] = '"';
    span_copy(quoted + 1, text);
    put(writer, (struct span){.at = quoted, .len = text.len + 2});
    return true;
}

static void put_quoted(struct writer *writer, struct span text)
{
    if (put_plain(writer, text)) {
        return;
    }
    put_byte(writer, '"');
    while (text.len > 0 && writer->failed == 0) {
        size_t len = plain_len(text);
        put(writer, span_until(text, len));
        text = span_from(text, len);
        if (text.len > 0) {
            text = span_from(text, put_special(writer, text));
        }
    }
    put_byte(writer, '"');
}

void write_name_span(struct writer *writer, struct span name)
{
    separate(writer);
    put_quoted(writer, name);
    put_byte(writer, ':');
    writer->needs_comma = false;
}

void write_name(struct writer *writer, const char *name)
{
    write_name_span(writer, span_of(name));
}

void write_json(struct writer *writer, struct span json)
{
    separate(writer);
    put(writer, json);
}

void write_text(struct writer *writer, struct span text)
{
    separate(writer);
    put_quoted(writer, text);
}

void write_int(struct writer *writer, int64_t value)
{
    char digits[NUMBER_MAX];

    (void)snprintf(digits, sizeof digits, "%" PRId64, value); /* fits */
    write_json(writer, span_of(digits));
}

void write_uint(struct writer *writer, uint64_t value)
{
    char digits[NUMBER_MAX];

    (void)snprintf(digits, sizeof digits, "%" PRIu64, value); /* fits */
    write_json(writer, span_of(digits));
}

void write_number(struct writer *writer, double value)
{
    char digits[NUMBER_MAX];

    (void)snprintf(digits, sizeof digits, "%.3f", value); /* rates are small; cut at worst */
    size_t len = strlen(digits);
    while (len > 0 && digits[len - 1] == '0') {
        len--;
    }
    len -= len > 0 && digits[len - 1] == '.';
    write_json(writer, (struct span){.at = digits, .len = len});
}

void write_bool(struct writer *writer, bool value)
{
    write_json(writer, value ? SPAN("true") : SPAN("false"));
}

void write_null(struct writer *writer)
{
    write_json(writer, SPAN("null"));
}

void write_time(struct writer *writer, int64_t wall_ms)
{
    char text[CLOCK_TEXT_MAX];

    clock_format(wall_ms, text);
    write_text(writer, span_of(text));
}

void write_named_text(struct writer *writer, const char *name, struct span text)
{
    write_name(writer, name);
    write_text(writer, text);
}

void write_named_int(struct writer *writer, const char *name, int64_t value)
{
    write_name(writer, name);
    write_int(writer, value);
}

void write_named_uint(struct writer *writer, const char *name, uint64_t value)
{
    write_name(writer, name);
    write_uint(writer, value);
}

void write_named_time(struct writer *writer, const char *name, int64_t wall_ms)
{
    write_name(writer, name);
    write_time(writer, wall_ms);
}
