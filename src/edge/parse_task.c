/* SPDX-License-Identifier: MIT
 *
 * parse_task -- see parse_task.h. The text is walked once with base/json_value and nothing is built
 * from it. jansson is not used here: it changes numbers, takes a dozen nanoseconds for each byte of a
 * string, and when memory runs out it may leave bytes of a string out without a word.
 */
#include "edge/parse_internal.h"

#include "base/base64.h"
#include "edge/moment.h"
#include "task/fields.h"
#include "task/url.h"

#include <stdio.h>

#define KNOWN_MAX 200 /* the names of all members */

int parse_no_memory(struct parser *parser)
{
    return fail(parser->err, FAULT_MEMORY, "no memory for a task");
}

static int copy(struct parser *parser, struct span bytes, struct span *ret_copy)
{
    struct span made = arena_copy(parser->submission->arena, bytes);

    if (made.at == NULL) {
        return parse_no_memory(parser);
    }
    *ret_copy = made;
    return 0;
}

int parse_string(struct parser *parser, struct span value, const char *field, struct span *ret_text)
{
    size_t len;

    if (value.at[0] != '"') {
        return fail_field(parser->err, FAULT_INPUT, field, "%s must be a string", field);
    }
    char *bytes = arena_alloc(parser->submission->arena, value.len);
    if (bytes == NULL) {
        return parse_no_memory(parser);
    }
    if (!json_value_text(value, bytes, &len)) {
        return fail_field(parser->err, FAULT_INPUT, field, "%s holds half a surrogate pair", field);
    }
    *ret_text = (struct span){.at = bytes, .len = len};
    return 0;
}

int parse_name(struct parser *parser, struct span name, struct span *ret_text)
{
    struct span quoted = {.at = name.at - 1, .len = name.len + 2}; /* its quotes are still there */

    if (span_find(name, '\\') == NULL) {
        *ret_text = name;
        return 0;
    }
    return parse_string(parser, quoted, "", ret_text);
}

static int want_int(struct parser *parser, struct span value, const char *field, int64_t min,
                    int64_t *ret_number)
{
    int64_t number;

    if (!span_to_int(value, &number) || number < min || number > ENGINE_DUE_MAX_MS) {
        return fail_field(parser->err, FAULT_INPUT, field,
                          "%s must be a whole number of milliseconds from %lld to %lld", field,
                          (long long)min, (long long)ENGINE_DUE_MAX_MS);
    }
    *ret_number = number;
    return 0;
}

static int read_target(struct parser *parser, struct span value)
{
    struct span target;
    int failed = parse_string(parser, value, "target", &target);

    if (failed != 0) {
        return failed;
    }
    const char *refusal = url_refuse(target);
    if (refusal != NULL) {
        return fail_field(parser->err, FAULT_INPUT, "target",
                          "the target cannot be used: it has %s", refusal);
    }
    parser->submission->target = target;
    return 0;
}

static int read_method(struct parser *parser, struct span value)
{
    struct span method;
    int failed = parse_string(parser, value, "method", &method);

    if (failed != 0) {
        return failed;
    }
    if (!fields_name_is_token(method) || method.len > TASK_METHOD_BYTES_MAX ||
        span_is_nocase(method, "CONNECT") || span_is_nocase(method, "TRACE")) {
        return fail_field(parser->err, FAULT_INPUT, "method", "the method cannot be used");
    }
    parser->submission->method = method;
    return 0;
}

/* At most one of body, json, body_base64 and article. */
static int claim_body(struct parser *parser, const char *field)
{
    if (parser->has_body) {
        return fail_field(parser->err, FAULT_INPUT, field,
                          "only one of body, json, body_base64 and article can be given");
    }
    parser->has_body = true;
    return 0;
}

static int read_body(struct parser *parser, struct span value)
{
    int failed = claim_body(parser, "body");

    if (failed == 0 && value.at[0] != '"') {
        return fail_field(parser->err, FAULT_INPUT, "body",
                          "body must be a string; json takes any value");
    }
    return failed != 0 ? failed : parse_string(parser, value, "body", &parser->submission->body);
}

static int read_json(struct parser *parser, struct span value)
{
    int failed = claim_body(parser, "json");

    parser->is_json = true;
    return failed != 0 ? failed : copy(parser, value, &parser->submission->body);
}

