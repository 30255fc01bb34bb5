/* SPDX-License-Identifier: MIT
 *
 * walk -- one thing done to every task of a queue, page by page: making all that wait due now (a
 * manual run), or forgetting all that is not under way (a purge). Each task is a conditional
 * operation of its own, so what changes meanwhile is simply left as it is.
 *
 *   walk_ask --> read a page --> an operation for each --> all committed --> the next page … reply
 *
 * A run is tallied until each of its tasks has come to its next outcome. Tallies live in memory
 * only: after a restart the tasks are still due, but nobody counts them any more.
 */
#include "engine/kept_internal.h"
#include "store/rules.h"

#include <stdlib.h>

#define PAGE_TASKS     500
#define PAGE_TRIES_MAX 20  /* of a purge, in a row, that got nowhere */
#define RUNS_MAX       100 /* finished runs that can still be asked about */

/* Page after page of a queue's tasks, an operation for each. */
struct walk {
    struct walk *next;
    struct queue *queue;
    enum op_kind kind; /* OP_RUN or OP_PURGE */
    uint64_t exchange;
    int64_t after_row;
    size_t pending;      /* operations under way for this page */
    uint64_t count;      /* done so far */
    int fault;           /* PURGE: the first one of this page */
    int64_t page_row;    /* where the page began, */
    uint64_t page_count; /* and count by then */
    uint32_t tries;      /* of pages in a row that got nowhere */
    struct run *run;     /* RUN: where they are tallied */
};

/* What came of the tasks that one manual run made due. */
struct run {
    struct run *next;
    const struct queue *queue;
    struct run_view view; /* but for the queue's name, which a PUT replaces */
    int64_t *rows;        /* open addressing; 0: free, -1: was */
    size_t row_count, row_room;
    bool is_walking;
};

/* --- tallies --------------------------------------------------------------------------------------- */

static size_t slot_of(const struct run *run, int64_t row)
{
    return (size_t)(((uint64_t)row * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (run->row_room - 1);
}

static bool rows_grow(struct run *run)
{
    size_t old_room = run->row_room, room = old_room == 0 ? 64 : old_room * 2;
    int64_t *old = run->rows, *rows = calloc(room, sizeof *rows);

    if (rows == NULL) {
        return false;
    }
    run->rows = rows;
    run->row_room = room;
    run->row_count = 0;
    for (size_t i = 0; i < old_room; i++) {
        if (old[i] > 0) {
            size_t slot = slot_of(run, old[i]);
            while (rows[slot] != 0) {
                slot = (slot + 1) & (room - 1);
            }
            rows[slot] = old[i];
            run->row_count++;
        }
    }
    free(old);
    return true;
}

/* False: out of memory; the task runs all the same, uncounted. */
static bool rows_add(struct run *run, int64_t row)
{
    if (run->row_count * 2 >= run->row_room && !rows_grow(run)) {
        return false;
    }
    size_t slot = slot_of(run, row);
    while (run->rows[slot] != 0) {
        slot = (slot + 1) & (run->row_room - 1);
    }
    run->rows[slot] = row;
    run->row_count++;
    return true;
}

static bool rows_take(struct run *run, int64_t row)
{
    if (run->row_room == 0) {
        return false;
    }
    for (size_t slot = slot_of(run, row); run->rows[slot] != 0;
         slot = (slot + 1) & (run->row_room - 1)) {
        if (run->rows[slot] == row) {
            run->rows[slot] = -1;
            return true;
        }
    }
    return false;
}

static void run_done(struct engine *engine, struct run *run)
{
    if (run->is_walking || run->view.pending > 0) {
        return;
    }
    DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "run_done",
               daruma_log_bytes("queue", run->queue->name.at, run->queue->name.len),
               daruma_log_text("kind", "manual"), daruma_log_uint("taken", run->view.taken),
               daruma_log_uint("succeeded", run->view.succeeded),
               daruma_log_uint("failed", run->view.failed));
    free(run->rows);
    run->rows = NULL;
    run->row_room = run->row_count = 0;
}

/* A task has come to an outcome: if a run waits for it, that is what the run was about. */
void walk_tally(struct engine *engine, int64_t row, enum task_state state)
{
    for (struct run *run = engine->runs; run != NULL; run = run->next) {
        if (rows_take(run, row)) {
            run->view.pending--;
            run->view.succeeded += state == TASK_SUCCEEDED;
            run->view.failed += state != TASK_SUCCEEDED;
            run_done(engine, run);
        }
    }
}

static void forget_old_runs(struct engine *engine)
{
    struct run **link = &engine->runs;

    for (size_t count = 0; *link != NULL; count++) {
        struct run *run = *link;
        if (count >= RUNS_MAX && !run->is_walking && run->view.pending == 0) {
            *link = run->next;
            free(run->rows);
            free(run);
        } else {
            link = &run->next;
        }
    }
}

static struct run *run_new(struct engine *engine, const struct queue *queue)
{
    struct run *run = calloc(1, sizeof *run);

    if (run != NULL) {
        run->queue = queue;
        run->view = (struct run_view){.id = ++engine->run_last};
        run->is_walking = true;
        run->next = engine->runs;
        engine->runs = run;
        forget_old_runs(engine);
        DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "queue_length",
                   daruma_log_bytes("queue", queue->name.at, queue->name.len),
                   daruma_log_uint("waiting", queue->counts[TASK_WAITING]));
    }
    return run;
}

