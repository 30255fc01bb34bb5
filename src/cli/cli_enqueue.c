/* SPDX-License-Identifier: MIT
 *
 * cli_enqueue -- `daruma enqueue QUEUE`: records a task and prints its id and state; with --wait
 * stays until something has become of it.
 */
#include "cli/cli.h"

#include "base/fault.h"
#include "cli/destination.h"
#include "cli/effect.h"
#include "cli/enqueue_request.h"
#include "cli/explain.h"
#include "cli/follow.h"
#include "cli/screen.h"
#include "task/fields.h"
#include "task/task.h"

#include <stdio.h>

#define PATH_MAX_BYTES 256

struct enqueue_flags {
    struct flags common;
    const char *queue;
    struct enqueue_request request;
    int64_t wait_ms; /* negative: not given */
};

/* --- flags -------------------------------------------------------------------------------------- */

static bool take_queue(void *user, const char *value)
{
    return flags_queue(value, &((struct enqueue_flags *)user)->queue);
}

static bool take_target(void *user, const char *value)
{
    ((struct enqueue_flags *)user)->request.target = value;
    return value[0] != '\0';
}

static bool take_method(void *user, const char *value)
{
    ((struct enqueue_flags *)user)->request.method = value;
    return fields_name_is_token(span_of(value));
}

static bool take_header(void *user, const char *value)
{
    return header_flags_take(&((struct enqueue_flags *)user)->request.headers, value);
}

static bool take_label(void *user, const char *value)
{
    struct enqueue_request *request = &((struct enqueue_flags *)user)->request;
    struct enqueue_pair pair;

    if (request->label_count == ENQUEUE_LABELS_MAX ||
        !flags_pair(value, '=', &pair.name, &pair.value)) {
        return false;
    }
    for (size_t i = 0; i < request->label_count; i++) {
        if (span_equal(request->labels[i].name, pair.name)) {
            return false;
        }
    }
    request->labels[request->label_count++] = pair;
    return true;
}

static bool take_data(void *user, const char *value)
{
    struct enqueue_request *request = &((struct enqueue_flags *)user)->request;

    request->body = value;
    return request->json == NULL;
}

static bool take_json_data(void *user, const char *value)
{
    struct enqueue_request *request = &((struct enqueue_flags *)user)->request;

    request->json = value;
    return request->body == NULL;
}

static bool take_key(void *user, const char *value)
{
    ((struct enqueue_flags *)user)->request.key = value;
    return task_key_is_valid(span_of(value));
}

static bool take_delay(void *user, const char *value)
{
    return flags_duration(value, &((struct enqueue_flags *)user)->request.delay_ms);
}

static bool take_deadline(void *user, const char *value)
{
    return flags_duration_above_zero(value, &((struct enqueue_flags *)user)->request.deadline_ms);
}

static bool take_timeout(void *user, const char *value)
{
    return flags_duration_above_zero(value, &((struct enqueue_flags *)user)->request.timeout_ms);
}

static bool take_wait(void *user, const char *value)
{
    return flags_duration(value, &((struct enqueue_flags *)user)->wait_ms);
}

#define EXPECT_DATA "TEXT, @FILE or - (standard input), and only one of --data and --json-data"

static const struct flag table[] = {
    {"--target", "URL", take_target, "an http or https URL",
     "where it goes (the queue's own target)", "target", true},
    {"--method", "M", take_method, "a method such as PUT", "POST unless given", "method", false},
    {"--header", HEADER_FLAGS_VALUE, take_header, HEADER_FLAGS_EXPECTED,
     "a header of the request, or a file of them; may be repeated", "headers", true},
    {"--data", "DATA", take_data, EXPECT_DATA, "the body: TEXT, @FILE or - for standard input",
     "body", true},
    {"--json-data", "DATA", take_json_data, EXPECT_DATA,
     "the same as JSON: checked, and sent as application/json", "json", true},
    {"--key", "K", take_key, "1 to 255 visible ASCII characters",
     "the same key and request again is the same task", "key", false},
    {"--delay", "D", take_delay, FLAGS_DURATION, "not before so long from now", "delay_ms", false},
    {"--deadline", "D", take_deadline, FLAGS_DURATION ", above zero",
     "no attempt later than that from now", "deadline_ms", false},
    {"--timeout", "D", take_timeout, FLAGS_DURATION ", above zero", "of one attempt", "timeout_ms",
     false},
    {"--label", "N=V", take_label, "up to 16 times NAME=VALUE, each name once",
     "shown everywhere, and can be asked for; may be repeated", "labels", false},
    {"--wait", "D", take_wait, FLAGS_DURATION,
     "stays until it is settled: exit status 0 succeeded, 1 not", NULL, false},
};

static const struct flags_form form = {
    .command = "enqueue",
    .operands = "QUEUE",
    .purpose = "Records a task: an HTTP request that is carried out, again and again if it must\n"
               "be, by the queue's rules. Prints its id and state.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .take_operand = take_queue,
    .operand_expected = "one QUEUE: letters, digits, - _ and .",
};

