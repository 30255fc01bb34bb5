/* SPDX-License-Identifier: MIT
 *
 * The event loop: order of timers, wake-ups from another thread, signals, hooks, and that everything
 * may be freed in any order. test_loop_watch.c has the descriptors.
 */
#include "harness.h"

#include "base/clock.h"
#include "loop/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GUARD_SECONDS 60 /* a test that hangs is killed */
#define TIMERS        4
#define THREADS       4
#define WAKES         1000

struct scene {
    struct loop *loop;
    struct loop_timer *timers[TIMERS];
    struct loop_waker *waker;
    struct loop_signal *signal;
    struct loop_watch *watch;
    struct loop_hook *hook;
    char heard[64]; /* what rang, one letter each */
    size_t heard_count;
    unsigned events;
    size_t count;
    size_t stop_at;
    int fds[2];
};

struct bell {
    struct scene *scene;
    char letter;
};

static struct scene *scene_new(void)
{
    struct scene *scene = calloc(1, sizeof *scene);

    (void)alarm(GUARD_SECONDS);
    assert_non_null(scene);
    assert_int_equal(loop_new(&scene->loop, NULL), 0);
    return scene;
}

static void scene_free(struct scene *scene)
{
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

static void hear(void *user)
{
    struct bell *bell = user;
    struct scene *scene = bell->scene;

    scene->heard[scene->heard_count++] = bell->letter;
    if (bell->letter == '.') {
        loop_stop(scene->loop);
    }
}

static void count_up(void *user)
{
    struct scene *scene = user;

    if (++scene->count == scene->stop_at) {
        loop_stop(scene->loop);
    }
}

static void stop(void *user)
{
    loop_stop(user);
}

static struct loop_timer *timer_of(struct scene *scene, loop_fn ring, void *user)
{
    struct loop_timer *timer = NULL;

    assert_int_equal(loop_timer_new(scene->loop, ring, user, &timer, NULL), 0);
    return timer;
}

static void make_timers(struct scene *scene, struct bell *bells)
{
    for (int i = 0; i < TIMERS; i++) {
        scene->timers[i] = timer_of(scene, hear, &bells[i]);
    }
}

static void free_timers(struct scene *scene)
{
    for (int i = 0; i < TIMERS; i++) {
        loop_timer_free(scene->timers[i]);
    }
}

static void watch_first(struct scene *scene, loop_watch_fn ready)
{
    struct error err = {0};

    assert_int_equal(loop_watch_new(scene->loop, scene->fds[0], ready, scene, &scene->watch, &err),
                     0);
}

static struct loop_hook *hook_of(struct scene *scene, enum loop_hook_kind kind, loop_fn run,
                                 void *user)
{
    struct loop_hook *hook = NULL;

    assert_int_equal(loop_hook_new(scene->loop, kind, run, user, &hook, NULL), 0);
    return hook;
}

/* A few turns, without waiting in any. */
static void run_turns(struct scene *scene)
{
    struct scene turns = {.loop = scene->loop, .stop_at = 10};
    struct loop_hook *hook = hook_of(scene, LOOP_HOOK_IDLE, count_up, &turns);

    loop_hook_on(hook);
    loop_run(scene->loop);
    loop_hook_free(hook);
}

static void timers_ring_by_time_and_then_by_order_of_setting(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct bell bells[] = {{scene, 'a'}, {scene, 'b'}, {scene, 'c'}, {scene, '.'}};
    int64_t now_ms = loop_now_ms(scene->loop);

    make_timers(scene, bells);
    loop_timer_set(scene->timers[3], now_ms + 3);
    loop_timer_set(scene->timers[0], now_ms + 2);
    loop_timer_set(scene->timers[2], now_ms + 1);
    loop_timer_set(scene->timers[1], now_ms + 2);
    loop_run(scene->loop);
    assert_string_equal(scene->heard, "cab.");
    free_timers(scene);
    scene_free(scene);
}

static void a_timer_never_rings_early(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct loop_timer *timer = timer_of(scene, stop, scene->loop);

    for (int64_t wait_ms = 0; wait_ms < 20; wait_ms++) {
        int64_t at_ms = clock_mono_ms(&clock_real) + wait_ms; /* the loop's own idea is older */
        loop_timer_set(timer, at_ms);
        loop_run(scene->loop);
        assert_true(clock_mono_ms(&clock_real) >= at_ms);
        assert_true(loop_now_ms(scene->loop) >= at_ms);
    }
    loop_timer_free(timer);
    scene_free(scene);
}

static void a_timer_in_the_past_rings_and_a_cancelled_or_moved_one_does_not(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct bell bells[] = {{scene, 'a'}, {scene, 'b'}, {scene, 'c'}, {scene, '.'}};
    int64_t now_ms = loop_now_ms(scene->loop);

    make_timers(scene, bells);
    loop_timer_set(scene->timers[0], now_ms - 1000);
    loop_timer_set(scene->timers[1], now_ms + 1);
    loop_timer_cancel(scene->timers[1]);
    loop_timer_set(scene->timers[2], now_ms + 1);
    loop_timer_set(scene->timers[2], INT64_MAX);
    loop_timer_set(scene->timers[3], now_ms + 2);
    loop_run(scene->loop);
    assert_string_equal(scene->heard, "a.");
    free_timers(scene);
    scene_free(scene);
}

static void free_own_timer(void *user)
{
    struct scene *scene = user;

    loop_timer_free(scene->timers[0]);
    loop_stop(scene->loop);
}

static void a_timer_can_be_freed_by_its_own_ring(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    scene->timers[0] = timer_of(scene, free_own_timer, scene);
    loop_timer_set(scene->timers[0], 0);
    loop_run(scene->loop);
    scene_free(scene);
}

static void a_stop_before_the_run_ends_it_at_once_and_only_that_one(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct loop_timer *timer = timer_of(scene, stop, scene->loop);

    loop_stop(scene->loop);
    loop_run(scene->loop);
    loop_timer_set(timer, 0);
    loop_run(scene->loop);
    loop_stop(scene->loop); /* and one that is pending does not keep it from being freed */
    loop_timer_free(timer);
    scene_free(scene);
}

static void *wake_often(void *user)
{
    for (int i = 0; i < WAKES; i++) {
        loop_wake(user);
    }
    return NULL;
}

static void *wake_once(void *user)
{
    loop_wake(user);
    return NULL;
}

static void a_wake_from_another_thread_is_heard(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    pthread_t thread;

    scene->stop_at = 1;
    assert_int_equal(loop_waker_new(scene->loop, count_up, scene, &scene->waker, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, wake_once, scene->waker), 0);
    loop_run(scene->loop); /* nothing else would end it */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(scene->count, 1);
    loop_waker_free(scene->waker);
    scene_free(scene);
}

static void the_last_wake_is_always_heard(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    pthread_t threads[THREADS];

    assert_int_equal(loop_waker_new(scene->loop, count_up, scene, &scene->waker, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, wake_often, scene->waker), 0);
    }
    scene->stop_at = 1;
    loop_run(scene->loop);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    scene->stop_at = scene->count + 1; /* all are in: however they merged, one more is one call */
    loop_wake(scene->waker);
    loop_run(scene->loop);
    assert_true(scene->count >= 2 && scene->count <= (size_t)THREADS * WAKES + 1);
    loop_waker_free(scene->waker);
    scene_free(scene);
}

