/* SPDX-License-Identifier: MIT
 *
 * lease_words -- what workers say of their leases: done, failed, more time; and what is said when
 * they say nothing: a lease that is over is a failed attempt. The task is read, judged by the same
 * rule as any other attempt (task/judge.c), and settled on the fence of the lease (I2).
 *
 * A task that is pulled may be done more than once, by definition: nothing of it is ever unsettled.
 */
#include "engine/engine_internal.h"
#include "base/plant.h"

#include <stdlib.h>

#define LEASE_OVER "lease expired"
#define TOO_LATE   "the deadline passed before a worker took it"

/* One ask: many words, one reply. */
struct lease_settle {
    uint64_t exchange;
    struct reach reach;  /* of the worker */
    struct arena *arena; /* owns what was said */
    struct lease_word *words;
    struct lease_answer *answers;
    size_t count, pending;
    int fault; /* of a word that the store did not take */
    struct error error;
};

/* --- the reply ----------------------------------------------------------------------------------------- */

/* The last one is answered: so is the worker. */
static void finish_one(struct engine *engine, struct lease_settle *settle)
{
    if (--settle->pending > 0) {
        return;
    }
    if (settle->fault != 0) {
        engine_reply_fault(engine, settle->exchange, 0, &settle->error);
    } else {
        engine_reply(engine, &(struct reply){.kind = REPLY_LEASE_RESULTS,
                                             .exchange = settle->exchange,
                                             .results = settle->answers,
                                             .result_count = settle->count});
    }
    arena_free(settle->arena);
    free(settle);
}

static void answer_one(struct engine *engine, struct lease_settle *settle, size_t word,
                       enum lease_result result)
{
    settle->answers[word].result = result;
    finish_one(engine, settle);
}

static void fail_one(struct engine *engine, struct lease_settle *settle, size_t word,
                     const struct error *error)
{
    settle->fault = FAULT_UNKNOWN;
    settle->error = *error;
    answer_one(engine, settle, word, LEASE_STALE);
}

static void no_room(struct engine *engine, struct lease_settle *settle, size_t word)
{
    struct error error = {0};

    (void)fail(&error, FAULT_FULL, "too much is under way"); /* the reply carries it */
    fail_one(engine, settle, word, &error);
}

/* --- judging ------------------------------------------------------------------------------------------- */

/* When the worker got it. The clock may have been set back since, and leases of earlier versions do
 * not say: then no more is told than that it has ended. */
static int64_t began_at_ms(const struct life *leased, int64_t now_ms)
{
    int64_t began_ms = leased->due_at_ms - leased->wait_ms;

    return leased->wait_ms > 0 && began_ms < now_ms ? began_ms : now_ms;
}

/* The life after an attempt that failed, and the row of the trail that tells of it. */
static void judge_failure(struct engine *engine, struct errand *errand, const struct record *record,
                          const struct outcome *outcome, struct span text)
{
    struct queue *queue = engine_queue_at(engine, record->task.queue);
    struct judgement judgement;
    struct daruma_policy policy;
    int64_t now_ms = engine_now_ms(engine);

    if (engine_policy(engine, queue, &record->task, errand->arena, &policy) != 0) {
        (void)daruma_policy_create(NULL, &policy, NULL); /* the default one is always good */
    }
    judge_attempt(&(struct judge_input){.outcome = outcome,
                                        .policy = &policy,
                                        .life = &record->life,
                                        .repeatable = true,
                                        .now_ms = now_ms,
                                        .random = daruma_dice_roll(engine->options.dice)},
                  &judgement);
    errand->op.life = judgement.life;
    errand->trail = (struct trail_row){.attempt = record->life.attempts_all,
                                       .target = SPAN("worker"),
                                       .started_at_ms = began_at_ms(&record->life, now_ms),
                                       .ended_at_ms = now_ms,
                                       .error_class = (int)judgement.error_class,
                                       .sent = outcome->sent,
                                       .sends = 1,
                                       .message = arena_copy(errand->arena, text),
                                       .wait_ms = judgement.life.wait_ms};
    errand->op.trail = &errand->trail;
    errand->op.trail_count = 1;
}

static void fill_spawn(struct engine *engine, struct errand *errand, const struct record *record)
{
    struct record ended = *record;

    ended.life = errand->op.life;
    ended.answer = errand->op.answer != NULL ? *errand->op.answer : (struct answer){0};
    ended.trail = (struct trail_row *)errand->op.trail;
    ended.trail_count = errand->op.trail_count;
    errand->op.spawn = callback_make(engine, &ended, errand->arena);
}

