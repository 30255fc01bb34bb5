/* SPDX-License-Identifier: MIT
 *
 * sim_store -- a disk that fails. A commit may be refused before anything happened, or fail in a way
 * that nobody can tell (FAULT_UNKNOWN): then it is not visible, a later commit wipes it out, but a
 * crash before that may bring it to light. That is how SQLite behaves when an fdatasync fails. In some
 * runs it can be written to by several at once.
 */
#include "sim.h"
#include "store/store_memory.h"

#include <stdlib.h>
#include <string.h>

struct sim_place sim_place = {.spec = "memory", .check_every = 1};

struct sim_writer {
    struct store base; /* first */
    struct sim_store *store;
    struct store *inner;
};

struct sim_store {
    struct store base; /* first */
    struct sim_writer writers[SIM_WRITERS];
    struct store *inner;
    struct store *maybe; /* inner with the batch in doubt; NULL: none */
    struct sim *sim;
};

static struct sim_store *of(struct store *store)
{
    return (struct sim_store *)store;
}

struct store *sim_store_inner(struct store *store)
{
    return of(store)->inner;
}

/* Only what can be copied can be had with and without a batch. */
static bool has_doubts(void)
{
    return strcmp(sim_place.spec, "memory") == 0;
}

static void forget_doubt(struct sim_store *store)
{
    store_close(store->maybe);
    store->maybe = NULL;
}

/* The batch as it may be found after a crash: applied to a copy, with copies of the operations. */
static void remember_doubt(struct sim_store *store, struct op *ops[], size_t count)
{
    struct store *copy = store_memory_clone(store->maybe != NULL ? store->maybe : store->inner);
    struct arena *arena = arena_new(1 << 20);

    for (size_t i = 0; i < count; i++) {
        struct op again = *ops[i];
        struct op *pointer = &again;
        struct error err;
        again.arena = arena;
        (void)!store_apply(copy, &pointer, 1, &err); /* what cannot be kept is not found */
    }
    arena_free(arena);
    forget_doubt(store);
    store->maybe = copy;
}

static int fault_of(struct sim_store *store, struct error *err)
{
    struct sim *sim = store->sim;

    if (sim->is_calm || sim_roll(sim, 12) != 0) {
        return 0;
    }
    sim->faults++;
    switch (sim_roll(sim, 3)) {
    case 0:
        return fail(err, FAULT_IO, "simulated: the write failed");
    case 1:
        return fail(err, FAULT_FULL, "simulated: no room");
    default:
        return fail(err, has_doubts() ? FAULT_UNKNOWN : FAULT_IO, "simulated: the commit failed");
    }
}

static int apply_to(struct sim_store *self, struct store *inner, struct op *ops[], size_t count,
                    struct error *err)
{
    int failed = fault_of(self, err);

    if (failed == FAULT_UNKNOWN) {
        remember_doubt(self, ops, count);
    }
    if (failed != 0) {
        return failed;
    }
    failed = store_apply(inner, ops, count, err);
    if (failed == 0) {
        self->sim->commits++;
        forget_doubt(self);
    }
    return failed;
}

static int sim_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    return apply_to(of(store), of(store)->inner, ops, count, err);
}

static int sim_touch(struct store *store, struct error *err)
{
    int failed = fault_of(of(store), err);

    if (failed == 0) {
        forget_doubt(of(store));
    }
    return failed;
}

static int writer_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    struct sim_writer *writer = (struct sim_writer *)store;

    return apply_to(writer->store, writer->inner, ops, count, err);
}

static int writer_touch(struct store *store, struct error *err)
{
    return sim_touch(&((struct sim_writer *)store)->store->base, err);
}

static int sim_read_task(struct store *store, struct task_id id, unsigned wants,
                         struct arena *arena, struct record *ret_record, bool *ret_found,
                         struct error *err)
{
    return store_read_task(of(store)->inner, id, wants, arena, ret_record, ret_found, err);
}

