/* SPDX-License-Identifier: MIT
 *
 * A JSON store that fills up: what has begun always ends (I9), what does not fit is left out and marked
 * as such, and whoever asks for more is refused without a write.
 */
#include "store_json_fixture.h"

#include "store/store_json_internal.h"

#include <sys/stat.h>

#define BYTES_MAX ((size_t)512 << 10)
#define RESERVED  ((size_t)64 << 10)
#define LONG_BODY ((size_t)32 << 10)
#define ARENA_MAX ((size_t)1 << 20)
#define FULL_WITH ((int)((BYTES_MAX - RESERVED) / LONG_BODY) - 1)

/* As it is, but small: it takes as long as it has bytes. */
static struct store *open_small(void)
{
    struct store *store = open_at(SPEC);
    struct room *room = &((struct store_json *)store)->room;

    assert_int_equal(room->bytes_max, STORE_JSON_BYTES_MAX);
    room->bytes_max = BYTES_MAX;
    room->reserved_bytes = RESERVED;
    return store;
}

static struct span long_text(char letter)
{
    static char texts['z' + 1][LONG_BODY];
    char *text = texts[(unsigned char)letter];

    memset(text, letter, LONG_BODY);
    return (struct span){.at = text, .len = LONG_BODY};
}

static int apply_many(struct store *store, struct op *ops, int count)
{
    struct op *pointers[32];

    assert_in_range(count, 1, 32);
    for (int i = 0; i < count; i++) {
        pointers[i] = &ops[i];
    }
    return store_apply(store, pointers, (size_t)count, NULL);
}

/* So many tasks with long requests, all of them leased: nothing more can be recorded. */
static void fill(struct store *store, struct op leased[FULL_WITH], struct span body)
{
    struct op records[FULL_WITH], more = record_of(100, body);

    for (int i = 0; i < FULL_WITH; i++) {
        records[i] = record_of(1 + i, body);
        leased[i] = lease_of(1 + i);
    }
    assert_int_equal(apply_many(store, records, FULL_WITH), 0);
    assert_int_equal(apply(store, &more), FAULT_FULL);
    assert_int_equal(apply_many(store, leased, FULL_WITH), 0);
}

static struct op settle_of(const struct op *lease, const struct answer *answer)
{
    struct op settle = {
        .kind = OP_SETTLE, .task.id = lease->task.id, .life = lease->life, .answer = answer};

    settle.life.state = TASK_SUCCEEDED;
    settle.life.settled_at_ms = NOW_MS;
    return settle;
}

static struct record read_all(struct store *store, int number, struct arena *arena)
{
    struct record record;
    bool found = false;

    assert_int_equal(store_read_task(store, id_of(number), READ_BODIES | READ_TRAIL, arena, &record,
                                     &found, NULL),
                     0);
    assert_true(found);
    return record;
}

static void an_answer_that_does_not_fit_is_settled_as_omitted(void **state) /* I9 */
{
    struct store *store = open_small();
    struct op leased[FULL_WITH], settles[FULL_WITH];
    const struct answer answer = {
        .status = 201, .headers = SPAN("location: /7\n"), .body = long_text('a')};
    const struct trail_row row = {.attempt = 1, .error_class = -1, .message = SPAN("fine")};
    int kept = 0;

    (void)state;
    fill(store, leased, long_text('r'));
    for (int i = 0; i < FULL_WITH; i++) {
        settles[i] = settle_of(&leased[i], &answer);
        settles[i].trail = &row;
        settles[i].trail_count = 1;
    }
    assert_int_equal(apply_many(store, settles, FULL_WITH / 2), 0); /* in one commit */
    assert_int_equal(apply_many(store, settles + FULL_WITH / 2, FULL_WITH - FULL_WITH / 2), 0);
    store_close(store);
    store = open_small(); /* after a crash it is the same: nothing of it is running */
    for (int i = 0; i < FULL_WITH; i++) {
        struct arena *arena = arena_new(ARENA_MAX);
        struct record read = read_all(store, 1 + i, arena);
        bool is_kept = (read.life.flags & LIFE_OMITTED) == 0;
        assert_int_equal(settles[i].result, RESULT_DONE);
        assert_int_equal(settles[i].life.flags & LIFE_OMITTED, read.life.flags & LIFE_OMITTED);
        assert_int_equal(read.life.state, TASK_SUCCEEDED);
        assert_int_equal(read.answer.status, 201);
        assert_int_equal(read.answer.body.len, is_kept ? LONG_BODY : 0);
        expect_span(read.answer.headers, answer.headers);
        assert_int_equal(read.trail_count, 1);
        kept += is_kept;
        assert_int_equal(is_kept, i < kept); /* those that came first */
        arena_free(arena);
    }
    assert_in_range(kept, 1, 3);
    store_close(store);
}

