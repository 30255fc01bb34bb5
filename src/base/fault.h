/* SPDX-License-Identifier: MIT
 *
 * fault -- the one way to fail. What can fail returns 0 or a negative enum fault; the first function
 * to see a failure describes it with fail(), everyone above passes it up unchanged.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdarg.h>
#include <stdbool.h>

#define ERROR_TEXT_MAX  256
#define ERROR_FIELD_MAX 64

/* Name, value, the `code` of a problem answer, what it means. */
#define FAULT_MAP(X)                                                                               \
    X(INPUT, -1, "invalid_request", "what was given is not valid")                                 \
    X(LIMIT, -2, "too_large", "over a configured limit")                                           \
    X(MEMORY, -3, "overloaded", "out of memory")                                                   \
    X(FULL, -4, "overloaded", "no room: disk, backlog or a queue inside is full")                  \
    X(IO, -5, "store_unavailable", "reading or writing failed")                                    \
    X(LOST, -6, "store_unavailable", "the store cannot be used any more")                          \
    X(UNKNOWN, -7, "store_unknown", "it may or may not have been recorded")                        \
    X(CORRUPT, -8, "store_corrupt", "what is stored is damaged")                                   \
    X(SYSTEM, -9, "system", "the operating system refused")                                        \
    X(CLOSING, -10, "draining", "the server is stopping")                                          \
    X(BUSY, -11, "key_in_progress", "another session is recording it at this moment")              \
    X(HELD, -12, "overloaded", "another transaction holds it at this moment")

enum fault {
#define FAULT_ENUM(name, value, code, text) FAULT_##name = value,
    FAULT_MAP(FAULT_ENUM)
#undef FAULT_ENUM
};

/* Who may read the text of an error. The texts of INPUT, LIMIT and FULL are about what the caller wants, and
 * the others about the machine: so the fault decides, unless the function that failed says otherwise. */
enum error_reader {
    ERROR_BY_FAULT = 0,
    ERROR_FOR_CALLER,   /* fail_told: it names no file, host or statement */
    ERROR_FOR_OPERATOR, /* fail_inside: what a driver or the system said; it is logged only */
};

/* Filled by the first to fail. Zeroed before use; NULL wherever nobody wants to know. */
struct error {
    int fault;
    char field[ERROR_FIELD_MAX]; /* the input field at fault, or empty */
    char text[ERROR_TEXT_MAX];   /* for people */
    enum error_reader reader;    /* for which of them */
};

/* Describes a failure and returns its fault: `return fail(err, FAULT_IO, "…")`. */
int fail(struct error *err, enum fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, naming the field of the input that is wrong. */
int fail_field(struct error *err, enum fault fault, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same, with a text that the reply to a caller carries, whatever the fault is. */
int fail_told(struct error *err, enum fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with a text that no reply carries, whatever the fault is. */
int fail_inside(struct error *err, enum fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* May the reply to a caller carry the text of this error? Not if it is empty. */
bool error_is_told(const struct error *err);

/* Others hold it at this moment: that says nothing about the store, and soon it is free. */
bool fault_is_passing(int fault);
const char *fault_code(int fault); /* snake_case, for programs; never NULL */
const char *fault_text(int fault); /* for people; never NULL */

#endif
