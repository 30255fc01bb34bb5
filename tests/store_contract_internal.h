/* SPDX-License-Identifier: MIT
 *
 * store_contract_internal -- shared by the files of the contract suite only: a store with what is
 * needed to talk to it in a line.
 */
#ifndef STORE_CONTRACT_INTERNAL_H
#define STORE_CONTRACT_INTERNAL_H

#include "store_contract.h"

#include <daruma/dice.h>

#define CONTRACT_NOW_MS        INT64_C(1800000000000)
#define CONTRACT_ARENA_MAX     ((size_t)256 << 20)
#define CONTRACT_HOUR_MS       INT64_C(3600000)
#define CONTRACT_QUEUE         7
#define CONTRACT_KEEP_MS       1000 /* succeeded; failed twice, cancelled three times that */
#define CONTRACT_TOMBSTONES_MS 4000
#define CONTRACT_EPOCH_TEST    4

struct contract {
    const struct store_subject *subject;
    struct store *store;
    struct arena *arena;
    struct daruma_dice dice;
    struct id_maker ids;
    unsigned number; /* of the store's path */
};

/* `state` is what cmocka hands over: the subject. */
struct contract contract_begin(void **state);
void contract_end(struct contract *contract);
void contract_open_new(struct contract *contract); /* closes; another, empty store */
void contract_reopen(struct contract *contract);

/* Operations with usual contents; at CONTRACT_NOW_MS. */
struct op contract_record(struct contract *contract, const char *key);
struct op contract_lease(struct task_id id);
struct op contract_settle(struct task_id id, const struct life *leased, enum task_state state);
struct op contract_op(enum op_kind kind, struct task_id id); /* CANCEL, RUN, PURGE … */

/* Applies and asserts that it works. */
enum op_result contract_apply(struct contract *contract, struct op *op);
void contract_apply_all(struct contract *contract, struct op *ops, size_t count);
struct op contract_apply_record(struct contract *contract, const char *key); /* asserts DONE */
struct op contract_apply_lease(struct contract *contract, struct task_id id);
/* Waiting -> leased -> the state. */
void contract_end_task(struct contract *contract, struct task_id id, enum task_state state);

struct record contract_read(struct contract *contract, struct task_id id); /* it is there */
bool contract_has(struct contract *contract, struct task_id id);
void contract_expect_state(struct contract *contract, struct task_id id, enum task_state state);

void contract_expect_span(struct span got, struct span wanted);
void contract_expect_task(const struct task *got, const struct task *wanted);
void contract_expect_life(const struct life *got, const struct life *wanted);
void contract_expect_edit(const struct edit *got, const struct edit *wanted);
void contract_expect_trail(const struct trail_row *got, const struct trail_row *wanted);

#define CONTRACT_SEEN_MAX 32000

struct contract_seen {
    int64_t rows[CONTRACT_SEEN_MAX];
    size_t count;
};

/* All pages, and how many there were. */
size_t contract_list(struct contract *contract, struct store_filter filter,
                     struct contract_seen *ret_seen);

/* The parts of the suite: fill in tests from `at` on and return how many. */
size_t contract_tests_ops(struct CMUnitTest *ret_tests);
size_t contract_tests_settle(struct CMUnitTest *ret_tests);
size_t contract_tests_keys(struct CMUnitTest *ret_tests);
size_t contract_tests_gone(struct CMUnitTest *ret_tests);
size_t contract_tests_reads(struct CMUnitTest *ret_tests);
size_t contract_tests_large(struct CMUnitTest *ret_tests);
size_t contract_tests_letters(struct CMUnitTest *ret_tests);
size_t contract_tests_leases(struct CMUnitTest *ret_tests);
size_t contract_tests_import(struct CMUnitTest *ret_tests);
size_t contract_tests_queues(struct CMUnitTest *ret_tests);
size_t contract_tests_notes(struct CMUnitTest *ret_tests);
size_t contract_tests_faults(struct CMUnitTest *ret_tests);

#define CONTRACT_TESTS_MAX 160

#define CONTRACT_COPY(ret_tests, tests)                                                            \
    (memcpy((ret_tests), (tests), sizeof(tests)), sizeof(tests) / sizeof *(tests))

#endif
