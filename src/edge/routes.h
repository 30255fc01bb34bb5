/* SPDX-License-Identifier: MIT
 *
 * routes -- the one table of calls: method, path, what it takes, the function behind it. Shared
 * inside edge/ only.
 */
#ifndef EDGE_ROUTES_H
#define EDGE_ROUTES_H

#include "base/span.h"

struct exchange;

/* Answers the exchange, or asks the engine to. */
typedef void (*route_fn)(struct exchange *exchange);

enum route_kind {
    ROUTE_READ = 0, /* changes nothing; no body */
    ROUTE_ACT,      /* changes something; no body, or {} */
    ROUTE_WRITE,    /* has a body */
};

struct route {
    const char *method;
    const char *path; /* {queue} and {id} stand for any segment */
    enum route_kind kind;
    const char
        *parameters; /* of the query, a blank behind each; "label.*" for any label; or NULL */
    route_fn run;
};

bool route_is_write(const struct route *route);

/* Sets exchange->route and what the path names, or refuses: 404, or 405 with what is allowed. */
void routes_find(struct exchange *exchange, struct span method);

/* The body is whole: checks body and query against the route, then runs it. */
void routes_run(struct exchange *exchange);

#endif
