/* SPDX-License-Identifier: MIT
 *
 * article -- see article.h.
 */
#include "task/article.h"

#include "base/json_value.h"
#include "task/fields.h"
#include "task/task.h"

#include <stdio.h>

static int refuse(struct error *err, struct span name, const char *expected)
{
    char field[ERROR_FIELD_MAX];

    (void)snprintf(field, sizeof field, "article.%.*s", SPAN_ARGS(name)); /* cut if long */
    return fail_field(err, FAULT_INPUT, field, "%s: expected %s", field, expected);
}

static bool is_string(struct span value)
{
    return value.len >= 2 && value.at[0] == '"';
}

static bool is_number(struct span value)
{
    return value.len > 0 && (value.at[0] == '-' || (value.at[0] >= '0' && value.at[0] <= '9'));
}

static struct span inside(struct span string)
{
    return (struct span){.at = string.at + 1, .len = string.len - 2};
}

static int read_part(struct article *article, struct span name, struct span value,
                     struct error *err)
{
    if (span_is(name, "id") && article->id.at == NULL && is_number(value)) {
        article->id = value;
        return 0;
    }
    struct span *part = span_is(name, "id")        ? &article->id
                        : span_is(name, "title")   ? &article->title
                        : span_is(name, "content") ? &article->content
                                                   : NULL;
    if (part == NULL) {
        return refuse(err, name, "no member but id, title and content");
    }
    if (part->at != NULL) {
        return refuse(err, name, "it once");
    }
    if (!is_string(value)) {
        return refuse(err, name, part == &article->id ? "a string or a number" : "a string");
    }
    *part = inside(value);
    return 0;
}

static int read_parts(struct span object, struct article *article, struct error *err)
{
    struct json_walk walk;
    struct span name, value;

    if (!json_walk_begin(&walk, object, '{')) {
        return fail_field(err, FAULT_INPUT, "article",
                          "article: expected an object with id, title and content");
    }
    while (json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE) {
        int failed = read_part(article, name, value, err);
        if (failed != 0) {
            return failed;
        }
    }
    if (article->id.at == NULL || article->id.len == 0) {
        return refuse(err, SPAN("id"), "a string or a number that is not empty");
    }
    if (article->title.at == NULL) {
        return refuse(err, SPAN("title"), "a string");
    }
    if (article->content.at == NULL || article->content.len == 0) {
        return refuse(err, SPAN("content"), "a string that is not empty");
    }
    return 0;
}

int article_read(struct span json, struct article *ret_article, struct error *err)
{
    static const char shape[] = "{\"article\":{\"id\":…,\"title\":…,\"content\":…}}";
    struct article article = {0};
    struct json_walk walk;
    struct span rest = json, whole, name, value, more;

    if (!span_is_utf8(json) || !json_value_take(&rest, &whole) || rest.len > 0 ||
        !json_walk_begin(&walk, whole, '{') ||
        json_walk_next(&walk, &name, &value) != JSON_STEP_VALUE || !span_is(name, "article")) {
        return fail_field(err, FAULT_INPUT, "article", "article: expected the JSON %s", shape);
    }
    if (json_walk_next(&walk, &more, &rest) != JSON_STEP_END) {
        return fail_field(err, FAULT_INPUT, "article", "article: expected nothing beside it in %s",
                          shape);
    }
    int failed = read_parts(value, &article, err);
    if (failed == 0) {
        *ret_article = article;
    }
    return failed;
}

/* As a label: one line, not long. */
static int label_of(struct span id, struct arena *arena, struct span *ret_label, struct error *err)
{
    struct span quoted = {.at = id.at - 1, .len = id.len + 2};
    char *bytes = arena_alloc(arena, quoted.len);
    size_t len = id.len;

    if (bytes == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a task");
    }
    if (quoted.at[0] != '"') {
        span_copy(bytes, id); /* a number */
    } else if (!json_value_text(quoted, bytes, &len)) {
        return refuse(err, SPAN("id"), "text without half a surrogate pair");
    }
    struct span label = {.at = bytes, .len = len};
    if (label.len > TASK_LABEL_BYTES_MAX || !fields_value_is_clean(label)) {
        return refuse(err, SPAN("id"), "at most 255 bytes without control characters");
    }
    *ret_label = label;
    return 0;
}

static size_t count_fields(struct span fields)
{
    struct span name, value;
    size_t count = 0;

    while (fields_next(&fields, &name, &value)) {
        count++;
    }
    return count;
}

int article_take(struct span json, struct span labels, struct arena *arena, struct span *ret_labels,
                 struct error *err)
{
    struct article article;
    struct span label, given;
    struct buf fields;
    int failed = article_read(json, &article, err);

    failed = failed != 0 ? failed : label_of(article.id, arena, &label, err);
    if (failed != 0) {
        return failed;
    }
    if (fields_find(labels, ARTICLE_LABEL, &given) || count_fields(labels) >= TASK_LABELS_MAX) {
        *ret_labels = labels;
        return 0;
    }
    buf_init(&fields, labels.len + TASK_LABEL_BYTES_MAX * 2);
    failed = buf_add(&fields, labels);
    failed = failed != 0 ? failed : fields_add(&fields, SPAN(ARTICLE_LABEL), label);
    *ret_labels = failed != 0 ? labels : arena_copy(arena, buf_span(&fields));
    buf_done(&fields);
    return failed != 0 || ret_labels->at == NULL ? fail(err, FAULT_MEMORY, "no memory for a task")
                                                 : 0;
}
