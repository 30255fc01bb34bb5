/* SPDX-License-Identifier: MIT
 *
 * record -- the first durable step (I1): nobody is answered before the commit, and what can go out
 * at once is recorded as already running, in that same commit (I5).
 */
#include "engine/hold_internal.h"
#include "engine/restored_internal.h"
#include "base/plant.h"
#include "task/article.h"
#include "task/fields.h"
#include "task/fingerprint.h"

static int refuse(struct engine *engine, const struct submission *in, enum fault fault,
                  const char *text)
{
    struct error error = {0};

    engine->stats.refused++;
    (void)fail(&error, fault, "%s", text); /* the reply carries it */
    engine_reply_fault(engine, in->exchange, in->index, &error);
    return fault;
}

static bool has_target(const struct submission *in, const struct queue *queue)
{
    return in->target.len > 0 || queue->settings.target_count > 0 ||
           queue->settings.fallback != NULL;
}

/* What the task itself has to say, or the target of its first attempt. Of later ones each lease asks
 * again (LIFE_TARGETS). */
static uint32_t once_flags(const struct submission *in, const struct queue *queue)
{
    int index;

    if (in->options.has_repeatable) {
        return in->options.repeatable ? 0 : LIFE_ONCE;
    }
    const struct target *first = targets_choose(queue, in->target, 0, &index);
    return (first != NULL && !first->repeatable ? LIFE_ONCE : 0u) |
           (index >= 0 ? LIFE_TARGETS : 0u);
}

/* A task that is due may go out now when there is a slot and no older one waits for it; those that are for a
 * full host, as far as is known, do not. */
static bool may_go_at_once(const struct engine *engine, const struct attempt *attempt,
                           int64_t now_ms)
{
    const struct life *life = &attempt->op.life;
    struct queue *queue = attempt->queue;
    struct schedule_entry first;

    if (life->due_at_ms > now_ms || queue->paused || (life->flags & LIFE_PULL) != 0 ||
        queue->forced.count > 0 || !dispatch_has_slot(engine, queue) ||
        !flow_has_token(engine, queue) || hosts_are_full(engine, queue, attempt->op.task.target)) {
        return false;
    }
    return !schedule_first(&queue->due, &first) || first.due_ms > now_ms ||
           hosts_are_looked_for(engine, queue);
}

static void begin_life(struct engine *engine, const struct submission *in, struct attempt *attempt,
                       int64_t now_ms)
{
    struct life *life = &attempt->op.life;
    struct queue *queue = attempt->queue;

    *life = (struct life){
        .due_at_ms = in->due_at_ms != 0 ? in->due_at_ms : now_ms + in->delay_ms,
        .deadline_at_ms = in->deadline_ms == 0 ? 0 : now_ms + in->deadline_ms,
        .flags = (has_target(in, queue) ? 0u : LIFE_PULL) | once_flags(in, queue),
    };
    if (queue->route != NULL) {
        attempt->op.reruns = queue->route->expired == ROUTE_EXPIRED_RERUN;
        life->flags |= LIFE_ROUTE;
        life->deadline_at_ms = now_ms + queue->route->deadline_ms;
    }
    if (restored_is_in_doubt(engine, queue, now_ms)) {
        restored_begin(queue, life, now_ms);
    } else if (may_go_at_once(engine, attempt, now_ms)) {
        life->state = TASK_RUNNING;
        life->fence = 1;
        life->epoch = engine->store->epoch;
        life->attempts = life->attempts_all = 1;
        attempt_take_slot(engine, attempt);
    }
}

static int fill_task(struct engine *engine, const struct submission *in, struct attempt *attempt,
                     int64_t now_ms, struct error *err)
{
    struct task *task = &attempt->op.task;
    struct task_options wishes = in->options;
    struct buf options;

    wishes.deadline_ms = in->deadline_ms;
    engine->deadlines.are_there |= in->deadline_ms != 0;
    *task = (struct task){
        .id = id_make(&engine->ids, now_ms),
        .queue = attempt->queue->number,
        .scope = in->scope,
        .key = in->key,
        .method = in->method,
        .target = in->target,
        .headers = in->headers,
        .labels = in->labels,
        .body = in->body,
    };
    buf_init(&options, ARENA_MAX);
    int failed = options_render(&wishes, &options);
    if (failed == 0) {
        task->options = arena_copy(attempt->arena, buf_span(&options));
        failed = task->options.at == NULL ? FAULT_MEMORY : 0;
    }
    buf_done(&options);
    if (failed != 0) {
        return fail(err, (enum fault)failed, "the task's options cannot be kept");
    }
    if (in->has_fingerprint) {
        memcpy(task->fingerprint, in->fingerprint, sizeof task->fingerprint);
        return 0;
    }
    return task->key.len > 0 ? fingerprint_task(task, err) : 0;
}

