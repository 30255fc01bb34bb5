/* SPDX-License-Identifier: MIT
 *
 * cli_show -- `daruma show ID`: one task as a story: what was asked, how it stands, each attempt with
 * what came of it and how long was waited afterwards, and the answer. Bodies are cut for people;
 * --json has them whole.
 */
#include "cli/cli.h"

#include "cli/explain.h"
#include "cli/screen.h"

#include <daruma/retry_after.h>

#include <inttypes.h>
#include <stdio.h>

#define PATH_MAX_BYTES 128
#define LABEL_WIDTH    10
#define BODY_LINES_MAX 20
#define BODY_BYTES_MAX 4096
#define BASE64_BYTES   4 /* letters of base64 for */
#define BASE64_DECODED 3 /* bytes */

struct show_flags {
    struct flags common;
    const char *task;
};

static bool take_task(void *user, const char *value)
{
    return flags_task(value, &((struct show_flags *)user)->task);
}

static const struct flags_form form = {
    .command = "show",
    .operands = "ID",
    .purpose = "Tells one task's story: its request, its state, each attempt, its answer.\n",
    .take_operand = take_task,
    .operand_expected = "one ID of a task, such as 0198c0de-0000-7000-8000-000000000000",
};

/* --- lines ---------------------------------------------------------------------------------------- */

static void put(const struct screen *screen, struct span text)
{
    (void)screen_put(screen, text, SCREEN_UNCUT);
}

/* What the next line is about; "" goes on with the last. */
static void put_label(const struct screen *screen, const char *label)
{
    (void)screen_put_coloured(screen, SCREEN_BOLD, span_of(label), SCREEN_UNCUT);
    fprintf(screen->out, "%*s", LABEL_WIDTH - (int)strlen(label), "");
}

/* Nothing without a text. */
static void put_line(const struct screen *screen, const char *label, struct span text)
{
    if (text.len > 0) {
        put_label(screen, label);
        put(screen, text);
        fprintf(screen->out, "\n");
    }
}

static void put_headers(const struct screen *screen, json_t *headers)
{
    const char *name;
    json_t *value;

    json_object_foreach(headers, name, value)
    {
        put_label(screen, "");
        put(screen, span_of(name));
        put(screen, SPAN(": "));
        put(screen, span_of(json_string_value(value)));
        fprintf(screen->out, "\n");
    }
}

static void put_text_body(const struct screen *screen, struct span body)
{
    struct span rest = span_until(body, BODY_BYTES_MAX), line;
    bool has_more = true;

    for (size_t i = 0; has_more && i < BODY_LINES_MAX; i++) {
        has_more = span_cut(&rest, '\n', &line);
        put_label(screen, "");
        put(screen, line);
        fprintf(screen->out, "\n");
        has_more = has_more && rest.len > 0;
    }
    if (has_more || body.len > BODY_BYTES_MAX) {
        put_label(screen, "");
        fprintf(screen->out, "… %zu bytes in all: --json shows them\n", body.len);
    }
}

/* Text, or what stands in its place when it is none. */
static void put_bytes(const struct screen *screen, struct span body, struct span coded)
{
    if (body.len > 0) {
        put_text_body(screen, body);
    } else if (coded.len > 0) {
        put_label(screen, "");
        fprintf(screen->out, "%zu bytes that are not text: --json shows them\n",
                coded.len / BASE64_BYTES * BASE64_DECODED);
    }
}

static void put_body(const struct screen *screen, const json_t *holder)
{
    put_bytes(screen, client_text(holder, "body"), client_text(holder, "body_base64"));
}

/* --- the parts ------------------------------------------------------------------------------------ */

static void put_head(const struct screen *screen, const json_t *task)
{
    struct span state = client_text(task, "state");

    (void)screen_put_coloured(screen, SCREEN_BOLD, client_text(task, "id"), SCREEN_UNCUT);
    put(screen, SPAN("  "));
    (void)screen_put_coloured(screen, screen_state_colour(state), state, SCREEN_UNCUT);
    fprintf(screen->out, "\n");
    put_line(screen, "queue", client_text(task, "queue"));
    put_line(screen, "key", client_text(task, "key"));
}

static void put_labels(const struct screen *screen, const json_t *task)
{
    json_t *labels = json_object_get(task, "labels"), *value;
    const char *name, *label = "labels";

    json_object_foreach(labels, name, value)
    {
        put_label(screen, label);
        put(screen, span_of(name));
        put(screen, SPAN("="));
        put(screen, span_of(json_string_value(value)));
        fprintf(screen->out, "\n");
        label = "";
    }
}

