/* SPDX-License-Identifier: MIT
 *
 * reply_letters -- answers about dead letters, redrives, unsettled tasks, leases and the audit
 * trail. See reply.c.
 */
#include "edge/edge_internal.h"

#include "edge/api.h"
#include "edge/render.h"

#include <inttypes.h>
#include <stdio.h>

static const struct queue_view *queue_of(const struct reply *reply, const struct record *record)
{
    for (size_t i = 0; i < reply->queue_count; i++) {
        if (reply->queues[i].number == record->task.queue) {
            return &reply->queues[i];
        }
    }
    return NULL;
}

static struct span queue_name(const struct reply *reply, const struct record *record)
{
    const struct queue_view *queue = queue_of(reply, record);

    return queue != NULL ? queue->name : SPAN("");
}

static void write_next(struct writer *writer, int64_t next)
{
    char cursor[24];

    write_name(writer, "next");
    if (next != 0) {
        (void)snprintf(cursor, sizeof cursor, "%" PRId64, next); /* fits */
        write_text(writer, span_of(cursor));
    } else {
        write_null(writer);
    }
}

/* --- letters ----------------------------------------------------------------------------------------- */

/* What failed of the gateway is told to its callers, and is theirs to send anew. */
static struct span never_a_letter(const struct life *life)
{
    return (life->flags & LIFE_ROUTE) != 0 ? SPAN("a request of the gateway is no dead letter: its "
                                                  "callers are told how it ended")
                                           : SPAN("this task never failed for good");
}

/* 202 to whoever sends it on, 200 to whoever looks or closes. */
static void answer_letter(struct exchange *exchange, const struct reply *reply)
{
    const struct record *record = &reply->records[0];
    struct writer writer;

    if ((record->life.flags & LIFE_LETTER) == 0) {
        exchange_refuse(exchange, PROBLEM_LETTER_UNKNOWN, never_a_letter(&record->life), SPAN(""));
        return;
    }
    if (exchange_begin(exchange, exchange->asked == ASK_REDRIVE ? 202 : 200, &writer) != NULL) {
        render_letter(&writer, record,
                      &(struct render_task){.queue = queue_name(reply, record),
                                            .attempts_max = answer_attempts_max(
                                                exchange, record, queue_of(reply, record)),
                                            .parts = RENDER_BODIES | RENDER_LIFE});
        exchange_finish(exchange, &writer);
    }
}

static void answer_letters(struct exchange *exchange, const struct reply *reply)
{
    struct writer writer;

    if (exchange_begin(exchange, 200, &writer) == NULL) {
        return;
    }
    write_open(&writer, '{');
    write_name(&writer, "dead_letters");
    write_open(&writer, '[');
    for (size_t i = 0; i < reply->record_count; i++) {
        const struct record *record = &reply->records[i];
        render_letter(&writer, record, &(struct render_task){.queue = queue_name(reply, record)});
    }
    write_close(&writer, ']');
    write_next(&writer, reply->next_row);
    write_close(&writer, '}');
    exchange_finish(exchange, &writer);
}

static void answer_unsettled(struct exchange *exchange, const struct reply *reply)
{
    struct writer writer;

    if (exchange_begin(exchange, 200, &writer) == NULL) {
        return;
    }
    write_open(&writer, '{');
    write_name(&writer, "unsettled");
    write_open(&writer, '[');
    for (size_t i = 0; i < reply->record_count; i++) {
        const struct record *record = &reply->records[i];
        render_task(&writer, record,
                    &(struct render_task){.queue = queue_name(reply, record),
                                          .attempts_max = answer_attempts_max(
                                              exchange, record, queue_of(reply, record)),
                                          .parts = RENDER_REQUEST | RENDER_ERROR});
    }
    write_close(&writer, ']');
    write_next(&writer, reply->next_row);
    write_close(&writer, '}');
    exchange_finish(exchange, &writer);
}

/* 409, and what it is instead. */
static void answer_other_state(struct exchange *exchange, const struct reply *reply,
                               enum problem problem)
{
    char detail[160] = "";