static int sim_list(struct store *store, const struct store_filter *filter, struct arena *arena,
                    store_record_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    return store_list(of(store)->inner, filter, arena, visit, user, ret_next, err);
}

static int sim_due(struct store *store, int64_t from_ms, int64_t until_ms, store_brief_fn visit,
                   void *user, struct error *err)
{
    return store_due(of(store)->inner, from_ms, until_ms, visit, user, err);
}

static int sim_scan(struct store *store, store_brief_fn visit, void *user, struct error *err)
{
    return store_scan(of(store)->inner, visit, user, err);
}

static int sim_queues(struct store *store, store_queue_fn visit, void *user, struct error *err)
{
    return store_queues(of(store)->inner, visit, user, err);
}

static int sim_audit(struct store *store, const struct audit_filter *filter, struct arena *arena,
                     store_audit_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    return store_audit(of(store)->inner, filter, arena, visit, user, ret_next, err);
}

static int sim_memos(struct store *store, store_memo_fn visit, void *user, struct error *err)
{
    return store_memos(of(store)->inner, visit, user, err);
}

static int64_t sim_room(struct store *store)
{
    return store_room_bytes(of(store)->inner);
}

static void sim_close(struct store *store)
{
    forget_doubt(of(store));
    store_close(of(store)->inner);
    free(store);
}

static const struct store_ops sim_ops = {
    .name = "simulated",
    .apply = sim_apply,
    .touch = sim_touch,
    .recall = store_recalls_nothing,
    .read_task = sim_read_task,
    .list = sim_list,
    .due = sim_due,
    .scan = sim_scan,
    .queues = sim_queues,
    .audit = sim_audit,
    .memos = sim_memos,
    .room_bytes = sim_room,
    .close = sim_close,
};

static const struct store_ops writer_ops = {.name = "simulated",
                                            .apply = writer_apply,
                                            .touch = writer_touch,
                                            .recall = store_recalls_nothing};

static void add_writers(struct sim_store *store)
{
    store->base.writer_count = SIM_WRITERS;
    for (size_t i = 0; i < SIM_WRITERS; i++) {
        store->writers[i] = (struct sim_writer){
            .base.ops = &writer_ops,
            .store = store,
            .inner = store_writer(store->inner, i % store_writer_count(store->inner))};
        store->base.writers[i] = &store->writers[i].base;
    }
}

static struct store *wrap(struct store *inner, struct sim *sim)
{
    struct sim_store *store = calloc(1, sizeof *store);

    store->base =
        (struct store){.ops = &sim_ops, .epoch = inner->epoch, .last_row = inner->last_row};
    store->inner = inner;
    store->sim = sim;
    if (sim->seed % 3 == 0) {
        add_writers(store);
    }
    return &store->base;
}

static struct store *open_inner(struct sim *sim)
{
    const struct store_keep keep = {INT64_MAX / 4, INT64_MAX / 4, INT64_MAX / 4, SIM_TOMBSTONES_MS};
    struct store *inner = NULL;
    struct error err = {0};

    if (store_open(span_of(sim_place.spec), &keep, &inner, &err) != 0) {
        sim_fail(sim, "no store: %s", err.text);
        return NULL;
    }
    return inner;
}

struct store *sim_store_open(struct sim *sim)
{
    if (sim_place.prepare != NULL) {
        sim_place.prepare();
    }
    struct store *inner = open_inner(sim);
    return inner == NULL ? NULL : wrap(inner, sim);
}

struct store *sim_store_crash(struct store *store)
{
    struct sim_store *old = of(store);
    struct sim *sim = old->sim;
    bool turns_up = old->maybe != NULL && sim_roll(sim, 2) == 0;
    struct store *found =
        has_doubts() ? store_memory_clone(turns_up ? old->maybe : old->inner) : NULL;

    sim_close(store);
    found = found == NULL ? open_inner(sim) : found;
    sim->commits++;
    return found == NULL ? NULL : wrap(found, sim);
}
