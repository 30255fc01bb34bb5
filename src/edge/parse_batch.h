/* SPDX-License-Identifier: MIT
 *
 * parse_batch -- many tasks in one text: a JSON array, or one object a line. Each is read by itself;
 * what is wrong with one does not touch the others, but a text that cannot be cut into tasks is
 * refused as a whole. Pure: any thread may.
 */
#ifndef EDGE_PARSE_BATCH_H
#define EDGE_PARSE_BATCH_H

#include "edge/edge.h"
#include "edge/parse_task.h"

/* One task of the text. */
struct parsed_task {
    struct submission submission; /* its arena is its own; NULL: it failed, or was handed over */
    int failed;
    struct error error; /* of the failure */
};

struct parsed_batch {
    size_t count;
    struct parsed_task tasks[];
};

/* The submissions are for `exchange` and `queue`, their index is their place. FAULT_INPUT: it cannot
 * be cut. FAULT_MEMORY. */
int parse_batch(const struct parse_options *options, const struct submission *form,
                struct span text, struct parsed_batch **ret_batch, struct error *err)
    __attribute__((warn_unused_result));
void parsed_batch_free(struct parsed_batch *batch); /* NULL is fine */

#endif
