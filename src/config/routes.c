/* SPDX-License-Identifier: MIT
 *
 * routes -- see routes_internal.h: patterns, scopes, fingerprints, statuses, and what has to hold
 * between the keys of a route.
 */
#include "config/routes_internal.h"
#include "config/checks_internal.h"
#include "config/config.h"
#include "config/values_internal.h"

#include "task/fields.h"
#include "task/route_answer.h"
#include "task/task.h"
#include "task/url.h"

#include <stdio.h>

#define STATUS_MIN 400
#define STATUS_MAX 599
#define HINT_WORD  "+retry-after"

/* --- values ---------------------------------------------------------------------------------------- */

const char *upstream_refuse(struct span text)
{
    const char *why = url_refuse(text);

    return why == NULL && span_find(text, '?') != NULL ? "a query" : why;
}

const char *json_path_refuse(struct span text)
{
    struct span name;
    bool has_more = true;

    while (has_more) {
        has_more = span_cut(&text, '.', &name);
        if (name.len == 0) {
            return "";
        }
    }
    return NULL;
}

static bool is_known_method(struct span method)
{
    static const char *const known[] = {
        "POST",     "PUT",       "PATCH", "DELETE", "GET",  "HEAD", "OPTIONS", "QUERY",  "SEARCH",
        "PROPFIND", "PROPPATCH", "MKCOL", "COPY",   "MOVE", "LOCK", "UNLOCK",  "REPORT", "PURGE",
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (span_is(method, known[i])) {
            return true;
        }
    }
    return false;
}

/* A method that is spelt wrong would be a route that no request ever meets. */
static int refuse_methods(const struct reading *reading, const struct node *node,
                          const struct route_pattern *pattern)
{
    for (size_t i = 0; i < pattern->method_count; i++) {
        if (!is_known_method(pattern->methods[i])) {
            return complain(reading, node,
                            "found the method %.*s, expected one of HTTP or WebDAV such as POST, "
                            "PUT, PATCH or DELETE",
                            SPAN_ARGS(pattern->methods[i]));
        }
    }
    return 0;
}

int match_read(struct reading *reading, const struct schema_key *key, const struct node *node,
               void *into)
{
    struct span text;

    if (!schema_is_text(reading, node) || node->text.len > CONFIG_URL_MAX) {
        return schema_complain(reading, key, node);
    }
    text = arena_copy(reading->arena, node->text);
    if (text.at == NULL) {
        return complain_memory(reading);
    }
    const char *why = route_pattern_parse(text, into);
    return why == NULL ? refuse_methods(reading, node, into)
                       : complain(reading, node, "found %s, expected %s", why, key->expected);
}

int scope_read(struct reading *reading, const struct schema_key *key, const struct node *node,
               void *into)
{
    struct route_settings *route = into;
    struct span rest = node->text, kind;

    if (!schema_is_text(reading, node)) {
        return schema_complain(reading, key, node);
    }
    bool has_name = span_cut(&rest, ':', &kind);
    if (!has_name && span_is(kind, "global")) {
        route->scope = ROUTE_SCOPE_GLOBAL;
        route->scope_name = SPAN("");
        return 0;
    }
    bool is_header = span_is(kind, "header"), is_cookie = span_is(kind, "cookie");
    if (!has_name || (!is_header && !is_cookie) || !fields_name_is_token(rest)) {
        return schema_complain(reading, key, node);
    }
    route->scope = is_header ? ROUTE_SCOPE_HEADER : ROUTE_SCOPE_COOKIE;
    route->scope_name = arena_copy(reading->arena, rest);
    return route->scope_name.at != NULL ? 0 : complain_memory(reading);
}

/* A list of texts, each checked. */
struct text_list {
    struct span *into;
    size_t max;
    const char *expected;
    const char *(*refuse)(struct span text);
};

