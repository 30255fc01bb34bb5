/* SPDX-License-Identifier: MIT
 *
 * cli_spool -- `daruma spool [list]` and `daruma spool drop`: what waits on this machine, and taking
 * something out of it. Header values and bodies are not shown: they may hold secrets.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "cli/effect.h"
#include "cli/explain.h"
#include "cli/spool_flags.h"
#include "cli/table.h"
#include "edge/writer.h"
#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>

#define NAMES_MAX      64
#define LINE_BYTES_MAX (1u << 20)

struct spool_flags {
    struct flags common;
    const char *spool;
    const char *act; /* list or drop; NULL: list */
    const char *names[NAMES_MAX];
    size_t name_count;
    bool is_failed, is_all;
};

/* --- flags ---------------------------------------------------------------------------------------- */

static bool take_word(void *user, const char *value)
{
    struct spool_flags *flags = user;

    if (flags->act == NULL) {
        flags->act = value;
        return strcmp(value, "list") == 0 || strcmp(value, "drop") == 0;
    }
    if (strcmp(flags->act, "drop") != 0 || flags->name_count == NAMES_MAX ||
        !spool_name_is_valid(value)) {
        return false;
    }
    flags->names[flags->name_count++] = value;
    return true;
}

static bool take_spool(void *user, const char *value)
{
    ((struct spool_flags *)user)->spool = value;
    return value[0] != '\0';
}

static bool take_failed(void *user, const char *value)
{
    (void)value;
    ((struct spool_flags *)user)->is_failed = true;
    return true;
}

static bool take_all(void *user, const char *value)
{
    (void)value;
    ((struct spool_flags *)user)->is_all = true;
    return true;
}

static const struct flag table[] = {
    {"--spool", "DIR", take_spool, SPOOL_FLAG_EXPECTED, SPOOL_FLAG_HELP, NULL, false},
    {"--failed", NULL, take_failed, NULL, "those that have failed", NULL, false},
    {"--all", NULL, take_all, NULL, "drops every one", NULL, false},
};

static const struct flags_form form = {
    .command = "spool",
    .operands = "[list|drop NAME…]",
    .purpose =
        "Lists what 'daruma send' has kept on this machine, or drops some of it, unsent. Exit\n"
        "status 0: done; 1: a file in the list is damaged, or something was not dropped.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .take_operand = take_word,
    .operand_expected = "list, or drop and up to 64 NAMEs as list shows them",
    .is_local = true,
};

/* --- walking --------------------------------------------------------------------------------------- */

/* Without a `found` it is damaged, and `wrong` says how. */
typedef int (*each_fn)(void *user, const char *name, const struct spool_found *found,
                       const char *wrong);

static int walk(const struct spool *spool, const struct spool_list *list, each_fn each, void *user,
                struct error *err)
{
    AUTO(spool_found_done) struct spool_found found;
    int failed = 0;

    spool_found_init(&found);
    for (size_t i = 0; failed == 0 && i < list->count; i++) {
        struct error wrong = {0};
        failed = spool_read(spool, list->names[i].text, &found, &wrong);
        if (failed == FAULT_CORRUPT) {
            failed = each(user, list->names[i].text, NULL, wrong.text);
        } else if (failed != 0) {
            *err = wrong;
        } else if (found.is_there) {
            failed = each(user, list->names[i].text, &found, "");
        }
    }
    return failed;
}

/* --- list ------------------------------------------------------------------------------------------ */

static const struct table_column columns[] = {
    {.title = "STATE"},
    {.title = "TRIES", .is_number = true},
    {.title = "AGE", .is_number = true},
    {.title = "BYTES", .is_number = true},
    {.title = "NAME"},
    {.title = "REQUEST", .is_flexible = true},
    {.title = "WHY", .is_flexible = true},
};

AUTO_POINTER(struct table, table_free)

struct listing {
    const struct spool_flags *flags;
    struct table *rows;
    struct buf *json;
    size_t count, damaged;
};

static bool is_wanted(const struct spool_flags *flags, const struct spooled *request)
{
    return !flags->is_failed || (request != NULL && request->state == SPOOLED_FAILED);
}

