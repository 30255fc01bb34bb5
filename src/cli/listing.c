/* SPDX-License-Identifier: MIT
 *
 * listing -- see listing.h.
 */
#include "cli/listing.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/json_value.h"
#include "cli/explain.h"
#include "edge/writer.h"
#include "engine/engine.h"

#include <daruma/policy.h>
#include <daruma/retry_after.h>

#include <inttypes.h>
#include <stdio.h>

#define NEXT_BYTES_MAX 512
#define WORD_BYTES_MAX 255

/* --- flags ---------------------------------------------------------------------------------------- */

bool listing_take_queue(void *flags, const char *value)
{
    struct listing_flags *listing = flags;

    listing->queue = NULL;
    return flags_queue(value, &listing->queue);
}

bool listing_take_status(void *flags, const char *value)
{
    ((struct listing_flags *)flags)->status = value;
    return letter_status_states(span_of(value)) != 0;
}

bool listing_take_class(void *flags, const char *value)
{
    enum daruma_class error_class;

    ((struct listing_flags *)flags)->class = value;
    return daruma_class_parse(value, &error_class);
}

bool listing_take_task(void *flags, const char *value)
{
    struct listing_flags *listing = flags;

    listing->task = NULL;
    return flags_task(value, &listing->task);
}

static bool is_word(const char *value)
{
    return value[0] != '\0' && strlen(value) <= WORD_BYTES_MAX;
}

bool listing_take_who(void *flags, const char *value)
{
    ((struct listing_flags *)flags)->who = value;
    return is_word(value);
}

bool listing_take_act(void *flags, const char *value)
{
    ((struct listing_flags *)flags)->act = value;
    return is_word(value);
}

static bool take_moment(const char *value, int64_t *ret_ms)
{
    int64_t ago_ms;

    if (daruma_rfc3339_parse(value, strlen(value), ret_ms)) {
        return *ret_ms > 0;
    }
    *ret_ms = clock_wall_ms(&clock_real);
    if (!flags_duration(value, &ago_ms) || ago_ms >= *ret_ms) {
        return false;
    }
    *ret_ms -= ago_ms;
    return true;
}

bool listing_take_since(void *flags, const char *value)
{
    return take_moment(value, &((struct listing_flags *)flags)->since_ms);
}

bool listing_take_until(void *flags, const char *value)
{
    return take_moment(value, &((struct listing_flags *)flags)->until_ms);
}

bool listing_take_limit(void *flags, const char *value)
{
    struct listing_flags *listing = flags;

    return span_to_int(span_of(value), &listing->limit) && listing->limit > 0 && !listing->is_all;
}

bool listing_take_all(void *flags, const char *value)
{
    struct listing_flags *listing = flags;

    (void)value;
    listing->is_all = true;
    return listing->limit == 0;
}

/* --- the question ----------------------------------------------------------------------------------- */

static int add_text(struct buf *path, const char *name, const char *value)
{
    if (value == NULL) {
        return 0;
    }
    int failed = buf_addf(path, "&%s=", name);
    return failed != 0 ? failed : client_escape(path, span_of(value));
}

static int add_moment(struct buf *path, const char *name, int64_t ms)
{
    char text[CLOCK_TEXT_MAX];

    clock_format(ms, text);
    return add_text(path, name, ms != 0 ? text : NULL);
}

static int make_path(const struct listing_form *listing, const struct listing_flags *flags,
                     int64_t limit, struct buf *path)
{
    int64_t most = limit < ENGINE_LIST_LIMIT_MAX ? limit : ENGINE_LIST_LIMIT_MAX;
    int failed = buf_addf(path, "%s?limit=%" PRId64, listing->path, most);

    failed = failed != 0 ? failed : add_text(path, "queue", flags->queue);
    failed = failed != 0 ? failed : add_text(path, "status", flags->status);
    failed = failed != 0 ? failed : add_text(path, "class", flags->class);
    failed = failed != 0 ? failed : add_text(path, "task", flags->task);
    failed = failed != 0 ? failed : add_text(path, "who", flags->who);
    failed = failed != 0 ? failed : add_text(path, "act", flags->act);
    failed = failed != 0 ? failed : add_moment(path, "since", flags->since_ms);
    return failed != 0 ? failed : add_moment(path, "until", flags->until_ms);
}

/* --- the pages --------------------------------------------------------------------------------------- */

struct walk {
    const struct listing_form *listing;
    struct flags *asking; /* the client's: see begin_document */
    struct table *rows;   /* NULL: JSON is wanted */
    int64_t left, count;
    bool is_begun;
    char next[NEXT_BYTES_MAX]; /* where a list that was ended early would go on */
};

