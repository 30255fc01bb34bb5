/* SPDX-License-Identifier: MIT
 *
 * connection -- see connection.h. Each list holds those with the same time to go, so the first one
 * is always the next to be looked at: one timer, no heap.
 */
#include "edge/connection.h"

#include "edge/edge.h"
#include "edge/exchange.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define LOOKED_AT_MAX 16 /* of each list, when room is made */
#define KEPT_PART     8  /* of all places, for the api's door, */
#define KEPT_MAX      64 /* but not more */

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

/* Bytes that the other side has taken since it connected. */
static uint64_t acknowledged(const struct connection *connection)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;

    if (getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0) {
        return connection->seen; /* no socket any more: no progress */
    }
    return info.tcpi_bytes_acked;
}

static bool has_unsent(const struct connection *connection)
{
    int waiting = 0;

    return ioctl(connection->fd, SIOCOUTQ, &waiting) == 0 && waiting > 0;
}

/* What the other side has not taken by now is not kept for it by the kernel. */
static void let_go(const struct connection *connection)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    if (has_unsent(connection)) { /* can fail only for a socket that is gone */
        (void)setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    (void)shutdown(connection->fd, SHUT_RDWR); /* it may be closed by the other side already */
}

static void cut(struct connection_set *set, struct connection *connection)
{
    let_go(connection);
    set->cut_count++;
    set->going_count++;
    set->guest_count -= connection->is_guest;
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
    if (connection->phase == PHASE_ANSWER && connection->is_long) {
        uint64_t taken = acknowledged(connection);
        bool is_enough = taken - connection->seen >= EDGE_PROGRESS_BYTES;
        connection->seen = taken;
        return is_enough;
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

static uint32_t kept_places(uint32_t room_max)
{
    uint32_t part = room_max / KEPT_PART;

    return part > KEPT_MAX ? KEPT_MAX : part > 0 ? part : room_max > 1;
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
        .guest_max = limits->guest_max != 0 ? limits->guest_max
                                            : limits->room_max - kept_places(limits->room_max),
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

struct connection *connection_new(struct connection_set *set, int fd, enum connection_door door)
{
    struct connection *connection = calloc(1, sizeof *connection);

    if (connection != NULL) {
        connection->fd = fd;
        connection->is_guest = door == DOOR_GATEWAY;
        set->count++;
        set->guest_count += connection->is_guest;
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
    set->guest_count -= connection->is_guest && connection->phase != PHASE_CUT;
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
    connection->unread = 0; /* what was there is read: as much again is another request */
    connection->is_long = bytes >= EDGE_PROGRESS_BYTES;
    connection->seen = connection->is_long ? acknowledged(connection) : 0;
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

static bool is_idle(const struct connection_set *set, const struct connection *connection)
{
    bool is_silent = connection->phase == PHASE_IDLE || connection->phase == PHASE_HEADER;

    (void)set;
    return is_silent && !has_spoken(connection) && !has_unsent(connection);
}

/* Does its body come slower than progress asks for, or does it not take what was sent? */
static bool is_slow(const struct connection_set *set, const struct connection *connection)
{
    if (connection->phase == PHASE_IDLE) {
        return has_unsent(connection);
    }
    if (connection->phase != PHASE_BODY || connection->exchange == NULL) {
        return false;
    }
    uint64_t got = connection->exchange->received - connection->seen;
    int64_t time_ms = loop_now_ms(set->loop) - idle_since_ms(set, connection);
    return got * (uint64_t)set->time_ms[CLOCK_BUSY] < (uint64_t)time_ms * EDGE_PROGRESS_BYTES;
}

typedef bool (*judge_fn)(const struct connection_set *set, const struct connection *connection);

/* The first of a list that can be cut for another one; NULL: none of the first few. */
static struct connection *find_in(const struct connection_set *set, enum connection_clock clock,
                                  bool is_guests, judge_fn judge)
{
    int64_t until_ms = loop_now_ms(set->loop) - set->grace_ms;
    struct connection *each = set->lists[clock].first;
    int looked_at = 0;

    for (; each != NULL && looked_at < LOOKED_AT_MAX; each = each->next) {
        if (idle_since_ms(set, each) > until_ms) {
            return NULL;
        }
        if (is_guests && !each->is_guest) {
            continue;
        }
        if (judge(set, each)) {
            return each;
        }
        looked_at++;
    }
    return NULL;
}

/* With all places of the gateway taken, one of its own makes room for the next. */
static bool is_guests_only(const struct connection_set *set, enum connection_door door)
{
    return door == DOOR_GATEWAY && set->guest_count >= set->guest_max;
}

static struct connection *longer(const struct connection_set *set, struct connection *one,
                                 struct connection *other)
{
    if (one == NULL || other == NULL) {
        return one != NULL ? one : other;
    }
    return idle_since_ms(set, other) < idle_since_ms(set, one) ? other : one;
}

/* Idle ones go before slow ones. */
static struct connection *find_longest(const struct connection_set *set, enum connection_door door)
{
    bool is_guests = is_guests_only(set, door);
    struct connection *idle = longer(set, find_in(set, CLOCK_IDLE, is_guests, is_idle),
                                     find_in(set, CLOCK_HEADER, is_guests, is_idle));

    return idle != NULL ? idle
                        : longer(set, find_in(set, CLOCK_BUSY, is_guests, is_slow),
                                 find_in(set, CLOCK_IDLE, is_guests, is_slow));
}

bool connection_set_can_make_room(const struct connection_set *set, enum connection_door door)
{
    return find_longest(set, door) != NULL;
}

bool connection_set_make_room(struct connection_set *set, enum connection_door door)
{
    struct connection *longest = find_longest(set, door);

    if (longest == NULL) {
        return false;
    }
    cut(set, longest);
    return true;
}

bool connection_set_has_room(const struct connection_set *set, enum connection_door door)
{
    return set->count - set->going_count < set->room_max && !is_guests_only(set, door);
}

/* Bytes that wait to be read, + 1: the other side's end counts as input. 0: none. */
static int input_of(const struct connection *connection)
{
    int waiting = 0;
    char byte;

    if (recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0) {
        return 0;
    }
    return ioctl(connection->fd, FIONREAD, &waiting) == 0 ? waiting + 1 : 0;
}

void connection_set_cut_stuck(struct connection_set *set)
{
    static const enum connection_clock clocks[] = {CLOCK_HEADER, CLOCK_BUSY, CLOCK_IDLE};
    struct connection *next;

    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        for (struct connection *each = set->lists[clocks[i]].first; each != NULL; each = next) {
            int input = each->phase == PHASE_ANSWER ? 0 : input_of(each);
            next = each->next;
            if (input != 0 && input == each->unread) {
                cut(set, each);
            } else {
                each->unread = input;
            }
        }
    }
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