/* A queue with a fallback list takes articles and nothing else; the providers' requests are its own,
 * so what a task says about them would be obeyed by nobody. */
static int take_article(const struct submission *in, struct attempt *attempt, struct error *err)
{
    struct span headers = in->headers, name, value;

    if (attempt->queue->settings.fallback == NULL) {
        return !in->is_article ? 0
                               : fail_field(err, FAULT_INPUT, "article",
                                            "article: this queue has no fallback list; expected "
                                            "body, json or body_base64");
    }
    const char *field = in->target.len > 0                                      ? "target"
                        : in->method.len > 0                                    ? "method"
                        : in->options.has_repeatable && !in->options.repeatable ? "repeatable"
                                                                                : NULL;
    while (field == NULL && fields_next(&headers, &name, &value)) {
        field = span_is_nocase(name, "content-type") ? NULL : "headers";
    }
    if (field != NULL) {
        return fail_field(err, FAULT_INPUT, field,
                          "%s: expected none: this queue's tasks go to its providers", field);
    }
    return article_take(in->body, in->labels, attempt->arena, &attempt->op.task.labels, err);
}

static void reply_created(struct engine *engine, const struct attempt *attempt)
{
    const struct record record = {.task = attempt->op.task, .life = attempt->op.life};

    engine_reply(engine, &(struct reply){.kind = REPLY_CREATED,
                                         .exchange = attempt->exchange,
                                         .index = attempt->index,
                                         .records = &record,
                                         .record_count = 1,
                                         .is_new = true});
}

/* Nothing goes out after all. */
static void give_up(struct engine *engine, struct attempt *attempt)
{
    if (attempt->holds_slot) {
        flow_give_token_back(attempt->queue);
    }
    attempt_free(engine, attempt);
}

static int submit(struct engine *engine, const struct submission *in, struct queue *queue)
{
    int64_t now_ms = engine_now_ms(engine);
    struct attempt *attempt = attempt_new(engine, queue, in->arena);
    struct error error = {0};

    if (attempt == NULL) {
        arena_free(in->arena);
        return refuse(engine, in, FAULT_MEMORY, fault_text(FAULT_MEMORY));
    }
    attempt->exchange = in->exchange;
    attempt->index = in->index;
    attempt->wish = in->wish;
    int failed = fill_task(engine, in, attempt, now_ms, &error);
    failed = failed != 0 ? failed : take_article(in, attempt, &error);
    if (failed == 0) {
        attempt->op.kind = OP_RECORD;
        attempt->op.is_kept = true;
        attempt->op.ticket = TICKET_RECORD;
        attempt->op.now_ms = now_ms;
        begin_life(engine, in, attempt, now_ms);
        PLANT(ANSWER_BEFORE_COMMIT, if (queue->route == NULL) reply_created(engine, attempt))
        PLANT(SEND_BEFORE_LEASE, attempt->task = attempt->op.task, attempt->life = attempt->op.life,
              dispatch_send(engine, attempt))
        if (engine->options.world.commit(engine->options.world.user, &attempt->op)) {
            return 0;
        }
        failed = fail(&error, FAULT_FULL, "too much waits for the store");
    }
    give_up(engine, attempt);
    engine->stats.refused++;
    engine_reply_fault(engine, in->exchange, in->index, &error);
    return failed;
}

/* The server's own queues take only what the server itself brings: a route's what came by that route,
 * whose caller waits for an answer of another kind; callbacks are recorded with what they tell of. */
static bool is_closed_to(const struct engine *engine, const struct queue *queue,
                         const struct submission *in)
{
    return (queue->route != NULL) != (in->route != NULL) || queue == engine->callbacks;
}

