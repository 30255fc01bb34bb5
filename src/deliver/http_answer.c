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

static bool is_number(struct span text)
{
    size_t at = 0;

    while (at < text.len && text.at[at] >= '0' && text.at[at] <= '9') {
        at++;
    }
    return text.len > 0 && at == text.len;
}

/* A length that is no number, or two that differ: libcurl takes what it can read of the last one, and
 * goes on to the end of the connection if that is too large (RFC 9112 6.3). */
static void note_length(struct transfer *transfer, struct span value)
{
    struct answer_state *answer = &transfer->answer;
    int64_t length = 0;
    bool is_readable = is_number(value) && span_to_int(value, &length);

    if (!is_readable || (answer->has_length && answer->length != length)) {
        answer->is_misframed = true;
    }
    answer->has_length = true;
    answer->length = length;
}

static bool is_identity(struct span codings)
{
    struct span coding;
    bool has_more = true, is_so = true;

    while (has_more) {
        has_more = span_cut(&codings, ',', &coding);
        is_so = is_so && span_is_nocase(span_trim(coding), "identity");
    }
    return is_so;
}

static void note_framing(struct transfer *transfer, struct span name, struct span value)
{
    struct answer_state *answer = &transfer->answer;

    if (span_is_nocase(name, "Content-Length")) {
        note_length(transfer, value);
    } else if (span_is_nocase(name, "Transfer-Encoding")) {
        size_t len = strlen("chunked");
        struct span last = span_from(value, value.len >= len ? value.len - len : 0);
        answer->is_chunked = answer->is_chunked || span_is_nocase(last, "chunked");
        answer->is_coded = true;
        answer->is_recoded = answer->is_recoded || !is_identity(value);
    }
}

static void add_field(struct transfer *transfer, struct span line)
{
    struct answer_state *answer = &transfer->answer;
    struct span name, value;

    answer->is_last_kept = false;
    transfer->has_field = true;
    bool is_field = span_cut(&line, ':', &name);
    value = span_trim(line);
    if (!is_field || !fields_name_is_token(name) || !fields_value_is_clean(value)) {
        return;
    }
    note_framing(transfer, name, value);
    if (http_connection_is_personal(name, value)) {
        (void)HTTP_SET(transfer, CURLOPT_FORBID_REUSE, 1L); /* cannot fail */
    }
    answer->is_last_kept = answer->field_count++ < HTTP_ANSWER_COUNT_MAX &&
                           fields_add(&transfer->delivery->response_headers, name, value) == 0;
    if (!answer->is_last_kept) {
        cut_header(transfer);
    }
}

static bool has_body(const struct transfer *transfer)
{
    int status = transfer->answer.status;

    return status != 204 && status != 304 && !span_is(transfer->hop.method, "HEAD");
}

/* Who has said both may have meant either (RFC 9112 6.3): that connection is not used again. */
static void begin_body(struct transfer *transfer)
{
    struct answer_state *answer = &transfer->answer;

    if (answer->is_coded && answer->has_length) {
        (void)HTTP_SET(transfer, CURLOPT_FORBID_REUSE, 1L); /* cannot fail */
        answer->is_counted = !answer->is_recoded && has_body(transfer);
    }
    answer->part = ANSWER_BODY;
    http_stream_look(transfer);
}

static void end_fields(struct transfer *transfer)
{
    struct answer_state *answer = &transfer->answer;
    bool is_final = answer->status >= 200;

    if (is_final) {
        begin_body(transfer);
    } else { /* 100 Continue, 103 Early Hints: the answer is still to come */
        http_answer_begin(transfer);
    }
}

/* What cannot be the answer to this request, whatever else comes: no upgrade was asked for. */
static bool is_no_answer(const struct answer_state *answer)
{
    return answer->part != ANSWER_BODY && (answer->status == 101 || answer->is_of_another ||
                                           (answer->is_misframed && answer->status >= 200));
}

static bool is_full(const struct answer_state *answer)
{
    return answer->part == ANSWER_BODY && answer->is_counted &&
           (int64_t)answer->body_bytes >= answer->length;
}

