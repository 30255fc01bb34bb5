/* SPDX-License-Identifier: MIT
 *
 * routes -- the one table of calls: method, path, what it takes, who may, the function behind
 * it. Shared
 * inside edge/ only.
 */
#ifndef EDGE_ROUTES_H
#define EDGE_ROUTES_H

#include "base/span.h"
#include "edge/edge.h"

struct exchange;

/* Answers the exchange, or asks the engine to. */
typedef void (*route_fn)(struct exchange *exchange);

enum route_kind {
    ROUTE_READ = 0, /* changes nothing; no body */
    ROUTE_ACT,      /* changes something; no body, or {} */
    ROUTE_WRITE,    /* has a body */
};

/* Who may. A new call that is not meant for everybody with a token begins as ROLES_ADMIN. */
enum {
    ROLES_NOT_OWN =
        64, /* and no caller to a queue whose name begins with _: that is the server's own */
    ROLES_ADMIN = EDGE_ROLE_ADMIN,
    ROLES_MAKE = EDGE_ROLE_ADMIN | ROLES_NOT_OWN, /* and drops queues */
    ROLES_CREATE = EDGE_ROLE_ADMIN | EDGE_ROLE_PRODUCER | ROLES_NOT_OWN,
    ROLES_WORK = EDGE_ROLE_ADMIN | EDGE_ROLE_WORKER | ROLES_NOT_OWN,
    ROLES_MEND = EDGE_ROLE_ADMIN | EDGE_ROLE_OPERATOR,
    /* These see the server's own queues too, and read what is not the others' business. */
    ROLES_WATCH = EDGE_ROLE_ADMIN | EDGE_ROLE_VIEWER | EDGE_ROLE_OPERATOR,
    ROLES_READ = EDGE_ROLE_ADMIN | EDGE_ROLE_PRODUCER | EDGE_ROLE_WORKER | EDGE_ROLE_VIEWER |
                 EDGE_ROLE_OPERATOR,
    ROLES_ANYBODY = ROLES_READ | 32, /* also without a token */
};

struct route {
    const char *method;
    const char *path; /* {queue} and {id} stand for any segment */
    enum route_kind kind;
    unsigned roles; /* ROLES_… */
    const char
        *parameters; /* of the query, a blank behind each; "label.*" for any label; or NULL */
    route_fn run;
};

bool route_is_write(const struct route *route);

/* The whole table. */
const struct route *routes_all(size_t *ret_count);

/* Sets exchange->route and what the path names, or refuses: 401 to whoever is nobody (also for what
 * is not there), 404 (also for a queue that the caller does not see), 405 with what is allowed, 403. */
void routes_find(struct exchange *exchange, struct span method);

/* 401 and how to do better. */
void routes_refuse_stranger(struct exchange *exchange);

/* The body is whole: checks body and query against the route, then runs it. */
void routes_run(struct exchange *exchange);

#endif
