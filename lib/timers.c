/* SPDX-License-Identifier: MIT
 *
 * timers -- a binary heap whose nodes are the operations. The shape is that of an array heap: node
 * number n (from 1) is found from the root by the bits of n below its highest, 0 left, 1 right. So
 * the tree is always complete and its depth is log2 of the count.
 */
#include "timers_internal.h"

#include <stddef.h>

/* The link that holds, or would hold, node number n; its parent in *ret_parent. */
static struct daruma_retry_op **link_of(struct daruma_retry_loop *loop, size_t number,
                                        struct daruma_retry_op **ret_parent)
{
    struct daruma_retry_op **link = &loop->root;
    size_t bit = 1;

    while (bit <= number / 2) {
        bit *= 2;
    }
    *ret_parent = NULL;
    for (bit /= 2; bit > 0; bit /= 2) {
        *ret_parent = *link;
        link = number & bit ? &(*link)->right : &(*link)->left;
    }
    return link;
}

static struct daruma_retry_op **link_to(struct daruma_retry_loop *loop, struct daruma_retry_op *op)
{
    if (op->parent == NULL) {
        return &loop->root;
    }
    return op->parent->left == op ? &op->parent->left : &op->parent->right;
}

static void adopt(struct daruma_retry_op *op)
{
    if (op->left != NULL) {
        op->left->parent = op;
    }
    if (op->right != NULL) {
        op->right->parent = op;
    }
}

/* Exchanges a node with its parent. */
static void lift(struct daruma_retry_loop *loop, struct daruma_retry_op *op)
{
    struct daruma_retry_op *parent = op->parent;
    struct daruma_retry_op *left = op->left, *right = op->right;

    *link_to(loop, parent) = op;
    op->parent = parent->parent;
    if (parent->left == op) {
        op->left = parent;
        op->right = parent->right;
    } else {
        op->left = parent->left;
        op->right = parent;
    }
    parent->left = left;
    parent->right = right;
    adopt(parent);
    adopt(op);
}

static void rise(struct daruma_retry_loop *loop, struct daruma_retry_op *op)
{
    while (op->parent != NULL && op->due_ms < op->parent->due_ms) {
        lift(loop, op);
    }
}

static void sink(struct daruma_retry_loop *loop, struct daruma_retry_op *op)
{
    for (;;) {
        struct daruma_retry_op *least = op;
        if (op->left != NULL && op->left->due_ms < least->due_ms) {
            least = op->left;
        }
        if (op->right != NULL && op->right->due_ms < least->due_ms) {
            least = op->right;
        }
        if (least == op) {
            return;
        }
        lift(loop, least);
    }
}

void daruma_timers_add(struct daruma_retry_loop *loop, struct daruma_retry_op *op)
{
    struct daruma_retry_op *parent;
    struct daruma_retry_op **link = link_of(loop, ++loop->count, &parent);

    op->left = op->right = NULL;
    op->parent = parent;
    *link = op;
    rise(loop, op);
}

/* The last node takes the place of the one that leaves, and then finds its own. */
void daruma_timers_remove(struct daruma_retry_loop *loop, struct daruma_retry_op *op)
{
    struct daruma_retry_op *parent;

    if (loop->count == 0) {
        return; /* the loop was initialised again under its operations; no reason to abort */
    }
    struct daruma_retry_op **last_link = link_of(loop, loop->count, &parent);
    struct daruma_retry_op *last = *last_link;
    loop->count--;
    *last_link = NULL;
    if (last != op) {
        *link_to(loop, op) = last;
        last->left = op->left;
        last->right = op->right;
        last->parent = op->parent;
        adopt(last);
        sink(loop, last);
        rise(loop, last);
    }
    op->left = op->right = op->parent = NULL;
}
