/* SPDX-License-Identifier: MIT
 *
 * cli_unsettled -- `daruma unsettled`: tasks whose request may have reached its target and got no
 * answer. `daruma unsettled settle` is `daruma settle`.
 */
#include "cli/cli.h"

#include "cli/explain.h"
#include "cli/listing.h"

static bool take_word(void *user, const char *value)
{
    (void)user;
    return strcmp(value, "list") == 0;
}

static const struct flag table[] = {
    {"--queue", "Q", listing_take_queue, LISTING_QUEUE, "only those of this queue", "queue", false},
    LISTING_LIMIT_FLAGS,
};

static const struct flags_form form = {
    .command = "unsettled",
    .operands = "[list]",
    .purpose =
        "Lists tasks whose request may have arrived, without an answer that says so. 'daruma\n"
        "show ID' tells what is known; 'daruma settle ID' says what became of it.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .take_operand = take_word,
    .operand_expected = "list, or settle ID OUTCOME",
};

static const struct table_column columns[] = {
    {.title = "ID"},
    {.title = "AGE", .is_number = true},
    {.title = "QUEUE", .is_flexible = true},
    {.title = "WHY", .is_flexible = true, .least = CELLS_WHY_LEAST},
    {.title = "TRIES", .is_number = true},
    {.title = "LABELS", .is_flexible = true},
    {.title = "REQUEST", .is_flexible = true},
};

static void add_task(struct table *rows, const json_t *task)
{
    table_add(rows, client_text(task, "id"));
    cells_add_age(rows, client_text(task, "created_at"));
    table_add(rows, client_text(task, "queue"));
    cells_add_error(rows, task);
    cells_add_tries(rows, task);
    cells_add_labels(rows, task);
    cells_add_request(rows, task);
}

static const struct listing_form listing = {
    .form = &form,
    .path = "/v1/unsettled",
    .member = "unsettled",
    .none = "nothing is unsettled",
    .columns = columns,
    .column_count = sizeof columns / sizeof *columns,
    .add = add_task,
};

int cli_unsettled(int argc, char **argv)
{
    struct listing_flags flags = {0};
    int exit_code;

    if (argc > 1 && strcmp(argv[1], "settle") == 0) {
        return cli_settle(argc - 1, argv + 1);
    }
    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    return explain_finish(&form, listing_show(&listing, &flags));
}
