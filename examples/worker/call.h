/* SPDX-License-Identifier: MIT
 *
 * call -- POST a JSON text with libcurl and read the JSON that comes back; what may get better is
 * tried again with daruma_retry, and what the server says about when (Retry-After) is obeyed.
 */
#ifndef EXAMPLE_CALL_H
#define EXAMPLE_CALL_H

#include <daruma/cancel.h>
#include <daruma/log.h>
#include <daruma/result.h>
#include <daruma/retry_after.h>

#include <curl/curl.h>
#include <jansson.h>

#include <stdbool.h>
#include <stdint.h>

#define CALL_ANSWER_BYTES_MAX (16u << 20)

/* One connection; for one thread. */
struct caller {
    CURL *curl;
    struct curl_slist *headers;
    const struct daruma_logger *log;
    char message[CURL_ERROR_SIZE]; /* what errors point at */
    struct daruma_hint hint;
    char *answer; /* NUL at the end */
    size_t answer_bytes;
    const struct call *call; /* under way */
};

struct call {
    const char *url;
    const char *body;
    int64_t timeout_ms;           /* of one try */
    uint32_t retries;             /* 0: none */
    struct daruma_cancel *cancel; /* left when set, unless the answer has begun; NULL: not */
};

/* `token` may be NULL. -1: no memory. */
int caller_open(struct caller *caller, const char *token, const struct daruma_logger *log);
void caller_close(struct caller *caller); /* a zeroed one is fine */

/* 0 and the answer, which is the caller's; else as daruma_retry. The error's code is its class + 1
 * (enum daruma_class), its message lives until the next call. */
int caller_post(struct caller *caller, const struct call *call, json_t **ret_answer,
                struct daruma_error *ret_error);

#endif
