/* SPDX-License-Identifier: MIT
 *
 * span -- some bytes that belong to somebody else. Passed by value; need not end in NUL; may hold
 * any bytes, NUL included. What is asked of every header field of every request is inline: most
 * comparisons end at the length.
 */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct span {
    const char *at;
    size_t len;
};

/* Of a literal. */
#define SPAN(literal)                                                                              \
    (struct span)                                                                                  \
    {                                                                                              \
        .at = (literal), .len = sizeof(literal) - 1                                                \
    }

/* For printf: "%.*s", SPAN_ARGS(span). */
#define SPAN_ARGS(span) (int)(span).len, (span).at

static inline struct span span_of(const char *text) /* NULL: empty */
{
    return (struct span){.at = text != NULL ? text : "", .len = text != NULL ? strlen(text) : 0};
}

static inline bool span_is(struct span span, const char *text)
{
    size_t len = strlen(text);

    return span.len == len && (len == 0 || memcmp(span.at, text, len) == 0);
}

static inline bool span_equal(struct span one, struct span other)
{
    return one.len == other.len && (one.len == 0 || memcmp(one.at, other.at, one.len) == 0);
}

/* ASCII letters in any case. */
bool span_equal_nocase_bytes(const char *one, const char *other, size_t len);

static inline bool span_equal_nocase(struct span one, struct span other)
{
    return one.len == other.len && span_equal_nocase_bytes(one.at, other.at, one.len);
}

static inline bool span_is_nocase(struct span span, const char *text)
{
    return span_equal_nocase(span, (struct span){.at = text, .len = strlen(text)});
}

static inline bool span_starts(struct span span, const char *text)
{
    size_t len = strlen(text);

    return span.len >= len && (len == 0 || memcmp(span.at, text, len) == 0);
}

/* An empty span may point to nothing, which mem* must not be given even for no bytes. So its bytes
 * are copied and searched by these two. */
static inline void span_copy(void *to, struct span from)
{
    if (from.len > 0) {
        memcpy(to, from.at, from.len);
    }
}

static inline const char *span_find(struct span span, char byte) /* the first; NULL: none */
{
    return span.len > 0 ? memchr(span.at, byte, span.len) : NULL;
}

static inline struct span span_from(struct span span, size_t offset) /* empty past the end */
{
    size_t taken = offset < span.len ? offset : span.len;

    if (taken == 0) { /* nothing plus nothing is not defined either */
        return span;
    }
    return (struct span){.at = span.at + taken, .len = span.len - taken};
}

static inline struct span span_until(struct span span, size_t len) /* the whole when shorter */
{
    return (struct span){.at = span.at, .len = span.len < len ? span.len : len};
}

struct span span_trim(struct span span); /* without blanks and tabs around it */

/* Takes the front up to `byte` off `rest`, and `byte` itself; false when it is not there (then the
 * whole rest is taken). */
bool span_cut(struct span *rest, char byte, struct span *ret_front);

bool span_is_utf8(struct span span);

/* A decimal number and nothing else. */
bool span_to_int(struct span span, int64_t *ret_value);

#endif
