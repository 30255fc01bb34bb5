/* SPDX-License-Identifier: MIT
 *
 * The table of kept answers, by its own source: callers choose the keys, so none of them may know which
 * keys share a bucket. The secret is each process's own, and not one that ids or other draws tell.
 */
#include "../src/engine/cache.c"

#include "harness.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES   4
#define CACHE_BYTES (64u << 10)
#define AIMED       64 /* keys that share a bucket here */
#define CHAIN_MAX   16 /* by chance, 64 keys in 256 buckets have fewer */

/* The hash of one key, as another process has it. */
static uint64_t hash_elsewhere(void)
{
    uint64_t hash = 0;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct cache *cache = cache_new(CACHE_BYTES);
        hash = cache != NULL ? hash_of(cache, 1, SPAN("scope"), SPAN("key")) : 0;
        _exit(write(ends[1], &hash, sizeof hash) == (ssize_t)sizeof hash ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &hash, sizeof hash), sizeof hash);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return hash;
}

static void no_two_processes_hash_alike(void **state)
{
    uint64_t hashes[PROCESSES];

    (void)state;
    for (size_t i = 0; i < PROCESSES; i++) {
        hashes[i] = hash_elsewhere();
        for (size_t other = 0; other < i; other++) {
            assert_true(hashes[i] != hashes[other]);
        }
    }
}

static size_t bucket_in(const struct cache *cache, unsigned number)
{
    char key[24];

    (void)snprintf(key, sizeof key, "key-%u", number); /* fits */
    return hash_of(cache, 1, SPAN("scope"), span_of(key)) & cache->bucket_mask;
}

static void keys_that_share_a_bucket_do_so_in_one_process_only(void **state)
{
    struct cache *here = cache_new(CACHE_BYTES), *there = cache_new(CACHE_BYTES);
    unsigned counts[1024] = {0};

    (void)state;
    assert_true(here != NULL && there != NULL && there->bucket_mask < 1024);
    for (unsigned number = 0, found = 0; found < AIMED; number++) {
        if (bucket_in(here, number) == 0) {
            found++;
            assert_in_range(++counts[bucket_in(there, number)], 1, CHAIN_MAX);
        }
    }
    cache_free(here);
    cache_free(there);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_processes_hash_alike),
        cmocka_unit_test(keys_that_share_a_bucket_do_so_in_one_process_only),
    };
    return HARNESS_RUN(argc, argv, tests);
}
