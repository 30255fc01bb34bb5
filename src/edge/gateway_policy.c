/* SPDX-License-Identifier: MIT
 *
 * gateway_policy -- GET /.daruma/idempotency: what each route promises about its keys, published as
 * draft-ietf-httpapi-idempotency-key-header asks. JSON, or a page for whoever prefers HTML. Nothing
 * of it says where the upstream is or who the callers are.
 */
#include "edge/gateway.h"

#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const needs[] = {"required", "optional"};
static const char *const prints[] = {"body", "off", "fields"};
static const char *const expireds[] = {"refuse", "rerun"};
static const char *const ways[] = {"accepted", "wait", "conflict"};
static const char *const replays[] = {"all", "settled", "success"};
static const char *const not_sents[] = {"retry", "release", "fail"};
static const char *const ambiguouses[] = {"hold", "retry", "probe"};

static void write_word(struct writer *writer, const char *name, const char *word)
{
    write_named_text(writer, name, span_of(word));
}

/* Names of headers and cookies are no secrets; their values are not here. */
static void write_scope(struct writer *writer, const struct route_settings *route)
{
    char text[300];

    (void)snprintf(text, sizeof text, "%s%.*s",
                   route->scope == ROUTE_SCOPE_GLOBAL   ? "global"
                   : route->scope == ROUTE_SCOPE_HEADER ? "header:"
                                                        : "cookie:",
                   SPAN_ARGS(route->scope_name)); /* cut if somebody has such a name */
    write_word(writer, "scope", text);
}

static void write_release(struct writer *writer, const struct route_settings *route)
{
    char text[32];

    write_name(writer, "release");
    write_open(writer, '[');
    for (size_t i = 0; i < route->release_count; i++) {
        (void)snprintf(text, sizeof text, "%u%s", route->release[i].status,
                       route->release[i].needs_hint ? "+retry-after" : ""); /* fits */
        write_text(writer, span_of(text));
    }
    write_close(writer, ']');
}

static void write_route(struct writer *writer, const struct route_settings *route)
{
    write_open(writer, '{');
    write_named_text(writer, "name", route->name);
    write_named_text(writer, "match", route->pattern.text);
    write_word(writer, "key", needs[route->need]);
    write_named_text(writer, "header", route->header);
    write_word(writer, "key_format",
               route->is_strict ? "a quoted string of 1 to 255 visible ASCII characters"
                                : "1 to 255 visible ASCII characters, quoted or bare");
    write_scope(writer, route);
    write_word(writer, "fingerprint", prints[route->print]);
    write_named_int(writer, "keep_ms", route->keep_ms);
    write_word(writer, "expired", expireds[route->expired]);
    write_word(writer, "in_progress", ways[route->in_progress]);
    write_named_int(writer, "wait_ms", route->wait_ms);
    if (route->in_progress == ROUTE_WAY_WAIT) {
        write_word(writer, "wait_then", ways[route->wait_then]);
    }
    write_named_int(writer, "retry_after_ms", route->retry_after_ms);
    write_word(writer, "replay", replays[route->replay]);
    write_release(writer, route);
    write_word(writer, "not_sent", not_sents[route->not_sent]);
    write_word(writer, "ambiguous", ambiguouses[route->ambiguous]);
    write_named_int(writer, "mismatch", route->mismatch);
    write_close(writer, '}');
}

/* The status that a problem may have besides its own; 0: none. */
static int other_status(enum route_problem problem)
{
    switch (problem) {
    case ROUTE_PROBLEM_KEY_CONFLICT:
        return 422; /* by the route's mismatch */
    case ROUTE_PROBLEM_KEY_IN_PROGRESS:
        return 503; /* it is being recorded at this moment */
    case ROUTE_PROBLEM_OUTCOME_UNKNOWN:
        return 202; /* by in_progress */
    case ROUTE_PROBLEM_NOT_SENT:
    case ROUTE_PROBLEM_NOT_SENT_KEPT:
    case ROUTE_PROBLEM_UPSTREAM:
        return 504; /* it took too long */
    default:
        return 0;
    }
}

static void write_statuses(struct writer *writer, enum route_problem problem)
{
    write_named_int(writer, "status", route_problem_status(problem));
    write_name(writer, "statuses");
    write_open(writer, '[');
    write_int(writer, route_problem_status(problem));
    if (other_status(problem) != 0) {
        write_int(writer, other_status(problem));
    }
    write_close(writer, ']');
}

static void write_problems(struct writer *writer)
{
    write_name(writer, "problems");
    write_open(writer, '[');
    for (int i = 0; i < ROUTE_PROBLEM_COUNT; i++) {
        enum route_problem problem = (enum route_problem)i;
        write_open(writer, '{');
        write_word(writer, "code", route_problem_code(problem));
        write_statuses(writer, problem);
        write_word(writer, "title", route_problem_title(problem));
        write_word(writer, "retry", route_problem_retry(problem));
        write_close(writer, '}');
    }
    write_close(writer, ']');
}

static void write_policy(struct writer *writer, const struct edge_options *options)
{
    write_open(writer, '{');
    write_name(writer, "routes");
    write_open(writer, '[');
    for (size_t i = 0; i < options->route_count; i++) {
        write_route(writer, &options->routes[i]);
    }
    write_close(writer, ']');
    write_problems(writer);
    write_close(writer, '}');
}

