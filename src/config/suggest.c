/* SPDX-License-Identifier: MIT
 *
 * suggest -- see suggest_internal.h. The distance is Levenshtein's: letters put in, left out or
 * changed.
 */
#include "config/suggest_internal.h"

#include <stdio.h>

#define DISTANCE_MAX 2
#define WORD_MAX     32 /* longer keys are not compared */
#define KNOWN_MAX    160
#define MORE         "…"

static size_t least(size_t one, size_t other)
{
    return one < other ? one : other;
}

static size_t distance(struct span one, struct span other)
{
    size_t row[WORD_MAX + 1];

    if (one.len > WORD_MAX || other.len > WORD_MAX) {
        return WORD_MAX;
    }
    for (size_t i = 0; i <= other.len; i++) {
        row[i] = i;
    }
    for (size_t i = 0; i < one.len; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < other.len; k++) {
            size_t changed = diagonal + (one.at[i] != other.at[k]);
            diagonal = row[k + 1];
            row[k + 1] = least(changed, least(diagonal, row[k]) + 1);
        }
    }
    return row[other.len];
}

/* A short key is near everything, so at most half of it may differ. */
static const char *nearest(const struct schema *schema, struct span key)
{
    size_t best = DISTANCE_MAX + 1;
    const char *name = NULL;

    for (size_t i = 0; i < schema->key_count; i++) {
        struct span known = span_of(schema->keys[i].name);
        size_t away = distance(key, known);
        if (away < best && away * 2 <= known.len) {
            best = away;
            name = schema->keys[i].name;
        }
    }
    return name;
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
