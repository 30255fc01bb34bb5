/* SPDX-License-Identifier: MIT
 *
 * deadlines -- inside src/engine only, by way of engine_internal.h: tasks whose time is over while they wait.
 */
#ifndef ENGINE_DEADLINES_INTERNAL_H
#define ENGINE_DEADLINES_INTERNAL_H

#include "engine/engine.h"

void deadlines_take_over(struct engine *engine);
void deadlines_tick(struct engine *engine);
int64_t deadlines_next_ms(const struct engine *engine);

#endif
