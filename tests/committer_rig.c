/* SPDX-License-Identifier: MIT
 *
 * committer_rig -- see committer_rig.h.
 */
#include "committer_rig.h"

#include <string.h>

struct world world; /* large */

int64_t committer_rig_now_ms(const struct clock *clock)
{
    return ((const struct world *)clock)->now_ms;
}

static int next_fault(struct scripted *store, size_t count, struct error *err)
{
    int fault = store->calls < SCRIPT_MAX ? store->faults[store->calls] : 0;

    if (store->calls < SCRIPT_MAX) {
        store->batch_sizes[store->calls] = count;
    }
    store->calls++;
    return fault == 0 ? 0 : fail(err, (enum fault)fault, "as scripted");
}

static int scripted_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    struct scripted *self = (struct scripted *)store;
    int failed = next_fault(self, count, err);

    for (size_t i = 0; failed == 0 && i < count; i++) {
        ops[i]->result = RESULT_DONE;
        self->applied[self->applied_count++] = ops[i]->task.id.row;
    }
    return failed;
}

static int scripted_touch(struct store *store, struct error *err)
{
    return next_fault((struct scripted *)store, 0, err);
}

static bool scripted_recall(struct store *store, struct op *op)
{
    struct scripted *self = (struct scripted *)store;

    if (!self->is_there) {
        return false;
    }
    op->result = RESULT_DONE;
    self->applied[self->applied_count++] = op->task.id.row;
    return true;
}

const struct store_ops committer_rig_ops = {
    .name = "scripted",
    .apply = scripted_apply,
    .touch = scripted_touch,
    .recall = scripted_recall,
};

void committer_rig_wake(void *user)
{
    __atomic_add_fetch(&((struct world *)user)->wakes, 1, __ATOMIC_RELAXED);
}

void committer_rig_begin(const int *faults, size_t count)
{
    memset(&world, 0, sizeof world);
    world.clock = (struct clock){committer_rig_now_ms, committer_rig_now_ms};
    world.store.base.ops = &committer_rig_ops;
    if (count > 0) {
        memcpy(world.store.faults, faults, count * sizeof *faults);
    }
    world.committer = committer_new(&world.store.base, &world.clock, committer_rig_wake, &world);
    assert_non_null(world.committer);
}

struct op *committer_rig_submit(size_t index, int64_t row)
{
    struct op *op = &world.ops[index];

    *op = (struct op){.kind = OP_CANCEL, .task.id = {.row = row, .tail = 1}, .ticket = index};
    assert_true(committer_submit(world.committer, op));
    return op;
}

size_t committer_rig_take_all(void)
{
    size_t count = 0;

    for (struct op *op = committer_take(world.committer); op != NULL;
         op = (struct op *)op->link.next) {
        count++;
    }
    return count;
}
