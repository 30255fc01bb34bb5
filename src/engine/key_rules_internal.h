/* SPDX-License-Identifier: MIT
 *
 * key_rules -- inside src/engine only: see key_rules_check.c.
 */
#ifndef ENGINE_KEY_RULES_INTERNAL_H
#define ENGINE_KEY_RULES_INTERNAL_H

struct engine;
struct error;

/* At the start: warns of each route that goes by other rules than before, and keeps those of all. */
int key_rules_check(struct engine *engine, struct error *err) __attribute__((warn_unused_result));

#endif
