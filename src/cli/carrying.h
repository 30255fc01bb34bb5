/* SPDX-License-Identifier: MIT
 *
 * carrying -- what `daruma export` and `daruma import` have in common: which store, and how far it
 * is. Progress is for people at a terminal, on stderr, and is gone when the work is done.
 */
#ifndef CLI_CARRYING_H
#define CLI_CARRYING_H

#include "base/fault.h"
#include "cli/flags.h"

#include <stdio.h>

#define CARRYING_STORE "sqlite:PATH, json:PATH or postgres://HOST/DATABASE"

bool carrying_is_store(const char *text); /* one that keeps things */

struct progress {
    bool is_shown;
    int64_t began_ms, told_ms; /* monotonic */
    const char *doing;         /* exported, imported */
};

struct progress progress_begin(const char *doing);
void progress_tell(struct progress *progress, uint64_t tasks); /* now and then */
void progress_end(struct progress *progress);                  /* wipes it away */
int64_t progress_ms(const struct progress *progress);          /* since it began */

/* Says what went wrong, as it came from below; returns CLI_FAILED. */
int carrying_complain(const struct flags_form *form, const struct error *err);

/* "3 queues, 1 task, 2 memos, 40 acts" */
void carrying_print_counts(FILE *out, const uint64_t counts[4]);

#endif
