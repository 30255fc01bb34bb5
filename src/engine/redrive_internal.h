/* SPDX-License-Identifier: MIT
 *
 * redrive -- shared only between engine/redrive.c, where it begins and ends, redrive_pages.c, where it
 * goes from letter to letter, and redrive_recall.c, where it finds out how far it had come.
 */
#ifndef ENGINE_REDRIVE_INTERNAL_H
#define ENGINE_REDRIVE_INTERNAL_H

#include "engine/engine_internal.h"

#define REDRIVE_PAGE_TASKS 500
#define REDRIVE_NOTE_BYTES 40

/* A letter as it was seen on a page. */
struct letter {
    struct task_id id;
    uint32_t queue;
    int64_t deadline_ms; /* from the redrive; 0: none */
    uint64_t fence;      /* one that has died again meanwhile is another letter */
};

struct redrive {
    struct redrive *next;
    struct redrive_view view;
    struct store_filter filter;
    char who[TASK_QUEUE_NAME_MAX + 1];
    uint64_t epoch;         /* of the node that looks after it */
    uint64_t exchange;      /* who waits for the count; NOBODY: no one any more */
    int64_t after_row;      /* pages up to here were read; INT64_MAX: the last one was */
    int64_t kept_row;       /* after_row of the memo: all up to here have had their turn */
    struct letter *letters; /* of the page, by turns */
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
    bool is_reading, is_dry, is_counting, is_recalling, is_over;
    bool is_restored; /* and does not know yet how far it had come */
    bool has_memo;    /* in the store, for all that is known */
    bool has_news;    /* the memo's sums are not those of now */
    bool has_missed;  /* the store did not take one: once more from the start */
};

/* redrive.c */
void redrive_reply(struct engine *engine, const struct redrive *redrive, uint64_t exchange);
void redrive_forget(struct engine *engine, struct redrive *redrive);
void redrive_fail(struct engine *engine, struct redrive *redrive, const struct error *error);
bool redrive_keep_begun(struct engine *engine, struct redrive *redrive);
bool redrive_keep_sums(struct engine *engine, struct redrive *redrive);
void redrive_end(struct engine *engine, struct redrive *redrive, const char *state);

/* redrive_pages.c: both note down what stands in the way, and go on with the next tick. */
void redrive_count(struct engine *engine, struct redrive *redrive);
void redrive_read(struct engine *engine, struct redrive *redrive);
void redrive_wait_for_room(struct engine *engine, struct redrive *redrive);

/* redrive_recall.c: likewise */
void redrive_recall(struct engine *engine, struct redrive *redrive);
struct span redrive_note(const struct redrive *redrive, char *text, size_t room); /* of its acts */

#endif
