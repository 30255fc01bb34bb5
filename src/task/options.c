/* SPDX-License-Identifier: MIT
 *
 * options -- see options.h.
 */
#include "task/options.h"
#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>

int options_render(const struct task_options *options, struct buf *fields)
{
    char digits[24];
    int failed = 0;

    if (options->timeout_ms != 0) {
        (void)snprintf(digits, sizeof digits, "%" PRId64, options->timeout_ms); /* fits */
        failed = fields_add(fields, SPAN("timeout_ms"), span_of(digits));
    }
    if (failed == 0 && options->deadline_ms != 0) {
        (void)snprintf(digits, sizeof digits, "%" PRId64, options->deadline_ms); /* fits */
        failed = fields_add(fields, SPAN("deadline_ms"), span_of(digits));
    }
    if (failed == 0 && options->has_repeatable) {
        failed = fields_add(fields, SPAN("repeatable"),
                            options->repeatable ? SPAN("true") : SPAN("false"));
    }
    if (failed == 0 && options->retry.len > 0) {
        failed = fields_add(fields, SPAN("retry"), options->retry);
    }
    if (failed == 0 && options->callback.len > 0) {
        failed = fields_add(fields, SPAN("callback"), options->callback);
    }
    return failed;
}

void options_read(struct span fields, struct task_options *ret_options)
{
    struct span name, value;

    *ret_options = (struct task_options){0};
    while (fields_next(&fields, &name, &value)) {
        if (span_is(name, "timeout_ms")) {
            (void)span_to_int(value, &ret_options->timeout_ms); /* we wrote it; else 0 stays */
        } else if (span_is(name, "deadline_ms")) {
            (void)span_to_int(value, &ret_options->deadline_ms); /* likewise */
        } else if (span_is(name, "repeatable")) {
            ret_options->has_repeatable = true;
            ret_options->repeatable = span_is(value, "true");
        } else if (span_is(name, "retry")) {
            ret_options->retry = value;
        } else if (span_is(name, "callback")) {
            ret_options->callback = value;
        }
    }
}
