/* SPDX-License-Identifier: MIT
 *
 * hosts -- how much of a queue may be under way at one target host, and who waits for it. The host of a
 * task is known only once it is leased, so one that finds its host full is leased in vain. It must not
 * hold a place of the queue meanwhile, or one dead host stops the queue for all the others:
 *
 *   leased --> hosts_enter --HOST_FREE--> takes a turn of the queue, is sent
 *                  |--------HOST_LINE---> waits in memory, leased; the line is bounded
 *                  '------HOST_NO_ROOM--> goes back untouched, and is noted ("parked") with its host
 *
 *   a place is free: hosts_leave --> the first of the line goes; the host is "open":
 *                    hosts_pick  --> the next one that is parked there is leased
 *
 * What is parked has moved from the queue's schedule to its host's, 16 bytes as before, so a backlog of
 * a dead host is walked once and not again. How fast is bounded too, for the queue may have no other
 * host (hosts_look.c). Among nodes a lease asks for whatever is due and no row can be parked: what
 * goes back is due a little later (hosts_put_off_ms).
 *
 * Attempts at hosts that give no sign of life take at most half of the places of a queue that has other
 * hosts: a few dead ones must not take them all, each with its own limit. A host beyond that half is "held". It
 * may be well again, or have been well all the time but for one answer, and the attempts before it may hang for
 * a day; so every second one held host has a chance, a single attempt, out of another quarter of the places.
 */
#include "engine/hosts_internal.h"
#include "base/entropy.h"
#include "base/plant.h"

#include <stdlib.h>
#include <string.h>

#define CHANCE_EVERY_MS 1000
#define LEAST_ERROR     400  /* of HTTP's statuses */
#define HASTY_MS        1000 /* a shorter time-out, the task's own wish, says nothing of the host */

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

static bool is_named(const struct host *host, struct span name)
{
    return span_equal((struct span){host->name, host->name_len}, name);
}

struct host *host_find(const struct engine *engine, const struct queue *queue, struct span url)
{
    return host_table_find(engine, queue, authority_of(url));
}

struct host *host_add(struct engine *engine, struct queue *queue, struct span url)
{
    struct span name = authority_of(url);
    struct host *host = host_table_find(engine, queue, name);

    if (host != NULL) {
        return host;
    }
    host = host_table_add(engine, queue, name);
    if (host == NULL) {
        return NULL;
    }
    host->last = &host->first;
    host->has_failed = host_memory_of(engine, host->hash) == HOST_FAILED;
    host->has_answered = host_memory_of(engine, host->hash) == HOST_ANSWERED;
    host->next_of_queue = queue->hosts;
    if (queue->hosts != NULL) {
        queue->hosts->previous_of_queue = host;
    }
    queue->hosts = host;
    queue->host_count++;
    return host;
}

static void host_free(struct host *host)
{
    for (int i = 0; i < WAIT_KINDS; i++) {
        schedule_done(&host->parked[i]);
    }
    free(host);
}

void host_drop_if_idle(struct engine *engine, struct host *host)
{
    struct queue *queue = host->queue;

    if (host->in_flight > 0 || host->first != NULL || host->wanted > 0 || host_parked(host) > 0) {
        return;
    }
    host_unlist(host);
    host_table_drop(engine, host);
    *(host->previous_of_queue != NULL ? &host->previous_of_queue->next_of_queue : &queue->hosts) =
        host->next_of_queue;
    if (host->next_of_queue != NULL) {
        host->next_of_queue->previous_of_queue = host->previous_of_queue;
    }
    host_free(host);
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
           queue->beside_count < queue->concurrency + ahead &&
           (engine->options.attempts_max == 0 ||
            engine->places.beside_count < engine->options.attempts_max);
}

/* No sign of life: one that failed, or that has yet to answer what is under way. */
bool host_is_silent(const struct host *host)
{
    return !host->is_heard && (host->in_flight > 0 || host->has_failed);
}

