/* SPDX-License-Identifier: MIT
 *
 * task -- words and simple rules about tasks. See task.h.
 */
#include "task/task.h"

static const char *const state_words[TASK_STATE_COUNT] = {
#define ROW(name, value, word) [value] = word,
    TASK_STATE_MAP(ROW)
#undef ROW
};

const char *task_state_text(enum task_state state)
{
    return (unsigned)state < TASK_STATE_COUNT ? state_words[state] : "unknown";
}

bool task_state_parse(struct span word, unsigned *ret_states)
{
    unsigned states = 0;

    for (unsigned i = 0; i < TASK_STATE_COUNT; i++) {
        states |= span_is(word, state_words[i]) ? 1u << i : 0;
    }
    if (states == 0) {
        return false;
    }
    *ret_states = states;
    return true;
}

bool task_is_settled(enum task_state state)
{
    return state == TASK_SUCCEEDED || state == TASK_FAILED || state == TASK_DEAD ||
           state == TASK_CANCELLED;
}

/* --- dead letters ------------------------------------------------------------------------------ */

static const char *const letter_words[] = {
    [LETTER_NONE] = "none",
    [LETTER_FAILED] = "failed",
    [LETTER_RETRYING] = "retrying",
    [LETTER_RESOLVED] = "resolved",
};

/* Of a life that is or was a dead letter. */
static enum letter_status status_of(enum task_state state)
{
    switch (state) {
    case TASK_DEAD:
        return LETTER_FAILED;
    case TASK_WAITING:
    case TASK_RUNNING:
    case TASK_UNSETTLED:
        return LETTER_RETRYING;
    case TASK_SUCCEEDED:
    case TASK_FAILED:
    case TASK_CANCELLED:
    case TASK_GONE:
    case TASK_STATE_COUNT:
    default:
        return LETTER_RESOLVED;
    }
}

enum letter_status letter_status(const struct life *life)
{
    return (life->flags & LIFE_LETTER) != 0 ? status_of(life->state) : LETTER_NONE;
}

const char *letter_status_text(enum letter_status status)
{
    return (unsigned)status <= LETTER_RESOLVED ? letter_words[status] : "unknown";
}

unsigned letter_status_states(struct span word)
{
    unsigned states = 0;

    for (int i = 0; i < TASK_STATE_COUNT; i++) {
        bool is_it = span_is(word, letter_words[status_of((enum task_state)i)]);
        states |= is_it ? 1u << i : 0;
    }
    return states;
}

bool letter_is_retryable(const struct life *life)
{
    switch ((int)life->failed_class - 1) {
    case DARUMA_CLASS_TRANSIENT:
    case DARUMA_CLASS_RATE_LIMITED:
    case DARUMA_CLASS_QUOTA:
    case DARUMA_CLASS_EXPIRED: /* a redrive starts a new deadline */
        return true;
    default:
        return false;
    }
}

/* ------------------------------------------------------------------------------------------------ */

const char *task_sent_text(enum task_sent sent)
{
    static const char *const words[] = {"no", "maybe", "yes"};

    return (unsigned)sent <= TASK_SENT_YES ? words[sent] : "unknown";
}

static bool is_name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '_' || byte == '.';
}

bool task_queue_name_is_valid(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (!is_name_byte(name.at[i])) {
            return false;
        }
    }
    return name.len > 0 && name.len <= TASK_QUEUE_NAME_MAX && name.at[0] != '.';
}

bool task_key_is_valid(struct span key)
{
    for (size_t i = 0; i < key.len; i++) {
        if (key.at[i] < 0x21 || key.at[i] > 0x7e) {
            return false;
        }
    }
    return key.len > 0 && key.len <= TASK_KEY_MAX;
}
