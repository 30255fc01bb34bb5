/* SPDX-License-Identifier: MIT
 *
 * aside -- large tasks and batches are read and hashed on a thread of their own, as are the bodies of the
 * gateway's requests, so that a megabyte of JSON does not hold up everybody else's turn. The thread
 * begins with the first of them.
 *
 *   api_task_create --> aside_give --> the thread: parse, fingerprint --> wake-up --> then: submit
 *   api_task_batch  --|
 *   gateway_run ------'
 */
#ifndef EDGE_ASIDE_H
#define EDGE_ASIDE_H

#include "edge/parse_batch.h"
#include "loop/loop.h"

#define ASIDE_FROM_BYTES  (256u << 10) /* what is smaller is quicker done than handed over */
#define ASIDE_WAITING_MAX 256

struct aside; /* opaque */

struct aside_task;
struct exchange;

/* In the loop thread, with the exchange that waits for it. The task stays aside's: whoever submits a
 * submission sets its arena to NULL. */
typedef void (*aside_then_fn)(struct exchange *exchange, struct aside_task *task);

enum aside_kind {
    ASIDE_ONE = 0,
    ASIDE_BATCH,
    ASIDE_PRINT, /* of the gateway: its fingerprint by its route */
    ASIDE_FORM,  /* likewise: does it ask for another method? */
};

/* What is on its way. The body and the arenas are its own. */
struct aside_task {
    struct handover_link link; /* first */
    enum aside_kind kind;
    aside_then_fn then;
    struct parse_options options;
    struct parsed_batch *batch; /* BATCH: what was read */
    struct submission
        submission; /* BATCH: exchange and queue of all of them; PRINT and FORM: what is looked at */
    struct span content_type; /* PRINT */
    bool renames;             /* FORM: it does */
    struct buf body;
    int failed; /* of the reading */
    struct error error;
};

/* In the loop thread, for each that has been read. */
typedef void (*aside_read_fn)(void *user, struct aside_task *task);

int aside_open(struct loop *loop, aside_read_fn read, void *user, struct aside **ret_aside,
               struct error *err) __attribute__((warn_unused_result));
/* Drops what is on its way. NULL is fine. */
void aside_close(struct aside *aside);

/* False: too many are on their way; the task is still the caller's. */
bool aside_give(struct aside *aside, struct aside_task *task) __attribute__((warn_unused_result));
void aside_task_free(struct aside_task *task); /* NULL is fine */

#endif
