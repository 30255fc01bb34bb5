/* SPDX-License-Identifier: MIT
 *
 * carry_rig -- see carry_rig.h.
 */
#include "carry_rig.h"

#include <stdio.h>

#define NOW_MS INT64_C(1800000000000)

static const struct store_keep keep = {1000, 1000, 1000, 1000};

/* --- a store with something of everything ------------------------------------------------------ */

struct store *carry_open(const char *spec)
{
    struct store *store = NULL;
    struct error err = {0};

    if (store_open(span_of(spec), &keep, &store, &err) != 0) {
        fail_msg("%s: %s", spec, err.text);
    }
    return store;
}

void carry_apply(struct store *store, struct op op, enum op_result wanted)
{
    struct op *list[] = {&op};
    struct error err = {0};

    if (store_apply(store, list, 1, &err) != 0) {
        fail_msg("apply: %s", err.text);
    }
    assert_int_equal(op.result, wanted);
}

void carry_add_queue(struct store *store, const char *name, bool dropped)
{
    carry_apply(store,
                (struct op){.kind = OP_QUEUE,
                            .queue = {.name = span_of(name),
                                      .settings = SPAN("{\"retry\": \"sync\"}"),
                                      .paused = dropped,
                                      .dropped = dropped}},
                RESULT_DONE);
}

struct task_id carry_id(int number)
{
    return (struct task_id){.row = id_row_at(NOW_MS) + number, .tail = 1000 + (uint64_t)number};
}

static const struct trail_row trail[] = {
    {.attempt = 1, .target = {"http://a/", 9}, .error_class = 1, .status = 503, .wait_ms = 5},
    {.attempt = 2, .message = {"cut \xff", 5}, .error_class = 0, .sent = TASK_SENT_MAYBE}};
static const struct answer answer = {
    .status = 200, .headers = {"a: b\n", 5}, .body = {"\0\xff", 2}, .settled_by = {"target", 6}};
static const struct edit edit = {.parts = EDIT_BODY, .round = 1, .body = {"second", 6}};

/* Each a little different from the others. */
static void add_task(struct store *store, int number)
{
    char key[16];
    struct op op = {.kind = OP_IMPORT,
                    .task = {.id = carry_id(number),
                             .queue = number % 2 == 0 ? 1 : 3,
                             .scope = SPAN("scope"),
                             .method = SPAN("POST"),
                             .target = SPAN("http://target.test/\xe3\x81\xa0"),
                             .headers = SPAN("content-type: text/plain\n"),
                             .labels = SPAN("colour: red\n"),
                             .body = number % 3 == 0 ? SPAN("bytes \0\xfe") : SPAN("text \"\n")},
                    .life = {.state = (enum task_state)(number % TASK_STATE_COUNT),
                             .due_at_ms = NOW_MS + number,
                             .fence = (uint64_t)number,
                             .epoch = 7,
                             .attempts = (uint32_t)number % 3,
                             .flags = number % 5 == 0 ? LIFE_LETTER | LIFE_PULL : 0}};

    (void)snprintf(key, sizeof key, "key-%d", number);
    op.task.key = number % 4 == 0 ? SPAN("") : span_of(key);
    op.releases_key = number % 4 == 1;
    op.life.flags |= op.life.state == TASK_DEAD ? LIFE_LETTER : 0;
    op.life.failed_at_ms = number % 5 == 0 ? NOW_MS : 0;
    op.trail = trail;
    op.trail_count = (size_t)number % 3;
    op.answer = number % 2 == 0 ? &answer : NULL;
    op.edit = number % 6 == 0 ? &edit : NULL;
    carry_apply(store, op, RESULT_DONE);
}

static void add_act(struct store *store, const char *who, int64_t at_ms)
{
    const struct audit_row row = {
        .at_ms = at_ms, .who = span_of(who), .act = SPAN("run"), .from_state = -1, .to_state = -1};

    carry_apply(store, (struct op){.kind = OP_MEMO, .memo.name = SPAN("none"), .audit = &row},
                RESULT_DONE);
}

void carry_fill(struct store *store)
{
    carry_add_queue(store, "mail", false);
    carry_add_queue(store, "gone", true);
    carry_add_queue(store, "text", false);
    for (int i = 1; i <= CARRY_TASKS; i++) {
        add_task(store, i);
    }
    carry_apply(store,
                (struct op){.kind = OP_MEMO, .memo = {SPAN("redrive:1"), SPAN("queue: 1\n")}},
                RESULT_DONE);
    add_act(store, "alice", 1);
    add_act(store, "alice", 1); /* the same twice, in one millisecond */
    add_act(store, "bob", 2);
}

/* --- carrying ---------------------------------------------------------------------------------- */

int carry_add_lines(void *user, struct span lines, const struct export_counts *counts)
{
    (void)counts;
    return buf_add(user, lines);
}

/* malloced, with a NUL behind it. */
char *carry_export(struct store *store, const struct export_options *options,
                   struct export_counts *ret_counts)
{
    struct export_counts counts;
    struct error err = {0};
    struct buf text;

    buf_init(&text, CARRY_BYTES_MAX);
    if (export_run(store, options, carry_add_lines, &text, &counts, &err) != 0) {
        fail_msg("export: %s", err.text);
    }
    assert_int_equal(buf_add(&text, (struct span){.at = "", .len = 1}), 0);
    if (ret_counts != NULL) {
        *ret_counts = counts;
    }
    return buf_take(&text, &(size_t){0});
}

char *carry_export_all(struct store *store)
{
    return carry_export(store, &(struct export_options){.states = 0}, NULL);
}

void carry_tell(void *user, uint64_t line, const char *text)
{
    struct carry_told *told = user;

    told->count++;
    told->line = line;
    (void)snprintf(told->text, sizeof told->text, "%s", text);
}

/* The first `lines_max` lines, or all; the fault. */
int carry_import_some(struct store *store, const char *text, size_t lines_max,
                      struct carry_told *told, struct import_counts *ret_counts, struct error *err)
{
    struct import *import = NULL;
    struct span rest = span_of(text), line;
    int failed = import_new(store, "lines", carry_tell, told, &import, err);

    for (size_t i = 0; failed == 0 && i < lines_max && span_cut(&rest, '\n', &line); i++) {
        failed = import_line(import, line, err);
    }
    if (failed == 0 || failed == FAULT_CORRUPT) {
        int flushed = import_flush(import, err);
        failed = failed != 0 ? failed : flushed;
    }
    if (import != NULL && ret_counts != NULL) {
        *ret_counts = import_counts(import);
    }
    import_free(import);
    return failed;
}

struct import_counts carry_import(struct store *store, const char *text)
{
    struct import_counts counts = {0};
    struct carry_told told = {0};
    struct error err = {0};

    if (carry_import_some(store, text, SIZE_MAX, &told, &counts, &err) != 0) {
        fail_msg("import: %s", err.text);
    }
    assert_int_equal(told.count, counts.conflicts);
    return counts;
}

struct record carry_read(struct store *store, int number, struct arena *arena)
{
    struct record record;
    bool found = false;

    assert_int_equal(store_read_task(store, carry_id(number), READ_BODIES | READ_TRAIL, arena,
                                     &record, &found, NULL),
                     0);
    assert_true(found);
    return record;
}
