/* SPDX-License-Identifier: MIT
 *
 * harness -- how every unit test runs: alone, in a process and an empty folder of its own, as one
 * line of TAP. What a test prints is shown as a comment. A name as argument runs only that test.
 *
 *     int main(int argc, char **argv)
 *     {
 *         const struct CMUnitTest tests[] = {cmocka_unit_test(a_claim_that_holds)};
 *         return HARNESS_RUN(argc, argv, tests);
 *     }
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* `fail` is ours (base/fault.h): a test says fail_msg. */
#undef fail
#undef fail_msg
#define fail_msg(...)                                                                              \
    do {                                                                                           \
        print_error(__VA_ARGS__);                                                                  \
        print_error("\n");                                                                         \
        _fail(__FILE__, __LINE__);                                                                 \
    } while (0)

#define HARNESS_RUN(argc, argv, tests)                                                             \
    harness_run((argc), (argv), (tests), sizeof(tests) / sizeof *(tests))

#define HARNESS_FOLDER_MAX 256

int harness_run(int argc, char **argv, const struct CMUnitTest *tests, size_t count);

/* A new folder for `what`, in TMPDIR or else /tmp; false: there is none. */
bool harness_folder(char *folder, size_t size, const char *what);

/* The size of a random campaign: the environment variable, or what is usual. */
uint64_t harness_size(const char *variable, uint64_t usual);

/* DARUMA_SEED, or a fixed one. A campaign prints it when it fails. */
uint64_t harness_seed(void);

#endif
