/* SPDX-License-Identifier: MIT
 *
 * complain -- how errors of a configuration read:
 *
 *     daruma.yaml:12:16: queues[1].targets[0].timeout: found 5x, expected a duration such as …
 *
 * For JSON the key is in err->field alone and the text begins with what was found. A text that is
 * too long is cut at its end; a long file name is cut at its front, so that the rest has room.
 */
#include "config/tree_internal.h"

#include <stdarg.h>
#include <stdio.h>

#define KEY_PATH_MAX  256
#define KEY_SHOWN_MAX 40
#define FILE_SHOWN    60

struct place {
    size_t line, column;
    char path[KEY_PATH_MAX];
    size_t len;
};

/* Bytes that can be shown of a text, without cutting a character in two. */
static size_t shown_len(struct span text, size_t max)
{
    size_t len = text.len < max ? text.len : max;

    while (len < text.len && len > 0 && ((unsigned char)text.at[len] & 0xc0) == 0x80) {
        len--;
    }
    return len;
}

static void path_add(struct place *place, struct span text)
{
    for (size_t i = 0; i < text.len && place->len < sizeof place->path - 1; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        place->path[place->len++] = byte < 0x20 || byte == 0x7f ? '?' : text.at[i];
    }
    place->path[place->len] = '\0';
}

static void path_add_key(struct place *place, struct span key)
{
    if (place->len > 0) {
        path_add(place, SPAN("."));
    }
    path_add(place, span_until(key, shown_len(key, KEY_SHOWN_MAX)));
}

/* Not deeper than CONFIG_NESTING_MAX. */
static void path_add_node(struct place *place, const struct node *node)
{
    char index[24];

    if (node->up == NULL) {
        return;
    }
    path_add_node(place, node->up);
    if (node->up->kind == NODE_OBJECT) {
        path_add_key(place, node->key);
        return;
    }
    (void)snprintf(index, sizeof index, "[%zu]", node->index); /* fits */
    path_add(place, span_of(index));
}

static void describe(const struct reading *reading, const struct place *place, const char *format,
                     va_list arguments)
{
    char text[ERROR_TEXT_MAX];
    const char *file = reading->file;

    (void)vsnprintf(text, sizeof text, format, arguments); /* cut when too long */
    if (file == NULL) {
        (void)fail_field(reading->err, FAULT_INPUT, place->path, "%s", text);
        return;
    }
    size_t len = strlen(file), skipped = len > FILE_SHOWN ? len - FILE_SHOWN : 0;
    (void)fail_field(reading->err, FAULT_INPUT, place->path, "%s%s:%zu:%zu: %s%s%s",
                     skipped > 0 ? "..." : "", file + skipped, place->line, place->column,
                     place->path, place->len > 0 ? ": " : "", text);
}

int complain(const struct reading *reading, const struct node *node, const char *format, ...)
{
    struct place place = {.line = node->line, .column = node->column};
    va_list arguments;

    path_add_node(&place, node);
    va_start(arguments, format);
    describe(reading, &place, format, arguments);
    va_end(arguments);
    return FAULT_INPUT;
}

int complain_key(const struct reading *reading, const struct node *node, const char *format, ...)
{
    struct place place = {.line = node->key_line, .column = node->key_column};
    va_list arguments;

    path_add_node(&place, node);
    va_start(arguments, format);
    describe(reading, &place, format, arguments);
    va_end(arguments);
    return FAULT_INPUT;
}

static int complain_place(const struct reading *reading, const struct place *place,
                          const char *format, ...) __attribute__((format(printf, 3, 4)));

static int complain_place(const struct reading *reading, const struct place *place,
                          const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    describe(reading, place, format, arguments);
    va_end(arguments);
    return FAULT_INPUT;
}

int complain_missing(const struct reading *reading, const struct node *object, const char *key,
                     const char *expected)
{
    struct place place = {.line = object->line, .column = object->column};

    path_add_node(&place, object);
    path_add_key(&place, span_of(key));
    return complain_place(reading, &place, "missing, expected %s", expected);
}

int complain_at(const struct reading *reading, size_t line, size_t column, const char *format, ...)
{
    struct place place = {.line = line, .column = column};
    va_list arguments;

    va_start(arguments, format);
    describe(reading, &place, format, arguments);
    va_end(arguments);
    return FAULT_INPUT;
}

int complain_memory(const struct reading *reading)
{
    return fail(reading->err, FAULT_MEMORY, "out of memory while reading %s",
                reading->file != NULL ? "the configuration" : "settings");
}

const char *found_text(const struct node *node, char ret_text[FOUND_MAX])
{
    if (node->kind != NODE_TEXT) {
        return node->kind == NODE_LIST ? "a list" : "a mapping";
    }
    if (node_is_nothing(node)) {
        return "nothing";
    }
    const char *quote = node->is_quoted ? "\"" : "";
    size_t len = shown_len(node->source, KEY_SHOWN_MAX);
    (void)snprintf(ret_text, FOUND_MAX, "%s%.*s%s%s", quote, (int)len, node->source.at,
                   len < node->source.len ? "..." : "", quote); /* fits: 2 + 40 + 3 */
    for (char *byte = ret_text; *byte != '\0'; byte++) {
        if ((unsigned char)*byte < 0x20 || *byte == 0x7f) {
            *byte = '?';
        }
    }
    return ret_text;
}
