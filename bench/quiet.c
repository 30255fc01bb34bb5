/* SPDX-License-Identifier: MIT
 *
 * quiet -- what the success path asks of the C library: how often it reads a clock and how often
 * it touches the heap. The linker puts the functions below in place of libc's (--wrap), also
 * inside libdaruma.a; they count and pass on. Each line is
 *
 *     mode  calls  clock reads  heap calls
 *
 * System calls are strace's to count: a clock read does not have to be one.
 */
#include "bench.h"
#include "modes.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static uint64_t clock_reads, heap_calls;

/* The names are the linker's. */
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_gettimeofday(struct timeval *now, void *zone);
int __wrap_gettimeofday(struct timeval *now, void *zone);
time_t __real_time(time_t *now);
time_t __wrap_time(time_t *now);
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **ret_memory, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **ret_memory, size_t alignment, size_t bytes);
void __real_free(void *memory);
void __wrap_free(void *memory);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    clock_reads++;
    return __real_clock_gettime(clock, now);
}

int __wrap_gettimeofday(struct timeval *now, void *zone)
{
    clock_reads++;
    return __real_gettimeofday(now, zone);
}

time_t __wrap_time(time_t *now)
{
    clock_reads++;
    return __real_time(now);
}

void *__wrap_malloc(size_t bytes)
{
    heap_calls++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    heap_calls++;
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    heap_calls++;
    return __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    heap_calls++;
    return __real_aligned_alloc(alignment, bytes);
}

int __wrap_posix_memalign(void **ret_memory, size_t alignment, size_t bytes)
{
    heap_calls++;
    return __real_posix_memalign(ret_memory, alignment, bytes);
}

void __wrap_free(void *memory)
{
    heap_calls++;
    __real_free(memory);
}

/* A counter that does not count would find everything quiet. */
static void check_heap_counter(void)
{
    void *volatile memory = malloc(1);

    free(memory);
    if (heap_calls != 2) {
        bench_give_up("the heap counter does not count");
    }
}

int main(int argc, char **argv)
{
    size_t count;
    const struct mode *modes = modes_open(&count);
    uint64_t calls = bench_number(argc, argv, "--calls", 1000);

    check_heap_counter();
    for (size_t i = 0; i < count; i++) {
        clock_reads = heap_calls = 0;
        if (modes[i].run(&modes[i], calls) != 0) {
            bench_give_up("a call that always succeeds has failed");
        }
        uint64_t clock_total = clock_reads, heap_total = heap_calls; /* printf has its own */
        (void)printf("%-20s %8llu %8llu %8llu\n", modes[i].name, (unsigned long long)calls,
                     (unsigned long long)clock_total, (unsigned long long)heap_total);
    }
    return 0;
}
