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
#include "engine/reach_internal.h"
#include "engine/redrive_internal.h"
#include "task/fields.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMO_PREFIX  "redrive:"
#define REDRIVES_MAX 100 /* ended ones that can still be asked about */
#define VALUE_BYTES  1024

/* --- the memo ---------------------------------------------------------------------------------------- */

static int add_number(struct buf *fields, const char *name, int64_t number)
{
    char digits[24];

    (void)snprintf(digits, sizeof digits, "%" PRId64, number); /* fits */
    return fields_add(fields, span_of(name), span_of(digits));
}

static int render(const struct redrive *redrive, struct buf *fields)
{
    int failed = add_number(fields, "queue", redrive->filter.queue);

    failed = failed != 0 ? failed : add_number(fields, "class", redrive->filter.failed_class);
    failed = failed != 0 ? failed : add_number(fields, "from", redrive->filter.failed_from_ms);
    failed = failed != 0 ? failed : add_number(fields, "until", redrive->filter.failed_until_ms);
    failed = failed != 0
                 ? failed
                 : add_number(fields, "rate", (int64_t)(redrive->view.rate_per_second * 1000));
    failed = failed != 0 ? failed : add_number(fields, "matched", (int64_t)redrive->view.matched);
    failed = failed != 0 ? failed : add_number(fields, "redriven", (int64_t)redrive->view.redriven);
    failed = failed != 0 ? failed : add_number(fields, "skipped", (int64_t)redrive->view.skipped);
    failed = failed != 0 ? failed : add_number(fields, "after", redrive->after_row);
    failed = failed != 0 ? failed : add_number(fields, "missed", redrive->has_missed);
    failed = failed != 0 ? failed : add_number(fields, "act", redrive->kept_act);
    failed = failed != 0 ? failed : add_number(fields, "started", redrive->view.started_at_ms);
    failed = failed != 0 ? failed : add_number(fields, "epoch", (int64_t)redrive->epoch);
    return failed != 0 ? failed : fields_add(fields, SPAN("who"), span_of(redrive->who));
}

static int64_t read_number(struct span fields, const char *name)
{
    struct span value;
    int64_t number = 0;

    if (fields_find(fields, name, &value)) {
        (void)span_to_int(value, &number); /* we wrote it; else 0 stays */
    }
    return number;
}

/* Writes the memo, or forgets it: a redrive that is over needs none. Whoever asked for it is told
 * when it is committed. */
static bool keep(struct engine *engine, struct redrive *redrive, const struct ask *ask,
                 void (*then)(struct engine *engine, struct errand *errand))
{
    struct errand *errand = errand_new(engine, OP_MEMO);
    struct buf value;
    char name[48];
    int failed = 0;

    if (errand == NULL) {
        return false;
    }
    (void)snprintf(name, sizeof name, MEMO_PREFIX "%" PRIu64, redrive->view.id); /* fits */
    buf_init(&value, VALUE_BYTES);
    if (!redrive->is_over) {
        failed = render(redrive, &value);
    }
    errand->op.memo.name = arena_copy(errand->arena, span_of(name));
    errand->op.memo.value = arena_copy(errand->arena, buf_span(&value));
    errand->redrive = redrive;
    errand->then = then;
    if (ask != NULL) {
        errand->exchange = ask->exchange;
        audit_fill(errand, ask, redrive->is_over ? "redrive_cancel" : "redrive_many");
    }
    buf_done(&value);
    if (failed != 0 || errand->op.memo.name.at == NULL || errand->op.memo.value.at == NULL) {
        errand_free(errand);
        return false;
    }
    if (!errand_start(engine, errand)) {
        return false;
    }
    redrive->has_memo = true;
    redrive->pending++; /* it points at us */
    return true;
}

/* --- ends ---------------------------------------------------------------------------------------------- */

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
    free(redrive->letters);
    free(redrive);
}

static void forget_old(struct engine *engine)
{
    struct redrive *next;
    size_t count = 0;

    for (struct redrive *each = engine->redrives; each != NULL; each = next) {
        next = each->next;
        if (each->is_over && each->pending == 0 && !each->is_reading && ++count > REDRIVES_MAX) {
            redrive_forget(engine, each);
        }
    }
}

void redrive_fail(struct engine *engine, struct redrive *redrive, const struct error *error)
{
    engine_reply_fault(engine, redrive->exchange, 0, error);
    redrive_forget(engine, redrive);
}

