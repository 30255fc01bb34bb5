/* SPDX-License-Identifier: MIT
 *
 * story -- see story.h.
 */
#include "cli/story.h"

#include <daruma/retry_after.h>

#include <inttypes.h>

#define LABEL_WIDTH    10
#define BODY_LINES_MAX 20
#define BODY_BYTES_MAX 4096
#define BASE64_BYTES   4 /* letters of base64 for */
#define BASE64_DECODED 3 /* bytes */

/* --- lines ---------------------------------------------------------------------------------------- */

void story_put(const struct screen *screen, struct span text)
{
    (void)screen_put(screen, text, SCREEN_UNCUT);
}

void story_label(const struct screen *screen, const char *label)
{
    (void)screen_put_coloured(screen, SCREEN_BOLD, span_of(label), SCREEN_UNCUT);
    fprintf(screen->out, "%*s", LABEL_WIDTH - (int)strlen(label), "");
}

void story_line(const struct screen *screen, const char *label, struct span text)
{
    if (text.len > 0) {
        story_label(screen, label);
        story_put(screen, text);
        fprintf(screen->out, "\n");
    }
}

void story_headers(const struct screen *screen, json_t *headers)
{
    const char *name;
    json_t *value;

    json_object_foreach(headers, name, value)
    {
        story_label(screen, "");
        story_put(screen, span_of(name));
        story_put(screen, SPAN(": "));
        story_put(screen, span_of(json_string_value(value)));
        fprintf(screen->out, "\n");
    }
}

static void put_text_body(const struct screen *screen, struct span body)
{
    struct span rest = span_until(body, BODY_BYTES_MAX), line;
    bool has_more = true;

    for (size_t i = 0; has_more && i < BODY_LINES_MAX; i++) {
        has_more = span_cut(&rest, '\n', &line);
        story_label(screen, "");
        story_put(screen, line);
        fprintf(screen->out, "\n");
        has_more = has_more && rest.len > 0;
    }
    if (has_more || body.len > BODY_BYTES_MAX) {
        story_label(screen, "");
        fprintf(screen->out, "… %zu bytes in all: --json shows them\n", body.len);
    }
}

void story_body(const struct screen *screen, const json_t *holder, const char *name,
                const char *coded_name)
{
    struct span body = client_text(holder, name), coded = client_text(holder, coded_name);

    if (body.len > 0) {
        put_text_body(screen, body);
    } else if (coded.len > 0) {
        story_label(screen, "");
        fprintf(screen->out, "%zu bytes that are not text: --json shows them\n",
                coded.len / BASE64_BYTES * BASE64_DECODED);
    }
}

void story_labels(const struct screen *screen, json_t *labels)
{
    json_t *value;
    const char *name, *label = "labels";

    json_object_foreach(labels, name, value)
    {
        story_label(screen, label);
        story_put(screen, span_of(name));
        story_put(screen, SPAN("="));
        story_put(screen, span_of(json_string_value(value)));
        fprintf(screen->out, "\n");
        label = "";
    }
}

/* Where a request without a target of its own goes. */
static const char *const places[] = {
    [DESTINATION_UNKNOWN] = "(as its queue says: its targets, its providers, or a worker)",
    [DESTINATION_TARGETS] = "(a target of its queue)",
    [DESTINATION_PROVIDERS] = "(a provider of its queue)",
    [DESTINATION_WORKERS] = "(for a worker: neither it nor its queue has a target)",
};

void story_request(const struct screen *screen, const json_t *request, enum destination otherwise)
{
    struct span target = client_text(request, "target");

    story_label(screen, "request");
    story_put(screen, client_text(request, "method"));
    story_put(screen, SPAN(" "));
    story_put(screen, target.len > 0 ? target : span_of(places[otherwise]));
    fprintf(screen->out, "\n");
    story_headers(screen, json_object_get(request, "headers"));
    story_body(screen, request, "body", "body_base64");
}

void story_tries(const struct screen *screen, const json_t *task)
{
    int64_t most = client_number(task, "max_attempts");

    story_label(screen, "tries");
    fprintf(screen->out, "%" PRId64, client_number(task, "attempts"));
    if (most > 0) {
        fprintf(screen->out, " of %" PRId64, most);
    }
    fprintf(screen->out, "\n");
}

