/* SPDX-License-Identifier: MIT
 *
 * stage -- see stage.h.
 */
#include "store/stage.h"

#include <stdlib.h>

int stage_begin(struct stage *stage, size_t count)
{
    if (stage->room < count) {
        struct staged *items = realloc(stage->items, 2 * count * sizeof *items);
        if (items == NULL) {
            return FAULT_MEMORY;
        }
        stage->items = items;
        stage->room = count;
    }
    if (count > 0) {
        memset(stage->items, 0, count * sizeof *stage->items);
    }
    return 0;
}

struct staged *stage_at(const struct stage *stage, size_t index)
{
    return &stage->items[index];
}

/* Few operations spawn, so this half is cleared only where it is used. */
struct staged *stage_spawn(const struct stage *stage, size_t index)
{
    struct staged *spawned = &stage->items[stage->room + index];

    *spawned = (struct staged){0};
    return spawned;
}

static void publish(const struct staged *staged, struct op *op)
{
    bool is_found = staged->result != RESULT_MISSING;

    op->result = staged->result;
    op->was_state = staged->was;
    if (staged->id.row != 0) {
        op->task.id = staged->id;
        op->task.queue = staged->task_queue;
    }
    switch (op->kind) {
    case OP_RECORD:
        op->life = staged->result != RESULT_DONE || staged->has_life ? staged->life : op->life;
        break;
    case OP_LEASE:
        if (staged->result == RESULT_DONE && op->wants_request) {
            op->task = staged->task;
            op->edited = staged->edit;
        }
        op->life = is_found ? staged->life : op->life;
        break;
    case OP_CANCEL:
    case OP_RUN:
    case OP_PURGE:
    case OP_EXTEND:
    case OP_REDRIVE:
    case OP_RESOLVE:
    case OP_BURY:
    case OP_REVISE:
    case OP_FIND:
        op->life = is_found ? staged->life : op->life;
        break;
    case OP_QUEUE:
        op->queue.number = is_found ? staged->queue : op->queue.number;
        if (staged->result == RESULT_DONE) {
            op->queue.paused = staged->is_paused;
            op->queue.version = staged->version;
        }
        break;
    case OP_SETTLE:
    case OP_EXPIRE:
        if (staged->result == RESULT_DONE) { /* the answer may have found no room */
            op->life.flags |= staged->life.flags & LIFE_OMITTED;
        }
        break;
    case OP_IMPORT:
    case OP_MEMO:
    default:
        break;
    }
}

void stage_publish(const struct stage *stage, struct op *ops[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        publish(stage_at(stage, i), ops[i]);
        if (ops[i]->spawn != NULL && ops[i]->result == RESULT_DONE) {
            publish(&stage->items[stage->room + i], ops[i]->spawn);
        }
    }
}

void stage_done(struct stage *stage)
{
    free(stage->items);
    *stage = (struct stage){0};
}
