/* SPDX-License-Identifier: MIT
 *
 * Tests of AI providers in the configuration: what is read, what is not written, what is refused and
 * in which words; and that no error, and nothing that is shown, holds a key (I10).
 */
#include "certificate.h"
#include "harness.h"

#include "base/auto.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY   "sk-config-secret-1"
#define KEY_2 "sk-config-secret-2"

#define OPENAI "providers:\n  - {name: openai, kind: openai, model: m, keys: [env:PROVIDER_KEY]"
#define CLAUDE "  - {name: claude, kind: anthropic, model: c, keys: [env:PROVIDER_KEY_2]}\n"

static bool has(struct span bytes, const char *text)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (span_starts(span_from(bytes, i), text)) {
            return true;
        }
    }
    return false;
}

static struct config *read_config(const char *text)
{
    struct config *config = NULL;
    struct error err = {0};

    setenv("PROVIDER_KEY", KEY, 1);
    setenv("PROVIDER_KEY_2", KEY_2, 1);
    if (config_parse(span_of(text), "t.yaml", &config, &err) != 0) {
        fail_msg("%s in\n%s", err.text, text);
    }
    return config;
}

static void what_is_not_written_is_built_in(void **state)
{
    struct config *config = read_config(OPENAI "}\n" CLAUDE);
    const struct provider_settings *openai = &config->providers[0];
    const struct provider_settings *claude = &config->providers[1];

    (void)state;
    assert_int_equal(config->provider_count, 2);
    assert_true(span_is(openai->url, "https://api.openai.com"));
    assert_true(span_is(claude->url, "https://api.anthropic.com"));
    assert_int_equal(openai->max_tokens, PROVIDER_MAX_TOKENS);
    assert_true(span_is(claude->version, "2023-06-01"));
    assert_int_equal(claude->timeout_ms, PROVIDER_TIMEOUT_MS);
    assert_non_null(strstr(openai->system.at, "日本語"));
    assert_non_null(strstr(openai->user.at, "{content}"));
    assert_true(span_is(openai->keys[0], KEY));
    config_free(config);
}

static void what_is_written_is_read(void **state)
{
    certificate_write("ca.pem");
    struct config *config = read_config(
        OPENAI ", url: 'http://127.0.0.1:9/v1/', prompt: {language: en, length: 20},\n"
               "     max_tokens: 5, timeout: 3s, price: {input: 2.5, output: 10},\n"
               "     headers: [{name: OpenAI-Organization, value: org}], ca: ca.pem}\n"
               "  - name: claude\n    kind: anthropic\n    model: c\n    version: v2\n"
               "    keys: [env:PROVIDER_KEY, env:PROVIDER_KEY_2]\n"
               "    prompt:\n      system: ''\n      user: |\n        {title}\n        {content}\n"
               "queues:\n  - {name: articles, policy: articles, fallback: [claude, openai],\n"
               "     order: round_robin, wait_under: 500ms}\n"
               "  - {name: plain, fallback: [openai]}\n");
    const struct provider_settings *openai = &config->providers[0];
    const struct fallback *fallback = config->queues[0].fallback;

    (void)state;
    assert_true(span_is(openai->url, "http://127.0.0.1:9"));
    assert_non_null(strstr(openai->system.at, "at most 20 words"));
    assert_int_equal(openai->max_tokens, 5);
    assert_int_equal(openai->timeout_ms, 3000);
    assert_true(openai->price_in == 2.5 && openai->price_out == 10);
    assert_true(span_is(openai->headers, "OpenAI-Organization: org\n"));
    assert_true(span_is(config->providers[1].user, "{title}\n{content}\n"));
    assert_int_equal(config->providers[1].key_count, 2);
    assert_ptr_equal(fallback->providers[0], &config->providers[1]);
    assert_ptr_equal(fallback->providers[1], &config->providers[0]);
    assert_int_equal(fallback->order, FALLBACK_ROUND_ROBIN);
    assert_int_equal(fallback->wait_under_ms, 500);
    assert_int_equal(config->queues[1].fallback->order, FALLBACK_FIXED);
    assert_int_equal(config->queues[1].fallback->wait_under_ms, FALLBACK_WAIT_UNDER_MS);
    config_free(config);
}

