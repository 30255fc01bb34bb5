/* SPDX-License-Identifier: MIT
 *
 * What the rest of the engine asks of those who read tasks and wait for them; included by
 * engine_internal.h, whose types it needs.
 */
#ifndef ENGINE_INSPECT_INTERNAL_H
#define ENGINE_INSPECT_INTERNAL_H

/* read.c */
bool inspect_is_over(const struct life *life);

/* inspect.c */
void inspect_ask(struct engine *engine, const struct ask *ask);
void inspect_read_task(struct engine *engine, struct task_id id, enum reply_kind reply,
                       uint64_t exchange, uint32_t index);
void inspect_read_acted(struct engine *engine, struct task_id id, enum reply_kind kind,
                        uint64_t exchange);
/* What was read, or that it cannot be; and that it is recorded, perhaps, and cannot be read now. */
void inspect_reply(struct engine *engine, struct read *read);
void inspect_unread(struct engine *engine, uint64_t exchange, uint32_t index);
struct read *inspect_new(enum read_kind kind);
void inspect_no_room(struct engine *engine, uint64_t exchange, uint32_t index);
bool inspect_start(struct engine *engine, struct read *read);
void inspect_drop(struct read *read); /* one that was not started; NULL is fine */

/* inspect_wait.c */
void inspect_wake(struct engine *engine, struct task_id id);
void inspect_moved(struct engine *engine, int64_t row); /* as a peer says */
void inspect_tick(struct engine *engine);
void inspect_drain(
    struct engine *engine); /* no attempt begins any more: who waits in vain is told */
void inspect_look_again(struct engine *engine, bool is_beat);
void inspect_leave(struct engine *engine, uint64_t exchange);
void inspect_dismiss(struct engine *engine, uint64_t exchange); /* its time is over */
bool inspect_wait(struct engine *engine, const struct waiter *like, bool is_known);
void inspect_told(struct engine *engine, const struct record *record, uint64_t stamp);
void inspect_delivered(struct engine *engine, struct task_id id);
uint64_t inspect_take_first(struct engine *engine, struct task_id id);

#endif
