/* SPDX-License-Identifier: MIT
 *
 * providers -- see providers_internal.h.
 */
#include "config/providers_internal.h"
#include "config/checks_internal.h"
#include "config/config.h"
#include "config/expand_internal.h"
#include "config/keys_internal.h"

#include "task/fields.h"
#include "task/secrets.h"
#include "task/url.h"

#include <daruma/retry_after.h>

#include <stdio.h>

#define NAMES_SHOWN_MAX   120
#define WAIT_UNDER_MAX_MS 60000 /* a slot of the queue is held meanwhile */

/* --- providers ------------------------------------------------------------------------------- */

int keys_read(struct reading *reading, const struct schema_key *key, const struct node *node,
              void *into)
{
    struct provider_settings *settings = into;

    if (node->kind != NODE_LIST) {
        return schema_complain(reading, key, node);
    }
    if (node->count == 0 || node->count > PROVIDER_KEYS_MAX) {
        return complain(reading, node, "found %zu entries, expected 1 to %d", node->count,
                        PROVIDER_KEYS_MAX);
    }
    for (const struct node *child = node->first; child != NULL; child = child->next) {
        struct span *secret = &settings->keys[settings->key_count];
        if (!schema_is_text(reading, child)) {
            return complain(reading, child, "expected env:NAME or file:PATH");
        }
        int failed = expand_secret(reading, child, secret);
        if (failed != 0) {
            return failed;
        }
        for (size_t i = 0; i < settings->key_count; i++) {
            if (span_equal(settings->keys[i], *secret)) {
                return complain(reading, child, "found the same key twice, expected each once");
            }
        }
        settings->key_count++;
    }
    return 0;
}

static bool is_template(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        if ((byte < 0x20 && byte != '\n' && byte != '\t' && byte != '\r') || byte == 0x7f) {
            return false;
        }
    }
    return text.len <= PROVIDERS_TEMPLATE_MAX;
}

int template_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                  void *into)
{
    struct span *template = into;

    if (!schema_is_text(reading, node) || !is_template(node->text)) {
        return schema_complain(reading, key, node);
    }
    *template = arena_copy(reading->arena, node->text);
    return template->at != NULL ? 0 : complain_memory(reading);
}

static bool has_part(struct span text, const char *part)
{
    for (size_t i = 0; i < text.len; i++) {
        if (span_starts(span_from(text, i), part)) {
            return true;
        }
    }
    return false;
}

/* What is not written is built in. A prompt that never shows the article would summarise nothing. */
static int fill_prompt(struct reading *reading, const struct node *node,
                       const struct prompt_written *written, struct provider_settings *settings)
{
    settings->system = written->system.len > 0
                           ? written->system
                           : prompt_system(written->language, written->length, reading->arena);
    settings->user = written->user.len > 0 ? written->user : prompt_user(written->language);
    if (settings->system.at == NULL) {
        return complain_memory(reading);
    }
    if (has_part(settings->user, "{content}") || has_part(settings->system, "{content}")) {
        return 0;
    }
    return complain(reading, node, "found a prompt without {content}, expected the article in it");
}

int prompt_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                void *into)
{
    struct prompt_written written = {0};

    if (node->kind != NODE_OBJECT) {
        return schema_complain(reading, key, node);
    }
    int failed = schema_read(reading, &prompt_schema, node, &written);
    return failed != 0 ? failed : fill_prompt(reading, node, &written, into);
}

const char *provider_url_refuse(struct span text)
{
    const char *refusal = url_refuse(text);

    if (refusal == NULL && span_find(text, '?') != NULL) {
        return "a URL with a query";
    }
    return refusal;
}

const char *provider_path_refuse(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] <= ' ' || text.at[i] > '~' || text.at[i] == '\\' || text.at[i] == '#') {
            return "a character that has to be escaped";
        }
    }
    if (has_part(text, SECRETS_HIDDEN)) {
        return SECRETS_HIDDEN ", which stands for what was not shown";
    }
    return span_starts(text, "/") ? NULL : "a path without / in front";
}

static struct span without_slash(struct span url)
{
    while (url.len > 0 && url.at[url.len - 1] == '/') {
        url.len--;
    }
    return url;
}

