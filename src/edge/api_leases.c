/* SPDX-License-Identifier: MIT
 *
 * api_leases -- for workers that pull: taking tasks, and saying what came of them. A lease is told
 * as TASK.FENCE.EPOCH; what does not look like that is stale, like one that is lost: a word about it
 * must not be an error for the others.
 */
#include "edge/api.h"
#include "edge/crossing.h"
#include "edge/parse_act.h"
#include "edge/parse_lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void lease_format(const struct record *record, char ret_text[LEASE_TEXT_MAX])
{
    char id[ID_TEXT_LEN + 1];

    id_format(record->task.id, id);
    (void)snprintf(ret_text, LEASE_TEXT_MAX, "%s.%" PRIu64 ".%" PRIu64, id, record->life.fence,
                   record->life.epoch); /* fits */
}

/* --- taking ------------------------------------------------------------------------------------------ */

void api_lease_take(struct exchange *exchange)
{
    int64_t max = 1, wait_ms = 0;
    struct ask ask = {.kind = ASK_LEASE};
    const struct act_member members[] = {
        {"max", ACT_INT, &max, 1, ENGINE_LEASES_MAX},
        {"lease_ms", ACT_INT, &ask.lease_ms, QUEUE_LEASE_MIN_MS, QUEUE_LEASE_MAX_MS},
        {"wait_ms", ACT_INT, &wait_ms, 0, ENGINE_WAIT_MAX_MS},
    };
    struct error error = {0};
    struct arena *arena;

    if (!api_has_queue(exchange) || (arena = api_arena(exchange)) == NULL) {
        return;
    }
    if (parse_act(buf_span(&exchange->body), "", members, sizeof members / sizeof *members, arena,
                  &error) != 0) {
        exchange_refuse_error(exchange, &error);
        return;
    }
    ask.lease_max = (size_t)max;
    ask.wait_ms = exchange->edge->is_draining ? 0 : wait_ms;
    if (ask.wait_ms > 0 && !edge_start_waiting(exchange, (struct task_id){0})) {
        exchange_refuse(exchange, PROBLEM_OVERLOADED, SPAN(EDGE_WAITERS_TOO_MANY), SPAN(""));
        return;
    }
    api_ask(exchange, ask);
}

/* --- settling ---------------------------------------------------------------------------------------- */

void api_lease_settle(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_LEASE_SETTLE};
    struct error error = {0};

    exchange->arena = parse_lease_arena(exchange->body.len);
    struct arena *arena = api_arena(exchange);
    if (arena == NULL) {
        return;
    }
    if (parse_lease_words(buf_span(&exchange->body), arena, &ask.words, &ask.word_count, &error) !=
        0) {
        exchange_refuse_error(exchange, &error);
        return;
    }
    api_ask(exchange, ask);
}

/* --- nobody is there ------------------------------------------------------------------------------------ */

/* Leases whose worker has gone before they could be told: they go back, in the next turn. */
void lease_returns_note(struct lease_return **returns, const struct record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct lease_return *back = malloc(sizeof *back);
        if (back == NULL) {
            return; /* they come back when they are over */
        }
        *back = (struct lease_return){
            .next = *returns,
            .word = {.kind = LEASE_RETURN,
                     .id = records[i].task.id,
                     .fence = records[i].life.fence,
                     .epoch = records[i].life.epoch,
                     .delay_ms = -1,
                     .is_forced = (records[i].life.flags & LIFE_FORCED) != 0}};
        *returns = back;
    }
}

void leases_return(struct edge *edge, const struct record *records, size_t count)
{
    if (edge->crossing == NULL) {
        lease_returns_note(&edge->returns, records, count);
    } else {
        crossing_return(edge->crossing, records, count);
    }
}

void leases_flush_returns(struct lease_return **returns, struct engine *engine)
{
    while (*returns != NULL) {
        struct lease_return *back = *returns;
        *returns = back->next;
        engine_ask(engine,
                   &(struct ask){.kind = ASK_LEASE_SETTLE, .words = &back->word, .word_count = 1});
        free(back);
    }
}