static void waking_while_the_loop_is_freed_is_harmless(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    pthread_t threads[THREADS];

    assert_int_equal(loop_waker_new(scene->loop, count_up, scene, &scene->waker, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, wake_often, scene->waker), 0);
    }
    loop_free(scene->loop);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    loop_waker_free(scene->waker);
    free(scene);
}

static void on_caught(void *user, int number)
{
    struct scene *scene = user;

    scene->heard[scene->heard_count++] = number == SIGTERM ? 't' : number == SIGHUP ? 'h' : 'i';
    loop_stop(scene->loop);
}

static void signals_arrive_in_the_loop(void **state)
{
    (void)state;
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    struct scene *scene = scene_new();
    struct loop_signal *signals[3];

    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            loop_signal_new(scene->loop, numbers[i], on_caught, scene, &signals[i], NULL), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(raise(numbers[i]), 0);
        loop_run(scene->loop);
    }
    assert_string_equal(scene->heard, "tih");
    for (int i = 0; i < 3; i++) {
        loop_signal_free(signals[i]);
    }
    scene_free(scene);
}

static void a_signal_that_cannot_be_caught_is_a_fault(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct error err = {0};

    assert_int_equal(loop_signal_new(scene->loop, SIGKILL, on_caught, scene, &scene->signal, &err),
                     FAULT_SYSTEM);
    assert_null(scene->signal);
    assert_true(err.text[0] != '\0');
    scene_free(scene);
}

static void writing_to_a_closed_socket_is_no_death(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    open_pair(scene);
    (void)close(scene->fds[1]);
    assert_int_equal(write(scene->fds[0], "x", 1), -1);
    (void)close(scene->fds[0]);
    scene_free(scene);
}

static void on_ready(void *user, unsigned events)
{
    struct scene *scene = user;

    scene->events |= events;
    scene->count++;
    loop_stop(scene->loop);
}

static void an_idle_hook_keeps_the_loop_turning_until_it_is_off(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    scene->stop_at = 5;
    scene->hook = hook_of(scene, LOOP_HOOK_IDLE, count_up, scene);
    loop_hook_off(scene->hook);
    loop_hook_on(scene->hook);
    loop_hook_on(scene->hook);
    loop_run(scene->loop); /* nothing else would end it */
    loop_hook_off(scene->hook);
    run_turns(scene);
    assert_int_equal(scene->count, 5);
    loop_hook_free(scene->hook);
    scene_free(scene);
}

