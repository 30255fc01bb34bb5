/* SPDX-License-Identifier: MIT
 *
 * flags -- the command line of a command, read by one table that has every flag with what it takes,
 * what it expects and what it does, so that reading, refusing and --help cannot disagree. What is
 * wrong is said in one line on stderr: the flag, what was given, what is expected. Values that may
 * be secrets are never repeated.
 *
 * Flags and operands may come in any order; a flag replaces an earlier one unless it is one that
 * adds up; `--` ends the flags.
 */
#ifndef CLI_FLAGS_H
#define CLI_FLAGS_H

#include "base/span.h"

#define FLAGS_DURATION "a duration such as 250ms, 10s or 5m"

/* What every command has: the first member of its own flags. */
struct flags {
    const char *server; /* --server, DARUMA_URL or the default */
    const char *token;  /* --token or DARUMA_TOKEN; NULL: none */
    const char *ca;     /* DARUMA_CA: a PEM file of who vouches for the server; NULL: the system */
    bool is_json;
};

/* False: refused. `value` is NULL for a flag without one. */
typedef bool (*flag_take_fn)(void *flags, const char *value);

struct flag {
    const char *name;  /* --state */
    const char *value; /* what stands after it, for people; NULL: nothing does */
    flag_take_fn take;
    const char *expected; /* of the value; without one, when it may be given */
    const char *help;
    const char
        *field;     /* what the API calls it, so that its refusals name the flag; NULL: nothing */
    bool is_secret; /* the value is not repeated */
};

struct flags_form {
    const char *command;  /* its name: enqueue */
    const char *operands; /* QUEUE; [QUEUE]; NULL: there are none */
    const char *purpose;  /* for --help: whole lines */
    const struct flag *flags;
    size_t flag_count;
    flag_take_fn take_operand;    /* each in turn; NULL: there are none */
    const char *operand_expected; /* of an operand */
    bool is_local;                /* asks no server: no --server, no --token */
};

/* Reads argv[1] and all behind it into *flags, which begins with struct flags. False: there is
 * nothing more to do and *ret_exit is how it ends: help was wanted, or something is wrong and has
 * been said. */
bool flags_read(const struct flags_form *form, int argc, char **argv, void *flags, int *ret_exit);

/* Help, or a version, is on standard output: how the program ends. CLI_FAILED, and said, when it did not
 * arrive there. */
int flags_finish_help(const char *command);

/* Says "daruma COMMAND: …" on stderr. */
void flags_complain(const struct flags_form *form, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The flag that sets a field of the API ("labels.x" is --label's); NULL: none does. */
const char *flags_of_field(const struct flags_form *form, struct span field);

/* For flags that are one of these. False: it is not. */
bool flags_duration(const char *text, int64_t *ret_ms); /* 0 is one */
bool flags_duration_above_zero(const char *text, int64_t *ret_ms);
bool flags_queue(const char *text, const char **ret_queue);
bool flags_task(const char *text, const char **ret_task);

/* NAME=VALUE or NAME: VALUE at its first sign; the value without blanks around it. */
bool flags_pair(const char *text, char sign, struct span *ret_name, struct span *ret_value);

#endif
