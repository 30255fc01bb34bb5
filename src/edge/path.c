/* SPDX-License-Identifier: MIT
 *
 * path -- see path.h.
 */
#include "edge/path.h"

static int digit_of(char byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    char letter = (char)(byte | 0x20);
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* Decodes `text`, which is inside a string of ours, where it stands. False: a bad escape, or a
 * control character in whatever form. */
static bool decode(struct span *text, char plus)
{
    char *to = (char *)(uintptr_t)text->at; /* our own copy of the target: see path_parse */
    size_t len = 0;

    for (size_t i = 0; i < text->len; i++) {
        unsigned char byte = (unsigned char)text->at[i];
        if (byte == '%') {
            int high = i + 2 < text->len ? digit_of(text->at[i + 1]) : -1;
            int low = high >= 0 ? digit_of(text->at[i + 2]) : -1;
            if (low < 0) {
                return false;
            }
            byte = (unsigned char)(high << 4 | low);
            i += 2;
        } else if (byte == '+') {
            byte = (unsigned char)plus;
        }
        if (byte < 0x20 || byte == 0x7f) {
            return false;
        }
        to[len++] = (char)byte;
    }
    text->len = len;
    return span_is_utf8(*text);
}

/* http://host/path, as a proxy is asked: the path counts. */
static struct span without_authority(struct span target)
{
    size_t scheme = span_is_nocase(span_until(target, 7), "http://")    ? 7
                    : span_is_nocase(span_until(target, 8), "https://") ? 8
                                                                        : 0;
    struct span rest = span_from(target, scheme);

    if (scheme == 0) {
        return target;
    }
    while (rest.len > 0 && rest.at[0] != '/') {
        rest = span_from(rest, 1);
    }
    return rest;
}

static enum path_result add_segment(struct path *path, struct span segment)
{
    if (!decode(&segment, '+') || span_is(segment, ".") || span_is(segment, "..")) {
        return PATH_BAD;
    }
    if (segment.len == 0 || path->segment_count == PATH_SEGMENTS_MAX) {
        return PATH_NOWHERE;
    }
    path->segments[path->segment_count++] = segment;
    return PATH_OK;
}

static enum path_result parse_path(struct path *path, struct span text)
{
    struct span segment;
    bool has_more = true;
    enum path_result worst = PATH_OK;

    if (!span_starts(text, "/")) {
        return PATH_BAD;
    }
    text = span_from(text, 1);
    while (has_more) {
        has_more = span_cut(&text, '/', &segment);
        enum path_result result = add_segment(path, segment);
        if (result == PATH_BAD) {
            return PATH_BAD;
        }
        worst = result != PATH_OK ? result : worst;
    }
    return worst;
}

/* Takes the verb off the last segment. */
static void split_verb(struct path *path)
{
    struct span *last = &path->segments[path->segment_count - 1];

    for (size_t i = last->len; i > 0; i--) {
        if (last->at[i - 1] == ':') {
            path->verb = span_from(*last, i);
            last->len = i - 1;
            return;
        }
    }
}

static bool parse_query(struct path *path, struct span query)
{
    struct parameter parameter;
    bool has_more = query.len > 0;

    while (has_more) {
        has_more = span_cut(&query, '&', &parameter.value);
        if (parameter.value.len == 0) {
            continue;
        }
        if (path->parameter_count == PATH_PARAMETERS_MAX) {
            return false;
        }
        (void)span_cut(&parameter.value, '=', &parameter.name); /* no "=": an empty value */
        if (!decode(&parameter.name, ' ') || !decode(&parameter.value, ' ')) {
            return false;
        }
        path->parameters[path->parameter_count++] = parameter;
    }
    return true;
}

enum path_result path_parse(char *raw, struct path *ret_path)
{
    struct span rest = without_authority(span_of(raw)), text;

    *ret_path = (struct path){0};
    (void)span_cut(&rest, '?', &text); /* no "?": no query */
    enum path_result result = parse_path(ret_path, text);
    if (result == PATH_BAD || !parse_query(ret_path, rest)) {
        return PATH_BAD;
    }
    if (result == PATH_OK) {
        split_verb(ret_path);
    }
    return result;
}

bool path_find(const struct path *path, const char *name, struct span *ret_value)
{
    for (size_t i = 0; i < path->parameter_count; i++) {
        if (span_is(path->parameters[i].name, name)) {
            *ret_value = path->parameters[i].value;
            return true;
        }
    }
    return false;
}
