/* SPDX-License-Identifier: MIT
 *
 * The library does not allocate: one scenario goes through every public function and nothing asks
 * for memory. Calls from our own objects are counted by alloc_fail; where a sanitizer watches the
 * heap, what libc allocates on our behalf is counted too. And alloc_fail itself, which later parts
 * of the project lean on, is shown to refuse what it should.
 */
#include "harness.h"
#include "alloc_fail.h"
#include "fake.h"

#include <daruma/backoff.h>
#include <daruma/breaker.h>
#include <daruma/budget.h>
#include <daruma/cancel.h>
#include <daruma/dice.h>
#include <daruma/gate.h>
#include <daruma/log.h>
#include <daruma/policy.h>
#include <daruma/result.h>
#include <daruma/retry_after.h>
#include <daruma/trail.h>
#include <daruma/version.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WATCHED_BY_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WATCHED_BY_SANITIZER 1
#endif

static uint64_t watched_count; /* allocations anywhere in the process, where that can be known */

#ifdef WATCHED_BY_SANITIZER
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));

static void count_malloc(const volatile void *memory, size_t size)
{
    (void)memory;
    (void)size;
    watched_count++;
}

static void ignore_free(const volatile void *memory)
{
    (void)memory;
}

static void watch_heap(void)
{
    assert_true(__sanitizer_install_malloc_and_free_hooks(count_malloc, ignore_free) > 0);
}
#else
static void watch_heap(void)
{
}
#endif

/* Results are looked at by other tests; here it is only seen to that they are computed. */
static volatile uint64_t looked_at;

static void look(uint64_t value)
{
    looked_at += value;
}

static void use_results(void)
{
    struct daruma_result success = daruma_success(NULL);
    struct daruma_result failure = daruma_failure(daruma_system_error("broken"));

    look(daruma_is_failure(&success) + daruma_is_success(&failure));
    look((uint64_t)daruma_error_of(DARUMA_TIMED_OUT, NULL).code);
    look((uint64_t)daruma_code_text(DARUMA_INVALID)[0] + (uint64_t)daruma_version()[0]);
}

static void sink_length(void *user, enum daruma_log_level level, const char *line, size_t length)
{
    (void)user;
    (void)level;
    (void)line;
    look(length);
}

static void use_log(void)
{
    for (int form = DARUMA_LOG_KV; form <= DARUMA_LOG_TEXT; form++) {
        struct daruma_logger logger = {.form = (enum daruma_log_form)form, .sink = sink_length};
        static char longest[2 * DARUMA_LOG_LINE_MAX];
        enum daruma_log_level level;

        memset(longest, 'x', sizeof longest - 1);
        daruma_log_set_level(&logger, DARUMA_LOG_DEBUG);
        look(daruma_log_is_on(&logger, DARUMA_LOG_INFO));
        DARUMA_LOG(&logger, DARUMA_LOG_WARN, "retrying", daruma_log_text("why", "a \"b\"\n"),
                   daruma_log_bytes("bytes", "\xff\x01", 2), daruma_log_int("int", INT64_MIN),
                   daruma_log_uint("uint", UINT64_MAX), daruma_log_real("real", 1.0 / 3),
                   daruma_log_real("large", 1e300), daruma_log_bool("bool", true),
                   daruma_log_text("long", longest));
        daruma_log_write(NULL, DARUMA_LOG_ERROR, "nothing", NULL, 0);
        look(daruma_log_level_parse("warn", &level) + (uint64_t)daruma_log_level_text(level)[0]);
    }
    daruma_log_to_fd((void *)(intptr_t)-1, DARUMA_LOG_INFO, "to nowhere", 10);
}

static void use_backoff_and_dice(void)
{
    struct daruma_dice dice = daruma_dice_seed(7);
    struct daruma_backoff backoff;
    struct daruma_backoff_options bad = {.base_ms = -1};
    struct daruma_error error;

    look((uint64_t)daruma_backoff_create(NULL, &backoff, &error));
    look((uint64_t)daruma_backoff_create(&bad, &backoff, &error));
    look((uint64_t)daruma_backoff_check(&backoff, &error));
    look(daruma_backoff_delay_ms(&backoff, 3, 0, &dice));
    look(daruma_backoff_draw_ms(NULL, 3, 0, daruma_dice_roll(NULL)));
    backoff = daruma_backoff_exponential(5);
    backoff = daruma_backoff_exponential_jitter(5, 9, 0.5);
    look(daruma_backoff_delay_ms(&backoff, UINT32_MAX, 0, NULL));
}

