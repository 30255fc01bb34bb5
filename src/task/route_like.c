/* SPDX-License-Identifier: MIT
 *
 * route_like -- see route_like.h.
 *
 *   path --> fold_text: escapes off, small letters --> split_text --> mark_ends --> loosen each
 *                 ^                                        |
 *                 '------- escapes are left in it ---------'--> path_is_like, for each route
 */
#include "task/route_like.h"

#define PATH_ROOM        16384 /* the edge takes no longer path */
#define READINGS_MAX     3     /* so often are escapes taken off */
#define FORMAT_BYTES_MAX 8     /* within a path: .json, .geojson; at its end there is no limit */

/* --- letters ----------------------------------------------------------------------------------------- */

/* Characters outside of ASCII that are letters of ASCII in another case, and blanks; none gets longer. */
static const struct {
    const char *bytes, *letters;
} folded[] = {
    {"\xc5\xbf", "s"},       {"\xe2\x84\xaa", "k"},   {"\xc4\xb1", "i"},
    {"\xc4\xb0", "i"},       {"\xc3\x9f", "ss"},      {"\xe1\xba\x9e", "ss"},
    {"\xef\xac\x80", "ff"},  {"\xef\xac\x81", "fi"},  {"\xef\xac\x82", "fl"},
    {"\xef\xac\x83", "ffi"}, {"\xef\xac\x84", "ffl"}, {"\xef\xac\x85", "st"},
    {"\xef\xac\x86", "st"},  {"\xc2\xa0", " "},       {"\xc2\x85", " "},
    {"\xe1\x9a\x80", " "},   {"\xe2\x80\x80", " "},   {"\xe2\x80\x81", " "},
    {"\xe2\x80\x82", " "},   {"\xe2\x80\x83", " "},   {"\xe2\x80\x84", " "},
    {"\xe2\x80\x85", " "},   {"\xe2\x80\x86", " "},   {"\xe2\x80\x87", " "},
    {"\xe2\x80\x88", " "},   {"\xe2\x80\x89", " "},   {"\xe2\x80\x8a", " "},
    {"\xe2\x80\xa8", " "},   {"\xe2\x80\xa9", " "},   {"\xe2\x80\xaf", " "},
    {"\xe2\x81\x9f", " "},   {"\xe3\x80\x80", " "},   {"\xef\xbb\xbf", " "},
};

/* A text, as it is read letter by letter. */
struct letters {
    struct span rest;
    const char *more; /* what is left of a character that stands for several */
};

static int digit_of(char byte)
{
    return byte >= '0' && byte <= '9'   ? byte - '0'
           : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
           : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                        : -1;
}

static bool begins_with_escape(struct span text)
{
    return text.len >= 3 && text.at[0] == '%' && digit_of(text.at[1]) >= 0 &&
           digit_of(text.at[2]) >= 0;
}

/* The next byte without its escape, -1 at the end. */
static int take_byte(struct span *rest)
{
    if (rest->len == 0) {
        return -1;
    }
    bool is_escape = begins_with_escape(*rest);
    int byte =
        is_escape ? digit_of(rest->at[1]) * 16 + digit_of(rest->at[2]) : (unsigned char)rest->at[0];
    *rest = span_from(*rest, is_escape ? 3 : 1);
    return byte;
}

static bool take_rest(struct span *rest, const char *bytes)
{
    struct span after = *rest;

    for (; *bytes != '\0'; bytes++) {
        if (take_byte(&after) != (unsigned char)*bytes) {
            return false;
        }
    }
    *rest = after;
    return true;
}

static int fold_ascii(int byte)
{
    if (byte >= 'A' && byte <= 'Z') {
        return byte - 'A' + 'a';
    }
    if (byte == '\0') {
        return '?'; /* both may end a path */
    }
    return byte == '\\' ? '/' : byte == '+' || (byte > 0 && byte < ' ') ? ' ' : byte;
}

/* The next letter in lower case, a blank for all that is one; -1 at the end. */
static int take_letter(struct letters *letters)
{
    if (letters->more != NULL && *letters->more != '\0') {
        return *letters->more++;
    }
    int byte = take_byte(&letters->rest);
    for (size_t i = 0; byte >= 0x80 && i < sizeof folded / sizeof *folded; i++) {
        if ((unsigned char)folded[i].bytes[0] == byte &&
            take_rest(&letters->rest, folded[i].bytes + 1)) {
            letters->more = folded[i].letters + 1;
            return folded[i].letters[0];
        }
    }
    return fold_ascii(byte);
}

