/* SPDX-License-Identifier: MIT
 *
 * test_carry -- export and import: what goes out of one store comes into another as it was, once,
 * however often it is begun; what has no place is told; and a store may be looked at while another
 * has it open.
 */
#include "alloc_fail.h"
#include "carry_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ARENA_MAX ((size_t)16 << 20)
#define RUNS_MAX  4000

/* --- from store to store ------------------------------------------------------------------------- */

/* A task that was under way is nobody's afterwards, so it is left out here. */
static void round_about(const char *const specs[], size_t count)
{
    struct store *first = carry_open(specs[0]);
    const struct export_options options = {.states = STORE_ALL_STATES & ~(1u << TASK_RUNNING)};
    char *whole;

    carry_fill(first);
    char *text = carry_export(first, &options, NULL);
    store_close(first);
    for (size_t i = 1; i < count; i++) {
        struct store *store = carry_open(specs[i]);
        struct import_counts counts = carry_import(store, text);
        assert_true(counts.has_end);
        assert_int_equal(counts.queues, 3);
        assert_int_equal(counts.tasks_kept + counts.conflicts, 0);
        whole = carry_export(store, &options, NULL);
        assert_string_equal(whole, text);
        free(whole);
        store_close(store);
    }
    free(text);
}

static void what_goes_round_comes_back_the_same(void **state)
{
    static const char *const specs[] = {"sqlite:a.db", "json:b.json", "sqlite:c.db", "memory"};
    (void)state;

    round_about(specs, 4);
}

static void memos_and_acts_are_carried_too(void **state)
{
    struct store *from = carry_open("memory"), *to = carry_open("sqlite:to.db");
    (void)state;

    carry_fill(from);
    char *text = carry_export_all(from);
    struct import_counts counts = carry_import(to, text);
    assert_int_equal(counts.memos, 1);
    assert_int_equal(counts.acts, 3);
    counts = carry_import(to, text);
    assert_int_equal(counts.memos + counts.acts + counts.tasks + counts.queues, 0);
    assert_int_equal(counts.acts_kept, 3);
    assert_int_equal(counts.tasks_kept, CARRY_TASKS);
    free(text);
    store_close(from);
    store_close(to);
}

/* I5: the lease belongs to a process that this store has never seen. */
static void a_task_under_way_is_nobodys_afterwards(void **state)
{
    struct store *from = carry_open("memory"), *to = carry_open("memory");
    struct arena *arena = arena_new(ARENA_MAX);
    (void)state;

    carry_fill(from);
    char *text = carry_export_all(from);
    (void)carry_import(to, text);
    struct record pushed = carry_read(to, 9, arena), pulled = carry_read(to, 25, arena);
    assert_int_equal(pushed.life.state, TASK_RUNNING);
    assert_int_equal(pushed.life.epoch, 0); /* no start ever has this number */
    assert_int_equal(pulled.life.state, TASK_RUNNING);
    assert_int_equal(pulled.life.epoch, 7); /* its worker may still be at it: it ends by time */
    free(text);
    store_close(from);
    store_close(to);
    arena_free(arena);
}

/* Whatever cuts it off: the same once more completes it, and nothing is there twice. */
static void an_import_that_was_cut_off_is_completed_by_the_next(void **state)
{
    struct store *from = carry_open("memory");
    (void)state;

    carry_fill(from);
    char *text = carry_export_all(from);
    struct store *straight = carry_open("memory");
    (void)carry_import(straight, text);
    char *wanted = carry_export_all(straight);
    for (size_t lines = 0; lines <= CARRY_TASKS + 10; lines++) {
        struct store *to = carry_open("memory");
        struct carry_told told = {0};
        struct import_counts counts;
        assert_int_equal(carry_import_some(to, text, lines, &told, &counts, NULL), 0);
        assert_int_equal(counts.has_end, lines >= CARRY_TASKS + 9);
        counts = carry_import(to, text);
        assert_int_equal(counts.tasks + counts.tasks_kept, CARRY_TASKS);
        assert_int_equal(counts.acts + counts.acts_kept, 3);
        char *found = carry_export_all(to);
        assert_string_equal(found, wanted);
        free(found);
        store_close(to);
    }
    free(wanted);
    free(text);
    store_close(straight);
    store_close(from);
}

