/* SPDX-License-Identifier: MIT
 *
 * cli_dead_redrive -- `daruma dead redrive`: one dead letter goes out again, changed if need be; or
 * every one that a filter matches, at a rate, behind live traffic, with progress until all of them are
 * on their way. The server goes on by itself when this program is ended.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/fault.h"
#include "cli/enqueue_request.h"
#include "cli/effect.h"
#include "cli/explain.h"
#include "cli/follow.h"
#include "cli/listing.h"
#include "edge/writer.h"
#include "engine/engine.h"
#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>

#define PATH_BYTES     128
#define BODY_BYTES_MAX 4096
#define RATE_LEN_MAX   16

struct redrive_flags {
    struct listing_flags filter; /* its is_all is --all */
    const char *task;
    struct enqueue_request edit;
    const char *rate; /* as it was written */
    int64_t wait_ms;  /* negative: not given */
    bool is_dry, is_left;
};

/* --- flags ---------------------------------------------------------------------------------------- */

static bool take_task(void *user, const char *value)
{
    return flags_task(value, &((struct redrive_flags *)user)->task);
}

static bool take_target(void *user, const char *value)
{
    ((struct redrive_flags *)user)->edit.target = value;
    return value[0] != '\0';
}

static bool take_header(void *user, const char *value)
{
    return header_flags_take(&((struct redrive_flags *)user)->edit.headers, value);
}

static bool take_data(void *user, const char *value)
{
    struct enqueue_request *edit = &((struct redrive_flags *)user)->edit;

    edit->body = value;
    return edit->json == NULL;
}

static bool take_json_data(void *user, const char *value)
{
    struct enqueue_request *edit = &((struct redrive_flags *)user)->edit;

    edit->json = value;
    return edit->body == NULL;
}

/* Digits with a point between some of them, and not all of them 0. */
static bool take_rate(void *user, const char *value)
{
    size_t digits = strspn(value, "0123456789"), rest = 0;

    ((struct redrive_flags *)user)->rate = value;
    if (value[digits] == '.') {
        rest = strspn(value + digits + 1, "0123456789");
        rest = rest > 0 ? rest + 1 : 0;
    }
    bool is_number = digits > 0 && value[digits + rest] == '\0' && strlen(value) <= RATE_LEN_MAX &&
                     (value[0] != '0' || digits == 1);
    return is_number && strpbrk(value, "123456789") != NULL;
}

static bool take_dry_run(void *user, const char *value)
{
    (void)value;
    ((struct redrive_flags *)user)->is_dry = true;
    return true;
}

static bool take_no_wait(void *user, const char *value)
{
    (void)value;
    ((struct redrive_flags *)user)->is_left = true;
    return true;
}

static bool take_wait(void *user, const char *value)
{
    return flags_duration(value, &((struct redrive_flags *)user)->wait_ms);
}

#define CLASSES     "transient, rate_limited, quota, auth, invalid, gone, expired"
#define EXPECT_DATA "TEXT, @FILE or - (standard input), and only one of --data and --json-data"

static const struct flag table[] = {
    {"--target", "URL", take_target, "an http or https URL", "one: sends it there instead",
     "target", true},
    {"--header", HEADER_FLAGS_VALUE, take_header, HEADER_FLAGS_EXPECTED,
     "one: with these headers instead; may be repeated", "headers", true},
    {"--data", "DATA", take_data, EXPECT_DATA, "one: with this body instead", "body", true},
    {"--json-data", "DATA", take_json_data, EXPECT_DATA, "the same as JSON: checked", "json", true},
    {"--wait", "D", take_wait, FLAGS_DURATION, "one: stays until it is settled, or so long", NULL,
     false},
    {"--all", NULL, listing_take_all, NULL, "every dead letter that has failed and …", NULL, false},
    {"--queue", "Q", listing_take_queue, LISTING_QUEUE, "all: … is of this queue", "filter.queue",
     false},
    {"--class", "C", listing_take_class, "one of " CLASSES, "all: … failed so", "filter.class",
     false},
    {"--since", "T", listing_take_since, LISTING_MOMENT, "all: … failed since then", "filter.since",
     false},
    {"--until", "T", listing_take_until, LISTING_MOMENT, "all: … failed until then", "filter.until",
     false},
    {"--rate", "N", take_rate, "a number above 0 such as 50 or 0.5", "all: so many a second (50)",
     "rate_per_second", false},
    {"--dry-run", NULL, take_dry_run, NULL, "all: says how many, and sends none", NULL, false},
    {"--no-wait", NULL, take_no_wait, NULL, "all: ends when it has begun", NULL, false},
};

