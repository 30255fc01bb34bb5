/* SPDX-License-Identifier: MIT
 *
 * waiters -- long polls: how many there are, and whether their callers are still there, as those of
 * the gateway. A suspended connection is not watched, so it is looked at every now and then. A caller
 * who has closed his side is answered at once with things as they are: if he is gone the answer is
 * lost, and if he only half-closed he gets it. Of the gateway's, what only passes is ended; what is
 * recorded goes on. A list is read no further: what there is of it, and where it goes on, is the answer.
 */
#define _GNU_SOURCE /* POLLRDHUP */
#include "edge/gateway.h"

#include <poll.h>

void edge_watch_leavers(struct edge *edge)
{
    if (!edge->is_watching_leavers) {
        edge->is_watching_leavers = true;
        loop_timer_set(edge->leave_timer,
                       loop_now_ms(edge->options.loop) + edge->options.limits.leave_check_ms);
    }
}

bool edge_start_waiting(struct exchange *exchange, struct task_id task)
{
    struct edge *edge = exchange->edge;

    if (atomic_fetch_add(edge->all_waiters, 1) >= edge->options.limits.waiters_max) {
        (void)atomic_fetch_sub(edge->all_waiters, 1); /* the old count */
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
    (void)atomic_fetch_sub(edge->all_waiters, 1); /* the old count */
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

/* Of the gateway's door, and lists. False: none is suspended. */
static bool look_at_suspended(struct edge *edge)
{
    bool has_any = false;

    for (uint32_t i = 0; i < edge->exchanges.used; i++) {
        struct exchange *each = edge->exchanges.slots[i];
        if (!each->is_open || !each->is_suspended || each->is_ready ||
            (each->gateway == NULL && !edge_is_list(each))) {
            continue;
        }
        has_any = true;
        if (!edge_peer_is_gone(each)) {
            continue;
        }
        if (each->gateway == NULL) {
            edge_put_leave(each);
        } else if (each->step == EXCHANGE_ASKED) {
            engine_dismiss(edge->options.engine, each->id);
        } else if (each->step == EXCHANGE_SENT && each->response.stream.is_on) {
            gateway_stream_dismiss(each);
        }
    }
    return has_any;
}

void edge_look_for_leavers(void *user)
{
    struct edge *edge = user;
    struct exchange *next;
    bool has_any = look_at_suspended(edge);

    edge->is_watching_leavers = false;

    /* Asking may answer this one and others, but none of them is closed before the pump runs. */
    for (struct exchange *each = edge->waiters; each != NULL; each = next) {
        next = each->next;
        if (each->is_waiter && edge_peer_is_gone(each)) {
            dismiss(each);
        }
    }
    if (has_any || edge->waiters != NULL) {
        edge_watch_leavers(edge);
    }
}

void edge_dismiss_waiters(struct edge *edge)
{
    while (edge->waiters != NULL) {
        dismiss(edge->waiters);
    }
}
