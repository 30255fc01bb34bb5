/* SPDX-License-Identifier: MIT
 *
 * Which connection makes room when all places are taken: on a set without a server, in which many
 * connections share three sockets, one with input, one with output that is not taken, one with neither.
 */
#include "edge/evict.h"
#include "edge/exchange.h"
#include "harness.h"

#include <sys/socket.h>
#include <unistd.h>

#define MANY   200
#define ROUNDS 3000
#define TURNS  (MANY / EVICT_LOOKED_AT_MAX + 2)

enum state { SILENT = 0, SPOKEN, UNSENT, STATE_COUNT };

struct rooms {
    struct loop *loop;
    struct house house;
    struct connection_set set;
    int ends[STATE_COUNT][2];
    struct connection *all[MANY];
    uint32_t chance;
    int turns;
};

static void told(void *user, enum connection_door door)
{
    (void)user;
    (void)door;
}

static void rooms_open(struct rooms *rooms)
{
    const struct connection_limits limits = {
        .header_time_ms = 60000, .idle_time_ms = 60000, .room = told};

    *rooms = (struct rooms){.chance = 1};
    assert_int_equal(loop_new(&rooms->loop, NULL), 0);
    house_init(&rooms->house, MANY);
    assert_int_equal(connection_set_init(&rooms->set, rooms->loop, &rooms->house, &limits, NULL),
                     0);
    for (int i = 0; i < STATE_COUNT; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, rooms->ends[i]), 0);
    }
    assert_int_equal(write(rooms->ends[SPOKEN][1], "x", 1), 1);
    assert_int_equal(write(rooms->ends[UNSENT][0], "x", 1), 1);
}

static void rooms_close(struct rooms *rooms)
{
    for (int i = 0; i < MANY; i++) {
        connection_free(&rooms->set, rooms->all[i]);
    }
    connection_set_done(&rooms->set);
    for (int i = 0; i < STATE_COUNT; i++) {
        (void)close(rooms->ends[i][0]);
        (void)close(rooms->ends[i][1]);
    }
    loop_free(rooms->loop);
}

static struct connection *come(struct rooms *rooms, int i, enum state state,
                               enum connection_door door)
{
    rooms->all[i] = connection_new(&rooms->set, rooms->ends[state][0], door);
    assert_non_null(rooms->all[i]);
    return rooms->all[i];
}

static void leave(struct rooms *rooms, int i)
{
    connection_free(&rooms->set, rooms->all[i]);
    rooms->all[i] = NULL;
}

/* All looks that it takes; how many there were. */
static enum connection_room find(struct rooms *rooms, enum connection_door door,
                                 struct connection **ret_found, int *ret_looks)
{
    enum connection_room room = ROOM_LATER;

    for (*ret_looks = 0; room == ROOM_LATER; ++*ret_looks) {
        assert_in_range(*ret_looks, 0, 2 * MANY / EVICT_LOOKED_AT_MAX + 2);
        room = evict_find(&rooms->set, door, ret_found);
    }
    return room;
}

static void those_that_cannot_go_do_not_hide_one_that_can(void **state)
{
    struct connection *found = NULL;
    struct rooms rooms;
    int looks;

    (void)state;
    rooms_open(&rooms);
    for (int i = 0; i < MANY - 2; i++) {
        come(&rooms, i, SPOKEN, DOOR_API);
    }
    come(&rooms, MANY - 2, SILENT, DOOR_API);
    come(&rooms, MANY - 1, SILENT, DOOR_API);
    assert_int_equal(find(&rooms, DOOR_API, &found, &looks), ROOM_NOW);
    assert_ptr_equal(found, rooms.all[MANY - 2]);
    assert_int_equal(looks, (MANY - 2) / EVICT_LOOKED_AT_MAX + 1);
    /* The next one is found at once. */
    assert_int_equal(connection_set_make_room(&rooms.set, DOOR_API), ROOM_NOW);
    assert_int_equal(rooms.all[MANY - 2]->phase, PHASE_CUT);
    assert_int_equal(connection_set_make_room(&rooms.set, DOOR_API), ROOM_NOW);
    assert_int_equal(rooms.all[MANY - 1]->phase, PHASE_CUT);
    rooms_close(&rooms);
}

