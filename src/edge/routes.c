/* SPDX-License-Identifier: MIT
 *
 * routes -- see routes.h.
 */
#include "edge/routes.h"

#include "edge/api.h"

#include <stdio.h>

static const struct route routes[] = {
    {"POST", "/v1/queues/{queue}/tasks", ROUTE_WRITE, ROLES_CREATE, NULL, api_task_create},
    {"POST", "/v1/queues/{queue}/tasks:batch", ROUTE_WRITE, ROLES_CREATE, NULL, api_task_batch},
    {"GET", "/v1/queues/{queue}/tasks", ROUTE_READ, ROLES_READ, "state limit after label.* ",
     api_task_list},
    {"GET", "/v1/tasks/{id}", ROUTE_READ, ROLES_READ, "wait_ms ", api_task_get},
    {"POST", "/v1/tasks/{id}:run", ROUTE_ACT, ROLES_MEND, NULL, api_task_run},
    {"POST", "/v1/tasks/{id}:cancel", ROUTE_ACT, ROLES_MEND, NULL, api_task_cancel},
    {"GET", "/v1/queues", ROUTE_READ, ROLES_READ, NULL, api_queue_list},
    {"GET", "/v1/queues/{queue}", ROUTE_READ, ROLES_READ, NULL, api_queue_get},
    {"PUT", "/v1/queues/{queue}", ROUTE_WRITE, ROLES_MAKE, NULL, api_queue_put},
    {"DELETE", "/v1/queues/{queue}", ROUTE_ACT, ROLES_MAKE, "force ", api_queue_delete},
    {"POST", "/v1/queues/{queue}:pause", ROUTE_ACT, ROLES_MEND, NULL, api_queue_pause},
    {"POST", "/v1/queues/{queue}:resume", ROUTE_ACT, ROLES_MEND, NULL, api_queue_resume},
    {"POST", "/v1/queues/{queue}:purge", ROUTE_ACT, ROLES_ADMIN, NULL, api_queue_purge},
    {"POST", "/v1/queues/{queue}:run", ROUTE_ACT, ROLES_MEND, NULL, api_queue_run},
    {"GET", "/v1/runs/{id}", ROUTE_READ, ROLES_READ, NULL, api_run_get},
    {"POST", "/v1/queues/{queue}/leases", ROUTE_WRITE, ROLES_WORK, NULL, api_lease_take},
    {"POST", "/v1/leases:settle", ROUTE_WRITE, ROLES_WORK, NULL, api_lease_settle},
    {"GET", "/v1/dead-letters", ROUTE_READ, ROLES_WATCH,
     "queue status class since until limit after ", api_letter_list},
    {"POST", "/v1/dead-letters:redrive", ROUTE_WRITE, ROLES_MEND, NULL, api_letters_redrive},
    {"GET", "/v1/dead-letters/{id}", ROUTE_READ, ROLES_WATCH, NULL, api_letter_get},
    {"POST", "/v1/dead-letters/{id}:redrive", ROUTE_WRITE, ROLES_MEND, NULL, api_letter_redrive},
    {"POST", "/v1/dead-letters/{id}:resolve", ROUTE_WRITE, ROLES_MEND, NULL, api_letter_resolve},
    {"GET", "/v1/redrives/{id}", ROUTE_READ, ROLES_WATCH, NULL, api_redrive_get},
    {"POST", "/v1/redrives/{id}:cancel", ROUTE_ACT, ROLES_MEND, NULL, api_redrive_cancel},
    {"GET", "/v1/unsettled", ROUTE_READ, ROLES_WATCH, "queue limit after ", api_unsettled_list},
    {"POST", "/v1/tasks/{id}:settle", ROUTE_WRITE, ROLES_MEND, NULL, api_task_settle},
    {"GET", "/v1/audit", ROUTE_READ, ROLES_WATCH, "task queue who act since until limit after ",
     api_audit_list},
    {"GET", "/v1/keys", ROUTE_READ, ROLES_WATCH, "route key scope limit after ", api_key_list},
    {"POST", "/v1/keys/{id}:forget", ROUTE_ACT, ROLES_ADMIN, NULL, api_key_forget},
    {"GET", "/v1/hosts", ROUTE_READ, ROLES_WATCH, NULL, api_hosts},
    {"GET", "/healthz", ROUTE_READ, ROLES_ANYBODY, NULL, api_health},
    {"GET", "/readyz", ROUTE_READ, ROLES_ANYBODY, NULL, api_ready},
    {"GET", "/metrics", ROUTE_READ, ROLES_WATCH, "detail ", api_metrics},
    {"GET", "/v1/openapi.json", ROUTE_READ, ROLES_READ, NULL, api_openapi},
};

const struct route *routes_all(size_t *ret_count)
{
    *ret_count = sizeof routes / sizeof *routes;
    return routes;
}

bool route_is_write(const struct route *route)
{
    return route->kind != ROUTE_READ;
}

/* One segment of a route's path against one of the target; notes down what it names. */
static bool match_segment(struct exchange *exchange, struct span wanted, struct span given)
{
    if (span_is(wanted, "{queue}")) {
        exchange->queue = given;
        return true;
    }
    if (span_is(wanted, "{id}")) {
        exchange->name = given;
        return true;
    }
    return span_equal(wanted, given);
}

