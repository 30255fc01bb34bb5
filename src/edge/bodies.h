/* SPDX-License-Identifier: MIT
 *
 * bodies -- what callers' bodies cost in memory, requests that are being read and answers that are
 * being sent, all connections together (base/room.h, with what the deliverer holds of answers that are
 * for callers). Shared inside edge/ only. The number of connections bounds small ones.
 *
 * A large answer that several callers get at the same time (duplicates of one request) is one piece of
 * memory that they share.
 */
#ifndef EDGE_BODIES_H
#define EDGE_BODIES_H

#include "base/room.h"
#include "task/id.h"

#define BODIES_SMALL_BYTES ROOM_SMALL_BYTES
#define BODIES_BUCKETS     1024

struct shared_body;

/* One for all edges. The counter is of all threads; the answers belong to the gateway's thread. */
struct bodies {
    struct room *room, own; /* own: where no other part counts in it */
    struct shared_body *buckets[BODIES_BUCKETS];
};

/* `room`: NULL: one of their own, of bytes_max. */
void bodies_init(struct bodies *bodies, struct room *room, size_t bytes_max);

/* Room for a body that has grown from `before` to `after` bytes; false: there is none. */
bool bodies_take(struct bodies *bodies, size_t before, size_t after);
void bodies_give(struct bodies *bodies, size_t bytes);

/* The answer of a task, held once more; NULL: no room or memory for it. */
struct shared_body *bodies_share(struct bodies *bodies, struct task_id id, struct span body);
struct span shared_body_span(const struct shared_body *body);
void shared_body_release(struct shared_body *body); /* NULL is fine */
/* As libmicrohttpd asks for it: by the bytes. */
void shared_body_release_bytes(void *bytes);

#endif
