/* SPDX-License-Identifier: MIT
 *
 * store_faulty -- see store_faulty.h.
 */
#include "store_faulty.h"

#include <stdlib.h>

struct store_faulty {
    struct store base;
    struct store *inner;
    enum faulty_how how;
    size_t nth, count;
    bool has_failed, is_lost;
};

static bool fails_now(struct store_faulty *faulty)
{
    bool is_now = ++faulty->count == faulty->nth;

    faulty->has_failed = faulty->has_failed || is_now;
    return is_now;
}

static int lost(struct error *err)
{
    return fail(err, FAULT_LOST, "lost, as told");
}

/* Commits, and hides it: the operations are as they were given. */
static int apply_unseen(struct store_faulty *faulty, struct op *ops[], size_t count,
                        struct error *err)
{
    struct op *given = malloc(count * sizeof *given);

    if (given == NULL) {
        return fail(err, FAULT_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        given[i] = *ops[i];
    }
    int failed = store_apply(faulty->inner, ops, count, err);
    for (size_t i = 0; i < count; i++) {
        *ops[i] = given[i];
    }
    free(given);
    faulty->is_lost = true;
    return failed != 0 ? failed : fail(err, FAULT_UNKNOWN, "failed after the commit, as told");
}

static int faulty_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    struct store_faulty *faulty = (struct store_faulty *)store;

    if (faulty->is_lost) {
        return lost(err);
    }
    if (faulty->how == FAULTY_READ || !fails_now(faulty)) {
        return store_apply(faulty->inner, ops, count, err);
    }
    switch (faulty->how) {
    case FAULTY_AFTER:
        return apply_unseen(faulty, ops, count, err);
    case FAULTY_FULL:
        return fail(err, FAULT_FULL, "full, as told");
    case FAULTY_UNSURE:
        return fail(err, FAULT_UNKNOWN, "failed at the commit, as told");
    case FAULTY_BEFORE:
    case FAULTY_READ:
    case FAULTY_HOW_COUNT:
    default:
        return fail(err, FAULT_IO, "failed, as told");
    }
}

static int faulty_touch(struct store *store, struct error *err)
{
    struct store_faulty *faulty = (struct store_faulty *)store;

    if (faulty->is_lost) {
        return lost(err);
    }
    if (faulty->how != FAULTY_READ && fails_now(faulty)) {
        return fail(err, FAULT_IO, "failed, as told");
    }
    return store_touch(faulty->inner, err);
}

static int before_read(struct store_faulty *faulty, struct error *err)
{
    if (faulty->is_lost) {
        return lost(err);
    }
    if (faulty->how == FAULTY_READ && fails_now(faulty)) {
        return fail(err, FAULT_IO, "failed to read, as told");
    }
    return 0;
}

static int faulty_read_task(struct store *store, struct task_id id, unsigned wants,
                            struct arena *arena, struct record *ret_record, bool *ret_found,
                            struct error *err)
{
    struct store_faulty *faulty = (struct store_faulty *)store;
    int failed = before_read(faulty, err);

    return failed != 0
               ? failed
               : store_read_task(faulty->inner, id, wants, arena, ret_record, ret_found, err);
}

static int faulty_list(struct store *store, const struct store_filter *filter, struct arena *arena,
                       store_record_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    struct store_faulty *faulty = (struct store_faulty *)store;
    int failed = before_read(faulty, err);

    return failed != 0 ? failed
                       : store_list(faulty->inner, filter, arena, visit, user, ret_next, err);
}

static int faulty_due(struct store *store, int64_t from_ms, int64_t until_ms, store_brief_fn visit,
                      void *user, struct error *err)
{
    struct store_faulty *faulty = (struct store_faulty *)store;
    int failed = before_read(faulty, err);

    return failed != 0 ? failed : store_due(faulty->inner, from_ms, until_ms, visit, user, err);
}

static int faulty_scan(struct store *store, store_brief_fn visit, void *user, struct error *err)
{
    struct store_faulty *faulty = (struct store_faulty *)store;
    int failed = before_read(faulty, err);

    return failed != 0 ? failed : store_scan(faulty->inner, visit, user, err);
}

static int faulty_queues(struct store *store, store_queue_fn visit, void *user, struct error *err)
{
    struct store_faulty *faulty = (struct store_faulty *)store;
    int failed = before_read(faulty, err);

    return failed != 0 ? failed : store_queues(faulty->inner, visit, user, err);
}

static int faulty_audit(struct store *store, const struct audit_filter *filter, struct arena *arena,
                        store_audit_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    struct store_faulty *faulty = (struct store_faulty *)store;
    int failed = before_read(faulty, err);

    return failed != 0 ? failed
                       : store_audit(faulty->inner, filter, arena, visit, user, ret_next, err);
}

static int faulty_memos(struct store *store, store_memo_fn visit, void *user, struct error *err)
{
    struct store_faulty *faulty = (struct store_faulty *)store;
    int failed = before_read(faulty, err);

    return failed != 0 ? failed : store_memos(faulty->inner, visit, user, err);
}

static int64_t faulty_room_bytes(struct store *store)
{
    return store_room_bytes(((struct store_faulty *)store)->inner);
}

static void faulty_close(struct store *store)
{
    store_close(((struct store_faulty *)store)->inner);
    free(store);
}

static const struct store_ops faulty_ops = {
    .name = "faulty",
    .apply = faulty_apply,
    .touch = faulty_touch,
    .recall = store_recalls_nothing,
    .read_task = faulty_read_task,
    .list = faulty_list,
    .due = faulty_due,
    .scan = faulty_scan,
    .queues = faulty_queues,
    .audit = faulty_audit,
    .memos = faulty_memos,
    .room_bytes = faulty_room_bytes,
    .close = faulty_close,
};

struct store *store_faulty_new(struct store *inner, enum faulty_how how, size_t nth)
{
    struct store_faulty *faulty = calloc(1, sizeof *faulty);

    if (faulty == NULL) {
        return NULL;
    }
    *faulty = (struct store_faulty){.base = *inner, .inner = inner, .how = how, .nth = nth};
    faulty->base.ops = &faulty_ops;
    return &faulty->base;
}

bool store_faulty_has_failed(const struct store *store)
{
    return ((const struct store_faulty *)store)->has_failed;
}

struct store *store_faulty_take(struct store *store)
{
    struct store *inner = ((struct store_faulty *)store)->inner;

    free(store);
    return inner;
}
