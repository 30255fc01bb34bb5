/* SPDX-License-Identifier: MIT
 *
 * What many threads share, hammered by eight of them: the arithmetic must hold as if they had come
 * one after the other. Runs under the thread sanitizer as well. Each thread does a fixed number of
 * things; time is a number that they move forward themselves. Threads report, the main thread
 * asserts.
 */
#include "harness.h"

#include <daruma/breaker.h>
#include <daruma/budget.h>
#include <daruma/dice.h>
#include <daruma/env.h>
#include <daruma/gate.h>
#include <daruma/log.h>
#include <daruma/retry.h>

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define THREAD_COUNT 8
#define START_MS     INT64_C(1000000)

/* Everything that is shared. */
struct stage {
    int64_t now_ms; /* atomic */
    struct daruma_budget budget;
    struct daruma_breaker breaker;
    struct daruma_gate gate;
    struct daruma_logger logger;
    pthread_barrier_t barrier;
    uint32_t probes[UINT16_MAX + 1]; /* atomic: by generation */
    uint64_t line_count;             /* atomic */
    uint64_t bad_line_count;         /* atomic */
};

struct worker {
    struct stage *stage;
    pthread_t thread;
    struct daruma_dice dice;
    uint64_t count; /* operations to do */
    uint64_t earned, spent, entered, calls, retries, strange;
};

static struct stage stage; /* larger than a stack should carry */

static int64_t now_of(struct stage *from)
{
    return __atomic_load_n(&from->now_ms, __ATOMIC_RELAXED);
}

static void move_time(struct stage *from, uint64_t ms)
{
    (void)__atomic_fetch_add(&from->now_ms, (int64_t)ms, __ATOMIC_RELAXED);
}

static void stage_init(void)
{
    memset(&stage, 0, sizeof stage);
    stage.now_ms = START_MS;
}

/* Runs `run` in every thread and adds up what they report. */
static struct worker run_all(void *(*run)(void *), uint64_t count)
{
    struct worker workers[THREAD_COUNT] = {{0}}, sum = {0};

    assert_int_equal(pthread_barrier_init(&stage.barrier, NULL, THREAD_COUNT), 0);
    for (int i = 0; i < THREAD_COUNT; i++) {
        workers[i].stage = &stage;
        workers[i].count = count;
        workers[i].dice = daruma_dice_seed(harness_seed() + (uint64_t)i);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        sum.earned += workers[i].earned;
        sum.spent += workers[i].spent;
        sum.entered += workers[i].entered;
        sum.calls += workers[i].calls;
        sum.retries += workers[i].retries;
        sum.strange += workers[i].strange;
    }
    assert_int_equal(pthread_barrier_destroy(&stage.barrier), 0);
    return sum;
}

/* One thread of the eight comes back true; all are at the same point. */
static bool meet(struct worker *worker)
{
    return pthread_barrier_wait(&worker->stage->barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
}

static void *budget_run(void *user)
{
    struct worker *worker = user;

    (void)meet(worker); /* all at once */
    for (uint64_t i = 0; i < worker->count; i++) {
        uint64_t bits = daruma_dice_roll(&worker->dice);
        int64_t now_ms = now_of(worker->stage);
        if (bits % 64 == 0) {
            move_time(worker->stage, (bits >> 8) % 40);
        }
        if (bits / 64 % 3 == 0) {
            daruma_budget_earn(&worker->stage->budget, now_ms);
            worker->earned++;
        } else {
            worker->spent += daruma_budget_spend(&worker->stage->budget, now_ms);
        }
    }
    return NULL;
}

static void a_shared_budget_admits_no_more_than_its_bound(void **state)
{
    const struct daruma_budget_options cases[] = {
        {0}, {.ratio = 1, .floor_per_second = DARUMA_BUDGET_NO_FLOOR}, {.floor_per_second = 1000}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stage_init();
        assert_int_equal(daruma_budget_init(&stage.budget, &cases[i], NULL), 0);
        struct worker sum = run_all(budget_run, harness_size("DARUMA_THREAD_RUNS", 20000));
        double ratio = cases[i].ratio == 0 ? DARUMA_BUDGET_RATIO : cases[i].ratio;
        double rate = cases[i].floor_per_second == 0  ? DARUMA_BUDGET_FLOOR_PER_SECOND
                      : cases[i].floor_per_second < 0 ? 0
                                                      : (double)cases[i].floor_per_second;
        double seconds = (double)(stage.now_ms - START_MS) / 1000;
        assert_true((double)sum.spent <= ratio * (double)sum.earned + rate * (seconds + 1));
        assert_true(sum.spent > 0);
    }
}

static void *spend_run(void *user)
{
    struct worker *worker = user;

    (void)meet(worker);
    for (uint64_t i = 0; i < worker->count; i++) {
        worker->spent += daruma_budget_spend(&worker->stage->budget, START_MS);
    }
    return NULL;
}

/* With time standing still there is an exact number, and each retry is taken once. */
static void each_retry_of_a_budget_is_taken_by_one_thread(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct daruma_budget_options options = {.ratio = 1, .floor_per_second = 3000};
        stage_init();
        assert_int_equal(daruma_budget_init(&stage.budget, &options, NULL), 0);
        for (int i = 0; i < 2000; i++) {
            daruma_budget_earn(&stage.budget, START_MS);
        }
        struct worker sum = run_all(spend_run, 2000);
        assert_int_equal(sum.spent, 5000);
    }
}

