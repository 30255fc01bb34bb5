/* SPDX-License-Identifier: MIT
 *
 * store_json_members -- see store_json_internal.h. Whoever adds a field to a task, life, answer or
 * trail adds its line here, and it is written and read.
 */
#include "store/store_json_internal.h"

#define REQUIRED(name, kind, type, field)                                                          \
    {                                                                                              \
        name, kind, MEMBER_REQUIRED, offsetof(type, field)                                         \
    }
#define OPTIONAL(name, kind, type, field)                                                          \
    {                                                                                              \
        name, kind, MEMBER_OPTIONAL, offsetof(type, field)                                         \
    }

const struct member members_task[] = {
    REQUIRED("id", MEMBER_ID, struct record, task.id),
    REQUIRED("state", MEMBER_STATE, struct record, life.state),
    REQUIRED("due_at", MEMBER_TIME, struct record, life.due_at_ms),
    OPTIONAL("deadline_at", MEMBER_TIME, struct record, life.deadline_at_ms),
    OPTIONAL("settled_at", MEMBER_TIME, struct record, life.settled_at_ms),
    REQUIRED("attempts", MEMBER_U32, struct record, life.attempts),
    OPTIONAL("attempts_all", MEMBER_U32, struct record, life.attempts_all),
    OPTIONAL("round", MEMBER_U32, struct record, life.round),
    OPTIONAL("class_attempts", MEMBER_CLASSES, struct record, life.class_attempts),
    OPTIONAL("previous_ms", MEMBER_U64, struct record, life.previous_ms),
    OPTIONAL("wait_ms", MEMBER_MS, struct record, life.wait_ms),
    OPTIONAL("fence", MEMBER_U64, struct record, life.fence),
    OPTIONAL("epoch", MEMBER_U64, struct record, life.epoch),
    OPTIONAL("flags", MEMBER_FLAGS, struct record, life.flags),
    OPTIONAL("failed_class", MEMBER_CLASS_FROM1, struct record, life.failed_class),
    OPTIONAL("failed_at", MEMBER_TIME, struct record, life.failed_at_ms),
    OPTIONAL("resolved_at", MEMBER_TIME, struct record, life.resolved_at_ms),
    OPTIONAL("keep_until", MEMBER_TIME, struct record, life.keep_until_ms),
    OPTIONAL("probe_count", MEMBER_U32, struct record, life.probe_count),
    OPTIONAL("probe_due", MEMBER_TIME, struct record, life.probe_due_ms),
    OPTIONAL("scope", MEMBER_TEXT, struct record, task.scope),
    OPTIONAL("key", MEMBER_TEXT, struct record, task.key),
    OPTIONAL("key_bound", MEMBER_BOUND, struct record, is_bound),
    REQUIRED("fingerprint", MEMBER_FINGERPRINT, struct record, task.fingerprint),
    OPTIONAL("method", MEMBER_TEXT, struct record, task.method),
    OPTIONAL("target", MEMBER_TEXT, struct record, task.target),
    OPTIONAL("labels", MEMBER_FIELDS, struct record, task.labels),
    OPTIONAL("options", MEMBER_FIELDS, struct record, task.options),
    OPTIONAL("headers", MEMBER_FIELDS, struct record, task.headers),
    OPTIONAL("body", MEMBER_TEXT, struct record, task.body),
    {.name = NULL},
};

const struct member members_answer[] = {
    REQUIRED("status", MEMBER_INT, struct answer, status),
    OPTIONAL("settled_by", MEMBER_TEXT, struct answer, settled_by),
    OPTIONAL("headers", MEMBER_FIELDS, struct answer, headers),
    OPTIONAL("body", MEMBER_TEXT, struct answer, body),
    {.name = NULL},
};

const struct member members_edit[] = {
    OPTIONAL("changes", MEMBER_PARTS, struct edit, parts),
    OPTIONAL("round", MEMBER_U32, struct edit, round),
    OPTIONAL("note", MEMBER_TEXT, struct edit, note),
    OPTIONAL("target", MEMBER_TEXT, struct edit, target),
    OPTIONAL("headers", MEMBER_FIELDS, struct edit, headers),
    OPTIONAL("body", MEMBER_TEXT, struct edit, body),
    {.name = NULL},
};