static void memo_kept(struct engine *engine, struct errand *errand);

void redrive_end(struct engine *engine, struct redrive *redrive, const char *state)
{
    struct redrive_view *view = &redrive->view;

    if (view->redriven + view->skipped < view->matched) { /* some were gone before they were seen */
        view->skipped = view->matched - view->redriven;
    }
    redrive->is_over = true;
    view->state = state;
    DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "redrive_done",
               daruma_log_uint("redrive", redrive->view.id), daruma_log_text("state", state),
               daruma_log_uint("matched", redrive->view.matched),
               daruma_log_uint("redriven", redrive->view.redriven),
               daruma_log_uint("skipped", redrive->view.skipped));
    (void)keep(engine, redrive, NULL,
               memo_kept); /* left behind, it finds nothing to do at the next start */
}

/* It has ended or was cancelled, and that is written, or not: then the next start goes on with it. */
static void end_kept(struct engine *engine, struct redrive *redrive, uint64_t exchange,
                     const struct error *fault)
{
    redrive->has_memo = fault != NULL;
    if (exchange != NOBODY && fault != NULL) {
        engine_reply_fault(engine, exchange, 0, fault);
    } else if (exchange != NOBODY) {
        redrive_reply(engine, redrive, exchange);
    }
    forget_old(engine);
}

static void memo_kept(struct engine *engine, struct errand *errand)
{
    struct redrive *redrive = errand->redrive;
    struct error error = errand->op.error;
    uint64_t exchange = errand->exchange;
    int fault = errand->op.fault;

    errand_free(errand);
    redrive->pending--;
    if (redrive->is_over) {
        end_kept(engine, redrive, exchange, fault != 0 ? &error : NULL);
    } else if (fault != 0) {
        redrive_fail(engine, redrive, &error); /* nothing was begun */
    } else {
        redrive_reply(engine, redrive, exchange);
        redrive->exchange = NOBODY;
        redrive_read(engine, redrive);
    }
}

/* Who began it is kept with it, and what it is about. */
bool redrive_keep_begun(struct engine *engine, struct redrive *redrive)
{
    const struct queue *queue = engine_queue_at(engine, redrive->filter.queue);
    char note[96];

    (void)snprintf(note, sizeof note, "redrive %" PRIu64 ": matched %" PRIu64 ", %g a second",
                   redrive->view.id, redrive->view.matched,
                   redrive->view.rate_per_second); /* fits */
    return keep(engine, redrive,
                &(struct ask){.exchange = redrive->exchange,
                              .who = span_of(redrive->who),
                              .queue = queue != NULL ? queue->name : SPAN(""),
                              .note = span_of(note)},
                memo_kept);
}