void walk_run_state(struct engine *engine, const struct ask *ask)
{
    struct reply reply = {.kind = REPLY_UNKNOWN_RUN, .exchange = ask->exchange};

    for (const struct run *run = engine->runs; run != NULL; run = run->next) {
        if (run->view.id == (uint64_t)ask->id.row && reach_has(&ask->reach, run->queue->name)) {
            reply.kind = REPLY_RUN;
            reply.run = run->view;
            reply.run.queue = run->queue->name;
        }
    }
    engine_reply(engine, &reply);
}

/* --- walking --------------------------------------------------------------------------------------- */

static void walk_end(struct engine *engine, struct walk *walk, int fault)
{
    struct walk **link = &engine->walks;
    struct reply reply = {.kind = REPLY_RUN, .exchange = walk->exchange};

    while (*link != walk) {
        link = &(*link)->next;
    }
    *link = walk->next;
    if (walk->run != NULL) {
        walk->run->is_walking = false;
        reply.run = walk->run->view;
        reply.run.queue = walk->queue->name;
        run_done(engine, walk->run);
    }
    if (fault != 0) {
        (void)fail(&reply.error, (enum fault)fault, "stopped after %llu tasks: %s",
                   (unsigned long long)walk->count, fault_text(fault)); /* the reply carries it */
        reply.kind = REPLY_FAULT;
    }
    if (walk->kind == OP_RUN) {
        engine_reply(engine, &reply);
    } else {
        forget_tell(engine, &(struct forgotten){.kind = fault != 0 ? REPLY_FAULT : REPLY_QUEUE,
                                                .exchange = walk->exchange,
                                                .queue = walk->queue,
                                                .error = reply.error});
    }
    free(walk);
}

static void read_page(struct engine *engine, struct walk *walk);

/* What another transaction held is tried again from the beginning of the page, as long as the walk gets
 * on; anything else that failed ends it, and is told. */
static void page_end(struct engine *engine, struct walk *walk)
{
    int fault = walk->fault;

    walk->tries = walk->count > walk->page_count ? 0 : walk->tries + 1;
    if (fault == 0) {
        read_page(engine, walk);
    } else if (fault_is_passing(fault) && walk->tries < PAGE_TRIES_MAX) {
        walk->after_row = walk->page_row;
        read_page(engine, walk);
    } else {
        walk_end(engine, walk, fault_is_passing(fault) ? FAULT_FULL : fault);
    }
}

static void one_done(struct engine *engine, struct errand *errand)
{
    struct walk *walk = errand->walk;
    struct queue *queue = walk->queue;
    const struct op *op = &errand->op;

    if (op->result == RESULT_DONE && op->fault == 0) {
        walk->count++;
        if (walk->kind == OP_RUN) {
            walk->run->view.taken++;
            engine->stats.manual[MANUAL_RUN]++;
            walk->run->view.pending += rows_add(walk->run, op->task.id.row);
            engine_schedule(engine, queue, &op->life, op->task.id.row);
        } else {
            engine_count_add(engine, queue, op->life.state, -1);
            cache_clear(queue->route != NULL ? engine->cache : NULL);
            walk_tally(engine, op->task.id.row, TASK_CANCELLED);
            if (op->life.state == TASK_WAITING) {
                settle_log_empty(engine, queue);
            }
        }
    }
    if (walk->kind == OP_PURGE && walk->fault == 0) { /* a run tells how many it has taken */
        walk->fault = op->fault;
    }
    errand_free(errand);
    if (--walk->pending == 0) {
        dispatch_queue(engine, queue);
        page_end(engine, walk);
    }
}

