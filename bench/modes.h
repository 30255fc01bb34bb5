/* SPDX-License-Identifier: MIT
 *
 * modes -- the ways to make one call that succeeds at once, from the bare call to the fully guarded
 * one. success_path times them and is run under callgrind and strace; quiet counts what they ask
 * of the C library. All go through function pointers that the compiler cannot see behind.
 */
#ifndef MODES_H
#define MODES_H

#include <stddef.h>
#include <stdint.h>

struct mode;

/* Makes that many calls one after the other; returns how many of them failed. */
typedef uint64_t (*mode_run_fn)(const struct mode *mode, uint64_t calls);

struct mode {
    const char *name;
    mode_run_fn run;
    const struct daruma_retry_options *options;
};

/* bare, bare_result, clock, retry, retry_options, retry_own, guarded, result; and control, whose
 * call makes one system call, so that a counter of system calls can be seen to count. Once per
 * process. */
const struct mode *modes_open(size_t *ret_count);

/* Ends the program when there is none of that name. */
const struct mode *modes_find(const char *name);

#endif
