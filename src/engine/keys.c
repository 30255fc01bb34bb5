/* SPDX-License-Identifier: MIT
 *
 * keys -- what became of a request of the gateway, by its key. Whose key it is the store knows without
 * looking through its tasks, so that one among millions is found at once. Only bound keys are known
 * that way: what was released or forgotten, and a key whose scope nobody has said, is looked for page
 * by page (read.c).
 */
#include "engine/lists_internal.h"
#include "engine/reach_internal.h"

static void reply_page(struct engine *engine, struct read *read)
{
    if (read->fault != 0) {
        engine_reply_fault(engine, read->exchange, 0, &read->error);
        return;
    }
    engine_reply(engine, &(struct reply){.kind = REPLY_KEYS,
                                         .exchange = read->exchange,
                                         .records = read->records,
                                         .record_count = read->record_count,
                                         .next_row = read->next_row});
}

/* The key is somebody's: that one. Else every page, for what there was under it before. */
static void found(struct engine *engine, struct errand *errand)
{
    const struct op *op = &errand->op;
    struct read *read = inspect_new(op->result == RESULT_DUPLICATE ? READ_TASK : READ_KEYS);

    if (op->fault != 0) {
        engine_reply_fault(engine, errand->exchange, 0, &op->error);
        inspect_drop(read);
        errand_free(errand);
        return;
    }
    if (read != NULL) {
        read->id = op->task.id;
        read->filter =
            (struct store_filter){.queue = errand->queue->number,
                                  .states = STORE_ALL_STATES,
                                  .flags = LIFE_ROUTE,
                                  .limit = errand->limit,
                                  .key = arena_copy(read->arena, errand->op.task.key),
                                  .scope = arena_copy(read->arena, errand->op.task.scope)};
        read->exchange = errand->exchange;
        read->then = reply_page;
    }
    bool is_one = op->result == RESULT_DUPLICATE;
    if (read != NULL && !is_one && !lists_start(engine, read, errand->audit.who)) {
        lists_refuse(engine, errand->exchange);
    } else if (read == NULL || (is_one && !inspect_start(engine, read))) {
        inspect_no_room(engine, errand->exchange, 0);
    }
    errand_free(errand);
}

/* True: it is looked up, and answered. */
bool keys_look_up(struct engine *engine, const struct ask *ask, struct queue *queue)
{
    bool is_scope_known =
        ask->scope.len > 0 || (queue->route != NULL && queue->route->scope == ROUTE_SCOPE_GLOBAL);

    if (ask->key.len == 0 || !is_scope_known || ask->filter.after_row != 0) {
        return false;
    }
    struct errand *errand = errand_new(engine, OP_FIND);
    if (errand != NULL) {
        errand->op.task = (struct task){.id = id_make(&engine->ids, errand->op.now_ms),
                                        .queue = queue->number,
                                        .scope = arena_copy(errand->arena, ask->scope),
                                        .key = arena_copy(errand->arena, ask->key)};
        errand->queue = queue;
        errand->exchange = ask->exchange;
        errand->limit = ask->filter.limit;
        errand->audit.who = arena_copy(errand->arena, ask->who);
        errand->then = found;
    }
    if (errand != NULL && (errand->op.task.key.at == NULL || errand->op.task.scope.at == NULL)) {
        errand_free(errand);
        errand = NULL;
    }
    if (!errand_start(engine, errand)) {
        inspect_no_room(engine, ask->exchange, 0);
    }
    return true;
}
