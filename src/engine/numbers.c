/* SPDX-License-Identifier: MIT
 *
 * numbers -- what the engine counts of each queue and of its doors, for metrics. Plain additions at
 * the places where things happen; what is read together is put together by numbers_view.
 */
#include "engine/engine_internal.h"

#define P99 0.99

static int64_t mono_ms(const struct engine *engine)
{
    return clock_mono_ms(engine->options.clock);
}

/* --- doors ---------------------------------------------------------------------------------------- */

static enum engine_door door_of(const struct submission *in)
{
    return in->route != NULL ? BY_GATEWAY : BY_API;
}

void numbers_request(struct engine *engine, const struct submission *in)
{
    engine->stats.requests[door_of(in)][in->key.len > 0]++;
}

static enum key_answer answer_of(const struct op *op)
{
    if (op->result == RESULT_DONE) {
        return KEY_FIRST;
    }
    if (op->result == RESULT_DUPLICATE) {
        return op->life.state == TASK_UNSETTLED  ? KEY_UNKNOWN
               : op->life.state == TASK_GONE     ? KEY_EXPIRED
               : task_is_settled(op->life.state) ? KEY_REPLAYED
                                                 : KEY_IN_PROGRESS;
    }
    return op->result == RESULT_GONE ? KEY_EXPIRED : KEY_CONFLICT;
}

/* A RECORD is answered, without a fault. */
void numbers_key(struct engine *engine, const struct attempt *attempt)
{
    enum engine_door door = attempt->queue->route != NULL ? BY_GATEWAY : BY_API;

    if (attempt->op.task.key.len > 0 && attempt->op.result != RESULT_NO_QUEUE) {
        engine->stats.key_answers[door][answer_of(&attempt->op)]++;
    }
}

/* --- the life of a task ------------------------------------------------------------------------------ */

void numbers_begun(struct engine *engine, struct queue *queue, int64_t late_ms)
{
    late_ms = late_ms < 0 ? 0 : late_ms;
    engine->stats.attempts++;
    histogram_add(&engine->stats.lateness, late_ms);
    queue->numbers.late_count++;
    queue->numbers.late_ms += (uint64_t)late_ms;
    recent_add(&queue->numbers.lateness, mono_ms(engine), late_ms);
}

void numbers_answered(struct engine *engine, const struct attempt *attempt)
{
    const struct delivery *delivery = &attempt->delivery;
    struct queue_numbers *numbers = &attempt->queue->numbers;
    int64_t took_ms = delivery->ended_at_ms - delivery->started_at_ms;

    took_ms = took_ms < 0 ? 0 : took_ms;
    histogram_add(&engine->stats.attempt, took_ms);
    numbers->attempt_count++;
    numbers->attempt_ms += (uint64_t)took_ms;
    recent_add(&numbers->attempt, mono_ms(engine), took_ms);
}

/* What an attempt came to is committed: the server's own, or a worker's. */
void numbers_attempt(struct engine *engine, struct queue *queue, const struct op *op)
{
    const struct life *life = &op->life;

    if (op->uncounts) {
        return;
    }
    if (life->state == TASK_SUCCEEDED || life->state == TASK_UNSETTLED) {
        queue->numbers
            .attempts[life->state == TASK_SUCCEEDED ? OUTCOME_SUCCEEDED : OUTCOME_UNSETTLED]++;
    } else if (life->failed_class > 0 && life->failed_class <= DARUMA_CLASS_COUNT) {
        queue->numbers.attempts[life->failed_class - 1]++;
    }
    if (life->state == TASK_WAITING) {
        histogram_add_in(&engine->stats.waits, histogram_waits_ms, life->wait_ms);
    }
}

static void end(struct engine *engine, struct queue *queue, const struct op *op,
                enum task_end task_end)
{
    int64_t took_ms = engine_now_ms(engine) - id_created_ms(op->task.id.row);

    took_ms = took_ms < 0 ? 0 : took_ms;
    queue->numbers.ended[task_end][op->life.attempts > 1]++;
    queue->numbers.lives++;
    queue->numbers.lives_ms += (uint64_t)took_ms;
    histogram_add_in(&engine->stats.lives, histogram_lives_ms, took_ms);
}

