/* SPDX-License-Identifier: MIT
 *
 * authority -- is this the text of a file that vouches for targets (`ca`)? It is asked where one is
 * named, since libcurl says it only when a request is to go out, of every one of them. Pure: whoever
 * asks has read the file.
 */
#ifndef TASK_AUTHORITY_H
#define TASK_AUTHORITY_H

#include "base/fault.h"
#include "base/span.h"

/* At least one certificate in PEM, and none that cannot be read. What stands around them does not matter,
 * lists of those that were revoked may be among them. FAULT_MEMORY. */
int authority_is_pem(struct span text, bool *ret_is_pem) __attribute__((warn_unused_result));

#endif
