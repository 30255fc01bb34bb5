/* SPDX-License-Identifier: MIT
 *
 * values -- see values_internal.h.
 */
#include "config/values_internal.h"
#include "config/config.h"
#include "config/expand_internal.h"
#include "config/keys_internal.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/database_url.h"
#include "task/fields.h"
#include "task/reach.h"
#include "task/task.h"

#define HEADERS_BYTES_MAX 65536 /* of one target, all together */

const char *name_refuse(struct span text)
{
    return task_queue_name_is_valid(text) ? NULL : "";
}

const char *queue_name_refuse(struct span text)
{
    bool is_own = text.len > 0 && text.at[0] == '_' && !span_is(text, "_callbacks");

    return task_queue_name_is_valid(text) && !is_own ? NULL : "";
}

const char *queue_pattern_refuse(struct span text)
{
    return reach_pattern_is_valid(text) ? NULL : "";
}

const char *method_refuse(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] >= 'a' && text.at[i] <= 'z') {
            return "";
        }
    }
    return fields_name_is_token(text) ? NULL : "";
}

const char *header_name_refuse(struct span text)
{
    return fields_name_is_token(text) ? NULL : "";
}

const char *header_value_refuse(struct span text)
{
    return span_is(text, CONFIG_HIDDEN) ? CONFIG_HIDDEN
               ", which stands for a value that was not shown"
                                        : NULL;
}

/* The server and the database, without who comes to it and how. */
static int show_server(struct reading *reading, const struct node *node, struct config_store *store)
{
    struct span place;

    if (!database_url_read(store->path, &place)) {
        return complain(reading, node, "%s", DATABASE_URL_UNREADABLE);
    }
    store->shown = arena_printf(reading->arena, "//%.*s", SPAN_ARGS(place));
    return store->shown.at != NULL ? 0 : complain_memory(reading);
}

/* Nothing of it is shown: it may name a password. */
int store_read(struct reading *reading, const struct schema_key *key, const struct node *node,
               void *into)
{
    static const struct {
        const char *prefix;
        enum config_store_kind kind;
    } kinds[] = {{"json:", CONFIG_STORE_JSON},
                 {"sqlite:", CONFIG_STORE_SQLITE},
                 {"postgres:", CONFIG_STORE_POSTGRES},
                 {"postgresql:", CONFIG_STORE_POSTGRES}};
    struct config_store *store = into;

    if (!schema_is_text(reading, node) || !fields_value_is_clean(node->text)) {
        return schema_complain(reading, key, node);
    }
    *store =
        (struct config_store){.kind = CONFIG_STORE_MEMORY, .path = SPAN(""), .shown = SPAN("")};
    if (span_is(node->text, "memory")) {
        return 0;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t len = strlen(kinds[i].prefix);
        if (span_starts(node->text, kinds[i].prefix) && node->text.len > len &&
            node->text.len <= CONFIG_TEXT_MAX) {
            store->kind = kinds[i].kind;
            store->path = arena_copy(reading->arena, span_from(node->text, len));
            store->shown = store->path;
            break;
        }
    }
    if (store->path.at == NULL) {
        return complain_memory(reading);
    }
    if (store->kind == CONFIG_STORE_POSTGRES && span_starts(store->path, "//")) {
        return show_server(reading, node, store);
    }
    bool is_good = store->path.len > 0 && store->kind != CONFIG_STORE_POSTGRES;
    return is_good ? 0 : schema_complain(reading, key, node);
}

int secret_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                void *into)
{
    if (!schema_is_text(reading, node) || !fields_value_is_clean(node->text)) {
        return schema_complain(reading, key, node);
    }
    return expand_secret(reading, node, into);
}

/* whsec_BASE64 stands for bytes, as in the Standard Webhooks specification; anything else for
 * itself. */
static int decode_key(struct reading *reading, const struct node *node, struct span *key)
{
    if (span_starts(*key, "whsk_") || span_starts(*key, "whpk_")) {
        return complain(reading, node,
                        "found a key of an asymmetric pair, expected a secret (whsec_BASE64)");
    }
    if (!span_starts(*key, "whsec_")) {
        return 0;
    }
    if (!base64_decode(span_from(*key, strlen("whsec_")), reading->arena, key)) {
        return complain(reading, node, "the secret has something else than base64 after whsec_");
    }
    return key->at != NULL ? 0 : complain_memory(reading);
}

int sign_read(struct reading *reading, const struct schema_key *key, const struct node *node,
              void *into)
{
    struct signing_key *sign = into;

    if (!schema_is_text(reading, node) || node->text.len > CONFIG_TEXT_MAX ||
        !fields_value_is_clean(node->text)) {
        return schema_complain(reading, key, node);
    }
    int failed = expand_secret(reading, node, &sign->key);
    failed = failed != 0 ? failed : decode_key(reading, node, &sign->key);
    if (failed != 0) {
        return failed;
    }
    if (sign->key.len < QUEUE_SIGN_BYTES_MIN) {
        return complain(reading, node, "the secret has %zu bytes, expected at least %d",
                        sign->key.len, QUEUE_SIGN_BYTES_MIN);
    }
    sign->reference = arena_copy(reading->arena, node->text);
    return sign->reference.at != NULL ? 0 : complain_memory(reading);
}

/* A name and a value, until they are put together. */
static int add_header(struct reading *reading, const struct node *node, struct buf *fields)
{
    static const struct schema_key item_key = {.kind = KEY_OBJECT};
    struct header_written header = {0};

    if (node->kind != NODE_OBJECT) {
        return schema_complain(reading, &item_key, node);
    }
    int failed = schema_read(reading, &header_schema, node, &header);
    if (failed != 0) {
        return failed;
    }
    failed = fields_add(fields, header.name, span_trim(header.value));
    if (failed == FAULT_MEMORY) {
        return complain_memory(reading);
    }
    return failed == 0
               ? 0
               : complain(reading, node, "more than %d bytes of headers", HEADERS_BYTES_MAX);
}

int headers_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                 void *into)
{
    AUTO(buf_done) struct buf fields;
    struct span *headers = into;

    buf_init(&fields, HEADERS_BYTES_MAX);
    if (node->kind != NODE_LIST) {
        return schema_complain(reading, key, node);
    }
    if (node->count > CONFIG_HEADERS_MAX) {
        return complain(reading, node, "found %zu entries, expected at most %d", node->count,
                        CONFIG_HEADERS_MAX);
    }
    for (const struct node *child = node->first; child != NULL; child = child->next) {
        int failed = add_header(reading, child, &fields);
        if (failed != 0) {
            return failed;
        }
    }
    *headers = arena_copy(reading->arena, buf_span(&fields));
    return headers->at != NULL ? 0 : complain_memory(reading);
}
