/* SPDX-License-Identifier: MIT
 *
 * log -- one event, one line. The line is built in a buffer on the stack; what comes from outside
 * is escaped, so that no value can fake a field, a line or an escape sequence of the terminal.
 */
#include <daruma/log.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "utf8_internal.h"

#define MS_PER_DAY INT64_C(86400000)
#define CUT        "…" /* stands at the end of a line that was too long */

struct line {
    char text[DARUMA_LOG_LINE_MAX];
    size_t length;
    size_t room; /* what may be filled before the end of the line */
    bool cut;
};

static const char *const level_words[] = {"debug", "info", "warn", "error", "off"};

static void add(struct line *line, const char *bytes, size_t length)
{
    if (line->cut || length > line->room - line->length) {
        line->cut = true;
        return;
    }
    memcpy(line->text + line->length, bytes, length);
    line->length += length;
}

static void add_text(struct line *line, const char *text)
{
    add(line, text, strlen(text));
}

/* An escaped character: \n and its kind, \u00XX for other control characters. */
static void add_escape(struct line *line, unsigned char byte)
{
    static const char plain[] = "\"\\\n\r\t";
    static const char letters[] = "\"\\nrt";
    const char *found = byte == '\0' ? NULL : strchr(plain, byte);
    char escape[8];

    if (found != NULL) {
        add(line, (char[]){'\\', letters[found - plain]}, 2);
    } else {
        int length = snprintf(escape, sizeof escape, "\\u%04x", byte);
        add(line, escape, (size_t)length);
    }
}

/* A quote, a backslash, or a control character; those of U+0080 to U+009F count, because a terminal
 * may obey them too (U+009B begins an escape sequence by itself). */
static bool needs_escape(const char *bytes, size_t width)
{
    unsigned char byte = (unsigned char)bytes[0];

    if (width == 1) {
        return byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f;
    }
    return byte == 0xc2 && (unsigned char)bytes[1] < 0xa0;
}

/* In quotes. The same escapes for key=value and JSON; bytes that are not UTF-8 become U+FFFD. */
static void add_quoted(struct line *line, const char *bytes, size_t length)
{
    add_text(line, "\"");
    for (size_t i = 0; i < length;) {
        size_t width = utf8_width(bytes + i, length - i);
        if (width == 0) {
            add_text(line, "\xef\xbf\xbd");
            i++;
            continue;
        }
        if (needs_escape(bytes + i, width)) {
            add_escape(line, (unsigned char)bytes[i + width - 1]); /* after C2 it is the number */
        } else {
            add(line, bytes + i, width);
        }
        i += width;
    }
    add_text(line, "\"");
}

/* May stand without quotes? Visible ASCII, and nothing of what would be mistaken. */
static bool is_bare(const char *bytes, size_t length, const char *mistaken)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte < ' ' || byte >= 0x7f || strchr(mistaken, byte) != NULL) {
            return false;
        }
    }
    return length > 0;
}

static void add_word(struct line *line, const char *bytes, size_t length, enum daruma_log_form form)
{
    if (form != DARUMA_LOG_JSON && is_bare(bytes, length, " \"\\=")) {
        add(line, bytes, length);
    } else {
        add_quoted(line, bytes, length);
    }
}

static void add_real(struct line *line, double value, enum daruma_log_form form)
{
    char text[40];

    if (form == DARUMA_LOG_JSON && !(value - value == 0)) {
        add_text(line, "null"); /* JSON has no infinity and no NaN */
        return;
    }
    int length = snprintf(text, sizeof text, "%.15g", value);
    for (int i = 0; i < length; i++) {
        text[i] = text[i] == ',' ? '.' : text[i]; /* whatever the locale says */
    }
    add(line, text, (size_t)length);
}

static void add_value(struct line *line, const struct daruma_log_field *field,
                      enum daruma_log_form form)
{
    char digits[24];

