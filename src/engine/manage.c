/* SPDX-License-Identifier: MIT
 *
 * manage -- what people do to tasks and queues: run, cancel, create, change, pause, delete. Each is
 * one conditional operation in the store; the answer is what was committed, or what stood in the
 * way.
 */
#include "engine/hold_internal.h"
#include "engine/kept_internal.h"
#include "engine/reach_internal.h"
#include "base/plant.h"
#include "engine/acts.h"

#include <assert.h>
#include <stdlib.h>

struct errand *errand_new(struct engine *engine, enum op_kind kind)
{
    struct errand *errand = calloc(1, sizeof *errand);

    if (errand == NULL) {
        return NULL;
    }
    errand->arena = arena_new(ARENA_MAX);
    if (errand->arena == NULL) {
        free(errand);
        return NULL;
    }
    errand->op.kind = kind;
    errand->op.ticket = TICKET_ERRAND;
    errand->op.arena = errand->arena;
    errand->op.now_ms = engine_now_ms(engine);
    return errand;
}

void errand_free(struct errand *errand)
{
    if (errand != NULL) {
        arena_free(errand->arena);
        free(errand);
    }
}

bool errand_start(struct engine *engine, struct errand *errand)
{
    if (errand != NULL) {
        errand->stamp = kept_stamp(engine);
    }
    if (errand != NULL && engine->options.world.commit(engine->options.world.user, &errand->op)) {
        return true;
    }
    errand_free(errand);
    return false;
}

/* Who does what, to be kept with the operation. An act without anybody behind it leaves no trace. */
void audit_fill(struct errand *errand, const struct ask *ask, const char *act)
{
    if (ask->who.len == 0) {
        return;
    }
    assert(acts_has(span_of(act)));
    errand->audit = (struct audit_row){.at_ms = errand->op.now_ms,
                                       .who = arena_copy(errand->arena, ask->who),
                                       .act = span_of(act),
                                       .subject = arena_copy(errand->arena, ask->queue),
                                       .from_state = -1,
                                       .to_state = -1,
                                       .note = arena_copy(errand->arena, ask->note)};
    errand->op.audit = &errand->audit;
}

static void reply_plain(struct engine *engine, enum reply_kind kind, uint64_t exchange)
{
    engine_reply(engine, &(struct reply){.kind = kind, .exchange = exchange});
}

static void reply_no_room(struct engine *engine, uint64_t exchange)
{
    struct error error = {0};

    (void)fail(&error, FAULT_FULL, "too much waits for the store"); /* the reply carries it */
    engine_reply_fault(engine, exchange, 0, &error);
}

void manage_reply_queue(struct engine *engine, const struct queue *queue, uint64_t exchange,
                        bool is_new)
{
    for (size_t i = 0; i < engine->queue_count; i++) {
        if (engine->queues[i] == queue) {
            struct queue_view view;
            engine_queue_view(engine, i, &view);
            engine_reply(engine, &(struct reply){.kind = REPLY_QUEUE,
                                                 .exchange = exchange,
                                                 .queues = &view,
                                                 .queue_count = 1,
                                                 .is_new = is_new});
            return;
        }
    }
    reply_plain(engine, REPLY_UNKNOWN_QUEUE, exchange); /* it was deleted meanwhile */
}

/* --- one task ----------------------------------------------------------------------------------- */

