/* SPDX-License-Identifier: MIT
 *
 * schema -- see schema_internal.h. Keys are read in the order of the table, not of the text, so
 * that what one names (a policy) is there when another (a queue) asks for it.
 */
#include "config/schema_internal.h"
#include "config/suggest_internal.h"
#include "config/units_internal.h"

#include <daruma/retry_after.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define EXPECTED_MAX 200

static const char *const object_words[] = {"a mapping of keys to values", "an object"};

/* --- what is expected ------------------------------------------------------------------------ */

static void list_words(const struct key_word *words, char *text, size_t size)
{
    size_t len = (size_t)snprintf(text, size, "one of");

    for (; words->word != NULL && len < size; words++) {
        len += (size_t)snprintf(text + len, size - len, "%s %s", words[1].word == NULL ? " or" : "",
                                words->word);
        if (words[1].word != NULL && words[2].word != NULL && len < size) {
            len += (size_t)snprintf(text + len, size - len, ",");
        }
    }
}

static const char *expected_text(const struct reading *reading, const struct schema_key *key,
                                 char ret_text[EXPECTED_MAX])
{
    char least[UNITS_TEXT_MAX], most[UNITS_TEXT_MAX];

    switch (key->kind) {
    case KEY_DURATION:
        return "a duration such as 250ms, 10s, 5m, 24h or 30d";
    case KEY_SIZE:
        return "a size such as 64KiB or 1MiB";
    case KEY_COUNT:
        (void)snprintf(ret_text, EXPECTED_MAX, "a whole number from %.0f to %.0f", key->least,
                       key->most);
        return ret_text;
    case KEY_NUMBER:
        (void)snprintf(ret_text, EXPECTED_MAX, "a number from %s to %s",
                       number_format(key->least, least), number_format(key->most, most));
        return ret_text;
    case KEY_FLAG:
        return "true or false";
    case KEY_WORD:
        list_words(key->words, ret_text, EXPECTED_MAX);
        return ret_text;
    case KEY_OBJECT:
        return object_words[reading->file == NULL];
    case KEY_LIST:
        return "a list";
    case KEY_TEXT:
    case KEY_OWN:
    default:
        return key->expected != NULL ? key->expected : "text";
    }
}

int schema_complain(const struct reading *reading, const struct schema_key *key,
                    const struct node *node)
{
    char found[FOUND_MAX], expected[EXPECTED_MAX];

    if ((key->flags & KEY_HIDDEN) != 0 && node->kind == NODE_TEXT && !node_is_nothing(node)) {
        return complain(reading, node, "expected %s", expected_text(reading, key, expected));
    }
    return complain(reading, node, "found %s, expected %s", found_text(node, found),
                    expected_text(reading, key, expected));
}

static int complain_range(const struct reading *reading, const struct schema_key *key,
                          const struct node *node)
{
    char found[FOUND_MAX], least[UNITS_TEXT_MAX], most[UNITS_TEXT_MAX];
    bool is_size = key->kind == KEY_SIZE;
    const char *(*format)(int64_t, char[UNITS_TEXT_MAX]) = is_size ? size_format : duration_format;

    return complain(reading, node, "found %s, expected a %s from %s to %s", found_text(node, found),
                    is_size ? "size" : "duration", format((int64_t)key->least, least),
                    format((int64_t)key->most, most));
}

/* --- values ---------------------------------------------------------------------------------- */

bool schema_is_text(const struct reading *reading, const struct node *node)
{
    return node->kind == NODE_TEXT &&
           (node->is_quoted || (reading->file != NULL && !node_is_nothing(node)));
}

static bool is_bare(const struct node *node)
{
    return node->kind == NODE_TEXT && !node->is_quoted && !node_is_nothing(node);
}

static bool is_within(const struct schema_key *key, double value)
{
    return value >= key->least && value <= key->most;
}

static bool has_control(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.at[i] < 0x20 || text.at[i] == 0x7f) {
            return true;
        }
    }
    return false;
}

static int read_text(struct reading *reading, const struct schema_key *key, const struct node *node,
                     struct span *into)
{
    if (!schema_is_text(reading, node) || has_control(node->text)) {
        return schema_complain(reading, key, node);
    }
    if (!is_within(key, (double)node->text.len)) {
        return complain(reading, node, "found %zu bytes, expected %.0f to %.0f", node->text.len,
                        key->least, key->most);
    }
    const char *found = key->refuse != NULL ? key->refuse(node->text) : NULL;
    if (found != NULL && found[0] != '\0') {
        return complain(reading, node, "found %s, expected %s", found, key->expected);
    }
    if (found != NULL) {
        return schema_complain(reading, key, node);
    }
    *into = arena_copy(reading->arena, node->text);
    return into->at != NULL ? 0 : complain_memory(reading);
}

