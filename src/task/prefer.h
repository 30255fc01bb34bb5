/* SPDX-License-Identifier: MIT
 *
 * prefer -- what a client would rather have (RFC 7240): respond-async and wait=N. What is not
 * understood is not an error, there and here.
 */
#ifndef TASK_PREFER_H
#define TASK_PREFER_H

#include "base/span.h"

#define PREFER_WAIT_MAX_S 86400

/* Zeroed: nothing was said. */
struct prefer {
    bool is_async;
    bool has_wait;
    int64_t wait_ms;
};

/* Adds one Prefer field; of a preference that comes twice the first stands. */
void prefer_read(struct prefer *prefer, struct span value);

/* What was honoured, for Preference-Applied; empty: nothing. */
struct span prefer_applied(const struct prefer *prefer, char room[48]);

#endif
