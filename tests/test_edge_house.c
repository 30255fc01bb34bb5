/* SPDX-License-Identifier: MIT
 *
 * The places for connections, with one loop and with several: limits.connections is the number for both
 * doors together, and some of them are the api's (this runs under TSan).
 */
#include "edge/house.h"
#include "edge_world.h"

#include <pthread.h>
#include <string.h>

#define CALLERS 24
#define PLACES  16
#define KEPT    2 /* of them, for the api */
#define THREADS 3

static uint32_t connections(const struct world *world)
{
    struct edge_stats stats;

    edges_stats(world->edges, &stats);
    return stats.connections;
}

static bool are_all_taken(void *user)
{
    return connections(user) >= PLACES;
}

static bool are_guests_in(void *user)
{
    return connections(user) >= PLACES - KEPT;
}

static bool are_four(void *user)
{
    return connections(user) == 4;
}

/* Those that were cut are gone. */
static bool are_four_at_most(void *user)
{
    return connections(user) <= 4;
}

/* Both doors, and how long a connection without work is left alone. */
static uint16_t open_doors(struct world *world, uint32_t threads, uint32_t places, int64_t grace_ms)
{
    world_open_threads(
        world,
        &(struct edge_options){.gateway_host = SPAN("127.0.0.1"),
                               .limits = {.connections_max = places, .grace_ms = grace_ms}},
        threads);
    return edges_gateway_port(world->edges);
}

static void open_at(struct client *client, struct world *world, uint16_t port)
{
    uint16_t api = world->port;

    world->port = port;
    client_open(client, world);
    world->port = api;
}

static int status_of(struct client *client, const char *target)
{
    struct answer_view answer;

    client_request(client, "GET", target, "");
    client_await(client, &answer);
    return answer.status;
}

static void check_the_limit(uint32_t threads)
{
    struct client guests[CALLERS], callers[CALLERS];
    struct world world;
    uint16_t gateway = open_doors(&world, threads, PLACES, 60000);

    for (int i = 0; i < CALLERS; i++) {
        open_at(&guests[i], &world, gateway);
    }
    world_run_threads(&world, are_guests_in);
    for (int i = 0; i < KEPT; i++) {
        client_open(&callers[i], &world);
        assert_int_equal(status_of(&callers[i], "/healthz"), 200);
    }
    for (int i = KEPT; i < CALLERS; i++) {
        client_open(&callers[i], &world);
        client_request(&callers[i], "GET", "/healthz", "");
    }
    world_run_threads(&world, are_all_taken);
    for (int i = 0; i < 20; i++) { /* turns that let in no other */
        assert_int_equal(status_of(&callers[i % KEPT], "/healthz"), 200);
    }
    assert_int_equal(connections(&world), PLACES);
    for (int i = 0; i < CALLERS; i++) {
        client_close(&guests[i]);
        client_close(&callers[i]);
    }
    world_close(&world);
}

static void the_limit_is_for_both_doors_of_one_loop(void **state)
{
    (void)state;
    check_the_limit(1);
}

static void the_limit_is_for_both_doors_of_several_loops(void **state)
{
    (void)state;
    check_the_limit(2);
    check_the_limit(THREADS);
}

static void an_idle_connection_of_the_api_makes_room_at_the_gateway(void **state)
{
    struct client callers[4], guest;
    struct world world;

    (void)state;
    uint16_t gateway = open_doors(&world, THREADS, 4, 1);
    for (int i = 0; i < 4; i++) {
        client_open(&callers[i], &world);
        assert_int_equal(status_of(&callers[i], "/healthz"), 200);
    }
    open_at(&guest, &world, gateway);
    assert_int_equal(status_of(&guest, "/nothing"), 404);
    world_run_threads(&world, are_four_at_most);
    client_close(&guest);
    for (int i = 0; i < 4; i++) {
        client_close(&callers[i]);
    }
    world_close(&world);
}

static void an_idle_guest_makes_room_at_the_api(void **state)
{
    struct client waiting, caller, guests[3];
    struct world world;

    (void)state;
    uint16_t gateway = open_doors(&world, THREADS, 4, 1);
    client_open(&waiting, &world);
    client_request(&waiting, "GET", "/v1/tasks/" WORLD_TASK_ID "?wait_ms=60000", "");
    world_run_calls(&world, 1);
    for (int i = 0; i < 3; i++) {
        open_at(&guests[i], &world, gateway);
        assert_int_equal(status_of(&guests[i], "/nothing"), 404);
    }
    world_run_threads(&world, are_four);
    client_open(&caller, &world);
    assert_int_equal(status_of(&caller, "/healthz"), 200);
    world_run_threads(&world, are_four_at_most);
    client_close(&waiting);
    client_close(&caller);
    for (int i = 0; i < 3; i++) {
        client_close(&guests[i]);
    }
    world_close(&world);
}