/* Short for "json": {"article": …}; the engine sees to it that the queue takes articles. */
static int read_article(struct parser *parser, struct span value)
{
    static const char before[] = "{\"article\":";
    int failed = claim_body(parser, "article");

    if (failed != 0) {
        return failed;
    }
    char *bytes = arena_alloc(parser->submission->arena, sizeof before + value.len);
    if (bytes == NULL) {
        return parse_no_memory(parser);
    }
    memcpy(bytes, before, sizeof before - 1);
    span_copy(bytes + sizeof before - 1, value);
    bytes[sizeof before - 1 + value.len] = '}';
    parser->submission->body = (struct span){.at = bytes, .len = sizeof before + value.len};
    parser->submission->is_article = parser->is_json = true;
    return 0;
}

static int read_base64(struct parser *parser, struct span value)
{
    struct span text, *body = &parser->submission->body;
    int failed = claim_body(parser, "body_base64");

    failed = failed != 0 ? failed : parse_string(parser, value, "body_base64", &text);
    if (failed != 0) {
        return failed;
    }
    if (!base64_decode(text, parser->submission->arena, body)) {
        return fail_field(parser->err, FAULT_INPUT, "body_base64", "body_base64 is not base64");
    }
    return body->at != NULL ? 0 : parse_no_memory(parser);
}

static int read_key(struct parser *parser, struct span value)
{
    struct span key, header = parser->options->key;
    int failed = parse_string(parser, value, "key", &key);

    if (failed != 0) {
        return failed;
    }
    if (!task_key_is_valid(key)) {
        return fail_field(parser->err, FAULT_INPUT, "key",
                          "a key is 1 to %d visible ASCII characters", TASK_KEY_MAX);
    }
    if (header.len > 0 && !span_equal(header, key)) {
        return fail_field(parser->err, FAULT_INPUT, "key",
                          "key and the Idempotency-Key header differ");
    }
    parser->submission->key = key;
    return 0;
}

/* At most one of delay_ms and due_at. */
static int claim_due(struct parser *parser, const char *field)
{
    if (parser->has_due) {
        return fail_field(parser->err, FAULT_INPUT, field,
                          "only one of delay_ms and due_at can be given");
    }
    parser->has_due = true;
    return 0;
}

static int read_delay(struct parser *parser, struct span value)
{
    int failed = claim_due(parser, "delay_ms");

    return failed != 0 ? failed
                       : want_int(parser, value, "delay_ms", 0, &parser->submission->delay_ms);
}

static int read_due(struct parser *parser, struct span value)
{
    struct span text;
    int64_t due_at_ms;
    int failed = claim_due(parser, "due_at");

    failed = failed != 0 ? failed : parse_string(parser, value, "due_at", &text);
    if (failed != 0) {
        return failed;
    }
    if (!moment_parse(text, &due_at_ms)) {
        return fail_field(parser->err, FAULT_INPUT, "due_at",
                          "due_at is not a time such as 2026-11-15T10:20:30.000Z");
    }
    if (due_at_ms - parser->options->now_ms > ENGINE_DUE_MAX_MS) {
        return fail_field(parser->err, FAULT_INPUT, "due_at", "due_at is too far ahead");
    }
    parser->submission->due_at_ms = due_at_ms;
    return 0;
}

static int read_deadline(struct parser *parser, struct span value)
{
    return want_int(parser, value, "deadline_ms", 1, &parser->submission->deadline_ms);
}

static int read_timeout(struct parser *parser, struct span value)
{
    int64_t *timeout_ms = &parser->submission->options.timeout_ms;
    int failed = want_int(parser, value, "timeout_ms", 1, timeout_ms);

    if (failed == 0 && *timeout_ms > PARSE_TIMEOUT_MAX_MS) {
        return fail_field(parser->err, FAULT_INPUT, "timeout_ms", "timeout_ms is at most %d",
                          PARSE_TIMEOUT_MAX_MS);
    }
    return failed;
}

static int read_repeatable(struct parser *parser, struct span value)
{
    struct task_options *options = &parser->submission->options;

    options->has_repeatable = true;
    options->repeatable = span_is(value, "true");
    if (options->repeatable || span_is(value, "false")) {
        return 0;
    }
    return fail_field(parser->err, FAULT_INPUT, "repeatable", "repeatable must be true or false");
}