/* A retry at a host that is not known to have answered the attempt before. */
static bool is_silent_for(const struct host *host, const struct attempt *attempt)
{
    return host_is_silent(host) ||
           (!host->is_heard && !host->has_answered && attempt->life.attempts > 1);
}

static uint32_t part_of(const struct queue *queue, uint32_t divisor)
{
    return queue->concurrency / divisor > 0 ? queue->concurrency / divisor : 1;
}

bool hosts_silent_are_many(const struct queue *queue)
{
    return queue->host_count > 1 && queue->silent_count >= part_of(queue, 2);
}

/* Is there room beyond the half? When it may be used: chance_at_ms. */
static bool has_chances(const struct queue *queue)
{
    return queue->silent_count < part_of(queue, 2) + part_of(queue, 4);
}

bool hosts_have_chance(const struct engine *engine, const struct queue *queue)
{
    return has_chances(queue) && clock_mono_ms(engine->options.clock) >= queue->chance_at_ms;
}

bool host_has_chance(const struct engine *engine, const struct host *host)
{
    return host->in_flight == 0 && host->wanted == 0 && hosts_have_chance(engine, host->queue);
}

void hosts_use_chance(const struct engine *engine, struct queue *queue)
{
    queue->chance_at_ms = clock_mono_ms(engine->options.clock) + CHANCE_EVERY_MS;
}

/* When the next held host has its chance for one of the kinds up to `last`, in wall time; INT64_MAX: not
 * before something else happens. */
int64_t hosts_chance_ms(const struct engine *engine, const struct queue *queue, enum wait_kind last)
{
    bool has_held = false;

    for (int kind = 0; kind <= (int)last; kind++) {
        has_held |= queue->held_hosts[kind].first != NULL;
    }
    if (!has_held || !has_chances(queue)) {
        return INT64_MAX;
    }
    int64_t wait_ms = queue->chance_at_ms - clock_mono_ms(engine->options.clock);
    return engine_now_ms(engine) + (wait_ms > 0 ? wait_ms : 0);
}

bool hosts_are_held(const struct engine *engine, const struct queue *queue, struct span url)
{
    if (!hosts_silent_are_many(queue)) {
        return false;
    }
    struct span name = authority_of(url);
    const struct host *host = host_table_find(engine, queue, name);
    return host != NULL
               ? host_is_silent(host)
               : host_memory_of(engine, host_table_hash(engine, queue, name)) == HOST_FAILED;
}

static void take_place(const struct engine *engine, struct attempt *attempt, struct host *host)
{
    attempt->is_at_silent = is_silent_for(host, attempt);
    attempt->host = host;
    attempt->holds_host = true;
    host->queue->silent_count += attempt->is_at_silent;
    if (attempt->is_at_silent && hosts_silent_are_many(host->queue)) {
        hosts_use_chance(engine, host->queue); /* the last of the half, or one beyond it */
    }
}

static void line_up(struct engine *engine, struct attempt *attempt, struct host *host)
{
    attempt->host = host;
    attempt->next_for_host = NULL;
    *host->last = attempt;
    host->last = &attempt->next_for_host;
    host->line_count++;
    host->queue->line_count++;
    host->queue->beside_count += attempt->waits_beside;
    engine->places.beside_count += attempt->waits_beside;
}

static struct attempt *host_pop(struct engine *engine, struct host *host)
{
    struct attempt *next = host->first;

