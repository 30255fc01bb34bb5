/* SPDX-License-Identifier: MIT
 *
 * letters -- what a person does to one task that did not work out: redrive a dead letter, close it,
 * or say what became of a task whose outcome nobody knew. The task is read first, since what is to
 * be written depends on it; the operation that follows is conditional on the fence that was seen, so
 * of two people (or a person and a late answer) exactly one has it their way (I2).
 *
 *   letters_ask --> read --> refused: it is not what it was taken for
 *                     '----> REDRIVE | RESOLVE | SETTLE, with its audit row --> reply with the task
 */
#include "engine/hold_internal.h"
#include "task/secrets.h"
#include "task/url.h"

#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_STATUS_DONE 200 /* of an end that a person vouches for, without an answer */
#define LEFT_OUT_BYTES      512 /* of a note that names what was left out */

static void refuse(struct engine *engine, struct errand *errand, enum reply_kind kind,
                   const struct record *record)
{
    engine_reply(engine, &(struct reply){.kind = kind,
                                         .exchange = errand->exchange,
                                         .records = record,
                                         .record_count = record != NULL});
    errand_free(errand);
}

/* --- what is to be written ------------------------------------------------------------------------- */

static struct span pick(struct errand *errand, const struct edit *now, const struct edit *before,
                        unsigned part, struct span given, struct span kept)
{
    if ((now->parts & part) != 0) {
        return given;
    }
    return (before->parts & part) != 0 ? arena_copy(errand->arena, kept) : (struct span){"", 0};
}

/* Did it go there before? To the targets of its queue, unless it has one of its own. */
static bool is_known_origin(const struct queue *queue, const struct record *record,
                            struct span target)
{
    const struct edit *before = &record->edit;

    if ((before->parts & EDIT_TARGET) != 0) {
        return url_is_same_origin(before->target, target);
    }
    if (record->task.target.len > 0) {
        return url_is_same_origin(record->task.target, target);
    }
    for (size_t i = 0; queue != NULL && i < queue->settings.target_count; i++) {
        if (url_is_same_origin(queue->settings.targets[i].url, target)) {
            return true;
        }
    }
    return false;
}

/* The audit trail names what was left out. */
static void note_left_out(struct errand *errand, struct span names)
{
    char note[LEFT_OUT_BYTES];

    (void)snprintf(note, sizeof note, "%.*s; left out: %.*s", SPAN_ARGS(errand->audit.note),
                   SPAN_ARGS(names)); /* cut if long */
    errand->audit.note = arena_copy(errand->arena, span_of(note));
}

/* What has a secret's name was meant for the origin before: to another one it goes only if the same
 * call says so. False: no memory. */
static bool leave_secrets(struct errand *errand, struct span headers)
{
    struct buf rest, names;

    buf_init(&rest, headers.len);
    buf_init(&names, 2 * headers.len); /* each with what sets it apart */
    bool is_split = secrets_split_fields(headers, &rest, &names) == 0;
    if (is_split && names.len > 0) {
        errand->edit.parts |= EDIT_HEADERS;
        errand->edit.headers = arena_copy(errand->arena, buf_span(&rest));
        note_left_out(errand, buf_span(&names));
    }
    buf_done(&rest);
    buf_done(&names);
    return is_split;
}

/* The same for an edit that says nothing else. */
static bool leave_secrets_behind(const struct queue *queue, struct errand *errand,
                                 const struct record *record)
{
    const struct edit *now = &errand->edit, *before = &record->edit;

    if ((now->parts & EDIT_TARGET) == 0 || (now->parts & EDIT_HEADERS) != 0 ||
        is_known_origin(queue, record, now->target)) {
        return true;
    }
    return leave_secrets(errand, (before->parts & EDIT_HEADERS) != 0 ? before->headers
                                                                     : record->task.headers);
}

/* An edit stands until another one replaces it, part by part. False: no memory, and a request with
 * half of its edit is not what anybody asked for. */
