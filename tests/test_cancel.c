/* SPDX-License-Identifier: MIT
 *
 * Cancelling synchronous retries from other threads and from signal handlers. These are the tests
 * that really wait: a cancel that did not work would make each take a minute, so the clock is only
 * asked whether it took less than LIMIT_MS. Threads report, the main thread asserts.
 */
#define _GNU_SOURCE
#include "harness.h"
#include "fake.h"

#include <daruma/cancel.h>
#include <daruma/gate.h>
#include <daruma/policy.h>
#include <daruma/trail.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS      60000
#define LIMIT_MS     5000
#define WAITER_COUNT 8

/* A retry with a wait of a minute, and who runs it. */
struct waiter {
    struct daruma_cancel *cancel;
    struct daruma_gate *gate;
    pthread_t thread;
    long thread_id; /* the kernel's; 0 until it is about to wait. Atomic. */
    int calls;
    int code;
    struct daruma_error error;
    int64_t took_ms;
};

static long own_thread_id(void)
{
    return syscall(SYS_gettid);
}

/* Is the thread asleep in the kernel? */
static bool is_asleep(long thread_id)
{
    char path[64], text[256];
    size_t length = 0;

    (void)snprintf(path, sizeof path, "/proc/self/task/%ld/stat", thread_id);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        length = fread(text, 1, sizeof text - 1, file);
        (void)fclose(file); /* only read from */
    }
    text[length] = '\0';
    const char *state = strrchr(text, ')');
    return state != NULL && strncmp(state, ") S", 3) == 0;
}

/* Comes back when the waiter waits: told by itself and by the kernel, not by the time. */
static void until_it_waits(struct waiter *waiter)
{
    long thread_id;

    while ((thread_id = __atomic_load_n(&waiter->thread_id, __ATOMIC_ACQUIRE)) == 0 ||
           !is_asleep(thread_id)) {
        (void)sched_yield(); /* cannot fail */
    }
}

static void waiter_on_retry(void *user, uint32_t attempt, const struct daruma_error *error,
                            uint64_t delay_ms)
{
    struct waiter *waiter = user;

    (void)attempt;
    (void)error;
    (void)delay_ms;
    __atomic_store_n(&waiter->thread_id, own_thread_id(), __ATOMIC_RELEASE);
}

static int waiter_call(void *user, const struct daruma_attempt *attempt,
                       struct daruma_error *ret_error)
{
    struct waiter *waiter = user;

    (void)attempt;
    (void)ret_error;
    waiter->calls++;
    return 5;
}

static void *waiter_run(void *user)
{
    struct waiter *waiter = user;
    struct daruma_retry_options options = {
        .backoff = daruma_backoff_exponential_jitter(WAIT_MS, WAIT_MS, 0),
        .max_retries = 1,
        .gate = waiter->gate,
        .cancel = waiter->cancel,
        .on_retry = waiter_on_retry,
        .user = waiter};
    int64_t start_ms = daruma_now_ms();

    if (waiter->gate != NULL) {
        __atomic_store_n(&waiter->thread_id, own_thread_id(), __ATOMIC_RELEASE);
    }
    waiter->code = daruma_retry(waiter_call, waiter, &options, &waiter->error);
    waiter->took_ms = daruma_now_ms() - start_ms;
    return NULL;
}

static void was_cancelled(const struct waiter *waiter, int calls)
{
    assert_int_equal(waiter->code, DARUMA_CANCELLED);
    assert_int_equal(waiter->error.code, DARUMA_CANCELLED);
    assert_int_equal(waiter->calls, calls);
    assert_true(waiter->took_ms < LIMIT_MS);
}

