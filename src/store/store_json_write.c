/* SPDX-License-Identifier: MIT
 *
 * store_json_write -- see store_json_internal.h. The same contents give the same bytes, two blanks to
 * a level and one member to a line: for people, for diff and for version control.
 */
#include "store/store_json_internal.h"

#include "base/clock.h"
#include "task/fields.h"

#define TIME_TEXT_MAX_MS INT64_C(253402300799999) /* the end of the year 9999 */

/* --- the frame ----------------------------------------------------------------------------------- */

static void add(struct page_out *out, struct span text)
{
    out->failed = out->failed != 0 ? out->failed : buf_add(out->buf, text);
}

static void add_string(struct page_out *out, struct span text)
{
    out->failed = out->failed != 0 ? out->failed : text_add_string(out->buf, text);
}

static void add_int(struct page_out *out, int64_t value)
{
    out->failed = out->failed != 0 ? out->failed : text_add_int(out->buf, value);
}

/* Past what a JSON integer of 64 bits can say: as text. */
static void add_uint(struct page_out *out, uint64_t value)
{
    if (value <= INT64_MAX) {
        add_int(out, (int64_t)value);
        return;
    }
    add(out, SPAN("\""));
    add_int(out, (int64_t)(value / 10));
    add_int(out, (int64_t)(value % 10));
    add(out, SPAN("\""));
}

/* The next line: where a part of the present whole begins. */
static void add_line(struct page_out *out)
{
    static const char blanks[] = "\n              ";

    if (out->is_line) {
        add(out, out->has_before ? SPAN(", ") : SPAN(""));
    } else {
        add(out, out->has_before ? SPAN(",") : SPAN(""));
        add(out, span_until(SPAN(blanks), 1 + 2 * (size_t)out->depth));
    }
    out->has_before = true;
}

static void add_name(struct page_out *out, const char *name, const char *suffix)
{
    add_line(out);
    add(out, SPAN("\""));
    add(out, span_of(name));
    add(out, span_of(suffix));
    add(out, SPAN("\": "));
}

static void open_whole(struct page_out *out, const char *bracket)
{
    add(out, span_of(bracket));
    out->depth++;
    out->has_before = false;
}

static void close_whole(struct page_out *out, const char *bracket)
{
    bool is_empty = !out->has_before;

    out->depth--;
    out->has_before = false;
    if (!is_empty && !out->is_line) {
        add_line(out);
    }
    add(out, span_of(bracket));
    out->has_before = true;
}

/* --- values -------------------------------------------------------------------------------------- */

static void add_time(struct page_out *out, int64_t at_ms)
{
    char text[CLOCK_TEXT_MAX];

    if (at_ms < 0 || at_ms > TIME_TEXT_MAX_MS) {
        add_int(out, at_ms);
        return;
    }
    clock_format(at_ms, text);
    add_string(out, span_of(text));
}

static void add_id(struct page_out *out, const struct task_id *id)
{
    char text[ID_TEXT_LEN + 1];
    struct task_id read;

    id_format(*id, text);
    if (id_parse(span_of(text), &read) && read.row == id->row && read.tail == id->tail) {
        add_string(out, span_of(text));
        return;
    }
    add(out, SPAN("["));
    add_int(out, id->row);
    add(out, SPAN(", "));
    add_uint(out, id->tail);
    add(out, SPAN("]"));
}

static void add_flags(struct page_out *out, enum member_kind kind, uint32_t flags)
{
    const char *word;
    uint32_t bit = 0;

    add(out, SPAN("["));
    for (size_t i = 0; (word = member_flag_word(kind, i, &bit)) != NULL; i++) {
        if ((flags & bit) != 0) {
            flags &= ~bit;
            add_string(out, span_of(word));
            add(out, flags != 0 ? SPAN(", ") : SPAN(""));
        }
    }
    if (flags != 0) {
        add_int(out, flags);
    }
    add(out, SPAN("]"));
}

static void add_classes(struct page_out *out, const uint32_t *counts)
{
    open_whole(out, "{");
    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        if (counts[i] != 0) {
            add_name(out, daruma_class_text((enum daruma_class)i), "");
            add_int(out, counts[i]);
        }
    }
    close_whole(out, "}");
}

static void add_class(struct page_out *out, int error_class)
{
    if (error_class >= 0 && error_class < DARUMA_CLASS_COUNT) {
        add_string(out, span_of(daruma_class_text((enum daruma_class)error_class)));
    } else {
        add_int(out, error_class);
    }
}

/* Shifted by one, as the number that stands for a class without a word is too. */
static void add_class_from1(struct page_out *out, uint32_t class_from1)
{
    if (class_from1 <= DARUMA_CLASS_COUNT) {
        add_class(out, (int)class_from1 - 1);
    } else {
        add_int(out, class_from1);
    }
}

static void add_fingerprint(struct page_out *out, const unsigned char *bytes)
{
    struct span span = {.at = (const char *)bytes, .len = TASK_FINGERPRINT_BYTES};

    add(out, SPAN("\""));
    out->failed = out->failed != 0 ? out->failed : text_add_hex(out->buf, span);
    add(out, SPAN("\""));
}

