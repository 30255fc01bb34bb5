/* SPDX-License-Identifier: MIT
 *
 * peers -- see peers.h.
 */
#include "store/peers.h"
#include "base/plant.h"

static const struct peer *find(const struct peers *peers, uint64_t epoch)
{
    for (size_t i = 0; i < peers->count; i++) {
        if (peers->peers[i].epoch == epoch) {
            return &peers->peers[i];
        }
    }
    return NULL;
}

void peers_look(struct peers *peers, const struct peer *seen, size_t count, int64_t now_ms,
                int64_t gap_ms)
{
    struct peers next = {.looked_ms = now_ms};
    bool was_away = peers->looked_ms == 0 || now_ms - peers->looked_ms > gap_ms;

    for (size_t i = 0; i < count && i < PEERS_MAX; i++) {
        const struct peer *known = find(peers, seen[i].epoch);
        bool has_moved = known == NULL || known->beat != seen[i].beat;
        next.peers[next.count++] = (struct peer){
            .epoch = seen[i].epoch,
            .beat = seen[i].beat,
            .beat_first = known == NULL ? seen[i].beat : known->beat_first,
            .moved_ms = has_moved || was_away ? now_ms : known->moved_ms,
        };
    }
    *peers = next;
}

const struct peer *peers_dead(const struct peers *peers, uint64_t own_epoch, int64_t now_ms,
                              int64_t lease_ms)
{
    PLANT(PEER_DEAD_EARLY, lease_ms /= 2)
    for (size_t i = 0; i < peers->count; i++) {
        const struct peer *peer = &peers->peers[i];
        if (peer->epoch != own_epoch && now_ms - peer->moved_ms >= lease_ms) {
            return peer;
        }
    }
    return NULL;
}

bool peers_have_seen_us(const struct peers *peers, uint64_t own_epoch)
{
    for (size_t i = 0; i < peers->count; i++) {
        const struct peer *peer = &peers->peers[i];
        if (peer->epoch < own_epoch && peer->beat - peer->beat_first < 2) {
            return false;
        }
    }
    return true;
}
