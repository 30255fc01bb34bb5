/* SPDX-License-Identifier: MIT
 *
 * policy -- rules per class of error over one decision. Pure: see daruma/policy.h. Refuses bad
 * options once, in daruma_policy_create, so that the decision itself cannot fail.
 */
#include <daruma/policy.h>

#include "core_internal.h"
#include "refuse_internal.h"

#include <string.h>

static const struct {
    const char *word;
    bool again;
} classes[DARUMA_CLASS_COUNT] = {
#define ROW(name, word, again) {word, again},
    DARUMA_CLASS_MAP(ROW)
#undef ROW
};

static const char *const stop_texts[DARUMA_STOP_COUNT] = {
#define ROW(name, text) text,
    DARUMA_STOP_MAP(ROW)
#undef ROW
};

static uint32_t attempt_number(uint64_t attempts)
{
    return attempts > UINT32_MAX ? UINT32_MAX : (uint32_t)attempts;
}

/* A wait that would end at or after the deadline is not worth beginning. */
static bool passes_deadline(const struct core_question *question, uint64_t wait_ms)
{
    if (question->deadline_ms == 0) {
        return false;
    }
    int64_t left_ms = question->deadline_ms - question->now_ms;
    return left_ms <= 0 || wait_ms >= (uint64_t)left_ms;
}

struct daruma_decision daruma_core_decide(const struct core_question *question,
                                          uint64_t *ret_backoff_ms)
{
    if (question->attempts >= question->attempts_max) {
        return (struct daruma_decision){.stop = DARUMA_STOP_ATTEMPTS};
    }
    uint64_t wait_ms = daruma_backoff_draw_ms(question->backoff, attempt_number(question->attempts),
                                              question->previous_ms, question->random);
    *ret_backoff_ms = wait_ms;
    if (wait_ms < question->floor_ms) {
        wait_ms = question->floor_ms;
    }
    if (passes_deadline(question, wait_ms)) {
        return (struct daruma_decision){.stop = DARUMA_STOP_DEADLINE};
    }
    return (struct daruma_decision){.wait_ms = wait_ms};
}

static uint64_t hint_floor_ms(const struct daruma_rule *rule, int64_t hint_ms)
{
    uint64_t hint = hint_ms > 0 ? (uint64_t)hint_ms : 0;

    return hint < rule->hint_cap_ms ? hint : rule->hint_cap_ms;
}

/* A class whose single allowed failure is the first one was never meant to be retried. */
static enum daruma_stop class_stop(const struct daruma_rule *rule, uint32_t count)
{
    if (rule->attempts_max == 0 || count < rule->attempts_max) {
        return DARUMA_STOP_NONE;
    }
    return rule->attempts_max == 1 ? DARUMA_STOP_FINAL : DARUMA_STOP_CLASS;
}

static void count_up(uint32_t *count)
{
    *count += *count < UINT32_MAX;
}

struct daruma_decision daruma_policy_next(const struct daruma_policy *policy,
                                          struct daruma_policy_state *state,
                                          const struct daruma_outcome *outcome, int64_t now_ms,
                                          uint64_t random)
{
    enum daruma_class error_class = outcome->error_class;

    if ((unsigned)error_class >= DARUMA_CLASS_COUNT) {
        error_class = DARUMA_CLASS_TRANSIENT;
    }
    const struct daruma_rule *rule = &policy->rules[error_class];
    count_up(&state->attempts);
    count_up(&state->class_attempts[error_class]);
    enum daruma_stop stop = class_stop(rule, state->class_attempts[error_class]);
    if (stop != DARUMA_STOP_NONE) {
        return (struct daruma_decision){.stop = stop};
    }
    return daruma_core_decide(
        &(struct core_question){
            .backoff = &rule->backoff,
            .attempts_max = policy->attempts_max,
            .attempts = state->attempts,
            .previous_ms = state->previous_ms,
            .floor_ms = hint_floor_ms(rule, outcome->hint_ms),
            .now_ms = now_ms,
            .deadline_ms = state->deadline_ms,
            .random = random,
        },
        &state->previous_ms);
}

/* The defaults of a policy are not those of a bare backoff: its waits outlive processes. */
static struct daruma_backoff_options with_defaults(struct daruma_backoff_options options)
{
    bool is_schedule = options.kind == DARUMA_BACKOFF_SCHEDULE;

