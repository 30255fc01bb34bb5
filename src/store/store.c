/* SPDX-License-Identifier: MIT
 *
 * store -- the front: which backends there are, and the verbs as functions. What every backend
 * would do alike around a verb is done here once.
 */
#include "store/store.h"

#include <assert.h>
#include <time.h>

#define BUSY_PAUSE_MS  20
#define BUSY_TRIES_MAX 200

struct backend {
    const char *name;
    int (*open)(const struct store_options *options, struct store **ret_store, struct error *err);
    bool has_path;
    /* NULL: there is nothing to gain. */
    int (*compact)(struct span location, struct store_sizes *ret_sizes, struct error *err);
};

static const struct backend backends[] = {
    {.name = "memory", .open = store_memory_open},
    {.name = "json", .open = store_json_open, .has_path = true},
    {.name = "sqlite",
     .open = store_sqlite_open,
     .has_path = true,
     .compact = store_sqlite_compact},
    {.name = "postgres", .open = store_postgres_open, .has_path = true},
    {.name = "postgresql", .open = store_postgres_open, .has_path = true},
};

static const struct backend *find_backend(struct span kind)
{
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        if (span_is(kind, backends[i].name)) {
            return &backends[i];
        }
    }
    return NULL;
}

/* As much of it as can be the name of a kind: what was meant as something else may hold a password. */
static struct span name_of(struct span kind)
{
    size_t len = 0;

    while (len < kind.len && len < ERROR_FIELD_MAX && kind.at[len] >= 'a' && kind.at[len] <= 'z') {
        len++;
    }
    return span_until(kind, len);
}

/* Which backend, and what stands behind the colon. */
static int read_spec(struct span spec, const struct backend **ret_backend, struct span *ret_path,
                     struct error *err)
{
    struct span path = spec, kind;
    bool has_colon = span_cut(&path, ':', &kind);
    const struct backend *backend = find_backend(kind);

    if (backend == NULL) {
        return fail(err, FAULT_INPUT,
                    "no store is called \"%.*s\": memory, json:PATH, sqlite:PATH,"
                    " postgres://HOST/DATABASE",
                    SPAN_ARGS(name_of(kind)));
    }
    if (!backend->has_path && has_colon) {
        return fail(err, FAULT_INPUT, "the store \"%s\" takes no path", backend->name);
    }
    if (backend->has_path && path.len == 0) {
        return fail(err, FAULT_INPUT, "the store \"%s\" needs a path: %s:PATH", backend->name,
                    backend->name);
    }
    if (span_find(path, '\0') != NULL) {
        return fail(err, FAULT_INPUT, "the path of the store holds a NUL");
    }
    *ret_backend = backend;
    *ret_path = path;
    return 0;
}

static int open_spec(struct span spec, struct store_options options, struct store **ret_store,
                     struct error *err)
{
    const struct backend *backend = NULL;
    int failed = read_spec(spec, &backend, &options.location, err);

    return failed != 0 ? failed : backend->open(&options, ret_store, err);
}

int store_compact(struct span spec, struct store_sizes *ret_sizes, struct error *err)
{
    const struct backend *backend = NULL;
    struct span path;
    int failed = read_spec(spec, &backend, &path, err);

    if (failed == 0 && backend->compact == NULL) {
        failed =
            fail(err, FAULT_INPUT, "a store of the kind \"%s\" has nothing to gain", backend->name);
    }
    return failed != 0 ? failed : backend->compact(path, ret_sizes, err);
}

int store_open(struct span spec, const struct store_keep *keep, struct store **ret_store,
               struct error *err)
{
    return open_spec(spec, (struct store_options){.keep = *keep}, ret_store, err);
}

int store_open_to_read(struct span spec, struct store **ret_store, struct error *err)
{
    int failed = open_spec(spec, (struct store_options){.is_reader = true}, ret_store, err);

    if (failed == 0) {
        (*ret_store)->is_reader = true;
    }
    return failed;
}

int store_open_to_import(struct span spec, struct store **ret_store, struct error *err)
{
    return open_spec(spec, (struct store_options){.is_import = true}, ret_store, err);
}

void store_close(struct store *store)
{
    if (store != NULL) {
        store->ops->close(store);
    }
}

static int refuse_reader(const struct store *store, struct error *err)
{
    return store->is_reader ? fail(err, FAULT_INPUT, "the store was opened to be read only") : 0;
}

