/* SPDX-License-Identifier: MIT
 *
 * alloc_fail -- see alloc_fail.h. The names with __wrap_ and __real_ are the linker's.
 */
#include "alloc_fail.h"

#include <errno.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);

/* Atomic, all of them. */
static bool is_counting;
static uint64_t asked_count;
static uint64_t refused_count;
static uint64_t refused_number;

void alloc_fail_start(uint64_t nth)
{
    __atomic_store_n(&asked_count, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&refused_count, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&refused_number, nth, __ATOMIC_SEQ_CST);
    __atomic_store_n(&is_counting, true, __ATOMIC_SEQ_CST);
}

struct alloc_count alloc_fail_stop(void)
{
    __atomic_store_n(&is_counting, false, __ATOMIC_SEQ_CST);
    return (struct alloc_count){.asked = __atomic_load_n(&asked_count, __ATOMIC_SEQ_CST),
                                .refused = __atomic_load_n(&refused_count, __ATOMIC_SEQ_CST)};
}

/* Is this the one? */
static bool is_refused(void)
{
    if (!__atomic_load_n(&is_counting, __ATOMIC_SEQ_CST)) {
        return false;
    }
    uint64_t number = __atomic_add_fetch(&asked_count, 1, __ATOMIC_SEQ_CST);
    if (number != __atomic_load_n(&refused_number, __ATOMIC_SEQ_CST)) {
        return false;
    }
    (void)__atomic_fetch_add(&refused_count, 1, __ATOMIC_SEQ_CST);
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return is_refused() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_refused() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return is_refused() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
    return is_refused() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t length)
{
    return is_refused() ? NULL : __real_strndup(text, length);
}

bool alloc_fail_drive(alloc_scenario_fn scenario, void *user, uint64_t runs_max,
                      struct alloc_report *ret_report)
{
    struct alloc_report report = {0};

    while (report.runs < runs_max) {
        report.runs++;
        alloc_fail_start(report.runs);
        int failed = scenario(user);
        struct alloc_count count = alloc_fail_stop();
        if (count.refused == 0) {
            *ret_report = report;
            return failed == 0;
        }
        report.reported += failed != 0;
        report.survived += failed == 0;
    }
    *ret_report = report;
    return false;
}
