/* SPDX-License-Identifier: MIT
 *
 * flow -- shared only inside engine: what an attempt passes on its way from due to sent, and the files that
 * hold it back there. Declarations alone, file by file; comes with engine_internal.h.
 *
 *   dispatch.c  picks what is due and leases it   places.c   limits.attempts, over all queues
 *   flow.c      a queue's rate and its turns      hosts*.c   how much at one host, and what waits for it
 *   targets.c   which target, and is one gone     outage.c   holds a queue while its target is down
 *   outgoing.c  makes the request            give_back.c  what was leased and is not sent after all
 */
#ifndef ENGINE_FLOW_INTERNAL_H
#define ENGINE_FLOW_INTERNAL_H

#include "engine/engine_internal.h"

/* flow.c */
bool flow_has_token(const struct engine *engine, struct queue *queue);
void flow_take_token(struct queue *queue);
void flow_give_token_back(struct queue *queue);
int64_t flow_token_wait_ms(const struct engine *engine, const struct queue *queue);
uint32_t flow_ahead_max(const struct engine *engine, const struct queue *queue);
bool flow_take_turn(struct attempt *attempt);
void flow_line_up(struct attempt *attempt);
void flow_end_turn(const struct engine *engine, struct attempt *attempt);
struct attempt *flow_next_ready(struct queue *queue);

/* hosts.c */
enum host_entry {
    HOST_FREE,   /* it has a place there, and may go */
    HOST_LINE,   /* it waits, leased, for a place */
    HOST_NO_ROOM /* the host is full, or it may not wait there: it goes back */
};
struct host_pick {
    struct host *host;
    enum wait_kind kind;
    struct schedule_entry entry;
};
enum host_entry hosts_enter(struct engine *engine, struct attempt *attempt);
struct attempt *hosts_leave(struct engine *engine, struct attempt *attempt);
bool hosts_are_over(const struct attempt *attempt);
void hosts_step_back(struct attempt *attempt);
bool hosts_park(struct engine *engine, struct queue *queue, struct span url,
                const struct life *life, int64_t row);
bool hosts_are_full(const struct engine *engine, const struct queue *queue, struct span target);
bool hosts_are_noted(const struct engine *engine, const struct queue *queue, struct span target);
bool hosts_pick(struct engine *engine, struct queue *queue, enum wait_kind last,
                struct host_pick *ret_pick);
void hosts_take(const struct engine *engine, struct attempt *attempt, const struct host_pick *pick);
void hosts_unleased(struct engine *engine, struct attempt *attempt);
int64_t hosts_put_off_ms(struct engine *engine, const struct attempt *attempt);
bool hosts_unpark(struct engine *engine, struct queue *queue);
bool hosts_are_within(const struct engine *engine, const struct queue *queue);
bool hosts_are_looked_for(const struct engine *engine, const struct queue *queue);
bool hosts_may_look(const struct engine *engine, const struct queue *queue);
size_t hosts_sweep(struct engine *engine, struct queue *queue, const struct gone *gone);
int64_t hosts_chance_ms(const struct engine *engine, const struct queue *queue,
                        enum wait_kind last);
int64_t hosts_look_wait_ms(const struct engine *engine, const struct queue *queue);
void hosts_look(const struct engine *engine, struct attempt *attempt);
void hosts_look_on(struct queue *queue);
int64_t
hosts_oldest_due_ms(const struct queue *queue); /* of what is parked; INT64_MAX: nothing is */
void hosts_return(struct engine *engine, struct queue *queue);
void hosts_move(struct engine *engine, struct queue *queue);
void hosts_open(struct engine *engine);
void hosts_forget(struct engine *engine, struct queue *queue);
void hosts_free_all(struct engine *engine);

/* dispatch.c */
uint32_t dispatch_places_taken(const struct queue *queue); /* of its concurrency */
bool dispatch_has_slot(const struct engine *engine, const struct queue *queue);
void dispatch_queue(struct engine *engine, struct queue *queue);
void dispatch_queues(struct engine *engine);
void dispatch_send(struct engine *engine, struct attempt *attempt);
void dispatch_go(struct engine *engine, struct attempt *attempt);
void dispatch_ready(struct engine *engine, struct queue *queue);
int64_t dispatch_next_ms(const struct engine *engine, const struct queue *queue);
void dispatch_leased(struct engine *engine, struct attempt *attempt);
void dispatch_some(struct engine *engine, struct queue *queue, int most);
void dispatch_cannot_begin(struct engine *engine, struct attempt *attempt, const char *why);

/* give_back.c */
void give_back(struct engine *engine, struct attempt *attempt, const char *why);
void give_back_held(struct engine *engine, struct attempt *attempt);
void give_back_unshared(struct engine *engine, struct attempt *attempt);
void give_back_parked(struct engine *engine, struct attempt *attempt);
void give_back_unsent(struct engine *engine, struct attempt *attempt);
bool give_back_is_stopped(const struct engine *engine, const struct attempt *attempt);
bool give_back_is_due(const struct engine *engine, const struct attempt *attempt);
void give_back_share(struct engine *engine, struct queue *queue);
void give_back_ready(struct engine *engine, struct queue *queue);
void give_back_due(struct engine *engine, struct queue *queue);
void give_back_all(struct engine *engine);
void give_back_retargeted(struct engine *engine, struct queue *queue);

/* places.c */
void places_open(struct engine *engine);
bool places_may_take(const struct engine *engine, const struct queue *queue);
bool places_have_room(const struct engine *engine);
void places_want(struct engine *engine, struct queue *queue);
void places_serve(struct engine *engine);
void places_take(struct engine *engine, struct queue *queue);
void places_free(struct engine *engine, struct queue *queue);
bool places_rest(const struct engine *engine);
int64_t places_rest_ms(const struct engine *engine);
void places_short(struct engine *engine, const struct attempt *attempt);
int64_t places_grow_wait_ms(const struct engine *engine);
void places_tick(struct engine *engine);

/* outgoing.c */
int outgoing_fill(const struct engine *engine, struct attempt *attempt);

/* targets.c */
struct target_round targets_round(const struct queue *queue);
const struct target *targets_choose(const struct queue *queue, struct span own, uint32_t turn,
                                    int *ret_index);
void targets_be_careful(const struct queue *queue, struct life *life);
bool targets_are_gone(const struct queue *queue);
void targets_gone(struct engine *engine, const struct attempt *attempt);
void targets_back(struct engine *engine, struct queue *queue);
void targets_let_in(struct queue *queue); /* here; the memos are gone */
/* Among nodes: see targets.c. */
bool targets_clear(struct engine *engine, const struct queue *queue, struct errand *change);
void targets_hear(struct queue *queue, uint64_t let_in);
void targets_doubt(struct queue *queue);
bool targets_are_doubted(const struct engine *engine);
void targets_look(struct engine *engine, const struct read *read);
int targets_restore(struct engine *engine, struct span name, struct span value);

/* outage.c */
bool outage_holds(const struct engine *engine, const struct queue *queue);
void outage_noted(struct engine *engine, struct attempt *attempt, bool is_failure);
bool outage_wants_trial(const struct engine *engine, const struct queue *queue);
uint32_t outage_limit(const struct queue *queue);
void outage_forget(struct queue *queue);

#endif
