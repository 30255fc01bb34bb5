/* SPDX-License-Identifier: MIT
 *
 * leak -- see leak.h.
 */
#include "deliver/leak.h"

#include "task/fields.h"
#include "task/secrets.h"

static unsigned char lower(unsigned char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte - 'A' + 'a') : byte;
}

static int hex_value(char digit)
{
    char small = (char)lower((unsigned char)digit);

    return small >= '0' && small <= '9'   ? small - '0'
           : small >= 'a' && small <= 'f' ? small - 'a' + 10
                                          : -1;
}

/* \u0073: the number of it; -1: it is none. */
static int escape_value(struct span text)
{
    int value = 0;

    if (text.len < 6 || !span_starts(text, "\\u")) {
        return -1;
    }
    for (size_t i = 2; i < 6; i++) {
        int digit = hex_value(text.at[i]);
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* One byte off the front, in lower case; an escape is the byte that it stands for. */
static unsigned char take_byte(struct span *rest)
{
    int value = escape_value(*rest);
    size_t len = 1;
    unsigned char byte = (unsigned char)rest->at[0];

    if (value >= 0 && value < 0x80) {
        byte = (unsigned char)value;
        len = 6;
    } else if (byte == '\\' && rest->len > 1 && strchr("\"\\/", rest->at[1]) != NULL) {
        byte = (unsigned char)rest->at[1];
        len = 2;
    }
    *rest = span_from(*rest, len);
    return lower(byte);
}

static bool starts_with(struct span text, struct span secret)
{
    struct span rest = text;

    for (size_t i = 0; i < secret.len; i++) {
        if (rest.len == 0 || take_byte(&rest) != lower((unsigned char)secret.at[i])) {
            return false;
        }
    }
    return true;
}

static bool has_secret(struct span bytes, struct span whole)
{
    struct span secret = span_until(whole, LEAK_SHOWN_MAX), rest = bytes;

    if (whole.len < LEAK_LEAST) {
        return false;
    }
    for (; rest.len > 0; rest = span_from(rest, 1)) {
        unsigned char byte = (unsigned char)rest.at[0];
        if ((byte == '\\' || lower(byte) == lower((unsigned char)secret.at[0])) &&
            (span_equal_nocase(span_until(rest, secret.len), secret) ||
             starts_with(rest, secret))) {
            return true;
        }
    }
    return false;
}

/* "Bearer TOKEN": what is behind the blank. */
static struct span secret_part(struct span value)
{
    struct span front, rest = span_trim(value);

    while (span_find(rest, ' ') != NULL) {
        (void)span_cut(&rest, ' ', &front); /* there is one */
    }
    return rest;
}

bool leak_in(const struct provider_settings *settings, struct span bytes)
{
    struct span rest = settings->headers, name, value;

    for (size_t i = 0; i < settings->key_count; i++) {
        if (has_secret(bytes, settings->keys[i])) {
            return true;
        }
    }
    while (fields_next(&rest, &name, &value)) {
        if (secrets_is_name(name) && has_secret(bytes, secret_part(value))) {
            return true;
        }
    }
    return false;
}
