/* SPDX-License-Identifier: MIT
 *
 * parse -- shared only between edge/parse_*.c: one task while it is being read. Values are the bytes
 * that stand in the text, well formed already.
 */
#ifndef EDGE_PARSE_INTERNAL_H
#define EDGE_PARSE_INTERNAL_H

#include "base/json_value.h"
#include "edge/parse_task.h"

struct parser {
    const struct parse_options *options;
    struct submission *submission; /* its arena is where everything goes */
    unsigned seen;                 /* members so far, a bit each */
    bool has_body, is_json, has_due;
    struct error *err;
};

/* In parse_parts.c: the members that are objects. */
int parse_headers(struct parser *parser, struct span value);
int parse_labels(struct parser *parser, struct span value);
int parse_retry(struct parser *parser, struct span value);
int parse_callback(struct parser *parser, struct span value);

/* `application/json`, unless a content type was given. */
int parse_default_type(struct parser *parser);

/* In parse_task.c. What a string stands for; what is no string is refused, naming the field. */
int parse_string(struct parser *parser, struct span value, const char *field,
                 struct span *ret_text);
/* The name of a member, as json_walk_next gave it; may point into the text. */
int parse_name(struct parser *parser, struct span name, struct span *ret_text);
int parse_no_memory(struct parser *parser);

#endif
