/* SPDX-License-Identifier: MIT
 *
 * redrive_peers -- a redrive among nodes: one node looks after it, and callers may ask any of them. What the
 * others tell is what its memo has, which is as of the last beat. Three memos, by the redrive's number:
 *
 *   redrive             it is under way: what a node that takes it over goes on from
 *   node-redriven       it has ended, and how: takes the place of the one above in one commit
 *   node-redrive-stop   a caller at another node wants it to end: the node that has it looks with each
 *                       beat, and cancels it
 *
 *   cancel, here --> node-redrive-stop --> with each beat: node-redriven? --> reply
 *                        '--> the node that has it: redrive_cancel --> node-redriven
 */
#include "engine/memos_internal.h"
#include "engine/reach_internal.h"
#include "engine/redrive_internal.h"
#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ENDED_PREFIX  STORE_MEMO_OF_NODES "redriven"
#define STOP_PREFIX   STORE_MEMO_OF_NODES "redrive-stop"
#define ENDED_TOLD_MS 86400000 /* of a node that is gone: so long its ended ones are told */
#define LEASES_WAITED 2        /* for a node to stop: as in forget.c */

/* A caller who waits for a peer to stop one. */
struct redrive_stop {
    struct redrive_stop *next;
    uint64_t id, exchange;
    int64_t until_ms; /* monotonic */
};

/* --- memos ------------------------------------------------------------------------------------------- */

static int render_ended(const struct engine *engine, const struct redrive *redrive,
                        struct buf *fields)
{
    const struct redrive_view *view = &redrive->view;
    int failed = fields_add(fields, SPAN("state"), span_of(redrive->end_state));

    failed = failed != 0 ? failed : memos_add_number(fields, "queue", redrive->filter.queue);
    failed = failed != 0 ? failed : memos_add_number(fields, "matched", (int64_t)view->matched);
    failed = failed != 0 ? failed : memos_add_number(fields, "redriven", (int64_t)view->redriven);
    failed = failed != 0 ? failed : memos_add_number(fields, "skipped", (int64_t)view->skipped);
    failed = failed != 0
                 ? failed
                 : memos_add_number(fields, "rate", (int64_t)(view->rate_per_second * 1000));
    failed = failed != 0 ? failed : memos_add_number(fields, "started", view->started_at_ms);
    failed = failed != 0 ? failed : memos_add_number(fields, "ended", engine_now_ms(engine));
    return failed != 0 ? failed : memos_add_number(fields, "epoch", (int64_t)engine->store->epoch);
}

struct errand *redrive_ended_errand(struct engine *engine, const struct redrive *redrive)
{
    struct errand *errand = NULL;
    char name[MEMO_NAME_BYTES];
    struct buf value;

    buf_init(&value, MEMO_VALUE_BYTES);
    if (render_ended(engine, redrive, &value) == 0) {
        errand = memos_errand(engine, memos_name(ENDED_PREFIX, redrive->view.id, name),
                              buf_span(&value));
    }
    buf_done(&value);
    return errand;
}

static void forget(struct engine *engine, const char *prefix, uint64_t id)
{
    char name[MEMO_NAME_BYTES];

    memos_forget(engine, memos_name(prefix, id, name));
}

void redrive_forget_ended(struct engine *engine, const struct redrive *redrive)
{
    if (nodes_are_many(engine)) {
        forget(engine, ENDED_PREFIX, redrive->view.id);
    }
}

/* One that is under way has sums of this very moment beside those of its place. The node that takes it over from a
 * node that is gone counts first how far it had come. */
static struct redrive_view view_of(const struct engine *engine, uint64_t id, struct span value)
{
    const char *going =
        nodes_has_epoch(engine, (uint64_t)memos_number(value, "epoch")) ? "running" : "counting";
    struct span state = SPAN("running"), now;
    bool is_going = !fields_find(value, "state", &state);
    bool has_now = is_going && fields_find(value, "now_redriven", &now);

    return (struct redrive_view){
        .id = id,
        .state = is_going                      ? going
                 : span_is(state, "cancelled") ? "cancelled"
                                               : "done",
        .matched = (uint64_t)memos_number(value, "matched"),
        .redriven = (uint64_t)memos_number(value, has_now ? "now_redriven" : "redriven"),
        .skipped = (uint64_t)memos_number(value, has_now ? "now_skipped" : "skipped"),
        .rate_per_second = (double)memos_number(value, "rate") / 1000,
        .started_at_ms = memos_number(value, "started")};
}

