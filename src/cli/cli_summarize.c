/* SPDX-License-Identifier: MIT
 *
 * cli_summarize -- `daruma summarize FILE…`: hands articles to a queue with AI providers and prints
 * the summaries as they come. Each article is on disk before the next one is read from the list, and
 * is summarised whether or not anybody stays to see it.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "cli/effect.h"
#include "cli/explain.h"
#include "cli/screen.h"
#include "cli/summarize_input.h"
#include "edge/writer.h"
#include "task/id.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SUMMARIZE_QUEUE     "articles"
#define SUMMARIZE_FILES_MAX 10000
#define PATH_MAX_BYTES      256
#define LOOK_AHEAD          64    /* articles that are asked about in one round */
#define LOOK_WAIT_MS        500   /* how long the first of them is waited for in it */
#define SHORT_WAIT_MS       10000 /* a next try that is nearer than this is waited for */
#define LINE_BYTES_MAX      (16u << 20)

struct summarize_flags {
    struct flags common;
    const char *queue;
    const char **files;
    size_t file_count;
    int64_t wait_ms; /* negative: not given */
    bool is_left;    /* --no-wait */
    bool is_anew;
};

/* What has come of all of them. */
struct tally {
    size_t recorded, summaries, later, failed;
};

struct summarize {
    struct client *client;
    const struct summarize_flags *flags;
    struct summarize_list list;
    struct tally tally;
    struct screen out, errors;
    int64_t until_ms; /* monotonic */
};

/* --- flags -------------------------------------------------------------------------------------- */

static bool take_file(void *user, const char *value)
{
    struct summarize_flags *flags = user;

    if (flags->file_count == SUMMARIZE_FILES_MAX || value[0] == '\0') {
        return false;
    }
    const char **grown = realloc(flags->files, (flags->file_count + 1) * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    flags->files = grown;
    flags->files[flags->file_count++] = value;
    return true;
}

static bool take_queue(void *user, const char *value)
{
    struct summarize_flags *flags = user;

    flags->queue = NULL; /* a flag replaces an earlier one */
    return flags_queue(value, &flags->queue);
}

static bool take_wait(void *user, const char *value)
{
    return flags_duration(value, &((struct summarize_flags *)user)->wait_ms);
}

static bool take_no_wait(void *user, const char *value)
{
    (void)value;
    ((struct summarize_flags *)user)->is_left = true;
    return true;
}

static bool take_anew(void *user, const char *value)
{
    (void)value;
    ((struct summarize_flags *)user)->is_anew = true;
    return true;
}

static const struct flag table[] = {
    {"--queue", "QUEUE", take_queue, "one QUEUE: letters, digits, - _ and .",
     "the queue they go to (" SUMMARIZE_QUEUE ")", NULL, false},
    {"--wait", "D", take_wait, FLAGS_DURATION,
     "also waits for those that are tried again later, up to so long", NULL, false},
    {"--no-wait", NULL, take_no_wait, NULL, "ends when they are recorded; prints their ids", NULL,
     false},
    {"--anew", NULL, take_anew, NULL, "summarises again what was summarised before", NULL, false},
};

static const struct flags_form form = {
    .command = "summarize",
    .operands = "FILE...|-",
    .purpose =
        "Hands articles to a queue with AI providers and prints the summaries as they come.\n"
        "A FILE is Markdown or text, or JSON lines (.json, .jsonl, .ndjson) with id, title and\n"
        "content; - is standard input. Exit status 0: all have a summary; 1: some have none.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .take_operand = take_file,
    .operand_expected = "the name of a file, or -",
};

/* --- progress ----------------------------------------------------------------------------------- */

static void show_progress(const struct summarize *own)
{
    const struct tally *tally = &own->tally;

    if (own->errors.has_colour) {
        fprintf(stderr, "\r\033[K%zu of %zu recorded, %zu summarised, %zu later, %zu failed",
                tally->recorded, own->list.count, tally->summaries, tally->later, tally->failed);
        (void)fflush(stderr);
    }
}

static void clear_progress(const struct summarize *own)
{
    if (own->errors.has_colour) {
        fprintf(stderr, "\r\033[K");
        (void)fflush(stderr);
    }
}

/* --- results ------------------------------------------------------------------------------------ */

/* The summary of a task that has succeeded, as its document; NULL: it has none. */
static json_t *load_result(const json_t *task)
{
    struct span body = client_text(json_object_get(task, "response"), "body");
    json_t *result = json_loadb(body.at, body.len, JSON_ALLOW_NUL, NULL);

    if (result != NULL && !json_is_string(json_object_get(result, "summary"))) {
        json_decref(result);
        result = NULL;
    }
    return result;
}

static void write_dumped(struct writer *writer, const char *name, const json_t *value)
{
    char *text = value != NULL
                     ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17))
                     : NULL;

    write_name(writer, name);
    write_json(writer, text != NULL ? span_of(text) : SPAN("null"));
    free(text);
}

