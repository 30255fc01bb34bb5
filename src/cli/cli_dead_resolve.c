/* SPDX-License-Identifier: MIT
 *
 * cli_dead_resolve -- `daruma dead resolve ID --note TEXT`: closes a dead letter without sending it,
 * with a reason: somebody will ask one day. `daruma dead cancel REDRIVE` stops a redrive of many.
 */
#include "cli/cli.h"

#include "base/fault.h"
#include "cli/client.h"
#include "cli/effect.h"
#include "cli/explain.h"
#include "cli/screen.h"
#include "edge/writer.h"

#include <inttypes.h>
#include <stdio.h>

#define PATH_BYTES     128
#define NOTE_BYTES_MAX 4096

struct act_flags {
    struct flags common;
    const char *task, *note;
    int64_t redrive;
};

static bool take_task(void *user, const char *value)
{
    return flags_task(value, &((struct act_flags *)user)->task);
}

static bool take_redrive(void *user, const char *value)
{
    struct act_flags *flags = user;
    bool is_first = flags->redrive == 0;

    return span_to_int(span_of(value), &flags->redrive) && flags->redrive > 0 && is_first;
}

static bool take_note(void *user, const char *value)
{
    ((struct act_flags *)user)->note = value;
    return strlen(value) <= NOTE_BYTES_MAX && span_is_utf8(span_of(value));
}

static const struct flag table[] = {
    {"--note", "TEXT", take_note, "up to 4096 bytes of text", "why; it is kept", "note", false},
};

static const struct flags_form resolve_form = {
    .command = "dead resolve",
    .operands = "ID",
    .purpose = "Closes a dead letter without sending it.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .take_operand = take_task,
    .operand_expected = "one ID, as 'daruma dead list' shows it",
};

static const struct flags_form cancel_form = {
    .command = "dead cancel",
    .operands = "REDRIVE",
    .purpose = "Stops a redrive of many: what it has not sent on yet stays a dead letter.\n",
    .take_operand = take_redrive,
    .operand_expected = "one REDRIVE, the number that 'daruma dead redrive --all' gave it",
};

static const char unsure[] = "it may have been done: 'daruma dead list' shows it; doing it again "
                             "does no harm";

/* Asks, and prints the document; what else there is to say is the caller's. */
static int ask(const struct flags_form *form, const struct act_flags *flags, const char *path,
               struct span body, struct client_answer *answer)
{
    AUTO(client_close_p) struct client *client = NULL;
    int exit_code = client_open(form, &flags->common, &client);

    if (exit_code == CLI_DONE) {
        exit_code =
            client_ask(client,
                       &(struct client_request){
                           .method = "POST", .path = span_of(path), .body = body, .unsure = unsure},
                       answer);
    }
    if (exit_code == CLI_DONE && flags->common.is_json) {
        screen_put_json(buf_span(&answer->text));
    }
    return exit_code;
}

static int resolve(const struct act_flags *flags)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    AUTO(buf_done) struct buf body;
    struct writer writer = {.out = &body};
    char path[PATH_BYTES];

    buf_init(&body, 8 * NOTE_BYTES_MAX);
    write_open(&writer, '{');
    if (flags->note != NULL) {
        write_named_text(&writer, "note", span_of(flags->note));
    }
    write_close(&writer, '}');
    if (writer.failed != 0) {
        return explain_fault(&resolve_form, writer.failed);
    }
    (void)snprintf(path, sizeof path, "/v1/dead-letters/%s:resolve", flags->task); /* fits */
    int exit_code = ask(&resolve_form, flags, path, buf_span(&body), &answer);
    if (exit_code == CLI_DONE && !flags->common.is_json) {
        printf("%s resolved\n", flags->task);
    }
    return exit_code;
}

int cli_dead_resolve(int argc, char **argv)
{
    struct act_flags flags = {0};
    int exit_code;

    if (!flags_read(&resolve_form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if (flags.task == NULL) {
        flags_complain(&resolve_form, "no ID given, expected daruma dead resolve ID [FLAGS]");
        return CLI_USAGE;
    }
    effect_begin();
    return effect_finish(&resolve_form, resolve(&flags));
}

int cli_dead_cancel(int argc, char **argv)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    struct act_flags flags = {0};
    char path[PATH_BYTES];
    int exit_code;

    if (!flags_read(&cancel_form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if (flags.redrive == 0) {
        flags_complain(&cancel_form, "no REDRIVE given, expected daruma dead cancel REDRIVE");
        return CLI_USAGE;
    }
    effect_begin();
    (void)snprintf(path, sizeof path, "/v1/redrives/%" PRId64 ":cancel", flags.redrive); /* fits */
    exit_code = ask(&cancel_form, &flags, path, SPAN(""), &answer);
    if (exit_code == CLI_DONE && !flags.common.is_json) {
        const struct screen out = screen_of(stdout);
        printf("redrive %" PRId64 " ", flags.redrive);
        (void)screen_put(&out, client_text(answer.document, "state"), SCREEN_UNCUT);
        printf(": redriven %" PRId64 " of %" PRId64 "\n",
               client_number(answer.document, "redriven"),
               client_number(answer.document, "matched"));
    }
    return effect_finish(&cancel_form, exit_code);
}
