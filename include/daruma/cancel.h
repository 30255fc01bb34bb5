/* SPDX-License-Identifier: MIT
 *
 * cancel -- tells one or many synchronous retries to stop, from another thread or from a signal
 * handler. A retry that waits stops at once; one that is inside its call stops when the call
 * returns. A call that waits on its own I/O can watch daruma_cancel_fd beside it.
 *
 * It stays cancelled. Any number of retries of one process may share one. It does not reach across
 * fork: a cancel in one process is never seen in another, and a child that wants daruma_cancel_fd
 * opens its own.
 */
#ifndef DARUMA_CANCEL_H
#define DARUMA_CANCEL_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct daruma_cancel {
    int fds[2]; /* private: a pipe, readable once cancelled */
    int flag;   /* private, atomic */
    int owner;  /* private: the process that opened it, and has the pipe */
};

/* 0, or DARUMA_SYSTEM (errno says why) when no pipe could be had. */
int daruma_cancel_open(struct daruma_cancel *cancel);
/* No retry may use it any more. NULL and closed ones are fine. */
void daruma_cancel_close(struct daruma_cancel *cancel);

/* From any thread; safe in a signal handler; more than once is once. */
void daruma_cancel_now(struct daruma_cancel *cancel);
bool daruma_cancel_is_set(const struct daruma_cancel *cancel); /* NULL: false */
/* Becomes readable when cancelled in the process that opened it, and stays so; not to be read from. */
int daruma_cancel_fd(const struct daruma_cancel *cancel);

#ifdef __cplusplus
}
#endif
#endif