/* --- the house alone --------------------------------------------------------------------------- */

#define ROUNDS 20000

struct tenant {
    struct house *house;
    enum connection_door door;
    atomic_uint *inside, *most;
};

static void *come_and_go(void *user)
{
    struct tenant *tenant = user;

    for (int i = 0; i < ROUNDS; i++) {
        if (!house_enter(tenant->house, tenant->door)) {
            continue;
        }
        unsigned inside = atomic_fetch_add(tenant->inside, 1) + 1;
        unsigned most = atomic_load(tenant->most);
        while (inside > most && !atomic_compare_exchange_weak(tenant->most, &most, inside)) {
        }
        atomic_fetch_sub(tenant->inside, 1);
        house_leave(tenant->house, tenant->door);
    }
    return NULL;
}

static void no_two_threads_take_the_last_place(void **state)
{
    atomic_uint inside = 0, most = 0;
    struct house house;
    struct tenant tenants[4];
    pthread_t threads[4];

    (void)state;
    house_init(&house, 2);
    for (int i = 0; i < 4; i++) {
        tenants[i] = (struct tenant){.house = &house,
                                     .door = i % 2 == 0 ? DOOR_API : DOOR_GATEWAY,
                                     .inside = &inside,
                                     .most = &most};
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &tenants[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_in_range(atomic_load(&most), 1, 2);
    assert_int_equal(atomic_load(&house.taken), 0);
}

static void some_places_are_the_apis(void **state)
{
    static const uint32_t rows[][2] = {{1, 1}, {2, 1}, {7, 6}, {16, 14}, {400, 350}, {10000, 9936}};
    struct house house;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t guests = 0, others = 0;
        house_init(&house, rows[i][0]);
        while (house_enter(&house, DOOR_GATEWAY)) {
            guests++;
        }
        assert_true(house_is_full_of_guests(&house));
        while (house_enter(&house, DOOR_API)) {
            others++;
        }
        assert_int_equal(guests, rows[i][1]);
        assert_int_equal(guests + others, rows[i][0]);
    }
}

/* --- which loops it wakes ------------------------------------------------------------------------- */

struct bell {
    struct loop *loop;
    struct loop_waker *wakers[DOOR_COUNT];
    struct loop_timer *timer;
    struct house house;
    int woken[DOOR_COUNT];
};

static void api_woken(void *user)
{
    ((struct bell *)user)->woken[DOOR_API]++;
}

static void gateway_woken(void *user)
{
    ((struct bell *)user)->woken[DOOR_GATEWAY]++;
}

static void stop(void *user)
{
    loop_stop(((struct bell *)user)->loop);
}

static void bell_open(struct bell *bell, uint32_t places)
{
    *bell = (struct bell){0};
    house_init(&bell->house, places);
    assert_int_equal(loop_new(&bell->loop, NULL), 0);
    assert_int_equal(loop_timer_new(bell->loop, stop, bell, &bell->timer, NULL), 0);
    assert_int_equal(loop_waker_new(bell->loop, api_woken, bell, &bell->wakers[DOOR_API], NULL), 0);
    assert_int_equal(
        loop_waker_new(bell->loop, gateway_woken, bell, &bell->wakers[DOOR_GATEWAY], NULL), 0);
    house_add_loop(&bell->house, bell->wakers[DOOR_API], DOOR_API);
    house_add_loop(&bell->house, bell->wakers[DOOR_GATEWAY], DOOR_GATEWAY);
}

static void bell_close(struct bell *bell)
{
    loop_waker_free(bell->wakers[DOOR_API]);
    loop_waker_free(bell->wakers[DOOR_GATEWAY]);
    loop_timer_free(bell->timer);
    loop_free(bell->loop);
}

static void assert_woken(struct bell *bell, int api, int gateway)
{
    bell->woken[DOOR_API] = bell->woken[DOOR_GATEWAY] = 0;
    loop_timer_set(bell->timer, clock_mono_ms(&clock_real) + 2); /* after a turn with a wait */
    loop_run(bell->loop);
    assert_int_equal(bell->woken[DOOR_API], api);
    assert_int_equal(bell->woken[DOOR_GATEWAY], gateway);
}

static void an_ask_wakes_the_loops_of_the_other_door_alone(void **state)
{
    struct bell bell;

    (void)state;
    bell_open(&bell, 4);
    while (house_enter(&bell.house, DOOR_API)) {
    }
    house_ask(&bell.house, DOOR_API);
    assert_woken(&bell, 0, 1);
    house_ask(&bell.house, DOOR_GATEWAY);
    assert_woken(&bell, 1, 0);
    bell_close(&bell);
}

static void an_ask_that_no_other_door_can_meet_wakes_none(void **state)
{
    struct bell bell;

    (void)state;
    bell_open(&bell, 4);
    while (house_enter(&bell.house, DOOR_GATEWAY)) {
    }
    house_ask(&bell.house, DOOR_GATEWAY);
    assert_woken(&bell, 0, 0);
    assert_int_equal(house_asked(&bell.house, DOOR_GATEWAY), 0);
    bell_close(&bell);
}

static void a_place_that_is_left_wakes_only_those_who_can_have_it(void **state)
{
    struct bell bell;

    (void)state;
    bell_open(&bell, 4);
    while (house_enter(&bell.house, DOOR_GATEWAY)) {
    }
    assert_true(house_enter(&bell.house, DOOR_API));
    house_wait(&bell.house, DOOR_GATEWAY);
    house_tell(&bell.house); /* none is left */
    assert_woken(&bell, 0, 0);
    house_leave(&bell.house, DOOR_API);
    house_tell(&bell.house); /* it is not for guests */
    assert_woken(&bell, 0, 0);
    house_leave(&bell.house, DOOR_GATEWAY);
    house_tell(&bell.house);
    assert_woken(&bell, 0, 1);
    house_wait_no_more(&bell.house, DOOR_GATEWAY);
    house_tell(&bell.house);
    assert_woken(&bell, 0, 0);
    bell_close(&bell);
}

static void an_ask_ends_when_it_is_taken_back_or_taken_up(void **state)
{
    struct bell bell;

    (void)state;
    bell_open(&bell, 4);
    while (house_enter(&bell.house, DOOR_API)) {
    }
    assert_int_equal(house_asked(&bell.house, DOOR_GATEWAY), 0);
    house_ask(&bell.house, DOOR_GATEWAY);
    uint32_t first = house_asked(&bell.house, DOOR_GATEWAY);
    assert_int_not_equal(first, 0);
    house_ask(&bell.house, DOOR_GATEWAY); /* to be looked for anew */
    assert_int_not_equal(house_asked(&bell.house, DOOR_GATEWAY), first);
    house_leave(&bell.house, DOOR_API); /* there is a place */
    assert_int_equal(house_asked(&bell.house, DOOR_GATEWAY), 0);
    assert_true(house_enter(&bell.house, DOOR_API));
    house_ask_no_more(&bell.house, DOOR_GATEWAY);
    assert_int_equal(house_asked(&bell.house, DOOR_GATEWAY), 0);
    assert_false(house_take_ask(&bell.house, DOOR_GATEWAY));
    house_ask(&bell.house, DOOR_GATEWAY);
    assert_true(house_take_ask(&bell.house, DOOR_GATEWAY));
    assert_false(house_take_ask(&bell.house, DOOR_GATEWAY));
    bell_close(&bell);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_is_for_both_doors_of_one_loop),
        cmocka_unit_test(the_limit_is_for_both_doors_of_several_loops),
        cmocka_unit_test(an_idle_connection_of_the_api_makes_room_at_the_gateway),
        cmocka_unit_test(an_idle_guest_makes_room_at_the_api),
        cmocka_unit_test(no_two_threads_take_the_last_place),
        cmocka_unit_test(some_places_are_the_apis),
        cmocka_unit_test(an_ask_wakes_the_loops_of_the_other_door_alone),
        cmocka_unit_test(an_ask_that_no_other_door_can_meet_wakes_none),
        cmocka_unit_test(a_place_that_is_left_wakes_only_those_who_can_have_it),
        cmocka_unit_test(an_ask_ends_when_it_is_taken_back_or_taken_up),
    };
    return HARNESS_RUN(argc, argv, tests);
}