static const struct {
    const char *text, *error;
} mistakes[] = {
    {"providers: [{name: a, kind: openai, model: m, keys: ['" KEY "']}]\n",
     "t.yaml:1:54: providers[0].keys[0]: expected env:NAME or file:PATH, not the secret "
     "itself"},
    {"providers: [{name: a, kind: openai, model: m, keys: []}]\n",
     "t.yaml:1:53: providers[0].keys: found 0 entries, expected 1 to 16"},
    {"providers: [{name: a, kind: openai, model: m, keys: [env:PROVIDER_KEY, "
     "env:PROVIDER_KEY]}]",
     "t.yaml:1:72: providers[0].keys[1]: found the same key twice, expected each once"},
    {"providers: [{name: a, kind: openai, model: m}]\n",
     "t.yaml:1:13: providers[0].keys: missing, expected a list of secrets: [env:NAME] or "
     "[file:PATH]"},
    {"providers: [{name: a, kind: gemini, model: m, keys: [env:PROVIDER_KEY]}]\n",
     "t.yaml:1:29: providers[0].kind: found gemini, expected one of openai or anthropic"},
    {OPENAI ", url: 'https://a/?b'}\n",
     "t.yaml:2:75: providers[0].url: found a URL with a query, expected a URL with a host that "
     "begins with http:// or https:// and has no query"},
    {OPENAI ", url: 'https://a/v1/chat/completions/'}\n",
     "t.yaml:2:75: providers[0].url: found a URL that ends in /chat/completions, expected what "
     "stands before it: the rest is added, or is written as path"},
    {"providers: [{name: a, kind: anthropic, model: m, keys: [env:PROVIDER_KEY], url: "
     "'https://a/v1/messages'}]\n",
     "t.yaml:1:81: providers[0].url: found a URL that ends in /messages, expected what stands "
     "before it: the rest is added, or is written as path"},
    {OPENAI ", url: 'http://10.0.0.5:8000'}\n",
     "t.yaml:2:75: providers[0].url: found http:// to another machine, where the key would "
     "travel in plain text, expected https://, or allow_http: true"},
    {OPENAI ", path: chat}\n",
     "t.yaml:2:76: providers[0].path: found a path without / in front, expected a path that "
     "begins with / and follows the url, such as /chat/completions"},
    {OPENAI ", path: '/a b'}\n",
     "t.yaml:2:76: providers[0].path: found a character that has to be escaped, expected a "
     "path that begins with / and follows the url, such as /chat/completions"},
    {OPENAI ", headers: [{name: authorization, value: Bearer x}]}\n",
     "t.yaml:2:79: providers[0].headers: found Authorization, which is sent anyway and comes "
     "from the keys, expected others"},
    {"providers: [{name: a, kind: anthropic, model: m, keys: [env:PROVIDER_KEY], old: true}]\n",
     "t.yaml:1:81: providers[0].old: found it with another kind than openai, expected it there "
     "only"},
    {OPENAI ", prompt: {user: '{title}'}}\n",
     "t.yaml:2:78: providers[0].prompt: found a prompt without {content}, expected the article "
     "in it"},
    {OPENAI ", prompt: {language: fr}}\n",
     "t.yaml:2:89: providers[0].prompt.language: found fr, expected one of ja or en"},
    {OPENAI "}\nqueues: [{name: q, fallback: [claud]}]\n",
     "t.yaml:3:31: queues[0].fallback[0]: found claud, expected the name of a provider of the "
     "file: openai"},
    {"queues: [{name: q, fallback: [openai]}]\n",
     "t.yaml:1:31: queues[0].fallback[0]: found openai, expected the name of a provider of the "
     "file, which has none"},
    {OPENAI "}\nqueues: [{name: q, fallback: [openai, openai]}]\n",
     "t.yaml:3:39: queues[0].fallback[1]: found the same provider twice, expected each once"},
    {OPENAI "}\nqueues: [{name: q, fallback: []}]\n",
     "t.yaml:3:30: queues[0].fallback: found 0 entries, expected 1 to 8"},
    {OPENAI "}\nqueues: [{name: q, order: sticky}]\n",
     "t.yaml:3:27: queues[0].order: found it without fallback, expected a list of providers"},
    {OPENAI "}\nqueues: [{name: q, fallback: [openai], order: random}]\n",
     "t.yaml:3:47: queues[0].order: found random, expected fixed, sticky or round_robin"},
    {OPENAI "}\nqueues: [{name: q, fallback: [openai], wait_under: 2m}]\n",
     "t.yaml:3:52: queues[0].wait_under: found 2m, expected a duration such as 250ms or 2s, at "
     "most 1m"},
    {OPENAI "}\nqueues: [{name: q, fallback: [openai], targets: [{name: t, url: 'http://h/', "
            "repeatable: false}]}]\n",
     "t.yaml:3:49: queues[0].targets: found a target that is not repeatable in a queue with "
     "fallback, whose requests may go to several providers"},
    {OPENAI "}\nqueues: [{name: q, fallback: [openai], targets: [{name: t, url: 'http://h/'}]}]\n",
     "t.yaml:3:49: queues[0].targets: found targets and fallback in one queue, expected one of "
     "them"},
};

