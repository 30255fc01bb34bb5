/* SPDX-License-Identifier: MIT
 *
 * fuzz_provider -- what an AI provider may answer, and what may be called an article. What must hold
 * for any input: an error has a class, a text that is UTF-8 on one line and holds no key; an answer
 * that is taken becomes well-formed JSON that reads back with the members promised; an article that is
 * taken becomes a well-formed request. The first byte chooses kind and status.
 */
#include "base/json_value.h"
#include "deliver/classify.h"
#include "deliver/provider_format.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define NOW_MS INT64_C(1800000000000)
#define SECRET "sk-fuzz-key-0123"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

static void holds(bool claim, const char *text)
{
    if (!claim) {
        fprintf(stderr, "does not hold: %s\n", text);
        abort();
    }
}

#define HOLDS(claim) holds((claim), #claim)

static const int statuses[] = {200, 400, 401, 402, 403, 404, 413, 429, 500, 503, 529, 302, 0};

static void check_class(enum provider_kind kind, int status, struct span body)
{
    const struct provider_settings settings = {
        .keys = {SPAN(SECRET)}, .key_count = 1, .headers = SPAN("")};
    const struct classify_input input = {.kind = kind,
                                         .status = status,
                                         .body = body,
                                         .headers = SPAN("x-should-retry: false\n"),
                                         .now_ms = NOW_MS,
                                         .settings = &settings};
    struct verdict verdict;

    if (!classify_answer(&input, &verdict)) {
        HOLDS(status == 200);
        return;
    }
    HOLDS((unsigned)verdict.error_class < DARUMA_CLASS_COUNT);
    HOLDS(verdict.status != 200 && verdict.hint_ms >= 0);
    HOLDS(span_is_utf8(span_of(verdict.message)));
    HOLDS(strstr(verdict.message, SECRET) == NULL && strchr(verdict.message, '\n') == NULL);
}

static bool is_json(struct span text)
{
    struct span rest = text, value;

    return span_is_utf8(text) && json_value_take(&rest, &value) && rest.len == 0;
}

static void check_answer(const struct provider_settings *settings, struct span body)
{
    struct provider_answer answer = {0};
    struct buf text, json;

    if (!is_json(body)) {
        return;
    }
    buf_init(&text, body.len);
    buf_init(&json, body.len + 4096);
    if (provider_format_of(settings->kind)->read_answer(body, &text, &answer) == 0) {
        HOLDS(provider_add_result(settings, buf_span(&text), &answer, &json) == 0);
        HOLDS(is_json(buf_span(&json)));
        struct span value;
        HOLDS(provider_member(buf_span(&json), "summary", &value) && value.at[0] == '"');
        HOLDS(provider_member(buf_span(&json), "usage", &value));
    }
    buf_done(&text);
    buf_done(&json);
}

static void check_article(const struct provider_settings *settings, struct span body)
{
    struct article article;
    struct error err = {0};
    struct buf json;

    if (article_read(body, &article, &err) != 0) {
        HOLDS(err.field[0] != '\0' && err.text[0] != '\0');
        return;
    }
    buf_init(&json, 2 * body.len + 4096);
    HOLDS(provider_format_of(settings->kind)->add_request(settings, &article, &json) == 0);
    HOLDS(is_json(buf_span(&json)));
    buf_done(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    const struct provider_settings settings = {
        .name = SPAN("p"),
        .kind = length > 0 && (input[0] & 1) != 0 ? PROVIDER_ANTHROPIC : PROVIDER_OPENAI,
        .model = SPAN("m"),
        .system = SPAN("{title}"),
        .user = SPAN("{content}")};
    struct span body = {.at = (const char *)input + 1, .len = length > 0 ? length - 1 : 0};

    if (length == 0) {
        return 0;
    }
    check_class(settings.kind, statuses[(input[0] >> 1) % (sizeof statuses / sizeof *statuses)],
                body);
    check_answer(&settings, body);
    check_article(&settings, body);
    return 0;
}
