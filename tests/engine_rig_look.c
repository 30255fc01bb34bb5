/* SPDX-License-Identifier: MIT
 *
 * What the store of an engine's rig has: its queues, a task's life and its trail, and nodes if it is to.
 */
#include "engine_rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int see_queue(void *user, const struct queue_row *row)
{
    struct rig_queues *seen = user;
    struct queue_row copy = *row;

    if (seen->count == RIG_QUEUES_MAX) {
        return FAULT_LIMIT;
    }
    copy.name = arena_copy(seen->arena, row->name);
    copy.settings = arena_copy(seen->arena, row->settings);
    seen->rows[seen->count++] = copy;
    return 0;
}

struct rig_queues rig_see_queues(struct rig *rig)
{
    struct rig_queues seen = {.arena = arena_new(1 << 16)};

    if (store_queues(rig->store, see_queue, &seen, NULL) != 0) {
        abort(); /* more queues than any test makes */
    }
    return seen;
}

struct life rig_life(struct rig *rig, struct task_id id)
{
    struct arena *arena = arena_new(1 << 20);
    struct record record = {0};
    bool found = false;

    if (store_read_task(rig->store, id, 0, arena, &record, &found, NULL) != 0 || !found) {
        record.life.state = TASK_STATE_COUNT;
    }
    arena_free(arena);
    return record.life;
}

const char *rig_trail(struct rig *rig, struct task_id id)
{
    static char text[4096];
    struct arena *arena = arena_new(1 << 20);
    struct record record = {0};
    bool found = false;
    size_t used = 0;

    text[0] = '\0';
    (void)!store_read_task(rig->store, id, READ_TRAIL, arena, &record, &found, NULL);
    for (size_t i = 0; found && i < record.trail_count && used < sizeof text; i++) {
        const struct trail_row *row = &record.trail[i];
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%" PRIu32 " %s %d %.*s %" PRId64 "\n", row->attempt,
            row->error_class < 0 ? "ok" : daruma_class_text((enum daruma_class)row->error_class),
            row->status, SPAN_ARGS(row->message), row->wait_ms);
    }
    arena_free(arena);
    return text;
}

int rig_count_nothing(struct store *store, store_count_fn visit, void *user, struct error *err)
{
    (void)store, (void)visit, (void)user, (void)err;
    return 0;
}

void rig_join(struct rig *rig)
{
    static const struct store_nodes nodes = {.counts = rig_count_nothing};

    rig->store->nodes = &nodes;
}

struct beat rig_beat(const struct rig *rig, uint32_t place, uint32_t node_count)
{
    return (struct beat){.is_fresh = true,
                         .epoch = rig->store->epoch,
                         .server_ms = rig->now_ms,
                         .seen_ms = rig->now_ms,
                         .begun_ms = rig->now_ms,
                         .node_count = node_count,
                         .place = place,
                         .has_settled_in = true};
}

void rig_be_one_of(struct rig *rig, uint32_t place, uint32_t node_count)
{
    const struct beat seen = rig_beat(rig, place, node_count);

    engine_beat(rig->engine, &seen);
    rig_settle(rig);
}
