/* SPDX-License-Identifier: MIT
 *
 * test_store_allocations -- the stores when memory is out: the first, the second, the third …
 * allocation of each verb is refused until it comes through. What failed has changed nothing (I7).
 * What a library allocates for itself is not counted.
 */
#include "alloc_fail.h"
#include "base/siphash.h"
#include "harness.h"
#include "store/store_memory.h"

#include <unistd.h>

#define NOW_MS    INT64_C(1800000000000)
#define KEEP_MS   1000
#define RUNS_MAX  1000
#define ARENA_MAX ((size_t)1 << 20)
#define BATCH     10

static const struct store_keep keep = {
    .succeeded_ms = KEEP_MS, .failed_ms = KEEP_MS, .cancelled_ms = KEEP_MS};
static const struct answer answer = {.status = 200, .headers = {"a: b\n", 5}, .body = {"body", 4}};
static const struct edit edit = {.parts = EDIT_BODY, .body = {"edited", 6}};
static const struct audit_row act = {.who = {"alice", 5}, .act = {"redrive", 7}};
static const struct trail_row trail = {.attempt = 1, .target = {"target", 6}, .message = {"m", 1}};

/* --- a small store --------------------------------------------------------------------------- */

static struct op record_of(int64_t row, const char *key, enum task_state state)
{
    return (struct op){
        .kind = OP_RECORD,
        .now_ms = NOW_MS,
        .task = {.id = {.row = row, .tail = 1}, .key = span_of(key), .body = SPAN("hello")},
        .life = {.state = state, .settled_at_ms = NOW_MS, .fence = 1}};
}

static struct store *open_filled(const char *spec)
{
    struct store *store = NULL;
    struct op ops[] = {
        record_of(1, "a", TASK_WAITING),   record_of(2, "b", TASK_RUNNING),
        record_of(3, "c", TASK_SUCCEEDED), record_of(4, "d", TASK_FAILED),
        record_of(5, "e", TASK_DEAD),      {.kind = OP_QUEUE, .queue.name = SPAN("one")}};
    struct op *list[] = {&ops[0], &ops[1], &ops[2], &ops[3], &ops[4], &ops[5]};

    assert_int_equal(store_open(span_of(spec), &keep, &store, NULL), 0);
    assert_int_equal(store_apply(store, list, 6, NULL), 0);
    return store;
}

static void close_and_remove(struct store *store)
{
    store_close(store);
    (void)unlink("alloc.db");
    (void)unlink("alloc.db.lock");
}

/* --- what is in it --------------------------------------------------------------------------- */

struct digest {
    struct siphash hash;
    struct store *store;
    struct arena *arena;
};

static void add_number(struct digest *digest, int64_t value)
{
    siphash_add(&digest->hash, (struct span){.at = (const char *)&value, .len = sizeof value});
}

static int add_task(void *user, const struct brief *brief)
{
    struct digest *digest = user;
    struct task_id id = {.row = brief->row, .tail = ID_ANY_TAIL};
    struct record record;
    bool found = false;

    assert_int_equal(store_read_task(digest->store, id, READ_BODIES | READ_TRAIL, digest->arena,
                                     &record, &found, NULL),
                     0);
    assert_true(found);
    add_number(digest, brief->row);
    add_number(digest, record.life.state);
    add_number(digest, (int64_t)record.life.fence);
    add_number(digest, record.life.attempts);
    add_number(digest, record.answer.status);
    add_number(digest, (int64_t)record.trail_count);
    siphash_add(&digest->hash, record.task.key);
    siphash_add(&digest->hash, record.answer.body);
    add_number(digest, record.is_bound);
    siphash_add(&digest->hash, record.edit.body);
    return 0;
}

static int add_memo(void *user, const struct memo *memo)
{
    siphash_add(&((struct digest *)user)->hash, memo->name);
    siphash_add(&((struct digest *)user)->hash, memo->value);
    return 0;
}

static int add_act(void *user, const struct audit_row *row)
{
    add_number(user, row->number);
    siphash_add(&((struct digest *)user)->hash, row->who);
    return 0;
}

static int add_queue(void *user, const struct queue_row *queue)
{
    siphash_add(&((struct digest *)user)->hash, queue->name);
    siphash_add(&((struct digest *)user)->hash, queue->settings);
    return 0;
}

static uint64_t digest_of(struct store *store)
{
    static const unsigned char secret[SIPHASH_SECRET_BYTES];
    struct digest digest = {.store = store, .arena = arena_new(ARENA_MAX)};
    struct audit_filter acts = {.limit = 10};
    int64_t next;

    assert_non_null(digest.arena);
    siphash_begin(&digest.hash, secret);
    assert_int_equal(store_scan(store, add_task, &digest, NULL), 0);
    assert_int_equal(store_queues(store, add_queue, &digest, NULL), 0);
    assert_int_equal(store_memos(store, add_memo, &digest, NULL), 0);
    assert_int_equal(store_audit(store, &acts, digest.arena, add_act, &digest, &next, NULL), 0);
    arena_free(digest.arena);
    return siphash_end(&digest.hash);
}

/* Who has the key? Asking with a row that is taken changes nothing. */
static void expect_key(struct store *store, const char *key, int64_t row)
{
    struct op op = record_of(row, key, TASK_WAITING);
    struct op *list[] = {&op};

    assert_int_equal(store_apply(store, list, 1, NULL), 0);
    assert_int_equal(op.result, RESULT_DUPLICATE);
    assert_int_equal(op.task.id.row, row);
}

/* --- the verbs ------------------------------------------------------------------------------- */