static void many_that_cannot_go_are_not_looked_at_again_at_once(void **state)
{
    struct connection *found = NULL;
    struct rooms rooms;
    int looks;

    (void)state;
    rooms_open(&rooms);
    for (int i = 0; i < MANY; i++) {
        come(&rooms, i, SPOKEN, DOOR_API);
    }
    assert_int_equal(find(&rooms, DOOR_API, &found, &looks), ROOM_NONE);
    assert_in_range(looks, MANY / EVICT_LOOKED_AT_MAX, 2 * MANY / EVICT_LOOKED_AT_MAX + 1);
    rooms.all[0]->fd = rooms.ends[SILENT][0];
    assert_int_equal(evict_find(&rooms.set, DOOR_API, &found), ROOM_NONE);
    for (int i = 0; i < LOOK_COUNT; i++) { /* its time is over */
        rooms.set.looks[DOOR_API][i].ends_at_ms = 0;
    }
    assert_int_equal(evict_find(&rooms.set, DOOR_API, &found), ROOM_NOW);
    assert_ptr_equal(found, rooms.all[0]);
    rooms_close(&rooms);
}

static void a_few_that_cannot_go_are_looked_at_each_time(void **state)
{
    struct connection *found = NULL;
    struct rooms rooms;

    (void)state;
    rooms_open(&rooms);
    for (int i = 0; i < EVICT_LOOKED_AT_MAX - 1; i++) {
        come(&rooms, i, SPOKEN, DOOR_API);
    }
    assert_int_equal(evict_find(&rooms.set, DOOR_API, &found), ROOM_NONE);
    rooms.all[0]->fd = rooms.ends[SILENT][0];
    assert_int_equal(evict_find(&rooms.set, DOOR_API, &found), ROOM_NOW);
    assert_ptr_equal(found, rooms.all[0]);
    rooms_close(&rooms);
}

static void the_longest_idle_goes_first_and_slow_ones_after_idle_ones(void **state)
{
    static const int order[] = {3, 1, 2, 0}; /* the last one is slow, though the oldest */
    struct rooms rooms;

    (void)state;
    rooms_open(&rooms);
    connection_enter(&rooms.set, come(&rooms, 0, UNSENT, DOOR_API), PHASE_IDLE, 0);
    connection_enter(&rooms.set, come(&rooms, 1, SILENT, DOOR_GATEWAY), PHASE_IDLE, 0);
    connection_enter(&rooms.set, come(&rooms, 2, SILENT, DOOR_API), PHASE_IDLE, 0);
    come(&rooms, 3, SILENT, DOOR_API); /* still at its headers */
    rooms.all[0]->check_at_ms -= 40;
    rooms.all[3]->check_at_ms -= 30;
    rooms.all[1]->check_at_ms -= 20;
    rooms.all[2]->check_at_ms -= 10;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        assert_int_equal(connection_set_make_room(&rooms.set, DOOR_API), ROOM_NOW);
        assert_int_equal(rooms.all[order[i]]->phase, PHASE_CUT);
    }
    assert_int_equal(connection_set_make_room(&rooms.set, DOOR_API), ROOM_NONE);
    rooms_close(&rooms);
}

static void a_handshake_that_is_not_taken_makes_room(void **state)
{
    struct connection *found = NULL;
    struct rooms rooms;

    (void)state;
    rooms_open(&rooms);
    come(&rooms, 0, SPOKEN, DOOR_API);
    come(&rooms, 1, UNSENT, DOOR_API);
    assert_int_equal(evict_find(&rooms.set, DOOR_API, &found), ROOM_NOW);
    assert_ptr_equal(found, rooms.all[1]);
    rooms_close(&rooms);
}