static bool merge_edit(struct errand *errand, const struct record *record)
{
    const struct edit now = errand->edit, *before = &record->edit;
    struct edit *edit = &errand->edit;

    edit->target = pick(errand, &now, before, EDIT_TARGET, now.target, before->target);
    edit->headers = pick(errand, &now, before, EDIT_HEADERS, now.headers, before->headers);
    edit->body = pick(errand, &now, before, EDIT_BODY, now.body, before->body);
    edit->parts = now.parts | before->parts;
    edit->round =
        (now.parts & (EDIT_TARGET | EDIT_BODY)) != 0 ? record->life.round + 1 : before->round;
    edit->note = now.note.len > 0 ? now.note : arena_copy(errand->arena, before->note);
    if (edit->parts != 0 || edit->note.len > 0) {
        errand->op.edit = edit;
    }
    return edit->target.at != NULL && edit->headers.at != NULL && edit->body.at != NULL &&
           edit->note.at != NULL;
}

static bool fill_redrive(struct engine *engine, struct errand *errand, const struct record *record)
{
    struct task_options options;

    options_read(record->task.options, &options);
    engine->deadlines.are_there |= options.deadline_ms != 0;
    errand->op.is_as_seen = true;
    errand->op.life.fence = record->life.fence;
    errand->op.life.round = record->life.round;
    errand->op.life.deadline_at_ms =
        options.deadline_ms != 0 ? engine_now_ms(engine) + options.deadline_ms : 0;
    return leave_secrets_behind(engine_queue_at(engine, record->task.queue), errand, record) &&
           merge_edit(errand, record);
}

static void end_life(struct life *life, enum task_state state, int64_t now_ms)
{
    life->state = state;
    life->settled_at_ms = now_ms;
    life->wait_ms = 0;
    life->probe_due_ms = 0;
    if (state == TASK_DEAD) {
        life->flags |= LIFE_LETTER;
        life->failed_at_ms = now_ms;
    } else if ((life->flags & LIFE_LETTER) != 0) {
        life->resolved_at_ms = now_ms;
    }
}

static bool fill_settle(struct engine *engine, struct errand *errand, const struct record *record)
{
    struct life *life = &errand->op.life;
    int64_t now_ms = engine_now_ms(engine);

    *life = record->life;
    if (errand->settlement == SETTLEMENT_NOT_DONE) {
        life->state = TASK_WAITING;
        life->due_at_ms = now_ms;
        life->wait_ms = 0;
        life->probe_count = 0;
        life->probe_due_ms = 0;
        errand->op.uncounts = true; /* provably no attempt at anything */
        route_settled_by_hand(engine_queue_at(engine, record->task.queue), life, now_ms);
        return true;
    }
    bool is_done = errand->settlement == SETTLEMENT_SUCCEEDED;
    end_life(life, is_done ? TASK_SUCCEEDED : TASK_DEAD, now_ms);
    route_settled_by_hand(engine_queue_at(engine, record->task.queue), life, now_ms);
    if (errand->answer.status == 0 && is_done) {
        errand->answer.status = DEFAULT_STATUS_DONE;
    }
    if (errand->answer.status != 0) {
        errand->answer.settled_by = errand->audit.who;
        errand->op.answer = &errand->answer;
    }
    struct record ended = *record;
    ended.life = *life;
    ended.answer = errand->answer;
    errand->op.spawn = callback_make(engine, &ended, errand->arena);
    return true;
}

/* --- the flow ---------------------------------------------------------------------------------------- */

static enum reply_kind refusal_of(const struct op *op)
{
    switch (op->result) {
    case RESULT_MISSING:
        return REPLY_UNKNOWN_TASK;
    case RESULT_NO_QUEUE:
        return REPLY_UNKNOWN_QUEUE;
    case RESULT_ANSWERED:
        return REPLY_ANSWERED;
    case RESULT_STALE:
        return REPLY_NOT_UNSETTLED;
    default:
        return REPLY_NOT_DEAD;
    }
}

/* Of a deleted queue: it is purged, but not before it was shown to the one who settled it. */
static void follow_homeless(struct engine *engine, struct queue *queue, const struct op *op)
{
    if (queue != NULL) {
        engine_count_move(engine, queue, op->was_state, &op->life);
    }
    if (op->spawn != NULL) {
        callback_born(engine, op->spawn);
        dispatch_queue(engine, engine->callbacks);
    }
    inspect_wake(engine, op->task.id);
    leftovers_note(engine, op->task.queue);
}

