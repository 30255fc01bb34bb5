/* SPDX-License-Identifier: MIT
 *
 * parse_parts -- the members of a task that are objects themselves: headers, labels, retry,
 * callback; and the header that gives a key.
 */
#include "edge/parse_internal.h"

#include "base/auto.h"
#include "task/fields.h"
#include "task/url.h"

#include <stdio.h>

#define LABELS_BYTES_MAX (TASK_LABELS_MAX * 2 * (TASK_LABEL_BYTES_MAX + 2))
#define ON_TEXT          "on lists succeeded, failed or both"

/* "headers.x-name", cut when it is long. */
static int refuse_part(struct parser *parser, const char *object, struct span name,
                       const char *text)
{
    char field[ERROR_FIELD_MAX];

    (void)snprintf(field, sizeof field, "%s.%.*s", object, SPAN_ARGS(name));
    return fail_field(parser->err, FAULT_INPUT, field, "%s", text);
}

/* Reads one member of the object; `user` is what it is read into. */
typedef int (*part_fn)(struct parser *parser, struct span name, struct span value, void *user);

/* Each member in turn. The object is well formed: it has been walked over as a value. */
static int each_part(struct parser *parser, struct span object, part_fn read, void *user)
{
    struct span name, value, text;
    struct json_walk walk;

    (void)json_walk_begin(&walk, object, '{'); /* the caller has seen the bracket */
    while (json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE) {
        int failed = parse_name(parser, name, &text);
        failed = failed != 0 ? failed : read(parser, text, value, user);
        if (failed != 0) {
            return failed;
        }
    }
    return 0;
}

/* A list of fields while it grows. */
struct list {
    struct buf fields;
    size_t count;
};

static int keep_list(struct parser *parser, const struct list *list, struct span *ret_fields)
{
    struct span copy = arena_copy(parser->submission->arena, buf_span(&list->fields));

    if (copy.at == NULL) {
        return parse_no_memory(parser);
    }
    *ret_fields = copy;
    return 0;
}

/* What delivery writes itself, and what belongs to one connection only. */
static bool is_ours(struct span name)
{
    static const char *const names[] = {
        "host",       "content-length",  "transfer-encoding",
        "connection", "keep-alive",      "proxy-connection",
        "te",         "trailer",         "upgrade",
        "expect",     "idempotency-key",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (span_is_nocase(name, names[i])) {
            return true;
        }
    }
    return span_is_nocase(span_until(name, 9), "x-daruma-");
}

static bool has_header(struct span fields, struct span name)
{
    struct span found, value;

    while (fields_next(&fields, &found, &value)) {
        bool is_same = found.len == name.len;
        for (size_t i = 0; is_same && i < name.len; i++) {
            is_same = (found.at[i] | 0x20) == (name.at[i] | 0x20);
        }
        if (is_same) {
            return true;
        }
    }
    return false;
}

static const char *refuse_header(const struct list *list, struct span name)
{
    return !fields_name_is_token(name)                 ? "this is not the name of a header"
           : is_ours(name)                             ? "the server sets this header itself"
           : has_header(buf_span(&list->fields), name) ? "a header is given twice"
                                                       : NULL;
}

static int add_header(struct parser *parser, struct span name, struct span value, void *user)
{
    struct list *list = user;
    const char *refusal = refuse_header(list, name);
    struct span text = SPAN("\n");

    if (refusal != NULL) {
        return refuse_part(parser, "headers", name, refusal);
    }
    int failed = value.at[0] == '"' ? parse_string(parser, value, "headers", &text) : 0;
    if (failed != 0) {
        return failed;
    }
    if (!fields_value_is_clean(text)) { /* what is no string is none either */
        return refuse_part(parser, "headers", name,
                           "the value of a header is a string without control characters");
    }
    failed = ++list->count > TASK_HEADERS_MAX ? FAULT_LIMIT
                                              : fields_add(&list->fields, name, span_trim(text));
    if (failed == FAULT_LIMIT) {
        return fail_field(parser->err, FAULT_INPUT, "headers",
                          "there are more than %d headers or %d bytes of them", TASK_HEADERS_MAX,
                          TASK_HEADERS_BYTES_MAX);
    }
    return failed == 0 ? 0 : parse_no_memory(parser);
}

