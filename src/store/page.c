/* SPDX-License-Identifier: MIT
 *
 * page -- see page.h.
 */
#include "store/page.h"

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

bool page_wants(const struct store_filter *filter, uint32_t queue, enum task_state state)
{
    return (filter->queue == 0 || filter->queue == queue) && (filter->states >> state & 1) != 0;
}
