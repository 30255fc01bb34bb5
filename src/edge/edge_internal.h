/* SPDX-License-Identifier: MIT
 *
 * edge -- inside src/edge only: the edge's own struct, and what its files hand to each other.
 */
#ifndef EDGE_EDGE_INTERNAL_H
#define EDGE_EDGE_INTERNAL_H

#include "edge/connection.h"
#include "edge/edge.h"
#include "edge/exchange.h"
#include "edge/listener.h"
#include "edge/routes.h"
#include "edge/tokens.h"

#define CONTENT_JSON    "application/json"
#define CONTENT_PROBLEM "application/problem+json"
#define CONTENT_METRICS "text/plain; version=0.0.4; charset=utf-8"

struct MHD_Connection;
struct MHD_Response;

struct aside;

struct edge {
    struct edge_options options;
    struct listener api, gateway; /* the second one only where there is something to route */
    struct MHD_Response *overloaded, *unknown; /* ready for when there is no memory to make one */
    struct token_set tokens;
    struct connection_set connections;
    struct exchange_table exchanges;
    struct exchange *ready;   /* answered while suspended: to be resumed by the pump */
    struct exchange *waiters; /* long polls */
    uint32_t waiter_count;
    struct loop_hook *before_wait, *idle;
    struct loop_timer *leave_timer;
    struct lease_return {
        struct lease_return *next;
        struct lease_word word;
    } * returns;         /* leases whose worker was gone: given back by the pump */
    struct aside *aside; /* NULL: no large task has come yet */
    uint64_t request_count, refused_count;
    bool is_draining;
};

/* server.c */
void edge_make_ready(struct exchange *exchange);

/* waiters.c: long polls. False: there are too many. */
bool edge_start_waiting(struct exchange *exchange, struct task_id task);
void edge_stop_waiting(struct exchange *exchange); /* also when it is not */
void edge_look_for_leavers(void *user);            /* the edge; rings each leave_check_ms */
bool edge_peer_is_gone(const struct exchange *exchange);
void edge_dismiss_waiters(struct edge *edge); /* answers all of them as things are now */

/* respond.c: hands the answer to libmicrohttpd. False: the connection is to be closed. */
bool edge_respond(struct exchange *exchange, struct MHD_Connection *mhd);
int edge_make_fixed_responses(struct edge *edge, struct error *err);
void edge_free_fixed_responses(struct edge *edge);

/* api_batch.c */
void batch_free(struct batch *batch); /* NULL is fine */
void batch_reply(struct exchange *exchange, const struct reply *reply);

#endif
