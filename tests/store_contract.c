/* SPDX-License-Identifier: MIT
 *
 * store_contract -- see store_contract.h: the list of tests, and how they talk to a store.
 */
#include "store_contract_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define SPEC_MAX 64

static const struct store_keep keep = {.succeeded_ms = CONTRACT_KEEP_MS,
                                       .failed_ms = 2 * CONTRACT_KEEP_MS,
                                       .cancelled_ms = 3 * CONTRACT_KEEP_MS,
                                       .tombstones_ms = CONTRACT_TOMBSTONES_MS};

int store_contract_run(int argc, char **argv, const struct store_subject *subject,
                       const struct CMUnitTest *own, size_t own_count)
{
    struct CMUnitTest *tests = calloc(CONTRACT_TESTS_MAX + own_count, sizeof *tests);
    size_t count = 0;

    if (tests == NULL) {
        return 1;
    }
    count += contract_tests_ops(tests + count);
    count += contract_tests_settle(tests + count);
    count += contract_tests_keys(tests + count);
    count += contract_tests_gone(tests + count);
    count += contract_tests_reads(tests + count);
    count += contract_tests_large(tests + count);
    count += contract_tests_letters(tests + count);
    count += contract_tests_leases(tests + count);
    count += contract_tests_import(tests + count);
    count += contract_tests_queues(tests + count);
    count += contract_tests_notes(tests + count);
    count += contract_tests_faults(tests + count);
    assert(count <= CONTRACT_TESTS_MAX);
    for (size_t i = 0; i < count; i++) {
        tests[i].initial_state = (void *)subject;
    }
    if (own_count > 0) {
        memcpy(tests + count, own, own_count * sizeof *own);
    }
    int failed = harness_run(argc, argv, tests, count + own_count);
    free(tests);
    return failed;
}

/* --- the store ------------------------------------------------------------------------------- */

static struct store *open_store(const struct contract *contract)
{
    char spec[SPEC_MAX];
    struct store *store = NULL;
    struct error err = {0};

    if (contract->subject->has_path) {
        (void)snprintf(spec, sizeof spec, "%s:contract-%u", contract->subject->kind,
                       contract->number);
    } else {
        (void)snprintf(spec, sizeof spec, "%s", contract->subject->kind);
    }
    if (store_open(span_of(spec), &keep, &store, &err) != 0) {
        fail_msg("%s: %s", spec, err.text);
    }
    return store;
}

static void prepare(const struct contract *contract)
{
    char path[SPEC_MAX];

    (void)snprintf(path, sizeof path, "contract-%u", contract->number);
    if (contract->subject->prepare != NULL) {
        contract->subject->prepare(path);
    }
}

struct contract contract_begin(void **state)
{
    struct contract contract = {.subject = *state,
                                .arena = arena_new(CONTRACT_ARENA_MAX),
                                .dice = daruma_dice_seed(harness_seed())};

    assert_non_null(contract.arena);
    prepare(&contract);
    contract.store = open_store(&contract);
    return contract;
}

void contract_end(struct contract *contract)
{
    store_close(contract->store);
    arena_free(contract->arena);
}

void contract_open_new(struct contract *contract)
{
    store_close(contract->store);
    contract->number += contract->subject->prepare == NULL; /* else the same one is emptied */
    prepare(contract);
    contract->store = open_store(contract);
}

void contract_reopen(struct contract *contract)
{
    if (contract->subject->reopen != NULL) {
        contract->store = contract->subject->reopen(contract->store);
        assert_non_null(contract->store);
        return;
    }
    store_close(contract->store);
    contract->store = open_store(contract);
}

/* --- operations ------------------------------------------------------------------------------ */