static const struct flags_form form = {
    .command = "dead redrive",
    .operands = "ID|--all",
    .purpose = "Sends a dead letter again with fresh attempts, or every one that matches, behind\n"
               "live traffic.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .take_operand = take_task,
    .operand_expected = "one ID, as 'daruma dead list' shows it",
};

static const char unsure[] = "it may have begun: 'daruma dead list' and 'daruma audit' show it";

/* --- one --------------------------------------------------------------------------------------------- */

static bool is_edited(const struct redrive_flags *flags)
{
    const struct enqueue_request *edit = &flags->edit;

    return edit->target != NULL || edit->body != NULL || edit->json != NULL ||
           edit->headers.count + edit->headers.file_count > 0;
}

static int report_one(struct client *client, const struct redrive_flags *flags,
                      struct client_answer *answer)
{
    const struct screen out = screen_of(stdout);

    if (flags->wait_ms >= 0) {
        int exit_code = follow_until_settled(client, flags->task, flags->wait_ms, answer);
        return exit_code == CLI_DONE ? follow_report(&flags->filter.common, answer) : exit_code;
    }
    if (flags->filter.common.is_json) {
        screen_put_json(buf_span(&answer->text));
        return CLI_DONE;
    }
    printf("%s ", flags->task);
    (void)screen_put(&out, client_text(answer->document, "status"), SCREEN_UNCUT);
    printf("\n");
    return CLI_DONE;
}

static int redrive_one(struct client *client, struct redrive_flags *flags)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    AUTO(buf_done) struct buf body;
    char path[PATH_BYTES];
    struct error err = {0};

    buf_init(&body, 0);
    int failed = header_flags_read(&flags->edit.headers, &err);
    if (failed == 0 && is_edited(flags)) {
        failed = enqueue_request_write(&flags->edit, &body, &err);
    }
    if (failed != 0) {
        flags_complain(&form, "%s%s%s", err.field, err.field[0] != '\0' ? ": " : "", err.text);
        return err.fault == FAULT_INPUT ? CLI_USAGE : CLI_FAILED;
    }
    (void)snprintf(path, sizeof path, "/v1/dead-letters/%s:redrive", flags->task); /* fits */
    int exit_code = client_ask(
        client,
        &(struct client_request){
            .method = "POST", .path = span_of(path), .body = buf_span(&body), .unsure = unsure},
        &answer);
    return exit_code == CLI_DONE ? report_one(client, flags, &answer) : exit_code;
}

/* --- many -------------------------------------------------------------------------------------------- */

static int write_filter(const struct redrive_flags *flags, struct buf *body)
{
    const struct listing_flags *filter = &flags->filter;
    struct writer writer = {.out = body};

    write_open(&writer, '{');
    write_name(&writer, "filter");
    write_open(&writer, '{');
    if (filter->queue != NULL) {
        write_named_text(&writer, "queue", span_of(filter->queue));
    }
    if (filter->class != NULL) {
        write_named_text(&writer, "class", span_of(filter->class));
    }
    if (filter->since_ms != 0) {
        write_named_time(&writer, "since", filter->since_ms);
    }
    if (filter->until_ms != 0) {
        write_named_time(&writer, "until", filter->until_ms);
    }
    write_close(&writer, '}');
    if (flags->rate != NULL) {
        write_name(&writer, "rate_per_second");
        write_json(&writer, span_of(flags->rate));
    }
    write_name(&writer, "dry_run");
    write_bool(&writer, flags->is_dry);
    write_close(&writer, '}');
    return writer.failed;
}

/* One line that is written over and over. */
static void show_progress(const struct screen *errors, const json_t *redrive)
{
    if (errors->has_colour) {
        fprintf(stderr, "\r\033[Kredriven %" PRId64 " of %" PRId64,
                client_number(redrive, "redriven"), client_number(redrive, "matched"));
        (void)fflush(stderr);
    }
}

static void clear_progress(const struct screen *errors)
{
    if (errors->has_colour) {
        fprintf(stderr, "\r\033[K");
        (void)fflush(stderr);
    }
}

static bool is_under_way(const json_t *redrive)
{
    struct span state = client_text(redrive, "state");

    return span_is(state, "running") || span_is(state, "counting");
}

static int watch(struct client *client, int64_t number, struct client_answer *answer)
{
    const struct screen errors = screen_of(stderr);
    char path[PATH_BYTES];
    int64_t pace_ms = 0;
    int exit_code;

    (void)snprintf(path, sizeof path, "/v1/redrives/%" PRId64, number); /* fits */
    if (errors.width > 0) {
        fprintf(stderr,
                "redrive %" PRId64 " has begun; 'daruma dead cancel %" PRId64 "' stops it\n",
                number, number);
    }
    for (;;) {
        exit_code = client_ask_patiently(
            client, &(struct client_request){.method = "GET", .path = span_of(path)}, answer);
        if (exit_code != CLI_DONE || !is_under_way(answer->document)) {
            break;
        }
        show_progress(&errors, answer->document);
        client_pace(&pace_ms);
    }
    clear_progress(&errors);
    return exit_code;
}

