/* SPDX-License-Identifier: MIT
 *
 * replay -- what the callers of the gateway are told. The first caller is waiter number one: he and
 * those who come with the same key later wait for the task, not for the attempt, and all are answered
 * here, by one rule, from the record.
 *
 *   RECORD --done------> first caller waits ----.                 .--> kept answer, byte for byte
 *          --duplicate-> 202 | 409 | waits -----+-> task moves ---+--> released: that answer, once
 *          --conflict--> 409 | 422              |   (or time is   +--> unsettled: 202 | 409 unknown
 *                                               '--- over)        '--> under way: 202 | 409
 *
 * Nothing is told before it is committed (I1). Nobody is promoted when a key is released: whoever was
 * there gets that answer, and the next request is a first one.
 */
#include "engine/kept_internal.h"
#include "base/plant.h"

#define FIRST_GRACE_MS                                                                             \
    5000 /* beyond deadline and timeout: then the first caller is told how it stands */

static void say(struct engine *engine, uint64_t exchange, const struct route_reply *route)
{
    engine_reply(engine,
                 &(struct reply){.kind = REPLY_ROUTE, .exchange = exchange, .route = route});
}

/* `record`: the task that it is about, which a poll may only see if it is its caller's; NULL: none. */
static void refuse(struct engine *engine, const struct waiter *waiter, const struct record *record,
                   enum route_problem problem, int status)
{
    say(engine, waiter->exchange,
        &(struct route_reply){.said = ROUTE_SAID_REFUSAL,
                              .route = waiter->route,
                              .id = waiter->id,
                              .scope = record != NULL ? record->task.scope : SPAN(""),
                              .is_first = waiter->is_first,
                              .problem = problem,
                              .status = status});
}

/* --- the rule ---------------------------------------------------------------------------------------- */

/* A caller gets a 202 who has asked for it, or whose route says so: others take it for the answer of the
 * upstream. What is under way and what is not known are told in one way. */
static void say_progress(struct engine *engine, const struct waiter *waiter,
                         const struct record *record, bool is_unknown)
{
    const struct route_settings *route = waiter->route;

    if (route_way_told(route) == ROUTE_WAY_CONFLICT && !waiter->is_async) {
        refuse(engine, waiter, record,
               is_unknown ? ROUTE_PROBLEM_OUTCOME_UNKNOWN : ROUTE_PROBLEM_KEY_IN_PROGRESS, 0);
        return;
    }
    say(engine, waiter->exchange,
        &(struct route_reply){.said = ROUTE_SAID_PROGRESS,
                              .route = route,
                              .id = record->task.id,
                              .scope = record->task.scope,
                              .is_first = waiter->is_first,
                              .is_unknown = is_unknown,
                              .state = record->life.state});
}

static void say_answer(struct engine *engine, const struct waiter *waiter,
                       const struct record *record, uint64_t stamp)
{
    static const struct answer nothing = {.status = 204};
    struct answer answer = record->answer;
    bool is_kept = record->is_bound, is_omitted = (record->life.flags & LIFE_OMITTED) != 0;

    if (record->answer.status == 0 && record->life.state != TASK_SUCCEEDED) {
        refuse(engine, waiter, record, is_kept ? ROUTE_PROBLEM_FAILED : ROUTE_PROBLEM_NOT_DONE, 0);
        return;
    }
    engine->stats.replayed += !waiter->is_first && is_kept;
    if (route_is_untold(record)) {
        route_say_untold(engine, waiter->exchange,
                         &(struct route_untold){.route = waiter->route,
                                                .id = record->task.id,
                                                .scope = record->task.scope,
                                                .status = record->answer.status,
                                                .is_first = waiter->is_first,
                                                .is_kept = is_kept,
                                                .is_free = !is_kept});
        return;
    }
    if (!is_omitted) {
        kept_put(engine, record, stamp);
    } else if (!waiter->is_first) { /* it may still be here, and the store had no room for it */
        answer.body = SPAN("");
    }
    say(engine, waiter->exchange,
        &(struct route_reply){
            .said = is_kept ? ROUTE_SAID_ANSWER : ROUTE_SAID_UNKEPT,
            .route = waiter->route,
            .id = record->task.id,
            .scope = record->task.scope,
            .answer = answer.status != 0 ? &answer : &nothing,
            .is_first = waiter->is_first,
            .is_omitted = is_omitted,
        });
}

