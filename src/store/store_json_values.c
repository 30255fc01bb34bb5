/* SPDX-License-Identifier: MIT
 *
 * store_json_values -- see store_json_values.h.
 */
#include "store/store_json_values.h"

#include "task/fields.h"

#include <daruma/retry_after.h>

int load_no_memory(struct loading *loading)
{
    return fail(loading->err, FAULT_MEMORY, "%s: out of memory", loading->path);
}

/* Empty with at == NULL: not a string. */
static struct span string_of(const json_t *value)
{
    return (struct span){.at = json_string_value(value), .len = json_string_length(value)};
}

/* --- numbers ------------------------------------------------------------------------------------- */

static int load_int(struct loading *loading, const json_t *value, int64_t min, int64_t max,
                    int64_t *ret_number)
{
    int64_t number = json_integer_value(value);

    if (!json_is_integer(value) || number < min || number > max) {
        return load_damaged(loading, "a whole number from %lld to %lld is expected", (long long)min,
                            (long long)max);
    }
    *ret_number = number;
    return 0;
}

static int load_int32(struct loading *loading, const json_t *value, int *ret_number)
{
    int64_t number = 0;
    int failed = load_int(loading, value, INT32_MIN, INT32_MAX, &number);

    *ret_number = (int)number;
    return failed;
}

static int load_u32(struct loading *loading, const json_t *value, uint32_t *ret_number)
{
    int64_t number = 0;
    int failed = load_int(loading, value, 0, UINT32_MAX, &number);

    *ret_number = (uint32_t)number;
    return failed;
}

/* Above INT64_MAX it is text: one digit at a time. */
static bool parse_u64(struct span text, uint64_t *ret_number)
{
    int64_t front, last;

    if (text.len < 2 || text.at[0] == '-' || !span_to_int(span_until(text, text.len - 1), &front) ||
        !span_to_int(span_from(text, text.len - 1), &last) ||
        (uint64_t)front > (UINT64_MAX - (uint64_t)last) / 10) {
        return false;
    }
    *ret_number = (uint64_t)front * 10 + (uint64_t)last;
    return true;
}

static int load_u64(struct loading *loading, const json_t *value, uint64_t *ret_number)
{
    struct span text = string_of(value);
    int64_t number = 0;

    if (text.at != NULL && parse_u64(text, ret_number)) {
        return 0;
    }
    int failed = load_int(loading, value, 0, INT64_MAX, &number);
    *ret_number = (uint64_t)number;
    return failed;
}

static int load_time(struct loading *loading, const json_t *value, int64_t *ret_at_ms)
{
    struct span text = string_of(value);

    if (text.at != NULL ? daruma_rfc3339_parse(text.at, text.len, ret_at_ms)
                        : json_is_integer(value)) {
        *ret_at_ms = text.at != NULL ? *ret_at_ms : json_integer_value(value);
        return 0;
    }
    return load_damaged(loading, "a time is expected, like \"2026-11-15T10:20:30.123Z\"");
}

static int load_bool(struct loading *loading, const json_t *value, bool *ret_bool)
{
    if (!json_is_boolean(value)) {
        return load_damaged(loading, "true or false is expected");
    }
    *ret_bool = json_is_true(value);
    return 0;
}

/* --- words --------------------------------------------------------------------------------------- */

static int load_state(struct loading *loading, const json_t *value, enum task_state *ret_state)
{
    struct span word = string_of(value);

    for (int i = 0; word.at != NULL && i < TASK_STATE_COUNT; i++) {
        if (span_is(word, member_state_word((enum task_state)i))) {
            *ret_state = (enum task_state)i;
            return 0;
        }
    }
    return load_damaged(loading, "no such state of a task");
}

static int load_sent(struct loading *loading, const json_t *value, enum task_sent *ret_sent)
{
    struct span word = string_of(value);

    for (int i = TASK_SENT_NO; word.at != NULL && i <= TASK_SENT_YES; i++) {
        if (span_is(word, task_sent_text((enum task_sent)i))) {
            *ret_sent = (enum task_sent)i;
            return 0;
        }
    }
    return load_damaged(loading, "\"no\", \"maybe\" or \"yes\" is expected");
}

static int load_class(struct loading *loading, const json_t *value, int *ret_class)
{
    enum daruma_class found;

    if (json_is_integer(value)) {
        return load_int32(loading, value, ret_class);
    }
    if (!json_is_string(value) || !daruma_class_parse(json_string_value(value), &found)) {
        return load_damaged(loading, "no such class of errors");
    }
    *ret_class = (int)found;
    return 0;
}

/* The word of a class stands for its number and one. */
static int load_class_from1(struct loading *loading, const json_t *value, uint32_t *ret_class)
{
    int class = 0;

    if (json_is_integer(value)) {
        return load_u32(loading, value, ret_class);
    }
    int failed = load_class(loading, value, &class);
    *ret_class = failed == 0 ? (uint32_t) class + 1 : 0;
    return failed;
}

static int load_classes(struct loading *loading, const json_t *object, uint32_t *ret_counts)
{
    const char *word;
    json_t *value;
    enum daruma_class found;
    int failed = 0;

    if (!json_is_object(object)) {
        return load_damaged(loading, "an object is expected");
    }
    json_object_foreach((json_t *)(uintptr_t)object, word, value)
    {
        load_enter(loading, word, 0);
        failed = !daruma_class_parse(word, &found)
                     ? load_damaged(loading, "no such class of errors")
                     : load_u32(loading, value, &ret_counts[found]);
        load_leave(loading);
        if (failed != 0) {
            break;
        }
    }
    return failed;
}

