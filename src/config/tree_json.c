/* SPDX-License-Identifier: MIT
 *
 * tree_json -- JSON as nodes, for queues and policies that come over HTTP or out of the store. Not
 * by way of YAML, which would take almost all of JSON for the same and a few things for something
 * else. base/json_value finds where values begin and end; this fills in what strings stand for.
 */
#include "config/tree_internal.h"
#include "config/config.h"

#include "base/json_value.h"

#define SURROGATE_HIGH 0xd800u /* the first of a pair: ten bits each */
#define SURROGATE_LOW  0xdc00u
#define SURROGATE_END  0xe000u

static unsigned hex_value(char digit)
{
    return digit <= '9' ? (unsigned)(digit - '0') : (unsigned)((digit | 0x20) - 'a') + 10;
}

/* The four digits behind \u, which json_value has seen. */
static unsigned hex_take(struct span *rest)
{
    unsigned value = 0;

    for (size_t i = 0; i < 4; i++) {
        value = value * 16 + hex_value(rest->at[i]);
    }
    *rest = span_from(*rest, 4);
    return value;
}

static size_t utf8_write(unsigned character, char *into)
{
    size_t more = character < 0x80 ? 0 : character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};

    into[0] = (char)(first[more] | character >> (6 * more));
    for (size_t i = 1; i <= more; i++) {
        into[i] = (char)(0x80 | (character >> (6 * (more - i)) & 0x3f));
    }
    return more + 1;
}

/* Behind \u; false for half a pair. */
static bool character_take(struct span *rest, unsigned *ret_character)
{
    unsigned character = hex_take(rest);

    if (character >= SURROGATE_LOW && character < SURROGATE_END) {
        return false;
    }
    if (character >= SURROGATE_HIGH && character < SURROGATE_LOW) {
        if (!span_starts(*rest, "\\u")) {
            return false;
        }
        *rest = span_from(*rest, 2);
        unsigned low = hex_take(rest);
        if (low < SURROGATE_LOW || low >= SURROGATE_END) {
            return false;
        }
        character = 0x10000 + ((character - SURROGATE_HIGH) << 10) + (low - SURROGATE_LOW);
    }
    *ret_character = character;
    return true;
}

static char plain_escape(char kind)
{
    static const char kinds[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    const char *found = strchr(kinds, kind);

    return found != NULL ? meanings[found - kinds] : kind;
}

/* What stands between quotes, without its escapes. It never gets longer: six bytes of \u are at
 * most three, twelve of a pair four. */
static int read_string(const struct reading *reading, const struct node *node, struct span written,
                       struct span *ret_text)
{
    struct span rest = written;

    *ret_text = written;
    if (span_find(written, '\\') == NULL) {
        return 0;
    }
    char *text = arena_alloc(reading->nodes, written.len + 1);
    size_t len = 0;
    if (text == NULL) {
        return complain_memory(reading);
    }
    while (rest.len > 0) {
        char byte = rest.at[0];
        unsigned character;
        if (byte != '\\') {
            text[len++] = byte;
            rest = span_from(rest, 1);
            continue;
        }
        char kind = rest.at[1];
        rest = span_from(rest, 2);
        if (kind != 'u') {
            text[len++] = plain_escape(kind);
        } else if (character_take(&rest, &character)) {
            len += utf8_write(character, text + len);
        } else {
            return complain(reading, node, "not valid JSON: an escape that is half a character");
        }
    }
    *ret_text = (struct span){.at = text, .len = len};
    return 0;
}

static enum node_kind kind_of(struct span value)
{
    return value.at[0] == '{' ? NODE_OBJECT : value.at[0] == '[' ? NODE_LIST : NODE_TEXT;
}

static int fill_node(struct reading *reading, struct node *node, struct span value, size_t depth);

static int fill_children(struct reading *reading, struct node *node, struct span value,
                         size_t depth)
{
    struct json_walk walk;
    struct span name, below;

    if (depth > CONFIG_NESTING_MAX) {
        return complain(reading, node, "nested deeper than %d", CONFIG_NESTING_MAX);
    }
    (void)json_walk_begin(&walk, value, value.at[0]); /* it begins with a bracket */
    while (json_walk_next(&walk, &name, &below) ==
           JSON_STEP_VALUE) { /* well formed: never broken */
        if (++reading->node_count > CONFIG_JSON_NODES_MAX) {
            return complain_at(reading, 1, 1, "found more than %d values", CONFIG_JSON_NODES_MAX);
        }
        struct node *child = node_add(reading, node, kind_of(below));
        if (child == NULL) {
            return complain_memory(reading);
        }
        int failed = read_string(reading, node, name, &child->key);
        if (failed == 0) {
            failed = fill_node(reading, child, below, depth);
        }
        if (failed != 0) {
            return failed;
        }
    }
    return 0;
}

static int fill_node(struct reading *reading, struct node *node, struct span value, size_t depth)
{
    if (node->kind != NODE_TEXT) {
        return fill_children(reading, node, value, depth + 1);
    }
    node->is_quoted = value.at[0] == '"';
    node->text = value;
    if (node->is_quoted) {
        struct span written = {.at = value.at + 1, .len = value.len - 2};
        int failed = read_string(reading, node, written, &node->text);
        if (failed != 0) {
            return failed;
        }
    }
    node->source = node->text;
    return 0;
}

int tree_read_json(struct reading *reading, struct span text, struct node **ret_root)
{
    struct span rest = text, value;

    if (text.len > CONFIG_JSON_BYTES_MAX) {
        return complain_at(reading, 1, 1, "found %zu bytes, expected at most %d", text.len,
                           CONFIG_JSON_BYTES_MAX);
    }
    if (!span_is_utf8(text)) {
        return complain_at(reading, 1, 1, "not UTF-8");
    }
    if (!json_value_take(&rest, &value) || rest.len > 0) {
        return complain_at(reading, 1, 1, "not valid JSON");
    }
    struct node *root = node_add(reading, NULL, kind_of(value));
    if (root == NULL) {
        return complain_memory(reading);
    }
    int failed = fill_node(reading, root, value, 0);
    if (failed == 0) {
        *ret_root = root;
    }
    return failed;
}
