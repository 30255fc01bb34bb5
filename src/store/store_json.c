/* SPDX-License-Identifier: MIT
 *
 * store_json -- tasks in a JSON file that people can read: `json:PATH`, for small queues. The whole
 * set is in memory (the store in memory, with its reads) and the whole file is written by each
 * commit, so it is capped: STORE_JSON_TASKS_MAX tasks, STORE_JSON_BYTES_MAX bytes, then FAULT_FULL for
 * what is new; what has begun can end all the same (store_json_room.c).
 *
 *   apply: lock, make the changes, render, hide them -> unlock, replace the file -> lock, show and
 *   keep them, or take them back
 *
 * So a reader sees what is committed and never waits for the disk, and a failed write leaves memory
 * as it was (I9). After FAULT_UNKNOWN the next commit writes the old contents over it (I7).
 */
#include "base/clock.h"
#include "base/entropy.h"
#include "store/draft.h"
#include "store/store_json_internal.h"

#include <pthread.h>
#include <stdlib.h>

#define KEY_TO_BIND 1 /* while loading, in the place of a hash: bind_keys has not been there yet */

/* --- rendering ----------------------------------------------------------------------------------- */

/* With the lock held. */
static int render(struct store_json *json, struct error *err)
{
    int failed = render_file(&json->memory, &json->text);

    if (failed == FAULT_LIMIT) {
        return fail(err, FAULT_FULL, "the file would have more than %zu bytes", json->text.max);
    }
    return failed != 0 ? memory_is_out(err) : 0;
}

/* --- writing ------------------------------------------------------------------------------------- */

/* With the lock held: the changes are made, rendered, and hidden again. */
static int prepare(struct store_json *json, struct op *ops[], size_t count, struct error *err)
{
    int failed = draft_begin(&json->memory, ops, count, err);

    if (failed != 0) {
        return failed;
    }
    failed = room_fit(&json->room, &json->memory, ops, count, err);
    failed = failed != 0 ? failed : render(json, err);
    if (failed != 0) {
        draft_drop(&json->memory);
        return failed;
    }
    draft_hide(&json->memory);
    return 0;
}

static void keep(struct store_json *json)
{
    draft_keep(&json->memory);
    json->room.file_bytes = json->text.len;
    json->memory.base.last_row = render_last_row(&json->memory);
}

/* A failed write of a large file costs as much as one that works, and the committer would try again at
 * once: what has failed is left alone for so many times as long as it took. */
#define REST_BYTES  ((size_t)1 << 20)
#define REST_TIMES  9
#define REST_MAX_MS 5000

static int write_file(struct store_json *json, struct error *err)
{
    int64_t began_ms = clock_mono_ms(&clock_real);
    struct error why = {0};
    int failed = file_replace(&json->file, buf_span(&json->text), &why);

    json->rest = (struct rest){.error = why};
    if (failed != 0) {
        int64_t now_ms = clock_mono_ms(&clock_real);
        int64_t rest_ms = json->text.len > REST_BYTES ? REST_TIMES * (now_ms - began_ms) : 0;
        json->rest.until_ms = now_ms + (rest_ms < REST_MAX_MS ? rest_ms : REST_MAX_MS);
        if (err != NULL) {
            *err = why;
        }
    }
    return failed;
}

/* Reserve before promising: each end writes the whole file once more, beside the old one. */
static int check_disk(const struct store_json *json, struct op *ops[], size_t count,
                      struct error *err)
{
    int64_t needed = (int64_t)(json->text.len + json->room.reserved_bytes);

    return room_is_for_new(&json->memory, ops, count) && file_disk_free(&json->file) < needed
               ? fail(err, FAULT_FULL, "the disk is nearly full")
               : 0;
}

