/* SPDX-License-Identifier: MIT
 *
 * route_key -- see route_key.h.
 */
#include "task/route_key.h"
#include "base/json_value.h"
#include "task/fingerprint.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>

/* --- the key --------------------------------------------------------------------------------------- */

/* RFC 8941 3.3.3: visible characters and blanks, \" and \\. */
static const char *read_string(struct span *rest, char room[TASK_KEY_MAX], struct span *ret_key)
{
    size_t len = 0;

    for (size_t i = 1; i < rest->len; i++) {
        char byte = rest->at[i];
        if (byte == '"') {
            *ret_key = (struct span){.at = room, .len = len};
            *rest = span_from(*rest, i + 1);
            return NULL;
        }
        if (byte == '\\') {
            byte = ++i < rest->len ? rest->at[i] : '\0';
            if (byte != '"' && byte != '\\') {
                return "an escape that a quoted string does not have";
            }
        }
        if (len == TASK_KEY_MAX) {
            return "more than 255 characters";
        }
        room[len++] = byte;
    }
    return "a quotation mark that is not closed";
}

/* ;name=value after a string: not ours, and allowed to be there. A comma begins a second key. */
static const char *refuse_behind(struct span rest)
{
    rest = span_trim(rest);
    if (rest.len > 0 && rest.at[0] == ',') {
        return "more than one key";
    }
    if (rest.len > 0 && rest.at[0] != ';') {
        return "something behind the quoted string";
    }
    return span_find(rest, ',') != NULL ? "more than one key" : NULL;
}

static const char *refuse_text(struct span key)
{
    if (key.len == 0) {
        return "nothing";
    }
    if (key.len > TASK_KEY_MAX) {
        return "more than 255 characters";
    }
    return task_key_is_valid(key) ? NULL : "a character that is not visible ASCII";
}

static const char *read_bare(struct span value, char room[TASK_KEY_MAX], struct span *ret_key)
{
    if (span_find(value, ',') != NULL) {
        return "more than one key";
    }
    const char *why = refuse_text(value);
    if (why == NULL) {
        span_copy(room, value);
        *ret_key = (struct span){.at = room, .len = value.len};
    }
    return why;
}

const char *route_key_parse(struct span value, bool is_strict, char room[TASK_KEY_MAX],
                            struct span *ret_key)
{
    struct span rest = span_trim(value), key;

    if (rest.len == 0 || rest.at[0] != '"') {
        return is_strict ? "no quoted string" : read_bare(rest, room, ret_key);
    }
    const char *why = read_string(&rest, room, &key);
    why = why != NULL ? why : refuse_behind(rest);
    why = why != NULL ? why : refuse_text(key);
    if (why == NULL) {
        *ret_key = key;
    }
    return why;
}

struct span route_key_write(struct span key, bool is_strict, char room[ROUTE_KEY_WRITTEN_MAX])
{
    bool is_bare = !is_strict && key.len > 0 && key.at[0] != '"' && span_find(key, ',') == NULL;
    size_t len = 0;

    if (is_bare) {
        span_copy(room, key);
        return (struct span){.at = room, .len = key.len};
    }
    room[len++] = '"';
    for (size_t i = 0; i < key.len; i++) {
        if (key.at[i] == '"' || key.at[i] == '\\') {
            room[len++] = '\\';
        }
        room[len++] = key.at[i];
    }
    room[len++] = '"';
    return (struct span){.at = room, .len = len};
}

/* --- scopes ------------------------------------------------------------------------------------------ */