/* The mark on a task that goes on would say that a caller has been given its answer. */
static void what_has_not_ended_is_not_marked_as_omitted(void **state) /* I8 */
{
    static const enum task_state states[] = {TASK_WAITING, TASK_UNSETTLED, TASK_RUNNING};
    struct store *store = open_small();
    struct op leased[FULL_WITH], settles[FULL_WITH];
    const struct answer answer = {.status = 503, .body = long_text('a')};

    (void)state;
    fill(store, leased, long_text('r'));
    for (int i = 0; i < FULL_WITH; i++) {
        settles[i] = settle_of(&leased[i], &answer);
        settles[i].life.state = states[i % 3];
    }
    assert_int_equal(apply_many(store, settles, FULL_WITH), 0);
    for (int i = 0; i < FULL_WITH; i++) {
        struct arena *arena = arena_new(ARENA_MAX);
        struct record read = read_all(store, 1 + i, arena);
        assert_int_equal(read.life.flags & LIFE_OMITTED, 0);
        assert_int_equal(read.answer.body.len, LONG_BODY);
        arena_free(arena);
    }
    store_close(store);
}

static void headers_and_words_that_do_not_fit_are_left_out_too(void **state) /* I9 */
{
    struct store *store = open_small();
    struct op leased[FULL_WITH], settles[FULL_WITH];
    struct span words = long_text('w');
    const struct answer answer = {.status = 200, .headers = words};
    const struct trail_row rows[] = {
        {.attempt = 1, .error_class = 2, .target = SPAN("first"), .message = words},
        {.attempt = 1, .error_class = -1, .target = SPAN("last"), .message = words, .status = 200}};

    (void)state;
    fill(store, leased, long_text('r'));
    for (int i = 0; i < FULL_WITH; i++) {
        settles[i] = settle_of(&leased[i], &answer);
        settles[i].trail = rows;
        settles[i].trail_count = 2;
    }
    assert_int_equal(apply_many(store, settles, FULL_WITH), 0);
    struct arena *arena = arena_new(ARENA_MAX);
    struct record read = read_all(store, FULL_WITH, arena);
    assert_int_equal(read.answer.status, 200);
    assert_int_equal(read.answer.headers.len, 0);
    assert_int_not_equal(read.life.flags & LIFE_OMITTED, 0);
    assert_int_equal(read.trail_count, 1);
    assert_int_equal(read.trail[0].status, 200);
    assert_int_equal(read.trail[0].message.len, 0);
    arena_free(arena);
    store_close(store);
    store_close(open_at(SPEC)); /* and is loaded again */
}

