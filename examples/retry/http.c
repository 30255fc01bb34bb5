/* SPDX-License-Identifier: MIT
 *
 * http -- GET a URL with libcurl and obey what the server says: answers that may get better are
 * retried, Retry-After and its kin are a floor under the wait, the others end at once.
 *
 *     retry-http URL [TRIES]
 */
#include <daruma/policy.h>
#include <daruma/retry.h>
#include <daruma/retry_after.h>

#include <curl/curl.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOTAL_TIMEOUT_MS   60000
#define ATTEMPT_TIMEOUT_MS 10000

struct fetch {
    CURL *curl;
    struct daruma_hint hint;
    char message[CURL_ERROR_SIZE];
};

static int64_t unix_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now); /* fails only for a clock that does not exist */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* One header line, "Name: value\r\n". */
static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct fetch *fetch = user;
    size_t length = size * count;
    const char *colon = memchr(line, ':', length);

    if (colon != NULL) {
        size_t name_length = (size_t)(colon - line);
        size_t end = length;
        while (end > name_length + 1 && (line[end - 1] == '\n' || line[end - 1] == '\r')) {
            end--;
        }
        daruma_hint_field(&fetch->hint, line, name_length, colon + 1, end - name_length - 1);
    }
    return length;
}

/* The body goes to standard output only once it is an answer worth having. */
static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    struct fetch *fetch = user;
    long status = 0;

    curl_easy_getinfo(fetch->curl, CURLINFO_RESPONSE_CODE, &status);
    return status >= 200 && status < 300 ? fwrite(bytes, size, count, stdout) : size * count;
}

static int get(void *user, const struct daruma_attempt *attempt, struct daruma_error *ret_error)
{
    struct fetch *fetch = user;
    enum daruma_class error_class = DARUMA_CLASS_TRANSIENT;
    long status = 0;

    (void)attempt; /* libcurl has the same limit by itself: CURLOPT_TIMEOUT_MS below */
    daruma_hint_init(&fetch->hint, unix_now_ms());
    CURLcode failed = curl_easy_perform(fetch->curl);
    curl_easy_getinfo(fetch->curl, CURLINFO_RESPONSE_CODE, &status);
    if (failed == CURLE_OK && !daruma_class_of_status((int)status, &error_class)) {
        return 0;
    }
    if (failed == CURLE_OK) {
        snprintf(fetch->message, sizeof fetch->message, "HTTP %ld (%s)", status,
                 daruma_class_text(error_class));
    }
    *ret_error = (struct daruma_error){
        .type = "http",
        .message = fetch->message,
        .code = (int)error_class + 1,
        .recoverable = error_class <= DARUMA_CLASS_QUOTA,
        .retry_after_ms = daruma_hint_ms(&fetch->hint),
    };
    return ret_error->code;
}

static bool is_recoverable(void *user, const struct daruma_error *error, uint32_t attempt)
{
    (void)user;
    (void)attempt;
    return error->recoverable;
}

static void tell(void *user, uint32_t attempt, const struct daruma_error *error, uint64_t delay_ms)
{
    (void)user;
    fprintf(stderr, "attempt %" PRIu32 ": %s; next in %" PRIu64 " ms\n", attempt, error->message,
            delay_ms);
}

static int fetch_url(struct fetch *fetch, const char *url, uint32_t tries)
{
    const struct daruma_retry_options options = {
        .max_retries = tries > 1 ? tries - 1 : DARUMA_NO_RETRIES,
        .condition = is_recoverable,
        .on_retry = tell,
        .timeout_ms = TOTAL_TIMEOUT_MS,
        .attempt_timeout_ms = ATTEMPT_TIMEOUT_MS,
    };
    struct daruma_error error;

    curl_easy_setopt(fetch->curl, CURLOPT_URL, url);
    curl_easy_setopt(fetch->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(fetch->curl, CURLOPT_ERRORBUFFER, fetch->message);
    curl_easy_setopt(fetch->curl, CURLOPT_TIMEOUT_MS, (long)ATTEMPT_TIMEOUT_MS);
    curl_easy_setopt(fetch->curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(fetch->curl, CURLOPT_HEADERDATA, fetch);
    curl_easy_setopt(fetch->curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(fetch->curl, CURLOPT_WRITEDATA, fetch);
    if (daruma_retry(get, fetch, &options, &error) != 0) {
        fprintf(stderr, "gave up: %s\n", error.message);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: retry-http URL [TRIES]\n");
        return 2;
    }
    struct fetch fetch = {.curl = curl_easy_init()};
    if (fetch.curl == NULL) {
        fprintf(stderr, "libcurl could not be set up\n");
        return 1;
    }
    int failed = fetch_url(&fetch, argv[1], argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 4);
    curl_easy_cleanup(fetch.curl);
    return failed;
}
