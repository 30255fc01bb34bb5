/* SPDX-License-Identifier: MIT
 *
 * exchange -- see exchange.h.
 */
#include "edge/exchange.h"

#include "edge/edge_internal.h"
#include "edge/gateway.h"

#include <stdlib.h>

#define ROOM_FIRST 64
#define PLACE_MASK UINT64_C(0xffffffff)
#define EDGE_SHIFT 32
#define EDGE_MASK  UINT64_C(63)
#define USE_STEP   (UINT64_C(1) << 38) /* how often a place was used: above the edge's number */

#define FIXED(code, title, extra)                                                                  \
    SPAN("{\"type\":\"urn:daruma:problem:" code "\",\"title\":\"" title                            \
         "\",\"status\":503,\"detail\":\"" extra "\",\"code\":\"" code "\"}")

static bool grow(struct exchange_table *table)
{
    uint32_t room = table->room == 0 ? ROOM_FIRST : table->room * 2;
    struct exchange **slots = realloc(table->slots, room * sizeof *slots);

    if (slots == NULL) {
        return false;
    }
    table->slots = slots;
    table->room = room;
    return true;
}

/* A place that was used before, or a new one. */
static struct exchange *take_place(struct exchange_table *table)
{
    if (table->free != 0) {
        struct exchange *exchange = table->slots[table->free - 1];
        table->free = exchange->next_free;
        return exchange;
    }
    if (table->used == table->room && !grow(table)) {
        return NULL;
    }
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange != NULL) {
        exchange->id = (uint64_t)table->number << EDGE_SHIFT | (table->used + 1);
        table->slots[table->used++] = exchange;
    }
    return exchange;
}

uint32_t exchange_edge(uint64_t id)
{
    return (uint32_t)(id >> EDGE_SHIFT & EDGE_MASK);
}

uint64_t exchange_place(uint64_t id)
{
    return id & PLACE_MASK;
}

struct exchange *exchange_open(struct exchange_table *table)
{
    struct exchange *exchange = take_place(table);

    if (exchange == NULL) {
        return NULL;
    }
    *exchange = (struct exchange){.id = exchange->id + USE_STEP, .is_open = true};
    table->open_count++;
    return exchange;
}

struct exchange *exchange_find(const struct exchange_table *table, uint64_t id)
{
    uint64_t place = id & PLACE_MASK;

    if (place == 0 || place > table->used) {
        return NULL;
    }
    struct exchange *exchange = table->slots[place - 1];
    return exchange->is_open && exchange->id == id ? exchange : NULL;
}

/* The request's body, here or in the engine's hands, is needed no longer. */
static void drop_body(struct exchange *exchange)
{
    if (exchange->counted > 0) {
        bodies_give(exchange->edge->bodies, exchange->counted);
        exchange->counted = 0;
    }
    buf_done(&exchange->body);
}

void exchange_close(struct exchange_table *table, struct exchange *exchange)
{
    drop_body(exchange);
    if (exchange->response.counted > 0) {
        bodies_give(exchange->edge->bodies, exchange->response.counted);
    }
    shared_body_release(exchange->response.shared);
    exchange->response.shared = NULL;
    buf_done(&exchange->response.body);
    batch_free(exchange->batch);
    arena_free(exchange->arena);
    exchange->arena = NULL;
    exchange->batch = NULL;
    buf_done(&exchange->response.fields);
    buf_done(&exchange->response.stream.piece);
    gateway_free(exchange->edge, exchange->gateway);
    exchange->gateway = NULL;
    exchange->is_open = false;
    exchange->next_free = table->free;
    table->free = (uint32_t)(exchange->id & PLACE_MASK);
    table->open_count--;
}

void exchange_table_done(struct exchange_table *table)
{
    for (uint32_t i = 0; i < table->used; i++) {
        free(table->slots[i]);
    }
    free(table->slots);
    *table = (struct exchange_table){0};
}

enum problem exchange_lost_problem(const struct exchange *exchange)
{
    bool is_keyed = exchange->gateway != NULL && exchange->gateway->kind == GATEWAY_KEYED;
    bool is_write = is_keyed || (exchange->route != NULL && route_is_write(exchange->route));

    return is_write && exchange->step != EXCHANGE_READING ? PROBLEM_STORE_UNKNOWN
                                                          : PROBLEM_OVERLOADED;
}

/* The answer when there is no memory for a better one. */
static void answer_fixed(struct exchange *exchange)
{
    enum problem problem = exchange_lost_problem(exchange);
    struct response *response = &exchange->response;

    buf_done(&response->body);
    buf_done(&response->fields);
    shared_body_release(response->shared);
    response->shared = NULL;
    response->status = problem_status(problem);
    response->content_type = CONTENT_PROBLEM;
    response->retry_after_s = problem_retry_after_s(problem);
    response->location[0] = '\0';
    response->fixed = problem == PROBLEM_OVERLOADED
                          ? FIXED("overloaded", "There is no room at the moment", "out of memory")
                          : FIXED("store_unknown", "It may or may not have been recorded",
                                  "out of memory while answering");
}

static void answered(struct exchange *exchange)
{
    edge_stop_waiting(exchange);
    exchange->step = EXCHANGE_ANSWERED;
    drop_body(exchange);
    if (exchange->is_suspended) {
        edge_make_ready(exchange);
    }
}

struct response *exchange_begin(struct exchange *exchange, int status, struct writer *ret_writer)
{
    struct response *response = &exchange->response;

    if (exchange->step != EXCHANGE_READING && exchange->step != EXCHANGE_ASKED) {
        return NULL;
    }
    response->status = status;
    response->content_type = CONTENT_JSON;
    buf_init(&response->body, EDGE_RESPONSE_BYTES_MAX);
    *ret_writer = (struct writer){.out = &response->body};
    return response;
}

void exchange_finish(struct exchange *exchange, const struct writer *writer)
{
    if (writer->failed != 0) {
        answer_fixed(exchange);
    }
    answered(exchange);
}

void exchange_adopt(struct exchange *exchange, struct response *response)
{
    if (exchange->step != EXCHANGE_ASKED) {
        return;
    }
    exchange->response = *response;
    response->body = (struct buf){0};
    answered(exchange);
}

void exchange_refuse(struct exchange *exchange, enum problem problem, struct span detail,
                     struct span field)
{
    struct writer writer;
    struct response *response;

    if (exchange->gateway != NULL) {
        gateway_refuse(exchange, problem, detail);
        return;
    }
    response = exchange_begin(exchange, problem_status(problem), &writer);
    if (response == NULL) {
        return;
    }
    response->content_type = CONTENT_PROBLEM;
    response->retry_after_s = problem_retry_after_s(problem);
    problem_write(&writer, problem, detail, field);
    exchange_finish(exchange, &writer);
}

void exchange_refuse_error(struct exchange *exchange, const struct error *err)
{
    exchange_refuse(exchange, problem_of_fault(err->fault), problem_detail(err),
                    span_of(err->field));
}