static void task_moved(struct engine *engine, struct errand *errand)
{
    const struct op *op = &errand->op;
    const struct record record = {.task = {.id = op->task.id, .queue = op->task.queue},
                                  .life = op->life};
    struct queue *queue = engine_queue_at(engine, op->task.queue);

    if (op->fault != 0) {
        engine_reply_fault(engine, errand->exchange, 0, &op->error);
    } else if (op->result == RESULT_MISSING) {
        reply_plain(engine, REPLY_UNKNOWN_TASK, errand->exchange);
    } else if (op->result != RESULT_DONE) {
        engine_reply(engine, &(struct reply){.kind = REPLY_NOT_WAITING,
                                             .exchange = errand->exchange,
                                             .records = &record,
                                             .record_count = 1});
    } else {
        engine->stats.manual[MANUAL_RUN] += op->kind == OP_RUN;
        if (queue != NULL && op->kind == OP_CANCEL) {
            engine_count_move(engine, queue, TASK_WAITING, &op->life);
            numbers_ended(engine, queue, op);
            gone_note(engine, queue, op->task.id.row);
            runs_tally(engine, queue, op->task.id.row, TASK_CANCELLED);
            settle_log_empty(engine, queue);
            inspect_wake(engine, op->task.id);
        } else if (queue != NULL) {
            engine_schedule(engine, queue, &op->life, op->task.id.row);
            dispatch_queue(engine, queue);
        }
        inspect_read_acted(engine, op->task.id, REPLY_TASK, errand->exchange);
    }
    errand_free(errand);
}

void manage_move(struct engine *engine, const struct ask *ask)
{
    enum op_kind kind = ask->kind == ASK_RUN ? OP_RUN : OP_CANCEL;
    struct errand *errand = errand_new(engine, kind);

    if (errand != NULL) {
        errand->op.task.id = ask->id;
        errand->exchange = ask->exchange;
        errand->then = task_moved;
        audit_fill(errand, ask, kind == OP_RUN ? "run" : "cancel");
    }
    if (!errand_start(engine, errand)) {
        reply_no_room(engine, ask->exchange);
    }
}

/* --- queues -------------------------------------------------------------------------------------- */

/* A change writes what it is about, and may have to know what the one before it left: changes wait in
 * line, and one at a time is under way. Other nodes change queues too, so what it is not about stays
 * as the store has it.
 *
 *   change_ask --> in line --> change_begin --> store --> queue_changed --> the next one
 *                                  '--> refused, answered ----------------------^
 *
 * Whether a queue may be deleted is decided by the store, in the order of what others bring into it:
 * what is looked at here only spares it the work. */
static void change_next(struct engine *engine);

static void change_end(struct engine *engine)
{
    struct errand *errand = engine->changes;

    engine->changes = errand->next;
    errand_free(errand);
}

/* Once every node knows of it: none goes by what was there before. */
static void change_tell(struct engine *engine, const struct queue *queue,
                        const struct errand *errand)
{
    const struct forgotten what = {.kind = REPLY_QUEUE,
                                   .exchange = errand->exchange,
                                   .queue = queue,
                                   .is_change = true,
                                   .is_new = errand->ask == ASK_QUEUE_PUT && errand->queue == NULL};

    PLANT(CHANGE_UNHEARD, manage_reply_queue(engine, queue, what.exchange, what.is_new); return )
    forget_tell(engine, &what);
}

static void let_targets_in(struct engine *engine, struct queue *queue, const struct errand *errand)
{
    if (errand->has_cleared) { /* else a memo that a peer has written since would go */
        targets_hear(queue, errand->let_in);
        targets_let_in(queue);
    } else {
        targets_back(engine, queue);
    }
}

/* A PUT was written: the settings it was checked with are parsed once more, into what becomes the
 * queue's own arena, and take effect. Unless a peer has changed it since, which is known already. */
static void queue_put(struct engine *engine, struct errand *errand)
{
    struct queue_row *row = &errand->op.queue;
    struct queue_settings settings;
    struct error error = {0};
    struct queue *before = engine_find_queue(engine, row->name);

    if (before != NULL && before->hold == QUEUE_HOLD_MISSING) {
        errand->queue = NULL; /* the reply says that the queue was made */
    }
    if (queues_is_old(before, row)) {
        change_tell(engine, before, errand);
        return;
    }
    int failed = engine->options.parse_queue(engine->options.parse_user, row->settings, row->name,
                                             errand->arena, &settings, &error);
    if (failed == 0 && before != NULL) { /* whoever changes it may have changed its targets */
        let_targets_in(engine, before, errand);
        outage_forget(before);
    }
    struct queue *queue =
        failed != 0 ? NULL : engine_install_queue(engine, row->name, errand->arena, &settings);
    if (queue == NULL) { /* for want of memory: the next start has it */
        (void)fail_told(&error, FAULT_MEMORY, "no memory for the queue"); /* the reply carries it */
        engine_reply_fault(engine, errand->exchange, 0, &error);
        return;
    }
    queue->stored = row->settings;
    queue->paused = row->paused;
    queue->version = row->version;
    queues_set_number(engine, queue, row->number);
    errand->arena = NULL; /* the queue's now */
    change_tell(engine, queue, errand);
    dispatch_queues(engine); /* also what waits for a limit that may be another one now */
}

