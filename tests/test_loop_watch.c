/* SPDX-License-Identifier: MIT
 *
 * The event loop's descriptors: told what is wished for and nothing else, armed longer than that,
 * and never in a spin.
 */
#include "harness.h"

#include "loop/loop.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define GUARD_SECONDS 60 /* a test that hangs is killed */

struct scene {
    struct loop *loop;
    struct loop_timer *timer; /* stops the loop */
    struct loop_watch *watch; /* of the first of the pair */
    struct loop_hook *hook;
    int fds[2];
    unsigned events;
    size_t count; /* of calls */
    size_t waits; /* counted by the hook */
};

static void stop(void *user)
{
    loop_stop(user);
}

static void count_wait(void *user)
{
    struct scene *scene = user;

    scene->waits++;
}

static struct scene *scene_new(void)
{
    struct scene *scene = calloc(1, sizeof *scene);

    (void)alarm(GUARD_SECONDS);
    assert_non_null(scene);
    assert_int_equal(loop_new(&scene->loop, NULL), 0);
    assert_int_equal(loop_timer_new(scene->loop, stop, scene->loop, &scene->timer, NULL), 0);
    assert_int_equal(
        loop_hook_new(scene->loop, LOOP_HOOK_BEFORE_WAIT, count_wait, scene, &scene->hook, NULL),
        0);
    return scene;
}

static void scene_free(struct scene *scene)
{
    loop_hook_free(scene->hook);
    loop_timer_free(scene->timer);
    loop_free(scene->loop);
    free(scene);
}

static void open_pair(struct scene *scene)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, scene->fds), 0);
}

static void close_pair(struct scene *scene)
{
    (void)close(scene->fds[0]);
    (void)close(scene->fds[1]);
}

static void on_ready(void *user, unsigned events)
{
    struct scene *scene = user;

    scene->events |= events;
    scene->count++;
    loop_stop(scene->loop);
}

static void watch_first(struct scene *scene, loop_watch_fn ready)
{
    struct error err = {0};

    assert_int_equal(loop_watch_new(scene->loop, scene->fds[0], ready, scene, &scene->watch, &err),
                     0);
}

static void only_what_is_wished_for_is_told(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    open_pair(scene);
    watch_first(scene, on_ready);
    loop_timer_set(scene->timer, 0);
    loop_run(scene->loop);             /* one turn, with a wait that ends at once */
    assert_int_equal(scene->count, 0); /* no wishes at first, though it is writable */
    assert_int_equal(loop_watch_set(scene->watch, LOOP_READABLE | LOOP_WRITABLE), 0);
    loop_run(scene->loop);
    assert_int_equal(scene->events, LOOP_WRITABLE);
    scene->events = 0;
    assert_int_equal(loop_watch_set(scene->watch, LOOP_READABLE), 0);
    assert_int_equal(write(scene->fds[1], "x", 1), 1);
    loop_run(scene->loop);
    assert_int_equal(scene->events, LOOP_READABLE);
    loop_watch_free(scene->watch);
    close_pair(scene);
    scene_free(scene);
}

/* engineering 4: a connection that is kept needs no system calls between its uses. */
static void a_dropped_wish_stays_armed_and_neither_tells_nor_spins(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    open_pair(scene);
    watch_first(scene, on_ready);
    loop_hook_on(scene->hook);
    assert_int_equal(loop_watch_set(scene->watch, LOOP_READABLE | LOOP_WRITABLE), 0);
    assert_int_equal(loop_watch_set(scene->watch, 0), 0);
    assert_int_equal(write(scene->fds[1], "x", 1), 1);
    loop_timer_set(scene->timer, loop_now_ms(scene->loop) + 5);
    loop_run(scene->loop);
    assert_int_equal(scene->count, 0);
    assert_in_range(scene->waits, 1, 5); /* waits that began until the timer rang */
    assert_int_equal(loop_watch_set(scene->watch, LOOP_READABLE), 0); /* what came is still there */
    loop_run(scene->loop);
    assert_int_equal(scene->events, LOOP_READABLE);
    loop_watch_free(scene->watch);
    close_pair(scene);
    scene_free(scene);
}

static void drain_and_quiet(void *user, unsigned events)
{
    struct scene *scene = user;
    char byte;

    assert_int_equal(events, LOOP_READABLE);
    assert_int_equal(read(scene->fds[0], &byte, 1), 1);
    scene->count++;
    assert_int_equal(loop_watch_set(scene->watch, 0), 0);
    loop_stop(scene->loop);
}

static void wishing_again_after_each_use_hears_each_byte_once(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    open_pair(scene);
    watch_first(scene, drain_and_quiet);
    for (size_t i = 1; i <= 10; i++) {
        assert_int_equal(loop_watch_set(scene->watch, LOOP_READABLE), 0);
        assert_int_equal(write(scene->fds[1], "x", 1), 1);
        loop_run(scene->loop);
        assert_int_equal(scene->count, i);
    }
    loop_watch_free(scene->watch);
    close_pair(scene);
    scene_free(scene);
}

static void free_own_watch(void *user, unsigned events)
{
    struct scene *scene = user;

    assert_true((events & LOOP_READABLE) != 0);
    loop_watch_free(scene->watch);
    (void)close(scene->fds[0]);
    loop_stop(scene->loop);
}

static void a_descriptor_number_can_be_watched_again_after_its_watch_is_freed(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    for (int i = 0; i < 3; i++) { /* the same number each time */
        open_pair(scene);
        watch_first(scene, free_own_watch);
        assert_int_equal(loop_watch_set(scene->watch, LOOP_READABLE), 0);
        (void)close(scene->fds[1]);
        loop_run(scene->loop);
    }
    scene_free(scene);
}

static void a_broken_descriptor_is_told_in_each_turn_until_the_wish_is_dropped(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    assert_int_equal(pipe(scene->fds), 0);
    (void)close(scene->fds[0]);
    scene->fds[0] = scene->fds[1]; /* the end for writing, which nobody reads */
    watch_first(scene, on_ready);
    assert_int_equal(loop_watch_set(scene->watch, LOOP_WRITABLE), 0);
    loop_run(scene->loop);
    loop_run(scene->loop);
    assert_int_equal(scene->count, 2);
    assert_int_equal(scene->events, LOOP_WRITABLE);
    assert_int_equal(loop_watch_set(scene->watch, 0), 0);
    loop_timer_set(scene->timer, loop_now_ms(scene->loop) + 1);
    loop_run(scene->loop);
    assert_int_equal(scene->count, 2);
    loop_watch_free(scene->watch);
    (void)close(scene->fds[0]);
    scene_free(scene);
}

static void what_is_no_descriptor_cannot_be_watched(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct error err = {0};

    open_pair(scene);
    close_pair(scene);
    assert_int_equal(
        loop_watch_new(scene->loop, scene->fds[0], on_ready, scene, &scene->watch, &err),
        FAULT_SYSTEM);
    assert_null(scene->watch);
    scene_free(scene);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_wished_for_is_told),
        cmocka_unit_test(a_dropped_wish_stays_armed_and_neither_tells_nor_spins),
        cmocka_unit_test(wishing_again_after_each_use_hears_each_byte_once),
        cmocka_unit_test(a_descriptor_number_can_be_watched_again_after_its_watch_is_freed),
        cmocka_unit_test(a_broken_descriptor_is_told_in_each_turn_until_the_wish_is_dropped),
        cmocka_unit_test(what_is_no_descriptor_cannot_be_watched),
    };

    return HARNESS_RUN(argc, argv, tests);
}
