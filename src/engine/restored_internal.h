/* SPDX-License-Identifier: MIT
 *
 * restored -- inside src/engine only: a store that was put back from a backup does not know the keys of
 * requests that came since. A request of the gateway with a key that is not known may be one of these; where
 * its upstream must not see it twice it is recorded as unsettled and not sent: the probe, or a person, says
 * what became of it.
 */
#ifndef ENGINE_RESTORED_INTERNAL_H
#define ENGINE_RESTORED_INTERNAL_H

#include "engine/engine_internal.h"

void restored_memo(struct engine *engine, const struct memo *memo); /* at start: any memo */
/* Has the store been put back whole? */
int restored_check(const struct engine *engine, struct error *err);
void restored_log(const struct engine *engine); /* at start */

/* May a new request of this queue have been carried out before the restore? */
bool restored_is_in_doubt(const struct engine *engine, const struct queue *queue, int64_t now_ms);
/* The life that it begins with then. */
void restored_begin(const struct queue *queue, struct life *life, int64_t now_ms);
/* It is recorded. */
void restored_recorded(struct engine *engine, const struct attempt *attempt);

#endif
