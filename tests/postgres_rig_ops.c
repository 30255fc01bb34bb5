/* SPDX-License-Identifier: MIT
 *
 * postgres_rig_ops -- see postgres_rig_ops.h.
 */
#include "postgres_rig_ops.h"
#include "harness.h"

#include "base/clock.h"

#include <stdio.h>

#define SPEC_MAX 100

struct store *postgres_rig_open(const char *database, const struct store_keep *keep)
{
    char spec[SPEC_MAX];
    struct store *store = NULL;
    struct error err = {0};

    (void)snprintf(spec, sizeof spec, "postgres:%s", database); /* tests have short names */
    if (store_open(span_of(spec), keep, &store, &err) != 0) {
        fail_msg("open: %s", err.text);
    }
    return store;
}

void postgres_rig_apply(struct store *store, struct op *ops[], size_t count)
{
    struct error err = {0};

    if (store_apply(store, ops, count, &err) != 0) {
        fail_msg("apply: %s", err.text);
    }
}

enum op_result postgres_rig_apply_one(struct store *store, struct op *op)
{
    postgres_rig_apply(store, &op, 1);
    return op->result;
}

struct op postgres_rig_record_op(int64_t row, int64_t due_ms)
{
    return (struct op){
        .kind = OP_RECORD,
        .now_ms = clock_wall_ms(&clock_real),
        .task = {.id = {.row = row, .tail = 9}, .queue = POSTGRES_RIG_QUEUE, .body = SPAN("body")},
        .life = {.due_at_ms = due_ms}};
}

void postgres_rig_record(struct store *store, int64_t row, int64_t due_ms)
{
    struct op op = postgres_rig_record_op(row, due_ms);

    assert_int_equal(postgres_rig_apply_one(store, &op), RESULT_DONE);
}

struct op postgres_rig_lease_op(const struct store *store, struct arena *arena, uint32_t flags)
{
    return (struct op){.kind = OP_LEASE,
                       .now_ms = clock_wall_ms(&clock_real),
                       .task.queue = POSTGRES_RIG_QUEUE,
                       .life.flags = flags,
                       .epoch = store->epoch,
                       .arena = arena,
                       .wants_request = true};
}
