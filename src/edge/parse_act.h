/* SPDX-License-Identifier: MIT
 *
 * parse_act -- the small objects that acts come with: `{"note": …}`, `{"max": 10}`. A table says
 * which members there may be, what each of them is, and where it goes; anything else is refused,
 * naming the field. Shared inside edge/ only.
 */
#ifndef EDGE_PARSE_ACT_H
#define EDGE_PARSE_ACT_H

#include "engine/engine.h"

#define PARSE_ACT_MEMBERS_MAX 16
#define PARSE_NOTE_BYTES_MAX  4096

enum act_member_kind {
    ACT_TEXT,   /* struct span: at most `max` bytes */
    ACT_INT,    /* int64_t from `min` to `max` */
    ACT_NUMBER, /* double above 0, at most `max` */
    ACT_BOOL,   /* bool */
    ACT_TIME,   /* int64_t: a moment, RFC 3339 */
    ACT_VALUE,  /* struct span: the value as it is written */
};

struct act_member {
    const char *name;
    enum act_member_kind kind;
    void *to; /* left alone when the member is not given, or null */
    int64_t min, max;
};

/* `prefix` stands before the names in errors: "filter.". An empty text is an empty object. */
int parse_act(struct span json, const char *prefix, const struct act_member *members, size_t count,
              struct arena *arena, struct error *err) __attribute__((warn_unused_result));

/* {"status", "headers", "body" | "body_base64"}: an answer that somebody vouches for. */
int parse_answer(struct span json, const char *prefix, struct arena *arena,
                 struct answer *ret_answer, struct error *err) __attribute__((warn_unused_result));

/* {"target", "headers", "body" | "json" | "body_base64"}: what is to be changed of a request. */
int parse_edit(struct span json, struct arena *arena, struct edit *ret_edit, struct error *err)
    __attribute__((warn_unused_result));

/* A class by its word; false: there is none of this name. */
bool parse_class(struct span word, enum daruma_class *ret_class);

#endif
