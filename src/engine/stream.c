/* SPDX-License-Identifier: MIT
 *
 * stream -- answers that are handed on to the first caller as they come: too long to be kept, or an
 * event stream. That it was answered, and how, is on disk before the first byte goes on; so it is
 * never run again, whatever happens to the rest. At the end it is noted whether it was whole.
 *
 *   head --> SETTLE: still running, (status, omitted) --committed--> told to the caller
 *   piece <--pull-- the caller has sent the one before
 *   done --> SETTLE: ended, (whole | truncated)
 *
 * One that frees its key promises nothing, and is handed on without that.
 *
 * A caller who leaves stops nothing that was recorded: the rest is read and dropped, for the attempt's
 * time-out more. What is longer than that may be endless: it is ended, as cut off. What is only passed
 * on ends with its caller.
 */
#include "engine/engine_internal.h"
#include "task/fields.h"
#include "task/route_headers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

static struct attempt *attempt_of(struct delivery *delivery)
{
    return (struct attempt *)((char *)delivery - offsetof(struct attempt, delivery));
}

/* NULL: it is not handed on. */
static struct stream *find(struct delivery *delivery)
{
    struct stream *stream = delivery->ticket == DELIVERY_PASSAGE ? pass_stream(delivery)
                                                                 : &attempt_of(delivery)->stream;

    return stream->delivery == delivery ? stream : NULL;
}

static struct stream *of(struct called *called)
{
    return (struct stream *)called;
}

/* NULL: nothing is handed on to it. */
static struct stream *find_for(const struct engine *engine, uint64_t exchange)
{
    return of(callers_find(&engine->streams, exchange));
}

static void pull(struct engine *engine, struct delivery *delivery)
{
    engine->options.world.pull(engine->options.world.user, delivery);
}

static void stop(struct engine *engine, struct delivery *delivery)
{
    engine->options.world.stop(engine->options.world.user, delivery);
}

/* From now on no caller reads it: it has its time-out once more. */
static void be_unread(struct engine *engine, struct stream *stream)
{
    int64_t timeout_ms = stream->delivery->timeout_ms;

    stream->until_ms =
        clock_mono_ms(engine->options.clock) + (timeout_ms > 0 ? timeout_ms : QUEUE_TIMEOUT_MS);
    called_link(&stream->called, &engine->unread_streams);
}

static void add(struct engine *engine, struct stream *stream, struct delivery *delivery,
                uint64_t exchange)
{
    assert(stream->delivery == NULL); /* an answer has one head */
    *stream = (struct stream){.delivery = delivery};
    if (exchange == NOBODY) {
        be_unread(engine, stream);
    } else {
        callers_add(&engine->streams, &stream->called, exchange);
    }
}

static void tell(struct engine *engine, uint64_t exchange, const struct route_reply *route)
{
    if (exchange != NOBODY) {
        engine_reply(engine,
                     &(struct reply){.kind = REPLY_ROUTE, .exchange = exchange, .route = route});
    }
}

/* 0: it is not said. */
static int64_t length_of(const struct delivery *delivery)
{
    struct span value;
    int64_t length = 0;

    if (fields_find(buf_span(&delivery->response_headers), "Content-Length", &value)) {
        (void)span_to_int(value, &length); /* else it stays 0 */
    }
    return length;
}

/* No caller gets the rest. What was recorded is read on all the same. */
static void abandon(struct engine *engine, struct stream *stream)
{
    called_leave(&stream->called);
    if (stream->delivery->ticket == DELIVERY_PASSAGE) {
        stop(engine, stream->delivery);
    } else {
        be_unread(engine, stream);
        pull(engine, stream->delivery);
    }
}

bool stream_is_untold(const struct delivery *delivery)
{
    return delivery->is_header_cut || !route_headers_fit(buf_span(&delivery->response_headers));
}

/* --- passed on ---------------------------------------------------------------------------------------- */

void stream_passage(struct engine *engine, struct stream *stream, struct delivery *delivery,
                    uint64_t exchange, const struct route_settings *route)
{
    const struct answer answer = {.status = delivery->outcome.status,
                                  .headers = buf_span(&delivery->response_headers)};

    add(engine, stream, delivery, exchange);
    if (stream_is_untold(delivery)) {
        route_say_untold(engine, exchange,
                         &(struct route_untold){.route = route,
                                                .status = answer.status,
                                                .is_first = true,
                                                .is_free = delivery->ticket != DELIVERY_PASSAGE});
        abandon(engine, stream);
        return;
    }
    tell(engine, exchange,
         &(struct route_reply){.said = ROUTE_SAID_STREAM,
                               .route = route,
                               .answer = &answer,
                               .is_first = true,
                               .length = length_of(delivery)});
}