void replay_tell(struct engine *engine, const struct waiter *waiter, const struct record *record,
                 uint64_t stamp)
{
    switch (record->life.state) {
    case TASK_SUCCEEDED:
    case TASK_FAILED:
    case TASK_DEAD:
        say_answer(engine, waiter, record, stamp);
        break;
    case TASK_CANCELLED:
        refuse(engine, waiter, record, ROUTE_PROBLEM_CANCELLED, 0);
        break;
    case TASK_UNSETTLED:
        say_progress(engine, waiter, record, true);
        break;
    case TASK_GONE:
        refuse(engine, waiter, record, ROUTE_PROBLEM_RESULT_EXPIRED, 0);
        break;
    case TASK_WAITING:
    case TASK_RUNNING:
    case TASK_STATE_COUNT:
    default:
        if (waiter->is_delivered) { /* recorded, and done: not a refusal */
            refuse(engine, waiter, record, ROUTE_PROBLEM_STORE_UNKNOWN, 0);
        } else {
            say_progress(engine, waiter, record, false);
        }
        break;
    }
}

/* A task that is in doubt is worth waiting for only when somebody is asking about it. */
bool replay_is_over(const struct waiter *waiter, const struct record *record)
{
    const struct route_settings *route = waiter->route;

    if (record->life.state == TASK_UNSETTLED) {
        return route->ambiguous != ROUTE_AMBIGUOUS_PROBE || route->in_progress != ROUTE_WAY_WAIT;
    }
    return task_is_settled(record->life.state) || record->life.state == TASK_GONE;
}

/* Purged while somebody waited for it. */
void replay_missing(struct engine *engine, uint64_t exchange)
{
    say(engine, exchange,
        &(struct route_reply){.said = ROUTE_SAID_REFUSAL, .problem = ROUTE_PROBLEM_RESULT_EXPIRED});
}

void replay_stop(struct engine *engine, uint64_t exchange)
{
    say(engine, exchange,
        &(struct route_reply){.said = ROUTE_SAID_REFUSAL, .problem = ROUTE_PROBLEM_DRAINING});
}

/* What the store would say, without asking it. */
bool engine_replay(struct engine *engine, const struct submission *in)
{
    const struct queue *queue = engine->cache == NULL ? NULL : engine_find_queue(engine, in->queue);
    struct task task = {.scope = in->scope, .key = in->key};
    struct cache_hit hit;

    if (queue == NULL || engine->is_draining) {
        return false;
    }
    task.queue = queue->number;
    memcpy(task.fingerprint, in->fingerprint, sizeof task.fingerprint);
    if (!kept_find(engine, &task, &hit)) {
        return false;
    }
    struct route_reply route = {.said = ROUTE_SAID_ANSWER,
                                .route = queue->route,
                                .id = hit.id,
                                .scope = in->scope,
                                .answer = hit.answer,
                                .is_omitted = hit.is_omitted};
    engine->stats.requests[BY_GATEWAY][in->key.len > 0]++;
    engine->stats.key_answers[BY_GATEWAY][hit.is_same ? KEY_REPLAYED : KEY_CONFLICT]++;
    engine->stats.duplicates += hit.is_same;
    engine->stats.replayed += hit.is_same;
    engine->stats.replayed_held += hit.is_same;
    engine->stats.conflicts += !hit.is_same;
    if (!hit.is_same) {
        route.said = ROUTE_SAID_REFUSAL;
        route.problem = ROUTE_PROBLEM_KEY_CONFLICT;
        route.status = (int)queue->route->mismatch;
    }
    say(engine, in->exchange, &route);
    return true;
}

/* --- those who come ---------------------------------------------------------------------------------- */

