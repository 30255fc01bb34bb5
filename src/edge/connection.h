/* SPDX-License-Identifier: MIT
 *
 * connection -- one TCP connection and how long it may take over what it is doing. Shared inside
 * edge/ only. libmicrohttpd's own time-out counts from the last byte, so that a byte a second lives
 * for ever; here each phase has an end.
 *
 *   HEADER --first call--> BODY --whole--> ENGINE --answered--> ANSWER --sent--> IDLE --+
 *   header_time            progress        for ever             progress         idle_time
 *                            ^------------------- next request -------------------------'
 *
 * Progress: EDGE_PROGRESS_BYTES in each idle_time, or the end; of an answer, as the other side has
 * acknowledged them. What does not keep to it is cut: shutdown(), and libmicrohttpd finds it closed; what
 * the kernel still holds for it is thrown away. When the house is full, one is cut to make room (evict.h):
 * the connection that has had nothing to do for the longest time, and at least for the grace; with none
 * such, one whose body comes slower than progress asks for or is only dropped, as it is refused, or that
 * does not take what was sent. And a caller that no token makes known gets one answer (respond.c).
 */
#ifndef EDGE_CONNECTION_H
#define EDGE_CONNECTION_H

#include "edge/house.h"

#include "base/span.h"
#include "loop/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exchange;
struct listener;

enum connection_phase {
    PHASE_HEADER = 0,
    PHASE_BODY,
    PHASE_ENGINE,
    PHASE_ANSWER,
    PHASE_IDLE,
    PHASE_CUT,
};

/* Those that are looked at after the same time, in order. */
enum connection_clock { CLOCK_HEADER = 0, CLOCK_BUSY, CLOCK_IDLE, CLOCK_NONE, CLOCK_COUNT };

#define CONNECTION_PEER_MAX 48 /* the text of an IPv6 address */

struct connection {
    struct listener *listener;
    struct exchange *exchange; /* the request that is under way, or NULL */
    void *mhd;                 /* libmicrohttpd's own */
    char *target;              /* of the request, as it came, in `room`; or NULL */
    char *room;                /* malloced, kept for the next one unless it is large; or NULL */
    size_t room_bytes;
    int fd;
    bool target_is_long;
    bool has_peer;
    char peer[CONNECTION_PEER_MAX]; /* its address, once it was asked for; empty: not known */
    enum connection_phase phase;
    enum connection_clock clock;
    int64_t check_at_ms;
    uint64_t seen; /* bytes that were there at the last look: BODY, of it; ANSWER, acknowledged */
    bool is_long;  /* ANSWER: of more than the progress of one look */
    enum connection_door door; /* that it has come by */
    int unread; /* bytes of input when it was last looked for stuck ones, + 1; 0: no input then */
    struct connection *next, *previous;
};

/* There is room again at that door. */
typedef void (*connection_room_fn)(void *user, enum connection_door door);

struct connection_list {
    struct connection *first, *last;
};

/* Whether one can be cut for another: ROOM_LATER when not all were looked at yet, and to be asked again in
 * the next turn. */
enum connection_room { ROOM_NONE = 0, ROOM_LATER, ROOM_NOW };

enum connection_look_kind { LOOK_IDLE = 0, LOOK_SLOW, LOOK_COUNT };

/* How far the lists were gone through for one that can be cut: evict.h. Zeroed: not begun. */
struct connection_look {
    struct connection *at[DOOR_COUNT][CLOCK_NONE]; /* the next of each; NULL: no more */
    int64_t ends_at_ms;                            /* then it begins anew */
    bool is_long;                                  /* one look was not enough */
};

struct connection_set {
    struct loop *loop;
    struct loop_timer *timer;
    struct loop_timer *again;        /* the look for another loop goes on in the next turn */
    enum connection_door asked_door; /* that it is for */
    int64_t rings_at_ms;             /* 0: not set */
    int64_t time_ms[CLOCK_COUNT];
    struct connection_list lists[DOOR_COUNT][CLOCK_COUNT];
    struct connection_look looks[DOOR_COUNT][LOOK_COUNT]; /* for a caller at that door */
    uint32_t count;      /* open, those that are cut but not yet gone included */
    struct house *house; /* where each of the others has a place */
    uint32_t
        arriving[DOOR_COUNT]; /* places that were taken for connections which are still to come */
    int64_t grace_ms;   /* that everybody has between two requests, also when the house is full */
    uint64_t cut_count; /* ever */
    connection_room_fn room; /* told when there is room, after there was none */
    void *room_user;
    bool is_full[DOOR_COUNT]; /* a caller waits outside, as the last look at that door found */
    uint32_t asks_seen;       /* of the other door: the last that this set has looked for */
    bool is_closing;          /* IDLE ends at once */
};

struct connection_limits {
    int64_t header_time_ms, idle_time_ms, grace_ms;
    connection_room_fn room; /* see struct connection_set */
    void *room_user;
};

/* `limits->room` is called with `room_user` in the loop's thread. The house outlives the set. */
int connection_set_init(struct connection_set *set, struct loop *loop, struct house *house,
                        const struct connection_limits *limits, struct error *err)
    __attribute__((warn_unused_result));
void connection_set_done(struct connection_set *set); /* every connection is gone */

/* In a place that was taken for it, or one more. NULL: out of memory. */
struct connection *connection_new(struct connection_set *set, int fd, enum connection_door door);
void connection_free(struct connection_set *set, struct connection *connection);

/* The target of a request has come, or with at NULL is of no use any more. Without memory for it there
 * is none. */
void connection_set_target(struct connection *connection, struct span target);

/* `bytes`: of the answer. */
void connection_enter(struct connection_set *set, struct connection *connection,
                      enum connection_phase phase, uint64_t bytes);

/* A place for a connection that is about to come by that door; false: there is none. */
bool connection_set_take_place(struct connection_set *set, enum connection_door door);
/* Likewise, with one to be cut for it at once. */
void connection_set_take_any_place(struct connection_set *set, enum connection_door door);
/* One that was taken is not needed after all. */
void connection_set_give_place(struct connection_set *set, enum connection_door door);
/* None of those that were taken is waited for any more. */
void connection_set_give_places(struct connection_set *set, enum connection_door door);
/* A caller was turned away at that door: `room` is to be called when there is some. */
void connection_set_note_full(struct connection_set *set, enum connection_door door);
/* None has to wait at that door: there was a place, or one was made, or no caller is there. */
void connection_set_note_room(struct connection_set *set, enum connection_door door);
/* Another loop has left a place, or wants one for the other door than `door`, which is this loop's. */
void connection_set_woken(struct connection_set *set, enum connection_door door);
/* Whether one can be cut to let another in by that door. */
enum connection_room connection_set_can_make_room(struct connection_set *set,
                                                  enum connection_door door);
/* Cuts it, at ROOM_NOW. */
enum connection_room connection_set_make_room(struct connection_set *set,
                                              enum connection_door door);

/* Does the kernel hold what the other side has not taken? */
bool connection_has_unsent(const struct connection *connection);

/* Cuts those that have input which is not read: the same bytes as when this was last called. */
void connection_set_cut_stuck(struct connection_set *set);

/* From now on a connection that has nothing to do is cut. */
void connection_set_close_idle(struct connection_set *set);

#endif
