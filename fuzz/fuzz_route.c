/* SPDX-License-Identifier: MIT
 *
 * fuzz_route -- what callers and upstreams send through the gateway: targets, keys, preferences,
 * header fields, JSON bodies, forms. The input begins with one character that says which.
 *
 * What must hold for any input: a key that is taken is valid and reads back as itself in quotes; a
 * target that is taken has no segment that another reader could resolve; what is kept of an answer
 * has nothing of the connection in it; a fingerprint does not depend on what is not selected; a form
 * that asks for another method is seen, whatever else is in it and however its part's name is encoded.
 */
#include "task/fields.h"
#include "task/prefer.h"
#include "task/route_answer.h"
#include "task/route_headers.h"
#include "task/route_key.h"
#include "task/route_like.h"
#include "task/route_rename.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

static void holds(bool claim, const char *text)
{
    if (!claim) {
        fprintf(stderr, "does not hold: %s\n", text);
        abort();
    }
}

static void check_key(struct span text)
{
    char room[TASK_KEY_MAX], again[TASK_KEY_MAX], written[ROUTE_KEY_WRITTEN_MAX];
    struct span key, back;

    if (route_key_parse(text, false, room, &key) != NULL) {
        return;
    }
    holds(task_key_is_valid(key), "a key that is taken is valid");
    holds(route_key_parse(route_key_write(key, true, written), true, again, &back) == NULL &&
              span_equal(key, back),
          "a key in quotes is the same key");
    holds(route_key_parse(route_key_write(key, false, written), false, again, &back) == NULL &&
              span_equal(key, back),
          "a key as it is written is the same key");
}

static void check_target(struct span text)
{
    struct route_target target;
    struct route_pattern pattern;

    (void)route_pattern_parse(text, &pattern); /* only must not crash */
    if (route_target_parse(text, &target) != NULL) {
        return;
    }
    holds(target.path.len > 0 && target.path.at[0] == '/', "a path begins with a slash");
    struct route_settings routes[3] = {0};
    holds(route_pattern_parse(SPAN("POST /v1/orders:batch"), &routes[0].pattern) == NULL &&
              route_pattern_parse(SPAN("POST /{a}/x%2By/*"), &routes[1].pattern) == NULL,
          "a pattern is one");
    (void)route_like_find(routes, 2, SPAN("POST"), &target); /* only must not crash */
    if (target.path.len == target.whole.len && target.segment_count <= ROUTE_SEGMENTS_MAX) {
        routes[2].pattern = (struct route_pattern){
            .methods = {SPAN("POST")}, .method_count = 1, .segment_count = target.segment_count};
        memcpy(routes[2].pattern.segments, target.segments,
               target.segment_count * sizeof *target.segments);
        holds(route_like_find(&routes[2], 1, SPAN("POST"), &target) == ROUTE_LIKE_METHOD,
              "a path is like itself");
    }
    for (size_t i = 0; i < target.segment_count; i++) {
        struct span segment = target.segments[i];
        holds(segment.len > 0 && !span_is(segment, ".") && !span_is(segment, ".."),
              "no segment is empty or made of dots");
        holds(memchr(segment.at, '/', segment.len) == NULL, "no segment has a slash");
        for (size_t at = 0; at + 2 < segment.len; at++) {
            holds(!span_is_nocase(span_until(span_from(segment, at), 3), "%2f") &&
                      !span_is_nocase(span_until(span_from(segment, at), 3), "%2e"),
                  "no segment hides a slash or a dot");
        }
    }
}

static void check_headers(struct span text)
{
    struct route_settings route = {0};
    struct span rest, name, value;
    struct buf out;

    buf_init(&out, 1u << 20);
    if (route_headers_keep(&route, text, &out) == 0) {
        rest = buf_span(&out);
        while (fields_next(&rest, &name, &value)) {
            holds(!span_is_nocase(name, "Set-Cookie") && !span_is_nocase(name, "Connection") &&
                      !span_is_nocase(name, "Content-Length"),
                  "what is kept is nobody's alone");
        }
    }
    buf_clear(&out);
    (void)route_headers_share(text, &out);
    buf_clear(&out);
    (void)route_headers_forward(
        &(struct route_forward){.headers = text, .key_header = SPAN("k"), .is_keyed = true}, &out);
    buf_done(&out);
}

static void check_json(struct span text)
{
    struct route_settings route = {
        .print = ROUTE_PRINT_FIELDS, .fields = {SPAN("a"), SPAN("b.0.c")}, .field_count = 2};
    struct route_request request = {.method = SPAN("POST"), .target = SPAN("/"), .body = text};
    unsigned char one[TASK_FINGERPRINT_BYTES], other[TASK_FINGERPRINT_BYTES];

    holds(route_fingerprint(&route, &request, one, NULL) == 0, "anything has a fingerprint");
    holds(route_fingerprint(&route, &request, other, NULL) == 0 &&
              memcmp(one, other, sizeof one) == 0,
          "and always the same");
}

static void check_prefer(struct span text)
{
    struct prefer prefer = {0};
    char room[48];

    prefer_read(&prefer, text);
    holds(prefer_applied(&prefer, room).len < sizeof room, "what is applied is short");
    holds(prefer.wait_ms >= 0, "nobody waits for less than nothing");
}

static int digit(char byte)
{
    const char *digits = "0123456789abcdef0123456789ABCDEF";
    const char *at = byte != '\0' ? strchr(digits, byte) : NULL;

    return at != NULL ? (int)((at - digits) % 16) : -1;
}