int store_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    struct error local = {0};

    for (size_t i = 0; i < count; i++) {
        ops[i]->result = RESULT_NONE;
        ops[i]->fault = 0;
        if (ops[i]->spawn != NULL) {
            ops[i]->spawn->result = RESULT_NONE;
            ops[i]->spawn->fault = 0;
        }
    }
    int failed = refuse_reader(store, &local);
    failed = failed == 0 && count > 0 ? store->ops->apply(store, ops, count, &local) : failed;
    for (size_t i = 0; i < count; i++) {
        assert(failed != 0 || ops[i]->result != RESULT_NONE);
        if (failed != 0) {
            ops[i]->result = RESULT_NONE;
            ops[i]->fault = failed;
            ops[i]->error = local;
        }
    }
    if (failed != 0 && err != NULL) {
        *err = local;
    }
    return failed;
}

int store_in_turn(int (*step)(void *user, struct error *err), void *user, struct error *err)
{
    const struct timespec pause = {.tv_nsec = BUSY_PAUSE_MS * 1000000L};
    int failed = step(user, err);

    for (int i = 0; fault_is_passing(failed) && i < BUSY_TRIES_MAX; i++) {
        (void)nanosleep(&pause, NULL); /* cut short by a signal: it only comes sooner */
        failed = step(user, err);
    }
    return failed;
}

struct batch {
    struct store *store;
    struct op **ops;
    size_t count;
};

static int apply_batch(void *user, struct error *err)
{
    const struct batch *batch = user;

    return store_apply(batch->store, batch->ops, batch->count, err);
}

int store_apply_patiently(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    return store_in_turn(apply_batch, &(struct batch){store, ops, count}, err);
}

int store_touch(struct store *store, struct error *err)
{
    int failed = refuse_reader(store, err);

    return failed != 0 ? failed : store->ops->touch(store, err);
}

bool store_recall(struct store *store, struct op *op)
{
    return store->ops->recall(store, op);
}

bool store_recalls_nothing(struct store *store, struct op *op)
{
    (void)store, (void)op;
    return false;
}

size_t store_writer_count(const struct store *store)
{
    return store->writer_count > 0 ? store->writer_count : 1;
}

struct store *store_writer(struct store *store, size_t index)
{
    return store->writer_count > 0 ? store->writers[index] : store;
}

int store_read_task(struct store *store, struct task_id id, unsigned wants, struct arena *arena,
                    struct record *ret_record, bool *ret_found, struct error *err)
{
    return store->ops->read_task(store, id, wants, arena, ret_record, ret_found, err);
}

int store_list(struct store *store, const struct store_filter *filter, struct arena *arena,
               store_record_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    return store->ops->list(store, filter, arena, visit, user, ret_next, err);
}

int store_due(struct store *store, int64_t from_ms, int64_t until_ms, store_brief_fn visit,
              void *user, struct error *err)
{
    return store->ops->due(store, from_ms, until_ms, visit, user, err);
}

int store_scan(struct store *store, store_brief_fn visit, void *user, struct error *err)
{
    return store->ops->scan(store, visit, user, err);
}

int store_queues(struct store *store, store_queue_fn visit, void *user, struct error *err)
{
    return store->ops->queues(store, visit, user, err);
}

int store_audit(struct store *store, const struct audit_filter *filter, struct arena *arena,
                store_audit_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    return store->ops->audit(store, filter, arena, visit, user, ret_next, err);
}

int store_memos(struct store *store, store_memo_fn visit, void *user, struct error *err)
{
    return store->ops->memos(store, visit, user, err);
}

int64_t store_room_bytes(struct store *store)
{
    return store->ops->room_bytes(store);
}

int store_beat(struct store *store, int64_t wait_ms, struct arena *arena, struct beat *ret_beat,
               struct error *err)
{
    return store->nodes->beat(store, wait_ms, arena, ret_beat, err);
}

int store_counts(struct store *store, store_count_fn visit, void *user, struct error *err)
{
    return store->nodes->counts(store, visit, user, err);
}

int store_fates(struct store *store, const struct fate_question *question, store_fate_fn visit,
                void *user, struct error *err)
{
    return store->nodes->fates(store, question, visit, user, err);
}

void store_nudge(struct store *store, const struct node_wish *wish)
{
    store->nodes->nudge(store, wish);
}

static void note_row(struct store *store, const struct op *op)
{
    bool is_new = op->kind == OP_RECORD || op->kind == OP_IMPORT;

    int64_t row = op->task.id.row, last = __atomic_load_n(&store->last_row, __ATOMIC_RELAXED);

    while (is_new && op->result == RESULT_DONE && row > last &&
           !__atomic_compare_exchange_n(&store->last_row, &last, row, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
}

void store_note_rows(struct store *store, struct op *ops[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        note_row(store, ops[i]);
        if (ops[i]->spawn != NULL) {
            note_row(store, ops[i]->spawn);
        }
    }
}
