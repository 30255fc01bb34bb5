/* SPDX-License-Identifier: MIT
 *
 * api_operations -- what operators and their machines ask: is it alive, is it ready, how is it doing,
 * what can be called.
 */
#include "edge/api.h"

#include "watch/metrics.h"

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

/* Whether a line is about no queue, or about one that the caller sees. */
static bool is_seen(const struct reach *reach, struct span line)
{
    static const char label[] = "{queue=\"";
    struct span rest = line, front;

    if (!span_cut(&rest, '{', &front) || !span_starts(span_from(line, front.len), label)) {
        return true;
    }
    struct span name = span_from(rest, strlen(label) - 1);
    (void)span_cut(&name, '"', &front); /* it is there: metrics_render wrote it */
    return reach_has(reach, front);
}

/* What is of the server as a whole stays. */
static void hide_queues(const struct reach *reach, struct buf *text)
{
    struct span rest = buf_span(text);
    char *bytes = text->at;
    size_t kept = 0, at = 0;

    while (rest.len > 0) {
        const char *end = span_find(rest, '\n');
        size_t line = end != NULL ? (size_t)(end - rest.at) + 1 : rest.len;
        if (is_seen(reach, span_until(rest, line))) {
            memmove(bytes + kept, bytes + at, line);
            kept += line;
        }
        rest = span_from(rest, line);
        at += line;
    }
    text->len = kept;
}

/* Does an Accept name the format? Its weight is not looked at: who names it can read it. */
static bool wants_open(struct span accept)
{
    for (; accept.len > 0; accept = span_from(accept, 1)) {
        if (span_starts(accept, "application/openmetrics-text")) {
            return true;
        }
    }
    return false;
}

/* False: refused. */
static bool wants_total(struct exchange *exchange, bool *ret_total)
{
    struct span detail;

    *ret_total = path_find(&exchange->path, "detail", &detail);
    if (*ret_total && !span_is(detail, "total")) {
        exchange_refuse(exchange, PROBLEM_INVALID, SPAN("detail: expected total"), SPAN("detail"));
        return false;
    }
    return true;
}

static void answer_metrics(struct exchange *exchange)
{
    const struct edge_options *options = &exchange->edge->options;
    bool is_open = wants_open(exchange->accept), is_total;
    struct writer writer;

    if (!wants_total(exchange, &is_total)) {
        return;
    }
    struct response *response = exchange_begin(exchange, 200, &writer);
    if (response == NULL) {
        return;
    }
    response->content_type = is_open ? CONTENT_OPEN_METRICS : CONTENT_METRICS;
    if (options->metrics != NULL) {
        unsigned how = (is_open ? METRICS_OPEN : 0u) | (is_total ? METRICS_TOTAL : 0u);
        writer.failed = options->metrics(options->user, how, writer.out);
    }
    if (!reach_is_whole(&exchange->reach)) {
        hide_queues(&exchange->reach, writer.out);
    }
    exchange_finish(exchange, &writer);
}

void api_metrics(struct exchange *exchange)
{
    edge_put_run(exchange, answer_metrics);
}

static void write_host(struct writer *writer, const struct host_view *host)
{
    char moment[CLOCK_TEXT_MAX];

    clock_format(host->failed_at_ms, moment);
    write_open(writer, '{');
    write_named_text(writer, "queue", host->queue);
    write_named_text(writer, "host", host->host);
    write_named_uint(writer, "attempts", host->attempts);
    write_named_uint(writer, "failures", host->failures);
    write_named_uint(writer, "status", (uint64_t)host->status);
    write_named_text(writer, "class", span_of(host->error_class != NULL ? host->error_class : ""));
    write_named_text(writer, "reason", host->reason);
    write_named_text(writer, "failed_at", span_of(moment));
    write_close(writer, '}');
}

/* On the engine's thread. */
static void answer_hosts(struct exchange *exchange)
{
    struct host_view hosts[ENGINE_HOSTS_SHOWN];
    struct writer writer;
    const struct engine *engine = edge_engine(exchange->edge);
    size_t count = engine_hosts(engine, &exchange->reach, hosts, ENGINE_HOSTS_SHOWN);

    if (exchange_begin(exchange, 200, &writer) == NULL) {
        return;
    }
    write_open(&writer, '{');
    write_name(&writer, "hosts");
    write_open(&writer, '[');
    for (size_t i = 0; i < count; i++) {
        write_host(&writer, &hosts[i]);
    }
    write_close(&writer, ']');
    write_close(&writer, '}');
    exchange_finish(exchange, &writer);
}

void api_hosts(struct exchange *exchange)
{
    edge_put_run(exchange, answer_hosts);
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
