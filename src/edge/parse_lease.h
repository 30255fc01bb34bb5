/* SPDX-License-Identifier: MIT
 *
 * parse_lease -- what workers say of their leases: `{"acks": […], "retries": […], "extend": […]}`. What
 * does not look like a lease is a word about none (row 0), which is stale and no error; anything else
 * that is wrong is refused, naming the field where it stands: `acks[3].response.status`. Shared inside
 * edge/ only.
 */
#ifndef EDGE_PARSE_LEASE_H
#define EDGE_PARSE_LEASE_H

#include "engine/engine.h"

#define LEASE_TEXT_MAX 96

/* Large enough for what a text of that length may say; NULL: no memory. */
struct arena *parse_lease_arena(size_t json_bytes);

/* Acks first, then retries, then extensions, each in its order; in the arena. */
int parse_lease_words(struct span json, struct arena *arena, const struct lease_word **ret_words,
                      size_t *ret_count, struct error *err) __attribute__((warn_unused_result));

#endif
