/* SPDX-License-Identifier: MIT
 *
 * cli_tasks -- `daruma tasks [QUEUE]`: a list, oldest first, of one queue or of all. Pages are shown
 * as they come, so that a list of any length takes no more memory than a page.
 */
#include "cli/cli.h"

#include "base/fault.h"
#include "base/json_value.h"
#include "cli/cells.h"
#include "cli/explain.h"
#include "edge/writer.h"
#include "engine/engine.h"
#include "task/task.h"

#include <inttypes.h>
#include <stdio.h>

#define NEXT_BYTES_MAX 4096

#define STATES "waiting, running, unsettled, succeeded, failed, cancelled"

struct tasks_flags {
    struct flags common;
    const char *queue;
    const char *state;
    struct span label_name, label_value;
    int64_t limit; /* 0: not given */
    bool is_all;
};

/* --- flags -------------------------------------------------------------------------------------- */

static bool take_queue(void *user, const char *value)
{
    return flags_queue(value, &((struct tasks_flags *)user)->queue);
}

static bool take_state(void *user, const char *value)
{
    unsigned states;

    ((struct tasks_flags *)user)->state = value;
    return task_state_parse(span_of(value), &states);
}

static bool take_label(void *user, const char *value)
{
    struct tasks_flags *flags = user;

    return flags->label_name.len == 0 &&
           flags_pair(value, '=', &flags->label_name, &flags->label_value);
}

static bool take_limit(void *user, const char *value)
{
    struct tasks_flags *flags = user;

    return span_to_int(span_of(value), &flags->limit) && flags->limit > 0 && !flags->is_all;
}

static bool take_all(void *user, const char *value)
{
    struct tasks_flags *flags = user;

    (void)value;
    flags->is_all = true;
    return flags->limit == 0;
}

static const struct flag table[] = {
    {"--state", "S", take_state, "one of " STATES, "only these: " STATES, "state", false},
    {"--label", "N=V", take_label, "NAME=VALUE, and only one of them", "only those with this label",
     "label", false},
    {"--limit", "N", take_limit, "a whole number above 0, and not beside --all",
     "at most so many (100)", "limit", false},
    {"--all", NULL, take_all, "not to stand beside --limit", "every one", NULL, false},
};

static const struct flags_form form = {
    .command = "tasks",
    .operands = "[QUEUE]",
    .purpose = "Lists tasks, oldest first: those of one queue, or of every queue.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .take_operand = take_queue,
    .operand_expected = "one QUEUE: letters, digits, - _ and .",
};

/* --- rows ---------------------------------------------------------------------------------------- */

static const struct table_column columns[] = {
    {.title = "ID"},
    {.title = "STATE"},
    {.title = "TRIES", .is_number = true},
    {.title = "AGE", .is_number = true},
    {.title = "DUE"},
    {.title = "QUEUE", .is_flexible = true},
    {.title = "REQUEST", .is_flexible = true},
    {.title = "LABELS", .is_flexible = true},
};

struct listing {
    const struct tasks_flags *flags;
    struct flags *asking; /* the client's: see begin_document */
    struct client *client;
    struct table *table;                 /* NULL: JSON is wanted */
    const char *queue;                   /* the one that is being listed */
    int64_t left;                        /* how many more are wanted */
    int64_t count;                       /* how many were shown */
    int exit_code;                       /* of listing one queue of several */
    bool is_begun;                       /* the document's beginning is printed */
    char next[64 + TASK_QUEUE_NAME_MAX]; /* where a list that was ended early would go on */
};

static void add_task(struct table *rows, const json_t *task)
{
    struct span state = client_text(task, "state");

    table_add(rows, client_text(task, "id"));
    table_add_coloured(rows, state, screen_state_colour(state));
    cells_add_tries(rows, task);
    cells_add_age(rows, client_text(task, "created_at"));
    cells_add_due(rows, task);
    table_add(rows, client_text(task, "queue"));
    cells_add_request(rows, task);
    cells_add_labels(rows, task);
}

/* --- pages --------------------------------------------------------------------------------------- */

static int show_rows(struct listing *listing, const struct client_page *page, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        add_task(listing->table, json_array_get(page->rows, i));
    }
    return table_print(listing->table);
}

/* From here on a problem cannot be the document any more: it is said, and this one stays unended. */
static void begin_document(struct listing *listing)
{
    if (!listing->is_begun) {
        printf("{\"tasks\":[");
        listing->is_begun = true;
        listing->asking->is_json = false;
    }
}

static int end_document(struct listing *listing)
{
    AUTO(buf_done) struct buf text;
    struct writer writer = {.out = &text};

    buf_init(&text, NEXT_BYTES_MAX);
    begin_document(listing);
    if (listing->next[0] != '\0') {
        write_text(&writer, span_of(listing->next));
    } else {
        write_null(&writer);
    }
    if (writer.failed != 0) {
        return explain_fault(&form, writer.failed);
    }
    printf("],\"next\":");
    screen_put_json_part(buf_span(&text));
    printf("}\n");
    return CLI_DONE;
}

/* Each element as it came. */
static void print_elements(struct listing *listing, const struct client_page *page, size_t count)
{
    struct json_walk walk;
    struct span name, value;

    begin_document(listing);
    if (!json_walk_begin(&walk, page->text, '[')) {
        return;
    }
    for (size_t i = 0; i < count && json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE; i++) {
        if (listing->count + (int64_t)i > 0) {
            printf(",");
        }
        screen_put_json_part(value);
    }
}