/* However fast the rest of it comes: its caller has nothing to wait for but a refusal. */
static void a_body_that_is_only_dropped_makes_room(void **state)
{
    struct exchange taken = {.received = 1u << 20}, dropped = {.received = 1u << 20};
    struct connection *found = NULL;
    struct rooms rooms;

    (void)state;
    rooms_open(&rooms);
    come(&rooms, 0, SPOKEN, DOOR_API)->exchange = &taken;
    come(&rooms, 1, SPOKEN, DOOR_API)->exchange = &dropped;
    connection_enter(&rooms.set, rooms.all[0], PHASE_BODY, 0);
    connection_enter(&rooms.set, rooms.all[1], PHASE_BODY, 0);
    assert_int_equal(evict_find(&rooms.set, DOOR_API, &found), ROOM_NONE);
    dropped.step = EXCHANGE_ANSWERED;
    assert_int_equal(evict_find(&rooms.set, DOOR_API, &found), ROOM_NOW);
    assert_ptr_equal(found, rooms.all[1]);
    rooms_close(&rooms);
}

static void a_short_answer_that_is_not_taken_makes_room(void **state)
{
    struct exchange whole = {.step = EXCHANGE_SENT}, handed_on = {.step = EXCHANGE_SENT};
    struct connection *found = NULL;
    struct rooms rooms;

    (void)state;
    handed_on.response.stream.is_on = true;
    rooms_open(&rooms);
    come(&rooms, 0, UNSENT, DOOR_API)->exchange = &handed_on;
    come(&rooms, 1, UNSENT, DOOR_API)->exchange = &whole; /* a long one */
    come(&rooms, 2, SILENT, DOOR_API)->exchange = &whole; /* is taken, and ends in a moment */
    connection_enter(&rooms.set, rooms.all[0], PHASE_ANSWER, 0);
    connection_enter(&rooms.set, rooms.all[1], PHASE_ANSWER, 1u << 20);
    connection_enter(&rooms.set, rooms.all[2], PHASE_ANSWER, 0);
    assert_int_equal(evict_find(&rooms.set, DOOR_API, &found), ROOM_NONE);
    come(&rooms, 3, UNSENT, DOOR_API)->exchange = &whole;
    connection_enter(&rooms.set, rooms.all[3], PHASE_ANSWER, 0);
    assert_int_equal(evict_find(&rooms.set, DOOR_API, &found), ROOM_NOW);
    assert_ptr_equal(found, rooms.all[3]);
    rooms_close(&rooms);
}

static void with_all_their_places_taken_guests_make_room_for_guests(void **state)
{
    struct connection *found = NULL;
    struct rooms rooms;

    (void)state;
    rooms_open(&rooms);
    house_init(&rooms.house, 2); /* one of them for guests */
    come(&rooms, 0, SILENT, DOOR_API)->check_at_ms -= 10;
    come(&rooms, 1, SILENT, DOOR_GATEWAY);
    assert_int_equal(evict_find(&rooms.set, DOOR_GATEWAY, &found), ROOM_NOW);
    assert_ptr_equal(found, rooms.all[1]);
    assert_int_equal(evict_find(&rooms.set, DOOR_API, &found), ROOM_NOW);
    assert_ptr_equal(found, rooms.all[0]);
    rooms_close(&rooms);
}

/* --- for a caller of another loop ------------------------------------------------------------------ */

static void nothing(void *user)
{
    (void)user;
}

/* The loop does not wait meanwhile. */
static void count_turn(void *user)
{
    struct rooms *rooms = user;

    if (++rooms->turns == TURNS) {
        loop_stop(rooms->loop);
    }
}

static void the_look_for_another_loop_goes_on_by_itself(void **state)
{
    struct loop_waker *waker = NULL;
    struct loop_hook *hook = NULL;
    struct rooms rooms;

    (void)state;
    rooms_open(&rooms);
    assert_int_equal(loop_waker_new(rooms.loop, nothing, NULL, &waker, NULL), 0);
    assert_int_equal(loop_hook_new(rooms.loop, LOOP_HOOK_IDLE, count_turn, &rooms, &hook, NULL), 0);
    loop_hook_on(hook);
    house_add_loop(&rooms.house, waker, DOOR_API); /* the one that asks */
    for (int i = 0; i < MANY; i++) {
        come(&rooms, i, i < MANY - 2 ? SPOKEN : SILENT, DOOR_GATEWAY);
    }
    house_ask(&rooms.house, DOOR_API);
    connection_set_woken(&rooms.set, DOOR_GATEWAY);
    assert_int_not_equal(rooms.all[MANY - 2]->phase, PHASE_CUT);
    loop_run(rooms.loop);
    assert_int_equal(rooms.all[MANY - 2]->phase, PHASE_CUT);
    assert_int_not_equal(rooms.all[MANY - 1]->phase, PHASE_CUT); /* one for one ask */
    assert_int_equal(house_asked(&rooms.house, DOOR_API), 0);
    loop_hook_free(hook);
    loop_waker_free(waker);
    rooms_close(&rooms);
}

