/* SPDX-License-Identifier: MIT
 *
 * route_answer -- see route_answer.h.
 */
#include "task/route_answer.h"
#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
    int status;
    const char *code, *title, *retry;
} rows[] = {
#define ROW(name, number, word, text, advice) [ROUTE_PROBLEM_##name] = {number, word, text, advice},
    ROUTE_PROBLEM_MAP(ROW)
#undef ROW
};

int route_problem_status(enum route_problem problem)
{
    return rows[problem].status;
}

const char *route_problem_code(enum route_problem problem)
{
    return rows[problem].code;
}

const char *route_problem_title(enum route_problem problem)
{
    return rows[problem].title;
}

const char *route_problem_retry(enum route_problem problem)
{
    return rows[problem].retry;
}

int route_json_text(struct buf *out, struct span text)
{
    int failed = buf_add(out, SPAN("\""));

    for (size_t i = 0; failed == 0 && i < text.len; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        if (byte == '"' || byte == '\\') {
            failed = buf_addf(out, "\\%c", byte);
        } else if (byte < ' ' || byte == 0x7f) {
            failed = buf_addf(out, "\\u%04x", byte);
        } else {
            failed = buf_add(out, (struct span){.at = text.at + i, .len = 1});
        }
    }
    return failed != 0 ? failed : buf_add(out, SPAN("\""));
}

/* Whole seconds, at least one: 0 would say "now". */
static int add_retry_after(struct buf *headers, int64_t wait_ms)
{
    char seconds[24];

    if (wait_ms <= 0) {
        return 0;
    }
    (void)snprintf(seconds, sizeof seconds, "%" PRId64, (wait_ms + 999) / 1000); /* fits */
    return fields_add(headers, SPAN("Retry-After"), span_of(seconds));
}

static int add_location(struct buf *headers, struct span id_text)
{
    char url[sizeof ROUTE_POLL_PATH + ID_TEXT_LEN];

    if (id_text.len == 0) {
        return 0;
    }
    (void)snprintf(url, sizeof url, ROUTE_POLL_PATH "%.*s", SPAN_ARGS(id_text)); /* fits */
    return fields_add(headers, SPAN("Location"), span_of(url));
}

static int add_replayed(struct buf *headers)
{
    int failed = fields_add(headers, SPAN("Idempotent-Replayed"), SPAN("true"));

    return failed != 0 ? failed
                       : fields_add(headers, SPAN("Idempotency-Replayed"), SPAN("omitted"));
}

/* stripe and every Stainless SDK send any 409 and any 5xx again, the same way, unless they are told
 * not to. */
static int add_never(struct buf *headers, enum route_problem problem)
{
    if (problem != ROUTE_PROBLEM_KEY_CONFLICT && problem != ROUTE_PROBLEM_HEADER_TOO_LONG) {
        return 0;
    }
    int failed = fields_add(headers, SPAN("x-should-retry"), SPAN("false"));
    return failed != 0 ? failed : fields_add(headers, SPAN("Stripe-Should-Retry"), SPAN("false"));
}

/* What SDKs look for. stripe's takes any body without `error` for the created object, whatever the
 * status says; openai's and others show only what is in it. */
static int add_error(struct buf *body, enum route_problem problem, int status, struct span detail)
{
    const char *type = status >= 500                                     ? "api_error"
                       : status == 409 || status == 410 || status == 422 ? "idempotency_error"
                                                                         : "invalid_request_error";
    int failed = buf_addf(body, ",\"error\":{\"type\":\"%s\",\"code\":\"%s\",\"message\":", type,
                          rows[problem].code);

    failed = failed != 0 ? failed : route_json_text(body, detail);
    return failed != 0 ? failed : buf_add(body, SPAN("}"));
}

