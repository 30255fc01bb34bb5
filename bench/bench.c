/* SPDX-License-Identifier: MIT
 *
 * bench -- see bench.h.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t bench_now_ns(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) {
        bench_give_up("there is no monotonic clock");
    }
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

const char *bench_word(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return argv[i + 1];
        }
    }
    return NULL;
}

uint64_t bench_number(int argc, char **argv, const char *name, uint64_t usual)
{
    const char *text = bench_word(argc, argv, name);
    uint64_t value = 0;

    if (text == NULL) {
        return usual;
    }
    if (*text == '\0' || strlen(text) > 18) {
        bench_give_up("an option wants a number of at most 18 digits");
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            bench_give_up("an option wants a number");
        }
        value = value * 10 + (uint64_t)(*text - '0');
    }
    return value;
}

void bench_give_up(const char *why)
{
    (void)fprintf(stderr, "not measured: %s\n", why);
    exit(1);
}
