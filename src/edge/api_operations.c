/* SPDX-License-Identifier: MIT
 *
 * api_operations -- what operators and their machines ask: is it alive, is it ready, how is it doing,
 * what can be called.
 */
#include "edge/api.h"

static void answer_status(struct exchange *exchange, const char *word)
{
    struct writer writer;

    if (exchange_begin(exchange, 200, &writer) != NULL) {
        write_open(&writer, '{');
        write_named_text(&writer, "status", span_of(word));
        write_close(&writer, '}');
        exchange_finish(exchange, &writer);
    }
}

void api_health(struct exchange *exchange)
{
    answer_status(exchange, "ok");
}

static void answer_ready(struct exchange *exchange)
{
    const struct edge_options *options = &exchange->edge->options;
    struct error error = {0};

    if (edge_is_stopping(exchange->edge)) {
        exchange_refuse(exchange, PROBLEM_DRAINING, SPAN(""), SPAN(""));
    } else if (options->ready != NULL && options->ready(options->user, &error) != 0) {
        exchange_refuse_error(exchange, &error);
    } else {
        answer_status(exchange, "ready");
    }
}

void api_ready(struct exchange *exchange)
{
    edge_put_run(exchange, answer_ready);
}

static void answer_metrics(struct exchange *exchange)
{
    const struct edge_options *options = &exchange->edge->options;
    struct writer writer;
    struct response *response = exchange_begin(exchange, 200, &writer);

    if (response == NULL) {
        return;
    }
    response->content_type = CONTENT_METRICS;
    if (options->metrics != NULL) {
        writer.failed = options->metrics(options->user, writer.out);
    }
    exchange_finish(exchange, &writer);
}

void api_metrics(struct exchange *exchange)
{
    edge_put_run(exchange, answer_metrics);
}

void api_openapi(struct exchange *exchange)
{
    struct writer writer;
    struct response *response = exchange_begin(exchange, 200, &writer);

    if (response != NULL) {
        response->fixed = exchange->edge->options.openapi.at != NULL
                              ? exchange->edge->options.openapi
                              : SPAN("{}");
        exchange_finish(exchange, &writer);
    }
}
