/* SPDX-License-Identifier: MIT
 *
 * crossing -- the way between a loop that only serves HTTP and the one that runs the engine, when
 * there are several (edges.h). Shared inside edge/ only.
 *
 *   the edge's thread                                      the engine's thread
 *   api_* --> edge_put_… --> question --- handover ------> shore_take: engine_submit, engine_ask
 *   crossing_take: the answer is sent <--- handover ------ crossing_reply: rendered
 *
 * On the engine's thread a copy of the exchange, made when it asks, stands in for it: answers are
 * rendered into the copy, and only what is rendered goes back. The copy looks at the request's memory
 * (target, body, arena); that stays, since the exchange is suspended until it is answered. Where there
 * is only one loop nothing crosses: edge_put_… calls the engine.
 */
#ifndef EDGE_CROSSING_H
#define EDGE_CROSSING_H

#include "base/handover.h"
#include "edge/edge_internal.h"
#include "edge/parse_batch.h"

#define CROSSING_WAITING_MAX 65536 /* questions of all edges that the engine has not taken yet */

struct question;

/* The engine's side: one, shared by all edges. */
struct shore {
    struct engine *engine;
    struct handover *questions;
    struct loop_waker *waker;
    struct lease_return *returns; /* to be given back in the next turn */
    bool is_draining;             /* since edges_drain: the edges hear of it a little later */
};

/* One edge's way across. */
struct crossing {
    struct shore *shore;
    struct handover *answers;
    struct loop_waker *waker;  /* of the edge's loop */
    struct question **pending; /* the engine's thread only: by the exchange's place in its table */
    uint32_t pending_room;
};

int shore_open(struct shore *shore, struct engine *engine, struct loop *loop, struct error *err)
    __attribute__((warn_unused_result));
void shore_close(struct shore *shore); /* after every crossing */

/* `woken` runs in the edge's thread, for answers (crossing_take) and whatever else it is woken for. */
int crossing_open(struct crossing *crossing, struct shore *shore, struct loop *loop, loop_fn woken,
                  void *user, struct error *err) __attribute__((warn_unused_result));
void crossing_close(struct crossing *crossing); /* the edge's thread has ended */

/* In the edge's thread: hands the answers that came to their exchanges. */
void crossing_take(struct edge *edge);
/* In the engine's thread. */
void crossing_reply(struct crossing *crossing, const struct reply *reply);
/* Likewise: leases that nobody is there for. */
void crossing_return(struct crossing *crossing, const struct record *records, size_t count);

#endif
