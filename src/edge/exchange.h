/* SPDX-License-Identifier: MIT
 *
 * exchange -- one request and its answer: a caller. Shared inside edge/ only. The engine knows it by
 * `id`, which is an edge, a place in its table and how often that place was used, so that a reply which
 * comes too late finds nobody.
 *
 *            body is read          engine is asked         edge_reply
 *   READING -------------> (run) ------------------> ASKED ----------> ANSWERED --> SENT --> free
 *      '---------------------'------- exchange_refuse ------------------^
 *
 * ANSWERED while the body is still coming: the rest is read and dropped, then the answer is sent.
 * While it is ASKED, libmicrohttpd's side of it is suspended, and so it cannot go away.
 */
#ifndef EDGE_EXCHANGE_H
#define EDGE_EXCHANGE_H

#include "edge/problem.h"
#include "edge/path.h"
#include "engine/engine.h"

#define EXCHANGE_LOCATION_MAX 64
#define EXCHANGE_ALLOW_MAX    64

struct edge;
struct batch;
struct connection;
struct gateway;
struct route;

enum exchange_step {
    EXCHANGE_READING = 0,
    EXCHANGE_ASKED,
    EXCHANGE_ANSWERED,
    EXCHANGE_SENT,
};

/* Zeroed: nothing to say yet. */
struct response {
    int status;
    const char *content_type; /* a literal */
    struct buf body;
    struct span fixed;          /* in place of body: lives as long as the edge */
    struct shared_body *shared; /* in place of body, held once: a large answer of the gateway's */
    size_t counted;             /* of body, in edge->bodies */
    char location[EXCHANGE_LOCATION_MAX];
    char allow[EXCHANGE_ALLOW_MAX];
    int retry_after_s;
    bool is_replay;
    bool asks_who; /* 401: WWW-Authenticate */
    bool closes;   /* the connection ends with it */

    /* The gateway's. */
    struct buf fields;    /* task/fields.h: header fields beside the above */
    bool is_relayed;      /* the status is the upstream's */
    uint64_t head_length; /* Content-Length of an answer to HEAD; 0: what the body has */
    struct {
        bool is_on;   /* the body is not here: it comes piece by piece */
        bool is_over; /* the last one is here */
        bool
            has_ended; /* and the engine knows of no more: else it is told when the caller leaves */
        bool is_cut;   /* and it is not whole */
        bool is_head_out; /* libmicrohttpd has been given the time to write the header */
        bool is_asked;    /* the next one has been asked for */
        uint64_t length;  /* of all of it; 0: not known */
        struct buf piece;
        size_t sent; /* of the piece */
    } stream;
};

struct exchange {
    uint64_t id;
    struct edge *edge;
    struct connection *connection;
    enum exchange_step step;
    bool is_open;
    bool is_suspended;
    bool is_ready; /* to be resumed */

    const struct route *route; /* NULL: refused before one was found */
    struct path path;
    struct span queue;  /* {queue} of the path */
    struct span name;   /* {id} of the path */
    unsigned roles;     /* of the caller, EDGE_ROLE_…; 0: none that we know */
    struct reach reach; /* which queues are there for him, by this route */
    struct span who;    /* the name of his token, or TOKENS_LOCAL; lives as long as the edge */
    uint32_t token;     /* its number */
    struct span key;    /* Idempotency-Key as it came, libmicrohttpd's memory; at NULL: none */
    struct span accept; /* Accept, likewise */
    struct buf body;
    struct arena *arena; /* what was read from it, until it is answered; NULL: nothing */
    uint64_t received;   /* bytes of the body, dropped ones too */
    size_t counted;      /* of them, in edge->bodies until it is answered, or is the engine's */

    enum ask_kind asked;
    struct task_id task; /* long poll: what for */
    bool is_waiter;
    struct batch *batch;
    struct gateway *gateway;          /* NULL: it came by the api's door */
    struct exchange *next, *previous; /* waiters */
    struct exchange *next_ready;      /* to be resumed */

    struct response response;
    uint32_t next_free; /* of the table */
};

/* The table. */
struct exchange_table {
    struct exchange **slots;
    uint32_t room, used; /* places there are, places that were ever used */
    uint32_t free;       /* the first free one + 1; 0: none */
    uint32_t open_count;
    uint32_t number; /* of the edge */
};

uint32_t exchange_edge(uint64_t id);  /* its number */
uint64_t exchange_place(uint64_t id); /* in the table, from 1 */

struct exchange *exchange_open(struct exchange_table *table); /* NULL: out of memory */
struct exchange *exchange_find(const struct exchange_table *table, uint64_t id); /* or NULL */
void exchange_close(struct exchange_table *table, struct exchange *exchange);
void exchange_table_done(struct exchange_table *table);

/* Answers, unless it is answered already. Without memory for it the answer is a fixed one. */
void exchange_refuse(struct exchange *exchange, enum problem problem, struct span detail,
                     struct span field);
void exchange_refuse_error(struct exchange *exchange, const struct error *err);

/* Begins an answer in JSON; NULL when there is one already. What it writes goes into
 * response.body; exchange_finish ends it. */
struct response *exchange_begin(struct exchange *exchange, int status, struct writer *ret_writer);
void exchange_finish(struct exchange *exchange, const struct writer *writer);

/* An answer that was rendered elsewhere, unless it is answered already; its body is taken. */
void exchange_adopt(struct exchange *exchange, struct response *response);

/* An answer that could not be rendered or sent for want of memory: for a write that the engine has
 * seen it is not known to the caller what became of it. */
enum problem exchange_lost_problem(const struct exchange *exchange);

#endif
