/* SPDX-License-Identifier: MIT
 *
 * send_report -- see send_report.h.
 */
#include "cli/send_report.h"

#include "cli/client.h"
#include "cli/screen.h"
#include "base/base64.h"
#include "edge/writer.h"

#include <inttypes.h>
#include <stdio.h>

#define JSON_BYTES_MAX (8u * SENDER_ANSWER_MAX) /* a byte of text becomes at most \u0000 */
#define SAID_CELLS_MAX 300

static void write_answer(struct writer *writer, const struct sender_answer *answer)
{
    struct span text = buf_span(&answer->text);

    write_named_int(writer, "status", answer->status);
    if (answer->is_cut) {
        write_name(writer, "body_omitted");
        write_bool(writer, true);
    } else if (span_is_utf8(text)) {
        write_named_text(writer, "body", text);
    } else {
        write_name(writer, "body_base64");
        write_json(writer, SPAN("\""));
        writer->failed = writer->failed != 0 ? writer->failed : base64_encode(text, writer->out);
        writer->failed = writer->failed != 0 ? writer->failed : buf_add(writer->out, SPAN("\""));
    }
}

static int print_json(const struct send_report *report)
{
    AUTO(buf_done) struct buf text;
    struct writer writer = {.out = &text};

    buf_init(&text, JSON_BYTES_MAX);
    write_open(&writer, '{');
    write_named_text(&writer, "result", span_of(report->result));
    write_named_text(&writer, "url", report->request->url);
    write_named_text(&writer, "key", report->request->key);
    write_named_int(&writer, "attempts", report->attempts);
    if (report->name[0] != '\0') {
        write_named_text(&writer, "name", span_of(report->name));
    }
    if (report->why[0] != '\0') {
        write_named_text(&writer, "error", span_of(report->why));
    }
    if (report->answer->status != 0) {
        write_answer(&writer, report->answer);
    }
    write_close(&writer, '}');
    if (writer.failed == 0) {
        screen_put_json(buf_span(&text));
    }
    return writer.failed;
}

/* What a server says when it refuses: a problem's own words, or the beginning of what came. */
static void say_refusal(const struct flags_form *form, const struct send_report *report)
{
    const struct screen errors = screen_of(stderr);
    struct span text = buf_span(&report->answer->text), line;
    json_t *problem = json_loadb(text.len > 0 ? text.at : "", text.len,
                                 JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK, NULL);
    struct span detail = client_text(problem, "detail");

    fprintf(stderr, "daruma %s: refused: %s", form->command, report->why);
    (void)span_cut(&text, '\n', &line); /* one line is all */
    struct span said = span_trim(detail.len > 0 ? detail : line);
    if (said.len > 0) {
        fprintf(stderr, ": ");
        (void)screen_put(&errors, said, SAID_CELLS_MAX);
    }
    fprintf(stderr, "\n  it would be refused again, and is not kept\n");
    json_decref(problem);
}

static void print_line(const struct send_report *report)
{
    const struct screen out = screen_of(stdout);
    bool is_sent = report->name[0] == '\0';

    (void)screen_put_coloured(&out, is_sent ? SCREEN_GREEN : SCREEN_YELLOW, span_of(report->result),
                              SCREEN_UNCUT);
    if (is_sent) {
        printf(" HTTP %d, key ", report->answer->status);
    } else {
        printf(" as %s: %s, key ", report->name, report->why);
    }
    (void)screen_put(&out, report->request->key, SCREEN_UNCUT);
    printf("\n");
}

int send_report_print(const struct flags_form *form, const struct flags *flags,
                      const struct send_report *report)
{
    bool is_refused = strcmp(report->result, "refused") == 0;
    int failed = flags->is_json ? print_json(report) : 0;

    if (failed != 0) {
        return failed;
    }
    if (is_refused) {
        (void)fflush(stdout); /* so that the two do not mix */
        say_refusal(form, report);
    } else if (!flags->is_json) {
        print_line(report);
    }
    return 0;
}
