/* SPDX-License-Identifier: MIT
 *
 * classify: every row of both tables of the contract, and answers that are not what they should be.
 */
#include "harness.h"

#include "deliver/classify.h"

#include <stdio.h>
#include <string.h>

#define NOW_MS INT64_C(1785542400000) /* 2026-08-01T00:00:00Z */
#define DAY_MS INT64_C(86400000)

struct answer_row {
    enum provider_kind kind;
    int status;
    const char *body;
    enum daruma_class error_class;
};

#define OPENAI_ERROR(type, code)                                                                   \
    "{\"error\":{\"message\":\"no\",\"type\":\"" type "\",\"param\":null,\"code\":\"" code "\"}}"
#define CLAUDE_ERROR(type, text)                                                                   \
    "{\"type\":\"error\",\"error\":{\"type\":\"" type "\",\"message\":\"" text                     \
    "\"},\"request_id\":\"req_1\"}"

static const struct answer_row rows[] = {
    {PROVIDER_OPENAI, 429, OPENAI_ERROR("requests", "rate_limit_exceeded"),
     DARUMA_CLASS_RATE_LIMITED},
    {PROVIDER_OPENAI, 429, OPENAI_ERROR("requests", "slow_down"), DARUMA_CLASS_RATE_LIMITED},
    {PROVIDER_OPENAI, 429, "{\"error\":{\"type\":\"insufficient_quota\",\"code\":null}}",
     DARUMA_CLASS_QUOTA},
    {PROVIDER_OPENAI, 429, OPENAI_ERROR("x", "insufficient_quota"), DARUMA_CLASS_QUOTA},
    {PROVIDER_OPENAI, 429, OPENAI_ERROR("x", "credit_balance_exhausted"), DARUMA_CLASS_QUOTA},
    {PROVIDER_OPENAI, 429, OPENAI_ERROR("x", "organization_spend_limit_exceeded"),
     DARUMA_CLASS_QUOTA},
    {PROVIDER_OPENAI, 429, OPENAI_ERROR("x", "project_spend_limit_exceeded"), DARUMA_CLASS_QUOTA},
    {PROVIDER_OPENAI, 429, OPENAI_ERROR("x", "organization_usage_limit_exceeded"),
     DARUMA_CLASS_QUOTA},
    {PROVIDER_OPENAI, 503, OPENAI_ERROR("server_error", "server_is_overloaded"),
     DARUMA_CLASS_TRANSIENT},
    {PROVIDER_OPENAI, 500, OPENAI_ERROR("server_error", ""), DARUMA_CLASS_TRANSIENT},
    {PROVIDER_OPENAI, 502, "<html>", DARUMA_CLASS_TRANSIENT},
    {PROVIDER_OPENAI, 504, "", DARUMA_CLASS_TRANSIENT},
    {PROVIDER_OPENAI, 401, OPENAI_ERROR("x", "invalid_api_key"), DARUMA_CLASS_AUTH},
    {PROVIDER_OPENAI, 403, "", DARUMA_CLASS_TRANSIENT},
    {PROVIDER_OPENAI, 403, OPENAI_ERROR("x", "invalid_api_key"), DARUMA_CLASS_AUTH},
    {PROVIDER_OPENAI, 400, OPENAI_ERROR("invalid_request_error", "context_length_exceeded"),
     DARUMA_CLASS_INVALID},
    {PROVIDER_OPENAI, 404, OPENAI_ERROR("x", "model_not_found"), DARUMA_CLASS_INVALID},
    {PROVIDER_OPENAI, 413, "", DARUMA_CLASS_INVALID},
    {PROVIDER_OPENAI, 422, "", DARUMA_CLASS_INVALID},
    {PROVIDER_OPENAI, 429, "", DARUMA_CLASS_RATE_LIMITED},
    {PROVIDER_OPENAI, 429,
     "{\"error\":{\"message\":\"You exceeded your current quota, please check\"}}",
     DARUMA_CLASS_QUOTA},
    {PROVIDER_OPENAI, 400, OPENAI_ERROR("x", "billing_hard_limit_reached"), DARUMA_CLASS_QUOTA},
    {PROVIDER_ANTHROPIC, 429, CLAUDE_ERROR("rate_limit_error", "too many"),
     DARUMA_CLASS_RATE_LIMITED},
    {PROVIDER_ANTHROPIC, 429,
     "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"no\","
     "\"details\":{\"error_code\":\"enforced_spend_limit_reached\"}}}",
     DARUMA_CLASS_QUOTA},
    {PROVIDER_ANTHROPIC, 400, CLAUDE_ERROR("invalid_request_error", "your API Usage Limits"),
     DARUMA_CLASS_QUOTA},
    {PROVIDER_ANTHROPIC, 400, CLAUDE_ERROR("invalid_request_error", "monthly spend limit"),
     DARUMA_CLASS_QUOTA},
    {PROVIDER_ANTHROPIC, 400, CLAUDE_ERROR("invalid_request_error", "credit balance is too low"),
     DARUMA_CLASS_QUOTA},
    {PROVIDER_ANTHROPIC, 400, CLAUDE_ERROR("invalid_request_error", "messages: required"),
     DARUMA_CLASS_INVALID},
    {PROVIDER_ANTHROPIC, 402, CLAUDE_ERROR("billing_error", "pay"), DARUMA_CLASS_QUOTA},
    {PROVIDER_ANTHROPIC, 529, CLAUDE_ERROR("overloaded_error", "Overloaded"),
     DARUMA_CLASS_TRANSIENT},
    {PROVIDER_ANTHROPIC, 500, CLAUDE_ERROR("api_error", "no"), DARUMA_CLASS_TRANSIENT},
    {PROVIDER_ANTHROPIC, 504, CLAUDE_ERROR("timeout_error", "no"), DARUMA_CLASS_TRANSIENT},
    {PROVIDER_ANTHROPIC, 401, CLAUDE_ERROR("authentication_error", "no"), DARUMA_CLASS_AUTH},
    {PROVIDER_ANTHROPIC, 403, CLAUDE_ERROR("permission_error", "no"), DARUMA_CLASS_AUTH},
    {PROVIDER_ANTHROPIC, 404, CLAUDE_ERROR("not_found_error", "no"), DARUMA_CLASS_INVALID},
    {PROVIDER_ANTHROPIC, 413, CLAUDE_ERROR("request_too_large", "no"), DARUMA_CLASS_INVALID},
    {PROVIDER_ANTHROPIC, 408, "", DARUMA_CLASS_TRANSIENT},
    {PROVIDER_ANTHROPIC, 409, "", DARUMA_CLASS_TRANSIENT},
    {PROVIDER_ANTHROPIC, 302, "", DARUMA_CLASS_INVALID},
    {PROVIDER_ANTHROPIC, 599, "", DARUMA_CLASS_TRANSIENT},
};

