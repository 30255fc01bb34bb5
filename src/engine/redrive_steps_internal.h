/* SPDX-License-Identifier: MIT
 *
 * redrive_steps -- inside src/engine only, by way of engine_internal.h: what the rest of the engine asks of
 * bulk redrives.
 */
#ifndef ENGINE_REDRIVE_STEPS_INTERNAL_H
#define ENGINE_REDRIVE_STEPS_INTERNAL_H

#include "engine/engine.h"

struct read;

/* redrive.c */
void redrive_ask(struct engine *engine, const struct ask *ask);
void redrive_tick(struct engine *engine);
int64_t redrive_next_ms(const struct engine *engine);
int redrive_restore(struct engine *engine, struct span name, struct span value);
void redrive_free_all(struct engine *engine);

/* redrive_peers.c: with nodes. */
void redrive_adopt(struct engine *engine, const struct read *read); /* of READ_MEMOS */
void redrive_beat(struct engine *engine);
void redrive_peers_tick(struct engine *engine);
int64_t redrive_peers_wait_ms(const struct engine *engine);
void redrive_peers_free_all(struct engine *engine);

#endif
