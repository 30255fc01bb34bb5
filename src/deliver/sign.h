/* SPDX-License-Identifier: MIT
 *
 * sign -- signatures by the Standard Webhooks specification, so that a receiver knows who sent a
 * request, that nobody changed it, and that it is not an old one sent again:
 *
 *   webhook-id         the task's id: the same for every attempt, for telling duplicates
 *   webhook-timestamp  of this attempt, in seconds since 1970
 *   webhook-signature  "v1," and base64 of the HMAC-SHA256 of id.timestamp.body, for each secret, with
 *                      blanks between them: a receiver needs to know only one
 */
#ifndef DELIVER_SIGN_H
#define DELIVER_SIGN_H

#include "base/buf.h"
#include "base/fault.h"
#include "task/queue.h"

struct sign_input {
    const struct signing_key *keys;
    size_t key_count;
    struct span id;
    int64_t at_ms; /* wall clock */
    struct span body;
};

/* Adds the three as task/fields.h has them. 0, FAULT_MEMORY, or what buf_add says. */
int sign_add_fields(const struct sign_input *input, struct buf *fields, struct error *err)
    __attribute__((warn_unused_result));

/* Is it one of the three? Any case of letters. */
bool sign_is_field(struct span name);

#endif
