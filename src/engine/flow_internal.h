/* SPDX-License-Identifier: MIT
 *
 * flow -- shared only inside engine: how much of a queue may be under way (flow.c), at which host
 * (hosts.c), and what holds it while its target is down (outage.c). Comes with engine_internal.h.
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
    HOST_FREE, /* it has a place there, and may go */
    HOST_LINE, /* it waits, leased, for a place */
    HOST_FULL  /* there is no room for it: it goes back */
};
struct host_pick {
    struct host *host;
    enum wait_kind kind;
    struct schedule_entry entry;
};
enum host_entry hosts_enter(struct engine *engine, struct attempt *attempt);
struct attempt *hosts_leave(struct engine *engine, struct attempt *attempt);
bool hosts_park(struct engine *engine, struct queue *queue, struct span url,
                const struct life *life, int64_t row);
bool hosts_are_noted(const struct engine *engine, const struct queue *queue, struct span target);
bool hosts_pick(struct engine *engine, struct queue *queue, enum wait_kind last,
                struct host_pick *ret_pick);
void hosts_take(struct attempt *attempt, const struct host_pick *pick);
void hosts_unleased(struct engine *engine, struct attempt *attempt);
int64_t hosts_put_off_ms(struct engine *engine, const struct attempt *attempt);
bool hosts_may_look(const struct engine *engine, struct queue *queue);
int64_t
hosts_oldest_due_ms(const struct queue *queue); /* of what is parked; INT64_MAX: nothing is */
void hosts_move(struct engine *engine, struct queue *queue);
void hosts_free_all(struct engine *engine);

/* places.c */
void places_open(struct engine *engine);
bool places_may_take(const struct engine *engine, const struct queue *queue);
void places_want(struct engine *engine, struct queue *queue);
void places_serve(struct engine *engine);
void places_take(struct engine *engine, struct queue *queue);
void places_free(struct engine *engine, struct queue *queue);
bool places_rest(const struct engine *engine);
int64_t places_rest_ms(const struct engine *engine);
void places_short(struct engine *engine, const struct attempt *attempt);
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
int targets_restore(struct engine *engine, struct span name, struct span value);

/* outage.c */
bool outage_holds(const struct engine *engine, const struct queue *queue);
void outage_noted(struct engine *engine, struct attempt *attempt, bool is_failure);
bool outage_wants_trial(const struct engine *engine, const struct queue *queue);
uint32_t outage_limit(const struct queue *queue);
void outage_forget(struct queue *queue);

#endif
