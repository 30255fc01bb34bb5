/* SPDX-License-Identifier: MIT
 *
 * spooled -- see spooled.h. Reading is strict: a member that is missing, unknown or of another type
 * makes the file one that is reported and left alone, never one that is half understood and sent.
 */
#include "cli/spooled.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/json_value.h"
#include "task/fields.h"
#include "task/save_key.h"
#include "task/task.h"
#include "task/url.h"

#include <daruma/retry_after.h>

#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_LINE   "daruma-spool 1\n"
#define SHA256_BYTES 32
#define SHA256_TEXT  (2 * SHA256_BYTES + 1)

const char *spooled_state_text(enum spooled_state state)
{
    return state == SPOOLED_FAILED ? "failed" : "waiting";
}

bool spooled_header_is_ours(struct span name)
{
    static const char *const names[] = {
        "Connection",        "Content-Length", "Expect",  "HTTP2-Settings",
        "Idempotency-Key",   "Keep-Alive",     "TE",      "Proxy-Connection",
        "Transfer-Encoding", "Trailer",        "Upgrade",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (span_is_nocase(name, names[i])) {
            return true;
        }
    }
    return false;
}

int spooled_place(struct span url, struct buf *ret_place)
{
    size_t from = ret_place->len, slashes = 0, end = from;
    int failed = save_url_normalise(url, ret_place, NULL);

    while (failed == 0 && slashes < 3) { /* a normalised URL has three */
        slashes += ret_place->at[end++] == '/';
    }
    ret_place->len = failed == 0 ? end - 1 : from;
    return failed;
}

static bool digest_text(struct span body, char ret_text[SHA256_TEXT])
{
    unsigned char digest[SHA256_BYTES];

    if (EVP_Digest(body.len > 0 ? body.at : "", body.len, digest, NULL, EVP_sha256(), NULL) != 1) {
        return false;
    }
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        (void)snprintf(ret_text + 2 * i, 3, "%02x", digest[i]); /* fits */
    }
    return true;
}

/* --- writing ------------------------------------------------------------------------------------ */

/* NULL, like every failure of jansson, is found out by the last of these. */
static json_t *text_of(struct span text)
{
    return json_stringn(text.len > 0 ? text.at : "", text.len);
}

static json_t *time_of(int64_t ms)
{
    char text[CLOCK_TEXT_MAX];

    if (ms == 0) {
        return json_null();
    }
    clock_format(ms, text);
    return json_string(text);
}

static json_t *headers_of(struct span fields)
{
    json_t *headers = json_object();
    struct span name, value;

    while (fields_next(&fields, &name, &value)) {
        char *copy = strndup(name.at, name.len);
        bool ok = copy != NULL && json_object_set_new(headers, copy, text_of(value)) == 0;
        free(copy);
        if (!ok) {
            json_decref(headers);
            return NULL;
        }
    }
    return headers;
}

static json_t *head_of(const struct spooled *request, const char *digest)
{
    json_t *head = json_object();
    bool ok = head != NULL;

#define SET(name, value) (ok = json_object_set_new(head, name, (value)) == 0 && ok)
    SET("url", text_of(request->url));
    SET("method", text_of(request->method));
    SET("headers", headers_of(request->headers));
    SET("key", text_of(request->key));
    SET("created_at", time_of(request->created_at_ms));
    SET("state", json_string(spooled_state_text(request->state)));
    SET("attempts", json_integer(request->attempts));
    SET("tried_at", time_of(request->tried_at_ms));
    SET("not_before", time_of(request->not_before_ms));
    SET("last_error", request->last_error.len > 0 ? text_of(request->last_error) : json_null());
    SET("timeout_ms", json_integer(request->timeout_ms));
    SET("body_bytes", json_integer((json_int_t)request->body.len));
    SET("body_sha256", json_string(digest));
#undef SET
    if (!ok) {
        json_decref(head);
        return NULL;
    }
    return head;
}

static bool is_text(const struct spooled *request)
{
    return span_is_utf8(request->url) && span_is_utf8(request->method) &&
           span_is_utf8(request->headers) && span_is_utf8(request->key) &&
           span_is_utf8(request->last_error);
}

