/* SPDX-License-Identifier: MIT
 *
 * store_json_fixture -- shared by the tests of the JSON store: a store at PATH in the test's own
 * folder, operations in a line, and the file beside it.
 */
#ifndef STORE_JSON_FIXTURE_H
#define STORE_JSON_FIXTURE_H

#include "store_contract_internal.h"

#define PATH   "tasks.json"
#define SPEC   "json:" PATH
#define NOW_MS CONTRACT_NOW_MS /* 2027-01-15T08:00:00Z */

extern const struct store_keep fixture_keep;
extern const char
    fixture_article[];              /* a whole file with one task in it, as the first version had */
extern const char fixture_letter[]; /* likewise, and all that came later */

struct store *open_at(const char *spec);
int apply(struct store *store, struct op *op);
void apply_done(struct store *store, struct op *op); /* asserts DONE */

struct task_id id_of(int number);
struct op record_of(int number, struct span body);
struct op lease_of(int number);

void expect_span(struct span got, struct span wanted);

char *file_text(const char *path, size_t *ret_len); /* malloced; ret_len may be NULL */
void put_file(const char *path, struct span text);

/* Whoever reads the file at this moment, as a start would: a copy, because the file is locked. */
struct store *open_copy(void);
bool copy_has(int number, enum task_state state);

#endif
