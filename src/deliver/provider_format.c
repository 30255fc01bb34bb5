/* SPDX-License-Identifier: MIT
 *
 * provider_format -- what the formats share: see provider_format.h.
 */
#include "deliver/provider_format.h"

#include "base/json_value.h"
#include "task/prompt.h"

const struct provider_format *provider_format_of(enum provider_kind kind)
{
    static const struct provider_format *const formats[PROVIDER_KIND_COUNT] = {
        [PROVIDER_OPENAI] = &openai_format,
        [PROVIDER_ANTHROPIC] = &anthropic_format,
    };

    return formats[kind];
}

bool provider_member(struct span object, const char *name, struct span *ret_value)
{
    struct json_walk walk;
    struct span found, value;

    if (!json_walk_begin(&walk, object, '{')) {
        return false;
    }
    while (json_walk_next(&walk, &found, &value) == JSON_STEP_VALUE) {
        if (span_is(found, name)) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

struct span provider_string(struct span object, const char *name)
{
    struct span value;

    if (!provider_member(object, name, &value) || value.len < 2 || value.at[0] != '"') {
        return SPAN("");
    }
    return (struct span){.at = value.at + 1, .len = value.len - 2};
}

uint64_t provider_count(struct span object, const char *name)
{
    struct span value;
    int64_t number;

    if (!provider_member(object, name, &value) || !span_to_int(value, &number) || number < 0 ||
        number > PROVIDER_TOKENS_MAX) {
        return 0;
    }
    return (uint64_t)number;
}

/* On one line, whatever the provider's own form is. */
static int add_compact(struct buf *json, struct span value)
{
    size_t before = json->len;
    int failed = buf_add(json, value);

    if (failed == 0) {
        json->len = before + json_value_compact(value, json->at + before);
    }
    return failed;
}

static int add_quoted(struct buf *json, struct span inside)
{
    int failed = buf_add(json, SPAN("\""));

    failed = failed != 0 ? failed : buf_add(json, inside);
    return failed != 0 ? failed : buf_add(json, SPAN("\""));
}

int provider_add_result(const struct provider_settings *settings, struct span text,
                        const struct provider_answer *answer, struct buf *json)
{
    int failed = buf_add(json, SPAN("{\"summary\":"));

    failed = failed != 0 ? failed : add_quoted(json, text);
    failed = failed != 0 ? failed : buf_add(json, SPAN(",\"provider\":"));
    failed = failed != 0 ? failed : prompt_add_text(json, settings->name);
    failed = failed != 0 ? failed : buf_add(json, SPAN(",\"model\":"));
    if (failed == 0) {
        failed = answer->model.len > 0 ? add_quoted(json, answer->model)
                                       : prompt_add_text(json, settings->model);
    }
    failed = failed != 0 ? failed : buf_add(json, SPAN(",\"usage\":"));
    if (failed == 0) {
        failed =
            answer->usage.len > 0 ? add_compact(json, answer->usage) : buf_add(json, SPAN("null"));
    }
    return failed != 0 ? failed : buf_add(json, SPAN("}"));
}
