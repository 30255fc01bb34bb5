/* SPDX-License-Identifier: MIT
 *
 * cli_dead_list -- `daruma dead list`: dead letters, oldest first.
 */
#include "cli/cli.h"

#include "cli/explain.h"
#include "cli/listing.h"

#define CLASSES  "transient, rate_limited, quota, auth, invalid, gone, expired"
#define STATUSES "failed, retrying, resolved"

/* What waits for a person, and what is listed where nothing is said. */
#define OPEN "failed"
#define ALL  "all"

static bool take_status(void *user, const char *value)
{
    struct listing_flags *listing = user;

    if (strcmp(value, ALL) == 0) {
        listing->status = NULL; /* the server tells every one then */
        return true;
    }
    return listing_take_status(user, value);
}

static const struct flag table[] = {
    {"--queue", "Q", listing_take_queue, LISTING_QUEUE, "only those of this queue", "queue", false},
    {"--status", "S", take_status, "one of " STATUSES ", " ALL,
     "these: " STATUSES ", or " ALL " of them (" OPEN ")", "status", false},
    {"--class", "C", listing_take_class, "one of " CLASSES, "only those that failed so", "class",
     false},
    {"--since", "T", listing_take_since, LISTING_MOMENT, "only those that failed since then",
     "since", false},
    {"--until", "T", listing_take_until, LISTING_MOMENT, "only those that failed until then",
     "until", false},
    LISTING_LIMIT_FLAGS,
};

static const struct flags_form form = {
    .command = "dead list",
    .purpose = "Lists tasks that have failed for good and wait for a person, oldest first; with\n"
               "--status also those that were sent again or closed.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
};

static const struct table_column columns[] = {
    {.title = "ID"},
    {.title = "AGE", .is_number = true},
    {.title = "QUEUE", .is_flexible = true},
    {.title = "WHY", .is_flexible = true, .least = CELLS_WHY_LEAST},
    {.title = "STATUS"},
    {.title = "TRIES", .is_number = true},
    {.title = "LABELS", .is_flexible = true},
    {.title = "REQUEST", .is_flexible = true},
};

static enum screen_colour colour_of(struct span status)
{
    return span_is(status, "failed")     ? SCREEN_RED
           : span_is(status, "retrying") ? SCREEN_YELLOW
                                         : SCREEN_GREEN;
}

static void add_letter(struct table *rows, const json_t *letter)
{
    struct span status = client_text(letter, "status");

    table_add(rows, client_text(letter, "id"));
    cells_add_age(rows, client_text(letter, "failed_at"));
    table_add(rows, client_text(letter, "queue"));
    cells_add_error(rows, letter);
    table_add_coloured(rows, status, colour_of(status));
    table_add_number(rows, client_number(letter, "retry_count"));
    cells_add_labels(rows, letter);
    cells_add_request(rows, letter);
}

static const struct listing_form listing = {
    .form = &form,
    .path = "/v1/dead-letters",
    .member = "dead_letters",
    .none = "there are no such dead letters (--status all lists closed ones, too)",
    .columns = columns,
    .column_count = sizeof columns / sizeof *columns,
    .add = add_letter,
};

int cli_dead_list(int argc, char **argv)
{
    struct listing_flags flags = {.status = OPEN};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    return explain_finish(&form, listing_show(&listing, &flags));
}