static void *earn_run(void *user)
{
    struct worker *worker = user;

    (void)meet(worker);
    for (uint64_t i = 0; i < worker->count; i++) {
        daruma_budget_earn(&worker->stage->budget, START_MS);
    }
    return NULL;
}

static void no_success_is_lost_by_a_budget(void **state)
{
    struct daruma_budget_options options = {.ratio = 1, .floor_per_second = DARUMA_BUDGET_NO_FLOOR};
    uint64_t spent = 0;

    (void)state;
    stage_init();
    assert_int_equal(daruma_budget_init(&stage.budget, &options, NULL), 0);
    (void)run_all(earn_run, 5000);
    while (daruma_budget_spend(&stage.budget, START_MS)) {
        spent++;
    }
    assert_int_equal(spent, 5000 * THREAD_COUNT);
}

/* Rounds: the breaker is open and its time is over, all eight come, one goes. */
static void *probe_run(void *user)
{
    struct worker *worker = user;
    struct daruma_breaker *breaker = &worker->stage->breaker;

    for (uint64_t i = 0; i < worker->count; i++) {
        struct daruma_ticket ticket;
        (void)meet(worker);
        int64_t now_ms = now_of(worker->stage);
        bool went = daruma_breaker_enter(breaker, now_ms, &ticket, NULL);
        worker->entered += went;
        worker->strange += went && !ticket.probe;
        if (meet(worker)) {
            move_time(worker->stage, 200000); /* by the next round it is over again */
        }
        if (went) {
            daruma_breaker_failed(breaker, ticket, now_ms, &worker->dice);
        }
    }
    return NULL;
}

static void of_all_callers_exactly_one_is_the_probe(void **state)
{
    uint64_t rounds = harness_size("DARUMA_THREAD_ROUNDS", 300);
    struct daruma_ticket ticket;

    (void)state;
    stage_init();
    for (int i = 0; i < DARUMA_BREAKER_FAILURES_MAX; i++) {
        assert_true(daruma_breaker_enter(&stage.breaker, START_MS, &ticket, NULL));
        daruma_breaker_failed(&stage.breaker, ticket, START_MS, NULL);
    }
    move_time(&stage, 200000);
    struct worker sum = run_all(probe_run, rounds);
    assert_int_equal(sum.entered, rounds);
    assert_int_equal(sum.strange, 0);
    assert_int_equal(daruma_breaker_state(&stage.breaker), DARUMA_BREAKER_IS_OPEN);
}

static void *fail_run(void *user)
{
    struct worker *worker = user;
    struct daruma_breaker *breaker = &worker->stage->breaker;

    (void)meet(worker);
    for (uint64_t i = 0; i < worker->count; i++) {
        struct daruma_ticket ticket;
        worker->entered += daruma_breaker_enter(breaker, START_MS, &ticket, NULL);
        daruma_breaker_failed(breaker, ticket, START_MS, &worker->dice);
    }
    return NULL;
}

