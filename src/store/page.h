/* SPDX-License-Identifier: MIT
 *
 * page -- records gathered while a lock or a transaction is held, shown once it is over: a visitor
 * may take its time.
 */
#ifndef STORE_PAGE_H
#define STORE_PAGE_H

#include "store/store.h"

struct page_line {
    struct page_line *next;
    struct record record;
};

struct page {
    struct arena *arena;
    struct page_line *first, *last;
    size_t count;
};

/* A zeroed record at the end of the page; NULL: out of memory. */
struct record *page_add(struct page *page);
/* Shows every record and empties the page. What the visitor says is passed up. */
int page_show(struct page *page, store_record_fn visit, void *user);

/* Does a task belong to the page, by all but its label? */
bool page_wants(const struct store_filter *filter, uint32_t queue, const struct life *life);
/* Does an act belong to the page? */
bool page_wants_audit(const struct audit_filter *filter, const struct audit_row *row);
/* A copy of an act, for a page of them. FAULT_MEMORY. */
int page_copy_audit(struct arena *arena, const struct audit_row *row, struct audit_row *ret_row);

#endif
