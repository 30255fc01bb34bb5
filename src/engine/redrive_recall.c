/* SPDX-License-Identifier: MIT
 *
 * redrive_recall -- after a restart: how far a redrive had come. What is left is counted; what it has
 * sent itself is told by the audit trail, whose row is in the commit of each letter; the rest was
 * somebody else's doing and is skipped. The memo has the sums up to a place, which is a row of the tasks
 * and a number in the trail: what lies behind both is not in them yet. So of the trail, which is
 * bounded, no more is needed than the acts of a page of letters.
 *
 *   redrive_restore --> redrive_count, page by page --> redrive_recall, page by page --.
 *   the last page, and the store did not take all --> redrive_recall, for its number --+--> sums, pages
 */
#include "engine/redrive_internal.h"

#include <inttypes.h>
#include <stdio.h>

#define RECALL_PAGE_ACTS 500

struct span redrive_note(const struct redrive *redrive, char *text, size_t room)
{
    (void)snprintf(text, room, "redrive %" PRIu64, redrive->view.id); /* fits */
    return span_of(text);
}

/* Acts are numbered anew when they are carried to another store: a number that is not there yet tells
 * nothing. */
static uint64_t acts_since_kept(const struct redrive *redrive)
{
    bool is_of_another_store = redrive->recall.last_act < redrive->kept_act;

    return is_of_another_store ? redrive->recall.behind_row : redrive->recall.behind_both;
}

static void recalled(struct redrive *redrive)
{
    struct redrive_view *view = &redrive->view;

    if (redrive->is_restored) {
        view->redriven += acts_since_kept(redrive);
        uint64_t known = view->redriven + redrive->recall.left;
        view->matched =
            known > view->matched ? known : view->matched; /* some came after the count */
        view->skipped = view->matched - known;
        view->state = "running";
    }
    redrive->is_restored = redrive->is_recalling = false;
    redrive->kept_act = redrive->recall.last_act;
    redrive->has_news = true; /* the next tick keeps the sums, then reads on */
}

static void page_recalled(struct engine *engine, struct read *read)
{
    struct redrive *redrive = read->redrive;
    char text[REDRIVE_NOTE_BYTES];
    struct span note = redrive_note(redrive, text, sizeof text);

    redrive->is_reading = false;
    if (read->fault != 0 || redrive->is_over) {
        redrive_wait_for_room(engine, redrive);
        return;
    }
    for (size_t i = 0; i < read->audit_count; i++) {
        const struct audit_row *act = &read->audits[i];
        bool is_behind = act->task.row > redrive->after_row && span_equal(act->note, note);
        redrive->recall.behind_row += is_behind;
        redrive->recall.behind_both += is_behind && act->number > redrive->kept_act;
        redrive->recall.last_act = act->number;
    }
    redrive->recall.after_number = read->next_row;
    if (read->next_row == 0) {
        recalled(redrive);
    } else {
        redrive_recall(engine, redrive);
    }
}

void redrive_recall(struct engine *engine, struct redrive *redrive)
{
    struct read *read = inspect_new(READ_AUDIT);

    if (read != NULL) {
        read->audit = (struct audit_filter){.after_number = redrive->recall.after_number,
                                            .limit = RECALL_PAGE_ACTS,
                                            .act = SPAN("redrive")};
        read->redrive = redrive;
        read->then = page_recalled;
    }
    redrive->is_reading = read != NULL && inspect_start(engine, read);
    if (!redrive->is_reading) {
        redrive_wait_for_room(engine, redrive);
    }
}
