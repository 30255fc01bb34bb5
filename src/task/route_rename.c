/* SPDX-License-Identifier: MIT
 *
 * route_rename -- see route_rename.h.
 */
#include "task/route_rename.h"
#include "task/fields.h"

#define NAME_BYTES_MAX 64 /* of a header, as far as it is looked at */

static char in_lower_case(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
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

static int digit_of(int byte)
{
    return byte >= '0' && byte <= '9'   ? byte - '0'
           : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
           : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                        : -1;
}

/* A name, as it is read byte by byte. */
struct name {
    struct span rest;
    bool is_quoted; /* backslashes and ends of lines in it are left out */
};

/* The next byte as it stands, -1 at the end. */
static int take_raw(struct name *name)
{
    struct span *rest = &name->rest;

    while (name->is_quoted && rest->len > 0 &&
           (rest->at[0] == '\\' || rest->at[0] == '\r' || rest->at[0] == '\n')) {
        *rest = span_from(*rest, 1);
    }
    if (rest->len == 0) {
        return -1;
    }
    int byte = (unsigned char)rest->at[0];
    *rest = span_from(*rest, 1);
    return byte;
}

/* Of what is behind a percent sign: 5F, and u005F as some have it. -1 when it is none, then it stays. */
static int take_escape(struct name *name)
{
    struct name after = *name;
    int first = take_raw(&after);

    if (first == 'u' || first == 'U') {
        bool is_byte = take_raw(&after) == '0' && take_raw(&after) == '0';
        first = is_byte ? take_raw(&after) : -1;
    }
    int high = digit_of(first), low = digit_of(take_raw(&after));
    if (high < 0 || low < 0) {
        return -1;
    }
    *name = after;
    return high * 16 + low;
}

/* The next byte as an upstream reads it: escapes decoded, + a blank. -1 at the end. */
static int take_byte(struct name *name)
{
    int byte = take_raw(name);
    int escaped = byte == '%' ? take_escape(name) : -1;

    return escaped >= 0 ? escaped : byte == '+' ? ' ' : byte;
}

static bool is_blank(int byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Left out in front of a name by some. */
static bool is_padding(int byte)
{
    return is_blank(byte) || byte == '[' || byte == ']';
}

/* Most names are told by their first byte. */
static bool may_be_rename(struct span text)
{
    switch (text.len > 0 ? text.at[0] : '\0') {
    case '_':
    case '.':
    case '%':
    case '+':
    case '\\':
        return true;
    default:
        return text.len > 0 && is_padding(text.at[0]);
    }
}

/* Takes "_method" off, the parameter that frameworks put a form's method into, whatever stands for its
 * letters; false: it is another name. Some leave out blanks in front, some brackets around it, and some read
 * . and [ as _. */
static bool take_rename(struct name *name)
{
    struct name letters = *name;
    int before = ' ', first = ' ';

    while (is_padding(first)) {
        letters = *name;
        before = first;
        first = take_byte(name);
    }
    if (first != '_' && first != '.') {
        *name = letters;
    }
    if (first != '_' && first != '.' && before != '[') {
        return false;
    }
    for (const char *wanted = "method"; *wanted != '\0'; wanted++) {
        int byte = take_byte(name);
        if (byte < 0 || in_lower_case((char)byte) != *wanted) {
            return false;
        }
    }
    return true;
}

/* What is behind a name, and the brackets behind it. */
static int take_end(struct name *name)
{
    int byte = ']';

    while (byte == ']') {
        byte = take_byte(name);
    }
    return byte;
}

/* Some read up to a NUL, some take the first element of an array, some leave out blanks. */
static bool ends_name(int byte)
{
    return byte <= '\0' || byte == '[' || is_blank(byte);
}

/* --- headers' names, elsewhere ----------------------------------------------------------------------- */

#define OVERRIDE_BYTES_MAX 24 /* letters of such a name, and more */

static struct span without_start(struct span text, const char *start)
{
    return span_starts(text, start) ? span_from(text, strlen(start)) : text;
}

/* The letters of a name up to where one ends, whatever its reader; empty: more than are looked at. */
static struct span take_letters(struct name name, char ret_letters[OVERRIDE_BYTES_MAX])
{
    size_t len = 0;

    for (int byte = take_byte(&name); byte > 0 && strchr("=&;:?\"'[#", byte) == NULL;
         byte = take_byte(&name)) {
        char letter = in_lower_case((char)byte);
        if (letter >= 'a' && letter <= 'z') {
            if (len == OVERRIDE_BYTES_MAX) {
                return (struct span){.at = ret_letters, .len = 0};
            }
            ret_letters[len++] = letter;
        }
    }
    return (struct span){.at = ret_letters, .len = len};
}

/* Such a header as a parameter: some upstreams read headers, query and form by one name. Only whole names:
 * http_method and shipping_method_override are names of many a form. */
static bool is_override(struct name name)
{
    char room[OVERRIDE_BYTES_MAX];

    if (name.rest.len < sizeof "x-http-method" - 2 - 1) {
        return false; /* as most are; 2: the dashes */
    }
    bool is_underscored = name.rest.at[0] == '_';
    struct span letters = take_letters(name, room);
    struct span bare = without_start(without_start(letters, "x"), "http");
    return span_is(bare, "methodoverride") || span_is(bare, "overridemethod") ||
           span_is(letters, "xhttpmethod") || (is_underscored && span_is(letters, "httpmethod"));
}

/* --- queries ----------------------------------------------------------------------------------------- */

static bool is_rename_parameter(struct span text)
{
    struct name name = {.rest = text};

    return is_override(name) ||
           (may_be_rename(text) && take_rename(&name) && ends_name(take_end(&name)));
}

/* Takes the first parameter off. Some upstreams have them apart by ; as well. */
static struct span take_parameter(struct span *query)
{
    size_t len = 0;

    while (len < query->len && query->at[len] != '&' && query->at[len] != ';') {
        len++;
    }
    struct span parameter = span_until(*query, len);
    *query = span_from(*query, len < query->len ? len + 1 : len);
    return parameter;
}

static bool has_rename_parameter(struct span query)
{
    struct span name, parameter;

    while (query.len > 0) {
        parameter = take_parameter(&query);
        (void)span_cut(&parameter, '=', &name); /* without one it is all name */
        if (is_rename_parameter(name)) {
            return true;
        }
    }
    return false;
}

/* In a query that only an upstream sees that decodes a path before it takes it apart. */
static bool path_renames_method(struct span path)
{
    struct name name = {.rest = path};
    bool is_query = false;

    for (int byte = take_byte(&name); byte >= 0; byte = take_byte(&name)) {
        struct name parameter = name;
        is_query = is_query || byte == '?';
        if (!is_query || (byte != '?' && byte != '&' && byte != ';')) {
            continue;
        }
        if (is_override(name)) {
            return true;
        }
        int end = take_rename(&parameter) ? take_end(&parameter) : 'a';
        if (ends_name(end) || strchr("=&;#", end) != NULL) {
            return true;
        }
    }
    return false;
}

bool route_renames_method(struct span headers, const struct route_target *target)
{
    struct span name, value, query = span_from(target->whole, target->path.len);

    while (fields_next(&headers, &name, &value)) {
        if (is_rename(name)) {
            return true;
        }
    }
    query = span_from(query, query.len > 0 ? 1 : 0); /* the question mark */
    return has_rename_parameter(query) || path_renames_method(target->path);
}

/* --- forms ------------------------------------------------------------------------------------------- */

#define FORM_FIELDS 1u
#define FORM_PARTS  2u

static bool starts_nocase(struct span text, const char *start)
{
    size_t len = strlen(start);

    return text.len >= len && span_is_nocase(span_until(text, len), start);
}

static bool holds_nocase(struct span text, const char *part)
{
    for (; text.len > 0; text = span_from(text, 1)) {
        if (starts_nocase(text, part)) {
            return true;
        }
    }
    return false;
}

/* Of several types an upstream may go by any; without one some take a body for fields. */
static unsigned forms_of(struct span headers)
{
    struct span name, value;
    bool is_typed = false;
    unsigned forms = 0;

    while (fields_next(&headers, &name, &value)) {
        if (span_is_nocase(name, "Content-Type") && span_trim(value).len > 0) {
            is_typed = true;
            forms |= holds_nocase(value, "x-www-form-urlencoded") ? FORM_FIELDS : 0;
            forms |= holds_nocase(value, "multipart/") ? FORM_PARTS : 0;
        }
    }
    return is_typed ? forms : FORM_FIELDS;
}

static bool is_line_end(int byte)
{
    return byte == '\r' || byte == '\n';
}

static bool ends_line(struct span text)
{
    while (span_starts(text, "\\")) {
        text = span_from(text, 1);
    }
    return text.len == 0 || is_line_end(text.at[0]);
}

/* A value that begins here, up to a quote, blank, semicolon or the end of its line. */
static bool is_rename_word(struct span text)
{
    struct name name = {.rest = text, .is_quoted = true};

    if (is_override(name)) {
        return true;
    }
    if (!may_be_rename(text) || !take_rename(&name)) {
        return false;
    }
    if (ends_line(name.rest)) {
        return true;
    }
    int end = take_end(&name);
    return ends_name(end) || end == '"' || end == '\'' || end == ';';
}

static struct span without_blanks_behind(struct span text)
{
    while (text.len > 0 && is_blank(text.at[text.len - 1])) {
        text.len--;
    }
    return text;
}

static bool take_star_behind(struct span *text)
{
    struct span bare = without_blanks_behind(*text);
    bool is_there = bare.len > 0 && bare.at[bare.len - 1] == '*';

    *text = without_blanks_behind(span_until(bare, bare.len - (is_there ? 1 : 0)));
    return is_there;
}

static bool ends_with_name(struct span text)
{
    static const char name[] = "name";
    size_t len = sizeof name - 1;

    if (text.len <= len || !span_is_nocase(span_from(text, text.len - len), name)) {
        return false;
    }
    char before = text.at[text.len - len - 1]; /* as in filename */
    return before == ';' || before == ':' || is_blank(before);
}

enum naming {
    NAMING_OTHER = 0, /* some other parameter */
    NAMING_WHOLE,     /* name=, name*= */
    NAMING_PIECE,     /* name*0=, name*1*=: of RFC 2231, which only all of them together tell */
};

static bool may_end_naming(char byte)
{
    return byte == 'e' || byte == 'E' || byte == '*' || (byte >= '0' && byte <= '9') ||
           is_blank(byte);
}

/* Which parameter an equals sign belongs to, by what is before it. */
static enum naming naming_of(struct span before)
{
    if (before.len == 0 || !may_end_naming(before.at[before.len - 1])) {
        return NAMING_OTHER; /* most are */
    }
    (void)take_star_behind(&before); /* its value is escaped */
    size_t len = before.len;
    while (len > 0 && before.at[len - 1] >= '0' && before.at[len - 1] <= '9') {
        len--;
    }
    bool is_piece = len < before.len;
    before.len = len;
    if (is_piece && !take_star_behind(&before)) {
        return NAMING_OTHER;
    }
    return !ends_with_name(before) ? NAMING_OTHER : is_piece ? NAMING_PIECE : NAMING_WHOLE;
}

/* The equals sign of "=?utf-8?Q?=5Fmethod?=" (RFC 2047), which is behind it. */
static bool begins_encoded_word(struct span behind)
{
    struct name name = {.rest = behind, .is_quoted = true};

    return take_raw(&name) == '?';
}

enum value { VALUE_OTHER = 0, VALUE_BEGINS, VALUE_OF_NAME };

/* Where a byte leaves us that is not the equals sign behind a name. */
static enum value value_behind(enum value value, char byte)
{
    if (byte == ';' || (byte == '"' && value == VALUE_OF_NAME)) {
        return VALUE_OTHER;
    }
    bool is_before = is_blank(byte) || byte == '\\';
    return value == VALUE_BEGINS && !is_before ? VALUE_OF_NAME : value;
}

/* A header of a part: is any of its values that name, or may its name be that one in an encoding? What is
 * read ahead at one of these bytes has no other of them in it, so no byte is read ahead twice. */
static bool header_renames(struct span header)
{
    enum value value = VALUE_OTHER;

    for (size_t i = 0; i < header.len; i++) {
        char byte = header.at[i];
        struct span behind = span_from(header, i + 1);
        bool is_before = byte == ':' || byte == '=' || byte == '"' || byte == '\'';
        if (is_before && is_rename_word(behind)) {
            return true;
        }
        if (byte != '=') {
            value = value_behind(value, byte);
            continue;
        }
        enum naming naming = naming_of(span_until(header, i));
        if (naming == NAMING_PIECE || (value != VALUE_OTHER && begins_encoded_word(behind))) {
            return true;
        }
        value = naming == NAMING_WHOLE ? VALUE_BEGINS : value_behind(value, byte);
    }
    return false;
}

static size_t line_len(struct span text)
{
    size_t len = 0;

    while (len < text.len && !is_line_end(text.at[len])) {
        len++;
    }
    return len;
}

/* Bytes of the line ends at the front, and how many lines they end. */
static size_t line_ends_len(struct span text, size_t *ret_count)
{
    size_t len = 0, count = 0;

    while (len < text.len && is_line_end(text.at[len])) {
        count += text.at[len++] == '\n' ? 1 : 0;
    }
    *ret_count = count;
    return len;
}

/* With the lines that continue it: those that begin with a blank; and, for some, those without a colon, unless
 * an empty line is before them. */
static size_t header_len(struct span text)
{
    size_t len = line_len(text), count;

    for (;;) {
        struct span behind = span_from(text, len);
        size_t ends = line_ends_len(behind, &count);
        struct span next = span_from(behind, ends);
        next = span_until(next, line_len(next));
        bool is_folded = next.len > 0 && (next.at[0] == ' ' || next.at[0] == '\t');
        bool is_bare = next.len > 0 && count < 2 && span_find(next, ':') == NULL;
        if (!is_folded && !is_bare) {
            return len;
        }
        len += ends + next.len;
    }
}

/* Is this dash that of a header which gives a part its name? Content-ID does so for some where nothing else does. */
static bool is_dash_of_header(struct span body, size_t at)
{
    static const char before[] = "content";
    size_t len = sizeof before - 1;
    struct span behind = span_from(body, at + 1);

    return at >= len && span_is_nocase(span_until(span_from(body, at - len), len), before) &&
           (starts_nocase(behind, "disposition") || starts_nocase(behind, "id:"));
}

/* Such headers are looked for in the middle of lines too, as some readers do. */
static bool has_rename_part(struct span body)
{
    size_t at = 0;

    for (;;) {
        struct span rest = span_from(body, at);
        const char *dash = span_find(rest, '-');
        if (dash == NULL) {
            return false;
        }
        at = (size_t)(dash - body.at);
        if (!is_dash_of_header(body, at)) {
            at++;
            continue;
        }
        struct span header = span_from(body, at);
        header = span_until(header, header_len(header));
        if (header_renames(header)) {
            return true;
        }
        at += header.len;
    }
}

bool route_form_renames_method(struct span headers, struct span body)
{
    unsigned forms = body.len > 0 ? forms_of(headers) : 0;

    return ((forms & FORM_FIELDS) != 0 && has_rename_parameter(body)) ||
           ((forms & FORM_PARTS) != 0 && has_rename_part(body));
}
