/* SPDX-License-Identifier: MIT
 *
 * crossing -- see crossing.h.
 */
#include "edge/crossing.h"

#include "edge/api.h"

#include <stdlib.h>

#define PENDING_FIRST 64

/* One exchange's question, on its way there and back. */
struct question {
    struct handover_link link; /* first */
    struct crossing *crossing;
    struct exchange exchange; /* stands in for the one that asks */
    void (*perform)(struct question *question);
    bool is_performing; /* it must not go back yet */
    union {
        struct ask ask;
        struct submission submission;
        struct parsed_batch *batch;
        route_fn run;
    } what;
    bool has_submission, has_batch; /* not yet the engine's */
};

static void question_free(struct question *question)
{
    if (question->has_submission) {
        arena_free(question->what.submission.arena);
    }
    if (question->has_batch) {
        parsed_batch_free(question->what.batch);
    }
    batch_free(question->exchange.batch);
    buf_done(&question->exchange.response.body);
    free(question);
}

static void free_all(struct handover *handover)
{
    struct handover_link *link = handover == NULL ? NULL : handover_take(handover, SIZE_MAX, 0);

    while (link != NULL) {
        struct handover_link *next = link->next;
        question_free((struct question *)link);
        link = next;
    }
}

/* --- on the edge's thread ---------------------------------------------------------------------- */

/* The exchange is ASKED. NULL: refused for want of memory. */
static struct question *question_new(struct exchange *exchange,
                                     void (*perform)(struct question *question))
{
    struct question *question = calloc(1, sizeof *question);

    if (question == NULL) {
        exchange_refuse(exchange, PROBLEM_OVERLOADED, SPAN(""), SPAN(""));
        return NULL;
    }
    question->crossing = exchange->edge->crossing;
    question->perform = perform;
    question->exchange = *exchange;
    question->exchange.body = (struct buf){0}; /* the exchange's own */
    question->exchange.counted = 0;            /* likewise, as what follows */
    question->exchange.arena = NULL;
    question->exchange.batch = NULL;
    question->exchange.is_waiter = false;
    question->exchange.is_suspended = false;
    return question;
}

static void send(struct exchange *exchange, struct question *question)
{
    struct shore *shore = question->crossing->shore;

    if (!handover_give(shore->questions, &question->link)) {
        exchange_refuse(exchange, PROBLEM_OVERLOADED, SPAN(""), SPAN(""));
        question_free(question);
        return;
    }
    loop_wake(shore->waker);
}

static void perform_ask(struct question *question)
{
    engine_ask(question->crossing->shore->engine, &question->what.ask);
}

void edge_put_ask(struct exchange *exchange, const struct ask *ask)
{
    if (exchange->edge->crossing == NULL) {
        engine_ask(exchange->edge->options.engine, ask);
        return;
    }
    struct question *question = question_new(exchange, perform_ask);
    if (question != NULL) {
        question->what.ask = *ask;
        send(exchange, question);
    }
}

static void perform_again(struct question *question)
{
    engine_leave(question->crossing->shore->engine, question->exchange.id);
    perform_ask(question);
}

void edge_put_again(struct exchange *exchange, const struct ask *ask)
{
    if (exchange->edge->crossing == NULL) {
        struct engine *engine = exchange->edge->options.engine;
        engine_leave(engine, exchange->id);
        engine_ask(engine, ask);
        return;
    }
    struct question *question = question_new(exchange, perform_again);
    if (question != NULL) {
        question->what.ask = *ask;
        send(exchange, question);
    }
}

static void perform_leave(struct question *question)
{
    engine_leave(question->crossing->shore->engine, question->exchange.id);
}

void edge_put_leave(struct exchange *exchange)
{
    if (exchange->edge->crossing == NULL) {
        engine_leave(exchange->edge->options.engine, exchange->id);
        return;
    }
    struct question *question = question_new(exchange, perform_leave);
    if (question != NULL) {
        send(exchange, question);
    }
}

static void perform_submission(struct question *question)
{
    question->has_submission = false; /* the engine's now */
    engine_submit(question->crossing->shore->engine, &question->what.submission);
}

void edge_put_submission(struct exchange *exchange, const struct submission *submission)
{
    if (exchange->edge->crossing == NULL) {
        engine_submit(exchange->edge->options.engine, submission);
        return;
    }
    struct question *question = question_new(exchange, perform_submission);
    if (question == NULL) {
        arena_free(submission->arena);
        return;
    }
    question->what.submission = *submission;
    question->has_submission = true;
    send(exchange, question);
}

static void perform_batch(struct question *question)
{
    batch_submit(&question->exchange, question->what.batch, question->crossing->shore->engine);
}

void edge_put_batch(struct exchange *exchange, struct parsed_batch *batch)
{
    if (exchange->edge->crossing == NULL) {
        batch_submit(exchange, batch, exchange->edge->options.engine);
        parsed_batch_free(batch);
        return;
    }
    struct question *question = question_new(exchange, perform_batch);
    if (question == NULL) {
        parsed_batch_free(batch);
        return;
    }
    question->what.batch = batch;
    question->has_batch = true;
    send(exchange, question);
}

static void perform_run(struct question *question)
{
    question->what.run(&question->exchange);
}

bool edge_is_stopping(const struct edge *edge)
{
    return edge->crossing != NULL ? edge->crossing->shore->is_draining : edge->is_draining;
}

