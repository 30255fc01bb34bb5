/* SPDX-License-Identifier: MIT
 *
 * buf -- see buf.h. Grows by doubling.
 */
#include "base/buf.h"
#include "base/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define ROOM_FIRST 256

void buf_init(struct buf *buf, size_t max)
{
    *buf = (struct buf){.max = max};
}

void buf_done(struct buf *buf)
{
    if (buf != NULL) {
        free(buf->at);
        *buf = (struct buf){.max = buf->max};
    }
}

/* The one byte is for a NUL, which vsnprintf insists on. */
int buf_reserve(struct buf *buf, size_t more)
{
    if (more > buf->max || buf->len > buf->max - more) {
        return FAULT_LIMIT;
    }
    size_t wanted = buf->len + more + 1;
    if (wanted <= buf->room) {
        return 0;
    }
    size_t room = buf->room == 0 ? ROOM_FIRST : buf->room;
    while (room < wanted) {
        room *= 2;
    }
    char *grown = realloc(buf->at, room);
    if (grown == NULL) {
        return FAULT_MEMORY;
    }
    buf->at = grown;
    buf->room = room;
    return 0;
}

int buf_add(struct buf *buf, struct span bytes)
{
    int failed = buf_reserve(buf, bytes.len);

    if (failed != 0) {
        return failed;
    }
    buf_put(buf, bytes);
    return 0;
}

int buf_addf(struct buf *buf, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int needed = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    int failed = needed < 0 ? FAULT_SYSTEM : buf_reserve(buf, (size_t)needed);
    if (failed != 0) {
        return failed;
    }
    va_start(arguments, format);
    (void)vsnprintf(buf->at + buf->len, (size_t)needed + 1, format, arguments); /* fits */
    va_end(arguments);
    buf->len += (size_t)needed;
    return 0;
}

struct span buf_span(const struct buf *buf)
{
    return (struct span){.at = buf->at != NULL ? buf->at : "", .len = buf->len};
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
}

char *buf_take(struct buf *buf, size_t *ret_len)
{
    char *taken = buf->at;

    *ret_len = buf->len;
    *buf = (struct buf){.max = buf->max};
    return taken;
}
