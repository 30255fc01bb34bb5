/* SPDX-License-Identifier: MIT
 *
 * redrive -- many dead letters at once, by a person: every letter that a filter matches goes out
 * again, at a rate, behind live traffic.
 *
 *   redrive_ask --> count, page by page --> a dry run ends here
 *                        '--> memo --> 202 --> page --> REDRIVE, as the rate allows --> page … done
 *
 * It is a memo in the store, so a restart goes on with it: what was redriven before is not a letter
 * any more. Only letters that had failed before the redrive began are taken, so one that fails again
 * is not taken twice. The memo also has the sums, page by page: see redrive_recall.c.
 */
#include "engine/hold_internal.h"
#include "engine/lists_internal.h"
#include "engine/reach_internal.h"
#include "engine/memos_internal.h"
#include "engine/redrive_internal.h"
#include "task/fields.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define REDRIVES_MAX      100 /* ended ones that can still be asked about */
#define REDRIVES_LIVE_MAX 100 /* of this node, not ended; a start takes up all there are */
#define TOLD_MAX          5   /* of them, that a refused caller is told of */

/* --- the memo ---------------------------------------------------------------------------------------- */

/* Every letter up to here has had its turn, and the sums are those of here: what a restart goes on from. */
static void mark_place(struct redrive *redrive)
{
    redrive->place.redriven = redrive->view.redriven;
    redrive->place.skipped = redrive->view.skipped;
    redrive->place.after_row = redrive->after_row;
    redrive->place.act = redrive->kept_act;
}

static int render(const struct redrive *redrive, struct buf *fields)
{
    int failed = memos_add_number(fields, "queue", redrive->filter.queue);

    failed = failed != 0 ? failed : memos_add_number(fields, "class", redrive->filter.failed_class);
    failed =
        failed != 0 ? failed : memos_add_number(fields, "from", redrive->filter.failed_from_ms);
    failed =
        failed != 0 ? failed : memos_add_number(fields, "until", redrive->filter.failed_until_ms);
    failed = failed != 0 ? failed
                         : memos_add_number(fields, "rate",
                                            (int64_t)(redrive->view.rate_per_second * 1000));
    failed =
        failed != 0 ? failed : memos_add_number(fields, "matched", (int64_t)redrive->view.matched);
    failed = failed != 0 ? failed
                         : memos_add_number(fields, "redriven", (int64_t)redrive->place.redriven);
    failed =
        failed != 0 ? failed : memos_add_number(fields, "skipped", (int64_t)redrive->place.skipped);
    failed = failed != 0 ? failed : memos_add_number(fields, "after", redrive->place.after_row);
    failed = failed != 0 ? failed : memos_add_number(fields, "missed", redrive->has_missed);
    failed = failed != 0 ? failed : memos_add_number(fields, "act", redrive->place.act);
    failed =
        failed != 0 ? failed : memos_add_number(fields, "started", redrive->view.started_at_ms);
    failed =
        failed != 0 ? failed : memos_add_number(fields, "epoch", (int64_t)redrive->epoch_writing);
    failed = failed != 0
                 ? failed
                 : memos_add_number(fields, "now_redriven", (int64_t)redrive->view.redriven);
    failed = failed != 0 ? failed
                         : memos_add_number(fields, "now_skipped", (int64_t)redrive->view.skipped);
    return failed != 0 ? failed : fields_add(fields, SPAN("who"), span_of(redrive->who));
}

bool redrive_written(struct redrive *redrive, const struct errand *errand)
{
    bool is_written = errand->op.fault == 0 && errand->op.result == RESULT_DONE;
    bool is_refused = errand->op.fault == 0 || errand->op.fault == FAULT_UNKNOWN;

    assert(redrive->pending > 0 && redrive->memo_writes > 0);
    redrive->pending--;
    redrive->memo_writes--;
    redrive->is_contested |= !is_written && is_refused;
    redrive->is_own |= is_written;
    redrive->epoch = is_written ? redrive->epoch_writing : redrive->epoch;
    return is_written;
}

/* Among nodes what is written is held until it is known whether it is there: no two writes of a memo are
 * under way at once, and what it has is known. */