static void another_thread_ends_a_wait_of_a_minute_at_once(void **state)
{
    struct daruma_cancel cancel;
    struct waiter waiter = {.cancel = &cancel};

    (void)state;
    assert_int_equal(daruma_cancel_open(&cancel), 0);
    assert_int_equal(pthread_create(&waiter.thread, NULL, waiter_run, &waiter), 0);
    until_it_waits(&waiter);
    daruma_cancel_now(&cancel);
    assert_int_equal(pthread_join(waiter.thread, NULL), 0);
    was_cancelled(&waiter, 1);
    daruma_cancel_close(&cancel);
}

static void one_cancel_ends_every_waiter(void **state)
{
    struct daruma_cancel cancel;
    struct daruma_gate gate = {0};
    struct waiter waiters[WAITER_COUNT] = {{0}};

    (void)state;
    assert_int_equal(daruma_cancel_open(&cancel), 0);
    daruma_gate_hold(&gate, daruma_now_ms(), WAIT_MS);
    for (int i = 0; i < WAITER_COUNT; i++) {
        waiters[i].cancel = &cancel;
        waiters[i].gate = i % 2 == 0 ? &gate : NULL; /* some wait before their first call */
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, waiter_run, &waiters[i]), 0);
    }
    for (int i = 0; i < WAITER_COUNT; i++) {
        until_it_waits(&waiters[i]);
    }
    daruma_cancel_now(&cancel);
    daruma_cancel_now(&cancel); /* twice is once */
    for (int i = 0; i < WAITER_COUNT; i++) {
        assert_int_equal(pthread_join(waiters[i].thread, NULL), 0);
        was_cancelled(&waiters[i], i % 2);
    }
    daruma_cancel_close(&cancel);
}

static struct daruma_cancel signal_cancel;

static void cancel_on_signal(int number)
{
    (void)number;
    daruma_cancel_now(&signal_cancel);
}

static void ignore_signal(int number)
{
    (void)number;
}

static void handle_signal(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};

    assert_int_equal(sigemptyset(&action.sa_mask), 0);
    assert_int_equal(sigaction(number, &action, NULL), 0);
}

static void a_signal_handler_ends_the_wait_it_interrupts(void **state)
{
    struct waiter waiter = {.cancel = &signal_cancel};

    (void)state;
    assert_int_equal(daruma_cancel_open(&signal_cancel), 0);
    handle_signal(SIGUSR1, cancel_on_signal);
    assert_int_equal(pthread_create(&waiter.thread, NULL, waiter_run, &waiter), 0);
    until_it_waits(&waiter);
    assert_int_equal(pthread_kill(waiter.thread, SIGUSR1), 0);
    assert_int_equal(pthread_join(waiter.thread, NULL), 0);
    was_cancelled(&waiter, 1);
    daruma_cancel_close(&signal_cancel);
}

static void cancelling_leaves_errno_alone(void **state)
{
    struct daruma_cancel cancel;

    (void)state;
    assert_int_equal(daruma_cancel_open(&cancel), 0);
    errno = ENOENT;
    daruma_cancel_now(&cancel);
    assert_int_equal(errno, ENOENT);
    daruma_cancel_close(&cancel);
    cancel.flag = 0;
    daruma_cancel_now(&cancel); /* a closed one has no pipe to write to */
    assert_int_equal(errno, ENOENT);

    assert_int_equal(daruma_cancel_open(&cancel), 0);
    assert_int_equal(close(cancel.fds[1]), 0); /* somebody closed more than was theirs */
    errno = ENOENT;
    daruma_cancel_now(&cancel);
    assert_int_equal(errno, ENOENT);
    assert_true(daruma_cancel_is_set(&cancel));
}

/* A real sleep is never shorter than asked for, whatever interrupts it. */
static void other_signals_do_not_shorten_a_wait(void **state)
{
    struct daruma_cancel cancel;
    const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};

    (void)state;
    assert_int_equal(daruma_cancel_open(&cancel), 0);
    handle_signal(SIGALRM, ignore_signal);
    for (int watched = 0; watched <= 1; watched++) {
        struct waiter waiter = {0};
        struct daruma_retry_options options = {.backoff = daruma_backoff_exponential(30),
                                               .max_retries = 1,
                                               .cancel = watched ? &cancel : NULL};
        int64_t start_ms = daruma_now_ms();
        assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
        assert_int_equal(daruma_retry(waiter_call, &waiter, &options, NULL), 5);
        assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
        assert_int_equal(waiter.calls, 2);
        assert_true(daruma_now_ms() - start_ms >= 30);
    }
    daruma_cancel_close(&cancel);
}

