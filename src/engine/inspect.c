/* SPDX-License-Identifier: MIT
 *
 * inspect -- looking at tasks (pages.c has lists, inspect_wait.c those who wait). Reads run beside the writer
 * on the reader's thread, so what is told is always something that was committed.
 */
#include "engine/kept_internal.h"
#include "engine/lists_internal.h"
#include "engine/reach_internal.h"
#include "base/plant.h"

#include <stdlib.h>
#include <string.h>

static void read_free(struct read *read)
{
    arena_free(read->arena);
    buf_done(&read->rendered);
    free(read->briefs);
    free(read);
}

void inspect_drop(struct read *read)
{
    if (read != NULL) {
        read_free(read);
    }
}

struct read *inspect_new(enum read_kind kind)
{
    struct read *read = calloc(1, sizeof *read);

    if (read == NULL) {
        return NULL;
    }
    bool is_list = kind == READ_LIST || kind == READ_KEYS;
    read->kind = kind;
    read->arena = arena_new(is_list ? LIST_ARENA_MAX : ARENA_MAX);
    if (read->arena == NULL) {
        free(read);
        return NULL;
    }
    return read;
}

bool inspect_start(struct engine *engine, struct read *read)
{
    read->stamp = kept_stamp(engine);
    if (!engine->options.world.read(engine->options.world.user, read)) {
        read_free(read);
        return false;
    }
    return true;
}

void engine_read(struct engine *engine, struct read *read)
{
    if (read->fault != 0) {
        engine_log_fault(engine, "read", read->fault, &read->error);
    }
    lists_end(engine, read);
    reach_hide(engine, read);
    queues_due_counted(engine, read);
    read->then(engine, read);
    read_free(read);
}

void inspect_no_room(struct engine *engine, uint64_t exchange, uint32_t index)
{
    struct error error = {0};

    (void)fail(&error, FAULT_FULL, "too much is being read"); /* the reply carries it */
    engine_reply_fault(engine, exchange, index, &error);
}

/* Its caller knows, or may conclude, that the request is recorded: that it cannot be read at this
 * moment is no refusal (I7). */
void inspect_unread(struct engine *engine, uint64_t exchange, uint32_t index)
{
    struct error error = {0};

    (void)fail(&error, FAULT_UNKNOWN, "%s", fault_text(FAULT_UNKNOWN)); /* the reply carries it */
    PLANT(UNREAD_AS_REFUSED, error.fault = FAULT_IO)
    engine_reply_fault(engine, exchange, index, &error);
}

/* It was done, and cannot be shown: that is no refusal (I7). */
static void reply_acted(struct engine *engine, uint64_t exchange)
{
    struct error error = {0};

    (void)fail_told(&error, FAULT_UNKNOWN, /* the reply carries it */
                    "it was done, and there is no room to show it");
    engine_reply_fault(engine, exchange, 0, &error);
}

void inspect_reply(struct engine *engine, struct read *read)
{
    struct reply reply = {.kind = read->reply,
                          .exchange = read->exchange,
                          .index = read->index,
                          .records = read->records,
                          .record_count = read->record_count,
                          .audits = read->audits,
                          .audit_count = read->audit_count,
                          .next_row = read->next_row,
                          .rendered = read->rendered.len > 0 ? &read->rendered : NULL};

    if (read->fault != 0 && read->is_acted) {
        reply_acted(engine, read->exchange);
        return;
    }
    if (read->fault != 0 && read->reply == REPLY_DUPLICATE) {
        inspect_unread(engine, read->exchange, read->index);
        return;
    }
    if (read->fault != 0) {
        engine_reply_fault(engine, read->exchange, read->index, &read->error);
        return;
    }
    if (read->kind == READ_TASK && read->record_count == 0) {
        reply.kind = REPLY_UNKNOWN_TASK;
    }
    engine_reply(engine, &reply);
}

static struct read *read_whole(const struct engine *engine, struct task_id id, enum reply_kind kind,
                               uint64_t exchange, uint32_t index)
{
    struct read *read = inspect_new(READ_TASK);

    if (read != NULL) {
        read->id = id;
        read->wants = READ_BODIES | READ_TRAIL;
        read->reply = kind;
        read->exchange = exchange;
        read->index = index;
        read->render = kind != REPLY_LETTER ? engine->options.render : NULL;
        read->render_user = engine->options.render_user;
        read->then = inspect_reply;
    }
    return read;
}

/* Reads one task, whole, and replies with it. */
void inspect_read_task(struct engine *engine, struct task_id id, enum reply_kind kind,
                       uint64_t exchange, uint32_t index)
{
    struct read *read = read_whole(engine, id, kind, exchange, index);
    bool is_started = read != NULL && inspect_start(engine, read);

    if (!is_started && kind == REPLY_DUPLICATE) {
        inspect_unread(engine, exchange, index);
    } else if (!is_started) {
        inspect_no_room(engine, exchange, index);
    }
}

/* Likewise, after something was done to it. */
void inspect_read_acted(struct engine *engine, struct task_id id, enum reply_kind kind,
                        uint64_t exchange)
{
    struct read *read = read_whole(engine, id, kind, exchange, 0);

    if (read != NULL) {
        read->is_acted = true;
    }
    if (read == NULL || !inspect_start(engine, read)) {
        reply_acted(engine, exchange);
    }
}

static void wait_for(struct engine *engine, const struct ask *ask)
{
    const struct waiter waiter = {.exchange = ask->exchange,
                                  .id = ask->id,
                                  .reach = ask->reach,
                                  .until_ms = clock_mono_ms(engine->options.clock) + ask->wait_ms};

    if (!inspect_wait(engine, &waiter, false)) {
        inspect_no_room(engine, ask->exchange, 0);
    }
}

static void look(struct engine *engine, const struct ask *ask)
{
    enum reply_kind kind = ask->kind == ASK_LETTER ? REPLY_LETTER : REPLY_TASK;
    struct read *read = read_whole(engine, ask->id, kind, ask->exchange, 0);

    if (read != NULL) {
        read->reach = ask->reach;
    }
    if (read == NULL || !inspect_start(engine, read)) {
        inspect_no_room(engine, ask->exchange, 0);
    }
}

void inspect_ask(struct engine *engine, const struct ask *ask)
{
    if (ask->wait_ms > 0) {
        wait_for(engine, ask);
    } else {
        look(engine, ask);
    }
}
