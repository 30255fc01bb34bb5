/* SPDX-License-Identifier: MIT
 *
 * hosts_parked -- what waits for a host without being leased: see hosts.c. Also who is told that a host
 * has room again, and how fast a backlog is looked through for tasks of other hosts.
 */
#include "engine/hosts_internal.h"

#include <assert.h>

#define PICKS_MAX   64   /* hosts that are looked at for what a person wants run */
#define UNPARK_MOST 4096 /* tasks that leave their hosts in one go */

/* Among nodes: how long a task that found its host full is put off, and how long after the one before it
 * of the same kind. Together what has had no answer takes LOOK_PER_SECOND at most, whatever the number of hosts. */
static const struct {
    int64_t wait_ms, step_ms;
} put_offs[PUT_OFF_KINDS] = {
    [PUT_OFF_HEARD] = {20, 1},
    [PUT_OFF_NEW] = {50, 4},
    [PUT_OFF_FAILED] = {1000, 4},
    [PUT_OFF_ONCE] = {1000, 1},
};

uint64_t host_parked(const struct host *host)
{
    uint64_t count = 0;

    for (int i = 0; i < WAIT_KINDS; i++) {
        count += host->parked[i].count;
    }
    return count;
}

/* --- open and held ones ---------------------------------------------------------------------------- */

static struct host_list_ends *ends_of(struct queue *queue, enum host_list list, enum wait_kind kind)
{
    return list == LIST_OPEN ? &queue->open_hosts[kind] : &queue->held_hosts[kind];
}

/* The most urgent of what is parked there; something is. */
static enum wait_kind host_kind(const struct host *host)
{
    int kind = 0;

    while (kind < WAIT_KINDS - 1 && host->parked[kind].count == 0) {
        kind++;
    }
    return (enum wait_kind)kind;
}

void host_unlist(struct host *host)
{
    if (host->list == LIST_NONE) {
        return;
    }
    struct host_list_ends *ends = ends_of(host->queue, host->list, host->listed_kind);
    *(host->previous_listed != NULL ? &host->previous_listed->next_listed : &ends->first) =
        host->next_listed;
    *(host->next_listed != NULL ? &host->next_listed->previous_listed : &ends->last) =
        host->previous_listed;
    host->next_listed = host->previous_listed = NULL;
    host->list = LIST_NONE;
}

/* At its end: hosts take turns. */
void host_put_on_list(struct host *host, enum host_list list)
{
    struct host_list_ends *ends = ends_of(host->queue, list, host_kind(host));

    host_unlist(host);
    host->listed_kind = host_kind(host);
    host->previous_listed = ends->last;
    *(ends->last != NULL ? &ends->last->next_listed : &ends->first) = host;
    ends->last = host;
    host->list = list;
}

/* It may have room for one that is parked there: hosts_pick finds out. */
void host_open(struct host *host)
{
    bool is_listed = host->list == LIST_OPEN && host->listed_kind == host_kind(host);

    if (!is_listed && host_parked(host) > 0) {
        host_put_on_list(host, LIST_OPEN);
    }
}

/* Something that was parked there is gone. */
static void host_relist(struct host *host)
{
    if (host_parked(host) == 0) {
        host_unlist(host);
    } else if (host->list != LIST_NONE && host->listed_kind != host_kind(host)) {
        host_put_on_list(host, host->list);
    }
}

static struct host *first_of(const struct host_list_ends ends[WAIT_KINDS], enum wait_kind last)
{
    struct host *first = NULL;

    for (int kind = 0; first == NULL && kind <= (int)last; kind++) {
        first = ends[kind].first;
    }
    return first;
}

void hosts_open_one_held(struct queue *queue)
{
    struct host *host = first_of(queue->held_hosts, WAIT_LOW);

    if (host != NULL) {
        host_put_on_list(host, LIST_OPEN);
    }
}

void hosts_open_held(struct queue *queue)
{
    while (first_of(queue->held_hosts, WAIT_LOW) != NULL) {
        hosts_open_one_held(queue);
    }
}

