/* SPDX-License-Identifier: MIT
 *
 * http_option -- which options a libcurl handle still has when its next delivery comes. libcurl keeps
 * every option until it is set again or the handle is reset, and a reset with setting up costs more
 * than the rest of a request; so a handle is reset only if it has to be. This file knows when: see
 * the rule in http_internal.h. It does not know what the options are for.
 */
#include "deliver/http_internal.h"

#include <assert.h>

#define FOLDS_FIRST  0x075300 /* 7.83.0 */
#define FOLDS_TRIED  0x075801 /* 7.88.1 */
#define FOLDS_MENDED 0x080100 /* 8.1.0 */

/* The same for every delivery: set when a handle is set up. */
#define OF_HANDLE(X)                                                                               \
    X(CURLOPT_PRIVATE)                                                                             \
    X(CURLOPT_ERRORBUFFER)                                                                         \
    X(CURLOPT_NOSIGNAL)                                                                            \
    X(CURLOPT_QUICK_EXIT)                                                                          \
    X(CURLOPT_PROTOCOLS_STR)                                                                       \
    X(CURLOPT_PROXY)                                                                               \
    X(CURLOPT_NOPROXY)                                                                             \
    X(CURLOPT_HTTP09_ALLOWED)                                                                      \
    X(CURLOPT_PATH_AS_IS)                                                                          \
    X(CURLOPT_FOLLOWLOCATION)                                                                      \
    X(CURLOPT_SSL_VERIFYPEER)                                                                      \
    X(CURLOPT_SSL_VERIFYHOST)                                                                      \
    X(CURLOPT_OPENSOCKETFUNCTION)                                                                  \
    X(CURLOPT_OPENSOCKETDATA)                                                                      \
    X(CURLOPT_CLOSESOCKETFUNCTION)                                                                 \
    X(CURLOPT_CLOSESOCKETDATA)                                                                     \
    X(CURLOPT_RESOLVER_START_FUNCTION)                                                             \
    X(CURLOPT_RESOLVER_START_DATA)                                                                 \
    X(CURLOPT_PREREQFUNCTION)                                                                      \
    X(CURLOPT_PREREQDATA)                                                                          \
    X(CURLOPT_HEADERFUNCTION)                                                                      \
    X(CURLOPT_HEADERDATA)                                                                          \
    X(CURLOPT_WRITEFUNCTION)                                                                       \
    X(CURLOPT_WRITEDATA)                                                                           \
    X(CURLOPT_DEBUGFUNCTION)                                                                       \
    X(CURLOPT_DEBUGDATA)

/* Set by http_request_prepare for every transfer, each redirect too, whatever it is. */
#define OF_TRANSFER(X)                                                                             \
    X(CURLOPT_SHARE)                                                                               \
    X(CURLOPT_DNS_CACHE_TIMEOUT)                                                                   \
    X(CURLOPT_USERAGENT)                                                                           \
    X(CURLOPT_URL)                                                                                 \
    X(CURLOPT_CURLU)                                                                               \
    X(CURLOPT_HTTPHEADER)                                                                          \
    X(CURLOPT_VERBOSE)                                                                             \
    X(CURLOPT_TIMEOUT_MS)                                                                          \
    X(CURLOPT_MAXAGE_CONN)                                                                         \
    X(CURLOPT_POSTFIELDSIZE_LARGE)                                                                 \
    X(CURLOPT_POSTFIELDS)

#define AS_CASE(option)   case option:
#define AS_NUMBER(option) NUMBER_OF_##option,
#define AS_MARK(option)                                                                            \
    case option:                                                                                   \
        transfer->options_set |= 1u << NUMBER_OF_##option;                                         \
        break;

enum { OF_TRANSFER(AS_NUMBER) OF_TRANSFER_COUNT };

void http_option_note(struct transfer *transfer, CURLoption option)
{
    switch (option) {
        OF_HANDLE(AS_CASE)
        transfer->is_altered |= transfer->is_set_up; /* then it is a value of this delivery's */
        break;
        OF_TRANSFER(AS_MARK)
    default:
        transfer->is_altered = true;
        break;
    }
}

void http_option_begin(struct transfer *transfer)
{
    transfer->options_set = 0;
}

bool http_option_all_set(const struct transfer *transfer)
{
    return transfer->options_set == (1u << OF_TRANSFER_COUNT) - 1;
}

bool http_option_may_keep(void)
{
    const curl_version_info_data *known = curl_version_info(CURLVERSION_NOW);

    return known->version_num < FOLDS_FIRST || known->version_num >= FOLDS_MENDED ||
           known->version_num == FOLDS_TRIED;
}

bool http_option_ready(struct transfer *transfer)
{
    if (transfer->easy == NULL) {
        transfer->easy = curl_easy_init();
        transfer->is_set_up = transfer->is_altered = false;
    }
    return transfer->easy != NULL;
}

/* A handle keeps its DNS and TLS memory through a reset, and none of its options. */
void http_option_reset(struct transfer *transfer)
{
    if (!transfer->http->keeps_handles) {
        curl_easy_cleanup(transfer->easy); /* NULL is fine */
        transfer->easy = NULL;
    } else if (transfer->easy != NULL) {
        curl_easy_reset(transfer->easy);
    }
    transfer->is_set_up = transfer->is_altered = false;
}

void http_option_give_back(struct transfer *transfer)
{
    if (!transfer->is_set_up || transfer->is_altered || !transfer->http->keeps_handles) {
        http_option_reset(transfer);
    }
}
