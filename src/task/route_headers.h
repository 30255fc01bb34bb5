/* SPDX-License-Identifier: MIT
 *
 * route_headers -- which header fields pass the gateway, and which of an answer are kept. Fields of
 * one connection never pass (RFC 9110 7.6.1); what is true of one moment or one caller is not kept.
 * Lists are task/fields.h; the order and repetitions of what passes stay.
 */
#ifndef TASK_ROUTE_HEADERS_H
#define TASK_ROUTE_HEADERS_H

#include "base/buf.h"
#include "task/route.h"

/* What of an upstream's header a caller can be told: bytes of its fields on the wire. It has its room
 * in each connection of the gateway (EDGE_GATEWAY_POOL_BYTES), whatever the request took. */
#define ROUTE_TOLD_HEADER_MAX 15360
bool route_headers_fit(struct span headers); /* can be told */

/* A request on its way to the upstream: without fields of the connection and those it names (but none that
 * the gateway has gone by: Content-*, Authorization, Cookie, keys, scopes, where it came from), Host,
 * what is framing, what is ours to say (the key, X-Daruma-*, Prefer when it was for us), and, for a
 * request with a key, Accept-Encoding. Where it came from is added: the peer behind all that
 * X-Forwarded-For says already; X-Forwarded-Proto and -Host unless somebody in front of us has said
 * them. Fields whose names are like one of these but for _ in place of - are left out. */
struct route_forward {
    struct span headers;    /* as they came */
    struct span key_header; /* the name of the route's; empty: none is taken out */
    struct span
        scope_header; /* the name of the one that says whose request it is; empty: none does */
    bool is_keyed;
    struct span peer; /* the address it came from; empty: nothing is said of where it came from */
    struct span scheme;
};
int route_headers_forward(const struct route_forward *forward, struct buf *out)
    __attribute__((warn_unused_result));

/* An answer on its way to a caller, unkept: without fields of the connection and framing, and without
 * what only the gateway says of an answer: that it is a replay. */
int route_headers_pass(struct span headers, struct buf *out) __attribute__((warn_unused_result));
/* The same to somebody who did not cause it: no cookies either. */
int route_headers_share(struct span headers, struct buf *out) __attribute__((warn_unused_result));

/* An answer as it is kept: by the route's allow list (Content-Type always), else by the deny list. */
int route_headers_keep(const struct route_settings *route, struct span headers, struct buf *out)
    __attribute__((warn_unused_result));

#endif
