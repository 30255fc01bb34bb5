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
    size_t before_bytes; /* of the arena, when the page was begun */
};

struct page page_begin(struct arena *arena);

/* A zeroed record at the end of the page; NULL: out of memory. */
struct record *page_add(struct page *page);
/* Shows every record and empties the page. What the visitor says is passed up. */
int page_show(struct page *page, store_record_fn visit, void *user);

/* How many rows a page looks at, by the filter's `scan_max`. */
size_t page_scan_max(size_t scan_max);

/* Has the page all that it may have? */
bool page_is_full(const struct page *page, const struct store_filter *filter);

/* Does a task belong to the page, by all but its key, scope and label? */
bool page_wants(const struct store_filter *filter, uint32_t queue, const struct life *life);
/* And by its key and scope? */
bool page_wants_key(const struct store_filter *filter, struct span key, struct span scope);
/* Does an act belong to the page? */
bool page_wants_audit(const struct audit_filter *filter, const struct audit_row *row);
/* A copy of an act, for a page of them. FAULT_MEMORY. */
int page_copy_audit(struct arena *arena, const struct audit_row *row, struct audit_row *ret_row);

#endif
