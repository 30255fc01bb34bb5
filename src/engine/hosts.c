/* SPDX-License-Identifier: MIT
 *
 * hosts -- how much of a queue may be under way at one target host, and who waits for it. The host of a
 * task is known only once it is leased, so one that finds its host full is leased in vain. It must not
 * hold a place of the queue meanwhile, or one dead host stops the queue for all the others:
 *
 *   leased --> hosts_enter --HOST_FREE--> takes a turn of the queue, is sent
 *                  |--------HOST_LINE---> waits in memory, leased; the line is bounded
 *                  '--------HOST_FULL---> goes back untouched, and is noted ("parked") with its host
 *
 *   a place is free: hosts_leave --> the first of the line goes; the host is "open":
 *                    hosts_pick  --> the next one that is parked there is leased
 *
 * What is parked has moved from the queue's schedule to its host's, 16 bytes as before, so a backlog of
 * a dead host is walked once and not again. How fast is bounded too, for the queue may have no other
 * host (hosts_may_look). Among nodes a lease asks for whatever is due and no row can be parked: what
 * goes back is due a little later (hosts_put_off_ms).
 *
 * Attempts at hosts that give no sign of life take at most half of the places of a queue that has other
 * hosts: a few dead ones must not take them all, each with its own limit.
 */
#include "engine/hosts_internal.h"
#include "base/plant.h"

#include <stdlib.h>

/* --- the table ----------------------------------------------------------------------------------- */

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

static size_t bucket_of(const struct queue *queue, struct span name)
{
    uint64_t hash = queue->number * UINT64_C(0x9e3779b97f4a7c15);

    for (size_t i = 0; i < name.len; i++) {
        hash = (hash ^ (unsigned char)name.at[i]) * UINT64_C(0x100000001b3);
    }
    return (size_t)(hash >> 54);
}

static bool is_named(const struct host *host, struct span name)
{
    return span_equal((struct span){host->name, host->name_len}, name);
}

struct host *host_find(const struct engine *engine, const struct queue *queue, struct span url)
{
    struct span name = authority_of(url);
    struct host *host = engine->hosts[bucket_of(queue, name)];

    while (host != NULL && (host->queue != queue || !is_named(host, name))) {
        host = host->next;
    }
    return host;
}

struct host *host_add(struct engine *engine, struct queue *queue, struct span url)
{
    struct span name = authority_of(url);
    struct host *host = host_find(engine, queue, url);

    if (host != NULL) {
        return host;
    }
    host = calloc(1, sizeof *host + name.len);
    if (host == NULL) {
        return NULL;
    }
    span_copy(host->name, name);
    host->name_len = name.len;
    host->queue = queue;
    host->last = &host->first;
    host->bucket = bucket_of(queue, name);
    host->next = engine->hosts[host->bucket];
    engine->hosts[host->bucket] = host;
    host->next_of_queue = queue->hosts;
    if (queue->hosts != NULL) {
        queue->hosts->previous_of_queue = host;
    }
    queue->hosts = host;
    queue->host_count++;
    return host;
}

void host_drop_if_idle(struct engine *engine, struct host *host)
{
    struct queue *queue = host->queue;
    struct host **link = &engine->hosts[host->bucket];

    if (host->in_flight > 0 || host->first != NULL || host->wanted > 0 || host_parked(host) > 0) {
        return;
    }
    host_unlist(host);
    while (*link != host) {
        link = &(*link)->next;
    }
    *link = host->next;
    *(host->previous_of_queue != NULL ? &host->previous_of_queue->next_of_queue : &queue->hosts) =
        host->next_of_queue;
    if (host->next_of_queue != NULL) {
        host->next_of_queue->previous_of_queue = host->previous_of_queue;
    }
    for (int i = 0; i < WAIT_KINDS; i++) {
        schedule_done(&host->parked[i]);
    }
    free(host);
    if (--queue->host_count == 1) { /* the last one has all places for itself */
        hosts_open_held(queue);
    }
}

/* --- how much ---------------------------------------------------------------------------------------- */

/* At one host. Among nodes a queue's limit is shared out, so this changes with their number. */
uint32_t host_max(const struct queue *queue)
{
    return queue->settings.host_concurrency == 0 ? UINT32_MAX : queue->host_concurrency;
}