size_t http_answer_field(char *bytes, size_t one, size_t len, void *user)
{
    struct transfer *transfer = user;
    struct answer_state *answer = &transfer->answer;
    struct span line = without_line_end((struct span){.at = bytes, .len = len * one});

    if (!http_cost_line(transfer, len * one)) {
        answer->is_trailer_cut = answer->part == ANSWER_BODY;
        if (!answer->is_trailer_cut && transfer->ending == ENDING_NONE) {
            transfer->ending = ENDING_LINES;
        }
        return 0; /* libcurl stops with a write error */
    }
    if (answer->part == ANSWER_STATUS && span_starts(line, "HTTP/")) {
        answer->status = status_of(line);
        answer->is_of_another = http_connection_is_other(transfer, line);
        answer->part = ANSWER_FIELDS;
    } else if (answer->part == ANSWER_FIELDS && line.len == 0) {
        end_fields(transfer);
    } else if (answer->part == ANSWER_FIELDS && (line.at[0] == ' ' || line.at[0] == '\t')) {
        add_folded(transfer, span_trim(line));
    } else if (answer->part == ANSWER_FIELDS) {
        add_field(transfer, line);
    } /* else a trailer */
    if (is_no_answer(answer)) {
        transfer->ending = transfer->ending == ENDING_NONE ? ENDING_MALFORMED : transfer->ending;
        return 0;
    }
    return is_full(answer) ? 0 : len * one; /* nothing is to come: libcurl would wait for it */
}

CURLcode http_answer_code(const struct transfer *transfer, CURLcode code)
{
    const struct answer_state *answer = &transfer->answer;

    if (!answer->is_counted || answer->body_fault != 0) {
        return code;
    }
    if (is_full(answer)) {
        return code == CURLE_WRITE_ERROR ? CURLE_OK : code;
    }
    return code == CURLE_OK ? CURLE_PARTIAL_FILE : code;
}

/* With the last byte of a body whose length is known, libcurl has said whether there were more: before
 * it handed them over. What it has to say of a connection that it keeps is not worth its writing. */
static void end_log(struct transfer *transfer)
{
    const struct answer_state *answer = &transfer->answer;

    if (answer->has_length && !answer->is_coded && (int64_t)answer->body_bytes == answer->length) {
        (void)HTTP_SET(transfer, CURLOPT_VERBOSE, 0L); /* cannot fail */
    }
}

size_t http_answer_body(char *bytes, size_t one, size_t len, void *user)
{
    struct transfer *transfer = user;
    struct answer_state *answer = &transfer->answer;
    struct span piece = {.at = bytes, .len = len * one};

    size_t taken;

    if (answer->is_counted) {
        piece = span_until(piece, (size_t)answer->length - answer->body_bytes);
    }
    if (http_stream_take(transfer, piece, &taken)) {
        answer->body_bytes += taken == CURL_WRITEFUNC_PAUSE ? 0 : taken;
        return is_full(answer) ? 0 : taken;
    }
    answer->body_bytes += piece.len;
    answer->body_fault = buf_add(&transfer->delivery->response_body, piece);
    end_log(transfer);
    /* 0: libcurl stops with a write error */
    return answer->body_fault == 0 && !is_full(answer) ? piece.len : 0;
}

/* libcurl from 7.83 to 8.0 appends a folded line to the field before it, and if there is none, to the
 * last one of the transfer before, which it has freed (curl pull request 11103). Its log has the line
 * first: paused there, it is put by instead, and the transfer is ended from the loop. */
static void stop_fold(struct transfer *transfer)
{
    if (transfer->ending == ENDING_NONE) {
        transfer->ending = ENDING_FOLD;
    }
    transfer->http->has_marked = true;
    (void)curl_easy_pause(transfer->easy, CURLPAUSE_RECV); /* it has a connection: cannot fail */
    loop_hook_on(transfer->http->finishing);
}

/* From the gate on: each line of a header before it is taken, each read of a body, and what libcurl
 * has to say, over TLS also before that. */
int http_answer_log(CURL *easy, curl_infotype kind, char *bytes, size_t len, void *user)
{
    struct transfer *transfer = user;

    (void)easy;
    if (kind == CURLINFO_HEADER_IN) {
        if (len > 0 && (bytes[0] == ' ' || bytes[0] == '\t') && !transfer->has_field) {
            stop_fold(transfer);
        }
    } else if (kind == CURLINFO_DATA_IN) {
        http_cost_read(transfer, len);
    } else if (kind == CURLINFO_TEXT) {
        http_connection_note(transfer, (struct span){.at = bytes, .len = len});
    }
    return 0;
}