static void sums_kept(struct engine *engine, struct errand *errand)
{
    struct redrive *redrive = errand->redrive;
    bool is_kept = errand->op.fault == 0;

    errand_free(errand);
    redrive->pending--;
    redrive->has_news |= !is_kept;
    if (redrive->is_over) {
        forget_old(engine);
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

    redrive->has_news = !keep(engine, redrive, NULL, sums_kept);
    return !redrive->has_news;
}

/* --- asking ---------------------------------------------------------------------------------------------- */

static struct redrive *redrive_new(struct engine *engine, uint64_t id)
{
    struct redrive *redrive = calloc(1, sizeof *redrive);

    if (redrive == NULL) {
        return NULL;
    }
    redrive->letters = calloc(REDRIVE_PAGE_TASKS, sizeof *redrive->letters);
    if (redrive->letters == NULL) {
        free(redrive);
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

static void begin(struct engine *engine, const struct ask *ask)
{
    const struct queue *queue = hold_find(engine, ask->queue);
    int64_t now_ms = engine_now_ms(engine);

    if (queue == NULL && ask->queue.len > 0) {
        engine_reply(engine,
                     &(struct reply){.kind = REPLY_UNKNOWN_QUEUE, .exchange = ask->exchange});
        return;
    }
    if (queue != NULL && queue->hold == QUEUE_HOLD_MISSING) {
        engine_reply(engine, &(struct reply){.kind = hold_reply(queue), .exchange = ask->exchange});
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
static struct redrive *find(const struct engine *engine, uint64_t id)
{
    for (struct redrive *each = engine->redrives; each != NULL; each = each->next) {
        if (each->view.id == id && each->exchange == NOBODY) {
            return each;
        }
    }
    return NULL;
}

/* It stops at once; that it stays stopped is told when it is written (I1). */
static void cancel(struct engine *engine, struct redrive *redrive, const struct ask *ask)
{
    if (!redrive->is_over) {
        redrive->is_over = true;
        redrive->view.state = "cancelled";
    }
    char note[40];
    (void)snprintf(note, sizeof note, "redrive %" PRIu64, redrive->view.id); /* fits */
    const struct queue *queue = engine_queue_at(engine, redrive->filter.queue);
    const struct ask noted = {.exchange = ask->exchange,
                              .who = ask->who,
                              .queue = queue != NULL ? queue->name : SPAN(""),
                              .note = span_of(note)};
    if (!redrive->has_memo) {
        redrive_reply(engine, redrive, ask->exchange);
    } else if (!keep(engine, redrive, &noted, memo_kept)) {
        inspect_no_room(engine, ask->exchange, 0);
    }
}

void redrive_ask(struct engine *engine, const struct ask *ask)
{
    if (ask->kind == ASK_REDRIVE_MANY) {
        begin(engine, ask);
        return;
    }
    struct redrive *redrive = find(engine, (uint64_t)ask->id.row);
    if (redrive == NULL || !engine_reaches(engine, &ask->reach, redrive->filter.queue)) {
        engine_reply(engine,
                     &(struct reply){.kind = REPLY_UNKNOWN_REDRIVE, .exchange = ask->exchange});
    } else if (ask->kind == ASK_REDRIVE_CANCEL) {
        cancel(engine, redrive, ask);
    } else {
        redrive_reply(engine, redrive, ask->exchange);
    }
}

/* At start: goes on with what is left. */
int redrive_restore(struct engine *engine, struct span name, struct span value)
{
    struct span rest = name, prefix, who;
    int64_t id = 0;

    if (!span_cut(&rest, ':', &prefix) || !span_is(prefix, "redrive") || !span_to_int(rest, &id)) {
        return 0;
    }
    struct redrive *redrive = redrive_new(engine, (uint64_t)id);
    if (redrive == NULL) {
        return FAULT_MEMORY;
    }
    redrive->filter.queue = (uint32_t)read_number(value, "queue");
    redrive->filter.failed_class = (uint32_t)read_number(value, "class");
    redrive->filter.failed_from_ms = read_number(value, "from");
    redrive->filter.failed_until_ms = read_number(value, "until");
    redrive->view.rate_per_second = (double)read_number(value, "rate") / 1000;
    redrive->view.matched = (uint64_t)read_number(value, "matched");
    redrive->view.redriven = (uint64_t)read_number(value, "redriven");
    redrive->view.skipped = (uint64_t)read_number(value, "skipped");
    redrive->kept_row = read_number(value, "after");
    redrive->has_missed = read_number(value, "missed") != 0;
    redrive->kept_act = read_number(value, "act");
    redrive->is_restored = true;
    redrive->view.started_at_ms = read_number(value, "started");
    redrive->has_memo = true;
    if (redrive->view.rate_per_second <= 0) {
        redrive->view.rate_per_second = ENGINE_REDRIVE_RATE;
    }
    if (fields_find(value, "who", &who)) {
        (void)snprintf(redrive->who, sizeof redrive->who, "%.*s", SPAN_ARGS(who)); /* fits */
    }
    return 0;
}

/* With nodes: one whose own node is gone is this one's from now on. */
int redrive_adopt(struct engine *engine, struct span name, struct span value, const uint64_t *live,
                  size_t live_count)
{
    struct span rest = name, prefix;
    int64_t id = 0, epoch = read_number(value, "epoch");

    if (!span_cut(&rest, ':', &prefix) || !span_is(prefix, "redrive") || !span_to_int(rest, &id)) {
        return 0;
    }
    for (size_t i = 0; i < live_count; i++) {
        if (live[i] == (uint64_t)epoch) {
            return 0;
        }
    }
    for (const struct redrive *each = engine->redrives; each != NULL; each = each->next) {
        if (each->view.id == (uint64_t)id) {
            return 0;
        }
    }
    return redrive_restore(engine, name, value);
}

void redrive_free_all(struct engine *engine)
{
    while (engine->redrives != NULL) {
        redrive_forget(engine, engine->redrives);
    }
}
