/* SPDX-License-Identifier: MIT
 *
 * cancel -- a flag and a pipe. The flag is what is asked; the pipe wakes every retry that waits and
 * stays readable for all of them, because none reads from it. A pipe rather than a condition variable:
 * writing to one is allowed in a signal handler, and a call can poll it beside its own sockets.
 *
 * After a fork the two processes share the pipe and not the flag. So only the process that opened it
 * writes to it, and only there is it waited for: a worker that is told to stop would otherwise wake
 * every wait of its parent and siblings for good.
 */
#define _GNU_SOURCE
#include <daruma/cancel.h>
#include <daruma/result.h>

#include "env_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

int daruma_cancel_open(struct daruma_cancel *cancel)
{
    int fds[2];

    if (cancel == NULL) {
        return DARUMA_INVALID;
    }
    *cancel = (struct daruma_cancel){.fds = {-1, -1}};
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
        return DARUMA_SYSTEM;
    }
    cancel->fds[0] = fds[0];
    cancel->fds[1] = fds[1];
    cancel->owner = (int)getpid();
    return 0;
}

void daruma_cancel_close(struct daruma_cancel *cancel)
{
    if (cancel == NULL || cancel->fds[0] == cancel->fds[1]) { /* zeroed, closed, never opened */
        return;
    }
    (void)close(cancel->fds[0]); /* a pipe has nothing to lose */
    (void)close(cancel->fds[1]);
    cancel->fds[0] = cancel->fds[1] = -1;
}

void daruma_cancel_now(struct daruma_cancel *cancel)
{
    int kept = errno;

    if (cancel == NULL || __atomic_exchange_n(&cancel->flag, 1, __ATOMIC_SEQ_CST) != 0) {
        return;
    }
    if (cancel->fds[0] != cancel->fds[1] && daruma_cancel_is_own(cancel)) {
        (void)!write(cancel->fds[1], "", 1); /* an empty pipe has room for one byte */
    }
    errno = kept;
}

bool daruma_cancel_is_own(const struct daruma_cancel *cancel)
{
    return cancel->owner == (int)getpid();
}

bool daruma_cancel_is_set(const struct daruma_cancel *cancel)
{
    return cancel != NULL && __atomic_load_n(&cancel->flag, __ATOMIC_SEQ_CST) != 0;
}

int daruma_cancel_fd(const struct daruma_cancel *cancel)
{
    return cancel == NULL || cancel->fds[0] == cancel->fds[1] ? -1 : cancel->fds[0];
}
