/* SPDX-License-Identifier: MIT
 *
 * redrive -- many dead letters at once, by a person: every letter that a filter matches goes out
 * again, at a rate, behind live traffic.
 *
 *   redrive_ask --> count, page by page --> a dry run ends here
 *                        '--> memo --> 202 --> page --> REDRIVE, as the rate allows --> page … done
 *
 * It is a memo in the store, so a restart goes on with it: the letters that are left are counted
 * anew, and what was redriven before is not a letter any more. Only letters that had failed before
 * the redrive began are taken, so one that fails again is not taken twice.
 */
#include "engine/engine_internal.h"
#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMO_PREFIX    "redrive:"
#define PAGE_TASKS     500
#define REDRIVES_MAX   100 /* ended ones that can still be asked about */
#define AT_ONCE_MAX    500 /* operations under way */
#define VALUE_BYTES    1024
#define RETRY_AFTER_MS 100 /* when there was no room */

struct redrive {
    struct redrive *next;
    struct redrive_view view;
    struct store_filter filter;
    char who[TASK_QUEUE_NAME_MAX + 1];
    uint64_t exchange;     /* who waits for the count; NOBODY: no one any more */
    int64_t after_row;     /* INT64_MAX: the last page was read */
    struct task_id *ids;   /* of the page, by turns */
    uint32_t *queues;      /* likewise: theirs */
    int64_t *deadlines_ms; /* likewise: from now; 0: none */
    size_t id_count, id_next;
    size_t pending; /* operations under way */
    double tokens;
    int64_t tokens_at_ms; /* monotonic */
    int64_t next_at_ms;   /* monotonic: not before; 0: any time */
    bool is_reading, is_dry, is_counting, is_over;
};

static void count_page(struct engine *engine, struct redrive *redrive);
static void read_page(struct engine *engine, struct redrive *redrive);

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
    failed = failed != 0 ? failed : add_number(fields, "started", redrive->view.started_at_ms);
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

static void memo_kept(struct engine *engine, struct errand *errand);

/* Writes the memo, or forgets it: a redrive that is over needs none. */
static bool keep(struct engine *engine, struct redrive *redrive, const struct ask *ask)
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
    errand->then = memo_kept;
    if (ask != NULL) {
        audit_fill(errand, ask, redrive->is_over ? "redrive_cancel" : "redrive_many");
    }
    buf_done(&value);
    if (failed != 0 || errand->op.memo.name.at == NULL || errand->op.memo.value.at == NULL) {
        errand_free(errand);
        return false;
    }
    return errand_start(engine, errand);
}

/* --- ends ---------------------------------------------------------------------------------------------- */

static void reply_state(struct engine *engine, const struct redrive *redrive, uint64_t exchange)
{
    engine_reply(
        engine,
        &(struct reply){.kind = REPLY_REDRIVE, .exchange = exchange, .redrive = redrive->view});
}

static void forget(struct engine *engine, struct redrive *redrive)
{
    struct redrive **link = &engine->redrives;

    while (*link != redrive) {
        link = &(*link)->next;
    }
    *link = redrive->next;
    free(redrive->ids);
    free(redrive->queues);
    free(redrive->deadlines_ms);
    free(redrive);
}

static void forget_old(struct engine *engine)
{
    struct redrive *next;
    size_t count = 0;

    for (struct redrive *each = engine->redrives; each != NULL; each = next) {
        next = each->next;
        if (each->is_over && each->pending == 0 && !each->is_reading && ++count > REDRIVES_MAX) {
            forget(engine, each);
        }
    }
}

static void fail_to(struct engine *engine, struct redrive *redrive, const struct error *error)
{
    engine_reply_fault(engine, redrive->exchange, 0, error);
    forget(engine, redrive);
}

static void end(struct engine *engine, struct redrive *redrive, const char *state)
{
    redrive->is_over = true;
    redrive->view.state = state;
    DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "redrive_done",
               daruma_log_uint("redrive", redrive->view.id), daruma_log_text("state", state),
               daruma_log_uint("matched", redrive->view.matched),
               daruma_log_uint("redriven", redrive->view.redriven),
               daruma_log_uint("skipped", redrive->view.skipped));
    (void)keep(engine, redrive, NULL); /* left behind, it finds nothing to do at the next start */
}