static void cancelled_before_the_start_nothing_is_called(void **state)
{
    struct daruma_cancel cancel;
    struct fake_world world;
    struct daruma_trail trail = {0};

    (void)state;
    assert_int_equal(daruma_cancel_open(&cancel), 0);
    assert_false(daruma_cancel_is_set(&cancel));
    daruma_cancel_now(&cancel);
    assert_true(daruma_cancel_is_set(&cancel));
    fake_world_init(&world);
    world.options.cancel = &cancel;
    world.options.trail = &trail;
    assert_int_equal(fake_world_run(&world), DARUMA_CANCELLED);
    assert_int_equal(world.call.count, 0);
    assert_int_equal(trail.stop, DARUMA_STOP_CANCELLED);
    assert_int_equal(fake_world_run(&world), DARUMA_CANCELLED); /* it stays cancelled */
    daruma_cancel_close(&cancel);
}

static void cancelled_before_the_start_a_plain_retry_calls_nothing_either(void **state)
{
    struct daruma_cancel cancel;
    struct daruma_retry_options options = {.cancel = &cancel};
    struct fake_call call = {.success_at = 1};

    (void)state;
    assert_int_equal(daruma_cancel_open(&cancel), 0);
    daruma_cancel_now(&cancel);
    assert_int_equal(daruma_retry(fake_call_run, &call, &options, NULL), DARUMA_CANCELLED);
    assert_int_equal(call.count, 0);
    daruma_cancel_close(&cancel);
}

/* A service without standard input gets the number 0 for the pipe. */
static void descriptor_zero_is_as_good_as_any(void **state)
{
    struct daruma_cancel cancel;
    struct daruma_retry_options options = {.cancel = &cancel};
    struct fake_call call = {.success_at = 1};

    (void)state;
    assert_int_equal(close(STDIN_FILENO), 0);
    assert_int_equal(daruma_cancel_open(&cancel), 0);
    assert_int_equal(daruma_cancel_fd(&cancel), STDIN_FILENO);
    assert_int_equal(daruma_retry(fake_call_run, &call, &options, NULL), 0);
    daruma_cancel_now(&cancel);
    assert_int_equal(daruma_retry(fake_call_run, &call, &options, NULL), DARUMA_CANCELLED);
    daruma_cancel_close(&cancel);
    assert_int_equal(daruma_cancel_fd(&cancel), -1);
}

/* Cancels from inside the call. */
struct self_cancel {
    struct daruma_cancel *cancel;
    int calls;
    int code;
};

static int call_that_cancels(void *user, const struct daruma_attempt *attempt,
                             struct daruma_error *ret_error)
{
    struct self_cancel *self = user;

    (void)attempt;
    (void)ret_error;
    self->calls++;
    daruma_cancel_now(self->cancel);
    return self->code;
}

static void cancelled_during_the_call_it_stops_when_the_call_returns(void **state)
{
    for (int code = 0; code <= 5; code += 5) {
        struct daruma_cancel cancel;
        struct fake_world world;
        struct self_cancel self = {.cancel = &cancel, .code = code};
        assert_int_equal(daruma_cancel_open(&cancel), 0);
        fake_world_init(&world);
        world.options.cancel = &cancel;
        int end = daruma_retry(call_that_cancels, &self, &world.options, &world.error);
        assert_int_equal(end, code == 0 ? 0 : DARUMA_CANCELLED); /* a success stands */
        assert_int_equal(self.calls, 1);
        assert_int_equal(world.fake.sleep_count, 0); /* not even an env's own sleep is begun */
        daruma_cancel_close(&cancel);
    }
    (void)state;
}