int spooled_write(const struct spooled *request, struct buf *out, struct error *err)
{
    char digest[SHA256_TEXT];

    if (!is_text(request)) {
        return fail(err, FAULT_INPUT, "a header that is not UTF-8 cannot be kept");
    }
    json_t *head = digest_text(request->body, digest) ? head_of(request, digest) : NULL;
    char *text = head != NULL ? json_dumps(head, JSON_INDENT(2)) : NULL;
    int failed = text == NULL ? FAULT_MEMORY : buf_add(out, SPAN(FIRST_LINE));
    failed = failed != 0 ? failed : buf_add(out, span_of(text));
    failed = failed != 0 ? failed : buf_add(out, SPAN("\n"));
    failed = failed != 0 ? failed : buf_add(out, request->body);
    free(text);
    json_decref(head);
    return failed == 0 ? 0 : fail(err, FAULT_MEMORY, "no memory to keep the request");
}

/* --- reading ------------------------------------------------------------------------------------ */

/* What is being read, and how it went so far: the first complaint sticks. */
struct reading {
    const json_t *head;
    struct arena *arena;
    struct error *err;
    int failed;
};

static void complain(struct reading *reading, const char *name, const char *expected)
{
    if (reading->failed == 0) {
        reading->failed =
            fail(reading->err, FAULT_CORRUPT, "its %s is missing or not %s", name, expected);
    }
}

static struct span copy_of(struct reading *reading, const json_t *text)
{
    struct span copy = arena_copy(reading->arena, (struct span){.at = json_string_value(text),
                                                                .len = json_string_length(text)});

    if (copy.at == NULL && reading->failed == 0) {
        reading->failed = fail(reading->err, FAULT_MEMORY, "no memory to read it");
    }
    return copy.at != NULL ? copy : SPAN("");
}

static struct span take_text(struct reading *reading, const char *name)
{
    const json_t *member = json_object_get(reading->head, name);

    if (!json_is_string(member)) {
        complain(reading, name, "a text");
        return SPAN("");
    }
    return copy_of(reading, member);
}

static int64_t take_number(struct reading *reading, const char *name, int64_t most)
{
    const json_t *member = json_object_get(reading->head, name);
    int64_t number = json_integer_value(member);

    if (!json_is_integer(member) || number < 0 || number > most) {
        complain(reading, name, "a number");
        return 0;
    }
    return number;
}

enum take_need { TAKE_NEEDED, TAKE_OR_NULL };

static int64_t take_time(struct reading *reading, const char *name, enum take_need need)
{
    const json_t *member = json_object_get(reading->head, name);
    int64_t ms = 0;

    if (need == TAKE_OR_NULL && json_is_null(member)) {
        return 0;
    }
    if (!json_is_string(member) ||
        !daruma_rfc3339_parse(json_string_value(member), json_string_length(member), &ms) ||
        ms <= 0) {
        complain(reading, name, "a time");
    }
    return ms;
}

static enum spooled_state take_state(struct reading *reading)
{
    struct span state = take_text(reading, "state");

    if (!span_is(state, "waiting") && !span_is(state, "failed")) {
        complain(reading, "state", "waiting or failed");
    }
    return span_is(state, "failed") ? SPOOLED_FAILED : SPOOLED_WAITING;
}

static bool is_header(struct span name, struct span value)
{
    return fields_name_is_token(name) && fields_value_is_clean(value) &&
           !spooled_header_is_ours(name);
}

static struct span take_headers(struct reading *reading)
{
    json_t *headers = json_object_get(reading->head, "headers"), *member;
    AUTO(buf_done) struct buf fields;
    const char *name;

    buf_init(&fields, SPOOLED_HEAD_BYTES_MAX);
    if (!json_is_object(headers) || json_object_size(headers) > SPOOLED_HEADERS_MAX) {
        complain(reading, "headers", "an object of at most 64 texts");
        return SPAN("");
    }
    json_object_foreach(headers, name, member)
    {
        struct span value = {.at = json_string_value(member), .len = json_string_length(member)};
        if (!json_is_string(member) || !is_header(span_of(name), value)) {
            complain(reading, "headers", "an object of headers");
        } else if (fields_add(&fields, span_of(name), value) != 0 && reading->failed == 0) {
            reading->failed = fail(reading->err, FAULT_MEMORY, "no memory to read it");
        }
    }
    struct span copy = arena_copy(reading->arena, buf_span(&fields));
    if (copy.at == NULL && reading->failed == 0) {
        reading->failed = fail(reading->err, FAULT_MEMORY, "no memory to read it");
    }
    return copy.at != NULL ? copy : SPAN("");
}

