/* SPDX-License-Identifier: MIT
 *
 * redrive -- shared only between engine/redrive.c, where it begins and ends, and redrive_pages.c, where
 * it goes from letter to letter.
 */
#ifndef ENGINE_REDRIVE_INTERNAL_H
#define ENGINE_REDRIVE_INTERNAL_H

#include "engine/engine_internal.h"

#define REDRIVE_PAGE_TASKS 500

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
    int64_t after_row;      /* INT64_MAX: the last page was read */
    struct letter *letters; /* of the page, by turns */
    size_t letter_count, letter_next;
    size_t pending; /* operations under way */
    double tokens;
    int64_t tokens_at_ms; /* monotonic */
    int64_t next_at_ms;   /* monotonic: not before; 0: any time */
    bool is_reading, is_dry, is_counting, is_over;
    bool has_memo;   /* in the store, for all that is known */
    bool has_missed; /* the store did not take one: once more from the start */
};

/* redrive.c */
void redrive_reply(struct engine *engine, const struct redrive *redrive, uint64_t exchange);
void redrive_forget(struct engine *engine, struct redrive *redrive);
void redrive_fail(struct engine *engine, struct redrive *redrive, const struct error *error);
bool redrive_keep_begun(struct engine *engine, struct redrive *redrive);
void redrive_end(struct engine *engine, struct redrive *redrive, const char *state);

/* redrive_pages.c: both note down what stands in the way, and go on with the next tick. */
void redrive_count(struct engine *engine, struct redrive *redrive);
void redrive_read(struct engine *engine, struct redrive *redrive);

#endif