/* One line for each article. */
static void print_json(const struct summarize_article *article, const json_t *task,
                       const json_t *result)
{
    AUTO(buf_done) struct buf line;
    struct writer writer = {.out = &line};

    buf_init(&line, LINE_BYTES_MAX);
    write_open(&writer, '{');
    write_named_text(&writer, "article_id", article->name);
    write_named_text(&writer, "task", span_of(article->id));
    write_named_text(&writer, "state", client_text(task, "state"));
    write_dumped(&writer, "summary", json_object_get(result, "summary"));
    write_dumped(&writer, "provider", json_object_get(result, "provider"));
    write_dumped(&writer, "model", json_object_get(result, "model"));
    write_dumped(&writer, "usage", json_object_get(result, "usage"));
    write_dumped(&writer, "error", json_object_get(task, "error"));
    write_close(&writer, '}');
    if (writer.failed == 0) {
        screen_put_json(buf_span(&line));
    }
}

/* What has line ends of its own is shown line by line. */
static void print_text(const struct screen *out, struct span text)
{
    struct span line;

    while (text.len > 0) {
        (void)span_cut(&text, '\n', &line); /* the last one may have no end */
        (void)screen_put(out, line, SCREEN_UNCUT);
        fprintf(out->out, "\n");
    }
}

static void print_summary(const struct summarize *own, const struct summarize_article *article,
                          const json_t *result)
{
    const struct screen *out = &own->out;

    (void)screen_put_coloured(
        out, SCREEN_BOLD, article->title.len > 0 ? article->title : article->name, SCREEN_UNCUT);
    fprintf(out->out, " (");
    (void)screen_put(out, article->name, SCREEN_UNCUT);
    fprintf(out->out, ", ");
    (void)screen_put(out, client_text(result, "provider"), SCREEN_UNCUT);
    fprintf(out->out, ")\n");
    print_text(out, client_text(result, "summary"));
    fprintf(out->out, "\n");
}

static void print_trouble(const struct summarize *own, const struct summarize_article *article,
                          const json_t *task)
{
    const struct screen *errors = &own->errors;
    const json_t *error = json_object_get(task, "error");
    char wait[SCREEN_DURATION_MAX];

    (void)screen_put(errors, article->name, SCREEN_UNCUT);
    fprintf(stderr, ": ");
    (void)screen_put(errors, client_text(task, "state"), SCREEN_UNCUT);
    if (json_is_object(error)) {
        fprintf(stderr, ": ");
        (void)screen_put(errors, client_text(error, "class"), SCREEN_UNCUT);
        fprintf(stderr, ": ");
        (void)screen_put(errors, client_text(error, "message"), SCREEN_UNCUT);
    }
    if (json_is_integer(json_object_get(task, "next_wait_ms"))) {
        screen_duration(client_number(task, "next_wait_ms"), wait);
        fprintf(stderr, "; the next try %s later", wait);
    }
    fprintf(stderr, " (daruma show %s)\n", article->id);
}

static void report(struct summarize *own, struct summarize_article *article, const json_t *task)
{
    struct span state = client_text(task, "state");
    json_t *result = span_is(state, "succeeded") ? load_result(task) : NULL;

    article->is_over = true;
    clear_progress(own);
    if (result != NULL) {
        own->tally.summaries++;
    } else if (span_is(state, "waiting") || span_is(state, "running")) {
        own->tally.later++;
    } else {
        own->tally.failed++;
    }
    if (own->flags->common.is_json) {
        print_json(article, task, result);
    } else if (result != NULL) {
        print_summary(own, article, result);
    }
    if (result == NULL) {
        (void)fflush(stdout); /* so that the two do not mix */
        print_trouble(own, article, task);
    }
    (void)fflush(stdout); /* as they come */
    json_decref(result);
}

/* --- recording ---------------------------------------------------------------------------------- */

static int record(struct summarize *own, struct summarize_article *article)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    char path[PATH_MAX_BYTES];
    struct task_id id;

    (void)snprintf(path, sizeof path, "/v1/queues/%s/tasks", own->flags->queue); /* fits */
    int exit_code = client_ask(
        own->client,
        &(struct client_request){
            .method = "POST",
            .path = span_of(path),
            .body = article->body,
            .unsure = own->flags->is_anew ? "it may have been recorded: 'daruma tasks' shows it"
                                          : "repeat the command: what is recorded already is "
                                            "not recorded again"},
        &answer);
    if (exit_code != CLI_DONE) {
        article->is_over = true;
        own->tally.failed++;
        return exit_code;
    }
    if (!id_parse(client_text(answer.document, "id"), &id)) {
        return explain_stranger(&form, &own->flags->common, &answer);
    }
    id_format(id, article->id);
    own->tally.recorded++;
    if (own->flags->is_left) {
        article->is_over = true;
        if (own->flags->common.is_json) {
            screen_put_json(buf_span(&answer.text));
        } else {
            printf("%s ", article->id);
            (void)screen_put(&own->out, article->name, SCREEN_UNCUT);
            printf("\n");
        }
    }
    return CLI_DONE;
}

