/* SPDX-License-Identifier: MIT
 *
 * http_kept -- how many connections and libcurl handles outlive their transfers: as many as were under
 * way at once lately, and connections_kept and handles_kept at least.
 *
 * libcurl's own limit counts the connections that are in use, too. With a fixed one, and more than that
 * under way, every transfer that ends has a connection closed and the next one opens a new one; and to
 * find the one to close libcurl walks through all of them. Transfers come and go in waves, because
 * commits do: what was under way a moment ago is under way again soon.
 *
 * When less is under way, each transfer that ends closes one connection and frees one handle more than
 * are kept. libcurl closes none at any other time.
 */
#include "deliver/http_internal.h"

#define WINDOW_MS 10000 /* lately: in this window and the one before */

static uint32_t lately(const struct http *http)
{
    return http->kept.most > http->kept.most_before ? http->kept.most : http->kept.most_before;
}

static uint32_t larger(uint32_t one, uint32_t other)
{
    return one > other ? one : other;
}

int http_kept_begin(struct http *http)
{
    uint32_t connections = larger(lately(http), http->options.connections_kept);

    if (connections != http->kept.connections) {
        if (curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, (long)connections) != CURLM_OK) {
            return FAULT_SYSTEM;
        }
        http->kept.connections = connections;
    }
    return 0;
}

void http_kept_note(struct http *http, int64_t now_ms)
{
    int64_t window = now_ms / WINDOW_MS;

    if (window != http->kept.window) {
        http->kept.most_before = window == http->kept.window + 1 ? http->kept.most : 0;
        http->kept.most = 0;
        http->kept.window = window;
    }
    http->kept.most = larger(http->kept.most, (uint32_t)http->under_way_count);
    (void)!http_kept_begin(http); /* a number that was taken before cannot be refused */
}

bool http_kept_has_room(const struct http *http)
{
    return http->spare_count < http->options.handles_kept ||
           http->spare_count + (uint32_t)http->under_way_count < lately(http);
}
