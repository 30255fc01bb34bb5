/* SPDX-License-Identifier: MIT
 *
 * parse_act -- see parse_act.h.
 */
#include "edge/parse_act.h"

#include "base/base64.h"
#include "edge/moment.h"
#include "edge/parse_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_TEXT_MAX 32

/* One object while it is being read. */
struct act {
    const char *prefix;
    const struct act_member *members;
    size_t count;
    struct arena *arena;
    struct error *err;
};

static int refuse(const struct act *act, const char *name, const char *expected)
{
    char field[ERROR_FIELD_MAX];

    (void)snprintf(field, sizeof field, "%s%s", act->prefix, name); /* cut if long */
    return fail_field(act->err, FAULT_INPUT, field, "%s must be %s", field, expected);
}

static int read_text(const struct act *act, const struct act_member *member, struct span value,
                     struct span *ret_text)
{
    char expected[64];
    size_t len = 0;

    if (value.at[0] != '"') {
        return refuse(act, member->name, "a string");
    }
    char *bytes = arena_alloc(act->arena, value.len + 1);
    if (bytes == NULL) {
        return fail(act->err, FAULT_MEMORY, "no memory for it now");
    }
    if (!json_value_text(value, bytes, &len)) {
        return refuse(act, member->name, "text without half of a surrogate pair");
    }
    if (len > (size_t)member->max) {
        (void)snprintf(expected, sizeof expected, "at most %lld bytes long",
                       (long long)member->max); /* fits */
        return refuse(act, member->name, expected);
    }
    *ret_text = (struct span){.at = bytes, .len = len};
    return 0;
}

static int read_int(const struct act *act, const struct act_member *member, struct span value)
{
    char expected[80];
    int64_t number;

    if (span_to_int(value, &number) && number >= member->min && number <= member->max) {
        *(int64_t *)member->to = number;
        return 0;
    }
    (void)snprintf(expected, sizeof expected, "a whole number from %lld to %lld",
                   (long long)member->min, (long long)member->max); /* fits */
    return refuse(act, member->name, expected);
}

static int read_number(const struct act *act, const struct act_member *member, struct span value)
{
    char text[NUMBER_TEXT_MAX], expected[80];
    bool is_number = value.len > 0 && value.len < sizeof text &&
                     ((value.at[0] >= '0' && value.at[0] <= '9') || value.at[0] == '-');

    if (is_number) {
        (void)snprintf(text, sizeof text, "%.*s", SPAN_ARGS(value)); /* fits */
        double number = strtod(text, NULL); /* JSON's numbers are a part of C's */
        if (number > 0 && number <= (double)member->max) {
            *(double *)member->to = number;
            return 0;
        }
    }
    (void)snprintf(expected, sizeof expected, "a number above 0 and at most %lld",
                   (long long)member->max); /* fits */
    return refuse(act, member->name, expected);
}

static int read_time(const struct act *act, const struct act_member *member, struct span value)
{
    const struct act_member as_text = {.name = member->name, .max = NUMBER_TEXT_MAX};
    struct span text;
    int failed = read_text(act, &as_text, value, &text);

    if (failed == 0 && !moment_parse(text, member->to)) {
        return refuse(act, member->name, "a time such as 2026-11-15T10:20:30.000Z");
    }
    return failed;
}

static int read_bool(const struct act *act, const struct act_member *member, struct span value)
{
    if (!span_is(value, "true") && !span_is(value, "false")) {
        return refuse(act, member->name, "true or false");
    }
    *(bool *)member->to = span_is(value, "true");
    return 0;
}

static int read_value(const struct act *act, const struct act_member *member, struct span value)
{
    if (span_is(value, "null")) {
        return 0;
    }
    switch (member->kind) {
    case ACT_TEXT:
        return read_text(act, member, value, member->to);
    case ACT_INT:
        return read_int(act, member, value);
    case ACT_NUMBER:
        return read_number(act, member, value);
    case ACT_BOOL:
        return read_bool(act, member, value);
    case ACT_TIME:
        return read_time(act, member, value);
    case ACT_VALUE:
    default:
        *(struct span *)member->to = value;
        return 0;
    }
}

static int read_member(const struct act *act, struct span name, struct span value, unsigned *seen)
{
    char field[ERROR_FIELD_MAX];

    for (size_t i = 0; i < act->count; i++) {
        if (!span_is(name, act->members[i].name)) {
            continue;
        }
        if ((*seen & 1u << i) != 0) {
            return refuse(act, act->members[i].name, "given once");
        }
        *seen |= 1u << i;
        return read_value(act, &act->members[i], value);
    }
    (void)snprintf(field, sizeof field, "%s%.*s", act->prefix, SPAN_ARGS(name)); /* cut if long */
    return fail_field(act->err, FAULT_INPUT, field, "there is no field of this name");
}

int parse_act(struct span json, const char *prefix, const struct act_member *members, size_t count,
              struct arena *arena, struct error *err)
{
    const struct act act = {prefix, members, count, arena, err};
    struct json_walk walk;
    struct span name, value;
    enum json_step step;
    unsigned seen = 0;