int parse_headers(struct parser *parser, struct span value)
{
    struct list list = {0};

    if (value.at[0] != '{') {
        return fail_field(parser->err, FAULT_INPUT, "headers", "headers must be an object");
    }
    buf_init(&list.fields, TASK_HEADERS_BYTES_MAX);
    int failed = each_part(parser, value, add_header, &list);
    failed = failed != 0 ? failed : keep_list(parser, &list, &parser->submission->headers);
    buf_done(&list.fields);
    return failed;
}

int parse_default_type(struct parser *parser)
{
    struct span given, *headers = &parser->submission->headers;
    AUTO(buf_done) struct buf fields;

    buf_init(&fields, TASK_HEADERS_BYTES_MAX * 2);
    if (fields_find(*headers, "content-type", &given)) {
        return 0;
    }
    int failed = buf_add(&fields, *headers);
    failed =
        failed != 0 ? failed : fields_add(&fields, SPAN("content-type"), SPAN("application/json"));
    struct span copy = arena_copy(parser->submission->arena, buf_span(&fields));
    if (failed != 0 || copy.at == NULL) {
        return parse_no_memory(parser);
    }
    *headers = copy;
    return 0;
}

/* Letters, digits and a few signs: it has to fit into a query, label.NAME=. */
static bool is_label_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char byte = name.at[i], letter = (char)(byte | 0x20);
        bool is_alnum = (byte >= '0' && byte <= '9') || (letter >= 'a' && letter <= 'z');
        if (!is_alnum && (byte == '\0' || strchr("-_./", byte) == NULL)) {
            return false;
        }
    }
    return name.len > 0 && name.len <= TASK_LABEL_BYTES_MAX;
}

static bool has_label(struct span fields, struct span name)
{
    struct span found, value;

    while (fields_next(&fields, &found, &value)) {
        if (span_equal(found, name)) {
            return true;
        }
    }
    return false;
}

static int add_label(struct parser *parser, struct span name, struct span value, void *user)
{
    struct list *list = user;
    struct span text = SPAN("\n");

    if (!is_label_name(name)) {
        return refuse_part(parser, "labels", name, "this is not the name of a label");
    }
    if (has_label(buf_span(&list->fields), name)) {
        return refuse_part(parser, "labels", name, "a label is given twice");
    }
    int failed = value.at[0] == '"' ? parse_string(parser, value, "labels", &text) : 0;
    if (failed != 0) {
        return failed;
    }
    if (text.len > TASK_LABEL_BYTES_MAX || !fields_value_is_clean(text)) {
        return refuse_part(parser, "labels", name,
                           "a label is a short string without control characters");
    }
    if (++list->count > TASK_LABELS_MAX) {
        return fail_field(parser->err, FAULT_INPUT, "labels", "there are more than %d labels",
                          TASK_LABELS_MAX);
    }
    return fields_add(&list->fields, name, text) == 0 ? 0 : parse_no_memory(parser);
}

int parse_labels(struct parser *parser, struct span value)
{
    struct list list = {0};

    if (value.at[0] != '{') {
        return fail_field(parser->err, FAULT_INPUT, "labels", "labels must be an object");
    }
    buf_init(&list.fields, LABELS_BYTES_MAX);
    int failed = each_part(parser, value, add_label, &list);
    failed = failed != 0 ? failed : keep_list(parser, &list, &parser->submission->labels);
    buf_done(&list.fields);
    return failed;
}

/* The object as written, on one line. */
static int keep_object(struct parser *parser, const char *field, struct span text,
                       struct span *ret_kept)
{
    if (text.len > PARSE_OBJECT_BYTES_MAX) {
        return fail_field(parser->err, FAULT_INPUT, field, "%s is over %d bytes", field,
                          PARSE_OBJECT_BYTES_MAX);
    }
    char *kept = arena_alloc(parser->submission->arena, text.len + 1);
    if (kept == NULL) {
        return parse_no_memory(parser);
    }
    *ret_kept = (struct span){.at = kept, .len = json_value_compact(text, kept)};
    return 0;
}