static void memo_kept(struct engine *engine, struct errand *errand)
{
    struct redrive *redrive = errand->redrive;
    struct error error = errand->op.error;
    int fault = errand->op.fault;

    errand_free(errand);
    if (redrive->is_over) {
        forget_old(engine);
        return;
    }
    if (fault != 0 && redrive->exchange != NOBODY) {
        fail_to(engine, redrive, &error); /* nothing was begun */
        return;
    }
    reply_state(engine, redrive, redrive->exchange);
    redrive->exchange = NOBODY;
    read_page(engine, redrive);
}

/* --- counting ------------------------------------------------------------------------------------------ */

static struct read *new_read(struct redrive *redrive,
                             void (*then)(struct engine *engine, struct read *read))
{
    struct read *read = inspect_new(READ_LIST);

    if (read != NULL) {
        read->filter = redrive->filter;
        read->filter.after_row = redrive->after_row;
        read->filter.limit = PAGE_TASKS;
        read->redrive = redrive;
        read->then = then;
    }
    return read;
}

static void wait_for_room(struct engine *engine, struct redrive *redrive)
{
    redrive->next_at_ms = clock_mono_ms(engine->options.clock) + RETRY_AFTER_MS;
}

/* Who began it is kept with it, and what it is about. */
static bool keep_begun(struct engine *engine, struct redrive *redrive)
{
    const struct queue *queue = engine_queue_at(engine, redrive->filter.queue);
    char note[96];

    (void)snprintf(note, sizeof note, "redrive %" PRIu64 ": matched %" PRIu64 ", %g a second",
                   redrive->view.id, redrive->view.matched,
                   redrive->view.rate_per_second); /* fits */
    return keep(engine, redrive,
                &(struct ask){.who = span_of(redrive->who),
                              .queue = queue != NULL ? queue->name : SPAN(""),
                              .note = span_of(note)});
}

static void counted(struct engine *engine, struct redrive *redrive)
{
    redrive->is_counting = false;
    redrive->after_row = 0;
    if (redrive->is_dry) {
        redrive->view.id = 0;
        redrive->view.state = "done";
        reply_state(engine, redrive, redrive->exchange);
        forget(engine, redrive);
        return;
    }
    redrive->view.state = "running";
    if (redrive->exchange == NOBODY) { /* after a restart: what is not left is done */
        read_page(engine, redrive);
    } else if (!keep_begun(engine, redrive)) {
        struct error error = {0};
        (void)fail(&error, FAULT_FULL, "too much waits for the store"); /* the reply carries it */
        fail_to(engine, redrive, &error);
    }
}

static void page_counted(struct engine *engine, struct read *read)
{
    struct redrive *redrive = read->redrive;

    redrive->is_reading = false;
    if (read->fault != 0 && redrive->exchange != NOBODY) {
        fail_to(engine, redrive, &read->error);
        return;
    }
    if (read->fault != 0) {
        wait_for_room(engine, redrive);
        return;
    }
    redrive->view.matched += redrive->exchange != NOBODY ? read->record_count : 0;
    redrive->view.redriven -= redrive->exchange == NOBODY ? read->record_count : 0;
    redrive->after_row = read->next_row;
    if (read->next_row == 0) {
        counted(engine, redrive);
    } else {
        count_page(engine, redrive);
    }
}

static void count_page(struct engine *engine, struct redrive *redrive)
{
    struct read *read = new_read(redrive, page_counted);

    redrive->is_reading = read != NULL && inspect_start(engine, read);
    if (!redrive->is_reading) {
        wait_for_room(engine, redrive);
    }
}

/* --- redriving ----------------------------------------------------------------------------------------- */

static void one_done(struct engine *engine, struct errand *errand)
{
    struct redrive *redrive = errand->redrive;
    const struct op *op = &errand->op;
    struct queue *queue = engine_queue_at(engine, op->task.queue);

    redrive->pending--;
    if (op->fault == 0 && op->result == RESULT_DONE) {
        redrive->view.redriven++;
        engine->stats.redriven++;
        if (queue != NULL) {
            engine_count_move(engine, queue, TASK_DEAD, TASK_WAITING);
            engine_schedule(engine, queue, &op->life, op->task.id.row);
            dispatch_queue(engine, queue);
        }
    } else {
        redrive->view.skipped++; /* somebody else was faster, or its caller has the answer */
    }
    errand_free(errand);
}

