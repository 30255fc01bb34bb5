/* SPDX-License-Identifier: MIT
 *
 * reach -- inside src/engine only: what callers see that do not see every queue, and lists, of which
 * they get their part.
 */
#ifndef ENGINE_REACH_INTERNAL_H
#define ENGINE_REACH_INTERNAL_H

#include "engine/engine_internal.h"

/* pages.c */
void pages_ask(struct engine *engine, const struct ask *ask);
void pages_ask_audit(struct engine *engine, const struct ask *ask);

/* keys.c */
bool keys_look_up(struct engine *engine, const struct ask *ask, struct queue *queue);

/* inspect.c: what was read, as the reply that it was read for. */
void inspect_reply(struct engine *engine, struct read *read);

/* reach.c */
bool engine_reaches(const struct engine *engine, const struct reach *reach, uint32_t number);
void reach_hide(const struct engine *engine, struct read *read); /* a task that is out of reach */
/* True: it names a queue that is out of reach, and is answered. */
bool reach_refuse_queue(struct engine *engine, const struct ask *ask);
bool reach_list(const struct engine *engine, const struct reach *reach, struct read *read);
bool reach_copy_ask(struct read *read, const struct ask *ask);
/* Has an act of manage_ask on a task look first whether it is in reach. False: everything is. */
bool reach_look_first(struct engine *engine, const struct ask *ask);

#endif
