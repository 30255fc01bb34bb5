/* SPDX-License-Identifier: MIT
 *
 * aside_exchange -- an exchange's large body goes to the thread that reads such bodies (aside.h), and comes
 * back. The thread begins with the first of them.
 */
#include "edge/aside.h"
#include "edge/edge_internal.h"
#include "edge/exchange.h"

#include <stdlib.h>

/* What was read aside comes back; its caller cannot leave while he is suspended, but closing answers
 * everybody. */
static void take_read(void *user, struct aside_task *task)
{
    struct edge *edge = user;
    struct exchange *exchange = exchange_find(&edge->exchanges, task->submission.exchange);

    if (exchange != NULL && exchange->step == EXCHANGE_ASKED) {
        task->then(exchange, task);
    }
}

bool edge_is_read_aside(const struct exchange *exchange)
{
    return exchange->body.len > ASIDE_FROM_BYTES &&
           !exchange->edge->is_draining; /* nobody may be left waiting when the server closes */
}

bool edge_read_aside(struct exchange *exchange, const struct aside_task *form)
{
    struct edge *edge = exchange->edge;

    if (!edge_is_read_aside(exchange)) {
        return false;
    }
    if (edge->aside == NULL &&
        aside_open(edge->options.loop, take_read, edge, &edge->aside, NULL) != 0) {
        return false;
    }
    struct aside_task *task = malloc(sizeof *task);
    if (task == NULL) {
        return false;
    }
    *task = *form;
    task->body = exchange->body;
    if (!aside_give(edge->aside, task)) {
        free(task);
        return false;
    }
    buf_init(&exchange->body, exchange->body.max); /* its bytes are the task's now */
    exchange->step = EXCHANGE_ASKED;
    return true;
}
