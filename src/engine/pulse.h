/* SPDX-License-Identifier: MIT
 *
 * pulse -- the thread that beats for this node on a store that it shares with others, so that neither
 * a long list nor a slow commit makes its peers take it for dead. What each beat has seen goes to the
 * engine.
 */
#ifndef ENGINE_PULSE_H
#define ENGINE_PULSE_H

#include "engine/engine.h"

struct pulse; /* opaque */

/* Called from the pulse's thread after a beat: wake the taker. */
typedef void (*pulse_wake_fn)(void *user);

struct pulse *pulse_new(struct store *store, pulse_wake_fn wake, void *user); /* NULL: no memory */
void pulse_free(struct pulse *pulse); /* NULL is fine; stopped by then */

int pulse_start(struct pulse *pulse, struct error *err) __attribute__((warn_unused_result));
void pulse_stop(struct pulse *pulse); /* after the beat that is under way */

/* Hands every beat since the last call to the engine. From the loop thread. */
void pulse_take(struct pulse *pulse, struct engine *engine);
/* 0 while the last beat worked, else its fault. From any thread. */
int pulse_health(const struct pulse *pulse);

#endif
