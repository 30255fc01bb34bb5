/* SPDX-License-Identifier: MIT
 *
 * listing -- one list of the server's, page by page: a table for people, one document with --json.
 * And the flags that such lists have, of which each command offers those that its list knows.
 *
 * Pages are shown as they come, so that a list of any length takes no more memory than a page.
 */
#ifndef CLI_LISTING_H
#define CLI_LISTING_H

#include "cli/cells.h"

#define LISTING_MOMENT "a time such as 2026-11-15T10:20:30Z, or how long ago, such as 2h"
#define LISTING_QUEUE  "a queue's name: letters, digits, - _ and ."

/* What is not given is NULL, 0 or false. The first member of a command's flags. */
struct listing_flags {
    struct flags common;
    const char *queue, *status, *class, *task, *who, *act;
    int64_t since_ms, until_ms;
    int64_t limit;
    bool is_all;
};

bool listing_take_queue(void *flags, const char *value);
bool listing_take_status(void *flags, const char *value);
bool listing_take_class(void *flags, const char *value);
bool listing_take_task(void *flags, const char *value);
bool listing_take_who(void *flags, const char *value);
bool listing_take_act(void *flags, const char *value);
bool listing_take_since(void *flags, const char *value);
bool listing_take_until(void *flags, const char *value);
bool listing_take_limit(void *flags, const char *value);
bool listing_take_all(void *flags, const char *value);

#define LISTING_LIMIT_FLAGS                                                                        \
    {"--limit",                                                                                    \
     "N",                                                                                          \
     listing_take_limit,                                                                           \
     "a whole number above 0, and not beside --all",                                               \
     "at most so many (100)",                                                                      \
     "limit",                                                                                      \
     false},                                                                                       \
    {                                                                                              \
        "--all", NULL, listing_take_all, "not to stand beside --limit", "every one", NULL, false   \
    }

struct listing_form {
    const struct flags_form *form;
    const char *path;   /* /v1/audit */
    const char *member; /* of the answer: audit */
    const char *none;   /* what is said when there are none */
    const struct table_column *columns;
    size_t column_count;
    void (*add)(struct table *rows, const json_t *row); /* one cell for each column */
};

/* Asks and shows; how the program ends. */
int listing_show(const struct listing_form *listing, const struct listing_flags *flags)
    __attribute__((warn_unused_result));

#endif
