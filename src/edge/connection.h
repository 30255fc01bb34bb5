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
 * the kernel still holds for it is thrown away. When the house is full, the connection that has had
 * nothing to do for the longest time, and at least for the grace, is cut to make room; so is one whose
 * body comes slower than progress asks for.
 */
#ifndef EDGE_CONNECTION_H
#define EDGE_CONNECTION_H

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
    char *target;              /* of the request, as it came; malloced, or NULL */
    int fd;
    bool target_is_long;
    bool has_peer;
    char peer[CONNECTION_PEER_MAX]; /* its address, once it was asked for; empty: not known */
    enum connection_phase phase;
    enum connection_clock clock;
    int64_t check_at_ms;
    uint64_t seen; /* bytes that were there at the last look: BODY, of it; ANSWER, acknowledged */
    bool is_long;  /* ANSWER: of more than the progress of one look */
    bool is_guest; /* has come by the gateway's door */
    int unread; /* bytes of input when it was last looked for stuck ones, + 1; 0: no input then */
    struct connection *next, *previous;
};

struct connection_list {
    struct connection *first, *last;
};

struct connection_set {
    struct loop *loop;
    struct loop_timer *timer;
    int64_t rings_at_ms; /* 0: not set */
    int64_t time_ms[CLOCK_COUNT];
    struct connection_list lists[CLOCK_COUNT];
    uint32_t count;       /* open, those that are cut but not yet gone included */
    uint32_t going_count; /* these */
    uint32_t room_max;    /* the others */
    uint32_t guest_count; /* of them by the gateway's door */
    uint32_t guest_max;   /* less than room_max: the api and its health checks find a place */
    int64_t grace_ms;     /* that everybody has between two requests, also when the house is full */
    uint64_t cut_count;   /* ever */
    loop_fn room;         /* told when there is room, after there was none */
    void *room_user;
    bool is_full;    /* somebody was turned away */
    bool is_closing; /* IDLE ends at once */
};

struct connection_limits {
    uint32_t room_max;
    uint32_t
        guest_max; /* of them by the gateway's door; 0: all but some that are kept for the api */
    int64_t header_time_ms, idle_time_ms, grace_ms;
};

/* `room` is called with `user` in the loop's thread. */
int connection_set_init(struct connection_set *set, struct loop *loop,
                        const struct connection_limits *limits, loop_fn room, void *user,
                        struct error *err) __attribute__((warn_unused_result));
void connection_set_done(struct connection_set *set); /* every connection is gone */

/* The two doors of the house. */
enum connection_door { DOOR_API = 0, DOOR_GATEWAY };

/* NULL: out of memory. */
struct connection *connection_new(struct connection_set *set, int fd, enum connection_door door);
void connection_free(struct connection_set *set, struct connection *connection);

/* `bytes`: of the answer. */
void connection_enter(struct connection_set *set, struct connection *connection,
                      enum connection_phase phase, uint64_t bytes);

bool connection_set_has_room(const struct connection_set *set, enum connection_door door);
/* Somebody was turned away: `room` is to be called when there is some. */
void connection_set_note_full(struct connection_set *set);
/* Whether one can be cut to let another in by that door. */
bool connection_set_can_make_room(const struct connection_set *set, enum connection_door door);
/* Cuts it; false: there is none. */
bool connection_set_make_room(struct connection_set *set, enum connection_door door);

/* Cuts those that have input which is not read: the same bytes as when this was last called. */
void connection_set_cut_stuck(struct connection_set *set);

/* From now on a connection that has nothing to do is cut. */
void connection_set_close_idle(struct connection_set *set);

#endif