/* The text may be in the room already: what is written is never ahead of what is read. */
static struct span fold_text(struct span text, char room[PATH_ROOM])
{
    struct letters letters = {.rest = text};
    size_t len = 0;

    for (int letter = take_letter(&letters); letter >= 0; letter = take_letter(&letters)) {
        room[len++] = (char)letter;
    }
    return (struct span){.at = room, .len = len};
}

static bool holds_escape(struct span text)
{
    for (; text.len > 0; text = span_from(text, 1)) {
        if (begins_with_escape(text)) {
            return true;
        }
    }
    return false;
}

/* --- segments, folded -------------------------------------------------------------------------------- */

static bool ends_path(char byte)
{
    return byte == '?' || byte == '#';
}

/* Where the last one is; 0 when there is none that could be behind a colon. */
static size_t find_last_dollar(struct span segment)
{
    for (size_t at = segment.len; at > 1; at--) {
        if (segment.at[at - 1] == '$') {
            return at - 1;
        }
    }
    return 0;
}

/* Where an upstream may stop reading: a semicolon, what ends a path, a stream of a file
 * ("::$DATA", ":name:$TYPE"; a colon alone is a word of many an API, as in ":batch"). */
static struct span until_end(struct span segment)
{
    size_t dollar = find_last_dollar(segment);

    for (size_t i = 0; i < segment.len; i++) {
        char byte = segment.at[i];
        bool is_stream = byte == ':' && (dollar > i || span_starts(span_from(segment, i + 1), ":"));
        if (is_stream || byte == ';' || ends_path(byte)) {
            return span_until(segment, i);
        }
    }
    return segment;
}

static struct span without_blanks_before(struct span text)
{
    while (span_starts(text, " ")) {
        text = span_from(text, 1);
    }
    return text;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '.';
}

static struct span without_blanks(struct span segment)
{
    while (segment.len > 0 && is_blank(segment.at[segment.len - 1])) {
        segment.len--;
    }
    return segment;
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
        len > 0 && len <= FORMAT_BYTES_MAX && segment.at[at] >= 'a' && segment.at[at] <= 'z';
    return at > 1 && (is_last || is_word) ? span_until(segment, at - 1) : segment;
}

/* A segment of a path, prepared once for all routes: each takes no longer than its own text is. */
struct loose_segment {
    struct span whole;
    struct span bare;    /* up to where an upstream may stop reading, without blanks around it */
    size_t shortest_len; /* of it without all the formats behind it, which may go one by one */
};

static void loosen(struct loose_segment *segment, bool is_last)
{
    struct span longer, rest = segment->bare;

    do {
        longer = rest;
        rest = without_blanks(without_format(longer, is_last));
    } while (rest.len < longer.len);
    segment->shortest_len = rest.len;
}

/* Is this what is left of it without some of its formats? Then a format comes next, behind blanks at most. */
static bool can_end_at(const struct loose_segment *segment, size_t len)
{
    struct span rest = span_from(segment->bare, len);

    return rest.len == 0 ||
           (len >= segment->shortest_len && span_starts(without_blanks_before(rest), "."));
}

/* How much of the segment's front is what a route has there; 0: it begins otherwise. */
static size_t front_len(struct span wanted, struct span segment)
{
    struct letters letters = {.rest = wanted};
    size_t len = 0;

    for (int letter = take_letter(&letters); letter >= 0; letter = take_letter(&letters)) {
        if (len == segment.len || (unsigned char)segment.at[len] != letter) {
            return 0;
        }
        len++;
    }
    return len;
}

static bool is_like(struct span wanted, const struct loose_segment *segment)
{
    if (span_is(wanted, "*") || wanted.at[0] == '{') {
        return true;
    }
    size_t whole_len = front_len(wanted, segment->whole);
    size_t len = front_len(wanted, segment->bare);
    return (whole_len > 0 && whole_len == segment->whole.len) ||
           (len > 0 && can_end_at(segment, len));
}

/* --- paths ------------------------------------------------------------------------------------------- */

struct loose_path {
    struct loose_segment segments[ROUTE_TARGET_SEGMENTS_MAX];
    size_t count;
    bool may_end[ROUTE_TARGET_SEGMENTS_MAX + 1]; /* behind so many segments */
    bool may_be_any; /* a dot segment is hidden in it, or too many segments are */
};

