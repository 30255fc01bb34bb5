/* SPDX-License-Identifier: MIT
 *
 * scan -- inside lib/ only: reading foreign text byte by byte, never past its end. Each function
 * takes what it is named after from the front and says whether it was there.
 */
#ifndef DARUMA_SCAN_INTERNAL_H
#define DARUMA_SCAN_INTERNAL_H

#include <daruma/backoff.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scan {
    const char *at;
    const char *end;
};

static inline bool scan_is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static inline char scan_lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

/* The text without the blanks around it. */
static inline struct scan scan_trimmed(const char *text, size_t length)
{
    struct scan scan = {text, text == NULL ? text : text + length};

    while (scan.at < scan.end && (*scan.at == ' ' || *scan.at == '\t')) {
        scan.at++;
    }
    while (scan.at < scan.end && (scan.end[-1] == ' ' || scan.end[-1] == '\t')) {
        scan.end--;
    }
    return scan;
}

static inline bool scan_is_done(const struct scan *scan)
{
    return scan->at == scan->end;
}

static inline bool scan_byte(struct scan *scan, char byte)
{
    if (scan->at == scan->end || *scan->at != byte) {
        return false;
    }
    scan->at++;
    return true;
}

/* The word, in any case. */
static inline bool scan_word(struct scan *scan, const char *word)
{
    const char *at = scan->at;

    for (; *word != '\0'; word++, at++) {
        if (at == scan->end || scan_lower(*at) != scan_lower(*word)) {
            return false;
        }
    }
    scan->at = at;
    return true;
}

/* Exactly `count` digits. */
static inline bool scan_fixed(struct scan *scan, int count, int *ret_value)
{
    int value = 0;

    if (scan->end - scan->at < count) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (!scan_is_digit(scan->at[i])) {
            return false;
        }
        value = value * 10 + (scan->at[i] - '0');
    }
    scan->at += count;
    *ret_value = value;
    return true;
}

/* Digits with an optional fraction, times `unit` (in millionths of a millisecond), rounded up to a
 * millisecond and saturated at the limit. */
bool daruma_scan_amount(struct scan *scan, uint64_t unit_ns, int64_t *ret_ms)
    __attribute__((visibility("hidden")));

#endif
