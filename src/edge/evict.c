/* SPDX-License-Identifier: MIT
 *
 * evict -- see evict.h. Each list is in the order of check_at_ms, and all in one list have the same time
 * to go: so the first one of a list is the one that has had nothing to do for the longest time.
 */
#include "edge/evict.h"

#include "edge/edge.h"
#include "edge/exchange.h"

#include <sys/socket.h>

typedef bool (*judge_fn)(const struct connection_set *set, const struct connection *connection);

/* Since when it has had nothing to do. */
static int64_t idle_since_ms(const struct connection_set *set, const struct connection *connection)
{
    return connection->check_at_ms - set->time_ms[connection->clock];
}

/* Has it said something that was not read yet? */
static bool has_spoken(const struct connection *connection)
{
    char byte;

    return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Waits for its caller: for the first bytes of a request, or for the next ones. */
static bool is_silent(const struct connection *connection)
{
    return connection->phase == PHASE_IDLE || connection->phase == PHASE_HEADER;
}

static bool is_idle(const struct connection_set *set, const struct connection *connection)
{
    (void)set;
    return is_silent(connection) && !has_spoken(connection) && !connection_has_unsent(connection);
}

/* Does its body come slower than progress asks for, or only to be dropped, or does it not take what was
 * sent: the end of an answer, or of a TLS handshake? What is refused may come as fast as it likes: it
 * costs strangers nothing to hold a place with it. A long answer, or one that is handed on, may be taken
 * slowly (connection.c looks at its progress); of a short one a second is enough. */
static bool is_slow(const struct connection_set *set, const struct connection *connection)
{
    if (is_silent(connection)) {
        return connection_has_unsent(connection);
    }
    if (connection->exchange == NULL) {
        return false;
    }
    if (connection->phase == PHASE_ANSWER) {
        return !connection->is_long && !connection->exchange->response.stream.is_on &&
               connection_has_unsent(connection);
    }
    if (connection->phase != PHASE_BODY) {
        return false;
    }
    if (connection->exchange->step == EXCHANGE_ANSWERED) {
        return true;
    }
    uint64_t got = connection->exchange->received - connection->seen;
    int64_t time_ms = loop_now_ms(set->loop) - idle_since_ms(set, connection);
    return got * (uint64_t)set->time_ms[CLOCK_BUSY] < (uint64_t)time_ms * EDGE_PROGRESS_BYTES;
}

static const judge_fn judges[LOOK_COUNT] = {[LOOK_IDLE] = is_idle, [LOOK_SLOW] = is_slow};

static void begin(const struct connection_set *set, enum connection_look_kind kind,
                  struct connection_look *look)
{
    *look = (struct connection_look){.ends_at_ms = loop_now_ms(set->loop) + EVICT_ROUND_MS};
    for (int door = 0; door < DOOR_COUNT; door++) {
        look->at[door][CLOCK_HEADER] = set->lists[door][CLOCK_HEADER].first;
        look->at[door][CLOCK_IDLE] = set->lists[door][CLOCK_IDLE].first;
        if (kind == LOOK_SLOW) {
            look->at[door][CLOCK_BUSY] = set->lists[door][CLOCK_BUSY].first;
        }
    }
}

/* With all places of the gateway taken, one of its own makes room for the next. */
static enum connection_door first_door(const struct connection_set *set, enum connection_door door)
{
    return door == DOOR_GATEWAY && house_is_full_of_guests(set->house) ? DOOR_GATEWAY : DOOR_API;
}

/* Of all lists the next one that was not looked at, if it has had its grace; NULL: there is none. */
static struct connection *next_of(const struct connection_set *set,
                                  const struct connection_look *look, enum connection_door first)
{
    int64_t until_ms = loop_now_ms(set->loop) - set->grace_ms;
    struct connection *next = NULL;

    for (int door = first; door < DOOR_COUNT; door++) {
        for (int clock = 0; clock < CLOCK_NONE; clock++) {
            struct connection *each = look->at[door][clock];
            if (each != NULL && idle_since_ms(set, each) <= until_ms) {
                next = each;
                until_ms = idle_since_ms(set, each) - 1; /* only for one that is older */
            }
        }
    }
    return next;
}

static enum connection_room look_for(struct connection_set *set, enum connection_door door,
                                     enum connection_look_kind kind, struct connection **ret_found)
{
    struct connection_look *look = &set->looks[door][kind];
    enum connection_door first = first_door(set, door);
    int64_t now_ms = loop_now_ms(set->loop);

    if (now_ms >= look->ends_at_ms) {
        begin(set, kind, look);
    }
    for (int i = 0; i < EVICT_LOOKED_AT_MAX; i++) {
        struct connection *next = next_of(set, look, first);
        if (next == NULL) {
            look->ends_at_ms = look->is_long ? look->ends_at_ms : 0;
            return ROOM_NONE;
        }
        if (judges[kind](set, next)) {
            *ret_found = next;
            return ROOM_NOW;
        }
        look->at[next->door][next->clock] = next->next;
    }
    look->is_long = true;
    look->ends_at_ms = now_ms + EVICT_ROUND_MS;
    return ROOM_LATER;
}

enum connection_room evict_find(struct connection_set *set, enum connection_door door,
                                struct connection **ret_found)
{
    enum connection_room room = look_for(set, door, LOOK_IDLE, ret_found);

    return room != ROOM_NONE ? room : look_for(set, door, LOOK_SLOW, ret_found);
}

void evict_pass(struct connection_set *set, const struct connection *connection)
{
    if (connection->clock == CLOCK_NONE) {
        return;
    }
    for (int i = 0; i < DOOR_COUNT * LOOK_COUNT; i++) {
        struct connection_look *look = &set->looks[i / LOOK_COUNT][i % LOOK_COUNT];
        struct connection **at = &look->at[connection->door][connection->clock];
        if (*at == connection) {
            *at = connection->next;
        }
    }
}