int route_refusal_render(const struct route_refusal *refusal, struct buf *headers, struct buf *body)
{
    enum route_problem problem = refusal->problem;
    int status = refusal->status != 0 ? refusal->status : rows[problem].status;
    struct span detail = refusal->detail.len > 0 ? refusal->detail : span_of(rows[problem].title);
    int failed = fields_add(headers, SPAN("Content-Type"), SPAN("application/problem+json"));

    failed = failed != 0 ? failed : add_retry_after(headers, refusal->retry_after_ms);
    failed = failed != 0 ? failed : add_location(headers, refusal->id_text);
    failed = failed != 0 ? failed : add_never(headers, problem);
    failed = failed != 0 || !refusal->is_replay ? failed : add_replayed(headers);
    failed = failed != 0 ? failed
                         : buf_addf(body,
                                    "{\"type\":\"" ROUTE_POLICY_PATH
                                    "#%s\",\"title\":\"%s\",\"status\":%d,\"detail\":",
                                    rows[problem].code, rows[problem].title, status);
    failed = failed != 0 ? failed : route_json_text(body, detail);
    failed = failed != 0 ? failed
                         : buf_addf(body, ",\"code\":\"%s\",\"retry\":\"%s\"", rows[problem].code,
                                    rows[problem].retry);
    failed = failed != 0 ? failed : add_error(body, problem, status, detail);
    return failed != 0 ? failed : buf_add(body, SPAN("}"));
}

enum route_way route_way_told(const struct route_settings *route)
{
    return route->in_progress == ROUTE_WAY_WAIT ? route->wait_then : route->in_progress;
}

int route_progress_render(const struct route_progress *progress, struct buf *headers,
                          struct buf *body)
{
    const char *why = progress->is_unknown
                          ? "It is not known yet whether the request was carried out; it will not "
                            "be repeated. Send it again with the same key, or poll, later."
                          : "The request is being carried out. Send it again with the same key, or "
                            "poll, later.";
    int failed = fields_add(headers, SPAN("Content-Type"), SPAN("application/json"));

    failed = failed != 0 ? failed : add_retry_after(headers, progress->retry_after_ms);
    failed = failed != 0 ? failed : add_location(headers, progress->id_text);
    failed = failed != 0 ? failed
                         : buf_addf(body,
                                    "{\"status\":\"processing\",\"message\":\"%s\",\"pollUrl\":"
                                    "\"" ROUTE_POLL_PATH "%.*s\"",
                                    why, SPAN_ARGS(progress->id_text));
    if (failed == 0 && progress->is_unknown) {
        failed = buf_addf(body, ",\"code\":\"%s\",\"retry\":\"%s\"",
                          rows[ROUTE_PROBLEM_OUTCOME_UNKNOWN].code,
                          rows[ROUTE_PROBLEM_OUTCOME_UNKNOWN].retry);
    }
    if (failed == 0 && progress->state != NULL) {
        failed = buf_addf(body, ",\"state\":\"%s\"", progress->state);
    }
    return failed != 0 ? failed : buf_add(body, SPAN("}"));
}

/* --- URLs ------------------------------------------------------------------------------------------ */

/* The upstream's path has no slash at its end: a target begins with one. */
int route_url(const struct route_settings *route, struct span target, struct buf *out)
{
    struct span base = route->upstream;

    if (base.len > 0 && base.at[base.len - 1] == '/') {
        base.len--;
    }
    int failed = buf_add(out, base);
    return failed != 0 ? failed : buf_add(out, target);
}

enum escaped { ESCAPED_NOTHING = 0, ESCAPED_PERCENT };

/* What is escaped already keeps its percent signs. */
static int add_escaped(struct buf *out, struct span text, enum escaped already)
{
    int failed = 0;

    for (size_t i = 0; failed == 0 && i < text.len; i++) {
        char byte = text.at[i];
        bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                        (byte >= '0' && byte <= '9') || byte == '-' || byte == '_' || byte == '.' ||
                        byte == '~' || (byte == '%' && already == ESCAPED_PERCENT);
        failed = is_plain ? buf_add(out, (struct span){.at = text.at + i, .len = 1})
                          : buf_addf(out, "%%%02X", (unsigned)(unsigned char)byte);
    }
    return failed;
}

/* Does the path at a brace's place belong to the query? */
static bool is_query(struct span path, const char *at)
{
    const char *mark = span_find(path, '?');

    return mark != NULL && mark < at;
}

/* Names are what the pattern, and we, have; anything else was refused by route_probe_parse. A segment of a
 * path may hold what divides a query: there it is escaped, for its caller writes no parameters. */
static int add_named(const struct route_probe_input *input, const struct route_target *target,
                     struct span name, struct buf *out)
{
    struct span value;