static void add_base64(struct page_out *out, const char *name, struct span bytes)
{
    add_name(out, name, MEMBER_BASE64_SUFFIX);
    add(out, SPAN("\""));
    out->failed = out->failed != 0 ? out->failed : text_add_base64(out->buf, bytes);
    add(out, SPAN("\""));
}

static void add_text(struct page_out *out, const char *name, struct span text)
{
    if (!text_is_plain(text)) {
        add_base64(out, name, text);
        return;
    }
    add_name(out, name, "");
    add_string(out, text);
}

/* Would pairs say it byte for byte? */
static bool is_in_pairs(struct span fields)
{
    struct span rest = fields, name, value;
    size_t len = 0;

    while (fields_next(&rest, &name, &value)) {
        len += name.len + sizeof(": ") - 1 + value.len + sizeof("\n") - 1;
        bool has_blank = value.at - (name.at + name.len) == 2;
        if (name.len == 0 || !has_blank) {
            return false;
        }
    }
    return len == fields.len && text_is_plain(fields);
}

static void add_fields(struct page_out *out, const char *name, struct span fields)
{
    struct span field, value;

    if (!is_in_pairs(fields)) {
        add_base64(out, name, fields);
        return;
    }
    add_name(out, name, "");
    open_whole(out, "[");
    while (fields_next(&fields, &field, &value)) {
        add_line(out);
        add(out, SPAN("["));
        add_string(out, field);
        add(out, SPAN(", "));
        add_string(out, value);
        add(out, SPAN("]"));
    }
    close_whole(out, "]");
}

/* --- members ------------------------------------------------------------------------------------- */

static bool is_all_zero(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    while (len > 0 && at[len - 1] == 0) {
        len--;
    }
    return len == 0;
}

/* What an optional member is when it is left out. */
static bool is_absent(const struct member *member, const void *field)
{
    switch (member->kind) {
    case MEMBER_BOOL:
        return !*(const bool *)field;
    case MEMBER_BOUND:
        return *(const bool *)field;
    case MEMBER_U64:
    case MEMBER_MS:
    case MEMBER_TIME:
        return is_all_zero(field, sizeof(int64_t));
    case MEMBER_TEXT:
    case MEMBER_FIELDS:
        return ((const struct span *)field)->len == 0;
    case MEMBER_CLASSES:
        return is_all_zero(field, sizeof(uint32_t[DARUMA_CLASS_COUNT]));
    case MEMBER_CLASS:
    case MEMBER_STATE_MAYBE:
        return *(const int *)field == -1;
    case MEMBER_INT:
    case MEMBER_U32:
    case MEMBER_FLAGS:
    case MEMBER_PARTS:
    case MEMBER_CLASS_FROM1:
    case MEMBER_STATE:
    case MEMBER_SENT:
        return is_all_zero(field, sizeof(uint32_t));
    case MEMBER_ID:
        return ((const struct task_id *)field)->row == 0;
    case MEMBER_FINGERPRINT:
    default:
        return false;
    }
}

static void add_value(struct page_out *out, const struct member *member, const void *field)
{
    switch (member->kind) {
    case MEMBER_BOOL:
    case MEMBER_BOUND:
        add(out, *(const bool *)field ? SPAN("true") : SPAN("false"));
        break;
    case MEMBER_INT:
        add_int(out, *(const int *)field);
        break;
    case MEMBER_U32:
        add_int(out, *(const uint32_t *)field);
        break;
    case MEMBER_U64:
        add_uint(out, *(const uint64_t *)field);
        break;
    case MEMBER_MS:
        add_int(out, *(const int64_t *)field);
        break;
    case MEMBER_TIME:
        add_time(out, *(const int64_t *)field);
        break;
    case MEMBER_ID:
        add_id(out, field);
        break;
    case MEMBER_STATE:
    case MEMBER_STATE_MAYBE:
        add_string(out, span_of(member_state_word(*(const enum task_state *)field)));
        break;
    case MEMBER_SENT:
        add_string(out, span_of(task_sent_text(*(const enum task_sent *)field)));
        break;
    case MEMBER_CLASS:
        add_class(out, *(const int *)field);
        break;
    case MEMBER_CLASS_FROM1:
        add_class_from1(out, *(const uint32_t *)field);
        break;
    case MEMBER_CLASSES:
        add_classes(out, field);
        break;
    case MEMBER_FLAGS:
    case MEMBER_PARTS:
        add_flags(out, member->kind, *(const uint32_t *)field);
        break;
    case MEMBER_FINGERPRINT:
        add_fingerprint(out, field);
        break;
    case MEMBER_TEXT:
    case MEMBER_FIELDS:
    default: /* their names depend on the value: add_members */
        break;
    }
}