static void act_done(struct engine *engine, struct errand *errand)
{
    const struct op *op = &errand->op;
    struct queue *queue = engine_queue_at(engine, op->task.queue);
    const struct record found = {.task = {.id = op->task.id, .queue = op->task.queue},
                                 .life = op->life};

    if (op->fault != 0) {
        engine_reply_fault(engine, errand->exchange, 0, &op->error);
        errand_free(errand);
        return;
    }
    if (op->result == RESULT_NO_QUEUE && queue != NULL) {
        queues_drop(engine, queue);
    }
    if (op->result != RESULT_DONE) {
        refuse(engine, errand, refusal_of(op), op->result == RESULT_MISSING ? NULL : &found);
        return;
    }
    engine->stats.redriven += op->kind == OP_REDRIVE;
    engine->stats.resolved += op->kind == OP_RESOLVE;
    engine->stats.manual[errand->is_edited ? MANUAL_EDITED : MANUAL_REDRIVE] +=
        op->kind == OP_REDRIVE;
    engine->stats.manual[MANUAL_NOT_DONE] +=
        op->kind == OP_SETTLE && errand->settlement == SETTLEMENT_NOT_DONE;
    if (op->kind == OP_RESOLVE && queue != NULL) {
        numbers_closed(engine, queue, &op->life);
    }
    bool is_homeless = queue == NULL || queue->dropped;
    if (op->kind == OP_SETTLE && is_homeless) {
        follow_homeless(engine, queue, op);
    } else if (op->kind == OP_SETTLE) {
        if (!op->uncounts) {
            settle_log(engine, queue, op->task.id, &op->life,
                       &(struct settle_cause){.attempts = op->life.attempts});
        }
        settle_follow(engine, queue, op->task.id, op);
    } else if (queue != NULL) {
        engine_count_move(engine, queue, op->was_state, &op->life);
        engine_schedule(engine, queue, &op->life, op->task.id.row);
        inspect_wake(engine, op->task.id);
    }
    inspect_read_acted(engine, op->task.id, op->kind == OP_SETTLE ? REPLY_TASK : REPLY_LETTER,
                       errand->exchange);
    if (queue != NULL) {
        dispatch_queue(engine, queue);
    }
    errand_free(errand);
}

static void act_read(struct engine *engine, struct read *read)
{
    struct errand *errand = read->errand;
    const struct record *record = read->records;
    uint64_t exchange = errand->exchange;
    bool is_settle = errand->op.kind == OP_SETTLE;

    if (read->fault != 0) {
        engine_reply_fault(engine, exchange, 0, &read->error);
        errand_free(errand);
        return;
    }
    if (read->record_count == 0) {
        refuse(engine, errand, REPLY_UNKNOWN_TASK, NULL);
        return;
    }
    if (record->life.state != (is_settle ? TASK_UNSETTLED : TASK_DEAD)) {
        refuse(engine, errand, is_settle ? REPLY_NOT_UNSETTLED : REPLY_NOT_DEAD, record);
        return;
    }
    const struct queue *queue = engine_queue_at(engine, record->task.queue);
    bool is_homeless = queue == NULL || queue->dropped;
    if (is_settle && errand->settlement == SETTLEMENT_NOT_DONE && is_homeless) {
        refuse(engine, errand, REPLY_QUEUE_DELETED, NULL); /* there is nothing to send it by */
        return;
    }
    bool is_sent_again =
        is_settle ? errand->settlement == SETTLEMENT_NOT_DONE : errand->op.kind == OP_REDRIVE;
    if (is_sent_again && queue != NULL && hold_is_shut(queue)) {
        refuse(engine, errand, hold_reply(queue), NULL); /* likewise */
        return;
    }
    if (errand->edit.parts != 0 && queue != NULL && span_starts(queue->name, "_")) {
        refuse(engine, errand, REPLY_RESERVED,
               NULL); /* what is signed there is the server's word */
        return;
    }
    errand->op.task.id = record->task.id;
    errand->op.now_ms = engine_now_ms(engine);
    if (!(is_settle ? fill_settle(engine, errand, record) : fill_redrive(engine, errand, record))) {
        errand_free(errand);
        inspect_no_room(engine, exchange, 0);
        return;
    }
    errand->audit.subject =
        queue != NULL ? arena_copy(errand->arena, queue->name) : (struct span){"", 0};
    if (!errand_start(engine, errand)) {
        inspect_no_room(engine, exchange, 0);
    }
}

