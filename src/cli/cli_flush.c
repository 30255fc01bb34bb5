/* SPDX-License-Identifier: MIT
 *
 * cli_flush -- `daruma flush`: sends what waits on this machine (A9.2). Tells what it is doing on a
 * terminal while it does it; at the end there is a table of what was not sent, and one line. With
 * --json a line for each request as it ends, and one for all of them.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "cli/effect.h"
#include "cli/explain.h"
#include "cli/flush.h"
#include "cli/spool_flags.h"
#include "cli/table.h"
#include "edge/writer.h"

#include <inttypes.h>
#include <stdio.h>

#define LINE_BYTES_MAX 65536

struct flush_flags {
    struct flags common;
    const char *spool;
    bool is_reviving;
};

/* --- flags ---------------------------------------------------------------------------------------- */

static bool take_spool(void *user, const char *value)
{
    ((struct flush_flags *)user)->spool = value;
    return value[0] != '\0';
}

static bool take_retry_failed(void *user, const char *value)
{
    (void)value;
    ((struct flush_flags *)user)->is_reviving = true;
    return true;
}

static const struct flag table[] = {
    {"--spool", "DIR", take_spool, SPOOL_FLAG_EXPECTED, SPOOL_FLAG_HELP, NULL, false},
    {"--retry-failed", NULL, take_retry_failed, NULL, "takes those that have failed along again",
     NULL, false},
};

static const struct flags_form form = {
    .command = "flush",
    .purpose =
        "Sends what 'daruma send' could not send, in order, one request each. Exit status 0:\n"
        "nothing waits any more; 4: something still does; 1: something has failed.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .is_local = true,
};

/* --- telling --------------------------------------------------------------------------------------- */

static const struct table_column columns[] = {
    {.title = "RESULT"},
    {.title = "TRIES", .is_number = true},
    {.title = "NAME"},
    {.title = "REQUEST", .is_flexible = true},
    {.title = "WHY", .is_flexible = true},
};

AUTO_POINTER(struct table, table_free)

struct telling {
    const struct flush_flags *flags;
    struct screen errors;
    struct table *table;
    int failed;
};

static void clear_progress(const struct telling *telling)
{
    if (telling->errors.has_colour) {
        fprintf(stderr, "\r\033[K");
        (void)fflush(stderr);
    }
}

static void show_progress(void *user, const struct flush_step *step)
{
    const struct telling *telling = user;
    const struct screen *errors = &telling->errors;

    if (errors->has_colour) {
        char place[64];
        int len = snprintf(place, sizeof place, "\r\033[Ksending %zu of %zu: ", step->number,
                           step->count);
        fprintf(stderr, "%s", place);
        size_t used = len > 4 ? (size_t)len - 4 : 0;
        (void)screen_put(errors, step->request->url,
                         errors->width > used + 1 ? errors->width - used - 1 : 1);
        (void)fflush(stderr);
    }
}

static void print_step(struct telling *telling, const struct flush_step *step)
{
    AUTO(buf_done) struct buf text;
    struct writer writer = {.out = &text};

    buf_init(&text, LINE_BYTES_MAX);
    write_open(&writer, '{');
    write_named_text(&writer, "name", span_of(step->name));
    write_named_text(&writer, "result", span_of(flush_result_text(step->result)));
    if (step->request != NULL) {
        write_named_text(&writer, "url", step->request->url);
        write_named_text(&writer, "key", step->request->key);
        write_named_int(&writer, "attempts", step->request->attempts);
    }
    if (step->status != 0) {
        write_named_int(&writer, "status", step->status);
    }
    if (step->why[0] != '\0') {
        write_named_text(&writer, "error", span_of(step->why));
    }
    write_close(&writer, '}');
    telling->failed = telling->failed != 0 ? telling->failed : writer.failed;
    if (writer.failed == 0) {
        screen_put_json(buf_span(&text));
        (void)fflush(
            stdout); /* whoever reads it wants to know now; a failure is found at the end */
    }
}

static enum screen_colour colour_of(enum flush_result result)
{
    return result == FLUSH_SENT      ? SCREEN_GREEN
           : result == FLUSH_WAITING ? SCREEN_YELLOW
                                     : SCREEN_RED;
}

