/* SPDX-License-Identifier: MIT
 *
 * timers -- inside lib/ only: the operations that wait, earliest first, threaded through the
 * operations themselves. A complete binary tree of pointers: O(log n) in the worst case for each
 * step, nothing to allocate, nothing to grow.
 */
#ifndef DARUMA_TIMERS_INTERNAL_H
#define DARUMA_TIMERS_INTERNAL_H

#include <daruma/retry_async.h>

#pragma GCC visibility push(hidden)

void daruma_timers_add(struct daruma_retry_loop *loop, struct daruma_retry_op *op);
/* The operation must be among them. */
void daruma_timers_remove(struct daruma_retry_loop *loop, struct daruma_retry_op *op);

#pragma GCC visibility pop
#endif