/* A pause or its end was written. */
static void queue_paused(struct engine *engine, const struct errand *errand)
{
    struct queue *queue = errand->queue;

    if (!queues_is_old(queue, &errand->op.queue)) {
        queue->paused = errand->op.queue.paused;
        queue->version = errand->op.queue.version;
    }
    if (!queue->paused) {
        let_targets_in(engine, queue, errand);
        hold_try_again(queue);
    }
    change_tell(engine, queue, errand);
    dispatch_queue(engine, queue);
}

static void reply_change_fault(struct engine *engine, const struct errand *errand)
{
    struct error error = errand->op.error;

    if (fault_is_passing(errand->op.fault)) { /* a transaction that is open brings a task in */
        error = (struct error){0};
        (void)fail(&error, FAULT_FULL, "the queue is in use at this moment"); /* the reply has it */
    }
    engine_reply_fault(engine, errand->exchange, 0, &error);
}

/* A queue's row was written: make it so here. */
static void change_done(struct engine *engine, struct errand *errand)
{
    if (errand->ask == ASK_QUEUE_PUT) {
        queue_put(engine, errand);
    } else if (errand->ask == ASK_QUEUE_DELETE) {
        queues_drop(engine, errand->queue);
        cache_clear(engine->cache);
        forget_tell(engine, &(struct forgotten){.kind = REPLY_DELETED,
                                                .exchange = errand->exchange,
                                                .is_change = true});
    } else {
        queue_paused(engine, errand);
    }
}

static bool change_begin(struct engine *engine, struct errand *errand);

/* The store has answered. A queue that another node has deleted meanwhile is none any more: a PUT makes
 * a new one of that name. */
static void queue_changed(struct engine *engine, struct errand *errand)
{
    enum op_result result = errand->op.result;
    bool is_gone = errand->op.fault == 0 && result == RESULT_MISSING;

    if (is_gone && errand->queue != NULL) {
        queues_drop(engine, errand->queue);
    }
    if (is_gone && errand->ask == ASK_QUEUE_PUT) {
        if (change_begin(engine, errand)) {
            return;
        }
    } else if (is_gone) {
        reply_plain(engine, REPLY_UNKNOWN_QUEUE, errand->exchange);
    } else if (errand->op.fault != 0) {
        reply_change_fault(engine, errand);
    } else if (result == RESULT_NOT_EMPTY) {
        reply_plain(engine, REPLY_QUEUE_NOT_EMPTY, errand->exchange);
    } else {
        change_done(engine, errand);
    }
    change_end(engine);
    change_next(engine);
}

/* Nothing waits, and nothing is on its way into the store: what was taken in is not counted yet. */
static bool is_empty(const struct engine *engine, const struct queue *queue)
{
    for (const struct attempt *each = engine->attempts; each != NULL; each = each->next) {
        if (each->queue == queue) {
            return false;
        }
    }
    return queue->counts[TASK_WAITING] == 0 && queue->counts[TASK_RUNNING] == 0 &&
           queue->counts[TASK_UNSETTLED] == 0;
}

/* What stands in the way of a change, if anything does. */
static bool change_is_refused(const struct engine *engine, const struct errand *errand,
                              enum reply_kind *ret_why)
{
    const struct queue *queue = errand->queue;
    bool is_pause = errand->ask == ASK_QUEUE_PAUSE || errand->ask == ASK_QUEUE_RESUME;

