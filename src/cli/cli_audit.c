/* SPDX-License-Identifier: MIT
 *
 * cli_audit -- `daruma audit`: every act of a person that the server has kept: who, when, what, on
 * which task, from which state to which.
 */
#include "cli/cli.h"

#include "cli/explain.h"
#include "cli/listing.h"

static const struct flag table[] = {
    {"--task", "ID", listing_take_task, "the id of a task", "only what was done to this task",
     "task", false},
    {"--queue", "Q", listing_take_queue, LISTING_QUEUE, "only what was done to this queue", "queue",
     false},
    {"--who", "NAME", listing_take_who, "the name of a token", "only what this one did", "who",
     false},
    {"--act", "ACT", listing_take_act, "an act such as redrive or resolve", "only this", "act",
     false},
    {"--since", "T", listing_take_since, LISTING_MOMENT, "not before", "since", false},
    {"--until", "T", listing_take_until, LISTING_MOMENT, "not after", "until", false},
    LISTING_LIMIT_FLAGS,
};

static const struct flags_form form = {
    .command = "audit",
    .purpose = "Lists what people did by hand: who, when, what, from which state to which.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
};

static const struct table_column columns[] = {
    {.title = "AT"},   {.title = "WHO", .is_flexible = true},   {.title = "ACT"},
    {.title = "TASK"}, {.title = "QUEUE", .is_flexible = true}, {.title = "FROM"},
    {.title = "TO"},   {.title = "NOTE", .is_flexible = true},
};

static void add_act(struct table *rows, const json_t *act)
{
    struct span from = client_text(act, "from"), to = client_text(act, "to");

    table_add(rows, client_text(act, "at"));
    table_add(rows, client_text(act, "who"));
    table_add(rows, client_text(act, "act"));
    table_add(rows, client_text(act, "task"));
    table_add(rows, client_text(act, "queue"));
    table_add_coloured(rows, from, screen_state_colour(from));
    table_add_coloured(rows, to, screen_state_colour(to));
    table_add(rows, client_text(act, "note"));
}

static const struct listing_form listing = {
    .form = &form,
    .path = "/v1/audit",
    .member = "audit",
    .none = "there are no such acts",
    .columns = columns,
    .column_count = sizeof columns / sizeof *columns,
    .add = add_act,
};

int cli_audit(int argc, char **argv)
{
    struct listing_flags flags = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    return explain_finish(&form, listing_show(&listing, &flags));
}
