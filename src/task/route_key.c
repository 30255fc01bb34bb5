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

/* A name that comes twice means different things to different readers. */
static enum route_json find_member(struct span object, struct span name, struct span *ret_value)
{
    struct json_walk walk;
    struct span found, value;
    enum json_step step = JSON_STEP_BROKEN;
    size_t count = 0;

    if (!json_walk_begin(&walk, object, '{')) {
        return ROUTE_JSON_MISSING;
    }
    while ((step = json_walk_next(&walk, &found, &value)) == JSON_STEP_VALUE) {
        if (json_name_is(found, name)) {
            *ret_value = value;
            count++;
        }
    }
    if (step != JSON_STEP_END || count > 1) {
        return ROUTE_JSON_UNSURE;
    }
    return count == 1 ? ROUTE_JSON_FOUND : ROUTE_JSON_MISSING;
}

static enum route_json find_element(struct span array, struct span index, struct span *ret_value)
{
    struct json_walk walk;
    struct span name, value;
    int64_t wanted, at = 0;

    if (!span_to_int(index, &wanted) || !json_walk_begin(&walk, array, '[')) {
        return ROUTE_JSON_MISSING;
    }
    while (json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE) {
        if (at++ == wanted) {
            *ret_value = value;
            return ROUTE_JSON_FOUND;
        }
    }
    return ROUTE_JSON_MISSING;
}

enum route_json route_json_find(struct span json, struct span path, struct span *ret_value)
{
    struct span name, value;
    bool has_more = true;

    if (!json_value_take(&json, &value) || json.len > 0) {
        return ROUTE_JSON_UNSURE;
    }
    while (has_more) {
        struct span found = {0};
        has_more = span_cut(&path, '.', &name);
        enum route_json step = value.at[0] == '[' ? find_element(value, name, &found)
                                                  : find_member(value, name, &found);
        if (step != ROUTE_JSON_FOUND) {
            return step;
        }
        value = found;
    }
    *ret_value = value;
    return ROUTE_JSON_FOUND;
}

/* Method, target and content type, then a value for each field; what is missing is nothing, which no
 * value is. False: the whole body has to stand for itself. */
static bool gather_fields(const struct route_settings *route, const struct route_request *request,
                          char *room, struct span parts[3 + ROUTE_FIELDS_MAX])
{
    size_t used = 0;

    parts[0] = request->method;
    parts[1] = request->target;
    parts[2] = request->content_type;
    for (size_t i = 0; i < route->field_count; i++) {
        struct span value = SPAN("");
        enum route_json found = route_json_find(request->body, route->fields[i], &value);
        if (found == ROUTE_JSON_UNSURE) {
            return false;
        }
        size_t len = found == ROUTE_JSON_FOUND ? json_value_compact(value, room + used) : 0;
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
