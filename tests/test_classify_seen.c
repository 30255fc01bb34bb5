/* SPDX-License-Identifier: MIT
 *
 * classify: answers that people have met, each as the public thread that is named beside it shows it.
 * Names of organisations, projects and requests are replaced. Where only the status and the text are
 * shown there, the wrapping is the provider's usual one.
 */
#include "harness.h"

#include "deliver/classify.h"

#include <stdio.h>
#include <string.h>

#define NOW_MS INT64_C(1785542400000)

struct seen_row {
    const char *source; /* owner/repository#number */
    enum provider_kind kind;
    int status;
    const char *body;
    enum daruma_class error_class;
    enum provider_trouble trouble;
};

#define O(text, type, code)                                                                        \
    "{\"error\":{\"message\":\"" text "\",\"type\":\"" type "\",\"param\":null,\"code\":" code "}" \
    "}"
#define A(type, text)                                                                              \
    "{\"type\":\"error\",\"error\":{\"type\":\"" type "\",\"message\":\"" text                     \
    "\"},\"request_id\":\"req_1\"}"
#define TOO_LARGE                                                                                  \
    "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, "    \
    "Requested 36278. The input or output tokens must be reduced in order to run successfully."
#define TERMINATED                                                                                 \
    "Your access was terminated due to violation of our policies, please check your email for "    \
    "more information."

