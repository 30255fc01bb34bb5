/* SPDX-License-Identifier: MIT
 *
 * json_value -- where a JSON value begins and ends, found without building anything. A parser that
 * builds values does not give back what was written (1.10 becomes 1.1000000000000001, large numbers
 * are refused), so whoever has to pass a value on takes its bytes from here.
 *
 * RFC 8259, strictly, but for two things: bytes above 0x7f are not looked at (span_is_utf8 does), and
 * what escapes stand for is not either. Nothing is deeper than JSON_DEPTH_MAX.
 */
#ifndef BASE_JSON_VALUE_H
#define BASE_JSON_VALUE_H

#include "base/span.h"

#define JSON_DEPTH_MAX 64

/* Takes the value at the front off `rest`, with the blanks around it; *ret_value are its exact
 * bytes. False: there is none, or it is not well formed; `rest` is where it was. */
bool json_value_take(struct span *rest, struct span *ret_value);

/* One after the other, what is in an object or an array. */
struct json_walk {
    struct span rest; /* behind what was given last */
    char closing;
    bool is_begun;
};

/* False: `value` begins with another bracket. */
bool json_walk_begin(struct json_walk *walk, struct span value, char bracket);

enum json_step { JSON_STEP_VALUE, JSON_STEP_END, JSON_STEP_BROKEN };

/* The next member or element. *ret_name is what stands between the quotes, escapes and all; empty in
 * an array. END: the bracket is closed, and walk->rest is behind it. */
enum json_step json_walk_next(struct json_walk *walk, struct span *ret_name,
                              struct span *ret_value);

/* What a well-formed string stands for, quotes and escapes taken off. Writes at most value.len bytes.
 * False: half of a surrogate pair, which stands for nothing. */
bool json_value_text(struct span value, char *ret_bytes, size_t *ret_len);

/* Whether a name as json_walk_next gave it, which is still between its quotes, stands for this one:
 * "u\\u0072l" is "url". */
bool json_name_is(struct span written, struct span name);

/* A well-formed value without the blanks between its parts: one line. Writes at most value.len
 * bytes; returns how many. */
size_t json_value_compact(struct span value, char *ret_bytes);

#endif