static void check_parts(struct reading *reading, const struct spooled *request)
{
    if (url_refuse(request->url) != NULL) {
        complain(reading, "url", "an http or https URL");
    }
    if (!fields_name_is_token(request->method) || request->method.len > SAVE_METHOD_MAX ||
        span_is(request->method, "CONNECT")) {
        complain(reading, "method", "a method");
    }
    if (!task_key_is_valid(request->key)) {
        complain(reading, "key", "a key");
    }
    if (!fields_value_is_clean(request->last_error)) {
        complain(reading, "last_error", "a line of text");
    }
    if (request->timeout_ms == 0) {
        complain(reading, "timeout_ms", "above zero");
    }
}

static void check_body(struct reading *reading, struct span body)
{
    int64_t len = take_number(reading, "body_bytes", SPOOLED_BODY_BYTES_MAX);
    struct span digest = take_text(reading, "body_sha256");
    char text[SHA256_TEXT] = "";

    if (reading->failed == 0 && (size_t)len != body.len) {
        reading->failed = fail(reading->err, FAULT_CORRUPT,
                               "its body has %zu bytes instead of %lld", body.len, (long long)len);
    }
    if (reading->failed == 0 && (!digest_text(body, text) || !span_is(digest, text))) {
        reading->failed = fail(reading->err, FAULT_CORRUPT, "its body is not the one it was");
    }
}

#define MEMBER_COUNT 13 /* of head_of */

static int read_head(struct reading *reading, struct span body, struct spooled *ret_request)
{
    struct spooled request = {
        .url = take_text(reading, "url"),
        .method = take_text(reading, "method"),
        .key = take_text(reading, "key"),
        .headers = take_headers(reading),
        .body = body,
        .created_at_ms = take_time(reading, "created_at", TAKE_NEEDED),
        .tried_at_ms = take_time(reading, "tried_at", TAKE_OR_NULL),
        .not_before_ms = take_time(reading, "not_before", TAKE_OR_NULL),
        .timeout_ms = take_number(reading, "timeout_ms", SPOOLED_TIMEOUT_MAX_MS),
        .attempts = take_number(reading, "attempts", SPOOLED_ATTEMPTS_MAX),
        .state = take_state(reading),
    };
    const json_t *last_error = json_object_get(reading->head, "last_error");

    if (!json_is_null(last_error)) {
        request.last_error = take_text(reading, "last_error");
    }
    check_parts(reading, &request);
    check_body(reading, body);
    if (reading->failed == 0 && json_object_size(reading->head) != MEMBER_COUNT) {
        reading->failed = fail(reading->err, FAULT_CORRUPT, "it has a member that is not known");
    }
    if (reading->failed == 0) {
        *ret_request = request;
    }
    return reading->failed;
}

int spooled_parse(struct span file, struct arena *arena, struct spooled *ret_request,
                  struct error *err)
{
    struct span rest = span_from(file, sizeof FIRST_LINE - 1), value;
    struct span from = rest;

    if (!span_starts(file, FIRST_LINE)) {
        return fail(err, FAULT_CORRUPT, "it does not begin as a spooled request does");
    }
    if (!span_starts(rest, "{") || !json_value_take(&rest, &value) ||
        value.len > SPOOLED_HEAD_BYTES_MAX || value.len == from.len ||
        value.at[value.len] != '\n') {
        return fail(err, FAULT_CORRUPT, "its head is torn");
    }
    json_t *head = json_loadb(value.at, value.len, JSON_REJECT_DUPLICATES, NULL);
    if (head == NULL) {
        return fail(err, FAULT_CORRUPT, "its head cannot be read");
    }
    struct reading reading = {.head = head, .arena = arena, .err = err};
    int failed = read_head(&reading, span_from(from, value.len + 1), ret_request);
    json_decref(head);
    return failed;
}
