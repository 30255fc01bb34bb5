/* SPDX-License-Identifier: MIT
 *
 * waiters -- long polls: how many there are, and whether their callers are still there, as those of
 * the gateway. One token has three quarters of limits.waiters at most, so that it does not keep out all
 * others; where there is one token alone, or none, there is nobody to leave any to.
 *
 * A suspended connection is not watched, so it is looked at every now and then. A caller
 * who has closed his side is answered at once with things as they are: if he is gone the answer is
 * lost, and if he only half-closed he gets it. Of the gateway's, what only passes is ended; what is
 * recorded goes on. A list is read no further: what there is of it, and where it goes on, is the answer.
 *
 * Thousands may leave at once, and each costs the closing of two connections: one turn of the loop looks at
 * some of the callers and sees a few off, and the next one goes on where it ended.
 */
#define _GNU_SOURCE /* POLLRDHUP */
#include "edge/gateway.h"

#include <poll.h>
#include <stdlib.h>

#define LOOKS_A_TURN 512 /* a system call each */

void edge_watch_leavers(struct edge *edge)
{
    if (!edge->is_watching_leavers) {
        edge->is_watching_leavers = true;
        loop_timer_set(edge->leave_timer,
                       loop_now_ms(edge->options.loop) + edge->options.limits.leave_check_ms);
    }
}

int waiting_init(struct waiting *waiting, size_t token_count, struct error *err)
{
    *waiting = (struct waiting){0};
    if (token_count < 2) {
        return 0;
    }
    waiting->own = calloc(token_count, sizeof *waiting->own);
    return waiting->own != NULL ? 0 : fail(err, FAULT_MEMORY, "no memory for the HTTP server");
}

void waiting_done(struct waiting *waiting)
{
    free(waiting->own);
    waiting->own = NULL;
}

static void give_own(struct waiting *waiting, uint32_t token)
{
    if (waiting->own != NULL) {
        (void)atomic_fetch_sub(&waiting->own[token], 1); /* the old count */
    }
}

static void give_place(struct waiting *waiting, uint32_t token)
{
    (void)atomic_fetch_sub(&waiting->all, 1); /* the old count */
    give_own(waiting, token);
}

/* The token's own count first: what it may not have is not even for a moment missing to others. */
static bool take_place(struct waiting *waiting, uint32_t token, uint32_t max)
{
    if (waiting->own != NULL && atomic_fetch_add(&waiting->own[token], 1) >= max - max / 4) {
        give_own(waiting, token);
        return false;
    }
    if (atomic_fetch_add(&waiting->all, 1) >= max) {
        give_place(waiting, token);
        return false;
    }
    return true;
}

bool edge_start_waiting(struct exchange *exchange, struct task_id task)
{
    struct edge *edge = exchange->edge;

    if (!take_place(edge->waiting, exchange->token, edge->options.limits.waiters_max)) {
        return false;
    }
    exchange->is_waiter = true;
    exchange->task = task;
    exchange->previous = NULL;
    exchange->next = edge->waiters;
    if (edge->waiters != NULL) {
        edge->waiters->previous = exchange;
    }
    edge_watch_leavers(edge);
    edge->waiters = exchange;
    edge->waiter_count++;
    return true;
}

void edge_stop_waiting(struct exchange *exchange)
{
    struct edge *edge = exchange->edge;

    if (!exchange->is_waiter) {
        return;
    }
    exchange->is_waiter = false;
    *(exchange->previous != NULL ? &exchange->previous->next : &edge->waiters) = exchange->next;
    if (exchange->next != NULL) {
        exchange->next->previous = exchange->previous;
    }
    edge->waiter_count--;
    give_place(edge->waiting, exchange->token);
}

bool edge_peer_is_gone(const struct exchange *exchange)
{
    struct pollfd peer = {.fd = exchange->connection->fd, .events = POLLRDHUP};

    return poll(&peer, 1, 0) > 0 && (peer.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* No longer waits: the same question again, to be answered at once. */
static void dismiss(struct exchange *exchange)
{
    bool is_lease = exchange->asked == ASK_LEASE;
    struct task_id task = exchange->task;
    uint64_t id = exchange->id;

    edge_stop_waiting(exchange);
    if (is_lease) { /* a worker in line is answered empty-handed */
        edge_put_leave(exchange);
        return;
    }
    edge_put_again(exchange, &(struct ask){.kind = ASK_TASK,
                                           .exchange = id,
                                           .id = task,
                                           .who = exchange->who,
                                           .reach = exchange->reach});
}

bool edge_is_list(const struct exchange *exchange)
{
    return exchange->gateway == NULL && exchange->step == EXCHANGE_ASKED &&
           (exchange->asked == ASK_LIST || exchange->asked == ASK_LETTERS ||
            exchange->asked == ASK_UNSETTLED || exchange->asked == ASK_AUDIT ||
            exchange->asked == ASK_KEYS);
}

/* Long polls, what is at the gateway's door, and lists. */
static bool may_be_left(const struct exchange *exchange)
{
    bool is_held = exchange->is_suspended && !exchange->is_ready;

    return exchange->is_open && (exchange->is_waiter || (is_held && (exchange->gateway != NULL ||
                                                                     edge_is_list(exchange))));
}

/* Asking may answer this one and others, but none of them is closed before the pump runs. */
static void see_off(struct exchange *exchange)
{
    if (exchange->is_waiter) {
        dismiss(exchange);
    } else if (exchange->gateway == NULL) {
        edge_put_leave(exchange);
    } else if (exchange->step == EXCHANGE_ASKED) {
        engine_dismiss(exchange->edge->options.engine, exchange->id);
    } else if (exchange->step == EXCHANGE_SENT && exchange->response.stream.is_on) {
        gateway_stream_dismiss(exchange);
    }
}

void edge_look_for_leavers(void *user)
{
    struct edge *edge = user;
    uint32_t looks = 0, leavers = 0;

    for (; edge->leaver_at < edge->exchanges.used && looks < LOOKS_A_TURN &&
           leavers < EDGE_LEAVERS_A_TURN;
         edge->leaver_at++) {
        struct exchange *each = edge->exchanges.slots[edge->leaver_at];
        if (may_be_left(each)) {
            edge->may_be_left = true;
            looks++;
            if (edge_peer_is_gone(each)) {
                leavers++;
                see_off(each);
            }
        }
    }
    if (edge->leaver_at < edge->exchanges.used) {
        loop_timer_set(edge->leave_timer, loop_now_ms(edge->options.loop) + 1); /* another turn */
        return;
    }
    edge->leaver_at = 0;
    edge->is_watching_leavers = false;
    if (edge->may_be_left) {
        edge->may_be_left = false;
        edge_watch_leavers(edge);
    }
}

void edge_dismiss_waiters(struct edge *edge)
{
    while (edge->waiters != NULL) {
        dismiss(edge->waiters);
    }
}
