/* SPDX-License-Identifier: MIT
 *
 * modes -- see modes.h. Each loop does nothing but its call and an addition, so what differs between
 * two modes is what the library adds. The called function reads one number and returns it: it has
 * no chain from call to call that could hide the cost of what is around it.
 */
#include "modes.h"
#include "bench.h"

#include <daruma/breaker.h>
#include <daruma/budget.h>
#include <daruma/env.h>
#include <daruma/retry.h>

#include <string.h>
#include <unistd.h>

#define GUARDED_TIMEOUT_MS 30000

static struct daruma_budget budget;
static struct daruma_breaker breaker;
static const struct daruma_retry_options options_default;
static const struct daruma_retry_options options_own = {
    .max_retries = 5, .backoff = {.jitter = DARUMA_JITTER_FULL, .base_ms = 50, .max_ms = 2000}};
static const struct daruma_retry_options options_guarded = {
    .budget = &budget, .breaker = &breaker, .timeout_ms = GUARDED_TIMEOUT_MS};
static int answer;

static int succeed(void *user, const struct daruma_attempt *attempt, struct daruma_error *ret_error)
{
    (void)attempt;
    (void)ret_error;
    return *(const int *)user;
}

static int succeed_by_system_call(void *user, const struct daruma_attempt *attempt,
                                  struct daruma_error *ret_error)
{
    (void)getppid();
    return succeed(user, attempt, ret_error);
}

static struct daruma_result succeed_with_result(void *user, const struct daruma_attempt *attempt)
{
    (void)attempt;
    return (struct daruma_result){.value = user};
}

/* Volatile, so that no compiler can know what is called; read once, so that it costs nothing. */
static daruma_call_fn volatile call_hidden = succeed;
static daruma_call_fn volatile control_hidden = succeed_by_system_call;
static daruma_result_fn volatile result_hidden = succeed_with_result;

static uint64_t run_bare(const struct mode *mode, uint64_t calls)
{
    daruma_call_fn call = call_hidden;
    struct daruma_attempt attempt = {.number = 1};
    struct daruma_error error = {0};
    uint64_t failures = 0;

    (void)mode;
    for (uint64_t i = 0; i < calls; i++) {
        failures += call(&answer, &attempt, &error) != 0;
    }
    return failures;
}

static uint64_t run_bare_result(const struct mode *mode, uint64_t calls)
{
    daruma_result_fn call = result_hidden;
    struct daruma_attempt attempt = {.number = 1};
    uint64_t failures = 0;

    (void)mode;
    for (uint64_t i = 0; i < calls; i++) {
        failures += call(&answer, &attempt).failed;
    }
    return failures;
}

static uint64_t run_clock(const struct mode *mode, uint64_t calls)
{
    uint64_t failures = 0;

    (void)mode;
    for (uint64_t i = 0; i < calls; i++) {
        failures += daruma_now_ms() < 0;
    }
    return failures;
}

static uint64_t run_retry(const struct mode *mode, uint64_t calls)
{
    daruma_call_fn call = call_hidden;
    const struct daruma_retry_options *options = mode->options;
    uint64_t failures = 0;

    for (uint64_t i = 0; i < calls; i++) {
        failures += daruma_retry(call, &answer, options, NULL) != 0;
    }
    return failures;
}

static uint64_t run_result(const struct mode *mode, uint64_t calls)
{
    daruma_result_fn call = result_hidden;
    const struct daruma_retry_options *options = mode->options;
    uint64_t failures = 0;

    for (uint64_t i = 0; i < calls; i++) {
        failures += daruma_retry_result(call, &answer, options).failed;
    }
    return failures;
}

static uint64_t run_control(const struct mode *mode, uint64_t calls)
{
    daruma_call_fn call = control_hidden;
    const struct daruma_retry_options *options = mode->options;
    uint64_t failures = 0;

    for (uint64_t i = 0; i < calls; i++) {
        failures += daruma_retry(call, &answer, options, NULL) != 0;
    }
    return failures;
}

static const struct mode modes[] = {
    {"bare", run_bare, NULL},
    {"bare_result", run_bare_result, NULL},
    {"clock", run_clock, NULL},
    {"retry", run_retry, NULL},
    {"retry_options", run_retry, &options_default},
    {"retry_own", run_retry, &options_own},
    {"guarded", run_retry, &options_guarded},
    {"result", run_result, NULL},
    {"control", run_control, NULL},
};

const struct mode *modes_open(size_t *ret_count)
{
    if (daruma_budget_init(&budget, NULL, NULL) != 0 ||
        daruma_breaker_init(&breaker, NULL, NULL) != 0) {
        bench_give_up("the guards could not be set up");
    }
    *ret_count = sizeof modes / sizeof *modes;
    return modes;
}

const struct mode *modes_find(const char *name)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(modes[i].name, name) == 0) {
            return &modes[i];
        }
    }
    bench_give_up("there is no such mode");
}
