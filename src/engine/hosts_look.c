/* SPDX-License-Identifier: MIT
 *
 * hosts_look -- how fast a queue leases tasks that may be for a host which is full: see hosts.c. Each
 * may go back, two commits for nothing. But behind them there may be tasks for other hosts, so they are
 * looked through: at full speed first, then at a rate, and what is found for another host pays for more.
 */
#include "engine/hosts_internal.h"

#define LOOK_BURST      1024 /* tasks that are leased in vain in a row at full speed, */
#define LOOK_PER_SECOND 500  /* and after that */
#define LOOK_LEAST      10 /* among nodes, a second: where a queue's own target is all that was found */

/* As many as the queue has places, and what it leases ahead of their turn. */
bool hosts_are_within(const struct engine *engine, const struct queue *queue)
{
    return queue->in_flight < outage_limit(queue) + flow_ahead_max(engine, queue);
}

/* Do all tasks go to one host, as far as its settings say? */
static bool has_one_target(const struct queue *queue)
{
    return queue->route != NULL || queue->settings.fallback != NULL ||
           queue->settings.target_count == 1;
}

/* Is what waits for a host that is full, as far as is known? Then the next one to be leased may be too. */
bool hosts_are_looked_for(const struct engine *engine, const struct queue *queue)
{
    if (queue->host_count == 0) {
        return false;
    }
    if (queue->host_count == 1 && has_one_target(queue) && targets_round(queue).once != 0 &&
        queue->in_flight >= host_max(queue)) {
        return true; /* what must not be sent twice does not wait in line */
    }
    if (nodes_are_many(engine) && queue->host_count > 1 &&
        clock_mono_ms(engine->options.clock) < queue->noted_until_ms) {
        return true;
    }
    return queue->parked_count > 0 || !hosts_are_within(engine, queue);
}

/* Alone, a task is leased in vain once, and then noted with its host. Among nodes it comes round again. So
 * a queue with one target looks for tasks with a target of their own now and then, unless there are some. */
static bool is_keen(const struct engine *engine, const struct queue *queue)
{
    return !nodes_are_many(engine) || queue->host_count > 1 || !has_one_target(queue) ||
           queue->keen_looks > 0;
}

static double tokens_of(const struct engine *engine, const struct queue *queue)
{
    bool keen = is_keen(engine, queue);
    double most = keen ? LOOK_BURST : LOOK_LEAST, rate = keen ? LOOK_PER_SECOND : LOOK_LEAST;
    int64_t passed_ms = clock_mono_ms(engine->options.clock) - queue->look_at_ms;
    double tokens = queue->look_tokens + (double)passed_ms * rate / 1000;

    return queue->look_at_ms == 0 || tokens > most ? most : tokens;
}

/* Alone, where nothing is answered, looking delays no other task. */
static bool is_free(const struct engine *engine, const struct queue *queue)
{
    return !nodes_are_many(engine) && flow_ahead_max(engine, queue) == 0;
}

bool hosts_may_look(const struct engine *engine, const struct queue *queue)
{
    return !hosts_are_looked_for(engine, queue) || is_free(engine, queue) ||
           tokens_of(engine, queue) >= 1;
}

/* Until then; 0: it may now. */
int64_t hosts_look_wait_ms(const struct engine *engine, const struct queue *queue)
{
    if (hosts_may_look(engine, queue)) {
        return 0;
    }
    double rate = is_keen(engine, queue) ? LOOK_PER_SECOND : LOOK_LEAST;
    return (int64_t)((1 - tokens_of(engine, queue)) * 1000 / rate) + 1;
}

/* It is about to be leased. What it is is found out then: see hosts_found. */
void hosts_look(const struct engine *engine, struct attempt *attempt)
{
    struct queue *queue = attempt->queue;

    if (hosts_are_looked_for(engine, queue)) {
        queue->look_tokens = tokens_of(engine, queue) - 1;
        queue->look_at_ms = clock_mono_ms(engine->options.clock);
        attempt->is_look = true;
    }
}

/* What came of it. */
void hosts_found(struct attempt *attempt, enum host_entry entry)
{
    struct queue *queue = attempt->queue;

    if (!attempt->is_look) {
        return;
    }
    attempt->is_look = false;
    if (entry == HOST_NO_ROOM) {
        queue->keen_looks -= queue->keen_looks > 0;
        return;
    }
    queue->look_tokens++;
    if (attempt->holds_host && !attempt->is_at_silent && queue->host_count > 1) {
        queue->look_tokens = LOOK_BURST;
        hosts_look_on(queue);
    }
}

/* There is a task for another host, or was: it is worth looking further. */
void hosts_look_on(struct queue *queue)
{
    queue->keen_looks = LOOK_BURST;
}
