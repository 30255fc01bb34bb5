/* SPDX-License-Identifier: MIT
 *
 * fuzz_task_json -- a task as anybody may write it. What must hold for any input: it is refused with
 * a reason that renders as JSON, or what comes out keeps to every rule that delivery and the stores
 * rely on. Beside it the value skipper is held against jansson: they agree on what JSON is, but for
 * the few things that the skipper leaves to others.
 */
#include "base/json_value.h"
#include "edge/parse_task.h"
#include "edge/problem.h"
#include "task/url.h"
#include "task/fields.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define NOW_MS INT64_C(1800000000000)

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

static void holds(bool claim, const char *text)
{
    if (!claim) {
        fprintf(stderr, "does not hold: %s\n", text);
        abort();
    }
}

#define HOLDS(claim) holds((claim), #claim)

static int parse_policy(void *user, struct span json, struct arena *arena,
                        struct daruma_policy *ret_policy, struct error *err)
{
    struct span rest = json, value;

    (void)user, (void)arena, (void)ret_policy;
    HOLDS(json_value_take(&rest, &value) && rest.len == 0 && json.at[0] == '{');
    return json.len > 30 ? fail_field(err, FAULT_INPUT, "max_attempts", "too long") : 0;
}

static void check_fields(struct span fields, size_t count_max)
{
    struct span name, value;
    size_t count = 0;

    while (fields_next(&fields, &name, &value)) {
        HOLDS(fields_name_is_token(name) || memchr(name.at, '/', name.len) != NULL);
        HOLDS(fields_value_is_clean(value));
        count++;
    }
    HOLDS(count <= count_max);
}

static void check_line(struct span text)
{
    HOLDS(text.len == 0 || memchr(text.at, '\n', text.len) == NULL);
}

static void check_taken(const struct submission *in)
{
    HOLDS(in->target.len == 0 || url_refuse(in->target) == NULL);
    HOLDS(in->key.len == 0 || task_key_is_valid(in->key));
    HOLDS(in->method.len == 0 || fields_name_is_token(in->method));
    HOLDS(in->delay_ms >= 0 && in->delay_ms <= ENGINE_DUE_MAX_MS);
    HOLDS(in->due_at_ms >= 0 && in->due_at_ms <= NOW_MS + ENGINE_DUE_MAX_MS);
    HOLDS(in->delay_ms == 0 || in->due_at_ms == 0);
    HOLDS(in->deadline_ms >= 0 && in->options.timeout_ms >= 0);
    check_fields(in->headers, TASK_HEADERS_MAX + 1);
    check_fields(in->labels, TASK_LABELS_MAX);
    check_line(in->options.retry);
    check_line(in->options.callback);
}

static void check_refused(int failed, const struct error *error)
{
    struct buf out;
    struct writer writer = {.out = &out};

    HOLDS(failed == FAULT_INPUT && error->fault == failed && error->text[0] != '\0');
    buf_init(&out, 65536);
    problem_write(&writer, problem_of_fault(failed), problem_detail(error), span_of(error->field));
    HOLDS(writer.failed == 0);
    json_t *read = json_loadb(out.at, out.len, 0, NULL);
    HOLDS(read != NULL);
    json_decref(read);
    buf_done(&out);
}

static void check_task(struct span text)
{
    const struct parse_options options = {.parse_policy = parse_policy, .now_ms = NOW_MS};
    struct submission submission = {.arena = parse_arena_new(text.len)};
    struct error error = {0};

    HOLDS(submission.arena != NULL);
    int failed = parse_task(&options, text, &submission, &error);
    if (failed == 0) {
        check_taken(&submission);
    } else {
        check_refused(failed, &error);
    }
    arena_free(submission.arena);
}

/* What jansson refuses although it is well formed. */
static bool is_excused(const json_error_t *error)
{
    enum json_error_code code = json_error_code(error);

    return code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
           strncmp(error->text, "invalid Unicode", 15) == 0;
}

static size_t depth_of(struct span text)
{
    size_t depth = 0, deepest = 0;
    bool is_quoted = false;

    for (size_t i = 0; i < text.len; i++) {
        char byte = text.at[i];
        if (is_quoted && byte == '\\') {
            i++;
        } else if (byte == '"') {
            is_quoted = !is_quoted;
        } else if (!is_quoted && (byte == '[' || byte == '{')) {
            deepest = ++depth > deepest ? depth : deepest;
        } else if (!is_quoted && (byte == ']' || byte == '}')) {
            depth -= depth > 0;
        }
    }
    return deepest;
}

/* A string stands for the same text. */
static void check_text(struct span value, const json_t *read)
{
    char *bytes = malloc(value.len);
    size_t len = 0;

    HOLDS(bytes != NULL);
    bool is_text = json_value_text(value, bytes, &len);
    HOLDS(len <= value.len);
    if (json_is_string(read)) {
        struct span wanted = {.at = json_string_value(read), .len = json_string_length(read)};
        HOLDS(is_text && span_equal((struct span){.at = bytes, .len = len}, wanted));
    } else {
        HOLDS(!is_text);
    }
    free(bytes);
}

static void check_skipper(struct span text)
{
    json_error_t error = {0};
    struct span rest = text, value;
    bool is_taken = json_value_take(&rest, &value) && rest.len == 0;

    if (!span_is_utf8(text) || memchr(text.at, '\0', text.len) != NULL) {
        HOLDS(!is_taken || !span_is_utf8(text));
        return; /* jansson overlooks a NUL behind a number */
    }
    json_t *read = json_loadb(text.at, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (is_taken) {
        char *compact = malloc(value.len + 1);
        HOLDS(compact != NULL);
        HOLDS(read != NULL || is_excused(&error));
        struct span line = {.at = compact, .len = json_value_compact(value, compact)};
        check_line(line);
        struct span left = line, again;
        HOLDS(json_value_take(&left, &again) && span_equal(again, line));
        if (value.at[0] == '"') {
            check_text(value, read);
        }
        free(compact);
    } else {
        HOLDS(read == NULL || depth_of(text) > JSON_DEPTH_MAX);
    }
    json_decref(read);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    struct span text = {.at = (const char *)input, .len = length};

    check_task(text);
    check_skipper(text);
    return 0;
}
