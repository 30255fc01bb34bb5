/* SPDX-License-Identifier: MIT
 *
 * http_names -- for how long libcurl remembers what a host's name stands for. It walks all that it remembers
 * at the end of each transfer, and remembers hosts that are addresses too, for a minute unless told
 * otherwise: attempts at many hosts then cost twenty times as much, for every queue. So names are kept for
 * HTTP_NAME_KEPT_S. Addresses are not kept; a transfer that keeps nothing also drops what it finds, so they
 * have a memory of their own, in which there are no names.
 */
#include "deliver/http_internal.h"

static CURLSH *share_new(void)
{
    CURLSH *share = curl_share_init();

    if (share != NULL &&
        curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) != CURLSHE_OK) {
        (void)curl_share_cleanup(share); /* nothing uses it */
        share = NULL;
    }
    return share;
}

int http_names_open(struct http *http, struct error *err)
{
    http->share = share_new();
    http->share_addresses = share_new();
    if (http->share == NULL || http->share_addresses == NULL ||
        curl_share_setopt(http->share_addresses, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS) !=
            CURLSHE_OK) {
        return fail(err, FAULT_MEMORY, "no memory for libcurl");
    }
    return 0;
}

void http_names_close(struct http *http)
{
    (void)curl_share_cleanup(http->share);           /* nothing uses it any more; NULL is fine */
    (void)curl_share_cleanup(http->share_addresses); /* likewise */
}

/* A name that looks like one would be resolved each time, and not be counted. */
bool http_names_is_address(struct span url)
{
    struct span rest = url, scheme;
    size_t len = 0, last = 0;

    (void)span_cut(&rest, ':', &scheme);
    rest = span_from(rest, rest.len < 2 ? rest.len : 2);
    if (rest.len > 0 && rest.at[0] == '[') {
        return true;
    }
    while (len < rest.len && rest.at[len] != ':' && rest.at[len] != '/' && rest.at[len] != '?') {
        last = rest.at[len++] == '.' ? len : last;
    }
    struct span part = span_from(span_until(rest, len), last);
    for (size_t i = 0; i < part.len; i++) {
        if (part.at[i] < '0' || part.at[i] > '9') {
            return false;
        }
    }
    return part.len > 0;
}

CURLcode http_names_set(struct transfer *transfer)
{
    const struct http *http = transfer->http;
    bool is_kept = !http_names_is_address(transfer->hop.url);
    CURLcode code =
        HTTP_SET(transfer, CURLOPT_SHARE, is_kept ? http->share : http->share_addresses);

    return code != CURLE_OK ? code
                            : HTTP_SET(transfer, CURLOPT_DNS_CACHE_TIMEOUT,
                                       is_kept ? (long)HTTP_NAME_KEPT_S : 0L);
}