static int json_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    struct store_json *json = (struct store_json *)store;

    pthread_mutex_lock(&json->memory.lock);
    int failed = prepare(json, ops, count, err);
    pthread_mutex_unlock(&json->memory.lock);
    if (failed != 0) {
        return failed;
    }
    failed = check_disk(json, ops, count, err);
    failed = failed != 0 ? failed : write_file(json, err);
    pthread_mutex_lock(&json->memory.lock);
    draft_show(&json->memory);
    if (failed == 0) {
        keep(json);
    } else {
        draft_drop(&json->memory);
    }
    pthread_mutex_unlock(&json->memory.lock);
    if (failed == 0) {
        stage_publish(&json->memory.stage, ops, count);
    }
    return failed;
}

static int write_again(struct store_json *json, struct error *err)
{
    pthread_mutex_lock(&json->memory.lock);
    int failed = render(json, err);
    pthread_mutex_unlock(&json->memory.lock);
    failed = failed != 0 ? failed : write_file(json, err);
    if (failed == 0) {
        pthread_mutex_lock(&json->memory.lock);
        json->room.file_bytes = json->text.len;
        pthread_mutex_unlock(&json->memory.lock);
    }
    return failed;
}

/* When the last write has worked, the file is what was committed: there is nothing to find out. */
static int json_touch(struct store *store, struct error *err)
{
    struct store_json *json = (struct store_json *)store;
    const struct rest *rest = &json->rest;

    if (rest->error.fault == 0) {
        return 0;
    }
    if (clock_mono_ms(&clock_real) < rest->until_ms) {
        return fail(err, rest->error.fault, "%s", rest->error.text);
    }
    return write_again(json, err);
}

/* A commit writes the whole file beside the old one, so the disk must have room for one more. */
static int64_t json_room_bytes(struct store *store)
{
    struct store_json *json = (struct store_json *)store;

    pthread_mutex_lock(&json->memory.lock);
    int64_t used = (int64_t)json->room.file_bytes;
    bool is_full = json->memory.rows.task_count >= STORE_JSON_TASKS_MAX;
    pthread_mutex_unlock(&json->memory.lock);
    int64_t room = (int64_t)(json->room.bytes_max - json->room.reserved_bytes);
    int64_t disk_free = file_disk_free(&json->file);
    room = disk_free < room ? disk_free : room;
    return is_full || used >= room ? 0 : room - used;
}

/* --- loading ------------------------------------------------------------------------------------- */

static int take_queue(void *user, const struct queue_row *queue, struct error *err)
{
    struct store_json *json = user;
    struct rows *rows = &json->memory.rows;

    if (queue->number != rows->queue_count + 1) {
        return fail(err, FAULT_CORRUPT, "queues are numbered without gaps: this is number %zu",
                    rows->queue_count + 1);
    }
    if (!queue->dropped && draft_find_queue(&json->memory, queue->name) != 0) {
        return fail(err, FAULT_CORRUPT, "another queue has this name");
    }
    struct kept_queue *kept = kept_queue_new(queue, queue->number);
    if (kept == NULL || rows_begin(rows, 1) != 0) {
        free(kept);
        return memory_is_out(err);
    }
    rows_put_queue(rows, kept);
    rows_commit(rows);
    return 0;
}

static int add_parts(const struct record *record, struct version *version)
{
    const struct answer *answer = &record->answer;
    bool has_answer = answer->status != 0 || answer->headers.len > 0 || answer->body.len > 0 ||
                      answer->settled_by.len > 0;
    bool has_edit = member_has_edit(&record->edit);

    version->life.flags |= has_edit ? LIFE_EDITED : 0;
    version->task = kept_task_new(&record->task);
    version->answer = has_answer ? kept_answer_new(answer) : NULL;
    version->edit = has_edit ? kept_edit_new(&record->edit) : NULL;
    bool is_whole = version->task != NULL && (!has_answer || version->answer != NULL) &&
                    (!has_edit || version->edit != NULL);
    for (size_t i = 0; i < record->trail_count && is_whole; i++) {
        struct kept_trail *trail = kept_trail_new(&record->trail[i], version->trail);
        is_whole = trail != NULL;
        version->trail = is_whole ? trail : version->trail;
        version->trail_count += is_whole;
    }
    return is_whole ? 0 : FAULT_MEMORY;
}

