/* SPDX-License-Identifier: MIT
 *
 * touched -- see touched.h.
 */
#include "store/touched.h"

#define NEIGHBOURS 8

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static bool is_claim(const struct op *op)
{
    return op->kind == OP_LEASE && op->task.id.row == 0;
}

static uint64_t queue_hash(const struct op *op)
{
    return mix(UINT64_C(0xcbf29ce484222325), &op->task.queue, sizeof op->task.queue);
}

static uint64_t key_hash(const struct op *op)
{
    uint64_t hash = mix(queue_hash(op), op->task.scope.at, op->task.scope.len);

    return mix(hash, op->task.key.at, op->task.key.len) | 1;
}

static uint64_t memo_hash(struct span name)
{
    return mix(UINT64_C(0xcbf29ce484222325), name.at, name.len) | 1;
}

/* A task by its row, a new one by its key. */
static uint64_t hash_of(const struct op *op)
{
    uint64_t hash = queue_hash(op);

    if (op->kind == OP_QUEUE) {
        return mix(hash, op->queue.name.at, op->queue.name.len) | 1;
    }
    if (op->kind == OP_MEMO) {
        return memo_hash(op->memo.name);
    }
    if (is_claim(op)) {
        return mix(hash, &op, sizeof(op)) | 1; /* of any task: see apply in store.h */
    }
    bool is_by_key = op->kind == OP_RECORD || op->kind == OP_FIND;
    if (!is_by_key || op->task.key.len == 0) {
        return mix(UINT64_C(0x9e3779b97f4a7c15), &op->task.id.row, sizeof op->task.id.row) | 1;
    }
    return key_hash(op);
}

/* It may free the key, and whoever wants that comes after it. */
static bool may_free_key(const struct op *op)
{
    return op->kind == OP_SETTLE && op->task.key.len > 0;
}

void touched_clear(struct touched *touched)
{
    touched->now++;
    touched->count = 0;
    touched->is_closed = false;
}

/* A full neighbourhood counts as touched. */
static bool add(struct touched *touched, uint64_t hash)
{
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        size_t slot = (hash + i) % TOUCHED_SLOTS;
        if (touched->round[slot] != touched->now) {
            touched->round[slot] = touched->now;
            touched->hash[slot] = hash;
            return true;
        }
        if (touched->hash[slot] == hash) {
            return false;
        }
    }
    return false;
}

/* The memo that another one depends on, if it is not that one itself. */
static bool looks_at_another(const struct op *op)
{
    return op->kind == OP_MEMO && op->only_while != NULL &&
           !span_equal(op->only_while->name, op->memo.name);
}

/* What it spawns comes into being with it, and so must its key be nobody else's in this batch. */
bool touched_add(struct touched *touched, const struct op *op)
{
    bool is_alone = op->kind == OP_QUEUE && op->queue.dropped;

    if (touched->is_closed) {
        return false;
    }
    touched->is_closed = is_alone;
    if (is_alone && touched->count > 0) {
        return false;
    }
    bool is_added = add(touched, hash_of(op)) &&
                    (!may_free_key(op) || add(touched, key_hash(op))) &&
                    (!looks_at_another(op) || add(touched, memo_hash(op->only_while->name))) &&
                    (op->spawn == NULL || add(touched, hash_of(op->spawn)));
    touched->count += is_added;
    return is_added;
}

/* Who pauses a queue must not be overtaken by a claim that came before. What people did is numbered in
 * order, so two that write it at once would wait for each other's commits. The end of a redrive that a
 * person cancels must not be overtaken by the sums of the page before. */
uint64_t touched_order(const struct op *op)
{
    uint32_t queue = op->kind == OP_QUEUE ? op->queue.number : op->task.queue;

    if (op->kind == OP_QUEUE || is_claim(op)) {
        return mix(queue, &queue, sizeof queue);
    }
    if (op->audit != NULL || op->kind == OP_MEMO) {
        return 0;
    }
    return may_free_key(op) ? key_hash(op) : hash_of(op);
}
