/* SPDX-License-Identifier: MIT
 *
 * cli_queues -- `daruma queues`: every queue with how many tasks are where.
 */
#include "cli/cli.h"

#include "base/fault.h"
#include "cli/explain.h"
#include "cli/table.h"
#include "task/route.h"

#include <stdio.h>

static const struct flags_form form = {
    .command = "queues",
    .purpose =
        "Lists the queues: whether one is paused or its target down, how many dead letters\n"
        "wait for a person (DEAD), how many of its tasks are in each state, and how many of\n"
        "the waiting ones are due. FAILED has closed dead letters, too.\n",
};

static const struct table_column columns[] = {
    {.title = "QUEUE", .is_flexible = true}, {.title = "STATE"},
    {.title = "DEAD", .is_number = true},    {.title = "UNSETTLED", .is_number = true},
    {.title = "WAITING", .is_number = true}, {.title = "DUE", .is_number = true},
    {.title = "RUNNING", .is_number = true}, {.title = "SUCCEEDED", .is_number = true},
    {.title = "FAILED", .is_number = true},  {.title = "CANCELLED", .is_number = true},
};

struct listing {
    const struct flags *flags;
    struct table *table;
    int64_t count;
};

AUTO_POINTER(struct table, table_free)

/* What the configuration lacks for it: missing, settings, targets; empty: nothing. */
static struct span hold_of(const json_t *queue)
{
    struct span held_by = client_text(queue, "held_by");
    bool is_hold = client_text(queue, "held_because").len > 0;

    return is_hold ? held_by : SPAN("");
}

/* What holds it: what cannot be worked at all, then a person's word. While one of its targets is not
 * stopped, the tasks go there. */
static struct span state_of(const json_t *queue)
{
    struct span hold = hold_of(queue);

    if (hold.len > 0) {
        return span_is(hold, "missing") ? hold : SPAN("held");
    }
    if (json_is_true(json_object_get(queue, "paused"))) {
        return SPAN("paused");
    }
    if (client_text(queue, "outage_since").len > 0) {
        return SPAN("outage");
    }
    return span_is(client_text(queue, "held_by"), "stopped") ? SPAN("stopped") : SPAN("active");
}

static void add_queue(struct table *table, const json_t *queue)
{
    const json_t *counts = json_object_get(queue, "counts");
    struct span state = state_of(queue);

    table_add(table, client_text(queue, "name"));
    table_add_coloured(table, state, screen_state_colour(state));
    table_add_number(table, client_number(queue, "dead_letters"));
    table_add_number(table, client_number(counts, "unsettled"));
    table_add_number(table, client_number(counts, "waiting"));
    table_add_number(table, client_number(queue, "due"));
    table_add_number(table, client_number(counts, "running"));
    table_add_number(table, client_number(counts, "succeeded"));
    table_add_number(table, client_number(counts, "failed"));
    table_add_number(table, client_number(counts, "cancelled"));
}

static void put(const struct screen *screen, struct span text)
{
    (void)screen_put(screen, text, SCREEN_UNCUT);
}

/* A route has keys besides its tasks, and no settings that another queue could lend it. */
static void put_missing_route(const struct screen *screen, struct span name)
{
    put(screen, SPAN(": its keys are not looked at, so a request that is repeated with one is sent "
                     "again: if a route was edited, write into it name: "));
    put(screen, span_from(name, strlen(ROUTE_QUEUE_PREFIX)));
    put(screen, SPAN("; if it is not wanted any more: daruma queue purge "));
    put(screen, name);
    put(screen, SPAN(" forgets its keys"));
}

static void put_missing(const struct screen *screen, struct span name)
{
    put(screen, SPAN(": put it back into the file, or: daruma queue adopt "));
    put(screen, name);
    put(screen, SPAN(" --like QUEUE, or: daruma queue purge "));
    put(screen, name);
}