/* In line for it, leased: as many again, and what its queue leases ahead. */
bool host_line_has_room(const struct engine *engine, const struct host *host)
{
    const struct queue *queue = host->queue;
    uint32_t ahead = host->is_heard ? flow_ahead_max(engine, queue) : 0;

    return host->line_count + host->wanted < host_max(queue) + ahead &&
           queue->host_waiting < queue->concurrency + ahead &&
           (engine->options.attempts_max == 0 ||
            engine->places.host_waiting < engine->options.attempts_max);
}

/* No sign of life: one that failed, or that has yet to answer what is under way. */
bool host_is_silent(const struct host *host)
{
    return !host->is_heard && (host->in_flight > 0 || host->has_failed);
}

static bool is_silent_for(const struct host *host, const struct attempt *attempt)
{
    return host_is_silent(host) || (!host->is_heard && attempt->life.attempts > 1);
}

bool hosts_silent_are_many(const struct queue *queue)
{
    uint32_t most = queue->concurrency / 2 > 0 ? queue->concurrency / 2 : 1;

    return queue->host_count > 1 && queue->silent_count >= most;
}

static void take_place(struct attempt *attempt, struct host *host)
{
    attempt->is_at_silent = is_silent_for(host, attempt);
    attempt->host = host;
    attempt->holds_host = true;
    host->queue->silent_count += attempt->is_at_silent;
}

static void line_up(struct engine *engine, struct attempt *attempt, struct host *host)
{
    attempt->host = host;
    attempt->next_for_host = NULL;
    *host->last = attempt;
    host->last = &attempt->next_for_host;
    host->line_count++;
    host->queue->host_waiting += attempt->waits_beside;
    engine->places.host_waiting += attempt->waits_beside;
}

static struct attempt *host_pop(struct engine *engine, struct host *host)
{
    struct attempt *next = host->first;

    if (next != NULL) {
        host->first = next->next_for_host;
        host->last = host->first == NULL ? &host->first : host->last;
        host->line_count--;
        host->queue->host_waiting -= next->waits_beside;
        engine->places.host_waiting -= next->waits_beside;
        next->waits_beside = false;
    }
    return next;
}

/* --- in and out ------------------------------------------------------------------------------------------ */

/* Leased from what was parked, and perhaps its target was changed meanwhile: then it is as any other. */
static struct host *host_of(struct engine *engine, struct attempt *attempt)
{
    struct host *asked = attempt->host;

    attempt->host = NULL;
    if (asked != NULL) {
        asked->wanted--;
        if (is_named(asked, authority_of(attempt->delivery.url))) {
            return asked;
        }
        attempt->is_recalled = false;
        host_open(asked);
        host_drop_if_idle(engine, asked);
    }
    return host_add(engine, attempt->queue, attempt->delivery.url);
}

/* What has no room is parked. But a trial of a target that is down stands for its whole queue, a route
 * has one upstream and callers who wait, and among nodes what a person wants run cannot be put off:
 * these keep the place that they have. */
static bool must_stay(const struct engine *engine, const struct attempt *attempt)
{
    return attempt->is_trial || attempt->queue->route != NULL ||
           (attempt->is_forced && nodes_are_many(engine));
}

static bool may_take_place(const struct engine *engine, const struct attempt *attempt,
                           const struct host *host)
{
    if (host->in_flight >= host_max(attempt->queue)) {
        return PLANT_HERE(HOST_IGNORED);
    }
    if (must_stay(engine, attempt)) {
        return true;
    }
    bool is_next = attempt->is_recalled || attempt->is_forced || host_parked(host) == 0;
    return is_next && !(is_silent_for(host, attempt) && hosts_silent_are_many(attempt->queue));
}

static enum host_entry wait_for(struct engine *engine, struct attempt *attempt, struct host *host)
{
    struct queue *queue = attempt->queue;
    bool is_full = host->in_flight >= host_max(queue);
    bool may_line_up =
        attempt->is_recalled || (host_parked(host) == 0 && host_line_has_room(engine, host));

