/* SPDX-License-Identifier: MIT
 *
 * edges -- the HTTP door on as many threads as are wanted. With one, it is an edge on the engine's own
 * loop, called directly. With N there are N - 1 loops more, each in a thread of its own with an edge on
 * it (TLS, HTTP, JSON), all at the same listening socket; the engine's loop serves no HTTP then, and
 * questions and answers go over a crossing.
 *
 * All functions belong to the engine's thread.
 */
#ifndef EDGE_EDGES_H
#define EDGE_EDGES_H

#include "edge/edge.h"

#define EDGES_THREADS_MAX 64

struct edges; /* opaque */

/* As edge_open; connections and waiters are limits for all of them together. `threads` is from 1 to
 * EDGES_THREADS_MAX. options->metrics and ->ready are called in the engine's thread. */
int edges_open(const struct edge_options *options, uint32_t threads, struct edges **ret_edges,
               struct error *err) __attribute__((warn_unused_result));
void edges_close(struct edges *edges); /* as edge_close */

/* As their namesakes of one edge. */
void edges_reply(struct edges *edges, const struct reply *reply);
void edges_drain(struct edges *edges);
bool edges_are_drained(const struct edges *edges);
uint16_t edges_port(const struct edges *edges);
uint16_t edges_gateway_port(const struct edges *edges); /* 0: there is none */
void edges_stats(const struct edges *edges, struct edge_stats *ret_stats);

#endif
