/* SPDX-License-Identifier: MIT
 *
 * writer -- JSON, piece by piece, into a buf. The first failure sticks: whoever writes looks at
 * `failed` once, at the end. Whatever bytes come in, what goes out is UTF-8 and well formed as long
 * as the calls are.
 */
#ifndef EDGE_WRITER_H
#define EDGE_WRITER_H

#include "base/buf.h"

struct writer {
    struct buf *out;
    int failed;       /* 0, FAULT_MEMORY, FAULT_LIMIT */
    bool needs_comma; /* a value stands before this place */
};

void write_open(struct writer *writer, char bracket); /* { or [ */
void write_close(struct writer *writer, char bracket);
void write_name(struct writer *writer, const char *name);
void write_name_span(struct writer *writer, struct span name);

/* Values. Bytes that are not UTF-8 become U+FFFD. */
void write_text(struct writer *writer, struct span text);
void write_int(struct writer *writer, int64_t value);
void write_uint(struct writer *writer, uint64_t value);
void write_number(struct writer *writer, double value); /* three digits behind the point at most */
void write_bool(struct writer *writer, bool value);
void write_null(struct writer *writer);
void write_time(struct writer *writer, int64_t wall_ms);
void write_json(struct writer *writer, struct span json); /* well formed already */

/* A name and its value. */
void write_named_text(struct writer *writer, const char *name, struct span text);
void write_named_int(struct writer *writer, const char *name, int64_t value);
void write_named_uint(struct writer *writer, const char *name, uint64_t value);
void write_named_time(struct writer *writer, const char *name, int64_t wall_ms);

#endif
