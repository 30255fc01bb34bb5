/* SPDX-License-Identifier: MIT
 *
 * serve_files -- the number of files that may be open. Each connection is one, coming or going, and a
 * shell lets a program have 1024 unless it asks for more: without that, `limits.connections` and
 * `limits.attempts` would be promises that the server cannot keep.
 */
#ifndef CLI_SERVE_FILES_H
#define CLI_SERVE_FILES_H

#include "config/config.h"

#include <daruma/log.h>

/* What is left for what goes out. */
struct serve_files {
    uint32_t attempts_max; /* at once; as the file says, else what descriptors and memory allow */
    uint32_t lookups_max;  /* names that are looked up at once */
    uint32_t outgoing_max; /* descriptors from this number on are kept back for callers, health
                              checks and the store */
    uint32_t guests_max;   /* likewise, from callers of the gateway; 0: there are enough for all */
};

/* What a configuration needs of the system, and what that allows. */
struct serve_files_plan {
    uint64_t
        wanted; /* descriptors: for connections, attempts, passages, look-ups and what is besides */
    uint64_t limit;        /* that may be open, once the limit is raised as far as it may be */
    uint64_t concurrency;  /* attempts that the queues may have under way, by their own limits */
    uint64_t passages;     /* requests that pass the gateway, at once */
    uint32_t attempts_max; /* limits.attempts, as it would hold */
    enum {
        FILES_GIVEN = 0,
        FILES_DEFAULT,
        FILES_DESCRIPTORS,
        FILES_MEMORY
    } by; /* for that reason */
};

/* Only looks. */
struct serve_files_plan serve_files_plan(const struct config *config);
/* What the queues can use is more than there are descriptors for. */
bool serve_files_are_few(const struct serve_files_plan *plan, const struct config *config);

/* Raises the limit as far as the system lets us; says so when that is not enough. */
struct serve_files serve_files_raise(struct daruma_logger *log, const struct config *config);

#endif