static void the_descriptor_becomes_readable_and_stays_so(void **state)
{
    struct daruma_cancel cancel;

    (void)state;
    assert_int_equal(daruma_cancel_open(&cancel), 0);
    struct pollfd watch = {.fd = daruma_cancel_fd(&cancel), .events = POLLIN};
    assert_true(watch.fd >= 0);
    assert_int_equal(poll(&watch, 1, 0), 0);
    daruma_cancel_now(&cancel);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(poll(&watch, 1, 0), 1);
        assert_true(watch.revents & POLLIN);
    }
    daruma_cancel_close(&cancel);
}

static void closing_nothing_is_fine(void **state)
{
    struct daruma_cancel zeroed = {0}, opened;
    int before = fcntl(0, F_GETFD);

    (void)state;
    daruma_cancel_close(NULL);
    daruma_cancel_close(&zeroed);
    daruma_cancel_now(NULL);
    assert_false(daruma_cancel_is_set(NULL));
    assert_int_equal(daruma_cancel_fd(NULL), -1);
    assert_int_equal(daruma_cancel_fd(&zeroed), -1);
    assert_int_equal(daruma_cancel_open(NULL), DARUMA_INVALID);
    assert_int_equal(daruma_cancel_open(&opened), 0);
    int pipe_fds[] = {opened.fds[0], opened.fds[1]};
    daruma_cancel_close(&opened);
    daruma_cancel_close(&opened);
    assert_int_equal(daruma_cancel_fd(&opened), -1);
    assert_int_equal(fcntl(pipe_fds[0], F_GETFD), -1); /* both ends are gone */
    assert_int_equal(fcntl(pipe_fds[1], F_GETFD), -1);
    assert_int_equal(fcntl(0, F_GETFD), before); /* a zeroed one does not mean descriptor 0 */
}

static int fail_with_hint(void *user, const struct daruma_attempt *attempt,
                          struct daruma_error *ret_error)
{
    (void)attempt;
    ret_error->retry_after_ms = *(int64_t *)user;
    return 1;
}