static bool start(struct engine *engine, struct redrive *redrive, struct errand *errand,
                  void (*then)(struct engine *engine, struct errand *errand))
{
    if (errand == NULL) {
        return false;
    }
    errand->redrive = redrive;
    errand->then = then;
    if (!errand_start(engine, errand)) {
        return false;
    }
    redrive->has_memo = true;
    redrive->is_settled = false;
    redrive->memo_writes++;
    redrive->pending++; /* it points at us */
    return true;
}

/* With the epoch of this node, as it is called now. */
static struct errand *memo_errand(struct engine *engine, struct redrive *redrive)
{
    struct errand *errand = NULL;
    struct buf value;
    char name[MEMO_NAME_BYTES];

    buf_init(&value, MEMO_VALUE_BYTES);
    redrive->epoch_writing = engine->store->epoch;
    if (render(redrive, &value) == 0) {
        errand = memos_errand(engine, memos_name(REDRIVE_PREFIX, redrive->view.id, name),
                              buf_span(&value));
    }
    buf_done(&value);
    return errand;
}

/* Only while the memo has the epoch that this node knows of: else a peer has taken the redrive over, or has
 * ended it, perhaps while this write was under way (I2). */
static struct errand *while_own(struct engine *engine, const struct redrive *redrive,
                                struct errand *errand, bool is_forgotten)
{
    char name[MEMO_NAME_BYTES];
    const struct memo_condition own = {.name = memos_name(REDRIVE_PREFIX, redrive->view.id, name),
                                       .epochs = {redrive->epoch, engine->store->epoch},
                                       .is_forgotten = is_forgotten};

    if (!nodes_are_many(engine)) {
        return errand;
    }
    errand = memos_only_while(errand, &own);
    if (errand != NULL) {
        errand->op.is_patient = true;
    }
    return errand;
}

static bool keep(struct engine *engine, struct redrive *redrive,
                 void (*then)(struct engine *engine, struct errand *errand))
{
    struct errand *errand = memo_errand(engine, redrive);

    return start(engine, redrive, while_own(engine, redrive, errand, false), then);
}

bool redrive_keep_end(struct engine *engine, struct redrive *redrive, const struct ask *act,
                      void (*then)(struct engine *engine, struct errand *errand))
{
    bool are_many = nodes_are_many(engine);
    char name[MEMO_NAME_BYTES];
    struct errand *errand =
        are_many
            ? redrive_ended_errand(engine, redrive)
            : memos_errand(engine, memos_name(REDRIVE_PREFIX, redrive->view.id, name), SPAN(""));

    errand = while_own(engine, redrive, errand, are_many);
    redrive->epoch_writing = redrive->epoch;
    if (errand != NULL) {
        audit_fill(errand, act, "redrive_cancel");
    }
    return start(engine, redrive, errand, then);
}

/* --- forgetting ---------------------------------------------------------------------------------------------- */

void redrive_reply(struct engine *engine, const struct redrive *redrive, uint64_t exchange)
{
    engine_reply(
        engine,
        &(struct reply){.kind = REPLY_REDRIVE, .exchange = exchange, .redrive = redrive->view});
}

void redrive_forget(struct engine *engine, struct redrive *redrive)
{
    struct redrive **link = &engine->redrives;

    while (*link != redrive) {
        link = &(*link)->next;
    }
    *link = redrive->next;
    redrive_forget_callers(redrive);
    free(redrive->letters);
    free(redrive);
}

void redrive_forget_old(struct engine *engine)
{
    struct redrive *next;
    size_t count = 0;

    for (struct redrive *each = engine->redrives; each != NULL; each = next) {
        next = each->next;
        if (!each->is_over || each->must_end || each->pending > 0 || each->is_reading) {
            continue;
        }
        redrive_drop_letters(each);
        if (each->is_lost) {
            redrive_forget(engine, each);
        } else if (++count > REDRIVES_MAX) {
            redrive_forget_ended(engine, each);
            redrive_forget(engine, each);
        }
    }
}

