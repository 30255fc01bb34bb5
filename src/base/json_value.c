/* SPDX-License-Identifier: MIT
 *
 * json_value -- see json_value.h. No recursion: what is open is a stack of bits, an object 1 and an
 * array 0, so that the depth is bounded by the word.
 */
#include "base/json_value.h"

#define NAME_BYTES_MAX 256 /* of a name with escapes; a longer one is nothing we look for */

struct scan {
    const char *at, *end;
};

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static void skip_blanks(struct scan *scan)
{
    while (scan->at < scan->end && is_blank(*scan->at)) {
        scan->at++;
    }
}

/* The byte that comes next, NUL at the end; a real NUL is well formed nowhere. */
static char peek(const struct scan *scan)
{
    return scan->at < scan->end ? *scan->at : '\0';
}

static bool skip_byte(struct scan *scan, char byte)
{
    if (scan->at < scan->end && *scan->at == byte) {
        scan->at++;
        return true;
    }
    return false;
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_hex(char byte)
{
    char letter = (char)(byte | 0x20);

    return is_digit(byte) || (letter >= 'a' && letter <= 'f');
}

/* Behind the backslash. */
static bool skip_escape(struct scan *scan)
{
    char kind = peek(scan);

    if (kind == '\0' || strchr("\"\\/bfnrtu", kind) == NULL) {
        return false;
    }
    scan->at++;
    for (int i = 0; kind == 'u' && i < 4; i++, scan->at++) {
        if (!is_hex(peek(scan))) {
            return false;
        }
    }
    return true;
}

/* A byte of the word that ends plain text: below a blank, a quote or a backslash. Bytes above the
 * first such one may be told wrongly; whoever asks looks at them one by one. */
static bool has_special(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones * 0x80;
    uint64_t quote = word ^ ones * '"', slash = word ^ ones * '\\';

    uint64_t found =
        ((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash);

    return (found & tops) != 0;
}

static void skip_plain_words(struct scan *scan)
{
    uint64_t word;

    while ((size_t)(scan->end - scan->at) >= sizeof word) {
        memcpy(&word, scan->at, sizeof word);
        if (has_special(word)) {
            return;
        }
        scan->at += sizeof word;
    }
}

/* Behind the opening quote; ends behind the closing one. */
static bool skip_string(struct scan *scan)
{
    skip_plain_words(scan);
    while (scan->at < scan->end) {
        unsigned char byte = (unsigned char)*scan->at++;
        if (byte == '"') {
            return true;
        }
        if (byte < 0x20 || (byte == '\\' && !skip_escape(scan))) {
            return false;
        }
    }
    return false;
}

static bool skip_digits(struct scan *scan)
{
    const char *from = scan->at;

    while (is_digit(peek(scan))) {
        scan->at++;
    }
    return scan->at > from;
}

static bool skip_number(struct scan *scan)
{
    (void)skip_byte(scan, '-'); /* or there is none */
    if (!skip_byte(scan, '0') && !skip_digits(scan)) {
        return false;
    }
    if (skip_byte(scan, '.') && !skip_digits(scan)) {
        return false;
    }
    if (skip_byte(scan, 'e') || skip_byte(scan, 'E')) {
        if (!skip_byte(scan, '+')) {
            (void)skip_byte(scan, '-'); /* or there is none */
        }
        return skip_digits(scan);
    }
    return true;
}

static bool skip_word(struct scan *scan, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(scan->end - scan->at) < len || memcmp(scan->at, word, len) != 0) {
        return false;
    }
    scan->at += len;
    return true;
}

static bool skip_plain(struct scan *scan)
{
    switch (peek(scan)) {
    case '"':
        scan->at++;
        return skip_string(scan);
    case 't':
        return skip_word(scan, "true");
    case 'f':
        return skip_word(scan, "false");
    case 'n':
        return skip_word(scan, "null");
    default:
        return skip_number(scan);
    }
}

static bool skip_name(struct scan *scan)
{
    skip_blanks(scan);
    if (!skip_byte(scan, '"') || !skip_string(scan)) {
        return false;
    }
    skip_blanks(scan);
    return skip_byte(scan, ':');
}

/* What is open, the innermost in the lowest bit. */
struct nest {
    uint64_t kinds;
    int depth;
};

/* Behind an opening bracket; *ret_empty: it was closed at once. */
static bool enter(struct scan *scan, struct nest *nest, bool *ret_empty)
{
    bool is_object = scan->at[-1] == '{';

    if (nest->depth == JSON_DEPTH_MAX) {
        return false;
    }
    nest->kinds = nest->kinds << 1 | is_object;
    nest->depth++;
    skip_blanks(scan);
    *ret_empty = peek(scan) == (is_object ? '}' : ']');
    return *ret_empty || !is_object || skip_name(scan);
}

/* Behind a value: closes what closes here, and goes on to the next value. False: broken. */
static bool leave(struct scan *scan, struct nest *nest)
{
    while (nest->depth > 0) {
        bool is_object = (nest->kinds & 1) != 0;

        skip_blanks(scan);
        if (skip_byte(scan, ',')) {
            return !is_object || skip_name(scan);
        }
        if (!skip_byte(scan, is_object ? '}' : ']')) {
            return false;
        }
        nest->kinds >>= 1;
        nest->depth--;
    }
    return true;
}

static bool skip_value(struct scan *scan)
{
    struct nest nest = {0};

    do {
        bool is_empty = true;
        skip_blanks(scan);
        if (skip_byte(scan, '{') || skip_byte(scan, '[')) {
            if (!enter(scan, &nest, &is_empty)) {
                return false;
            }
        } else if (!skip_plain(scan)) {
            return false;
        }
        if (is_empty && !leave(scan, &nest)) {
            return false;
        }
    } while (nest.depth > 0);
    return true;
}

bool json_value_take(struct span *rest, struct span *ret_value)
{
    struct scan scan = {.at = rest->at, .end = rest->at + rest->len};

    skip_blanks(&scan);
    const char *from = scan.at;
    if (!skip_value(&scan)) {
        return false;
    }
    *ret_value = (struct span){.at = from, .len = (size_t)(scan.at - from)};
    skip_blanks(&scan);
    *rest = (struct span){.at = scan.at, .len = (size_t)(scan.end - scan.at)};
    return true;
}

bool json_walk_begin(struct json_walk *walk, struct span value, char bracket)
{
    struct scan scan = {.at = value.at, .end = value.at + value.len};

    skip_blanks(&scan);
    if (!skip_byte(&scan, bracket)) {
        return false;
    }
    skip_blanks(&scan);
    *walk = (struct json_walk){
        .rest = {.at = scan.at, .len = (size_t)(scan.end - scan.at)},
        .closing = bracket == '{' ? '}' : ']',
    };
    return true;
}

enum json_step json_walk_next(struct json_walk *walk, struct span *ret_name, struct span *ret_value)
{
    struct scan scan = {.at = walk->rest.at, .end = walk->rest.at + walk->rest.len};
    struct span name = {.at = "", .len = 0}, rest;

    if (skip_byte(&scan, walk->closing)) {
        skip_blanks(&scan);
        walk->rest = (struct span){.at = scan.at, .len = (size_t)(scan.end - scan.at)};
        return JSON_STEP_END;
    }
    if (walk->is_begun && !skip_byte(&scan, ',')) {
        return JSON_STEP_BROKEN;
    }
    if (walk->closing == '}') {
        skip_blanks(&scan);
        name.at = scan.at + 1;
        if (!skip_name(&scan)) {
            return JSON_STEP_BROKEN;
        }
        struct scan string = {.at = name.at, .end = scan.at};
        (void)skip_string(&string); /* skip_name has seen its end */
        name.len = (size_t)(string.at - name.at) - 1;
    }
    rest = (struct span){.at = scan.at, .len = (size_t)(scan.end - scan.at)};
    if (!json_value_take(&rest, ret_value)) {
        return JSON_STEP_BROKEN;
    }
    *ret_name = name;
    walk->rest = rest;
    walk->is_begun = true;
    return JSON_STEP_VALUE;
}

size_t json_value_compact(struct span value, char *ret_bytes)
{
    bool is_quoted = false;
    size_t len = 0;

    for (size_t i = 0; i < value.len; i++) {
        char byte = value.at[i];
        if (!is_quoted && is_blank(byte)) {
            continue;
        }
        ret_bytes[len++] = byte;
        if (is_quoted && byte == '\\' && i + 1 < value.len) {
            ret_bytes[len++] = value.at[++i];
        } else if (byte == '"') {
            is_quoted = !is_quoted;
        }
    }
    return len;
}

/* The four hex digits at `at`. */
static uint32_t hex_of(const char *at)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++) {
        uint32_t letter = (uint32_t)(unsigned char)at[i] | 0x20;
        value = value << 4 | (is_digit(at[i]) ? (uint32_t)(at[i] - '0') : letter - 'a' + 10);
    }
    return value;
}