static int add_row(void *user, const char *name, const struct spool_found *found, const char *wrong)
{
    const struct spooled *request = found != NULL ? &found->request : NULL;
    struct listing *listing = user;
    AUTO(buf_done) struct buf line;
    char age[SCREEN_DURATION_MAX] = "";

    buf_init(&line, LINE_BYTES_MAX);
    if (!is_wanted(listing->flags, request)) {
        return 0;
    }
    listing->count++;
    if (request == NULL) {
        listing->damaged++;
        const struct span cells[] = {SPAN("0"),     SPAN(""), SPAN(""),
                                     span_of(name), SPAN(""), span_of(wrong)};
        table_add_coloured(listing->rows, SPAN("damaged"), SCREEN_RED);
        for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
            table_add(listing->rows, cells[i]);
        }
        return 0;
    }
    int64_t age_ms = clock_wall_ms(&clock_real) - request->created_at_ms;
    screen_duration(age_ms > 0 ? age_ms - age_ms % 1000 : 0, age);
    int failed = buf_addf(&line, "%.*s %.*s", SPAN_ARGS(request->method), SPAN_ARGS(request->url));
    table_add_coloured(listing->rows, span_of(spooled_state_text(request->state)),
                       screen_state_colour(span_of(spooled_state_text(request->state))));
    table_add_number(listing->rows, request->attempts);
    table_add(listing->rows, span_of(age_ms < 1000 ? "0s" : age));
    table_add_number(listing->rows, (int64_t)request->body.len);
    table_add(listing->rows, span_of(name));
    table_add(listing->rows, buf_span(&line));
    table_add(listing->rows, request->last_error);
    return failed;
}

static void write_time_or_null(struct writer *writer, const char *name, int64_t ms)
{
    if (ms != 0) {
        write_named_time(writer, name, ms);
    } else {
        write_name(writer, name);
        write_null(writer);
    }
}

static void write_request(struct writer *writer, const struct spooled *request)
{
    struct span rest = request->headers, name, value;

    write_named_text(writer, "state", span_of(spooled_state_text(request->state)));
    write_named_text(writer, "method", request->method);
    write_named_text(writer, "url", request->url);
    write_name(writer, "headers");
    write_open(writer, '[');
    while (fields_next(&rest, &name, &value)) {
        write_text(writer, name);
    }
    write_close(writer, ']');
    write_named_text(writer, "key", request->key);
    write_named_time(writer, "created_at", request->created_at_ms);
    write_named_int(writer, "attempts", request->attempts);
    write_time_or_null(writer, "tried_at", request->tried_at_ms);
    write_time_or_null(writer, "not_before", request->not_before_ms);
    write_name(writer, "last_error");
    if (request->last_error.len > 0) {
        write_text(writer, request->last_error);
    } else {
        write_null(writer);
    }
    write_named_int(writer, "body_bytes", (int64_t)request->body.len);
}

static int print_one(void *user, const char *name, const struct spool_found *found,
                     const char *wrong)
{
    const struct spooled *request = found != NULL ? &found->request : NULL;
    struct listing *listing = user;
    struct writer writer = {.out = listing->json};

    if (!is_wanted(listing->flags, request)) {
        return 0;
    }
    buf_clear(listing->json);
    write_open(&writer, '{');
    write_named_text(&writer, "name", span_of(name));
    if (request != NULL) {
        write_request(&writer, request);
    } else {
        listing->damaged++;
        write_named_text(&writer, "state", SPAN("damaged"));
        write_named_text(&writer, "last_error", span_of(wrong));
    }
    write_close(&writer, '}');
    if (writer.failed == 0) {
        printf("%s", listing->count++ > 0 ? "," : "");
        screen_put_json_part(buf_span(listing->json));
    }
    return writer.failed;
}

static int list_json(const struct spool *spool, const struct spool_list *list,
                     struct listing *listing, struct error *err)
{
    AUTO(buf_done) struct buf text;

    buf_init(&text, 2 * LINE_BYTES_MAX);
    listing->json = &text;
    printf("{\"requests\":[");
    int failed = walk(spool, list, print_one, listing, err);
    printf("]}\n");
    return failed;
}

static int list_table(const struct spool *spool, const struct spool_list *list,
                      struct listing *listing, struct error *err)
{
    const struct screen out = screen_of(stdout);
    AUTO(table_free_p) struct table *rows = NULL;