    if (queue == NULL || !hold_is_shown(queue)) {
        *ret_why = REPLY_UNKNOWN_QUEUE;
        return errand->ask != ASK_QUEUE_PUT;
    }
    if (queue->in_file && !is_pause) {
        *ret_why = REPLY_QUEUE_IN_FILE;
        return true;
    }
    *ret_why = REPLY_QUEUE_NOT_EMPTY;
    return errand->ask == ASK_QUEUE_DELETE && !errand->force && !is_empty(engine, queue);
}

/* The row as it is to be, from the queue as it is now. A PUT brings its own settings, which must be
 * good, and room for one queue more. */
static int change_fill(struct engine *engine, struct errand *errand, struct error *err)
{
    struct queue_row *row = &errand->op.queue;
    const struct queue *queue = errand->queue;
    struct queue_settings settings;

    row->number = queue != NULL ? queue->number : 0;
    errand->op.keeps = errand->ask == ASK_QUEUE_PUT ? QUEUE_KEEPS_PAUSED : QUEUE_KEEPS_SETTINGS;
    row->paused = queue != NULL && queue->paused;
    row->dropped = errand->ask == ASK_QUEUE_DELETE;
    errand->op.only_if_empty = !errand->force;
    row->task_flags = queue != NULL ? engine_task_flags(&queue->settings) : 0;
    if (errand->ask == ASK_QUEUE_PAUSE || errand->ask == ASK_QUEUE_RESUME) {
        row->paused = errand->ask == ASK_QUEUE_PAUSE;
    }
    if (errand->ask != ASK_QUEUE_PUT) {
        row->settings = arena_copy(errand->arena, queue->stored);
    } else if ((queue == NULL || queue->hold == QUEUE_HOLD_MISSING) && !queues_have_room(engine)) {
        return fail(err, FAULT_LIMIT, "at most %d queues", ENGINE_QUEUES_MAX);
    }
    if (row->name.at == NULL || row->settings.at == NULL) {
        return fail_told(err, FAULT_MEMORY, "no memory for it now");
    }
    if (errand->ask != ASK_QUEUE_PUT) {
        return 0;
    }
    int failed = engine->options.parse_queue(engine->options.parse_user, row->settings, row->name,
                                             errand->arena, &settings, err);
    if (failed == 0) {
        row->task_flags = engine_task_flags(&settings);
    }
    return failed;
}

static bool change_commit(struct engine *engine, struct errand *errand)
{
    if (!engine->options.world.commit(engine->options.world.user, &errand->op)) {
        reply_no_room(engine, errand->exchange);
        return false;
    }
    return true;
}

/* Every node lets the queue's targets in again once it sees the change. */
static bool wants_cleared(const struct engine *engine, const struct errand *errand)
{
    return nodes_are_many(engine) && errand->queue != NULL && !errand->has_cleared &&
           errand->queue->settings.target_count > 0 &&
           (errand->ask == ASK_QUEUE_PUT || errand->ask == ASK_QUEUE_RESUME);
}

void manage_cleared(struct engine *engine, struct errand *change)
{
    if (change->op.error.fault != 0) {
        engine_reply_fault(engine, change->exchange, 0, &change->op.error);
    } else if (change_commit(engine, change)) {
        return;
    }
    change_end(engine);
    change_next(engine);
}

/* True: it is under way. False: it was answered. */
static bool change_begin(struct engine *engine, struct errand *errand)
{
    enum reply_kind why;
    struct error error = {0};

    errand->queue = engine_find_queue(engine, errand->op.queue.name);
    if (change_is_refused(engine, errand, &why)) {
        reply_plain(engine, why, errand->exchange);
        return false;
    }
    if (change_fill(engine, errand, &error) != 0) {
        engine_reply_fault(engine, errand->exchange, 0, &error);
        return false;
    }
    if (wants_cleared(engine, errand)) {
        errand->has_cleared = true;
        if (targets_clear(engine, errand->queue, errand)) {
            return true;
        }
        engine_reply_fault(engine, errand->exchange, 0, &errand->op.error); /* none was begun */
        return false;
    }
    return change_commit(engine, errand);
}

static void change_next(struct engine *engine)
{
    while (engine->changes != NULL && !change_begin(engine, engine->changes)) {
        change_end(engine);
    }
}

