/* SPDX-License-Identifier: MIT
 *
 * restored -- what a store knows of having been put back from a backup: a memo, written by `daruma
 * restore` and read by the engine at start. Requests that came between the backup and the restore are not
 * in it, nor are their keys: a key that is not known here may have been used.
 */
#ifndef STORE_RESTORED_H
#define STORE_RESTORED_H

#include "base/span.h"

#define RESTORED_MEMO "restored" /* its name */
/* Of the memo that is there from the first change until the last one: no server takes a store with it. Its value
 * is the names of the queues that were paused, a line each. */
#define RESTORED_MEMO_UNDONE "restoring"
#define RESTORED_TEXT_MAX    80

struct restored {
    int64_t at_ms;     /* wall clock: when it was put back; 0: it was not */
    int64_t backup_ms; /* when the newest task of it was created; 0: it has none */
    int64_t
        unknown_ms; /* how long a key that is not known may have been used; below 0: for as long as
                         * its route keeps answers */
};

void restored_render(const struct restored *restored, char ret_text[RESTORED_TEXT_MAX]);
bool restored_parse(struct span text, struct restored *ret_restored); /* false: it is none */

#endif