/* --- what is parked ---------------------------------------------------------------------------------------- */

static bool has_place(const struct host *host)
{
    return host->in_flight + host->line_count + host->wanted < host_max(host->queue);
}

/* HELD: it has, but silent hosts have all that they may have. */
static enum host_list room_at(const struct engine *engine, const struct host *host)
{
    if (has_place(host)) {
        bool is_held = host_is_silent(host) && hosts_silent_are_many(host->queue);
        return is_held && !host_has_chance(engine, host) ? LIST_HELD : LIST_OPEN;
    }
    return host->is_heard && host_line_has_room(engine, host) ? LIST_OPEN : LIST_NONE;
}

static enum wait_kind wait_kind_of(const struct life *life)
{
    return (life->flags & LIFE_FORCED) != 0 ? WAIT_FORCED
           : (life->flags & LIFE_LOW) != 0  ? WAIT_LOW
                                            : WAIT_DUE;
}

/* A task that is due and waits: noted with its host. False: there is room, or no memory, and it belongs
 * into the schedule of its queue. */
bool hosts_park(struct engine *engine, struct queue *queue, struct span url,
                const struct life *life, int64_t row)
{
    const struct schedule_entry entry = {
        .due_ms = life->due_at_ms, .row = row, .is_once = (life->flags & LIFE_ONCE) != 0};
    struct host *host = host_add(engine, queue, url);

    if (host == NULL) {
        return false;
    }
    bool is_retry = life->attempts > 0 && !host->has_answered; /* as is_silent_for has it */
    host->has_failed |= !host->is_heard && is_retry;
    bool has_room = host_parked(host) == 0 && room_at(engine, host) == LIST_OPEN;
    if (has_room || !host_ages_reserve(queue, host) ||
        !schedule_add(&host->parked[wait_kind_of(life)], entry)) {
        host_drop_if_idle(engine, host);
        return false;
    }
    host_ages_update(host);
    queue->parked_count++;
    queue->parked_forced += wait_kind_of(life) == WAIT_FORCED;
    host_open(host);
    return true;
}

/* Where a new task goes, if that is known; empty: it is not. */
static struct span url_of_new(const struct queue *queue, struct span target)
{
    return target.len > 0                      ? target
           : queue->settings.target_count == 1 ? queue->settings.targets[0].url
                                               : (struct span){0};
}

/* NULL: it is not known, or nothing is there. */
static const struct host *host_of_new(const struct engine *engine, const struct queue *queue,
                                      struct span target)
{
    struct span url = url_of_new(queue, target);

    return queue->host_count == 0 || url.len == 0 ? NULL : host_find(engine, queue, url);
}

static bool is_held_for_new(const struct engine *engine, const struct queue *queue,
                            struct span target)
{
    struct span url = url_of_new(queue, target);

    return url.len > 0 && queue->route == NULL && hosts_are_held(engine, queue, url);
}

/* Has its host no room for a new task? Then it need not be leased to find that out. */
bool hosts_are_full(const struct engine *engine, const struct queue *queue, struct span target)
{
    const struct host *host = host_of_new(engine, queue, target);

    if (host != NULL && (host_parked(host) > 0 || (host->in_flight >= host_max(queue) &&
                                                   !host_line_has_room(engine, host)))) {
        return true;
    }
    return is_held_for_new(engine, queue, target);
}

/* And does something wait for that host already, behind which it has to wait? Or is it one of the silent
 * ones, which have all that they may have? */
bool hosts_are_noted(const struct engine *engine, const struct queue *queue, struct span target)
{
    const struct host *host = queue->parked_count == 0 ? NULL : host_of_new(engine, queue, target);

    return (host != NULL && host_parked(host) > 0) ||
           (!nodes_are_many(engine) && is_held_for_new(engine, queue, target));
}

