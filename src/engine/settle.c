/* SPDX-License-Identifier: MIT
 *
 * settle -- from an outcome to what is written, and from what was written to what follows. The rule
 * itself is task/judge.c. An outcome that the store does not take is kept and offered again: it
 * happened, and forgetting it would repeat it (I9).
 */
#include "engine/kept_internal.h"
#include "base/plant.h"

#define TRIALS_KEPT 32 /* rows of a trail that tell of every attempt, counted or not */

static bool is_retried(const struct life *life)
{
    return life->state == TASK_WAITING && life->failed_class != 0;
}

static bool is_failed(const struct life *life)
{
    return life->state == TASK_DEAD || life->state == TASK_FAILED;
}

/* Success, and what was given back, is not news. */
static bool is_news(const struct life *life)
{
    return is_retried(life) || is_failed(life) || life->state == TASK_UNSETTLED;
}

/* A dead letter waits for a person; what is only failed (of the gateway) is its caller's to mend. */
static const char *event_of(enum task_state state)
{
    switch (state) {
    case TASK_WAITING:
        return "task_retry";
    case TASK_DEAD:
        return "task_failed_permanently";
    case TASK_FAILED:
        return "task_failed";
    default:
        return "task_unsettled";
    }
}

/* D3.3: what an attempt has come to, for operators. */
void settle_log(struct engine *engine, struct queue *queue, struct task_id id,
                const struct life *life, const struct settle_cause *cause)
{
    bool is_retry = is_retried(life);
    struct sums_line line = {.queue = queue, .level = DARUMA_LOG_WARN};
    char text[ID_TEXT_LEN + 1];

    if (!is_news(life)) {
        return;
    }
    id_format(id, text);
    line.event = event_of(life->state);
    line.level = is_retry || life->state == TASK_FAILED ? DARUMA_LOG_INFO : DARUMA_LOG_WARN;
    line.own[line.own_count++] = daruma_log_text("task", text);
    line.own[line.own_count++] =
        daruma_log_uint(is_retry ? "attempt" : "attempts", cause->attempts);
    if (is_retry) {
        line.own[line.own_count++] = daruma_log_int("wait_ms", life->wait_ms);
    }
    if (life->failed_class != 0) {
        line.shared[line.shared_count++] = daruma_log_text(
            "class", daruma_class_text((enum daruma_class)(life->failed_class - 1)));
    }
    if (cause->host.len > 0) {
        line.shared[line.shared_count++] =
            daruma_log_bytes("host", cause->host.at, cause->host.len);
        line.shared[line.shared_count++] = daruma_log_int("status", cause->status);
    }
    if (cause->reason.len > 0) {
        line.shared[line.shared_count++] =
            daruma_log_bytes("reason", cause->reason.at, cause->reason.len);
    }
    sums_log(engine, &line);
}

/* Of an attempt that went out from here. What a provider says may quote the article: what stands
 * before the first colon does not. */
static struct settle_cause cause_of(const struct attempt *attempt)
{
    const struct delivery *delivery = &attempt->delivery;
    struct settle_cause cause = {
        .attempts = attempt->op.life.attempts,
        .host = sums_host_of(delivery->url),
        .status = delivery->outcome.status,
        .reason = span_of(delivery->message),
    };

    if (delivery->fallback != NULL) {
        struct span rest = cause.reason;
        (void)span_cut(&rest, ':', &cause.reason); /* none: all of it */
        cause.host =
            delivery->leg_count == 0 ? SPAN("") : delivery->legs[delivery->leg_count - 1].target;
    }
    return cause;
}

/* D6.4: who it was that answered. */
static void log_provider(struct engine *engine, const struct attempt *attempt)
{
    const struct span *provider = &attempt->delivery.settled_by;
    char id[ID_TEXT_LEN + 1];

    if (attempt->op.life.state != TASK_SUCCEEDED || provider->len == 0) {
        return;
    }
    id_format(attempt->task.id, id);
    sums_log(engine, &(struct sums_line){
                         .event = "provider_succeeded",
                         .level = DARUMA_LOG_INFO,
                         .queue = attempt->queue,
                         .own = {daruma_log_text("task", id),
                                 daruma_log_uint("attempt", attempt->life.attempts)},
                         .own_count = 2,
                         .shared = {daruma_log_bytes("provider", provider->at, provider->len)},
                         .shared_count = 1,
                     });
}