static void put_times(const struct screen *screen, const json_t *task)
{
    int64_t most = client_number(task, "max_attempts");
    bool is_waiting = span_is(client_text(task, "state"), "waiting");

    put_line(screen, "created", client_text(task, "created_at"));
    if (is_waiting) {
        put_line(screen, "due", client_text(task, "due_at"));
    }
    put_label(screen, "tries");
    fprintf(screen->out, "%" PRId64, client_number(task, "attempts"));
    if (most > 0) {
        fprintf(screen->out, " of %" PRId64, most);
    }
    fprintf(screen->out, "\n");
}

static void put_request(const struct screen *screen, const json_t *task)
{
    const json_t *request = json_object_get(task, "request");
    struct span target = client_text(request, "target");

    put_label(screen, "request");
    put(screen, client_text(request, "method"));
    put(screen, SPAN(" "));
    put(screen, target.len > 0 ? target : SPAN("(the queue's target)"));
    fprintf(screen->out, "\n");
    put_headers(screen, json_object_get(request, "headers"));
    put_body(screen, request);
}

static void put_response(const struct screen *screen, const json_t *task)
{
    const json_t *response = json_object_get(task, "response");
    struct span settled_by = client_text(task, "settled_by");

    if (!json_is_object(response)) {
        return;
    }
    put_label(screen, "answer");
    fprintf(screen->out, "%" PRId64, client_number(response, "status"));
    if (settled_by.len > 0) {
        put(screen, SPAN(" from "));
        put(screen, settled_by);
    }
    fprintf(screen->out, "\n");
    put_headers(screen, json_object_get(response, "headers"));
    put_body(screen, response);
}

/* --- the dead letter ------------------------------------------------------------------------------ */

/* Only what has failed can be one: the others are not asked about. */
static bool has_failure(const json_t *task)
{
    const json_t *trail = json_object_get(task, "trail");

    for (size_t i = 0; i < json_array_size(trail); i++) {
        if (client_text(json_array_get(trail, i), "class").len > 0) {
            return true;
        }
    }
    return false;
}

static void put_letter(const struct screen *screen, const json_t *letter)
{
    struct span status = client_text(letter, "status");
    bool is_failed = span_is(status, "failed"), is_resolved = span_is(status, "resolved");

    if (status.len == 0) {
        return;
    }
    put_label(screen, "letter");
    (void)screen_put_coloured(screen,
                              is_failed     ? SCREEN_RED
                              : is_resolved ? SCREEN_GREEN
                                            : SCREEN_CYAN,
                              status, SCREEN_UNCUT);
    put(screen, SPAN(" "));
    put(screen, client_text(letter, is_resolved ? "resolved_at" : "failed_at"));
    if (is_failed) {
        put(screen, json_is_true(json_object_get(letter, "retryable"))
                        ? SPAN(", may work when it is sent again as it is")
                        : SPAN(", would fail again as it is"));
    } else if (!is_resolved) {
        put(screen, SPAN(", and was sent again"));
    }
    fprintf(screen->out, "\n");
    put_line(screen, "note", client_text(letter, "note"));
}

/* What a person has changed of the request; nothing without. */
static void put_edit(const struct screen *screen, const json_t *letter)
{
    const json_t *edit = json_object_get(letter, "edit");
    struct span target = client_text(edit, "target");

    if (!json_is_object(edit)) {
        return;
    }
    put_line(screen, "edited", target.len > 0 ? target : SPAN("(the request's target)"));
    put_headers(screen, json_object_get(edit, "headers"));
    put_bytes(screen, client_text(edit, "payload"), client_text(edit, "payload_base64"));
}

/* --- the trail ------------------------------------------------------------------------------------ */

static void put_lasted(const struct screen *screen, const json_t *attempt)
{
    struct span from = client_text(attempt, "started_at"), until = client_text(attempt, "ended_at");
    int64_t from_ms, until_ms;
    char text[SCREEN_DURATION_MAX];

    if (daruma_rfc3339_parse(from.at, from.len, &from_ms) &&
        daruma_rfc3339_parse(until.at, until.len, &until_ms)) {
        screen_duration(until_ms - from_ms, text);
        fprintf(screen->out, " in %s", text);
    }
}

