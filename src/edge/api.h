/* SPDX-License-Identifier: MIT
 *
 * api -- the functions behind the routes. Shared inside edge/ only. Each answers its exchange, or
 * makes one call of the engine whose reply will (edge/reply.c).
 */
#ifndef EDGE_API_H
#define EDGE_API_H

#include "edge/edge_internal.h"
#include "edge/parse_lease.h"

/* api_tasks.c */
void api_task_create(struct exchange *exchange);
void api_task_get(struct exchange *exchange);
void api_task_list(struct exchange *exchange);
void api_task_run(struct exchange *exchange);
void api_task_cancel(struct exchange *exchange);

/* api_batch.c */
void api_task_batch(struct exchange *exchange);

/* api_queues.c */
void api_queue_list(struct exchange *exchange);
void api_queue_get(struct exchange *exchange);
void api_queue_put(struct exchange *exchange);
void api_queue_delete(struct exchange *exchange);
void api_queue_pause(struct exchange *exchange);
void api_queue_resume(struct exchange *exchange);
void api_queue_purge(struct exchange *exchange);
void api_queue_run(struct exchange *exchange);
void api_run_get(struct exchange *exchange);

/* api_letters.c */
void api_letter_list(struct exchange *exchange);
void api_letter_get(struct exchange *exchange);
void api_letter_redrive(struct exchange *exchange);
void api_letter_resolve(struct exchange *exchange);
void api_letters_redrive(struct exchange *exchange);
void api_redrive_get(struct exchange *exchange);
void api_redrive_cancel(struct exchange *exchange);
void api_unsettled_list(struct exchange *exchange);
void api_task_settle(struct exchange *exchange);
void api_audit_list(struct exchange *exchange);
struct arena *api_arena(struct exchange *exchange);

/* api_leases.c */
void api_lease_take(struct exchange *exchange);
void api_lease_settle(struct exchange *exchange);
void lease_format(const struct record *record, char ret_text[LEASE_TEXT_MAX]);
/* In the engine's thread: noted there, and given back to it in its next turn. */
void leases_return(struct edge *edge, const struct record *records, size_t count);
void lease_returns_note(struct lease_return **returns, const struct record *records, size_t count);
void leases_flush_returns(struct lease_return **returns, struct engine *engine);

/* reply.c: how many attempts it may have, by its own policy, else by its queue's; 0: not known. */
uint32_t answer_attempts_max(const struct exchange *exchange, const struct record *record,
                             const struct queue_view *queue);

/* reply_letters.c */
void answer_act(struct exchange *exchange, const struct reply *reply);

/* api_keys.c */
void api_key_list(struct exchange *exchange);
void api_key_forget(struct exchange *exchange);
void api_keys_answer(struct exchange *exchange, const struct reply *reply);

/* api_operations.c */
void api_health(struct exchange *exchange);
void api_ready(struct exchange *exchange);
void api_metrics(struct exchange *exchange);
void api_hosts(struct exchange *exchange);
void api_openapi(struct exchange *exchange);

/* One call of the engine; the exchange is ASKED from then on, and may be answered already when this
 * returns. exchange and, if it is empty, queue are filled in. */
void api_ask(struct exchange *exchange, struct ask ask);

/* {queue} is a possible name; else refuses. */
bool api_has_queue(struct exchange *exchange);
/* {id} as a task's id; else refuses. */
bool api_has_task(struct exchange *exchange, struct task_id *ret_id);
/* A number from the query; the fallback when it is not given. False: refused. */
bool api_number(struct exchange *exchange, const char *name, int64_t min, int64_t max,
                int64_t *value);

/* What reading a task for this exchange needs. */
struct parse_options;
void api_parse_options(const struct exchange *exchange, struct parse_options *ret_options);

#endif