/* A file from before there were letters has dead tasks without the mark. */
static struct life life_of(const struct record *record)
{
    struct life life = record->life;
    int class = record->trail_count > 0 ? record->trail[record->trail_count - 1].error_class : -1;

    if (life.state == TASK_DEAD && (life.flags & LIFE_LETTER) == 0) {
        life.flags |= LIFE_LETTER;
        life.failed_at_ms = life.settled_at_ms;
        life.failed_class = class >= 0 && class < DARUMA_CLASS_COUNT ? (uint32_t) class + 1 : 0;
    }
    return life;
}

static struct version *version_of(const struct record *record)
{
    bool binds = record->is_bound && record->task.key.len > 0;
    struct version *version = version_new(
        &(struct version){.life = life_of(record), .key_hash = binds ? KEY_TO_BIND : 0});

    if (version != NULL && add_parts(record, version) != 0) {
        version_free(version, NULL);
        return NULL;
    }
    return version;
}

static int take_task(void *user, const struct record *record, struct error *err)
{
    struct store_json *json = user;
    struct rows *rows = &json->memory.rows;
    size_t place = rows_place(rows, record->task.id.row);

    if (place < rows->task_count && rows->tasks[place]->task->task.id.row == record->task.id.row) {
        return fail(err, FAULT_CORRUPT, "another task has this id");
    }
    if (rows->task_count == STORE_JSON_LOAD_MAX) {
        return fail(err, FAULT_CORRUPT, "this is one task more than the %d that may be",
                    STORE_JSON_LOAD_MAX);
    }
    struct version *version = version_of(record);
    if (version == NULL || rows_begin(rows, 1) != 0) {
        version_free(version, NULL);
        return memory_is_out(err);
    }
    rows_put(rows, NULL, version);
    rows_commit(rows);
    return 0;
}

static int take_memo(void *user, const struct memo *memo, struct error *err)
{
    struct rows *rows = &((struct store_json *)user)->memory.rows;

    if (memo->name.len == 0 || memo->name.len > STORE_MEMO_NAME_MAX || memo->value.len == 0) {
        return fail(err, FAULT_CORRUPT, "a name of 1 to %d bytes and a value are expected",
                    STORE_MEMO_NAME_MAX);
    }
    for (size_t i = 0; i < rows->memo_count; i++) {
        if (span_equal(rows->memos[i]->memo.name, memo->name)) {
            return fail(err, FAULT_CORRUPT, "another memo has this name");
        }
    }
    struct kept_memo *kept = kept_memo_new(memo);
    if (kept == NULL || rows_begin(rows, 1) != 0) {
        free(kept);
        return memory_is_out(err);
    }
    rows_put_memo(rows, memo->name, kept);
    rows_commit(rows);
    return 0;
}

static int take_audit(void *user, const struct audit_row *row, struct error *err)
{
    struct rows *rows = &((struct store_json *)user)->memory.rows;

    if (row->number <= rows->audit_last || row->number == INT64_MAX) {
        return fail(err, FAULT_CORRUPT, "acts are numbered upwards: more than %lld is expected",
                    (long long)rows->audit_last);
    }
    struct kept_audit *kept = kept_audit_new(row);
    if (kept == NULL || rows_begin(rows, 1) != 0) {
        free(kept);
        return memory_is_out(err);
    }
    rows->audit_last = row->number - 1;
    rows_add_audit(rows, kept);
    rows_commit(rows);
    return 0;
}

static uint32_t number_of_queue(void *user, struct span name)
{
    return draft_find_queue(&((struct store_json *)user)->memory, name);
}