/* What came of it, in a few words: "transient 503". */
static void put_outcome(const struct screen *screen, const json_t *attempt)
{
    struct span class = client_text(attempt, "class");
    int64_t status = client_number(attempt, "status");

    (void)screen_put_coloured(screen, class.len > 0 ? SCREEN_RED : SCREEN_GREEN,
                              class.len > 0 ? class : SPAN("succeeded"), SCREEN_UNCUT);
    if (status != 0) {
        fprintf(screen->out, " %" PRId64, status);
    }
    put_lasted(screen, attempt);
}

static void put_sent(const struct screen *screen, const json_t *attempt)
{
    struct span sent = client_text(attempt, "sent");
    int64_t sends = client_number(attempt, "sends");

    if (span_is(sent, "no")) {
        put(screen, SPAN(", not sent"));
    } else if (span_is(sent, "maybe")) {
        put(screen, SPAN(", maybe sent"));
    } else if (span_is(sent, "yes")) {
        put(screen, SPAN(", sent"));
    }
    if (sends > 1) {
        fprintf(screen->out, " %" PRId64 " times", sends);
    }
}

static void put_attempt(const struct screen *screen, const json_t *attempt, const char *label)
{
    struct span target = client_text(attempt, "target"), said = client_text(attempt, "message");
    int64_t wait_ms = client_number(attempt, "wait_ms");
    char wait[SCREEN_DURATION_MAX];

    put_label(screen, label);
    fprintf(screen->out, "%" PRId64 ". ", client_number(attempt, "attempt"));
    put(screen, client_text(attempt, "started_at"));
    put(screen, SPAN("  "));
    put_outcome(screen, attempt);
    put_sent(screen, attempt);
    if (target.len > 0) {
        put(screen, SPAN(", to "));
        put(screen, target);
    }
    fprintf(screen->out, "\n");
    if (said.len > 0) {
        put_label(screen, "");
        put(screen, SPAN("   "));
        put(screen, said);
        fprintf(screen->out, "\n");
    }
    if (wait_ms > 0) {
        screen_duration(wait_ms, wait);
        put_label(screen, "");
        fprintf(screen->out, "   then a wait of %s\n", wait);
    }
}

/* `letter` is NULL for what never failed for good. */
static void put_task(const struct screen *screen, const json_t *task, const json_t *letter)
{
    const json_t *trail = json_object_get(task, "trail");

    put_head(screen, task);
    put_labels(screen, task);
    put_times(screen, task);
    put_letter(screen, letter);
    put_request(screen, task);
    put_edit(screen, letter);
    for (size_t i = 0; i < json_array_size(trail); i++) {
        put_attempt(screen, json_array_get(trail, i), i == 0 ? "attempts" : "");
    }
    put_response(screen, task);
}

/* --- the command ---------------------------------------------------------------------------------- */

static int show(struct client *client, const struct show_flags *flags)
{
    const struct screen screen = screen_of(stdout);
    AUTO(client_answer_done) struct client_answer answer = {0}, letter = {0};
    char path[PATH_MAX_BYTES];

    (void)snprintf(path, sizeof path, "/v1/tasks/%s", flags->task); /* fits: a valid id */
    int exit_code = client_ask(
        client, &(struct client_request){.method = "GET", .path = span_of(path)}, &answer);
    if (exit_code != CLI_DONE) {
        return exit_code;
    }
    if (flags->common.is_json) {
        screen_put_json(buf_span(&answer.text));
        return CLI_DONE;
    }
    (void)snprintf(path, sizeof path, "/v1/dead-letters/%s", flags->task); /* fits */
    bool is_letter =
        has_failure(answer.document) &&
        client_look(client, &(struct client_request){.method = "GET", .path = span_of(path)},
                    &letter); /* a token may be allowed the one and not the other */
    put_task(&screen, answer.document, is_letter ? letter.document : NULL);
    return CLI_DONE;
}

int cli_show(int argc, char **argv)
{
    AUTO(client_close_p) struct client *client = NULL;
    struct show_flags flags = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if (flags.task == NULL) {
        flags_complain(&form, "no ID given, expected daruma show ID [FLAGS]");
        return CLI_USAGE;
    }
    exit_code = client_open(&form, &flags.common, &client);
    if (exit_code == CLI_DONE) {
        exit_code = show(client, &flags);
    }
    return explain_finish(&form, exit_code);
}