/* A dead letter is closed, by a person or by success. */
void numbers_closed(struct engine *engine, struct queue *queue, const struct life *life)
{
    bool is_redriven = life->state == TASK_SUCCEEDED;

    queue->numbers.letters_redriven += is_redriven;
    queue->numbers.letters_closed += !is_redriven;
    histogram_add_in(&engine->stats.open, histogram_days_ms,
                     engine_now_ms(engine) - life->failed_at_ms);
}

/* A task has moved to a state, and it is committed: has it ended? */
void numbers_ended(struct engine *engine, struct queue *queue, const struct op *op)
{
    enum task_state state = op->life.state;

    if (!task_is_settled(state)) {
        return;
    }
    end(engine, queue, op,
        state == TASK_SUCCEEDED   ? END_SUCCEEDED
        : state == TASK_CANCELLED ? END_CANCELLED
                                  : END_FAILED);
    queue->numbers.letters_entered += state == TASK_DEAD;
    if (state == TASK_SUCCEEDED && (op->life.flags & LIFE_LETTER) != 0) {
        numbers_closed(engine, queue, &op->life);
    }
}

/* --- what is seen ------------------------------------------------------------------------------------ */

static bool has_due(const struct engine *engine, const struct queue *queue)
{
    struct schedule_entry first;

    return schedule_first(&queue->due, &first) && first.due_ms <= engine_now_ms(engine);
}

/* Is there anything to be held back? What is due later waits for its time. Where no schedule tells (a
 * queue that is not worked, one node), all that waits is taken for it. */
static bool has_any_due(const struct engine *engine, const struct queue *queue)
{
    bool is_told = queue->hold == QUEUE_HOLD_NONE || nodes_are_many(engine);

    return queue->counts[TASK_WAITING] > 0 &&
           (!is_told || queue_first_due_ms(engine, queue) <= engine_now_ms(engine));
}

static uint32_t bit(enum held_by hold, bool is_on)
{
    return is_on ? 1u << hold : 0;
}

static uint32_t held(const struct engine *engine, const struct queue *queue)
{
    bool is_due = has_due(engine, queue), is_any = has_any_due(engine, queue);

    return bit(HOLD_PAUSED, is_any && queue->paused) |
           bit(HOLD_OUTAGE, is_any && queue->outage.step != OUTAGE_NONE) |
           bit(HOLD_GONE, is_any && targets_are_gone(queue)) |
           bit(HOLD_RATE, is_due && queue->rate > 0 && flow_token_wait_ms(engine, queue) > 0) |
           bit(HOLD_HOST, queue->beside_count > 0 || queue->parked_count > 0) |
           bit(HOLD_CONCURRENCY, is_due && dispatch_places_taken(queue) >= queue->concurrency) |
           bit(HOLD_ATTEMPTS, (is_due || queue->has_pick) && queue->is_hungry) |
           bit(HOLD_STORE, is_any && engine->stats.unsaved >= ENGINE_UNSAVED_MAX) |
           bit(HOLD_MISSING, is_any && queue->hold != QUEUE_HOLD_NONE);
}

/* Until what holds it back lets go by itself, where the moment is known: the later one counts. */
static int64_t held_ms(const struct engine *engine, const struct queue *queue, uint32_t held)
{
    bool has_trial_ahead = queue->outage.step == OUTAGE_DOWN && !queue->outage.has_trial;
    int64_t trial_ms = has_trial_ahead ? queue->outage.next_at_ms - mono_ms(engine) : 0;
    int64_t rate_ms = (held & bit(HOLD_RATE, true)) != 0 ? flow_token_wait_ms(engine, queue) : 0;

    trial_ms = trial_ms > 0 ? trial_ms : 0;
    return trial_ms > rate_ms ? trial_ms : rate_ms;
}

void numbers_view(const struct engine *engine, const struct queue *queue,
                  struct queue_view *ret_view)
{
    int64_t now_ms = mono_ms(engine);

    ret_view->held = held(engine, queue);
    ret_view->held_ms = held_ms(engine, queue, ret_view->held);
    ret_view->numbers = &queue->numbers;
    ret_view->lateness_p99_ms = recent_quantile_ms(&queue->numbers.lateness, now_ms, P99);
    ret_view->attempt_p99_ms = recent_quantile_ms(&queue->numbers.attempt, now_ms, P99);
}
