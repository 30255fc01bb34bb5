/* SPDX-License-Identifier: MIT
 *
 * http_cost -- what an answer may cost, whichever target sends it: how many bytes of it are neither body nor
 * kept, and how much one transfer may read in one turn of the loop.
 *
 * libcurl reads a socket until it is empty, and against a target that sends as fast as it is read
 * that is never; of what frames a body (chunk sizes and their extensions) its callbacks show nothing.
 * But its log has every read of a body, before it is taken apart (http_answer_log): there the bytes are
 * counted, and a transfer that has read TURN_BYTES is paused until the next turn.
 *
 *   read --> paused, in http->resting --> http_cost_resume, from the loop, in the next turn
 *       '--> too much of it is framing: paused, and ended from the loop
 */
#include "deliver/http_internal.h"

#define TURN_BYTES                                                                                 \
    (128u << 10) /* 16 such transfers take a few milliseconds, in the worst case 50 */

void http_cost_begin(struct transfer *transfer)
{
    transfer->cost = (struct answer_cost){0};
}

bool http_cost_line(struct transfer *transfer, size_t bytes)
{
    transfer->cost.line_bytes += bytes;
    transfer->cost.trailer_bytes += transfer->answer.part == ANSWER_BODY ? bytes : 0;
    return transfer->cost.line_bytes <= HTTP_ANSWER_LINES_MAX &&
           ++transfer->cost.line_count <= HTTP_ANSWER_LINE_COUNT_MAX;
}

bool http_cost_is_high(const struct transfer *transfer)
{
    return transfer->cost.line_bytes > HTTP_LINES_KEPT_MAX;
}

static void rest(struct transfer *transfer)
{
    struct http *http = transfer->http;

    if (transfer->rest_at != NULL || transfer->is_paused ||
        curl_easy_pause(transfer->easy, CURLPAUSE_RECV) != CURLE_OK) {
        return;
    }
    transfer->rest_next = http->resting;
    transfer->rest_at = &http->resting;
    if (transfer->rest_next != NULL) {
        transfer->rest_next->rest_at = &transfer->rest_next;
    }
    http->resting = transfer;
    loop_hook_on(http->finishing);
}

void http_cost_end(struct transfer *transfer)
{
    if (transfer->rest_at == NULL) {
        return;
    }
    *transfer->rest_at = transfer->rest_next;
    if (transfer->rest_next != NULL) {
        transfer->rest_next->rest_at = transfer->rest_at;
    }
    transfer->rest_at = NULL;
    transfer->rest_next = NULL;
}

/* Those that rest again meanwhile go on in the next turn. */
void http_cost_resume(struct http *http)
{
    struct transfer *resting = http->resting;

    http->resting = NULL;
    if (resting != NULL) {
        resting->rest_at = &resting;
    }
    while (resting != NULL) {
        struct transfer *transfer = resting;
        http_cost_end(transfer);
        if (!transfer->is_paused) { /* else its receiver will go on with it */
            http_read_on(transfer);
        }
    }
}

/* Chunks may be as short as a byte, and a chunk may be signed. */
static bool is_over_framed(const struct transfer *transfer)
{
    size_t body_bytes = transfer->answer.body_bytes;
    size_t known_bytes = body_bytes + transfer->cost.trailer_bytes;

    return transfer->cost.body_bytes >
           known_bytes + HTTP_ANSWER_FRAMING_MAX + body_bytes * HTTP_ANSWER_FRAMING_TIMES;
}

void http_cost_read(struct transfer *transfer, size_t bytes)
{
    struct answer_cost *cost = &transfer->cost;
    struct http *http = transfer->http;

    if (cost->run != http->run) {
        cost->run = http->run;
        cost->run_bytes = 0;
    }
    cost->run_bytes += bytes;
    cost->body_bytes += bytes;
    if (is_over_framed(transfer) && transfer->ending == ENDING_NONE) {
        transfer->ending = ENDING_FRAMING;
        http->has_marked = true;
        rest(transfer); /* it reads no more until it is ended */
        loop_hook_on(http->finishing);
    } else if (cost->run_bytes > TURN_BYTES) {
        rest(transfer);
    }
}