void engine_submit(struct engine *engine, const struct submission *in)
{
    struct queue *queue = hold_find(engine, in->queue);

    numbers_request(engine, in);
    if (queue != NULL && hold_is_shut(queue)) {
        engine_reply(engine, &(struct reply){.kind = hold_reply(queue),
                                             .exchange = in->exchange,
                                             .index = in->index});
    } else if (queue == NULL || is_closed_to(engine, queue, in)) {
        engine_reply(engine, &(struct reply){.kind = REPLY_UNKNOWN_QUEUE,
                                             .exchange = in->exchange,
                                             .index = in->index});
    } else if (engine->is_draining) {
        (void)refuse(engine, in, FAULT_CLOSING, fault_text(FAULT_CLOSING));
    } else if (engine->waiting_count >= engine->options.backlog_max) {
        (void)refuse(engine, in, FAULT_FULL, "the backlog is full");
    } else {
        (void)submit(engine, in, queue); /* replies by itself */
        return;
    }
    arena_free(in->arena);
}

/* It waits: for its host, if that is noted as full, or as any other. */
static void schedule_new(struct engine *engine, const struct attempt *attempt)
{
    const struct task *task = &attempt->task;
    const struct life *life = &attempt->life;
    struct queue *queue = attempt->queue;
    bool is_parked =
        life->state == TASK_WAITING && (life->flags & LIFE_PULL) == 0 &&
        life->due_at_ms <= engine_now_ms(engine) && hosts_are_noted(engine, queue, task->target) &&
        hosts_park(engine, queue,
                   task->target.len > 0 ? task->target : queue->settings.targets[0].url, life,
                   task->id.row);

    if (!is_parked) {
        engine_schedule(engine, queue, life, task->id.row);
    }
    if (task->target.len > 0 && !hosts_are_full(engine, queue, task->target)) {
        hosts_look_on(queue);
    }
}

static void recorded(struct engine *engine, struct attempt *attempt)
{
    struct queue *queue = attempt->queue;

    engine->stats.recorded++;
    queue->numbers.recorded++;
    engine_count_in(engine, queue, &attempt->op.life);
    restored_recorded(engine, attempt);
    if (queue->route != NULL && attempt->exchange != NOBODY) {
        replay_recorded(engine, attempt);
    } else if (attempt->exchange != NOBODY) {
        reply_created(engine, attempt);
    }
    attempt->exchange = NOBODY; /* told */
    attempt->task = attempt->op.task;
    attempt->life = attempt->op.life;
    PLANT(PUT_BACK_IGNORED,
          if (attempt->holds_slot && attempt->life.fence == 0) attempt->life.state = TASK_RUNNING,
          attempt->life.fence = 1, attempt->life.epoch = engine->store->epoch)
    if (attempt->life.state == TASK_RUNNING) {
        dispatch_send(engine, attempt);
        return;
    }
    schedule_new(engine, attempt);
    attempt_free(engine, attempt);
    dispatch_queue(engine, queue);
}

/* What the store found instead of recording it: learnt and counted whether its caller is still there
 * or not. NO_QUEUE: the queue was deleted, here or by another node, before the store came to it. */
static void note_found(struct engine *engine, const struct attempt *attempt)
{
    enum op_result result = attempt->op.result;

    engine->stats.conflicts += result == RESULT_CONFLICT;
    engine->stats.duplicates += result == RESULT_DUPLICATE || result == RESULT_GONE;
    if (result == RESULT_NO_QUEUE) {
        queues_drop(engine, attempt->queue);
    }
}

static void refuse_found(struct engine *engine, const struct attempt *attempt, enum reply_kind kind)
{
    engine_reply(engine, &(struct reply){
                             .kind = kind, .exchange = attempt->exchange, .index = attempt->index});
}

/* Another session, mostly a peer with a caller of the same key, is about to commit the key: once it has,
 * there is a better reply than that. Each time costs the batch a wait for the lock, so they are few. */
