/* SPDX-License-Identifier: MIT
 *
 * reader -- the thread that looks into the store beside the writer, so that neither the loop nor a
 * commit ever waits for a list. Reads come in, wait in lines, are performed and go back.
 *
 * Short reads (one task, by id or by key: replays, waiters, recovery, what is due) go before long
 * ones (read_is_long: lists, acts, counts). A long read is performed in steps of some milliseconds and
 * goes back into line after each, so a short one waits for one step at most:
 *
 *   reader_give --> short ------------------------------------> performed
 *              '--> fresh --first step--> begun --other steps-------^
 *
 * A list that is done with its first step does not wait behind those that look through the whole
 * store: steps are taken from `fresh` and `begun` in turn. `begun` goes in order, each to its end, so
 * that few hold what they have found so far. No flood of short reads keeps out the long ones: after
 * READER_SHORTS_MAX of them one step is taken.
 */
#ifndef ENGINE_READER_H
#define ENGINE_READER_H

#include "engine/engine.h"

#define READER_WAITING_MAX 4096
#define READER_SHORTS_MAX  256 /* in a row, while long reads wait */

struct reader; /* opaque */

/* Called from the reader's thread after a read was performed: wake the taker. */
typedef void (*reader_wake_fn)(void *user);

struct reader *reader_new(struct store *store, reader_wake_fn wake,
                          void *user);   /* NULL: no memory */
void reader_free(struct reader *reader); /* NULL is fine; stopped by then */

int reader_start(struct reader *reader, struct error *err) __attribute__((warn_unused_result));
/* Performs what waits, lists with one step more only (read_cut), then joins. */
void reader_stop(struct reader *reader);

/* From the loop thread. False: READER_WAITING_MAX have been given and not taken back, or it is
 * stopping; the read is still the caller's. */
bool reader_give(struct reader *reader, struct read *read) __attribute__((warn_unused_result));
/* What has been performed, so many at most, linked through its first member; NULL: nothing. From the
 * loop thread. */
struct handover_link *reader_take(struct reader *reader, size_t most);

#endif