/* A row for each target that was asked; the last one carries the wait. */
static void fill_legs(struct attempt *attempt, int64_t wait_ms)
{
    const struct delivery *delivery = &attempt->delivery;
    struct trail_row *rows = arena_alloc(attempt->arena, delivery->leg_count * sizeof *rows);

    for (size_t i = 0; rows != NULL && i < delivery->leg_count; i++) {
        const struct leg *leg = &delivery->legs[i];
        rows[i] = (struct trail_row){
            .attempt = attempt->life.attempts_all,
            .target = leg->target,
            .started_at_ms = leg->started_at_ms,
            .ended_at_ms = leg->ended_at_ms,
            .error_class = leg->error_class,
            .status = leg->status,
            .sent = leg->sent,
            .sends = leg->sends,
            .message = span_of(leg->message),
            .wait_ms = i + 1 == delivery->leg_count ? wait_ms : 0,
        };
    }
    if (rows != NULL) { /* else one row for all of them */
        attempt->op.trail = rows;
        attempt->op.trail_count = delivery->leg_count;
    }
}

static void fill_trail(struct attempt *attempt, const struct judgement *judgement)
{
    const struct delivery *delivery = &attempt->delivery;

    attempt->trail = (struct trail_row){
        .attempt = attempt->life.attempts_all - delivery->is_uncounted,
        .target = attempt->target_name,
        .started_at_ms = delivery->started_at_ms,
        .ended_at_ms = delivery->ended_at_ms,
        .error_class = judgement->succeeded ? -1 : (int)judgement->error_class,
        .status = delivery->outcome.status,
        .sent = delivery->outcome.sent,
        .sends = delivery->sends,
        .message = span_of(delivery->message),
        .wait_ms = judgement->life.state == TASK_WAITING ? judgement->life.wait_ms : 0,
    };
    attempt->op.trail = &attempt->trail;
    bool is_untouched = delivery->is_uncounted && judgement->life.state == TASK_WAITING;
    attempt->op.trail_count = is_untouched ? 0 : 1; /* nothing happened */
    if (delivery->leg_count > 0) {
        fill_legs(attempt, attempt->trail.wait_ms);
    }
}

static void fill_answer(struct attempt *attempt)
{
    const struct delivery *delivery = &attempt->delivery;

    attempt->op.answer = NULL;
    if (delivery->outcome.status == 0 || !task_is_settled(attempt->op.life.state)) {
        return;
    }
    attempt->answer = (struct answer){
        .status = delivery->outcome.status,
        .headers = buf_span(&delivery->response_headers),
        .body = buf_span(&delivery->response_body),
        .settled_by = delivery->settled_by.len > 0 ? delivery->settled_by : attempt->target_name,
    };
    attempt->op.answer = &attempt->answer;
    attempt->op.life.flags |= delivery->is_unframed ? LIFE_UNFRAMED : 0;
}

static void judge(struct engine *engine, struct attempt *attempt, struct judgement *ret_judgement)
{
    struct daruma_policy policy;
    int64_t now_ms = engine_now_ms(engine);
    const struct outcome *outcome = &attempt->delivery.outcome;

    if (attempt->is_streaming) {
        stream_judge(engine, attempt, ret_judgement);
        return;
    }
    if (attempt->queue->route != NULL) {
        route_settle_judge(engine, attempt, ret_judgement);
        return;
    }
    if (outcome->sent == TASK_SENT_NO && judge_is_expired(&attempt->life, now_ms)) {
        judge_expire(&attempt->life, now_ms, ret_judgement);
        return;
    }
    if (engine_policy(engine, attempt->queue, &attempt->task, attempt->arena, &policy) != 0) {
        policy = attempt->queue->settings.policy; /* its own was readable when it was taken in */
    }
    const struct judge_input input = {
        .outcome = outcome,
        .policy = &policy,
        .life = &attempt->life,
        .repeatable = attempt->repeatable,
        .now_ms = now_ms,
        .random = daruma_dice_roll(engine->options.dice),
    };
    if (attempt->delivery.is_uncounted) {
        judge_put_off(&input, ret_judgement);
    } else {
        judge_attempt(&input, ret_judgement);
    }
}

/* An answer that cannot be kept must not be told either: somebody will have to find out. */
static void leave_in_doubt(const struct engine *engine, struct attempt *attempt)
{
    const struct route_settings *route = attempt->queue->route;

    attempt->op.answer = NULL;
    attempt->op.releases_key = false;
    attempt->op.life = attempt->life;
    attempt->op.life.state = TASK_UNSETTLED;
    attempt->op.life.failed_class = DARUMA_CLASS_TRANSIENT + 1;
    if (route->ambiguous == ROUTE_AMBIGUOUS_PROBE) {
        attempt->op.life.probe_due_ms = engine_now_ms(engine) + route->probe.every_ms;
    }
}

