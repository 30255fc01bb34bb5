/* SPDX-License-Identifier: MIT
 *
 * cli_settle -- `daruma settle ID OUTCOME`: a person has found out what became of an unsettled task
 * and says so. It is written down who did, and why.
 */
#include "cli/cli.h"

#include "base/base64.h"
#include "base/fault.h"
#include "cli/client.h"
#include "cli/effect.h"
#include "cli/explain.h"
#include "cli/given.h"
#include "cli/screen.h"
#include "edge/writer.h"

#include <stdio.h>

#define PATH_BYTES     128
#define NOTE_BYTES_MAX 4096
#define ESCAPED_TIMES  6 /* a byte becomes at most \u0000 */
#define OUTCOMES       "succeeded, failed or not_done"

struct settle_flags {
    struct flags common;
    const char *task, *outcome, *note, *body;
    int64_t status; /* 0: not given */
};

/* --- flags ---------------------------------------------------------------------------------------- */

static bool take_word(void *user, const char *value)
{
    struct settle_flags *flags = user;

    if (flags->task == NULL) {
        return flags_task(value, &flags->task);
    }
    bool is_first = flags->outcome == NULL;
    flags->outcome = value;
    return is_first && (strcmp(value, "succeeded") == 0 || strcmp(value, "failed") == 0 ||
                        strcmp(value, "not_done") == 0);
}

static bool take_note(void *user, const char *value)
{
    ((struct settle_flags *)user)->note = value;
    return strlen(value) <= NOTE_BYTES_MAX && span_is_utf8(span_of(value));
}

static bool take_status(void *user, const char *value)
{
    struct settle_flags *flags = user;

    return span_to_int(span_of(value), &flags->status) && flags->status >= 100 &&
           flags->status <= 599;
}

static bool take_data(void *user, const char *value)
{
    ((struct settle_flags *)user)->body = value;
    return true;
}

static const struct flag table[] = {
    {"--note", "TEXT", take_note, "up to 4096 bytes of text", "how it was found out", "note",
     false},
    {"--status", "N", take_status, "a status from 100 to 599", "of the answer that would have come",
     "response.status", false},
    {"--data", "DATA", take_data, "TEXT, @FILE or - (standard input)", "the body of that answer",
     "response.body", true},
};

static const struct flags_form form = {
    .command = "settle",
    .operands = "ID OUTCOME",
    .purpose = "Says what became of an unsettled task: " OUTCOMES ",\n"
               "which sends it again.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .take_operand = take_word,
    .operand_expected = "the ID of a task and one of " OUTCOMES,
};

static const char unsure[] = "it may have been settled: 'daruma show ID' tells";

/* --- the flow --------------------------------------------------------------------------------------- */

static void write_response(struct writer *writer, const struct settle_flags *flags,
                           struct span body)
{
    write_name(writer, "response");
    write_open(writer, '{');
    write_named_int(writer, "status", flags->status);
    if (flags->body != NULL && span_is_utf8(body)) {
        write_named_text(writer, "body", body);
    } else if (flags->body != NULL) {
        write_name(writer, "body_base64");
        write_json(writer, SPAN("\""));
        writer->failed = writer->failed != 0 ? writer->failed : base64_encode(body, writer->out);
        writer->failed = writer->failed != 0 ? writer->failed : buf_add(writer->out, SPAN("\""));
    }
    write_close(writer, '}');
}

static int write_request(const struct settle_flags *flags, struct span body, struct buf *json)
{
    struct writer writer = {.out = json};

    write_open(&writer, '{');
    write_named_text(&writer, "outcome", span_of(flags->outcome));
    if (flags->status != 0) {
        write_response(&writer, flags, body);
    }
    if (flags->note != NULL) {
        write_named_text(&writer, "note", span_of(flags->note));
    }
    write_close(&writer, '}');
    return writer.failed;
}

static int ask(const struct settle_flags *flags, struct span json)
{
    AUTO(client_close_p) struct client *client = NULL;
    AUTO(client_answer_done) struct client_answer answer = {0};
    const struct screen out = screen_of(stdout);
    char path[PATH_BYTES];
    int exit_code = client_open(&form, &flags->common, &client);

    if (exit_code != CLI_DONE) {
        return exit_code;
    }
    (void)snprintf(path, sizeof path, "/v1/tasks/%s:settle", flags->task); /* fits: a valid id */
    exit_code =
        client_ask(client,
                   &(struct client_request){
                       .method = "POST", .path = span_of(path), .body = json, .unsure = unsure},
                   &answer);
    if (exit_code != CLI_DONE) {
        return exit_code;
    }
    if (flags->common.is_json) {
        screen_put_json(buf_span(&answer.text));
        return CLI_DONE;
    }
    struct span state = client_text(answer.document, "state");
    printf("%s ", flags->task);
    (void)screen_put_coloured(&out, screen_state_colour(state), state, SCREEN_UNCUT);
    printf("\n");
    return CLI_DONE;
}

static int settle(const struct settle_flags *flags)
{
    AUTO(buf_done) struct buf body, json;
    struct error err = {0};

    buf_init(&body, GIVEN_BYTES_MAX);
    buf_init(&json, 0);
    if (flags->body != NULL && given_read(flags->body, "--data", &body, &err) != 0) {
        flags_complain(&form, "%s: %s", err.field, err.text);
        return CLI_FAILED;
    }
    buf_init(&json, ESCAPED_TIMES * (body.len + 2 * NOTE_BYTES_MAX));
    int failed = write_request(flags, buf_span(&body), &json);
    return failed == 0 ? ask(flags, buf_span(&json)) : explain_fault(&form, failed);
}

int cli_settle(int argc, char **argv)
{
    struct settle_flags flags = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if (flags.outcome == NULL) {
        flags_complain(&form, "no %s given, expected %s", flags.task == NULL ? "ID" : "OUTCOME",
                       form.operand_expected);
        return CLI_USAGE;
    }
    if (flags.body != NULL && flags.status == 0) {
        flags_complain(&form, "--data: expected together with --status");
        return CLI_USAGE;
    }
    effect_begin();
    return effect_finish(&form, settle(&flags));
}
