/* SPDX-License-Identifier: MIT
 *
 * edge -- the HTTP door: libmicrohttpd on the loop, the task API, and everything that keeps slow and
 * hostile clients from costing more than themselves. Thin: it parses, makes one call of the engine,
 * and renders what comes back.
 *
 *   caller --> guard --> routes --> api_* --> engine_submit, engine_ask
 *     ^                                             |
 *     '---- respond <--- pump, once a turn <--- edge_reply
 *
 * A caller is known to the engine by a number (exchange), never by a pointer. All functions belong to
 * the loop's thread. This is one edge, on the engine's loop; edges.h has several.
 */
#ifndef EDGE_EDGE_H
#define EDGE_EDGE_H

#include "base/room.h"
#include "engine/engine.h"
#include "loop/loop.h"
#include "task/route_headers.h"

/* Where options say 0. */
#define EDGE_BODY_BYTES_MAX  (1u << 20)
#define EDGE_BODIES_BYTES    (256u << 20)
#define EDGE_CONNECTIONS_MAX 10000
#define EDGE_WAITERS_MAX     1000
#define EDGE_HEADER_TIME_MS  10000
#define EDGE_IDLE_TIME_MS    60000
#define EDGE_GRACE_MS        1000
#define EDGE_LEAVE_CHECK_MS                                                                        \
    1000                       /* how often it is looked whether waiting callers are still there */
#define EDGE_LEAVERS_A_TURN 64 /* so many who are not are seen off in one turn of the loop */

#define EDGE_SWALLOW_TIMES 8 /* a body is read and dropped up to this many times its limit */
/* libmicrohttpd has one piece of memory for each connection, in which both the request's header and
 * the answer's lie. A request that takes more than its part of it is refused before anything else is
 * done with it, so that whatever comes of a request can be told. One that takes all of it cannot be told
 * anything: libmicrohttpd has no room for an answer either, and closes the connection. Hence the half
 * more than is allowed; a connection that has served a request keeps all of it. */
#define EDGE_REQUEST_BYTES      16384 /* request line, header fields, and what they cost to be known */
#define EDGE_PARAMETERS_MAX     200  /* of the target's query */
#define EDGE_OWN_BYTES          1024 /* header of an answer of ours, or what we add to another's */
#define EDGE_POOL_BYTES         (EDGE_REQUEST_BYTES + EDGE_REQUEST_BYTES / 2)
#define EDGE_GATEWAY_POOL_BYTES (EDGE_REQUEST_BYTES + EDGE_OWN_BYTES + ROUTE_TOLD_HEADER_MAX)

#define EDGE_PROGRESS_BYTES     65536 /* that a body or an answer has to move in each idle time */
#define EDGE_RESPONSE_BYTES_MAX (64u << 20)
#define EDGE_BATCH_MAX          1000

struct edge; /* opaque */

/* What a token allows, one or several; edge/routes.c says which call takes which. */
enum edge_role {
    EDGE_ROLE_ADMIN = 1,     /* all */
    EDGE_ROLE_PRODUCER = 2,  /* create tasks, read tasks, queues and runs */
    EDGE_ROLE_WORKER = 4,    /* leases, and the same reading */
    EDGE_ROLE_VIEWER = 8,    /* everything that only reads */
    EDGE_ROLE_OPERATOR = 16, /* that, and what mends: run, cancel, redrive, settle, pause, resume */
};

struct edge_token {
    struct span name; /* goes into the audit trail */
    unsigned roles;   /* EDGE_ROLE_… */
    struct span secret;
    const struct span *queues; /* that it reaches (task/reach.h); live as long as the engine */
    size_t queue_count;        /* 0: all that its roles let it see */
};

struct edge_limits {
    size_t body_bytes_max;
    size_t bodies_bytes_max; /* all together, see bodies.h */
    uint32_t connections_max;
    uint32_t files_max; /* the gateway's door opens for no descriptor from this number on: those are
                           kept for the api, its health checks and the store; 0: none are */
    uint32_t waiters_max;
    int64_t header_time_ms; /* from connecting to the end of the first request's headers */
    int64_t idle_time_ms;   /* from one request to the end of the next one's headers; and see
                               EDGE_PROGRESS_BYTES */
    int64_t leave_check_ms;
    int64_t grace_ms; /* nobody is idle before that, and sent away for somebody new */
};