static void add_segment(struct loose_path *path, struct span whole)
{
    struct span open = without_blanks_before(until_end(whole)), dots = open;

    while (dots.len > 0 && dots.at[dots.len - 1] == ' ') {
        dots.len--;
    }
    if (span_is(dots, ".") || span_is(dots, "..") || path->count == ROUTE_TARGET_SEGMENTS_MAX) {
        path->may_be_any = true;
        return;
    }
    path->segments[path->count++] =
        (struct loose_segment){.whole = whole, .bare = without_blanks(open)};
}

static void split_text(struct span text, struct loose_path *path)
{
    struct span segment;
    bool has_more = true;

    path->count = 0;
    path->may_be_any = false;
    while (has_more && !path->may_be_any) {
        has_more = span_cut(&text, '/', &segment);
        if (segment.len > 0) {
            add_segment(path, segment);
        }
    }
}

/* Whether what is decoded before it is taken apart ends here. */
static bool has_path_end(struct span segment)
{
    return span_find(segment, '?') != NULL || span_find(segment, '#') != NULL;
}

/* From the back: a path may end at its end, where something in a segment ends it, and before what is nothing
 * to an upstream. Then it is known which segments may be the last. */
static void mark_ends(struct loose_path *path)
{
    path->may_end[path->count] = true;
    for (size_t i = path->count; i > 0; i--) {
        struct loose_segment *segment = &path->segments[i - 1];
        path->may_end[i] = path->may_end[i] || has_path_end(segment->whole);
        path->may_end[i - 1] = path->may_end[i] && segment->bare.len == 0;
        loosen(segment, path->may_end[i]);
    }
}

/* Takes out the segments that are nothing to some upstreams; false: there is none. */
static bool close_gaps(struct loose_path *path)
{
    size_t count = 0;

    for (size_t i = 0; i < path->count; i++) {
        if (path->segments[i].bare.len > 0) {
            path->segments[count++] = path->segments[i];
        }
    }
    bool has_gaps = count < path->count;
    path->count = count;
    return has_gaps;
}

static bool path_is_like(const struct route_pattern *pattern, const struct loose_path *path)
{
    bool fits = path->count >= pattern->segment_count &&
                (pattern->is_open || path->may_end[pattern->segment_count]);

    for (size_t i = 0; fits && i < pattern->segment_count; i++) {
        fits = is_like(pattern->segments[i], &path->segments[i]);
    }
    return fits || path->may_be_any;
}

struct search {
    const struct route_settings *routes;
    size_t count;
    struct span method;
};

static enum route_like find_path(const struct search *search, const struct loose_path *path)
{
    enum route_like found = ROUTE_LIKE_NONE;

    for (size_t i = 0; i < search->count && found != ROUTE_LIKE_METHOD; i++) {
        const struct route_pattern *pattern = &search->routes[i].pattern;
        bool is_method = route_has_method(pattern, search->method);
        if ((is_method || found == ROUTE_LIKE_NONE) && path_is_like(pattern, path)) {
            found = is_method ? ROUTE_LIKE_METHOD : ROUTE_LIKE_PATH;
        }
    }
    return found;
}

static enum route_like find_text(const struct search *search, struct span text)
{
    struct loose_path path;

    split_text(text, &path);
    mark_ends(&path);
    enum route_like found = find_path(search, &path);
    if (found != ROUTE_LIKE_METHOD && close_gaps(&path)) {
        mark_ends(&path);
        enum route_like closed = find_path(search, &path);
        found = closed > found ? closed : found;
    }
    return found;
}

enum route_like route_like_find(const struct route_settings *routes, size_t count,
                                struct span method, const struct route_target *target)
{
    const struct search search = {.routes = routes, .count = count, .method = method};
    char room[PATH_ROOM];
    struct span text = target->path;
    enum route_like found = ROUTE_LIKE_NONE;
    bool has_more = true;

    if (text.len > sizeof room) {
        return ROUTE_LIKE_METHOD;
    }
    for (int i = 0; has_more && i < READINGS_MAX && found != ROUTE_LIKE_METHOD; i++) {
        text = fold_text(text, room);
        enum route_like read = find_text(&search, text);
        found = read > found ? read : found;
        has_more = holds_escape(text);
    }
    return found;
}
