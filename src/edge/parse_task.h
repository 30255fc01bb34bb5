/* SPDX-License-Identifier: MIT
 *
 * parse_task -- a task as a caller writes it, checked, into a submission. Strict: an unknown or
 * repeated member, a value of another type, two members that exclude each other are each refused,
 * naming the field. The value of `json` is taken as its exact bytes.
 */
#ifndef EDGE_PARSE_TASK_H
#define EDGE_PARSE_TASK_H

#include "engine/engine.h"

#define PARSE_TIMEOUT_MAX_MS   86400000
#define PARSE_OBJECT_BYTES_MAX 8192       /* of retry and of callback, each */
#define PARSE_ARENA_TIMES      2          /* a text, and the body that it decodes to */
#define PARSE_ARENA_EXTRA      (4u << 20) /* for whoever gets the arena and works on in it */

struct parse_options {
    engine_parse_policy_fn parse_policy; /* NULL: any object will do for `retry` */
    void *parse_user;
    int64_t now_ms;  /* wall clock */
    struct span key; /* from the Idempotency-Key header; empty: none was given */
};

/* submission->arena is there already: everything goes into it, and it stays the caller's until he
 * hands the submission over. Members that the text does not give are left as they are. FAULT_INPUT
 * (err->field says which), FAULT_LIMIT, FAULT_MEMORY. */
int parse_task(const struct parse_options *options, struct span json, struct submission *submission,
               struct error *err) __attribute__((warn_unused_result));

/* Room for a submission that comes from so many bytes. */
struct arena *parse_arena_new(size_t json_bytes);

/* The value of an Idempotency-Key header: bare, or in quotes (RFC 8941). */
int parse_key(struct span header, struct arena *arena, struct span *ret_key, struct error *err)
    __attribute__((warn_unused_result));

#endif
