/* SPDX-License-Identifier: MIT
 *
 * retry_flags -- see retry_flags.h. One table has every flag with what it takes, what it expects
 * and what it does, so that reading, refusing and --help cannot disagree.
 *
 * A flag replaces an earlier one of the same name. Flags end at `--` or at the first argument that
 * is none: what follows is the command's, whatever it looks like.
 */
#include "cli/retry_flags.h"

#include <daruma/policy.h>
#include <daruma/retry_after.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(constant) TEXT(constant)
#define TEXT(constant)    #constant

#define HELP_WIDTH 19 /* of a flag with its value */

#define EXPECT_DURATION "a duration above zero such as 250ms, 10s or 5m"

struct flag {
    const char *name;
    const char *value; /* what stands after it, for people; NULL: nothing does */
    bool (*take)(struct retry_flags *flags, const char *value);
    const char *expected;
    const char *help;
};

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Digits at the front of *text, up to `max`; moves *text behind them. */
static bool number_take(const char **text, uint64_t max, uint64_t *ret_number)
{
    const char *at = *text;
    uint64_t number = 0;

    if (!is_digit(*at)) {
        return false;
    }
    for (; is_digit(*at); at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (number > (max - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    *text = at;
    *ret_number = number;
    return true;
}

static bool number_parse(const char *text, uint64_t max, uint64_t *ret_number)
{
    return number_take(&text, max, ret_number) && *text == '\0';
}

static bool duration_parse(const char *text, int64_t *ret_ms)
{
    int64_t ms;

    if (!daruma_duration_parse(text, strlen(text), &ms) || ms == 0) {
        return false;
    }
    *ret_ms = ms;
    return true;
}

static bool take_max(struct retry_flags *flags, const char *value)
{
    uint64_t retries;

    if (!number_parse(value, DARUMA_RETRIES_MAX, &retries)) {
        return false;
    }
    flags->retries = (int64_t)retries;
    return true;
}

static bool take_base(struct retry_flags *flags, const char *value)
{
    return duration_parse(value, &flags->base_ms);
}

static bool take_cap(struct retry_flags *flags, const char *value)
{
    return duration_parse(value, &flags->cap_ms);
}

static bool take_timeout(struct retry_flags *flags, const char *value)
{
    return duration_parse(value, &flags->timeout_ms);
}

static bool take_attempt_timeout(struct retry_flags *flags, const char *value)
{
    return duration_parse(value, &flags->attempt_timeout_ms);
}

/* strtod alone would also take signs, blanks, exponents, "inf" and "nan". */
static bool factor_parse(const char *text, double *ret_factor)
{
    char *end;

    if (*text == '\0' || strspn(text, "0123456789.") != strlen(text)) {
        return false;
    }
    double factor = strtod(text, &end);
    if (end == text || *end != '\0' || factor > 1) {
        return false;
    }
    *ret_factor = factor;
    return true;
}

static bool take_jitter(struct retry_flags *flags, const char *value)
{
    static const struct {
        const char *word;
        enum daruma_jitter jitter;
    } kinds[] = {
        {"none", DARUMA_JITTER_NONE},
        {"full", DARUMA_JITTER_FULL},
        {"equal", DARUMA_JITTER_EQUAL},
        {"decorrelated", DARUMA_JITTER_DECORRELATED},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(value, kinds[i].word) == 0) {
            flags->jitter = kinds[i].jitter;
            return true;
        }
    }
    if (!factor_parse(value, &flags->jitter_factor)) {
        return false;
    }
    flags->jitter = DARUMA_JITTER_FACTOR;
    return true;
}

/* One status or a range of them, from the front of *text. */
static bool range_take(const char **text, bool *is_on)
{
    uint64_t first, last;

    if (!number_take(text, CHILD_STATUS_MAX, &first) || first == 0) {
        return false;
    }
    last = first;
    if (**text == '-') {
        (*text)++;
        if (!number_take(text, CHILD_STATUS_MAX, &last) || last < first) {
            return false;
        }
    }
    for (uint64_t status = first; status <= last; status++) {
        is_on[status] = true;
    }
    return true;
}

static bool take_on(struct retry_flags *flags, const char *value)
{
    bool is_on[CHILD_STATUS_MAX + 1] = {false};

    while (range_take(&value, is_on)) {
        if (*value == '\0') {
            memcpy(flags->is_on, is_on, sizeof is_on);
            return true;
        }
        if (*value++ != ',') {
            return false;
        }
    }
    return false;
}

static bool take_policy(struct retry_flags *flags, const char *value)
{
    flags->policy = daruma_policy_named(value);
    return flags->policy != NULL;
}

static bool take_seed(struct retry_flags *flags, const char *value)
{
    flags->has_seed = true;
    return number_parse(value, UINT64_MAX, &flags->seed);
}

static bool take_quiet(struct retry_flags *flags, const char *value)
{
    (void)value;
    flags->is_quiet = true;
    return true;
}

static bool take_help(struct retry_flags *flags, const char *value)
{
    (void)value;
    flags->is_help = true;
    return true;
}

static const struct flag table[] = {
    {"--max", "N", take_max, "a whole number from 0 to 2147483647",
     "retries, so one run more than that (" TEXT_OF(DARUMA_MAX_RETRIES) ")"},
    {"--base", "D", take_base, EXPECT_DURATION,
     "the first wait; each next is twice the last (" TEXT_OF(DARUMA_BACKOFF_BASE_MS) "ms)"},
    {"--cap", "D", take_cap, EXPECT_DURATION,
     "no wait is longer (" TEXT_OF(DARUMA_BACKOFF_MAX_MS) "ms)"},
    {"--jitter", "F", take_jitter,
     "a factor from 0 to 1, or one of none, full, equal, decorrelated",
     "a factor, none, full, equal or decorrelated (" TEXT_OF(DARUMA_BACKOFF_JITTER) ")"},
    {"--timeout", "D", take_timeout, EXPECT_DURATION,
     "for everything: TERM, KILL 2 s later, exit status 124"},
    {"--attempt-timeout", "D", take_attempt_timeout, EXPECT_DURATION,
     "for one run: likewise, and it counts as failed"},
    {"--on", "CODES", take_on, "statuses from 1 to 255 and ranges of them, such as 1,75,100-110",
     "statuses to retry, such as 1,75,100-110 (all but 0)"},
    {"--policy", "NAME", take_policy, NULL, "a built-in policy; flags beside it count more"},
    {"--seed", "N", take_seed, "a whole number from 0 to 18446744073709551615",
     "makes the waits the same each time"},
    {"--quiet", NULL, take_quiet, NULL, "says nothing about retries"},
    {"--help", NULL, take_help, NULL, "prints this"},
};

#define FLAG_COUNT (sizeof table / sizeof *table)

static void policies_list(FILE *out)
{
    const char *name;

    for (uint32_t i = 0; (name = daruma_policy_name(i)) != NULL; i++) {
        fprintf(out, "%s%s", i == 0 ? "" : ", ", name);
    }
}

void retry_flags_help(FILE *out)
{
    fprintf(out, "usage: daruma retry [FLAGS] [--] CMD [ARGUMENTS]\n\n"
                 "Runs CMD until it succeeds, waiting longer each time; ends with its last status."
                 "\n\n");
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        const char *value = table[i].value != NULL ? table[i].value : "";
        int width = HELP_WIDTH - (int)strlen(table[i].name);
        fprintf(out, "  %s %-*s %s\n", table[i].name, width, value, table[i].help);
    }
    fprintf(out, "\nD is a duration such as 250ms, 10s, 5m or 1h30m. Defaults are in brackets.\n"
                 "Policies: ");
    policies_list(out);
    fprintf(out, ".\n");
}

/* A NULL value: none was there. */
static bool refuse(const struct flag *flag, const char *value)
{
    const char *quote = value != NULL ? "'" : "";

    fprintf(stderr, "daruma retry: %s: %s%s%s given, expected ", flag->name, quote,
            value != NULL ? value : "nothing", quote);
    if (flag->take == take_policy) {
        fprintf(stderr, "one of ");
        policies_list(stderr);
    } else {
        fprintf(stderr, "%s", flag->expected != NULL ? flag->expected : "no value");
    }
    fprintf(stderr, "\n");
    return false;
}

/* The flag that is written as --name or --name=value; ret_value is NULL for the first form. */
static const struct flag *flag_find(const char *argument, const char **ret_value)
{
    size_t length = strcspn(argument, "=");

    for (size_t i = 0; i < FLAG_COUNT; i++) {
        if (strlen(table[i].name) == length && strncmp(argument, table[i].name, length) == 0) {
            *ret_value = argument[length] == '=' ? argument + length + 1 : NULL;
            return &table[i];
        }
    }
    return NULL;
}

/* Reads the flag at argv[*at], and its value, and moves *at behind them. */
static bool flag_read(char **argv, int *at, struct retry_flags *flags)
{
    const char *argument = argv[*at], *value;
    const struct flag *flag = flag_find(strcmp(argument, "-h") == 0 ? "--help" : argument, &value);

    *at += 1;
    if (flag == NULL) {
        fprintf(stderr, "daruma retry: %s: no such flag, expected one that --help lists\n",
                argument);
        return false;
    }
    if (flag->value == NULL) {
        return value == NULL ? flag->take(flags, NULL) : refuse(flag, value);
    }
    if (value == NULL && argv[*at] != NULL) {
        value = argv[*at];
        *at += 1;
    }
    return value != NULL && flag->take(flags, value) ? true : refuse(flag, value);
}

bool retry_flags_read(int argc, char **argv, struct retry_flags *ret_flags)
{
    struct retry_flags flags = {.retries = -1};
    int at = 1;

    memset(flags.is_on + 1, true, CHILD_STATUS_MAX); /* every status but 0 */
    while (at < argc && argv[at][0] == '-') {
        if (strcmp(argv[at], "--") == 0) {
            at++;
            break;
        }
        if (!flag_read(argv, &at, &flags)) {
            return false;
        }
    }
    if (at >= argc && !flags.is_help) {
        fprintf(stderr, "daruma retry: no command given, expected one after the flags: "
                        "daruma retry [FLAGS] -- CMD\n");
        return false;
    }
    flags.command = argv + at;
    *ret_flags = flags;
    return true;
}

/* The built-in policies are valid: creating one cannot fail. */
static void policy_apply(const struct daruma_policy_options *named,
                         struct daruma_retry_options *options)
{
    struct daruma_policy policy;

    if (daruma_policy_create(named, &policy, NULL) != 0) {
        return;
    }
    const struct daruma_rule *rule = &policy.rules[DARUMA_CLASS_TRANSIENT];
    uint32_t attempts = policy.attempts_max;
    if (rule->attempts_max != 0 && rule->attempts_max < attempts) {
        attempts = rule->attempts_max;
    }
    options->max_retries = attempts > 1 ? attempts - 1 : DARUMA_NO_RETRIES;
    options->backoff = rule->backoff;
}

static void backoff_apply(const struct retry_flags *flags, struct daruma_backoff *backoff)
{
    if (flags->base_ms != 0) {
        backoff->base_ms = (uint64_t)flags->base_ms;
    }
    if (flags->cap_ms != 0) {
        backoff->max_ms = (uint64_t)flags->cap_ms;
    } else if (backoff->max_ms != 0 && backoff->max_ms < backoff->base_ms) {
        backoff->max_ms = backoff->base_ms; /* a policy's cap gives way to a base asked for */
    }
    if (flags->jitter != DARUMA_JITTER_DEFAULT) {
        backoff->jitter = flags->jitter;
        backoff->jitter_factor = flags->jitter_factor;
    }
}

bool retry_flags_apply(const struct retry_flags *flags, struct daruma_retry_options *ret_options)
{
    struct daruma_retry_options options = {.max_retries = DARUMA_MAX_RETRIES,
                                           .backoff = {.base_ms = DARUMA_BACKOFF_BASE_MS},
                                           .timeout_ms = flags->timeout_ms,
                                           .attempt_timeout_ms = flags->attempt_timeout_ms};

    if (flags->policy != NULL) {
        policy_apply(flags->policy, &options);
    }
    if (flags->retries >= 0) {
        options.max_retries = flags->retries == 0 ? DARUMA_NO_RETRIES : (uint32_t)flags->retries;
    }
    backoff_apply(flags, &options.backoff);
    if (options.backoff.max_ms != 0 && options.backoff.max_ms < options.backoff.base_ms) {
        fprintf(stderr,
                "daruma retry: --cap: '%" PRIu64 "ms' given, expected a duration not below the "
                "base, which is %" PRIu64 "ms\n",
                options.backoff.max_ms, options.backoff.base_ms);
        return false;
    }
    *ret_options = options;
    return true;
}