/* False: no room now. */
static bool start_one(struct engine *engine, struct redrive *redrive)
{
    struct errand *errand = errand_new(engine, OP_REDRIVE);
    int64_t deadline_ms = redrive->deadlines_ms[redrive->id_next];

    if (errand == NULL) {
        return false;
    }
    errand->op.task.id = redrive->ids[redrive->id_next];
    errand->op.life.flags = LIFE_LOW;
    errand->op.life.deadline_at_ms = deadline_ms != 0 ? engine_now_ms(engine) + deadline_ms : 0;
    errand->op.is_patient = true;
    errand->redrive = redrive;
    errand->then = one_done;
    char note[40];
    (void)snprintf(note, sizeof note, "redrive %" PRIu64, redrive->view.id); /* fits */
    const struct queue *queue = engine_queue_at(engine, redrive->queues[redrive->id_next]);
    audit_fill(errand,
               &(struct ask){.who = span_of(redrive->who),
                             .queue = queue != NULL ? queue->name : SPAN(""),
                             .note = span_of(note)},
               "redrive");
    if (!errand_start(engine, errand)) {
        return false;
    }
    redrive->id_next++;
    redrive->pending++;
    redrive->tokens -= 1;
    return true;
}

/* A tenth of a second's worth is saved up at most: a rate, not a wave. */
static void refill(const struct engine *engine, struct redrive *redrive)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    double rate = redrive->view.rate_per_second, most = rate / 10 < 1 ? 1 : rate / 10;

    redrive->tokens += (double)(now_ms - redrive->tokens_at_ms) * rate / 1000;
    redrive->tokens = redrive->tokens > most ? most : redrive->tokens;
    redrive->tokens_at_ms = now_ms;
}

static void go_on(struct engine *engine, struct redrive *redrive)
{
    refill(engine, redrive);
    while (redrive->id_next < redrive->id_count && redrive->tokens >= 1 &&
           redrive->pending < AT_ONCE_MAX) {
        if (!start_one(engine, redrive)) {
            wait_for_room(engine, redrive);
            return;
        }
    }
    if (redrive->id_next < redrive->id_count || redrive->is_reading) {
        return;
    }
    if (redrive->after_row != INT64_MAX) {
        read_page(engine, redrive);
    } else if (redrive->pending == 0) {
        end(engine, redrive, "done");
    }
}

static void page_read(struct engine *engine, struct read *read)
{
    struct redrive *redrive = read->redrive;

    redrive->is_reading = false;
    if (read->fault != 0 || redrive->is_over) {
        wait_for_room(engine, redrive);
        return;
    }
    redrive->id_next = redrive->id_count = 0;
    for (size_t i = 0; i < read->record_count; i++) {
        struct task_options options;
        options_read(read->records[i].task.options, &options);
        redrive->ids[i] = read->records[i].task.id;
        redrive->queues[i] = read->records[i].task.queue;
        redrive->deadlines_ms[i] = options.deadline_ms;
        redrive->id_count++;
    }
    redrive->after_row = read->next_row == 0 ? INT64_MAX : read->next_row;
}

static void read_page(struct engine *engine, struct redrive *redrive)
{
    struct read *read = new_read(redrive, page_read);

    redrive->is_reading = read != NULL && inspect_start(engine, read);
    if (!redrive->is_reading) {
        wait_for_room(engine, redrive);
    }
}

/* Nothing of it is under way that will come back by itself. (Until its memo is written somebody
 * waits for it.) */
static bool wants_tick(const struct engine *engine, const struct redrive *redrive)
{
    bool is_at_rest = redrive->is_counting || redrive->exchange == NOBODY;

    return is_at_rest && !redrive->is_over && !redrive->is_reading && !engine->is_draining;
}

