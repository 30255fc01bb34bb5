/* SPDX-License-Identifier: MIT
 *
 * house -- the places for connections (limits.connections), of both doors and of all loops together.
 * Shared inside edge/ only; all functions but house_init and house_add_loop may be called from any thread.
 *
 * A place is taken before a connection is accepted, and left when it is cut or gone. Both counts are one
 * atomic word, so that no two loops can take the last place. Some places are kept for the api's door: the
 * gateway's callers, "guests", cannot take those from the health checks.
 *
 * A loop can cut only connections of its own. One that finds the house full, and can send away none of
 * its own, has the loops of the other door asked; those of its own door have the same socket before them.
 *
 *   loop A: full --> house_ask(door) --wakes--> loop B: house_take_ask --> cuts one, leaves its place
 *   loop A: accepts <--wakes-- house_tell <---------------------------------------'
 *
 * An ask is as old as the last look at the door: loop A looks again after each rest, and asks again or
 * takes it back (house_ask_no_more). So nothing is cut for a caller that got in otherwise or has left.
 */
#ifndef EDGE_HOUSE_H
#define EDGE_HOUSE_H

#include "loop/loop.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HOUSE_LOOPS_MAX 64
#define HOUSE_KEPT_PART 8  /* of all places, for the api's door, */
#define HOUSE_KEPT_MAX  64 /* but not more */

/* The two doors of the house. */
enum connection_door { DOOR_API = 0, DOOR_GATEWAY, DOOR_COUNT };

struct house {
    uint32_t room_max;
    uint32_t guest_max;                 /* of them by the gateway's door */
    atomic_uint_fast64_t taken;         /* the lower half: all; the upper half: of them by guests */
    atomic_uint full_count[DOOR_COUNT]; /* loops that have a caller waiting there, to be told */
    atomic_bool is_asked[DOOR_COUNT];   /* a loop needs a place for that door */
    atomic_uint ask_count[DOOR_COUNT];  /* ever: each loop looks once for each of them */
    struct house_loop {
        struct loop_waker *waker;
        enum connection_door door;
    } loops[HOUSE_LOOPS_MAX]; /* of several threads; else there are none */
    uint32_t loop_count;
};

void house_init(struct house *house, uint32_t room_max);
/* One with that door alone, before any thread is started. The waker outlives all connections of all loops. */
void house_add_loop(struct house *house, struct loop_waker *waker, enum connection_door door);

bool house_enter(struct house *house, enum connection_door door); /* false: there is no place */
void house_enter_anyway(struct house *house, enum connection_door door); /* one is left at once */
void house_leave(struct house *house, enum connection_door door);
bool house_has_place(const struct house *house, enum connection_door door); /* at this moment */
bool house_is_full_of_guests(const struct house *house);

/* A loop waits for a place at that door, or not any more. */
void house_wait(struct house *house, enum connection_door door);
void house_wait_no_more(struct house *house, enum connection_door door);
/* A place was left: wakes the loops of the doors that it is one for, if any of them waits. */
void house_tell(struct house *house);

/* A place is wanted for that door: wakes the loops of the other one, if that could give it. */
void house_ask(struct house *house, enum connection_door door);
/* It is not: the last look at the door found a place, or no caller. */
void house_ask_no_more(struct house *house, enum connection_door door);
/* Which ask it is, while one is wanted and there is none yet; else 0. */
uint32_t house_asked(const struct house *house, enum connection_door door);
bool house_take_ask(struct house *house, enum connection_door door); /* false: another loop has */

#endif
