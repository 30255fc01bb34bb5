/* SPDX-License-Identifier: MIT
 *
 * policy_named -- the built-in policies, as a configuration file would write them. A policy of the
 * same name in a configuration replaces the one here.
 */
#include <daruma/policy.h>

#include <stddef.h>
#include <string.h>

#define SECONDS(n) (INT64_C(1000) * (n))
#define MINUTES(n) (SECONDS(60) * (n))
#define HOURS(n)   (MINUTES(60) * (n))

#define EXPONENTIAL(base, cap, kind_of_jitter)                                                     \
    {                                                                                              \
        .given = true, .backoff = {                                                                \
            .base_ms = (base),                                                                     \
            .max_ms = (cap),                                                                       \
            .jitter = DARUMA_JITTER_##kind_of_jitter                                               \
        }                                                                                          \
    }

static const struct {
    const char *name;
    struct daruma_policy_options options;
} named[] = {
    {"default",
     {.max_attempts = 10,
      .rules =
          {
              [DARUMA_CLASS_TRANSIENT] = EXPONENTIAL(SECONDS(1), HOURS(1), FULL),
              [DARUMA_CLASS_RATE_LIMITED] = EXPONENTIAL(SECONDS(5), HOURS(1), FULL),
              [DARUMA_CLASS_QUOTA] = EXPONENTIAL(MINUTES(5), HOURS(24), FULL),
          }}},
    {"sync", /* document E: rate limits get the first try and three more */
     {.max_attempts = 10,
      .rules =
          {
              [DARUMA_CLASS_TRANSIENT] = EXPONENTIAL(SECONDS(1), HOURS(1), NONE),
              [DARUMA_CLASS_RATE_LIMITED] = {.given = true,
                                             .max_attempts = 4,
                                             .backoff = {.kind = DARUMA_BACKOFF_FIXED,
                                                         .base_ms = SECONDS(10)}},
          }}},
    {"articles", /* document D: the first try and five retries */
     {.max_attempts = 6,
      .rules =
          {
              [DARUMA_CLASS_TRANSIENT] = EXPONENTIAL(MINUTES(5), HOURS(24), NONE),
              [DARUMA_CLASS_RATE_LIMITED] = EXPONENTIAL(MINUTES(5), HOURS(24), NONE),
              [DARUMA_CLASS_QUOTA] = EXPONENTIAL(MINUTES(5), HOURS(24), NONE),
          }}},
    {"llm_jobs", /* document A6: 2^attempt x 60 s */
     {.max_attempts = 5,
      .rules = {[DARUMA_CLASS_TRANSIENT] = EXPONENTIAL(SECONDS(120), HOURS(24), NONE)}}},
    {"client", /* document A5 */
     {.max_attempts = 3,
      .rules = {[DARUMA_CLASS_TRANSIENT] = {.given = true,
                                            .backoff = {.base_ms = SECONDS(1),
                                                        .max_ms = MINUTES(1),
                                                        .jitter = DARUMA_JITTER_FACTOR,
                                                        .jitter_factor = 0.1}}}}},
};

#define NAMED_COUNT (sizeof named / sizeof *named)

const struct daruma_policy_options *daruma_policy_named(const char *name)
{
    for (size_t i = 0; name != NULL && i < NAMED_COUNT; i++) {
        if (strcmp(name, named[i].name) == 0) {
            return &named[i].options;
        }
    }
    return NULL;
}

const char *daruma_policy_name(uint32_t index)
{
    return index < NAMED_COUNT ? named[index].name : NULL;
}
