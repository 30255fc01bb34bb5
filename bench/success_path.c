/* SPDX-License-Identifier: MIT
 *
 * success_path -- what a retry costs when there is nothing to retry. Without arguments all modes
 * take turns, many short rounds each, and each line is
 *
 *     mode  best ns per call  median ns per call
 *
 * The best round is the one that the other users of the machine disturbed least; all modes see the
 * same machine within the same second, so their ratios hold where their times do not.
 *
 *     success_path --mode retry --calls 100000      only that: for callgrind and strace, which
 *                                                   count what happens inside measure()
 *     success_path --compiler                       what made this program
 */
#include "bench.h"
#include "modes.h"

#include <daruma/retry.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX   1000
#define MODES_MAX    16
#define THREAD_COUNT 2

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

int64_t measure(const struct mode *mode, uint64_t calls);

/* Not static and not inlined: callgrind counts from its entry to its return. */
__attribute__((noinline)) int64_t measure(const struct mode *mode, uint64_t calls)
{
    int64_t from_ns = bench_now_ns();
    uint64_t failures = mode->run(mode, calls);
    int64_t took_ns = bench_now_ns() - from_ns;

    if (failures != 0) {
        bench_give_up("a call that always succeeds has failed");
    }
    return took_ns;
}

struct runner {
    pthread_t thread;
    pthread_barrier_t *start;
    const struct mode *mode;
    uint64_t calls;
    int64_t took_ns;
};

static void *runner_go(void *argument)
{
    struct runner *runner = argument;

    (void)pthread_barrier_wait(runner->start); /* its one failure is an invalid barrier */
    runner->took_ns = measure(runner->mode, runner->calls);
    return NULL;
}

/* All threads at once, sharing the mode's budget and breaker; the slowest one counts. */
static int64_t measure_threads(const struct mode *mode, uint64_t calls)
{
    struct runner runners[THREAD_COUNT];
    pthread_barrier_t start;
    int64_t slowest_ns = 0;

    if (pthread_barrier_init(&start, NULL, THREAD_COUNT) != 0) {
        bench_give_up("no barrier");
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        runners[i] = (struct runner){.start = &start, .mode = mode, .calls = calls};
        if (pthread_create(&runners[i].thread, NULL, runner_go, &runners[i]) != 0) {
            bench_give_up("no thread");
        }
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        if (pthread_join(runners[i].thread, NULL) != 0) {
            bench_give_up("a thread was lost");
        }
        slowest_ns = runners[i].took_ns > slowest_ns ? runners[i].took_ns : slowest_ns;
    }
    (void)pthread_barrier_destroy(&start); /* nobody waits at it any more */
    return slowest_ns;
}

static int compare(const void *one, const void *other)
{
    int64_t left = *(const int64_t *)one, right = *(const int64_t *)other;

    return (left > right) - (left < right);
}

static void report(const char *name, int64_t *took_ns, uint64_t rounds, uint64_t calls)
{
    qsort(took_ns, rounds, sizeof *took_ns, compare);
    (void)printf("%-20s %8.3f %8.3f\n", name, (double)took_ns[0] / (double)calls,
                 (double)took_ns[rounds / 2] / (double)calls);
}

static void take_turns(const struct mode *modes, size_t count, uint64_t rounds, uint64_t calls)
{
    static int64_t took_ns[MODES_MAX][ROUNDS_MAX];
    const struct mode *guarded = modes_find("guarded");

    if (count >= MODES_MAX || rounds == 0 || rounds > ROUNDS_MAX || calls == 0) {
        bench_give_up("too many rounds, or none");
    }
    for (uint64_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            took_ns[i][round] = measure(&modes[i], calls);
        }
        took_ns[count][round] = measure_threads(guarded, calls);
    }
    for (size_t i = 0; i < count; i++) {
        report(modes[i].name, took_ns[i], rounds, calls);
    }
    report("guarded_2_threads", took_ns[count], rounds, calls);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--compiler") == 0) {
        (void)puts(COMPILER);
        return 0;
    }
    size_t count;
    const struct mode *modes = modes_open(&count);
    const char *name = bench_word(argc, argv, "--mode");
    uint64_t calls = bench_number(argc, argv, "--calls", 200000);

    if (name != NULL) {
        (void)measure(modes_find(name), calls); /* whoever watches from outside has the figure */
        return 0;
    }
    take_turns(modes, count, bench_number(argc, argv, "--rounds", 60), calls);
    return 0;
}
