/* SPDX-License-Identifier: MIT
 *
 * article, prompt and the providers' formats: what goes out is what came in, byte for byte, and what
 * comes back is found wherever it stands.
 */
#include "harness.h"

#include "base/auto.h"
#include "deliver/provider_format.h"
#include "task/fields.h"
#include "task/prompt.h"

#include <string.h>

static bool has(struct span bytes, const char *text)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (span_starts(span_from(bytes, i), text)) {
            return true;
        }
    }
    return false;
}

static struct article read_article(const char *json)
{
    struct article article = {0};
    struct error err = {0};

    if (article_read(span_of(json), &article, &err) != 0) {
        fail_msg("%s: %s", json, err.text);
    }
    return article;
}

static void an_article_is_read_where_it_stands(void **state)
{
    struct article article = read_article(" {\"article\" : {\"title\":\"a\\\"b\", \"id\":-7,"
                                          "\"content\":\"\\ud83c\\udf8c\\u0000\xe3\x81\x82\"}} ");

    (void)state;
    assert_true(span_is(article.id, "-7"));
    assert_true(span_is(article.title, "a\\\"b"));
    assert_true(span_is(article.content, "\\ud83c\\udf8c\\u0000\xe3\x81\x82"));
    article = read_article("{\"article\":{\"id\":\"x\",\"title\":\"\",\"content\":\"c\"}}");
    assert_int_equal(article.title.len, 0);
}

