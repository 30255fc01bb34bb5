/* SPDX-License-Identifier: MIT
 *
 * outage -- a target that keeps failing. Trying every task of a queue against it would cost each of
 * them an attempt and the target its recovery. So the queue stops, one task at a time tries whether
 * the target is back (and does not count), and then it is let in slowly.
 *
 *            failures in a row           a trial is answered     as many at once as allowed, or wanted
 *   NONE ------------------------> DOWN ----------------------> RAMP ---------------------------> NONE
 *                                   ^  '-- a trial fails: the      |
 *                                   |      next in try_ms          | a failure
 *                                   '------------------------------'
 *
 * What counts is a failure of the class `transient`: no answer, or a 5xx. Any other answer says that
 * somebody is there. No failure of an attempt that began in DOWN or RAMP counts against its task, but
 * for those that a person has sent. Nothing of this is stored: after a restart the first failures find
 * it out anew.
 */
#include "engine/engine_internal.h"

#include <string.h>

static bool is_on(const struct queue *queue)
{
    return queue->settings.outage_after > 0;
}

/* Attempts at once that the ramp allows. */
uint32_t outage_limit(const struct queue *queue)
{
    uint32_t concurrency = queue->concurrency;

    if (queue->outage.step == OUTAGE_RAMP && queue->outage.limit < concurrency) {
        return queue->outage.limit;
    }
    return concurrency;
}

bool outage_wants_trial(const struct engine *engine, const struct queue *queue)
{
    return queue->outage.step == OUTAGE_DOWN && !queue->outage.has_trial &&
           clock_mono_ms(engine->options.clock) >= queue->outage.next_at_ms;
}

/* May nothing be sent but a trial that is due? */
bool outage_holds(const struct engine *engine, const struct queue *queue)
{
    return queue->outage.step == OUTAGE_DOWN && !outage_wants_trial(engine, queue);
}

static void go_down(struct engine *engine, struct queue *queue)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);

    if (queue->outage.step == OUTAGE_NONE) {
        queue->outage.since_ms = engine_now_ms(engine);
        engine->stats.outages++;
        DARUMA_LOG(engine->options.log, DARUMA_LOG_WARN, "outage_began",
                   daruma_log_bytes("queue", queue->name.at, queue->name.len),
                   daruma_log_uint("failures", queue->outage.failures));
    }
    queue->outage.step = OUTAGE_DOWN;
    queue->outage.next_at_ms = now_ms + queue->settings.outage_try_ms;
    give_back_ready(engine, queue);
}

static void come_back(struct engine *engine, struct queue *queue)
{
    queue->outage.step = OUTAGE_RAMP;
    queue->outage.limit = 1;
    queue->tokens = 0; /* what was saved up meanwhile would be a burst */
    queue->tokens_at_ms = clock_mono_ms(engine->options.clock);
}

static void end(struct engine *engine, struct queue *queue)
{
    queue->outage.step = OUTAGE_NONE;
    DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "outage_ended",
               daruma_log_bytes("queue", queue->name.at, queue->name.len),
               daruma_log_int("lasted_ms", engine_now_ms(engine) - queue->outage.since_ms));
    queue->outage.since_ms = 0;
}

/* Is there anything that the ramp holds back? */
static bool has_more(const struct engine *engine, const struct queue *queue)
{
    int64_t now_ms = engine_now_ms(engine);
    struct schedule_entry first;

    return queue->parked_count > 0 ||
           (schedule_first(&queue->due, &first) && first.due_ms <= now_ms) ||
           (schedule_first(&queue->low, &first) && first.due_ms <= now_ms);
}

/* One more at once for each answer: twice as many in the time of one. */
static void answered(struct engine *engine, struct queue *queue)
{
    queue->outage.failures = 0;
    if (queue->outage.step == OUTAGE_NONE) {
        return;
    }
    if (queue->outage.step == OUTAGE_DOWN) {
        come_back(engine, queue);
    } else {
        queue->outage.limit++;
    }
    if (queue->outage.limit >= queue->concurrency || !has_more(engine, queue)) {
        end(engine, queue);
    }
}

static void failed(struct engine *engine, struct queue *queue)
{
    queue->outage.failures++;
    if (queue->outage.step != OUTAGE_NONE ||
        queue->outage.failures >= queue->settings.outage_after) {
        go_down(engine, queue);
    }
}

/* A trial that did not even begin says nothing of the target; the next one is not at once. */
static void put_off_trial(const struct engine *engine, struct queue *queue)
{
    if (queue->outage.step == OUTAGE_DOWN) {
        queue->outage.next_at_ms =
            clock_mono_ms(engine->options.clock) + queue->settings.outage_try_ms;
    }
}

/* What an attempt has come to. Only an answer says that somebody is there: what was not sent, for want
 * of memory or of time, says nothing. */
void outage_noted(struct engine *engine, struct attempt *attempt, bool is_failure)
{
    struct queue *queue = attempt->queue;

    if (!is_on(queue) || attempt->delivery.is_uncounted) {
        return;
    }
    if (attempt->is_ours) {
        if (attempt->is_trial && is_failure) {
            put_off_trial(engine, queue);
        }
    } else if (!is_failure && attempt->delivery.outcome.status != 0) {
        answered(engine, queue);
    } else if (is_failure && (attempt->is_trial || queue->outage.step != OUTAGE_DOWN)) {
        failed(engine, queue); /* those that were under way when it went down say nothing new */
    }
}

/* The queue was changed: what was learnt of its target may be of another one. */
void outage_forget(struct queue *queue)
{
    bool has_trial = queue->outage.has_trial;

    memset(&queue->outage, 0, sizeof queue->outage);
    queue->outage.has_trial = has_trial;
}
