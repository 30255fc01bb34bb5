/* SPDX-License-Identifier: MIT
 *
 * redrive_pages -- from letter to letter: first they are counted, then each is a conditional
 * operation, as fast as the rate allows. What somebody else has done to a letter meanwhile stands: it
 * is skipped. What the store does not take is looked for once more at the end.
 */
#include "engine/redrive_internal.h"
#include "engine/hold_internal.h"

#include <stdlib.h>

#define AT_ONCE_MAX    500 /* operations under way */
#define RETRY_AFTER_MS 100 /* when there was no room */

/* --- counting ------------------------------------------------------------------------------------------ */

static struct read *new_read(struct redrive *redrive,
                             void (*then)(struct engine *engine, struct read *read))
{
    struct read *read = inspect_new(READ_LIST);

    if (read != NULL) {
        read->filter = redrive->filter;
        read->filter.after_row = redrive->after_row;
        read->filter.limit = REDRIVE_PAGE_TASKS;
        read->redrive = redrive;
        read->then = then;
    }
    return read;
}

void redrive_wait_for_room(struct engine *engine, struct redrive *redrive)
{
    redrive->next_at_ms = clock_mono_ms(engine->options.clock) + RETRY_AFTER_MS;
}

static void counted(struct engine *engine, struct redrive *redrive)
{
    redrive->is_counting = false;
    redrive->after_row = redrive->kept_row;
    if (redrive->is_dry) {
        redrive->view.id = 0;
        redrive->view.state = "done";
        redrive_reply(engine, redrive, redrive->exchange);
        redrive_forget(engine, redrive);
        return;
    }
    if (redrive->is_restored) {
        redrive->is_recalling = true;
        redrive_recall(engine, redrive);
        return;
    }
    redrive->view.state = "running";
    if (!redrive_keep_begun(engine, redrive)) {
        struct error error = {0};
        (void)fail(&error, FAULT_FULL, "too much waits for the store"); /* the reply carries it */
        redrive_fail(engine, redrive, &error);
    }
}

static void page_counted(struct engine *engine, struct read *read)
{
    struct redrive *redrive = read->redrive;

    redrive->is_reading = false;
    if (read->fault != 0 && redrive->exchange != NOBODY) {
        redrive_fail(engine, redrive, &read->error);
        return;
    }
    if (read->fault != 0 || redrive->is_over) {
        redrive_wait_for_room(engine, redrive);
        return;
    }
    *(redrive->is_restored ? &redrive->recall.left : &redrive->view.matched) += read->record_count;
    redrive->after_row = read->next_row;
    if (read->next_row == 0) {
        counted(engine, redrive);
    } else {
        redrive_count(engine, redrive);
    }
}

void redrive_count(struct engine *engine, struct redrive *redrive)
{
    struct read *read = new_read(redrive, page_counted);

    redrive->is_reading = read != NULL && inspect_start(engine, read);
    if (!redrive->is_reading) {
        redrive_wait_for_room(engine, redrive);
    }
}

size_t redrive_counting(const struct engine *engine)
{
    size_t count = 0;

    for (const struct redrive *each = engine->redrives; each != NULL; each = each->next) {
        count += each->is_counting && each->exchange != NOBODY;
    }
    return count;
}

/* --- redriving ----------------------------------------------------------------------------------------- */

/* A letter has had its turn. An outcome that was judged before the redrive began may be written after the
 * letters were counted: it is of this redrive all the same, and what it has taken in hand is what it matched. */
static void had_turn(struct redrive *redrive, uint64_t *which)
{
    struct redrive_view *view = &redrive->view;

    ++*which;
    if (view->redriven + view->skipped > view->matched) {
        view->matched = view->redriven + view->skipped;
    }
}