    if (is_full && (may_line_up || must_stay(engine, attempt))) {
        attempt->waits_beside = !must_stay(engine, attempt);
        line_up(engine, attempt, host);
        return HOST_LINE;
    }
    queue->look_tokens -= !attempt->is_recalled;
    return HOST_FULL;
}

/* The lease is committed. If nothing can be noted down for want of memory it goes all the same; a node
 * that has no share of the queue any more has no turn for it either, and gives it back. */
enum host_entry hosts_enter(struct engine *engine, struct attempt *attempt)
{
    struct queue *queue = attempt->queue;
    bool has_limit = queue->settings.host_concurrency != 0 && queue->concurrency != 0;
    struct host *host = has_limit ? host_of(engine, attempt) : NULL;

    if (host == NULL) {
        return HOST_FREE;
    }
    if (may_take_place(engine, attempt, host)) {
        take_place(attempt, host);
        host->in_flight++;
        if (!attempt->is_recalled && !attempt->is_at_silent && queue->host_count > 1) {
            queue->look_tokens = LOOK_BURST; /* it is worth looking further */
        }
        return HOST_FREE;
    }
    enum host_entry entry = wait_for(engine, attempt, host);
    host_open(host);
    host_drop_if_idle(engine, host);
    return entry;
}

static void hear(struct host *host, const struct attempt *attempt)
{
    if (attempt->is_ours || attempt->delivery.is_uncounted) {
        return; /* nothing was learnt of it */
    }
    host->is_heard = attempt->delivery.outcome.status != 0;
    host->has_failed = !host->is_heard;
}

/* The attempt is over: the next one that waits for its host, now holding its place, or NULL. A limit
 * that has become smaller is reached by those that leave. */
struct attempt *hosts_leave(struct engine *engine, struct attempt *attempt)
{
    struct queue *queue = attempt->queue;
    struct host *host = attempt->host;

    if (!attempt->holds_host || host == NULL) { /* it did not even come to its host */
        hosts_unleased(engine, attempt);
        return NULL;
    }
    attempt->holds_host = false;
    attempt->host = NULL;
    hear(host, attempt);
    if (attempt->is_at_silent) {
        attempt->is_at_silent = false;
        queue->silent_count--;
        if (queue->held_hosts.first != NULL) {
            host_put_on_list(queue->held_hosts.first, LIST_OPEN);
        }
    }
    struct attempt *next = host->in_flight <= host_max(queue) ? host_pop(engine, host) : NULL;
    if (next != NULL) {
        take_place(next, host);
    } else {
        host->in_flight--;
    }
    host_open(host);
    host_drop_if_idle(engine, host);
    return next;
}

/* --- limits that change -------------------------------------------------------------------------------------- */

/* Those that wait for a host line up for a turn, as many as the limit allows now; all of them where the
 * node has no share of the queue any more, to be given back. */
static void host_move(struct engine *engine, struct host *host)
{
    bool is_out = host->queue->concurrency == 0;
    struct attempt *next = NULL;

    while ((is_out || host->in_flight < host_max(host->queue)) &&
           (next = host_pop(engine, host)) != NULL) {
        next->host = NULL;
        if (!is_out) {
            take_place(next, host);
            host->in_flight++;
        }
        flow_line_up(next);
    }
    host_open(host);
}

/* Once for each change: hosts are many. */
void hosts_move(struct engine *engine, struct queue *queue)
{
    struct host *host = queue->hosts, *next;

    if (queue->moved_at.hosts == host_max(queue) && queue->moved_at.places == queue->concurrency) {
        return;
    }
    queue->moved_at.hosts = host_max(queue);
    queue->moved_at.places = queue->concurrency;
    for (; host != NULL; host = next) {
        next = host->next_of_queue;
        host_move(engine, host);
        host_drop_if_idle(engine, host);
    }
}

void hosts_free_all(struct engine *engine)
{
    for (size_t i = 0; i < HOST_BUCKETS; i++) {
        while (engine->hosts[i] != NULL) {
            struct host *host = engine->hosts[i];
            engine->hosts[i] = host->next;
            for (int kind = 0; kind < WAIT_KINDS; kind++) {
                schedule_done(&host->parked[kind]);
            }
            free(host);
        }
    }
}
