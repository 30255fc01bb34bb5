/* SPDX-License-Identifier: MIT
 *
 * million -- what a pending asynchronous operation costs, and whether that grows with how many there
 * are. N operations fail their first attempt and wait; some of them come due, fail again and wait
 * again; then all are cancelled in another order than they came. They are driven as a poll loop
 * drives them (daruma_retry_next_timeout_ms, daruma_retry_tick), on a clock that jumps to the next
 * deadline, so nothing is waited for. Prints one line:
 *
 *     count  sizeof  resident bytes each  ns per start, step, cancel, done  moved per tick
 *
 * callgrind counts the instructions of start_all, step_some, cancel_all and deliver_all.
 */
#include "bench.h"

#include <daruma/dice.h>
#include <daruma/retry_async.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HOUR_MS      3600000
#define STRIDE_PRIME 611953 /* coprime to every count in use: visits all, neighbours far apart */

/* The loop's outside world: time that goes where it is told, and a seeded dice. */
struct world {
    struct daruma_retry_loop loop;
    struct daruma_dice dice;
    int64_t now_ms;
    size_t ended; /* done callbacks so far */
};

struct crowd {
    struct world world;
    struct daruma_retry_options options;
    struct daruma_retry_op *ops;
    size_t count;
    uint64_t ticks, moved;
};

static int64_t world_now_ms(void *user)
{
    return ((const struct world *)user)->now_ms;
}

static uint64_t world_rand(void *user)
{
    return daruma_dice_roll(&((struct world *)user)->dice);
}

static void fail_at_once(void *user, struct daruma_retry_op *op,
                         const struct daruma_attempt *attempt)
{
    (void)user;
    (void)daruma_retry_async_finish(op, attempt->generation, 1, NULL); /* it is waited for */
}

static void count_end(void *user, struct daruma_retry_op *op, int code,
                      const struct daruma_error *error)
{
    (void)op;
    (void)error;
    ((struct world *)user)->ended += code == DARUMA_CANCELLED;
}

/* Waits of up to a day, so that most ticks find one operation due and not many. */
static void crowd_init(struct crowd *crowd, size_t count)
{
    static const struct daruma_loop_ops ops = {.now_ms = world_now_ms, .rand = world_rand};

    *crowd = (struct crowd){
        .world = {.dice = daruma_dice_seed(count), .now_ms = 1},
        .options = {.max_retries = DARUMA_RETRIES_MAX,
                    .backoff = {.jitter = DARUMA_JITTER_FULL,
                                .base_ms = HOUR_MS,
                                .max_ms = 24 * (uint64_t)HOUR_MS}},
        .ops = calloc(count, sizeof(struct daruma_retry_op)),
        .count = count,
    };
    if (crowd->ops == NULL) {
        bench_give_up("not enough memory");
    }
    daruma_retry_loop_init(&crowd->world.loop, &ops, &crowd->world);
    crowd->options.loop = &crowd->world.loop;
}

/* What callgrind looks for: visible, whole, and called from one place each. */
void start_all(struct crowd *crowd);
void step_some(struct crowd *crowd, uint64_t steps);
void cancel_all(struct crowd *crowd);
void deliver_all(struct crowd *crowd);

__attribute__((noinline)) void start_all(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->count; i++) {
        if (daruma_retry_async_start(&crowd->ops[i], fail_at_once, &crowd->world, &crowd->options,
                                     count_end) != 0) {
            bench_give_up("an operation was refused");
        }
    }
}

__attribute__((noinline)) void step_some(struct crowd *crowd, uint64_t steps)
{
    for (uint64_t moved = 0; moved < steps;) {
        int wait_ms = daruma_retry_next_timeout_ms(&crowd->world.loop);
        if (wait_ms < 0) {
            bench_give_up("nothing is pending any more");
        }
        crowd->world.now_ms += wait_ms;
        moved += daruma_retry_tick(&crowd->world.loop);
        crowd->ticks++;
        crowd->moved = moved;
    }
}

__attribute__((noinline)) void cancel_all(struct crowd *crowd)
{
    size_t at = 0;

    for (size_t i = 0; i < crowd->count; i++) {
        if (!daruma_retry_async_cancel(&crowd->ops[at])) {
            bench_give_up("an operation could not be cancelled");
        }
        at = (at + STRIDE_PRIME) % crowd->count;
    }
}

__attribute__((noinline)) void deliver_all(struct crowd *crowd)
{
    (void)daruma_retry_tick(&crowd->world.loop); /* `ended` says how many */
}

static uint64_t resident_bytes(void)
{
    FILE *statm = fopen("/proc/self/statm", "r");
    uint64_t total, resident;

    if (statm == NULL || fscanf(statm, "%" SCNu64 " %" SCNu64, &total, &resident) != 2) {
        bench_give_up("/proc/self/statm cannot be read");
    }
    (void)fclose(statm); /* only read */
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

struct figures {
    int64_t start_ns, step_ns, cancel_ns, done_ns;
    uint64_t bytes, moved, ticks;
};

static void measure_crowd(size_t count, uint64_t steps, struct figures *sum)
{
    struct crowd crowd;
    uint64_t bytes_before = resident_bytes();

    crowd_init(&crowd, count);
    int64_t at_ns = bench_now_ns();
    start_all(&crowd);
    sum->start_ns += bench_now_ns() - at_ns;
    if (sum->bytes == 0) {
        sum->bytes = resident_bytes() - bytes_before; /* of the first: later ones find it warm */
    }
    at_ns = bench_now_ns();
    step_some(&crowd, steps);
    sum->step_ns += bench_now_ns() - at_ns;
    at_ns = bench_now_ns();
    cancel_all(&crowd);
    sum->cancel_ns += bench_now_ns() - at_ns;
    at_ns = bench_now_ns();
    deliver_all(&crowd);
    sum->done_ns += bench_now_ns() - at_ns;
    if (crowd.world.ended != count || crowd.world.loop.count != 0) {
        bench_give_up("not every operation ended once, as cancelled");
    }
    sum->moved += crowd.moved;
    sum->ticks += crowd.ticks;
    free(crowd.ops);
}

int main(int argc, char **argv)
{
    uint64_t count = bench_number(argc, argv, "--count", 1000000);
    uint64_t steps = bench_number(argc, argv, "--steps", 200000);
    uint64_t rounds = bench_number(argc, argv, "--rounds", 1);
    struct figures sum = {0};

    if (count == 0 || count % STRIDE_PRIME == 0 || steps == 0 || rounds == 0) {
        bench_give_up("count, steps and rounds must be above 0");
    }
    for (uint64_t i = 0; i < rounds; i++) {
        measure_crowd(count, steps, &sum);
    }
    double all = (double)count * (double)rounds, moved = (double)sum.moved;
    (void)printf("%" PRIu64 " %zu %.1f %.1f %.1f %.1f %.1f %.3f\n", count,
                 sizeof(struct daruma_retry_op), (double)sum.bytes / (double)count,
                 (double)sum.start_ns / all, (double)sum.step_ns / moved,
                 (double)sum.cancel_ns / all, (double)sum.done_ns / all, moved / (double)sum.ticks);
    return 0;
}
