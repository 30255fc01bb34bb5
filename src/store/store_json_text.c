/* SPDX-License-Identifier: MIT
 *
 * store_json_text -- see store_json_internal.h. Strict on the way in: of two texts for the same bytes
 * only the one that we write is taken, so that a file that loads is written again as it was.
 */
#include "store/store_json_internal.h"

#define INT_TEXT_MAX 20 /* -9223372036854775808 */
#define DELETE       0x7f
#define HIGH_LEAD    0xc2

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char hex_digits[] = "0123456789abcdef";

bool text_is_plain(struct span bytes)
{
    return bytes.len == 0 || (span_find(bytes, '\0') == NULL && span_is_utf8(bytes));
}

/* --- strings ----------------------------------------------------------------------------------- */

/* The letter of a short escape, or 0. */
static char short_escape(unsigned char byte)
{
    static const char bytes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = byte != '\0' ? strchr(bytes, byte) : NULL;

    return found != NULL ? letters[found - bytes] : '\0';
}

/* Bytes to escape at the front. Controls are written as escapes, those of Unicode's second block too
 * (c2 80 to c2 9f), so that the file may be shown on a terminal. */
static size_t escape_width(struct span text)
{
    unsigned char first = (unsigned char)text.at[0];

    if (first < 0x20 || first == '"' || first == '\\' || first == DELETE) {
        return 1;
    }
    bool is_high = first == HIGH_LEAD && text.len > 1 && (unsigned char)text.at[1] < 0xa0;
    return is_high ? 2 : 0;
}

/* How much of the front goes in as it is, or has to be looked at. */
static size_t plain_width(struct span text)
{
    size_t width = 0;

    while (width < text.len) {
        unsigned char byte = (unsigned char)text.at[width];
        if (byte < 0x20 || byte == '"' || byte == '\\' || byte == DELETE || byte == HIGH_LEAD) {
            break;
        }
        width++;
    }
    return width;
}

static int add_escape(struct buf *buf, struct span text)
{
    unsigned char byte = (unsigned char)text.at[text.len - 1];
    char letter = text.len == 1 ? short_escape(byte) : '\0';
    char escape[] = {'\\', 'u', '0', '0', hex_digits[byte >> 4], hex_digits[byte & 15]};

    if (letter != '\0') {
        escape[1] = letter;
    }
    return buf_add(buf, (struct span){.at = escape, .len = letter != '\0' ? 2 : sizeof escape});
}

int text_add_string(struct buf *buf, struct span text)
{
    int failed = buf_add(buf, SPAN("\""));

    while (text.len > 0 && failed == 0) {
        size_t plain = plain_width(text);
        failed = buf_add(buf, span_until(text, plain));
        text = span_from(text, plain);
        if (text.len == 0 || failed != 0) {
            break;
        }
        size_t escaped = escape_width(text);
        size_t width = escaped > 0 ? escaped : 1;
        failed = escaped > 0 ? add_escape(buf, span_until(text, width))
                             : buf_add(buf, span_until(text, width));
        text = span_from(text, width);
    }
    return failed != 0 ? failed : buf_add(buf, SPAN("\""));
}

int text_add_int(struct buf *buf, int64_t value)
{
    char digits[INT_TEXT_MAX];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0) {
        digits[--at] = '-';
    }
    return buf_add(buf, (struct span){.at = digits + at, .len = sizeof digits - at});
}

/* --- base64 and hexadecimal ---------------------------------------------------------------------- */

int text_add_base64(struct buf *buf, struct span bytes)
{
    int failed = 0;

    for (size_t i = 0; i < bytes.len && failed == 0; i += 3) {
        struct span three = span_until(span_from(bytes, i), 3);
        uint32_t bits = 0;
        for (size_t n = 0; n < 3; n++) {
            bits = bits << 8 | (n < three.len ? (unsigned char)three.at[n] : 0);
        }
        char four[] = {base64_digits[bits >> 18], base64_digits[bits >> 12 & 63],
                       three.len > 1 ? base64_digits[bits >> 6 & 63] : '=',
                       three.len > 2 ? base64_digits[bits & 63] : '='};
        failed = buf_add(buf, (struct span){.at = four, .len = sizeof four});
    }
    return failed;
}

/* -1: not a digit. */
static int digit_value(const char *digits, char byte)
{
    const char *found = byte != '\0' ? strchr(digits, byte) : NULL;

    return found != NULL ? (int)(found - digits) : -1;
}

/* Four characters into one to three bytes; 0: they are not base64. */
static size_t decode_four(const char four[4], char ret_bytes[3])
{
    size_t padding = four[3] != '=' ? 0 : four[2] != '=' ? 1 : 2;
    uint32_t bits = 0;

    for (size_t n = 0; n < 4; n++) {
        int value = n < 4 - padding ? digit_value(base64_digits, four[n]) : 0;
        if (value < 0) {
            return 0;
        }
        bits = bits << 6 | (uint32_t)value;
    }
    if ((padding > 0 && (bits & 0xff) != 0) || (padding > 1 && (bits & 0xffff) != 0)) {
        return 0; /* bits that no byte needs: another text for the same bytes */
    }
    ret_bytes[0] = (char)(bits >> 16);
    ret_bytes[1] = (char)(bits >> 8);
    ret_bytes[2] = (char)bits;
    return 3 - padding;
}

bool text_from_base64(struct span text, char *ret_bytes, size_t *ret_len)
{
    size_t len = 0;

    if (text.len % 4 != 0) {
        return false;
    }
    for (size_t i = 0; i < text.len; i += 4) {
        char three[3];
        size_t count = decode_four(text.at + i, three);
        bool is_last = i + 4 == text.len;
        if (count == 0 || (count < 3 && !is_last)) {
            return false;
        }
        memcpy(ret_bytes + len, three, count);
        len += count;
    }
    *ret_len = len;
    return true;
}

int text_add_hex(struct buf *buf, struct span bytes)
{
    int failed = 0;

    for (size_t i = 0; i < bytes.len && failed == 0; i++) {
        unsigned char byte = (unsigned char)bytes.at[i];
        char two[] = {hex_digits[byte >> 4], hex_digits[byte & 15]};
        failed = buf_add(buf, (struct span){.at = two, .len = sizeof two});
    }
    return failed;
}

bool text_from_hex(struct span text, unsigned char *ret_bytes, size_t len)
{
    if (text.len != 2 * len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        int high = digit_value(hex_digits, text.at[2 * i]);
        int low = digit_value(hex_digits, text.at[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        ret_bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}