static const struct {
    const char *name;
    int (*read)(struct parser *parser, struct span value);
} members[] = {
    {"target", read_target},      {"method", read_method},
    {"headers", parse_headers},   {"body", read_body},
    {"json", read_json},          {"body_base64", read_base64},
    {"article", read_article},    {"key", read_key},
    {"labels", parse_labels},     {"delay_ms", read_delay},
    {"due_at", read_due},         {"deadline_ms", read_deadline},
    {"timeout_ms", read_timeout}, {"repeatable", read_repeatable},
    {"retry", parse_retry},       {"callback", parse_callback},
};

/* What other queues call it. */
static const struct {
    const char *said, *meant;
} others[] = {
    {"url", "target"},          {"uri", "target"},
    {"endpoint", "target"},     {"payload", "json"},
    {"data", "json"},           {"args", "json"},
    {"delay", "delay_ms"},      {"run_at", "due_at"},
    {"scheduled_at", "due_at"}, {"deadline", "deadline_ms"},
    {"timeout", "timeout_ms"},  {"max_attempts", "retry"},
    {"attempts", "retry"},      {"max_retries", "retry"},
    {"retries", "retry"},       {"policy", "retry"},
    {"header", "headers"},      {"idempotency_key", "key"},
    {"tags", "labels"},         {"label", "labels"},
    {"webhook", "callback"},    {"callback_url", "callback"},
};

/* Names what may be meant, or what there is. */
static int refuse_member(struct parser *parser, struct span name)
{
    char field[ERROR_FIELD_MAX] = "", known[KNOWN_MAX] = "";
    size_t len = 0;

    memcpy(field, name.at, name.len < sizeof field ? name.len : sizeof field - 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (span_is(name, others[i].said)) {
            return fail_field(parser->err, FAULT_INPUT, field,
                              "there is no field of this name, did you mean %s?", others[i].meant);
        }
    }
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) { /* fits: see KNOWN_MAX */
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", i > 0 ? ", " : "",
                                members[i].name);
    }
    return fail_field(parser->err, FAULT_INPUT, field,
                      "there is no field of this name; a task has %s", known);
}

static int read_member(struct parser *parser, struct span written, struct span value)
{
    struct span name;
    int failed = parse_name(parser, written, &name);

    if (failed != 0) {
        return failed;
    }
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (!span_is(name, members[i].name)) {
            continue;
        }
        if ((parser->seen & 1u << i) != 0) {
            return fail_field(parser->err, FAULT_INPUT, members[i].name, "%s is given twice",
                              members[i].name);
        }
        parser->seen |= 1u << i;
        return members[i].read(parser, value);
    }
    return refuse_member(parser, name);
}

/* Member after member; what comes behind a mistake is not looked at. */
static int read_members(struct parser *parser, struct span text)
{
    struct json_walk walk;
    struct span name, value;
    enum json_step step;

    if (!json_walk_begin(&walk, text, '{')) {
        return fail(parser->err, FAULT_INPUT, "a task is a JSON object");
    }
    while ((step = json_walk_next(&walk, &name, &value)) == JSON_STEP_VALUE) {
        int failed = read_member(parser, name, value);
        if (failed != 0) {
            return failed;
        }
    }
    if (step == JSON_STEP_BROKEN || walk.rest.len > 0) {
        return fail(parser->err, FAULT_INPUT,
                    "not valid JSON, or nested too deeply: behind byte %zu",
                    (size_t)(walk.rest.at - text.at));
    }
    return 0;
}

int parse_task(const struct parse_options *options, struct span text, struct submission *submission,
               struct error *err)
{
    struct parser parser = {.options = options, .submission = submission, .err = err};

    if (!span_is_utf8(text)) {
        return fail(err, FAULT_INPUT, "not valid JSON: not UTF-8");
    }
    int failed = read_members(&parser, text);
    if (failed == 0 && submission->key.len == 0 && options->key.len > 0) {
        failed = copy(&parser, options->key, &submission->key);
    }
    return failed != 0 || !parser.is_json ? failed : parse_default_type(&parser);
}

struct arena *parse_arena_new(size_t json_bytes)
{
    return arena_new(PARSE_ARENA_TIMES * json_bytes + PARSE_ARENA_EXTRA);
}