/* Adds Prometheus text to `out`; `how`: METRICS_OPEN, METRICS_TOTAL (watch/metrics.h). */
typedef int (*edge_metrics_fn)(void *user, unsigned how, struct buf *out);
/* A queue's settings as JSON, secrets hidden (config_show_queue). */
typedef int (*edge_show_queue_fn)(const struct queue_settings *settings, struct buf *out);
/* 0, or why the server is not ready. */
typedef int (*edge_ready_fn)(void *user, struct error *err);

struct edge_options {
    struct loop *loop;
    struct engine *engine;
    const struct clock *clock;
    struct span host;         /* an address, IPv4 or IPv6; without tokens only a loopback one */
    uint16_t port;            /* 0: any free one */
    const struct span *hosts; /* names and addresses that it is asked for by, besides loopback and
                               * `host`; live as long as the edge */
    size_t host_count;        /* 0, with tokens: any */
    struct span tls_cert, tls_key;   /* paths of PEM files, a NUL behind each; empty: no TLS */
    const struct edge_token *tokens; /* read by edge_open only: the secrets may be wiped then */
    size_t token_count;              /* 0: nobody is asked who he is, everybody may do everything */
    struct span gateway_host;        /* an address; empty: there is no gateway */
    struct span gateway_cert, gateway_key; /* as tls_cert and tls_key */
    uint16_t gateway_port;
    const struct route_settings *routes; /* live as long as the edge */
    size_t route_count;
    struct span pass; /* where what matches no route goes; empty: 404 */
    struct edge_limits limits;
    struct room *room; /* for bodies, outlives the edge; NULL: own, of limits.bodies_bytes_max */
    engine_parse_policy_fn parse_policy;
    void *parse_user;
    edge_show_queue_fn show_queue;   /* NULL: settings are not shown */
    edge_metrics_fn metrics;         /* NULL: none */
    edge_ready_fn ready;             /* NULL: always, until draining */
    void *user;                      /* of metrics and ready */
    struct span openapi;             /* lives as long as the edge */
    const struct daruma_logger *log; /* NULL: silent */
};

/* What edge_open would say of the certificates and keys. */
int edge_check_tls(const struct edge_options *options, struct error *err)
    __attribute__((warn_unused_result));

/* Listens from here on. FAULT_INPUT for an address or a file that cannot be used, FAULT_SYSTEM when it is
 * taken, FAULT_MEMORY. */
int edge_open(const struct edge_options *options, struct edge **ret_edge, struct error *err)
    __attribute__((warn_unused_result));

/* Answers whoever is still there (a write that is under way: store_unknown), then closes. NULL is
 * fine. Before engine_free, and not from inside one of the edge's own calls. */
void edge_close(struct edge *edge);

/* For engine_world.reply. Renders at once; sends in the next turn. May be called from inside
 * engine_submit, engine_ask and engine_leave. Replies to nobody are dropped. */
void edge_reply(struct edge *edge, const struct reply *reply);

/* For engine_options.render: lists and tasks as JSON, on the reader's thread. `user` is a struct
 * edge_renderer, which nobody changes any more. */
struct edge_renderer {
    engine_parse_policy_fn parse_policy; /* as in edge_options */
    void *parse_user;
};
int edge_render(void *user, const struct reply *reply, struct buf *out);

/* Not ready any more; then nobody new is let in, long polls are answered at once, and each connection
 * ends with the answer it is waiting for. */
void edge_drain(struct edge *edge);
bool edge_is_drained(const struct edge *edge); /* nobody waits for an answer */

/* For engine_options.callback: the task as the API shows it, to the url that it asked for. */
bool edge_callback(void *user, const struct record *record, struct span queue, struct arena *arena,
                   struct submission *ret_submission);

uint16_t edge_port(const struct edge *edge);
uint16_t edge_gateway_port(const struct edge *edge); /* 0: there is none */

/* Codes of answers: 2xx to 5xx of our own, and those whose status is an upstream's. */
enum edge_code { CODE_2XX, CODE_3XX, CODE_4XX, CODE_5XX, CODE_RELAYED, CODE_COUNT };

struct edge_stats {
    uint64_t answers[BY_COUNT][CODE_COUNT];
    uint64_t requests;    /* answered */
    uint64_t refused;     /* of them, with 4xx or 5xx */
    uint64_t cut;         /* connections ended because they were too slow */
    uint32_t connections; /* open now */
    uint32_t waiters;     /* long polls now */
    uint64_t body_bytes;  /* of callers' bodies in memory, see bodies.h */
};
void edge_stats(const struct edge *edge, struct edge_stats *ret_stats);

#endif
