/* SPDX-License-Identifier: MIT
 *
 * fingerprint -- what makes two requests under one key the same: SHA-256 over the parts, each with
 * its length, so that no two different lists of parts can run together.
 */
#ifndef TASK_FINGERPRINT_H
#define TASK_FINGERPRINT_H

#include "base/fault.h"
#include "task/task.h"

/* For a queue's task: method, target, content type, body. Not delay, due time, deadline, timeout,
 * retry or callback: a producer that sends it again may say those differently. */
int fingerprint_task(struct task *task, struct error *err) __attribute__((warn_unused_result));

int fingerprint_parts(const struct span *parts, size_t count,
                      unsigned char ret_digest[TASK_FINGERPRINT_BYTES], struct error *err)
    __attribute__((warn_unused_result));

#endif