static void reply_view(struct engine *engine, uint64_t exchange, uint64_t id, struct span value)
{
    engine_reply(engine, &(struct reply){.kind = REPLY_REDRIVE,
                                         .exchange = exchange,
                                         .redrive = view_of(engine, id, value)});
}

static void reply_unknown(struct engine *engine, uint64_t exchange)
{
    engine_reply(engine, &(struct reply){.kind = REPLY_UNKNOWN_REDRIVE, .exchange = exchange});
}

/* The wish is committed, and holds whether or not its caller waits any longer. */
static void reply_unconfirmed(struct engine *engine, uint64_t exchange)
{
    struct error error = {0};

    (void)fail_told(
        &error, FAULT_UNKNOWN, /* the reply carries it */
        "the wish to cancel is stored; the node that carries the redrive has not confirmed it "
        "yet: send :cancel again");
    engine_reply_fault(engine, exchange, 0, &error);
}

/* --- callers here, redrives there ------------------------------------------------------------------- */

static void stop_asked(struct engine *engine, struct errand *errand)
{
    struct redrive_stop *stop = errand->op.fault == 0 ? calloc(1, sizeof *stop) : NULL;

    if (errand->op.fault != 0) {
        engine_reply_fault(engine, errand->exchange, 0, &errand->op.error);
    } else if (stop == NULL) {
        reply_unconfirmed(engine, errand->exchange);
    } else {
        uint64_t id = 0;
        (void)memos_is(errand->op.memo.name, STOP_PREFIX, &id); /* we named it */
        *stop = (struct redrive_stop){.next = engine->redrive_stops,
                                      .id = id,
                                      .exchange = errand->exchange,
                                      .until_ms = clock_mono_ms(engine->options.clock) +
                                                  LEASES_WAITED * engine->store->node_lease_ms};
        engine->redrive_stops = stop;
    }
    errand_free(errand);
}

static void ask_to_stop(struct engine *engine, const struct ask *ask, struct span value)
{
    const struct queue *queue = engine_queue_at(engine, (uint32_t)memos_number(value, "queue"));
    uint64_t id = (uint64_t)ask->id.row;
    char name[MEMO_NAME_BYTES], note[MEMO_NAME_BYTES];
    struct errand *errand = memos_errand(engine, memos_name(STOP_PREFIX, id, name), SPAN("wanted"));

    if (errand != NULL) {
        (void)snprintf(note, sizeof note, "redrive %" PRIu64, id); /* fits */
        errand->exchange = ask->exchange;
        errand->then = stop_asked;
        audit_fill(errand,
                   &(struct ask){.who = ask->who,
                                 .queue = queue != NULL ? queue->name : SPAN(""),
                                 .note = span_of(note)},
                   "redrive_cancel");
    }
    if (!errand_start(engine, errand)) {
        inspect_no_room(engine, ask->exchange, 0);
    }
}

static void peers_read(struct engine *engine, struct read *read)
{
    const struct ask *ask = read->ask;
    uint64_t id = (uint64_t)ask->id.row;
    struct span value = {0};

    if (read->fault != 0) {
        engine_reply_fault(engine, ask->exchange, 0, &read->error);
        return;
    }
    bool has_ended = memos_find(read, ENDED_PREFIX, id, &value);
    bool is_going = !has_ended && memos_find(read, REDRIVE_PREFIX, id, &value);
    if ((!has_ended && !is_going) ||
        !engine_reaches(engine, &ask->reach, (uint32_t)memos_number(value, "queue"))) {
        reply_unknown(engine, ask->exchange);
    } else if (is_going && ask->kind == ASK_REDRIVE_CANCEL) {
        ask_to_stop(engine, ask, value);
    } else {
        reply_view(engine, ask->exchange, id, value);
    }
}

void redrive_ask_peers(struct engine *engine, const struct ask *ask)
{
    struct read *read = inspect_new(READ_MEMOS);

    if (read == NULL || !reach_copy_ask(read, ask)) {
        inspect_drop(read);
        inspect_no_room(engine, ask->exchange, 0);
        return;
    }
    read->then = peers_read;
    if (!inspect_start(engine, read)) {
        inspect_no_room(engine, ask->exchange, 0);
    }
}

/* --- with each beat ---------------------------------------------------------------------------------- */

