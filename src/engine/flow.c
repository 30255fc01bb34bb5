/* SPDX-License-Identifier: MIT
 *
 * flow -- how much of a queue may be under way: a rate (token bucket), a number of attempts at once,
 * and a number for each target host. The rate is asked before the lease, so that nothing is leased
 * that may not go. The host is known only afterwards, and a slot that becomes free should not wait
 * for the disk: so a leased attempt may wait here, for its host and for its turn. Among nodes each of
 * the three is the node's share of the queue's (nodes_share).
 */
#include "engine/engine_internal.h"
#include "base/plant.h"

#include <stdlib.h>

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

/* --- hosts ------------------------------------------------------------------------------------- */

struct host {
    struct host *next;
    struct attempt *first, **last; /* leased, waiting for their turn */
    uint32_t queue;
    uint32_t in_flight;
    size_t name_len;
    char name[];
};

/* What stands between // and the path: the host and its port. */
static struct span authority_of(struct span url)
{
    struct span front, rest = url;
    size_t len = 0;

    (void)span_cut(&rest, ':', &front); /* URLs were checked when they came in */
    rest = span_from(rest, 2);
    while (len < rest.len && rest.at[len] != '/' && rest.at[len] != '?') {
        len++;
    }
    return span_until(rest, len);
}

static struct host **host_link(struct engine *engine, const struct attempt *attempt)
{
    struct span name = authority_of(attempt->delivery.url);
    uint64_t hash = attempt->queue->number * UINT64_C(0x9e3779b97f4a7c15);

    for (size_t i = 0; i < name.len; i++) {
        hash = (hash ^ (unsigned char)name.at[i]) * UINT64_C(0x100000001b3);
    }
    struct host **link = &engine->hosts[hash >> 54];
    while (*link != NULL && ((*link)->queue != attempt->queue->number ||
                             !span_equal((struct span){(*link)->name, (*link)->name_len}, name))) {
        link = &(*link)->next;
    }
    return link;
}

static struct host *host_add(struct engine *engine, const struct attempt *attempt)
{
    struct span name = authority_of(attempt->delivery.url);
    struct host **link = host_link(engine, attempt);

    if (*link == NULL) {
        struct host *host = calloc(1, sizeof *host + name.len);
        if (host == NULL) {
            return NULL;
        }
        span_copy(host->name, name);
        host->name_len = name.len;
        host->queue = attempt->queue->number;
        host->last = &host->first;
        *link = host;
    }
    return *link;
}

/* At one host. Among nodes a queue's limit is shared out, so this changes with their number. */
static uint32_t host_max(const struct queue *queue)
{
    return queue->settings.host_concurrency == 0 ? UINT32_MAX : queue->host_concurrency;
}

static struct attempt *host_pop(struct host *host, struct queue *queue)
{
    struct attempt *next = host->first;

    if (next != NULL) {
        host->first = next->next_for_host;
        host->last = host->first == NULL ? &host->first : host->last;
        queue->host_waiting--;
    }
    return next;
}

static void host_drop_if_idle(struct host **link)
{
    struct host *host = *link;

    if (host->in_flight == 0 && host->first == NULL) {
        *link = host->next;
        free(host);
    }
}

/* True: it may go now. False: it waits for its turn. If nothing can be noted down for want of memory
 * it goes all the same. */
bool flow_enter_host(struct engine *engine, struct attempt *attempt)
{
    struct queue *queue = attempt->queue;
    struct host *host = queue->settings.host_concurrency == 0 ? NULL : host_add(engine, attempt);

    if (host == NULL) {
        return true;
    }
    if (host->in_flight < host_max(queue) || PLANT_HERE(HOST_IGNORED)) {
        host->in_flight++;
        attempt->holds_host = true;
        return true;
    }
    attempt->next_for_host = NULL;
    *host->last = attempt;
    host->last = &attempt->next_for_host;
    queue->host_waiting++;
    return false;
}

/* The attempt is over: the next one that waits for its host, now holding its place, or NULL. A limit
 * that has become smaller is reached by those that leave. */
struct attempt *flow_leave_host(struct engine *engine, struct attempt *attempt)
{
    struct queue *queue = attempt->queue;
    struct host **link = host_link(engine, attempt), *host = *link;

    if (!attempt->holds_host || host == NULL) {
        return NULL;
    }
    attempt->holds_host = false;
    struct attempt *next = host->in_flight <= host_max(queue) ? host_pop(host, queue) : NULL;
    if (next != NULL) {
        next->holds_host = true;
        return next;
    }
    host->in_flight--;
    host_drop_if_idle(link);
    return NULL;
}

/* Those that wait for a host line up for a turn, as many as the limit allows now; all of them where the
 * node has no share of the queue any more, to be given back. */
static void host_move(struct host *host, struct queue *queue)
{
    bool is_out = queue->concurrency == 0;
    struct attempt *next = NULL;

    while ((is_out || host->in_flight < host_max(queue)) &&
           (next = host_pop(host, queue)) != NULL) {
        host->in_flight += !is_out;
        next->holds_host = !is_out;
        flow_line_up(next);
    }
}

void flow_move_hosts(struct engine *engine, struct queue *queue)
{
    for (size_t i = 0; i < HOST_BUCKETS && queue->host_waiting > 0; i++) {
        struct host **link = &engine->hosts[i];
        while (*link != NULL) {
            struct host *host = *link;
            if (host->queue == queue->number) {
                host_move(host, queue);
                host_drop_if_idle(link);
            }
            link = *link == host ? &host->next : link;
        }
    }
}

void flow_free_all(struct engine *engine)
{
    for (size_t i = 0; i < HOST_BUCKETS; i++) {
        while (engine->hosts[i] != NULL) {
            struct host *next = engine->hosts[i]->next;
            free(engine->hosts[i]);
            engine->hosts[i] = next;
        }
    }
}
