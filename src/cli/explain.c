/* SPDX-License-Identifier: MIT
 *
 * explain -- see explain.h.
 */
#include "cli/explain.h"

#include "base/fault.h"
#include "cli/screen.h"

#include <errno.h>
#include <stdio.h>

/* --- what to do next ---------------------------------------------------------------------------- */

/* By the problem's code. */
static const struct {
    const char *code;
    const char *next;
} codes[] = {
    {"queue_unknown", "'daruma queues' lists the queues there are; the configuration or "
                      "PUT /v1/queues/NAME makes one"},
    {"task_unknown", "see that the id is whole; a settled task is forgotten after the "
                     "configuration's keep"},
    {"run_unknown", "a restart forgets runs, not their tasks: 'daruma tasks QUEUE' shows them"},
    {"key_conflict", "give another --key, or the request that had it first"},
    {"not_waiting", "'daruma show ID' tells what it is doing; only what waits can be run"},
    {"dead_letter_unknown", "'daruma dead list' lists those there are, 'daruma show ID' tells how "
                            "any task stands"},
    {"redrive_unknown",
     "redrives that have ended are forgotten in time: 'daruma audit' knows them"},
    {"not_dead",
     "'daruma show ID' tells how it stands: only a dead letter that has failed waits for "
     "a person"},
    {"answered", "a caller has this failure as the answer: send a new task in its place"},
    {"not_unsettled", "'daruma show ID' tells how it stands"},
    {"cross_site", "the server takes this for a request of a web page: see docs/security.md"},
    {"queue_reserved", "the server fills it itself: it can be paused, resumed and purged, not "
                       "filled, leased from, adopted or deleted"},
    {"queue_deleted", "'daruma settle ID failed' ends the task"},
    {"queue_not_empty", "--force deletes it with the tasks in it; 'daruma queue purge' ends those "
                        "that wait"},
    {"queue_in_file", "take it out of the configuration file and restart the server; what is left "
                      "in it can be deleted then"},
    {"queue_missing", "'daruma queues' tells what it needs: put it back into the file, or have it "
                      "worked with 'daruma queue adopt'"},
    {"queue_held", "'daruma queues' tells what its configuration lacks"},
    {"too_large", "send less, or raise limits.body in the server's configuration"},
    {"not_found", "the server may be older than this program, or --server leads elsewhere"},
    {"draining", "the server is stopping: try again when it is back"},
    {"store_unavailable", "the server's log says what its store is missing"},
    {"store_corrupt", "the server's log says where; nothing was changed"},
    {"internal", "the server's log says more"},
};

static const char *next_of_code(struct span code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (span_is(code, codes[i].code)) {
            return codes[i].next;
        }
    }
    return NULL;
}

/* By what the server found fault with; empty: the request as a whole. */
static const char *next_of_forbidden(struct span field)
{
    if (span_is(field, "filter.queue")) {
        return "give --queue: one of the queues that the token is for";
    }
    return field.len > 0 ? "use a token that is not limited to queues"
                         : "the token's role does not allow this: use one whose role does";
}

/* By what it is instead, which the detail says. NULL: nothing that is special. */
static const char *next_of_other_state(struct span detail)
{
    static const char closed[] = "the dead letter resolved", doubt[] = "the task is unsettled",
                      caller[] = "a request of the gateway";
    bool is_closed = false, is_caller_s = false;

    for (size_t at = 0; at < detail.len; at++) {
        is_closed = is_closed || span_starts(span_from(detail, at), closed);
        is_caller_s = is_caller_s || span_starts(span_from(detail, at), caller);
    }
    if (span_starts(detail, doubt)) {
        return "'daruma settle ID' is for what is unsettled";
    }
    if (is_caller_s) {
        return "its caller sends it anew, with a new key";
    }
    return is_closed ? "it is closed already: 'daruma show ID' tells when, and the note" : NULL;
}

static const char *next_of(const struct flags *flags, const struct client_request *request,
                           const struct client_answer *answer)
{
    struct span code = client_text(answer->document, "code");

    if (answer->status == 401) {
        return flags->token == NULL ? "give a token: DARUMA_TOKEN=…, or --token"
                                    : "the server does not know this token: see api.tokens in its "
                                      "configuration";
    }
    if (span_is(code, "forbidden")) {
        return next_of_forbidden(client_text(answer->document, "field"));
    }
    if (span_is(code, "store_unknown")) {
        return request->unsure;
    }
    const char *next = span_is(code, "not_dead")
                           ? next_of_other_state(client_text(answer->document, "detail"))
                           : NULL;
    return next != NULL ? next : next_of_code(code);
}

/* --- saying it ---------------------------------------------------------------------------------- */

static void say_span(struct span text)
{
    const struct screen screen = screen_of(stderr);

    (void)screen_put(&screen, text, SCREEN_UNCUT);
}

static void say_next(const char *next)
{
    if (next != NULL) {
        fprintf(stderr, "  %s\n", next);
    }
}

