/* SPDX-License-Identifier: MIT
 *
 * store_postgres_forgotten -- the tenth step of the schema: the number `forgotten` in meta, raised in
 * every transaction that takes a key from a kept answer before its keeping time is over, so that nodes
 * which hold that answer in memory know (engine/kept.c). The database does it itself, by triggers: so
 * no program can forget to, not one of an earlier version nor a person with psql.
 *
 *   raises it                 an operator's forget, the purge of a route's queue, what is left in a
 *                             queue that was deleted, DELETE by hand: each deletes the row of `key`
 *                             of a task that has ended (2, 4) and is kept until a later moment, or,
 *                             by hand, its life; TRUNCATE of either table;
 *                             deleting a queue: its requests are refused from then on
 *   does not, for it is no    a key that a settle releases (it took key_hash from the life before), for
 *   kept answer               its task was under way; a redrive, for a dead letter is held by no node;
 *                             claim_key, whose keys are of no route
 *   does not, for its time    the janitor, a bury, a key that a record, enqueue or claim_key takes over:
 *   is over                   nodes ask for that moment each time that they look at what they hold
 *   takes no key              import (a key that is bound is a conflict), resolve, a settle by hand
 *
 * A key without a life is taken for one of the first kind. `forgotten` of a node says up to which
 * number it knows; NULL: a program that holds nothing in memory, and does not wait for others.
 */
#include "store/store_postgres_internal.h"
#include "store/store_postgres_schema.h"

#include <stddef.h>

static const char number[] =
    "INSERT INTO daruma.meta VALUES ('forgotten', 1) ON CONFLICT DO NOTHING;"
    "ALTER TABLE daruma.node ADD COLUMN forgotten int8;"
    "COMMENT ON COLUMN daruma.node.forgotten IS 'it replays nothing from memory that was forgotten"
    " up to this number, see meta; NULL: it never does';"
    "CREATE FUNCTION daruma.note_forgotten() RETURNS void LANGUAGE sql AS $$"
    " UPDATE daruma.meta SET value = value + 1 WHERE name = 'forgotten';"
    " SELECT pg_notify('daruma_forgotten', '') $$;";

/* One look by the life's index for each key, however many lives there are. */
static const char keys[] =
    "CREATE FUNCTION daruma.keys_deleted() RETURNS trigger LANGUAGE plpgsql AS $$"
    " DECLARE now int8 := daruma.now_ms(); BEGIN IF EXISTS (SELECT 1 FROM deleted AS d WHERE"
    " coalesce((SELECT l.key_hash IS NOT NULL AND l.state IN (2, 4) AND"
    " coalesce(l.keep_until, 0) > now FROM daruma.life AS l WHERE l.id = d.id), true)) THEN"
    " PERFORM daruma.note_forgotten(); END IF; RETURN NULL; END $$;"
    "CREATE TRIGGER forgotten AFTER DELETE ON daruma.key REFERENCING OLD TABLE AS deleted"
    " FOR EACH STATEMENT EXECUTE FUNCTION daruma.keys_deleted();";

static const char queues[] =
    "CREATE FUNCTION daruma.queue_deleted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " PERFORM daruma.note_forgotten(); RETURN NULL; END $$;"
    "CREATE TRIGGER forgotten AFTER UPDATE OF dropped ON daruma.queue FOR EACH ROW"
    " WHEN (NEW.dropped AND NOT OLD.dropped) EXECUTE FUNCTION daruma.queue_deleted();";

const char *const postgres_step_forgotten[] = {number, keys, queues, NULL};

/* The thirteenth step: people with psql. TRUNCATE deletes no rows, and a life that is deleted leaves its
 * key behind. Of a node's own session, which deletes the key with it, one look at a setting; of others
 * the first kept answer in a transaction counts for all. */
static const char truncates[] =
    "CREATE FUNCTION daruma.emptied() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " PERFORM daruma.note_forgotten(); RETURN NULL; END $$;"
    "CREATE TRIGGER emptied AFTER TRUNCATE ON daruma.key FOR EACH STATEMENT"
    " EXECUTE FUNCTION daruma.emptied();"
    "CREATE TRIGGER emptied AFTER TRUNCATE ON daruma.life FOR EACH STATEMENT"
    " EXECUTE FUNCTION daruma.emptied();";

static const char lives[] =
    "CREATE FUNCTION daruma.life_deleted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " IF OLD.keep_until > daruma.now_ms() AND current_setting('daruma.noted_by', true)"
    " IS DISTINCT FROM pg_current_xact_id()::text THEN PERFORM daruma.note_forgotten();"
    " PERFORM set_config('daruma.noted_by', pg_current_xact_id()::text, true); END IF;"
    " RETURN NULL; END $$;"
    "CREATE TRIGGER forgotten AFTER DELETE ON daruma.life FOR EACH ROW"
    " WHEN (OLD.key_hash IS NOT NULL AND OLD.state IN (2, 4) AND"
    " current_setting('" SESSION_LOCKS "', true) IS DISTINCT FROM 'on')"
    " EXECUTE FUNCTION daruma.life_deleted();";

const char *const postgres_step_by_hand[] = {truncates, lives, NULL};
