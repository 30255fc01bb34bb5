/* SPDX-License-Identifier: MIT
 *
 * values -- inside config/ only: the kinds of value that one key or two have to themselves. For the
 * rows of keys.c; see struct schema_key for what `refuse` and `read` functions promise.
 */
#ifndef CONFIG_VALUES_INTERNAL_H
#define CONFIG_VALUES_INTERNAL_H

#include "config/schema_internal.h"

const char *name_refuse(struct span text);          /* letters, digits, - _ . */
const char *queue_name_refuse(struct span text);    /* the same, and not one of the server's own */
const char *queue_pattern_refuse(struct span text); /* task/reach.h */
const char *method_refuse(struct span text);
const char *header_name_refuse(struct span text);
const char *header_value_refuse(struct span text);

int store_read(struct reading *reading, const struct schema_key *key, const struct node *node,
               void *into); /* struct config_store */
int listen_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                void *into); /* struct config_listen */
int secret_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                void *into); /* struct span */
int sign_read(struct reading *reading, const struct schema_key *key, const struct node *node,
              void *into); /* struct signing_key */
int api_host_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                  void *into);
int host_read(struct reading *reading, const struct schema_key *key, const struct node *node,
              void *into); /* struct outbound_rule */
int headers_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                 void *into); /* struct span, task/fields.h */

#endif