static void mistakes_are_told_in_exact_words(void **state)
{
    (void)state;
    setenv("PROVIDER_KEY", KEY, 1);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct config *config = NULL;
        struct error err = {0};
        assert_int_equal(config_parse(span_of(mistakes[i].text), "t.yaml", &config, &err),
                         FAULT_INPUT);
        assert_string_equal(err.text, mistakes[i].error);
        assert_null(strstr(err.text, KEY));
    }
}

static void a_queue_as_json_reads_back_the_same(void **state)
{
    struct config *config = read_config(OPENAI "}\n" CLAUDE);
    struct arena *arena = arena_new(1000000);
    struct queue_settings settings, again;
    AUTO(buf_done) struct buf json = {.max = 100000};
    AUTO(buf_done) struct buf second = {.max = 100000};
    struct error err = {0};

    (void)state;
    assert_int_equal(config_parse_queue(SPAN("{\"fallback\":[\"claude\",\"openai\"],"
                                             "\"order\":\"sticky\",\"wait_under\":\"250ms\"}"),
                                        SPAN("q"), config, arena, &settings, &err),
                     0);
    assert_int_equal(config_render_queue(&settings, &json), 0);
    assert_int_equal(config_parse_queue(buf_span(&json), SPAN("q"), config, arena, &again, &err),
                     0);
    assert_memory_equal(again.fallback, settings.fallback, sizeof *settings.fallback);
    assert_int_equal(config_show_queue(&again, &second), 0);
    assert_true(span_equal(buf_span(&json), buf_span(&second)));
    assert_true(has(buf_span(&json), "\"fallback\":[\"claude\",\"openai\"],\"order\":\"sticky\","
                                     "\"wait_under\":\"250ms\""));
    assert_int_equal(
        config_parse_queue(SPAN("{\"fallback\":[\"x\"]}"), SPAN("q"), NULL, arena, &again, &err),
        FAULT_INPUT);
    assert_string_equal(err.field, "fallback[0]");
    arena_free(arena);
    config_free(config);
}

static void a_url_and_its_path_may_be_anything_that_leads_there(void **state)
{
    static const struct {
        const char *written, *url, *path;
    } rows[] = {
        {"url: 'https://h/v1'", "https://h", ""},
        {"url: 'https://h/v1', path: /chat/completions", "https://h/v1", "/chat/completions"},
        {"url: 'https://generativelanguage.googleapis.com/v1beta/openai/', path: /chat/completions",
         "https://generativelanguage.googleapis.com/v1beta/openai", "/chat/completions"},
        {"url: 'https://h', path: '/deployments/d/chat/completions?api-version=2024-10-21'",
         "https://h", "/deployments/d/chat/completions?api-version=2024-10-21"},
        {"url: 'http://localhost:1'", "http://localhost:1", ""},
        {"url: 'http://127.8.9.1'", "http://127.8.9.1", ""},
        {"url: 'http://[::1]:1'", "http://[::1]:1", ""},
        {"url: 'http://gpu.internal:8000', allow_http: true", "http://gpu.internal:8000", ""},
        {"headers: [{name: X-Api-Key, value: y}]", "https://api.openai.com", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        snprintf(text, sizeof text, OPENAI ", %s}\n", rows[i].written);
        struct config *config = read_config(text);
        assert_true(span_is(config->providers[0].url, rows[i].url));
        assert_true(span_is(config->providers[0].path, rows[i].path));
        config_free(config);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_and_its_path_may_be_anything_that_leads_there),
        cmocka_unit_test(what_is_not_written_is_built_in),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(mistakes_are_told_in_exact_words),
        cmocka_unit_test(a_queue_as_json_reads_back_the_same),
    };

    return HARNESS_RUN(argc, argv, tests);
}