/* --- recorded ----------------------------------------------------------------------------------------- */

/* No caller gets it, and it is read on all the same. */
static void drop_rest(struct engine *engine, struct attempt *attempt)
{
    add(engine, &attempt->stream, &attempt->delivery, NOBODY);
    pull(engine, &attempt->delivery);
}

/* The answer of a released key is the first caller's own and nobody else's: it is handed on, and when
 * it has come whole the key is free. Of one that leaves doubt nobody gets a byte, since another may
 * be the answer in the end. */
static void unkept_head(struct engine *engine, struct attempt *attempt)
{
    uint64_t exchange =
        attempt->verdict == ROUTE_RELEASE ? inspect_take_first(engine, attempt->task.id) : NOBODY;

    if (exchange != NOBODY) {
        stream_passage(engine, &attempt->stream, &attempt->delivery, exchange,
                       attempt->queue->route);
        return;
    }
    drop_rest(engine, attempt);
}

static void attempt_head(struct engine *engine, struct attempt *attempt)
{
    struct judgement judgement;

    attempt->delivery.outcome.sent = TASK_SENT_YES;
    route_settle_judge(engine, attempt, &judgement);
    attempt->op.releases_key = false;
    if (attempt->verdict != ROUTE_KEEP_SUCCESS && attempt->verdict != ROUTE_KEEP_FAILURE) {
        unkept_head(engine, attempt);
        return;
    }
    attempt->streamed = judgement;
    attempt->op.life = judgement.life;
    if (route_settle_answer(attempt) != 0) {
        attempt->op.life = attempt->life;
        drop_rest(engine, attempt); /* no memory: it ends as in doubt */
        return;
    }
    uint32_t untold = attempt->op.life.flags & LIFE_UNTOLD;
    attempt->streamed.life.flags |= untold;
    attempt->is_streaming = true;
    attempt->op.kind = OP_SETTLE;
    attempt->op.ticket = TICKET_ATTEMPT;
    attempt->op.now_ms = engine_now_ms(engine);
    attempt->op.task.id = attempt->task.id;
    attempt->op.life = attempt->life;
    attempt->op.life.flags |= LIFE_OMITTED | LIFE_SENT | untold;
    attempt->op.life.failed_class =
        judgement.life.failed_class; /* what it will end as, should we */
    attempt->op.life.keep_until_ms = judgement.life.keep_until_ms; /* not be there: see recover.c */
    attempt->op.is_patient = true;
    attempt->op.is_kept = false; /* of its RECORD */
    attempt->op.trail_count = 0;
    attempt->stream.is_head_open =
        engine->options.world.commit(engine->options.world.user, &attempt->op);
    if (!attempt->stream.is_head_open) {
        drop_rest(engine, attempt); /* never told, so never promised */
    }
}

/* (status, omitted) is on disk. */
static void tell_head(struct engine *engine, struct attempt *attempt)
{
    bool is_done = attempt->op.fault == 0 && attempt->op.result == RESULT_DONE;
    uint64_t exchange = is_done ? inspect_take_first(engine, attempt->task.id) : NOBODY;

    add(engine, &attempt->stream, &attempt->delivery, exchange);
    if (exchange != NOBODY && (attempt->op.life.flags & LIFE_UNTOLD) != 0) {
        route_say_untold(engine, exchange,
                         &(struct route_untold){.route = attempt->queue->route,
                                                .id = attempt->task.id,
                                                .status = attempt->answer.status,
                                                .is_first = true,
                                                .is_kept = true});
        abandon(engine, &attempt->stream);
        return;
    }
    tell(engine, exchange,
         &(struct route_reply){.said = ROUTE_SAID_STREAM,
                               .route = attempt->queue->route,
                               .id = attempt->task.id,
                               .answer = &attempt->answer,
                               .length = length_of(&attempt->delivery),
                               .is_first = true});
    if (exchange == NOBODY) {
        pull(engine, &attempt->delivery);
    }
}

