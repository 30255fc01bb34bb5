/* SPDX-License-Identifier: MIT
 *
 * runs -- manual runs (walk.c begins them) are tallied until each of their tasks has come to its next
 * outcome. Tallies live in memory only: after a restart the tasks are still due, but no longer counted.
 *
 *   walk.c: runs_new, runs_add … runs_walked --> reply
 *   an outcome at this node --> runs_tally          } pending becomes 0 --> run_done in the log
 *   one at another node --> found by runs_look      }
 *
 * Among nodes any of them may settle what a run has made due, so the node that has the run looks at those
 * it waits for with each beat, page by page. It also keeps the sums in a memo, for callers who ask another
 * node; that memo goes with the run, or with its node.
 */
#include "engine/lists_internal.h"
#include "engine/memos_internal.h"
#include "engine/reach_internal.h"
#include "task/fields.h"

#include <stdio.h>
#include <stdlib.h>

#define RUNS_MAX          100 /* finished runs that can still be asked about */
#define RUNS_LIVE_MAX     100 /* of this node, that are not finished, */
#define RUNS_OF_QUEUE_MAX 10  /* and of a queue: each may keep a slot for every task of it */
#define RUN_PREFIX        STORE_MEMO_OF_NODES "run"
#define LOOK_ROWS         2000 /* that are looked at in one read */
#define LOOK_EVERY_MS     200  /* at the most often, and */
#define LOOK_REST         4    /* times as long as the last look took until the next one */
#define KEEP_EVERY_MS     1000 /* sums for other nodes, unless all has come to its outcome */

/* A task whose outcome is waited for. */
struct run_slot {
    int64_t row;   /* 0: free, -1: was */
    uint64_t mark; /* of its life when it was made due: see mark_of */
};

struct run {
    struct run *next;
    const struct queue *queue;
    char who[LISTS_WHO_MAX + 1];
    struct run_view view;   /* but for the queue's name, which a PUT replaces */
    struct run_slot *slots; /* open addressing */
    size_t slot_count, slot_room;
    size_t open;       /* reads and memos under way that point here */
    uint64_t epoch;    /* of the memo */
    uint64_t exchange; /* who is told of it when the memo is written */
    size_t look_at;    /* the slot where the look under way goes on */
    int64_t look_ms;   /* monotonic: when that look began, or, if none is, when the next may */
    int64_t keep_ms;   /* monotonic: when the memo may be written again */
    bool is_walking, is_looking, is_keeping, has_news;
};

/* --- rows ----------------------------------------------------------------------------------------- */

