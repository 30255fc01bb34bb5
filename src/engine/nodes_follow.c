/* SPDX-License-Identifier: MIT
 *
 * nodes_follow -- queues that other nodes have changed come with a beat. They are made so here; where a
 * target is stopped here, it is read whether a person has let it in again; then peers are told that this
 * node follows, which those who changed the queues wait for.
 *
 *   beat --> follow_rows --> no target is in doubt --> followed --> nudge: peers know
 *                 '--> look_at_targets --> targets_read ---^
 */
#include "engine/engine_internal.h"
#include "base/plant.h"

static void followed(struct engine *engine)
{
    engine->nodes.followed = engine->nodes.following;
    nodes_nudge(engine);
}

/* Others have changed them. Made so here first, then peers may know: those who changed them wait for it.
 * True: that is all there is to do. */
static bool follow_rows(struct engine *engine, const struct beat *beat)
{
    for (size_t i = 0; i < beat->queue_count; i++) {
        engine_follow_queue(engine, &beat->queues[i]);
    }
    engine->nodes.following = beat->queues_serial;
    return !targets_are_doubted(engine);
}

static void look_at_targets(struct engine *engine);

static void targets_read(struct engine *engine, struct read *read)
{
    engine->nodes.is_following = false;
    if (read->fault != 0) {
        return; /* the next beat has the queues again */
    }
    if (read->epoch != engine->nodes.following) { /* and what was read is older, perhaps */
        look_at_targets(engine);
        return;
    }
    targets_look(engine, read);
    followed(engine);
    dispatch_queues(engine);
}

static void look_at_targets(struct engine *engine)
{
    struct read *read = engine->nodes.is_following ? NULL : inspect_new(READ_MEMOS);

    if (read != NULL) {
        read->epoch = engine->nodes.following;
        read->then = targets_read;
        engine->nodes.is_following = inspect_start(engine, read); /* else likewise */
    }
}

void nodes_follow(struct engine *engine, const struct beat *beat)
{
    PLANT(CHANGE_UNREAD, return )
    if (beat->queues_serial == 0) {
        return;
    }
    if (follow_rows(engine, beat)) {
        followed(engine);
    } else {
        look_at_targets(engine);
    }
}

/* Nothing can be read yet: what is in doubt comes with the next beat again. */
void nodes_follow_first(struct engine *engine, const struct beat *beat)
{
    if (beat->queues_serial != 0 && follow_rows(engine, beat)) {
        followed(engine);
    }
}