    if (span_trim(json).len == 0) {
        return 0;
    }
    if (!span_is_utf8(json) || !json_walk_begin(&walk, json, '{')) {
        char field[ERROR_FIELD_MAX];
        int len = (int)strlen(prefix) - 1; /* without its dot */
        (void)snprintf(field, sizeof field, "%.*s", len > 0 ? len : 0, prefix); /* fits */
        return fail_field(err, FAULT_INPUT, field, "%s must be a JSON object",
                          len > 0 ? field : "the body");
    }
    while ((step = json_walk_next(&walk, &name, &value)) == JSON_STEP_VALUE) {
        int failed = read_member(&act, name, value, &seen);
        if (failed != 0) {
            return failed;
        }
    }
    if (step == JSON_STEP_BROKEN || walk.rest.len > 0) {
        return fail(err, FAULT_INPUT, "not valid JSON, or nested too deeply: behind byte %zu",
                    (size_t)(walk.rest.at - json.at));
    }
    return 0;
}

/* --- answers and edits ----------------------------------------------------------------------------- */

/* A field of something that stands inside something else. */
static int refuse_inner(struct error *err, const char *prefix, const char *name, const char *text)
{
    char field[ERROR_FIELD_MAX];

    (void)snprintf(field, sizeof field, "%s%s", prefix, name); /* cut if long */
    return fail_field(err, FAULT_INPUT, field, "%s: %s", field, text);
}

static int read_headers(struct submission *kept, struct span headers, const char *prefix,
                        struct error *err)
{
    struct error inner = {0};
    struct parser parser = {.submission = kept, .err = &inner};
    int failed = parse_headers(&parser, headers);

    if (failed == FAULT_INPUT) {
        return refuse_inner(err, prefix, inner.field, inner.text);
    }
    return failed != 0 ? fail(err, FAULT_MEMORY, "no memory for it now") : 0;
}

int parse_answer(struct span json, const char *prefix, struct arena *arena,
                 struct answer *ret_answer, struct error *err)
{
    struct submission kept = {.arena = arena};
    struct span headers = {0}, base64 = {0};
    int64_t status = 200;
    const struct act_member members[] = {
        {"status", ACT_INT, &status, 100, 599},
        {"headers", ACT_VALUE, &headers, 0, 0},
        {"body", ACT_TEXT, &kept.body, 0, INT64_MAX},
        {"body_base64", ACT_TEXT, &base64, 0, INT64_MAX},
    };
    int failed = parse_act(json, prefix, members, sizeof members / sizeof *members, arena, err);

    if (failed == 0 && headers.len > 0) {
        failed = read_headers(&kept, headers, prefix, err);
    }
    if (failed == 0 && base64.at != NULL && kept.body.at != NULL) {
        failed = refuse_inner(err, prefix, "body_base64", "only one of it and body can be given");
    } else if (failed == 0 && base64.at != NULL) {
        bool is_good = base64_decode(base64, arena, &kept.body);
        failed = !is_good ? refuse_inner(err, prefix, "body_base64", "it is not base64")
                 : kept.body.at == NULL ? fail(err, FAULT_MEMORY, "no memory for it now")
                                        : 0;
    }
    if (failed == 0) {
        *ret_answer =
            (struct answer){.status = (int)status, .headers = kept.headers, .body = kept.body};
    }
    return failed;
}

int parse_edit(struct span json, struct arena *arena, struct edit *ret_edit, struct error *err)
{
    static const char *const taken[] = {"target", "headers", "body", "json", "body_base64"};
    const struct parse_options options = {0};
    struct submission kept = {.arena = arena};
    struct edit edit = {0};
    struct json_walk walk;
    struct span name, value;

    if (span_trim(json).len == 0) {
        *ret_edit = edit;
        return 0;
    }
    for (bool more = json_walk_begin(&walk, json, '{'); more;) {
        more = json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE;
        bool is_taken = !more;
        for (size_t i = 0; more && i < sizeof taken / sizeof *taken; i++) {
            if (span_is(name, taken[i])) {
                edit.parts |= i == 0 ? EDIT_TARGET : i == 1 ? EDIT_HEADERS : EDIT_BODY;
                is_taken = true;
            }
        }
        if (!is_taken) {
            char field[ERROR_FIELD_MAX];
            (void)snprintf(field, sizeof field, "%.*s", SPAN_ARGS(name)); /* cut if long */
            return fail_field(err, FAULT_INPUT, field,
                              "only target, headers and body, json or body_base64 can be changed");
        }
    }
    int failed = parse_task(&options, json, &kept, err);
    if (failed == 0) {
        edit.target = kept.target;
        edit.body = kept.body;
        edit.headers = (edit.parts & EDIT_HEADERS) != 0 ? kept.headers : (struct span){0};
        *ret_edit = edit;
    }
    return failed;
}

bool parse_class(struct span word, enum daruma_class *ret_class)
{
    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        if (span_is(word, daruma_class_text((enum daruma_class)i))) {
            *ret_class = (enum daruma_class)i;
            return true;
        }
    }
    return false;
}
