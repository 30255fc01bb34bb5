/* SPDX-License-Identifier: MIT
 *
 * callback -- telling somebody that a task has ended. The telling is a task of its own in the queue
 * _callbacks, recorded in the very commit that settles the first one: a crash loses neither or both
 * (I1). Its key is cb:TASK:ROUND, so that nobody is told the same end twice. Nobody is called back
 * about a callback.
 */
#include "engine/engine_internal.h"
#include "task/fingerprint.h"

#include <inttypes.h>
#include <stdio.h>

#define LEAN_BYTES 512 /* of an answer: from there on leaving it out is worth something */

static bool is_wanted(const struct engine *engine, const struct record *record)
{
    struct task_options options;

    if (engine->callbacks == NULL || engine->options.callback == NULL ||
        record->task.queue == engine->callbacks->number || !task_is_settled(record->life.state) ||
        record->life.state == TASK_CANCELLED) {
        return false;
    }
    options_read(record->task.options, &options);
    return options.callback.len > 0;
}

static struct span key_of(const struct record *record, struct arena *arena)
{
    char id[ID_TEXT_LEN + 1], key[ID_TEXT_LEN + 16];

    id_format(record->task.id, id);
    (void)snprintf(key, sizeof key, "cb:%s:%" PRIu32, id, record->life.round); /* fits */
    return arena_copy(arena, span_of(key));
}

/* The same without what came back, for a store that has no room for that; NULL: there is no need of it,
 * or no memory. */
static const struct task *lean_task(const struct engine *engine, const struct record *record,
                                    struct span from, const struct op *op)
{
    struct record lean = *record;
    struct submission told = {0};

    if (record->answer.body.len + record->answer.headers.len < LEAN_BYTES) {
        return NULL;
    }
    lean.answer.body = lean.answer.headers = SPAN("");
    lean.life.flags |= LIFE_OMITTED;
    struct task *task = arena_alloc(op->arena, sizeof *task);
    if (task == NULL ||
        !engine->options.callback(engine->options.callback_user, &lean, from, op->arena, &told)) {
        return NULL;
    }
    *task = op->task;
    task->body = told.body;
    return fingerprint_task(task, NULL) == 0 ? task : NULL;
}

/* A RECORD that tells of the record's end, in the arena; NULL: nobody wants to know, or there is no
 * memory to tell (the end itself matters more). */
struct op *callback_make(struct engine *engine, const struct record *record, struct arena *arena)
{
    struct submission told = {0};

    if (!is_wanted(engine, record)) {
        return NULL;
    }
    const struct queue *from = engine_queue_at(engine, record->task.queue);
    struct op *op = arena_alloc(arena, sizeof *op);
    struct span key = key_of(record, arena);
    if (op == NULL || key.at == NULL ||
        !engine->options.callback(engine->options.callback_user, record,
                                  from != NULL ? from->name : SPAN(""), arena, &told)) {
        return NULL;
    }
    int64_t now_ms = engine_now_ms(engine);
    *op = (struct op){
        .kind = OP_RECORD,
        .now_ms = now_ms,
        .arena = arena,
        .task = {.id = id_make(&engine->ids, now_ms),
                 .queue = engine->callbacks->number,
                 .key = key,
                 .method = told.method,
                 .target = told.target,
                 .headers = told.headers,
                 .labels = told.labels,
                 .body = told.body},
        .life = {.due_at_ms = now_ms},
    };
    op->lean = lean_task(engine, record, from != NULL ? from->name : SPAN(""), op);
    return fingerprint_task(&op->task, NULL) == 0 ? op : NULL;
}

/* The end is committed without it, so the producer who wanted to know is not told by us. A duplicate is the same
 * callback, which is there. */
static void note_lost(struct engine *engine, const struct op *op)
{
    if (op->result == RESULT_DUPLICATE) {
        return;
    }
    engine->stats.callbacks_lost++;
    DARUMA_LOG(engine->options.log, DARUMA_LOG_ERROR, "callback_lost",
               daruma_log_bytes("key", op->task.key.at, op->task.key.len),
               daruma_log_text("because", op->result == RESULT_CONFLICT   ? "key_conflict"
                                          : op->result == RESULT_NO_QUEUE ? "queue_unknown"
                                                                          : "key_gone"));
}

/* It is committed, and waits; nothing goes out yet: at a start there is nobody to send it. */
void callback_born(struct engine *engine, const struct op *op)
{
    if (op->result != RESULT_DONE) {
        note_lost(engine, op);
        return;
    }
    engine->stats.callbacks++;
    engine->callbacks->numbers.recorded++;
    engine_count_in(engine, engine->callbacks, &op->life);
    engine_schedule(engine, engine->callbacks, &op->life, op->task.id.row);
}
