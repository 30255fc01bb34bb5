/* SPDX-License-Identifier: MIT
 *
 * render -- see render.h.
 */
#include "edge/render.h"

#include "base/auto.h"
#include "base/base64.h"
#include "task/fields.h"
#include "task/secrets.h"
#include "task/url.h"

#include <stdlib.h>

#define URL_SHOWN_MAX (4 * URL_BYTES_MAX)
#define NAMES_MAX     1024 /* of header fields that are shown */
#define NAMES_ROOM    (2 * NAMES_MAX)
#define SCAN_MAX      32 /* fields that are compared with each other */

/* A URL, or the name of a target; without what is secret in it (I10). */
static void write_url(struct writer *writer, struct span url)
{
    AUTO(buf_done) struct buf shown;

    buf_init(&shown, URL_SHOWN_MAX);
    if (span_find(url, '=') == NULL && span_find(url, '%') == NULL && span_find(url, '@') == NULL) {
        write_text(writer, url);
        return;
    }
    if (writer->failed == 0) {
        writer->failed = secrets_add_url(&shown, url);
    }
    write_text(writer, buf_span(&shown));
}

static bool is_of_url(struct span name)
{
    return span_is_nocase(name, "location") || span_is_nocase(name, "content-location") ||
           span_is_nocase(name, "referer");
}

static void write_header(struct writer *writer, struct span name, struct span value)
{
    bool has_url = is_of_url(name);

    write_name_span(writer, name);
    if (secrets_is_name(name) || (has_url && value.len > URL_BYTES_MAX)) {
        write_text(writer, SPAN(SECRETS_HIDDEN));
    } else if (has_url && value.len > 0) {
        write_url(writer, value);
    } else {
        write_text(writer, value);
    }
}

/* Which names have been written. A header of an earlier version may have any number of them; what is
 * past NAMES_MAX is not shown. */
struct names {
    struct span slots[NAMES_ROOM];
    size_t count;
};

static char small(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter | 0x20) : letter;
}

static bool is_same_name(struct span one, struct span other)
{
    size_t at = 0;

    while (one.len == other.len && at < one.len && small(one.at[at]) == small(other.at[at])) {
        at++;
    }
    return one.len == other.len && at == one.len;
}

/* False: it is there, in any case of letters, or there is no room for it. */
static bool names_add(struct names *names, struct span name)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < name.len; i++) {
        hash = (hash ^ (unsigned char)small(name.at[i])) * 16777619u;
    }
    size_t at = hash % NAMES_ROOM;
    while (names->slots[at].len > 0 && !is_same_name(names->slots[at], name)) {
        at = (at + 1) % NAMES_ROOM;
    }
    if (names->slots[at].len > 0 || name.len == 0 || names->count == NAMES_MAX) {
        return false;
    }
    names->slots[at] = name;
    names->count++;
    return true;
}

/* Of a short header: did an earlier field have this name? */
static bool is_repeated(struct span fields, struct span name)
{
    struct span earlier, value;
    struct span rest = {.at = fields.at, .len = (size_t)(name.at - fields.at)};

    while (fields_next(&rest, &earlier, &value)) {
        if (is_same_name(earlier, name)) {
            return true;
        }
    }
    return false;
}

static size_t count_fields(struct span fields)
{
    struct span name, value;
    size_t count = 0;

    while (fields_next(&fields, &name, &value)) {
        count++;
    }
    return count;
}

/* A name that comes several times (Set-Cookie) is shown once: JSON objects are read as maps. */
static void write_headers(struct writer *writer, struct span fields, unsigned parts)
{
    bool is_long = count_fields(fields) > SCAN_MAX;
    struct names *names = is_long ? calloc(1, sizeof *names) : NULL;
    struct span rest = fields, name, value;

    if (is_long && names == NULL) {
        writer->failed = writer->failed != 0 ? writer->failed : FAULT_MEMORY;
        return;
    }
    write_open(writer, '{');
    while (fields_next(&rest, &name, &value)) {
        if (is_long ? names_add(names, name) : !is_repeated(fields, name)) {
            if ((parts & RENDER_SECRETS) != 0) {
                write_name_span(writer, name);
                write_text(writer, value);
            } else {
                write_header(writer, name, value);
            }
        }
    }
    write_close(writer, '}');
    free(names);
}

static void write_labels(struct writer *writer, struct span labels)
{
    struct span name, value;

    write_name(writer, "labels");
    write_open(writer, '{');
    while (fields_next(&labels, &name, &value)) {
        write_name_span(writer, name);
        write_text(writer, value);
    }
    write_close(writer, '}');
}