static void tasks_follow_their_queue_by_name(void **state)
{
    struct store *from = carry_open("memory"), *to = carry_open("memory");
    struct arena *arena = arena_new(ARENA_MAX);
    (void)state;

    carry_fill(from);
    carry_add_queue(to, "text", false); /* number 1 here, 3 there */
    char *text = carry_export_all(from);
    struct import_counts counts = carry_import(to, text);
    assert_int_equal(counts.queues_kept, 1);
    assert_int_equal(counts.queues, 2);
    assert_int_equal(counts.tasks, CARRY_TASKS);
    assert_int_equal(carry_read(to, 1, arena).task.queue, 1);
    assert_int_equal(carry_read(to, 2, arena).task.queue, 2);
    assert_int_equal(counts.memos, 0); /* they speak of queues by number */
    assert_int_equal(counts.memos_left, 1);
    free(text);
    store_close(from);
    store_close(to);
    arena_free(arena);
}

/* A deleted queue must not delete the one of its name that lives here. */
static void a_queue_that_lives_here_is_not_deleted_by_one_that_was_deleted_there(void **state)
{
    struct store *from = carry_open("memory"), *to = carry_open("memory");
    (void)state;

    carry_fill(from);
    carry_add_queue(to, "gone", false);
    char *text = carry_export_all(from);
    (void)carry_import(to, text);
    char *found = carry_export_all(to);
    assert_non_null(strstr(found, "\"name\": \"gone\", \"settings\""));
    assert_null(strstr(found, "\"dropped\": true"));
    free(found);
    free(text);
    store_close(from);
    store_close(to);
}

/* --- what has no place ----------------------------------------------------------------------------- */

static void a_key_that_is_taken_leaves_the_task_out_and_says_so(void **state)
{
    struct store *from = carry_open("memory"), *to = carry_open("memory");
    struct import_counts counts;
    struct carry_told told = {0};
    (void)state;

    carry_fill(from);
    carry_add_queue(to, "mail", false);
    carry_apply(
        to,
        (struct op){
            .kind = OP_RECORD,
            .task = {.id = {5, 5}, .queue = 1, .scope = SPAN("scope"), .key = SPAN("key-2")}},
        RESULT_DONE);
    char *text = carry_export_all(from);
    assert_int_equal(carry_import_some(to, text, SIZE_MAX, &told, &counts, NULL), 0);
    assert_int_equal(counts.conflicts, 1);
    assert_int_equal(counts.tasks, CARRY_TASKS - 1);
    assert_int_equal(told.line, 6); /* begin, three queues, task 1, this one */
    assert_non_null(strstr(told.text, "its key belongs to task"));
    free(text);
    store_close(from);
    store_close(to);
}

/* Two installations may have made a task in the same place: that is not the same task. */
static void another_task_in_its_place_is_not_taken_for_the_same(void **state)
{
    struct store *from = carry_open("memory"), *to = carry_open("memory");
    struct import_counts counts;
    struct carry_told told = {0};
    struct task_id id = carry_id(3);
    (void)state;

    carry_fill(from);
    id.tail++;
    carry_apply(to, (struct op){.kind = OP_RECORD, .task = {.id = id, .queue = 1}}, RESULT_DONE);
    char *text = carry_export_all(from);
    assert_int_equal(carry_import_some(to, text, SIZE_MAX, &told, &counts, NULL), 0);
    assert_int_equal(counts.conflicts, 1);
    assert_int_equal(counts.tasks_kept, 0);
    assert_int_equal(told.line, 7);
    assert_non_null(strstr(told.text, "in its place there is task"));
    free(text);
    store_close(from);
    store_close(to);
}

