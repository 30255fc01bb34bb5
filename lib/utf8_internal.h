/* SPDX-License-Identifier: MIT
 *
 * utf8 -- inside lib/ only: is what comes next a whole, well-formed character?
 */
#ifndef DARUMA_UTF8_INTERNAL_H
#define DARUMA_UTF8_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at the front; 0 when it is not one (RFC 3629: no overlong forms, no
 * surrogates, nothing above U+10FFFF). */
static inline size_t utf8_width(const char *bytes, size_t length)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)bytes[0];
    size_t width = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;

    if (width == 1) {
        return 1;
    }
    if (first < 0xc2 || first > 0xf4 || width > length) {
        return 0;
    }
    uint32_t code = first & (0x7fu >> width);
    for (size_t i = 1; i < width; i++) {
        unsigned char next = (unsigned char)bytes[i];
        if ((next & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (next & 0x3fu);
    }
    if (code < least[width] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        return 0;
    }
    return width;
}

#endif
