/* SPDX-License-Identifier: MIT
 *
 * base64 -- see base64.h. Strict: what would decode to the same bytes in two ways is refused in all
 * but one, since a task is known by its bytes.
 */
#include "base/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_encode(struct span bytes, struct buf *out)
{
    int failed = 0;

    for (size_t i = 0; failed == 0 && i < bytes.len; i += 3) {
        const unsigned char *at = (const unsigned char *)bytes.at + i;
        size_t left = bytes.len - i;
        uint32_t word =
            (uint32_t)at[0] << 16 | (left > 1 ? (uint32_t)at[1] << 8 : 0) | (left > 2 ? at[2] : 0u);
        const char four[] = {alphabet[word >> 18], alphabet[word >> 12 & 63],
                             left > 1 ? alphabet[word >> 6 & 63] : '=',
                             left > 2 ? alphabet[word & 63] : '='};
        failed = buf_add(out, (struct span){.at = four, .len = sizeof four});
    }
    return failed;
}

static int value_of(char byte)
{
    const char *found = byte != '\0' ? strchr(alphabet, byte) : NULL;

    return found != NULL ? (int)(found - alphabet) : -1;
}

/* Four characters, `padding` of them "=". */
static bool decode_four(const char *four, size_t padding, char *ret_bytes)
{
    uint32_t word = 0;

    for (size_t i = 0; i < 4; i++) {
        int value = i + padding < 4 ? value_of(four[i]) : 0;
        if (value < 0) {
            return false;
        }
        word = word << 6 | (uint32_t)value;
    }
    for (size_t i = 0; i + padding < 3; i++) {
        ret_bytes[i] = (char)(word >> (16 - 8 * i));
    }
    return (word & ((1u << 8 * padding) - 1)) == 0; /* bits that nobody reads must be 0 */
}

bool base64_decode(struct span text, struct arena *arena, struct span *ret_bytes)
{
    size_t padding = 0;

    if (text.len % 4 != 0) {
        return false;
    }
    while (padding < 2 && padding < text.len && text.at[text.len - 1 - padding] == '=') {
        padding++;
    }
    size_t len = text.len / 4 * 3 - padding;
    char *bytes = arena_alloc(arena, len + 1);
    if (bytes == NULL) {
        *ret_bytes = (struct span){0};
        return true;
    }
    for (size_t i = 0; i < text.len; i += 4) {
        if (!decode_four(text.at + i, i + 4 == text.len ? padding : 0, bytes + i / 4 * 3)) {
            return false;
        }
    }
    *ret_bytes = (struct span){.at = bytes, .len = len};
    return true;
}
