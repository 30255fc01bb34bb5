/* SPDX-License-Identifier: MIT
 *
 * multi -- libcurl's multi interface and nothing else: sends so many POSTs of 400 bytes to one URL,
 * so many at once, on connections that are kept. It is the limit for delivery. Prints the seconds
 * that it took.
 *
 *     multi --url http://127.0.0.1:9000/ --count 100000 --at-once 64
 */
#include "../bench.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_BYTES  400
#define AT_ONCE_MAX 1024
#define POLL_MS     1000

static char body[BODY_BYTES];

static size_t drop(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes, (void)user;
    return size * count;
}

static CURL *make_transfer(const char *url, struct curl_slist *headers)
{
    CURL *easy = curl_easy_init();

    if (easy == NULL || curl_easy_setopt(easy, CURLOPT_URL, url) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)BODY_BYTES) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop) != CURLE_OK) {
        bench_give_up("libcurl takes no transfer");
    }
    return easy;
}

static void check(CURLMsg *report)
{
    long status = 0;

    if (report->data.result != CURLE_OK ||
        curl_easy_getinfo(report->easy_handle, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK ||
        status != 200) {
        bench_give_up("a request was not answered with 200");
    }
}

/* Those that are through; each of them begins again while there is something left to send. */
static void collect(CURLM *multi, uint64_t *left, uint64_t *done)
{
    CURLMsg *report;
    int queued;

    while ((report = curl_multi_info_read(multi, &queued)) != NULL) {
        CURL *easy = report->easy_handle;
        check(report);
        ++*done;
        if (curl_multi_remove_handle(multi, easy) != CURLM_OK) {
            bench_give_up("libcurl does not let go");
        }
        if (*left == 0) {
            curl_easy_cleanup(easy);
            continue;
        }
        --*left;
        if (curl_multi_add_handle(multi, easy) != CURLM_OK) {
            bench_give_up("libcurl takes no transfer");
        }
    }
}

static void send_all(CURLM *multi, uint64_t count, uint64_t at_once)
{
    uint64_t left = count - at_once, done = 0;
    int running = 0;

    while (done < count) {
        if (curl_multi_perform(multi, &running) != CURLM_OK) {
            bench_give_up("libcurl does not run");
        }
        collect(multi, &left, &done);
        if (done < count && curl_multi_poll(multi, NULL, 0, POLL_MS, NULL) != CURLM_OK) {
            bench_give_up("libcurl does not wait");
        }
    }
}

int main(int argc, char **argv)
{
    const char *url = bench_word(argc, argv, "--url");
    uint64_t count = bench_number(argc, argv, "--count", 100000);
    uint64_t at_once = bench_number(argc, argv, "--at-once", 64);

    if (url == NULL || at_once == 0 || at_once > AT_ONCE_MAX || count < at_once) {
        bench_give_up("--url, --count and --at-once");
    }
    memset(body, 'x', sizeof body);
    CURLM *multi = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_multi_init() : NULL;
    struct curl_slist *headers = curl_slist_append(NULL, "Expect:");
    if (multi == NULL || headers == NULL) {
        bench_give_up("libcurl does not start");
    }
    for (uint64_t i = 0; i < at_once; i++) {
        if (curl_multi_add_handle(multi, make_transfer(url, headers)) != CURLM_OK) {
            bench_give_up("libcurl takes no transfer");
        }
    }
    int64_t began_ns = bench_now_ns();
    send_all(multi, count, at_once);
    printf("%.6f\n", (double)(bench_now_ns() - began_ns) / 1e9);
    (void)curl_multi_cleanup(multi); /* the process ends */
    curl_slist_free_all(headers);
    curl_global_cleanup();
    return 0;
}