static enum client_walk show_page(void *user, const struct client_page *page)
{
    struct listing *listing = user;
    size_t count = json_array_size(page->rows);
    int failed = 0;

    if ((int64_t)count > listing->left) {
        count = (size_t)listing->left; /* a server that gives more than it is asked for */
    }
    if (listing->table != NULL) {
        failed = show_rows(listing, page, count);
    } else {
        print_elements(listing, page, count);
    }
    if (failed != 0) {
        (void)explain_fault(&form, failed); /* CLI_FAILED, as giving up is */
        return CLIENT_GIVE_UP;
    }
    listing->count += (int64_t)count;
    listing->left -= (int64_t)count;
    if (listing->left > 0) {
        return CLIENT_GO_ON;
    }
    if (page->next != NULL) {
        (void)snprintf(listing->next, sizeof listing->next, "%s%s%s",
                       listing->flags->queue != NULL ? "" : listing->queue,
                       listing->flags->queue != NULL ? "" : ":", page->next); /* cut at worst */
    }
    return CLIENT_ENOUGH;
}

static int list_path(const struct listing *listing, struct buf *path)
{
    const struct tasks_flags *flags = listing->flags;
    int64_t limit = listing->left < ENGINE_LIST_LIMIT_MAX ? listing->left : ENGINE_LIST_LIMIT_MAX;
    int failed = buf_addf(path, "/v1/queues/%s/tasks?limit=%" PRId64, listing->queue, limit);

    if (failed == 0 && flags->state != NULL) {
        failed = buf_addf(path, "&state=%s", flags->state);
    }
    if (failed == 0 && flags->label_name.len > 0) {
        failed = buf_add(path, SPAN("&label."));
        failed = failed != 0 ? failed : client_escape(path, flags->label_name);
        failed = failed != 0 ? failed : buf_add(path, SPAN("="));
        failed = failed != 0 ? failed : client_escape(path, flags->label_value);
    }
    return failed;
}

static int list_queue(struct listing *listing, const char *queue)
{
    AUTO(buf_done) struct buf path;

    buf_init(&path, CLIENT_PATH_MAX);
    listing->queue = queue;
    int failed = list_path(listing, &path);
    if (failed != 0) {
        return explain_fault(&form, failed);
    }
    return client_walk(listing->client, &(struct client_list){.path = buf_span(&path),
                                                              .member = "tasks",
                                                              .each = show_page,
                                                              .user = listing});
}

static enum client_walk list_page_of_queues(void *user, const struct client_page *page)
{
    struct listing *listing = user;

    for (size_t i = 0; i < json_array_size(page->rows); i++) {
        struct span name = client_text(json_array_get(page->rows, i), "name");
        if (!task_queue_name_is_valid(name)) { /* it would go into a path */
            continue;
        }
        if (listing->left == 0) {
            if (listing->next[0] == '\0') {
                (void)snprintf(listing->next, sizeof listing->next, "%s:0", name.at); /* fits */
            }
            return CLIENT_ENOUGH;
        }
        listing->exit_code = list_queue(listing, name.at);
        if (listing->exit_code != CLI_DONE) {
            return CLIENT_GIVE_UP;
        }
    }
    return CLIENT_GO_ON;
}

static int list_all(struct listing *listing)
{
    if (listing->flags->queue != NULL) {
        return list_queue(listing, listing->flags->queue);
    }
    int exit_code = client_walk(listing->client, &(struct client_list){.path = SPAN("/v1/queues"),
                                                                       .member = "queues",
                                                                       .each = list_page_of_queues,
                                                                       .user = listing});
    return listing->exit_code != CLI_DONE ? listing->exit_code : exit_code;
}

/* For people: what is not there, and what was left out. */
static void say_rest(const struct listing *listing)
{
    (void)fflush(stdout); /* so that the two do not mix */
    if (listing->count == 0) {
        fprintf(stderr, "there are no such tasks\n");
    } else if (listing->next[0] != '\0') {
        fprintf(stderr, "there are more: --all shows every one, --limit N so many\n");
    }
}

static int show_list(struct client *client, const struct tasks_flags *flags, struct flags *asking)
{
    const struct screen screen = screen_of(stdout);
    AUTO(table_free_p)
    struct table *rows = flags->common.is_json
                             ? NULL
                             : table_new(&screen, columns, sizeof columns / sizeof *columns);
    struct listing listing = {.flags = flags,
                              .asking = asking,
                              .client = client,
                              .table = rows,
                              .left = flags->is_all      ? INT64_MAX
                                      : flags->limit > 0 ? flags->limit
                                                         : ENGINE_LIST_LIMIT};

    if (rows == NULL && !flags->common.is_json) {
        return explain_fault(&form, FAULT_MEMORY);
    }
    int exit_code = list_all(&listing);
    int untold = rows != NULL ? table_end(rows) : 0; /* also those before a failure */
    if (exit_code != CLI_DONE) {
        return exit_code;
    }
    if (untold != 0) {
        return explain_fault(&form, untold);
    }
    if (rows == NULL) {
        return end_document(&listing);
    }
    say_rest(&listing);
    return CLI_DONE;
}

int cli_tasks(int argc, char **argv)
{
    AUTO(client_close_p) struct client *client = NULL;
    struct tasks_flags flags = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    struct flags asking = flags.common;
    exit_code = client_open(&form, &asking, &client);
    if (exit_code == CLI_DONE) {
        exit_code = show_list(client, &flags, &asking);
    }
    return explain_finish(&form, exit_code);
}
