/* SPDX-License-Identifier: MIT
 *
 * route_like -- see route_like.h.
 */
#include "task/route_like.h"
#include "task/fields.h"

#define FORMAT_BYTES_MAX 8 /* .json, .geojson */

/* Where an upstream may stop reading: a semicolon, or an escape of what ends a path. */
static struct span until_end(struct span segment)
{
    static const char *const ends[] = {"%3b", "%3f", "%23"};

    for (size_t i = 0; i < segment.len; i++) {
        struct span escape = span_until(span_from(segment, i), 3);
        bool is_end = segment.at[i] == ';';
        for (size_t end = 0; end < sizeof ends / sizeof *ends; end++) {
            is_end = is_end || span_is_nocase(escape, ends[end]);
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

static struct span without_format(struct span segment)
{
    size_t at = segment.len;

    while (at > 0 && segment.at[at - 1] != '.') {
        at--;
    }
    return at > 1 && segment.len - at <= FORMAT_BYTES_MAX ? span_until(segment, at - 1) : segment;
}

static bool is_like(struct span wanted, struct span segment, bool is_last)
{
    struct span bare = without_blanks(until_end(segment));

    return span_is(wanted, "*") || wanted.at[0] == '{' || span_equal_nocase(wanted, bare) ||
           (is_last && span_equal_nocase(wanted, without_format(bare)));
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

bool route_renames_method(struct span headers)
{
    static const char *const names[] = {"X-HTTP-Method-Override", "X-HTTP-Method",
                                        "X-Method-Override"};
    struct span value;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (fields_find(headers, names[i], &value)) {
            return true;
        }
    }
    return false;
}