/* --- at random ------------------------------------------------------------------------------------- */

static uint32_t draw(struct rooms *rooms, uint32_t below)
{
    rooms->chance = rooms->chance * 1664525 + 1013904223;
    return (rooms->chance >> 8) % below;
}

static void disturb(struct rooms *rooms)
{
    static const enum connection_phase phases[] = {PHASE_BODY, PHASE_ENGINE, PHASE_ANSWER,
                                                   PHASE_IDLE};
    int i = (int)draw(rooms, MANY);

    if (rooms->all[i] == NULL) { /* most of them cannot go */
        enum state state = draw(rooms, 40) == 0 ? (enum state)draw(rooms, STATE_COUNT) : SPOKEN;
        come(rooms, i, state, draw(rooms, 2) == 0 ? DOOR_API : DOOR_GATEWAY);
    } else if (draw(rooms, 3) == 0) {
        leave(rooms, i);
    } else {
        connection_enter(&rooms->set, rooms->all[i], phases[draw(rooms, 4)], 0);
    }
}

static bool can_go(const struct rooms *rooms, const struct connection *connection)
{
    bool waits = connection->phase == PHASE_HEADER || connection->phase == PHASE_IDLE;

    return waits && connection->fd != rooms->ends[SPOKEN][0];
}

static bool has_one_that_can_go(const struct rooms *rooms)
{
    for (int i = 0; i < MANY; i++) {
        if (rooms->all[i] != NULL && can_go(rooms, rooms->all[i])) {
            return true;
        }
    }
    return false;
}

static void connections_may_come_and_leave_while_they_are_looked_at(void **state)
{
    struct connection *found = NULL;
    struct rooms rooms;
    int looks, hits = 0;

    (void)state;
    rooms_open(&rooms);
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = draw(&rooms, 20); i > 0; i--) {
            disturb(&rooms);
        }
        if (evict_find(&rooms.set, draw(&rooms, 2), &found) == ROOM_NOW) {
            assert_true(can_go(&rooms, found));
        }
        if (draw(&rooms, 4) == 0) { /* a whole round misses none */
            rooms.set.looks[DOOR_API][LOOK_IDLE].ends_at_ms = 0;
            rooms.set.looks[DOOR_API][LOOK_SLOW].ends_at_ms = 0;
            bool is_there = find(&rooms, DOOR_API, &found, &looks) == ROOM_NOW;
            assert_int_equal(is_there, has_one_that_can_go(&rooms));
            hits += is_there;
            (void)connection_set_make_room(&rooms.set, DOOR_API);
        }
    }
    assert_in_range(hits, 10, ROUNDS / 4 - 10);
    rooms_close(&rooms);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_cannot_go_do_not_hide_one_that_can),
        cmocka_unit_test(many_that_cannot_go_are_not_looked_at_again_at_once),
        cmocka_unit_test(a_few_that_cannot_go_are_looked_at_each_time),
        cmocka_unit_test(the_longest_idle_goes_first_and_slow_ones_after_idle_ones),
        cmocka_unit_test(a_handshake_that_is_not_taken_makes_room),
        cmocka_unit_test(a_body_that_is_only_dropped_makes_room),
        cmocka_unit_test(a_short_answer_that_is_not_taken_makes_room),
        cmocka_unit_test(with_all_their_places_taken_guests_make_room_for_guests),
        cmocka_unit_test(the_look_for_another_loop_goes_on_by_itself),
        cmocka_unit_test(connections_may_come_and_leave_while_they_are_looked_at),
    };
    return HARNESS_RUN(argc, argv, tests);
}
