/* SPDX-License-Identifier: MIT
 *
 * origin -- whether a request comes from a page of another site, and whether it was meant for this
 * server. Shared inside edge/ only; pure.
 *
 * A browser lets every page send requests to every address, loopback included, and says where the page
 * is from: in Sec-Fetch-Site, or, over plain HTTP beyond loopback, in Origin alone. A page may also give
 * its own host name our address (DNS rebinding): then it is same-origin to the browser, and only Host
 * says whose name was asked for. And a page may have the browser fetch or render ahead what it names
 * (speculation rules), which the browser sends as if a person had typed it: only that it is ahead of any
 * person's wish is said, in Sec-Purpose, or Purpose in older ones. Programs send none of these but Host.
 */
#ifndef EDGE_ORIGIN_H
#define EDGE_ORIGIN_H

#include "edge/problem.h"

/* What the door knows of itself. */
struct origin_rule {
    bool is_tls;
    bool knows_hosts;         /* other hosts than these are refused */
    struct span listen;       /* the address that is listened at */
    const struct span *hosts; /* names and addresses without a port, besides that and loopback */
    size_t host_count;
};

/* What a request says of itself. at NULL: that header is not there. */
struct origin_view {
    struct span method;
    struct span
        target; /* as it came: http://host/path says which host is meant, whatever Host says */
    struct span host, origin;
    struct span site, mode; /* Sec-Fetch-… */
    bool is_ahead;          /* Sec-Purpose or Purpose is there */
};

/* PROBLEM_NONE, PROBLEM_HOST_UNKNOWN or PROBLEM_CROSS_SITE. */
enum problem origin_check(const struct origin_rule *rule, const struct origin_view *view);

#endif