static void what_is_wrong_with_an_article_is_named(void **state)
{
    static const struct {
        const char *json, *field;
    } rows[] = {
        {"", "article"},
        {"[]", "article"},
        {"{}", "article"},
        {"{\"article\":7}", "article"},
        {"{\"article\":{\"id\":1,\"title\":\"\",\"content\":\"c\"},\"b\":1}", "article"},
        {"{\"article\":{\"id\":1,\"title\":\"\",\"content\":\"c\"}}x", "article"},
        {"{\"article\":{\"id\":1,\"title\":\"\",\"content\":\"c\xff\"}}", "article"},
        {"{\"article\":{\"id\":1,\"title\":\"\",\"content\":\"\"}}", "article.content"},
        {"{\"article\":{\"id\":\"\",\"title\":\"\",\"content\":\"c\"}}", "article.id"},
        {"{\"article\":{\"title\":\"\",\"content\":\"c\"}}", "article.id"},
        {"{\"article\":{\"id\":null,\"title\":\"\",\"content\":\"c\"}}", "article.id"},
        {"{\"article\":{\"id\":1,\"id\":2,\"title\":\"\",\"content\":\"c\"}}", "article.id"},
        {"{\"article\":{\"id\":1,\"title\":[],\"content\":\"c\"}}", "article.title"},
        {"{\"article\":{\"id\":1,\"content\":\"c\"}}", "article.title"},
        {"{\"article\":{\"id\":1,\"title\":\"\",\"content\":\"c\",\"more\":1}}", "article.more"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct article article;
        struct error err = {0};
        assert_int_equal(article_read(span_of(rows[i].json), &article, &err), FAULT_INPUT);
        assert_string_equal(err.field, rows[i].field);
        assert_non_null(strstr(err.text, "expected"));
    }
}

static void the_id_becomes_a_label(void **state) /* D1.4 */
{
    struct arena *arena = arena_new(100000);
    struct span labels, value, json;
    struct error err = {0};
    char text[600] = "{\"article\":{\"title\":\"\",\"content\":\"c\",\"id\":\"";

    (void)state;
    json = SPAN("{\"article\":{\"id\":\"caf\\u00e9\",\"title\":\"\",\"content\":\"c\"}}");
    assert_int_equal(article_take(json, SPAN("a: b\n"), arena, &labels, &err), 0);
    assert_true(span_is(labels, "a: b\narticle_id: caf\xc3\xa9\n"));
    assert_int_equal(article_take(json, SPAN("article_id: mine\n"), arena, &labels, &err), 0);
    assert_true(fields_find(labels, "article_id", &value) && span_is(value, "mine"));
    json = SPAN("{\"article\":{\"id\":\"a\\nb\",\"title\":\"\",\"content\":\"c\"}}");
    assert_int_equal(article_take(json, SPAN(""), arena, &labels, &err), FAULT_INPUT);
    assert_string_equal(err.field, "article.id");
    memset(text + strlen(text), 'x', 256);
    strncat(text, "\"}}", 4);
    assert_int_equal(article_take(span_of(text), SPAN(""), arena, &labels, &err), FAULT_INPUT);
    json = SPAN("{\"article\":{\"id\":1.50,\"title\":\"\",\"content\":\"c\"}}");
    assert_int_equal(article_take(json, SPAN(""), arena, &labels, &err), 0);
    assert_true(span_is(labels, "article_id: 1.50\n"));
    arena_free(arena);
}

static struct provider_settings settings_of(enum provider_kind kind)
{
    return (struct provider_settings){.name = SPAN("p"),
                                      .kind = kind,
                                      .model = SPAN("m\"1"),
                                      .system = SPAN("sum\n{title} {id} {x} \x01"),
                                      .user = SPAN("{content}{content}"),
                                      .max_tokens = 9,
                                      .version = SPAN("v")};
}

static void requests_carry_the_article_byte_for_byte(void **state)
{
    const struct provider_settings openai = settings_of(PROVIDER_OPENAI);
    const struct provider_settings claude = settings_of(PROVIDER_ANTHROPIC);
    struct article article = read_article("{\"article\":{\"id\":7,\"title\":\"\\u3042\","
                                          "\"content\":\"\\\"\\ud800\xf0\x9f\x8e\x8c\"}}");
    AUTO(buf_done) struct buf json = {.max = 10000};

    (void)state;
    assert_int_equal(openai_format.add_request(&openai, &article, &json), 0);
    assert_true(span_is(buf_span(&json),
                        "{\"model\":\"m\\\"1\",\"messages\":[{\"role\":\"system\",\"content\":"
                        "\"sum\\n\\u3042 7 {x} "
                        "\\u0001\"},{\"role\":\"user\",\"content\":"
                        "\"\\\"\\ud800\xf0\x9f\x8e\x8c\\\"\\ud800\xf0\x9f\x8e\x8c\"}],"
                        "\"max_completion_tokens\":9}"));
    buf_clear(&json);
    assert_int_equal(anthropic_format.add_request(&claude, &article, &json), 0);
    assert_true(
        span_is(buf_span(&json),
                "{\"model\":\"m\\\"1\",\"max_tokens\":9,\"system\":\"sum\\n\\u3042 7 {x} \\u0001\","
                "\"messages\":[{\"role\":\"user\",\"content\":"
                "\"\\\"\\ud800\xf0\x9f\x8e\x8c\\\"\\ud800\xf0\x9f\x8e\x8c\"}]}"));
    buf_clear(&json);
    assert_int_equal(openai_format.add_headers(&openai, SPAN("k"), &json), 0);
    assert_int_equal(anthropic_format.add_headers(&claude, SPAN("k"), &json), 0);
    assert_true(
        span_is(buf_span(&json), "Authorization: Bearer k\nx-api-key: k\nanthropic-version: v\n"));
}

static void built_in_prompts_name_their_length(void **state)
{
    struct arena *arena = arena_new(10000);

    (void)state;
    assert_non_null(strstr(prompt_system(PROMPT_JAPANESE, 0, arena).at, "300文字以内"));
    assert_non_null(strstr(prompt_system(PROMPT_ENGLISH, 7, arena).at, "at most 7 words"));
    assert_non_null(strstr(prompt_user(PROMPT_JAPANESE).at, "{content}"));
    assert_non_null(strstr(prompt_user(PROMPT_ENGLISH).at, "{title}"));
    arena_free(arena);
}

static void answers_are_found_and_their_text_is_kept_exactly(void **state)
{
    static const char openai[] =
        "{\"id\":\"c\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
        "\"a\\u0000\\ud83c\\udf8c\"},\"finish_reason\":\"length\"},{\"message\":{\"content\":\"2\"}"
        "}],"
        "\"usage\":{\"prompt_tokens\": 5, \"completion_tokens\": 6},\"model\":\"m2\"}";
    static const char claude[] =
        "{\"content\":[{\"type\":\"thinking\",\"text\":\"hm\"},{\"type\":\"text\",\"text\":"
        "\"\\ud83c\"},"
        "{\"type\":\"text\",\"text\":\"\\udf8c!\"}],\"stop_reason\":\"end_turn\",\"usage\":"
        "{\"input_tokens\":7,\"output_tokens\":8}}";
    const struct provider_settings settings = settings_of(PROVIDER_OPENAI);
    struct provider_answer answer;
    AUTO(buf_done) struct buf text = {.max = 10000};
    AUTO(buf_done) struct buf json = {.max = 10000};

    (void)state;
    assert_int_equal(openai_format.read_answer(SPAN(openai), &text, &answer), 0);
    assert_true(span_is(answer.finish, "length"));
    assert_int_equal(answer.tokens_in, 5);
    assert_int_equal(answer.tokens_out, 6);
    assert_int_equal(provider_add_result(&settings, buf_span(&text), &answer, &json), 0);
    assert_true(
        span_is(buf_span(&json),
                "{\"summary\":\"a\\u0000\\ud83c\\udf8c\",\"provider\":\"p\",\"model\":\"m2\","
                "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":6}}"));
    buf_clear(&text);
    buf_clear(&json);
    assert_int_equal(anthropic_format.read_answer(SPAN(claude), &text, &answer), 0);
    assert_true(span_is(buf_span(&text), "\\ud83c\\udf8c!")); /* halves meet again */
    assert_int_equal(answer.tokens_in, 7);
    assert_int_equal(answer.tokens_out, 8);
    assert_int_equal(provider_add_result(&settings, buf_span(&text), &answer, &json), 0);
    assert_true(has(buf_span(&json), "\"model\":\"m\\\"1\"")); /* the configured one */
}

static void what_is_no_answer_is_seen(void **state)
{
    static const char *const bodies[] = {"{}",
                                         "[]",
                                         "7",
                                         "{\"choices\":[]}",
                                         "{\"choices\":{}}",
                                         "{\"choices\":[7]}",
                                         "{\"content\":\"text\"}"};
    struct provider_answer answer;

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        AUTO(buf_done) struct buf text = {.max = 100};
        assert_int_equal(openai_format.read_answer(span_of(bodies[i]), &text, &answer),
                         FAULT_INPUT);
        assert_int_equal(anthropic_format.read_answer(span_of(bodies[i]), &text, &answer),
                         FAULT_INPUT);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_article_is_read_where_it_stands),
        cmocka_unit_test(what_is_wrong_with_an_article_is_named),
        cmocka_unit_test(the_id_becomes_a_label),
        cmocka_unit_test(requests_carry_the_article_byte_for_byte),
        cmocka_unit_test(built_in_prompts_name_their_length),
        cmocka_unit_test(answers_are_found_and_their_text_is_kept_exactly),
        cmocka_unit_test(what_is_no_answer_is_seen),
    };

    return HARNESS_RUN(argc, argv, tests);
}
