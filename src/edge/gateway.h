/* SPDX-License-Identifier: MIT
 *
 * gateway -- the second door: requests on their way to an upstream. Shared inside edge/ only. Thin:
 * what a request is (recorded under a key, passed on, a poll, the policy) is found from its headers
 * by the rules of task/route_*.h; then one call of the engine; then what the engine says.
 */
#ifndef EDGE_GATEWAY_H
#define EDGE_GATEWAY_H

#include "edge/edge_internal.h"
#include "edge/guard.h"
#include "task/prefer.h"
#include "task/route_answer.h"
#include "task/route_key.h"
#include "task/route_like.h"

struct MHD_Connection;

enum gateway_kind {
    GATEWAY_KEYED,  /* recorded */
    GATEWAY_PASS,   /* passed on, not recorded */
    GATEWAY_POLL,   /* /.daruma/requests/{id} */
    GATEWAY_POLICY, /* /.daruma/idempotency */
};

/* What an exchange on the gateway's door has beside its own. */
struct gateway {
    enum gateway_kind kind;
    const struct route_settings *route; /* NULL: none */
    enum route_like like;               /* of PASS without a route */
    struct span method;
    struct route_target target;
    struct buf headers;   /* task/fields.h: as they came */
    struct span key_text; /* the key header's value; libmicrohttpd's memory, or within `headers` */
    struct span content_type; /* libmicrohttpd's memory; empty: none */
    char key_room[TASK_KEY_MAX];
    struct span key;
    char scope[ROUTE_SCOPE_TEXT_LEN + 1];
    struct span peer; /* the address of who sent it, within the connection; empty: not known */
    struct prefer prefer;
    struct task_id id;                           /* POLL */
    bool is_read;                                /* its body was looked at aside: */
    bool renames;                                /* PASS: it asks for another method */
    unsigned char print[TASK_FINGERPRINT_BYTES]; /* KEYED */
    struct gateway *next_spare;
};

/* The headers are there: finds out what it is, or refuses. */
void gateway_begin(struct exchange *exchange, struct MHD_Connection *mhd, struct span method,
                   const struct guard_view *view);
/* The body is whole. */
void gateway_run(struct exchange *exchange);
/* What the engine says. */
void gateway_reply(struct exchange *exchange, const struct reply *reply);
void gateway_free(struct edge *edge, struct gateway *gateway); /* NULL is fine */
void gateway_free_spare(struct edge *edge); /* those that are kept for the next */

/* Answers with a problem that has `retry`; `problem` is one of the API's own. */
void gateway_refuse(struct exchange *exchange, enum problem problem, struct span detail);
void gateway_refuse_as(struct exchange *exchange, const struct route_refusal *refusal);
/* Whose it is, by the route's own rule, into gateway->scope; *ret_found is false when the request does
 * not say. FAULT_MEMORY. */
int gateway_read_scope(struct gateway *gateway, const struct route_settings *route, bool *ret_found,
                       struct error *err) __attribute__((warn_unused_result));

/* gateway_aside.c: what the body is looked at for. True: on another thread, and gateway_run comes again. */
bool gateway_read_aside(struct exchange *exchange);
bool gateway_form_renames(const struct exchange *exchange);
int gateway_fill_print(const struct gateway *gateway, struct submission *submission,
                       struct error *err) __attribute__((warn_unused_result));

/* gateway_stream.c: an answer that is handed on as it comes. */
struct MHD_Response;
struct MHD_Response *gateway_stream_response(struct exchange *exchange);
void gateway_stream_take(struct exchange *exchange, const struct route_reply *said);
void gateway_stream_dismiss(struct exchange *exchange); /* the caller has closed his side */
void gateway_stream_leave(struct exchange *exchange);   /* the caller is gone, or had all of it */

/* gateway_policy.c: what each route promises, as JSON and as a page for people. */
void gateway_policy(struct exchange *exchange);

#endif
