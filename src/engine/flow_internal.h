/* SPDX-License-Identifier: MIT
 *
 * flow -- shared only inside engine: how much of a queue may be under way (flow.c), and what holds it
 * while its target is down (outage.c). Comes with engine_internal.h.
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
bool flow_enter_host(struct engine *engine, struct attempt *attempt);
struct attempt *flow_leave_host(struct engine *engine, struct attempt *attempt);
void flow_move_hosts(struct engine *engine, struct queue *queue);
void flow_free_all(struct engine *engine);

/* outage.c */
bool outage_holds(const struct engine *engine, const struct queue *queue);
void outage_noted(struct engine *engine, struct attempt *attempt, bool is_failure);
bool outage_wants_trial(const struct engine *engine, const struct queue *queue);
uint32_t outage_limit(const struct queue *queue);
void outage_forget(struct queue *queue);

#endif
