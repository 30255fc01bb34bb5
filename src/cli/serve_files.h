/* SPDX-License-Identifier: MIT
 *
 * serve_files -- the number of files that may be open. Each connection is one, and a shell lets a
 * program have 1024 unless it asks for more: without that, `limits.connections` would be a promise that
 * nobody keeps.
 */
#ifndef CLI_SERVE_FILES_H
#define CLI_SERVE_FILES_H

#include <daruma/log.h>

#include <stdint.h>

/* Raises the limit as far as the system lets us; says so when that is not enough. */
void serve_files_raise(struct daruma_logger *log, uint64_t connections_max);

#endif