static void offer(struct engine *engine, struct attempt *attempt)
{
    if (!engine->options.world.commit(engine->options.world.user, &attempt->op)) {
        PLANT(OUTCOME_DROPPED, return )
        attempt->op.link.next = (struct handover_link *)engine->unsaved;
        engine->unsaved = attempt;
    }
}

/* A target that is down: the attempt does not count against the task, and waits for the next trial. */
static void hold_trial(struct engine *engine, struct attempt *attempt, struct judgement *judgement)
{
    struct life *life = &judgement->life;
    int64_t wait_ms = attempt->queue->settings.outage_try_ms;
    uint32_t sent = life->flags & LIFE_SENT;

    if (life->state != TASK_WAITING && life->state != TASK_DEAD) {
        return;
    }
    *life = attempt->life;
    life->flags |= sent;
    life->state = TASK_WAITING;
    life->wait_ms = wait_ms;
    life->due_at_ms = engine_now_ms(engine) + wait_ms;
    attempt->op.uncounts = true;
}

/* A person's word is good for one attempt: where the engine gave the task back before that attempt began,
 * whatever the reason, there has been none. */
static void keep_word(const struct engine *engine, const struct attempt *attempt,
                      struct judgement *judgement)
{
    const struct delivery *delivery = &attempt->delivery;
    bool is_disowned = delivery->is_uncounted &&
                       !delivery_has_right(delivery, clock_mono_ms(engine->options.clock));
    bool is_given_back = delivery->is_uncounted && attempt->is_ours;

    PLANT(WORD_LOST,
          is_given_back = attempt->is_misjudged || attempt->is_parked || attempt->is_unsent)
    if ((is_disowned || is_given_back || delivery->is_short) && attempt->is_forced &&
        judgement->life.state == TASK_WAITING) {
        judgement->life.flags |= LIFE_FORCED;
    }
}

/* Its deadline has passed before its attempt began: there has been none, and what is told of its end says so. */
static void uncount_end(const struct attempt *attempt, struct judgement *judgement)
{
    struct life *life = &judgement->life;

    if (attempt->delivery.is_uncounted && life->state != TASK_WAITING) {
        life->attempts -= life->attempts > 0;
        life->attempts_all -= life->attempts_all > 0;
    }
}

/* One that found its host full, or this machine without a descriptor, is due as it was. Among nodes what
 * waits for a host comes round again by itself, so it is due later. */
static void keep_place(struct engine *engine, const struct attempt *attempt,
                       struct judgement *judgement)
{
    const struct delivery *delivery = &attempt->delivery;
    bool is_all = delivery->is_short && !delivery->is_unnamed && !delivery->is_unvouched;
    bool is_put_back = attempt->is_parked || attempt->is_unsent || (is_all && !attempt->is_spared);
    bool comes_round = attempt->is_parked && nodes_are_many(engine);

    if (is_put_back && attempt->queue->route == NULL && judgement->life.state == TASK_WAITING) {
        judgement->life.due_at_ms =
            comes_round ? hosts_put_off_ms(engine, attempt) : attempt->life.due_at_ms;
    }
}

static bool is_outage(const struct judgement *judgement)
{
    return !judgement->succeeded && judgement->error_class == DARUMA_CLASS_TRANSIENT;
}

/* Trials can go on for weeks: a trail keeps the first of them, and then fewer and fewer. Why a task has ended is
 * always kept. */
static void thin_trail(struct attempt *attempt)
{
    uint32_t number = attempt->life.attempts_all;
    bool is_kept = number <= TRIALS_KEPT || (number & (number - 1)) == 0;

    if (attempt->op.uncounts && attempt->op.life.state == TASK_WAITING && !is_kept) {
        attempt->op.trail_count = 0;
    }
}

/* Whom to tell, if anybody: born in the same commit. */
static void fill_callback(struct engine *engine, struct attempt *attempt)
{
    const struct record record = {
        .task = attempt->task,
        .life = attempt->op.life,
        .answer = attempt->op.answer != NULL ? *attempt->op.answer : (struct answer){0},
        .trail = (struct trail_row *)attempt->op.trail,
        .trail_count = attempt->op.trail_count,
    };

    attempt->op.spawn = callback_make(engine, &record, attempt->arena);
}

/* What the committer had no room for, once more. */
void settle_tick(struct engine *engine)
{
    struct attempt *attempt = engine->unsaved;

    engine->unsaved = NULL;
    while (attempt != NULL) {
        struct attempt *next = (struct attempt *)attempt->op.link.next;
        offer(engine, attempt);
        attempt = next;
    }
}

