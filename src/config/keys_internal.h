/* SPDX-License-Identifier: MIT
 *
 * keys -- inside config/ only: the table of every key there is (keys.c), and the structs that a
 * mapping becomes where that is not its final form.
 */
#ifndef CONFIG_KEYS_INTERNAL_H
#define CONFIG_KEYS_INTERNAL_H

#include "config/schema_internal.h"

#include <daruma/policy.h>

/* A policy as written, before the library has checked it. */
struct policy_written {
    struct span name; /* empty for one that stands in a queue or a task */
    struct daruma_policy_options options;
};

struct header_written {
    struct span name;
    struct span value;
};

extern const struct schema config_schema;       /* struct config: the whole file */
extern const struct schema queue_schema;        /* struct queue_settings */
extern const struct schema prompt_schema;       /* struct prompt_written */
extern const struct schema header_schema;       /* struct header_written */
extern const struct schema policy_schema;       /* struct policy_written, without a name */
extern const struct schema named_policy_schema; /* struct policy_written */

#endif
