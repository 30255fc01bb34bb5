/* SPDX-License-Identifier: MIT
 *
 * targets -- which of a queue's targets an attempt goes to, in turn, and which are out of the round: a
 * target that answers 410 has said that it is gone, and gets nothing more until a person resumes the
 * queue or changes it. That is kept as a memo, so that a restart does not knock at its door again.
 */
#include "engine/engine_internal.h"
#include "base/plant.h"

#include <stdio.h>

#define MEMO_PREFIX "stopped:" /* stopped:QUEUE:TARGET */

struct target_round targets_round(const struct queue *queue)
{
    struct target_round round = {.count = (uint32_t)queue->settings.target_count,
                                 .stopped = queue->stopped};

    for (uint32_t i = 0; i < round.count && i < QUEUE_TARGETS_MAX; i++) {
        round.once |= (queue->settings.targets[i].repeatable ? 0u : 1u) << i;
    }
    return round;
}

/* NULL: the queue has none. A task's own target takes the settings of the first one. */
const struct target *targets_choose(const struct queue *queue, struct span own, uint32_t turn,
                                    int *ret_index)
{
    const struct target_round round = targets_round(queue);

    *ret_index = -1;
    if (round.count == 0) {
        return NULL;
    }
    if (own.len > 0) {
        return &queue->settings.targets[0];
    }
    *ret_index = (int)target_at(&round, turn);
    return &queue->settings.targets[*ret_index];
}

/* Between two leases a task that leaves it to the targets is one that must not be sent twice, if that
 * is so for any of them. A lease decides it anew (store/rules.c); a node of a release that does not
 * would carry on what the lease before said of another target. */
void targets_be_careful(const struct queue *queue, struct life *life)
{
    bool is_left_to_them = (life->flags & LIFE_TARGETS) != 0;

    PLANT(ONCE_OF_RECORD, return )
    if (is_left_to_them && life->state == TASK_WAITING && targets_round(queue).once != 0) {
        life->flags |= LIFE_ONCE;
    }
}

/* Nothing is left to send to. */
bool targets_are_gone(const struct queue *queue)
{
    size_t count = queue->settings.target_count;

    return count > 0 && queue->stopped == (UINT32_C(1) << count) - 1;
}

static void forget_errand(struct engine *engine, struct errand *errand)
{
    (void)engine; /* a memo that was not written is learnt again from the next 410 */
    errand_free(errand);
}

/* Writes the memo of one target; an empty value forgets it. */
static void write_memo(struct engine *engine, const struct queue *queue, size_t index,
                       struct span value)
{
    struct errand *errand = errand_new(engine, OP_MEMO);
    struct span target = queue->settings.targets[index].name;
    char name[STORE_MEMO_NAME_MAX + 1];

    (void)snprintf(name, sizeof name, MEMO_PREFIX "%.*s:%.*s", SPAN_ARGS(queue->name),
                   SPAN_ARGS(target)); /* both names are short; cut, it would not be found again */
    if (errand != NULL) {
        errand->op.memo.name = arena_copy(errand->arena, span_of(name));
        errand->op.memo.value = value;
        errand->op.is_patient = true;
        errand->then = forget_errand;
    }
    (void)errand_start(engine, errand);
}

/* The attempt's target has answered 410. The queue may have been changed since the attempt began:
 * another target in the same place has not said anything. */
void targets_gone(struct engine *engine, const struct attempt *attempt)
{
    struct queue *queue = attempt->queue;
    int index = attempt->target_index;

    if (index < 0 || (size_t)index >= queue->settings.target_count ||
        !span_equal(queue->settings.targets[index].url, attempt->delivery.url) ||
        (queue->stopped >> index & 1) != 0) {
        return;
    }
    struct span name = queue->settings.targets[index].name;
    queue->stopped |= UINT32_C(1) << index;
    write_memo(engine, queue, (size_t)index, SPAN("gone"));
    DARUMA_LOG(engine->options.log, DARUMA_LOG_WARN, "target_stopped",
               daruma_log_bytes("queue", queue->name.at, queue->name.len),
               daruma_log_bytes("target", name.at, name.len), daruma_log_int("status", 410));
}

void targets_back(struct engine *engine, struct queue *queue)
{
    for (size_t i = 0; i < queue->settings.target_count; i++) {
        if ((queue->stopped >> i & 1) != 0) {
            write_memo(engine, queue, i, (struct span){0});
        }
    }
    queue->stopped = 0;
}

/* At start. What no longer has a queue or a target is of no interest any more. */
int targets_restore(struct engine *engine, struct span name, struct span value)
{
    struct span rest = name, prefix, queue_name;

    (void)value;
    if (!span_cut(&rest, ':', &prefix) || !span_is(prefix, "stopped") ||
        !span_cut(&rest, ':', &queue_name)) {
        return 0;
    }
    struct queue *queue = engine_find_queue(engine, queue_name);
    for (size_t i = 0; queue != NULL && i < queue->settings.target_count; i++) {
        if (span_equal(queue->settings.targets[i].name, rest)) {
            queue->stopped |= UINT32_C(1) << i;
        }
    }
    return 0;
}
