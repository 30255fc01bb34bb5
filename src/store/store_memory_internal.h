/* SPDX-License-Identifier: MIT
 *
 * store_memory_internal -- shared by the files of the stores that hold their tasks in memory: the
 * store, its rows, and the changes of a batch.
 *
 * A row points at a version, which is never written to: an operation puts a new one in its place.
 * So a batch is taken back by putting the old versions back, and parts that did not change (the
 * request, an answer, the older end of a trail) are shared between versions.
 */
#ifndef STORE_STORE_MEMORY_INTERNAL_H
#define STORE_STORE_MEMORY_INTERNAL_H

#include "store/key_index.h"
#include "store/stage.h"
#include "store/store.h"

#include <pthread.h>

/* Each owns its bytes: they follow it in one allocation. */
struct kept_task {
    struct task task;
};

struct kept_answer {
    struct answer answer;
};

struct kept_trail {
    struct kept_trail *previous;
    struct trail_row row;
};

struct kept_queue {
    struct queue_row row;
};

struct kept_edit {
    struct edit edit;
};

struct kept_audit {
    struct audit_row row;
};

struct kept_memo {
    struct memo memo;
};

struct version {
    struct kept_task *task;
    struct kept_answer *answer; /* NULL: none */
    struct kept_edit *edit;     /* likewise */
    struct kept_trail *trail;   /* newest first; NULL: none */
    size_t trail_count;
    struct life life;
    uint64_t key_hash; /* 0: not bound to its key */
};

/* One step of a batch. */
struct change {
    struct version *before, *after;                /* a task; NULL: not there */
    struct kept_queue *queue_before, *queue_after; /* a queue, when queue_after is not NULL */
    struct kept_memo *memo_before, *memo_after;    /* a memo, when either is not NULL */
};

struct rows {
    struct version **tasks; /* by row */
    size_t task_count, task_room;
    struct kept_queue **queues; /* number n at n - 1 */
    size_t queue_count, queue_room;
    struct kept_audit **audits; /* oldest first */
    size_t audit_count, audit_room;
    size_t audit_shown; /* of them those that are committed: what readers see */
    int64_t audit_last; /* the largest number there ever was */
    struct kept_memo **memos;
    size_t memo_count, memo_room;
    struct change *changes; /* of the batch under way */
    size_t change_count, change_room;
};

/* Copies, for the caller to put or free. NULL: out of memory. */
struct kept_task *kept_task_new(const struct task *task);
struct kept_answer *kept_answer_new(const struct answer *answer);
struct kept_trail *kept_trail_new(const struct trail_row *row, struct kept_trail *previous);
struct kept_queue *kept_queue_new(const struct queue_row *row, uint32_t number);
struct kept_edit *kept_edit_new(const struct edit *edit);
struct kept_audit *kept_audit_new(const struct audit_row *row);
struct kept_memo *kept_memo_new(const struct memo *memo);
struct version *version_new(const struct version *like);
/* Frees a version but for what it shares with `other`; NULL: all of it. NULL is fine. */
void version_free(struct version *version, const struct version *other);

/* The first task at or above `row`, as a place in rows->tasks. */
size_t rows_place(const struct rows *rows, int64_t row);
struct version *rows_find(const struct rows *rows, struct task_id id); /* tail too; NULL: none */

/* Makes room for a batch: then putting cannot fail. FAULT_MEMORY. */
int rows_begin(struct rows *rows, size_t op_count) __attribute__((warn_unused_result));
/* Puts `after` in the place of `before` (either may be NULL) and remembers it. Owns both. */
void rows_put(struct rows *rows, struct version *before, struct version *after);
void rows_put_queue(struct rows *rows, struct kept_queue *queue);
/* Takes the row over; its number is the next one. */
void rows_add_audit(struct rows *rows, struct kept_audit *audit);
/* NULL: the memo of that name is forgotten. */
void rows_put_memo(struct rows *rows, struct span name, struct kept_memo *memo);
struct span rows_find_memo(const struct rows *rows, struct span name); /* its value; empty: none */
void rows_commit(struct rows *rows);                                   /* the changes stay */
void rows_undo(struct rows *rows);                                     /* as before rows_begin */
void rows_done(struct rows *rows);
int rows_copy(const struct rows *rows, struct rows *ret_copy) __attribute__((warn_unused_result));

struct store_memory {
    struct store base;
    struct store_keep keep;
    pthread_mutex_t lock; /* rows */
    struct rows rows;
    struct key_index keys; /* this and the rest: apply only */
    struct key_log key_log;
    struct stage stage;
};

/* The reads, for the table of verbs; store_memory_read.c. */
int memory_read_task(struct store *store, struct task_id id, unsigned wants, struct arena *arena,
                     struct record *ret_record, bool *ret_found, struct error *err);
int memory_list(struct store *store, const struct store_filter *filter, struct arena *arena,
                store_record_fn visit, void *user, int64_t *ret_next, struct error *err);
int memory_due(struct store *store, int64_t from_ms, int64_t until_ms, store_brief_fn visit,
               void *user, struct error *err);
int memory_scan(struct store *store, store_brief_fn visit, void *user, struct error *err);
int memory_queues(struct store *store, store_queue_fn visit, void *user, struct error *err);
int memory_audit(struct store *store, const struct audit_filter *filter, struct arena *arena,
                 store_audit_fn visit, void *user, int64_t *ret_next, struct error *err);
int memory_memos(struct store *store, store_memo_fn visit, void *user, struct error *err);

int memory_copy_task(struct arena *arena, const struct task *task, unsigned wants,
                     struct task *ret_task);
int memory_copy_edit(struct arena *arena, const struct edit *edit, unsigned wants,
                     struct edit *ret_edit);
int memory_is_out(struct error *err); /* says so */

#endif