static void a_breaker_counts_the_failures_of_all_threads(void **state)
{
    /* So many that threads do meet between a load and its exchange. */
    const uint64_t count = harness_size("DARUMA_THREAD_RUNS", 60000);
    struct daruma_breaker_options options = {.failures_max = (int64_t)count * THREAD_COUNT + 1};
    struct daruma_ticket ticket;

    (void)state;
    stage_init();
    assert_int_equal(daruma_breaker_init(&stage.breaker, &options, NULL), 0);
    struct worker sum = run_all(fail_run, count);
    assert_int_equal(sum.entered, count * THREAD_COUNT);
    assert_int_equal(daruma_breaker_state(&stage.breaker), DARUMA_BREAKER_CLOSED);
    assert_true(daruma_breaker_enter(&stage.breaker, START_MS, &ticket, NULL));
    daruma_breaker_failed(&stage.breaker, ticket, START_MS, NULL);
    assert_int_equal(daruma_breaker_state(&stage.breaker), DARUMA_BREAKER_IS_OPEN);
}

/* Anything at any time; a probe is known by its generation, and nobody else may have it. */
static void *breaker_run(void *user)
{
    struct worker *worker = user;
    struct stage *shared = worker->stage;

    (void)meet(worker);
    for (uint64_t i = 0; i < worker->count; i++) {
        uint64_t bits = daruma_dice_roll(&worker->dice);
        struct daruma_ticket ticket;
        move_time(shared, bits % 2);
        int64_t now_ms = now_of(shared);
        if (!daruma_breaker_enter(&shared->breaker, now_ms, &ticket, NULL)) {
            continue;
        }
        worker->entered++;
        if (ticket.probe) {
            worker->strange +=
                __atomic_fetch_add(&shared->probes[ticket.generation], 1, __ATOMIC_RELAXED) != 0;
        }
        if (bits / 2 % 8 == 0) {
            daruma_breaker_succeeded(&shared->breaker, ticket);
        } else if (bits / 2 % 8 < 7) { /* some never report */
            daruma_breaker_failed(&shared->breaker, ticket, now_ms, &worker->dice);
        }
    }
    return NULL;
}

static void no_two_threads_are_ever_given_the_same_probe(void **state)
{
    struct daruma_breaker_options options = {.open_ms = 20, .open_max_ms = 40};

    (void)state;
    stage_init();
    assert_int_equal(daruma_breaker_init(&stage.breaker, &options, NULL), 0);
    /* Few enough for each generation to come once. */
    struct worker sum = run_all(breaker_run, 7000);
    assert_int_equal(sum.strange, 0);
    assert_true(sum.entered > 0);
}

static void *gate_run(void *user)
{
    struct worker *worker = user;
    uint64_t longest_ms = 0;

    (void)meet(worker);
    for (uint64_t i = 0; i < worker->count; i++) {
        uint64_t hold_ms = daruma_dice_roll(&worker->dice) % (i + 1);
        longest_ms = hold_ms > longest_ms ? hold_ms : longest_ms;
        daruma_gate_hold(&worker->stage->gate, START_MS, hold_ms);
        uint64_t wait_ms = daruma_gate_wait_ms(&worker->stage->gate, START_MS);
        worker->strange += wait_ms < longest_ms;
        longest_ms = wait_ms > longest_ms ? wait_ms : longest_ms; /* seen once, never shorter */
    }
    return NULL;
}

static void no_thread_sees_a_gate_shortened(void **state)
{
    (void)state;
    stage_init();
    struct worker sum = run_all(gate_run, harness_size("DARUMA_THREAD_RUNS", 20000));
    assert_int_equal(sum.strange, 0);
}

static void count_line(void *user, enum daruma_log_level level, const char *line, size_t length)
{
    struct stage *shared = user;
    bool is_good = level >= DARUMA_LOG_INFO && length > 20 && line[0] == '{' &&
                   line[length - 1] == '}' && memchr(line, '\n', length) == NULL;

    (void)__atomic_fetch_add(&shared->line_count, 1, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&shared->bad_line_count, !is_good, __ATOMIC_RELAXED);
}

