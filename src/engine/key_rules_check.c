/* SPDX-License-Identifier: MIT
 *
 * key_rules_check -- at the start: does each route still go by the rules by which the keys in the store were
 * written? A route that goes by others works, but its keys are not found, or not taken for the same request:
 * what is kept, and what is in doubt, would be sent again. That is a person's decision, so it is told.
 */
#include "engine/key_rules_internal.h"
#include "engine/engine_internal.h"
#include "task/key_rules.h"

#include <stdlib.h>

struct look {
    struct engine *engine;
    bool *is_kept; /* by index of the queue: the memo says what the route goes by */
    struct error *err;
};

static int no_memory(struct error *err)
{
    return fail(err, FAULT_MEMORY, "no memory to look at the rules of the routes");
}

/* NULL: the memo is about something else, or about a route that there is no more. */
static const struct queue *route_of(const struct engine *engine, const struct memo *memo)
{
    struct span name = span_from(memo->name, sizeof KEY_RULES_MEMO - 1);

    for (size_t i = 0; span_starts(memo->name, KEY_RULES_MEMO) && i < engine->queue_count; i++) {
        const struct queue *queue = engine->queues[i];
        if (queue->route != NULL && span_equal(name, queue->route->name)) {
            return queue;
        }
    }
    return NULL;
}

static int see_memo(void *user, const struct memo *memo)
{
    struct look *look = user;
    const struct queue *queue = route_of(look->engine, memo);
    struct buf rules;

    if (queue == NULL) {
        return 0;
    }
    buf_init(&rules, KEY_RULES_BYTES_MAX);
    int failed = key_rules_render(queue->route, &rules);
    if (failed == 0 && span_equal(buf_span(&rules), memo->value)) {
        look->is_kept[queue->index] = true;
    } else if (failed == 0) {
        DARUMA_LOG(look->engine->options.log, DARUMA_LOG_WARN, "route_keys_changed",
                   daruma_log_bytes("route", queue->route->name.at, queue->route->name.len),
                   daruma_log_bytes("was", memo->value.at, memo->value.len),
                   daruma_log_bytes("is", buf_span(&rules).at, buf_span(&rules).len),
                   daruma_log_text("hint", "requests with the keys of before are new ones now, or "
                                           "conflicts: see docs/idempotency.md"));
    }
    buf_done(&rules);
    return failed == 0 ? 0 : no_memory(look->err);
}

static int keep(struct engine *engine, const struct queue *queue, struct error *err)
{
    struct buf name, rules;

    buf_init(&name, KEY_RULES_BYTES_MAX);
    buf_init(&rules, KEY_RULES_BYTES_MAX);
    int failed = buf_add(&name, SPAN(KEY_RULES_MEMO));
    failed = failed != 0 ? failed : buf_add(&name, queue->route->name);
    failed = failed != 0 ? failed : key_rules_render(queue->route, &rules);
    if (failed != 0) {
        failed = no_memory(err);
    } else {
        struct op op = {.kind = OP_MEMO, .now_ms = engine_now_ms(engine)};
        struct op *ops[] = {&op};
        op.memo = (struct memo){.name = buf_span(&name), .value = buf_span(&rules)};
        failed = store_apply_patiently(engine->store, ops, 1, err);
    }
    buf_done(&name);
    buf_done(&rules);
    return failed;
}

int key_rules_check(struct engine *engine, struct error *err)
{
    struct look look = {
        .engine = engine, .is_kept = calloc(engine->queue_count + 1, sizeof(bool)), .err = err};

    if (look.is_kept == NULL) {
        return no_memory(err);
    }
    int failed = store_memos(engine->store, see_memo, &look, err);
    for (size_t i = 0; failed == 0 && i < engine->queue_count; i++) {
        const struct queue *queue = engine->queues[i];
        failed = queue->route == NULL || look.is_kept[queue->index] ? 0 : keep(engine, queue, err);
    }
    free(look.is_kept);
    return failed;
}
