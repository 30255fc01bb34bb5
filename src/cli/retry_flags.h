/* SPDX-License-Identifier: MIT
 *
 * retry_flags -- the command line of `daruma retry`, as a value. Everything that can be wrong with
 * it is found here, before anything runs, and said in one line: the flag, what was given, what is
 * expected.
 */
#ifndef RETRY_FLAGS_H
#define RETRY_FLAGS_H

#include <daruma/retry.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/retry_child.h"

struct daruma_policy_options;

/* As written; what was not written is 0 but where it says otherwise. */
struct retry_flags {
    const struct daruma_policy_options *policy;
    int64_t retries; /* -1: not given */
    int64_t base_ms;
    int64_t cap_ms;
    int64_t timeout_ms;
    int64_t attempt_timeout_ms;
    enum daruma_jitter jitter;
    double jitter_factor;
    uint64_t seed;
    bool has_seed;
    bool is_quiet;
    bool is_help;                     /* nothing else counts */
    bool is_on[CHILD_STATUS_MAX + 1]; /* retried? */
    char **command;                   /* in argv; ends with NULL */
};

/* argv[0] is skipped. False: something is wrong, and has been written to stderr. */
bool retry_flags_read(int argc, char **argv, struct retry_flags *ret_flags);

/* What they come to: the named policy's transient rule or the library's defaults, and over it each
 * flag that was given. Sets max_retries, backoff and the time-outs. False: as above. */
bool retry_flags_apply(const struct retry_flags *flags, struct daruma_retry_options *ret_options);

void retry_flags_help(FILE *out);

#endif