    if (next != NULL) {
        host->first = next->next_for_host;
        host->last = host->first == NULL ? &host->first : host->last;
        host->line_count--;
        host->queue->line_count--;
        host->queue->beside_count -= next->waits_beside;
        engine->places.beside_count -= next->waits_beside;
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
 * has one upstream and callers who wait, and among nodes what a person wants run is not put off, unless it
 * must not be sent twice: these keep the place that they have. */
static bool must_stay(const struct engine *engine, const struct attempt *attempt)
{
    return attempt->is_trial || attempt->queue->route != NULL ||
           (attempt->is_forced && nodes_are_many(engine) &&
            ((attempt->life.flags & LIFE_ONCE) == 0 || PLANT_HERE(ONCE_IN_LINE)));
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
    bool is_held = is_silent_for(host, attempt) && hosts_silent_are_many(attempt->queue);
    return is_next && (!is_held || attempt->has_chance || host_has_chance(engine, host));
}

/* What its queue had a place for, or leased ahead of its turn, need not go back while answers come quickly: its
 * turn is near. Else no more wait than have places, for a crash counts an attempt for each of them. */
static bool is_lined_up_for(const struct engine *engine, const struct attempt *attempt,
                            const struct host *host)
{
    bool is_near = flow_ahead_max(engine, attempt->queue) > 0;

    return attempt->is_within && !host->has_failed &&
           (is_near || host->line_count < host_max(attempt->queue));
}

/* What must not be sent twice does not wait leased: after a crash it would be taken for sent. */
static enum host_entry wait_for(struct engine *engine, struct attempt *attempt, struct host *host)
{
    bool is_full = host->in_flight >= host_max(attempt->queue);
    bool has_room = attempt->is_recalled ||
                    (host_parked(host) == 0 &&
                     (is_lined_up_for(engine, attempt, host) || host_line_has_room(engine, host)));
    bool is_once = (attempt->life.flags & LIFE_ONCE) != 0 && !attempt->is_recalled;
    bool may_wait = has_room && (!is_once || PLANT_HERE(ONCE_IN_LINE));

    if (is_full && (may_wait || must_stay(engine, attempt))) {
        attempt->waits_beside = !must_stay(engine, attempt);
        line_up(engine, attempt, host);
        return HOST_LINE;
    }
    return HOST_NO_ROOM;
}

/* The lease is committed. If nothing can be noted down for want of memory it goes all the same. */
enum host_entry hosts_enter(struct engine *engine, struct attempt *attempt)
{
    struct queue *queue = attempt->queue;
    bool has_host = queue->settings.fallback == NULL; /* providers have limits of their own */
    bool has_limit = has_host && queue->settings.host_concurrency != 0;
    struct host *host = has_limit ? host_of(engine, attempt) : NULL;

    if (host == NULL) {
        return HOST_FREE;
    }
    if (may_take_place(engine, attempt, host)) {
        take_place(engine, attempt, host);
        host->in_flight++;
        hosts_found(attempt, HOST_FREE);
        return HOST_FREE;
    }
    enum host_entry entry = wait_for(engine, attempt, host);
    hosts_found(attempt, entry);
    host_open(host);
    host_drop_if_idle(engine, host);
    return entry;
}

static void hear(struct engine *engine, struct host *host, const struct attempt *attempt)
{
    const struct delivery *delivery = &attempt->delivery;
    bool is_hasty = delivery->timeout_ms > 0 && delivery->timeout_ms < HASTY_MS &&
                    delivery->outcome.status == 0;

    if (attempt->is_ours || delivery->is_uncounted || is_hasty) {
        return; /* nothing was learnt of it */
    }
    host->is_heard = delivery->outcome.status != 0;
    host->has_answered = delivery->outcome.status >= LEAST_ERROR;
    if (!host->is_heard || host->has_answered) {
        host_memory_note(engine, host, host->has_answered ? HOST_ANSWERED : HOST_FAILED);
    } else if (host->has_failed) {
        host_memory_heard(engine, host);
    }
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
    hear(engine, host, attempt);
    if (attempt->is_at_silent) {
        attempt->is_at_silent = false;
        queue->silent_count--;
        hosts_open_one_held(queue);
    }
    bool is_next = host->in_flight <= host_max(queue) && !PLANT_HERE(HOST_LINE_STUCK);
    struct attempt *next = is_next ? host_pop(engine, host) : NULL;
    if (next != NULL) {
        take_place(engine, next, host);
    } else {
        host->in_flight--;
    }
    host_open(host);
    host_drop_if_idle(engine, host);
    return next;
}

/* Its host may have fewer than when it took its place, and it waited for a turn since. */
bool hosts_are_over(const struct attempt *attempt)
{
    PLANT(HOST_IGNORED, return false)
    return attempt->holds_host && attempt->host->in_flight > host_max(attempt->queue);
}

/* It has not been sent, and leaves its place to those that were. */
void hosts_step_back(struct attempt *attempt)
{
    attempt->host->in_flight--;
    attempt->queue->silent_count -= attempt->is_at_silent;
    attempt->is_at_silent = attempt->holds_host = false;
    attempt->host = NULL;
}

/* --- limits that change -------------------------------------------------------------------------------------- */

static bool may_leave_line(const struct engine *engine, const struct host *host)
{
    bool has_place = host->first != NULL && !host->first->waits_beside;

    return host->in_flight < host_max(host->queue) && (has_place || places_have_room(engine));
}

/* Those that wait for a host line up for a turn, as many as the limit and the places allow now; all of
 * them where the node has no share of the queue any more, to be given back. */
static void host_move(struct engine *engine, struct host *host)
{
    bool is_out = host->queue->concurrency == 0;
    struct attempt *next = NULL;

    while ((is_out || may_leave_line(engine, host)) && (next = host_pop(engine, host)) != NULL) {
        next->host = NULL;
        if (!is_out) {
            take_place(engine, next, host);
            host->in_flight++;
        }
        flow_line_up(next);
    }
    host_open(host);
}

/* Those that are not to be sent any more line up, to be given back. */
static void host_return(struct engine *engine, struct host *host)
{
    for (uint32_t i = host->line_count; i > 0; i--) {
        bool waits_beside = host->first->waits_beside;
        struct attempt *next = host_pop(engine, host);
        next->host = NULL;
        if (give_back_is_due(engine, next)) {
            flow_line_up(next);
        } else {
            next->waits_beside = waits_beside;
            line_up(engine, next, host);
        }
    }
    host_open(host);
}

void hosts_return(struct engine *engine, struct queue *queue)
{
    struct host *host = queue->hosts, *next;

    for (; host != NULL; host = next) {
        next = host->next_of_queue;
        host_return(engine, host);
        host_drop_if_idle(engine, host);
    }
}

/* Once for each change: hosts are many. Where there are too few places the rest follows. */
void hosts_move(struct engine *engine, struct queue *queue)
{
    struct host *host = queue->hosts, *next;
    bool is_cut = false;

    if (queue->moved_at.hosts == host_max(queue) && queue->moved_at.places == queue->concurrency) {
        return;
    }
    for (; host != NULL; host = next) {
        next = host->next_of_queue;
        host_move(engine, host);
        is_cut |= host->first != NULL && host->in_flight < host_max(queue);
        host_drop_if_idle(engine, host);
    }
    if (!is_cut) {
        queue->moved_at.hosts = host_max(queue);
        queue->moved_at.places = queue->concurrency;
    }
}

void hosts_open(struct engine *engine)
{
    entropy_fill(engine->hosts_secret, sizeof engine->hosts_secret);
}

/* Nothing of the queue is under way: what is parked is of tasks that are gone. */
void hosts_forget(struct engine *engine, struct queue *queue)
{
    while (queue->hosts != NULL) {
        struct host *host = queue->hosts;
        queue->hosts = host->next_of_queue;
        host_table_drop(engine, host);
        host_free(host);
    }
    memset(queue->open_hosts, 0, sizeof queue->open_hosts);
    memset(queue->held_hosts, 0, sizeof queue->held_hosts);
    queue->parked_count = queue->parked_forced = queue->host_count = 0;
    host_ages_done(queue);
}

/* Those of the queues, which are freed after this. */
void hosts_free_all(struct engine *engine)
{
    for (size_t i = 0; i < engine->queue_count; i++) {
        hosts_forget(engine, engine->queues[i]);
    }
    host_table_done(engine);
    host_memory_done(engine);
}