static void fill_ack(struct engine *engine, struct errand *errand, const struct record *record,
                     const struct answer *answer)
{
    struct life *life = &errand->op.life;
    int64_t now_ms = engine_now_ms(engine);

    *life = record->life;
    life->state = TASK_SUCCEEDED;
    life->settled_at_ms = now_ms;
    life->due_at_ms = now_ms;
    life->wait_ms = 0;
    life->resolved_at_ms = (life->flags & LIFE_LETTER) != 0 ? now_ms : 0;
    errand->answer = (struct answer){.status = 200, .settled_by = SPAN("worker")};
    if (answer != NULL) {
        errand->answer.status = answer->status;
        errand->answer.headers = arena_copy(errand->arena, answer->headers);
        errand->answer.body = arena_copy(errand->arena, answer->body);
    }
    errand->op.answer = &errand->answer;
    errand->trail = (struct trail_row){.attempt = life->attempts_all,
                                       .target = SPAN("worker"),
                                       .started_at_ms = began_at_ms(&record->life, now_ms),
                                       .ended_at_ms = now_ms,
                                       .error_class = -1,
                                       .status = errand->answer.status,
                                       .sent = TASK_SENT_YES,
                                       .sends = 1};
    errand->op.trail = &errand->trail;
    errand->op.trail_count = 1;
}

static void fill_retry(struct engine *engine, struct errand *errand, const struct record *record,
                       const struct lease_word *word)
{
    const struct outcome outcome = {.sent = TASK_SENT_YES, .error_class = word->error_class};

    judge_failure(engine, errand, record, &outcome, word->text);
    struct life *life = &errand->op.life;
    if (word->delay_ms >= 0 && life->state == TASK_WAITING) {
        life->wait_ms = word->delay_ms;
        life->due_at_ms = engine_now_ms(engine) + word->delay_ms;
        errand->trail.wait_ms = word->delay_ms;
    }
}

/* As if it had never been leased. */
static void fill_return(struct engine *engine, struct errand *errand, const struct life *life)
{
    errand->op.life = *life;
    errand->op.life.state = TASK_WAITING;
    errand->op.life.due_at_ms = engine_now_ms(engine);
    errand->op.life.wait_ms = 0;
    errand->op.uncounts = true;
}

/* --- the flow ------------------------------------------------------------------------------------------ */

static enum lease_result result_of(const struct op *op)
{
    if (op->result != RESULT_DONE) {
        return LEASE_STALE;
    }
    if (op->kind == OP_EXTEND) {
        return LEASE_EXTENDED;
    }
    return op->life.state == TASK_WAITING ? LEASE_WAITING : LEASE_SETTLED;
}

/* A settle of a pulled task is committed, whoever asked for it. */
static void follow(struct engine *engine, const struct errand *errand)
{
    const struct op *op = &errand->op;
    struct queue *queue = engine_queue_at(engine, op->task.queue);

    if (op->kind == OP_EXTEND) {
        leases_watch(engine, op);
    } else if (queue != NULL) {
        if (!op->uncounts || op->life.state == TASK_DEAD) {
            settle_log(engine, queue, op->task.id, &op->life,
                       &(struct settle_cause){.attempts = op->life.attempts});
        }
        numbers_attempt(engine, queue, op);
        settle_follow(engine, queue, op->task.id, op);
        dispatch_queue(engine, queue);
    } else {
        leftovers_settled(engine, op->task.queue, op->task.id);
    }
}

static void word_done(struct engine *engine, struct errand *errand)
{
    const struct op *op = &errand->op;

    if (op->fault == 0 && op->result == RESULT_DONE) {
        follow(engine, errand);
    } else if (op->fault == 0) {
        engine->stats.stale++;
    }
    if (op->fault != 0) {
        fail_one(engine, errand->settle, errand->word, &op->error);
    } else {
        answer_one(engine, errand->settle, errand->word, result_of(op));
    }
    errand_free(errand);
}

