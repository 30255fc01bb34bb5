/* SPDX-License-Identifier: MIT
 *
 * reader -- the thread that looks into the store beside the writer, so that neither the loop nor a
 * commit ever waits for a list. Reads come in, are performed one after another, and go back.
 */
#ifndef ENGINE_READER_H
#define ENGINE_READER_H

#include "engine/engine.h"

#define READER_WAITING_MAX 4096

struct reader; /* opaque */

/* Called from the reader's thread after a read was performed: wake the taker. */
typedef void (*reader_wake_fn)(void *user);

struct reader *reader_new(struct store *store, reader_wake_fn wake,
                          void *user);   /* NULL: no memory */
void reader_free(struct reader *reader); /* NULL is fine; stopped by then */

int reader_start(struct reader *reader, struct error *err) __attribute__((warn_unused_result));
void reader_stop(struct reader *reader); /* performs what waits, then joins */

/* From the loop thread. False: full or stopping; the read is still the caller's. */
bool reader_give(struct reader *reader, struct read *read) __attribute__((warn_unused_result));
/* What has been performed, linked through its first member; NULL: nothing. */
struct handover_link *reader_take(struct reader *reader);

#endif