    if (reply->record_count > 0) {
        const struct life *life = &reply->records[0].life;
        bool is_letter = letter_status(life) != LETTER_NONE;
        bool is_caller_s = problem == PROBLEM_NOT_DEAD && (life->flags & LIFE_ROUTE) != 0;
        struct span why = is_caller_s ? never_a_letter(life) : SPAN("");
        (void)snprintf(detail, sizeof detail, "the task is %s%s%s%s%.*s",
                       task_state_text(life->state), is_letter ? ", the dead letter " : "",
                       is_letter ? letter_status_text(letter_status(life)) : "",
                       is_caller_s ? "; " : "", SPAN_ARGS(why)); /* fits */
    }
    exchange_refuse(exchange, problem, span_of(detail), SPAN(""));
}

/* --- redrives ------------------------------------------------------------------------------------------ */

static void answer_redrive(struct exchange *exchange, const struct reply *reply)
{
    const struct redrive_view *redrive = &reply->redrive;
    uint64_t seen = redrive->redriven + redrive->skipped;
    bool is_begun = exchange->asked == ASK_REDRIVE_MANY;
    struct writer writer;
    char id[24];

    if (exchange_begin(exchange, is_begun && redrive->id != 0 ? 202 : 200, &writer) == NULL) {
        return;
    }
    (void)snprintf(id, sizeof id, "%" PRIu64, redrive->id); /* fits */
    write_open(&writer, '{');
    write_name(&writer, "redrive");
    if (redrive->id != 0) {
        write_text(&writer, span_of(id));
    } else {
        write_null(&writer);
    }
    write_named_uint(&writer, "matched", redrive->matched);
    if (!is_begun) {
        write_named_text(&writer, "state", span_of(redrive->state));
        write_named_uint(&writer, "redriven", redrive->redriven);
        write_named_uint(&writer, "skipped", redrive->skipped);
        write_named_uint(&writer, "left", seen < redrive->matched ? redrive->matched - seen : 0);
        write_name(&writer, "rate_per_second");
        write_number(&writer, redrive->rate_per_second);
        write_named_time(&writer, "started_at", redrive->started_at_ms);
    }
    write_close(&writer, '}');
    exchange_finish(exchange, &writer);
}

/* --- the audit trail ------------------------------------------------------------------------------------- */

static void write_state(struct writer *writer, const char *name, int state)
{
    write_name(writer, name);
    if (state < 0) {
        write_null(writer);
    } else {
        write_text(writer, span_of(task_state_text((enum task_state)state)));
    }
}

static void write_audit(struct writer *writer, const struct audit_row *row)
{
    char id[ID_TEXT_LEN + 1];

    id_format(row->task, id);
    write_open(writer, '{');
    write_named_time(writer, "at", row->at_ms);
    write_named_text(writer, "who", row->who);
    write_named_text(writer, "act", row->act);
    write_name(writer, "task");
    if (row->task.row != 0) {
        write_text(writer, span_of(id));
    } else {
        write_null(writer);
    }
    write_named_text(writer, "queue", row->subject);
    write_state(writer, "from", row->from_state);
    write_state(writer, "to", row->to_state);
    write_named_text(writer, "note", row->note);
    write_close(writer, '}');
}

static void answer_audit(struct exchange *exchange, const struct reply *reply)
{
    struct writer writer;

    if (exchange_begin(exchange, 200, &writer) == NULL) {
        return;
    }
    write_open(&writer, '{');
    write_name(&writer, "audit");
    write_open(&writer, '[');
    for (size_t i = 0; i < reply->audit_count; i++) {
        write_audit(&writer, &reply->audits[i]);
    }
    write_close(&writer, ']');
    write_next(&writer, reply->next_row);
    write_close(&writer, '}');
    exchange_finish(exchange, &writer);
}

/* --- leases ---------------------------------------------------------------------------------------------- */

