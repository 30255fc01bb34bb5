/* SPDX-License-Identifier: MIT
 *
 * room -- memory for bodies that several parts of the program share, counted up to a limit. Small
 * bodies are not counted: something else bounds their number, and they must get through while others
 * hold the room. Any thread.
 */
#ifndef BASE_ROOM_H
#define BASE_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define ROOM_SMALL_BYTES 16384 /* of each body is not counted */

struct room {
    atomic_size_t bytes;
    size_t bytes_max;
};

void room_init(struct room *room, size_t bytes_max);

/* For a body that has grown from `before` to `after` bytes; false: there is none. NULL: always. */
bool room_take(struct room *room, size_t before, size_t after);
/* The same for what can do without: it leaves a quarter of the room to others, but for one body of up to
 * `largest` bytes, for which there is always room where there is nothing else. */
bool room_take_spare(struct room *room, size_t before, size_t after, size_t largest);
void room_give(struct room *room, size_t bytes); /* of a whole body; NULL is fine */

#endif
