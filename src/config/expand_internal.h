/* SPDX-License-Identifier: MIT
 *
 * expand -- inside config/ only: what a value takes from outside the file. ${NAME} becomes the
 * environment variable, $$ a dollar sign; env:NAME and file:PATH name secrets.
 */
#ifndef CONFIG_EXPAND_INTERNAL_H
#define CONFIG_EXPAND_INTERNAL_H

#include "config/tree_internal.h"

/* Replaces node->text. */
int expand_environment(struct reading *reading, struct node *node);

/* The secret that node->text names, in reading->arena. Never shown in an error. */
int expand_secret(struct reading *reading, const struct node *node, struct span *ret_secret);

#endif