/* Every kind, and a key that changes hands. */
static int apply_batch(struct store *store, uint64_t refuse, struct arena *arena,
                       struct alloc_count *ret_count)
{
    struct op spawn = record_of(11, "spawned", TASK_WAITING);
    struct op ops[BATCH] = {
        record_of(9, "new", TASK_WAITING),
        record_of(10, "c", TASK_WAITING),
        {.kind = OP_LEASE,
         .now_ms = NOW_MS,
         .task.id = {1, 1},
         .wants_request = true,
         .arena = arena},
        {.kind = OP_SETTLE,
         .now_ms = NOW_MS,
         .task.id = {2, 1},
         .life = {.state = TASK_FAILED, .fence = 1},
         .answer = &answer,
         .trail = &trail,
         .trail_count = 1,
         .spawn = &spawn,
         .releases_key = true},
        {.kind = OP_PURGE, .now_ms = NOW_MS, .task.id = {4, 1}},
        {.kind = OP_QUEUE, .queue = {.name = SPAN("one"), .settings = SPAN("{}")}},
        {.kind = OP_QUEUE, .queue = {.name = SPAN("two")}},
        {.kind = OP_REDRIVE, .task.id = {5, 1}, .edit = &edit, .audit = &act},
        {.kind = OP_MEMO, .memo = {SPAN("name"), SPAN("value")}},
        record_of(12, "imported", TASK_FAILED),
    };
    struct op *list[BATCH];
    for (size_t i = 0; i < BATCH; i++) {
        list[i] = &ops[i];
    }
    ops[1].now_ms = NOW_MS + KEEP_MS;
    ops[9].kind = OP_IMPORT;
    ops[9].trail = &trail;
    ops[9].trail_count = 1;
    ops[9].answer = &answer;
    ops[9].edit = &edit;

    alloc_fail_start(refuse);
    int failed = store_apply(store, list, BATCH, NULL);
    *ret_count = alloc_fail_stop();
    assert_int_equal(spawn.result, failed == 0 ? RESULT_DONE : RESULT_NONE);
    for (size_t i = 0; i < BATCH; i++) {
        assert_int_equal(ops[i].result, failed == 0 ? RESULT_DONE : RESULT_NONE);
    }
    return failed;
}

static void apply_until_it_works(const char *spec)
{
    struct alloc_count count = {.refused = 1};
    uint64_t failures = 0;

    for (uint64_t refuse = 1; count.refused > 0; refuse++) {
        struct store *store = open_filled(spec);
        struct arena *arena = arena_new(ARENA_MAX);
        uint64_t before = digest_of(store);
        int failed = apply_batch(store, refuse, arena, &count);
        assert_true(refuse < RUNS_MAX);
        assert_true(failed == 0 || failed == FAULT_MEMORY);
        if (failed != 0) {
            failures++;
            assert_int_equal(digest_of(store), before);
            expect_key(store, "c", 3);
            expect_key(store, "d", 4);
            expect_key(store, "b", 2);
            assert_int_equal(apply_batch(store, 0, arena, &count), 0);
            count.refused = 1;
        }
        expect_key(store, "c", 10);
        expect_key(store, "new", 9);
        expect_key(store, "spawned", 11);
        expect_key(store, "imported", 12);
        arena_free(arena);
        close_and_remove(store);
    }
    assert_true(failures > 2);
}

/* I7 */
static void a_batch_without_memory_has_never_been(void **state)
{
    (void)state;
    apply_until_it_works("memory");
    apply_until_it_works("sqlite:alloc.db");
}

static void an_opening_without_memory_leaves_nothing_open(void **state)
{
    static const char *const specs[] = {"memory", "sqlite:alloc.db"};
    (void)state;

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct alloc_count count = {.refused = 1};
        close_and_remove(open_filled(specs[i]));
        for (uint64_t refuse = 1; count.refused > 0; refuse++) {
            struct store *store = NULL;
            alloc_fail_start(refuse);
            int failed = store_open(span_of(specs[i]), &keep, &store, NULL);
            count = alloc_fail_stop();
            assert_int_equal(failed, count.refused > 0 ? FAULT_MEMORY : 0);
            store_close(store);
        }
    }
}

static void reads_and_copies_without_memory_say_so(void **state)
{
    static const char *const specs[] = {"memory", "sqlite:alloc.db"};
    (void)state;

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct alloc_count count = {.refused = 1};
        struct store *store = open_filled(specs[i]);
        for (uint64_t refuse = 1; count.refused > 0; refuse++) {
            struct arena *arena = arena_new(ARENA_MAX);
            struct record record;
            bool found;
            alloc_fail_start(refuse);
            int failed = store_read_task(store, (struct task_id){3, 1}, READ_BODIES | READ_TRAIL,
                                         arena, &record, &found, NULL);
            count = alloc_fail_stop();
            assert_int_equal(failed, count.refused > 0 ? FAULT_MEMORY : 0);
            arena_free(arena);
        }
        close_and_remove(store);
    }
    struct store *store = open_filled("memory"), *copy = NULL;
    for (uint64_t refuse = 1; copy == NULL; refuse++) {
        assert_true(refuse < RUNS_MAX);
        alloc_fail_start(refuse);
        copy = store_memory_clone(store);
        (void)alloc_fail_stop();
    }
    assert_int_equal(digest_of(copy), digest_of(store));
    store_close(copy);
    store_close(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_without_memory_has_never_been),
        cmocka_unit_test(an_opening_without_memory_leaves_nothing_open),
        cmocka_unit_test(reads_and_copies_without_memory_say_so),
    };
    return HARNESS_RUN(argc, argv, tests);
}
