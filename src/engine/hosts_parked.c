/* SPDX-License-Identifier: MIT
 *
 * hosts_parked -- what waits for a host without being leased: see hosts.c. Also who is told that a host
 * has room again, and how fast a backlog is looked through for tasks of other hosts.
 */
#include "engine/hosts_internal.h"

#define LOOK_PER_SECOND   500  /* and after that, while the queue's other tasks are answered */
#define PUT_OFF_HEARD_MS  20   /* among nodes: of a host that answers, */
#define PUT_OFF_SILENT_MS 1000 /* and of one that does not */
#define PICKS_MAX         64   /* hosts that are looked at for what a person wants run */

uint64_t host_parked(const struct host *host)
{
    uint64_t count = 0;

    for (int i = 0; i < WAIT_KINDS; i++) {
        count += host->parked[i].count;
    }
    return count;
}

/* --- open and held ones ---------------------------------------------------------------------------- */

static struct host_list_ends *ends_of(struct queue *queue, enum host_list list)
{
    return list == LIST_OPEN ? &queue->open_hosts : &queue->held_hosts;
}

void host_unlist(struct host *host)
{
    if (host->list == LIST_NONE) {
        return;
    }
    struct host_list_ends *ends = ends_of(host->queue, host->list);
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
    struct host_list_ends *ends = ends_of(host->queue, list);

    host_unlist(host);
    host->previous_listed = ends->last;
    *(ends->last != NULL ? &ends->last->next_listed : &ends->first) = host;
    ends->last = host;
    host->list = list;
}

/* It may have room for one that is parked there: hosts_pick finds out. */
void host_open(struct host *host)
{
    if (host->list != LIST_OPEN && host_parked(host) > 0) {
        host_put_on_list(host, LIST_OPEN);
    }
}

void hosts_open_held(struct queue *queue)
{
    while (queue->held_hosts.first != NULL) {
        host_put_on_list(queue->held_hosts.first, LIST_OPEN);
    }
}

/* --- what is parked ---------------------------------------------------------------------------------------- */

/* HELD: it has, but silent hosts have all that they may have. */
static enum host_list room_at(const struct engine *engine, const struct host *host)
{
    uint32_t taken = host->in_flight + host->line_count + host->wanted;

    if (taken < host_max(host->queue)) {
        return host_is_silent(host) && hosts_silent_are_many(host->queue) ? LIST_HELD : LIST_OPEN;
    }
    return host->is_heard && host_line_has_room(engine, host) ? LIST_OPEN : LIST_NONE;
}

static enum wait_kind kind_of(const struct life *life)
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
    host->has_failed |= !host->is_heard && life->attempts > 0; /* as is_silent_for has it */
    bool has_room = host_parked(host) == 0 && room_at(engine, host) == LIST_OPEN;
    if (has_room || !schedule_add(&host->parked[kind_of(life)], entry)) {
        host_drop_if_idle(engine, host);
        return false;
    }
    queue->parked_count++;
    queue->parked_forced += kind_of(life) == WAIT_FORCED;
    host_open(host);
    return true;
}

/* Is the host of a new task noted as full? Then it need not be leased to find that out. */
bool hosts_are_noted(const struct engine *engine, const struct queue *queue, struct span target)
{
    struct span url = target.len > 0                      ? target
                      : queue->settings.target_count == 1 ? queue->settings.targets[0].url
                                                          : (struct span){0};
    const struct host *host =
        queue->parked_count == 0 || url.len == 0 ? NULL : host_find(engine, queue, url);

    return host != NULL && host_parked(host) > 0;
}

/* The first of what is parked at a host that has room for it; of the kinds up to `last`. Stays where it
 * is until hosts_take. */
bool hosts_pick(struct engine *engine, struct queue *queue, enum wait_kind last,
                struct host_pick *ret_pick)
{
    struct host *host;
    uint64_t within = last == WAIT_FORCED ? queue->parked_forced : queue->parked_count;

    for (int i = 0; within > 0 && (host = queue->open_hosts.first) != NULL; i++) {
        if (i == PICKS_MAX) {
            engine->has_more_to_do = true;
            break;
        }
        enum host_list room = room_at(engine, host);
        for (int kind = 0; room == LIST_OPEN && kind <= (int)last; kind++) {
            if (schedule_first(&host->parked[kind], &ret_pick->entry)) {
                ret_pick->host = host;
                ret_pick->kind = (enum wait_kind)kind;
                queue->has_pick = true;
                return true;
            }
        }
        if (room == LIST_NONE) { /* hosts_leave opens it again */
            host_unlist(host);
        } else {
            host_put_on_list(host, room);
        }
    }
    queue->has_pick = false;
    return false;
}

void hosts_take(struct attempt *attempt, const struct host_pick *pick)
{
    struct host *host = pick->host;

    schedule_pop(&host->parked[pick->kind]);
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

    if (host != NULL) {
        attempt->host = NULL;
        host->wanted--;
        host_open(host);
        host_drop_if_idle(engine, host);
    }
}

/* Among nodes: when a task that found its host full is due again. One after the other, so that a large
 * backlog does not come round at once. */
int64_t hosts_put_off_ms(struct engine *engine, const struct attempt *attempt)
{
    struct queue *queue = attempt->queue;
    struct host *host = host_find(engine, queue, attempt->delivery.url);
    bool is_heard = host != NULL && host->is_heard;
    int64_t due_ms = engine_now_ms(engine) + (is_heard ? PUT_OFF_HEARD_MS : PUT_OFF_SILENT_MS);

    if (host != NULL) {
        due_ms = host->put_off_ms >= due_ms ? host->put_off_ms + 1 : due_ms;
        host->put_off_ms = due_ms;
    }
    queue->noted_until_ms = due_ms > queue->noted_until_ms ? due_ms : queue->noted_until_ms;
    return due_ms;
}

/* --- how fast a backlog is looked through ------------------------------------------------------------------- */

/* May something be leased whose host is not known, though one is full? It may be for that one, and go
 * back: two commits for nothing. Where the queue has other work they are counted, and what is found
 * pays for them; where nothing is answered they delay no other task. */
bool hosts_may_look(const struct engine *engine, struct queue *queue)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    const struct host *only = queue->host_count == 1 ? queue->hosts : NULL;
    bool is_noted = nodes_are_many(engine) ? engine_now_ms(engine) < queue->noted_until_ms &&
                                                 (only == NULL || !host_line_has_room(engine, only))
                                           : queue->parked_count > 0;

    if (now_ms > queue->look_at_ms) {
        double earned = (double)(now_ms - queue->look_at_ms) * LOOK_PER_SECOND / 1000;
        queue->look_tokens += earned;
        if (queue->look_tokens > LOOK_BURST || queue->look_at_ms == 0) {
            queue->look_tokens = LOOK_BURST;
        }
        queue->look_at_ms = now_ms;
    }
    return !is_noted || queue->look_tokens >= 1 || flow_ahead_max(engine, queue) == 0;
}

int64_t hosts_oldest_due_ms(const struct queue *queue)
{
    int64_t oldest_ms = INT64_MAX;
    struct schedule_entry first;

    for (const struct host *host = queue->hosts; host != NULL && queue->parked_count > 0;
         host = host->next_of_queue) {
        for (int i = 0; i < WAIT_KINDS; i++) {
            if (schedule_first(&host->parked[i], &first) && first.due_ms < oldest_ms) {
                oldest_ms = first.due_ms;
            }
        }
    }
    return oldest_ms;
}
