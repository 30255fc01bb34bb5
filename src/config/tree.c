/* SPDX-License-Identifier: MIT
 *
 * tree -- see tree_internal.h. Events of libyaml become nodes, with everything refused on the way
 * that a configuration has no use for: anchors, aliases, tags, a second document, keys that are not
 * text, deep nesting.
 */
#include "config/tree_internal.h"
#include "config/config.h"
#include "config/expand_internal.h"

#include "base/auto.h"

#include <yaml.h>

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* some editors begin a file with it */

/* What is under way. */
struct builder {
    struct reading *reading;
    struct node *root;
    struct node *open; /* the list or object that is being filled */
    size_t depth;
    bool has_document;
    bool has_key; /* below an object: the key has been read, its value comes */
    struct span key;
    yaml_mark_t key_mark;
};

struct node *node_add(struct reading *reading, struct node *up, enum node_kind kind)
{
    struct node *node = arena_alloc(reading->nodes, sizeof *node);

    if (node == NULL) {
        return NULL;
    }
    *node = (struct node){.kind = kind, .up = up};
    if (up != NULL) {
        node->index = up->count++;
        *(up->first == NULL ? &up->first : &up->last->next) = node;
        up->last = node;
    }
    return node;
}

static struct node *place_node(struct builder *builder, enum node_kind kind, yaml_mark_t mark)
{
    struct node *node = node_add(builder->reading, builder->open, kind);

    if (node == NULL) {
        return NULL;
    }
    node->line = mark.line + 1;
    node->column = mark.column + 1;
    if (builder->open == NULL) {
        builder->root = node;
    } else if (builder->open->kind == NODE_OBJECT) {
        node->key = builder->key;
        node->key_line = builder->key_mark.line + 1;
        node->key_column = builder->key_mark.column + 1;
        builder->has_key = false;
    }
    return node;
}

static bool awaits_key(const struct builder *builder)
{
    return builder->open != NULL && builder->open->kind == NODE_OBJECT && !builder->has_key;
}

static int take_key(struct builder *builder, const yaml_event_t *event)
{
    struct reading *reading = builder->reading;
    struct span key = {.at = (const char *)event->data.scalar.value,
                       .len = event->data.scalar.length};

    if (event->data.scalar.anchor != NULL || event->data.scalar.tag != NULL) {
        return complain_at(reading, event->start_mark.line + 1, event->start_mark.column + 1,
                           "found an anchor or a tag, expected key: value");
    }
    builder->key = arena_copy(reading->nodes, key);
    builder->key_mark = event->start_mark;
    builder->has_key = true;
    return builder->key.at != NULL ? 0 : complain_memory(reading);
}

/* What no value may have, or NULL. */
static const char *refuse_marks(const yaml_event_t *event)
{
    const yaml_char_t *anchor = event->data.scalar.anchor, *tag = event->data.scalar.tag;

    if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    return anchor != NULL ? "an anchor" : tag != NULL ? "a tag" : NULL;
}

/* Adds the node of an event that begins a value. */
static int take_value(struct builder *builder, const yaml_event_t *event, enum node_kind kind,
                      struct node **ret_node)
{
    struct reading *reading = builder->reading;

    if (awaits_key(builder)) {
        return complain_at(reading, event->start_mark.line + 1, event->start_mark.column + 1,
                           "found a key that is no text, expected key: value");
    }
    if (++reading->node_count > CONFIG_NODES_MAX) {
        return complain_at(reading, event->start_mark.line + 1, event->start_mark.column + 1,
                           "found more than %d values", CONFIG_NODES_MAX);
    }
    struct node *node = place_node(builder, kind, event->start_mark);
    if (node == NULL) {
        return complain_memory(reading);
    }
    const char *refused = refuse_marks(event);
    if (refused != NULL) {
        return complain(reading, node, "found %s, expected a plain value", refused);
    }
    *ret_node = node;
    return 0;
}

static int take_scalar(struct builder *builder, const yaml_event_t *event)
{
    struct reading *reading = builder->reading;
    struct span text = {.at = (const char *)event->data.scalar.value,
                        .len = event->data.scalar.length};
    struct node *node;

    if (awaits_key(builder)) {
        return take_key(builder, event);
    }
    int failed = take_value(builder, event, NODE_TEXT, &node);
    if (failed != 0) {
        return failed;
    }
    node->is_quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->source = arena_copy(reading->nodes, text);
    if (node->source.at == NULL) {
        return complain_memory(reading);
    }
    node->text = node->source;
    return expand_environment(reading, node);
}