static bool ends_in(struct span text, const char *end)
{
    size_t len = strlen(end);

    return text.len >= len && span_is(span_from(text, text.len - len), end);
}

/* Without a slash at its end; and, unless the path is written, without /v1, which people write because
 * SDKs want it there. */
static struct span url_of(const struct provider_settings *settings)
{
    struct span url = without_slash(settings->url);

    if (url.len == 0) {
        return settings->kind == PROVIDER_OPENAI ? SPAN("https://api.openai.com")
                                                 : SPAN("https://api.anthropic.com");
    }
    if (settings->path.len == 0 && ends_in(url, "/v1")) {
        url.len -= 3;
    }
    return url;
}

/* The whole address of the call would get its end twice, and every article a 404. */
static int check_url(const struct reading *reading, const struct node *node,
                     const struct provider_settings *settings)
{
    static const char *const ends[] = {"/chat/completions", "/messages"};
    const struct node *at = node_child(node, "url");

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (ends_in(without_slash(settings->url), ends[i])) {
            return complain(reading, at,
                            "found a URL that ends in %s, expected what stands before it: the rest "
                            "is added, or is written as path",
                            ends[i]);
        }
    }
    if (!settings->allow_http && url_is_exposed(settings->url)) {
        return complain(reading, at,
                        "found http:// to another machine, where the key would travel in plain "
                        "text, expected https://, or allow_http: true");
    }
    return 0;
}

/* A field that is sent anyway would be there twice, and it is the server's whim which one counts. */
static int check_headers(const struct reading *reading, const struct node *node,
                         const struct provider_settings *settings)
{
    static const struct {
        int kind; /* PROVIDER_KIND_COUNT: any */
        const char *name, *from;
    } sent[] = {
        {PROVIDER_OPENAI, "Authorization", "the keys"},
        {PROVIDER_ANTHROPIC, "x-api-key", "the keys"},
        {PROVIDER_ANTHROPIC, "anthropic-version", "version"},
        {PROVIDER_KIND_COUNT, "Content-Type", "the request"},
        {PROVIDER_KIND_COUNT, "Accept", "the request"},
        {PROVIDER_KIND_COUNT, "Idempotency-Key", "the task"},
    };
    struct span value;

    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        bool is_its = sent[i].kind == PROVIDER_KIND_COUNT || sent[i].kind == (int)settings->kind;
        if (is_its && fields_find(settings->headers, sent[i].name, &value)) {
            return complain(reading, node_child(node, "headers"),
                            "found %s, which is sent anyway and comes from %s, expected others",
                            sent[i].name, sent[i].from);
        }
    }
    return 0;
}

static int check_old(const struct reading *reading, const struct node *node,
                     const struct provider_settings *settings)
{
    return settings->is_old && settings->kind != PROVIDER_OPENAI
               ? complain(reading, node_child(node, "old"),
                          "found it with another kind than openai, expected it there only")
               : 0;
}

int provider_finish(struct reading *reading, const struct node *node, void *into)
{
    struct provider_settings *settings = into;
    const struct prompt_written nothing = {.language = PROMPT_JAPANESE};
    int failed = check_url(reading, node, settings);

    failed = failed != 0 ? failed : check_headers(reading, node, settings);
    failed = failed != 0 ? failed : check_old(reading, node, settings);
    failed = failed != 0 ? failed : ca_check(reading, node, settings->ca);
    if (failed != 0) {
        return failed;
    }
    settings->url = arena_copy(reading->arena, url_of(settings));
    if (settings->url.at == NULL) {
        return complain_memory(reading);
    }
    return settings->user.len > 0 ? 0 : fill_prompt(reading, node, &nothing, settings);
}

/* --- lists ------------------------------------------------------------------------------------- */

static const struct provider_settings *find_provider(const struct config *config, struct span name)
{
    for (size_t i = 0; config != NULL && i < config->provider_count; i++) {
        if (span_equal(config->providers[i].name, name)) {
            return &config->providers[i];
        }
    }
    return NULL;
}