static size_t slot_of(const struct run *run, int64_t row)
{
    return (size_t)(((uint64_t)row * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (run->slot_room - 1);
}

static void slot_put(struct run *run, struct run_slot entry)
{
    size_t at = slot_of(run, entry.row);

    while (run->slots[at].row != 0) {
        at = (at + 1) & (run->slot_room - 1);
    }
    run->slots[at] = entry;
    run->slot_count++;
}

static bool slots_grow(struct run *run)
{
    size_t old_room = run->slot_room, room = old_room == 0 ? 64 : old_room * 2;
    struct run_slot *old = run->slots, *slots = calloc(room, sizeof *slots);

    if (slots == NULL) {
        return false;
    }
    run->slots = slots;
    run->slot_room = room;
    run->slot_count = 0;
    for (size_t i = 0; i < old_room; i++) {
        if (old[i].row > 0) {
            slot_put(run, old[i]);
        }
    }
    free(old);
    return true;
}

static struct run_slot *slot_find(struct run *run, int64_t row)
{
    if (run->slot_room == 0) {
        return NULL;
    }
    for (size_t at = slot_of(run, row); run->slots[at].row != 0;
         at = (at + 1) & (run->slot_room - 1)) {
        if (run->slots[at].row == row) {
            return &run->slots[at];
        }
    }
    return NULL;
}

/* An attempt that counts raises it, and so does a redrive. */
static uint64_t mark_of(uint32_t round, uint32_t attempts)
{
    return (uint64_t)round << 32 | attempts;
}

/* --- for other nodes to tell ---------------------------------------------------------------------- */

static void reply_run(struct engine *engine, const struct run *run, uint64_t exchange)
{
    struct reply reply = {.kind = REPLY_RUN, .exchange = exchange, .run = run->view};

    reply.run.queue = run->queue->name;
    engine_reply(engine, &reply);
}

static int render(const struct run *run, struct buf *fields)
{
    int failed = fields_add(fields, SPAN("queue"), run->queue->name);

    failed = failed != 0 ? failed : memos_add_number(fields, "taken", (int64_t)run->view.taken);
    failed =
        failed != 0 ? failed : memos_add_number(fields, "succeeded", (int64_t)run->view.succeeded);
    failed = failed != 0 ? failed : memos_add_number(fields, "failed", (int64_t)run->view.failed);
    failed =
        failed != 0 ? failed : memos_add_number(fields, "retrying", (int64_t)run->view.retrying);
    failed =
        failed != 0 ? failed : memos_add_number(fields, "unsettled", (int64_t)run->view.unsettled);
    failed = failed != 0 ? failed : memos_add_number(fields, "pending", (int64_t)run->view.pending);
    return failed != 0 ? failed : memos_add_number(fields, "epoch", (int64_t)run->epoch);
}

static void kept(struct engine *engine, struct errand *errand)
{
    struct run *run = errand->run;

    run->open--;
    run->is_keeping = false;
    run->has_news |= errand->op.fault != 0;
    if (errand->exchange != NOBODY) { /* its tasks are due, whether or not it is kept */
        reply_run(engine, run, errand->exchange);
    }
    errand_free(errand);
}

/* False: no room now. */
static bool keep(struct engine *engine, struct run *run, uint64_t exchange)
{
    char name[MEMO_NAME_BYTES];
    struct errand *errand = NULL;
    struct buf value;

    run->epoch = engine->store->epoch;
    buf_init(&value, MEMO_VALUE_BYTES);
    if (render(run, &value) == 0) {
        errand = memos_errand(engine, memos_name(RUN_PREFIX, run->view.id, name), buf_span(&value));
    }
    buf_done(&value);
    if (errand != NULL) {
        errand->run = run;
        errand->exchange = exchange;
        errand->then = kept;
    }
    if (!errand_start(engine, errand)) {
        return false;
    }
    run->open++;
    run->is_keeping = true;
    run->has_news = false;
    run->keep_ms = clock_mono_ms(engine->options.clock) + KEEP_EVERY_MS;
    return true;
}

static void told_by_peer(struct engine *engine, struct read *read)
{
    const struct ask *ask = read->ask;
    struct reply reply = {.kind = REPLY_UNKNOWN_RUN, .exchange = ask->exchange};
    struct span value, name;

    if (read->fault != 0) {
        engine_reply_fault(engine, ask->exchange, 0, &read->error);
        return;
    }
    if (memos_find(read, RUN_PREFIX, (uint64_t)ask->id.row, &value) &&
        fields_find(value, "queue", &name) && reach_has(&ask->reach, name)) {
        reply.kind = REPLY_RUN;
        reply.run = (struct run_view){.id = (uint64_t)ask->id.row,
                                      .queue = name,
                                      .taken = (uint64_t)memos_number(value, "taken"),
                                      .succeeded = (uint64_t)memos_number(value, "succeeded"),
                                      .failed = (uint64_t)memos_number(value, "failed"),
                                      .retrying = (uint64_t)memos_number(value, "retrying"),
                                      .unsettled = (uint64_t)memos_number(value, "unsettled"),
                                      .pending = (uint64_t)memos_number(value, "pending")};
    }
    engine_reply(engine, &reply);
}

static void ask_peers(struct engine *engine, const struct ask *ask)
{
    struct read *read = inspect_new(READ_MEMOS);

    if (read == NULL || !reach_copy_ask(read, ask)) {
        inspect_drop(read);
        inspect_no_room(engine, ask->exchange, 0);
        return;
    }
    read->then = told_by_peer;
    if (!inspect_start(engine, read)) {
        inspect_no_room(engine, ask->exchange, 0);
    }
}

static bool is_over(const struct run *run)
{
    return !run->is_walking && run->view.pending == 0;
}

/* Peers settle what it has begun as well: what this node knows of that is old once its lease is over. */
static void tell_own(struct engine *engine, const struct run *run, uint64_t exchange)
{
    struct error error = {0};

    if (is_over(run) || !nodes_lease_is_over(engine)) {
        reply_run(engine, run, exchange);
        return;
    }
    (void)fail(&error, FAULT_IO, /* the reply carries it */
               "this node has lost the store, and does not know how far the run has come");
    engine_reply_fault(engine, exchange, 0, &error);
}

void runs_ask(struct engine *engine, const struct ask *ask)
{
    for (const struct run *run = engine->runs; run != NULL; run = run->next) {
        if (run->view.id == (uint64_t)ask->id.row && reach_has(&ask->reach, run->queue->name)) {
            tell_own(engine, run, ask->exchange);
            return;
        }
    }
    if (nodes_are_many(engine)) {
        ask_peers(engine, ask);
        return;
    }
    engine_reply(engine, &(struct reply){.kind = REPLY_UNKNOWN_RUN, .exchange = ask->exchange});
}

void runs_bury(struct engine *engine, const struct read *read)
{
    for (size_t i = 0; i < read->memo_count; i++) {
        uint64_t id;
        if (memos_is(read->memos[i].name, RUN_PREFIX, &id) &&
            !memos_is_live(read, read->memos[i].value)) {
            memos_forget_as_is(engine, &read->memos[i]); /* its node may be there again */
        }
    }
}

/* --- tallies --------------------------------------------------------------------------------------- */

static void forget_old(struct engine *engine)
{
    struct run **link = &engine->runs;

    for (size_t count = 0; *link != NULL; count++) {
        struct run *run = *link;
        if (count < RUNS_MAX || !is_over(run) || run->open > 0) {
            link = &run->next;
            continue;
        }
        if (nodes_are_many(engine)) {
            char name[MEMO_NAME_BYTES];
            memos_forget(engine, memos_name(RUN_PREFIX, run->view.id, name));
        }
        *link = run->next;
        free(run->slots);
        free(run);
    }
}

bool runs_may_begin(const struct engine *engine, const struct ask *ask, const struct queue *queue,
                    struct error *ret_why)
{
    struct lists_live live = {.max = RUNS_LIVE_MAX};
    size_t of_queue = 0;

    for (const struct run *run = engine->runs; run != NULL; run = run->next) {
        live.all += !is_over(run);
        live.own += !is_over(run) && lists_is_his(run->who, ask->who);
        of_queue += !is_over(run) && run->queue == queue;
    }
    if (of_queue >= RUNS_OF_QUEUE_MAX) {
        (void)fail_told(ret_why, FAULT_FULL, /* the reply carries it */
                        "%d runs of this queue are under way: tasks that they have made due have "
                        "not come to an outcome yet. Send this one again when they have",
                        RUNS_OF_QUEUE_MAX);
        return false;
    }
    if (!lists_may_last(ask, &live)) {
        (void)fail_told(ret_why, FAULT_FULL, /* likewise */
                        "too many runs are under way (%d at most, %d of a token that is limited to "
                        "queues): send this one again when one of them has ended",
                        RUNS_LIVE_MAX, LISTS_LIMITED(RUNS_LIVE_MAX));
        return false;
    }
    return true;
}

/* Its number is its own for good: one that a restart has forgotten is not taken for another. */
struct run *runs_new(struct engine *engine, const struct queue *queue, struct span who)
{
    struct run *run = calloc(1, sizeof *run);

    if (run == NULL) {
        return NULL;
    }
    run->queue = queue;
    (void)snprintf(run->who, sizeof run->who, "%.*s", SPAN_ARGS(who)); /* cut if long */
    run->view.id = (uint64_t)id_make(&engine->ids, engine_now_ms(engine)).row;
    run->is_walking = true;
    run->next = engine->runs;
    engine->runs = run;
    forget_old(engine);
    DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "queue_length",
               daruma_log_bytes("queue", queue->name.at, queue->name.len),
               daruma_log_uint("waiting", queue->counts[TASK_WAITING]));
    return run;
}

/* One that there is no memory for runs all the same, uncounted. */
void runs_add(struct run *run, int64_t row, const struct life *life)
{
    run->view.taken++;
    if (run->slot_count * 2 >= run->slot_room && !slots_grow(run)) {
        return;
    }
    slot_put(run, (struct run_slot){row, mark_of(life->round, life->attempts)});
    run->view.pending++;
}

static void done(struct engine *engine, struct run *run)
{
    if (!is_over(run)) {
        return;
    }
    DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "run_done",
               daruma_log_bytes("queue", run->queue->name.at, run->queue->name.len),
               daruma_log_text("kind", "manual"), daruma_log_uint("taken", run->view.taken),
               daruma_log_uint("succeeded", run->view.succeeded),
               daruma_log_uint("failed", run->view.failed),
               daruma_log_uint("retrying", run->view.retrying));
    free(run->slots);
    run->slots = NULL;
    run->slot_room = run->slot_count = 0;
    run->keep_ms = 0;
}

