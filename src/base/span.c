/* SPDX-License-Identifier: MIT
 *
 * span -- see span.h.
 */
#include "base/span.h"

static char lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))
#define HIGH_BITS        EACH_BYTE(0x80)

/* Eight bytes at once; the high bit of a sum tells, for each byte by itself, that it is at least "A", or
 * beyond "Z". */
static uint64_t lower_word(uint64_t word)
{
    uint64_t low_bits = word & ~HIGH_BITS;
    uint64_t from_a = low_bits + EACH_BYTE(0x80 - 'A'), beyond_z = low_bits + EACH_BYTE(0x7f - 'Z');

    return word | ((from_a & ~beyond_z & ~word & HIGH_BITS) >> 2);
}

static bool is_same_word(const char *one, const char *other)
{
    uint64_t a, b;

    memcpy(&a, one, sizeof a);
    memcpy(&b, other, sizeof b);
    return a == b || lower_word(a) == lower_word(b);
}

/* The last word of a longer text overlaps the one before. */
bool span_equal_nocase_bytes(const char *one, const char *other, size_t len)
{
    size_t i = 0;

    for (; len - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
        if (!is_same_word(one + i, other + i)) {
            return false;
        }
    }
    if (i > 0) {
        size_t last = len - sizeof(uint64_t);
        return i == len || is_same_word(one + last, other + last);
    }
    for (; i < len; i++) {
        if (one[i] != other[i] && lower(one[i]) != lower(other[i])) {
            return false;
        }
    }
    return true;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

struct span span_trim(struct span span)
{
    while (span.len > 0 && is_blank(span.at[0])) {
        span = span_from(span, 1);
    }
    while (span.len > 0 && is_blank(span.at[span.len - 1])) {
        span.len--;
    }
    return span;
}

bool span_cut(struct span *rest, char byte, struct span *ret_front)
{
    const char *found = span_find(*rest, byte);

    if (found == NULL) {
        *ret_front = *rest;
        *rest = span_from(*rest, rest->len);
        return false;
    }
    *ret_front = span_until(*rest, (size_t)(found - rest->at));
    *rest = span_from(*rest, ret_front->len + 1);
    return true;
}

/* Bytes of the character at the front, 0 when it is not well formed (RFC 3629). */
static size_t utf8_width(struct span span)
{
    unsigned char first = (unsigned char)span.at[0];
    size_t width = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

    if (width == 1) {
        return 1;
    }
    if (first < 0xc2 || first > 0xf4 || width > span.len) {
        return 0;
    }
    for (size_t i = 1; i < width; i++) {
        if (((unsigned char)span.at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    unsigned char second = (unsigned char)span.at[1];
    bool is_bad = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                  (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
    return is_bad ? 0 : width;
}

/* Bytes at the front that are ASCII, in whole words: most text is nothing else. */
static size_t ascii_words(struct span span)
{
    size_t len = 0;
    uint64_t word;

    for (; span.len - len >= sizeof word; len += sizeof word) {
        memcpy(&word, span.at + len, sizeof word);
        if ((word & UINT64_C(0x8080808080808080)) != 0) {
            break;
        }
    }
    return len;
}

bool span_is_utf8(struct span span)
{
    while (span.len > 0) {
        span = span_from(span, ascii_words(span));
        if (span.len == 0) {
            break;
        }
        size_t width = utf8_width(span);
        if (width == 0) {
            return false;
        }
        span = span_from(span, width);
    }
    return true;
}

bool span_to_int(struct span span, int64_t *ret_value)
{
    bool is_negative = span.len > 0 && span.at[0] == '-';
    uint64_t limit = is_negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    uint64_t value = 0;

    span = span_from(span, is_negative);
    if (span.len == 0) {
        return false;
    }
    for (size_t i = 0; i < span.len; i++) {
        uint64_t digit = (uint64_t)(unsigned char)span.at[i] - '0';
        if (digit > 9 || value > (limit - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *ret_value = is_negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}
