/* SPDX-License-Identifier: MIT
 *
 * redrive_owner -- which node looks after a redrive. Its memo has the epoch of that node. A node that was
 * stopped for longer than its lease comes back under another epoch, and a peer may have taken the redrive
 * over meanwhile: two nodes would redrive at twice the rate, and each would count the other's letters as
 * skipped. So with each beat a node reads the memos of its redrives:
 *
 *   the memo has an epoch that this node wrote or took over --> its own: it writes how far it is, and goes on
 *   the memo has another epoch                              --> a peer's: this node leaves it
 *   there is no memo                                        --> a peer has ended it: likewise
 *
 * No letter is counted or redriven before the memo has the epoch of its node. One that has come back waits for
 * the length of a lease before it writes its new epoch, so that a peer which takes the redrive over comes first.
 * Should both write, the first one has it: each write is made only while the memo has the epoch that its node
 * knows of, which the store decides in that commit. A node whose write was refused reads the memos. It decides
 * only while none of its own writes is under way, so it is never both that leave.
 */
#include "engine/memos_internal.h"
#include "engine/redrive_internal.h"
#include "base/plant.h"

#include <assert.h>

static void leave(struct engine *engine, struct redrive *redrive)
{
    struct error error = {0};

    assert(redrive->memo_writes == 0 && !redrive->is_ending);

    redrive->is_over = redrive->is_lost = true;
    redrive->must_end = redrive->has_memo = false;
    DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "redrive_left",
               daruma_log_uint("redrive", redrive->view.id),
               daruma_log_text("reason", "another node has taken it over"));
    (void)fail_told(
        &error, FAULT_UNKNOWN, /* the reply carries it */
        "another node has taken this redrive over, or has ended it: send :cancel again");
    redrive_tell_callers(engine, redrive, &error);
}

bool redrive_is_contested(const struct engine *engine, const struct redrive *redrive)
{
    return nodes_are_many(engine) && redrive->is_contested;
}

bool redrive_is_doubted(const struct engine *engine, const struct redrive *redrive)
{
    bool is_other = redrive->epoch != engine->store->epoch || redrive->is_contested;

    return nodes_are_many(engine) && redrive->has_memo && (is_other || nodes_lease_is_over(engine));
}

static bool is_own(const struct redrive *redrive, const struct read *read)
{
    struct span value;

    PLANT(REDRIVE_KEPT, return true)
    return memos_find(read, REDRIVE_PREFIX, redrive->view.id, &value) &&
           (uint64_t)memos_number(value, "epoch") == redrive->epoch;
}

/* At once, but not where this node has been away under another epoch. */
static bool may_sign(const struct engine *engine, struct redrive *redrive)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    bool was_away = redrive->is_own && redrive->epoch != engine->store->epoch;

    if (!was_away) {
        redrive->sign_at_ms = 0;
    } else if (redrive->sign_at_ms == 0) {
        redrive->sign_at_ms = now_ms + engine->store->node_lease_ms;
    }
    return now_ms >= redrive->sign_at_ms;
}

void redrive_own(struct engine *engine, const struct read *read)
{
    for (struct redrive *each = engine->redrives; each != NULL; each = each->next) {
        bool is_going = !each->is_over || each->must_end;
        if (!is_going || !each->has_memo || each->exchange != NOBODY || !each->is_settled) {
            continue;
        }
        each->is_contested = false;
        if (!is_own(each, read)) {
            leave(engine, each);
        } else if (may_sign(engine, each)) {
            redrive_keep_progress(engine, each);
        }
    }
}