static int read_texts(struct reading *reading, const struct node *node,
                      const struct text_list *list, size_t *ret_count)
{
    char found[FOUND_MAX];
    size_t count = 0;

    if (node->count == 0 || node->count > list->max) {
        return complain(reading, node, "found %zu entries, expected 1 to %zu", node->count,
                        list->max);
    }
    for (const struct node *child = node->first; child != NULL; child = child->next) {
        if (!schema_is_text(reading, child) || child->text.len > CONFIG_TEXT_MAX ||
            list->refuse(child->text) != NULL) {
            return complain(reading, child, "found %s, expected %s", found_text(child, found),
                            list->expected);
        }
        list->into[count] = arena_copy(reading->arena, child->text);
        if (list->into[count++].at == NULL) {
            return complain_memory(reading);
        }
    }
    *ret_count = count;
    return 0;
}

int fingerprint_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                     void *into)
{
    struct route_settings *route = into;
    const struct text_list list = {.into = route->fields,
                                   .max = ROUTE_FIELDS_MAX,
                                   .expected = "a JSON field such as order.amount",
                                   .refuse = json_path_refuse};

    if (node->kind == NODE_LIST) {
        route->print = ROUTE_PRINT_FIELDS;
        return read_texts(reading, node, &list, &route->field_count);
    }
    bool is_body = schema_is_text(reading, node) && span_is(node->text, "body");
    bool is_off = schema_is_text(reading, node) && span_is(node->text, "off");
    if (!is_body && !is_off) {
        return schema_complain(reading, key, node);
    }
    route->print = is_body ? ROUTE_PRINT_BODY : ROUTE_PRINT_OFF;
    return 0;
}

static bool parse_release(struct span text, struct route_release *ret_release)
{
    struct span status = span_until(text, 3);
    int64_t number;

    ret_release->needs_hint = span_is(span_from(text, 3), HINT_WORD);
    if ((text.len != 3 && !ret_release->needs_hint) || !span_to_int(status, &number) ||
        number < STATUS_MIN || number > STATUS_MAX) {
        return false;
    }
    ret_release->status = (uint16_t)number;
    return true;
}

int release_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                 void *into)
{
    struct route_settings *route = into;
    char found[FOUND_MAX];

    if (node->kind != NODE_LIST) {
        return schema_complain(reading, key, node);
    }
    if (node->count > ROUTE_RELEASE_MAX) {
        return complain(reading, node, "found %zu entries, expected at most %d", node->count,
                        ROUTE_RELEASE_MAX);
    }
    for (const struct node *child = node->first; child != NULL; child = child->next) {
        if (child->kind != NODE_TEXT ||
            !parse_release(child->text, &route->release[route->release_count])) {
            return complain(reading, child,
                            "found %s, expected a status from 400 to 599, or one such as "
                            "503" HINT_WORD,
                            found_text(child, found));
        }
        route->release_count++;
    }
    return 0;
}

int kept_headers_read(struct reading *reading, const struct schema_key *key,
                      const struct node *node, void *into)
{
    struct route_settings *route = into;
    const struct text_list list = {.into = route->kept_headers,
                                   .max = ROUTE_HEADERS_MAX,
                                   .expected = "the name of a header",
                                   .refuse = header_name_refuse};

    if (node->kind != NODE_LIST) {
        return schema_complain(reading, key, node);
    }
    return node->count == 0 ? 0 : read_texts(reading, node, &list, &route->kept_header_count);
}

int mismatch_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                  void *into)
{
    uint32_t *mismatch = into;

    if (node->kind != NODE_TEXT || (!span_is(node->text, "409") && !span_is(node->text, "422"))) {
        return schema_complain(reading, key, node);
    }
    *mismatch = span_is(node->text, "409") ? 409 : 422;
    return 0;
}

/* --- between keys ---------------------------------------------------------------------------------- */

/* "POST /v1/orders/{id}" is POST-v1-orders-id, so that a route keeps its keys when others are put
 * before it. */
static int make_name(struct reading *reading, struct route_settings *route)
{
    struct span text = route->pattern.text;
    char name[ROUTE_NAME_MAX];
    size_t len = 0;

    for (size_t i = 0; i < text.len && len < sizeof name; i++) {
        char byte = text.at[i];
        bool is_kept = task_queue_name_is_valid((struct span){.at = &byte, .len = 1});
        if (is_kept) {
            name[len++] = byte;
        } else if (len > 0 && name[len - 1] != '-' && byte != '}') {
            name[len++] = '-';
        }
    }
    while (len > 0 && name[len - 1] == '-') {
        len--;
    }
    route->name = arena_copy(reading->arena, (struct span){.at = name, .len = len});
    return route->name.at != NULL ? 0 : complain_memory(reading);
}

