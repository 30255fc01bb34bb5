/* SPDX-License-Identifier: MIT
 *
 * flags -- see flags.h.
 */
#include "cli/flags.h"

#include "cli/cli.h"
#include "cli/client.h"
#include "task/url.h"
#include "task/task.h"

#include <daruma/retry_after.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define HELP_WIDTH  20   /* of a flag with its value */
#define TOKEN_MAX   1024 /* as the configuration has it */
#define VALUE_SHOWN 200  /* bytes of what was given that are repeated */

#define EXPECT_SERVER "an http or https URL such as " CLIENT_SERVER ", without user, ? or #"
#define EXPECT_TOKEN  "1 to 1024 visible ASCII characters"

/* --- what every command has ------------------------------------------------------------------ */

static bool take_server(void *user, const char *value)
{
    struct flags *flags = user;

    flags->server = value;
    return url_refuse(span_of(value)) == NULL && strchr(value, '?') == NULL;
}

/* It becomes a header: nothing in it may end one. */
static bool take_token(void *user, const char *value)
{
    struct flags *flags = user;
    size_t len = strlen(value);

    for (size_t i = 0; i < len; i++) {
        if (value[i] <= 0x20 || value[i] > 0x7e) {
            return false;
        }
    }
    flags->token = value;
    return len > 0 && len <= TOKEN_MAX;
}

static bool take_json(void *user, const char *value)
{
    struct flags *flags = user;

    (void)value;
    flags->is_json = true;
    return true;
}

static const struct flag common[] = {
    {.name = "--json", .take = take_json, .help = "prints JSON"},
    {.name = "--server",
     .value = "URL",
     .take = take_server,
     .expected = EXPECT_SERVER,
     .help = "where the server is (DARUMA_URL, or " CLIENT_SERVER ")"},
    {.name = "--token",
     .value = "TOKEN",
     .take = take_token,
     .expected = EXPECT_TOKEN,
     .help = "who asks (DARUMA_TOKEN, which others cannot see)",
     .is_secret = true},
};

static size_t common_count(const struct flags_form *form)
{
    return form->is_local ? 1 : sizeof common / sizeof *common;
}

/* --- saying --------------------------------------------------------------------------------- */

void flags_complain(const struct flags_form *form, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "daruma %s: ", form->command);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
}

int flags_finish_help(const char *command)
{
    bool is_lost = ferror(stdout) != 0;

    if (fflush(stdout) == 0 && !is_lost) {
        return CLI_DONE;
    }
    fprintf(stderr, "daruma %s: cannot write the output%s%s\n", command, is_lost ? "" : ": ",
            is_lost ? "" : strerror(errno));
    return CLI_FAILED;
}

static void help_flags(const struct flag *flags, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *value = flags[i].value != NULL ? flags[i].value : "";
        int width = HELP_WIDTH - (int)strlen(flags[i].name);
        printf("  %s %-*s %s\n", flags[i].name, width, value, flags[i].help);
    }
}

static void help(const struct flags_form *form)
{
    printf("usage: daruma %s%s%s [FLAGS]\n\n%s\n", form->command, form->operands != NULL ? " " : "",
           form->operands != NULL ? form->operands : "", form->purpose);
    help_flags(form->flags, form->flag_count);
    help_flags(common, common_count(form));
    printf("  %s %-*s %s\n", "--help", HELP_WIDTH - (int)strlen("--help"), "", "prints this");
}

/* A URL with a user in it holds a password. */
static bool is_shown(const struct flag *flag, const char *value)
{
    return !flag->is_secret && (flag->take != take_server || strchr(value, '@') == NULL);
}

/* A NULL value: none was there. `where` is the flag, or the variable that stands for it. */
static bool refuse(const struct flags_form *form, const struct flag *flag, const char *where,
                   const char *value)
{
    const char *expected = flag->expected;

    if (value == NULL) {
        flags_complain(form, "%s: nothing given, expected %s", where, expected);
    } else if (is_shown(flag, value)) {
        flags_complain(form, "%s: '%.*s' given, expected %s", where, VALUE_SHOWN, value, expected);
    } else {
        flags_complain(form, "%s: expected %s", where, expected);
    }
    return false;
}

/* --- reading --------------------------------------------------------------------------------- */

static const struct flag *find_in(const struct flag *flags, size_t count, const char *name,
                                  size_t length)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(flags[i].name) == length && strncmp(name, flags[i].name, length) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

/* The flag that is written as --name or --name=value; ret_value is NULL for the first form. */
static const struct flag *flag_find(const struct flags_form *form, const char *argument,
                                    const char **ret_value)
{
    size_t length = strcspn(argument, "=");
    const struct flag *flag = find_in(form->flags, form->flag_count, argument, length);

    *ret_value = argument[length] == '=' ? argument + length + 1 : NULL;
    return flag != NULL ? flag : find_in(common, common_count(form), argument, length);
}