static struct classify_input input_of(enum provider_kind kind, int status, const char *body)
{
    return (struct classify_input){.kind = kind,
                                   .status = status,
                                   .body = span_of(body),
                                   .headers = SPAN(""),
                                   .now_ms = NOW_MS};
}

static void every_row_of_both_tables_has_its_class(void **state) /* D1.1, D1.2, D1.3 */
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct classify_input input = input_of(rows[i].kind, rows[i].status, rows[i].body);
        struct verdict verdict;
        assert_true(classify_answer(&input, &verdict));
        if (verdict.error_class != rows[i].error_class) {
            fail_msg("row %zu (%d %s) is %s", i, rows[i].status, rows[i].body,
                     daruma_class_text(verdict.error_class));
        }
        assert_int_equal(verdict.status, rows[i].status);
    }
}

static void an_error_inside_a_200_has_the_class_it_would_have_had(void **state)
{
    static const struct {
        enum provider_kind kind;
        const char *body;
        enum daruma_class error_class;
        int status;
    } inside[] = {
        {PROVIDER_ANTHROPIC,
         "event: message_start\r\ndata: {\"type\":\"message_start\"}\r\n\r\nevent: error\r\n"
         "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"O\"}}"
         "\r\n\r\n",
         DARUMA_CLASS_TRANSIENT, 529},
        {PROVIDER_ANTHROPIC, CLAUDE_ERROR("rate_limit_error", "no"), DARUMA_CLASS_RATE_LIMITED,
         429},
        {PROVIDER_ANTHROPIC, CLAUDE_ERROR("authentication_error", "no"), DARUMA_CLASS_AUTH, 401},
        {PROVIDER_OPENAI, "data: " OPENAI_ERROR("x", "insufficient_quota") "\n", DARUMA_CLASS_QUOTA,
         429},
        {PROVIDER_OPENAI, "  " OPENAI_ERROR("server_error", "server_is_overloaded"),
         DARUMA_CLASS_TRANSIENT, 503},
        {PROVIDER_OPENAI, OPENAI_ERROR("invalid_request_error", "x"), DARUMA_CLASS_INVALID, 400},
        {PROVIDER_OPENAI, "{\"error\":\"something else\"}", DARUMA_CLASS_TRANSIENT, 500},
    };

    (void)state;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        struct classify_input input = input_of(inside[i].kind, 200, inside[i].body);
        struct verdict verdict;
        assert_true(classify_answer(&input, &verdict));
        assert_int_equal(verdict.error_class, inside[i].error_class);
        assert_int_equal(verdict.status, inside[i].status);
        assert_non_null(strstr(verdict.message, "HTTP 200 with an error inside"));
    }
}

static void a_success_is_no_error(void **state)
{
    static const char *const bodies[] = {"{}",
                                         "",
                                         "text",
                                         "{\"error\":null,\"choices\":[]}",
                                         "data: {\"choices\":[]}\n\n",
                                         "[1]",
                                         "{\"broken\":"};

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct classify_input input = input_of(PROVIDER_OPENAI, 200, bodies[i]);
        struct verdict verdict = {.status = 7};
        assert_false(classify_answer(&input, &verdict));
        assert_int_equal(verdict.status, 7);
    }
}

