/* SPDX-License-Identifier: MIT
 *
 * restored -- see restored_internal.h.
 */
#include "engine/restored_internal.h"

void restored_memo(struct engine *engine, const struct memo *memo)
{
    struct restored restored;

    if (span_is(memo->name, RESTORED_MEMO) && restored_parse(memo->value, &restored)) {
        engine->restored = restored;
    }
    engine->is_half_restored |= span_is(memo->name, RESTORED_MEMO_UNDONE);
}

int restored_check(const struct engine *engine, struct error *err)
{
    return engine->is_half_restored
               ? fail(err, FAULT_INPUT,
                      "'daruma restore' of this store did not end: give the same command again")
               : 0;
}

/* How long after the restore keys of this route are in doubt. */
static int64_t unknown_ms(const struct engine *engine, const struct route_settings *route)
{
    return engine->restored.unknown_ms >= 0 ? engine->restored.unknown_ms : route->keep_ms;
}

bool restored_is_in_doubt(const struct engine *engine, const struct queue *queue, int64_t now_ms)
{
    const struct route_settings *route = queue->route;

    return engine->restored.at_ms != 0 && route != NULL &&
           route->ambiguous != ROUTE_AMBIGUOUS_RETRY &&
           now_ms - engine->restored.at_ms < unknown_ms(engine, route);
}

/* As if an attempt had been made whose outcome is not known; but none of this store counts. */
void restored_begin(const struct queue *queue, struct life *life, int64_t now_ms)
{
    life->state = TASK_UNSETTLED;
    life->fence = 1;
    life->flags |= LIFE_SENT | LIFE_ONCE;
    life->failed_class = DARUMA_CLASS_TRANSIENT + 1;
    life->probe_due_ms = queue->route->ambiguous == ROUTE_AMBIGUOUS_PROBE ? now_ms : 0;
}

void restored_recorded(struct engine *engine, const struct attempt *attempt)
{
    const struct life *life = &attempt->op.life;
    struct task_id id = attempt->op.task.id;

    if (life->state == TASK_UNSETTLED) {
        engine->stats.unsettled++;
        settle_log(
            engine, attempt->queue, id, life,
            &(struct settle_cause){.attempts = life->attempts,
                                   .reason = span_of("the store was restored from a backup")});
        probe_note(engine, life, id.row);
    }
}

void restored_log(const struct engine *engine)
{
    int64_t now_ms = engine_now_ms(engine), doubt_ms = 0;
    size_t count = 0;

    for (size_t i = 0; i < engine->queue_count; i++) {
        const struct queue *queue = engine->queues[i];
        if (restored_is_in_doubt(engine, queue, now_ms)) {
            int64_t left_ms = engine->restored.at_ms + unknown_ms(engine, queue->route) - now_ms;
            doubt_ms = left_ms > doubt_ms ? left_ms : doubt_ms;
            count++;
        }
    }
    if (count == 0) {
        return;
    }
    const struct daruma_log_field fields[] = {
        daruma_log_uint("routes", count), daruma_log_int("for_ms", doubt_ms),
        daruma_log_text("hint", "the store was restored: requests with keys that it does "
                                "not know are recorded as unsettled and not sent"),
        daruma_log_int("backup_age_ms", now_ms - engine->restored.backup_ms)};
    size_t field_count = sizeof fields / sizeof *fields;
    bool is_age_known = engine->restored.backup_ms > 0; /* it is told by the newest task in it */
    daruma_log_write(engine->options.log, DARUMA_LOG_WARN, "keys_unknown", fields,
                     field_count - !is_age_known);
}