struct op contract_record(struct contract *contract, const char *key)
{
    contract->ids.dice = &contract->dice;
    return (struct op){
        .kind = OP_RECORD,
        .now_ms = CONTRACT_NOW_MS,
        .task = {.id = id_make(&contract->ids, CONTRACT_NOW_MS),
                 .queue = CONTRACT_QUEUE,
                 .scope = SPAN("scope"),
                 .key = span_of(key),
                 .fingerprint = "0123456789abcdef0123456789abcde",
                 .method = SPAN("POST"),
                 .target = SPAN("http://target.test/path"),
                 .headers = SPAN("content-type: text/plain\n"),
                 .labels = SPAN("colour: red\n"),
                 .body = SPAN("hello")},
        .life = {.state = TASK_WAITING, .due_at_ms = CONTRACT_NOW_MS},
    };
}

struct op contract_lease(struct task_id id)
{
    return (struct op){
        .kind = OP_LEASE, .now_ms = CONTRACT_NOW_MS, .task.id = id, .epoch = CONTRACT_EPOCH_TEST};
}

struct op contract_settle(struct task_id id, const struct life *leased, enum task_state state)
{
    struct op op = {.kind = OP_SETTLE, .now_ms = CONTRACT_NOW_MS, .task.id = id, .life = *leased};

    op.life.state = state;
    op.life.settled_at_ms = task_is_settled(state) ? CONTRACT_NOW_MS : 0;
    return op;
}

struct op contract_op(enum op_kind kind, struct task_id id)
{
    return (struct op){.kind = kind, .now_ms = CONTRACT_NOW_MS, .task.id = id};
}

enum op_result contract_apply(struct contract *contract, struct op *op)
{
    struct error err = {0};

    if (store_apply(contract->store, &op, 1, &err) != 0) {
        fail_msg("apply: %s", err.text);
    }
    assert_int_equal(op->fault, 0);
    return op->result;
}

void contract_apply_all(struct contract *contract, struct op *ops, size_t count)
{
    struct op **list = calloc(count, sizeof *list);
    struct error err = {0};

    assert_non_null(list);
    for (size_t i = 0; i < count; i++) {
        list[i] = &ops[i];
    }
    if (store_apply(contract->store, list, count, &err) != 0) {
        fail_msg("apply: %s", err.text);
    }
    free(list);
}

struct op contract_apply_record(struct contract *contract, const char *key)
{
    struct op op = contract_record(contract, key);

    assert_int_equal(contract_apply(contract, &op), RESULT_DONE);
    return op;
}

struct op contract_apply_lease(struct contract *contract, struct task_id id)
{
    struct op op = contract_lease(id);

    assert_int_equal(contract_apply(contract, &op), RESULT_DONE);
    return op;
}

void contract_end_task(struct contract *contract, struct task_id id, enum task_state state)
{
    struct op lease = contract_apply_lease(contract, id);
    struct op settle = contract_settle(id, &lease.life, state);

    assert_int_equal(contract_apply(contract, &settle), RESULT_DONE);
}

/* --- looking --------------------------------------------------------------------------------- */

struct record contract_read(struct contract *contract, struct task_id id)
{
    struct record record;
    struct error err = {0};
    bool found = false;

    if (store_read_task(contract->store, id, READ_BODIES | READ_TRAIL, contract->arena, &record,
                        &found, &err) != 0) {
        fail_msg("read: %s", err.text);
    }
    assert_true(found);
    return record;
}

bool contract_has(struct contract *contract, struct task_id id)
{
    struct record record;
    bool found = false;

    assert_int_equal(
        store_read_task(contract->store, id, 0, contract->arena, &record, &found, NULL), 0);
    return found;
}

void contract_expect_state(struct contract *contract, struct task_id id, enum task_state state)
{
    assert_int_equal(contract_read(contract, id).life.state, state);
}

void contract_expect_span(struct span got, struct span wanted)
{
    assert_int_equal(got.len, wanted.len);
    if (wanted.len > 0) {
        assert_memory_equal(got.at, wanted.at, wanted.len);
    }
}

