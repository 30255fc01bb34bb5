/* SPDX-License-Identifier: MIT
 *
 * nodes -- inside src/engine only, by way of engine_internal.h: what is different where several processes
 * work on one store.
 */
#ifndef ENGINE_NODES_INTERNAL_H
#define ENGINE_NODES_INTERNAL_H

#include "engine/engine.h"

#define NODES_MAX 64

struct queue;
struct read;

/* What this node knows of the others, most of it from the last beat. */
struct nodes {
    uint32_t count, place;            /* live ones, and this one among them */
    struct send_right right;          /* this node's lease */
    int64_t ahead_ms;                 /* the server's wall clock of our monotonic one */
    int64_t count_at_ms;              /* monotonic: counts are old from here on */
    int64_t counted_ms;               /* likewise: when they were last asked for */
    uint64_t live[NODES_MAX], newest; /* epochs as the last beat has them; of all ever seen */
    size_t live_count;
    uint64_t followed;       /* of the queues that are known here: see struct node_wish */
    uint64_t asked, told;    /* of what peers are to know: see struct node_wish */
    int64_t awaits_until_ms; /* monotonic: so long at least peers are to say what they settle */
    size_t orphan_count;     /* of dead nodes, being recovered */
    uint64_t orphans_waiting, orphans_unsettled;
    uint64_t following; /* the serial of the queues that are being followed */
    bool has_clock, has_settled_in, has_duty, is_counting, awaits, is_following;
    bool have_changed;            /* a node has joined or is gone, since the last look */
    bool must_adopt, is_adopting; /* what dead nodes were asked to do: see nodes_adopt.c */
};

/* nodes.c */
bool nodes_are_many(const struct engine *engine);
void nodes_share(const struct engine *engine, struct queue *queue);
void nodes_schedule(struct queue *queue, const struct life *life);
void nodes_ask(const struct queue *queue, uint32_t flags, struct op *op);
void nodes_answered(const struct engine *engine, struct queue *queue, uint32_t flags, bool is_got);
bool nodes_count_first(struct engine *engine, const struct ask *ask);
bool nodes_have_duty(const struct engine *engine);
bool nodes_has_epoch(const struct engine *engine, uint64_t epoch); /* of a node that is there */
bool nodes_lease_is_over(const struct engine *engine);
/* May this node number a run or redrive? A peer may have its part of the numbers once its lease is over:
 * two of one number would be taken for one. False: the caller is told. */
bool nodes_may_number(struct engine *engine, uint64_t exchange);
void nodes_nudge(const struct engine *engine);
void nodes_await(struct engine *engine); /* a caller waits for what a peer may settle */
int nodes_open(struct engine *engine, struct error *err);
void nodes_bind(const struct engine *engine, const struct life *life, struct delivery *delivery);

/* nodes_adopt.c */
void nodes_note_change(struct engine *engine, const struct beat *beat); /* before it is taken */
void nodes_take_over(struct engine *engine, const struct beat *beat);

/* nodes_follow.c */
void nodes_follow(struct engine *engine, const struct beat *beat);
void nodes_follow_first(struct engine *engine, const struct beat *beat);

/* nodes_read.c */
int nodes_read_counts(struct read *read, struct store *store);
int nodes_read_memos(struct read *read, struct store *store);
int nodes_read_fates(struct read *read, struct store *store);

/* queues.c. Of READ_COUNTS: how many are due, as the store has it. Any other read: nothing. */
void queues_due_counted(struct engine *engine, const struct read *read);

#endif
