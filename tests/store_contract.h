/* SPDX-License-Identifier: MIT
 *
 * store_contract -- what store.h promises, as tests that run on any store. The test program of a
 * backend names its subject and calls store_contract_run; a new backend touches no test.
 *
 * Claims cite the invariants of ARCHITECTURE.md (I1 …).
 */
#ifndef STORE_CONTRACT_H
#define STORE_CONTRACT_H

#include "harness.h"
#include "store/store.h"

/* What is put to the test. Left out means zero. */
struct store_subject {
    const char *kind; /* as in `store:`; a path of the suite's own follows when has_path */
    bool has_path;
    bool groups;       /* may reorder a batch: then nothing in it competes */
    size_t rows_max;   /* as many as it is made for; 0: no bound */
    size_t audit_kept; /* acts; 0: STORE_AUDIT_KEPT */
    /* Makes what the path names empty, before it is opened first; NULL: it is. */
    void (*prepare)(const char *path);
    /* Closes it and opens it again; NULL: store_close and store_open. */
    struct store *(*reopen)(struct store *store);
};

/* Runs the suite and then the backend's own tests, as HARNESS_RUN does. `subject` outlives it. */
int store_contract_run(int argc, char **argv, const struct store_subject *subject,
                       const struct CMUnitTest *own, size_t own_count);

#endif
