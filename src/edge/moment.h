/* SPDX-License-Identifier: MIT
 *
 * moment -- a point in time as RFC 3339 writes it, read. base/clock.h writes it.
 */
#ifndef EDGE_MOMENT_H
#define EDGE_MOMENT_H

#include "base/span.h"

/* "2026-11-15T10:20:30Z", with any fraction of a second (cut to milliseconds) and any offset, from
 * 1970 to 9999. False: anything else. */
bool moment_parse(struct span text, int64_t *ret_wall_ms);

#endif
