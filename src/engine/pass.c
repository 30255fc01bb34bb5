/* SPDX-License-Identifier: MIT
 *
 * pass -- requests that go through the gateway without being recorded: no key, a method that needs
 * none, or no route at all. They are sent once and answered with whatever comes; nothing about them
 * is kept, and nothing is ever sent again.
 */
#include "engine/engine_internal.h"

#include <stdlib.h>

struct passage {
    struct delivery delivery; /* first */
    struct called called;     /* its caller */
    struct passage *next, **at;
    struct arena *arena;
    const struct route_settings *route;
    bool is_streaming;
    bool is_left; /* by its caller: it was ended */
    struct stream stream;
};

static void passage_free(struct engine *engine, struct passage *passage)
{
    *passage->at = passage->next;
    if (passage->next != NULL) {
        passage->next->at = passage->at;
    }
    called_leave(&passage->called);
    engine->passage_count--;
    delivery_done(&passage->delivery);
    arena_free(passage->arena);
    free(passage);
}

void pass_free_all(struct engine *engine)
{
    while (engine->passages != NULL) {
        passage_free(engine, engine->passages);
    }
}

static void refuse(struct engine *engine, const struct submission *in, enum route_problem problem)
{
    const struct route_reply route = {
        .said = ROUTE_SAID_REFUSAL, .route = in->route, .problem = problem};

    engine_reply(engine,
                 &(struct reply){.kind = REPLY_ROUTE, .exchange = in->exchange, .route = &route});
    arena_free(in->arena);
}

static struct passage *begin(struct engine *engine, const struct submission *in)
{
    struct passage *passage = calloc(1, sizeof *passage);

    if (passage == NULL) {
        return NULL;
    }
    *passage = (struct passage){
        .delivery = {.method = in->method,
                     .url = in->target,
                     .headers = in->headers,
                     .body = in->body,
                     .ca = in->route != NULL ? in->route->ca : (struct span){"", 0},
                     .timeout_ms = in->options.timeout_ms,
                     .response_max = engine->options.response_max,
                     .is_proxied = true,
                     .is_upstream = true,
                     .ticket = DELIVERY_PASSAGE},
        .arena = in->arena,
        .route = in->route,
        .next = engine->passages,
        .at = &engine->passages,
    };
    if (passage->next != NULL) {
        passage->next->at = &passage->next;
    }
    engine->passages = passage;
    callers_add(&engine->passing, &passage->called, in->exchange);
    engine->passage_count++;
    return passage;
}

void engine_pass(struct engine *engine, const struct submission *in)
{
    struct error error = {0};

    engine->stats.requests[BY_GATEWAY][0]++;
    if (engine->is_draining || engine->passage_count >= ENGINE_PASSAGES_MAX) {
        refuse(engine, in, engine->is_draining ? ROUTE_PROBLEM_DRAINING : ROUTE_PROBLEM_OVERLOADED);
        return;
    }
    struct passage *passage = begin(engine, in);
    if (passage == NULL) {
        refuse(engine, in, ROUTE_PROBLEM_OVERLOADED);
        return;
    }
    if (engine->options.world.send(engine->options.world.user, &passage->delivery, &error) != 0) {
        struct submission told = *in;
        told.arena = NULL; /* goes with the passage */
        refuse(engine, &told, ROUTE_PROBLEM_OVERLOADED);
        passage_free(engine, passage);
    }
}

bool pass_dismiss(struct engine *engine, uint64_t exchange)
{
    struct called *called = callers_find(&engine->passing, exchange);

    if (called == NULL) {
        return false;
    }
    struct passage *passage = (struct passage *)((char *)called - offsetof(struct passage, called));
    passage->is_left = true;
    engine->options.world.stop(engine->options.world.user, &passage->delivery);
    return true;
}

struct stream *pass_stream(struct delivery *delivery)
{
    return &((struct passage *)delivery)->stream;
}

struct arena *pass_arena(struct delivery *delivery)
{
    return ((struct passage *)delivery)->arena;
}

void pass_streamed(struct engine *engine, struct delivery *delivery)
{
    struct passage *passage = (struct passage *)delivery;

    passage->is_streaming = true;
    stream_passage(engine, &passage->stream, delivery, passage->called.exchange, passage->route);
}

/* What the caller is not told, and no trail has: names and addresses of what is behind the gateway. At
 * most a line a second. */
static void log_failed(struct engine *engine, const struct passage *passage)
{
    struct span route = passage->route != NULL ? passage->route->name : SPAN("-");

    sums_log(engine, &(struct sums_line){
                         .event = "pass_failed",
                         .level = DARUMA_LOG_WARN,
                         .budget = &engine->pass_told,
                         .most = 1,
                         .shared = {daruma_log_bytes("route", route.at, route.len),
                                    daruma_log_text("error", passage->delivery.message)},
                         .shared_count = 2,
                     });
}

void pass_delivered(struct engine *engine, struct delivery *delivery)
{
    struct passage *passage = (struct passage *)delivery;
    const struct outcome *outcome = &delivery->outcome;
    const struct answer answer = {.status = outcome->status,
                                  .headers = buf_span(&delivery->response_headers),
                                  .body = buf_span(&delivery->response_body)};
    struct route_reply route = {
        .said = ROUTE_SAID_UNKEPT, .route = passage->route, .answer = &answer, .is_first = true};

    if (passage->is_streaming) {
        stream_end(engine, delivery);
        passage_free(engine, passage);
        return;
    }
    if (outcome->sent == TASK_SENT_YES && stream_is_untold(delivery)) {
        route_say_untold(engine, passage->called.exchange,
                         &(struct route_untold){
                             .route = passage->route, .status = outcome->status, .is_first = true});
        passage_free(engine, passage);
        return;
    }
    if (outcome->sent != TASK_SENT_YES || delivery->is_omitted) {
        route.said = ROUTE_SAID_REFUSAL;
        route.problem =
            outcome->sent == TASK_SENT_NO ? ROUTE_PROBLEM_NOT_SENT : ROUTE_PROBLEM_UPSTREAM;
        route.status = outcome->timed_out ? 504 : 502;
        if (delivery->is_short) { /* nothing of the upstream's */
            route.problem = ROUTE_PROBLEM_OVERLOADED;
            route.status = 0;
        }
        if (!passage->is_left) {
            log_failed(engine, passage);
        }
    }
    engine_reply(engine, &(struct reply){.kind = REPLY_ROUTE,
                                         .exchange = passage->called.exchange,
                                         .route = &route});
    passage_free(engine, passage);
}