    rows = table_new(&out, columns, sizeof columns / sizeof *columns);
    if (rows == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a table");
    }
    listing->rows = rows;
    int failed = walk(spool, list, add_row, listing, err);
    failed = failed != 0 ? failed : table_end(rows);
    if (failed == 0 && listing->count == 0 && out.width > 0) {
        printf("nothing waits in %s\n", spool_folder(spool));
    }
    return failed;
}

/* --- drop ------------------------------------------------------------------------------------------ */

struct dropping {
    const struct spool_flags *flags;
    struct spool *spool;
    struct error *err;
    size_t count;
};

static bool is_named(const struct spool_flags *flags, const char *name)
{
    for (size_t i = 0; i < flags->name_count; i++) {
        if (strcmp(flags->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* What is damaged has to be named. */
static int drop_one(void *user, const char *name, const struct spool_found *found,
                    const char *wrong)
{
    struct dropping *dropping = user;
    const struct spool_flags *flags = dropping->flags;
    bool is_failed = found != NULL && found->request.state == SPOOLED_FAILED;
    bool is_meant = is_named(flags, name) || (flags->is_all && found != NULL) ||
                    (flags->is_failed && is_failed);

    (void)wrong;
    if (!is_meant) {
        return 0;
    }
    if (found != NULL && found->is_claimed) {
        return fail(dropping->err, FAULT_IO, "another process is sending %s", name);
    }
    int failed = spool_remove(dropping->spool, name, dropping->err);
    dropping->count += failed == 0;
    return failed;
}

static int drop(const struct spool_flags *flags, struct spool *spool, const struct spool_list *list,
                struct error *err)
{
    struct dropping dropping = {.flags = flags, .spool = spool, .err = err};
    bool is_ours = false;
    int64_t holder = 0;
    int failed = list->count == 0 ? 0 : spool_hold(spool, &is_ours, &holder, err);

    if (failed == 0 && list->count > 0 && !is_ours) {
        return fail(err, FAULT_IO, "process %lld is sending what is in %s", (long long)holder,
                    spool_folder(spool));
    }
    failed = failed != 0 ? failed : walk(spool, list, drop_one, &dropping, err);
    if (flags->common.is_json) {
        printf("{\"dropped\":%zu}\n", dropping.count);
    } else {
        printf("dropped %zu\n", dropping.count);
    }
    if (failed == 0 && dropping.count < flags->name_count) {
        return fail(err, FAULT_IO, "not every NAME is in %s", spool_folder(spool));
    }
    return failed;
}

/* --- the flow --------------------------------------------------------------------------------------- */

static bool is_dropping(const struct spool_flags *flags)
{
    return flags->act != NULL && strcmp(flags->act, "drop") == 0;
}

static int run_spool(const struct spool_flags *flags)
{
    AUTO(spool_close_p) struct spool *spool = NULL;
    AUTO(spool_list_done) struct spool_list list = {0};
    struct listing listing = {.flags = flags};
    struct error err = {0};
    int failed = spool_flags_open(flags->spool, &spool, &err);

    failed = failed != 0 ? failed : spool_list_read(spool, &list, &err);
    if (failed == 0) {
        spool_flags_tell_strangers(&form, spool, &list);
        failed = is_dropping(flags)      ? drop(flags, spool, &list, &err)
                 : flags->common.is_json ? list_json(spool, &list, &listing, &err)
                                         : list_table(spool, &list, &listing, &err);
    }
    if (failed != 0 && err.fault == 0) {
        return explain_fault(&form, failed);
    }
    if (failed != 0) {
        return spool_flags_complain(&form, &err);
    }
    return listing.damaged > 0 ? CLI_FAILED : CLI_DONE;
}

int cli_spool(int argc, char **argv)
{
    struct spool_flags flags = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    int ways = (flags.name_count > 0) + flags.is_failed + flags.is_all;
    if (is_dropping(&flags) ? ways != 1 : flags.is_all) {
        flags_complain(&form, is_dropping(&flags)
                                  ? "drop: expected one of NAMEs, --failed and --all"
                                  : "--all: expected only with drop");
        return CLI_USAGE;
    }
    if (!is_dropping(&flags)) {
        return explain_finish(&form, run_spool(&flags));
    }
    effect_begin();
    return effect_finish(&form, run_spool(&flags));
}