static const char *settle_act(enum settlement settlement)
{
    switch (settlement) {
    case SETTLEMENT_SUCCEEDED:
        return "settle_succeeded";
    case SETTLEMENT_FAILED:
        return "settle_failed";
    case SETTLEMENT_NOT_DONE:
    default:
        return "settle_not_done";
    }
}

/* What was changed, for the audit trail; what it was changed to stands beside the request. */
static struct span list_parts(unsigned parts, char *text, size_t room)
{
    (void)snprintf(text, room, "changed:%s%s%s", (parts & EDIT_TARGET) != 0 ? " target" : "",
                   (parts & EDIT_HEADERS) != 0 ? " headers" : "",
                   (parts & EDIT_BODY) != 0 ? " body" : ""); /* fits */
    return span_of(text);
}

/* Was there memory for every word? */
static bool is_whole(const struct errand *errand)
{
    const struct edit *edit = &errand->edit;
    bool has_answer = errand->answer.status == 0 ||
                      (errand->answer.headers.at != NULL && errand->answer.body.at != NULL);

    return has_answer && edit->target.at != NULL && edit->headers.at != NULL &&
           edit->body.at != NULL && edit->note.at != NULL;
}

/* What was said is copied: the caller's spans are gone when this returns. */
static struct errand *note_down(struct engine *engine, const struct ask *ask)
{
    enum op_kind kind = ask->kind == ASK_SETTLE    ? OP_SETTLE
                        : ask->kind == ASK_RESOLVE ? OP_RESOLVE
                                                   : OP_REDRIVE;
    struct errand *errand = errand_new(engine, kind);

    if (errand == NULL) {
        return NULL;
    }
    errand->exchange = ask->exchange;
    errand->settlement = ask->settlement;
    errand->then = act_done;
    errand->is_edited = ask->edit.parts != 0;
    errand->edit = (struct edit){
        .parts = ask->edit.parts,
        .target = arena_copy(errand->arena, ask->edit.target),
        .headers = arena_copy(errand->arena, ask->edit.headers),
        .body = arena_copy(errand->arena, ask->edit.body),
        .note = arena_copy(errand->arena, kind == OP_RESOLVE ? ask->note : (struct span){"", 0})};
    if (ask->answer != NULL) {
        errand->answer = (struct answer){.status = ask->answer->status,
                                         .headers = arena_copy(errand->arena, ask->answer->headers),
                                         .body = arena_copy(errand->arena, ask->answer->body)};
    }
    struct ask noted = *ask;
    char changed[64];
    if (kind == OP_REDRIVE && ask->edit.parts != 0) {
        noted.note = list_parts(ask->edit.parts, changed, sizeof changed);
    }
    audit_fill(errand, &noted,
               kind == OP_SETTLE      ? settle_act(ask->settlement)
               : kind == OP_RESOLVE   ? "resolve"
               : ask->edit.parts != 0 ? "redrive_edited"
                                      : "redrive");
    if (!is_whole(errand)) {
        errand_free(errand);
        return NULL;
    }
    return errand;
}

void letters_ask(struct engine *engine, const struct ask *ask)
{
    struct errand *errand = note_down(engine, ask);
    struct read *read = errand != NULL ? inspect_new(READ_TASK) : NULL;

    if (read == NULL) {
        errand_free(errand);
        inspect_no_room(engine, ask->exchange, 0);
        return;
    }
    read->id = ask->id;
    read->wants = READ_BODIES | READ_LATEST;
    read->reach = ask->reach;
    read->errand = errand;
    read->then = act_read;
    if (!inspect_start(engine, read)) {
        errand_free(errand);
        inspect_no_room(engine, ask->exchange, 0);
    }
}