static bool start_one(struct engine *engine, struct walk *walk, const struct record *record)
{
    struct errand *errand = errand_new(engine, walk->kind);

    if (errand != NULL) {
        errand->op.task.id = record->task.id;
        errand->walk = walk;
        errand->then = one_done;
    }
    return errand_start(engine, errand);
}

static void page_read(struct engine *engine, struct read *read)
{
    struct walk *walk = read->walk;
    bool is_last = read->next_row == 0;

    if (read->fault != 0) {
        walk_end(engine, walk, read->fault);
        return;
    }
    walk->after_row = is_last ? INT64_MAX : read->next_row;
    walk->pending = 1; /* keeps the page open while it is being started */
    for (size_t i = 0; i < read->record_count; i++) {
        if (start_one(engine, walk, &read->records[i])) {
            walk->pending++;
        } else {
            walk->after_row = read->records[i].task.id.row - 1; /* go on from here */
            break;
        }
    }
    if (--walk->pending == 0) {
        page_end(engine, walk);
    }
}

static void read_page(struct engine *engine, struct walk *walk)
{
    struct read *read;

    if (walk->after_row == INT64_MAX) {
        walk_end(engine, walk, 0);
        return;
    }
    walk->fault = 0;
    walk->page_row = walk->after_row;
    walk->page_count = walk->count;
    read = inspect_new(READ_LIST);
    if (read != NULL) {
        read->filter = (struct store_filter){
            .queue = walk->queue->number,
            .states = walk->kind == OP_RUN ? 1u << TASK_WAITING : RULES_PURGED_STATES,
            .after_row = walk->after_row,
            .limit = PAGE_TASKS,
        };
        read->walk = walk;
        read->then = page_read;
    }
    if (read == NULL || !inspect_start(engine, read)) {
        walk_end(engine, walk, FAULT_FULL);
    }
}

static void audit_kept(struct engine *engine, struct errand *errand)
{
    (void)engine; /* what is done matters more than that it was noted */
    errand_free(errand);
}

/* One act, however many tasks it moves. */
static void audit_walk(struct engine *engine, const struct ask *ask, const char *act)
{
    struct errand *errand = ask->who.len > 0 ? errand_new(engine, OP_MEMO) : NULL;

    if (errand != NULL) {
        errand->then = audit_kept;
        audit_fill(errand, ask, act);
    }
    (void)errand_start(engine, errand);
}

void walk_ask(struct engine *engine, const struct ask *ask, struct queue *queue)
{
    struct walk *walk = calloc(1, sizeof *walk);
    struct run *run = walk != NULL && ask->kind == ASK_QUEUE_RUN ? run_new(engine, queue) : NULL;

    if (walk == NULL || (ask->kind == ASK_QUEUE_RUN && run == NULL)) {
        struct error error = {0};
        (void)fail(&error, FAULT_MEMORY, "no memory for it now"); /* the reply carries it */
        engine_reply_fault(engine, ask->exchange, 0, &error);
        free(walk);
        return;
    }
    audit_walk(engine, ask, run != NULL ? "queue_run" : "queue_purge");
    *walk = (struct walk){.next = engine->walks,
                          .queue = queue,
                          .kind = run != NULL ? OP_RUN : OP_PURGE,
                          .exchange = ask->exchange,
                          .run = run};
    engine->walks = walk;
    read_page(engine, walk);
}

void walk_free_all(struct engine *engine)
{
    while (engine->walks != NULL) {
        struct walk *next = engine->walks->next;
        free(engine->walks);
        engine->walks = next;
    }
    while (engine->runs != NULL) {
        struct run *next = engine->runs->next;
        free(engine->runs->rows);
        free(engine->runs);
        engine->runs = next;
    }
}