static int load_flag(struct loading *loading, enum member_kind kind, const json_t *value,
                     uint32_t *ret_flags)
{
    struct span found = string_of(value);
    const char *word;

    if (json_is_integer(value)) {
        return load_u32(loading, value, ret_flags);
    }
    for (size_t i = 0; (word = member_flag_word(kind, i, ret_flags)) != NULL; i++) {
        if (found.at != NULL && span_is(found, word)) {
            return 0;
        }
    }
    return load_damaged(loading, "no such flag");
}

static int load_flags(struct loading *loading, enum member_kind kind, const json_t *list,
                      uint32_t *ret_flags)
{
    if (!json_is_array(list)) {
        return load_damaged(loading, "a list is expected");
    }
    *ret_flags = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        uint32_t flag = 0;
        load_enter(loading, NULL, i);
        int failed = load_flag(loading, kind, json_array_get(list, i), &flag);
        load_leave(loading);
        if (failed != 0) {
            return failed;
        }
        *ret_flags |= flag;
    }
    return 0;
}

/* --- bytes --------------------------------------------------------------------------------------- */

static int load_text(struct loading *loading, const json_t *value, struct span *ret_text)
{
    if (!json_is_string(value)) {
        return load_damaged(loading, "a text is expected");
    }
    *ret_text = string_of(value);
    return 0;
}

int load_base64(struct loading *loading, const json_t *value, struct span *ret_bytes)
{
    struct span text = string_of(value);
    size_t len;

    if (text.at == NULL) {
        return load_damaged(loading, "base64 is expected");
    }
    char *bytes = arena_alloc(loading->arena, text.len / 4 * 3 + 1);
    if (bytes == NULL) {
        return load_no_memory(loading);
    }
    if (!text_from_base64(text, bytes, &len)) {
        return load_damaged(loading, "base64 is expected");
    }
    *ret_bytes = (struct span){.at = bytes, .len = len};
    return 0;
}

static int add_pair(struct loading *loading, const json_t *pair, struct buf *fields)
{
    struct span name = string_of(json_array_get(pair, 0));
    struct span value = string_of(json_array_get(pair, 1));

    if (json_array_size(pair) != 2 || name.at == NULL || value.at == NULL) {
        return load_damaged(loading, "a pair of texts is expected: [\"name\", \"value\"]");
    }
    int failed = fields_add(fields, name, value);
    if (failed == FAULT_INPUT) {
        return load_damaged(loading, "a name without \":\" and a value on one line are expected");
    }
    return failed == 0 ? 0 : load_no_memory(loading);
}

static int load_fields(struct loading *loading, const json_t *list, struct span *ret_fields)
{
    struct buf fields;
    int failed = 0;

    if (!json_is_array(list)) {
        return load_damaged(loading, "a list is expected");
    }
    buf_init(&fields, LOAD_ARENA_MAX);
    for (size_t i = 0; i < json_array_size(list) && failed == 0; i++) {
        load_enter(loading, NULL, i);
        failed = add_pair(loading, json_array_get(list, i), &fields);
        load_leave(loading);
    }
    struct span copy = arena_copy(loading->arena, buf_span(&fields));
    buf_done(&fields);
    if (failed == 0 && copy.at == NULL) {
        failed = load_no_memory(loading);
    }
    *ret_fields = copy;
    return failed;
}

static int load_fingerprint(struct loading *loading, const json_t *value, unsigned char *ret_bytes)
{
    struct span text = string_of(value);

    if (text.at == NULL || !text_from_hex(text, ret_bytes, TASK_FINGERPRINT_BYTES)) {
        return load_damaged(loading, "%d hexadecimal digits are expected",
                            2 * TASK_FINGERPRINT_BYTES);
    }
    return 0;
}

static int load_id(struct loading *loading, const json_t *value, struct task_id *ret_id)
{
    struct span text = string_of(value);

    if (text.at != NULL && id_parse(text, ret_id)) {
        return 0;
    }
    if (json_array_size(value) != 2) {
        return load_damaged(loading, "the id of a task is expected");
    }
    int failed = load_int(loading, json_array_get(value, 0), 1, INT64_MAX, &ret_id->row);
    return failed != 0 ? failed : load_u64(loading, json_array_get(value, 1), &ret_id->tail);
}

int load_value(struct loading *loading, enum member_kind kind, const json_t *value, void *ret_field)
{
    switch (kind) {
    case MEMBER_BOOL:
    case MEMBER_BOUND:
        return load_bool(loading, value, ret_field);
    case MEMBER_INT:
        return load_int32(loading, value, ret_field);
    case MEMBER_U32:
        return load_u32(loading, value, ret_field);
    case MEMBER_U64:
        return load_u64(loading, value, ret_field);
    case MEMBER_MS:
        return load_int(loading, value, INT64_MIN, INT64_MAX, ret_field);
    case MEMBER_TIME:
        return load_time(loading, value, ret_field);
    case MEMBER_TEXT:
        return load_text(loading, value, ret_field);
    case MEMBER_FIELDS:
        return load_fields(loading, value, ret_field);
    case MEMBER_ID:
        return load_id(loading, value, ret_field);
    case MEMBER_STATE:
    case MEMBER_STATE_MAYBE:
        return load_state(loading, value, ret_field);
    case MEMBER_SENT:
        return load_sent(loading, value, ret_field);
    case MEMBER_CLASS:
        return load_class(loading, value, ret_field);
    case MEMBER_CLASS_FROM1:
        return load_class_from1(loading, value, ret_field);
    case MEMBER_CLASSES:
        return load_classes(loading, value, ret_field);
    case MEMBER_FLAGS:
    case MEMBER_PARTS:
        return load_flags(loading, kind, value, ret_field);
    case MEMBER_FINGERPRINT:
    default:
        return load_fingerprint(loading, value, ret_field);
    }
}