int parse_retry(struct parser *parser, struct span value)
{
    const struct parse_options *options = parser->options;
    struct span *kept = &parser->submission->options.retry;
    char field[ERROR_FIELD_MAX];
    struct daruma_policy policy;

    if (value.at[0] != '{') {
        return fail_field(parser->err, FAULT_INPUT, "retry", "retry must be an object");
    }
    int failed = keep_object(parser, "retry", value, kept);
    if (failed != 0 || options->parse_policy == NULL) {
        return failed;
    }
    failed = options->parse_policy(options->parse_user, *kept, parser->submission->arena, &policy,
                                   parser->err);
    if (failed != 0 && parser->err != NULL) {
        (void)snprintf(field, sizeof field, "%.*s", ERROR_FIELD_MAX - 8, parser->err->field);
        (void)snprintf(parser->err->field, sizeof parser->err->field,
                       field[0] != '\0' ? "retry.%s" : "retry%s", field);
    }
    return failed;
}

/* Which of them it names: a bit. 0: none of them. */
static unsigned event_bit(struct span event)
{
    return span_is(event, "\"succeeded\"") ? 1 : span_is(event, "\"failed\"") ? 2 : 0;
}

static int check_events(struct parser *parser, struct span events)
{
    struct span name, event;
    struct json_walk walk;
    unsigned seen = 0;

    if (!json_walk_begin(&walk, events, '[')) {
        return refuse_part(parser, "callback", SPAN("on"), ON_TEXT);
    }
    while (json_walk_next(&walk, &name, &event) == JSON_STEP_VALUE) {
        unsigned bit = event_bit(event);
        if (bit == 0 || (seen & bit) != 0) {
            return refuse_part(parser, "callback", SPAN("on"), ON_TEXT);
        }
        seen |= bit;
    }
    return seen != 0 ? 0 : refuse_part(parser, "callback", SPAN("on"), ON_TEXT);
}

static int check_url(struct parser *parser, struct span value)
{
    struct span url;
    int failed = parse_string(parser, value, "callback.url", &url);

    if (failed != 0) {
        return failed;
    }
    const char *refusal = url_refuse(url);
    return refusal == NULL ? 0
                           : fail_field(parser->err, FAULT_INPUT, "callback.url",
                                        "the url cannot be used: it has %s", refusal);
}

enum { CALLBACK_URL = 1, CALLBACK_ON = 2 };

static int check_callback(struct parser *parser, struct span name, struct span value, void *user)
{
    unsigned bit = span_is(name, "url") ? CALLBACK_URL : span_is(name, "on") ? CALLBACK_ON : 0;
    unsigned *seen = user;

    if (bit == 0) {
        return refuse_part(parser, "callback", name, "there is no field of this name");
    }
    if ((*seen & bit) != 0) {
        return refuse_part(parser, "callback", name, "a field is given twice");
    }
    *seen |= bit;
    return bit == CALLBACK_URL ? check_url(parser, value) : check_events(parser, value);
}

int parse_callback(struct parser *parser, struct span value)
{
    unsigned seen = 0;

    if (value.at[0] == '{') {
        int failed = each_part(parser, value, check_callback, &seen);
        if (failed != 0) {
            return failed;
        }
    }
    if ((seen & CALLBACK_URL) == 0) {
        return fail_field(parser->err, FAULT_INPUT, "callback",
                          "callback must be an object with a url");
    }
    return keep_object(parser, "callback", value, &parser->submission->options.callback);
}

/* What stands between the quotes of an RFC 8941 string; false: not one. */
static bool unquote(struct span text, char *ret_bytes, size_t *ret_len)
{
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '"') {
            return false;
        }
        if (text.at[i] == '\\') {
            i++;
            if (i == text.len || (text.at[i] != '"' && text.at[i] != '\\')) {
                return false;
            }
        }
        ret_bytes[len++] = text.at[i];
    }
    *ret_len = len;
    return true;
}

int parse_key(struct span header, struct arena *arena, struct span *ret_key, struct error *err)
{
    struct span text = span_trim(header);
    bool is_quoted = text.len >= 2 && text.at[0] == '"' && text.at[text.len - 1] == '"';
    char *bytes = arena_alloc(arena, text.len + 1);
    size_t len = text.len;

    if (bytes == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a key");
    }
    bool is_read = true;
    if (is_quoted) {
        is_read = unquote(span_until(span_from(text, 1), text.len - 2), bytes, &len);
    } else if (len > 0) {
        memcpy(bytes, text.at, len);
    }
    struct span key = {.at = bytes, .len = len};
    if (!is_read || !task_key_is_valid(key)) {
        return fail_field(err, FAULT_INPUT, "Idempotency-Key",
                          "a key is 1 to %d visible ASCII characters, in quotes or not",
                          TASK_KEY_MAX);
    }
    *ret_key = key;
    return 0;
}
