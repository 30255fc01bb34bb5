/* SPDX-License-Identifier: MIT
 *
 * fuzz_route -- what callers and upstreams send through the gateway: targets, keys, preferences,
 * header fields, JSON bodies. The input begins with one character that says which.
 *
 * What must hold for any input: a key that is taken is valid and reads back as itself in quotes; a
 * target that is taken has no segment that another reader could resolve; what is kept of an answer
 * has nothing of the connection in it; a fingerprint does not depend on what is not selected.
 */
#include "task/fields.h"
#include "task/prefer.h"
#include "task/route_answer.h"
#include "task/route_headers.h"
#include "task/route_key.h"

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
    char room[TASK_KEY_MAX], again[TASK_KEY_MAX], quoted[2 * TASK_KEY_MAX + 2];
    struct span key, back;
    size_t len = 0;

    if (route_key_parse(text, false, room, &key) != NULL) {
        return;
    }
    holds(task_key_is_valid(key), "a key that is taken is valid");
    quoted[len++] = '"';
    for (size_t i = 0; i < key.len; i++) {
        if (key.at[i] == '"' || key.at[i] == '\\') {
            quoted[len++] = '\\';
        }
        quoted[len++] = key.at[i];
    }
    quoted[len++] = '"';
    holds(route_key_parse((struct span){quoted, len}, true, again, &back) == NULL &&
              span_equal(key, back),
          "a key in quotes is the same key");
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
    case 'j':
        check_json(text);
        break;
    default:
        check_prefer(text);
        break;
    }
    return 0;
}
