/* SPDX-License-Identifier: MIT
 *
 * classify_error -- the error inside an answer, wherever it stands: the whole body, or one event of a
 * stream that had begun with 200. Nothing is allocated; what is too long is cut.
 */
#include "deliver/classify_internal.h"

#include "base/json_value.h"

/* Where a string that is longer than `max` is cut: before an escape, not within one. */
static size_t cut_at(struct span value, size_t max)
{
    size_t at = 1, step = 0;

    for (; at + step < max; at += step) {
        bool is_escape = value.at[at] == '\\', is_unicode = is_escape && value.at[at + 1] == 'u';
        bool is_pair = is_unicode && (value.at[at + 2] | 0x20) == 'd' &&
                       strchr("89abAB", value.at[at + 3]) != NULL;
        step = is_pair ? 12 : is_unicode ? 6 : is_escape ? 2 : 1;
        if (at + step >= max) {
            break;
        }
    }
    return at;
}

/* What a string stands for, as much of it as there is room for. */
static void take_text(struct span value, char *text, size_t max)
{
    char piece[PROVIDER_TEXT_MAX + 2];
    size_t len = 0;

    if (value.len < 2 || value.at[0] != '"') {
        return;
    }
    if (value.len > max) {
        size_t cut = cut_at(value, max);
        memcpy(piece, value.at, cut);
        piece[cut] = '"';
        value = (struct span){.at = piece, .len = cut + 1};
    }
    if (!json_value_text(value, text, &len)) {
        len = 0;
    }
    for (size_t i = 0; i < len; i++) {
        text[i] = text[i] != '\0' ? text[i] : '?';
    }
    text[len] = '\0';
}

static void read_details(struct span details, struct provider_error *error)
{
    struct json_walk walk;
    struct span name, value;

    if (!json_walk_begin(&walk, details, '{')) {
        return;
    }
    while (json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE) {
        if (span_is(name, "error_code")) {
            take_text(value, error->detail, PROVIDER_WORD_MAX);
        }
    }
}

static void take_code(struct span value, struct provider_error *error)
{
    int64_t number;

    take_text(value, error->code, PROVIDER_WORD_MAX);
    if (span_to_int(value, &number) && number > 0 && number < 1000) {
        error->number = (int)number;
    }
}

static void read_error(struct span object, struct provider_error *error)
{
    struct json_walk walk;
    struct span name, value;

    error->is_given = true;
    if (!json_walk_begin(&walk, object, '{')) {
        take_text(object, error->text, PROVIDER_TEXT_MAX); /* {"error":"text"}: a proxy's */
        return;
    }
    while (json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE) {
        if (span_is(name, "type")) {
            take_text(value, error->type, PROVIDER_WORD_MAX);
        } else if (span_is(name, "code")) {
            take_code(value, error);
        } else if (span_is(name, "message")) {
            take_text(value, error->text, PROVIDER_TEXT_MAX);
        } else if (span_is(name, "details")) {
            read_details(value, error);
        }
    }
}

static bool read_object(struct span json, struct provider_error *error)
{
    struct json_walk walk;
    struct span name, value;

    if (!json_walk_begin(&walk, json, '{')) {
        return false;
    }
    while (json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE) {
        if (span_is(name, "error") && (value.at[0] == '{' || value.at[0] == '"')) {
            read_error(value, error);
            return true;
        }
        if (span_is(name, "object") && span_is_nocase(value, "\"error\"")) {
            read_error(json, error); /* without a wrapping: Mistral, vLLM */
            return true;
        }
    }
    return false;
}

/* "data: {…}" lines of text/event-stream. */
static bool read_stream(struct span body, struct provider_error *error)
{
    struct span line;

    while (body.len > 0) {
        (void)span_cut(&body, '\n', &line); /* the last one may have no end */
        if (span_starts(line, "data:") && read_object(span_trim(span_from(line, 5)), error)) {
            return true;
        }
    }
    return false;
}

bool provider_error_read(struct span body, struct provider_error *ret_error)
{
    *ret_error = (struct provider_error){0};
    for (size_t i = 0; i < body.len; i++) {
        if (body.at[i] == '{') {
            return read_object(span_from(body, i), ret_error);
        }
        if (body.at[i] != ' ' && body.at[i] != '\n' && body.at[i] != '\r' && body.at[i] != '\t') {
            break;
        }
    }
    return read_stream(body, ret_error);
}

void provider_error_clean(char *text)
{
    size_t len = strlen(text), from = len;

    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
            text[i] = ' ';
        }
    }
    while (from > 0 && len - from < 4 && !span_is_utf8((struct span){.at = text, .len = from})) {
        from--;
    }
    if (span_is_utf8((struct span){.at = text, .len = from})) {
        text[from] = '\0';
        return;
    }
    for (size_t i = 0; i < len; i++) {
        text[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
    }
}