static void a_callback_that_does_not_fit_is_recorded_without_the_answer(void **state) /* I1, I9 */
{
    struct store *store = open_small();
    struct op leased[FULL_WITH], settles[FULL_WITH], told[FULL_WITH];
    struct task lean[FULL_WITH];
    const struct answer answer = {.status = 200, .body = long_text('a')};
    struct arena *arena = arena_new(ARENA_MAX);

    (void)state;
    fill(store, leased, long_text('r'));
    for (int i = 0; i < FULL_WITH; i++) {
        told[i] = record_of(200 + i, i == 0 ? SPAN("short") : answer.body);
        lean[i] = told[i].task;
        lean[i].body = SPAN("lean");
        told[i].lean = &lean[i];
        settles[i] = settle_of(&leased[i], i == 0 ? NULL : &answer);
        settles[i].spawn = &told[i];
    }
    assert_int_equal(apply_many(store, settles, FULL_WITH), 0);
    for (int i = 0; i < FULL_WITH; i++) {
        assert_int_equal(told[i].result, RESULT_DONE);
    }
    expect_span(read_all(store, 200 + FULL_WITH - 1, arena).task.body, SPAN("lean"));
    expect_span(read_all(store, 200, arena).task.body, SPAN("short")); /* that has room */
    arena_free(arena);
    store_close(store);
}

static void people_can_make_room_in_a_full_file_and_ask_for_no_more(void **state)
{
    struct store *store = open_small();
    struct op leased[FULL_WITH], settles[FULL_WITH];
    const struct answer answer = {.status = 500, .body = long_text('a')};
    const struct audit_row act = {.act = SPAN("redrive"), .from_state = -1, .to_state = -1};
    const struct edit edit = {.parts = EDIT_BODY, .body = long_text('e')};
    struct op more = {.kind = OP_MEMO, .memo = {.name = SPAN("m"), .value = long_text('m')}};

    (void)state;
    fill(store, leased, long_text('r'));
    for (int i = 0; i < FULL_WITH; i++) {
        settles[i] = settle_of(&leased[i], &answer);
        settles[i].life.state = TASK_DEAD;
    }
    assert_int_equal(apply_many(store, settles, FULL_WITH), 0);
    struct op redrive = {.kind = OP_REDRIVE, .task.id = id_of(3), .edit = &edit, .audit = &act};
    assert_int_equal(apply(store, &redrive), FAULT_FULL);
    assert_int_equal(apply(store, &more), FAULT_FULL);
    redrive.edit = NULL;
    apply_done(store, &redrive);
    struct op cancel = {.kind = OP_CANCEL, .task.id = id_of(3), .audit = &act, .now_ms = NOW_MS};
    apply_done(store, &cancel);
    for (int i = 1; i <= 4; i++) {
        struct op purge = {.kind = OP_PURGE, .task.id = id_of(i), .audit = &act};
        apply_done(store, &purge);
    }
    redrive.edit = &edit;
    redrive.task.id = id_of(5);
    apply_done(store, &redrive);
    store_close(store);
}

/* Rendering and writing a large file again and again would cost a core. */
static void what_is_refused_and_what_is_known_writes_nothing(void **state)
{
    struct store *store = open_small();
    struct op first = record_of(1, SPAN("x")), purge = {.kind = OP_PURGE, .task.id = id_of(1)};
    struct stat before, after;

    (void)state;
    apply_done(store, &first);
    assert_int_equal(stat(PATH, &before), 0);
    for (int i = 0; i < 3; i++) {
        struct op more = record_of(2, long_text('x'));
        more.task.headers = more.task.labels = more.task.options = more.task.body;
        struct op many[] = {more, more, more, more, more};
        for (int n = 0; n < 5; n++) {
            many[n].task.id = id_of(2 + n);
        }
        assert_int_equal(apply_many(store, many, 5), FAULT_FULL);
        assert_int_equal(store_touch(store, NULL), 0);
    }
    assert_int_equal(stat(PATH, &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
                before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    apply_done(store, &purge);
    store_close(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_that_does_not_fit_is_settled_as_omitted),
        cmocka_unit_test(what_has_not_ended_is_not_marked_as_omitted),
        cmocka_unit_test(headers_and_words_that_do_not_fit_are_left_out_too),
        cmocka_unit_test(a_callback_that_does_not_fit_is_recorded_without_the_answer),
        cmocka_unit_test(people_can_make_room_in_a_full_file_and_ask_for_no_more),
        cmocka_unit_test(what_is_refused_and_what_is_known_writes_nothing),
    };
    return HARNESS_RUN(argc, argv, tests);
}
