/* SPDX-License-Identifier: MIT
 *
 * bench -- what every measuring program needs: the time in nanoseconds, numbers from the command
 * line, and one way to say that something could not be measured.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdint.h>

int64_t bench_now_ns(void);

/* The number after `name` (`--calls 1000`), or `usual` when it is not there. Ends the program when
 * what stands there is not a number. */
uint64_t bench_number(int argc, char **argv, const char *name, uint64_t usual);

/* The word after `name`; NULL when it is not there. */
const char *bench_word(int argc, char **argv, const char *name);

/* Ends the program with status 1: a figure that was not measured is never printed. */
_Noreturn void bench_give_up(const char *why);

#endif
