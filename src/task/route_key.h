/* SPDX-License-Identifier: MIT
 *
 * route_key -- whose request it is and what it is called: the caller's key, his scope, and the
 * fingerprint of what the key was first used for. Digests only: what a caller is known by
 * (a token, a cookie) is never kept.
 */
#ifndef TASK_ROUTE_KEY_H
#define TASK_ROUTE_KEY_H

#include "base/fault.h"
#include "task/route.h"
#include "task/task.h"

#define ROUTE_SCOPE_TEXT_LEN   32 /* hexadecimal digits of a scope */
#define ROUTE_DERIVED_TEXT_LEN 64

/* An Idempotency-Key as it came: an sf-string ("k", RFC 8941, parameters dropped) or bare, as every
 * SDK sends it; "k" and k are one key. NULL and *ret_key, in `room`; or what is wrong with it.
 * Strict: sf-strings only. */
const char *route_key_parse(struct span value, bool is_strict, char room[TASK_KEY_MAX],
                            struct span *ret_key);

/* A key as it is written to an upstream: bare, so that every caller's spelling of it is one there too;
 * as an sf-string where a bare one would be read as another key (a comma, a quotation mark at the
 * beginning) or the route takes nothing else. Within `room`. */
#define ROUTE_KEY_WRITTEN_MAX (2 * TASK_KEY_MAX + 2)
struct span route_key_write(struct span key, bool is_strict, char room[ROUTE_KEY_WRITTEN_MAX]);

/* The caller's header or cookie as a scope, 32 digits; empty for a global one. */
int route_scope_text(const struct route_settings *route, struct span value,
                     char ret_text[ROUTE_SCOPE_TEXT_LEN + 1], struct error *err)
    __attribute__((warn_unused_result));

/* The value of a cookie in a Cookie header. */
bool route_cookie_find(struct span header, struct span name, struct span *ret_value);

/* What the upstream gets as the key where the route derives it: an HMAC of scope and key, so that
 * two callers' keys cannot meet there. */
int route_key_derive(struct span route_name, struct span scope, struct span key,
                     char ret_text[ROUTE_DERIVED_TEXT_LEN + 1], struct error *err)
    __attribute__((warn_unused_result));

struct route_request {
    struct span method;
    struct span target; /* path and query */
    struct span content_type;
    struct span body;
};

/* By the route's `fingerprint`. Selected fields are compared as written, without blanks; where they
 * cannot be told apart for certain (no JSON, a name twice) the whole body is taken. */
int route_fingerprint(const struct route_settings *route, const struct route_request *request,
                      unsigned char ret_digest[TASK_FINGERPRINT_BYTES], struct error *err)
    __attribute__((warn_unused_result));

/* A JSON value by its path: names and numbers with dots between. UNSURE: it is no JSON, or a name
 * comes twice. *ret_value: its bytes. */
enum route_json { ROUTE_JSON_FOUND, ROUTE_JSON_MISSING, ROUTE_JSON_UNSURE };
enum route_json route_json_find(struct span json, struct span path, struct span *ret_value);

#endif