void redrive_fail(struct engine *engine, struct redrive *redrive, const struct error *error)
{
    engine_reply_fault(engine, redrive->exchange, 0, error);
    redrive_forget(engine, redrive);
}

static void begun_kept(struct engine *engine, struct errand *errand)
{
    struct redrive *redrive = errand->redrive;
    struct error error = errand->op.error;
    uint64_t exchange = errand->exchange;
    int fault = errand->op.fault;

    (void)redrive_written(redrive, errand); /* there was no condition */
    errand_free(errand);
    if (fault != 0 && fault != FAULT_UNKNOWN) {
        redrive_fail(engine, redrive, &error); /* nothing was begun */
        return;
    }
    if (fault != 0) { /* where the memo is there, a node has to go on with it */
        engine_reply_fault(engine, exchange, 0, &error);
    } else {
        redrive_reply(engine, redrive, exchange);
    }
    redrive->exchange = NOBODY;
    redrive_read(engine, redrive);
}

/* Who began it is kept with it, and what it is about. */
bool redrive_keep_begun(struct engine *engine, struct redrive *redrive)
{
    const struct queue *queue = engine_queue_at(engine, redrive->filter.queue);
    char note[96];

    (void)snprintf(note, sizeof note, "redrive %" PRIu64 ": matched %" PRIu64 ", %g a second",
                   redrive->view.id, redrive->view.matched,
                   redrive->view.rate_per_second); /* fits */
    mark_place(redrive);
    redrive->epoch = engine->store->epoch;
    redrive->is_own = true; /* also where it is not known whether the memo is there */
    struct errand *errand = memo_errand(engine, redrive);
    if (errand != NULL) {
        errand->exchange = redrive->exchange;
        audit_fill(errand,
                   &(struct ask){.who = span_of(redrive->who),
                                 .queue = queue != NULL ? queue->name : SPAN(""),
                                 .note = span_of(note)},
                   "redrive_many");
    }
    return start(engine, redrive, errand, begun_kept);
}

static void sums_kept(struct engine *engine, struct errand *errand)
{
    struct redrive *redrive = errand->redrive;
    bool is_kept = redrive_written(redrive, errand);

    errand_free(errand);
    redrive->has_news |= !is_kept;
    if (redrive->is_over) {
        redrive_forget_old(engine);
    } else if (is_kept) {
        redrive_read(engine, redrive);
    } else {
        redrive_wait_for_room(engine, redrive);
    }
}

/* How far it has come. Not while a letter is under way: the sums are those of the place. False: no
 * room now. */
bool redrive_keep_sums(struct engine *engine, struct redrive *redrive)
{
    assert(redrive->pending == 0);

    mark_place(redrive);
    redrive->has_news = !keep(engine, redrive, sums_kept);
    return !redrive->has_news;
}

static void progress_kept(struct engine *engine, struct errand *errand)
{
    struct redrive *redrive = errand->redrive;

    (void)redrive_written(redrive, errand); /* one that failed is told with the next */
    errand_free(errand);
    if (redrive->is_over) {
        redrive_forget_old(engine);
    }
}

/* For peers to tell, in the middle of a page: the place stays where it is. Also that it is this node's now. */
void redrive_keep_progress(struct engine *engine, struct redrive *redrive)
{
    uint64_t done = redrive->view.redriven + redrive->view.skipped;
    bool is_news = done != redrive->told && !redrive->is_over; /* else the end tells */

    assert((!redrive->is_over || redrive->must_end) && redrive->exchange == NOBODY);
    is_news |= redrive->epoch != engine->store->epoch;
    if (is_news && keep(engine, redrive, progress_kept)) {
        redrive->told = done;
    }
}

/* --- asking ---------------------------------------------------------------------------------------------- */

static struct redrive *redrive_new(struct engine *engine, uint64_t id)
{
    struct redrive *redrive = calloc(1, sizeof *redrive);

    if (redrive == NULL) {
        return NULL;
    }
    redrive->view = (struct redrive_view){.id = id, .state = "counting"};
    redrive->epoch = engine->store->epoch;
    redrive->filter.states = 1u << TASK_DEAD;
    redrive->filter.flags = LIFE_LETTER;
    redrive->is_counting = true;
    redrive->tokens_at_ms = clock_mono_ms(engine->options.clock);
    redrive->next = engine->redrives;
    engine->redrives = redrive;
    return redrive;
}

