/* SPDX-License-Identifier: MIT
 *
 * log -- structured lines to a function of the caller's. An event has a name and typed fields; it
 * becomes one line, as key=value, as JSON, or as text for a person at a terminal. No heap and no
 * lock: a level that is off costs one load and a comparison, and lines are built on the stack.
 *
 *     struct daruma_logger log = {.level = DARUMA_LOG_INFO, .sink = daruma_log_to_fd,
 *                                 .sink_user = (void *)(intptr_t)2};
 *     DARUMA_LOG(&log, DARUMA_LOG_WARN, "retrying", daruma_log_uint("attempt", 2),
 *                daruma_log_text("error", error.message));
 */
#ifndef DARUMA_LOG_H
#define DARUMA_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DARUMA_LOG_LINE_MAX 4096 /* bytes of a line; a longer one is cut and says so */

enum daruma_log_level {
    DARUMA_LOG_DEBUG = 0,
    DARUMA_LOG_INFO,
    DARUMA_LOG_WARN,
    DARUMA_LOG_ERROR,
    DARUMA_LOG_OFF
};

enum daruma_log_form { DARUMA_LOG_KV = 0, DARUMA_LOG_JSON, DARUMA_LOG_TEXT };

/* One line without its newline; the bytes are gone when it returns. Called from whichever thread
 * logs, perhaps several at once. */
typedef void (*daruma_log_sink_fn)(void *user, enum daruma_log_level level, const char *line,
                                   size_t length);

/* Zeroed: no sink, so silent. */
struct daruma_logger {
    enum daruma_log_level level; /* what is below is not logged; see daruma_log_set_level */
    enum daruma_log_form form;
    daruma_log_sink_fn sink;
    void *sink_user;
    int64_t (*unix_ms)(void *user); /* NULL: the real clock */
    void *unix_user;
};

enum daruma_log_kind {
    DARUMA_LOG_FIELD_TEXT = 0,
    DARUMA_LOG_FIELD_INT,
    DARUMA_LOG_FIELD_UINT,
    DARUMA_LOG_FIELD_REAL,
    DARUMA_LOG_FIELD_BOOL
};

struct daruma_log_field {
    const char *name; /* a literal: letters, digits, _ */
    enum daruma_log_kind kind;
    union {
        struct {
            const char *bytes;
            size_t length;
        } text;
        int64_t integer;
        uint64_t natural;
        double real;
        bool truth;
    } as;
};

struct daruma_log_field daruma_log_text(const char *name, const char *value); /* NULL: "" */
struct daruma_log_field daruma_log_bytes(const char *name, const char *bytes, size_t length);
struct daruma_log_field daruma_log_int(const char *name, int64_t value);
struct daruma_log_field daruma_log_uint(const char *name, uint64_t value);
struct daruma_log_field daruma_log_real(const char *name, double value);
struct daruma_log_field daruma_log_bool(const char *name, bool value);

/* NULL logger: nothing happens. */
void daruma_log_write(const struct daruma_logger *logger, enum daruma_log_level level,
                      const char *event, const struct daruma_log_field *fields, size_t count);
bool daruma_log_is_on(const struct daruma_logger *logger, enum daruma_log_level level);
void daruma_log_set_level(struct daruma_logger *logger, enum daruma_log_level level); /* any time */

const char *daruma_log_level_text(enum daruma_log_level level);
bool daruma_log_level_parse(const char *word, enum daruma_log_level *ret_level);

/* A sink: one write() a line, newline added, to the file descriptor in `user`. */
void daruma_log_to_fd(void *user, enum daruma_log_level level, const char *line, size_t length);

#ifndef __cplusplus
/* Event and fields in one line; fields are only built when the level is on. */
#define DARUMA_LOG(logger, level, event, ...)                                                      \
    do {                                                                                           \
        if (daruma_log_is_on((logger), (level))) {                                                 \
            const struct daruma_log_field daruma_fields_[] = {__VA_ARGS__};                        \
            daruma_log_write((logger), (level), (event), daruma_fields_,                           \
                             sizeof daruma_fields_ / sizeof *daruma_fields_);                      \
        }                                                                                          \
    } while (0)
#endif

#ifdef __cplusplus
}
#endif
#endif
