/* SPDX-License-Identifier: MIT
 *
 * Properties of retries, whatever the policy: random backoffs, bounds, hints and deadlines are
 * driven through daruma_retry, with a clock and a sleep that only count, and through
 * daruma_policy_next. After each decision:
 *
 *   - the wait is not above the cap (or the hint that asks for more), and not above the limit;
 *   - it is not early against the hint, up to the hint's own cap;
 *   - it does not reach the deadline;
 *   - there are no more calls than allowed;
 *   - the same seed gives the same waits, in either form.
 *
 * DARUMA_PROPERTY_RUNS cases from DARUMA_SEED; a failure prints both.
 */
#include "harness.h"

#include <daruma/env.h>
#include <daruma/policy.h>
#include <daruma/retry.h>

#include <stdio.h>
#include <string.h>

#define LIMIT_MS    ((uint64_t)DARUMA_BACKOFF_LIMIT_MS)
#define CALLS_MAX   40
#define SPREAD_RUNS 200

/* One retried call: what it is asked to do, what it does, and what came of it. */
struct world {
    uint64_t number; /* of the case, for people */
    struct daruma_backoff_options backoff;
    uint64_t schedule_ms[DARUMA_BACKOFF_SCHEDULE_MAX];
    uint64_t cap_ms;
    uint64_t hint_cap_ms;
    uint32_t max_retries;
    uint32_t calls_max;
    int64_t start_ms, timeout_ms;
    int64_t hint_ms[CALLS_MAX]; /* what each call says */
    uint64_t takes_ms[CALLS_MAX];
    uint32_t succeeds_at; /* 0: never */
    uint64_t seed;
    /* While it runs. */
    int64_t now_ms;
    uint32_t calls, waits;
    uint64_t wait_ms[CALLS_MAX];
    bool late; /* the deadline has passed during a call */
};

static void show_and_fail(const struct world *world, const char *claim, int line)
{
    const struct daruma_backoff_options *backoff = &world->backoff;

    printf("line %d: %s\n", line, claim);
    printf(
        "DARUMA_SEED=%llu case %llu: kind %d jitter %d factor %g base %lld cap %llu doublings %u\n",
        (unsigned long long)harness_seed(), (unsigned long long)world->number, backoff->kind,
        backoff->jitter, backoff->jitter_factor, (long long)backoff->base_ms,
        (unsigned long long)world->cap_ms, backoff->doublings);
    printf("retries %u calls %u waits %u timeout %lld now %lld\n", world->max_retries, world->calls,
           world->waits, (long long)world->timeout_ms, (long long)world->now_ms);
    for (uint32_t i = 0; i < world->waits && i < CALLS_MAX; i++) {
        printf("  wait %u: %llu ms, hint %lld, call took %llu\n", i + 1,
               (unsigned long long)world->wait_ms[i], (long long)world->hint_ms[i],
               (unsigned long long)world->takes_ms[i]);
    }
    fail_msg("%s", claim);
}

#define HOLDS(world, claim)                                                                        \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            show_and_fail((world), #claim, __LINE__);                                              \
        }                                                                                          \
    } while (0)

/* Small and large numbers alike: first how many bits, then the bits. */
static uint64_t roll_up_to(struct daruma_dice *dice, uint64_t most)
{
    uint64_t bits = daruma_dice_roll(dice) % 64;

    return (daruma_dice_roll(dice) >> (63 - bits)) % (most == UINT64_MAX ? most : most + 1);
}

static bool roll_one_in(struct daruma_dice *dice, uint64_t sides)
{
    return daruma_dice_roll(dice) % sides == 0;
}

