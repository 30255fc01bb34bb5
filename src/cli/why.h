/* SPDX-License-Identifier: MIT
 *
 * why -- what an attempt failed of, in one line for people: class, status, reason. The server's reason
 * for an answer is its status again ("HTTP 422"): that is said once, and where a single task is looked
 * at, what the target itself said stands there.
 */
#ifndef CLI_WHY_H
#define CLI_WHY_H

#include "base/buf.h"
#include "cli/client.h"
#include "cli/screen.h"

#define WHY_WORDS_BYTES 300 /* of the target's first line */

/* Of a task's or letter's `error`; nothing for null. */
int why_write(const json_t *error, struct buf *out) __attribute__((warn_unused_result));

/* The first line of what the target answered, if its answer is the failure, and this is text; else empty. */
struct span why_words(const json_t *task);

/* Both; nothing for what did not fail. */
void why_put(const struct screen *screen, const json_t *task);

#endif
