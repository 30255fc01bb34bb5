/* SPDX-License-Identifier: MIT
 *
 * redrive -- shared only between engine/redrive.c, where it begins, redrive_end.c, redrive_pages.c, where it
 * goes from letter to letter, redrive_recall.c, where it finds out how far it had come, redrive_peers.c,
 * where the callers of other nodes are told of it, and redrive_owner.c, where a node learns that another one
 * has taken it over.
 */
#ifndef ENGINE_REDRIVE_INTERNAL_H
#define ENGINE_REDRIVE_INTERNAL_H

#include "engine/engine_internal.h"

#define REDRIVE_PAGE_TASKS 500
#define REDRIVE_NOTE_BYTES 40
#define REDRIVE_PREFIX     "redrive" /* of its memo while it is under way */

/* A letter as it was seen on a page. */
struct letter {
    struct task_id id;
    uint32_t queue;
    int64_t deadline_ms; /* from the redrive; 0: none */
    uint64_t fence;      /* one that has died again meanwhile is another letter: */
    uint32_t round;      /* it has another fence or round */
};

struct redrive {
    struct redrive *next;
    struct redrive_view view;
    struct store_filter filter;
    char who[TASK_QUEUE_NAME_MAX + 1];
    uint64_t epoch; /* what the memo has, for all that is known: this node's, or that of the one
                             * that it was taken over from */
    uint64_t epoch_writing; /* what the write under way brings */
    int64_t sign_at_ms;     /* monotonic: not before, after this node was away; 0: it was not */
    size_t memo_writes;     /* of the memo, under way */
    uint64_t exchange;      /* who waits for the count; NOBODY: no one any more */
    int64_t after_row;      /* pages up to here were read; INT64_MAX: the last one was */
    int64_t kept_row;       /* after_row of the memo: all up to here have had their turn */
    struct letter *letters; /* of the page, by turns; NULL: none was read yet, or it has ended */
    size_t letter_count, letter_next;
    size_t pending; /* operations under way */
    double tokens;
    int64_t tokens_at_ms; /* monotonic */
    int64_t next_at_ms;   /* monotonic: not before; 0: any time */
    int64_t kept_act;     /* with it: of the newest act then; what lies behind both is not kept */
    struct {
        uint64_t left;                    /* letters that were counted */
        uint64_t behind_row, behind_both; /* its acts, see kept_row and kept_act */
        int64_t last_act;                 /* the newest that was seen */
        int64_t after_number;             /* where the trail is read on */
    } recall;
    struct {
        uint64_t redriven, skipped;
        int64_t after_row, act;
    } place;       /* as the memo has it: see mark_place */
    uint64_t told; /* of the letters that had their turn, those that the memo tells peers of */
    bool is_reading, is_dry, is_counting, is_recalling, is_over;
    bool is_restored;      /* and does not know yet how far it had come */
    bool has_memo;         /* in the store, for all that is known */
    bool has_news;         /* the memo's sums are not those of now */
    bool has_missed;       /* the store did not take one: once more from the start */
    bool is_settled;       /* the memo was not written since the read of the memos began */
    bool is_own;           /* this node has written the memo */
    bool is_contested;     /* it may have lost it: a read of the memos tells */
    bool is_lost;          /* to another node: nothing is told of it here any more */
    bool is_stopped;       /* a caller wants it to end */
    bool must_end;         /* it is over, and that is not written yet */
    bool is_ending;        /* it is being written */
    const char *end_state; /* how it is over; its view says so once that is written */
    char stopped_by[TASK_QUEUE_NAME_MAX +
                    1];             /* of that caller, for the trail; "": a peer has it there */
    struct redrive_caller *callers; /* who wait for the end: see redrive_end.c */
};

/* redrive.c */
void redrive_reply(struct engine *engine, const struct redrive *redrive, uint64_t exchange);
void redrive_forget(struct engine *engine, struct redrive *redrive);
void redrive_fail(struct engine *engine, struct redrive *redrive, const struct error *error);
bool redrive_keep_begun(struct engine *engine, struct redrive *redrive);
/* The memo is no peer's, and the store takes its end only from the node that has it. Once that is committed
 * `then` begins with redrive_written. `act` is for the audit trail. False: no room now. */
bool redrive_keep_end(struct engine *engine, struct redrive *redrive, const struct ask *act,
                      void (*then)(struct engine *engine, struct errand *errand));
/* False: it was not written. */
bool redrive_written(struct redrive *redrive, const struct errand *errand);
bool redrive_keep_sums(struct engine *engine, struct redrive *redrive);
void redrive_forget_old(struct engine *engine);
void redrive_keep_progress(struct engine *engine, struct redrive *redrive);
struct redrive *redrive_find(const struct engine *engine, uint64_t id); /* NULL: not here */

/* redrive_end.c */
void redrive_end(struct engine *engine, struct redrive *redrive, const char *state);
void redrive_cancel(struct engine *engine, struct redrive *redrive, const struct ask *ask);
bool redrive_stops_here(struct engine *engine, struct redrive *redrive); /* is it over? */
void redrive_write_end(struct engine *engine, struct redrive *redrive);  /* if it is time to */
/* Those who wait for the end; NULL: it has come. */
void redrive_tell_callers(struct engine *engine, struct redrive *redrive,
                          const struct error *fault);
void redrive_forget_callers(struct redrive *redrive);
/* Those who have waited for as long as the end may take; when the next one has (monotonic). */
void redrive_dismiss_callers(struct engine *engine, struct redrive *redrive);
int64_t redrive_callers_ms(const struct engine *engine, const struct redrive *redrive);

/* redrive_peers.c */
void redrive_ask_peers(struct engine *engine, const struct ask *ask);
struct errand *redrive_ended_errand(struct engine *engine, const struct redrive *redrive);
void redrive_forget_ended(struct engine *engine, const struct redrive *redrive);

/* redrive_owner.c */
void redrive_own(struct engine *engine, const struct read *read);
/* A peer may have taken it over: nothing is done in its name, and nothing is told of it from memory. */
bool redrive_is_doubted(const struct engine *engine, const struct redrive *redrive);
/* A write of its memo was refused, or is in doubt: nothing is written before the memos are read. */
bool redrive_is_contested(const struct engine *engine, const struct redrive *redrive);

/* redrive_pages.c: both note down what stands in the way, and go on with the next tick. */
void redrive_count(struct engine *engine, struct redrive *redrive);
size_t redrive_counting(const struct engine *engine); /* of those whose callers wait */
void redrive_read(struct engine *engine, struct redrive *redrive);
void redrive_drop_letters(struct redrive *redrive);
void redrive_wait_for_room(struct engine *engine, struct redrive *redrive);

/* redrive_recall.c: likewise */
void redrive_recall(struct engine *engine, struct redrive *redrive);
struct span redrive_note(const struct redrive *redrive, char *text, size_t room); /* of its acts */

#endif
