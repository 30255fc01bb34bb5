/* SPDX-License-Identifier: MIT
 *
 * store_postgres_older -- a step of the schema: nodes of the release before work on it too, while an
 * installation is upgraded node by node. What their statements do not do by themselves the tables do for
 * them, so that a queue takes a task or is deleted, never both, whichever program is at it.
 *
 *   node    says which program each one is; an older program says nothing, and has the defaults
 *   life    a task that is brought in shares the lock of its queue; a deleted queue takes none
 *   queue   one with open tasks is not deleted by a program that did not look for them under the lock,
 *           and no program brings a deleted one back
 *   batch   what a transaction says it has leased runs when it ends: a program that claims a task which
 *           an operation of the same transaction has cancelled or put off takes nothing by that
 *
 * A session that takes these locks itself says so (SESSION_LOCKS in store_postgres_internal.h), and
 * costs the tables one look at a setting. What is refused is refused with lock_not_available, which an
 * older program takes for a busy row: it answers 503 for that request and goes on.
 */
#include "store/store_postgres_internal.h"
#include "store/store_postgres_schema.h"

#define REFUSE " USING ERRCODE = 'lock_not_available'; END IF;"
#define LOCKS  "current_setting('" SESSION_LOCKS "', true) IS DISTINCT FROM 'on'"

static const char versions[] =
    "ALTER TABLE daruma.node ADD COLUMN schema int8 NOT NULL DEFAULT 0,"
    " ADD COLUMN program text NOT NULL DEFAULT '';"
    "COMMENT ON COLUMN daruma.node.schema IS 'the version that it knows; 0: from before it was "
    "told';"
    "COMMENT ON COLUMN daruma.node.program IS 'its version; empty: from before it was told';";

/* The numbers of the locks are LOCK_QUEUE + number % LOCK_QUEUE_COUNT. The look is a statement of its
 * own after the lock, so it sees what the session before has committed. */
static const char guard_life[] =
    "CREATE FUNCTION daruma.guard_life() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " PERFORM pg_advisory_xact_lock_shared(7233188327665434624 + NEW.queue % 256);"
    " PERFORM 1 FROM daruma.queue AS q WHERE q.number = NEW.queue AND q.dropped;"
    " IF FOUND THEN RAISE EXCEPTION 'daruma: the queue is deleted'" REFUSE " RETURN NEW; END $$;"
    "CREATE TRIGGER guard_life BEFORE INSERT ON daruma.life FOR EACH ROW WHEN (" LOCKS ")"
    " EXECUTE FUNCTION daruma.guard_life();";

/* Whether the deletion was to be forced is not known here. */
static const char guard_queue[] =
    "CREATE FUNCTION daruma.guard_queue() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " IF OLD.dropped AND NOT NEW.dropped THEN RAISE EXCEPTION 'daruma: the queue is deleted'" REFUSE
    " IF OLD.dropped THEN RETURN NEW; END IF;"
    " PERFORM pg_advisory_xact_lock(7233188327665434624 + OLD.number % 256);"
    " PERFORM 1 FROM daruma.life AS l WHERE l.queue = OLD.number AND l.state IN (0, 1, 3);"
    " IF FOUND THEN RAISE EXCEPTION 'daruma: tasks of the queue wait, run or are unsettled; a node "
    "of"
    " the newer version can delete it'" REFUSE " RETURN NEW; END $$;"
    "CREATE TRIGGER guard_queue BEFORE UPDATE ON daruma.queue FOR EACH ROW"
    " WHEN ((OLD.dropped OR NEW.dropped) AND " LOCKS ")"
    " EXECUTE FUNCTION daruma.guard_queue();";

/* A mark is written last. Marks that are folded into one were written by other transactions, which is
 * what xmin tells: their tasks may have ended since. */
static const char guard_batch[] =
    "CREATE FUNCTION daruma.guard_batch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " PERFORM 1 FROM daruma.life AS l WHERE l.id = ANY (NEW.tasks) AND l.state <> 1"
    " AND l.xmin = pg_current_xact_id()::xid;"
    " IF FOUND THEN RAISE EXCEPTION 'daruma: a task is leased and changed at the same time'" REFUSE
    " RETURN NEW; END $$;"
    "CREATE TRIGGER guard_batch BEFORE INSERT ON daruma.batch FOR EACH ROW"
    " WHEN (NEW.tasks <> '{}' AND " LOCKS ") EXECUTE FUNCTION daruma.guard_batch();";

const char *const postgres_step_older[] = {versions, guard_life, guard_queue, guard_batch, NULL};