void settle_outcome(struct engine *engine, struct attempt *attempt)
{
    struct judgement judgement;
    struct queue *queue = attempt->queue;
    struct attempt *next_for_host = hosts_leave(engine, attempt);

    stream_end(engine, &attempt->delivery);
    flow_end_turn(engine, attempt);
    attempt_free_slot(engine, attempt);
    if (attempt->delivery.is_short) {
        places_short(engine, attempt);
    }
    if (!attempt->delivery.is_uncounted) {
        numbers_answered(engine, attempt);
    }
    judge(engine, attempt, &judgement);
    uncount_end(attempt, &judgement);
    attempt->op.uncounts = attempt->op.is_unbegun = attempt->delivery.is_uncounted;
    outage_noted(engine, attempt, is_outage(&judgement));
    if (attempt->is_returned || (attempt->is_spared && is_outage(&judgement))) {
        hold_trial(engine, attempt, &judgement);
    }
    keep_word(engine, attempt, &judgement);
    keep_place(engine, attempt, &judgement);
    if (judgement.error_class == DARUMA_CLASS_GONE && attempt->delivery.outcome.status == 410) {
        targets_gone(engine, attempt);
    }
    attempt->stamp = kept_stamp(engine);
    attempt->op.kind = OP_SETTLE;
    attempt->op.ticket = TICKET_ATTEMPT;
    attempt->op.now_ms = engine_now_ms(engine);
    attempt->op.task.id = attempt->task.id;
    attempt->op.life = judgement.life;
    targets_be_careful(queue, &attempt->op.life);
    attempt->op.is_patient = true;
    attempt->op.is_kept = false; /* of its RECORD */
    fill_trail(attempt, &judgement);
    thin_trail(attempt);
    if (queue->route == NULL) {
        fill_answer(attempt);
    } else if (attempt->is_streaming) {
        attempt->is_streaming = false; /* what is written from here on is its end */
        attempt->op.answer = &attempt->answer;
    } else if (route_settle_answer(attempt) != 0) {
        leave_in_doubt(engine, attempt); /* no memory for the answer: it is not known, then */
    } else if (attempt->op.answer != NULL) {
        inspect_delivered(engine, attempt->task.id);
        PLANT(TOLD_BEFORE_SETTLED, replay_settled(engine, attempt))
    }
    fill_callback(engine, attempt);
    engine->stats.unsaved++;
    offer(engine, attempt);
    if (next_for_host != NULL) {
        flow_line_up(next_for_host);
    }
    dispatch_ready(engine, queue);
    dispatch_queue(engine, queue);
}

static void count_settled(struct engine *engine, const struct op *op)
{
    enum task_state state = op->life.state;

    engine->stats.succeeded += state == TASK_SUCCEEDED;
    engine->stats.retried += state == TASK_WAITING && !op->uncounts;
    engine->stats.unsettled += state == TASK_UNSETTLED;
    engine->stats.failed += state == TASK_FAILED || state == TASK_DEAD;
}

/* D3.4: one less waits or runs; was it the last one? */
void settle_log_empty(struct engine *engine, struct queue *queue)
{
    bool is_empty = queue->counts[TASK_WAITING] == 0 && queue->counts[TASK_RUNNING] == 0;

    queue->has_worked = true;
    /* A route is empty between any two requests; of a queue that others work on, counting tells. */
    if (is_empty && queue->route == NULL && !nodes_are_many(engine)) {
        sums_log_empty(engine, queue);
    }
}

static bool park(struct engine *engine, const struct attempt *attempt)
{
    return attempt->is_parked && attempt->op.life.state == TASK_WAITING &&
           !nodes_are_many(engine) &&
           hosts_park(engine, attempt->queue, attempt->delivery.url, &attempt->op.life,
                      attempt->task.id.row);
}

/* A task has been settled, by whomever, and it is committed: what follows from it. */
void settle_follow(struct engine *engine, struct queue *queue, struct task_id id,
                   const struct op *op)
{
    count_settled(engine, op);
    numbers_ended(engine, queue, op);
    engine_count_move(engine, queue, op->was_state, &op->life);
    if (op->ticket != TICKET_ATTEMPT || !park(engine, (const struct attempt *)op)) {
        engine_schedule(engine, queue, &op->life, id.row);
    }
    probe_note(engine, &op->life, id.row);
    if (!op->uncounts || op->life.state != TASK_WAITING) { /* else as if it had not been taken */
        runs_tally(engine, queue, id.row, op->life.state);
    }
    if (op->spawn != NULL) {
        callback_born(engine, op->spawn);
        dispatch_queue(engine, engine->callbacks);
    }
    if (queue->dropped) {
        leftovers_settled(engine, queue->number, id);
    }
    settle_log_empty(engine, queue);
    inspect_wake(engine, id);
}

