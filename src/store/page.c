/* SPDX-License-Identifier: MIT
 *
 * page -- see page.h.
 */
#include "store/page.h"

struct page page_begin(struct arena *arena)
{
    return (struct page){.arena = arena, .before_bytes = arena_used(arena)};
}

bool page_is_full(const struct page *page, const struct store_filter *filter)
{
    return page->count >= filter->limit ||
           (filter->bytes_max != 0 && page->count > 0 &&
            arena_used(page->arena) - page->before_bytes >= filter->bytes_max);
}

struct record *page_add(struct page *page)
{
    struct page_line *line = arena_alloc(page->arena, sizeof *line);

    if (line == NULL) {
        return NULL;
    }
    if (page->last != NULL) {
        page->last->next = line;
    } else {
        page->first = line;
    }
    page->last = line;
    page->count++;
    return &line->record;
}

int page_show(struct page *page, store_record_fn visit, void *user)
{
    struct page_line *line = page->first;
    int stopped = 0;

    page->first = page->last = NULL;
    for (; line != NULL && stopped == 0; line = line->next) {
        stopped = visit(user, &line->record);
    }
    return stopped;
}

size_t page_scan_max(size_t scan_max)
{
    return scan_max == 0 || scan_max > STORE_LIST_SCAN_MAX ? STORE_LIST_SCAN_MAX : scan_max;
}

/* 0 at either end: open. */
static bool is_within(int64_t at_ms, int64_t from_ms, int64_t until_ms)
{
    return (from_ms == 0 || at_ms >= from_ms) && (until_ms == 0 || at_ms < until_ms);
}

static bool wants_queue(const struct store_filter *filter, uint32_t queue)
{
    bool is_wanted = filter->queues == NULL;

    for (size_t i = 0; !is_wanted && i < filter->queue_count; i++) {
        is_wanted = filter->queues[i] == queue;
    }
    return is_wanted && (filter->queue == 0 || filter->queue == queue);
}

bool page_wants(const struct store_filter *filter, uint32_t queue, const struct life *life)
{
    return wants_queue(filter, queue) && (filter->states >> life->state & 1) != 0 &&
           (life->flags & filter->flags) == filter->flags &&
           (filter->deadline_until_ms == 0 ||
            (life->deadline_at_ms != 0 && life->deadline_at_ms < filter->deadline_until_ms)) &&
           (filter->failed_class == 0 || filter->failed_class == life->failed_class) &&
           is_within(life->failed_at_ms, filter->failed_from_ms, filter->failed_until_ms);
}

static bool is_any_or(struct span wanted, struct span found)
{
    return wanted.len == 0 || span_equal(wanted, found);
}

bool page_wants_key(const struct store_filter *filter, struct span key, struct span scope)
{
    return is_any_or(filter->key, key) && is_any_or(filter->scope, scope);
}

bool page_wants_audit(const struct audit_filter *filter, const struct audit_row *row)
{
    return row->number > filter->after_number &&
           (filter->task_row == 0 || filter->task_row == row->task.row) &&
           is_any_or(filter->who, row->who) && is_any_or(filter->act, row->act) &&
           is_any_or(filter->subject, row->subject) &&
           is_within(row->at_ms, filter->from_ms, filter->until_ms);
}

int page_copy_audit(struct arena *arena, const struct audit_row *row, struct audit_row *ret_row)
{
    struct audit_row copy = *row;
    struct span *spans[] = {&copy.who, &copy.act, &copy.subject, &copy.note};

    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        *spans[i] = arena_copy(arena, *spans[i]);
        if (spans[i]->at == NULL) {
            return FAULT_MEMORY;
        }
    }
    *ret_row = copy;
    return 0;
}
