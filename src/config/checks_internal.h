/* SPDX-License-Identifier: MIT
 *
 * checks -- inside config/ only: see checks.c, and struct schema for what `finish` promises.
 */
#ifndef CONFIG_CHECKS_INTERNAL_H
#define CONFIG_CHECKS_INTERNAL_H

#include "config/schema_internal.h"

int outage_finish(struct reading *reading, const struct node *node, void *into);
int rate_finish(struct reading *reading, const struct node *node, void *into);
int token_finish(struct reading *reading, const struct node *node, void *into);
int api_finish(struct reading *reading, const struct node *node, void *into);
int limits_finish(struct reading *reading, const struct node *node, void *into);
int target_finish(struct reading *reading, const struct node *node, void *into);
int addresses_finish(struct reading *reading, const struct node *node,
                     void *into); /* of config_schema */

/* authorities.c: what is under `ca`, if it is there, is the path of a file that can be read, with
 * certificates. `path`: the value, kept in reading->arena with a NUL behind it. */
int ca_check(struct reading *reading, const struct node *object, struct span path);

#endif
