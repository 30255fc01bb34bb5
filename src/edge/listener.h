/* SPDX-License-Identifier: MIT
 *
 * listener -- one listening socket and the libmicrohttpd daemon behind it, plain or TLS. Shared inside
 * edge/ only. What belongs to one door is here; what all doors share (exchanges, connections, tokens)
 * is the edge's.
 *
 *   the socket is readable --> accept, LISTENER_ACCEPTS_MAX a turn --> MHD_add_connection --+
 *   its descriptor is readable -------------------------------------------------------------+
 *   an exchange was answered, and its connection resumed ----------------> wants_run -------+--> run
 *
 * Connections are accepted here and not by libmicrohttpd: so it is known that somebody waits at the
 * door when the house is full, and a thousand TLS handshakes do not come in one turn.
 */
#ifndef EDGE_LISTENER_H
#define EDGE_LISTENER_H

#include "edge/connection.h"

#include "base/span.h"
#include "loop/loop.h"

#include <stdbool.h>
#include <stdint.h>

#define LISTENER_ACCEPTS_MAX 8 /* a turn: each may be a TLS handshake, which is some milliseconds */
#define LISTENER_REST_MS     100 /* after which a door is tried again that could not be opened */
/* Runs of libmicrohttpd in a row that call nothing back. With its memory for a connection full, and no end
 * of a line or chunk in it, it reads no more and wants to be run for ever. */
#define LISTENER_EMPTY_MAX 64
#define LISTENER_YIELD_MS  1 /* that a busy loop leaves the door to the others */

struct edge;
struct MHD_Daemon;

struct listener {
    struct edge *edge;
    struct MHD_Daemon *daemon;
    struct loop_watch *watch; /* of libmicrohttpd's own descriptor */
    struct loop_watch *door;  /* of the socket; NULL: closed for good */
    struct loop_timer *rest;  /* until the door is opened again */
    int fd;                   /* the socket; -1: none */
    uint16_t port;
    bool wants_run;      /* libmicrohttpd has something to do */
    uint64_t heard;      /* how often it has called back, */
    uint32_t empty_runs; /* and runs in a row in which it did not */
    bool is_resting;
    bool has_yielded; /* it does so only once in a row: the others may be stuck */
};

/* Where, and how. Paths are followed by a NUL. */
struct listener_options {
    const char *key;            /* of the configuration, for errors: "api" */
    struct span host;           /* an address */
    uint16_t port;              /* 0: any free one */
    bool is_public;             /* else only loopback addresses will do */
    struct span cert, key_file; /* of TLS; empty: none */
    bool has_fd;                /* there is a socket already: a duplicate of fd is used */
    int fd;
    int64_t patience_ms; /* of the kernel with a connection that takes nothing of what was sent */
};

/* FAULT_INPUT for an address or a file that cannot be used, FAULT_SYSTEM, FAULT_MEMORY. What was
 * opened is closed by listener_close, also after a failure. */
int listener_open(struct listener *listener, struct edge *edge,
                  const struct listener_options *options, struct error *err)
    __attribute__((warn_unused_result));

enum connection_door listener_door(const struct listener *listener);

/* Nobody new. */
void listener_shut(struct listener *listener);
/* One run of libmicrohttpd, when there is something to do; wants_run says whether there still is. */
void listener_run(struct listener *listener);
/* There is room again. */
void listener_reopen(struct listener *listener);
/* No connection may be suspended. Zeroed is fine. */
void listener_close(struct listener *listener);

/* listen.c: a listening socket, and its port. */
int listen_open(const struct listener_options *options, int *ret_fd, uint16_t *ret_port,
                struct error *err) __attribute__((warn_unused_result));

#endif
