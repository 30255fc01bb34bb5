/* SPDX-License-Identifier: MIT
 *
 * answers -- the classifier over the answers that providers give, for callgrind: measure() is called
 * once and looks at each of them so often. Prints how many answers that were.
 *
 *     answers --kind limit --calls 10000
 */
#include "../bench.h"

#include "deliver/classify.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum provider_kind kind;
    int status;
    const char *body;
} answers[] = {
    {"limit", PROVIDER_OPENAI, 429,
     "{\"error\":{\"message\":\"Rate limit reached for requests\",\"type\":\"requests\","
     "\"param\":null,\"code\":\"rate_limit_exceeded\"}}"},
    {"quota", PROVIDER_OPENAI, 429,
     "{\"error\":{\"message\":\"You exceeded your current quota, please check your plan and "
     "billing details.\",\"type\":\"insufficient_quota\",\"param\":null,\"code\":"
     "\"insufficient_quota\"}}"},
    {"spend_limit", PROVIDER_ANTHROPIC, 429,
     "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"You have reached "
     "your specified API usage limits. You will regain access on 2026-09-01 at 00:00 UTC.\","
     "\"details\":{\"error_code\":\"enforced_spend_limit_reached\"}},\"request_id\":\"req_1\"}"},
    {"overload", PROVIDER_ANTHROPIC, 529,
     "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"},"
     "\"request_id\":\"req_1\"}"},
    {"success", PROVIDER_OPENAI, 200,
     "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":"
     "\"gpt-bench\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
     "\"A summary of some length, as they are.\"},\"finish_reason\":\"stop\"}],\"usage\":"
     "{\"prompt_tokens\":100,\"completion_tokens\":20,\"total_tokens\":120}}"},
};

/* Not inlined, and seen by callgrind under this name. */
__attribute__((noinline)) void measure(const struct classify_input *input, uint64_t calls);

void measure(const struct classify_input *input, uint64_t calls)
{
    struct verdict verdict;

    for (uint64_t i = 0; i < calls; i++) {
        (void)classify_answer(input, &verdict); /* only its cost is of interest */
    }
}

int main(int argc, char **argv)
{
    const char *name = bench_word(argc, argv, "--kind");
    uint64_t calls = bench_number(argc, argv, "--calls", 10000);
    const struct provider_settings settings = {
        .keys = {SPAN("sk-bench-key-1234567890")}, .key_count = 1, .headers = SPAN("")};

    for (size_t i = 0; name != NULL && i < sizeof answers / sizeof *answers; i++) {
        if (strcmp(name, answers[i].name) == 0) {
            measure(&(struct classify_input){.kind = answers[i].kind,
                                             .status = answers[i].status,
                                             .body = span_of(answers[i].body),
                                             .headers = SPAN("content-type: application/json\n"),
                                             .now_ms = INT64_C(1785542400000),
                                             .settings = &settings},
                    calls);
            printf("%llu\n", (unsigned long long)calls);
            return 0;
        }
    }
    bench_give_up("--kind limit, quota, spend_limit, overload or success");
}