static void fill_word(struct engine *engine, struct errand *errand, const struct record *record,
                      const struct lease_word *word)
{
    struct queue *queue = engine_queue_at(engine, record->task.queue);
    int64_t most_ms = queue != NULL ? queue->settings.lease_ms : QUEUE_LEASE_MS;

    switch (word->kind) {
    case LEASE_EXTEND:
        errand->op.kind = OP_EXTEND;
        errand->op.life = record->life;
        errand->op.lease_until_ms =
            engine_now_ms(engine) +
            (word->lease_ms == 0 || word->lease_ms > most_ms ? most_ms : word->lease_ms);
        break;
    case LEASE_ACK:
        fill_ack(engine, errand, record, word->answer);
        break;
    case LEASE_RETRY:
        fill_retry(engine, errand, record, word);
        break;
    case LEASE_RETURN:
    default:
        fill_return(engine, errand, &record->life);
        errand->op.life.flags |= word->is_forced ? LIFE_FORCED : 0;
        break;
    }
    if (errand->op.kind == OP_SETTLE) {
        fill_spawn(engine, errand, record);
    }
}

static bool holds(const struct record *record, const struct lease_word *word)
{
    PLANT(WORD_UNFENCED, return record->life.state == TASK_RUNNING)
    return record->life.state == TASK_RUNNING && (record->life.flags & LIFE_PULL) != 0 &&
           record->life.fence == word->fence && record->life.epoch == word->epoch;
}

static void word_read(struct engine *engine, struct read *read)
{
    struct lease_settle *settle = read->settle;
    const struct lease_word *word = &settle->words[read->word];
    const struct record *record = read->records;
    struct errand *errand;

    if (read->fault != 0) {
        fail_one(engine, settle, read->word, &read->error);
        return;
    }
    if (read->record_count == 0 || !holds(record, word)) {
        engine->stats.stale++;
        answer_one(engine, settle, read->word, LEASE_STALE);
        return;
    }
    errand = errand_new(engine, OP_SETTLE);
    if (errand != NULL) {
        errand->op.task.id = record->task.id;
        errand->settle = settle;
        errand->word = read->word;
        errand->then = word_done;
        fill_word(engine, errand, record, word);
    }
    if (errand != NULL && errand->op.kind == OP_EXTEND &&
        !leases_note(engine, errand->op.lease_until_ms, record->task.id.row)) {
        errand_free(errand);
        errand = NULL;
    }
    if (!errand_start(engine, errand)) {
        no_room(engine, settle, read->word);
    }
}

static void start_word(struct engine *engine, struct lease_settle *settle, size_t word)
{
    struct read *read = settle->words[word].id.row != 0 ? inspect_new(READ_TASK) : NULL;

    if (settle->words[word].id.row == 0) {
        answer_one(engine, settle, word, LEASE_STALE); /* no lease that we ever gave */
        return;
    }
    if (read != NULL) {
        read->id = settle->words[word].id;
        read->reach = settle->reach;
        read->settle = settle;
        read->word = word;
        read->then = word_read;
    }
    if (read == NULL || !inspect_start(engine, read)) {
        no_room(engine, settle, word);
    }
}

/* Copies what was said: the caller's spans are gone when the ask returns. */
static bool copy_word(struct arena *arena, const struct lease_word *from, struct lease_word *to)
{
    *to = *from;
    to->lease = arena_copy(arena, from->lease);
    to->text = arena_copy(arena, from->text);
    if (from->answer != NULL) {
        struct answer *answer = arena_alloc(arena, sizeof *answer);
        if (answer == NULL) {
            return false;
        }
        *answer = (struct answer){.status = from->answer->status,
                                  .headers = arena_copy(arena, from->answer->headers),
                                  .body = arena_copy(arena, from->answer->body)};
        to->answer = answer;
        if (answer->headers.at == NULL || answer->body.at == NULL) {
            return false;
        }
    }
    return to->lease.at != NULL && to->text.at != NULL;
}

static struct lease_settle *settle_new(const struct ask *ask)
{
    struct lease_settle *settle = calloc(1, sizeof *settle);

    if (settle == NULL) {
        return NULL;
    }
    settle->exchange = ask->exchange;
    settle->reach = ask->reach;
    settle->arena = arena_new(ARENA_MAX);
    if (settle->arena != NULL) {
        settle->words = arena_alloc(settle->arena, ask->word_count * sizeof *settle->words);
        settle->answers = arena_alloc(settle->arena, ask->word_count * sizeof *settle->answers);
    }
    bool is_whole = settle->arena != NULL && settle->words != NULL && settle->answers != NULL;
    for (size_t i = 0; is_whole && i < ask->word_count; i++) {
        is_whole = copy_word(settle->arena, &ask->words[i], &settle->words[i]);
        settle->answers[i].lease = settle->words[i].lease;
    }
    if (!is_whole) {
        arena_free(settle->arena);
        free(settle);
        return NULL;
    }
    return settle;
}

