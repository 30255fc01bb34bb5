/* SPDX-License-Identifier: MIT
 *
 * enqueue_request -- a task as the flags of `daruma enqueue` describe it, written as the JSON that
 * the API takes.
 */
#ifndef CLI_ENQUEUE_REQUEST_H
#define CLI_ENQUEUE_REQUEST_H

#include "base/buf.h"
#include "base/fault.h"
#include "cli/header_flags.h"

#define ENQUEUE_LABELS_MAX 16

struct enqueue_pair {
    struct span name, value;
};

/* NULL, or a negative time: not given. */
struct enqueue_request {
    const char *target, *method, *key;
    const char *body; /* --data: TEXT, @FILE or - */
    const char *json; /* --json-data: likewise */
    int64_t delay_ms, deadline_ms, timeout_ms;
    struct header_flags headers; /* read: header_flags_read */
    struct enqueue_pair labels[ENQUEUE_LABELS_MAX];
    size_t label_count;
};

/* Into a buf that is not initialised yet; the caller's to buf_done on success. FAULT_IO: a file
 * cannot be read; FAULT_INPUT: what is there is not JSON; FAULT_LIMIT: it is too large;
 * err->field is the flag. */
int enqueue_request_write(const struct enqueue_request *request, struct buf *ret_json,
                          struct error *err) __attribute__((warn_unused_result));

#endif
