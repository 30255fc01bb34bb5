/* SPDX-License-Identifier: MIT
 *
 * nodes_adopt -- what a dead node was asked to do over a longer time. The node that has the duty goes on with its
 * bulk redrives, and forgets its runs, which only that node could have told of:
 *
 *   beat --> other nodes than before, or the duty is new --> memos are read --> redrive_adopt, runs_bury
 *                                        ^---- the read failed: with the next beat
 */
#include "engine/engine_internal.h"
#include "base/plant.h"

static void memos_read(struct engine *engine, struct read *read)
{
    engine->nodes.is_adopting = false;
    if (read->fault == 0) {
        redrive_adopt(engine, read);
        runs_bury(engine, read);
    } else {
        engine->nodes.must_adopt = true; /* with the next beat */
    }
    redrive_tick(engine);
}

static void adopt(struct engine *engine, const struct beat *beat)
{
    struct read *read = inspect_new(READ_MEMOS);

    if (read == NULL) {
        return;
    }
    read->live = arena_alloc(read->arena, (beat->live_count + 1) * sizeof *read->live);
    if (read->live == NULL) {
        inspect_drop(read);
        return;
    }
    for (size_t i = 0; i < beat->live_count; i++) {
        read->live[i] = beat->live[i];
    }
    read->live[beat->live_count] = engine->nodes.newest;
    read->live_count = beat->live_count;
    read->then = memos_read;
    engine->nodes.is_adopting = inspect_start(engine, read);
    engine->nodes.must_adopt = !engine->nodes.is_adopting; /* no room: with the next beat */
}

/* Are the nodes those that the last beat had? One that was started again within a beat is another node,
 * though there are as many. Epochs come in order. */
static bool are_same(const struct engine *engine, const struct beat *beat)
{
    bool is_same = engine->nodes.live_count == beat->live_count;

    PLANT(NODES_COUNTED, return engine->nodes.count == beat->node_count)
    for (size_t i = 0; is_same && i < beat->live_count; i++) {
        is_same = engine->nodes.live[i] == beat->live[i];
    }
    return is_same && engine->nodes.count == beat->node_count;
}

void nodes_note_change(struct engine *engine, const struct beat *beat)
{
    engine->nodes.have_changed |= !are_same(engine, beat);
}

/* The duty came to this node, or a node died while it has it: this node looks after what the dead one was
 * asked to do. */
void nodes_take_over(struct engine *engine, const struct beat *beat)
{
    bool is_new = beat->has_duty && !engine->nodes.has_duty;
    bool is_changed = beat->has_duty && (is_new || engine->nodes.have_changed);

    engine->nodes.have_changed = engine->nodes.have_changed && !beat->has_duty; /* until it has */
    if (is_changed) {
        engine->nodes.count_at_ms = 0; /* at the next beat: what it left is told by a count */
        deadlines_take_over(engine);
    }
    engine->nodes.must_adopt = beat->has_duty && (is_changed || engine->nodes.must_adopt);
    if (engine->nodes.must_adopt && !engine->nodes.is_adopting) {
        adopt(engine, beat);
    }
}