static void write_lease(struct writer *writer, const struct reply *reply,
                        const struct record *record)
{
    const struct queue_view *queue = queue_of(reply, record);
    char lease[LEASE_TEXT_MAX];

    lease_format(record, lease);
    write_open(writer, '{');
    write_named_text(writer, "lease", span_of(lease));
    write_named_time(writer, "lease_until", record->life.due_at_ms);
    write_name(writer, "task");
    render_task(writer, record,
                &(struct render_task){.queue = queue_name(reply, record),
                                      .attempts_max = queue != NULL ? queue->attempts_max : 0,
                                      .parts = RENDER_REQUEST | RENDER_BODIES | RENDER_SECRETS});
    write_close(writer, '}');
}

static void answer_leases(struct exchange *exchange, const struct reply *reply)
{
    size_t count = reply->record_count;
    struct writer writer;

    edge_stop_waiting(exchange);
    if (edge_peer_is_gone(exchange)) { /* one who only half-closed is told of none either */
        leases_return(exchange->edge, reply->records, count);
        count = 0;
    }
    if (exchange_begin(exchange, 200, &writer) == NULL) {
        return;
    }
    write_open(&writer, '{');
    write_name(&writer, "leases");
    write_open(&writer, '[');
    for (size_t i = 0; i < count; i++) {
        write_lease(&writer, reply, &reply->records[i]);
    }
    write_close(&writer, ']');
    write_close(&writer, '}');
    exchange_finish(exchange, &writer);
}

static void answer_lease_results(struct exchange *exchange, const struct reply *reply)
{
    static const char *const words[] = {"settled", "waiting", "extended", "stale"};
    struct writer writer;

    if (exchange_begin(exchange, 200, &writer) == NULL) {
        return;
    }
    write_open(&writer, '{');
    write_name(&writer, "results");
    write_open(&writer, '[');
    for (size_t i = 0; i < reply->result_count; i++) {
        write_open(&writer, '{');
        write_named_text(&writer, "lease", reply->results[i].lease);
        write_named_text(&writer, "result", span_of(words[reply->results[i].result]));
        write_close(&writer, '}');
    }
    write_close(&writer, ']');
    write_close(&writer, '}');
    exchange_finish(exchange, &writer);
}

static void refuse(struct exchange *exchange, enum problem problem)
{
    exchange_refuse(exchange, problem, SPAN(""), SPAN(""));
}

void answer_act(struct exchange *exchange, const struct reply *reply)
{
    switch (reply->kind) {
    case REPLY_LETTER:
        answer_letter(exchange, reply);
        return;
    case REPLY_LETTERS:
        answer_letters(exchange, reply);
        return;
    case REPLY_UNSETTLED:
        answer_unsettled(exchange, reply);
        return;
    case REPLY_NOT_DEAD:
        answer_other_state(exchange, reply, PROBLEM_NOT_DEAD);
        return;
    case REPLY_NOT_UNSETTLED:
        answer_other_state(exchange, reply, PROBLEM_NOT_UNSETTLED);
        return;
    case REPLY_ANSWERED:
        refuse(exchange, PROBLEM_ANSWERED);
        return;
    case REPLY_RESERVED:
        refuse(exchange, PROBLEM_QUEUE_RESERVED);
        return;
    case REPLY_REDRIVE:
        answer_redrive(exchange, reply);
        return;
    case REPLY_UNKNOWN_REDRIVE:
        refuse(exchange, PROBLEM_REDRIVE_UNKNOWN);
        return;
    case REPLY_AUDIT:
        answer_audit(exchange, reply);
        return;
    case REPLY_LEASES:
        answer_leases(exchange, reply);
        return;
    case REPLY_LEASE_RESULTS:
        answer_lease_results(exchange, reply);
        return;
    case REPLY_PUSHED:
        refuse(exchange, PROBLEM_QUEUE_PUSHED);
        return;
    default:
        refuse(exchange, PROBLEM_INTERNAL); /* reply.c has answered all the others */
        return;
    }
}
