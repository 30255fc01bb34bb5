/* SPDX-License-Identifier: MIT
 *
 * providers -- inside config/ only: AI providers and the lists of them. For the rows of keys.c; see
 * struct schema_key and struct schema for what is promised.
 */
#ifndef CONFIG_PROVIDERS_INTERNAL_H
#define CONFIG_PROVIDERS_INTERNAL_H

#include "config/schema_internal.h"
#include "task/prompt.h"

#define PROVIDERS_TEMPLATE_MAX 65536

/* A prompt as written. */
struct prompt_written {
    struct span system, user; /* empty: the built-in ones */
    enum prompt_language language;
    uint32_t length; /* 0: the language's own */
};

int keys_read(struct reading *reading, const struct schema_key *key, const struct node *node,
              void *into); /* struct provider_settings */
int prompt_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                void *into); /* struct provider_settings */
int template_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                  void *into); /* struct span: may have several lines */
int provider_finish(struct reading *reading, const struct node *node, void *into);
const char *provider_url_refuse(struct span text);
const char *provider_path_refuse(struct span text);

/* All three into `const struct fallback *` of a queue, in this order. */
int fallback_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                  void *into);
int order_read(struct reading *reading, const struct schema_key *key, const struct node *node,
               void *into);
int wait_under_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                    void *into);
int queue_finish(struct reading *reading, const struct node *node, void *into);

const char *fallback_order_text(int order);

#endif