static void *log_run(void *user)
{
    struct worker *worker = user;
    struct daruma_logger *logger = &worker->stage->logger;

    (void)meet(worker);
    for (uint64_t i = 0; i < worker->count; i++) {
        uint64_t bits = daruma_dice_roll(&worker->dice);
        if (bits % 16 == 0) {
            daruma_log_set_level(logger, bits / 16 % 2 == 0 ? DARUMA_LOG_INFO : DARUMA_LOG_OFF);
        }
        DARUMA_LOG(logger, DARUMA_LOG_DEBUG, "never", daruma_log_uint("i", i));
        DARUMA_LOG(logger, DARUMA_LOG_WARN, "retrying", daruma_log_uint("i", i),
                   daruma_log_text("why", "a\nb\"c"));
    }
    return NULL;
}

static void the_level_may_change_while_others_log(void **state)
{
    (void)state;
    stage_init();
    stage.logger = (struct daruma_logger){
        .level = DARUMA_LOG_INFO, .form = DARUMA_LOG_JSON, .sink = count_line, .sink_user = &stage};
    (void)run_all(log_run, 2000);
    assert_true(stage.line_count > 0);
    assert_int_equal(stage.bad_line_count, 0);
}

/* A retry of one thread: its sleeps move everybody's time. */
static int64_t shared_now_ms(void *user)
{
    return now_of(((struct worker *)user)->stage);
}

static int shared_sleep_ms(void *user, uint64_t delay_ms)
{
    move_time(((struct worker *)user)->stage, delay_ms);
    return 0;
}

static int shared_call(void *user, const struct daruma_attempt *attempt,
                       struct daruma_error *ret_error)
{
    struct worker *worker = user;
    uint64_t bits = daruma_dice_roll(&worker->dice);

    worker->calls++;
    worker->retries += attempt->number > 1;
    if (bits % 4 != 0) {
        worker->earned++;
        return 0;
    }
    ret_error->retry_after_ms = bits / 4 % 8 == 0 ? 50 : 0;
    return 5;
}

static void *retry_run(void *user)
{
    struct worker *worker = user;
    struct stage *shared = worker->stage;
    struct daruma_dice dice = daruma_dice_seed(worker->dice.state + 100);
    struct daruma_env env = {
        .now_ms = shared_now_ms, .sleep_ms = shared_sleep_ms, .dice = &dice, .user = worker};
    struct daruma_retry_options options = {.backoff = daruma_backoff_exponential(1),
                                           .timeout_ms = 86400000, /* others move the time */
                                           .env = &env,
                                           .budget = &shared->budget,
                                           .breaker = &shared->breaker,
                                           .gate = &shared->gate};

    (void)meet(worker);
    for (uint64_t i = 0; i < worker->count; i++) {
        int code = daruma_retry(shared_call, worker, &options, NULL);
        worker->strange += code != 0 && code != 5 && code != DARUMA_BREAKER_OPEN;
        move_time(shared, 1);
    }
    return NULL;
}

static void retries_of_many_threads_share_budget_breaker_and_gate(void **state)
{
    (void)state;
    stage_init();
    struct worker sum = run_all(retry_run, 2000);
    double seconds = (double)(stage.now_ms - START_MS) / 1000;
    assert_int_equal(sum.strange, 0);
    assert_true((double)sum.retries <= DARUMA_BUDGET_RATIO * (double)sum.earned +
                                           DARUMA_BUDGET_FLOOR_PER_SECOND * (seconds + 1));
    assert_true(sum.retries > 0 && sum.calls > sum.retries);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_budget_admits_no_more_than_its_bound),
        cmocka_unit_test(each_retry_of_a_budget_is_taken_by_one_thread),
        cmocka_unit_test(no_success_is_lost_by_a_budget),
        cmocka_unit_test(of_all_callers_exactly_one_is_the_probe),
        cmocka_unit_test(a_breaker_counts_the_failures_of_all_threads),
        cmocka_unit_test(no_two_threads_are_ever_given_the_same_probe),
        cmocka_unit_test(no_thread_sees_a_gate_shortened),
        cmocka_unit_test(the_level_may_change_while_others_log),
        cmocka_unit_test(retries_of_many_threads_share_budget_breaker_and_gate),
    };
    return HARNESS_RUN(argc, argv, tests);
}