/* D3.2: retries that were due together are a run; it ends when none is left, or when nothing more
 * goes out. */
static void end_burst(struct engine *engine, struct queue *queue)
{
    struct schedule_entry first;
    bool has_more = schedule_first(&queue->due, &first) && first.due_ms <= engine_now_ms(engine);
    bool is_held = queue->paused || queue->outage.step == OUTAGE_DOWN;

    if (queue->burst.open > 0 || queue->burst.taken == 0 || (has_more && !is_held)) {
        return;
    }
    sums_log_run(engine, queue,
                 &(struct sums_run){.taken = queue->burst.taken,
                                    .succeeded = queue->burst.succeeded,
                                    .failed = queue->burst.failed,
                                    .retrying = queue->burst.retrying});
    queue->burst.taken = queue->burst.succeeded = 0;
    queue->burst.failed = queue->burst.retrying = 0;
}

static void tally_burst(struct attempt *attempt, enum task_state state)
{
    struct queue *queue = attempt->queue;

    if (!attempt->is_retry) {
        return;
    }
    bool is_put_off = attempt->delivery.is_uncounted; /* nobody was asked: it was not taken */
    queue->burst.open--;
    queue->burst.taken -= is_put_off;
    queue->burst.succeeded += state == TASK_SUCCEEDED;
    queue->burst.failed += state != TASK_SUCCEEDED && !is_put_off;
    queue->burst.retrying += state == TASK_WAITING && !is_put_off;
}

/* An answer that nobody can use any more, because somebody else has settled the task meanwhile, is
 * evidence: it may say that the effect happened twice. */
static void log_late(struct engine *engine, const struct attempt *attempt)
{
    char id[ID_TEXT_LEN + 1];

    if (attempt->op.result != RESULT_STALE || attempt->delivery.outcome.sent == TASK_SENT_NO) {
        return;
    }
    engine->stats.late_answers++;
    id_format(attempt->task.id, id);
    DARUMA_LOG(engine->options.log, DARUMA_LOG_WARN, "late_answer", daruma_log_text("task", id),
               daruma_log_bytes("queue", attempt->queue->name.at, attempt->queue->name.len),
               daruma_log_int("status", attempt->delivery.outcome.status),
               daruma_log_uint("attempt", attempt->life.attempts_all));
}

/* The SETTLE is answered. */
void settle_committed(struct engine *engine, struct attempt *attempt)
{
    struct queue *queue = attempt->queue;
    struct task_id id = attempt->task.id;

    if (attempt->is_streaming) {
        stream_head_written(engine, attempt);
        return;
    }
    engine->stats.unsaved--;
    if (attempt->op.fault == 0 && attempt->op.result == RESULT_DONE) {
        bool is_told = queue->route != NULL && task_is_settled(attempt->op.life.state);
        bool is_put_off = attempt->op.uncounts && attempt->op.life.state != TASK_DEAD;
        if (queue->route != NULL) {
            replay_settled(engine, attempt);
        }
        if (!is_put_off && !is_told && is_news(&attempt->op.life)) {
            struct settle_cause cause = cause_of(attempt);
            settle_log(engine, queue, id, &attempt->op.life, &cause);
        }
        log_provider(engine, attempt);
        numbers_attempt(engine, queue, &attempt->op);
        host_tally_note(engine, attempt);
        settle_follow(engine, queue, id, &attempt->op);
        tally_burst(attempt, attempt->op.life.state);
    } else {
        engine->stats.stale++; /* somebody else's by now, or gone: nothing of ours to change */
        log_late(engine, attempt);
        tally_burst(attempt, TASK_UNSETTLED);
        inspect_wake(engine, id);
    }
    end_burst(engine, queue);
    attempt_free(engine, attempt);
    dispatch_queue(engine, queue);
}

void engine_delivered(struct engine *engine, struct delivery *delivery)
{
    if (delivery->ticket == DELIVERY_PROBE) {
        probe_delivered(engine, delivery);
    } else if (delivery->ticket == DELIVERY_PASSAGE) {
        pass_delivered(engine, delivery);
    } else {
        struct attempt *attempt =
            (struct attempt *)((char *)delivery - offsetof(struct attempt, delivery));
        attempt->stream.has_ended = attempt->stream.is_head_open;
        if (!attempt->stream.is_head_open) { /* else the committer has its operation: later */
            settle_outcome(engine, attempt);
        }
    }
}
