/* SPDX-License-Identifier: MIT
 *
 * api_keys -- the gateway's keys, for whoever looks after it: which request a key belongs to and what
 * became of it, and forgetting one. What a caller is known by is not here, only its digest.
 */
#include "edge/api.h"
#include "edge/render.h"

#include "task/fields.h"
#include "task/route_key.h"

#include <inttypes.h>
#include <stdio.h>

/* A key as a caller may spell it in the header, quoted or bare; else it is meant as it stands. False:
 * no memory. */
static bool read_key(struct arena *arena, struct span *key)
{
    char room[TASK_KEY_MAX];
    struct span read;

    if (route_key_parse(*key, false, room, &read) == NULL) {
        *key = arena_copy(arena, read);
    }
    return key->at != NULL;
}

/* GET /v1/keys?route=&key=&scope= */
void api_key_list(struct exchange *exchange)
{
    struct ask ask = {
        .kind = ASK_KEYS,
        .filter = {.states = STORE_ALL_STATES, .flags = LIFE_ROUTE, .limit = ENGINE_LIST_LIMIT}};
    int64_t limit = ENGINE_LIST_LIMIT, after = 0;
    struct arena *arena = api_arena(exchange);
    struct span route;

    if (arena == NULL || !api_number(exchange, "limit", 1, ENGINE_LIST_LIMIT_MAX, &limit) ||
        !api_number(exchange, "after", 0, INT64_MAX, &after)) {
        return;
    }
    if (!path_find(&exchange->path, "route", &route) || route.len == 0 ||
        route.len > ROUTE_NAME_MAX) {
        exchange_refuse(exchange, PROBLEM_INVALID,
                        SPAN("the name of a route: see the policy of the gateway"), SPAN("route"));
        return;
    }
    exchange->queue = arena_printf(arena, ROUTE_QUEUE_PREFIX "%.*s", SPAN_ARGS(route));
    if (exchange->queue.at == NULL) {
        exchange_refuse(exchange, PROBLEM_OVERLOADED, SPAN(""), SPAN(""));
        return;
    }
    ask.filter.limit = (size_t)limit;
    ask.filter.after_row = after;
    bool has_key = path_find(&exchange->path, "key", &ask.key); /* without: all of them */
    if (has_key && !read_key(arena, &ask.key)) {
        exchange_refuse(exchange, PROBLEM_OVERLOADED, SPAN(""), SPAN(""));
        return;
    }
    (void)path_find(&exchange->path, "scope", &ask.scope);
    api_ask(exchange, ask);
}

/* POST /v1/keys/{task-id}:forget */
void api_key_forget(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_FORGET};

    if (api_has_task(exchange, &ask.id)) {
        api_ask(exchange, ask);
    }
}

/* --- rendering --------------------------------------------------------------------------------------- */

static void write_hex(struct writer *writer, const char *name, const unsigned char *bytes,
                      size_t count)
{
    char text[2 * TASK_FINGERPRINT_BYTES + 1] = "";

    for (size_t i = 0; i < count; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]); /* fits */
    }
    write_named_text(writer, name, span_of(text));
}

/* The columns of a record, as document C has them; the body is in the task. */
static void write_key(struct writer *writer, const struct record *record, struct span queue)
{
    char id[ID_TEXT_LEN + 1];
    struct span type = {.at = "", .len = 0};

    id_format(record->task.id, id);
    (void)fields_find(record->answer.headers, "Content-Type", &type); /* none is null */
    write_open(writer, '{');
    write_named_text(writer, "task", span_of(id));
    write_named_text(writer, "route", span_from(queue, strlen(ROUTE_QUEUE_PREFIX)));
    write_named_text(writer, "key", record->task.key);
    write_named_text(writer, "scope", record->task.scope);
    write_hex(writer, "request_hash", record->task.fingerprint, TASK_FINGERPRINT_BYTES);
    write_named_text(writer, "state", span_of(task_state_text(record->life.state)));
    write_name(writer, "is_bound");
    write_bool(writer, record->is_bound);
    write_name(writer, "response_status");
    if (record->answer.status != 0) {
        write_int(writer, record->answer.status);
    } else {
        write_null(writer);
    }
    write_name(writer, "content_type");
    if (type.len > 0) {
        write_text(writer, type);
    } else {
        write_null(writer);
    }
    write_named_time(writer, "created_at", id_created_ms(record->task.id.row));
    write_name(writer, "completed_at");
    if (record->life.settled_at_ms != 0) {
        write_time(writer, record->life.settled_at_ms);
    } else {
        write_null(writer);
    }
    write_close(writer, '}');
}

void api_keys_answer(struct exchange *exchange, const struct reply *reply)
{
    struct writer writer;
    char cursor[24];

    if (exchange_begin(exchange, 200, &writer) == NULL) {
        return;
    }
    write_open(&writer, '{');
    write_name(&writer, "keys");
    write_open(&writer, '[');
    for (size_t i = 0; i < reply->record_count; i++) {
        write_key(&writer, &reply->records[i], exchange->queue);
    }
    write_close(&writer, ']');
    write_name(&writer, "next");
    if (reply->next_row != 0) {
        (void)snprintf(cursor, sizeof cursor, "%" PRId64, reply->next_row); /* fits */
        write_text(&writer, span_of(cursor));
    } else {
        write_null(&writer);
    }
    write_close(&writer, '}');
    exchange_finish(exchange, &writer);
}