void lease_words_ask(struct engine *engine, const struct ask *ask)
{
    struct lease_settle *settle = settle_new(ask);

    if (settle == NULL) {
        inspect_no_room(engine, ask->exchange, 0);
        return;
    }
    size_t count = settle->count = ask->word_count;
    settle->pending = count + 1; /* keeps it alive while the words are being started */
    for (size_t i = 0; i < count; i++) {
        start_word(engine, settle, i);
    }
    finish_one(engine, settle);
}

/* --- the end of a lease ---------------------------------------------------------------------------------- */

/* Later once more: the entry that brought us here has left room for this one. */
static void look_later(struct engine *engine, int64_t row)
{
    (void)!leases_note(engine, engine_now_ms(engine) + ENGINE_RETRY_AFTER_MS, row);
}

static bool is_leased(const struct read *read)
{
    return read->record_count > 0 && read->records[0].life.state == TASK_RUNNING &&
           (read->records[0].life.flags & LIFE_PULL) != 0;
}

static void expired(struct engine *engine, struct errand *errand)
{
    const struct op *op = &errand->op;

    if (op->fault == 0 && op->result == RESULT_DONE) {
        engine->stats.expired_leases += op->kind == OP_EXPIRE;
        follow(engine, errand);
    } else if (op->fault != 0 || op->result == RESULT_NOT_DUE) {
        look_later(engine, op->task.id.row);
    }
    errand_free(errand);
}

static void expire_read(struct engine *engine, struct read *read)
{
    const struct outcome outcome = {.sent = TASK_SENT_MAYBE, .error_class = DARUMA_CLASS_TRANSIENT};
    const struct record *record = read->records;
    struct errand *errand;

    if (read->fault != 0) {
        look_later(engine, read->id.row);
        return;
    }
    if (!is_leased(read)) {
        return; /* settled */
    }
    if (record->life.due_at_ms > engine_now_ms(engine)) { /* extended, or the clock was set back */
        (void)!leases_note(engine, record->life.due_at_ms, read->id.row);
        return;
    }
    errand = errand_new(engine, OP_EXPIRE);
    if (errand != NULL) {
        errand->op.task.id = record->task.id;
        errand->op.is_patient = true;
        errand->then = expired;
        judge_failure(engine, errand, record, &outcome, SPAN(LEASE_OVER));
        fill_spawn(engine, errand, record);
    }
    if (!errand_start(engine, errand)) {
        look_later(engine, read->id.row);
    }
}

/* False: no room to look at it now. */
bool lease_expire(struct engine *engine, int64_t row)
{
    struct read *read = inspect_new(READ_TASK);

    if (read == NULL) {
        return false;
    }
    read->id = (struct task_id){.row = row, .tail = ID_ANY_TAIL};
    read->then = expire_read;
    return inspect_start(engine, read);
}

/* Leased, but past its deadline: it ends here, and no worker sees it. Without room it ends with the
 * lease, which is over soon enough. */
void lease_bury(struct engine *engine, const struct op *leased)
{
    struct errand *errand = errand_new(engine, OP_SETTLE);
    const struct record record = {.task = leased->task, .life = leased->life};
    struct judgement judgement;

    if (errand != NULL) {
        judge_expire(&leased->life, engine_now_ms(engine), &judgement);
        errand->op.task.id = leased->task.id;
        errand->op.is_patient = true;
        errand->op.life = judgement.life;
        errand->op.life.attempts--; /* no worker has seen it: it was no attempt */
        errand->op.life.attempts_all--;
        errand->op.uncounts = errand->op.is_unbegun = true;
        errand->then = expired;
        errand->trail = (struct trail_row){.attempt = errand->op.life.attempts_all,
                                           .started_at_ms = errand->op.now_ms,
                                           .ended_at_ms = errand->op.now_ms,
                                           .error_class = DARUMA_CLASS_EXPIRED,
                                           .message = SPAN(TOO_LATE)};
        errand->op.trail = &errand->trail;
        errand->op.trail_count = 1;
        fill_spawn(engine, errand, &record);
    }
    (void)errand_start(engine, errand);
}

/* Leased, and the queue was paused or deleted before a worker was told: it goes back, and no worker sees
 * it. Without room it goes back when the lease is over. */
void lease_return(struct engine *engine, const struct op *leased)
{
    struct errand *errand = errand_new(engine, OP_SETTLE);

    if (errand != NULL) {
        errand->op.task.id = leased->task.id;
        errand->op.is_patient = true;
        errand->then = expired;
        fill_return(engine, errand, &leased->life);
    }
    (void)errand_start(engine, errand);
}