static void put_hold(const struct screen *screen, const json_t *queue)
{
    struct span hold = hold_of(queue), name = client_text(queue, "name");

    if (hold.len == 0) {
        return;
    }
    put(screen, name);
    put(screen, SPAN(": nothing of it is sent: "));
    put(screen, client_text(queue, "held_because"));
    if (span_is(hold, "missing") && span_starts(name, ROUTE_QUEUE_PREFIX)) {
        put_missing_route(screen, name);
    } else if (span_is(hold, "missing")) {
        put_missing(screen, name);
    } else {
        put(screen, SPAN(": mend the configuration, or PUT /v1/queues/"));
        put(screen, name);
    }
    fprintf(screen->out, "\n");
}

/* It sends what its turn allows. */
static void put_crowded(const struct screen *screen, const json_t *queue)
{
    if (span_is(client_text(queue, "held_by"), "attempts")) {
        put(screen, client_text(queue, "name"));
        put(screen,
            SPAN(": all queues together send as much as limits.attempts allows, or all of it "
                 "that one queue may take: what is due waits for its turn"));
        fprintf(screen->out, "\n");
    }
}

/* Why a queue sends less than it might, below the table. */
static void put_trouble(const struct screen *screen, const json_t *queue)
{
    put_hold(screen, queue);
    put_crowded(screen, queue);
    const json_t *stopped = json_object_get(queue, "stopped");
    struct span since = client_text(queue, "outage_since");

    if (since.len > 0) {
        put(screen, client_text(queue, "name"));
        put(screen, SPAN(": outage since "));
        put(screen, since);
        put(screen, SPAN(": the target keeps failing; one task at a time tries it"));
        fprintf(screen->out, "\n");
    }
    for (size_t i = 0; i < json_array_size(stopped); i++) {
        put(screen, client_text(queue, "name"));
        put(screen, SPAN(": target "));
        put(screen, span_of(json_string_value(json_array_get(stopped, i))));
        put(screen, SPAN(" has answered 410 and gets nothing more: daruma queue resume "));
        put(screen, client_text(queue, "name"));
        put(screen, SPAN(" lets it in again"));
        fprintf(screen->out, "\n");
    }
}

static enum client_walk show_page(void *user, const struct client_page *page)
{
    struct listing *listing = user;

    for (size_t i = 0; i < json_array_size(page->rows); i++) {
        add_queue(listing->table, json_array_get(page->rows, i));
        listing->count++;
    }
    int failed = table_end(listing->table); /* what troubles them stands below */
    if (failed != 0) {
        (void)explain_fault(&form, failed); /* CLI_FAILED, as giving up is */
        return CLIENT_GIVE_UP;
    }
    const struct screen screen = screen_of(stdout);
    for (size_t i = 0; i < json_array_size(page->rows); i++) {
        put_trouble(&screen, json_array_get(page->rows, i));
    }
    return CLIENT_GO_ON;
}

static int show_table(struct client *client, const struct flags *flags)
{
    const struct screen screen = screen_of(stdout);
    AUTO(table_free_p)
    struct table *table = table_new(&screen, columns, sizeof columns / sizeof *columns);
    struct listing listing = {.flags = flags, .table = table};

    if (table == NULL) {
        return explain_fault(&form, FAULT_MEMORY);
    }
    int exit_code = client_walk(client, &(struct client_list){.path = SPAN("/v1/queues"),
                                                              .member = "queues",
                                                              .each = show_page,
                                                              .user = &listing});
    if (exit_code == CLI_DONE && listing.count == 0) {
        fprintf(stderr, "there are no queues yet: the configuration or PUT /v1/queues/NAME makes "
                        "one\n");
    }
    return exit_code;
}

static int show_json(struct client *client)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    int exit_code = client_ask(
        client, &(struct client_request){.method = "GET", .path = SPAN("/v1/queues")}, &answer);

    if (exit_code == CLI_DONE) {
        screen_put_json(buf_span(&answer.text));
    }
    return exit_code;
}

int cli_queues(int argc, char **argv)
{
    AUTO(client_close_p) struct client *client = NULL;
    struct flags flags = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    exit_code = client_open(&form, &flags, &client);
    if (exit_code == CLI_DONE) {
        exit_code = flags.is_json ? show_json(client) : show_table(client, &flags);
    }
    return explain_finish(&form, exit_code);
}