/* --- the flow ----------------------------------------------------------------------------------- */

/* Work for workers is not what most people mean who give no --target. */
static void tell_workers(struct client *client, const struct enqueue_flags *flags,
                         const json_t *task)
{
    bool waits = span_is(client_text(task, "state"), "waiting");

    if (flags->request.target != NULL || !waits ||
        destination_of(client, span_of(flags->queue)) != DESTINATION_WORKERS) {
        return;
    }
    (void)fflush(stdout); /* so that the two do not mix */
    fprintf(
        stderr,
        "  it waits for a worker: queue %s has no target and the task has none (--target URL)\n",
        flags->queue);
}

/* It is recorded, whatever becomes of the waiting: the id must not be lost. */
static int wait_settled(struct client *client, const struct enqueue_flags *flags,
                        struct span created, const char *id)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    const struct screen errors = screen_of(stderr);

    if (errors.width > 0) {
        fprintf(stderr, "recorded as %s, waiting for it to be settled\n", id);
    }
    int exit_code = follow_until_settled(client, id, flags->wait_ms, &answer);
    if (exit_code == CLI_DONE) {
        exit_code = follow_report(&flags->common, &answer);
        tell_workers(client, flags, answer.document);
        return exit_code;
    }
    fprintf(stderr, "  the task is recorded: 'daruma show %s' tells how it goes on\n", id);
    if (!flags->common.is_json) {
        printf("%s\n", id);
    } else if (exit_code == CLI_UNREACHABLE) { /* else the problem is the document */
        screen_put_json(created);
    }
    return exit_code;
}

static void print_created(const struct client_answer *answer)
{
    const struct screen out = screen_of(stdout);
    struct span state = client_text(answer->document, "state");

    (void)screen_put(&out, client_text(answer->document, "id"), SCREEN_UNCUT);
    printf(" ");
    (void)screen_put_coloured(&out, screen_state_colour(state), state, SCREEN_UNCUT);
    printf(answer->status == 200 ? " (recorded before)\n" : "\n");
}

static int send_task(struct client *client, const struct enqueue_flags *flags, struct span json)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    char path[PATH_MAX_BYTES], id[ID_TEXT_LEN + 1];
    struct task_id parsed;

    (void)snprintf(path, sizeof path, "/v1/queues/%s/tasks", flags->queue); /* fits: a valid name */
    int exit_code = client_ask(
        client,
        &(struct client_request){
            .method = "POST",
            .path = span_of(path),
            .body = json,
            .unsure = flags->request.key != NULL
                          ? "repeat the command: with the same key it is recorded once"
                          : "it may have been recorded: 'daruma tasks QUEUE' shows it; with a "
                            "--key it could be repeated without harm"},
        &answer);
    if (exit_code != CLI_DONE) {
        return exit_code;
    }
    struct span given = client_text(answer.document, "id");
    if (!id_parse(given, &parsed)) {
        return explain_stranger(&form, &flags->common, &answer);
    }
    id_format(parsed, id);
    if (flags->wait_ms >= 0) {
        return wait_settled(client, flags, buf_span(&answer.text), id);
    }
    if (flags->common.is_json) {
        screen_put_json(buf_span(&answer.text));
    } else {
        print_created(&answer);
    }
    tell_workers(client, flags, answer.document);
    return CLI_DONE;
}

static int enqueue(struct enqueue_flags *flags)
{
    AUTO(client_close_p) struct client *client = NULL;
    AUTO(buf_done) struct buf json = {0};
    struct error err = {0};

    int failed = header_flags_read(&flags->request.headers, &err);
    failed = failed != 0 ? failed : enqueue_request_write(&flags->request, &json, &err);
    if (failed != 0) {
        flags_complain(&form, "%s%s%s", err.field, err.field[0] != '\0' ? ": " : "", err.text);
        return failed == FAULT_INPUT ? CLI_USAGE : CLI_FAILED;
    }
    int exit_code = client_open(&form, &flags->common, &client);
    return exit_code == CLI_DONE ? send_task(client, flags, buf_span(&json)) : exit_code;
}

int cli_enqueue(int argc, char **argv)
{
    struct enqueue_flags flags = {.request = {.delay_ms = -1, .deadline_ms = -1, .timeout_ms = -1},
                                  .wait_ms = -1};
    int exit_code;

    header_flags_init(&flags.request.headers, NULL);
    if (flags_read(&form, argc, argv, &flags, &exit_code)) {
        if (flags.queue == NULL) {
            flags_complain(&form, "no QUEUE given, expected daruma enqueue QUEUE [FLAGS]");
            exit_code = CLI_USAGE;
        } else {
            effect_begin();
            exit_code = effect_finish(&form, enqueue(&flags));
        }
    }
    header_flags_done(&flags.request.headers);
    return exit_code;
}
