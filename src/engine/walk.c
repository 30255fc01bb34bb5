/* SPDX-License-Identifier: MIT
 *
 * walk -- one thing done to every task of a queue, page by page: making all that wait due now (a
 * manual run), or forgetting all that is not under way (a purge). Each task is a conditional
 * operation of its own, so what changes meanwhile is simply left as it is.
 *
 *   walk_ask --> read a page --> an operation for each --> all committed --> the next page … reply
 *
 * What a run takes is tallied in runs.c.
 */
#include "engine/kept_internal.h"
#include "engine/lists_internal.h"
#include "engine/runs_internal.h"
#include "store/rules.h"

#include <stdlib.h>

#define PAGE_TASKS     500
#define PAGE_TRIES_MAX 20 /* of a purge, in a row, that got nowhere */
#define ROOM_WAIT_MS   20 /* before a page is read again that the committer had no room for */

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
    bool has_no_room;    /* nothing of this page could be started */
    int64_t again_at_ms; /* monotonic: it is read again then; 0: it does not wait */
    struct run *run;     /* RUN: where they are tallied */
};

/* --- walking --------------------------------------------------------------------------------------- */

static void walk_end(struct engine *engine, struct walk *walk, int fault)
{
    struct walk **link = &engine->walks;
    struct error error = {0};

    while (*link != walk) {
        link = &(*link)->next;
    }
    *link = walk->next;
    if (fault != 0) {
        (void)fail_told(&error, (enum fault)fault, "stopped after %llu tasks: %s",
                        (unsigned long long)walk->count,
                        fault_text(fault)); /* the reply carries it */
    }
    if (walk->run != NULL) {
        runs_walked(engine, walk->run, walk->exchange, &error);
    } else {
        forget_tell(engine, &(struct forgotten){.kind = fault != 0 ? REPLY_FAULT : REPLY_QUEUE,
                                                .exchange = walk->exchange,
                                                .queue = walk->queue,
                                                .error = error});
    }
    free(walk);
}

void walk_mark(const struct engine *engine, void (*use)(const struct queue *queue))
{
    for (const struct walk *walk = engine->walks; walk != NULL; walk = walk->next) {
        use(walk->queue);
    }
}

bool walk_is_purging(const struct engine *engine, const struct queue *queue)
{
    for (const struct walk *walk = engine->walks; walk != NULL; walk = walk->next) {
        if (walk->queue == queue && walk->kind == OP_PURGE) {
            return true;
        }
    }
    return false;
}

size_t walk_count(const struct engine *engine)
{
    size_t count = 0;

    for (const struct walk *walk = engine->walks; walk != NULL; walk = walk->next) {
        count++;
    }
    return count;
}

static void read_page(struct engine *engine, struct walk *walk);

/* What another transaction held is tried again from the beginning of the page, as long as the walk gets
 * on; anything else that failed ends it, and is told. */
static void page_end(struct engine *engine, struct walk *walk)
{
    int fault = walk->fault;

    walk->tries = walk->count > walk->page_count ? 0 : walk->tries + 1;
    if (walk->has_no_room) {
        walk->again_at_ms = clock_mono_ms(engine->options.clock) + ROOM_WAIT_MS;
    } else if (fault == 0) {
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
            engine->stats.manual[MANUAL_RUN]++;
            runs_add(walk->run, op->task.id.row, &op->life);
            engine_schedule(engine, queue, &op->life, op->task.id.row);
        } else {
            engine_count_out(engine, queue, &op->life);
            cache_clear(queue->route != NULL ? engine->cache : NULL);
            runs_tally(engine, queue, op->task.id.row, TASK_CANCELLED);
            if (op->life.state == TASK_WAITING) {
                gone_note(engine, queue, op->task.id.row);
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
    walk->has_no_room = false;
    for (size_t i = 0; i < read->record_count; i++) {
        if (start_one(engine, walk, &read->records[i])) {
            walk->pending++;
        } else {
            walk->after_row = read->records[i].task.id.row - 1; /* go on from here */
            walk->has_no_room = i == 0;
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

void walk_tick(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    struct walk *next;

    for (struct walk *walk = engine->walks; walk != NULL; walk = next) {
        next = walk->next;
        if (walk->again_at_ms != 0 && now_ms >= walk->again_at_ms) {
            walk->again_at_ms = 0;
            read_page(engine, walk);
        }
    }
}

int64_t walk_wait_ms(const struct engine *engine)
{
    int64_t again_at_ms = INT64_MAX;

    for (const struct walk *walk = engine->walks; walk != NULL; walk = walk->next) {
        bool is_first = walk->again_at_ms != 0 && walk->again_at_ms < again_at_ms;
        again_at_ms = is_first ? walk->again_at_ms : again_at_ms;
    }
    return again_at_ms == INT64_MAX ? INT64_MAX
                                    : again_at_ms - clock_mono_ms(engine->options.clock);
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
    if (!lists_may_walk(engine)) {
        lists_refuse_bulk(engine, ask->exchange);
        return;
    }
    bool is_run = ask->kind == ASK_QUEUE_RUN;
    struct error error = {0};
    if (is_run && !nodes_may_number(engine, ask->exchange)) {
        return;
    }
    if (is_run && !runs_may_begin(engine, ask, queue, &error)) {
        engine_reply_fault(engine, ask->exchange, 0, &error);
        return;
    }
    struct walk *walk = calloc(1, sizeof *walk);
    struct run *run = walk != NULL && is_run ? runs_new(engine, queue, ask->who) : NULL;

    if (walk == NULL || (is_run && run == NULL)) {
        (void)fail_told(&error, FAULT_MEMORY, "no memory for it now"); /* the reply carries it */
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
    runs_free_all(engine);
}
