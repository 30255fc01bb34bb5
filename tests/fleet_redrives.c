/* SPDX-License-Identifier: MIT
 *
 * fleet_redrives -- operators who redrive many dead letters at once, at any node, and cancel that at any other.
 * One redrive takes a letter once, stops when a caller was told that it has, and comes to one end that tells as
 * many letters as were committed in its name, whatever became of its node. See fleet.h.
 */
#include "fleet.h"
#include "engine/memos_internal.h"
#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ENDED_PREFIX STORE_MEMO_OF_NODES "redriven"
#define GOING_PREFIX "redrive"

static struct fleet_redrive *find(struct fleet *fleet, uint64_t id)
{
    for (uint32_t i = 0; i < fleet->redrive_count; i++) {
        if (fleet->redrives[i].id == id) {
            return &fleet->redrives[i];
        }
    }
    if (fleet->redrive_count == FLEET_REDRIVES_MAX) {
        return NULL;
    }
    struct fleet_redrive *redrive = &fleet->redrives[fleet->redrive_count++];
    *redrive = (struct fleet_redrive){.id = id};
    return redrive;
}

void fleet_redrive(struct fleet *fleet, size_t node)
{
    uint64_t roll = fleet_roll(fleet, 3);

    if (roll > 0 && fleet->redrives_asked < FLEET_REDRIVES_MAX) {
        struct ask begin = {.kind = ASK_REDRIVE_MANY,
                            .queue = roll == 1 ? SPAN(FLEET_PUSHED) : SPAN(""),
                            .rate_per_second = (double)(1 + fleet_roll(fleet, 4))};
        fleet->redrives_asked++;
        fleet_ask(fleet, node, &begin, 0);
    } else if (roll == 0 && fleet->redrive_count > 0) {
        uint32_t at = (uint32_t)fleet_roll(fleet, fleet->redrive_count);
        struct ask about = {.kind =
                                fleet_roll(fleet, 2) == 0 ? ASK_REDRIVE_STATE : ASK_REDRIVE_CANCEL,
                            .id = {.row = (int64_t)fleet->redrives[at].id}};
        fleet_ask(fleet, node, &about, at);
    }
}

/* What is told adds up, and is no older than the lease of the node that tells it. */
static void check_told(struct fleet *fleet, const struct fleet_redrive *redrive,
                       const struct fleet_act *act, const struct redrive_view *view)
{
    bool is_over = strcmp(view->state, "done") == 0 || strcmp(view->state, "cancelled") == 0;
    bool must_know =
        redrive->is_ended && act->asked_at_ms > redrive->ended_at_ms + fleet->node_lease_ms;

    if (must_know && !is_over) {
        fleet_fail(fleet, "redrive %" PRIu64 " is told as %s, and has ended long ago", redrive->id,
                   view->state);
    } else if (view->redriven + view->skipped > view->matched ||
               view->redriven > redrive->letters) {
        fleet_fail(fleet,
                   "redrive %" PRIu64 " is told with %" PRIu64 " redriven and %" PRIu64
                   " skipped of %" PRIu64 ", and has redriven %" PRIu64,
                   redrive->id, view->redriven, view->skipped, view->matched, redrive->letters);
    }
}

void fleet_redrive_told(struct fleet *fleet, const struct fleet_act *act, const struct reply *reply)
{
    struct fleet_redrive *redrive =
        reply->kind == REPLY_REDRIVE ? find(fleet, reply->redrive.id) : NULL;

    if (redrive == NULL) {
        return;
    }
    redrive->is_told = true;
    check_told(fleet, redrive, act, &reply->redrive);
    fleet_trace(fleet, "redrive %" PRIu64 " is told as %s, %" PRIu64 " redriven", redrive->id,
                reply->redrive.state, reply->redrive.redriven);
    if (act->kind == ASK_REDRIVE_CANCEL) {
        redrive->is_told_over = true;
        if (redrive->letters != reply->redrive.redriven) {
            fleet_fail(fleet, "redrive %" PRIu64 " has redriven %" PRIu64 " and is told %" PRIu64,
                       redrive->id, redrive->letters, reply->redrive.redriven);
        }
    }
}

