/* SPDX-License-Identifier: MIT
 *
 * gateway_aside -- what the body of a gateway's request is looked at for before it goes on: its fingerprint,
 * or whether it is a form that asks for another method. Selected fields of a body of some megabytes cost
 * a fifth of a second, so large ones are looked at on the thread of aside.h:
 *
 *   gateway_run --> gateway_read_aside --> the thread --> go_on --> gateway_run
 */
#include "edge/aside.h"
#include "edge/gateway.h"

#include "task/route_rename.h"

/* Of what passes: on a route's path nothing asks for another method in its body either. */
static bool may_rename(const struct gateway *gateway)
{
    return gateway->kind == GATEWAY_PASS &&
           (gateway->route != NULL || gateway->like != ROUTE_LIKE_NONE);
}

static bool has_print(const struct gateway *gateway)
{
    return gateway->kind == GATEWAY_KEYED && gateway->route->print != ROUTE_PRINT_OFF;
}

bool gateway_form_renames(const struct exchange *exchange)
{
    const struct gateway *gateway = exchange->gateway;

    if (gateway->is_read || exchange->body.len == 0 || !may_rename(gateway)) {
        return gateway->renames;
    }
    return route_form_renames_method(buf_span(&gateway->headers), buf_span(&exchange->body));
}

int gateway_fill_print(const struct gateway *gateway, struct submission *submission,
                       struct error *err)
{
    struct route_request request = {.method = gateway->method,
                                    .target = gateway->target.whole,
                                    .content_type = gateway->content_type,
                                    .body = submission->body};
    int failed = 0;

    if (gateway->is_read && has_print(gateway)) {
        memcpy(submission->fingerprint, gateway->print, sizeof submission->fingerprint);
    } else {
        failed = route_fingerprint(gateway->route, &request, submission->fingerprint, err);
    }
    submission->has_fingerprint = failed == 0;
    return failed;
}

/* The body is the exchange's again. */
static void go_on(struct exchange *exchange, struct aside_task *task)
{
    struct gateway *gateway = exchange->gateway;

    exchange->body = task->body;
    task->body = (struct buf){0};
    exchange->step = EXCHANGE_READING;
    if (task->failed != 0) {
        exchange_refuse_error(exchange, &task->error);
        return;
    }
    gateway->is_read = true;
    gateway->renames = task->renames;
    memcpy(gateway->print, task->submission.fingerprint, sizeof gateway->print);
    gateway_run(exchange);
}

bool gateway_read_aside(struct exchange *exchange)
{
    const struct gateway *gateway = exchange->gateway;
    struct aside_task task = {.then = go_on, .submission = {.exchange = exchange->id}};
    struct arena *arena;

    task.kind = has_print(gateway) ? ASIDE_PRINT : ASIDE_FORM;
    if (gateway->is_read || (task.kind == ASIDE_FORM && !may_rename(gateway)) ||
        !edge_is_read_aside(exchange) ||
        (arena = arena_new(4 * (size_t)EDGE_REQUEST_BYTES)) == NULL) {
        return false;
    }
    task.submission.arena = arena;
    task.submission.route = gateway->route;
    task.submission.method = arena_copy(arena, gateway->method);
    task.submission.target = arena_copy(arena, gateway->target.whole);
    task.submission.headers = arena_copy(arena, buf_span(&gateway->headers));
    task.content_type = arena_copy(arena, gateway->content_type);
    bool is_whole = task.submission.method.at != NULL && task.submission.target.at != NULL &&
                    task.submission.headers.at != NULL && task.content_type.at != NULL;
    if (!is_whole || !edge_read_aside(exchange, &task)) {
        arena_free(arena);
        return false;
    }
    return true;
}