/* A flag that takes no value. */
static bool read_bare(const struct flags_form *form, const struct flag *flag, const char *value,
                      void *flags)
{
    if (value != NULL) {
        flags_complain(form, "%s: '%.*s' given, expected no value", flag->name, VALUE_SHOWN, value);
        return false;
    }
    if (!flag->take(flags, NULL)) {
        flags_complain(form, "%s: expected %s", flag->name, flag->expected);
        return false;
    }
    return true;
}

/* Reads the flag at argv[*at], and its value, and moves *at behind them. */
static bool flag_read(const struct flags_form *form, char **argv, int *at, void *flags)
{
    const char *argument = argv[*at], *value;
    const struct flag *flag = flag_find(form, argument, &value);

    *at += 1;
    if (flag == NULL) {
        flags_complain(form, "%.*s: no such flag, expected one that --help lists",
                       (int)strcspn(argument, "="), argument);
        return false;
    }
    if (flag->value == NULL) {
        return read_bare(form, flag, value, flags);
    }
    if (value == NULL && argv[*at] != NULL) {
        value = argv[*at];
        *at += 1;
    }
    return value != NULL && flag->take(flags, value) ? true : refuse(form, flag, flag->name, value);
}

static bool operand_read(const struct flags_form *form, const char *word, void *flags)
{
    if (form->take_operand == NULL) {
        flags_complain(form, "'%.*s' given, expected nothing but flags", VALUE_SHOWN, word);
        return false;
    }
    if (!form->take_operand(flags, word)) {
        flags_complain(form, "'%.*s' given, expected %s", VALUE_SHOWN, word,
                       form->operand_expected);
        return false;
    }
    return true;
}

/* What was not written comes from the environment; a variable that is empty is not set. */
static bool environment_read(const struct flags_form *form, struct flags *flags)
{
    static const struct {
        const char *variable;
        const char *flag;
    } rows[] = {{"DARUMA_URL", "--server"}, {"DARUMA_TOKEN", "--token"}};
    const char *given[] = {flags->server, flags->token};

    for (size_t i = 0; !form->is_local && i < sizeof rows / sizeof *rows; i++) {
        const char *value = getenv(rows[i].variable);
        const struct flag *flag =
            find_in(common, sizeof common / sizeof *common, rows[i].flag, strlen(rows[i].flag));
        if (given[i] == NULL && value != NULL && value[0] != '\0' && !flag->take(flags, value)) {
            return refuse(form, flag, rows[i].variable, value);
        }
    }
    const char *ca = getenv("DARUMA_CA");
    flags->ca = ca != NULL && ca[0] != '\0' ? ca : NULL;
    if (flags->server == NULL) {
        flags->server = CLIENT_SERVER;
    }
    return true;
}

static bool is_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

/* Moves *at behind a flag with its value, or an operand. */
static bool argument_read(const struct flags_form *form, char **argv, int *at, void *flags)
{
    bool is_flag = argv[*at][0] == '-' && argv[*at][1] != '\0';

    if (is_flag) {
        return flag_read(form, argv, at, flags);
    }
    *at += 1;
    return operand_read(form, argv[*at - 1], flags);
}

bool flags_read(const struct flags_form *form, int argc, char **argv, void *flags, int *ret_exit)
{
    int at = 1;

    *ret_exit = CLI_USAGE;
    while (at < argc && strcmp(argv[at], "--") != 0) {
        if (is_help(argv[at])) {
            help(form);
            *ret_exit = flags_finish_help(form->command);
            return false;
        }
        if (!argument_read(form, argv, &at, flags)) {
            return false;
        }
    }
    for (at++; at < argc; at++) {
        if (!operand_read(form, argv[at], flags)) {
            return false;
        }
    }
    return environment_read(form, flags);
}

/* --- values --------------------------------------------------------------------------------- */

const char *flags_of_field(const struct flags_form *form, struct span field)
{
    for (size_t i = 0; i < form->flag_count; i++) {
        struct span known = span_of(form->flags[i].field);
        bool is_whole = known.len > 0 && span_equal(span_until(field, known.len), known) &&
                        (field.len == known.len || field.at[known.len] == '.');
        if (is_whole) {
            return form->flags[i].name;
        }
    }
    return NULL;
}

bool flags_duration(const char *text, int64_t *ret_ms)
{
    return daruma_duration_parse(text, strlen(text), ret_ms);
}

bool flags_duration_above_zero(const char *text, int64_t *ret_ms)
{
    return flags_duration(text, ret_ms) && *ret_ms > 0;
}

bool flags_queue(const char *text, const char **ret_queue)
{
    if (*ret_queue != NULL || !task_queue_name_is_valid(span_of(text))) {
        return false;
    }
    *ret_queue = text;
    return true;
}

bool flags_task(const char *text, const char **ret_task)
{
    struct task_id id;

    if (*ret_task != NULL || !id_parse(span_of(text), &id)) {
        return false;
    }
    *ret_task = text;
    return true;
}

bool flags_pair(const char *text, char sign, struct span *ret_name, struct span *ret_value)
{
    struct span rest = span_of(text);

    if (!span_cut(&rest, sign, ret_name) || ret_name->len == 0) {
        return false;
    }
    *ret_value = span_trim(rest);
    return true;
}
