/* SPDX-License-Identifier: MIT
 *
 * The JSON store when memory runs out: a whole life of a task, written, read and loaded again, with
 * its first, second, third … allocation refused, jansson's among them. Each refusal is an ordinary
 * fault, leaves the store as it was, and the same call works the next time.
 */
#include "store_json_fixture.h"

#include "alloc_fail.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RUNS_MAX        5000
#define TOKEN_GROWN_MIN 32

/* Ours, so that the linker's wrapping sees jansson's allocations. All but one kind: jansson 2.14 aborts
 * (an assertion in lex_unget_unsave) when its token buffer cannot grow, which it does by doubling. Those
 * come from where nothing is refused. */
static void *take_memory(size_t size)
{
    bool may_be_token = size >= TOKEN_GROWN_MIN && (size & (size - 1)) == 0;
    void *memory = NULL;

    if (!may_be_token) {
        return malloc(size);
    }
    return posix_memalign(&memory, sizeof(void *), size) == 0 ? memory : NULL;
}

static void give_memory(void *memory)
{
    free(memory);
}

/* What a scenario goes through; every refused call is made again. */
struct life_run {
    struct store *store;
    struct arena *arena;
    int refused;
};

static void must_be_memory(struct life_run *run, int failed)
{
    assert_int_equal(failed, FAULT_MEMORY);
    run->refused++;
}

static void open_again(struct life_run *run)
{
    store_close(run->store);
    run->store = NULL;
    int failed = store_open(SPAN(SPEC), &fixture_keep, &run->store, NULL);
    if (failed != 0) {
        must_be_memory(run, failed);
        assert_null(run->store);
        assert_int_equal(store_open(SPAN(SPEC), &fixture_keep, &run->store, NULL), 0);
    }
}

static void apply_surely(struct life_run *run, struct op *op)
{
    int failed = store_apply(run->store, &op, 1, NULL);

    if (failed != 0) {
        must_be_memory(run, failed);
        assert_int_equal(store_apply(run->store, &op, 1, NULL), 0);
    }
    assert_int_equal(op->result, RESULT_DONE);
}

static void live(struct life_run *run)
{
    struct op queue = {.kind = OP_QUEUE, .queue.name = SPAN("q")};
    struct op record = record_of(1, SPAN("\xff"));
    struct op lease = lease_of(1);
    const struct trail_row trail = {.attempt = 1, .message = SPAN("no"), .error_class = 0};
    const struct answer answer = {.status = 200, .headers = SPAN("a: b\n"), .body = SPAN("ok")};

    record.task.key = SPAN("key");
    record.task.labels = SPAN("a: b\n");
    lease.arena = run->arena;
    lease.wants_request = true;
    apply_surely(run, &queue);
    apply_surely(run, &record);
    apply_surely(run, &lease);
    expect_span(lease.task.body, SPAN("\xff"));
    struct op settle = {.kind = OP_SETTLE,
                        .task.id = id_of(1),
                        .life = lease.life,
                        .trail = &trail,
                        .trail_count = 1,
                        .answer = &answer};
    settle.life.state = TASK_DEAD;
    apply_surely(run, &settle);
}

/* What people do to it, and what is born with its end. */
static void act(struct life_run *run)
{
    const struct edit edit = {.parts = EDIT_BODY, .body = SPAN("second"), .note = SPAN("note")};
    const struct audit_row row = {.who = SPAN("alice"), .act = SPAN("redrive")};
    struct op redrive = {.kind = OP_REDRIVE, .task.id = id_of(1), .edit = &edit, .audit = &row};
    struct op memo = {.kind = OP_MEMO, .memo = {.name = SPAN("a"), .value = SPAN("b")}};
    struct op import = record_of(2, SPAN("imported")), spawn = record_of(3, SPAN("spawned"));
    struct op lease = lease_of(1);

    import.kind = OP_IMPORT;
    import.task.key = SPAN("imported");
    spawn.task.key = SPAN("spawned");
    lease.arena = run->arena;
    lease.wants_request = true;
    apply_surely(run, &redrive);
    apply_surely(run, &memo);
    apply_surely(run, &import);
    apply_surely(run, &lease);
    expect_span(lease.edited.body, SPAN("second"));
    struct op settle = {.kind = OP_SETTLE,
                        .task.id = id_of(1),
                        .life = lease.life,
                        .spawn = &spawn,
                        .releases_key = true};
    settle.life.state = TASK_DEAD;
    apply_surely(run, &settle);
    assert_int_equal(spawn.result, RESULT_DONE);
}

static void read_back(struct life_run *run)
{
    struct record record;
    bool found = false;
    unsigned wants = READ_BODIES | READ_TRAIL;
    int failed = store_read_task(run->store, id_of(1), wants, run->arena, &record, &found, NULL);

    if (failed != 0) {
        must_be_memory(run, failed);
        assert_int_equal(
            store_read_task(run->store, id_of(1), wants, run->arena, &record, &found, NULL), 0);
    }
    assert_true(found);
    assert_int_equal(record.life.state, TASK_DEAD);
    assert_int_equal(record.trail_count, 1);
    assert_false(record.is_bound);
    expect_span(record.answer.body, SPAN("ok"));
    expect_span(record.edit.body, SPAN("second"));
}

static int scenario(void *user)
{
    struct life_run run = {.refused = 0};

    (void)user;
    run.arena = arena_new(CONTRACT_ARENA_MAX);
    if (run.arena == NULL) {
        return FAULT_MEMORY;
    }
    open_again(&run);
    live(&run);
    act(&run);
    read_back(&run);
    open_again(&run);
    read_back(&run);
    store_close(run.store);
    arena_free(run.arena);
    (void)unlink(PATH);
    return run.refused;
}

static void memory_may_run_out_anywhere(void **state) /* I9 */
{
    struct alloc_report report;

    (void)state;
    json_set_alloc_funcs(take_memory, give_memory);
    assert_true(alloc_fail_drive(scenario, NULL, RUNS_MAX, &report));
    assert_true(report.reported > 100);
    printf("%llu allocations refused, %llu reported\n", (unsigned long long)report.runs - 1,
           (unsigned long long)report.reported);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_may_run_out_anywhere)};

    return HARNESS_RUN(argc, argv, tests);
}