/* Of two tasks with one key the newer has it: it was recorded when the older's time was over. */
static int bind_keys(struct store_memory *memory, struct error *err)
{
    for (size_t i = 0; i < memory->rows.task_count; i++) {
        struct version *version = memory->rows.tasks[i];
        const struct task *task = &version->task->task;
        if (version->key_hash != KEY_TO_BIND) {
            continue;
        }
        uint64_t hash = key_index_hash(&memory->keys, task->queue, task->scope, task->key);
        struct version *older = draft_find_key(memory, task, hash);
        if (older != NULL) {
            (void)key_index_remove(&memory->keys, hash, older->task->task.id.row);
            older->key_hash = 0;
        }
        if (key_index_add(&memory->keys, hash, task->id.row) != 0) {
            return memory_is_out(err);
        }
        version->key_hash = hash;
    }
    return 0;
}

static int load(struct store_json *json, struct error *err)
{
    const struct load_target target = {.user = json,
                                       .queue = take_queue,
                                       .task = take_task,
                                       .memo = take_memo,
                                       .audit = take_audit,
                                       .queue_number = number_of_queue};
    struct file_head head = {0};
    bool found = false;

    int failed = file_read(&json->file, &json->text, &found, err);
    if (failed == 0 && !found && json->memory.base.is_reader) {
        return fail(err, FAULT_INPUT, "%s: there is no such file", json->file.path);
    }
    if (failed != 0 || !found) {
        return failed;
    }
    failed = load_json(json->file.path, buf_span(&json->text), &target, &head, err);
    json->memory.base.epoch = head.epoch;
    json->memory.base.last_row = head.last_row;
    json->memory.base.last_row = render_last_row(&json->memory);
    return failed != 0 ? failed : bind_keys(&json->memory, err);
}

/* --- open, close --------------------------------------------------------------------------------- */

static void json_close(struct store *store)
{
    struct store_json *json = (struct store_json *)store;
    struct store_memory *memory = &json->memory;

    file_close(&json->file);
    buf_done(&json->text);
    buf_done(&json->room.scratch);
    rows_done(&memory->rows);
    key_index_done(&memory->keys);
    key_log_done(&memory->key_log);
    stage_done(&memory->stage);
    (void)pthread_mutex_destroy(&memory->lock); /* nobody holds it, by contract */
    free(json);
}

static const struct store_ops json_ops = {
    .name = "json",
    .apply = json_apply,
    .touch = json_touch,
    .recall = store_recalls_nothing,
    .read_task = memory_read_task,
    .list = memory_list,
    .due = memory_due,
    .scan = memory_scan,
    .queues = memory_queues,
    .audit = memory_audit,
    .memos = memory_memos,
    .room_bytes = json_room_bytes,
    .close = json_close,
};

static struct store_json *json_new(const struct store_keep *keep_times)
{
    struct store_json *json = calloc(1, sizeof *json);

    if (json == NULL || pthread_mutex_init(&json->memory.lock, NULL) != 0) {
        free(json);
        return NULL;
    }
    json->memory.base.ops = &json_ops;
    json->memory.keep = *keep_times;
    entropy_fill(json->memory.keys.secret, SIPHASH_SECRET_BYTES);
    buf_init(&json->text, STORE_JSON_BYTES_ENDS_MAX);
    json->room.bytes_max = STORE_JSON_BYTES_MAX;
    json->room.reserved_bytes = STORE_JSON_BYTES_RESERVED;
    buf_init(&json->room.scratch, STORE_JSON_BYTES_ENDS_MAX);
    return json;
}

int store_json_open(const struct store_options *options, struct store **ret_store,
                    struct error *err)
{
    struct store_json *json = json_new(&options->keep);

    if (json == NULL) {
        return memory_is_out(err);
    }
    struct store *store = &json->memory.base;
    store->is_reader = options->is_reader;
    int failed = options->is_reader ? file_open_to_read(&json->file, options->location, err)
                                    : file_open(&json->file, options->location, err);
    failed = failed != 0 ? failed : load(json, err);
    if (failed == 0 && !options->is_reader) {
        store->epoch++;
        failed = write_again(json, err); /* durable before anyone leases under it */
    }
    if (failed != 0) {
        json_close(store);
        return failed;
    }
    *ret_store = store;
    return 0;
}
