/* SPDX-License-Identifier: MIT
 *
 * cancel -- a flag and a pipe. The flag is what is asked; the pipe wakes whoever waits and stays
 * readable for all of them, because nobody reads from it. A pipe rather than a condition variable:
 * writing to one is allowed in a signal handler, and a call can poll it beside its own sockets.
 */
#define _GNU_SOURCE
#include <daruma/cancel.h>
#include <daruma/result.h>

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
    if (cancel->fds[0] != cancel->fds[1]) {
        (void)!write(cancel->fds[1], "", 1); /* an empty pipe has room for one byte */
    }
    errno = kept;
}

bool daruma_cancel_is_set(const struct daruma_cancel *cancel)
{
    return cancel != NULL && __atomic_load_n(&cancel->flag, __ATOMIC_SEQ_CST) != 0;
}

int daruma_cancel_fd(const struct daruma_cancel *cancel)
{
    return cancel == NULL || cancel->fds[0] == cancel->fds[1] ? -1 : cancel->fds[0];
}
