/* SPDX-License-Identifier: MIT
 *
 * anthropic -- POST /v1/messages: Claude.
 */
#include "deliver/provider_format.h"

#include "base/json_value.h"
#include "task/fields.h"
#include "task/prompt.h"

static int add_headers(const struct provider_settings *settings, struct span key,
                       struct buf *headers)
{
    int failed = fields_add(headers, SPAN("x-api-key"), key);

    return failed != 0 ? failed : fields_add(headers, SPAN("anthropic-version"), settings->version);
}

static int add_request(const struct provider_settings *settings, const struct article *article,
                       struct buf *json)
{
    int failed = buf_add(json, SPAN("{\"model\":"));

    failed = failed != 0 ? failed : prompt_add_text(json, settings->model);
    failed = failed != 0 ? failed : buf_addf(json, ",\"max_tokens\":%u", settings->max_tokens);
    if (failed == 0 && settings->system.len > 0) {
        failed = buf_add(json, SPAN(",\"system\":"));
        failed = failed != 0 ? failed : prompt_add(json, settings->system, article);
    }
    failed = failed != 0 ? failed
                         : buf_add(json, SPAN(",\"messages\":[{\"role\":\"user\",\"content\":"));
    failed = failed != 0 ? failed : prompt_add(json, settings->user, article);
    return failed != 0 ? failed : buf_add(json, SPAN("}]}"));
}

/* content[].text, joined; blocks of other types have none. */
static int add_texts(struct span content, struct buf *text)
{
    struct json_walk walk;
    struct span name, block;
    int failed = 0;

    if (!json_walk_begin(&walk, content, '[')) {
        return FAULT_INPUT;
    }
    while (failed == 0 && json_walk_next(&walk, &name, &block) == JSON_STEP_VALUE) {
        if (span_is(provider_string(block, "type"), "text")) {
            failed = buf_add(text, provider_string(block, "text"));
        }
    }
    return failed;
}

static int read_answer(struct span body, struct buf *text, struct provider_answer *ret_answer)
{
    struct provider_answer answer = {.model = provider_string(body, "model"),
                                     .finish = provider_string(body, "stop_reason")};
    struct span content, usage;

    if (!provider_member(body, "content", &content)) {
        return FAULT_INPUT;
    }
    if (provider_member(body, "usage", &usage) && usage.at[0] == '{') {
        answer.usage = usage;
        answer.tokens_in = provider_count(usage, "input_tokens");
        answer.tokens_out = provider_count(usage, "output_tokens");
    }
    answer.is_refused = span_is(answer.finish, "refusal");
    *ret_answer = answer;
    return add_texts(content, text);
}

const struct provider_format anthropic_format = {.path = "/v1/messages",
                                                 .add_headers = add_headers,
                                                 .add_request = add_request,
                                                 .read_answer = read_answer};
