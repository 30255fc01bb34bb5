/* SPDX-License-Identifier: MIT
 *
 * restored_tasks -- see restored_tasks.h.
 *
 *   restored_tasks --> a page of what waits --> REVISE each, one commit --> the next page … the last
 *
 * Whether an upstream may see a request twice is what was written with the request (LIFE_ONCE): the routes
 * are the server's to know. Where a route has a probe, the server asks it as soon as it starts.
 */
#include "store/restored_tasks.h"

#include <stdlib.h>

#define PAGE_TASKS 256
#define IN_DOUBT                                                                                   \
    "the store was restored from a backup, in which this request waited: it was not sent from "    \
    "here since, and may have been before"

struct page {
    struct op ops[PAGE_TASKS], *list[PAGE_TASKS];
    struct trail_row trails[PAGE_TASKS];
    size_t count;
    int64_t now_ms;
    bool doubts;
};

static void begin_doubt(struct page *page, struct op *op)
{
    struct trail_row *trail = &page->trails[page->count];
    struct life *life = &op->life;

    life->state = TASK_UNSETTLED;
    life->flags |= LIFE_SENT;
    life->failed_class = DARUMA_CLASS_TRANSIENT + 1;
    life->wait_ms = 0;
    life->probe_count = 0;
    life->probe_due_ms = page->now_ms;
    *trail = (struct trail_row){.attempt = life->attempts_all,
                                .started_at_ms = page->now_ms,
                                .ended_at_ms = page->now_ms,
                                .error_class = DARUMA_CLASS_TRANSIENT,
                                .sent = TASK_SENT_MAYBE,
                                .message = SPAN(IN_DOUBT)};
    op->trail = trail;
    op->trail_count = 1;
}

static int note(void *user, const struct record *record)
{
    struct page *page = user;
    struct op *op = &page->ops[page->count];

    *op = (struct op){.kind = OP_REVISE,
                      .now_ms = page->now_ms,
                      .task.id = record->task.id,
                      .life = record->life};
    op->life.flags &= ~(uint32_t)LIFE_FORCED;
    if (page->doubts) {
        begin_doubt(page, op);
    }
    page->list[page->count] = op;
    page->count++;
    return 0;
}

static int write_page(struct store *store, struct page *page, struct error *err)
{
    int failed = page->count == 0 ? 0 : store_apply_patiently(store, page->list, page->count, err);

    for (size_t i = 0; failed == 0 && i < page->count; i++) {
        if (page->ops[i].result != RESULT_DONE) {
            failed = fail(err, FAULT_INPUT, "a server is at work on the store: stop it first");
        }
    }
    return failed;
}

static int walk(struct store *store, struct page *page, uint32_t flags, size_t *ret_count,
                struct error *err)
{
    struct store_filter filter = {
        .states = 1u << TASK_WAITING, .flags = flags, .limit = PAGE_TASKS};
    int failed = 0;

    *ret_count = 0;
    do {
        struct arena *arena = arena_new(SIZE_MAX);
        if (arena == NULL) {
            return fail(err, FAULT_MEMORY, "no memory to look through what waits");
        }
        page->count = 0;
        failed = store_list(store, &filter, arena, note, page, &filter.after_row, err);
        failed = failed != 0 ? failed : write_page(store, page, err);
        *ret_count += failed == 0 ? page->count : 0;
        arena_free(arena);
    } while (failed == 0 && filter.after_row != 0);
    return failed;
}

int restored_tasks(struct store *store, const struct restored_wish *wish, size_t *ret_unsettled,
                   struct error *err)
{
    struct page *page = calloc(1, sizeof *page);
    size_t unsettled = 0, forgotten;
    int failed = 0;

    if (page == NULL) {
        return fail(err, FAULT_MEMORY, "no memory to look through what waits");
    }
    page->now_ms = wish->now_ms;
    page->doubts = true;
    if (wish->doubts_requests) {
        failed = walk(store, page, LIFE_ROUTE | LIFE_ONCE, &unsettled, err);
    }
    page->doubts = false;
    if (failed == 0 && wish->forgets_words) {
        failed = walk(store, page, LIFE_FORCED, &forgotten, err);
    }
    free(page);
    if (failed == 0) {
        *ret_unsettled = unsettled;
    }
    return failed;
}