/* --- for people -------------------------------------------------------------------------------------- */

#define PAGE_HEAD                                                                                  \
    "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Idempotency policy</title>" \
    "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 "   \
    "1rem}"                                                                                        \
    "table{border-collapse:collapse}td,th{text-align:left;padding:.2rem .8rem .2rem 0;"            \
    "vertical-align:top}code{background:#eee;padding:0 .2rem}</style>\n"                           \
    "<h1>Idempotency policy</h1>\n"                                                                \
    "<p>A request with a key is carried out once; sent again with the same key it gets the same "  \
    "answer. Sending it again with the same key is always the right move when no answer "          \
    "came.</p>\n"

static const char *const way_texts[] = {
    "A request that is still under way is answered with 202 and a URL to poll.",
    "A request that is still under way is waited for, for a while.",
    "A request that is still under way is answered with 409.",
};
static const char *const replay_texts[] = {
    "The first answer is kept, whatever it is.",
    "2xx, 3xx and 4xx are kept; a 5xx leaves the outcome unknown until it is settled.",
    "2xx and 3xx are kept; after a 4xx the key is free.",
};

static void page_text(struct writer *writer, struct span text)
{
    for (size_t i = 0; i < text.len && writer->failed == 0; i++) {
        char byte = text.at[i];
        writer->failed = byte == '<'   ? buf_add(writer->out, SPAN("&lt;"))
                         : byte == '&' ? buf_add(writer->out, SPAN("&amp;"))
                                       : buf_add(writer->out, (struct span){&text.at[i], 1});
    }
}

static void page_add(struct writer *writer, const char *text)
{
    writer->failed = writer->failed != 0 ? writer->failed : buf_add(writer->out, span_of(text));
}

static void page_route(struct writer *writer, const struct route_settings *route)
{
    char text[256];

    page_add(writer, "<h2><code>");
    page_text(writer, route->pattern.text);
    page_add(writer, "</code></h2>\n<p>The key is the header <code>");
    page_text(writer, route->header);
    page_add(writer,
             route->need == ROUTE_KEY_REQUIRED ? "</code>, required. " : "</code>, optional. ");
    page_add(writer, way_texts[route->in_progress]);
    page_add(writer, route_way_told(route) == ROUTE_WAY_ACCEPTED
                         ? " One whose outcome is not known is answered with 202. "
                         : " One whose outcome is not known is answered with 409. ");
    page_add(writer, replay_texts[route->replay]);
    (void)snprintf(text, sizeof text,
                   " Answers are kept for %" PRId64 " seconds; after that %s. The same key with "
                   "another request is refused with %u.</p>\n",
                   route->keep_ms / 1000,
                   route->expired == ROUTE_EXPIRED_RERUN ? "the key is free"
                                                         : "the key is refused with 410",
                   route->mismatch); /* fits */
    page_add(writer, text);
}

/* A code that comes twice, with another word on trying again, has its anchor at the first row. */
static bool is_first_of_code(enum route_problem problem)
{
    return problem == 0 || strcmp(route_problem_code(problem),
                                  route_problem_code((enum route_problem)(problem - 1))) != 0;
}

static void page_problem(struct writer *writer, enum route_problem problem)
{
    const char *code = route_problem_code(problem);
    char id[80] = "", other[16] = "", row[320];

    if (is_first_of_code(problem)) {
        (void)snprintf(id, sizeof id, " id=\"%s\"", code); /* fits */
    }
    if (other_status(problem) != 0) {
        (void)snprintf(other, sizeof other, " or %d", other_status(problem)); /* fits */
    }
    (void)snprintf(row, sizeof row, "<tr%s><td><code>%s</code><td>%d%s<td>%s<td>%s\n", id, code,
                   route_problem_status(problem), other, route_problem_title(problem),
                   route_problem_retry(problem)); /* fits */
    page_add(writer, row);
}

static void write_page(struct writer *writer, const struct edge_options *options)
{
    page_add(writer, PAGE_HEAD);
    for (size_t i = 0; i < options->route_count; i++) {
        page_route(writer, &options->routes[i]);
    }
    page_add(writer, "<h2>Problems</h2>\n<table><tr><th>code<th>status<th>what<th>retry\n");
    for (int i = 0; i < ROUTE_PROBLEM_COUNT; i++) {
        page_problem(writer, (enum route_problem)i);
    }
    page_add(writer, "</table>\n");
}

/* A browser asks for text/html first. */
static bool wants_page(const struct gateway *gateway)
{
    struct span accept = {.at = "", .len = 0};

    (void)fields_find(buf_span(&gateway->headers), "Accept", &accept); /* none: JSON */
    for (; accept.len > 0; accept = span_from(accept, 1)) {
        if (span_starts(accept, "application/json")) {
            return false;
        }
        if (span_starts(accept, "text/html")) {
            return true;
        }
    }
    return false;
}

void gateway_policy(struct exchange *exchange)
{
    struct writer writer;
    bool is_page = wants_page(exchange->gateway);
    struct response *response = exchange_begin(exchange, 200, &writer);

    if (response == NULL) {
        return;
    }
    response->content_type = is_page ? "text/html; charset=utf-8" : CONTENT_JSON;
    if (is_page) {
        write_page(&writer, &exchange->edge->options);
    } else {
        write_policy(&writer, &exchange->edge->options);
    }
    exchange_finish(exchange, &writer);
}