/* A valid backoff, and the cap that its waits must keep, worked out here once more. */
static void roll_backoff(struct daruma_dice *dice, struct world *world)
{
    struct daruma_backoff_options *backoff = &world->backoff;
    uint64_t most = roll_one_in(dice, 4) ? LIMIT_MS : UINT32_MAX;

    backoff->kind = (enum daruma_backoff_kind)(daruma_dice_roll(dice) % 5);
    backoff->jitter = (enum daruma_jitter)(daruma_dice_roll(dice) % 6);
    backoff->jitter_factor =
        roll_one_in(dice, 3) ? 0 : (double)(daruma_dice_roll(dice) % 1001) / 1000;
    backoff->base_ms = (int64_t)roll_up_to(dice, most);
    backoff->doublings = (uint32_t)roll_up_to(dice, UINT32_MAX);
    uint64_t base_ms = backoff->base_ms == 0 ? DARUMA_BACKOFF_BASE_MS : (uint64_t)backoff->base_ms;
    if (roll_one_in(dice, 3)) {
        world->cap_ms = base_ms > DARUMA_BACKOFF_MAX_MS ? base_ms : DARUMA_BACKOFF_MAX_MS;
    } else {
        world->cap_ms = base_ms + roll_up_to(dice, LIMIT_MS - base_ms);
        backoff->max_ms = (int64_t)world->cap_ms;
    }
    if (backoff->kind != DARUMA_BACKOFF_SCHEDULE) {
        return;
    }
    uint64_t longest = 0;
    backoff->schedule_ms = world->schedule_ms;
    backoff->schedule_count = 1 + (uint32_t)roll_up_to(dice, DARUMA_BACKOFF_SCHEDULE_MAX - 1);
    for (uint32_t i = 0; i < backoff->schedule_count; i++) {
        world->schedule_ms[i] = roll_up_to(dice, most);
        longest = world->schedule_ms[i] > longest ? world->schedule_ms[i] : longest;
    }
    world->cap_ms = backoff->max_ms == 0 ? longest : world->cap_ms;
}

static void roll_world(struct daruma_dice *dice, uint64_t number, struct world *world)
{
    *world = (struct world){.number = number, .hint_cap_ms = DARUMA_HINT_CAP_MS};
    roll_backoff(dice, world);
    world->max_retries = (uint32_t)roll_up_to(dice, CALLS_MAX - 1);
    world->calls_max = (world->max_retries == 0 ? DARUMA_MAX_RETRIES : world->max_retries) + 1;
    if (roll_one_in(dice, 16)) {
        world->max_retries = DARUMA_NO_RETRIES;
        world->calls_max = 1;
    }
    world->start_ms = (int64_t)roll_up_to(dice, LIMIT_MS);
    world->timeout_ms = roll_one_in(dice, 2) ? 0 : (int64_t)roll_up_to(dice, LIMIT_MS);
    for (int i = 0; i < CALLS_MAX; i++) {
        world->takes_ms[i] = roll_one_in(dice, 2) ? 0 : roll_up_to(dice, 60000);
        if (roll_one_in(dice, 4)) {
            world->hint_ms[i] = (int64_t)daruma_dice_roll(dice) >> (daruma_dice_roll(dice) % 64);
        }
    }
    world->succeeds_at = roll_one_in(dice, 4) ? (uint32_t)(daruma_dice_roll(dice) % CALLS_MAX) : 0;
    world->seed = daruma_dice_roll(dice);
}

/* The properties of one wait, chosen after call number world->calls. */
static void check_wait(struct world *world, uint64_t wait_ms)
{
    int64_t hint_ms = world->hint_ms[world->calls - 1];
    uint64_t floor_ms = hint_ms > 0 ? (uint64_t)hint_ms : 0;

    if (floor_ms > world->hint_cap_ms) {
        floor_ms = world->hint_cap_ms;
    }
    world->wait_ms[world->waits++] = wait_ms;
    HOLDS(world, world->calls < world->calls_max);
    HOLDS(world, wait_ms <= LIMIT_MS);
    HOLDS(world, wait_ms >= floor_ms);
    HOLDS(world, wait_ms <= world->cap_ms || wait_ms == floor_ms);
    if (world->timeout_ms != 0) {
        HOLDS(world, !world->late);
        HOLDS(world, (int64_t)wait_ms < world->start_ms + world->timeout_ms - world->now_ms);
    }
    world->now_ms += (int64_t)wait_ms;
}

static int64_t world_now(void *user)
{
    return ((struct world *)user)->now_ms;
}

static int world_sleep(void *user, uint64_t wait_ms)
{
    check_wait(user, wait_ms);
    return 0;
}

/* Time goes by in a call; it may take it past the deadline, which no wait may. */
static void make_call(struct world *world)
{
    HOLDS(world, world->calls < world->calls_max);
    HOLDS(world, world->waits == world->calls); /* every call but the first was waited for */
    world->now_ms += (int64_t)world->takes_ms[world->calls];
    world->calls++;
    world->late = world->now_ms >= world->start_ms + world->timeout_ms;
}