static const struct seen_row rows[] = {
    /* Names of models are each provider's own, and end on a date. */
    {"cursor/cursor#2953", PROVIDER_OPENAI, 403,
     O("Project `proj_x` does not have access to model `gpt-4o-mini`", "invalid_request_error",
       "\"model_not_found\""),
     DARUMA_CLASS_INVALID, PROVIDER_TROUBLE_MODEL},
    {"ksred/GitPilotAI#12", PROVIDER_OPENAI, 404,
     O("The model `gpt-4o` does not exist or you do not have access to it.",
       "invalid_request_error", "\"model_not_found\""),
     DARUMA_CLASS_INVALID, PROVIDER_TROUBLE_MODEL},
    {"n8n-io/n8n#18352", PROVIDER_OPENAI, 404,
     O("This model is only supported in v1/responses and not in v1/chat/completions.",
       "invalid_request_error", "null"),
     DARUMA_CLASS_INVALID, PROVIDER_TROUBLE_MODEL},
    {"mattermost/mattermost-plugin-agents#257", PROVIDER_ANTHROPIC, 404,
     A("not_found_error", "model: claude-3-5-sonnet-20241022 "), DARUMA_CLASS_INVALID,
     PROVIDER_TROUBLE_MODEL},
    /* An account's trouble, whatever the status says. */
    {"anthropics/claude-code#19028", PROVIDER_ANTHROPIC, 400,
     A("invalid_request_error", "This organization has been disabled."), DARUMA_CLASS_AUTH,
     PROVIDER_TROUBLE_ACCOUNT},
    {"CherryHQ/cherry-studio#3340", PROVIDER_ANTHROPIC, 400,
     "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"This "
     "organization has been disabled.\"}}",
     DARUMA_CLASS_AUTH, PROVIDER_TROUBLE_ACCOUNT},
    {"ztjhz/BetterChatGPT#105", PROVIDER_OPENAI, 429, O(TERMINATED, "access_terminated", "null"),
     DARUMA_CLASS_AUTH, PROVIDER_TROUBLE_ACCOUNT},
    {"QuantumNous/new-api#462", PROVIDER_OPENAI, 429, O(TERMINATED, "error", "null"),
     DARUMA_CLASS_AUTH, PROVIDER_TROUBLE_ACCOUNT},
    {"BerriAI/litellm#2743", PROVIDER_OPENAI, 429,
     O("Your account is not active, please check your billing details on our website.",
       "billing_not_active", "\"billing_not_active\""),
     DARUMA_CLASS_QUOTA, PROVIDER_TROUBLE_NONE},
    {"binary-husky/gpt_academic#681", PROVIDER_OPENAI, 429,
     O("Your account is not active, please check your billing details on our website.",
       "billing_not_active", "null"),
     DARUMA_CLASS_QUOTA, PROVIDER_TROUBLE_NONE},
    {"home-assistant/core#120072", PROVIDER_OPENAI, 403,
     O("Country, region, or territory not supported", "request_forbidden",
       "\"unsupported_country_region_territory\""),
     DARUMA_CLASS_AUTH, PROVIDER_TROUBLE_ACCOUNT},
    {"enricoros/big-AGI#485", PROVIDER_ANTHROPIC, 403,
     "{\"error\":{\"type\":\"forbidden\",\"message\":\"Request not allowed\"}}", DARUMA_CLASS_AUTH,
     PROVIDER_TROUBLE_ACCOUNT},
    /* One article's trouble: no key, no gate. */
    {"anthropics/claude-code#58367", PROVIDER_ANTHROPIC, 400,
     A("invalid_request_error", "Output blocked by content filtering policy"), DARUMA_CLASS_INVALID,
     PROVIDER_TROUBLE_NONE},
    {"boldsoftware/exe.dev#62", PROVIDER_ANTHROPIC, 400,
     A("invalid_request_error", "prompt is too long: 200251 tokens > 200000 maximum"),
     DARUMA_CLASS_INVALID, PROVIDER_TROUBLE_NONE},
    {"Aider-AI/aider#1880", PROVIDER_OPENAI, 429, O(TOO_LARGE, "tokens", "\"rate_limit_exceeded\""),
     DARUMA_CLASS_INVALID, PROVIDER_TROUBLE_NONE},
    {"assafelovic/gpt-researcher#985", PROVIDER_OPENAI, 413,
     O("Request too large for model `llama-3.1-70b-versatile` in organization `org_x` on tokens "
       "per minute (TPM): Limit 6000, Requested 14368, please reduce your message size and try "
       "again.",
       "tokens", "\"rate_limit_exceeded\""),
     DARUMA_CLASS_INVALID, PROVIDER_TROUBLE_NONE},
    {"OpenHands/OpenHands#4480", PROVIDER_OPENAI, 403,
     "<!DOCTYPE html><h1 data-translate=\"block_headline\">Sorry, you have been blocked</h1>",
     DARUMA_CLASS_TRANSIENT, PROVIDER_TROUBLE_NONE},
    /* Servers that speak like OpenAI, up to a point. */
    {"editor-code-assistant/eca#231", PROVIDER_OPENAI, 422,
     "{\"object\":\"error\",\"message\":{\"detail\":[{\"type\":\"extra_forbidden\",\"loc\":["
     "\"body\""
     ",\"max_completion_tokens\"],\"msg\":\"Extra inputs are not permitted\",\"input\":32000}]},"
     "\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}",
     DARUMA_CLASS_INVALID, PROVIDER_TROUBLE_NONE},
    {"voideditor/void#128", PROVIDER_OPENAI, 400,
     "{\"object\": \"error\", \"message\": \"[{'type': 'extra_forbidden', 'loc': ('body', "
     "'max_completion_tokens')}]\", \"type\": \"BadRequestError\", \"param\": null, \"code\": 400}",
     DARUMA_CLASS_INVALID, PROVIDER_TROUBLE_NONE},
    {"BerriAI/litellm#8448", PROVIDER_OPENAI, 200,
     "{\"choices\":[{\"finish_reason\":\"stop\",\"message\":{\"content\":null}}],\"error\":"
     "{\"message\":\"Provider returned error\",\"code\":429,\"metadata\":{\"raw\":\"error code: "
     "1015\",\"provider_name\":\"Kluster\"}}}",
     DARUMA_CLASS_RATE_LIMITED, PROVIDER_TROUBLE_NONE},
};

static struct classify_input input_of(const struct seen_row *row)
{
    return (struct classify_input){.kind = row->kind,
                                   .status = row->status,
                                   .body = span_of(row->body),
                                   .headers = SPAN(""),
                                   .now_ms = NOW_MS};
}