/* Under its name, or, when it is no text, under the name for that. */
static void write_bytes(struct writer *writer, const char *name, const char *name_base64,
                        struct span body)
{
    if (span_is_utf8(body)) {
        write_named_text(writer, name, body);
        return;
    }
    write_name(writer, name_base64);
    write_json(writer, SPAN("\""));
    if (writer->failed == 0) {
        writer->failed = base64_encode(body, writer->out);
    }
    if (writer->failed == 0) {
        writer->failed = buf_add(writer->out, SPAN("\""));
    }
}

static void write_body(struct writer *writer, struct span body)
{
    write_bytes(writer, "body", "body_base64", body);
}

static void write_optional_url(struct writer *writer, const char *name, struct span url)
{
    write_name(writer, name);
    if (url.len > 0) {
        write_url(writer, url);
    } else {
        write_null(writer);
    }
}

/* A text or null. */
static void write_optional(struct writer *writer, const char *name, struct span text)
{
    write_name(writer, name);
    if (text.len > 0) {
        write_text(writer, text);
    } else {
        write_null(writer);
    }
}

static void write_request(struct writer *writer, const struct task *task, unsigned parts)
{
    write_name(writer, "request");
    write_open(writer, '{');
    write_named_text(writer, "method", task->method.len > 0 ? task->method : SPAN("POST"));
    write_optional_url(writer, "target", task->target);
    write_name(writer, "headers");
    write_headers(writer, task->headers, parts);
    if ((parts & RENDER_BODIES) != 0) {
        write_body(writer, task->body);
    }
    write_close(writer, '}');
}

static void write_if(struct writer *writer, const char *name, bool is_so)
{
    if (is_so) {
        write_name(writer, name);
        write_bool(writer, true);
    }
}

/* What is worth knowing of a body besides its bytes, where it is. */
static void write_framing(struct writer *writer, uint32_t flags)
{
    write_if(writer, "omitted", (flags & LIFE_OMITTED) != 0);
    write_if(writer, "truncated", (flags & LIFE_TRUNCATED) != 0);
    write_if(writer, "untold", (flags & LIFE_UNTOLD) != 0);
    write_if(writer, "unframed", (flags & LIFE_UNFRAMED) != 0);
}

static void write_response(struct writer *writer, const struct record *record, unsigned parts)
{
    const struct answer *answer = &record->answer;

    write_name(writer, "response");
    if (answer->status == 0) {
        write_null(writer);
        return;
    }
    write_open(writer, '{');
    write_named_int(writer, "status", answer->status);
    write_name(writer, "headers");
    write_headers(writer, answer->headers, parts);
    if ((parts & RENDER_BODIES) != 0) {
        write_body(writer, answer->body);
    }
    write_framing(writer, record->life.flags);
    write_close(writer, '}');
}

static void write_class(struct writer *writer, const struct trail_row *row)
{
    write_name(writer, "class");
    if (row->error_class < 0) {
        write_null(writer);
    } else {
        write_text(writer, span_of(daruma_class_text((enum daruma_class)row->error_class)));
    }
}

static void write_status(struct writer *writer, int status)
{
    write_name(writer, "status");
    if (status == 0) {
        write_null(writer);
    } else {
        write_int(writer, status);
    }
}

#define RESTORED                                                                                   \
    "the store was restored from a backup, which does not know this key: the request was not "     \
    "sent "                                                                                        \
    "from here, and may have been before"

/* In doubt without an attempt: only a store that was restored begins a task so (engine/restored.c). */
static const struct trail_row *doubt_of(const struct record *record)
{
    static const struct trail_row restored = {
        .error_class = DARUMA_CLASS_TRANSIENT,
        .message = {.at = RESTORED, .len = sizeof RESTORED - 1},
    };
    bool is_restored = record->life.state == TASK_UNSETTLED && record->life.attempts_all == 0;

    return is_restored ? &restored : NULL;
}

/* What the latest attempt failed of; null when it succeeded or there was none. */
static void write_error(struct writer *writer, const struct record *record)
{
    const struct trail_row *last =
        record->trail_count > 0 ? &record->trail[record->trail_count - 1] : doubt_of(record);

    write_name(writer, "error");
    if (last == NULL || last->error_class < 0 || record->life.state == TASK_SUCCEEDED) {
        write_null(writer);
        return;
    }
    write_open(writer, '{');
    write_class(writer, last);
    write_named_text(writer, "message", last->message);
    write_status(writer, last->status);
    write_close(writer, '}');
}

