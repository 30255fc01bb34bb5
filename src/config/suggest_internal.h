/* SPDX-License-Identifier: MIT
 *
 * suggest -- inside config/ only: what somebody may have meant by a key that does not exist.
 */
#ifndef CONFIG_SUGGEST_INTERNAL_H
#define CONFIG_SUGGEST_INTERNAL_H

#include "config/schema_internal.h"

/* "unknown key, did you mean …?", or the keys that there are. FAULT_INPUT. */
int suggest_key(const struct reading *reading, const struct schema *schema,
                const struct node *node);

#endif
