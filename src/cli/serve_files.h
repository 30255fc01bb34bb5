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
    uint32_t outgoing_max; /* descriptors from this number on are kept back for callers, health
                              checks and the store */
};

/* Raises the limit as far as the system lets us; says so when that is not enough. */
struct serve_files serve_files_raise(struct daruma_logger *log, const struct config_limits *limits);

#endif