/* A letter is redriven, by a person alone or in the name of a redrive. */
void fleet_redrive_applied(struct fleet *fleet, struct fleet_task *task, const struct op *op)
{
    struct span rest = op->audit->note, word;
    int64_t id = 0;
    struct fleet_redrive *redrive =
        span_cut(&rest, ' ', &word) && span_to_int(rest, &id) ? find(fleet, (uint64_t)id) : NULL;

    if (redrive == NULL) {
        return;
    }
    redrive->letters++;
    fleet_trace(fleet, "redrive %" PRIu64 " takes that letter, epoch %" PRIu64, redrive->id,
                op->epoch);
    fleet->seen.redriven++;
    if (redrive->is_told_over) {
        fleet_fail(fleet, "redrive %" PRIu64 " was told to have stopped, and goes on", redrive->id);
    } else if (task != NULL && task->redriven_by == redrive->id) {
        fleet_fail(fleet, "redrive %" PRIu64 " takes one letter twice", redrive->id);
    }
    if (task != NULL) { /* it is no callback */
        task->redriven_by = redrive->id;
    }
}

static const struct memo *memo_of(const struct fleet *fleet, const char *prefix, uint64_t id)
{
    const struct rows *rows = &fleet->inner->rows;

    for (size_t i = 0; i < rows->memo_count; i++) {
        uint64_t found;
        if (memos_is(rows->memos[i]->memo.name, prefix, &found) && (id == 0 || found == id)) {
            return &rows->memos[i]->memo;
        }
    }
    return NULL;
}

/* It is in the store: for good, and true from the first. */
static void note_end(struct fleet *fleet, struct fleet_redrive *redrive, struct span value)
{
    struct span state = SPAN("");
    int64_t redriven = memos_number(value, "redriven"), skipped = memos_number(value, "skipped");

    (void)fields_find(value, "state", &state); /* else it stays empty, and is none */
    if (!redrive->is_ended) {
        redrive->is_ended = true;
        redrive->ended_at_ms = fleet->mono_ms;
        redrive->ended_redriven = redriven;
        redrive->ended_skipped = skipped;
        (void)snprintf(redrive->ended_state, sizeof redrive->ended_state, "%.*s",
                       SPAN_ARGS(state)); /* both words are shorter */
    }
    if (!span_is(state, redrive->ended_state) || redriven != redrive->ended_redriven ||
        skipped != redrive->ended_skipped) {
        fleet_fail(fleet, "redrive %" PRIu64 " has ended as %s, and then as %.*s", redrive->id,
                   redrive->ended_state, SPAN_ARGS(state));
    } else if ((uint64_t)redriven != redrive->letters ||
               redriven + skipped > memos_number(value, "matched")) {
        fleet_fail(fleet,
                   "redrive %" PRIu64 " has redriven %" PRIu64 " and ends with %" PRId64
                   " redriven and %" PRId64 " skipped of %" PRId64,
                   redrive->id, redrive->letters, redriven, skipped,
                   memos_number(value, "matched"));
    }
}

void fleet_check_ends(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->redrive_count; i++) {
        struct fleet_redrive *redrive = &fleet->redrives[i];
        const struct memo *ended = memo_of(fleet, ENDED_PREFIX, redrive->id);
        if (ended != NULL) {
            note_end(fleet, redrive, ended->value);
        } else if (redrive->is_ended) {
            fleet_fail(fleet, "the end of redrive %" PRIu64 " is forgotten", redrive->id);
        }
        if (ended != NULL && memo_of(fleet, GOING_PREFIX, redrive->id) != NULL) {
            fleet_fail(fleet, "redrive %" PRIu64 " has ended and is under way", redrive->id);
        }
    }
}

bool fleet_has_redrives(const struct fleet *fleet)
{
    return memo_of(fleet, GOING_PREFIX, 0) != NULL;
}

void fleet_check_redrives(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->redrive_count; i++) {
        const struct fleet_redrive *redrive = &fleet->redrives[i];
        const struct memo *ended = memo_of(fleet, ENDED_PREFIX, redrive->id);
        if (memo_of(fleet, GOING_PREFIX, redrive->id) != NULL) {
            fleet_fail(fleet, "redrive %" PRIu64 " is still under way when all is calm",
                       redrive->id);
        } else if (ended == NULL && redrive->is_told) {
            fleet_fail(fleet, "redrive %" PRIu64 " was told, and is not known any more",
                       redrive->id);
        } else if (ended != NULL &&
                   redrive->letters != (uint64_t)memos_number(ended->value, "redriven")) {
            fleet_fail(fleet, "redrive %" PRIu64 " has redriven %" PRIu64 " and tells %" PRId64,
                       redrive->id, redrive->letters, memos_number(ended->value, "redriven"));
        }
    }
}
