/* SPDX-License-Identifier: MIT
 *
 * route -- a route of the gateway is a queue whose callers wait: the same record, lease, settle and
 * recover. What differs is the rule by which an outcome is judged (task/route_judge.c) and which
 * part of an answer is kept.
 */
#include "engine/engine_internal.h"
#include "task/route_headers.h"

#include <stdio.h>

#define ROUTE_ARENA_MAX (1u << 20)

int engine_add_route(struct engine *engine, const struct route_settings *route, struct error *err)
{
    struct arena *arena = arena_new(ROUTE_ARENA_MAX);
    struct queue_settings settings = {
        .policy = route->policy,
        .targets = {{.url = route->upstream,
                     .timeout_ms = route->timeout_ms,
                     .repeatable = route->ambiguous == ROUTE_AMBIGUOUS_RETRY,
                     .ca = route->ca}},
        .target_count = 1,
        .concurrency = route->concurrency,
        .host_concurrency = route->concurrency,
        .lease_ms = QUEUE_LEASE_MS,
    };

    if (arena != NULL) {
        settings.name = arena_printf(arena, ROUTE_QUEUE_PREFIX "%.*s", SPAN_ARGS(route->name));
    }
    struct queue *queue = settings.name.at == NULL
                              ? NULL
                              : engine_install_queue(engine, settings.name, arena, &settings);
    if (queue == NULL) {
        arena_free(arena);
        return fail(err, FAULT_MEMORY, "no memory for the routes");
    }
    queue->in_file = true;
    queue->route = route;
    return 0;
}

/* What a person has said of a request of the gateway is what its callers are told from now on; sent
 * again, it has its whole time. Of any other task it changes nothing. */
void route_settled_by_hand(const struct queue *queue, struct life *life, int64_t now_ms)
{
    if (queue == NULL || queue->route == NULL) {
        return;
    }
    if (life->state == TASK_WAITING) {
        life->deadline_at_ms = now_ms + queue->route->deadline_ms;
        return;
    }
    life->state = life->state == TASK_SUCCEEDED ? TASK_SUCCEEDED : TASK_FAILED;
    life->flags = (life->flags & ~(uint32_t)LIFE_LETTER) | LIFE_ANSWERED;
    life->keep_until_ms = now_ms + queue->route->keep_ms;
}

void route_settle_judge(struct engine *engine, struct attempt *attempt,
                        struct judgement *ret_judgement)
{
    const struct outcome *outcome = &attempt->delivery.outcome;
    int64_t now_ms = engine_now_ms(engine);

    if (outcome->sent == TASK_SENT_NO && judge_is_expired(&attempt->life, now_ms)) {
        route_judge_expire(&attempt->life, now_ms, ret_judgement);
        attempt->verdict = ROUTE_NOT_SENT;
        attempt->op.releases_key = true;
        return;
    }
    attempt->verdict = route_judge(
        &(struct route_judge_input){.route = attempt->queue->route,
                                    .attempt = {.outcome = outcome,
                                                .life = &attempt->life,
                                                .now_ms = now_ms,
                                                .random = daruma_dice_roll(engine->options.dice)},
                                    .is_unframed = attempt->delivery.is_unframed},
        ret_judgement, &attempt->op.releases_key);
}

/* Our own answer about a request that never left: 504 when it was time that ran out. */
static int answer_not_sent(struct attempt *attempt)
{
    bool is_kept = !attempt->op.releases_key;
    bool is_late = attempt->delivery.outcome.timed_out ||
                   attempt->op.life.failed_class == DARUMA_CLASS_EXPIRED + 1;
    struct route_refusal refusal = {
        .problem = is_kept ? ROUTE_PROBLEM_NOT_SENT_KEPT : ROUTE_PROBLEM_NOT_SENT,
        .status = is_late ? 504 : 502,
        .retry_after_ms = is_kept ? 0 : attempt->queue->route->retry_after_ms,
    };
    struct buf *headers = &attempt->delivery.response_headers;
    struct buf *body = &attempt->delivery.response_body;

    buf_done(headers);
    buf_done(body);
    buf_init(headers, ARENA_MAX);
    buf_init(body, ARENA_MAX);
    int failed = route_refusal_render(&refusal, headers, body);
    attempt->answer = (struct answer){
        .status = refusal.status, .headers = buf_span(headers), .body = buf_span(body)};
    attempt->unkept = attempt->answer;
    return failed;
}

/* What an earlier version recorded was not measured then: it is now. */
bool route_is_untold(const struct record *record)
{
    return (record->life.flags & LIFE_UNTOLD) != 0 || !route_headers_fit(record->answer.headers);
}

void route_say_untold(struct engine *engine, uint64_t exchange, const struct route_untold *untold)
{
    char detail[ERROR_TEXT_MAX];

    (void)snprintf(detail, sizeof detail,
                   "the upstream answered %d, with more than %d bytes of header fields",
                   untold->status, ROUTE_TOLD_HEADER_MAX); /* fits */
    const struct route_reply route = {
        .said = ROUTE_SAID_REFUSAL,
        .route = untold->route,
        .id = untold->id,
        .scope = untold->scope,
        .is_first = untold->is_first,
        .is_omitted = untold->is_kept,
        .problem =
            untold->is_free ? ROUTE_PROBLEM_HEADER_TOO_LONG_FREE : ROUTE_PROBLEM_HEADER_TOO_LONG,
        .detail = span_of(detail),
    };

    engine_reply(engine,
                 &(struct reply){.kind = REPLY_ROUTE, .exchange = exchange, .route = &route});
}

/* Of what was kept, or of what is told in its place, callers cannot be told all: so nothing is. */
static bool is_untold(const struct attempt *attempt)
{
    const struct answer *told = attempt->op.releases_key ? &attempt->unkept : &attempt->answer;

    return attempt->delivery.is_header_cut || !route_headers_fit(told->headers);
}

/* The answer as it is kept, and as the callers present get it when it is not. */
int route_settle_answer(struct attempt *attempt)
{
    struct delivery *delivery = &attempt->delivery;
    struct buf kept;

    attempt->op.answer = NULL;
    if (!task_is_settled(attempt->op.life.state)) {
        return 0;
    }
    attempt->op.answer = &attempt->answer;
    if (attempt->verdict == ROUTE_NOT_SENT) {
        return answer_not_sent(attempt);
    }
    buf_init(&kept, ARENA_MAX);
    int failed =
        route_headers_keep(attempt->queue->route, buf_span(&delivery->response_headers), &kept);
    attempt->unkept = (struct answer){
        .status = delivery->outcome.status,
        .headers = buf_span(&delivery->response_headers),
        .body = buf_span(&delivery->response_body),
        .settled_by = attempt->target_name,
    };
    attempt->answer = attempt->unkept;
    attempt->answer.headers = arena_copy(attempt->arena, buf_span(&kept));
    buf_done(&kept);
    attempt->op.life.flags |= delivery->is_unframed ? LIFE_UNFRAMED : 0;
    attempt->op.life.flags |= delivery->is_omitted ? LIFE_OMITTED : 0;
    attempt->op.life.flags |= is_untold(attempt) ? LIFE_UNTOLD : 0;
    return failed != 0 || attempt->answer.headers.at == NULL ? FAULT_MEMORY : 0;
}
