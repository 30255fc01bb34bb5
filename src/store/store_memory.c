/* SPDX-License-Identifier: MIT
 *
 * store_memory -- the reference: every rule of store.h in its plainest form (draft.c), nothing kept
 * past the process. One lock around rows that hold their own copies; nothing behind it waits for
 * anything.
 */
#include "store/store_memory.h"

#include "store/draft.h"

#include "base/entropy.h"
#include "base/plant.h"

#include <stdlib.h>

static int memory_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    struct store_memory *memory = (struct store_memory *)store;

    pthread_mutex_lock(&memory->lock);
    int failed = draft_begin(memory, ops, count, err);
    if (failed == 0) {
        draft_keep(memory);
    }
    pthread_mutex_unlock(&memory->lock);
    if (failed != 0) {
        return failed;
    }
    stage_publish(&memory->stage, ops, count);
    store_note_rows(store, ops, count);
    return 0;
}

static int memory_touch(struct store *store, struct error *err)
{
    (void)store;
    (void)err;
    return 0;
}

static int64_t memory_room_bytes(struct store *store)
{
    (void)store;
    return INT64_MAX;
}

/* --- open, clone, close ---------------------------------------------------------------------- */

static void memory_close(struct store *store)
{
    struct store_memory *memory = (struct store_memory *)store;

    rows_done(&memory->rows);
    key_index_done(&memory->keys);
    key_log_done(&memory->key_log);
    stage_done(&memory->stage);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

static const struct store_ops memory_ops = {
    .name = "memory",
    .apply = memory_apply,
    .touch = memory_touch,
    .recall = store_recalls_nothing,
    .read_task = memory_read_task,
    .list = memory_list,
    .due = memory_due,
    .scan = memory_scan,
    .queues = memory_queues,
    .audit = memory_audit,
    .memos = memory_memos,
    .room_bytes = memory_room_bytes,
    .close = memory_close,
};

static struct store_memory *memory_new(const struct store_keep *keep)
{
    struct store_memory *memory = calloc(1, sizeof *memory);

    if (memory == NULL) {
        return NULL;
    }
    if (pthread_mutex_init(&memory->lock, NULL) != 0) {
        free(memory);
        return NULL;
    }
    memory->base = (struct store){.ops = &memory_ops, .epoch = 1};
    memory->keep = *keep;
    entropy_fill(memory->keys.secret, SIPHASH_SECRET_BYTES);
    return memory;
}

int store_memory_open(const struct store_options *options, struct store **ret_store,
                      struct error *err)
{
    struct store_memory *memory = memory_new(&options->keep);

    if (memory == NULL) {
        return memory_is_out(err);
    }
    *ret_store = &memory->base;
    return 0;
}

struct store *store_memory_clone(const struct store *store)
{
    const struct store_memory *from = (const struct store_memory *)store;
    struct store_memory *copy = memory_new(&from->keep);

    if (copy == NULL) {
        return NULL;
    }
    copy->base.epoch = from->base.epoch + 1;
    copy->base.last_row = from->base.last_row;
    memcpy(copy->keys.secret, from->keys.secret, sizeof copy->keys.secret);
    int failed = rows_copy(&from->rows, &copy->rows);
    for (size_t i = 0; i < copy->rows.task_count && failed == 0; i++) {
        const struct version *version = copy->rows.tasks[i];
        PLANT(KEYS_NOT_REBUILT, continue)
        if (version->key_hash != 0) {
            failed = key_index_add(&copy->keys, version->key_hash, version->task->task.id.row);
        }
    }
    if (failed != 0) {
        memory_close(&copy->base);
        return NULL;
    }
    return &copy->base;
}