static int world_call(void *user, const struct daruma_attempt *attempt,
                      struct daruma_error *ret_error)
{
    struct world *world = user;

    make_call(world);
    HOLDS(world, attempt->number == world->calls);
    ret_error->retry_after_ms = world->hint_ms[world->calls - 1];
    return world->calls == world->succeeds_at ? 0 : 75;
}

static void run_retry(struct world *world)
{
    struct daruma_dice dice = daruma_dice_seed(world->seed);
    struct daruma_env env = {
        .now_ms = world_now, .sleep_ms = world_sleep, .dice = &dice, .user = world};
    struct daruma_retry_options options = {
        .max_retries = world->max_retries, .timeout_ms = world->timeout_ms, .env = &env};

    world->now_ms = world->start_ms;
    world->calls = world->waits = 0;
    world->late = false;
    HOLDS(world, daruma_backoff_create(&world->backoff, &options.backoff, NULL) == 0);
    int code = daruma_retry(world_call, world, &options, NULL);
    bool succeeded = world->succeeds_at != 0 && world->calls == world->succeeds_at;
    HOLDS(world, code == (succeeded ? 0 : 75));
    HOLDS(world, world->waits == world->calls - 1);
    if (!succeeded && world->timeout_ms == 0) {
        HOLDS(world, world->calls == world->calls_max); /* nothing is given up early either */
    }
}

static void a_retry_keeps_its_bounds_whatever_the_options(void **state) /* B1, B5, B6 */
{
    struct daruma_dice dice = daruma_dice_seed(harness_seed());
    uint64_t runs = harness_size("DARUMA_PROPERTY_RUNS", 20000);
    struct world world;

    (void)state;
    for (uint64_t i = 0; i < runs; i++) {
        roll_world(&dice, i, &world);
        run_retry(&world);
    }
}

static void the_same_seed_gives_the_same_waits(void **state)
{
    struct daruma_dice dice = daruma_dice_seed(harness_seed() + 1);
    uint64_t runs = harness_size("DARUMA_PROPERTY_RUNS", 20000) / 4;
    struct world world, again;

    (void)state;
    for (uint64_t i = 0; i < runs; i++) {
        roll_world(&dice, i, &world);
        again = world;
        again.backoff.schedule_ms = again.schedule_ms;
        run_retry(&world);
        run_retry(&again);
        HOLDS(&again, again.waits == world.waits);
        HOLDS(&again, memcmp(again.wait_ms, world.wait_ms, sizeof world.wait_ms) == 0);
        HOLDS(&again, again.now_ms == world.now_ms);
    }
}

/* The same case through the core: the policy whose only rule is that backoff. */
static void run_policy(struct world *world, const struct daruma_policy *policy,
                       const enum daruma_class *classes)
{
    struct daruma_dice dice = daruma_dice_seed(world->seed);
    struct daruma_policy_state progress = {0};
    struct daruma_decision decision;

    world->now_ms = world->start_ms;
    world->calls = world->waits = 0;
    world->late = false;
    if (world->timeout_ms != 0) {
        progress.deadline_ms = world->start_ms + world->timeout_ms;
    }
    for (;;) {
        make_call(world);
        if (world->calls == world->succeeds_at) {
            return;
        }
        struct daruma_outcome outcome = {.error_class = classes[world->calls - 1],
                                         .hint_ms = world->hint_ms[world->calls - 1]};
        decision =
            daruma_policy_next(policy, &progress, &outcome, world->now_ms, daruma_dice_roll(&dice));
        HOLDS(world, progress.attempts == world->calls);
        if (decision.stop != DARUMA_STOP_NONE) {
            HOLDS(world, decision.wait_ms == 0);
            return;
        }
        check_wait(world, decision.wait_ms);
    }
}

/* What daruma_backoff_options leaves out means something else in a policy: write it down. */
static struct daruma_policy policy_of(struct world *world)
{
    struct daruma_policy_options options = {.max_attempts = world->calls_max};
    struct daruma_rule_options *rule = &options.rules[DARUMA_CLASS_TRANSIENT];
    struct daruma_backoff backoff;
    struct daruma_policy policy;

    HOLDS(world, daruma_backoff_create(&world->backoff, &backoff, NULL) == 0);
    rule->given = true;
    HOLDS(world, daruma_policy_create(&options, &policy, NULL) == 0);
    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        policy.rules[i].backoff = backoff;
    }
    return policy;
}

