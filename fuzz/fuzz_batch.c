/* SPDX-License-Identifier: MIT
 *
 * fuzz_batch -- many tasks in one text, and the headers that say who sends them. What must hold for
 * any input: the batch is refused as a whole with a reason, or each of its tasks is either read, in
 * its place, or refused with a reason; no caller is let in but with the one right token; no host but
 * loopback is ours, and no origin but our own.
 */
#include "edge/origin.h"
#include "edge/parse_batch.h"
#include "edge/tokens.h"

#include <stdio.h>
#include <stdlib.h>

#define SECRET "s3cret"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

static void holds(bool claim, const char *text)
{
    if (!claim) {
        fprintf(stderr, "does not hold: %s\n", text);
        abort();
    }
}

#define HOLDS(claim) holds((claim), #claim)

static void check_batch(struct span text)
{
    const struct parse_options options = {.now_ms = INT64_C(1800000000000)};
    const struct submission form = {.exchange = 7, .queue = SPAN("q")};
    struct parsed_batch *batch = NULL;
    struct error error = {0};
    int failed = parse_batch(&options, &form, text, &batch, &error);

    if (failed != 0) {
        HOLDS(failed == FAULT_INPUT && error.text[0] != '\0' && batch == NULL);
        return;
    }
    HOLDS(batch->count <= EDGE_BATCH_MAX);
    for (size_t i = 0; i < batch->count; i++) {
        const struct parsed_task *task = &batch->tasks[i];
        HOLDS(task->submission.index == i && task->submission.exchange == 7);
        HOLDS((task->failed == 0) == (task->submission.arena != NULL));
        HOLDS(task->failed == 0 || task->error.text[0] != '\0');
    }
    parsed_batch_free(batch);
}

/* The right token is let in, whatever stands around it; nothing else is. */
static bool is_right(struct span header)
{
    struct span scheme = span_until(header, 7);

    return header.len > 7 && span_is_nocase(scheme, "bearer ") &&
           span_is(span_trim(span_from(header, 6)), SECRET);
}

static void check_tokens(struct span header)
{
    static const struct edge_token token = {
        .name = {"ops", 3}, .roles = EDGE_ROLE_VIEWER, .secret = {SECRET, sizeof SECRET - 1}};
    struct token_set set;
    struct caller caller;

    HOLDS(tokens_init(&set, &token, 1, NULL) == 0);
    HOLDS(tokens_know(&set, header, &caller, NULL) == 0);
    HOLDS((caller.roles == EDGE_ROLE_VIEWER) == is_right(header));
    tokens_done(&set);
}

static bool is_loopback(struct span host)
{
    return span_is_nocase(span_until(host, 9), "localhost") || span_starts(host, "127.") ||
           span_starts(host, "[");
}

static void check_origin(struct span header)
{
    const struct origin_rule rule = {.knows_hosts = true, .listen = SPAN("127.0.0.1")};
    struct origin_view view = {
        .method = SPAN("POST"), .target = SPAN("/v1/queues"), .host = header};

    HOLDS(origin_check(&rule, &view) == PROBLEM_HOST_UNKNOWN || is_loopback(header));
    view.host = SPAN("localhost:8700");
    view.origin = header;
    HOLDS(origin_check(&rule, &view) == PROBLEM_CROSS_SITE ||
          span_is_nocase(header, "http://localhost:8700") ||
          span_is_nocase(header, "http://localhost:08700"));
    view.site = header;
    HOLDS(origin_check(&rule, &view) == PROBLEM_CROSS_SITE || span_is(header, "same-origin") ||
          span_is(header, "none"));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    struct span text = {.at = (const char *)input, .len = length};

    check_batch(text);
    check_tokens(text);
    check_origin(text);
    return 0;
}