static void answers_that_were_met_have_their_class(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct classify_input input = input_of(&rows[i]);
        struct verdict verdict;
        assert_true(classify_answer(&input, &verdict));
        if (verdict.error_class != rows[i].error_class || verdict.trouble != rows[i].trouble) {
            fail_msg("%s: %s, %s", rows[i].source, daruma_class_text(verdict.error_class),
                     provider_trouble_text(verdict.trouble));
        }
    }
}

static void what_one_article_is_refused_for_names_no_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct classify_input input = input_of(&rows[i]);
        struct verdict verdict;
        input.has_hint = true; /* Retry-After: 60 */
        input.hint_ms = 60000;
        assert_true(classify_answer(&input, &verdict));
        bool is_own = verdict.error_class == DARUMA_CLASS_INVALID || rows[i].status == 403;
        assert_int_equal(verdict.hint_ms, is_own ? 0 : 60000);
        assert_int_equal(verdict.has_hint, !is_own);
    }
}

static void an_account_that_is_dead_is_told_in_words(void **state)
{
    struct classify_input input = input_of(&rows[4]);
    struct verdict verdict;

    (void)state;
    assert_true(classify_answer(&input, &verdict));
    assert_non_null(strstr(verdict.message, "This organization has been disabled."));
}

/* BuilderIO/micro-agent#86, FoundationAgents/MetaGPT#523, continuedev/continue#10920 */
static void a_wait_that_is_only_said_in_words_is_a_hint(void **state)
{
    static const struct {
        const char *text;
        int64_t wait_ms;
    } said[] = {
        {"Limit 30000, Used 29937, Requested 385. Please try again in 644ms.", 644},
        {"Limit 10000, Used 8554, Requested 3082. Please try again in 9.816s. Visit the page",
         9816},
        {"Used 97050, Requested 3619. Please try again in 9m38.016s. Need more tokens?", 578016},
        {"Please try again in a moment.", 0},
        {"Please try again in ", 0},
        {"Please try again in 1h1m1s1ms1us1ns1h1m1s1ms1us1ns.", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        char body[256];
        struct verdict verdict;
        snprintf(body, sizeof body,
                 "{\"error\":{\"message\":\"%s\",\"code\":\"rate_limit_exceeded\"}}", said[i].text);
        struct classify_input input = {.kind = PROVIDER_OPENAI,
                                       .status = 429,
                                       .body = span_of(body),
                                       .headers = SPAN(""),
                                       .now_ms = NOW_MS};
        assert_true(classify_answer(&input, &verdict));
        assert_int_equal(verdict.error_class, DARUMA_CLASS_RATE_LIMITED);
        assert_int_equal(verdict.hint_ms, said[i].wait_ms);
        input.has_hint = true; /* a header field says it better */
        input.hint_ms = 7;
        assert_true(classify_answer(&input, &verdict));
        assert_int_equal(verdict.hint_ms, 7);
    }
}

static void a_limit_of_which_too_little_remains_is_waited_for(void **state)
{
    struct classify_input input = {
        .kind = PROVIDER_OPENAI,
        .status = 429,
        .body = SPAN("{\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"slow\"}}"),
        .headers = SPAN("x-ratelimit-remaining-requests: 9999\nx-ratelimit-reset-requests: 8ms\n"
                        "X-RateLimit-Remaining-Tokens: 120\nX-RateLimit-Reset-Tokens: 28.5s\n"),
        .now_ms = NOW_MS};
    struct verdict verdict;

    (void)state;
    assert_true(classify_answer(&input, &verdict));
    assert_true(verdict.has_hint);
    assert_int_equal(verdict.hint_ms, 28500);
    input.status = 500; /* only a limit is about limits */
    assert_true(classify_answer(&input, &verdict));
    assert_int_equal(verdict.hint_ms, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_that_were_met_have_their_class),
        cmocka_unit_test(what_one_article_is_refused_for_names_no_time),
        cmocka_unit_test(an_account_that_is_dead_is_told_in_words),
        cmocka_unit_test(a_wait_that_is_only_said_in_words_is_a_hint),
        cmocka_unit_test(a_limit_of_which_too_little_remains_is_waited_for),
    };

    return HARNESS_RUN(argc, argv, tests);
}
