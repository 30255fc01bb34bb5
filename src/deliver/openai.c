/* SPDX-License-Identifier: MIT
 *
 * openai -- POST /v1/chat/completions, as OpenAI and the many that speak like it have it. Some of them
 * are `old`: they refuse max_completion_tokens, as OpenAI's newer models refuse max_tokens.
 */
#include "deliver/provider_format.h"

#include "base/json_value.h"
#include "task/fields.h"
#include "task/prompt.h"

static int add_headers(const struct provider_settings *settings, struct span key,
                       struct buf *headers)
{
    struct buf value;

    (void)settings;
    buf_init(&value, key.len + sizeof "Bearer ");
    int failed = buf_add(&value, SPAN("Bearer "));
    failed = failed != 0 ? failed : buf_add(&value, key);
    failed = failed != 0 ? failed : fields_add(headers, SPAN("Authorization"), buf_span(&value));
    for (volatile char *byte = value.at; byte != NULL && byte < value.at + value.len; byte++) {
        *byte = 0; /* not left lying in freed memory (I10) */
    }
    buf_done(&value);
    return failed;
}

static int add_request(const struct provider_settings *settings, const struct article *article,
                       struct buf *json)
{
    int failed = buf_add(json, SPAN("{\"model\":"));

    failed = failed != 0 ? failed : prompt_add_text(json, settings->model);
    failed = failed != 0 ? failed : buf_add(json, SPAN(",\"messages\":["));
    if (failed == 0 && settings->system.len > 0) {
        failed = buf_add(json, SPAN("{\"role\":\"system\",\"content\":"));
        failed = failed != 0 ? failed : prompt_add(json, settings->system, article);
        failed = failed != 0 ? failed : buf_add(json, SPAN("},"));
    }
    failed = failed != 0 ? failed : buf_add(json, SPAN("{\"role\":\"user\",\"content\":"));
    failed = failed != 0 ? failed : prompt_add(json, settings->user, article);
    return failed != 0 ? failed
                       : buf_addf(json, "}],\"%s\":%u}",
                                  settings->is_old ? "max_tokens" : "max_completion_tokens",
                                  settings->max_tokens);
}

/* choices[0] */
static bool first_choice(struct span body, struct span *ret_choice)
{
    struct span choices, name;
    struct json_walk walk;

    return provider_member(body, "choices", &choices) && json_walk_begin(&walk, choices, '[') &&
           json_walk_next(&walk, &name, ret_choice) == JSON_STEP_VALUE;
}

static int read_answer(struct span body, struct buf *text, struct provider_answer *ret_answer)
{
    struct provider_answer answer = {.model = provider_string(body, "model")};
    struct span choice, said, usage;

    if (!first_choice(body, &choice)) {
        return FAULT_INPUT;
    }
    answer.finish = provider_string(choice, "finish_reason");
    if (provider_member(body, "usage", &usage) && usage.at[0] == '{') {
        answer.usage = usage;
        answer.tokens_in = provider_count(usage, "prompt_tokens");
        answer.tokens_out = provider_count(usage, "completion_tokens");
    }
    bool has_message = provider_member(choice, "message", &said);
    answer.is_refused = span_is(answer.finish, "content_filter") ||
                        (has_message && provider_string(said, "refusal").len > 0);
    *ret_answer = answer;
    if (!has_message || span_is(answer.finish, "error")) { /* a router's: it broke off */
        return FAULT_INPUT;
    }
    return buf_add(text, provider_string(said, "content"));
}

const struct provider_format openai_format = {.path = "/v1/chat/completions",
                                              .add_headers = add_headers,
                                              .add_request = add_request,
                                              .read_answer = read_answer};