void runs_walked(struct engine *engine, struct run *run, uint64_t exchange,
                 const struct error *error)
{
    run->is_walking = false;
    done(engine, run);
    if (error->fault != 0) {
        engine_reply_fault(engine, exchange, 0, error);
    } else if (!nodes_are_many(engine) || !keep(engine, run, exchange)) {
        run->has_news = true;
        reply_run(engine, run, exchange);
    }
}

static void tally(struct engine *engine, struct run *run, struct run_slot *slot,
                  enum task_state state)
{
    slot->row = -1;
    run->view.pending--;
    run->view.succeeded += state == TASK_SUCCEEDED;
    run->view.failed += state != TASK_SUCCEEDED;
    run->view.retrying += state == TASK_WAITING;
    run->view.unsettled += state == TASK_UNSETTLED;
    run->has_news = true;
    done(engine, run);
}

void runs_tally(struct engine *engine, const struct queue *queue, int64_t row,
                enum task_state state)
{
    for (struct run *run = engine->runs; run != NULL; run = run->next) {
        bool is_of_it = queue == NULL || run->queue == queue;
        struct run_slot *slot = is_of_it ? slot_find(run, row) : NULL;
        if (slot != NULL) {
            tally(engine, run, slot, state);
        }
    }
}

/* --- what other nodes have settled ----------------------------------------------------------------- */

