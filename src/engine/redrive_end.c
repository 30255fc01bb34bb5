/* SPDX-License-Identifier: MIT
 *
 * redrive_end -- a redrive has gone through all letters, or a caller wants it to stop.
 *
 *   redrive_end, redrive_cancel --> is_over: no letter is begun any more
 *     --> the letters under way have ended: its sums are final
 *     --> its memo is forgotten, and among nodes the end takes its place in that very commit, for peers to tell
 *     --> callers who wait for the end are told
 *
 * What the store refuses is tried again: as long as the memo is there, peers tell that the redrive is under
 * way, and the next start would go on with it. So it is told as over only once that is written. The store takes
 * the end only from the node that has the memo: one whose end is refused finds out first what has become of the
 * redrive (redrive_owner.c). Callers do not wait with it for longer than WAIT_MS, or this node's lease.
 */
#include "engine/redrive_internal.h"
#include "base/plant.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define END_AGAIN_MS 1000
#define WAIT_MS      10000 /* a caller, for the end to be written */

/* A caller who waits for the end. */
struct redrive_caller {
    struct redrive_caller *next;
    uint64_t exchange;
    int64_t until_ms; /* monotonic */
};

static struct redrive_caller *take_caller(struct redrive *redrive)
{
    struct redrive_caller *caller = redrive->callers;

    if (caller != NULL) {
        redrive->callers = caller->next;
    }
    return caller;
}

void redrive_forget_callers(struct redrive *redrive)
{
    struct redrive_caller *caller;

    while ((caller = take_caller(redrive)) != NULL) {
        free(caller);
    }
}

void redrive_tell_callers(struct engine *engine, struct redrive *redrive, const struct error *fault)
{
    struct redrive_caller *caller;

    while ((caller = take_caller(redrive)) != NULL) {
        if (fault != NULL) {
            engine_reply_fault(engine, caller->exchange, 0, fault);
        } else {
            redrive_reply(engine, redrive, caller->exchange);
        }
        free(caller);
    }
}

static bool has_waited(const struct engine *engine, const struct redrive_caller *caller)
{
    return nodes_lease_is_over(engine) || caller->until_ms <= clock_mono_ms(engine->options.clock);
}

void redrive_dismiss_callers(struct engine *engine, struct redrive *redrive)
{
    struct redrive_caller **link = &redrive->callers;
    struct error error = {0};

    (void)fail_told(&error, FAULT_UNKNOWN, /* the reply carries it */
                    "the end of this redrive is not written yet: send :cancel again");
    while (*link != NULL) {
        struct redrive_caller *caller = *link;
        if (!has_waited(engine, caller)) {
            link = &caller->next;
            continue;
        }
        *link = caller->next;
        engine_reply_fault(engine, caller->exchange, 0, &error);
        free(caller);
    }
}

int64_t redrive_callers_ms(const struct engine *engine, const struct redrive *redrive)
{
    int64_t next_ms = INT64_MAX;

    for (const struct redrive_caller *each = redrive->callers; each != NULL; each = each->next) {
        next_ms = each->until_ms < next_ms ? each->until_ms : next_ms;
    }
    bool is_sooner =
        next_ms != INT64_MAX && nodes_are_many(engine) && engine->nodes.right.until_ms < next_ms;
    return is_sooner ? engine->nodes.right.until_ms : next_ms;
}

/* That it is over is written, or it is not. Where another node has the memo by now, a read of the memos tells
 * what this node has to tell. */
static void end_kept(struct engine *engine, struct errand *errand)
{
    struct redrive *redrive = errand->redrive;
    struct error error = errand->op.error;
    int fault = errand->op.fault;
    bool is_written = redrive_written(redrive, errand);

    assert(redrive->is_ending);
    errand_free(errand);
    redrive->is_ending = false;
    redrive->must_end = redrive->has_memo = !is_written;
    redrive->view.state = is_written ? redrive->end_state : redrive->view.state;
    redrive->next_at_ms = clock_mono_ms(engine->options.clock) + END_AGAIN_MS;
    if (is_written || fault != 0) {
        redrive_tell_callers(engine, redrive, fault != 0 ? &error : NULL);
    }
    redrive_forget_old(engine);
}

void redrive_write_end(struct engine *engine, struct redrive *redrive)
{
    const struct queue *queue = engine_queue_at(engine, redrive->filter.queue);
    char note[REDRIVE_NOTE_BYTES];

    bool is_final = redrive->pending == 0 || PLANT_HERE(END_EARLY);

    if (!redrive->must_end || redrive->is_ending || !is_final ||
        redrive_is_contested(engine, redrive)) {
        return;
    }
    const struct ask act = {.exchange = NOBODY,
                            .who = span_of(redrive->stopped_by),
                            .queue = queue != NULL ? queue->name : SPAN(""),
                            .note = redrive_note(redrive, note, sizeof note)};
    redrive->is_ending = redrive_keep_end(engine, redrive, &act, end_kept);
    if (!redrive->is_ending) {
        redrive_wait_for_room(engine, redrive);
    }
}

static void stop(struct engine *engine, struct redrive *redrive, const char *state)
{
    assert(!redrive->is_over && redrive->has_memo);

    redrive->is_over = redrive->must_end = true;
    redrive->end_state = state;
    redrive_write_end(engine, redrive);
}

void redrive_end(struct engine *engine, struct redrive *redrive, const char *state)
{
    struct redrive_view *view = &redrive->view;

    if (view->redriven + view->skipped < view->matched) { /* some were gone before they were seen */
        view->skipped = view->matched - view->redriven;
    }
    DARUMA_LOG(
        engine->options.log, DARUMA_LOG_INFO, "redrive_done", daruma_log_uint("redrive", view->id),
        daruma_log_text("state", state), daruma_log_uint("matched", view->matched),
        daruma_log_uint("redriven", view->redriven), daruma_log_uint("skipped", view->skipped));
    stop(engine, redrive, state);
}

/* One that was taken over finds out first how far it had come, or its sums would be wrong for good. */
bool redrive_stops_here(struct engine *engine, struct redrive *redrive)
{
    if (redrive->is_stopped && !redrive->is_over && !redrive->is_restored) {
        stop(engine, redrive, "cancelled");
    }
    return redrive->is_over;
}

/* It stops at once; that it stays stopped is told when it is written (I1). */
void redrive_cancel(struct engine *engine, struct redrive *redrive, const struct ask *ask)
{
    if (redrive->is_over && !redrive->must_end) {
        redrive_reply(engine, redrive, ask->exchange);
        return;
    }
    struct redrive_caller *caller = ask->exchange != NOBODY ? malloc(sizeof *caller) : NULL;
    if (caller == NULL && ask->exchange != NOBODY) {
        inspect_no_room(engine, ask->exchange, 0);
        return;
    }
    if (caller != NULL) {
        *caller =
            (struct redrive_caller){.next = redrive->callers,
                                    .exchange = ask->exchange,
                                    .until_ms = clock_mono_ms(engine->options.clock) + WAIT_MS};
        redrive->callers = caller;
    }
    if (!redrive->is_over && !redrive->is_stopped) {
        redrive->is_stopped = true;
        (void)snprintf(redrive->stopped_by, sizeof redrive->stopped_by, "%.*s",
                       SPAN_ARGS(ask->who)); /* cut if long */
    }
    (void)redrive_stops_here(engine, redrive); /* else once it knows its sums */
}
