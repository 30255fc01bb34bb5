/* SPDX-License-Identifier: MIT
 *
 * callers -- see callers_internal.h. The buckets are by a multiplicative hash: ids of exchanges are small
 * numbers, with the edge and the use of a place above them.
 */
#include "engine/callers_internal.h"

#include "engine/engine_internal.h"

static size_t bucket_of(uint64_t exchange)
{
    return (size_t)((exchange * UINT64_C(0x9e3779b97f4a7c15)) >> CALLERS_HASH_SHIFT);
}

void callers_add(struct callers *callers, struct called *called, uint64_t exchange)
{
    called->exchange = exchange;
    called_link(called, &callers->buckets[bucket_of(exchange)]);
}

struct called *callers_find(const struct callers *callers, uint64_t exchange)
{
    struct called *called = callers->buckets[bucket_of(exchange)];

    while (called != NULL && called->exchange != exchange) {
        called = called->next;
    }
    return called;
}

void called_link(struct called *called, struct called **list)
{
    called->next = *list;
    called->at = list;
    if (called->next != NULL) {
        called->next->at = &called->next;
    }
    *list = called;
}

void called_leave(struct called *called)
{
    if (called->at != NULL) {
        *called->at = called->next;
        if (called->next != NULL) {
            called->next->at = called->at;
        }
    }
    called->at = NULL;
    called->exchange = NOBODY;
}