/* An answer without a body, or cut off before it, has ended by now. */
void stream_head_written(struct engine *engine, struct attempt *attempt)
{
    bool has_ended = attempt->stream.has_ended;

    tell_head(engine, attempt); /* from here on the stream is its caller's */
    if (has_ended) {
        settle_outcome(engine, attempt);
    }
}

/* The end: what was decided at the head, and whether all of it came. */
void stream_judge(struct engine *engine, struct attempt *attempt, struct judgement *ret_judgement)
{
    bool is_whole = attempt->delivery.outcome.sent == TASK_SENT_YES;

    *ret_judgement = attempt->streamed;
    ret_judgement->life.settled_at_ms = engine_now_ms(engine);
    ret_judgement->life.keep_until_ms =
        ret_judgement->life.settled_at_ms + attempt->queue->route->keep_ms;
    ret_judgement->life.flags |= LIFE_OMITTED | (is_whole ? 0 : LIFE_TRUNCATED);
    attempt->delivery.outcome.status = attempt->answer.status;
}

/* --- both --------------------------------------------------------------------------------------------- */

/* An answer may last for days, and many of them are handed on at once: what has gone out whole is not
 * kept beside it. */
static void drop_body(struct delivery *delivery)
{
    bool is_passage = delivery->ticket == DELIVERY_PASSAGE;
    struct arena *arena = is_passage ? pass_arena(delivery) : attempt_of(delivery)->arena;

    if (arena_drop(arena, delivery->body)) {
        arena_uncount(arena);
    }
    delivery->body = SPAN("");
    if (!is_passage) {
        struct attempt *attempt = attempt_of(delivery);
        attempt->task.body = attempt->op.task.body = attempt->op.edited.body = SPAN("");
    }
}

void engine_streamed(struct engine *engine, struct delivery *delivery, struct span bytes)
{
    struct stream *stream = find(delivery);
    const struct answer piece = {.body = bytes};

    if (delivery->is_body_spent && delivery->body.len > 0) {
        drop_body(delivery);
    }
    if (bytes.at == NULL && delivery->ticket == DELIVERY_PASSAGE) {
        pass_streamed(engine, delivery);
    } else if (bytes.at == NULL) {
        attempt_head(engine, attempt_of(delivery));
    } else if (stream == NULL || stream->called.exchange == NOBODY) {
        pull(engine, delivery);
    } else {
        tell(engine, stream->called.exchange,
             &(struct route_reply){.said = ROUTE_SAID_PIECE, .answer = &piece});
    }
}

/* Its last piece has been told. */
void stream_end(struct engine *engine, struct delivery *delivery)
{
    struct stream *stream = find(delivery);

    if (stream == NULL) {
        return;
    }
    uint64_t exchange = stream->called.exchange;
    called_leave(&stream->called);
    stream->delivery = NULL;
    if (stream->until_ms == INT64_MAX && delivery->outcome.sent != TASK_SENT_YES) {
        (void)snprintf(delivery->message, sizeof delivery->message, /* may be cut */
                       "its caller has left, and it had not ended %" PRId64 " ms later (sent: %s)",
                       delivery->timeout_ms, task_sent_text(delivery->outcome.sent));
    }
    tell(engine, exchange,
         &(struct route_reply){.said = delivery->outcome.sent == TASK_SENT_YES ? ROUTE_SAID_END
                                                                               : ROUTE_SAID_CUT});
}

void engine_more(struct engine *engine, uint64_t exchange)
{
    struct stream *stream = find_for(engine, exchange);

    if (stream != NULL) {
        pull(engine, stream->delivery);
    }
}

bool stream_leave(struct engine *engine, uint64_t exchange)
{
    struct stream *stream = find_for(engine, exchange);

    if (stream != NULL) {
        abandon(engine, stream);
    }
    return stream != NULL;
}

void stream_tick(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);

    for (struct called *called = engine->unread_streams, *next; called != NULL; called = next) {
        next = called->next;
        if (of(called)->until_ms <= now_ms) {
            called_leave(called);
            of(called)->until_ms = INT64_MAX;
            stop(engine, of(called)->delivery);
        }
    }
}

int64_t stream_next_ms(const struct engine *engine)
{
    int64_t next_ms = INT64_MAX;

    for (struct called *called = engine->unread_streams; called != NULL; called = called->next) {
        next_ms = of(called)->until_ms < next_ms ? of(called)->until_ms : next_ms;
    }
    return next_ms;
}