    if (options.base_ms == 0) {
        options.base_ms = DARUMA_POLICY_BASE_MS;
    }
    if (options.max_ms == 0 && !is_schedule) {
        options.max_ms =
            options.base_ms > DARUMA_POLICY_CAP_MS ? options.base_ms : DARUMA_POLICY_CAP_MS;
    }
    if (options.jitter == DARUMA_JITTER_DEFAULT && options.jitter_factor == 0) {
        options.jitter = is_schedule || options.kind == DARUMA_BACKOFF_FIXED ? DARUMA_JITTER_NONE
                                                                             : DARUMA_JITTER_FULL;
    }
    return options;
}

static int make_rule(const struct daruma_rule_options *options, struct daruma_rule *ret_rule,
                     struct daruma_error *ret_error)
{
    struct daruma_backoff_options backoff = with_defaults(options->backoff);

    if (options->hint_cap_ms < 0) {
        return refuse(ret_error, "hint_cap_ms: must not be negative");
    }
    if (options->hint_cap_ms > DARUMA_BACKOFF_LIMIT_MS) {
        return refuse(ret_error, "hint_cap_ms: longer than 100 years");
    }
    ret_rule->hint_cap_ms =
        options->hint_cap_ms == 0 ? DARUMA_HINT_CAP_MS : (uint64_t)options->hint_cap_ms;
    ret_rule->attempts_max = options->max_attempts;
    return daruma_backoff_create(&backoff, &ret_rule->backoff, ret_error);
}

/* The rule of a class; the transient one where it has none; what is not given is not looked at. */
static const struct daruma_rule_options *rule_for(const struct daruma_policy_options *options,
                                                  int error_class)
{
    static const struct daruma_rule_options nothing;
    const struct daruma_rule_options *rule = &options->rules[error_class];

    if (!rule->given && classes[error_class].again) {
        rule = &options->rules[DARUMA_CLASS_TRANSIENT];
    }
    return rule->given ? rule : &nothing;
}

int daruma_policy_create(const struct daruma_policy_options *options,
                         struct daruma_policy *ret_policy, struct daruma_error *ret_error)
{
    static const struct daruma_policy_options defaults;
    struct daruma_policy policy = {.attempts_max = DARUMA_POLICY_ATTEMPTS_MAX};

    if (ret_policy == NULL) {
        return refuse(ret_error, "ret_policy: must not be NULL");
    }
    if (options == NULL) {
        options = &defaults;
    }
    if (options->max_attempts != 0) {
        policy.attempts_max = options->max_attempts;
    }
    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        int failed = make_rule(rule_for(options, i), &policy.rules[i], ret_error);
        if (failed != 0) {
            return failed;
        }
        if (!options->rules[i].given && !classes[i].again) {
            policy.rules[i].attempts_max = 1;
        }
    }
    *ret_policy = policy;
    return 0;
}

bool daruma_class_of_status(int status, enum daruma_class *ret_class)
{
    enum daruma_class error_class = DARUMA_CLASS_INVALID;

    if (status >= 200 && status < 300) {
        return false;
    }
    if (status < 100 || status >= 500 || status == 408 || status == 425) {
        error_class = DARUMA_CLASS_TRANSIENT;
    } else if (status == 429) {
        error_class = DARUMA_CLASS_RATE_LIMITED;
    } else if (status == 401 || status == 403) {
        error_class = DARUMA_CLASS_AUTH;
    } else if (status == 410) {
        error_class = DARUMA_CLASS_GONE;
    }
    *ret_class = error_class;
    return true;
}

const char *daruma_class_text(enum daruma_class error_class)
{
    return (unsigned)error_class < DARUMA_CLASS_COUNT ? classes[error_class].word : "unknown";
}

bool daruma_class_parse(const char *word, enum daruma_class *ret_class)
{
    for (int i = 0; word != NULL && i < DARUMA_CLASS_COUNT; i++) {
        if (strcmp(word, classes[i].word) == 0) {
            *ret_class = (enum daruma_class)i;
            return true;
        }
    }
    return false;
}

const char *daruma_stop_text(enum daruma_stop stop)
{
    return (unsigned)stop < DARUMA_STOP_COUNT ? stop_texts[stop] : "unknown";
}