static void begin(const struct flags_form *form)
{
    (void)fflush(stdout); /* so that the two do not mix */
    fprintf(stderr, "daruma %s: ", form->command);
}

static void say_field(const struct flags_form *form, struct span field)
{
    const char *flag = flags_of_field(form, field);

    if (field.len > 0) {
        say_span(flag != NULL ? span_of(flag) : field);
        fprintf(stderr, ": ");
    }
}

/* Some details begin with the field that they are about: it is said once. */
static struct span without_field(struct span detail, struct span field)
{
    struct span rest = span_from(detail, field.len);
    bool is_named = field.len > 0 && span_equal(span_until(detail, field.len), field) &&
                    span_starts(rest, ": ");

    return is_named ? span_from(rest, 2) : detail;
}

static void say_problem(const struct flags_form *form, const json_t *problem)
{
    struct span detail = client_text(problem, "detail"), title = client_text(problem, "title");
    struct span field = client_text(problem, "field");

    say_field(form, field);
    say_span(detail.len > 0 ? without_field(detail, field) : title);
    fprintf(stderr, " (");
    say_span(client_text(problem, "code"));
    fprintf(stderr, ")\n");
}

int explain_stranger(const struct flags_form *form, const struct flags *flags,
                     const struct client_answer *answer)
{
    begin(form);
    fprintf(stderr, "%s answered with status %d, and not as a daruma server does\n", flags->server,
            answer->status);
    say_next("is this its address? --server or DARUMA_URL says where it is");
    return CLI_FAILED;
}

int explain_answer(const struct flags_form *form, const struct flags *flags,
                   const struct client_request *request, const struct client_answer *answer)
{
    bool is_problem = answer->status >= 400 && client_text(answer->document, "code").len > 0;
    char wait[SCREEN_DURATION_MAX];

    if (!is_problem && answer->status != 401 && answer->status != 403) {
        return explain_stranger(form, flags, answer);
    }
    begin(form);
    if (is_problem) {
        say_problem(form, answer->document);
    } else {
        fprintf(stderr, "the server refused it with status %d\n", answer->status);
    }
    const char *next = next_of(flags, request, answer);
    say_next(next);
    if (next == NULL && answer->retry_after_ms > 0) {
        screen_duration(answer->retry_after_ms, wait);
        fprintf(stderr, "  try again in %s\n", wait);
    }
    return CLI_FAILED;
}

/* What to look at where no answer came; NULL: nothing that is known. */
static const char *next_of_silence(const struct flags *flags, const struct client_answer *answer)
{
    bool is_plain = span_starts(span_of(flags->server), "http:");

    switch (answer->silence) {
    case CLIENT_SILENCE_DISTRUST:
        return flags->ca == NULL
                   ? "DARUMA_CA=FILE names the PEM file of who vouches for its certificate (of a "
                     "self-signed one, itself)"
                   : "DARUMA_CA names a file that does not vouch for its certificate, or the "
                     "certificate is for another name";
    case CLIENT_SILENCE_CA:
        return flags->ca == NULL
                   ? "this machine has no list of authorities: DARUMA_CA=FILE names one"
                   : "DARUMA_CA has to name a PEM file that can be read";
    case CLIENT_SILENCE_TLS:
        return "does it speak https? If not, its address begins with http://";
    case CLIENT_SILENCE_EMPTY:
        return is_plain ? "does it speak https? Then its address begins with https://" : NULL;
    case CLIENT_SILENCE_OTHER:
    default:
        return answer->is_sent ? NULL
                               : "is 'daruma serve' running there? --server or DARUMA_URL says "
                                 "where it is";
    }
}

int explain_silence(const struct flags_form *form, const struct flags *flags,
                    const struct client_request *request, const struct client_answer *answer)
{
    bool is_change = strcmp(request->method, "GET") != 0;

    begin(form);
    fprintf(stderr,
            answer->is_sent ? "no answer from %s: " : "%s is not reachable: ", flags->server);
    say_span(span_of(answer->failure));
    fprintf(stderr, "\n");
    say_next(next_of_silence(flags, answer));
    if (answer->is_sent && is_change) {
        say_next(request->unsure);
    }
    return CLI_UNREACHABLE;
}

int explain_fault(const struct flags_form *form, int fault)
{
    begin(form);
    if (fault == FAULT_LIMIT) {
        fprintf(stderr, "too large: an answer may have %u MiB, a path %d bytes\n",
                CLIENT_ANSWER_BYTES_MAX >> 20, CLIENT_PATH_MAX);
    } else {
        fprintf(stderr, "%s\n", fault_text(fault));
    }
    return CLI_FAILED;
}

int explain_finish(const struct flags_form *form, int exit_code)
{
    bool is_lost = ferror(stdout) != 0;

    if (fflush(stdout) == 0 && !is_lost) {
        return exit_code;
    }
    flags_complain(form, "cannot write the output%s%s", is_lost ? "" : ": ",
                   is_lost ? "" : strerror(errno));
    return CLI_FAILED;
}