static int64_t least(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* The first caller waits for as long as his request can take, unless he wants otherwise. */
static int64_t first_wait_ms(const struct route_settings *route, const struct route_wish *wish)
{
    if (wish->has_wait) {
        return least(wish->wait_ms, route->wait_ms);
    }
    return wish->is_async ? 0 : route->deadline_ms + route->timeout_ms + FIRST_GRACE_MS;
}

static int64_t duplicate_wait_ms(const struct engine *engine, const struct route_settings *route,
                                 const struct route_wish *wish)
{
    bool is_full = engine->options.waiters_max != 0 &&
                   engine->route_waiter_count >= engine->options.waiters_max;

    if (is_full) {
        return 0;
    }
    if (wish->has_wait) {
        return least(wish->wait_ms, route->wait_ms);
    }
    return !wish->is_async && route->in_progress == ROUTE_WAY_WAIT ? route->wait_ms : 0;
}

static struct waiter waiter_of(const struct engine *engine, const struct attempt *attempt,
                               int64_t wait_ms)
{
    return (struct waiter){.exchange = attempt->exchange,
                           .id = attempt->op.task.id,
                           .until_ms = clock_mono_ms(engine->options.clock) + wait_ms,
                           .route = attempt->queue->route,
                           .is_async = attempt->wish.is_async};
}

/* The RECORD was done: this is the first caller. */
void replay_recorded(struct engine *engine, struct attempt *attempt)
{
    int64_t wait_ms = first_wait_ms(attempt->queue->route, &attempt->wish);
    struct waiter first = waiter_of(engine, attempt, wait_ms);
    const struct record record = {.task = attempt->op.task, .life = attempt->op.life};

    first.is_first = true;
    bool is_over = replay_is_over(&first, &record); /* in doubt from the beginning: restored.c */
    if (wait_ms == 0 || is_over || !inspect_wait(engine, &first, true)) {
        replay_tell(engine, &first, &record, 0);
        arena_uncount(attempt->arena); /* no caller's any more: limits.attempts bounds it */
    }
}

/* A duplicate of something that is under way, and nobody wants to wait: the result of the RECORD says
 * all there is to say. */
static bool tell_at_once(struct engine *engine, const struct attempt *attempt,
                         const struct waiter *waiter, int64_t wait_ms)
{
    const struct record record = {.task = {.id = attempt->op.task.id}, .life = attempt->op.life};
    bool is_open = !task_is_settled(record.life.state);

    if (!is_open || (wait_ms > 0 && !replay_is_over(waiter, &record))) {
        return false;
    }
    replay_tell(engine, waiter, &record, 0);
    return true;
}

/* The RECORD was not done: the key belongs to a request that came before. */
void replay_found(struct engine *engine, struct attempt *attempt)
{
    const struct route_settings *route = attempt->queue->route;
    int64_t wait_ms = duplicate_wait_ms(engine, route, &attempt->wish);
    struct waiter other = waiter_of(engine, attempt, wait_ms);

    if (attempt->op.result == RESULT_CONFLICT) {
        refuse(engine, &other, NULL, ROUTE_PROBLEM_KEY_CONFLICT, (int)route->mismatch);
        return;
    }
    if (attempt->op.result == RESULT_GONE) {
        refuse(engine, &other, NULL, ROUTE_PROBLEM_RESULT_EXPIRED, 0);
        return;
    }
    if (!tell_at_once(engine, attempt, &other, wait_ms) && !inspect_wait(engine, &other, false)) {
        refuse(engine, &other, NULL, ROUTE_PROBLEM_OVERLOADED, 0);
    }
}

/* The SETTLE of a route's attempt is committed: whoever waits is told from memory. */
void replay_settled(struct engine *engine, struct attempt *attempt)
{
    PLANT(UNKEPT_TOLD, attempt->answer = attempt->unkept)
    const struct record record = {
        .task = attempt->task,
        .life = attempt->op.life,
        .answer = attempt->op.answer == NULL ? (struct answer){0}
                  : attempt->op.releases_key ? attempt->unkept
                                             : attempt->answer,
        .is_bound = !attempt->op.releases_key,
    };

    engine->stats.released += attempt->op.releases_key;
    replay_note_untold(engine, attempt->queue, &record);
    inspect_told(engine, &record, attempt->stamp);
}

void replay_note_untold(struct engine *engine, struct queue *queue, const struct record *record)
{
    char id[ID_TEXT_LEN + 1];

    if (record->answer.status == 0 || !route_is_untold(record)) {
        return;
    }
    id_format(record->task.id, id);
    sums_log(
        engine,
        &(struct sums_line){
            .event = "answer_untold",
            .level = DARUMA_LOG_WARN,
            .queue = queue,
            .own = {daruma_log_text("task", id)},
            .own_count = 1,
            .shared = {daruma_log_int("status", record->answer.status),
                       daruma_log_text("code", route_problem_code(ROUTE_PROBLEM_HEADER_TOO_LONG))},
            .shared_count = 2,
        });
}

/* --- polls ------------------------------------------------------------------------------------------- */

static void polled(struct engine *engine, struct read *read)
{
    struct waiter poller = {.exchange = read->exchange, .id = read->id, .is_async = true};
    const struct queue *queue =
        read->record_count == 0 ? NULL : engine_queue_at(engine, read->records[0].task.queue);
    const struct record *record = read->records;

    if (read->fault != 0) {
        engine_reply_fault(engine, read->exchange, 0, &read->error);
        return;
    }
    if (queue == NULL || queue->route == NULL || (record->life.flags & LIFE_ROUTE) == 0) {
        refuse(engine, &poller, NULL, ROUTE_PROBLEM_REQUEST_UNKNOWN, 0);
        return;
    }
    poller.route = queue->route;
    if (task_is_settled(record->life.state) && !record->is_bound) {
        say(engine, poller.exchange,
            &(struct route_reply){.said = ROUTE_SAID_REFUSAL,
                                  .route = queue->route,
                                  .id = poller.id,
                                  .scope = record->task.scope,
                                  .problem = ROUTE_PROBLEM_KEY_RELEASED});
        return;
    }
    replay_tell(engine, &poller, record, read->stamp);
}

/* --- forgetting -------------------------------------------------------------------------------------- */

/* An operator may have forgotten it a moment ago, and asks again to be sure. */
static void tell_missing(struct engine *engine, uint64_t exchange)
{
    forget_tell(engine, &(struct forgotten){.kind = REPLY_UNKNOWN_TASK, .exchange = exchange});
}

static void forgotten(struct engine *engine, struct errand *errand)
{
    const struct op *op = &errand->op;
    const struct record record = {.task = op->task, .life = op->life};
    struct queue *queue = engine_queue_at(engine, op->task.queue);
    struct reply reply = {.kind = REPLY_BUSY, .exchange = errand->exchange, .record_count = 1};

    if (op->fault != 0) {
        engine_reply_fault(engine, errand->exchange, 0, &op->error);
    } else if (op->result == RESULT_DONE) {
        engine->stats.purged++;
        if (queue != NULL) {
            engine_count_out(engine, queue, &op->life);
        }
        cache_clear(engine->cache);
        inspect_wake(engine, op->task.id);
        forget_tell(engine,
                    &(struct forgotten){.kind = REPLY_DELETED, .exchange = errand->exchange});
    } else if (op->result == RESULT_MISSING) {
        tell_missing(engine, errand->exchange);
    } else {
        reply.records = &record;
        engine_reply(engine, &reply);
    }
    errand_free(errand);
}

/* Only what came through the gateway, and has ended: what waits has callers. */
static void forget(struct engine *engine, struct read *read)
{
    struct errand *errand = read->errand;
    const struct record *record = read->records;
    bool is_found = read->record_count > 0 && (record->life.flags & LIFE_ROUTE) != 0;
    struct reply reply = {.kind = REPLY_BUSY, .exchange = read->exchange, .record_count = 1};

    if (read->fault == 0 && is_found && record->life.state != TASK_WAITING) {
        if (!errand_start(engine, errand)) {
            inspect_no_room(engine, read->exchange, 0);
        }
        return;
    }
    errand_free(errand);
    if (read->fault != 0) {
        engine_reply_fault(engine, read->exchange, 0, &read->error);
        return;
    }
    if (!is_found) {
        tell_missing(engine, read->exchange);
        return;
    }
    reply.records = record;
    engine_reply(engine, &reply);
}

static struct errand *forget_errand(struct engine *engine, const struct ask *ask)
{
    struct errand *errand = errand_new(engine, OP_PURGE);

    if (errand != NULL) {
        errand->op.task.id = ask->id;
        errand->exchange = ask->exchange;
        errand->then = forgotten;
        audit_fill(errand, ask, "forget");
    }
    return errand;
}

void replay_ask(struct engine *engine, const struct ask *ask)
{
    struct read *read = inspect_new(READ_TASK);

    if (read != NULL) {
        read->id = ask->id;
        read->wants = READ_BODIES;
        read->reach = ask->reach;
        read->exchange = ask->exchange;
        read->errand = ask->kind == ASK_FORGET ? forget_errand(engine, ask) : NULL;
        read->then = ask->kind == ASK_FORGET ? forget : polled;
    }
    struct errand *errand = read != NULL ? read->errand : NULL;
    bool is_lost = read == NULL || (ask->kind == ASK_FORGET && errand == NULL);
    if (is_lost) {
        inspect_drop(read);
    }
    if (is_lost || !inspect_start(engine, read)) {
        errand_free(errand);
        inspect_no_room(engine, ask->exchange, 0);
    }
}