static int report_many(const struct redrive_flags *flags, const struct client_answer *answer)
{
    const struct screen out = screen_of(stdout);
    const json_t *redrive = answer->document;
    struct span state = client_text(redrive, "state");

    if (flags->filter.common.is_json) {
        screen_put_json(buf_span(&answer->text));
        return span_is(state, "cancelled") ? CLI_FAILED : CLI_DONE;
    }
    if (!flags->is_dry) {
        printf("redrive ");
        (void)screen_put(&out, client_text(redrive, "redrive"), SCREEN_UNCUT);
        printf("%s", state.len > 0 ? " " : "");
        (void)screen_put(&out, state, SCREEN_UNCUT);
        printf(": ");
    }
    if (flags->is_dry || flags->is_left) {
        printf("matched %" PRId64 "\n", client_number(redrive, "matched"));
    } else {
        printf("redriven %" PRId64 ", skipped %" PRId64 " of %" PRId64 "\n",
               client_number(redrive, "redriven"), client_number(redrive, "skipped"),
               client_number(redrive, "matched"));
    }
    return span_is(state, "cancelled") ? CLI_FAILED : CLI_DONE;
}

static int redrive_many(struct client *client, const struct redrive_flags *flags)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    AUTO(buf_done) struct buf body;
    int64_t number = 0;

    buf_init(&body, BODY_BYTES_MAX);
    int failed = write_filter(flags, &body);
    if (failed != 0) {
        return explain_fault(&form, failed);
    }
    int exit_code = client_ask(client,
                               &(struct client_request){.method = "POST",
                                                        .path = SPAN("/v1/dead-letters:redrive"),
                                                        .body = buf_span(&body),
                                                        .wait_ms = ENGINE_WAIT_MAX_MS,
                                                        .unsure = unsure},
                               &answer);
    if (exit_code == CLI_DONE && !flags->is_dry && !flags->is_left) {
        exit_code = span_to_int(client_text(answer.document, "redrive"), &number)
                        ? watch(client, number, &answer)
                        : explain_stranger(&form, &flags->filter.common, &answer);
    }
    return exit_code == CLI_DONE ? report_many(flags, &answer) : exit_code;
}

/* --- the command -------------------------------------------------------------------------------------- */

static bool has_filter(const struct redrive_flags *flags)
{
    const struct listing_flags *filter = &flags->filter;

    return filter->queue != NULL || filter->class != NULL || filter->since_ms != 0 ||
           filter->until_ms != 0 || flags->rate != NULL || flags->is_dry || flags->is_left;
}

/* NULL: they go together. */
static const char *refuse(const struct redrive_flags *flags)
{
    if ((flags->task != NULL) == flags->filter.is_all) {
        return flags->task != NULL ? "both given, expected one of ID and --all"
                                   : "neither given, expected one of ID and --all";
    }
    if (flags->task != NULL && has_filter(flags)) {
        return "a filter, --rate, --dry-run and --no-wait are expected only with --all";
    }
    return flags->task == NULL && (is_edited(flags) || flags->wait_ms >= 0)
               ? "what changes the request, and --wait, are expected only with an ID"
               : NULL;
}

static int redrive(struct redrive_flags *flags)
{
    AUTO(client_close_p) struct client *client = NULL;
    const char *wrong = refuse(flags);

    if (wrong != NULL) {
        flags_complain(&form, "%s", wrong);
        return CLI_USAGE;
    }
    effect_begin();
    int exit_code = client_open(&form, &flags->filter.common, &client);
    if (exit_code == CLI_DONE) {
        exit_code = flags->task != NULL ? redrive_one(client, flags) : redrive_many(client, flags);
    }
    return flags->is_dry ? explain_finish(&form, exit_code) : effect_finish(&form, exit_code);
}

int cli_dead_redrive(int argc, char **argv)
{
    struct redrive_flags flags = {.edit = {.delay_ms = -1, .deadline_ms = -1, .timeout_ms = -1},
                                  .wait_ms = -1};
    int exit_code;

    header_flags_init(&flags.edit.headers, NULL);
    if (flags_read(&form, argc, argv, &flags, &exit_code)) {
        exit_code = redrive(&flags);
    }
    header_flags_done(&flags.edit.headers);
    return exit_code;
}