/* As the standard for URLs reads a field's name. */
static bool is_method(struct span name)
{
    const char *wanted = "_method";

    while (name.len > 0) {
        bool is_escape =
            name.at[0] == '%' && name.len >= 3 && digit(name.at[1]) >= 0 && digit(name.at[2]) >= 0;
        int byte = is_escape ? digit(name.at[1]) * 16 + digit(name.at[2]) : name.at[0];
        if (*wanted == '\0' || byte != *wanted++) {
            return false;
        }
        name = span_from(name, is_escape ? 3 : 1);
    }
    return *wanted == '\0';
}

/* "_method" in pieces, between marks (begin, escape, next piece, end): the input says where one ends, and which letters are escaped. */
static const char *write_encoded(struct span text, const char *const marks[4], struct buf *out)
{
    const char *wanted = "_method";
    char escape[8];

    buf_clear(out);
    holds(buf_add(out, span_of(marks[0])) == 0, "there is room");
    for (size_t i = 0; wanted[i] != '\0'; i++) {
        char how = text.len > 0 ? text.at[i % text.len] : '\0';
        if ((how & 1) != 0) {
            (void)snprintf(escape, sizeof escape, "%s%02X", marks[1], (unsigned)wanted[i]);
        } else {
            (void)snprintf(escape, sizeof escape, "%c", wanted[i]);
        }
        holds(((how & 2) == 0 || buf_add(out, span_of(marks[2])) == 0) &&
                  buf_add(out, span_of(escape)) == 0,
              "there is room");
    }
    holds(buf_add(out, span_of(marks[3])) == 0 && buf_add(out, SPAN("\0")) == 0, "there is room");
    return buf_span(out).at;
}

static bool form_renames(const char *type, struct span body, const char *more)
{
    struct buf headers, whole;

    buf_init(&headers, 1u << 10);
    buf_init(&whole, 1u << 21);
    holds(fields_add(&headers, SPAN("Content-Type"), span_of(type)) == 0 &&
              buf_add(&whole, body) == 0 && buf_add(&whole, span_of(more)) == 0,
          "there is room");
    bool is_seen = route_form_renames_method(buf_span(&headers), buf_span(&whole));
    buf_done(&headers);
    buf_done(&whole);
    return is_seen;
}

/* A part's name that only a reader of RFC 2231 or 2047 knows; of a file's name nothing is held against it. */
static void check_encoded_part(const char *type, struct span text)
{
    static const char *const pieces[] = {"\r\nContent-Disposition: form-data; name*0*=utf-8''", "%",
                                         "; name*1*=", "\r\n\r\nPUT"};
    static const char *const words[] = {"\r\nContent-Disposition: form-data; name=\"=?utf-8?Q?",
                                        "=", "?= =?utf-8?Q?", "?=\"\r\n\r\nPUT"};
    static const char *const file_words[] = {
        "\r\nContent-Disposition: form-data; name=\"a\"; filename=\"=?utf-8?Q?", "=",
        "?= =?utf-8?Q?", "?=\"\r\n\r\nPUT"};
    static const char *const file_pieces[] = {
        "\r\nContent-Disposition: form-data; name=\"a\"; filename*0=\"a\"; filename*1=\"b", "%",
        "\"; filename*2=\"c", "\"\r\n\r\nPUT"};
    struct buf more;

    buf_init(&more, 1u << 10);
    holds(form_renames(type, text, write_encoded(text, pieces, &more)), "a name in pieces is seen");
    holds(form_renames(type, text, write_encoded(text, words, &more)),
          "a name in encoded words is seen");
    holds(!form_renames(type, SPAN(""), write_encoded(text, file_words, &more)),
          "a file's name may be in encoded words");
    holds(!form_renames(type, SPAN(""), write_encoded(text, file_pieces, &more)),
          "a file's name may be in pieces");
    buf_done(&more);
}

static void check_form(struct span text)
{
    static const char fields[] = "application/x-www-form-urlencoded";
    static const char parts[] = "multipart/form-data; boundary=b";
    struct span rest = text, pair, name;
    bool is_there = false;

    while (rest.len > 0) {
        (void)span_cut(&rest, '&', &pair); /* without one it is the last */
        (void)span_cut(&pair, '=', &name); /* without one it is all name */
        is_there |= is_method(name);
    }
    holds(!is_there || form_renames(fields, text, ""), "a field that asks for a method is seen");
    holds(form_renames(fields, text, "&_method=PUT"), "whatever stands before it");
    holds(form_renames(fields, text, "&_method[]=PUT"), "also as an array");
    holds(form_renames(fields, text, "&X-HTTP-Method-Override=PUT"), "also by a header's name");
    holds(form_renames(parts, text,
                       "\r\n--b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nPUT"),
          "and so is a part");
    holds(form_renames(parts, text, "\r\n--b\r\nContent-ID: _method\r\n\r\nPUT"),
          "by its other name too");
    holds(
        form_renames(parts, text,
                     "\r\n--b\r\nContent-Disposition: form-data;\r\nname=\"[_method]\"\r\n\r\nPUT"),
        "on a line of its own too");
    check_encoded_part(parts, text);
    holds(!form_renames("application/json", text, ""), "what is not a form is not looked at");
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    if (length == 0) {
        return 0;
    }
    struct span text = {.at = (const char *)input + 1, .len = length - 1};
    switch (input[0]) {
    case 'k':
        check_key(text);
        break;
    case 't':
        check_target(text);
        break;
    case 'h':
        check_headers(text);
        break;
    case 'f':
        check_form(text);
        break;
    case 'j':
        check_json(text);
        break;
    default:
        check_prefer(text);
        break;
    }
    return 0;
}