    if (route_parameter(&input->route->pattern, target, name, &value)) {
        return is_query(input->route->probe.path, name.at)
                   ? add_escaped(out, value, ESCAPED_PERCENT)
                   : buf_add(out, value); /* is escaped as it came */
    }
    return span_is(name, "key") ? add_escaped(out, input->key, ESCAPED_NOTHING)
                                : buf_add(out, input->id_text);
}

int route_probe_url(const struct route_probe_input *input, struct buf *out)
{
    struct span rest = input->route->probe.path, front, name;
    struct span upstream = input->route->upstream;
    struct route_target target = {0};
    bool has_slash = upstream.len > 0 && upstream.at[upstream.len - 1] == '/';

    if (route_probe_refuse_key(input->route, input->key) != NULL) {
        return FAULT_INPUT; /* from before the probe had this path */
    }
    int failed = route_url(input->route, SPAN(""), out);
    (void)route_target_parse(span_from(input->target, upstream.len - (has_slash ? 1 : 0)),
                             &target); /* it was one when it came in */
    while (failed == 0 && rest.len > 0) {
        bool has_name = span_cut(&rest, '{', &front);
        failed = buf_add(out, front);
        if (failed == 0 && has_name) {
            (void)span_cut(&rest, '}', &name); /* is closed: route_probe_parse */
            failed = add_named(input, &target, name, out);
        }
    }
    return failed;
}

static bool is_of_pattern(struct span name, const struct route_pattern *pattern)
{
    for (size_t i = 0; i < pattern->segment_count; i++) {
        struct span segment = pattern->segments[i];
        if (segment.at[0] == '{' &&
            span_equal(span_until(span_from(segment, 1), segment.len - 2), name)) {
            return true;
        }
    }
    return false;
}

static bool is_known(struct span name, const struct route_pattern *pattern)
{
    return is_of_pattern(name, pattern) || span_is(name, "key") || span_is(name, "id");
}

static bool has_key_in_path(const struct route_settings *route)
{
    struct span path = route->probe.path, rest = path, front, name;

    while (span_cut(&rest, '{', &front) && span_cut(&rest, '}', &name)) {
        if (span_is(name, "key") && !is_query(path, name.at)) {
            return !is_of_pattern(name, &route->pattern);
        }
    }
    return false;
}

/* Escaped dots are dots to many servers, and so are escaped slashes slashes: it cannot be written so that
 * it means the key to all of them. */
const char *route_probe_refuse_key(const struct route_settings *route, struct span key)
{
    size_t from = 0;

    if (route->ambiguous != ROUTE_AMBIGUOUS_PROBE || !has_key_in_path(route)) {
        return NULL;
    }
    for (size_t i = 0; i <= key.len; i++) {
        bool is_end = i == key.len || key.at[i] == '/' || key.at[i] == '\\' || key.at[i] == ';';
        struct span part = span_until(span_from(key, from), i - from);
        if (is_end && (span_is(part, ".") || span_is(part, ".."))) {
            return "a dot segment: the key is part of a path of this route's upstream, so neither "
                   "it nor what stands between its slashes may be . or ..";
        }
        from = is_end ? i + 1 : from;
    }
    return NULL;
}

static const char *refuse_names(struct span path, const struct route_pattern *pattern)
{
    struct span front, name;

    while (span_cut(&path, '{', &front)) {
        if (!span_cut(&path, '}', &name)) {
            return "a brace that is not closed";
        }
        if (!is_known(name, pattern)) {
            return "a name that is neither key, id nor the route's";
        }
    }
    return NULL;
}

const char *route_probe_parse(struct span text, const struct route_pattern *pattern,
                              struct route_probe *probe)
{
    struct span rest = text, method;

    if (!span_cut(&rest, ' ', &method) || rest.len == 0 || rest.at[0] != '/') {
        return "no method, blank and path";
    }
    if (!span_is(method, "GET") && !span_is(method, "HEAD")) {
        return "another method than GET or HEAD";
    }
    if (!fields_value_is_clean(rest) || span_find(rest, ' ') != NULL) {
        return "a character that has to be escaped";
    }
    const char *why = refuse_names(rest, pattern);
    if (why == NULL) {
        probe->method = method;
        probe->path = rest;
    }
    return why;
}
