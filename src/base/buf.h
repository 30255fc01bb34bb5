/* SPDX-License-Identifier: MIT
 *
 * buf -- bytes that belong to whoever has the buf. Born with a ceiling: past it, or when memory is
 * out, adding fails and the buf stays as it was.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/span.h"

struct buf {
    char *at;
    size_t len;
    size_t room; /* allocated */
    size_t max;
};

/* Allocates nothing yet. */
void buf_init(struct buf *buf, size_t max);
void buf_done(struct buf *buf); /* NULL and zeroed are fine */

/* Room for so many bytes more, and one: who adds many small pieces asks once. 0, FAULT_LIMIT past the
 * ceiling, FAULT_MEMORY. */
int buf_reserve(struct buf *buf, size_t more) __attribute__((warn_unused_result));

/* Likewise. */
int buf_add(struct buf *buf, struct span bytes) __attribute__((warn_unused_result));
int buf_addf(struct buf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3), warn_unused_result));

/* Into what was reserved. */
static inline void buf_put(struct buf *buf, struct span bytes)
{
    if (bytes.len > 0) { /* else there may be no memory at all */
        span_copy(buf->at + buf->len, bytes);
        buf->len += bytes.len;
    }
}

struct span buf_span(const struct buf *buf);
void buf_clear(struct buf *buf); /* empty, memory kept */

/* The bytes, malloced, now the caller's to free; the buf is empty. */
char *buf_take(struct buf *buf, size_t *ret_len);

#endif
