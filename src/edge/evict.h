/* SPDX-License-Identifier: MIT
 *
 * evict -- which connection has to go for another one when all places are taken. Shared inside edge/ only;
 * in the loop's thread.
 *
 *   idle for the longest time, of HEADER and IDLE --none--> slow, of all lists --none--> none
 *
 * A look judges a few connections (EVICT_LOOKED_AT_MAX), each with a system call or two, and the next look
 * begins where it ended: so no turn of the loop is long, and no number of connections that cannot go hides
 * one that can. All lists are gone through as one, in the order of how long each has had nothing to do.
 *
 *   begin --few--> few more --few--> ... --end of the lists--> none, for the rest of EVICT_ROUND_MS
 *     ^                 '--one that can go: it is the next one that is judged, too, until it is gone
 *     '-------- after EVICT_ROUND_MS, unless the round is still being gone through without a pause
 */
#ifndef EDGE_EVICT_H
#define EDGE_EVICT_H

#include "edge/connection.h"

#define EVICT_LOOKED_AT_MAX 32 /* by one look, for each judgement */
/* After which those that could not go are judged again. A round that needed one look only is not kept. */
#define EVICT_ROUND_MS 1000

/* ROOM_NOW: ret_found can be cut to let another one in by that door. ROOM_LATER: not all were looked at. */
enum connection_room evict_find(struct connection_set *set, enum connection_door door,
                                struct connection **ret_found);
/* It is about to leave the list that it is in. */
void evict_pass(struct connection_set *set, const struct connection *connection);

#endif