static void write_hex(const unsigned char *bytes, size_t count, char *ret_text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < count; i++) {
        ret_text[2 * i] = digits[bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_text[2 * count] = '\0';
}

int route_scope_text(const struct route_settings *route, struct span value,
                     char ret_text[ROUTE_SCOPE_TEXT_LEN + 1], struct error *err)
{
    unsigned char digest[TASK_FINGERPRINT_BYTES];
    const struct span parts[] = {SPAN("daruma scope"), route->scope_name, value};

    if (route->scope == ROUTE_SCOPE_GLOBAL) {
        ret_text[0] = '\0';
        return 0;
    }
    int failed = fingerprint_parts(parts, sizeof parts / sizeof *parts, digest, err);
    if (failed == 0) {
        write_hex(digest, ROUTE_SCOPE_TEXT_LEN / 2, ret_text);
    }
    return failed;
}

bool route_cookie_find(struct span header, struct span name, struct span *ret_value)
{
    struct span pair, found;
    bool has_more = true;

    while (has_more) {
        has_more = span_cut(&header, ';', &pair);
        pair = span_trim(pair);
        if (span_cut(&pair, '=', &found) && span_equal(found, name)) {
            *ret_value = pair;
            return true;
        }
    }
    return false;
}

int route_key_derive(struct span route_name, struct span scope, struct span key,
                     char ret_text[ROUTE_DERIVED_TEXT_LEN + 1], struct error *err)
{
    unsigned char secret[TASK_FINGERPRINT_BYTES], digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    const struct span parts[] = {SPAN("daruma key"), route_name, scope};
    int failed = fingerprint_parts(parts, sizeof parts / sizeof *parts, secret, err);

    if (failed != 0) {
        return failed;
    }
    if (HMAC(EVP_sha256(), secret, sizeof secret, (const unsigned char *)key.at, key.len, digest,
             &len) == NULL) {
        return fail(err, FAULT_MEMORY, "the key for the upstream could not be made");
    }
    write_hex(digest, ROUTE_DERIVED_TEXT_LEN / 2, ret_text);
    return 0;
}

/* --- fingerprints ------------------------------------------------------------------------------------ */

#define WRITTEN_NAME_MAX 254 /* bytes of a name with escapes; a longer one is nothing we look for */

/* A field on its way into the document. */
struct sought {
    struct span path;  /* what is left of it behind `name` */
    struct span name;  /* that is looked for in `value` */
    int64_t index;     /* the same where that is an array */
    struct span value; /* how far it has got */
    struct span found; /* what has the name */
    size_t found_count;
    bool has_more;
    bool is_done;
    enum route_json end;
};

static bool is_in(const struct sought *field, struct span container)
{
    return !field->is_done && field->value.at == container.at;
}

static void note_found(struct sought *field, struct span value)
{
    field->found = value;
    field->found_count++;
}

/* A name as it is meant, in the room where it has escapes. Empty: of none that is looked for. */
static struct span read_name(struct span written, char room[WRITTEN_NAME_MAX + 2])
{
    struct span quoted = {.at = written.at - 1, .len = written.len + 2};
    size_t len = 0;

    if (span_find(written, '\\') == NULL) {
        return written;
    }
    bool is_text = written.len <= WRITTEN_NAME_MAX && json_value_text(quoted, room, &len);
    return (struct span){.at = room, .len = is_text ? len : 0};
}

static void walk_members(struct span object, struct sought *fields, size_t count)
{
    struct json_walk walk;
    struct span written, value;
    char room[WRITTEN_NAME_MAX + 2];
    bool is_begun = json_walk_begin(&walk, object, '{');

    while (is_begun && json_walk_next(&walk, &written, &value) == JSON_STEP_VALUE) {
        struct span name = read_name(written, room);
        for (size_t i = 0; i < count; i++) {
            if (is_in(&fields[i], object) && span_equal(fields[i].name, name)) {
                note_found(&fields[i], value);
            }
        }
    }
}

static void walk_elements(struct span array, struct sought *fields, size_t count)
{
    struct json_walk walk;
    struct span name, value;
    int64_t last = -1;
    bool is_begun = json_walk_begin(&walk, array, '[');

    for (size_t i = 0; i < count; i++) {
        bool is_index = is_in(&fields[i], array) && span_to_int(fields[i].name, &fields[i].index);
        fields[i].index = is_index ? fields[i].index : -1;
        last = fields[i].index > last ? fields[i].index : last;
    }
    for (int64_t at = 0;
         is_begun && at <= last && json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE; at++) {
        for (size_t i = 0; i < count; i++) {
            if (fields[i].index == at && is_in(&fields[i], array)) {
                note_found(&fields[i], value);
            }
        }
    }
}

/* False: a name comes twice, which means different things to different readers. */
static bool go_on(struct sought *field)
{
    bool is_there = field->found_count > 0;

    if (field->found_count > 1) {
        return false;
    }
    field->is_done = !is_there || !field->has_more;
    field->end = is_there ? ROUTE_JSON_FOUND : ROUTE_JSON_MISSING;
    field->value = field->found;
    return true;
}

/* One walk through what the first field that is under way has got to, for all that have got there. False:
 * it is unsure what is meant. */
static bool walk_on(struct sought *fields, size_t count, size_t first)
{
    struct span container = fields[first].value;

    for (size_t i = first; i < count; i++) {
        if (is_in(&fields[i], container)) {
            fields[i].has_more = span_cut(&fields[i].path, '.', &fields[i].name);
            fields[i].found_count = 0;
        }
    }
    if (container.at[0] == '[') {
        walk_elements(container, fields, count);
    } else {
        walk_members(container, fields, count); /* none where it is no object */
    }
    for (size_t i = first; i < count; i++) {
        if (is_in(&fields[i], container) && !go_on(&fields[i])) {
            return false;
        }
    }
    return true;
}

/* All fields at once: what is well formed is seen once, and what holds several of them is walked through
 * once. False: it is unsure what is meant. */
static bool seek_fields(struct span json, struct sought *fields, size_t count)
{
    struct span document;

    if (!json_value_take(&json, &document) || json.len > 0) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        fields[i].value = document;
    }
    for (size_t first = 0; first < count;) {
        if (fields[first].is_done) {
            first++;
        } else if (!walk_on(fields, count, first)) {
            return false;
        }
    }
    return true;
}