/* In a child: cancels what it has inherited, and ends. */
static void cancel_in_a_child(struct daruma_cancel *cancel)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        daruma_cancel_now(cancel);
        _exit(daruma_cancel_is_set(cancel) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static int64_t cpu_ms(void)
{
    struct timespec used;

    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    return (int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static void a_cancel_in_a_child_is_nothing_to_its_parent(void **state)
{
    struct daruma_cancel cancel;
    int64_t hint_ms = 400;

    (void)state;
    assert_int_equal(daruma_cancel_open(&cancel), 0);
    cancel_in_a_child(&cancel);
    struct pollfd watch = {.fd = daruma_cancel_fd(&cancel), .events = POLLIN};
    assert_int_equal(poll(&watch, 1, 0), 0);
    assert_false(daruma_cancel_is_set(&cancel));
    int64_t from_ms = daruma_now_ms(), cpu_from_ms = cpu_ms();
    struct daruma_retry_options options = {.cancel = &cancel, .max_retries = 1};
    assert_int_equal(daruma_retry(fail_with_hint, &hint_ms, &options, NULL), 1);
    assert_true(daruma_now_ms() - from_ms >= hint_ms);
    assert_true(cpu_ms() - cpu_from_ms < hint_ms / 2); /* it slept */
    daruma_cancel_now(&cancel);
    assert_int_equal(poll(&watch, 1, 0), 1);
    daruma_cancel_close(&cancel);
}

static struct daruma_cancel *own_cancel; /* of the signal's handler */

static void cancel_own(int number)
{
    (void)number;
    daruma_cancel_now(own_cancel);
}

static void a_child_can_cancel_its_own_waits(void **state)
{
    struct daruma_cancel cancel;
    int status = -1;

    (void)state;
    assert_int_equal(daruma_cancel_open(&cancel), 0);
    pid_t child = fork();
    if (child == 0) {
        int64_t hint_ms = WAIT_MS, from_ms = daruma_now_ms();
        struct daruma_retry_options options = {.cancel = &cancel, .max_retries = 1};
        const struct itimerval soon = {.it_value = {.tv_usec = 50000}};
        own_cancel = &cancel;
        (void)signal(SIGALRM, cancel_own);         /* cannot fail for a signal that exists */
        (void)setitimer(ITIMER_REAL, &soon, NULL); /* nor this: the retry would wait too long */
        int code = daruma_retry(fail_with_hint, &hint_ms, &options, NULL);
        _exit(code == DARUMA_CANCELLED && daruma_now_ms() - from_ms < LIMIT_MS ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(daruma_cancel_is_set(&cancel));
    daruma_cancel_close(&cancel);
}

static void a_parents_cancel_does_not_make_a_child_spin(void **state)
{
    struct daruma_cancel cancel;
    int status = -1;

    (void)state;
    assert_int_equal(daruma_cancel_open(&cancel), 0);
    pid_t child = fork();
    if (child == 0) {
        int64_t hint_ms = 400, cpu_from_ms = cpu_ms();
        struct daruma_retry_options options = {.cancel = &cancel, .max_retries = 1};
        int code = daruma_retry(fail_with_hint, &hint_ms, &options, NULL);
        _exit(code == 1 && cpu_ms() - cpu_from_ms < hint_ms / 2 ? 0 : 1);
    }
    daruma_cancel_now(&cancel);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    daruma_cancel_close(&cancel);
}

/* The same number in another process namespace: the pipe says cancelled, the flag does not. */
static void a_pipe_that_only_seems_to_be_its_own_does_not_make_it_spin(void **state)
{
    struct daruma_cancel cancel;
    int64_t hint_ms = 400;

    (void)state;
    assert_int_equal(daruma_cancel_open(&cancel), 0);
    assert_int_equal(write(cancel.fds[1], "", 1), 1);
    int64_t from_ms = daruma_now_ms(), cpu_from_ms = cpu_ms();
    struct daruma_retry_options options = {.cancel = &cancel, .max_retries = 1};
    assert_int_equal(daruma_retry(fail_with_hint, &hint_ms, &options, NULL), 1);
    assert_true(daruma_now_ms() - from_ms >= hint_ms);
    assert_true(cpu_ms() - cpu_from_ms < hint_ms / 2);
    daruma_cancel_close(&cancel);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_thread_ends_a_wait_of_a_minute_at_once),
        cmocka_unit_test(one_cancel_ends_every_waiter),
        cmocka_unit_test(a_signal_handler_ends_the_wait_it_interrupts),
        cmocka_unit_test(cancelling_leaves_errno_alone),
        cmocka_unit_test(other_signals_do_not_shorten_a_wait),
        cmocka_unit_test(cancelled_before_the_start_nothing_is_called),
        cmocka_unit_test(cancelled_during_the_call_it_stops_when_the_call_returns),
        cmocka_unit_test(the_descriptor_becomes_readable_and_stays_so),
        cmocka_unit_test(closing_nothing_is_fine),
        cmocka_unit_test(a_cancel_in_a_child_is_nothing_to_its_parent),
        cmocka_unit_test(a_child_can_cancel_its_own_waits),
        cmocka_unit_test(a_parents_cancel_does_not_make_a_child_spin),
        cmocka_unit_test(a_pipe_that_only_seems_to_be_its_own_does_not_make_it_spin),
        cmocka_unit_test(cancelled_before_the_start_a_plain_retry_calls_nothing_either),
        cmocka_unit_test(descriptor_zero_is_as_good_as_any),
    };
    return HARNESS_RUN(argc, argv, tests);
}
