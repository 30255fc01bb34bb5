/* SPDX-License-Identifier: MIT
 *
 * pages -- lists: tasks of a queue, keys of a route, dead letters and unsettled tasks of one queue or
 * of all that the caller sees, and what people did. A page is read on the reader's thread.
 */
#include "engine/hold_internal.h"
#include "engine/lists_internal.h"
#include "engine/reach_internal.h"

static enum reply_kind list_reply(enum ask_kind kind)
{
    return kind == ASK_LETTERS     ? REPLY_LETTERS
           : kind == ASK_UNSETTLED ? REPLY_UNSETTLED
           : kind == ASK_KEYS      ? REPLY_KEYS
                                   : REPLY_LIST;
}

static struct read *read_page(const struct engine *engine, const struct ask *ask,
                              const struct queue *queue)
{
    struct read *read = inspect_new(ask->kind == ASK_KEYS ? READ_KEYS : READ_LIST);

    if (read == NULL) {
        return NULL;
    }
    read->filter = ask->filter;
    read->filter.key = arena_copy(read->arena, ask->key);
    read->filter.scope = arena_copy(read->arena, ask->scope);
    read->filter.queue = queue != NULL ? queue->number : 0;
    read->filter.label_name = arena_copy(read->arena, ask->filter.label_name);
    read->filter.label_value = arena_copy(read->arena, ask->filter.label_value);
    read->reply = list_reply(ask->kind);
    read->exchange = ask->exchange;
    read->then = inspect_reply;
    if (ask->kind == ASK_LIST) { /* the others are of several queues, and short */
        read->render = engine->options.render;
        read->render_user = engine->options.render_user;
        read->queue = (struct queue_view){.name = arena_copy(read->arena, queue->name),
                                          .attempts_max = queue->settings.policy.attempts_max};
    }
    if (queue == NULL && !reach_list(engine, &ask->reach, read)) {
        inspect_drop(read);
        return NULL;
    }
    return read;
}

void pages_ask(struct engine *engine, const struct ask *ask)
{
    struct queue *queue = hold_find(engine, ask->queue);
    bool is_of_all = ask->kind != ASK_LIST && ask->queue.len == 0;

    if (queue == NULL && !is_of_all) {
        engine_reply(engine,
                     &(struct reply){.kind = REPLY_UNKNOWN_QUEUE, .exchange = ask->exchange});
        return;
    }
    if (ask->kind == ASK_KEYS && keys_look_up(engine, ask, queue)) {
        return;
    }
    struct read *read = read_page(engine, ask, queue);
    if (read == NULL || !lists_start(engine, read, ask->who)) {
        lists_refuse(engine, ask->exchange);
    }
}

void pages_ask_audit(struct engine *engine, const struct ask *ask)
{
    struct read *read = inspect_new(READ_AUDIT);

    if (read != NULL) {
        read->audit = ask->audit;
        read->audit.who = arena_copy(read->arena, ask->audit.who);
        read->audit.act = arena_copy(read->arena, ask->audit.act);
        read->audit.subject = arena_copy(read->arena, ask->audit.subject);
        read->reach = ask->reach;
        read->reply = REPLY_AUDIT;
        read->exchange = ask->exchange;
        read->then = inspect_reply;
    }
    if (read == NULL || !lists_start(engine, read, ask->who)) {
        lists_refuse(engine, ask->exchange);
    }
}
