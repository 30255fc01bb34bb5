/* SPDX-License-Identifier: MIT
 *
 * connection -- see connection.h. Each list holds those with the same time to go, so the first one
 * is always the next to be looked at: one timer, no heap.
 */
#include "edge/connection.h"

#include "edge/edge.h"
#include "edge/exchange.h"

#include <stdlib.h>
#include <sys/socket.h>

#define LOOKED_AT_MAX 16 /* of each list, when room is made */

static void leave_list(struct connection_set *set, struct connection *connection)
{
    struct connection_list *list = &set->lists[connection->clock];
    struct connection *next = connection->next, *previous = connection->previous;

    *(previous != NULL ? &previous->next : &list->first) = next;
    *(next != NULL ? &next->previous : &list->last) = previous;
}

static void set_timer(struct connection_set *set, int64_t at_ms)
{
    if (set->rings_at_ms == 0 || at_ms < set->rings_at_ms) {
        set->rings_at_ms = at_ms;
        loop_timer_set(set->timer, at_ms);
    }
}

static void join_list(struct connection_set *set, struct connection *connection,
                      enum connection_clock clock)
{
    struct connection_list *list = &set->lists[clock];

    connection->clock = clock;
    connection->check_at_ms = loop_now_ms(set->loop) + set->time_ms[clock];
    connection->next = NULL;
    connection->previous = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = connection;
    list->last = connection;
    if (clock != CLOCK_NONE) {
        set_timer(set, connection->check_at_ms);
    }
}

/* Somebody may be waiting at the door. */
static void tell_room(struct connection_set *set)
{
    if (set->is_full) {
        set->is_full = false;
        set->room(set->room_user);
    }
}

static void cut(struct connection_set *set, struct connection *connection)
{
    (void)shutdown(connection->fd, SHUT_RDWR); /* it may be closed by the other side already */
    set->cut_count++;
    set->going_count++;
    leave_list(set, connection);
    connection->phase = PHASE_CUT;
    join_list(set, connection, CLOCK_NONE);
}

/* Its time is over: has it got on? */
static bool has_progress(struct connection *connection)
{
    if (connection->phase == PHASE_BODY && connection->exchange != NULL) {
        uint64_t received = connection->exchange->received;
        bool is_enough = received - connection->seen >= EDGE_PROGRESS_BYTES;
        connection->seen = received;
        return is_enough;
    }
    if (connection->phase == PHASE_ANSWER && connection->allows > 0) {
        connection->allows--;
        return true;
    }
    return false;
}

static void look_at(struct connection_set *set, struct connection *connection)
{
    if (!has_progress(connection)) {
        cut(set, connection);
        return;
    }
    enum connection_clock clock = connection->clock;
    leave_list(set, connection);
    join_list(set, connection, clock);
}

static void ring(void *user)
{
    struct connection_set *set = user;
    int64_t now_ms = loop_now_ms(set->loop);

    set->rings_at_ms = 0;
    for (int clock = 0; clock < CLOCK_NONE; clock++) {
        struct connection_list *list = &set->lists[clock];
        while (list->first != NULL && list->first->check_at_ms <= now_ms) {
            look_at(set, list->first);
        }
        if (list->first != NULL) {
            set_timer(set, list->first->check_at_ms);
        }
    }
}

int connection_set_init(struct connection_set *set, struct loop *loop,
                        const struct connection_limits *limits, loop_fn room, void *user,
                        struct error *err)
{
    *set = (struct connection_set){
        .loop = loop,
        .time_ms = {[CLOCK_HEADER] = limits->header_time_ms,
                    [CLOCK_BUSY] = limits->idle_time_ms,
                    [CLOCK_IDLE] = limits->idle_time_ms},
        .room_max = limits->room_max,
        .grace_ms = limits->grace_ms,
        .room = room,
        .room_user = user,
    };
    return loop_timer_new(loop, ring, set, &set->timer, err);
}

void connection_set_done(struct connection_set *set)
{
    loop_timer_free(set->timer);
    set->timer = NULL;
}

struct connection *connection_new(struct connection_set *set, int fd)
{
    struct connection *connection = calloc(1, sizeof *connection);

    if (connection != NULL) {
        connection->fd = fd;
        set->count++;
        join_list(set, connection, CLOCK_HEADER);
    }
    return connection;
}

void connection_free(struct connection_set *set, struct connection *connection)
{
    if (connection == NULL) {
        return;
    }
    leave_list(set, connection);
    set->count--;
    set->going_count -= connection->phase == PHASE_CUT;
    free(connection->target);
    free(connection);
    tell_room(set);
}

static enum connection_clock clock_of(enum connection_phase phase)
{
    if (phase == PHASE_IDLE) {
        return CLOCK_IDLE;
    }
    return phase == PHASE_ENGINE ? CLOCK_NONE : CLOCK_BUSY;
}

void connection_enter(struct connection_set *set, struct connection *connection,
                      enum connection_phase phase, uint64_t bytes)
{
    if (connection->phase == PHASE_CUT) {
        return;
    }
    connection->phase = phase;
    connection->seen = 0;
    connection->allows = bytes / EDGE_PROGRESS_BYTES;
    leave_list(set, connection);
    join_list(set, connection, clock_of(phase));
    if (phase != PHASE_IDLE) {
        return;
    }
    if (set->is_closing) {
        cut(set, connection);
    }
    tell_room(set);
}

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

/* The first of a list that is in fact idle; NULL: none of the first few. */
static struct connection *find_idle(const struct connection_set *set, enum connection_clock clock,
                                    int64_t until_ms)
{
    struct connection *each = set->lists[clock].first;

    for (int i = 0; each != NULL && i < LOOKED_AT_MAX; i++, each = each->next) {
        if (idle_since_ms(set, each) > until_ms) {
            return NULL;
        }
        if (!has_spoken(each)) {
            return each;
        }
    }
    return NULL;
}

static struct connection *find_longest(const struct connection_set *set)
{
    int64_t now_ms = loop_now_ms(set->loop);
    struct connection *longest = find_idle(set, CLOCK_IDLE, now_ms - set->grace_ms);
    struct connection *silent = find_idle(set, CLOCK_HEADER, now_ms - set->grace_ms);

    if (longest == NULL ||
        (silent != NULL && idle_since_ms(set, silent) < idle_since_ms(set, longest))) {
        longest = silent;
    }
    return longest;
}

bool connection_set_can_make_room(const struct connection_set *set)
{
    return find_longest(set) != NULL;
}

bool connection_set_make_room(struct connection_set *set)
{
    struct connection *longest = find_longest(set);

    if (longest == NULL) {
        return false;
    }
    cut(set, longest);
    return true;
}

bool connection_set_has_room(const struct connection_set *set)
{
    return set->count - set->going_count < set->room_max;
}

void connection_set_note_full(struct connection_set *set)
{
    set->is_full = true;
}

void connection_set_close_idle(struct connection_set *set)
{
    struct connection *next;

    set->is_closing = true;
    for (struct connection *each = set->lists[CLOCK_IDLE].first; each != NULL; each = next) {
        next = each->next;
        cut(set, each);
    }
}