/* The first held host of this kind that nothing is under way at is opened, of the first PICKS_MAX. */
static bool give_chance_to(const struct engine *engine, struct queue *queue, enum wait_kind kind)
{
    struct host *host, *passed = NULL;

    for (int i = 0; i < PICKS_MAX && (host = queue->held_hosts[kind].first) != NULL; i++) {
        if (host_has_chance(engine, host)) {
            host_put_on_list(host, LIST_OPEN);
            return true;
        }
        if (host == passed) {
            break;
        }
        passed = passed == NULL ? host : passed;
        host_put_on_list(host, LIST_HELD);
    }
    return false;
}

static void give_chance(const struct engine *engine, struct queue *queue, enum wait_kind last)
{
    for (int kind = 0; kind <= (int)last; kind++) {
        if (give_chance_to(engine, queue, (enum wait_kind)kind)) {
            return;
        }
    }
    hosts_use_chance(engine, queue); /* none: looked for again after a while */
}

/* Where no open host has one of these kinds, a held one is opened, whatever it was that made room for it. */
static void let_held_in(const struct engine *engine, struct queue *queue, enum wait_kind last)
{
    struct host *held = first_of(queue->held_hosts, last);

    if (held == NULL || first_of(queue->open_hosts, last) != NULL) {
        return;
    }
    if (!hosts_silent_are_many(queue)) {
        host_put_on_list(held, LIST_OPEN);
    } else if (hosts_have_chance(engine, queue)) {
        give_chance(engine, queue, last);
    }
}

/* The first of what is parked at a host that has room for it; of the kinds up to `last`. Stays where it
 * is until hosts_take. Each host that has no room leaves the list of open ones, so that it is looked at
 * once for each time that it is opened. */
bool hosts_pick(struct engine *engine, struct queue *queue, enum wait_kind last,
                struct host_pick *ret_pick)
{
    uint64_t within = last == WAIT_FORCED ? queue->parked_forced : queue->parked_count;
    struct host *host = NULL;

    queue->has_pick = false;
    for (int i = 0; within > 0; i++) {
        let_held_in(engine, queue, last);
        host = first_of(queue->open_hosts, last);
        if (host == NULL) {
            return false;
        }
        if (i == PICKS_MAX) {
            engine->has_more_to_do = true;
            return false;
        }
        enum host_list room = room_at(engine, host);
        enum wait_kind kind = host->listed_kind;
        bool has_entry = schedule_first(&host->parked[kind], &ret_pick->entry);
        assert(has_entry);
        if (room == LIST_OPEN && !(ret_pick->entry.is_once && !has_place(host))) {
            ret_pick->host = host;
            ret_pick->kind = kind;
            queue->has_pick = true;
            return true;
        }
        if (room == LIST_HELD) {
            host_put_on_list(host, LIST_HELD);
        } else { /* hosts_leave opens it again; what must not be sent twice does not wait in line */
            host_unlist(host);
        }
    }
    return false;
}

void hosts_take(const struct engine *engine, struct attempt *attempt, const struct host_pick *pick)
{
    struct host *host = pick->host;

    attempt->has_chance = host_is_silent(host) && hosts_silent_are_many(host->queue);
    if (attempt->has_chance) {
        hosts_use_chance(engine, host->queue);
    }
    schedule_pop(&host->parked[pick->kind]);
    host_ages_update(host);
    host->queue->parked_count--;
    host->queue->parked_forced -= pick->kind == WAIT_FORCED;
    host->wanted++;
    attempt->host = host;
    attempt->is_recalled = true;
    host_unlist(host);
    host_open(host);
}

/* The lease was refused. */
void hosts_unleased(struct engine *engine, struct attempt *attempt)
{
    struct host *host = attempt->host;

    hosts_found(attempt, HOST_FREE);
    if (host != NULL) {
        attempt->host = NULL;
        host->wanted--;
        host_open(host);
        host_drop_if_idle(engine, host);
    }
}

