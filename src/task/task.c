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