static bool is_live(const struct redrive *redrive)
{
    return !redrive->is_over && !redrive->is_dry;
}

static bool may_begin(const struct engine *engine, const struct ask *ask)
{
    struct lists_live live = {.max = REDRIVES_LIVE_MAX};

    for (const struct redrive *each = engine->redrives; each != NULL; each = each->next) {
        live.all += is_live(each);
        live.own += is_live(each) && lists_is_his(each->who, ask->who);
    }
    return ask->dry_run || lists_may_last(ask, &live);
}

/* With the numbers of some that the caller may cancel, the newest first. */
static void refuse(struct engine *engine, const struct ask *ask)
{
    char told[TOLD_MAX * 24 + 32] = ""; /* numbers have 20 digits at most */
    struct error error = {0};
    size_t len = 0, count = 0;

    for (const struct redrive *each = engine->redrives; each != NULL && count < TOLD_MAX;
         each = each->next) {
        bool is_known = is_live(each) && each->exchange == NOBODY;
        if (is_known && engine_reaches(engine, &ask->reach, each->filter.queue)) {
            len += (size_t)snprintf(told + len, sizeof told - len, "%s%" PRIu64,
                                    count == 0 ? ", or cancel one: " : ", ", each->view.id);
            count++;
        }
    }
    (void)fail_told(&error, FAULT_FULL, /* the reply carries it */
                    "too many redrives are under way (%d at most, %d of a token that is limited to "
                    "queues): wait until one has ended%s",
                    REDRIVES_LIVE_MAX, LISTS_LIMITED(REDRIVES_LIVE_MAX), told);
    engine_reply_fault(engine, ask->exchange, 0, &error);
}

static void begin(struct engine *engine, const struct ask *ask)
{
    const struct queue *queue = hold_find(engine, ask->queue);
    int64_t now_ms = engine_now_ms(engine);

    if (queue == NULL && ask->queue.len > 0) {
        engine_reply(engine,
                     &(struct reply){.kind = REPLY_UNKNOWN_QUEUE, .exchange = ask->exchange});
        return;
    }
    if (queue != NULL && hold_is_shut(queue)) {
        engine_reply(engine, &(struct reply){.kind = hold_reply(queue), .exchange = ask->exchange});
        return;
    }
    if (!lists_may_walk(engine)) {
        lists_refuse_bulk(engine, ask->exchange);
        return;
    }
    if (!nodes_may_number(engine, ask->exchange)) {
        return;
    }
    if (!may_begin(engine, ask)) {
        refuse(engine, ask);
        return;
    }
    struct redrive *redrive = redrive_new(engine, (uint64_t)id_make(&engine->ids, now_ms).row);
    if (redrive == NULL) {
        inspect_no_room(engine, ask->exchange, 0);
        return;
    }
    int64_t until_ms = ask->filter.failed_until_ms;
    redrive->filter.queue = queue != NULL ? queue->number : 0;
    redrive->filter.failed_class = ask->filter.failed_class;
    redrive->filter.failed_from_ms = ask->filter.failed_from_ms;
    redrive->filter.failed_until_ms = until_ms != 0 && until_ms <= now_ms ? until_ms : now_ms + 1;
    redrive->view.rate_per_second =
        ask->rate_per_second > 0 ? ask->rate_per_second : ENGINE_REDRIVE_RATE;
    redrive->view.started_at_ms = now_ms;
    redrive->is_dry = ask->dry_run;
    redrive->exchange = ask->exchange;
    (void)snprintf(redrive->who, sizeof redrive->who, "%.*s",
                   SPAN_ARGS(ask->who)); /* cut if long */
    redrive_count(engine, redrive);
    if (!redrive->is_reading) {
        struct error error = {0};
        (void)fail(&error, FAULT_FULL, "too much is being read"); /* the reply carries it */
        redrive_fail(engine, redrive, &error);
    }
}

