/* SPDX-License-Identifier: MIT
 *
 * sqlite_rig -- see sqlite_rig.h.
 */
#include "sqlite_rig.h"

#include <stdio.h>

const struct store_keep rig_keep = {.succeeded_ms = 1000, .failed_ms = 1000, .cancelled_ms = 1000};
char rig_body[RIG_BODY_BYTES];

void rig_init(void)
{
    for (size_t i = 0; i < sizeof rig_body; i++) {
        rig_body[i] = (char)(i * 131 >> 3);
    }
}

struct store *rig_open(void)
{
    struct store *store = NULL;
    struct error err = {0};

    if (store_open(SPAN(RIG_SPEC), &rig_keep, &store, &err) != 0) {
        fail_msg("open: %s", err.text);
    }
    return store;
}

struct task_id rig_id(int number, int i)
{
    return (struct task_id){.row = (int64_t)number * RIG_BATCH + i + 1, .tail = 77};
}

void rig_prepare(struct rig_batch *batch, int number)
{
    for (int i = 0; i < RIG_BATCH; i++) {
        (void)snprintf(batch->keys[i], RIG_KEY_BYTES, "key-%d-%d", number, i);
        batch->ops[i] = (struct op){.kind = OP_RECORD,
                                    .now_ms = RIG_NOW_MS,
                                    .task = {.id = rig_id(number, i),
                                             .queue = 1,
                                             .key = span_of(batch->keys[i]),
                                             .body = {.at = rig_body, .len = sizeof rig_body}},
                                    .life.due_at_ms = RIG_NOW_MS};
        batch->list[i] = &batch->ops[i];
    }
}

int rig_record(struct store *store, int number)
{
    static struct rig_batch batch;

    rig_prepare(&batch, number);
    return store_apply(store, batch.list, RIG_BATCH, NULL);
}

struct record rig_read(struct store *store, struct task_id id, bool *ret_found)
{
    struct arena *arena = arena_new(RIG_ARENA_MAX);
    struct record record = {0};

    assert_non_null(arena);
    assert_int_equal(store_read_task(store, id, READ_BODIES, arena, &record, ret_found, NULL), 0);
    if (*ret_found) {
        assert_int_equal(record.task.body.len, sizeof rig_body);
        assert_memory_equal(record.task.body.at, rig_body, sizeof rig_body);
    }
    arena_free(arena);
    return record;
}

bool rig_has(struct store *store, int number)
{
    int count = 0;

    for (int i = 0; i < RIG_BATCH; i++) {
        bool found = false;
        (void)rig_read(store, rig_id(number, i), &found);
        count += found;
    }
    assert_true(count == 0 || count == RIG_BATCH);
    return count == RIG_BATCH;
}