static const char *change_act(enum ask_kind kind)
{
    switch (kind) {
    case ASK_QUEUE_PUT:
        return "queue_put";
    case ASK_QUEUE_DELETE:
        return "queue_delete";
    case ASK_QUEUE_PAUSE:
        return "queue_pause";
    default:
        return "queue_resume";
    }
}

static void change_ask(struct engine *engine, const struct ask *ask)
{
    struct errand *errand = errand_new(engine, OP_QUEUE), **link = &engine->changes;

    if (errand == NULL) {
        reply_no_room(engine, ask->exchange);
        return;
    }
    errand->ask = ask->kind;
    errand->force = ask->force;
    errand->exchange = ask->exchange;
    errand->then = queue_changed;
    errand->op.queue.name = arena_copy(errand->arena, ask->queue);
    errand->op.queue.settings = arena_copy(errand->arena, ask->settings);
    audit_fill(errand, ask, change_act(ask->kind));
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = errand;
    if (link == &engine->changes) {
        change_next(engine);
    }
}

void manage_free(struct engine *engine)
{
    while (engine->changes != NULL) {
        change_end(engine);
    }
}

/* The server's own queue is nobody's business as long as nothing is in it. */
static bool is_idle_own(const struct engine *engine, const struct queue *queue)
{
    uint64_t count = 0;

    for (int i = 0; i < TASK_STATE_COUNT; i++) {
        count += queue->counts[i];
    }
    return queue == engine->callbacks && count == 0 && !queue->paused;
}

static void list_queues(struct engine *engine, const struct ask *ask)
{
    struct queue_view *views = calloc(engine->queue_count + 1, sizeof *views);
    size_t count = 0;

    if (views == NULL) {
        reply_no_room(engine, ask->exchange);
        return;
    }
    for (size_t i = 0; i < engine->queue_count; i++) {
        const struct queue *queue = engine->queues[i];
        if (hold_is_shown(queue) && !is_idle_own(engine, queue) &&
            reach_has(&ask->reach, queue->name)) {
            engine_queue_view(engine, i, &views[count++]);
        }
    }
    engine_reply(engine, &(struct reply){.kind = REPLY_QUEUES,
                                         .exchange = ask->exchange,
                                         .queues = views,
                                         .queue_count = count});
    free(views);
}

static void ask_queue(struct engine *engine, const struct ask *ask)
{
    bool is_any = ask->kind == ASK_QUEUE && ask->force;
    struct queue *queue =
        is_any ? engine_find_queue(engine, ask->queue) : hold_find(engine, ask->queue);
    bool is_old = ask->kind == ASK_QUEUE && nodes_lease_is_over(engine); /* engine_reply says so */

    if (queue == NULL || is_old) {
        reply_plain(engine, REPLY_UNKNOWN_QUEUE, ask->exchange);
    } else if (ask->kind == ASK_QUEUE_RUN && queue->hold != QUEUE_HOLD_NONE) {
        reply_plain(engine, hold_reply(queue), ask->exchange);
    } else if (ask->kind == ASK_QUEUE) {
        manage_reply_queue(engine, queue, ask->exchange, false);
    } else {
        walk_ask(engine, ask, queue);
    }
}

void manage_ask(struct engine *engine, const struct ask *ask)
{
    switch (ask->kind) {
    case ASK_RUN:
    case ASK_CANCEL:
        if (!reach_look_first(engine, ask)) {
            manage_move(engine, ask);
        }
        break;
    case ASK_QUEUES:
        list_queues(engine, ask);
        break;
    case ASK_QUEUE_PUT:
    case ASK_QUEUE_DELETE:
    case ASK_QUEUE_PAUSE:
    case ASK_QUEUE_RESUME:
        change_ask(engine, ask);
        break;
    case ASK_RUN_STATE:
        runs_ask(engine, ask);
        break;
    case ASK_QUEUE:
    case ASK_QUEUE_PURGE:
    case ASK_QUEUE_RUN:
    case ASK_TASK:
    case ASK_LIST:
    default:
        ask_queue(engine, ask);
        break;
    }
}