static int take_start(struct builder *builder, const yaml_event_t *event, enum node_kind kind)
{
    struct node *node;
    int failed = take_value(builder, event, kind, &node);

    if (failed != 0) {
        return failed;
    }
    if (++builder->depth > CONFIG_NESTING_MAX) {
        return complain(builder->reading, node, "nested deeper than %d", CONFIG_NESTING_MAX);
    }
    builder->open = node;
    return 0;
}

static int take_end(struct builder *builder)
{
    builder->depth--;
    builder->open = builder->open->up;
    return 0;
}

static int take_document(struct builder *builder, const yaml_event_t *event)
{
    if (builder->has_document) {
        return complain_at(builder->reading, event->start_mark.line + 1,
                           event->start_mark.column + 1, "found a second document, expected one");
    }
    builder->has_document = true;
    return 0;
}

static int take_event(struct builder *builder, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return take_document(builder, event);
    case YAML_SCALAR_EVENT:
        return take_scalar(builder, event);
    case YAML_SEQUENCE_START_EVENT:
        return take_start(builder, event, NODE_LIST);
    case YAML_MAPPING_START_EVENT:
        return take_start(builder, event, NODE_OBJECT);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return take_end(builder);
    case YAML_ALIAS_EVENT:
        return complain_at(builder->reading, event->start_mark.line + 1,
                           event->start_mark.column + 1, "found an alias, expected a plain value");
    default:
        return 0;
    }
}

/* libyaml names some faults by offset only. */
static yaml_mark_t mark_of(struct span text, size_t offset)
{
    yaml_mark_t mark = {0};

    for (size_t i = 0; i < offset && i < text.len; i++) {
        bool is_break = text.at[i] == '\n';
        mark.line += is_break;
        mark.column = is_break ? 0 : mark.column + (((unsigned char)text.at[i] & 0xc0) != 0x80);
    }
    return mark;
}

static int complain_syntax(const struct reading *reading, const yaml_parser_t *parser,
                           struct span text)
{
    yaml_mark_t mark = parser->problem_mark;
    const char *problem = parser->problem != NULL ? parser->problem : "no reason known";

    if (parser->error == YAML_MEMORY_ERROR) {
        return complain_memory(reading);
    }
    if (parser->error == YAML_READER_ERROR) {
        mark = mark_of(text, parser->problem_offset);
    }
    return complain_at(reading, mark.line + 1, mark.column + 1, "not valid YAML: %s", problem);
}

static int build(struct builder *builder, yaml_parser_t *parser, struct span text)
{
    bool is_done = false;

    while (!is_done) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            return complain_syntax(builder->reading, parser, text);
        }
        is_done = event.type == YAML_STREAM_END_EVENT;
        int failed = take_event(builder, &event);
        yaml_event_delete(&event);
        if (failed != 0) {
            return failed;
        }
    }
    return 0;
}

/* Said by line, which is enough to find a byte that an editor shows as a box. */
static int check_utf8(const struct reading *reading, struct span text)
{
    struct span rest = text, line;

    for (size_t number = 1; rest.len > 0; number++) {
        (void)span_cut(&rest, '\n', &line); /* the last line may have no newline */
        if (!span_is_utf8(line)) {
            return complain_at(reading, number, 1, "not UTF-8");
        }
    }
    return 0;
}

int tree_read(struct reading *reading, struct span text, struct node **ret_root)
{
    struct builder builder = {.reading = reading};
    yaml_parser_t parser;
    int failed = check_utf8(reading, text);

    text = span_from(text, span_starts(text, BYTE_ORDER_MARK) ? strlen(BYTE_ORDER_MARK) : 0);
    if (failed != 0) {
        return failed;
    }
    if (!yaml_parser_initialize(&parser)) {
        return complain_memory(reading);
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)(text.len > 0 ? text.at : ""),
                                 text.len); /* not NULL */
    failed = build(&builder, &parser, text);
    yaml_parser_delete(&parser);
    if (failed == 0) {
        *ret_root = builder.root;
    }
    return failed;
}

const struct node *node_child(const struct node *object, const char *key)
{
    for (const struct node *node = object->first; node != NULL; node = node->next) {
        if (span_is(node->key, key)) {
            return node;
        }
    }
    return NULL;
}

bool node_is_nothing(const struct node *node)
{
    return node->kind == NODE_TEXT && !node->is_quoted &&
           (node->source.len == 0 || span_is(node->source, "~") || span_is(node->source, "null"));
}