static void both_forms_choose_the_same_waits(void **state)
{
    static const enum daruma_class transient[CALLS_MAX];
    struct daruma_dice dice = daruma_dice_seed(harness_seed() + 2);
    uint64_t runs = harness_size("DARUMA_PROPERTY_RUNS", 20000) / 4;
    struct world world, core;

    (void)state;
    for (uint64_t i = 0; i < runs; i++) {
        roll_world(&dice, i, &world);
        if (world.backoff.jitter == DARUMA_JITTER_DECORRELATED && world.cap_ms > UINT32_MAX) {
            continue; /* daruma_retry remembers the last wait up to 49 days */
        }
        core = world;
        core.backoff.schedule_ms = core.schedule_ms;
        struct daruma_policy policy = policy_of(&core);
        run_retry(&world);
        run_policy(&core, &policy, transient);
        HOLDS(&core, core.calls == world.calls);
        HOLDS(&core, core.waits == world.waits);
        HOLDS(&core, memcmp(core.wait_ms, world.wait_ms, sizeof world.wait_ms) == 0);
    }
}

/* Policies with rules of their own for some classes, failing in any mix of classes. */
static void roll_policy(struct daruma_dice *dice, struct world *rules,
                        struct daruma_policy_options *options)
{
    *options =
        (struct daruma_policy_options){.max_attempts = (uint32_t)roll_up_to(dice, CALLS_MAX)};
    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        struct daruma_rule_options *rule = &options->rules[i];
        rules[i] = (struct world){0};
        if (roll_one_in(dice, 2)) {
            roll_backoff(dice, &rules[i]);
            rule->given = true;
            rule->max_attempts = (uint32_t)roll_up_to(dice, 12);
            rule->hint_cap_ms = (int64_t)roll_up_to(dice, LIMIT_MS);
            rules[i].backoff.base_ms += rules[i].backoff.base_ms == 0;
            rule->backoff = rules[i].backoff;
        }
    }
}

static bool is_retried_by_nature(int error_class)
{
    return error_class <= DARUMA_CLASS_QUOTA;
}

/* The cap a class must keep: that of its own rule, of the transient one, or a policy's default. */
static uint64_t cap_of(const struct daruma_policy_options *options, const struct world *rules,
                       int error_class)
{
    int chosen = options->rules[error_class].given ? error_class : DARUMA_CLASS_TRANSIENT;
    const struct daruma_backoff_options *backoff = &rules[chosen].backoff;

    if (!options->rules[chosen].given) {
        return DARUMA_POLICY_CAP_MS;
    }
    if (backoff->max_ms != 0 || backoff->kind == DARUMA_BACKOFF_SCHEDULE) {
        return rules[chosen].cap_ms;
    }
    return backoff->base_ms > DARUMA_POLICY_CAP_MS ? (uint64_t)backoff->base_ms
                                                   : DARUMA_POLICY_CAP_MS;
}

static uint64_t hint_cap_of(const struct daruma_policy_options *options, int error_class)
{
    int chosen = options->rules[error_class].given ? error_class : DARUMA_CLASS_TRANSIENT;
    int64_t cap_ms = options->rules[chosen].given ? options->rules[chosen].hint_cap_ms : 0;

    return cap_ms == 0 ? DARUMA_HINT_CAP_MS : (uint64_t)cap_ms;
}

