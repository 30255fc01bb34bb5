/* SPDX-License-Identifier: MIT
 *
 * connection -- see connection.h. Each list holds those with the same time to go, so the first one
 * is always the next to be looked at: one timer, no heap.
 */
#include "edge/connection.h"

#include "edge/edge.h"
#include "edge/evict.h"
#include "edge/exchange.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define TARGET_ROOM_FIRST 64
#define TARGET_ROOM_KEPT  512

static void leave_list(struct connection_set *set, struct connection *connection)
{
    struct connection_list *list = &set->lists[connection->door][connection->clock];
    struct connection *next = connection->next, *previous = connection->previous;

    evict_pass(set, connection);
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
    struct connection_list *list = &set->lists[connection->door][clock];

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

/* A caller may be waiting at a door. It is looked at anew only if there is a place for it: it would find
 * the house full once more, and ask once more. */
static void tell_room(struct connection_set *set)
{
    for (int door = 0; door < DOOR_COUNT; door++) {
        if (set->is_full[door] && house_has_place(set->house, door)) {
            connection_set_note_room(set, door);
            set->room(set->room_user, door);
        }
    }
}

static void wait_no_more(struct connection_set *set)
{
    for (int door = 0; door < DOOR_COUNT; door++) {
        if (set->is_full[door]) {
            connection_set_note_room(set, door);
        }
    }
}

static void leave_place(struct connection_set *set, const struct connection *connection)
{
    house_leave(set->house, connection->door);
    house_tell(set->house);
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

bool connection_has_unsent(const struct connection *connection)
{
    int waiting = 0;

    return ioctl(connection->fd, SIOCOUTQ, &waiting) == 0 && waiting > 0;
}

/* What the other side has not taken by now is not kept for it by the kernel. */
static void let_go(const struct connection *connection)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    if (connection_has_unsent(connection)) { /* can fail only for a socket that is gone */
        (void)setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    (void)shutdown(connection->fd, SHUT_RDWR); /* it may be closed by the other side already */
}

static void cut(struct connection_set *set, struct connection *connection)
{
    let_go(connection);
    set->cut_count++;
    leave_list(set, connection);
    connection->phase = PHASE_CUT;
    join_list(set, connection, CLOCK_NONE);
    leave_place(set, connection);
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
    for (int i = 0; i < DOOR_COUNT * CLOCK_NONE; i++) {
        struct connection_list *list = &set->lists[i / CLOCK_NONE][i % CLOCK_NONE];
        while (list->first != NULL && list->first->check_at_ms <= now_ms) {
            look_at(set, list->first);
        }
        if (list->first != NULL) {
            set_timer(set, list->first->check_at_ms);
        }
    }
}

/* Looks for one that makes room for a caller of another loop. */
static void help(void *user)
{
    struct connection_set *set = user;
    struct connection *found = NULL;

    if (house_asked(set->house, set->asked_door) == 0) {
        return;
    }
    enum connection_room room = evict_find(set, set->asked_door, &found);
    if (room == ROOM_LATER) {
        loop_timer_set(set->again, loop_now_ms(set->loop));
    } else if (room == ROOM_NOW && house_take_ask(set->house, set->asked_door)) {
        cut(set, found);
    }
}

int connection_set_init(struct connection_set *set, struct loop *loop, struct house *house,
                        const struct connection_limits *limits, struct error *err)
{
    *set = (struct connection_set){
        .loop = loop,
        .time_ms = {[CLOCK_HEADER] = limits->header_time_ms,
                    [CLOCK_BUSY] = limits->idle_time_ms,
                    [CLOCK_IDLE] = limits->idle_time_ms},
        .house = house,
        .grace_ms = limits->grace_ms,
        .room = limits->room,
        .room_user = limits->room_user,
    };
    int failed = loop_timer_new(loop, ring, set, &set->timer, err);

    return failed != 0 ? failed : loop_timer_new(loop, help, set, &set->again, err);
}

void connection_set_done(struct connection_set *set)
{
    wait_no_more(set);
    loop_timer_free(set->timer);
    loop_timer_free(set->again);
    set->timer = set->again = NULL;
}

struct connection *connection_new(struct connection_set *set, int fd, enum connection_door door)
{
    struct connection *connection = calloc(1, sizeof *connection);

    if (connection != NULL) {
        connection->fd = fd;
        connection->door = door;
        set->count++;
        if (set->arriving[door] > 0) {
            set->arriving[door]--;
        } else {
            house_enter_anyway(set->house, door);
        }
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
    if (connection->phase != PHASE_CUT) {
        leave_place(set, connection);
    }
    free(connection->room);
    free(connection);
    tell_room(set);
}

static bool make_room_for(struct connection *connection, size_t bytes)
{
    if (bytes <= connection->room_bytes) {
        return true;
    }
    size_t wanted = bytes < TARGET_ROOM_FIRST ? TARGET_ROOM_FIRST : bytes;
    free(connection->room);
    connection->room = malloc(wanted);
    connection->room_bytes = connection->room != NULL ? wanted : 0;
    return connection->room != NULL;
}

void connection_set_target(struct connection *connection, struct span target)
{
    connection->target = NULL;
    if (target.at == NULL) {
        if (connection->room_bytes > TARGET_ROOM_KEPT) {
            free(connection->room);
            connection->room = NULL;
            connection->room_bytes = 0;
        }
        return;
    }
    if (make_room_for(connection, target.len + 1)) {
        span_copy(connection->room, target);
        connection->room[target.len] = '\0';
        connection->target = connection->room;
    }
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
    if (phase == PHASE_IDLE && set->is_closing) {
        cut(set, connection);
    }
}

enum connection_room connection_set_can_make_room(struct connection_set *set,
                                                  enum connection_door door)
{
    struct connection *found = NULL;

    return evict_find(set, door, &found);
}

enum connection_room connection_set_make_room(struct connection_set *set, enum connection_door door)
{
    struct connection *found = NULL;
    enum connection_room room = evict_find(set, door, &found);

    if (room == ROOM_NOW) {
        cut(set, found);
    }
    return room;
}

bool connection_set_take_place(struct connection_set *set, enum connection_door door)
{
    bool is_taken = house_enter(set->house, door);

    set->arriving[door] += is_taken;
    return is_taken;
}

void connection_set_take_any_place(struct connection_set *set, enum connection_door door)
{
    house_enter_anyway(set->house, door);
    set->arriving[door]++;
}

void connection_set_give_place(struct connection_set *set, enum connection_door door)
{
    set->arriving[door]--;
    house_leave(set->house, door);
    house_tell(set->house);
}

void connection_set_give_places(struct connection_set *set, enum connection_door door)
{
    while (set->arriving[door] > 0) {
        connection_set_give_place(set, door);
    }
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
    struct connection *next;

    for (int i = 0; i < DOOR_COUNT * CLOCK_NONE; i++) {
        struct connection_list *list = &set->lists[i / CLOCK_NONE][i % CLOCK_NONE];
        for (struct connection *each = list->first; each != NULL; each = next) {
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

void connection_set_note_full(struct connection_set *set, enum connection_door door)
{
    if (!set->is_full[door]) {
        set->is_full[door] = true;
        house_wait(set->house, door);
    }
    house_ask(set->house, door);
}

void connection_set_note_room(struct connection_set *set, enum connection_door door)
{
    if (set->is_full[door]) {
        set->is_full[door] = false;
        house_wait_no_more(set->house, door);
    }
    house_ask_no_more(set->house, door);
}

void connection_set_woken(struct connection_set *set, enum connection_door door)
{
    enum connection_door other = door == DOOR_API ? DOOR_GATEWAY : DOOR_API;
    uint32_t asked = house_asked(set->house, other);

    if (asked != 0 && asked != set->asks_seen) { /* woken also by each reply of the engine */
        set->asks_seen = asked;
        set->asked_door = other;
        help(set);
    }
    tell_room(set);
}

void connection_set_close_idle(struct connection_set *set)
{
    struct connection *next;

    set->is_closing = true;
    wait_no_more(set); /* the doors are shut */
    for (int door = 0; door < DOOR_COUNT; door++) {
        struct connection_list *list = &set->lists[door][CLOCK_IDLE];
        for (struct connection *each = list->first; each != NULL; each = next) {
            next = each->next;
            cut(set, each);
        }
    }
}