static bool ask_again(struct engine *engine, struct attempt *attempt)
{
    static const int64_t waits_ms[] = {100, 400};

    if (attempt->op.fault != FAULT_BUSY || attempt->exchange == NOBODY || engine->is_draining ||
        attempt->busy_count == sizeof waits_ms / sizeof *waits_ms) {
        return false;
    }
    attempt->again_at_ms = clock_mono_ms(engine->options.clock) + waits_ms[attempt->busy_count++];
    attempt->op.link.next = (struct handover_link *)engine->busy;
    engine->busy = attempt;
    return true;
}

void record_tick(struct engine *engine)
{
    int64_t now_ms = engine->busy != NULL ? clock_mono_ms(engine->options.clock) : 0;
    struct attempt *attempt = engine->busy;

    engine->busy = NULL;
    while (attempt != NULL) {
        struct attempt *next = (struct attempt *)attempt->op.link.next;
        bool is_due = engine->is_draining || attempt->again_at_ms <= now_ms;
        if (!is_due || !engine->options.world.commit(engine->options.world.user, &attempt->op)) {
            attempt->again_at_ms += is_due; /* there was no room */
            attempt->op.link.next = (struct handover_link *)engine->busy;
            engine->busy = attempt;
        }
        attempt = next;
    }
}

int64_t record_wait_ms(const struct engine *engine)
{
    int64_t next_ms = INT64_MAX;

    for (const struct attempt *at = engine->busy; at != NULL;
         at = (const struct attempt *)at->op.link.next) {
        next_ms = at->again_at_ms < next_ms ? at->again_at_ms : next_ms;
    }
    if (next_ms == INT64_MAX) {
        return INT64_MAX;
    }
    next_ms -= clock_mono_ms(engine->options.clock);
    return next_ms > 0 ? next_ms : 1;
}

/* The RECORD of a submission is answered. Its caller may have left with "unknown" by then
 * (engine_doubts): a task that is there is carried out all the same, and of the rest there is nothing
 * to tell. */
void record_committed(struct engine *engine, struct attempt *attempt)
{
    struct queue *queue = attempt->queue;

    if (ask_again(engine, attempt)) {
        return;
    }
    if (attempt->op.fault == 0) {
        numbers_key(engine, attempt);
    }
    if (attempt->op.fault == 0 && attempt->op.result == RESULT_DONE) {
        recorded(engine, attempt);
        return;
    }
    if (attempt->op.fault == 0) {
        note_found(engine, attempt);
    }
    if (attempt->exchange == NOBODY) {
        /* told, and counted as refused, by engine_doubts */
    } else if (attempt->op.fault != 0) {
        engine->stats.refused++;
        engine_reply_fault(engine, attempt->exchange, attempt->index, &attempt->op.error);
    } else if (attempt->op.result == RESULT_NO_QUEUE) {
        engine->stats.refused++;
        refuse_found(engine, attempt, REPLY_UNKNOWN_QUEUE);
    } else if (queue->route != NULL) {
        replay_found(engine, attempt);
    } else if (attempt->op.result == RESULT_DUPLICATE) {
        inspect_read_task(engine, attempt->op.task.id, REPLY_DUPLICATE, attempt->exchange,
                          attempt->index);
    } else {
        refuse_found(engine, attempt, REPLY_CONFLICT);
    }
    give_up(engine, attempt);
    dispatch_queue(engine, queue);
}

/* Callers whose requests are in doubt for too long (I7). The committer still has their records; an
 * attempt stays with its own until it is known whether there is a task that it has to carry out. */
void engine_doubts(struct engine *engine)
{
    struct error unknown = {0};

    (void)fail(&unknown, FAULT_UNKNOWN, "%s", fault_text(FAULT_UNKNOWN)); /* carried by replies */
    for (struct attempt *at = engine->attempts; at != NULL; at = at->next) {
        bool is_held = at->op.ticket == TICKET_RECORD && at->exchange != NOBODY &&
                       __atomic_load_n(&at->op.is_unknown, __ATOMIC_ACQUIRE) != 0;
        if (is_held) {
            uint64_t exchange = at->exchange;
            at->exchange = NOBODY;
            engine->stats.refused++;
            engine_log_fault(engine, "commit", FAULT_UNKNOWN, &unknown);
            engine_reply_fault(engine, exchange, at->index, &unknown);
        }
    }
}
