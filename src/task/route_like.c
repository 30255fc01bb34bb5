/* SPDX-License-Identifier: MIT
 *
 * route_like -- see route_like.h.
 */
#include "task/route_like.h"
#include "task/fields.h"

#define FORMAT_BYTES_MAX 8  /* .json, .geojson */
#define NAME_BYTES_MAX   64 /* of a header, as far as it is looked at */

static bool has_escape(struct span text, const char *escape)
{
    return span_is_nocase(span_until(text, strlen(escape)), escape);
}

static bool is_colon(struct span text)
{
    return span_starts(text, ":") || has_escape(text, "%3a");
}

/* A stream of a file: "::$DATA", ":name:$TYPE". A colon alone is a word of many an API, as in ":batch". */
static bool begins_stream(struct span text)
{
    if (!is_colon(text)) {
        return false;
    }
    struct span rest = span_from(text, text.at[0] == ':' ? 1 : 3);
    if (is_colon(rest)) {
        return true;
    }
    for (; rest.len > 0; rest = span_from(rest, 1)) {
        if (rest.at[0] == '$' || has_escape(rest, "%24")) {
            return true;
        }
    }
    return false;
}

/* Where an upstream may stop reading: a semicolon, an escape of what ends a path, a stream's name. */
static struct span until_end(struct span segment)
{
    static const char *const ends[] = {";", "%3b", "%3f", "%23"};

    for (size_t i = 0; i < segment.len; i++) {
        struct span rest = span_from(segment, i);
        bool is_end = begins_stream(rest);
        for (size_t end = 0; end < sizeof ends / sizeof *ends; end++) {
            is_end = is_end || has_escape(rest, ends[end]);
        }
        if (is_end) {
            return span_until(segment, i);
        }
    }
    return segment;
}

static struct span without_blanks(struct span segment)
{
    while (segment.len > 0) {
        bool is_dot = segment.at[segment.len - 1] == '.';
        bool is_blank = segment.len >= 3 && span_is(span_from(segment, segment.len - 3), "%20");
        if (!is_dot && !is_blank) {
            break;
        }
        segment.len -= is_dot ? 1 : 3;
    }
    return segment;
}

static char in_lower_case(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

/* Takes the first letter off, in lower case. Two letters outside of ASCII have one of ASCII as their other
 * case: the long s and the Kelvin sign. */
static char take_letter(struct span *text)
{
    static const struct {
        const char *escaped;
        char letter;
    } folded[] = {{"%c5%bf", 's'}, {"%e2%84%aa", 'k'}};

    for (size_t i = 0; i < sizeof folded / sizeof *folded; i++) {
        if (has_escape(*text, folded[i].escaped)) {
            *text = span_from(*text, strlen(folded[i].escaped));
            return folded[i].letter;
        }
    }
    char letter = in_lower_case(text->at[0]);
    *text = span_from(*text, 1);
    return letter;
}

static bool is_same(struct span wanted, struct span segment)
{
    while (wanted.len > 0 && segment.len > 0) {
        if (take_letter(&wanted) != take_letter(&segment)) {
            return false;
        }
    }
    return wanted.len == 0 && segment.len == 0;
}

/* Without the last one; the same if there is none. In the middle of a path .1 is a version. */
static struct span without_format(struct span segment, bool is_last)
{
    size_t at = segment.len;

    while (at > 0 && segment.at[at - 1] != '.') {
        at--;
    }
    size_t len = segment.len - at;
    bool is_word =
        len > 0 && in_lower_case(segment.at[at]) >= 'a' && in_lower_case(segment.at[at]) <= 'z';
    return at > 1 && len <= FORMAT_BYTES_MAX && (is_last || is_word) ? span_until(segment, at - 1)
                                                                     : segment;
}

static bool is_like(struct span wanted, struct span segment, bool is_last)
{
    struct span bare = without_blanks(until_end(segment));

    if (span_is(wanted, "*") || wanted.at[0] == '{') {
        return true;
    }
    while (!is_same(wanted, bare)) {
        struct span shorter = without_blanks(without_format(bare, is_last));
        if (shorter.len == bare.len) {
            return false;
        }
        bare = shorter;
    }
    return true;
}

static bool path_is_like(const struct route_pattern *pattern, const struct route_target *target)
{
    bool fits = pattern->is_open ? target->segment_count >= pattern->segment_count
                                 : target->segment_count == pattern->segment_count;

    for (size_t i = 0; fits && i < pattern->segment_count; i++) {
        fits = is_like(pattern->segments[i], target->segments[i], i + 1 == target->segment_count);
    }
    return fits;
}

bool route_is_like(const struct route_settings *routes, size_t count, struct span method,
                   const struct route_target *target)
{
    for (size_t i = 0; i < count; i++) {
        const struct route_pattern *pattern = &routes[i].pattern;
        bool is_asked = method.len == 0 || route_has_method(pattern, method);
        if (is_asked && path_is_like(pattern, target)) {
            return true;
        }
    }
    return false;
}

/* Letters in lower case, and nothing else: X_HTTP_Method and x-http-method are one. */
static struct span letters_of(struct span name, char ret_letters[NAME_BYTES_MAX])
{
    size_t len = 0;

    for (size_t i = 0; i < name.len && len < NAME_BYTES_MAX; i++) {
        char byte = in_lower_case(name.at[i]);
        if (byte >= 'a' && byte <= 'z') {
            ret_letters[len++] = byte;
        }
    }
    return (struct span){.at = ret_letters, .len = len};
}

static bool is_rename(struct span name)
{
    static const char *const parts[] = {"methodoverride", "overridemethod", "httpmethod"};
    char room[NAME_BYTES_MAX];
    struct span letters = letters_of(name, room);

    for (struct span rest = letters; rest.len > 0; rest = span_from(rest, 1)) {
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            if (span_starts(rest, parts[i])) {
                return true;
            }
        }
    }
    return span_is(letters, "method") || span_is(letters, "xmethod");
}

/* The parameter that frameworks put a form's method into. */
static bool is_rename_parameter(struct span name)
{
    struct span rest = span_starts(name, "_")    ? span_from(name, 1)
                       : has_escape(name, "%5f") ? span_from(name, 3)
                                                 : SPAN("");

    return span_is_nocase(rest, "method");
}

bool route_renames_method(struct span headers, const struct route_target *target)
{
    struct span name, value, query = span_from(target->whole, target->path.len);
    bool has_more = query.len > 0;

    while (fields_next(&headers, &name, &value)) {
        if (is_rename(name)) {
            return true;
        }
    }
    for (query = span_from(query, has_more ? 1 : 0); has_more;) {
        has_more = span_cut(&query, '&', &value);
        (void)span_cut(&value, '=', &name); /* without one it is all name */
        if (is_rename_parameter(name)) {
            return true;
        }
    }
    return false;
}