/* An article that is refused does not keep the others back; a server that is gone does. */
static int record_all(struct summarize *own)
{
    for (size_t i = 0; i < own->list.count; i++) {
        int exit_code = record(own, &own->list.articles[i]);
        if (exit_code == CLI_UNREACHABLE ||
            (exit_code != CLI_DONE && own->tally.recorded == 0)) { /* no such queue, no right */
            return exit_code;
        }
        show_progress(own);
    }
    return CLI_DONE;
}

/* --- waiting ------------------------------------------------------------------------------------ */

/* Is there something to be told about it? */
static bool is_news(const struct summarize *own, const json_t *task)
{
    struct span state = client_text(task, "state");
    bool is_late = clock_mono_ms(&clock_real) >= own->until_ms;

    if (!span_is(state, "waiting") && !span_is(state, "running")) {
        return true;
    }
    if (own->flags->wait_ms >= 0) {
        return is_late;
    }
    return span_is(state, "waiting") && client_number(task, "next_wait_ms") > SHORT_WAIT_MS;
}

static int look(struct summarize *own, struct summarize_article *article, int64_t wait_ms)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    char path[PATH_MAX_BYTES];

    (void)snprintf(path, sizeof path, "/v1/tasks/%s?wait_ms=%" PRId64, article->id, wait_ms);
    int exit_code = client_ask_patiently(
        own->client,
        &(struct client_request){.method = "GET", .path = span_of(path), .wait_ms = wait_ms},
        &answer);
    if (exit_code == CLI_DONE && is_news(own, answer.document)) {
        report(own, article, answer.document);
    }
    return exit_code;
}

/* The first ones that are not over; the very first is waited for, which sets the pace. */
static int look_round(struct summarize *own, size_t *first)
{
    struct summarize_article *articles = own->list.articles;
    size_t looked = 0;

    while (*first < own->list.count && articles[*first].is_over) {
        (*first)++;
    }
    for (size_t i = *first; i < own->list.count && looked < LOOK_AHEAD; i++) {
        if (articles[i].is_over) {
            continue;
        }
        int exit_code = look(own, &articles[i], looked == 0 ? LOOK_WAIT_MS : 0);
        if (exit_code != CLI_DONE) {
            return exit_code;
        }
        looked++;
    }
    show_progress(own);
    return CLI_DONE;
}

static int wait_all(struct summarize *own)
{
    size_t first = 0;
    int exit_code = CLI_DONE;

    own->until_ms =
        clock_mono_ms(&clock_real) + (own->flags->wait_ms > 0 ? own->flags->wait_ms : 0);
    while (exit_code == CLI_DONE && first < own->list.count) {
        exit_code = look_round(own, &first);
    }
    clear_progress(own);
    return exit_code;
}

/* --- the command -------------------------------------------------------------------------------- */

static int read_files(struct summarize *own)
{
    struct error err = {0};

    if (summarize_list_init(&own->list) != 0) {
        return explain_fault(&form, FAULT_MEMORY);
    }
    own->list.is_keyed = !own->flags->is_anew;
    for (size_t i = 0; i < own->flags->file_count; i++) {
        if (summarize_read(&own->list, own->flags->files[i], &err) != 0) {
            flags_complain(&form, "%s", err.text);
            return CLI_FAILED;
        }
    }
    return CLI_DONE;
}

static int summarize(const struct summarize_flags *flags)
{
    struct summarize own = {.flags = flags, .out = screen_of(stdout), .errors = screen_of(stderr)};
    int exit_code = read_files(&own);

    exit_code = exit_code != CLI_DONE ? exit_code : client_open(&form, &flags->common, &own.client);
    exit_code = exit_code != CLI_DONE ? exit_code : record_all(&own);
    exit_code = exit_code != CLI_DONE ? exit_code : wait_all(&own);
    client_close(own.client);
    size_t missing = own.tally.failed + own.tally.later;
    summarize_list_done(&own.list);
    return exit_code != CLI_DONE ? exit_code : missing > 0 ? CLI_FAILED : CLI_DONE;
}

int cli_summarize(int argc, char **argv)
{
    struct summarize_flags flags = {.queue = SUMMARIZE_QUEUE, .wait_ms = -1};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        free(flags.files);
        return exit_code;
    }
    if (flags.file_count == 0) {
        flags_complain(&form, "no FILE given, expected files, or - for standard input");
        return CLI_USAGE;
    }
    if (flags.is_left) { /* the tasks are what it is for, and not their ids */
        effect_begin();
        exit_code = effect_finish(&form, summarize(&flags));
    } else {
        exit_code = explain_finish(&form, summarize(&flags));
    }
    free(flags.files);
    return exit_code;
}