static void write_attempt(struct writer *writer, const struct trail_row *row)
{
    write_open(writer, '{');
    write_named_uint(writer, "attempt", row->attempt);
    write_optional_url(writer, "target", row->target);
    write_named_time(writer, "started_at", row->started_at_ms);
    write_named_time(writer, "ended_at", row->ended_at_ms);
    write_class(writer, row);
    write_status(writer, row->status);
    write_named_text(writer, "sent", span_of(task_sent_text(row->sent)));
    if (row->sends > 1) {
        write_named_uint(writer, "sends", row->sends);
    }
    write_optional(writer, "message", row->message);
    write_named_int(writer, "wait_ms", row->wait_ms);
    write_close(writer, '}');
}

static void write_attempts(struct writer *writer, const struct record *record)
{
    write_name(writer, "trail");
    write_open(writer, '[');
    for (size_t i = 0; i < record->trail_count; i++) {
        write_attempt(writer, &record->trail[i]);
    }
    write_close(writer, ']');
}

/* The target's, and whose it is. */
static void write_answer(struct writer *writer, const struct record *record, unsigned parts)
{
    write_response(writer, record, parts);
    write_optional_url(writer, "settled_by", record->answer.settled_by);
}

static void write_life(struct writer *writer, const struct record *record, unsigned parts)
{
    write_answer(writer, record, parts);
    write_error(writer, record);
    write_attempts(writer, record);
}

static void write_tries(struct writer *writer, const struct record *record, uint32_t attempts_max)
{
    write_named_uint(writer, "attempts", record->life.attempts);
    write_name(writer, "max_attempts");
    if (attempts_max > 0) {
        write_uint(writer, attempts_max);
    } else {
        write_null(writer);
    }
}

static void write_counts(struct writer *writer, const struct record *record, uint32_t attempts_max)
{
    const struct life *life = &record->life;

    write_tries(writer, record, attempts_max);
    write_name(writer, "next_wait_ms");
    if (life->state == TASK_WAITING && life->attempts > 0) {
        write_int(writer, life->wait_ms);
    } else {
        write_null(writer);
    }
}

void render_task_rest(struct writer *writer, const struct record *record, unsigned parts)
{
    if ((parts & RENDER_REQUEST) != 0) {
        write_request(writer, &record->task, parts);
    }
    if ((parts & RENDER_LIFE) != 0) {
        write_life(writer, record, parts);
    } else if ((parts & RENDER_ERROR) != 0) {
        write_error(writer, record);
    }
}

void render_task(struct writer *writer, const struct record *record,
                 const struct render_task *about)
{
    const struct task *task = &record->task;
    char id[ID_TEXT_LEN + 1];

    id_format(task->id, id);
    write_open(writer, '{');
    write_named_text(writer, "id", span_of(id));
    write_optional(writer, "queue", about->queue);
    write_named_text(writer, "state", span_of(task_state_text(record->life.state)));
    write_optional(writer, "key", task->key);
    write_labels(writer, task->labels);
    write_named_time(writer, "created_at", id_created_ms(task->id.row));
    write_named_time(writer, "due_at", record->life.due_at_ms);
    write_counts(writer, record, about->attempts_max);
    if (about->rest.at != NULL) {
        write_json(writer, about->rest);
    } else {
        render_task_rest(writer, record, about->parts);
    }
    write_close(writer, '}');
}

/* --- dead letters ------------------------------------------------------------------------------------ */

static void write_time_or_null(struct writer *writer, const char *name, int64_t at_ms)
{
    if (at_ms != 0) {
        write_named_time(writer, name, at_ms);
    } else {
        write_name(writer, name);
        write_null(writer);
    }
}

/* What was changed of the request, beside it. */
static void write_edit(struct writer *writer, const struct edit *edit)
{
    write_name(writer, "edit");
    if (edit->parts == 0) {
        write_null(writer);
        return;
    }
    write_open(writer, '{');
    if ((edit->parts & EDIT_TARGET) != 0) {
        write_name(writer, "target");
        write_url(writer, edit->target);
    }
    if ((edit->parts & EDIT_HEADERS) != 0) {
        write_name(writer, "headers");
        write_headers(writer, edit->headers, 0);
    }
    if ((edit->parts & EDIT_BODY) != 0) {
        write_bytes(writer, "payload", "payload_base64", edit->body);
    }
    write_close(writer, '}');
}

