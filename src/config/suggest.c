/* SPDX-License-Identifier: MIT
 *
 * suggest -- see suggest_internal.h.
 */
#include "config/suggest_internal.h"

#include "base/near.h"

#include <stdio.h>

#define KNOWN_MAX 160
#define MORE      "…"

static const char *nearest(const struct schema *schema, struct span key)
{
    struct near near = {.word = key};

    for (size_t i = 0; i < schema->key_count; i++) {
        near_offer(&near, schema->keys[i].name);
    }
    return near.name;
}

int suggest_key(const struct reading *reading, const struct schema *schema, const struct node *node)
{
    const char *name = nearest(schema, node->key);
    char known[KNOWN_MAX] = "";
    size_t len = 0;

    if (name != NULL) {
        return complain_key(reading, node, "unknown key, did you mean %s?", name);
    }
    for (size_t i = 0; i < schema->key_count; i++) {
        const char *next = schema->keys[i].name;
        bool fits = len + strlen(next) + sizeof ", " + sizeof MORE < sizeof known;
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", i > 0 ? ", " : "",
                                fits ? next : MORE); /* there is room for either */
        if (!fits) {
            break;
        }
    }
    return complain_key(reading, node, "unknown key, expected %s", known);
}