void redrive_tick(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    struct redrive *next;

    for (struct redrive *each = engine->redrives; each != NULL; each = next) {
        next = each->next;
        if (!wants_tick(engine, each) || now_ms < each->next_at_ms) {
            continue;
        }
        each->next_at_ms = 0;
        if (each->is_counting) {
            count_page(engine, each);
        } else {
            go_on(engine, each);
        }
    }
}

/* Wall time at which a tick is wanted. */
int64_t redrive_next_ms(const struct engine *engine)
{
    int64_t mono_ms = clock_mono_ms(engine->options.clock), next_ms = INT64_MAX;

    for (const struct redrive *each = engine->redrives; each != NULL; each = each->next) {
        if (!wants_tick(engine, each)) {
            continue;
        }
        double missing = each->tokens < 1 ? 1 - each->tokens : 0;
        int64_t wait_ms = 1 + (int64_t)(missing * 1000 / each->view.rate_per_second);
        if (each->next_at_ms > mono_ms + wait_ms) {
            wait_ms = each->next_at_ms - mono_ms;
        }
        int64_t at_ms = engine_now_ms(engine) + wait_ms;
        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    return next_ms;
}

/* --- asking ---------------------------------------------------------------------------------------------- */

static struct redrive *redrive_new(struct engine *engine, uint64_t id)
{
    struct redrive *redrive = calloc(1, sizeof *redrive);

    if (redrive == NULL) {
        return NULL;
    }
    redrive->ids = calloc(PAGE_TASKS, sizeof *redrive->ids);
    redrive->queues = calloc(PAGE_TASKS, sizeof *redrive->queues);
    redrive->deadlines_ms = calloc(PAGE_TASKS, sizeof *redrive->deadlines_ms);
    if (redrive->ids == NULL || redrive->queues == NULL || redrive->deadlines_ms == NULL) {
        free(redrive->ids);
        free(redrive->queues);
        free(redrive->deadlines_ms);
        free(redrive);
        return NULL;
    }
    redrive->view = (struct redrive_view){.id = id, .state = "counting"};
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
    const struct queue *queue = engine_find_queue(engine, ask->queue);
    int64_t now_ms = engine_now_ms(engine);

    if (queue == NULL && ask->queue.len > 0) {
        engine_reply(engine,
                     &(struct reply){.kind = REPLY_UNKNOWN_QUEUE, .exchange = ask->exchange});
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
    redrive->filter.failed_until_ms = until_ms != 0 && until_ms < now_ms ? until_ms : now_ms + 1;
    redrive->view.rate_per_second =
        ask->rate_per_second > 0 ? ask->rate_per_second : ENGINE_REDRIVE_RATE;
    redrive->view.started_at_ms = now_ms;
    redrive->is_dry = ask->dry_run;
    redrive->exchange = ask->exchange;
    (void)snprintf(redrive->who, sizeof redrive->who, "%.*s",
                   SPAN_ARGS(ask->who)); /* cut if long */
    count_page(engine, redrive);
    if (!redrive->is_reading) {
        struct error error = {0};
        (void)fail(&error, FAULT_FULL, "too much is being read"); /* the reply carries it */
        fail_to(engine, redrive, &error);
    }
}

static struct redrive *find(const struct engine *engine, uint64_t id)
{
    for (struct redrive *each = engine->redrives; each != NULL; each = each->next) {
        if (each->view.id == id && !each->is_dry) {
            return each;
        }
    }
    return NULL;
}

void redrive_ask(struct engine *engine, const struct ask *ask)
{
    if (ask->kind == ASK_REDRIVE_MANY) {
        begin(engine, ask);
        return;
    }
    struct redrive *redrive = find(engine, (uint64_t)ask->id.row);
    if (redrive == NULL) {
        engine_reply(engine,
                     &(struct reply){.kind = REPLY_UNKNOWN_REDRIVE, .exchange = ask->exchange});
        return;
    }
    if (ask->kind == ASK_REDRIVE_CANCEL && !redrive->is_over) {
        redrive->is_over = true;
        redrive->view.state = "cancelled";
        (void)keep(engine, redrive, ask); /* without room it goes on after the next start */
    }
    reply_state(engine, redrive, ask->exchange);
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
    redrive->view.redriven = redrive->view.matched;
    redrive->view.started_at_ms = read_number(value, "started");
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
        forget(engine, engine->redrives);
    }
}