static int read_duration(struct reading *reading, const struct schema_key *key,
                         const struct node *node, int64_t *into)
{
    int64_t ms;

    if (!schema_is_text(reading, node) ||
        !daruma_duration_parse(node->text.at, node->text.len, &ms)) {
        return schema_complain(reading, key, node);
    }
    if (!is_within(key, (double)ms)) {
        return complain_range(reading, key, node);
    }
    *into = ms;
    return 0;
}

static int read_size(struct reading *reading, const struct schema_key *key, const struct node *node,
                     size_t *into)
{
    int64_t bytes;

    if (!schema_is_text(reading, node) || !size_parse(node->text, &bytes)) {
        return schema_complain(reading, key, node);
    }
    if (!is_within(key, (double)bytes)) {
        return complain_range(reading, key, node);
    }
    *into = (size_t)bytes;
    return 0;
}

static int read_count(struct reading *reading, const struct schema_key *key,
                      const struct node *node, uint32_t *into)
{
    int64_t count;

    if (!is_bare(node) || !span_to_int(node->text, &count) ||
        (node->text.len > 1 && node->text.at[0] == '0') || !is_within(key, (double)count)) {
        return schema_complain(reading, key, node);
    }
    *into = (uint32_t)count;
    return 0;
}

static int read_number(struct reading *reading, const struct schema_key *key,
                       const struct node *node, double *into)
{
    double number;

    if (!is_bare(node) || !number_parse(node->text, &number) || !is_within(key, number)) {
        return schema_complain(reading, key, node);
    }
    *into = number;
    return 0;
}

static int read_flag(struct reading *reading, const struct schema_key *key, const struct node *node,
                     bool *into)
{
    bool is_true = span_is(node->text, "true");

    if (!is_bare(node) || (!is_true && !span_is(node->text, "false"))) {
        return schema_complain(reading, key, node);
    }
    *into = is_true;
    return 0;
}

static int read_word(struct reading *reading, const struct schema_key *key, const struct node *node,
                     int *into)
{
    for (const struct key_word *word = key->words; word->word != NULL; word++) {
        if (schema_is_text(reading, node) && span_is(node->text, word->word)) {
            *into = word->value;
            return 0;
        }
    }
    return schema_complain(reading, key, node);
}

/* --- lists and objects ----------------------------------------------------------------------- */

static int read_value(struct reading *reading, const struct schema_key *key,
                      const struct node *node, char *into);

/* An item that begins with its name; the bytes may be of any struct. */
static struct span name_of(const char *item)
{
    struct span name;

    memcpy(&name, item, sizeof name);
    return name;
}

static int check_names(const struct reading *reading, const struct schema_list *list,
                       const struct node *node, const char *items)
{
    size_t i = 0;

    for (const struct node *item = node->first; item != NULL; item = item->next, i++) {
        struct span name = name_of(items + i * list->item_bytes);
        for (size_t other = 0; other < i; other++) {
            if (span_equal(name, name_of(items + other * list->item_bytes))) {
                const struct node *key = node_child(item, "name");
                char found[FOUND_MAX];
                return complain(reading, key, "found %s a second time, expected each name once",
                                found_text(key, found)); /* a list with names requires them */
            }
        }
    }
    return 0;
}

/* `base` is the struct that has the list. */
static int read_list(struct reading *reading, const struct schema_key *key, const struct node *node,
                     char *base)
{
    const struct schema_list *list = key->list;
    char *items = base + key->offset, *item;

    if (node->kind != NODE_LIST) {
        return schema_complain(reading, key, node);
    }
    if (node->count > list->items_max) {
        return complain(reading, node, "found %zu entries, expected at most %zu", node->count,
                        list->items_max);
    }
    if (!list->is_in_place) {
        items = arena_alloc(reading->arena, node->count * list->item_bytes);
        if (items == NULL) {
            return complain_memory(reading);
        }
        memcpy(base + key->offset, &items, sizeof items);
    }
    memcpy(base + list->count_offset, &node->count, sizeof node->count);
    item = items;
    for (const struct node *child = node->first; child != NULL; child = child->next) {
        int failed = read_value(reading, &list->item, child, item);
        if (failed != 0) {
            return failed;
        }
        item += list->item_bytes;
    }
    return list->has_names ? check_names(reading, list, node, items) : 0;
}

