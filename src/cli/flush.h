/* SPDX-License-Identifier: MIT
 *
 * flush -- sends what is in a spool (A9.2), in order, one request each:
 *
 *   success               removed
 *   no, but maybe later   counted 1, 2, 3; at the fourth time failed
 *   no, for good          failed
 *
 * When no answer comes, or the server asks to come back later, what is behind for the same place
 * (scheme, host and port) waits for the next flush, uncounted and in order: the network is to blame,
 * not the request. What goes to other places goes on. A machine without any network counts nothing.
 * What another process keeps back for itself, because it is sending it, is left to it.
 *
 * The spool must be held. Whatever kills the process, and wherever, each request is still there or was
 * taken; one that was taken and is still there goes out again under the same key.
 */
#ifndef CLI_FLUSH_H
#define CLI_FLUSH_H

#include "cli/sender.h"
#include "cli/spool.h"

#define FLUSH_FAILURES_MAX     3                 /* that are counted; the next one is the end */
#define FLUSH_HINT_MAX_MS      INT64_C(86400000) /* no server is waited for longer */
#define FLUSH_PLACES_BYTES_MAX (16u << 20)

enum flush_result { FLUSH_SENT = 0, FLUSH_WAITING, FLUSH_FAILED, FLUSH_DAMAGED };

struct flush_step {
    const char *name;
    enum flush_result result;
    const struct spooled *request; /* as it is now; NULL when it is damaged */
    int status;                    /* 0: no answer, or not tried */
    const char *why;               /* "" when it was sent */
    size_t number, count;          /* the how-manieth of how many, as far as is known */
};

typedef void (*flush_step_fn)(void *user, const struct flush_step *step);

enum flush_kind {
    FLUSH_COUNTING = 0, /* a person asked for it */
    FLUSH_UNCOUNTED,    /* on the way of something else: who saves often must not use tries up */
};

struct flush {
    struct spool *spool;
    struct sender *sender;
    enum flush_kind kind;
    struct span place;    /* only this one; empty: all */
    flush_step_fn before; /* each request; NULL: nobody wants to know */
    flush_step_fn each;   /* NULL likewise */
    void *user;
};

/* How many came to what, and whether something waits that the next one has to wait behind. */
struct flush_tally {
    size_t sent, waiting, failed, damaged;
    size_t failed_before; /* by an earlier flush: not tried */
    bool is_held_up;      /* some place is */
};

const char *flush_result_text(enum flush_result result);

/* Until nothing is left that was not tried, also of what is added meanwhile. FAULT_…: the spool cannot
 * be read or written any more; ret_tally says what was done before. */
int flush_run(const struct flush *flush, struct flush_tally *ret_tally, struct error *err)
    __attribute__((warn_unused_result));

/* Failed ones wait again, as if they had never been tried; those named, or all. The count of them. */
int flush_revive(struct spool *spool, size_t *ret_count, struct error *err)
    __attribute__((warn_unused_result));

/* After a failure: what stands in the spool now, in place of what was counted until then; what was sent
 * stays sent. */
int flush_recount(const struct spool *spool, struct flush_tally *tally, struct error *err)
    __attribute__((warn_unused_result));

/* Does a request for this place wait, that nobody keeps back for itself? */
int flush_is_waiting(const struct spool *spool, struct span place, bool *ret_is_waiting,
                     struct error *err) __attribute__((warn_unused_result));

#endif
