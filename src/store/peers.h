/* SPDX-License-Identifier: MIT
 *
 * peers -- who of the other nodes is still alive, told from their counters alone: one that has not
 * moved for the lease time, as watched by us, is a dead node's. Our own watching is what counts, on
 * our own monotonic clock; so after an outage of the store, when nobody could beat, everybody has the
 * whole lease time again. Pure: whoever looks brings what was seen, and the time.
 */
#ifndef STORE_PEERS_H
#define STORE_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEERS_MAX 64 /* as many as there are slots of ids */

struct peer {
    uint64_t epoch;
    int64_t beat;       /* the counter, as last seen */
    int64_t beat_first; /* as first seen */
    int64_t moved_ms;   /* when it was first seen so */
};

/* Zeroed: nobody has been seen yet. */
struct peers {
    struct peer peers[PEERS_MAX];
    size_t count;
    int64_t looked_ms; /* the last look; 0: none */
};

/* What was seen now. Who is not in it any more is forgotten. A gap of more than gap_ms since the last
 * look means that we were not watching: everybody's time begins anew. */
void peers_look(struct peers *peers, const struct peer *seen, size_t count, int64_t now_ms,
                int64_t gap_ms);

/* The first whose counter has stood still for lease_ms; NULL: none. */
const struct peer *peers_dead(const struct peers *peers, uint64_t own_epoch, int64_t now_ms,
                              int64_t lease_ms);

/* Has each of them, looking around at every beat, looked since we are there? A counter that moved
 * twice since we first saw it has. */
bool peers_have_seen_us(const struct peers *peers, uint64_t own_epoch);

#endif