static void a_date_in_words_is_a_hint(void **state) /* D2.3 */
{
    struct classify_input input = input_of(
        PROVIDER_ANTHROPIC, 429,
        CLAUDE_ERROR("rate_limit_error", "You will regain access on 2026-09-01 at 00:00 UTC."));
    struct verdict verdict;

    (void)state;
    assert_true(classify_answer(&input, &verdict));
    assert_int_equal(verdict.error_class, DARUMA_CLASS_QUOTA);
    assert_true(verdict.has_hint);
    assert_true(verdict.hint_ms == 31 * DAY_MS);
    input.body = SPAN(CLAUDE_ERROR("invalid_request_error",
                                   "API usage limits. You will regain access on 2026-08-02"));
    input.status = 400;
    assert_true(classify_answer(&input, &verdict));
    assert_true(verdict.hint_ms == DAY_MS);
    input.body = SPAN(CLAUDE_ERROR("billing_error", "regain access on 2026-99-99 at 25:61 UTC"));
    assert_true(classify_answer(&input, &verdict));
    assert_false(verdict.has_hint);
}

static void a_hint_of_the_header_fields_is_kept(void **state)
{
    struct classify_input input =
        input_of(PROVIDER_OPENAI, 429, OPENAI_ERROR("requests", "rate_limit_exceeded"));
    struct verdict verdict;

    (void)state;
    input.has_hint = true;
    input.hint_ms = 20;
    assert_true(classify_answer(&input, &verdict));
    assert_true(verdict.has_hint);
    assert_int_equal(verdict.hint_ms, 20);
    /* A limit that says when it ends is one that ends, whatever words it uses. */
    input.kind = PROVIDER_ANTHROPIC;
    input.body = SPAN(CLAUDE_ERROR("rate_limit_error", "the usage limit of this minute"));
    assert_true(classify_answer(&input, &verdict));
    assert_int_equal(verdict.error_class, DARUMA_CLASS_RATE_LIMITED);
}

static void x_should_retry_false_is_obeyed(void **state)
{
    struct classify_input input = input_of(PROVIDER_OPENAI, 500, "");
    struct verdict verdict;

    (void)state;
    input.headers = SPAN("content-type: text/plain\nX-Should-Retry: false\n");
    assert_true(classify_answer(&input, &verdict));
    assert_int_equal(verdict.error_class, DARUMA_CLASS_INVALID);
    input.status = 429;
    assert_true(classify_answer(&input, &verdict));
    assert_int_equal(verdict.error_class, DARUMA_CLASS_QUOTA);
    input.headers = SPAN("x-should-retry: true\n");
    assert_true(classify_answer(&input, &verdict));
    assert_int_equal(verdict.error_class, DARUMA_CLASS_RATE_LIMITED);
}

static void messages_are_for_people_and_hold_no_key(void **state) /* I10 */
{
    struct classify_input input =
        input_of(PROVIDER_OPENAI, 500,
                 "{\"error\":{\"message\":\"bad\\u0000 key sk-secret-key-1234567 in\\nhere\"}}");
    const struct provider_settings settings = {
        .keys = {SPAN("SK-secret-key-1234567-and-more")}, .key_count = 1, .headers = SPAN("")};
    struct verdict verdict;
    char body[4096] = "{\"error\":{\"message\":\"";

    (void)state;
    assert_true(classify_answer(&input, &verdict));
    assert_string_equal(verdict.message, "HTTP 500: bad? key sk-secret-key-1234567 in here");
    input.settings = &settings;
    assert_true(classify_answer(&input, &verdict));
    assert_true(verdict.has_secret);
    assert_string_equal(verdict.message, "HTTP 500, which repeats a secret: not shown");
    for (size_t i = 0; i < 300; i++) { /* cut at a whole character */
        strncat(body, i % 2 == 0 ? "\xe3\x81\x82" : "\\ud83c\\udf8c",
                sizeof body - strlen(body) - 1);
    }
    strncat(body, "\"}}", sizeof body - strlen(body) - 1);
    input.body = span_of(body);
    assert_true(classify_answer(&input, &verdict));
    assert_true(strlen(verdict.message) > 200);
    assert_true(span_is_utf8(span_of(verdict.message)));
    input = input_of(PROVIDER_OPENAI, 401, "{\"error\":{\"message\":\"Incorrect key: sk-1\"}}");
    assert_true(classify_answer(&input, &verdict));
    assert_string_equal(verdict.message, "HTTP 401");
    input = input_of(PROVIDER_OPENAI, 500, "{\"error\":{\"message\":\"\xff\xfe and more\"}}");
    assert_true(classify_answer(&input, &verdict));
    assert_string_equal(verdict.message, "HTTP 500: ?? and more");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_of_both_tables_has_its_class),
        cmocka_unit_test(an_error_inside_a_200_has_the_class_it_would_have_had),
        cmocka_unit_test(a_success_is_no_error),
        cmocka_unit_test(a_date_in_words_is_a_hint),
        cmocka_unit_test(a_hint_of_the_header_fields_is_kept),
        cmocka_unit_test(x_should_retry_false_is_obeyed),
        cmocka_unit_test(messages_are_for_people_and_hold_no_key),
    };

    return HARNESS_RUN(argc, argv, tests);
}