static void a_policy_keeps_its_bounds_whatever_the_mix_of_classes(void **state)
{
    struct daruma_dice dice = daruma_dice_seed(harness_seed() + 3);
    uint64_t runs = harness_size("DARUMA_PROPERTY_RUNS", 20000);
    static struct world world, rules[DARUMA_CLASS_COUNT];
    struct daruma_policy_options options;
    struct daruma_policy policy;

    (void)state;
    for (uint64_t i = 0; i < runs; i++) {
        struct daruma_policy_state progress = {0};
        uint32_t counts[DARUMA_CLASS_COUNT] = {0};
        roll_world(&dice, i, &world);
        roll_policy(&dice, rules, &options);
        world.calls_max = options.max_attempts == 0 ? 10 : options.max_attempts;
        HOLDS(&world, daruma_policy_create(&options, &policy, NULL) == 0);
        world.now_ms = world.start_ms;
        progress.deadline_ms = world.timeout_ms == 0 ? 0 : world.start_ms + world.timeout_ms;
        for (;;) {
            int error_class = (int)(daruma_dice_roll(&dice) % DARUMA_CLASS_COUNT);
            make_call(&world);
            counts[error_class]++;
            struct daruma_outcome outcome = {.error_class = (enum daruma_class)error_class,
                                             .hint_ms = world.hint_ms[world.calls - 1]};
            struct daruma_decision decision = daruma_policy_next(
                &policy, &progress, &outcome, world.now_ms, daruma_dice_roll(&dice));
            if (decision.stop != DARUMA_STOP_NONE) {
                break;
            }
            uint32_t bound = policy.rules[error_class].attempts_max;
            world.cap_ms = cap_of(&options, rules, error_class);
            world.hint_cap_ms = hint_cap_of(&options, error_class);
            world.backoff = rules[error_class].backoff;
            HOLDS(&world, bound == 0 || counts[error_class] < bound);
            HOLDS(&world, is_retried_by_nature(error_class) || options.rules[error_class].given);
            check_wait(&world, decision.wait_ms);
        }
    }
}

/* A backoff whose every further wait is planned at its cap. */
static void roll_capped(struct daruma_dice *dice, struct world *world)
{
    struct daruma_backoff_options *backoff = &world->backoff;

    world->cap_ms = 50 + roll_up_to(dice, LIMIT_MS - 50);
    backoff->kind = (enum daruma_backoff_kind)(daruma_dice_roll(dice) % 5);
    backoff->jitter =
        (enum daruma_jitter)(DARUMA_JITTER_FACTOR + (int)(daruma_dice_roll(dice) % 4));
    backoff->jitter_factor = 0.1 + (double)(daruma_dice_roll(dice) % 901) / 1000;
    backoff->max_ms = (int64_t)world->cap_ms;
    backoff->base_ms = 1 + (int64_t)roll_up_to(dice, world->cap_ms / 2 - 1);
    if (backoff->kind == DARUMA_BACKOFF_FIXED && backoff->jitter != DARUMA_JITTER_DECORRELATED) {
        backoff->base_ms = backoff->max_ms;
    }
    backoff->doublings = 50;
    backoff->schedule_ms = world->schedule_ms;
    backoff->schedule_count = 1;
    world->schedule_ms[0] = world->cap_ms;
    world->seed = daruma_dice_roll(dice);
}

static void delays_at_the_cap_are_spread_and_not_above_it(void **state) /* B1 */
{
    struct daruma_dice dice = daruma_dice_seed(harness_seed() + 4);
    uint64_t runs = harness_size("DARUMA_PROPERTY_RUNS", 20000) / 10;
    struct world world;

    (void)state;
    for (uint64_t i = 0; i < runs; i++) {
        struct daruma_backoff backoff;
        uint64_t least = UINT64_MAX, most = 0;
        uint32_t attempt = UINT32_MAX;
        world = (struct world){.number = i};
        roll_capped(&dice, &world);
        HOLDS(&world, daruma_backoff_create(&world.backoff, &backoff, NULL) == 0);
        if (backoff.kind == DARUMA_BACKOFF_LINEAR && world.cap_ms > UINT32_MAX) {
            backoff.base_ms = world.cap_ms / 2; /* a small one would need more attempts */
        }
        struct daruma_dice rolls = daruma_dice_seed(world.seed);
        for (int j = 0; j < SPREAD_RUNS; j++) {
            uint64_t delay =
                daruma_backoff_delay_ms(&backoff, attempt - (uint32_t)j, world.cap_ms, &rolls);
            least = delay < least ? delay : least;
            most = delay > most ? delay : most;
        }
        HOLDS(&world, most <= world.cap_ms);
        HOLDS(&world, least < most);
        HOLDS(&world, most - least >= world.cap_ms / 20); /* a tenth of jitter, half of it seen */
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_retry_keeps_its_bounds_whatever_the_options),
        cmocka_unit_test(the_same_seed_gives_the_same_waits),
        cmocka_unit_test(both_forms_choose_the_same_waits),
        cmocka_unit_test(a_policy_keeps_its_bounds_whatever_the_mix_of_classes),
        cmocka_unit_test(delays_at_the_cap_are_spread_and_not_above_it),
    };
    return HARNESS_RUN(argc, argv, tests);
}
