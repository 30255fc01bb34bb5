/* SPDX-License-Identifier: MIT
 *
 * walk -- inside src/engine only, by way of engine_internal.h: what a person does to all tasks of a queue.
 */
#ifndef ENGINE_WALK_INTERNAL_H
#define ENGINE_WALK_INTERNAL_H

#include "engine/engine.h"

struct queue;

void walk_ask(struct engine *engine, const struct ask *ask, struct queue *queue);
bool walk_is_purging(const struct engine *engine, const struct queue *queue);
/* Each queue that one goes through. */
void walk_mark(const struct engine *engine, void (*use)(const struct queue *queue));
/* Those that found no room go on. */
void walk_tick(struct engine *engine);
int64_t walk_wait_ms(const struct engine *engine); /* until then; INT64_MAX: none waits */
size_t walk_count(const struct engine *engine);
void walk_free_all(struct engine *engine);

#endif
