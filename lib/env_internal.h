/* SPDX-License-Identifier: MIT
 *
 * env -- inside lib/ only: the env of an options struct, or the real world where it says nothing.
 */
#ifndef DARUMA_ENV_INTERNAL_H
#define DARUMA_ENV_INTERNAL_H

#include <stdbool.h>

#include <daruma/cancel.h>
#include <daruma/env.h>

#pragma GCC visibility push(hidden)

int64_t daruma_env_now_ms(const struct daruma_env *env);
/* 0 after the whole delay; otherwise it was cancelled or the env's own sleep gave up. */
int daruma_env_sleep_ms(const struct daruma_env *env, uint64_t delay_ms,
                        const struct daruma_cancel *cancel);

/* Is this the process that opened it? After a fork the pipe is the other one's. */
bool daruma_cancel_is_own(const struct daruma_cancel *cancel);

#pragma GCC visibility pop
#endif
