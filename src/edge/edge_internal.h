/* SPDX-License-Identifier: MIT
 *
 * edge -- inside src/edge only: the edge's own struct, and what its files hand to each other.
 */
#ifndef EDGE_EDGE_INTERNAL_H
#define EDGE_EDGE_INTERNAL_H

#include "edge/bodies.h"
#include "edge/connection.h"
#include "edge/edge.h"
#include "edge/exchange.h"
#include "edge/listener.h"
#include "edge/origin.h"
#include "edge/routes.h"
#include "edge/tokens.h"

#include <stdatomic.h>

#define CONTENT_JSON         "application/json"
#define CONTENT_PROBLEM      "application/problem+json"
#define CONTENT_METRICS      "text/plain; version=0.0.4; charset=utf-8"
#define CONTENT_OPEN_METRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct MHD_Connection;
struct MHD_Response;

struct aside;
struct crossing;
struct parsed_batch;

struct lease_return {
    struct lease_return *next;
    struct lease_word word;
};

/* What other threads may look at, as it was at the end of the latest turn. */
struct edge_published {
    atomic_uint_fast64_t requests, refused, cut;
    atomic_uint_fast64_t answers[BY_COUNT][CODE_COUNT];
    atomic_uint connections, waiters;
    atomic_bool is_drained;
};

/* All of several edges, for whoever wants to know how busy the others are. */
struct edge_peers {
    struct edge_published **published;
    uint32_t count;
};

/* How many long polls there are, of all edges together. */
struct waiting {
    atomic_uint all;
    atomic_uint *own; /* of each token; NULL: there is no other token to leave any to */
};

/* Where an edge stands that is one of several. */
struct edge_place {
    uint32_t number; /* of the edge: from 0 */
    struct crossing *crossing;
    struct edge_published *published;
    const struct edge_peers *peers;
    struct waiting *waiting; /* of all of them */
    struct bodies *bodies;
    struct house *house;
    int fd; /* the socket to listen on; the edge takes a duplicate */
    uint16_t port;
    bool is_gateway; /* serves only the gateway, on the engine's own loop: nothing crosses */
};

struct edge {
    struct edge_options options;
    struct listener api, gateway; /* the second one only where there is something to route */
    struct MHD_Response *overloaded, *unknown; /* ready for when there is no memory to make one */
    struct token_set tokens;
    struct connection_set connections;
    struct house own_house; /* when this is the only edge */
    struct exchange_table exchanges;
    struct exchange *ready;   /* answered while suspended: to be resumed by the pump */
    struct exchange *waiters; /* long polls */
    uint32_t waiter_count;
    struct waiting *waiting;    /* of all edges: what the limit is for */
    struct waiting own_waiting; /* that, when this is the only edge */
    struct bodies *bodies;      /* likewise of all */
    struct bodies own_bodies;
    struct crossing *crossing;        /* NULL: the engine is on this thread */
    struct edge_published *published; /* NULL: nobody else looks */
    const struct edge_peers *peers;   /* NULL: there are no others */
    struct loop_hook *before_wait, *idle;
    struct loop_timer *leave_timer;
    bool is_watching_leavers;     /* leave_timer is set */
    bool may_be_left;             /* by a caller: something that this round has met */
    uint32_t leaver_at;           /* the exchange at which the round goes on */
    struct lease_return *returns; /* leases whose worker was gone: given back by the pump */
    struct aside *aside;          /* NULL: no large task has come yet */
    struct {
        struct gateway *first;
        uint32_t count;
    } spare; /* of the gateway's requests that have ended: memory for the next ones */
    uint64_t request_count, refused_count;
    uint64_t answer_counts[BY_COUNT][CODE_COUNT];
    bool is_draining;
    bool is_closing; /* nobody is there to be asked any more */
};

/* server.c */
void edge_make_ready(struct exchange *exchange);
/* Of one of several: the house has something to say (connection_set_woken). */
void edge_woken(struct edge *edge);
/* Has it so many more connections than another one that it should leave new ones to that? */
bool edge_is_ahead(const struct edge *edge);
/* As edge_open; one of several unless place is NULL. */
int edge_open_at(const struct edge_options *options, const struct edge_place *place,
                 struct edge **ret_edge, struct error *err) __attribute__((warn_unused_result));
/* The socket that several share. */
int edge_listen(const struct edge_options *options, int *ret_fd, uint16_t *ret_port,
                struct error *err) __attribute__((warn_unused_result));

/* crossing.c: to the engine, on whatever thread it is. The exchange is ASKED (but for the last one,
 * which sees to that) and may be answered already when they return. What an ask points at has to live
 * as long as that: in the request's target or body, or in exchange->arena. */
void edge_put_ask(struct exchange *exchange, const struct ask *ask);
void edge_put_again(struct exchange *exchange,
                    const struct ask *ask);     /* instead of what it waits for */
void edge_put_leave(struct exchange *exchange); /* whoever waits is answered as things are */
void edge_put_submission(struct exchange *exchange, const struct submission *submission);
void edge_put_batch(struct exchange *exchange, struct parsed_batch *batch); /* takes it over */
bool edge_is_stopping(const struct edge *edge);            /* in the engine's thread */
const struct engine *edge_engine(const struct edge *edge); /* likewise */
/* Has the exchange answered by a function that looks at the engine: edge_engine. */
void edge_put_run(struct exchange *exchange, route_fn run);

/* reply.c: in the engine's thread, the exchange or what stands in for it. */
void edge_answer(struct exchange *exchange, const struct reply *reply);

/* aside_exchange.c: has a large body read on the thread for it. False: it is not large, or cannot be read
 * aside; it is to be read here. The queue's name lives as long as the exchange is ASKED. */
struct aside_task;
bool edge_read_aside(struct exchange *exchange, const struct aside_task *form);
bool edge_is_read_aside(const struct exchange *exchange); /* would it be? */

#define EDGE_WAITERS_TOO_MANY                                                                      \
    "too many callers wait for tasks, or too many with this token (limits.waiters): send this "    \
    "one "                                                                                         \
    "again later"

/* waiters.c: long polls. FAULT_MEMORY. */
int waiting_init(struct waiting *waiting, size_t token_count, struct error *err)
    __attribute__((warn_unused_result));
void waiting_done(struct waiting *waiting);
/* False: there are too many, or too many of this token's. */
bool edge_start_waiting(struct exchange *exchange, struct task_id task);
void edge_stop_waiting(struct exchange *exchange);  /* also when it is not */
void edge_watch_leavers(struct edge *edge);         /* from now on, while any connection waits */
bool edge_is_list(const struct exchange *exchange); /* its caller waits for one */
void edge_look_for_leavers(void *user);             /* the edge; rings each leave_check_ms */
bool edge_peer_is_gone(const struct exchange *exchange);
void edge_dismiss_waiters(struct edge *edge); /* answers all of them as things are now */

/* respond.c: hands the answer to libmicrohttpd. False: the connection is to be closed. */
bool edge_respond(struct exchange *exchange, struct MHD_Connection *mhd);
int edge_make_fixed_responses(struct edge *edge, struct error *err);
void edge_free_fixed_responses(struct edge *edge);

/* api_batch.c */
void batch_free(struct batch *batch); /* NULL is fine */
void batch_reply(struct exchange *exchange, const struct reply *reply);
/* In the engine's thread. Submissions that were handed over have no arena afterwards. */
void batch_submit(struct exchange *exchange, struct parsed_batch *parsed, struct engine *engine);

#endif