const struct member members_trail[] = {
    REQUIRED("attempt", MEMBER_U32, struct trail_row, attempt),
    OPTIONAL("target", MEMBER_TEXT, struct trail_row, target),
    REQUIRED("started_at", MEMBER_TIME, struct trail_row, started_at_ms),
    REQUIRED("ended_at", MEMBER_TIME, struct trail_row, ended_at_ms),
    OPTIONAL("class", MEMBER_CLASS, struct trail_row, error_class),
    OPTIONAL("status", MEMBER_INT, struct trail_row, status),
    REQUIRED("sent", MEMBER_SENT, struct trail_row, sent),
    OPTIONAL("sends", MEMBER_U32, struct trail_row, sends),
    OPTIONAL("message", MEMBER_TEXT, struct trail_row, message),
    OPTIONAL("wait_ms", MEMBER_MS, struct trail_row, wait_ms),
    {.name = NULL},
};

const struct member members_queue[] = {
    REQUIRED("number", MEMBER_U32, struct queue_row, number),
    REQUIRED("name", MEMBER_TEXT, struct queue_row, name),
    OPTIONAL("paused", MEMBER_BOOL, struct queue_row, paused),
    OPTIONAL("dropped", MEMBER_BOOL, struct queue_row, dropped),
    OPTIONAL("settings", MEMBER_TEXT, struct queue_row, settings),
    {.name = NULL},
};

const struct member members_memo[] = {
    REQUIRED("name", MEMBER_TEXT, struct memo, name),
    REQUIRED("value", MEMBER_TEXT, struct memo, value),
    {.name = NULL},
};

const struct member members_audit[] = {
    REQUIRED("number", MEMBER_MS, struct audit_row, number),
    REQUIRED("at", MEMBER_TIME, struct audit_row, at_ms),
    OPTIONAL("who", MEMBER_TEXT, struct audit_row, who),
    OPTIONAL("act", MEMBER_TEXT, struct audit_row, act),
    OPTIONAL("task", MEMBER_ID, struct audit_row, task),
    OPTIONAL("subject", MEMBER_TEXT, struct audit_row, subject),
    OPTIONAL("from", MEMBER_STATE_MAYBE, struct audit_row, from_state),
    OPTIONAL("to", MEMBER_STATE_MAYBE, struct audit_row, to_state),
    OPTIONAL("note", MEMBER_TEXT, struct audit_row, note),
    {.name = NULL},
};

const char *member_state_word(enum task_state state)
{
    return state == TASK_DEAD ? "dead" : task_state_text(state);
}

struct flag_word {
    uint32_t bit;
    const char *word;
};

const char *member_flag_word(enum member_kind kind, size_t index, uint32_t *ret_bit)
{
    static const struct flag_word flags[] = {
        {LIFE_SENT, "sent"},         {LIFE_ANSWERED, "answered"}, {LIFE_FORCED, "forced"},
        {LIFE_UNFRAMED, "unframed"}, {LIFE_ONCE, "once"},         {LIFE_PULL, "pull"},
        {LIFE_LETTER, "letter"},     {LIFE_LOW, "low"},           {LIFE_EDITED, "edited"},
        {LIFE_ROUTE, "route"},       {LIFE_OMITTED, "omitted"},   {LIFE_TRUNCATED, "truncated"},
        {LIFE_TARGETS, "targets"},   {LIFE_UNTOLD, "untold"},
    };
    _Static_assert((1u << sizeof flags / sizeof *flags) == LIFE_FLAGS_END, "a word for every flag");
    static const struct flag_word parts[] = {
        {EDIT_TARGET, "target"}, {EDIT_HEADERS, "headers"}, {EDIT_BODY, "body"}};
    const struct flag_word *words = kind == MEMBER_PARTS ? parts : flags;
    size_t count =
        kind == MEMBER_PARTS ? sizeof parts / sizeof *parts : sizeof flags / sizeof *flags;

    if (index >= count) {
        return NULL;
    }
    *ret_bit = words[index].bit;
    return words[index].word;
}

bool member_has_edit(const struct edit *edit)
{
    return edit->parts != 0 || edit->round != 0 || edit->target.len > 0 || edit->headers.len > 0 ||
           edit->body.len > 0 || edit->note.len > 0;
}