static void host_sweep(struct host *host, const struct gone *gone)
{
    struct queue *queue = host->queue;

    for (int kind = 0; kind < WAIT_KINDS; kind++) {
        size_t before = host->parked[kind].count;
        schedule_remove(&host->parked[kind], gone->rows, gone->count);
        size_t removed = before - host->parked[kind].count;
        queue->parked_count -= removed;
        queue->parked_forced -= kind == WAIT_FORCED ? removed : 0;
    }
    host_ages_update(host);
    host_relist(host);
}

/* Takes those tasks out of what is parked: how many entries were looked at. */
size_t hosts_sweep(struct engine *engine, struct queue *queue, const struct gone *gone)
{
    struct host *host = queue->hosts, *next;
    size_t seen = 0;

    for (; host != NULL; host = next) {
        next = host->next_of_queue;
        seen += 1 + (size_t)host_parked(host);
        if (host_parked(host) > 0) {
            host_sweep(host, gone);
            host_drop_if_idle(engine, host);
        }
    }
    return seen;
}

/* Should the node die while it has leased in vain what must not be sent twice, that is in doubt though it
 * was not sent: it comes round seldom. */
static enum put_off put_off_of(const struct host *host, const struct life *life)
{
    return host != NULL && host->has_failed ? PUT_OFF_FAILED
           : (life->flags & LIFE_ONCE) != 0 ? PUT_OFF_ONCE
           : host != NULL && host->is_heard ? PUT_OFF_HEARD
                                            : PUT_OFF_NEW;
}

/* Among nodes: when a task that found its host full is due again. One after the other, over all hosts of
 * the queue, so that large backlogs do not come round at once, and those of dead hosts not faster than they
 * can be looked through: what is overdue of them would go before what is due for other hosts. */
int64_t hosts_put_off_ms(struct engine *engine, const struct attempt *attempt)
{
    struct queue *queue = attempt->queue;
    enum put_off kind = put_off_of(host_find(engine, queue, attempt->delivery.url), &attempt->life);
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    int64_t at_ms = now_ms + put_offs[kind].wait_ms, last_ms = queue->put_off_ms[kind];

    at_ms = last_ms >= at_ms ? last_ms + put_offs[kind].step_ms : at_ms;
    queue->put_off_ms[kind] = at_ms;
    queue->noted_until_ms = at_ms > queue->noted_until_ms ? at_ms : queue->noted_until_ms;
    return engine_now_ms(engine) + at_ms - now_ms;
}

/* --- when the queue's targets are changed -------------------------------------------------------------------- */

static bool schedule_again(struct queue *queue, enum wait_kind kind, struct schedule_entry entry)
{
    return kind == WAIT_FORCED ? schedule_add_once(&queue->forced, entry)
                               : schedule_add(kind == WAIT_LOW ? &queue->low : &queue->due, entry);
}

/* How many have left; what there is no memory for is loaded from the store again. */
static size_t host_unpark(struct engine *engine, struct host *host, size_t most)
{
    struct queue *queue = host->queue;
    struct schedule_entry entry;
    size_t count = 0;

    for (int kind = 0; kind < WAIT_KINDS; kind++) {
        while (count < most && schedule_first(&host->parked[kind], &entry)) {
            schedule_pop(&host->parked[kind]);
            queue->parked_count--;
            queue->parked_forced -= kind == WAIT_FORCED;
            count++;
            if (!schedule_again(queue, (enum wait_kind)kind, entry)) {
                engine->horizon_ms = 0;
            }
        }
    }
    host_ages_update(host);
    host_relist(host);
    return count;
}

/* What is parked may be for other hosts now: it is leased and finds out. False: there is more of it. */
bool hosts_unpark(struct engine *engine, struct queue *queue)
{
    struct host *host = queue->hosts, *next;
    size_t left = UNPARK_MOST;

    for (; host != NULL && left > 0 && queue->parked_count > 0; host = next) {
        next = host->next_of_queue;
        left -= host_parked(host) > 0 ? host_unpark(engine, host, left) : 0;
        host_drop_if_idle(engine, host);
    }
    return queue->parked_count == 0;
}