static int read_value(struct reading *reading, const struct schema_key *key,
                      const struct node *node, char *base)
{
    void *into = base + key->offset;

    switch (key->kind) {
    case KEY_TEXT:
        return read_text(reading, key, node, into);
    case KEY_DURATION:
        return read_duration(reading, key, node, into);
    case KEY_SIZE:
        return read_size(reading, key, node, into);
    case KEY_COUNT:
        return read_count(reading, key, node, into);
    case KEY_NUMBER:
        return read_number(reading, key, node, into);
    case KEY_FLAG:
        return read_flag(reading, key, node, into);
    case KEY_WORD:
        return read_word(reading, key, node, into);
    case KEY_OBJECT:
        return node->kind == NODE_OBJECT ? schema_read(reading, key->object, node, into)
                                         : schema_complain(reading, key, node);
    case KEY_LIST:
        return read_list(reading, key, node, base);
    case KEY_OWN:
    default:
        return key->read(reading, key, node, into);
    }
}

static int fill_default(struct reading *reading, const struct schema_key *key, char *base)
{
    void *into = base + key->offset;
    struct span standard_text = span_of(key->standard_text);

    switch (key->kind) {
    case KEY_TEXT:
        *(struct span *)into = standard_text;
        return 0;
    case KEY_DURATION:
        *(int64_t *)into = key->standard;
        return 0;
    case KEY_SIZE:
        *(size_t *)into = (size_t)key->standard;
        return 0;
    case KEY_COUNT:
        *(uint32_t *)into = (uint32_t)key->standard;
        return 0;
    case KEY_FLAG:
        *(bool *)into = key->standard != 0;
        return 0;
    case KEY_WORD:
        *(int *)into = (int)key->standard;
        return 0;
    case KEY_OBJECT:
        return schema_defaults(reading, key->object, into);
    case KEY_OWN: {
        const struct node node = {
            .is_quoted = true, .text = standard_text, .source = standard_text};
        return key->standard_text == NULL ? 0 : key->read(reading, key, &node, into);
    }
    case KEY_NUMBER: /* all zero, as the struct is already */
    case KEY_LIST:
    default:
        return 0;
    }
}

int schema_defaults(struct reading *reading, const struct schema *schema, void *into)
{
    int failed = 0;

    for (size_t i = 0; i < schema->key_count && failed == 0; i++) {
        failed = fill_default(reading, &schema->keys[i], into);
    }
    return failed;
}

/* Sorts what is below the object by key; unknown and repeated ones are refused. */
static int find_keys(const struct reading *reading, const struct schema *schema,
                     const struct node *object, const struct node *found[SCHEMA_KEYS_MAX])
{
    for (const struct node *node = object->first; node != NULL; node = node->next) {
        size_t i = 0;
        while (i < schema->key_count && !span_is(node->key, schema->keys[i].name)) {
            i++;
        }
        if (i == schema->key_count) {
            return suggest_key(reading, schema, node);
        }
        if (found[i] != NULL) {
            return complain_key(reading, node, "found a second time, expected each key once");
        }
        found[i] = node;
    }
    return 0;
}

static bool is_required(const struct reading *reading, const struct schema_key *key)
{
    return (key->flags & KEY_REQUIRED) != 0 ||
           ((key->flags & KEY_REQUIRED_IN_FILE) != 0 && reading->file != NULL);
}

int schema_read(struct reading *reading, const struct schema *schema, const struct node *node,
                void *into)
{
    const struct node *found[SCHEMA_KEYS_MAX] = {0};

    assert(schema->key_count <= SCHEMA_KEYS_MAX);
    int failed = find_keys(reading, schema, node, found);
    for (size_t i = 0; i < schema->key_count && failed == 0; i++) {
        const struct schema_key *key = &schema->keys[i];
        if (found[i] != NULL) {
            failed = read_value(reading, key, found[i], into);
        } else if (is_required(reading, key)) {
            char expected[EXPECTED_MAX];
            failed =
                complain_missing(reading, node, key->name, expected_text(reading, key, expected));
        } else {
            failed = fill_default(reading, key, into);
        }
    }
    return failed == 0 && schema->finish != NULL ? schema->finish(reading, node, into) : failed;
}