static void answer_stops(struct engine *engine, const struct read *read)
{
    struct redrive_stop **link = &engine->redrive_stops;

    while (*link != NULL) {
        struct redrive_stop *stop = *link;
        struct span value;
        bool has_ended = memos_find(read, ENDED_PREFIX, stop->id, &value);
        if (!has_ended && memos_find(read, REDRIVE_PREFIX, stop->id, &value)) {
            link = &stop->next;
            continue;
        }
        *link = stop->next;
        forget(engine, STOP_PREFIX, stop->id);
        if (has_ended) {
            reply_view(engine, stop->exchange, stop->id, value);
        } else {
            reply_unknown(engine, stop->exchange);
        }
        free(stop);
    }
}

static void stops_read(struct engine *engine, struct read *read)
{
    engine->is_reading_stops = false;
    for (size_t i = 0; read->fault == 0 && i < read->memo_count; i++) {
        uint64_t id;
        struct redrive *redrive =
            memos_is(read->memos[i].name, STOP_PREFIX, &id) ? redrive_find(engine, id) : NULL;
        if (redrive != NULL && !redrive->is_over) {
            redrive_cancel(engine, redrive, &(struct ask){.exchange = NOBODY});
        }
    }
    if (read->fault == 0) {
        answer_stops(engine, read);
        redrive_own(engine, read);
    }
}

void redrive_beat(struct engine *engine)
{
    bool is_wanted = engine->redrive_stops != NULL;

    redrive_forget_old(engine);
    if (engine->is_reading_stops) {
        return;
    }
    for (struct redrive *each = engine->redrives; each != NULL; each = each->next) {
        each->is_settled = each->memo_writes == 0;
        is_wanted |= !each->is_over || each->must_end;
    }
    struct read *read = is_wanted ? inspect_new(READ_MEMOS) : NULL;
    if (read != NULL) {
        read->then = stops_read;
        engine->is_reading_stops = inspect_start(engine, read); /* no room: with the next beat */
    }
}

void redrive_peers_tick(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    struct redrive_stop **link = &engine->redrive_stops;

    while (*link != NULL) {
        struct redrive_stop *stop = *link;
        if (stop->until_ms > now_ms) {
            link = &stop->next;
            continue;
        }
        *link = stop->next;
        reply_unconfirmed(engine, stop->exchange);
        free(stop);
    }
}

int64_t redrive_peers_wait_ms(const struct engine *engine)
{
    int64_t next_ms = INT64_MAX;

    for (const struct redrive_stop *each = engine->redrive_stops; each != NULL; each = each->next) {
        next_ms = each->until_ms < next_ms ? each->until_ms : next_ms;
    }
    return next_ms == INT64_MAX ? INT64_MAX : next_ms - clock_mono_ms(engine->options.clock);
}

void redrive_peers_free_all(struct engine *engine)
{
    while (engine->redrive_stops != NULL) {
        struct redrive_stop *next = engine->redrive_stops->next;
        free(engine->redrive_stops);
        engine->redrive_stops = next;
    }
}

/* --- of nodes that are gone -------------------------------------------------------------------------- */

static bool is_here(const struct engine *engine, uint64_t id)
{
    for (const struct redrive *each = engine->redrives; each != NULL; each = each->next) {
        if (each->view.id == id && !each->is_lost) {
            return true;
        }
    }
    return false;
}

/* One that is under way is this node's from now on, unless it has ended and only that is left to be
 * written. Of what has ended, and of wishes, those that tell nothing any more are forgotten. */
void redrive_adopt(struct engine *engine, const struct read *read)
{
    for (size_t i = 0; i < read->memo_count; i++) {
        const struct memo *memo = &read->memos[i];
        struct span value;
        uint64_t id;
        bool is_live = memos_is_live(read, memo->value);
        if (memos_is(memo->name, REDRIVE_PREFIX, &id) && !is_live) {
            if (memos_find(read, ENDED_PREFIX, id, &value)) {
                memos_forget_as_is(engine,
                                   memo); /* by an older release, whose end is two commits */
            } else if (!is_here(engine, id)) {
                (void)redrive_restore(engine, memo->name,
                                      memo->value); /* no memory now: the next who loses a peer */
            }
        } else if (memos_is(memo->name, ENDED_PREFIX, &id) && !is_live &&
                   engine_now_ms(engine) - memos_number(memo->value, "ended") > ENDED_TOLD_MS) {
            memos_forget_as_is(engine, memo);
        } else if (memos_is(memo->name, STOP_PREFIX, &id) &&
                   !memos_find(read, REDRIVE_PREFIX, id, &value)) {
            memos_forget(engine, memo->name);
        }
    }
}
