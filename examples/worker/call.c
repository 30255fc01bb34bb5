/* SPDX-License-Identifier: MIT
 *
 * call -- see call.h.
 */
#include "call.h"

#include <daruma/policy.h>
#include <daruma/retry.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BASE_MS           200
#define CAP_MS            8000
#define JITTER            0.2
#define MESSAGE_BYTES_MAX 200

static int64_t unix_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now); /* fails only for a clock that does not exist */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- what libcurl calls ---------------------------------------------------------------------------- */

/* One header line, "Name: value\r\n". */
static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct caller *caller = user;
    size_t length = size * count, end = length;
    const char *colon = memchr(line, ':', length);

    if (colon != NULL) {
        size_t name_length = (size_t)(colon - line);
        while (end > name_length + 1 && (line[end - 1] == '\n' || line[end - 1] == '\r')) {
            end--;
        }
        daruma_hint_field(&caller->hint, line, name_length, colon + 1, end - name_length - 1);
    }
    return length;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    struct caller *caller = user;
    size_t length = size * count;

    if (length > CALL_ANSWER_BYTES_MAX - caller->answer_bytes) {
        return 0; /* libcurl ends the transfer with an error */
    }
    char *grown = realloc(caller->answer, caller->answer_bytes + length + 1);
    if (grown == NULL) {
        return 0;
    }
    memcpy(grown + caller->answer_bytes, bytes, length);
    caller->answer = grown;
    caller->answer_bytes += length;
    grown[caller->answer_bytes] = '\0';
    return length;
}

/* About once a second. An answer that has begun is read to its end: it may hold leases. */
static int on_progress(void *user, curl_off_t all, curl_off_t so_far, curl_off_t up_all,
                       curl_off_t up_so_far)
{
    const struct caller *caller = user;

    (void)all;
    (void)up_all;
    (void)up_so_far;
    return so_far == 0 && daruma_cancel_is_set(caller->call->cancel);
}

/* --- one try ----------------------------------------------------------------------------------------- */

/* Cut where a character ends: the message goes into JSON. */
static void cut(char *text, size_t bytes_max)
{
    size_t end = strlen(text);

    if (end > bytes_max) {
        end = bytes_max;
        while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80) {
            end--;
        }
        text[end] = '\0';
    }
}

/* The answer's own words, if it is a problem document, else its status. */
static void describe(struct caller *caller, long status)
{
    json_t *problem = json_loads(caller->answer != NULL ? caller->answer : "", 0, NULL);
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    char text[MESSAGE_BYTES_MAX + 8] = "";

    if (detail != NULL) {
        (void)snprintf(text, sizeof text, ": %s", detail); /* what is over is cut below */
    }
    cut(text, MESSAGE_BYTES_MAX);
    (void)snprintf(caller->message, sizeof caller->message, "HTTP %ld%s", status, text); /* fits */
    json_decref(problem);
}

static int try_once(void *user, const struct daruma_attempt *attempt,
                    struct daruma_error *ret_error)
{
    struct caller *caller = user;
    enum daruma_class error_class = DARUMA_CLASS_TRANSIENT;
    long status = 0;

    (void)attempt; /* libcurl has the same limit by itself: CURLOPT_TIMEOUT_MS */
    free(caller->answer);
    caller->answer = NULL;
    caller->answer_bytes = 0;
    caller->message[0] = '\0';
    daruma_hint_init(&caller->hint, unix_now_ms());
    CURLcode failed = curl_easy_perform(caller->curl);
    curl_easy_getinfo(caller->curl, CURLINFO_RESPONSE_CODE, &status);
    if (failed == CURLE_OK && !daruma_class_of_status((int)status, &error_class)) {
        return 0;
    }
    if (failed == CURLE_OK) {
        describe(caller, status);
    } else if (caller->message[0] == '\0') {
        (void)snprintf(caller->message, sizeof caller->message, "%s", curl_easy_strerror(failed));
    }
    *ret_error = (struct daruma_error){
        .type = "http",
        .message = caller->message,
        .code = (int)error_class + 1,
        .recoverable = error_class <= DARUMA_CLASS_QUOTA,
        .retry_after_ms = daruma_hint_ms(&caller->hint),
    };
    return ret_error->code;
}

static bool is_recoverable(void *user, const struct daruma_error *error, uint32_t attempt)
{
    const struct caller *caller = user;

    (void)attempt;
    return error->recoverable && !daruma_cancel_is_set(caller->call->cancel);
}

static void tell(void *user, uint32_t attempt, const struct daruma_error *error, uint64_t delay_ms)
{
    const struct caller *caller = user;

    DARUMA_LOG(caller->log, DARUMA_LOG_WARN, "call_retry", daruma_log_uint("attempt", attempt),
               daruma_log_text("error", error->message), daruma_log_uint("wait_ms", delay_ms));
}

/* --- calls ------------------------------------------------------------------------------------------- */

int caller_open(struct caller *caller, const char *token, const struct daruma_logger *log)
{
    char line[512];

    *caller = (struct caller){.curl = curl_easy_init(), .log = log};
    caller->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (token != NULL && caller->headers != NULL) {
        (void)snprintf(line, sizeof line, "Authorization: Bearer %s", token); /* 401 if cut */
        if (curl_slist_append(caller->headers, line) == NULL) {
            return -1;
        }
    }
    if (caller->curl == NULL || caller->headers == NULL) {
        return -1;
    }
    curl_easy_setopt(caller->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(caller->curl, CURLOPT_NOSIGNAL, 1L); /* there are threads */
    curl_easy_setopt(caller->curl, CURLOPT_HTTPHEADER, caller->headers);
    curl_easy_setopt(caller->curl, CURLOPT_ERRORBUFFER, caller->message);
    curl_easy_setopt(caller->curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(caller->curl, CURLOPT_HEADERDATA, caller);
    curl_easy_setopt(caller->curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(caller->curl, CURLOPT_WRITEDATA, caller);
    curl_easy_setopt(caller->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(caller->curl, CURLOPT_XFERINFODATA, caller);
    curl_easy_setopt(caller->curl, CURLOPT_NOPROGRESS, 0L);
    return 0;
}

void caller_close(struct caller *caller)
{
    curl_easy_cleanup(caller->curl);
    curl_slist_free_all(caller->headers);
    free(caller->answer);
    *caller = (struct caller){0};
}

int caller_post(struct caller *caller, const struct call *call, json_t **ret_answer,
                struct daruma_error *ret_error)
{
    const struct daruma_retry_options options = {
        .max_retries = call->retries > 0 ? call->retries : DARUMA_NO_RETRIES,
        .backoff = daruma_backoff_exponential_jitter(BASE_MS, CAP_MS, JITTER),
        .condition = is_recoverable,
        .on_retry = tell,
        .cancel = call->cancel,
        .user = caller,
    };

    caller->call = call;
    curl_easy_setopt(caller->curl, CURLOPT_URL, call->url);
    curl_easy_setopt(caller->curl, CURLOPT_POSTFIELDSIZE, -1L); /* it ends in NUL */
    curl_easy_setopt(caller->curl, CURLOPT_POSTFIELDS, call->body);
    curl_easy_setopt(caller->curl, CURLOPT_TIMEOUT_MS, (long)call->timeout_ms);
    int failed = daruma_retry(try_once, caller, &options, ret_error);
    if (failed == 0) {
        json_t *answer = json_loads(caller->answer != NULL ? caller->answer : "", 0, NULL);
        *ret_answer = answer != NULL ? answer : json_null(); /* a 2xx without JSON is one too */
    }
    return failed;
}