static void tell_step(void *user, const struct flush_step *step)
{
    struct telling *telling = user;

    clear_progress(telling);
    if (telling->flags->common.is_json) {
        print_step(telling, step);
    } else if (step->result != FLUSH_SENT) {
        table_add_coloured(telling->table, span_of(flush_result_text(step->result)),
                           colour_of(step->result));
        table_add_number(telling->table, step->request != NULL ? step->request->attempts : 0);
        table_add(telling->table, span_of(step->name));
        table_add(telling->table, step->request != NULL ? step->request->url : SPAN(""));
        table_add(telling->table, span_of(step->why));
    }
}

static int tell_all(const struct telling *telling, const struct flush_tally *tally)
{
    int failed = telling->failed != 0     ? telling->failed
                 : telling->table != NULL ? table_end(telling->table)
                                          : 0;

    if (telling->flags->common.is_json) {
        printf("{\"sent\":%zu,\"waiting\":%zu,\"failed\":%zu,\"failed_before\":%zu,"
               "\"damaged\":%zu}\n",
               tally->sent, tally->waiting, tally->failed, tally->failed_before, tally->damaged);
    } else {
        printf("sent %zu, waiting %zu, failed %zu", tally->sent, tally->waiting,
               tally->failed + tally->failed_before);
        if (tally->damaged > 0) {
            printf(", damaged %zu", tally->damaged);
        }
        printf("\n");
    }
    return failed;
}

/* --- the flow --------------------------------------------------------------------------------------- */

static int exit_of(const struct flush_tally *tally)
{
    if (tally->failed + tally->damaged > 0) {
        return CLI_FAILED;
    }
    return tally->waiting > 0 ? CLI_SPOOLED : CLI_DONE;
}

/* The flush could not go on. What it had not come to yet is counted as well; where that cannot be done
 * there are no numbers at all. */
static int end_failed(const struct telling *telling, const struct spool *spool,
                      struct flush_tally *tally, const struct error *err)
{
    struct error again = {0};

    if (flush_recount(spool, tally, &again) == 0) {
        (void)tell_all(telling, tally); /* the failure is said below */
    }
    return spool_flags_complain(&form, err);
}

/* Only what is held is touched: without a sender there was nothing to hold. */
static int run_held(const struct flush_flags *flags, struct spool *spool, struct sender *sender)
{
    AUTO(table_free_p) struct table *rows = NULL;
    struct telling telling = {.flags = flags, .errors = screen_of(stderr)};
    const struct screen out = screen_of(stdout);
    struct flush_tally tally = {0};
    struct error err = {0};
    size_t revived = 0;

    rows = table_new(&out, columns, sizeof columns / sizeof *columns);
    if (rows == NULL) {
        return explain_fault(&form, FAULT_MEMORY);
    }
    telling.table = rows;
    bool is_reviving = sender != NULL && flags->is_reviving;
    int failed = is_reviving ? flush_revive(spool, &revived, &err) : 0;
    if (failed == 0 && sender != NULL) {
        failed = flush_run(&(struct flush){.spool = spool,
                                           .sender = sender,
                                           .before = show_progress,
                                           .each = tell_step,
                                           .user = &telling},
                           &tally, &err);
    }
    clear_progress(&telling);
    if (failed != 0) {
        return end_failed(&telling, spool, &tally, &err);
    }
    int untold = tell_all(&telling, &tally);
    if (untold != 0) {
        (void)explain_fault(&form, untold); /* what was done is told by the exit status */
    }
    return exit_of(&tally);
}

static int run_flush(const struct flush_flags *flags)
{
    AUTO(spool_close_p) struct spool *spool = NULL;
    AUTO(sender_close_p) struct sender *sender = NULL;
    AUTO(spool_list_done) struct spool_list list = {0};
    struct error err = {0};
    bool is_ours = false;
    int64_t holder = 0;
    int failed = spool_flags_open(flags->spool, &spool, &err);

    failed = failed != 0 ? failed : spool_list_read(spool, &list, &err);
    if (failed == 0) {
        spool_flags_tell_strangers(&form, spool, &list);
    }
    if (failed == 0 && list.count > 0) {
        failed = spool_hold(spool, &is_ours, &holder, &err);
    }
    if (failed == 0 && is_ours) {
        failed = sender_open(flags->common.ca, &sender, &err);
    }
    if (failed != 0) {
        return spool_flags_complain(&form, &err);
    }
    if (list.count > 0 && !is_ours) {
        flags_complain(&form, "process %" PRId64 " is sending what is in %s", holder,
                       spool_folder(spool));
        return CLI_SPOOLED;
    }
    return run_held(flags, spool, sender);
}

int cli_flush(int argc, char **argv)
{
    struct flush_flags flags = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    effect_begin();
    return effect_finish(&form, run_flush(&flags));
}
