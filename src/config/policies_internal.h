/* SPDX-License-Identifier: MIT
 *
 * policies -- inside config/ only: how policies are read, and found by name.
 */
#ifndef CONFIG_POLICIES_INTERNAL_H
#define CONFIG_POLICIES_INTERNAL_H

#include "config/config.h"
#include "config/schema_internal.h"

/* Puts the built-in policies into an empty configuration. */
int policies_start(struct reading *reading, struct config *config);

/* A policy that is named or written out; for a queue's `policy` and a task's `retry`. */
int policy_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                void *into); /* struct daruma_policy */

/* The file's own policies, each added to those there are or put in place of one. `into` is the
 * struct config. */
int policies_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                  void *into);

/* Rules: what only they have. */
int jitter_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                void *into); /* struct daruma_backoff_options */
int schedule_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                  void *into); /* struct daruma_backoff_options */
int rule_finish(struct reading *reading, const struct node *node, void *into);

#endif