    switch (field->kind) {
    case DARUMA_LOG_FIELD_INT:
        add(line, digits, (size_t)snprintf(digits, sizeof digits, "%" PRId64, field->as.integer));
        break;
    case DARUMA_LOG_FIELD_UINT:
        add(line, digits, (size_t)snprintf(digits, sizeof digits, "%" PRIu64, field->as.natural));
        break;
    case DARUMA_LOG_FIELD_REAL:
        add_real(line, field->as.real, form);
        break;
    case DARUMA_LOG_FIELD_BOOL:
        add_text(line, field->as.truth ? "true" : "false");
        break;
    case DARUMA_LOG_FIELD_TEXT:
    default:
        add_word(line, field->as.text.bytes, field->as.text.length, form);
        break;
    }
}

/* A field that does not fit leaves no half of itself behind. */
static void add_field(struct line *line, const struct daruma_log_field *field,
                      enum daruma_log_form form)
{
    size_t before = line->length;

    if (line->cut) {
        return;
    }
    if (form == DARUMA_LOG_JSON) {
        add_text(line, ",");
        add_quoted(line, field->name, strlen(field->name));
        add_text(line, ":");
    } else {
        add_text(line, " ");
        add_text(line, field->name);
        add_text(line, "=");
    }
    add_value(line, field, form);
    if (line->cut) {
        line->length = before;
    }
}

static int64_t unix_ms(const struct daruma_logger *logger)
{
    struct timespec now = {0};

    if (logger->unix_ms != NULL) {
        return logger->unix_ms(logger->unix_user);
    }
    (void)clock_gettime(CLOCK_REALTIME, &now); /* fails only for a clock that does not exist */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct date {
    int year, month, day; /* month and day from 1 */
};

/* The date of a day since 1970. By hand, because gmtime_r takes a lock and, the first time, reads
 * the time zone onto the heap. Years begin in March here, so that a leap day is the last of its
 * year; 146097 days are 400 years. */
static struct date date_of(int64_t days)
{
    int64_t since = days + 719468; /* from 1 March of the year 0 */
    int64_t day = since % 146097;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int64_t rest = day - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * rest + 2) / 153;

    return (struct date){
        .year = (int)(since / 146097 * 400 + year + (month >= 10)),
        .month = (int)(month < 10 ? month + 3 : month - 9),
        .day = (int)(rest - (153 * month + 2) / 5 + 1),
    };
}

/* ms is not negative. */
static void add_time(struct line *line, int64_t ms, enum daruma_log_form form)
{
    struct date date = date_of(ms / MS_PER_DAY);
    int seconds = (int)(ms % MS_PER_DAY / 1000);
    char text[64];

    if (form != DARUMA_LOG_TEXT) {
        (void)snprintf(text, sizeof text, "%04d-%02d-%02dT", date.year, date.month, date.day);
        add_text(line, text);
    }
    (void)snprintf(text, sizeof text, "%02d:%02d:%02d.%03d%s", seconds / 3600, seconds / 60 % 60,
                   seconds % 60, (int)(ms % 1000), form == DARUMA_LOG_TEXT ? "" : "Z");
    add_text(line, text);
}

/* For a person its words stand without quotes. One that does not fit leaves an empty one behind, so
 * that the line stays whole. */
static void add_event(struct line *line, const char *event, enum daruma_log_form form)
{
    size_t before = line->length, length = strlen(event);

    if (form == DARUMA_LOG_TEXT && is_bare(event, length, "\"\\")) {
        add(line, event, length);
    } else {
        add_word(line, event, length, form);
    }
    if (line->cut) {
        memcpy(line->text + before, "\"\"", 2);
        line->length = before + 2;
    }
}

static void add_head(struct line *line, const struct daruma_logger *logger,
                     enum daruma_log_level level, const char *event)
{
    const char *word = daruma_log_level_text(level);
    int64_t ms = unix_ms(logger);

    ms = ms < 0 ? 0 : ms;
    switch (logger->form) {
    case DARUMA_LOG_JSON:
        add_text(line, "{\"time\":\"");
        add_time(line, ms, logger->form);
        add_text(line, "\",\"level\":\"");
        add_text(line, word);
        add_text(line, "\",\"event\":");
        break;
    case DARUMA_LOG_TEXT:
        add_time(line, ms, logger->form);
        add_text(line, " ");
        add(line, "     ", 5 - strlen(word));
        add_text(line, word);
        add_text(line, " ");
        break;
    case DARUMA_LOG_KV:
    default:
        add_text(line, "time=");
        add_time(line, ms, logger->form);
        add_text(line, " level=");
        add_text(line, word);
        add_text(line, " event=");
        break;
    }
    add_event(line, event != NULL ? event : "", logger->form);
}