void render_letter(struct writer *writer, const struct record *record,
                   const struct render_task *about)
{
    const struct life *life = &record->life;
    char id[ID_TEXT_LEN + 1];
    struct span type = {0};

    id_format(record->task.id, id);
    (void)fields_find(record->task.labels, "job_type", &type); /* else null */
    write_open(writer, '{');
    write_named_text(writer, "id", span_of(id));
    write_optional(writer, "queue", about->queue);
    write_optional(writer, "key", record->task.key);
    write_labels(writer, record->task.labels);
    write_optional(writer, "job_type", type);
    write_request(writer, &record->task, 0);
    write_error(writer, record);
    write_named_uint(writer, "retry_count", life->attempts);
    write_name(writer, "retryable");
    write_bool(writer, letter_is_retryable(life));
    write_named_time(writer, "created_at", id_created_ms(record->task.id.row));
    write_time_or_null(writer, "failed_at", life->failed_at_ms);
    write_named_text(writer, "status", span_of(letter_status_text(letter_status(life))));
    write_time_or_null(writer, "resolved_at", life->resolved_at_ms);
    write_optional(writer, "note", record->edit.note);
    if ((about->parts & RENDER_BODIES) != 0) {
        write_bytes(writer, "payload", "payload_base64", record->task.body);
        write_edit(writer, &record->edit);
    }
    if ((about->parts & RENDER_LIFE) != 0) {
        write_tries(writer, record, about->attempts_max);
        write_answer(writer, record, about->parts);
        write_attempts(writer, record);
    }
    write_close(writer, '}');
}

/* --- queues ------------------------------------------------------------------------------------------ */

static void write_queue_counts(struct writer *writer, const struct queue_view *view)
{
    static const enum task_state shown[] = {TASK_WAITING,   TASK_RUNNING, TASK_UNSETTLED,
                                            TASK_SUCCEEDED, TASK_FAILED,  TASK_CANCELLED};

    write_name(writer, "counts");
    write_open(writer, '{');
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        uint64_t count = view->counts[shown[i]];
        if (shown[i] == TASK_FAILED) { /* one word outside for both */
            count += view->counts[TASK_DEAD];
        }
        write_named_uint(writer, task_state_text(shown[i]), count);
    }
    write_close(writer, '}');
}

/* What slows a queue down that is sent: the widest limit first. */
static struct span slowed_by(uint32_t held)
{
    static const struct {
        enum held_by hold;
        const char *name;
    } limits[] = {{HOLD_STORE, "store"},
                  {HOLD_ATTEMPTS, "attempts"},
                  {HOLD_RATE, "rate"},
                  {HOLD_CONCURRENCY, "concurrency"},
                  {HOLD_HOST, "host"}};

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if ((held >> limits[i].hold & 1) != 0) {
            return span_of(limits[i].name);
        }
    }
    return SPAN("");
}

/* Why nothing of it goes out, or less than it might: what the configuration lacks, else a person's word, else
 * its targets, else a limit that what is due waits for. */
static struct span held_by(const struct queue_view *view)
{
    static const char *const holds[] = {[QUEUE_HOLD_MISSING] = "missing",
                                        [QUEUE_HOLD_SETTINGS] = "settings",
                                        [QUEUE_HOLD_TARGETS] = "targets"};

    if (view->hold != QUEUE_HOLD_NONE) {
        return span_of(holds[view->hold]);
    }
    if (view->paused) {
        return SPAN("paused");
    }
    size_t count = view->settings != NULL ? view->settings->target_count : 0;
    bool are_stopped = count > 0 && view->stopped == (UINT32_C(1) << count) - 1;
    return view->outage_since_ms != 0 ? SPAN("outage")
           : are_stopped              ? SPAN("stopped")
                                      : slowed_by(view->held);
}

static void write_held(struct writer *writer, const struct queue_view *view)
{
    write_optional(writer, "held_by", held_by(view));
    write_optional(writer, "held_because", view->hold_why);
}

void render_queue(struct writer *writer, const struct queue_view *view, render_settings_fn show)
{
    write_open(writer, '{');
    write_named_text(writer, "name", view->name);
    write_name(writer, "paused");
    write_bool(writer, view->paused);
    write_name(writer, "in_file");
    write_bool(writer, view->in_file);
    write_queue_counts(writer, view);
    write_named_uint(writer, "dead_letters", view->counts[TASK_DEAD]);
    write_named_uint(writer, "due", view->due_count);
    write_named_uint(writer, "in_flight", view->in_flight);
    write_held(writer, view);
    write_time_or_null(writer, "outage_since", view->outage_since_ms);
    write_name(writer, "stopped");
    write_open(writer, '[');
    for (size_t i = 0; view->settings != NULL && i < view->settings->target_count; i++) {
        if ((view->stopped >> i & 1) != 0) {
            write_text(writer, view->settings->targets[i].name);
        }
    }
    write_close(writer, ']');
    if (show != NULL && view->settings != NULL) {
        write_name(writer, "settings");
        write_json(writer, SPAN(""));
        if (writer->failed == 0) {
            writer->failed = show(view->settings, writer->out);
        }
    }
    write_close(writer, '}');
}