void story_answer(const struct screen *screen, const json_t *task)
{
    const json_t *response = json_object_get(task, "response");
    struct span settled_by = client_text(task, "settled_by");

    if (!json_is_object(response)) {
        return;
    }
    story_label(screen, "answer");
    fprintf(screen->out, "%" PRId64, client_number(response, "status"));
    if (settled_by.len > 0) {
        story_put(screen, SPAN(" from "));
        story_put(screen, settled_by);
    }
    if (json_is_true(json_object_get(response, "omitted"))) {
        bool is_cut = json_is_true(json_object_get(response, "truncated"));
        story_put(screen, is_cut ? SPAN(", cut off on its way and not kept") : SPAN(", not kept"));
    }
    if (json_is_true(json_object_get(response, "untold"))) {
        story_put(screen, SPAN(", its header too long to be told to callers"));
    }
    fprintf(screen->out, "\n");
    story_headers(screen, json_object_get(response, "headers"));
    story_body(screen, response, "body", "body_base64");
}

/* --- the dead letter ------------------------------------------------------------------------------ */

void story_letter(const struct screen *screen, const json_t *letter)
{
    struct span status = client_text(letter, "status");
    bool is_failed = span_is(status, "failed"), is_resolved = span_is(status, "resolved");

    if (status.len == 0) {
        return;
    }
    story_label(screen, "letter");
    (void)screen_put_coloured(screen,
                              is_failed     ? SCREEN_RED
                              : is_resolved ? SCREEN_GREEN
                                            : SCREEN_CYAN,
                              status, SCREEN_UNCUT);
    story_put(screen, SPAN(" "));
    story_put(screen, client_text(letter, is_resolved ? "resolved_at" : "failed_at"));
    if (is_failed) {
        story_put(screen, json_is_true(json_object_get(letter, "retryable"))
                              ? SPAN(", may work when it is sent again as it is")
                              : SPAN(", would fail again as it is"));
    } else if (!is_resolved) {
        story_put(screen, SPAN(", and was sent again"));
    }
    fprintf(screen->out, "\n");
    story_line(screen, "note", client_text(letter, "note"));
}

void story_settled(const struct screen *screen, const json_t *acts)
{
    static const char settle[] = "settle_";
    const json_t *last = NULL;

    for (size_t i = 0; i < json_array_size(acts); i++) {
        const json_t *act = json_array_get(acts, i);
        last = span_starts(client_text(act, "act"), settle) ? act : last;
    }
    if (last == NULL) {
        return;
    }
    story_label(screen, "settled");
    story_put(screen, span_from(client_text(last, "act"), strlen(settle)));
    story_put(screen, SPAN(" "));
    story_put(screen, client_text(last, "at"));
    story_put(screen, SPAN(" by "));
    story_put(screen, client_text(last, "who"));
    fprintf(screen->out, "\n");
    story_line(screen, "note", client_text(last, "note"));
}

void story_edit(const struct screen *screen, const json_t *edit)
{
    struct span target = client_text(edit, "target");

    if (json_is_object(edit)) {
        story_line(screen, "edited", target.len > 0 ? target : SPAN("(its target is as it was)"));
        story_headers(screen, json_object_get(edit, "headers"));
        story_body(screen, edit, "payload", "payload_base64");
    }
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
        story_put(screen, SPAN(", not sent"));
    } else if (span_is(sent, "maybe")) {
        story_put(screen, SPAN(", maybe sent"));
    } else if (span_is(sent, "yes")) {
        story_put(screen, SPAN(", sent"));
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

    story_label(screen, label);
    fprintf(screen->out, "%" PRId64 ". ", client_number(attempt, "attempt"));
    story_put(screen, client_text(attempt, "started_at"));
    story_put(screen, SPAN("  "));
    put_outcome(screen, attempt);
    put_sent(screen, attempt);
    if (target.len > 0) {
        story_put(screen, SPAN(", to "));
        story_put(screen, target);
    }
    fprintf(screen->out, "\n");
    if (said.len > 0) {
        story_label(screen, "");
        story_put(screen, SPAN("   "));
        story_put(screen, said);
        fprintf(screen->out, "\n");
    }
    if (wait_ms > 0) {
        screen_duration(wait_ms, wait);
        story_label(screen, "");
        fprintf(screen->out, "   then a wait of %s\n", wait);
    }
}

void story_trail(const struct screen *screen, const json_t *trail)
{
    for (size_t i = 0; i < json_array_size(trail); i++) {
        put_attempt(screen, json_array_get(trail, i), i == 0 ? "attempts" : "");
    }
}