static void use_policies(void)
{
    enum daruma_class error_class;

    for (uint32_t i = 0; daruma_policy_name(i) != NULL; i++) {
        struct daruma_policy policy;
        struct daruma_policy_state state = {0};
        struct daruma_error error;
        look((uint64_t)daruma_policy_create(daruma_policy_named(daruma_policy_name(i)), &policy,
                                            &error));
        for (int j = 0; j < 12; j++) {
            struct daruma_outcome outcome = {.error_class = DARUMA_CLASS_RATE_LIMITED,
                                             .hint_ms = 100 * j};
            struct daruma_decision decision =
                daruma_policy_next(&policy, &state, &outcome, FAKE_START_MS, 42);
            look(decision.wait_ms + (uint64_t)daruma_stop_text(decision.stop)[0]);
        }
    }
    look(daruma_class_of_status(429, &error_class) + daruma_class_parse("quota", &error_class));
    look((uint64_t)daruma_class_text(error_class)[0]);
}

static void use_hints(void)
{
    static const char *const fields[][2] = {
        {"Date", "Sun, 15 Nov 2026 10:20:30 GMT"},
        {"Retry-After", "Sunday, 15-Nov-26 10:21:00 GMT"},
        {"retry-after-ms", "1500"},
        {"x-ratelimit-reset-tokens", "6m0s"},
        {"anthropic-ratelimit-requests-reset", "2026-11-15T10:20:30Z"},
        {"x-ratelimit-remaining-tokens", "0"}};
    struct daruma_hint hint;
    int64_t ms = 0;

    daruma_hint_init(&hint, INT64_C(1794738030000));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        daruma_hint_field(&hint, fields[i][0], strlen(fields[i][0]), fields[i][1],
                          strlen(fields[i][1]));
    }
    look((uint64_t)daruma_hint_ms(&hint) + daruma_hint_is_given(&hint));
    look(daruma_retry_after_parse("120", 3, 0, &ms));
    look(daruma_http_date_parse("Sun Nov 15 10:20:30 2026", 24, 0, &ms));
    look(daruma_rfc3339_parse("2026-11-15T10:20:30.5+09:00", 27, &ms));
    look(daruma_duration_parse("1h30m", 5, &ms) + (uint64_t)ms);
}

static struct daruma_result failing_result(void *user, const struct daruma_attempt *attempt)
{
    struct daruma_error error = daruma_system_error("again");

    (void)user;
    error.recoverable = true;
    return attempt->number < 3 ? daruma_failure(error) : daruma_success(NULL);
}

/* Through everything that can be shared, with failures, hints, an open breaker, a spent budget. */
static void use_retries(struct daruma_cancel *cancel)
{
    struct fake_world world;
    struct daruma_budget budget;
    struct daruma_breaker breaker;
    struct daruma_gate gate = {.spread_ms = 5};
    struct daruma_trail_entry entries[4];
    struct daruma_trail trail = {.entries = entries, .capacity = 4};

    look((uint64_t)daruma_budget_init(&budget, NULL, NULL));
    look((uint64_t)daruma_breaker_init(&breaker, NULL, NULL));
    fake_world_init(&world);
    world.options.budget = &budget;
    world.options.breaker = &breaker;
    world.options.gate = &gate;
    world.options.trail = &trail;
    world.options.cancel = cancel;
    world.options.timeout_ms = 1000000;
    world.options.condition = fake_condition;
    for (int i = 0; i < 20; i++) {
        world.call.count = 0;
        world.call.success_at = (uint32_t)i % 5;
        world.call.error.retry_after_ms = i;
        look((uint64_t)fake_world_run(&world));
        struct daruma_result result = daruma_retry_result(failing_result, NULL, &world.options);
        look(result.failed);
    }
}

static void use_shared_parts(void)
{
    struct daruma_budget budget = {0};
    struct daruma_breaker breaker = {0};
    struct daruma_gate gate = {0};
    struct daruma_ticket ticket;
    uint64_t wait_ms;

    daruma_budget_earn(&budget, daruma_now_ms());
    look(daruma_budget_spend(&budget, daruma_now_ms()));
    for (int64_t i = 0; i < 20; i++) {
        if (daruma_breaker_enter(&breaker, i * 300, &ticket, &wait_ms)) {
            daruma_breaker_failed(&breaker, ticket, i * 300, NULL);
        }
    }
    daruma_breaker_succeeded(&breaker, ticket);
    look(daruma_breaker_state(&breaker));
    daruma_gate_hold(&gate, 5, 10);
    look(daruma_gate_wait_ms(&gate, 7));
}

static uint32_t call_generation;

static void async_call(void *user, struct daruma_retry_op *op, const struct daruma_attempt *attempt)
{
    (void)user;
    (void)op;
    call_generation = attempt->generation;
}

static void async_done(void *user, struct daruma_retry_op *op, int code,
                       const struct daruma_error *error)
{
    (void)user;
    (void)op;
    (void)error;
    look((uint64_t)code);
}