static size_t put_character(uint32_t code, char *to)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    size_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char leads[] = {0, 0xc0, 0xe0, 0xf0};
    to[0] = (char)(leads[more] | code >> 6 * more);
    for (size_t i = 1; i <= more; i++) {
        to[i] = (char)(0x80 | (code >> 6 * (more - i) & 0x3f));
    }
    return more + 1;
}

static bool is_between(uint32_t code, uint32_t low, uint32_t high)
{
    return code >= low && code <= high;
}

/* Behind "\\u"; takes a second escape along when it is the other half. */
static bool take_unicode(struct scan *scan, char **to)
{
    uint32_t code = hex_of(scan->at);

    scan->at += 4;
    if (is_between(code, 0xdc00, 0xdfff)) {
        return false;
    }
    if (is_between(code, 0xd800, 0xdbff)) {
        bool has_more = scan->end - scan->at >= 6 && scan->at[0] == '\\' && scan->at[1] == 'u';
        uint32_t low = has_more ? hex_of(scan->at + 2) : 0;
        if (!is_between(low, 0xdc00, 0xdfff)) {
            return false;
        }
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
        scan->at += 6;
    }
    *to += put_character(code, *to);
    return true;
}

static char escaped(char letter)
{
    switch (letter) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return letter;
    }
}

bool json_value_text(struct span value, char *ret_bytes, size_t *ret_len)
{
    struct scan scan = {.at = value.at + 1, .end = value.at + value.len - 1};
    char *to = ret_bytes;

    while (scan.at < scan.end) {
        size_t left = (size_t)(scan.end - scan.at);
        const char *escape = memchr(scan.at, '\\', left);
        size_t plain = escape != NULL ? (size_t)(escape - scan.at) : left;
        memcpy(to, scan.at, plain);
        to += plain;
        scan.at += plain;
        if (escape == NULL) {
            break;
        }
        char letter = scan.at[1];
        scan.at += 2;
        if (letter != 'u') {
            *to++ = escaped(letter);
        } else if (!take_unicode(&scan, &to)) {
            return false;
        }
    }
    *ret_len = (size_t)(to - ret_bytes);
    return true;
}

bool json_name_is(struct span written, struct span name)
{
    struct span quoted = {.at = written.at - 1, .len = written.len + 2};
    char text[NAME_BYTES_MAX];
    size_t len;

    if (span_find(written, '\\') == NULL) {
        return span_equal(written, name);
    }
    return quoted.len <= sizeof text && json_value_text(quoted, text, &len) &&
           span_equal((struct span){.at = text, .len = len}, name);
}
