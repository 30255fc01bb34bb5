/* SPDX-License-Identifier: MIT
 *
 * hold -- inside src/engine only: queues whose tasks wait because the configuration was changed under
 * them. Nothing of such a queue is sent and nothing is lost; what is in it can be listed, read,
 * cancelled and purged by the queue's name.
 *
 *   QUEUE_HOLD_MISSING   neither the file nor the store says what it is: it was in the file once
 *   QUEUE_HOLD_SETTINGS  its stored settings need what the file does not have any more
 *   QUEUE_HOLD_TARGETS   it has no targets any more, and a task that is sent to them
 *
 * A hold ends when the queue is defined again: by the file at the next start, or by a PUT. One for its targets
 * also ends when a person resumes the queue, and when the tasks that are sent to them have ended (stranded.c).
 */
#ifndef ENGINE_HOLD_INTERNAL_H
#define ENGINE_HOLD_INTERNAL_H

#include "engine/engine_internal.h"

/* By the name that a caller gives. NULL: there is none, or nothing defines it and nothing is in it. */
struct queue *hold_find(const struct engine *engine, struct span name);
bool hold_is_shown(const struct queue *queue);

/* It takes no task in, and hands none out. */
bool hold_is_shut(const struct queue *queue);
/* What a caller is told who asks for more than looking, cancelling and purging. */
enum reply_kind hold_reply(const struct queue *queue);

/* From its row, in place of a queue that can be worked with. FAULT_MEMORY at the worst. */
int hold_missing(struct engine *engine, const struct queue_row *row, struct error *err)
    __attribute__((warn_unused_result));
int hold_settings(struct engine *engine, const struct queue_row *row, struct span why,
                  struct error *err) __attribute__((warn_unused_result));
/* Is there nothing that says where to send it? Then its queue is held. */
bool hold_is_stranded(struct engine *engine, const struct attempt *attempt);

/* A person resumes the queue, or what was stranded has ended: its tasks are looked at anew. */
void hold_try_again(struct queue *queue);

/* Says it if it is held; one that is missing, if something is in it. */
void hold_log(const struct engine *engine, const struct queue *queue);
/* After the counts are known: of each queue. */
void hold_log_start(const struct engine *engine);

#endif
