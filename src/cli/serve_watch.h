/* SPDX-License-Identifier: MIT
 *
 * serve_watch -- what /readyz says of the store, in the log as well: one line when it begins to fail,
 * one when it is well again. A store that refuses now and then (a disk that is nearly full takes no
 * new tasks, but the ends of others) is one failure, not hundreds.
 */
#ifndef CLI_SERVE_WATCH_H
#define CLI_SERVE_WATCH_H

#include "base/fault.h"

#include <daruma/log.h>

#include <stdbool.h>
#include <stdint.h>

#define SERVE_WATCH_WELL_MS 2000 /* so long without a failure: it is well again */

/* Zeroed: it is well. Times are monotonic. */
struct serve_watch {
    int64_t failing_since_ms;
    int64_t well_since_ms; /* 0: not, or for long */
};

/* `failed`: 0, or what is the matter and `err` about it. */
void serve_watch_look(struct serve_watch *watch, struct daruma_logger *log, int64_t now_ms,
                      int failed, const struct error *err);

/* When it wants to look again, at most. */
int64_t serve_watch_wait_ms(const struct serve_watch *watch, int64_t wait_ms);

#endif