void contract_expect_task(const struct task *got, const struct task *wanted)
{
    assert_int_equal(got->id.row, wanted->id.row);
    assert_int_equal(got->id.tail, wanted->id.tail);
    assert_int_equal(got->queue, wanted->queue);
    assert_memory_equal(got->fingerprint, wanted->fingerprint, TASK_FINGERPRINT_BYTES);
    contract_expect_span(got->scope, wanted->scope);
    contract_expect_span(got->key, wanted->key);
    contract_expect_span(got->method, wanted->method);
    contract_expect_span(got->target, wanted->target);
    contract_expect_span(got->headers, wanted->headers);
    contract_expect_span(got->labels, wanted->labels);
    contract_expect_span(got->options, wanted->options);
    contract_expect_span(got->body, wanted->body);
}

void contract_expect_life(const struct life *got, const struct life *wanted)
{
    assert_int_equal(got->state, wanted->state);
    assert_int_equal(got->due_at_ms, wanted->due_at_ms);
    assert_int_equal(got->deadline_at_ms, wanted->deadline_at_ms);
    assert_int_equal(got->settled_at_ms, wanted->settled_at_ms);
    assert_int_equal(got->fence, wanted->fence);
    assert_int_equal(got->epoch, wanted->epoch);
    assert_int_equal(got->attempts, wanted->attempts);
    assert_int_equal(got->attempts_all, wanted->attempts_all);
    assert_int_equal(got->round, wanted->round);
    for (size_t i = 0; i < DARUMA_CLASS_COUNT; i++) {
        assert_int_equal(got->class_attempts[i], wanted->class_attempts[i]);
    }
    assert_int_equal(got->previous_ms, wanted->previous_ms);
    assert_int_equal(got->wait_ms, wanted->wait_ms);
    assert_int_equal(got->flags, wanted->flags);
    assert_int_equal(got->failed_class, wanted->failed_class);
    assert_int_equal(got->failed_at_ms, wanted->failed_at_ms);
    assert_int_equal(got->resolved_at_ms, wanted->resolved_at_ms);
    assert_int_equal(got->keep_until_ms, wanted->keep_until_ms);
    assert_int_equal(got->probe_count, wanted->probe_count);
    assert_int_equal(got->probe_due_ms, wanted->probe_due_ms);
}

void contract_expect_edit(const struct edit *got, const struct edit *wanted)
{
    assert_int_equal(got->parts, wanted->parts);
    assert_int_equal(got->round, wanted->round);
    contract_expect_span(got->target, wanted->target);
    contract_expect_span(got->headers, wanted->headers);
    contract_expect_span(got->body, wanted->body);
    contract_expect_span(got->note, wanted->note);
}

void contract_expect_trail(const struct trail_row *got, const struct trail_row *wanted)
{
    assert_int_equal(got->attempt, wanted->attempt);
    assert_int_equal(got->started_at_ms, wanted->started_at_ms);
    assert_int_equal(got->ended_at_ms, wanted->ended_at_ms);
    assert_int_equal(got->error_class, wanted->error_class);
    assert_int_equal(got->status, wanted->status);
    assert_int_equal(got->sent, wanted->sent);
    assert_int_equal(got->sends, wanted->sends);
    assert_int_equal(got->wait_ms, wanted->wait_ms);
    contract_expect_span(got->target, wanted->target);
    contract_expect_span(got->message, wanted->message);
}

/* --- lists ----------------------------------------------------------------------------------- */

static int see_record(void *user, const struct record *record)
{
    struct contract_seen *seen = user;

    assert_true(seen->count < CONTRACT_SEEN_MAX);
    seen->rows[seen->count++] = record->task.id.row;
    return 0;
}

size_t contract_list(struct contract *contract, struct store_filter filter,
                     struct contract_seen *ret_seen)
{
    size_t pages = 0;
    int64_t next = filter.after_row;

    ret_seen->count = 0;
    do {
        int64_t before = next;
        size_t count = ret_seen->count;
        filter.after_row = next;
        assert_int_equal(store_list(contract->store, &filter, contract->arena, see_record, ret_seen,
                                    &next, NULL),
                         0);
        assert_true(ret_seen->count - count <= filter.limit);
        assert_true(next == 0 || next > before);
        pages++;
    } while (next != 0);
    return pages;
}