bool daruma_log_is_on(const struct daruma_logger *logger, enum daruma_log_level level)
{
    return logger != NULL && logger->sink != NULL &&
           level >= __atomic_load_n(&logger->level, __ATOMIC_RELAXED) && level < DARUMA_LOG_OFF;
}

void daruma_log_set_level(struct daruma_logger *logger, enum daruma_log_level level)
{
    __atomic_store_n(&logger->level, level, __ATOMIC_RELAXED);
}

void daruma_log_write(const struct daruma_logger *logger, enum daruma_log_level level,
                      const char *event, const struct daruma_log_field *fields, size_t count)
{
    struct line line;
    bool is_json;

    if (!daruma_log_is_on(logger, level)) {
        return;
    }
    is_json = logger->form == DARUMA_LOG_JSON;
    line.length = 0;
    line.cut = false;
    /* Room is kept for saying that the line was cut and for closing it. */
    line.room = sizeof line.text - sizeof ",\"cut\":true}";
    add_head(&line, logger, level, event);
    for (size_t i = 0; i < count; i++) {
        add_field(&line, &fields[i], logger->form);
    }
    bool was_cut = line.cut;
    line.cut = false;
    line.room = sizeof line.text;
    if (was_cut) {
        add_text(&line, is_json ? ",\"cut\":true" : " " CUT);
    }
    if (is_json) {
        add_text(&line, "}");
    }
    logger->sink(logger->sink_user, level, line.text, line.length);
}

const char *daruma_log_level_text(enum daruma_log_level level)
{
    return (unsigned)level <= DARUMA_LOG_OFF ? level_words[level] : "unknown";
}

bool daruma_log_level_parse(const char *word, enum daruma_log_level *ret_level)
{
    for (int i = 0; word != NULL && i <= DARUMA_LOG_OFF; i++) {
        if (strcmp(word, level_words[i]) == 0) {
            *ret_level = (enum daruma_log_level)i;
            return true;
        }
    }
    return false;
}

void daruma_log_to_fd(void *user, enum daruma_log_level level, const char *line, size_t length)
{
    char text[DARUMA_LOG_LINE_MAX + 1];

    (void)level; /* a file takes them all */
    if (length > DARUMA_LOG_LINE_MAX) {
        length = DARUMA_LOG_LINE_MAX;
    }
    memcpy(text, line, length);
    text[length] = '\n';
    (void)!write((int)(intptr_t)user, text, length + 1); /* a log that cannot be written is lost */
}

struct daruma_log_field daruma_log_bytes(const char *name, const char *bytes, size_t length)
{
    struct daruma_log_field field = {.name = name};

    field.as.text.bytes = bytes != NULL ? bytes : "";
    field.as.text.length = bytes != NULL ? length : 0;
    return field;
}

struct daruma_log_field daruma_log_text(const char *name, const char *value)
{
    return daruma_log_bytes(name, value, value != NULL ? strlen(value) : 0);
}

struct daruma_log_field daruma_log_int(const char *name, int64_t value)
{
    return (struct daruma_log_field){
        .name = name, .kind = DARUMA_LOG_FIELD_INT, .as = {.integer = value}};
}

struct daruma_log_field daruma_log_uint(const char *name, uint64_t value)
{
    return (struct daruma_log_field){
        .name = name, .kind = DARUMA_LOG_FIELD_UINT, .as = {.natural = value}};
}

struct daruma_log_field daruma_log_real(const char *name, double value)
{
    return (struct daruma_log_field){
        .name = name, .kind = DARUMA_LOG_FIELD_REAL, .as = {.real = value}};
}

struct daruma_log_field daruma_log_bool(const char *name, bool value)
{
    return (struct daruma_log_field){
        .name = name, .kind = DARUMA_LOG_FIELD_BOOL, .as = {.truth = value}};
}