enum route_json route_json_find(struct span json, struct span path, struct span *ret_value)
{
    struct sought field = {.path = path};

    if (!seek_fields(json, &field, 1)) {
        return ROUTE_JSON_UNSURE;
    }
    if (field.end == ROUTE_JSON_FOUND) {
        *ret_value = field.value;
    }
    return field.end;
}

/* Method, target and content type, then a value for each field; what is missing is nothing, which no
 * value is. False: the whole body has to stand for itself. */
static bool gather_fields(const struct route_settings *route, const struct route_request *request,
                          char *room, struct span parts[3 + ROUTE_FIELDS_MAX])
{
    size_t used = 0;

    struct sought fields[ROUTE_FIELDS_MAX] = {0};

    for (size_t i = 0; i < route->field_count; i++) {
        fields[i].path = route->fields[i];
    }
    if (!seek_fields(request->body, fields, route->field_count)) {
        return false;
    }
    parts[0] = request->method;
    parts[1] = request->target;
    parts[2] = request->content_type;
    for (size_t i = 0; i < route->field_count; i++) {
        bool is_found = fields[i].end == ROUTE_JSON_FOUND;
        size_t len = is_found ? json_value_compact(fields[i].value, room + used) : 0;
        parts[3 + i] = (struct span){.at = room + used, .len = len};
        used += len;
    }
    return true;
}

static int print_body(const struct route_request *request,
                      unsigned char ret_digest[TASK_FINGERPRINT_BYTES], struct error *err)
{
    const struct span parts[] = {request->method, request->target, request->content_type,
                                 request->body};

    return fingerprint_parts(parts, sizeof parts / sizeof *parts, ret_digest, err);
}

static int print_fields(const struct route_settings *route, const struct route_request *request,
                        unsigned char ret_digest[TASK_FINGERPRINT_BYTES], struct error *err)
{
    struct span parts[3 + ROUTE_FIELDS_MAX];
    /* Fields may overlap ("a" and "a.b"), so each may need as many bytes as the body has. */
    char *room = malloc(request->body.len * route->field_count + 1);

    if (room == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a fingerprint");
    }
    int failed = gather_fields(route, request, room, parts)
                     ? fingerprint_parts(parts, 3 + route->field_count, ret_digest, err)
                     : print_body(request, ret_digest, err);
    free(room);
    return failed;
}

int route_fingerprint(const struct route_settings *route, const struct route_request *request,
                      unsigned char ret_digest[TASK_FINGERPRINT_BYTES], struct error *err)
{
    switch (route->print) {
    case ROUTE_PRINT_OFF:
        memset(ret_digest, 0, TASK_FINGERPRINT_BYTES);
        return 0;
    case ROUTE_PRINT_FIELDS:
        return print_fields(route, request, ret_digest, err);
    case ROUTE_PRINT_BODY:
    default:
        return print_body(request, ret_digest, err);
    }
}