const struct engine *edge_engine(const struct edge *edge)
{
    return edge->crossing != NULL ? edge->crossing->shore->engine : edge->options.engine;
}

void edge_put_run(struct exchange *exchange, route_fn run)
{
    exchange->step = EXCHANGE_ASKED;
    if (exchange->edge->crossing == NULL) {
        run(exchange);
        return;
    }
    struct question *question = question_new(exchange, perform_run);
    if (question != NULL) {
        question->what.run = run;
        send(exchange, question);
    }
}

void crossing_take(struct edge *edge)
{
    struct handover_link *link = handover_take(edge->crossing->answers, SIZE_MAX, 0);

    while (link != NULL) {
        struct handover_link *next = link->next;
        struct question *question = (struct question *)link;
        struct exchange *exchange = exchange_find(&edge->exchanges, question->exchange.id);
        if (exchange != NULL) {
            exchange_adopt(exchange, &question->exchange.response);
        }
        question_free(question);
        link = next;
    }
}

/* --- on the engine's --------------------------------------------------------------------------- */

static struct question **slot_of(struct crossing *crossing, uint64_t id)
{
    uint64_t place = exchange_place(id);

    return place < crossing->pending_room ? &crossing->pending[place] : NULL;
}

static bool make_slot(struct crossing *crossing, uint64_t id)
{
    uint64_t place = exchange_place(id);
    uint32_t room = crossing->pending_room == 0 ? PENDING_FIRST : crossing->pending_room;

    while (room <= place) {
        room *= 2;
    }
    if (room == crossing->pending_room) {
        return true;
    }
    struct question **pending = realloc(crossing->pending, room * sizeof(struct question *));
    if (pending == NULL) {
        return false;
    }
    for (uint32_t i = crossing->pending_room; i < room; i++) {
        pending[i] = NULL;
    }
    crossing->pending = pending;
    crossing->pending_room = room;
    return true;
}

static void send_back(struct question *question)
{
    struct crossing *crossing = question->crossing;

    if (!handover_give(crossing->answers, &question->link)) {
        question_free(question); /* nobody is there any more */
        return;
    }
    loop_wake(crossing->waker);
}

/* Answered, and not in use: it goes back. */
static void settle(struct question *question)
{
    if (question->exchange.step != EXCHANGE_ANSWERED || question->is_performing) {
        return;
    }
    *slot_of(question->crossing, question->exchange.id) = NULL;
    send_back(question);
}

static void perform(struct question *question)
{
    struct crossing *crossing = question->crossing;

    if (!make_slot(crossing, question->exchange.id)) {
        exchange_refuse(&question->exchange, PROBLEM_OVERLOADED, SPAN(""), SPAN(""));
        send_back(question);
        return;
    }
    struct question **slot = slot_of(crossing, question->exchange.id);
    if (*slot != NULL) {
        question_free(*slot); /* the same exchange asks again, or a later one has its place */
    }
    *slot = question;
    question->is_performing = true;
    question->perform(question);
    question->is_performing = false;
    settle(question);
}

static void shore_take(void *user)
{
    struct shore *shore = user;
    struct handover_link *link = handover_take(shore->questions, SIZE_MAX, 0);

    while (link != NULL) {
        struct handover_link *next = link->next;
        perform((struct question *)link);
        link = next;
    }
    leases_flush_returns(&shore->returns, shore->engine);
}

void crossing_return(struct crossing *crossing, const struct record *records, size_t count)
{
    lease_returns_note(&crossing->shore->returns, records, count);
    loop_wake(crossing->shore->waker);
}

void crossing_reply(struct crossing *crossing, const struct reply *reply)
{
    struct question **slot = slot_of(crossing, reply->exchange);

    if (slot == NULL || *slot == NULL || (*slot)->exchange.id != reply->exchange) {
        if (reply->kind == REPLY_LEASES) {
            crossing_return(crossing, reply->records, reply->record_count);
        }
        return; /* it has been answered */
    }
    edge_answer(&(*slot)->exchange, reply);
    settle(*slot);
}

/* --- opening and closing ------------------------------------------------------------------------- */

int shore_open(struct shore *shore, struct engine *engine, struct loop *loop, struct error *err)
{
    *shore = (struct shore){.engine = engine, .questions = handover_new(CROSSING_WAITING_MAX)};
    if (shore->questions == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for the HTTP server's threads");
    }
    return loop_waker_new(loop, shore_take, shore, &shore->waker, err);
}

void shore_close(struct shore *shore)
{
    leases_flush_returns(&shore->returns, shore->engine);
    free_all(shore->questions);
    loop_waker_free(shore->waker);
    handover_free(shore->questions);
    *shore = (struct shore){0};
}

int crossing_open(struct crossing *crossing, struct shore *shore, struct loop *loop, loop_fn woken,
                  void *user, struct error *err)
{
    *crossing = (struct crossing){.shore = shore, .answers = handover_new(SIZE_MAX)};
    if (crossing->answers == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for the HTTP server's threads");
    }
    return loop_waker_new(loop, woken, user, &crossing->waker, err);
}

void crossing_close(struct crossing *crossing)
{
    for (uint32_t i = 0; i < crossing->pending_room; i++) {
        if (crossing->pending[i] != NULL) {
            question_free(crossing->pending[i]);
        }
    }
    free(crossing->pending);
    free_all(crossing->answers);
    loop_waker_free(crossing->waker);
    handover_free(crossing->answers);
    *crossing = (struct crossing){0};
}
