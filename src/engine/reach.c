/* SPDX-License-Identifier: MIT
 *
 * reach -- callers that see some queues only (task/reach.h). What they name by its queue is refused
 * before it is looked for; of what they name by its id the queue is known once it has been read, and
 * then it is as if nothing had been found. A task never changes its queue, so an act that looks first
 * acts on what it saw.
 */
#include "engine/reach_internal.h"
#include "engine/hold_internal.h"

bool engine_reaches(const struct engine *engine, const struct reach *reach, uint32_t number)
{
    if (reach_is_whole(reach)) {
        return true;
    }
    const struct queue *queue = engine_queue_at(engine, number);
    return queue != NULL && reach_has(reach, queue->name);
}

void reach_hide(const struct engine *engine, struct read *read)
{
    if (read->kind == READ_TASK && read->record_count > 0 &&
        !engine_reaches(engine, &read->reach, read->records[0].task.queue)) {
        read->record_count = 0;
        buf_done(&read->rendered);
    }
}

bool reach_refuse_queue(struct engine *engine, const struct ask *ask)
{
    if (ask->queue.len == 0 || reach_has(&ask->reach, ask->queue)) {
        return false;
    }
    engine_reply(engine, &(struct reply){.kind = REPLY_UNKNOWN_QUEUE, .exchange = ask->exchange});
    return true;
}

/* The numbers of the queues that a list of all of them is about; false: no memory. */
bool reach_list(const struct engine *engine, const struct reach *reach, struct read *read)
{
    if (reach_is_whole(reach)) {
        return true;
    }
    int64_t *numbers = arena_alloc(read->arena, (engine->queue_count + 1) * sizeof *numbers);
    for (size_t i = 0; numbers != NULL && i < engine->queue_count; i++) {
        if (reach_has(reach, engine->queues[i]->name)) {
            numbers[read->filter.queue_count++] = engine->queues[i]->number;
        }
    }
    read->filter.queues = numbers;
    return numbers != NULL;
}

/* What is asked, for when the read has come back; false: no memory. */
bool reach_copy_ask(struct read *read, const struct ask *ask)
{
    struct ask *copy = arena_alloc(read->arena, sizeof *copy);

    if (copy == NULL) {
        return false;
    }
    *copy = *ask;
    copy->queue = arena_copy(read->arena, ask->queue);
    copy->settings = arena_copy(read->arena, ask->settings);
    copy->who = arena_copy(read->arena, ask->who);
    copy->note = arena_copy(read->arena, ask->note);
    read->ask = copy;
    return copy->queue.at != NULL && copy->settings.at != NULL && copy->who.at != NULL &&
           copy->note.at != NULL;
}

static void seen(struct engine *engine, struct read *read)
{
    struct ask ask = *read->ask;

    if (read->fault != 0) {
        engine_reply_fault(engine, ask.exchange, 0, &read->error);
        return;
    }
    if (read->record_count == 0) {
        engine_reply(engine, &(struct reply){.kind = REPLY_UNKNOWN_TASK, .exchange = ask.exchange});
        return;
    }
    const struct record *record = &read->records[0];
    const struct queue *queue = engine_queue_at(engine, record->task.queue);
    bool is_pulled = (record->life.flags & LIFE_PULL) != 0;
    if (ask.kind == ASK_RUN && queue != NULL && record->life.state == TASK_WAITING &&
        (hold_is_shut(queue) || (queue->hold != QUEUE_HOLD_NONE && !is_pulled))) {
        engine_reply(engine, &(struct reply){.kind = hold_reply(queue), .exchange = ask.exchange});
        return;
    }
    if (!reach_is_whole(&ask.reach)) {
        ask.queue = queue->name; /* in reach: there */
    }
    ask.reach = (struct reach){0};
    manage_move(engine, &ask);
}

/* What waits in a held queue would be told that it runs, and would not. */
static bool may_be_held(const struct engine *engine, const struct ask *ask)
{
    bool is_any = false;

    for (size_t i = 0; i < engine->queue_count; i++) {
        is_any |= engine->queues[i]->hold != QUEUE_HOLD_NONE;
    }
    return is_any && ask->kind == ASK_RUN;
}

bool reach_look_first(struct engine *engine, const struct ask *ask)
{
    if (reach_is_whole(&ask->reach) && !may_be_held(engine, ask)) {
        return false;
    }
    struct read *read = inspect_new(READ_TASK);
    if (read == NULL || !reach_copy_ask(read, ask)) {
        inspect_drop(read);
        inspect_no_room(engine, ask->exchange, 0);
        return true;
    }
    read->id = ask->id;
    read->reach = ask->reach;
    read->then = seen;
    if (!inspect_start(engine, read)) {
        inspect_no_room(engine, ask->exchange, 0);
    }
    return true;
}
