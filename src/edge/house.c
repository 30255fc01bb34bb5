/* SPDX-License-Identifier: MIT
 *
 * house -- see house.h. What one loop reads of the others is never more than a reason to try: whether
 * there is a place is decided by house_enter alone, and a loop that was not told tries again after a
 * rest (LISTENER_REST_MS). So no order between the fields is needed.
 */
#include "edge/house.h"

#include <assert.h>

#define ONE_GUEST (UINT64_C(1) << 32)

static uint32_t kept_places(uint32_t room_max)
{
    uint32_t part = room_max / HOUSE_KEPT_PART;

    return part > HOUSE_KEPT_MAX ? HOUSE_KEPT_MAX : part > 0 ? part : room_max > 1;
}

void house_init(struct house *house, uint32_t room_max)
{
    house->room_max = room_max;
    house->guest_max = room_max - kept_places(room_max);
    house->loop_count = 0;
    atomic_init(&house->taken, 0);
    for (int door = 0; door < DOOR_COUNT; door++) {
        atomic_init(&house->full_count[door], 0);
        atomic_init(&house->is_asked[door], false);
        atomic_init(&house->ask_count[door], 0);
    }
}

void house_add_loop(struct house *house, struct loop_waker *waker, enum connection_door door)
{
    assert(house->loop_count < HOUSE_LOOPS_MAX);
    house->loops[house->loop_count++] = (struct house_loop){.waker = waker, .door = door};
}

static uint64_t place_of(enum connection_door door)
{
    return door == DOOR_GATEWAY ? ONE_GUEST + 1 : 1;
}

static bool has_place(const struct house *house, uint64_t taken, enum connection_door door)
{
    bool has_guest_place = (uint32_t)(taken >> 32) < house->guest_max;

    return (uint32_t)taken < house->room_max && (door != DOOR_GATEWAY || has_guest_place);
}

bool house_enter(struct house *house, enum connection_door door)
{
    uint_fast64_t taken = atomic_load(&house->taken);

    while (has_place(house, taken, door)) {
        if (atomic_compare_exchange_weak(&house->taken, &taken, taken + place_of(door))) {
            return true;
        }
    }
    return false;
}

void house_enter_anyway(struct house *house, enum connection_door door)
{
    atomic_fetch_add(&house->taken, place_of(door));
}

void house_leave(struct house *house, enum connection_door door)
{
    atomic_fetch_sub(&house->taken, place_of(door));
}

bool house_has_place(const struct house *house, enum connection_door door)
{
    return has_place(house, atomic_load(&house->taken), door);
}

bool house_is_full_of_guests(const struct house *house)
{
    return (uint32_t)(atomic_load(&house->taken) >> 32) >= house->guest_max;
}

static void wake(const struct house *house, enum connection_door door)
{
    for (uint32_t i = 0; i < house->loop_count; i++) {
        if (house->loops[i].door == door) {
            loop_wake(house->loops[i].waker);
        }
    }
}

void house_wait(struct house *house, enum connection_door door)
{
    atomic_fetch_add(&house->full_count[door], 1);
}

void house_wait_no_more(struct house *house, enum connection_door door)
{
    atomic_fetch_sub(&house->full_count[door], 1);
}

void house_tell(struct house *house)
{
    for (int door = 0; door < DOOR_COUNT; door++) {
        if (atomic_load(&house->full_count[door]) > 0 && house_has_place(house, door)) {
            wake(house, door);
        }
    }
}

/* With all places of the guests taken, none that the api's door leaves is one for them. */
static bool can_be_given(const struct house *house, enum connection_door door)
{
    return house->loop_count > 0 && (door != DOOR_GATEWAY || !house_is_full_of_guests(house));
}

void house_ask(struct house *house, enum connection_door door)
{
    if (!can_be_given(house, door)) {
        house_ask_no_more(house, door);
        return;
    }
    atomic_fetch_add(&house->ask_count[door], 1);
    atomic_store(&house->is_asked[door], true);
    wake(house, door == DOOR_API ? DOOR_GATEWAY : DOOR_API);
}

void house_ask_no_more(struct house *house, enum connection_door door)
{
    if (atomic_load(&house->is_asked[door])) { /* each accept comes by here */
        atomic_store(&house->is_asked[door], false);
    }
}

uint32_t house_asked(const struct house *house, enum connection_door door)
{
    bool is_asked = atomic_load(&house->is_asked[door]) && !house_has_place(house, door);

    return is_asked ? atomic_load(&house->ask_count[door]) : 0;
}

bool house_take_ask(struct house *house, enum connection_door door)
{
    return atomic_exchange(&house->is_asked[door], false);
}
