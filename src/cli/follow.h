/* SPDX-License-Identifier: MIT
 *
 * follow -- watching one task from outside until something has become of it, and saying what. The
 * functions speak as those of client.h do.
 */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include "cli/client.h"

/* Until the task is settled, or a person has to settle it, or wait_ms have passed; answer->document
 * is the task. */
int follow_until_settled(struct client *client, const char *id, int64_t wait_ms,
                         struct client_answer *answer) __attribute__((warn_unused_result));

/* answer->document is the task as it was made due; on return it is the task after the attempt that
 * this led to. Waits as long as that takes. */
int follow_attempt(struct client *client, const char *id, struct client_answer *answer)
    __attribute__((warn_unused_result));

/* Prints the task: as JSON, or its id and state with why it has not succeeded on stderr. CLI_DONE
 * when it has, CLI_FAILED else. */
int follow_report(const struct flags *flags, const struct client_answer *answer);

#endif
