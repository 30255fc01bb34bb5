/* SPDX-License-Identifier: MIT
 *
 * inspect_wait -- those who wait for a task to be settled: long polls of the task API, and callers of
 * the gateway.
 *
 * Waiting without a lost wake-up: the waiter is registered first, then the task is read, then it
 * waits; a settle that falls in between marks the waiter, and the task is read once more.
 *
 * What another node settles is heard of by its word, once it knows that callers wait here
 * (nodes_await); and if that word is lost, or not said, by looking now and then.
 */
#include "engine/kept_internal.h"

#include <stdlib.h>

#define COMMIT_WAIT_MS 5000 /* callers of the gateway: for an answer to be on disk; then 503 */
#define READS_AT_ONCE  1000 /* for those who wait: others want to read too */
#define ROOM_PAUSE_MS  10 /* between two tries to read for those who wait, when there is no room */
#define ROOM_WAIT_MS   5000 /* that a caller waits for room beyond his time; then 503 */
#define LOOKS_AT_ONCE  1000 /* among nodes: of those who wait, about so many are looked at */
#define LOOKS_BETWEEN  50   /* … between two beats */
#define STOP_LOOK_MS                                                                               \
    100 /* while the server stops: between two looks for callers who wait in vain */

static struct waiter **bucket_of(struct engine *engine, int64_t row)
{
    return &engine->waiters[((uint64_t)row * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
}

static bool is_duplicate(const struct waiter *waiter)
{
    return waiter->route != NULL && !waiter->is_first;
}

static void waiter_drop(struct engine *engine, struct waiter *waiter)
{
    *waiter->at = waiter->next;
    if (waiter->next != NULL) {
        waiter->next->at = waiter->at;
    }
    called_leave(&waiter->called);
    engine->waiter_count--;
    engine->away_count -= !waiter->is_first;
    engine->route_waiter_count -= is_duplicate(waiter) && !waiter->is_gone;
    free(waiter);
}

/* Told, or gone away: no longer counted, though a read that is under way comes back to it. */
static void waiter_end(struct engine *engine, struct waiter *waiter)
{
    if (!waiter->is_reading) {
        waiter_drop(engine, waiter);
    } else if (!waiter->is_gone) {
        waiter->is_gone = true;
        called_leave(&waiter->called);
        engine->route_waiter_count -= is_duplicate(waiter);
    }
}

static bool is_over_for(const struct waiter *waiter, const struct record *record)
{
    return waiter->route != NULL ? replay_is_over(waiter, record) : inspect_is_over(&record->life);
}

static void tell(struct engine *engine, const struct waiter *waiter, struct read *read)
{
    if (waiter->route != NULL && read->fault != 0) {
        inspect_unread(engine, waiter->exchange, 0);
    } else if (waiter->route == NULL) {
        inspect_reply(engine, read);
    } else if (read->record_count == 0) {
        replay_missing(engine, waiter->exchange);
    } else {
        replay_tell(engine, waiter, &read->records[0], read->stamp);
    }
}

static bool waiter_read(struct engine *engine, struct waiter *waiter);

static void waiter_seen(struct engine *engine, struct read *read)
{
    struct waiter *waiter = read->waiter;
    bool is_over =
        read->fault == 0 && (read->record_count == 0 || is_over_for(waiter, &read->records[0]));
    bool is_news = is_over && waiter->is_looked_at;           /* others wait for it in vain */
    bool is_lost = read->fault != 0 && !waiter->is_looked_at; /* a look is repeated */
    struct task_id id = waiter->id;

    waiter->is_reading = false;
    engine->waiter_read_count--;
    engine->looking_count -= waiter->is_looked_at;
    waiter->is_looked_at = false;
    if (waiter->is_gone) {
        waiter_drop(engine, waiter);
    } else if (is_over || is_lost || waiter->is_late) {
        tell(engine, waiter, read);
        waiter_drop(engine, waiter);
    } else if (waiter->is_woken) {
        (void)waiter_read(engine, waiter); /* a tick looks again */
    }
    if (is_news) {
        inspect_wake(engine, id);
    }
}

/* False: there is no room to read now. */
static bool waiter_begin_read(struct engine *engine, struct waiter *waiter)
{
    bool has_room = engine->waiter_read_count < READS_AT_ONCE;
    struct read *read = has_room ? inspect_new(READ_TASK) : NULL;

    if (read != NULL) {
        read->id = waiter->id;
        read->wants = READ_BODIES | (waiter->route == NULL ? READ_TRAIL : 0);
        read->reply = REPLY_TASK;
        read->exchange = waiter->exchange;
        read->waiter = waiter;
        read->reach = waiter->reach;
        read->render = waiter->route == NULL ? engine->options.render : NULL;
        read->render_user = engine->options.render_user;
        read->then = waiter_seen;
    }
    waiter->is_reading = read != NULL && inspect_start(engine, read);
    engine->waiter_read_count += waiter->is_reading;
    waiter->is_woken = waiter->is_woken && !waiter->is_reading;
    return waiter->is_reading;
}

static bool has_waited_enough(const struct engine *engine, const struct waiter *waiter)
{
    return clock_mono_ms(engine->options.clock) >= waiter->until_ms + ROOM_WAIT_MS;
}

static void send_away(struct engine *engine, struct waiter *waiter)
{
    if (waiter->route != NULL) {
        inspect_unread(engine, waiter->exchange, 0);
    } else {
        inspect_no_room(engine, waiter->exchange, 0);
    }
    waiter_drop(engine, waiter);
}

/* A tick looks at those who wait no later than this. */
static void look_by(struct engine *engine, int64_t at_ms)
{
    engine->waiter_next_ms = at_ms < engine->waiter_next_ms ? at_ms : engine->waiter_next_ms;
}

/* More may wait for one task than can read at once. Where there is no room now (false) a tick looks
 * again soon; no caller is sent away before his time is over, and a while. */
static bool waiter_read(struct engine *engine, struct waiter *waiter)
{
    int64_t again_ms = clock_mono_ms(engine->options.clock) + ROOM_PAUSE_MS;

    if (waiter_begin_read(engine, waiter)) {
        return true;
    }
    if (has_waited_enough(engine, waiter)) {
        send_away(engine, waiter);
        return false;
    }
    waiter->is_woken = true;
    look_by(engine, again_ms);
    return false;
}

/* Registers a caller who waits, and reads the task unless it is known that it is still under way.
 * False: no memory; no reply was sent. */
bool inspect_wait(struct engine *engine, const struct waiter *like, bool is_known)
{
    struct waiter *waiter = calloc(1, sizeof *waiter);

    if (waiter == NULL) {
        return false;
    }
    struct waiter **bucket = bucket_of(engine, like->id.row);
    *waiter = *like;
    waiter->next = *bucket;
    waiter->at = bucket;
    if (waiter->next != NULL) {
        waiter->next->at = &waiter->next;
    }
    *bucket = waiter;
    callers_add(&engine->waiting, &waiter->called, waiter->exchange);
    engine->waiter_count++;
    engine->away_count += !waiter->is_first;
    if (!waiter->is_first) {
        nodes_await(engine);
    }
    engine->route_waiter_count += is_duplicate(waiter);
    look_by(engine, engine->is_draining ? engine->stop_look_ms : waiter->until_ms);
    if (!is_known) {
        (void)waiter_read(engine, waiter); /* a tick looks again */
    }
    return true;
}

/* The task has moved: callers who wait for it look again. */
void inspect_wake(struct engine *engine, struct task_id id)
{
    struct waiter *next;

    for (struct waiter *waiter = *bucket_of(engine, id.row); waiter != NULL; waiter = next) {
        next = waiter->next;
        if (waiter->id.row != id.row) {
            continue;
        }
        if (waiter->is_reading) {
            waiter->is_woken = true;
        } else {
            (void)waiter_read(engine, waiter); /* a tick looks again */
        }
    }
}

void inspect_moved(struct engine *engine, int64_t row)
{
    for (const struct waiter *waiter = *bucket_of(engine, row); waiter != NULL;
         waiter = waiter->next) {
        if (waiter->id.row == row) {
            engine->stats.peer_words++;
            inspect_wake(engine, waiter->id);
            return;
        }
    }
}

/* The task has moved, and this is what it is now: callers of the gateway are told without a look into
 * the store. One whose read is under way has been told when it comes back. */
void inspect_told(struct engine *engine, const struct record *record, uint64_t stamp)
{
    struct waiter *next;

    for (struct waiter *waiter = *bucket_of(engine, record->task.id.row); waiter != NULL;
         waiter = next) {
        next = waiter->next;
        if (waiter->id.row != record->task.id.row || waiter->route == NULL || waiter->is_gone ||
            !replay_is_over(waiter, record)) {
            continue;
        }
        replay_tell(engine, waiter, record, stamp);
        waiter_end(engine, waiter);
    }
}

/* The first caller, who no longer waits; NOBODY: he has left, or did not want to wait. */
uint64_t inspect_take_first(struct engine *engine, struct task_id id)
{
    for (struct waiter *waiter = *bucket_of(engine, id.row); waiter != NULL;
         waiter = waiter->next) {
        if (waiter->id.row == id.row && waiter->is_first && !waiter->is_gone) {
            uint64_t exchange = waiter->exchange;
            waiter_end(engine, waiter);
            return exchange;
        }
    }
    return NOBODY;
}

/* The answer is there and is being written down: no caller waits for that for ever. */
void inspect_delivered(struct engine *engine, struct task_id id)
{
    int64_t until_ms = clock_mono_ms(engine->options.clock) + COMMIT_WAIT_MS;

    for (struct waiter *waiter = *bucket_of(engine, id.row); waiter != NULL;
         waiter = waiter->next) {
        if (waiter->id.row == id.row && waiter->route != NULL) {
            waiter->is_delivered = true;
            waiter->until_ms = until_ms < waiter->until_ms ? until_ms : waiter->until_ms;
        }
    }
    look_by(engine, until_ms);
}

static bool look_at(struct engine *engine, struct waiter *waiter)
{
    waiter->is_looked_at = waiter_begin_read(engine, waiter);
    engine->looking_count += waiter->is_looked_at;
    return waiter->is_looked_at;
}

/* The caller who caused it is here, and so, as a rule, is its attempt: it will be heard of. */
static bool is_at_home(const struct waiter *first, int64_t row)
{
    for (; first != NULL; first = first->next) {
        if (first->id.row == row && first->is_first) {
            return true;
        }
    }
    return false;
}

/* One of those who wait for a task looks; the others are woken when it has moved. */
static bool look_into(struct engine *engine, struct waiter *first, bool is_beat)
{
    int64_t seen_row = 0;

    for (struct waiter *waiter = first; waiter != NULL; waiter = waiter->next) {
        bool is_seen = waiter->is_reading || waiter->id.row == seen_row ||
                       (!is_beat && is_at_home(first, waiter->id.row));
        if (!is_seen && !look_at(engine, waiter)) {
            return false;
        }
        seen_row = waiter->id.row;
    }
    return true;
}

/* Others may have settled what is waited for. Where many wait it is not all of them at every beat, and
 * none before the last ones were seen, for others want to read too; no caller is sent away because there
 * is no room to look. A few are looked at between beats too: a second is long for a caller who repeats
 * a request that is almost done. */
void inspect_look_again(struct engine *engine, bool is_beat)
{
    size_t most = is_beat ? LOOKS_AT_ONCE : LOOKS_BETWEEN;

    for (size_t i = 0; engine->waiter_count > 0 && i < WAITER_BUCKETS; i++) {
        struct waiter *first = engine->waiters[engine->waiter_bucket % WAITER_BUCKETS];
        if (engine->looking_count >= most || !look_into(engine, first, is_beat)) {
            return;
        }
        engine->waiter_bucket++;
    }
}

/* What its time, or room to read, has brought for one who waits; he may be gone afterwards. False:
 * there is no room. */
static bool waiter_tick(struct engine *engine, struct waiter *waiter, bool has_room)
{
    bool is_over = waiter->until_ms <= clock_mono_ms(engine->options.clock);

    waiter->is_woken |= is_over && !waiter->is_late && !waiter->is_reading;
    waiter->is_late |= is_over;
    if (!waiter->is_woken || waiter->is_reading) {
        return has_room;
    }
    if (has_room) {
        return waiter_read(engine, waiter);
    }
    if (has_waited_enough(engine, waiter)) {
        send_away(engine, waiter);
    }
    return false;
}

static void mark_attended(struct engine *engine, int64_t row)
{
    for (struct waiter *waiter = *bucket_of(engine, row); waiter != NULL; waiter = waiter->next) {
        waiter->is_attended |= waiter->id.row == row;
    }
}

void inspect_drain(struct engine *engine)
{
    engine->stop_look_ms = clock_mono_ms(engine->options.clock);
    look_by(engine, engine->stop_look_ms);
}

/* The server stops: a caller of the gateway whose request has no attempt here would wait for nothing, for
 * none begins any more. Its request is recorded, so the same key finds it after the stop or at a peer. */
static void stop_waiting(struct engine *engine, int64_t now_ms)
{
    struct waiter *next;

    if (engine->waiter_count == 0 || now_ms < engine->stop_look_ms) {
        return;
    }
    engine->stop_look_ms = now_ms + STOP_LOOK_MS;
    for (const struct attempt *each = engine->attempts; each != NULL; each = each->next) {
        mark_attended(engine, each->op.task.id.row);
    }
    for (size_t i = 0; i < WAITER_BUCKETS; i++) {
        for (struct waiter *waiter = engine->waiters[i]; waiter != NULL; waiter = next) {
            next = waiter->next;
            if (waiter->route != NULL && !waiter->is_attended && !waiter->is_gone) {
                replay_stop(engine, waiter->exchange);
                waiter_end(engine, waiter);
            } else {
                waiter->is_attended = false; /* as of this look */
            }
        }
    }
    look_by(engine, engine->stop_look_ms);
}

/* Whose time is over gets the task as it is. */
void inspect_tick(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    int64_t next_ms = INT64_MAX;
    struct waiter *next;
    bool has_room = true;

    if (engine->is_draining) {
        stop_waiting(engine, now_ms);
    }
    if (engine->waiter_count == 0 || now_ms < engine->waiter_next_ms) {
        return;
    }
    for (size_t i = 0; i < WAITER_BUCKETS; i++) {
        for (struct waiter *waiter = engine->waiters[i]; waiter != NULL; waiter = next) {
            next = waiter->next;
            if (waiter->until_ms > now_ms && waiter->until_ms < next_ms) {
                next_ms = waiter->until_ms;
            }
            has_room = waiter_tick(engine, waiter, has_room);
        }
    }
    if (!has_room && now_ms + ROOM_PAUSE_MS < next_ms) {
        next_ms = now_ms + ROOM_PAUSE_MS;
    }
    bool stops = engine->is_draining && engine->stop_look_ms < next_ms;
    engine->waiter_next_ms = stops ? engine->stop_look_ms : next_ms;
}

static struct waiter *find_waiter(struct engine *engine, uint64_t exchange)
{
    struct called *called = callers_find(&engine->waiting, exchange);

    return called == NULL
               ? NULL
               : (struct waiter *)(void *)((char *)called - offsetof(struct waiter, called));
}

void inspect_leave(struct engine *engine, uint64_t exchange)
{
    struct waiter *waiter = find_waiter(engine, exchange);

    if (waiter != NULL) {
        waiter_end(engine, waiter);
    }
}

/* Its time is over. */
void inspect_dismiss(struct engine *engine, uint64_t exchange)
{
    struct waiter *waiter = find_waiter(engine, exchange);
    int64_t now_ms = clock_mono_ms(engine->options.clock);

    if (waiter != NULL && waiter->until_ms > now_ms) {
        waiter->until_ms = now_ms;
        look_by(engine, now_ms);
    }
}
