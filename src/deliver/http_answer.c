/* SPDX-License-Identifier: MIT
 *
 * http_answer -- what comes in, as libcurl hands it over: one line of the header after another, then
 * pieces of the body, then perhaps trailers, which look like header lines and are not kept.
 */
#include "deliver/http_internal.h"
#include "task/fields.h"

void http_answer_begin(struct transfer *transfer)
{
    transfer->answer = (struct answer_state){.part = ANSWER_STATUS};
    transfer->delivery->is_header_cut = false;
    buf_clear(&transfer->delivery->response_headers);
    buf_clear(&transfer->delivery->response_body);
}

static struct span without_line_end(struct span line)
{
    while (line.len > 0 && (line.at[line.len - 1] == '\n' || line.at[line.len - 1] == '\r')) {
        line.len--;
    }
    return line;
}

/* HTTP/1.1 200 OK. libcurl has refused what looks otherwise. */
static int status_of(struct span line)
{
    struct span version, status;
    int64_t number = 0;

    (void)span_cut(&line, ' ', &version); /* without a blank the status is empty: 0 */
    (void)span_cut(&line, ' ', &status);
    return span_to_int(status, &number) && number >= 100 && number <= 999 ? (int)number : 0;
}

static void cut_header(struct transfer *transfer)
{
    transfer->answer.is_fields_cut = transfer->delivery->is_header_cut = true;
}

/* RFC 9112 5.2: a line that begins with a blank goes on with the value before it. */
static void add_folded(struct transfer *transfer, struct span more)
{
    struct buf *fields = &transfer->delivery->response_headers;

    if (!transfer->answer.is_last_kept || more.len == 0) {
        return;
    }
    if (!fields_value_is_clean(more)) {
        transfer->answer.is_fields_cut = true;
        return;
    }
    if (fields->len + more.len + 1 > fields->max) {
        cut_header(transfer);
        return;
    }
    fields->len--; /* its newline */
    if (buf_addf(fields, " %.*s", SPAN_ARGS(more)) != 0) {
        cut_header(transfer);
    }
    fields->at[fields->len++] = '\n'; /* the room that the newline had */
}

static void note_framing(struct answer_state *answer, struct span name, struct span value)
{
    answer->has_length = answer->has_length || span_is_nocase(name, "Content-Length");
    if (span_is_nocase(name, "Transfer-Encoding") && value.len >= strlen("chunked")) {
        struct span last = span_from(value, value.len - strlen("chunked"));
        answer->is_chunked = answer->is_chunked || span_is_nocase(last, "chunked");
    }
}

static void add_field(struct transfer *transfer, struct span line)
{
    struct answer_state *answer = &transfer->answer;
    struct span name, value;

    answer->is_last_kept = false;
    bool is_field = span_cut(&line, ':', &name);
    value = span_trim(line);
    if (!is_field || !fields_name_is_token(name) || !fields_value_is_clean(value)) {
        return;
    }
    note_framing(answer, name, value);
    answer->is_last_kept = fields_add(&transfer->delivery->response_headers, name, value) == 0;
    if (!answer->is_last_kept) {
        cut_header(transfer);
    }
}

static void end_fields(struct transfer *transfer)
{
    struct answer_state *answer = &transfer->answer;
    bool is_final = answer->status >= 200;

    if (is_final) {
        answer->part = ANSWER_BODY;
        (void)HTTP_SET(transfer, CURLOPT_VERBOSE, 1L); /* for http_connection_log; cannot fail */
        http_stream_look(transfer);
    } else { /* 100 Continue, 103 Early Hints: the answer is still to come */
        http_answer_begin(transfer);
    }
}

size_t http_answer_field(char *bytes, size_t one, size_t len, void *user)
{
    struct transfer *transfer = user;
    struct answer_state *answer = &transfer->answer;
    struct span line = without_line_end((struct span){.at = bytes, .len = len * one});

    if (answer->part == ANSWER_STATUS && span_starts(line, "HTTP/")) {
        answer->status = status_of(line);
        if (span_starts(line, "HTTP/2")) {
            http_connection_multiplexed(transfer);
        }
        answer->part = ANSWER_FIELDS;
    } else if (answer->part == ANSWER_FIELDS && line.len == 0) {
        end_fields(transfer);
    } else if (answer->part == ANSWER_FIELDS && (line.at[0] == ' ' || line.at[0] == '\t')) {
        add_folded(transfer, span_trim(line));
    } else if (answer->part == ANSWER_FIELDS) {
        add_field(transfer, line);
    } /* else a trailer */
    return len * one;
}

size_t http_answer_body(char *bytes, size_t one, size_t len, void *user)
{
    struct transfer *transfer = user;
    struct answer_state *answer = &transfer->answer;
    struct span piece = {.at = bytes, .len = len * one};

    size_t taken;

    if (http_stream_take(transfer, piece, &taken)) {
        answer->body_bytes += taken == CURL_WRITEFUNC_PAUSE ? 0 : taken;
        return taken;
    }
    answer->body_bytes += piece.len;
    answer->body_fault = buf_add(&transfer->delivery->response_body, piece);
    return answer->body_fault == 0 ? piece.len : 0; /* 0: libcurl stops with a write error */
}
