/* SPDX-License-Identifier: MIT
 *
 * cli_dead_show -- `daruma dead show ID`: one dead letter as a story: what was asked, each attempt,
 * why it failed, and what people did about it.
 */
#include "cli/cli.h"

#include "cli/explain.h"
#include "cli/story.h"
#include "cli/why.h"

#include <stdio.h>

#define PATH_BYTES 128

struct show_flags {
    struct flags common;
    const char *task;
};

static bool take_task(void *user, const char *value)
{
    return flags_task(value, &((struct show_flags *)user)->task);
}

static const struct flags_form form = {
    .command = "dead show",
    .operands = "ID",
    .purpose = "Tells one dead letter's story: its request, each attempt, why it failed.\n",
    .take_operand = take_task,
    .operand_expected = "one ID, as 'daruma dead list' shows it",
};

static void put_head(const struct screen *screen, const json_t *letter)
{
    (void)screen_put_coloured(screen, SCREEN_BOLD, client_text(letter, "id"), SCREEN_UNCUT);
    fprintf(screen->out, "\n");
    story_line(screen, "queue", client_text(letter, "queue"));
    story_line(screen, "key", client_text(letter, "key"));
    story_labels(screen, json_object_get(letter, "labels"));
    story_line(screen, "created", client_text(letter, "created_at"));
    story_tries(screen, letter);
    story_letter(screen, letter);
}

static void put_letter(const struct screen *screen, const json_t *letter,
                       enum destination otherwise)
{
    put_head(screen, letter);
    story_label(screen, "error");
    why_put(screen, letter);
    fprintf(screen->out, "\n");
    story_request(screen, json_object_get(letter, "request"), otherwise);
    story_body(screen, letter, "payload", "payload_base64");
    story_edit(screen, json_object_get(letter, "edit"));
    story_trail(screen, json_object_get(letter, "trail"));
    story_answer(screen, letter);
}

static int show(const struct show_flags *flags)
{
    AUTO(client_close_p) struct client *client = NULL;
    AUTO(client_answer_done) struct client_answer answer = {0};
    const struct screen screen = screen_of(stdout);
    char path[PATH_BYTES];
    int exit_code = client_open(&form, &flags->common, &client);

    if (exit_code != CLI_DONE) {
        return exit_code;
    }
    (void)snprintf(path, sizeof path, "/v1/dead-letters/%s", flags->task); /* fits: a valid id */
    exit_code = client_ask(client, &(struct client_request){.method = "GET", .path = span_of(path)},
                           &answer);
    if (exit_code == CLI_DONE && flags->common.is_json) {
        screen_put_json(buf_span(&answer.text));
    } else if (exit_code == CLI_DONE) {
        put_letter(&screen, answer.document, destination_otherwise(client, answer.document));
    }
    return exit_code;
}

int cli_dead_show(int argc, char **argv)
{
    struct show_flags flags = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if (flags.task == NULL) {
        flags_complain(&form, "no ID given, expected daruma dead show ID [FLAGS]");
        return CLI_USAGE;
    }
    return explain_finish(&form, show(&flags));
}
