/* SPDX-License-Identifier: MIT
 *
 * route_match -- see route_match.h.
 */
#include "task/route_match.h"
#include "task/fields.h"

#define METHOD_BYTES_MAX 32

static int hex_of(char byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    char small = (char)(byte | 0x20);
    return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

/* RFC 3986 2.3: these mean the same with and without an escape. */
static bool is_unreserved(int byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_' || byte == '~';
}

static const char *refuse_escape(struct span rest)
{
    int high = rest.len > 2 ? hex_of(rest.at[1]) : -1;
    int low = rest.len > 2 ? hex_of(rest.at[2]) : -1;
    int byte = high * 16 + low;

    if (high < 0 || low < 0) {
        return "a percent sign without two hexadecimal digits";
    }
    if (byte == '/' || byte == '\\') {
        return "an escaped slash";
    }
    if (byte < ' ' || byte == 0x7f) {
        return "an escaped control character";
    }
    return is_unreserved(byte) ? "an escape of a character that needs none" : NULL;
}

/* What servlets make of it, and what decodes before it does as they do. */
static struct span until_semicolon(struct span segment)
{
    for (size_t i = 0; i < segment.len; i++) {
        struct span rest = span_from(segment, i);
        if (rest.at[0] == ';' || span_starts(rest, "%3B") || span_starts(rest, "%3b")) {
            return span_until(segment, i);
        }
    }
    return segment;
}

static const char *refuse_segment(struct span segment)
{
    struct span bare = until_semicolon(segment);

    if (span_is(bare, ".") || span_is(bare, "..")) {
        return "a dot segment";
    }
    if (bare.len == 0) {
        return "an empty segment";
    }
    for (size_t i = 0; i < segment.len; i++) {
        const char *why = segment.at[i] == '%' ? refuse_escape(span_from(segment, i)) : NULL;
        if (why != NULL) {
            return why;
        }
    }
    return NULL;
}

static const char *split_path(struct route_target *target)
{
    struct span rest = span_from(target->path, 1), segment;
    bool has_more = target->path.len > 1;

    while (has_more) {
        has_more = span_cut(&rest, '/', &segment);
        if (segment.len == 0 && !has_more) {
            target->ends_with_slash = true;
            return NULL;
        }
        if (segment.len == 0) {
            return "an empty segment";
        }
        const char *why = refuse_segment(segment);
        if (why != NULL) {
            return why;
        }
        if (target->segment_count == ROUTE_TARGET_SEGMENTS_MAX) {
            return "too many segments";
        }
        target->segments[target->segment_count++] = segment;
    }
    return NULL;
}

static const char *refuse_bytes(struct span whole)
{
    for (size_t i = 0; i < whole.len; i++) {
        unsigned char byte = (unsigned char)whole.at[i];
        if (byte <= ' ' || byte >= 0x7f || byte == '\\' || byte == '#') {
            return "a character that has to be escaped";
        }
    }
    return NULL;
}

/* Only a proxy gets an absolute target, but RFC 9112 3.2.2 has servers take it. */
static struct span without_authority(struct span raw)
{
    bool is_absolute = span_is_nocase(span_until(raw, 7), "http://") ||
                       span_is_nocase(span_until(raw, 8), "https://");
    size_t at = 8;

    if (!is_absolute) {
        return raw;
    }
    while (at < raw.len && raw.at[at] != '/' && raw.at[at] != '?') {
        at++;
    }
    return span_from(raw, at);
}

const char *route_target_parse(struct span raw, struct route_target *ret_target)
{
    struct route_target target = {.whole = without_authority(raw)};
    struct span rest = target.whole;

    (void)span_cut(&rest, '?', &target.path); /* no query: all of it is the path */
    if (target.path.len == 0 || target.path.at[0] != '/') {
        return "no path that begins with a slash";
    }
    const char *why = refuse_bytes(target.whole);
    why = why != NULL ? why : split_path(&target);
    if (why == NULL) {
        *ret_target = target;
    }
    return why;
}

/* --- patterns ------------------------------------------------------------------------------------ */

static bool is_name(struct span segment)
{
    if (segment.len < 3 || segment.at[0] != '{' || segment.at[segment.len - 1] != '}') {
        return false;
    }
    for (size_t i = 1; i + 1 < segment.len; i++) {
        char byte = segment.at[i];
        if (!is_unreserved(byte) || byte == '.' || byte == '~') {
            return false;
        }
    }
    return true;
}

bool route_method_is_plain(struct span method)
{
    for (size_t i = 0; i < method.len; i++) {
        if (method.at[i] >= 'a' && method.at[i] <= 'z') {
            return false;
        }
    }
    return true;
}

static bool is_method(struct span method)
{
    return route_method_is_plain(method) && method.len <= METHOD_BYTES_MAX &&
           fields_name_is_token(method) && !span_is(method, "CONNECT");
}

static const char *split_methods(struct span methods, struct route_pattern *pattern)
{
    struct span method;
    bool has_more = true;

    while (has_more) {
        has_more = span_cut(&methods, ',', &method);
        method = span_trim(method);
        if (!is_method(method)) {
            return "a method that is none";
        }
        if (pattern->method_count == ROUTE_METHODS_MAX) {
            return "too many methods";
        }
        pattern->methods[pattern->method_count++] = method;
    }
    return NULL;
}

static const char *check_segments(struct route_pattern *pattern, const struct route_target *path)
{
    for (size_t i = 0; i < path->segment_count; i++) {
        struct span segment = path->segments[i];
        bool is_wild = span_is(segment, "*") || is_name(segment);
        if (!is_wild && (span_find(segment, '*') != NULL || span_find(segment, '{') != NULL ||
                         span_find(segment, '}') != NULL)) {
            return "* or {name} that is not a whole segment";
        }
        for (size_t other = 0; other < i && is_name(segment); other++) {
            if (span_equal(segment, pattern->segments[other])) {
                return "a name twice";
            }
        }
        pattern->segments[pattern->segment_count++] = segment;
    }
    return NULL;
}

const char *route_pattern_parse(struct span text, struct route_pattern *ret_pattern)
{
    struct route_pattern pattern = {.text = text};
    struct route_target path;
    const char *slash = span_find(text, '/');

    if (slash == NULL || slash == text.at || slash[-1] != ' ') {
        return "no method, blank and path";
    }
    size_t at = (size_t)(slash - text.at);
    const char *why = split_methods(span_trim(span_until(text, at)), &pattern);
    why = why != NULL ? why : route_target_parse(span_from(text, at), &path);
    if (why != NULL) {
        return why;
    }
    if (path.path.len != path.whole.len) {
        return "a query";
    }
    if (path.segment_count > ROUTE_SEGMENTS_MAX) {
        return "too many segments";
    }
    if (path.segment_count > 0 && span_is(path.segments[0], ".daruma")) {
        return "a path below " ROUTE_OWN_PATH;
    }
    why = check_segments(&pattern, &path);
    if (why != NULL) {
        return why;
    }
    pattern.ends_with_slash = path.ends_with_slash;
    pattern.is_open = path.segment_count > 0 && !path.ends_with_slash &&
                      span_is(path.segments[path.segment_count - 1], "*");
    *ret_pattern = pattern;
    return NULL;
}

/* --- matching -------------------------------------------------------------------------------------- */

typedef bool (*same_segment_fn)(struct span wanted, struct span segment);

/* The next byte without its escape. */
static int take_byte(struct span *rest)
{
    int high = rest->len > 2 && rest->at[0] == '%' ? hex_of(rest->at[1]) : -1;
    int low = high >= 0 ? hex_of(rest->at[2]) : -1;
    int byte = low >= 0 ? high * 16 + low : (unsigned char)rest->at[0];

    *rest = span_from(*rest, low >= 0 ? 3 : 1);
    return byte;
}

static bool is_same_unescaped(struct span wanted, struct span segment)
{
    while (wanted.len > 0 && segment.len > 0) {
        if (take_byte(&wanted) != take_byte(&segment)) {
            return false;
        }
    }
    return wanted.len == 0 && segment.len == 0;
}

static bool matches_path(const struct route_pattern *pattern, const struct route_target *target,
                         same_segment_fn is_same)
{
    bool is_long_enough = pattern->is_open ? target->segment_count >= pattern->segment_count
                                           : target->segment_count == pattern->segment_count;

    for (size_t i = 0; is_long_enough && i < pattern->segment_count; i++) {
        struct span wanted = pattern->segments[i];
        if (!span_is(wanted, "*") && wanted.at[0] != '{' && !is_same(wanted, target->segments[i])) {
            return false;
        }
    }
    return is_long_enough;
}

bool route_has_method(const struct route_pattern *pattern, struct span method)
{
    for (size_t i = 0; i < pattern->method_count; i++) {
        if (span_equal(pattern->methods[i], method)) {
            return true;
        }
    }
    return false;
}

enum route_found route_find(const struct route_settings *routes, size_t count, struct span method,
                            const struct route_target *target, size_t *ret_index)
{
    enum route_found found = ROUTE_FOUND_NOWHERE;

    for (size_t i = 0; i < count; i++) {
        const struct route_pattern *pattern = &routes[i].pattern;
        bool is_method = route_has_method(pattern, method);
        bool is_slashed_alike =
            pattern->is_open || pattern->ends_with_slash == target->ends_with_slash;
        if (!matches_path(pattern, target, span_equal)) {
            continue;
        }
        if (is_method && is_slashed_alike) {
            *ret_index = i;
            return ROUTE_FOUND;
        }
        if (is_method) {
            found = ROUTE_FOUND_SLASH;
        } else if (found == ROUTE_FOUND_NOWHERE && is_slashed_alike) {
            found = ROUTE_FOUND_METHOD;
        }
    }
    return found;
}

bool route_is_behind(const struct route_settings *routes, size_t index, struct span method,
                     const struct route_target *target)
{
    for (size_t i = 0; i < index; i++) {
        const struct route_pattern *pattern = &routes[i].pattern;
        bool is_other_slash =
            !pattern->is_open && pattern->ends_with_slash != target->ends_with_slash;
        if (is_other_slash && !routes[index].pattern.is_open) {
            continue; /* both were written: `/orders` is one, `/orders/` is another */
        }
        if (route_has_method(pattern, method) && matches_path(pattern, target, is_same_unescaped)) {
            return true;
        }
    }
    return false;
}

bool route_parameter(const struct route_pattern *pattern, const struct route_target *target,
                     struct span name, struct span *ret_value)
{
    for (size_t i = 0; i < pattern->segment_count && i < target->segment_count; i++) {
        struct span segment = pattern->segments[i];
        if (is_name(segment) &&
            span_equal(span_until(span_from(segment, 1), segment.len - 2), name)) {
            *ret_value = target->segments[i];
            return true;
        }
    }
    return false;
}