/* One whose number nobody has been told yet is not there. */
struct redrive *redrive_find(const struct engine *engine, uint64_t id)
{
    for (struct redrive *each = engine->redrives; each != NULL; each = each->next) {
        if (each->view.id == id && each->exchange == NOBODY && !each->is_lost) {
            return each;
        }
    }
    return NULL;
}

/* A peer may be at it by now, or have ended it. Nothing was done. */
static void reply_lost(struct engine *engine, uint64_t exchange)
{
    struct error error = {0};

    (void)fail_told(&error, FAULT_IO, /* the reply carries it */
                    "this node has lost the store, does not know how far the redrive has come, and "
                    "cannot cancel it: ask again, or ask another node");
    engine_reply_fault(engine, exchange, 0, &error);
}

void redrive_ask(struct engine *engine, const struct ask *ask)
{
    if (ask->kind == ASK_REDRIVE_MANY) {
        begin(engine, ask);
        return;
    }
    struct redrive *redrive = redrive_find(engine, (uint64_t)ask->id.row);
    bool is_written = redrive != NULL && redrive->is_over && !redrive->must_end;
    bool is_doubted = redrive != NULL && !is_written && redrive_is_doubted(engine, redrive);
    /* Its end is being written: a peer may read it in the store before this node hears that it is there. */
    bool is_behind = redrive != NULL && redrive->is_ending && nodes_are_many(engine) &&
                     ask->kind != ASK_REDRIVE_CANCEL;
    if (is_doubted && nodes_lease_is_over(engine)) {
        reply_lost(engine, ask->exchange);
    } else if (is_doubted || is_behind || (redrive == NULL && nodes_are_many(engine))) {
        redrive_ask_peers(engine, ask);
    } else if (redrive == NULL || !engine_reaches(engine, &ask->reach, redrive->filter.queue)) {
        engine_reply(engine,
                     &(struct reply){.kind = REPLY_UNKNOWN_REDRIVE, .exchange = ask->exchange});
    } else if (ask->kind == ASK_REDRIVE_CANCEL) {
        redrive_cancel(engine, redrive, ask);
    } else {
        redrive_reply(engine, redrive, ask->exchange);
    }
}

/* At start: goes on with what is left. */
int redrive_restore(struct engine *engine, struct span name, struct span value)
{
    struct span who;
    uint64_t id;

    if (!memos_is(name, REDRIVE_PREFIX, &id)) {
        return 0;
    }
    struct redrive *redrive = redrive_new(engine, id);
    if (redrive == NULL) {
        return FAULT_MEMORY;
    }
    redrive->filter.queue = (uint32_t)memos_number(value, "queue");
    redrive->filter.failed_class = (uint32_t)memos_number(value, "class");
    redrive->filter.failed_from_ms = memos_number(value, "from");
    redrive->filter.failed_until_ms = memos_number(value, "until");
    redrive->view.rate_per_second = (double)memos_number(value, "rate") / 1000;
    redrive->view.matched = (uint64_t)memos_number(value, "matched");
    redrive->view.redriven = (uint64_t)memos_number(value, "redriven");
    redrive->view.skipped = (uint64_t)memos_number(value, "skipped");
    redrive->kept_row = memos_number(value, "after");
    redrive->has_missed = memos_number(value, "missed") != 0;
    redrive->kept_act = memos_number(value, "act");
    redrive->after_row = redrive->kept_row;
    mark_place(redrive);
    redrive->after_row = 0;
    redrive->is_restored = true;
    redrive->view.started_at_ms = memos_number(value, "started");
    redrive->epoch = (uint64_t)memos_number(value, "epoch");
    redrive->has_memo = true;
    if (redrive->view.rate_per_second <= 0) {
        redrive->view.rate_per_second = ENGINE_REDRIVE_RATE;
    }
    if (fields_find(value, "who", &who)) {
        (void)snprintf(redrive->who, sizeof redrive->who, "%.*s", SPAN_ARGS(who)); /* fits */
    }
    return 0;
}

void redrive_free_all(struct engine *engine)
{
    while (engine->redrives != NULL) {
        redrive_forget(engine, engine->redrives);
    }
}