static void one_done(struct engine *engine, struct errand *errand)
{
    struct redrive *redrive = errand->redrive;
    const struct op *op = &errand->op;
    struct queue *queue = engine_queue_at(engine, op->task.queue);

    redrive->pending--;
    redrive->has_news = true; /* the next tick writes the end, if this was the last */
    if (op->fault == 0 && op->result == RESULT_DONE) {
        had_turn(redrive, &redrive->view.redriven);
        engine->stats.redriven++;
        engine->stats.manual[MANUAL_REDRIVE]++;
        if (queue != NULL) {
            engine_count_move(engine, queue, TASK_DEAD, &op->life);
            engine_schedule(engine, queue, &op->life, op->task.id.row);
            dispatch_queue(engine, queue);
        }
    } else if (op->fault == 0 && op->result != RESULT_STALE) {
        had_turn(redrive,
                 &redrive->view.skipped); /* another act was faster, its caller has the answer,
                                                    * or the queue is deleted */
    } else {
        redrive->has_missed = true;
    }
    errand_free(errand);
}

/* False: no room now. */
static bool start_one(struct engine *engine, struct redrive *redrive)
{
    struct errand *errand = errand_new(engine, OP_REDRIVE);
    const struct letter *letter = &redrive->letters[redrive->letter_next];

    if (errand == NULL) {
        return false;
    }
    errand->op.task.id = letter->id;
    errand->op.epoch = redrive->epoch;
    errand->op.is_as_seen = true;
    errand->op.life.fence = letter->fence;
    errand->op.life.round = letter->round;
    errand->op.life.flags = LIFE_LOW;
    engine->deadlines.are_there |= letter->deadline_ms != 0;
    errand->op.life.deadline_at_ms =
        letter->deadline_ms != 0 ? engine_now_ms(engine) + letter->deadline_ms : 0;
    errand->op.is_patient = true;
    errand->redrive = redrive;
    errand->then = one_done;
    char note[REDRIVE_NOTE_BYTES];
    const struct queue *queue = engine_queue_at(engine, letter->queue);
    audit_fill(errand,
               &(struct ask){.who = span_of(redrive->who),
                             .queue = queue != NULL ? queue->name : SPAN(""),
                             .note = redrive_note(redrive, note, sizeof note)},
               "redrive");
    if (!errand_start(engine, errand)) {
        return false;
    }
    redrive->letter_next++;
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

/* Each letter of the page has had its turn. The sums are kept before the next one: then, after a crash,
 * no more than a page is told from the audit trail. */
static void turn_page(struct engine *engine, struct redrive *redrive)
{
    if (redrive->after_row == INT64_MAX && !redrive->has_missed) {
        redrive_end(engine, redrive, "done");
        return;
    }
    if (redrive->after_row == INT64_MAX) {
        redrive->has_missed = false;
        redrive->after_row = 0;
        redrive->view.skipped = 0; /* who is still a letter is met again; the end adds the others */
        redrive->is_recalling = true;
        redrive->recall.after_number = 0;
        redrive_wait_for_room(engine, redrive);
    } else if (!redrive->has_news) {
        redrive_read(engine, redrive);
    } else if (!redrive_keep_sums(engine, redrive)) {
        redrive_wait_for_room(engine, redrive);
    }
}

/* A queue that hands nothing out would keep them waiting: they stay letters. */
static bool skip_shut(const struct engine *engine, struct redrive *redrive)
{
    const struct letter *letter = &redrive->letters[redrive->letter_next];
    const struct queue *queue = engine_queue_at(engine, letter->queue);

    if (queue == NULL || !hold_is_shut(queue)) {
        return false;
    }
    had_turn(redrive, &redrive->view.skipped);
    redrive->letter_next++;
    redrive->has_news = true;
    return true;
}

static void go_on(struct engine *engine, struct redrive *redrive)
{
    if (redrive_stops_here(engine, redrive)) {
        return;
    }
    refill(engine, redrive);
    while (redrive->letter_next < redrive->letter_count && redrive->tokens >= 1 &&
           redrive->pending < AT_ONCE_MAX) {
        if (!skip_shut(engine, redrive) && !start_one(engine, redrive)) {
            redrive_wait_for_room(engine, redrive);
            return;
        }
    }
    if (redrive->letter_next == redrive->letter_count && redrive->pending == 0) {
        turn_page(engine, redrive);
    }
}

void redrive_drop_letters(struct redrive *redrive)
{
    free(redrive->letters);
    redrive->letters = NULL;
    redrive->letter_next = redrive->letter_count = 0;
}

/* Room for the letters of a page, and for no more: most pages of most redrives are short. */
static bool make_room(struct redrive *redrive, size_t count)
{
    redrive_drop_letters(redrive);
    redrive->letters = count > 0 ? calloc(count, sizeof *redrive->letters) : NULL;
    return count == 0 || redrive->letters != NULL;
}

static void page_read(struct engine *engine, struct read *read)
{
    struct redrive *redrive = read->redrive;

    redrive->is_reading = false;
    if (read->fault != 0 || redrive->is_over || !make_room(redrive, read->record_count)) {
        redrive_wait_for_room(engine, redrive);
        return;
    }
    for (size_t i = 0; i < read->record_count; i++) {
        const struct record *record = &read->records[i];
        struct task_options options;
        options_read(record->task.options, &options);
        redrive->letters[redrive->letter_count++] =
            (struct letter){.id = record->task.id,
                            .queue = record->task.queue,
                            .deadline_ms = options.deadline_ms,
                            .fence = record->life.fence,
                            .round = record->life.round};
    }
    redrive->after_row = read->next_row == 0 ? INT64_MAX : read->next_row;
}

void redrive_read(struct engine *engine, struct redrive *redrive)
{
    struct read *read = new_read(redrive, page_read);

    redrive->is_reading = read != NULL && inspect_start(engine, read);
    if (!redrive->is_reading) {
        redrive_wait_for_room(engine, redrive);
    }
}

/* Nothing but time has to pass before it goes on. */
static bool is_idle(const struct engine *engine, const struct redrive *redrive)
{
    bool is_being_written = redrive->exchange != NOBODY && !redrive->is_counting;

    return !redrive->is_over && !redrive->is_reading && !is_being_written && !engine->is_draining &&
           !redrive_is_doubted(engine, redrive);
}

void redrive_tick(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    struct redrive *next;

    for (struct redrive *each = engine->redrives; each != NULL; each = next) {
        next = each->next;
        redrive_dismiss_callers(engine, each);
        if (each->must_end && now_ms >= each->next_at_ms) {
            redrive_write_end(engine, each);
        }
        if (!is_idle(engine, each) || now_ms < each->next_at_ms) {
            continue;
        }
        each->next_at_ms = 0;
        if (each->is_counting) {
            redrive_count(engine, each);
        } else if (each->is_recalling) {
            redrive_recall(engine, each);
        } else {
            go_on(engine, each);
        }
    }
}

static int64_t earlier(int64_t one_ms, int64_t other_ms)
{
    return one_ms < other_ms ? one_ms : other_ms;
}

/* Of a monotonic moment; INT64_MAX stays. */
static int64_t wall_of(const struct engine *engine, int64_t at_ms)
{
    int64_t mono_ms = clock_mono_ms(engine->options.clock);

    return at_ms == INT64_MAX ? INT64_MAX
                              : engine_now_ms(engine) + (at_ms > mono_ms ? at_ms - mono_ms : 0);
}

/* Wall time at which a tick is wanted. */
int64_t redrive_next_ms(const struct engine *engine)
{
    int64_t next_ms = INT64_MAX;

    for (const struct redrive *each = engine->redrives; each != NULL; each = each->next) {
        bool can_end = each->must_end && !each->is_ending && each->pending == 0 &&
                       !redrive_is_contested(engine, each);
        next_ms = earlier(next_ms, wall_of(engine, redrive_callers_ms(engine, each)));
        if (!is_idle(engine, each) && !can_end) {
            continue;
        }
        /* From the moment at which the tokens were counted: else whoever asks puts it off. */
        double missing = each->tokens < 1 && !can_end ? 1 - each->tokens : 0;
        int64_t token_at_ms =
            each->tokens_at_ms + 1 + (int64_t)(missing * 1000 / each->view.rate_per_second);
        int64_t wanted_ms = each->next_at_ms > token_at_ms ? each->next_at_ms : token_at_ms;
        next_ms = earlier(next_ms, wall_of(engine, wanted_ms));
    }
    return next_ms;
}