static void use_async(void)
{
    struct fake_loop fake;
    struct daruma_retry_options options = {.loop = &fake.loop, .attempt_timeout_ms = 100};
    struct daruma_retry_op ops[40] = {{0}};

    fake_loop_init(&fake, 1);
    for (int i = 0; i < 40; i++) {
        look((uint64_t)daruma_retry_async_start(&ops[i], async_call, NULL, &options, async_done));
        if (i % 3 == 0) {
            look(daruma_retry_async_finish(&ops[i], call_generation, i % 2, NULL));
        } else if (i % 3 == 1) {
            look(daruma_retry_async_cancel(&ops[i]));
        }
        look((uint64_t)daruma_retry_next_timeout_ms(&fake.loop));
    }
    look(fake_loop_run(&fake, 10000));
    look(daruma_retry_tick(&fake.loop));
}

static void no_public_function_allocates(void **state)
{
    struct daruma_cancel cancel;

    (void)state;
    watch_heap();
    uint64_t watched_before = watched_count;
    alloc_fail_start(0);
    int opened = daruma_cancel_open(&cancel);
    use_results();
    use_log();
    use_backoff_and_dice();
    use_policies();
    use_hints();
    use_retries(&cancel);
    use_shared_parts();
    use_async();
    daruma_cancel_now(&cancel);
    look(daruma_cancel_is_set(&cancel) + (uint64_t)daruma_cancel_fd(&cancel));
    use_retries(&cancel);
    daruma_cancel_close(&cancel);
    uint64_t watched_after = watched_count;
    struct alloc_count count = alloc_fail_stop();
    assert_int_equal(opened, 0);
    assert_int_equal(count.asked, 0);
    assert_int_equal(watched_after - watched_before, 0);
}

/* Three allocations, each of which may fail and says so. */
static int careful_scenario(void *user)
{
    int failed = -1;
    void *volatile text = strdup("text"); /* volatile: no compiler may do without them */
    void *volatile more = text == NULL ? NULL : calloc(3, 5);
    void *volatile grown = more == NULL ? NULL : realloc(more, 100);

    (void)user;
    if (grown != NULL) {
        more = grown;
        failed = 0;
    }
    free(more);
    free(text);
    return failed;
}

static void every_allocation_of_a_scenario_is_failed_in_turn(void **state)
{
    struct alloc_report report;

    (void)state;
    assert_true(alloc_fail_drive(careful_scenario, NULL, 100, &report));
    assert_int_equal(report.runs, 4);
    assert_int_equal(report.reported, 3);
    assert_int_equal(report.survived, 0);
}

/* Does without its second allocation. */
static int easy_scenario(void *user)
{
    void *volatile needed = malloc(10);
    void *volatile spare = needed == NULL ? NULL : malloc(1000);

    (void)user;
    free(spare);
    free(needed);
    return needed == NULL ? -1 : 0;
}

static void a_failure_that_is_survived_is_told_apart(void **state)
{
    struct alloc_report report;

    (void)state;
    assert_true(alloc_fail_drive(easy_scenario, NULL, 100, &report));
    assert_int_equal(report.runs, 3);
    assert_int_equal(report.reported, 1);
    assert_int_equal(report.survived, 1);
    assert_false(alloc_fail_drive(easy_scenario, NULL, 2, &report)); /* not through yet */
}

static int broken_scenario(void *user)
{
    (void)user;
    return -1;
}

static void a_scenario_that_fails_by_itself_is_not_passed(void **state)
{
    struct alloc_report report;

    (void)state;
    assert_false(alloc_fail_drive(broken_scenario, NULL, 100, &report));
    assert_int_equal(report.runs, 1);
}

static void only_the_nth_allocation_is_refused_and_only_while_counting(void **state)
{
    void *volatile kept[5];
    struct alloc_count count;

    (void)state;
    alloc_fail_start(2);
    for (int i = 0; i < 4; i++) {
        errno = 0;
        kept[i] = i == 2 ? (void *)strndup("abc", 2) : malloc(8);
        assert_int_equal(kept[i] == NULL, i == 1);
        assert_int_equal(errno == ENOMEM, i == 1);
    }
    count = alloc_fail_stop();
    kept[4] = malloc(8);
    assert_non_null(kept[4]);
    assert_int_equal(count.asked, 4);
    assert_int_equal(count.refused, 1);
    for (int i = 0; i < 5; i++) {
        free(kept[i]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_public_function_allocates),
        cmocka_unit_test(every_allocation_of_a_scenario_is_failed_in_turn),
        cmocka_unit_test(a_failure_that_is_survived_is_told_apart),
        cmocka_unit_test(a_scenario_that_fails_by_itself_is_not_passed),
        cmocka_unit_test(only_the_nth_allocation_is_refused_and_only_while_counting),
    };
    return HARNESS_RUN(argc, argv, tests);
}
