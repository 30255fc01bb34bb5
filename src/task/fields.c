/* SPDX-License-Identifier: MIT
 *
 * fields -- see fields.h.
 */
#include "task/fields.h"

static bool has_byte(struct span span, char byte)
{
    return span_find(span, byte) != NULL;
}

int fields_add(struct buf *fields, struct span name, struct span value)
{
    return has_byte(name, ':') || has_byte(name, '\n') || has_byte(value, '\n')
               ? FAULT_INPUT
               : fields_copy(fields, name, value);
}

int fields_copy(struct buf *fields, struct span name, struct span value)
{
    if (name.len == 0) {
        return FAULT_INPUT;
    }
    int failed = buf_reserve(fields, name.len + value.len + 3);
    if (failed != 0) {
        return failed;
    }
    buf_put(fields, name);
    buf_put(fields, SPAN(": "));
    buf_put(fields, value);
    buf_put(fields, SPAN("\n"));
    return 0;
}

/* By hand, not by span_cut: each request is walked through some ten times. A missing last newline
 * changes nothing; nor does a missing colon, then the line is the name. */
bool fields_next(struct span *rest, struct span *ret_name, struct span *ret_value)
{
    if (rest->len == 0) {
        return false;
    }
    const char *line = rest->at, *end = line + rest->len;
    const char *newline = memchr(line, '\n', rest->len);
    const char *line_end = newline != NULL ? newline : end;
    const char *colon = line_end > line ? memchr(line, ':', (size_t)(line_end - line)) : NULL;
    const char *name_end = colon != NULL ? colon : line_end;
    const char *value = colon != NULL ? colon + 1 : line_end;

    value += value < line_end && *value == ' ';
    *rest = newline != NULL ? (struct span){.at = newline + 1, .len = (size_t)(end - newline) - 1}
                            : (struct span){.at = end, .len = 0};
    *ret_name = (struct span){.at = line, .len = (size_t)(name_end - line)};
    *ret_value = (struct span){.at = value, .len = (size_t)(line_end - value)};
    return true;
}

/* Can the first line be of that name? Most are told by the byte behind it. */
static bool may_be(struct span fields, struct span name)
{
    return fields.len <= name.len || fields.at[name.len] == ':' || fields.at[name.len] == '\n';
}

bool fields_find(struct span fields, const char *name, struct span *ret_value)
{
    const struct span wanted = span_of(name);
    struct span found, value;

    while (fields.len > 0) {
        if (!may_be(fields, wanted)) {
            const char *newline = memchr(fields.at, '\n', fields.len);
            fields =
                span_from(fields, newline != NULL ? (size_t)(newline - fields.at) + 1 : fields.len);
        } else if (fields_next(&fields, &found, &value) && span_equal_nocase(found, wanted)) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

bool fields_has(struct span fields, struct span name, struct span value)
{
    struct span found_name, found_value;

    while (fields_next(&fields, &found_name, &found_value)) {
        if (span_equal(found_name, name) && span_equal(found_value, value)) {
            return true;
        }
    }
    return false;
}

/* RFC 9110 5.6.2, a bit for each byte. */
static bool is_token_byte(unsigned char byte)
{
    static const uint32_t token_bytes[8] = {
        [0x20 / 32] = UINT32_C(0x03ff6cfa), /* !#$%&'*+-. and the digits */
        [0x40 / 32] = UINT32_C(0xc7fffffe), /* A-Z ^_ */
        [0x60 / 32] = UINT32_C(0x57ffffff), /* ` a-z |~ */
    };

    return (token_bytes[byte >> 5] >> (byte & 31) & 1) != 0;
}

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))
#define HIGH_BITS        EACH_BYTE(0x80)

/* Eight letters and hyphens, which most names are made of? The high bit of each byte is set for those
 * that are; no sum carries into the next byte, as only seven bits of it are added to. */
static bool is_plain_word(const char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof word);
    uint64_t small = (word | EACH_BYTE(0x20)) & ~HIGH_BITS;
    uint64_t from_a = small + EACH_BYTE(0x80 - 'a'), beyond_z = small + EACH_BYTE(0x7f - 'z');
    uint64_t without = word ^ EACH_BYTE('-');
    uint64_t other = ((without & ~HIGH_BITS) + EACH_BYTE(0x7f)) | without;

    return (((from_a & ~beyond_z & ~word) | ~other) & HIGH_BITS) == HIGH_BITS;
}

bool fields_name_is_token(struct span name)
{
    size_t i = 0;

    while (name.len - i >= sizeof(uint64_t) && is_plain_word(name.at + i)) {
        i += sizeof(uint64_t);
    }
    if (i > 0 && is_plain_word(name.at + name.len - sizeof(uint64_t))) {
        i = name.len - i < sizeof(uint64_t) ? name.len : i; /* that was all of the rest */
    }
    for (; i < name.len; i++) {
        if (!is_token_byte((unsigned char)name.at[i])) {
            return false;
        }
    }
    return name.len > 0;
}

/* Is some byte of the word below 0x20, or 0x7f? The tab is as well: bytes are looked at then. */
static bool has_control(uint64_t word)
{
    uint64_t below = (word - EACH_BYTE(0x20)) & ~word;
    uint64_t without = word ^ EACH_BYTE(0x7f);
    uint64_t deleted = (without - EACH_BYTE(0x01)) & ~without;

    return ((below | deleted) & HIGH_BITS) != 0;
}

static bool is_clean_byte(unsigned char byte)
{
    return (byte >= 0x20 || byte == '\t') && byte != 0x7f;
}

bool fields_value_is_clean(struct span value)
{
    size_t i = 0;
    uint64_t word;

    for (; value.len - i >= sizeof word; i += sizeof word) {
        memcpy(&word, value.at + i, sizeof word);
        if (has_control(word)) {
            break;
        }
    }
    for (; i < value.len; i++) {
        if (!is_clean_byte((unsigned char)value.at[i])) {
            return false;
        }
    }
    return true;
}
