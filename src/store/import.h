/* SPDX-License-Identifier: MIT
 *
 * import -- lines that export wrote, into any store. Tasks keep their ids; what is there already is
 * left as it is, so that an import that was cut off is simply begun again. Nothing is half taken: a
 * batch of lines is one commit.
 *
 * A queue that the store has by name keeps its own settings; tasks follow by name, whatever the number.
 * The lease of a task under way belongs to a server that is not this one's, so nobody has it: the next
 * start takes the task back (I5). Memos speak of queues by number, so they are taken only where every
 * queue has the number that it had.
 */
#ifndef STORE_IMPORT_H
#define STORE_IMPORT_H

#include "store/store.h"

#define IMPORT_BATCH       500 /* tasks in one commit */
#define IMPORT_BATCH_BYTES ((size_t)8 << 20)

struct import; /* opaque */

struct import_counts {
    uint64_t lines;
    uint64_t queues, tasks, memos, acts;                     /* taken */
    uint64_t queues_kept, tasks_kept, memos_kept, acts_kept; /* were there */
    uint64_t conflicts;                                      /* tasks that have no place */
    uint64_t memos_left;                                     /* because of their numbers */
    bool has_end; /* the last line was the end: nothing is missing */
};

/* A task that could not be taken, with its line. */
typedef void (*import_conflict_fn)(void *user, uint64_t line, const char *text);

/* Reads what is in the store as far as it matters. `path` is for texts; both outlive it. */
int import_new(struct store *store, const char *path, import_conflict_fn conflict, void *user,
               struct import **ret_import, struct error *err) __attribute__((warn_unused_result));
void import_free(struct import *import); /* NULL is fine; what was not committed is not taken */

/* The next line, without its end. FAULT_CORRUPT: path:line:column: what is wrong with it; nothing of it
 * is taken. Other faults are the store's. */
int import_line(struct import *import, struct span line, struct error *err)
    __attribute__((warn_unused_result));

/* Commits what waits. Also after a bad line: those before it are good. */
int import_flush(struct import *import, struct error *err) __attribute__((warn_unused_result));

struct import_counts import_counts(const struct import *import);

#endif