/* Purged is over, too. One that was put back untouched still waits for its attempt. */
static bool has_outcome(const struct fate *fate, uint64_t mark)
{
    bool is_as_it_was = fate->state == TASK_WAITING && mark_of(fate->round, fate->attempts) == mark;

    return !fate->is_found || (fate->state != TASK_RUNNING && !is_as_it_was);
}

static void look_end(struct engine *engine, struct run *run)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    int64_t rest_ms = (now_ms - run->look_ms) * LOOK_REST;

    run->look_ms = now_ms + (rest_ms > LOOK_EVERY_MS ? rest_ms : LOOK_EVERY_MS);
    run->look_at = 0;
}

static void look_on(struct engine *engine, struct run *run);

static void looked(struct engine *engine, struct read *read)
{
    struct run *run = read->run;

    bool is_seen =
        read->fault == 0 && read->fates != NULL; /* a read that a stop cuts off has none */

    run->open--;
    run->is_looking = false;
    for (size_t i = 0; is_seen && i < read->row_count; i++) {
        struct run_slot *slot = slot_find(run, read->rows[i]);
        if (slot != NULL && has_outcome(&read->fates[i], slot->mark)) {
            tally(engine, run, slot,
                  read->fates[i].is_found ? read->fates[i].state : TASK_CANCELLED);
        }
    }
    if (!is_seen || run->look_at >= run->slot_room) {
        look_end(engine, run);
    } else {
        look_on(engine, run);
    }
}

/* The next page of those that are waited for. */
static void look_on(struct engine *engine, struct run *run)
{
    struct read *read = inspect_new(READ_FATES);

    if (read != NULL) {
        read->rows = arena_alloc(read->arena, LOOK_ROWS * sizeof *read->rows);
    }
    if (read == NULL || read->rows == NULL) {
        inspect_drop(read);
        look_end(engine, run);
        return;
    }
    for (; run->look_at < run->slot_room && read->row_count < LOOK_ROWS; run->look_at++) {
        if (run->slots[run->look_at].row > 0) {
            read->rows[read->row_count++] = run->slots[run->look_at].row;
        }
    }
    read->run = run;
    read->then = looked;
    if (!inspect_start(engine, read)) {
        look_end(engine, run);
        return;
    }
    run->is_looking = true;
    run->open++;
}

void runs_look(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);

    for (struct run *run = engine->runs; run != NULL; run = run->next) {
        if (run->view.pending > 0 && !run->is_looking && now_ms >= run->look_ms) {
            run->look_ms = now_ms;
            look_on(engine, run);
        }
        bool is_another_epoch = !run->is_walking && run->epoch != engine->store->epoch;
        if ((run->has_news || is_another_epoch) && !run->is_keeping && !run->is_walking &&
            now_ms >= run->keep_ms) {
            (void)keep(engine, run, NOBODY); /* no room: with the next beat */
        }
    }
}

void runs_free_all(struct engine *engine)
{
    while (engine->runs != NULL) {
        struct run *next = engine->runs->next;
        free(engine->runs->slots);
        free(engine->runs);
        engine->runs = next;
    }
}