static void a_bad_line_is_told_with_its_place_and_nothing_of_it_is_taken(void **state)
{
    static const struct {
        const char *lines, *expected;
    } cases[] = {
        {"{\"kind\": \"task\"}\n", "lines:1:1: \"id\" is missing"},
        {"{\"kind\": \"queue\", \"number\": 1, \"name\": \"q\"}\n",
         "lines:1:1: this was not written by daruma export"},
        {"{\"kind\": \"begin\", \"format\": \"x\", \"version\": 1}\n",
         "lines:1:19: \"format\": this was not written by daruma export"},
        {"{\"kind\": \"begin\", \"format\": \"daruma export\", \"version\": 2}\n",
         "lines:1:46: \"version\": this version of the format is not known: 1 is expected"},
        {"BEGIN{\"kind\": \"letter\"}\n",
         "lines:2:2: \"kind\": begin, queue, task, memo, audit or end is expected"},
        {"BEGIN[]\n", "lines:2:1: \"kind\": begin, queue, task, memo, audit or end is expected"},
        {"BEGIN{\"kind\": \"queue\", \"number\": 1, \"name\": \"\"}\n",
         "lines:2:1: a queue has a name"},
        {"BEGIN{\"kind\": \"task\", \"queue\": \"q\", \"id\": [1, 1], \"state\": \"waiting\","
         " \"due_at\": 0, \"attempts\": 0, \"fingerprint\": \"00000000000000000000000000000000"
         "00000000000000000000000000000000\"}\n",
         "lines:2:18: \"queue\": the name of one of the \"queues\" is expected, or a number"},
        {"BEGIN{\"kind\": \"memo\", \"name\": \"\", \"value\": \"x\"}\n",
         "lines:2:1: a name of 1 to 255 bytes and a value are expected"},
        {"BEGIN\n", "lines:2:1: '[' or '{' expected"},
        {"BEGIN{\"kind\": \"ta\n", "lines:2:12: premature end of input"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct store *to = carry_open("memory");
        struct error err = {0};
        struct carry_told told = {0};
        char text[512];
        bool begins = span_starts(span_of(cases[i].lines), "BEGIN");
        (void)snprintf(text, sizeof text, "%s%s",
                       begins ? "{\"kind\": \"begin\", \"format\": \"daruma export\","
                                " \"version\": 1}\n"
                              : "",
                       cases[i].lines + (begins ? 5 : 0));
        assert_int_equal(carry_import_some(to, text, SIZE_MAX, &told, NULL, &err), FAULT_CORRUPT);
        assert_string_equal(err.text, cases[i].expected);
        char *found = carry_export_all(to);
        assert_null(strstr(found, "\"kind\": \"queue\""));
        free(found);
        store_close(to);
    }
}

/* --- parts ------------------------------------------------------------------------------------------ */

/* What no door lets in does not come in by this one either: every walk relies on it. */
static void a_part_that_is_too_long_is_told_by_its_name(void **state)
{
    static const char *const whole =
        "{\"kind\": \"begin\", \"format\": \"daruma export\", \"version\": 1}\n"
        "{\"kind\": \"queue\", \"number\": 1, \"name\": \"q\"}\n"
        "{\"kind\": \"task\", \"queue\": 1, \"id\": [1, 1], \"state\": \"waiting\","
        " \"due_at\": 0, \"attempts\": 0, \"fingerprint\": \"00000000000000000000000000000000"
        "00000000000000000000000000000000\", \"headers\": [[\"X-A\", \"%s\"]]}\n"
        "{\"kind\": \"end\"}\n";
    (void)state;

    for (int more = 0; more <= 1; more++) {
        struct store *to = carry_open("memory");
        size_t len = TASK_PART_BYTES_MAX - strlen("X-A: \n") + (size_t)more;
        char *value = calloc(1, len + 1), *text = malloc(len + 1000);
        struct import_counts counts;
        struct error err = {0};
        struct carry_told told = {0};
        assert_true(value != NULL && text != NULL);
        memset(value, 'x', len);
        (void)snprintf(text, len + 1000, whole, value);
        int failed = carry_import_some(to, text, SIZE_MAX, &told, &counts, &err);
        assert_int_equal(failed, more == 0 ? 0 : FAULT_CORRUPT);
        if (more != 0) {
            assert_string_equal(err.text,
                                "lines:3:1: its \"headers\" has 65537 bytes, the limit is 65536");
        }
        free(value);
        free(text);
        store_close(to);
    }
}

static void a_part_is_exported_by_queue_state_and_place(void **state)
{
    struct store *from = carry_open("memory");
    struct export_counts counts;
    struct error err = {0};
    struct buf none;
    (void)state;

    carry_fill(from);
    free(carry_export(from, &(struct export_options){.queue = SPAN("mail")}, &counts));
    assert_int_equal(counts.queues, 1);
    assert_int_equal(counts.tasks, CARRY_TASKS / 2);
    assert_int_equal(counts.memos + counts.acts, 0); /* these are about the whole */
    free(carry_export(from, &(struct export_options){.states = 1u << TASK_DEAD}, &counts));
    assert_int_equal(counts.tasks, (CARRY_TASKS - TASK_DEAD) / TASK_STATE_COUNT + 1);
    free(carry_export(from, &(struct export_options){.after_row = carry_id(CARRY_TASKS - 3).row},
                      &counts));
    assert_int_equal(counts.tasks, 3);
    assert_int_equal(counts.acts, 3);
    assert_int_equal(counts.last.row, carry_id(CARRY_TASKS).row);
    buf_init(&none, CARRY_BYTES_MAX);
    assert_int_equal(export_run(from, &(struct export_options){.queue = SPAN("none")},
                                carry_add_lines, &none, &counts, &err),
                     FAULT_INPUT);
    assert_string_equal(err.text, "there is no queue \"none\"");
    buf_done(&none);
    store_close(from);
}

/* Two halves, one behind the other, are the whole: begin, queues and acts twice do no harm. */
static void an_export_that_went_on_is_whole(void **state)
{
    struct store *from = carry_open("memory"), *to = carry_open("memory");
    struct store *straight = carry_open("memory");
    (void)state;

    carry_fill(from);
    char *first = carry_export_all(from);
    char *cut = strstr(first, "key-21");
    assert_non_null(cut);
    while (cut[-1] != '\n') {
        cut--;
    }
    struct export_options options = {.after_row = carry_id(20).row};
    char *second = carry_export(from, &options, NULL);
    size_t room = strlen(first) + strlen(second) + 1;
    char *both = malloc(room);
    assert_non_null(both);
    (void)snprintf(both, room, "%.*s%s", (int)(cut - first), first, second);
    (void)carry_import(straight, first);
    struct import_counts counts = carry_import(to, both);
    assert_int_equal(counts.tasks, CARRY_TASKS);
    char *found = carry_export_all(to), *wanted = carry_export_all(straight);
    assert_string_equal(found, wanted);
    free(found);
    free(wanted);
    free(first);
    free(second);
    free(both);
    store_close(from);
    store_close(to);
    store_close(straight);
}

/* --- looking at a store in use ----------------------------------------------------------------------- */

static void a_store_in_use_may_be_read_and_not_written(void **state)
{
    static const char *const specs[] = {"sqlite:used.db", "json:used.json"};
    (void)state;

    for (size_t i = 0; i < 2; i++) {
        struct store *used = carry_open(specs[i]), *reader = NULL;
        struct op op = {.kind = OP_RECORD, .task.id = {.row = 1}};
        struct op *list[] = {&op};
        carry_fill(used);
        uint64_t epoch = used->epoch;
        assert_int_equal(store_open_to_read(span_of(specs[i]), &reader, NULL), 0);
        assert_int_equal(store_apply(reader, list, 1, NULL), FAULT_INPUT);
        assert_int_equal(store_touch(reader, NULL), FAULT_INPUT);
        char *found = carry_export_all(reader), *wanted = carry_export_all(used);
        assert_string_equal(found, wanted);
        store_close(reader);
        carry_add_queue(used, "later", false); /* and whoever has it goes on */
        store_close(used);
        used = carry_open(specs[i]);
        assert_int_equal(used->epoch, epoch + 1); /* a reader is no start */
        store_close(used);
        free(found);
        free(wanted);
    }
}

static void what_is_not_there_is_not_made_by_looking(void **state)
{
    static const char *const specs[] = {"sqlite:none.db", "json:none.json"};
    (void)state;

    for (size_t i = 0; i < 2; i++) {
        struct store *reader = NULL;
        struct error err = {0};
        assert_int_not_equal(store_open_to_read(span_of(specs[i]), &reader, &err), 0);
        assert_null(reader);
        assert_non_null(strstr(err.text, "none."));
    }
    assert_int_not_equal(access("none.db", F_OK), 0);
    assert_int_not_equal(access("none.db.lock", F_OK), 0);
    assert_int_not_equal(access("none.json", F_OK), 0);
    assert_int_not_equal(access("none.json.lock", F_OK), 0);
}

/* --- memory ------------------------------------------------------------------------------------------ */

/* I9: refused memory is an ordinary fault, and the same once more completes it. */
static void memory_may_run_out_anywhere(void **state)
{
    struct store *from = carry_open("memory");
    struct alloc_count count = {.refused = 1};
    (void)state;

    carry_fill(from);
    char *text = carry_export_all(from);
    for (uint64_t refuse = 1; count.refused > 0; refuse++) {
        struct export_counts counts;
        struct buf lines;
        buf_init(&lines, CARRY_BYTES_MAX);
        assert_true(refuse < RUNS_MAX);
        alloc_fail_start(refuse);
        int failed = export_run(from, &(struct export_options){.states = 0}, carry_add_lines,
                                &lines, &counts, NULL);
        count = alloc_fail_stop();
        assert_int_equal(failed, count.refused > 0 ? FAULT_MEMORY : 0);
        buf_done(&lines);
    }
    count.refused = 1;
    for (uint64_t refuse = 1; count.refused > 0; refuse++) {
        struct store *to = carry_open("memory");
        struct carry_told told = {0};
        assert_true(refuse < RUNS_MAX);
        alloc_fail_start(refuse);
        int failed = carry_import_some(to, text, SIZE_MAX, &told, NULL, NULL);
        count = alloc_fail_stop();
        assert_int_equal(failed, count.refused > 0 ? FAULT_MEMORY : 0);
        struct import_counts counts = carry_import(to, text);
        assert_int_equal(counts.tasks + counts.tasks_kept, CARRY_TASKS);
        assert_int_equal(counts.acts + counts.acts_kept, 3);
        store_close(to);
    }
    free(text);
    store_close(from);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_round_comes_back_the_same),
        cmocka_unit_test(memos_and_acts_are_carried_too),
        cmocka_unit_test(a_task_under_way_is_nobodys_afterwards),
        cmocka_unit_test(an_import_that_was_cut_off_is_completed_by_the_next),
        cmocka_unit_test(tasks_follow_their_queue_by_name),
        cmocka_unit_test(a_queue_that_lives_here_is_not_deleted_by_one_that_was_deleted_there),
        cmocka_unit_test(a_key_that_is_taken_leaves_the_task_out_and_says_so),
        cmocka_unit_test(another_task_in_its_place_is_not_taken_for_the_same),
        cmocka_unit_test(a_bad_line_is_told_with_its_place_and_nothing_of_it_is_taken),
        cmocka_unit_test(a_part_that_is_too_long_is_told_by_its_name),
        cmocka_unit_test(a_part_is_exported_by_queue_state_and_place),
        cmocka_unit_test(an_export_that_went_on_is_whole),
        cmocka_unit_test(a_store_in_use_may_be_read_and_not_written),
        cmocka_unit_test(what_is_not_there_is_not_made_by_looking),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return HARNESS_RUN(argc, argv, tests);
}
