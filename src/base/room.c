/* SPDX-License-Identifier: MIT
 *
 * room -- see room.h.
 */
#include "base/room.h"

void room_init(struct room *room, size_t bytes_max)
{
    *room = (struct room){.bytes_max = bytes_max};
}

static size_t counted(size_t bytes)
{
    return bytes > ROOM_SMALL_BYTES ? bytes - ROOM_SMALL_BYTES : 0;
}

static bool take(struct room *room, size_t more, size_t bytes_max)
{
    if (more == 0 ||
        atomic_fetch_add_explicit(&room->bytes, more, memory_order_relaxed) + more <= bytes_max) {
        return true;
    }
    atomic_fetch_sub_explicit(&room->bytes, more, memory_order_relaxed);
    return false;
}

bool room_take(struct room *room, size_t before, size_t after)
{
    return room == NULL || take(room, counted(after) - counted(before), room->bytes_max);
}

bool room_take_spare(struct room *room, size_t before, size_t after, size_t largest)
{
    if (room == NULL) {
        return true;
    }
    size_t bytes_max = room->bytes_max - room->bytes_max / 4;
    bytes_max = bytes_max > largest ? bytes_max : largest;
    bytes_max = bytes_max < room->bytes_max ? bytes_max : room->bytes_max;
    return take(room, counted(after) - counted(before), bytes_max);
}

void room_give(struct room *room, size_t bytes)
{
    if (room != NULL && counted(bytes) > 0) {
        atomic_fetch_sub_explicit(&room->bytes, counted(bytes), memory_order_relaxed);
    }
}