/* From here on a problem cannot be the document any more: it is said, and this one stays unended. */
static void begin_document(struct walk *walk)
{
    if (!walk->is_begun) {
        printf("{\"%s\":[", walk->listing->member);
        walk->is_begun = true;
        walk->asking->is_json = false;
    }
}

static int end_document(struct walk *walk)
{
    AUTO(buf_done) struct buf text;
    struct writer writer = {.out = &text};

    buf_init(&text, 8 * NEXT_BYTES_MAX);
    begin_document(walk);
    if (walk->next[0] != '\0') {
        write_text(&writer, span_of(walk->next));
    } else {
        write_null(&writer);
    }
    if (writer.failed != 0) {
        return explain_fault(walk->listing->form, writer.failed);
    }
    printf("],\"next\":");
    screen_put_json_part(buf_span(&text));
    printf("}\n");
    return CLI_DONE;
}

/* Each element as it came. */
static void print_elements(struct walk *walk, const struct client_page *page, size_t count)
{
    struct json_walk elements;
    struct span name, value;

    begin_document(walk);
    if (!json_walk_begin(&elements, page->text, '[')) {
        return;
    }
    for (size_t i = 0; i < count && json_walk_next(&elements, &name, &value) == JSON_STEP_VALUE;
         i++) {
        if (walk->count + (int64_t)i > 0) {
            printf(",");
        }
        screen_put_json_part(value);
    }
}

static int show_rows(const struct walk *walk, const struct client_page *page, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        walk->listing->add(walk->rows, json_array_get(page->rows, i));
    }
    return table_print(walk->rows);
}

static enum client_walk show_page(void *user, const struct client_page *page)
{
    struct walk *walk = user;
    size_t count = json_array_size(page->rows);
    int failed = 0;

    if ((int64_t)count > walk->left) {
        count = (size_t)walk->left; /* a server that gives more than it is asked for */
    }
    if (walk->rows != NULL) {
        failed = show_rows(walk, page, count);
    } else {
        print_elements(walk, page, count);
    }
    if (failed != 0) {
        (void)explain_fault(walk->listing->form, failed); /* CLI_FAILED, as giving up is */
        return CLIENT_GIVE_UP;
    }
    walk->count += (int64_t)count;
    walk->left -= (int64_t)count;
    if (walk->left > 0) {
        return CLIENT_GO_ON;
    }
    if (page->next != NULL) {
        (void)snprintf(walk->next, sizeof walk->next, "%s", page->next); /* cut at worst */
    }
    return CLIENT_ENOUGH;
}

/* For people: what is not there, and what was left out. */
static void say_rest(const struct walk *walk)
{
    (void)fflush(stdout); /* so that the two do not mix */
    if (walk->count == 0) {
        fprintf(stderr, "%s\n", walk->listing->none);
    } else if (walk->next[0] != '\0') {
        fprintf(stderr, "there are more: --all shows every one, --limit N so many\n");
    }
}

static int walk_all(struct client *client, struct walk *walk, const struct listing_flags *flags)
{
    AUTO(buf_done) struct buf path;

    buf_init(&path, CLIENT_PATH_MAX);
    int failed = make_path(walk->listing, flags, walk->left, &path);
    if (failed != 0) {
        return explain_fault(walk->listing->form, failed);
    }
    int exit_code = client_walk(client, &(struct client_list){.path = buf_span(&path),
                                                              .member = walk->listing->member,
                                                              .each = show_page,
                                                              .user = walk});
    int untold = walk->rows != NULL ? table_end(walk->rows) : 0; /* also those before a failure */
    if (exit_code != CLI_DONE) {
        return exit_code;
    }
    if (untold != 0) {
        return explain_fault(walk->listing->form, untold);
    }
    if (walk->rows == NULL) {
        return end_document(walk);
    }
    say_rest(walk);
    return CLI_DONE;
}

int listing_show(const struct listing_form *listing, const struct listing_flags *flags)
{
    const struct screen screen = screen_of(stdout);
    AUTO(client_close_p) struct client *client = NULL;
    AUTO(table_free_p) struct table *rows = NULL;
    struct flags asking = flags->common;
    int exit_code = client_open(listing->form, &asking, &client);

    if (exit_code != CLI_DONE) {
        return exit_code;
    }
    if (!flags->common.is_json) {
        rows = table_new(&screen, listing->columns, listing->column_count);
        if (rows == NULL) {
            return explain_fault(listing->form, FAULT_MEMORY);
        }
    }
    int64_t limit = flags->is_all ? INT64_MAX : flags->limit > 0 ? flags->limit : ENGINE_LIST_LIMIT;
    struct walk walk = {.listing = listing, .asking = &asking, .rows = rows, .left = limit};
    return walk_all(client, &walk, flags);
}