static int complain_unknown(const struct reading *reading, const struct node *node)
{
    const struct config *config = reading->config;
    char found[FOUND_MAX], names[NAMES_SHOWN_MAX] = "";
    size_t len = 0;

    for (size_t i = 0; config != NULL && i < config->provider_count && len < sizeof names; i++) {
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%.*s", i > 0 ? ", " : "",
                                SPAN_ARGS(config->providers[i].name)); /* cut if long */
    }
    return complain(reading, node, "found %s, expected the name of a provider of the file%s%s",
                    found_text(node, found), names[0] != '\0' ? ": " : ", which has none", names);
}

static int add_provider(const struct reading *reading, const struct node *node,
                        struct fallback *fallback)
{
    const struct provider_settings *provider =
        schema_is_text(reading, node) ? find_provider(reading->config, node->text) : NULL;

    if (provider == NULL) {
        return complain_unknown(reading, node);
    }
    for (size_t i = 0; i < fallback->provider_count; i++) {
        if (fallback->providers[i] == provider) {
            return complain(reading, node, "found the same provider twice, expected each once");
        }
    }
    fallback->providers[fallback->provider_count++] = provider;
    return 0;
}

int fallback_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                  void *into)
{
    const struct fallback **made = into;
    int failed = 0;

    if (node->kind != NODE_LIST) {
        return schema_complain(reading, key, node);
    }
    if (node->count == 0 || node->count > FALLBACK_PROVIDERS_MAX) {
        return complain(reading, node, "found %zu entries, expected 1 to %d", node->count,
                        FALLBACK_PROVIDERS_MAX);
    }
    struct fallback *fallback = arena_alloc(reading->arena, sizeof *fallback);
    if (fallback == NULL) {
        return complain_memory(reading);
    }
    fallback->wait_under_ms = FALLBACK_WAIT_UNDER_MS;
    for (const struct node *child = node->first; failed == 0 && child != NULL;
         child = child->next) {
        failed = add_provider(reading, child, fallback);
    }
    *made = fallback;
    return failed;
}

static const struct key_word orders[] = {{"fixed", FALLBACK_FIXED},
                                         {"sticky", FALLBACK_STICKY},
                                         {"round_robin", FALLBACK_ROUND_ROBIN},
                                         {NULL, 0}};

const char *fallback_order_text(int order)
{
    return orders[order].word;
}

/* The list that is being written: the reading made it, and nobody else has it yet. */
static struct fallback *list_of(const struct reading *reading, const struct node *node, void *into)
{
    struct fallback *const *made = into;

    if (*made == NULL) {
        (void)complain(reading, node, "found it without fallback, expected a list of providers");
    }
    return *made;
}

int order_read(struct reading *reading, const struct schema_key *key, const struct node *node,
               void *into)
{
    struct fallback *fallback = list_of(reading, node, into);

    for (size_t i = 0; fallback != NULL && orders[i].word != NULL; i++) {
        if (schema_is_text(reading, node) && span_is(node->text, orders[i].word)) {
            fallback->order = (enum fallback_order)orders[i].value;
            return 0;
        }
    }
    return fallback == NULL ? FAULT_INPUT : schema_complain(reading, key, node);
}

int wait_under_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                    void *into)
{
    struct fallback *fallback = list_of(reading, node, into);
    int64_t ms;

    if (fallback == NULL) {
        return FAULT_INPUT;
    }
    if (!schema_is_text(reading, node) ||
        !daruma_duration_parse(node->text.at, node->text.len, &ms) || ms > WAIT_UNDER_MAX_MS) {
        return schema_complain(reading, key, node);
    }
    fallback->wait_under_ms = ms;
    return 0;
}

/* Going to the second provider after a time-out at the first is a second effect, so nothing in such a
 * queue may be sent only once; and a target beside the list would be obeyed by nobody. */
int queue_finish(struct reading *reading, const struct node *node, void *into)
{
    const struct queue_settings *settings = into;

    if (settings->fallback == NULL || settings->target_count == 0) {
        return 0;
    }
    for (size_t i = 0; i < settings->target_count; i++) {
        if (!settings->targets[i].repeatable) {
            return complain(reading, node_child(node, "targets"),
                            "found a target that is not repeatable in a queue with fallback, whose "
                            "requests may go to several providers");
        }
    }
    return complain(reading, node_child(node, "targets"),
                    "found targets and fallback in one queue, expected one of them");
}