static bool match_path(struct exchange *exchange, const char *path)
{
    const struct path *given = &exchange->path;
    struct span rest = span_from(span_of(path), 1), segment, verb = {.at = "", .len = 0};
    bool has_more = true;
    size_t i = 0;

    for (; has_more && i < given->segment_count; i++) {
        has_more = span_cut(&rest, '/', &segment);
        if (!has_more) {
            verb = segment;
            (void)span_cut(&verb, ':', &segment); /* no ":": no verb */
        }
        if (!match_segment(exchange, segment, given->segments[i])) {
            return false;
        }
    }
    return !has_more && i == given->segment_count && span_equal(verb, given->verb);
}

/* HEAD is GET without the answer's body, which libmicrohttpd leaves out. */
static bool match_method(const struct route *route, struct span method)
{
    return span_is(method, route->method) ||
           (span_is(method, "HEAD") && strcmp(route->method, "GET") == 0);
}

static void add_allowed(char *allow, const char *method)
{
    size_t len = strlen(allow);

    (void)snprintf(allow + len, EXCHANGE_ALLOW_MAX - len, "%s%s%s", len > 0 ? ", " : "", method,
                   strcmp(method, "GET") == 0 ? ", HEAD" : ""); /* all of them fit */
}

/* By path and method; NULL: none, and *allow says which methods the path has. */
static const struct route *find(struct exchange *exchange, struct span method, char *allow)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!match_path(exchange, routes[i].path)) {
            continue;
        }
        if (match_method(&routes[i], method)) {
            return &routes[i];
        }
        add_allowed(allow, routes[i].method);
    }
    return NULL;
}

/* Only the name is looked at, not whether there is such a queue: so a refusal says nothing of it. */
static void check_queue(struct exchange *exchange, const struct route *route)
{
    bool is_named = strstr(route->path, "{queue}") != NULL;

    exchange->reach.hides_own = (exchange->roles & route->roles & ROLES_WATCH) == 0;
    if (is_named && (route->roles & ROLES_NOT_OWN) != 0 && reach_is_own(exchange->queue)) {
        exchange_refuse(exchange, PROBLEM_QUEUE_RESERVED,
                        SPAN("names that begin with _ are the server's own"), SPAN(""));
    } else if (is_named && !reach_has(&exchange->reach, exchange->queue)) {
        exchange_refuse(exchange, PROBLEM_QUEUE_UNKNOWN, SPAN(""), SPAN(""));
    } else {
        exchange->route = route;
    }
}

void routes_refuse_stranger(struct exchange *exchange)
{
    exchange->response.asks_who = true;
    exchange_refuse(exchange, PROBLEM_UNAUTHORIZED, SPAN("Authorization: Bearer TOKEN is needed"),
                    SPAN(""));
}

void routes_find(struct exchange *exchange, struct span method)
{
    char allow[EXCHANGE_ALLOW_MAX] = "";
    const struct route *route = find(exchange, method, allow);

    if (exchange->roles == 0 && (route == NULL || route->roles != ROLES_ANYBODY)) {
        routes_refuse_stranger(exchange);
    } else if (route == NULL && allow[0] == '\0') {
        exchange_refuse(exchange, PROBLEM_NOT_FOUND, SPAN(""), SPAN(""));
    } else if (route == NULL) {
        (void)snprintf(exchange->response.allow, EXCHANGE_ALLOW_MAX, "%s", allow); /* fits */
        exchange_refuse(exchange, PROBLEM_METHOD, SPAN("see Allow"), SPAN(""));
    } else if (exchange->roles != 0 && (route->roles & exchange->roles) == 0) {
        exchange_refuse(exchange, PROBLEM_FORBIDDEN, SPAN(""), SPAN(""));
    } else {
        check_queue(exchange, route);
    }
}

/* Is the name in the route's list? */
static bool takes_parameter(const struct route *route, struct span name)
{
    struct span list = span_of(route->parameters), known;

    while (span_cut(&list, ' ', &known)) {
        bool is_open = known.at[known.len - 1] == '*';
        if (is_open && name.len >= known.len &&
            span_equal(span_until(name, known.len - 1), span_until(known, known.len - 1))) {
            return true;
        }
        if (span_equal(name, known)) {
            return true;
        }
    }
    return false;
}

static bool check_parameters(struct exchange *exchange)
{
    const struct path *given = &exchange->path;
    struct span first;

    for (size_t i = 0; i < given->parameter_count; i++) {
        struct span name = given->parameters[i].name;
        if (!takes_parameter(exchange->route, name)) {
            exchange_refuse(exchange, PROBLEM_INVALID, SPAN("there is no parameter of this name"),
                            name);
            return false;
        }
        for (size_t j = 0; j < i; j++) {
            first = given->parameters[j].name;
            if (span_equal(first, name)) {
                exchange_refuse(exchange, PROBLEM_INVALID, SPAN("a parameter is given twice"),
                                name);
                return false;
            }
        }
    }
    return true;
}

static bool check_body(struct exchange *exchange)
{
    enum route_kind kind = exchange->route->kind;
    bool is_nothing = exchange->body.len == 0 ||
                      (kind == ROUTE_ACT && span_is(span_trim(buf_span(&exchange->body)), "{}"));

    if (kind == ROUTE_WRITE || is_nothing) {
        return true;
    }
    exchange_refuse(exchange, PROBLEM_INVALID, SPAN("this call takes no body"), SPAN(""));
    return false;
}

void routes_run(struct exchange *exchange)
{
    if (check_parameters(exchange) && check_body(exchange)) {
        exchange->route->run(exchange);
    }
}
