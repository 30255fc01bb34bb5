/* SPDX-License-Identifier: MIT
 *
 * store_json_place -- see store_json_internal.h. The parser says where a text stops being JSON, but
 * not where a value stood that is JSON and yet makes no sense; this walks the text once more to find
 * it. It is only asked about texts that have been parsed, and is safe with any others.
 */
#include "store/store_json_internal.h"

static const char *skip_blank(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) {
        at++;
    }
    return at;
}

/* Past the closing quote. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++) {
        at += *at == '\\' && end - at > 1;
    }
    return at < end ? at + 1 : end;
}

static const char *skip_value(const char *at, const char *end)
{
    size_t depth = 0;

    while (at < end) {
        if (*at == '"') {
            at = skip_string(at, end);
        } else if (depth == 0 && strchr(",]} \t\r\n", *at) != NULL) {
            return at;
        } else {
            depth += *at == '{' || *at == '[';
            depth -= *at == '}' || *at == ']';
            at++;
        }
        if (depth == 0 && (at[-1] == '"' || at[-1] == '}' || at[-1] == ']')) {
            return at;
        }
    }
    return end;
}

static bool is_named(const char *at, const char *end, const char *name)
{
    size_t len = strlen(name);

    return (size_t)(end - at) >= len + 2 && memcmp(at + 1, name, len) == 0 && at[len + 1] == '"';
}

/* From the opening bracket of a whole to the part; NULL: it has no such part. *ret_value: past the
 * name. */
static const char *find_part(const char *at, const char *end, const struct step *step,
                             const char **ret_value)
{
    bool is_object = at < end && *at == '{';

    at = at < end ? skip_blank(at + 1, end) : end;
    for (size_t index = 0; at < end && *at != '}' && *at != ']'; index++) {
        const char *part = at;
        if (is_object) {
            at = skip_blank(skip_string(at, end), end);
            at = skip_blank(at < end ? at + 1 : end, end);
        }
        bool is_it = step->name == NULL ? !is_object && index == step->index
                                        : is_object && is_named(part, end, step->name);
        if (is_it) {
            *ret_value = at;
            return part;
        }
        at = skip_blank(skip_value(at, end), end);
        at = at < end && *at == ',' ? skip_blank(at + 1, end) : at;
        if (at == part) {
            return NULL; /* not JSON */
        }
    }
    return NULL;
}

void place_find(struct span json, const struct step *steps, size_t count, unsigned *ret_line,
                unsigned *ret_column)
{
    const char *end = json.at + json.len, *place = skip_blank(json.at, end), *value = place;

    for (size_t i = 0; i < count; i++) {
        const char *part = find_part(value, end, &steps[i], &value);
        if (part == NULL) {
            break;
        }
        place = part;
    }
    unsigned line = 1, column = 1;
    for (const char *at = json.at; at < place; at++) {
        bool is_inside = ((unsigned char)*at & 0xc0) == 0x80; /* of a character: not one more */
        column = *at == '\n' ? 1 : column + !is_inside;
        line += *at == '\n';
    }
    *ret_line = line;
    *ret_column = column;
}
