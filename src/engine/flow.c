/* SPDX-License-Identifier: MIT
 *
 * flow -- how much of a queue may be under way: a rate (token bucket) and a number of attempts at once;
 * the number for each target host is in hosts.c. The rate is asked before the lease, so that nothing is
 * leased that may not go. A place that becomes free should not wait for the disk: so a leased attempt
 * may wait here for its turn. Among nodes each of them is the node's share of the queue's (nodes_share).
 */
#include "engine/engine_internal.h"

#define RAMP_BURST_SHARE 0.05 /* of a second's rate */

/* --- the rate ---------------------------------------------------------------------------------- */

static void refill(const struct engine *engine, struct queue *queue)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    double rate = queue->rate;
    double burst = queue->rate_burst < 1 ? 1 : queue->rate_burst;

    if (queue->outage.step == OUTAGE_RAMP) { /* what is let in slowly must not come at once */
        burst = rate * RAMP_BURST_SHARE < 1 ? 1 : rate * RAMP_BURST_SHARE;
    }
    if (queue->tokens_at_ms == 0) {
        queue->tokens = burst;
    } else if (now_ms > queue->tokens_at_ms) {
        queue->tokens += (double)(now_ms - queue->tokens_at_ms) * rate / 1000;
    }
    queue->tokens = queue->tokens > burst ? burst : queue->tokens;
    queue->tokens_at_ms = now_ms;
}

bool flow_has_token(const struct engine *engine, struct queue *queue)
{
    if (queue->settings.rate_per_second <= 0) {
        return true;
    }
    refill(engine, queue);
    return queue->tokens >= 1;
}

void flow_take_token(struct queue *queue)
{
    queue->tokens -= queue->settings.rate_per_second > 0;
}

void flow_give_token_back(struct queue *queue)
{
    queue->tokens += queue->settings.rate_per_second > 0;
}

/* How long until the rate allows the next one. Counted from the moment at which the tokens were
 * counted: whoever asks again and again is not put off again and again. */
int64_t flow_token_wait_ms(const struct engine *engine, const struct queue *queue)
{
    if (queue->settings.rate_per_second <= 0 || queue->tokens >= 1) {
        return 0;
    }
    int64_t passed_ms = clock_mono_ms(engine->options.clock) - queue->tokens_at_ms;
    int64_t wait_ms = (int64_t)((1 - queue->tokens) * 1000 / queue->rate) + 1 - passed_ms;
    return wait_ms > 0 ? wait_ms : 0;
}

/* --- turns ------------------------------------------------------------------------------------- */

/* As many as were answered lately are leased ahead of their turn. A slow target has none of that, so
 * that what waits for it can still be cancelled. */
uint32_t flow_ahead_max(const struct engine *engine, const struct queue *queue)
{
    int64_t window = clock_mono_ms(engine->options.clock) / AHEAD_WINDOW_MS;
    uint32_t lately =
        queue->answered > queue->answered_before ? queue->answered : queue->answered_before;

    if (window > queue->answered_window + 1) {
        return 0;
    }
    return lately < AHEAD_MAX ? lately : AHEAD_MAX;
}

/* Behind those that wait for a turn of the queue. */
void flow_line_up(struct attempt *attempt)
{
    struct queue *queue = attempt->queue;

    if (queue->ready == NULL) {
        queue->ready_last = &queue->ready;
    }
    attempt->next_ready = NULL;
    *queue->ready_last = attempt;
    queue->ready_last = &attempt->next_ready;
}

/* True: it may go now. False: it goes when another one of its queue has been answered. */
bool flow_take_turn(struct attempt *attempt)
{
    struct queue *queue = attempt->queue;

    if (queue->sending < queue->concurrency) {
        queue->sending++;
        attempt->holds_turn = true;
        return true;
    }
    flow_line_up(attempt);
    return false;
}

static void note_answered(struct queue *queue, int64_t now_ms)
{
    int64_t window = now_ms / AHEAD_WINDOW_MS;

    if (window != queue->answered_window) {
        queue->answered_before = window == queue->answered_window + 1 ? queue->answered : 0;
        queue->answered = 0;
        queue->answered_window = window;
    }
    queue->answered++;
}

/* The attempt is over. */
void flow_end_turn(const struct engine *engine, struct attempt *attempt)
{
    if (attempt->holds_turn) {
        attempt->holds_turn = false;
        attempt->queue->sending--;
        note_answered(attempt->queue, clock_mono_ms(engine->options.clock));
    }
}

/* Whose turn it is now, if a turn is free. */
struct attempt *flow_next_ready(struct queue *queue)
{
    struct attempt *next = queue->sending < queue->concurrency ? queue->ready : NULL;

    if (next != NULL) {
        queue->ready = next->next_ready;
    }
    return next;
}