/* What resumes a connection in one callback must be looked at before the loop waits. */
static void a_hook_before_the_wait_runs_after_the_timers_of_that_turn(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct bell timer = {scene, 't'}, hook = {scene, '.'};

    scene->timers[0] = timer_of(scene, hear, &timer);
    loop_timer_set(scene->timers[0], 0);
    scene->hook = hook_of(scene, LOOP_HOOK_BEFORE_WAIT, hear, &hook);
    loop_hook_on(scene->hook);
    loop_run(scene->loop);
    assert_string_equal(scene->heard, "t.");
    loop_hook_free(scene->hook);
    loop_timer_free(scene->timers[0]);
    scene_free(scene);
}

static void make_everything(struct scene *scene)
{
    open_pair(scene);
    scene->timers[0] = timer_of(scene, count_up, scene);
    loop_timer_set(scene->timers[0], 0);
    assert_int_equal(loop_waker_new(scene->loop, count_up, scene, &scene->waker, NULL), 0);
    loop_wake(scene->waker);
    assert_int_equal(loop_signal_new(scene->loop, SIGHUP, on_caught, scene, &scene->signal, NULL),
                     0);
    watch_first(scene, on_ready);
    assert_int_equal(loop_watch_set(scene->watch, LOOP_WRITABLE), 0);
    scene->hook = hook_of(scene, LOOP_HOOK_IDLE, count_up, scene);
    loop_hook_on(scene->hook);
}

static void free_one(struct scene *scene, size_t which)
{
    switch (which) {
    case 0:
        loop_free(scene->loop);
        break;
    case 1:
        loop_timer_free(scene->timers[0]);
        break;
    case 2:
        loop_waker_free(scene->waker);
        break;
    case 3:
        loop_signal_free(scene->signal);
        break;
    case 4:
        loop_watch_free(scene->watch);
        break;
    default:
        loop_hook_free(scene->hook);
        break;
    }
}

static void everything_can_be_freed_in_any_order(void **state)
{
    (void)state;
    enum { PARTS = 6, ORDERS = 720 };

    for (size_t order = 0; order < ORDERS; order++) {
        struct scene *scene = scene_new();
        size_t left[PARTS] = {0, 1, 2, 3, 4, 5}, code = order;
        make_everything(scene);
        for (size_t count = PARTS; count > 0; count--) {
            size_t chosen = code % count;
            code /= count;
            free_one(scene, left[chosen]);
            left[chosen] = left[count - 1];
        }
        assert_int_equal(scene->count, 0); /* freeing calls nobody */
        close_pair(scene);
        free(scene);
    }
}

static void what_outlives_its_loop_does_nothing(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    make_everything(scene);
    loop_free(scene->loop);
    loop_timer_set(scene->timers[0], 0);
    loop_timer_cancel(scene->timers[0]);
    loop_wake(scene->waker);
    assert_int_equal(loop_watch_set(scene->watch, LOOP_READABLE), 0);
    loop_hook_on(scene->hook);
    loop_hook_off(scene->hook);
    for (size_t i = 1; i < 6; i++) {
        free_one(scene, i);
    }
    close_pair(scene);
    free(scene);
}

static void nothing_is_freed_gladly(void **state)
{
    (void)state;
    loop_free(NULL);
    loop_timer_free(NULL);
    loop_waker_free(NULL);
    loop_signal_free(NULL);
    loop_watch_free(NULL);
    loop_hook_free(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_ring_by_time_and_then_by_order_of_setting),
        cmocka_unit_test(a_timer_never_rings_early),
        cmocka_unit_test(a_timer_in_the_past_rings_and_a_cancelled_or_moved_one_does_not),
        cmocka_unit_test(a_timer_can_be_freed_by_its_own_ring),
        cmocka_unit_test(a_stop_before_the_run_ends_it_at_once_and_only_that_one),
        cmocka_unit_test(a_wake_from_another_thread_is_heard),
        cmocka_unit_test(the_last_wake_is_always_heard),
        cmocka_unit_test(waking_while_the_loop_is_freed_is_harmless),
        cmocka_unit_test(signals_arrive_in_the_loop),
        cmocka_unit_test(a_signal_that_cannot_be_caught_is_a_fault),
        cmocka_unit_test(writing_to_a_closed_socket_is_no_death),
        cmocka_unit_test(an_idle_hook_keeps_the_loop_turning_until_it_is_off),
        cmocka_unit_test(a_hook_before_the_wait_runs_after_the_timers_of_that_turn),
        cmocka_unit_test(everything_can_be_freed_in_any_order),
        cmocka_unit_test(what_outlives_its_loop_does_nothing),
        cmocka_unit_test(nothing_is_freed_gladly),
    };

    return HARNESS_RUN(argc, argv, tests);
}
