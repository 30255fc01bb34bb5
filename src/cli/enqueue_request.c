/* SPDX-License-Identifier: MIT
 *
 * enqueue_request -- see enqueue_request.h. What stands in --json-data goes on byte by byte: what a
 * parser gave back could be another text, and with it another fingerprint.
 */
#include "cli/enqueue_request.h"

#include "base/auto.h"
#include "base/base64.h"
#include "base/json_value.h"
#include "cli/given.h"
#include "edge/writer.h"
#include "task/fields.h"

#define ESCAPED_TIMES 6          /* a byte becomes at most \u0000 */
#define REQUEST_EXTRA (8u << 20) /* all but the body: the largest headers, escaped, and more */

static int read_body(const struct enqueue_request *request, struct buf *body, struct error *err)
{
    struct span rest, value;

    if (request->body != NULL) {
        return given_read(request->body, "--data", body, err);
    }
    if (request->json == NULL) {
        return 0;
    }
    int failed = given_read(request->json, "--json-data", body, err);
    if (failed != 0) {
        return failed;
    }
    rest = buf_span(body);
    if (!span_is_utf8(rest) || !json_value_take(&rest, &value) || rest.len > 0) {
        return fail_field(err, FAULT_INPUT, "--json-data", "what is given is not JSON");
    }
    return 0;
}

static void write_headers(struct writer *writer, const struct header_flags *headers)
{
    struct span rest = buf_span(&headers->fields), name, value;

    if (rest.len == 0) {
        return;
    }
    write_name(writer, "headers");
    write_open(writer, '{');
    while (fields_next(&rest, &name, &value)) {
        write_name_span(writer, name);
        write_text(writer, value);
    }
    write_close(writer, '}');
}

static void write_labels(struct writer *writer, const struct enqueue_pair *labels, size_t count)
{
    if (count == 0) {
        return;
    }
    write_name(writer, "labels");
    write_open(writer, '{');
    for (size_t i = 0; i < count; i++) {
        write_name_span(writer, labels[i].name);
        write_text(writer, labels[i].value);
    }
    write_close(writer, '}');
}

static void write_given(struct writer *writer, const char *name, const char *text)
{
    if (text != NULL) {
        write_named_text(writer, name, span_of(text));
    }
}

static void write_time_given(struct writer *writer, const char *name, int64_t ms)
{
    if (ms >= 0) {
        write_named_int(writer, name, ms);
    }
}

static void write_base64(struct writer *writer, struct span body)
{
    write_name(writer, "body_base64");
    write_json(writer, SPAN("\""));
    if (writer->failed == 0) {
        writer->failed = base64_encode(body, writer->out);
    }
    if (writer->failed == 0) {
        writer->failed = buf_add(writer->out, SPAN("\""));
    }
}

static void write_body(struct writer *writer, const struct enqueue_request *request,
                       struct span body)
{
    if (request->json != NULL) {
        write_name(writer, "json");
        write_json(writer, body);
    } else if (request->body != NULL && span_is_utf8(body)) {
        write_named_text(writer, "body", body);
    } else if (request->body != NULL) {
        write_base64(writer, body);
    }
}

int enqueue_request_write(const struct enqueue_request *request, struct buf *ret_json,
                          struct error *err)
{
    AUTO(buf_done) struct buf body, json;
    struct writer writer = {.out = &json};

    buf_init(&body, GIVEN_BYTES_MAX);
    buf_init(&json, 0);
    int failed = read_body(request, &body, err);
    if (failed != 0) {
        return failed;
    }
    buf_init(&json, ESCAPED_TIMES * body.len + REQUEST_EXTRA);
    write_open(&writer, '{');
    write_given(&writer, "target", request->target);
    write_given(&writer, "method", request->method);
    write_headers(&writer, &request->headers);
    write_body(&writer, request, buf_span(&body));
    write_given(&writer, "key", request->key);
    write_labels(&writer, request->labels, request->label_count);
    write_time_given(&writer, "delay_ms", request->delay_ms);
    write_time_given(&writer, "deadline_ms", request->deadline_ms);
    write_time_given(&writer, "timeout_ms", request->timeout_ms);
    write_close(&writer, '}');
    if (writer.failed != 0) {
        return fail(err, (enum fault)writer.failed, "no memory for the request");
    }
    *ret_json = json;
    buf_init(&json, 0); /* the caller's now */
    return 0;
}