static int check_name(const struct reading *reading, const struct node *node,
                      const struct route_settings *route, const struct route_settings *first)
{
    const struct node *written = node_child(node, "name");

    for (const struct route_settings *other = first; other < route; other++) {
        if (span_equal(other->name, route->name)) {
            return complain(reading, written != NULL ? written : node_child(node, "match"),
                            "found the name %.*s a second time, expected each once: give the route "
                            "another name",
                            SPAN_ARGS(route->name));
        }
    }
    return 0;
}

static void usual_release(struct route_settings *route)
{
    static const struct route_release usual[] = {
        {.status = 401},
        {.status = 403},
        {.status = 407},
        {.status = 408},
        {.status = 425},
        {.status = 429},
        {.status = 503, .needs_hint = true},
    };

    if (route->replay != ROUTE_REPLAY_ALL) {
        memcpy(route->release, usual, sizeof usual);
        route->release_count = sizeof usual / sizeof *usual;
    }
}

/* Repeating is for upstreams that may see a request twice; each word implies the other. */
static int settle_repeats(const struct reading *reading, const struct node *node,
                          struct route_settings *route)
{
    const struct node *repeatable = node_child(node, "repeatable");
    const struct node *ambiguous = node_child(node, "ambiguous");

    if (ambiguous == NULL && route->repeatable) {
        route->ambiguous = ROUTE_AMBIGUOUS_RETRY;
    }
    if (route->ambiguous != ROUTE_AMBIGUOUS_RETRY) {
        return 0;
    }
    if (repeatable != NULL && !route->repeatable) {
        return complain(reading, ambiguous,
                        "found retry on a route that is not repeatable, expected hold or probe");
    }
    route->repeatable = true;
    return 0;
}

static int settle_probe(struct reading *reading, const struct node *node,
                        struct route_settings *route)
{
    const struct node *probe = node_child(node, "probe");

    if (probe == NULL) {
        route->probe = (struct route_probe){0};
        return route->ambiguous != ROUTE_AMBIGUOUS_PROBE
                   ? 0
                   : complain_missing(reading, node, "probe",
                                      "a probe, which ambiguous: probe asks by");
    }
    if (route->ambiguous != ROUTE_AMBIGUOUS_PROBE) {
        return complain_key(reading, probe, "found without ambiguous: probe, which uses it");
    }
    const struct node *request = node_child(probe, "request");
    const char *why = route_probe_parse(route->probe.path, &route->pattern, &route->probe);
    if (why != NULL) {
        return complain(reading, request, "found %s, expected %s", why,
                        "a request such as GET /v1/orders/by-key/{key}");
    }
    if (route->probe.settle_after_ms < 0) {
        route->probe.settle_after_ms = route->timeout_ms + ROUTE_PROBE_GRACE_MS;
    }
    return 0;
}

static int check_waiting(const struct reading *reading, const struct node *node,
                         struct route_settings *route)
{
    const struct node *then = node_child(node, "wait_then");

    if (route->wait_then == ROUTE_WAY_WAIT) {
        return complain(reading, then, "found wait, expected accepted or conflict");
    }
    if (then != NULL && route->in_progress != ROUTE_WAY_WAIT) {
        return complain_key(reading, then, "found on a route that does not wait");
    }
    return 0;
}

/* `into` is the route in the list of all of them. */
int route_finish(struct reading *reading, const struct node *node, void *into)
{
    struct route_settings *route = into;
    int failed = route->name.len > 0 ? 0 : make_name(reading, route);

    failed = failed != 0 ? failed : check_name(reading, node, route, route - node->index);
    failed = failed != 0 ? failed : settle_repeats(reading, node, route);
    failed = failed != 0 ? failed : settle_probe(reading, node, route);
    failed = failed != 0 ? failed : check_waiting(reading, node, route);
    failed = failed != 0 ? failed : ca_check(reading, node, route->ca);
    if (failed == 0 && node_child(node, "release") == NULL) {
        usual_release(route);
    }
    if (failed == 0 && route->deadline_ms == 0) {
        route->deadline_ms = route->timeout_ms + route->wait_ms;
    }
    return failed;
}
