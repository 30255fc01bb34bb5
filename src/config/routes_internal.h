/* SPDX-License-Identifier: MIT
 *
 * routes -- inside config/ only: the gateway's tables of keys (route_keys.c) and the values that
 * only routes have (routes.c).
 */
#ifndef CONFIG_ROUTES_INTERNAL_H
#define CONFIG_ROUTES_INTERNAL_H

#include "config/schema_internal.h"

extern const struct schema gateway_schema; /* struct config_gateway */
extern const struct schema tls_schema;     /* struct config_tls; keys.c */
extern const struct schema route_schema;   /* struct route_settings */

const char *upstream_refuse(struct span text);
const char *json_path_refuse(struct span text);

/* `into` is the field that the row names. */
int match_read(struct reading *reading, const struct schema_key *key, const struct node *node,
               void *into); /* struct route_pattern */
int scope_read(struct reading *reading, const struct schema_key *key, const struct node *node,
               void *into); /* struct route_settings */
int fingerprint_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                     void *into); /* struct route_settings */
int release_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                 void *into); /* struct route_settings */
int kept_headers_read(struct reading *reading, const struct schema_key *key,
                      const struct node *node, void *into); /* struct route_settings */
int mismatch_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                  void *into); /* uint32_t */

int route_finish(struct reading *reading, const struct node *node, void *into);

#endif
