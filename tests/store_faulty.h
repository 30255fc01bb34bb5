/* SPDX-License-Identifier: MIT
 *
 * store_faulty -- a store that fails once, as told: the n-th write or the n-th read. Behind it is
 * any other store. A scenario run with n = 1, 2, 3 … until nothing fails any more has seen every
 * place where it can fail.
 */
#ifndef STORE_FAULTY_H
#define STORE_FAULTY_H

#include "store/store.h"

enum faulty_how {
    FAULTY_BEFORE, /* FAULT_IO before anything happened */
    FAULTY_FULL,   /* FAULT_FULL, likewise */
    FAULTY_UNSURE, /* FAULT_UNKNOWN, and nothing happened */
    FAULTY_AFTER, /* FAULT_UNKNOWN although it is committed; from then on all is FAULT_LOST, since a
                    * later commit would say that it is not there */
    FAULTY_READ,  /* FAULT_IO from the n-th read_task, list, due, scan or queues */
    FAULTY_HOW_COUNT
};

/* Counts apply and touch, or reads, from 1; 0: never fails. Takes `inner`. NULL: out of memory. */
struct store *store_faulty_new(struct store *inner, enum faulty_how how, size_t nth);
bool store_faulty_has_failed(const struct store *store);
struct store *store_faulty_take(struct store *store); /* frees it; inner is the caller's again */

#endif
