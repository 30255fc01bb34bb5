/* SPDX-License-Identifier: MIT
 *
 * harness -- a process for each test. A crash, a sanitizer's report or an exit is that test's
 * failure and nobody else's.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096
#define SEED_USUAL     UINT64_C(78)

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status;
    (void)kind;
    (void)walk;
    return remove(path);
}

static int run_here(const struct CMUnitTest *test, const char *folder, int output)
{
    if (chdir(folder) != 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) {
        return 1;
    }
    const struct CMUnitTest alone[] = {*test};
    int failed = cmocka_run_group_tests(alone, NULL, NULL);
    fflush(NULL);
    return failed != 0;
}

/* What the test printed, without cmocka's own lines unless it failed. */
static void show(FILE *output, int failed)
{
    char line[LINE_MAX_BYTES];

    rewind(output);
    while (fgets(line, sizeof line, output) != NULL) {
        if (failed || line[0] != '[') {
            printf("# %s%s", line, strchr(line, '\n') != NULL ? "" : "\n");
        }
    }
}

bool harness_folder(char *folder, size_t size, const char *what)
{
    const char *above = getenv("TMPDIR");
    int length = snprintf(folder, size, "%s/daruma-%s-XXXXXX",
                          above != NULL && *above != '\0' ? above : "/tmp", what);

    return length > 0 && (size_t)length < size && mkdtemp(folder) != NULL;
}

static int run_apart(const struct CMUnitTest *test)
{
    char folder[HARNESS_FOLDER_MAX];
    FILE *output = tmpfile();
    int status = -1;

    if (output == NULL || !harness_folder(folder, sizeof folder, "test")) {
        perror("harness");
        return 1;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        exit(run_here(test, folder, fileno(output))); /* exit: leak checks run there */
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("harness");
    }
    int failed = status != 0;
    show(output, failed);
    if (WIFSIGNALED(status)) {
        printf("# killed by signal %d\n", WTERMSIG(status));
    }
    fclose(output);
    (void)nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS); /* left behind at worst */
    return failed;
}

int harness_run(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    const char *only = argc > 1 ? argv[1] : NULL;
    size_t number = 0, failures = 0, wanted = 0;

    for (size_t i = 0; i < count; i++) {
        wanted += only == NULL || strcmp(only, tests[i].name) == 0;
    }
    printf("1..%zu\n", wanted);
    for (size_t i = 0; i < count; i++) {
        if (only != NULL && strcmp(only, tests[i].name) != 0) {
            continue;
        }
        int failed = run_apart(&tests[i]);
        printf("%sok %zu - %s\n", failed ? "not " : "", ++number, tests[i].name);
        failures += failed != 0;
    }
    fflush(stdout);
    return failures != 0 || wanted == 0;
}

uint64_t harness_size(const char *variable, uint64_t usual)
{
    const char *value = getenv(variable);

    return value != NULL && *value != '\0' ? strtoull(value, NULL, 10) : usual;
}

uint64_t harness_seed(void)
{
    return harness_size("DARUMA_SEED", SEED_USUAL);
}
