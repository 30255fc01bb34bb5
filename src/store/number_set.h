/* SPDX-License-Identifier: MIT
 *
 * number_set -- a few numbers of queues, in order: those that are dropped, those that a batch is
 * about. Asking an empty one costs a comparison.
 */
#ifndef STORE_NUMBER_SET_H
#define STORE_NUMBER_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed is empty. */
struct number_set {
    int64_t *at; /* upwards */
    size_t count, room;
};

bool number_set_has(const struct number_set *set, int64_t number);
/* 0 or FAULT_MEMORY. One that is there already stays there once. */
int number_set_add(struct number_set *set, int64_t number) __attribute__((warn_unused_result));
void number_set_remove(struct number_set *set, int64_t number);
void number_set_clear(struct number_set *set); /* memory kept */
void number_set_done(struct number_set *set);

#endif
