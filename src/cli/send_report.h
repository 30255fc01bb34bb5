/* SPDX-License-Identifier: MIT
 *
 * send_report -- what became of a request that was to be sent, told once at the end: a line for
 * people, or a document with the answer in it.
 */
#ifndef CLI_SEND_REPORT_H
#define CLI_SEND_REPORT_H

#include "cli/flags.h"
#include "cli/sender.h"

struct send_report {
    const struct spooled *request;
    const struct sender_answer *answer;
    const char *name;   /* that it is kept as; "" when it is not */
    const char *result; /* sent, spooled or refused */
    const char *why;    /* "" when it was sent */
    int64_t attempts;
};

/* 0, FAULT_MEMORY or FAULT_LIMIT: nothing was printed. */
int send_report_print(const struct flags_form *form, const struct flags *flags,
                      const struct send_report *report) __attribute__((warn_unused_result));

#endif
