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
    OPTIONAL("scope", MEMBER_TEXT, struct record, task.scope),
    OPTIONAL("key", MEMBER_TEXT, struct record, task.key),
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

const char *member_state_word(enum task_state state)
{
    return state == TASK_DEAD ? "dead" : task_state_text(state);
}

const char *member_flag_word(size_t index, uint32_t *ret_bit)
{
    static const struct {
        uint32_t bit;
        const char *word;
    } flags[] = {
        {LIFE_SENT, "sent"},         {LIFE_ANSWERED, "answered"}, {LIFE_FORCED, "forced"},
        {LIFE_UNFRAMED, "unframed"}, {LIFE_ONCE, "once"},
    };

    if (index >= sizeof flags / sizeof *flags) {
        return NULL;
    }
    *ret_bit = flags[index].bit;
    return flags[index].word;
}