static void add_members(struct page_out *out, const struct member *members, const void *whole)
{
    for (; members->name != NULL; members++) {
        const void *field = (const char *)whole + members->offset;
        if (members->need == MEMBER_OPTIONAL && is_absent(members, field)) {
            continue;
        }
        if (members->kind == MEMBER_TEXT) {
            add_text(out, members->name, *(const struct span *)field);
        } else if (members->kind == MEMBER_FIELDS) {
            add_fields(out, members->name, *(const struct span *)field);
        } else {
            add_name(out, members->name, "");
            add_value(out, members, field);
        }
    }
}

/* --- the file ------------------------------------------------------------------------------------ */

void write_file_open(struct page_out *out, const struct file_head *head)
{
    open_whole(out, "{");
    add_name(out, "format", "");
    add_string(out, SPAN(STORE_JSON_FORMAT));
    add_name(out, "version", "");
    add_int(out, STORE_JSON_VERSION);
    add_name(out, "epoch", "");
    add_uint(out, head->epoch);
    add_name(out, "last_row", "");
    add_int(out, head->last_row);
    add_name(out, "queues", "");
    open_whole(out, "[");
}

void write_queue(struct page_out *out, const struct queue_row *queue)
{
    add_line(out);
    open_whole(out, "{");
    add_members(out, members_queue, queue);
    close_whole(out, "}");
}

void write_list_open(struct page_out *out, const char *name)
{
    close_whole(out, "]");
    add_name(out, name, "");
    open_whole(out, "[");
}

void write_memo(struct page_out *out, const struct memo *memo)
{
    add_line(out);
    open_whole(out, "{");
    add_members(out, members_memo, memo);
    close_whole(out, "}");
}

void write_audit(struct page_out *out, const struct audit_row *row)
{
    add_line(out);
    open_whole(out, "{");
    add_members(out, members_audit, row);
    close_whole(out, "}");
}

static bool has_answer(const struct answer *answer)
{
    return answer->status != 0 || answer->headers.len > 0 || answer->body.len > 0 ||
           answer->settled_by.len > 0;
}

static void add_object(struct page_out *out, const char *name, const struct member *members,
                       const void *whole)
{
    add_name(out, name, "");
    open_whole(out, "{");
    add_members(out, members, whole);
    close_whole(out, "}");
}

static void add_trail(struct page_out *out, const struct record *record)
{
    add_name(out, "trail", "");
    open_whole(out, "[");
    for (size_t i = 0; i < record->trail_count; i++) {
        add_line(out);
        open_whole(out, "{");
        add_members(out, members_trail, &record->trail[i]);
        close_whole(out, "}");
    }
    close_whole(out, "]");
}

static void add_task(struct page_out *out, const struct record *record, struct span queue_name)
{
    add_name(out, "queue", "");
    if (queue_name.len > 0) {
        add_string(out, queue_name);
    } else {
        add_int(out, record->task.queue);
    }
    add_members(out, members_task, record);
    if (record->trail_count > 0) {
        add_trail(out, record);
    }
    if (has_answer(&record->answer)) {
        add_object(out, "answer", members_answer, &record->answer);
    }
    if (member_has_edit(&record->edit)) {
        add_object(out, "edit", members_edit, &record->edit);
    }
}

void write_task(struct page_out *out, const struct record *record, struct span queue_name)
{
    add_line(out);
    open_whole(out, "{");
    add_task(out, record, queue_name);
    close_whole(out, "}");
}

void write_file_close(struct page_out *out)
{
    close_whole(out, "]");
    close_whole(out, "}");
    add(out, SPAN("\n"));
}

/* --- lines --------------------------------------------------------------------------------------- */

static struct page_out line_open(struct buf *buf, const char *kind)
{
    struct page_out out = {.buf = buf, .is_line = true};

    open_whole(&out, "{");
    add_name(&out, "kind", "");
    add_string(&out, span_of(kind));
    return out;
}

static int line_close(struct page_out *out)
{
    close_whole(out, "}");
    add(out, SPAN("\n"));
    return out->failed;
}

int write_begin_line(struct buf *buf)
{
    struct page_out out = line_open(buf, "begin");

    add_name(&out, "format", "");
    add_string(&out, SPAN(LINES_FORMAT));
    add_name(&out, "version", "");
    add_int(&out, LINES_VERSION);
    return line_close(&out);
}

int write_queue_line(struct buf *buf, const struct queue_row *queue)
{
    struct page_out out = line_open(buf, "queue");

    add_members(&out, members_queue, queue);
    return line_close(&out);
}

int write_task_line(struct buf *buf, const struct record *record, struct span queue_name)
{
    struct page_out out = line_open(buf, "task");

    add_task(&out, record, queue_name);
    return line_close(&out);
}

int write_memo_line(struct buf *buf, const struct memo *memo)
{
    struct page_out out = line_open(buf, "memo");

    add_members(&out, members_memo, memo);
    return line_close(&out);
}

int write_audit_line(struct buf *buf, const struct audit_row *row)
{
    struct page_out out = line_open(buf, "audit");

    add_members(&out, members_audit, row);
    return line_close(&out);
}

int write_end_line(struct buf *buf)
{
    struct page_out out = line_open(buf, "end");

    return line_close(&out);
}
