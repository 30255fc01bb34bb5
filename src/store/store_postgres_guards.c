/* SPDX-License-Identifier: MIT
 *
 * store_postgres_guards -- the sixth step of the schema: what two sessions do to the same rows at the
 * same time. A function here first takes the lock that the other session needs, and decides by what
 * the next statement sees; what it saw before the lock is a hint and nothing more.
 *
 *   days     rows that came before the partition of their day was made stand in the default one
 *            (task_rest, answer_rest). They are moved when there are few of them, else that day is left
 *            to the default partition, so that neither a start nor the days after it fail for them
 *   claims   each has an attempt number of its own, from a sequence: whose claim was taken over
 *            completes nothing any more, however the key has changed hands meanwhile
 */
#include "store/store_postgres_schema.h"

#include <stddef.h>

#define AS_OWNER " SECURITY DEFINER SET search_path = pg_catalog, pg_temp "

/* Every statement that reads or writes requests and answers does so through the two parents, so this
 * lock waits for all of them, and keeps new ones waiting. Parents come before partitions, as in those
 * statements. */
#define LOCK_DAYS " LOCK TABLE ONLY daruma.task, ONLY daruma.answer IN ACCESS EXCLUSIVE MODE;"

/* What is moved at most while others wait: about a second's work. */
#define MOVE_ROWS  "10000"
#define MOVE_BYTES "67108864"

/* --- days ------------------------------------------------------------------------------------------ */

static const char make_days[] =
    "CREATE FUNCTION daruma.first_row(day int8) RETURNS int8 LANGUAGE sql IMMUTABLE PARALLEL SAFE"
    " AS $$ SELECT (day * 86400000) << 12 $$;"
    /* False: it is there, or the default partition has too much of it, which is found out without
     * the lock first: no session is to wait each time for what is not done. */
    "CREATE FUNCTION daruma.make_day(day int8) RETURNS bool LANGUAGE plpgsql AS $$"
    " DECLARE parent text; low int8 := daruma.first_row(day); many int8; bytes int8;"
    " high int8 := daruma.first_row(day + 1); BEGIN FOR look IN 1..2 LOOP"
    " SELECT count(*), coalesce(sum(size), 0) INTO many, bytes FROM"
    " ((SELECT length(body) + length(headers) AS size FROM daruma.task_rest"
    " WHERE id >= low AND id < high LIMIT " MOVE_ROWS ") UNION ALL"
    " (SELECT length(body) + length(headers) FROM daruma.answer_rest"
    " WHERE id >= low AND id < high LIMIT " MOVE_ROWS ")) AS held;"
    " IF many >= " MOVE_ROWS " OR bytes > " MOVE_BYTES " THEN RETURN false; END IF;"
    " IF look = 1 THEN" LOCK_DAYS " END IF; END LOOP;"
    " IF to_regclass(format('daruma.%I', 'task_' || day)) IS NOT NULL THEN RETURN false; END IF;"
    " FOREACH parent IN ARRAY ARRAY['task', 'answer'] LOOP"
    " EXECUTE format('CREATE TABLE daruma.%1$I (LIKE daruma.%2$I INCLUDING ALL)',"
    " parent || '_' || day, parent);"
    " EXECUTE format('WITH moved AS (DELETE FROM daruma.%1$I WHERE id >= %3$s AND id < %4$s"
    " RETURNING *) INSERT INTO daruma.%2$I SELECT * FROM moved', parent || '_rest',"
    " parent || '_' || day, low, high);"
    " EXECUTE format('ALTER TABLE daruma.%2$I ATTACH PARTITION daruma.%1$I FOR VALUES FROM (%3$s)"
    " TO (%4$s)', parent || '_' || day, parent, low, high); END LOOP; RETURN true; END $$;"
    /* Also for the day that the newest task says: it is far ahead when a clock once was. */
    "CREATE OR REPLACE FUNCTION daruma.make_partitions(first int8, last int8) RETURNS int4"
    " LANGUAGE plpgsql AS $$ DECLARE made int4 := 0; day int8; BEGIN"
    " FOR day IN SELECT generate_series(first, last) UNION SELECT daruma.day_of(max(id))"
    " FROM daruma.life HAVING daruma.day_of(max(id)) > last ORDER BY 1 LOOP"
    " IF to_regclass(format('daruma.%I', 'task_' || day)) IS NULL AND daruma.make_day(day) THEN"
    " made := made + 2; END IF; END LOOP; RETURN made; END $$;";

/* An import of old tasks, or a transaction that was open for days, may bring a life to a day that had
 * none a moment ago. It has written the request before, so it holds the lock or waits for it. */
static const char drop_days[] =
    "CREATE OR REPLACE FUNCTION daruma.drop_partitions(before int8) RETURNS int4"
    " LANGUAGE plpgsql AS $$ DECLARE dropped int4 := 0; day int8; BEGIN"
    " FOR day IN SELECT substring(c.relname FROM 6)::int8 FROM pg_inherits i"
    " JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'daruma.task'::regclass"
    " AND c.relname ~ '^task_[0-9]+$' ORDER BY 1 LOOP EXIT WHEN day >= before;"
    " CONTINUE WHEN EXISTS (SELECT 1 FROM daruma.life WHERE id >= daruma.first_row(day)"
    " AND id < daruma.first_row(day + 1));" LOCK_DAYS
    " CONTINUE WHEN EXISTS (SELECT 1 FROM daruma.life WHERE id >= daruma.first_row(day)"
    " AND id < daruma.first_row(day + 1));"
    " EXECUTE format('DROP TABLE daruma.%I, daruma.%I', 'task_' || day, 'answer_' || day);"
    " dropped := dropped + 1; END LOOP; RETURN dropped; END $$;";

/* What is left of purged tasks where others of the same day are still there, and in the default
 * partition. A page of rows at a time, from where the last one ended: first the days before, then those
 * that no partition was made for yet; the days between are for drop_partitions. more: at once. */
static const char sweep[] =
    "CREATE FUNCTION daruma.sweep_remains(seen int8, before int8, most int8,"
    " OUT gone int8, OUT next int8, OUT more int8) LANGUAGE plpgsql AS $$"
    " DECLARE low int8; high int8; looked int8; dead int8[];"
    " old int8 := daruma.first_row(before);"
    " ahead int8 := daruma.first_row(greatest(before, daruma.today() + 3)); BEGIN"
    " low := CASE WHEN seen < old THEN seen ELSE greatest(seen, ahead - 1) END;"
    " SELECT count(*), max(p.id) INTO looked, high FROM (SELECT id FROM daruma.task WHERE id > low"
    " AND id < CASE WHEN low < old THEN old ELSE 9223372036854775807 END"
    " ORDER BY id LIMIT most * 10) AS p;"
    " dead := ARRAY(SELECT t.id FROM daruma.task t WHERE t.id > low AND t.id <= high AND NOT EXISTS"
    " (SELECT 1 FROM daruma.life l WHERE l.id = t.id AND l.id > low AND l.id <= high)"
    " ORDER BY t.id LIMIT most FOR UPDATE OF t SKIP LOCKED);"
    " next := CASE WHEN cardinality(dead) = most THEN dead[most] WHEN looked = most * 10 THEN high"
    " WHEN low < old THEN ahead - 1 ELSE 0 END;"
    " more := (cardinality(dead) = most OR next = ahead - 1)::int4;"
    " DELETE FROM daruma.answer a WHERE a.id >= dead[1] AND a.id <= dead[cardinality(dead)]"
    " AND a.id = ANY (dead) AND NOT EXISTS (SELECT 1 FROM daruma.life l WHERE l.id = a.id);"
    " DELETE FROM daruma.task t WHERE t.id >= dead[1] AND t.id <= dead[cardinality(dead)]"
    " AND t.id = ANY (dead) AND NOT EXISTS (SELECT 1 FROM daruma.life l WHERE l.id = t.id);"
    " GET DIAGNOSTICS gone = ROW_COUNT; END $$;"
    "CREATE OR REPLACE FUNCTION daruma.drop_remains(before int8, most int8) RETURNS int8"
    " LANGUAGE sql AS $$ SELECT gone FROM daruma.sweep_remains(0, before, most) $$;";

/* --- claims ---------------------------------------------------------------------------------------- */

static const char put_claim[] =
    "CREATE SEQUENCE daruma.attempt;"
    /* A purged task may have left its request there: after a clock was set back a row comes again. */
    "CREATE OR REPLACE FUNCTION daruma.new_row() RETURNS int8 LANGUAGE plpgsql AS $$"
    " DECLARE made int8; BEGIN LOOP made := ((daruma.now_ms() - 1577836800000) << 12) |"
    " (4032 + nextval('daruma.row') % 64);"
    " EXIT WHEN NOT EXISTS (SELECT 1 FROM daruma.life WHERE id = made)"
    " AND NOT EXISTS (SELECT 1 FROM daruma.task WHERE id = made); END LOOP; RETURN made; END $$;"
    "CREATE FUNCTION daruma.put_claim(request daruma.task, until int8, attempt int8, hash bytea)"
    " RETURNS void LANGUAGE sql AS $$ INSERT INTO daruma.task SELECT (put_claim.request).*;"
    " INSERT INTO daruma.life (id, tail, due_at, fence, epoch, queue, attempts, attempts_all,"
    " round, flags, trail_count, state, has_answer, has_edit, key_hash) VALUES"
    " ((put_claim.request).id, (put_claim.request).tail, put_claim.until, put_claim.attempt, 0,"
    " (put_claim.request).queue, 1, 1, 0, 0, 0, 1, false, false, put_claim.hash) $$;";

/* A life is locked before its key is looked at once more: the janitor, which takes both away, has them
 * in that order. States: 0, 1 and 3 are unfinished, 2 has an answer. */
static const char claim_key[] =
    "DROP FUNCTION daruma.claim_key(text, text, text, interval, interval);"
    "CREATE FUNCTION daruma.claim_key(endpoint text, key text, request_hash text,"
    " keep interval DEFAULT '24 hours', lease interval DEFAULT '1 minute')"
    " RETURNS TABLE (state text, response_status int4, response_content_type text,"
    " response_body text, attempt int8) LANGUAGE plpgsql" AS_OWNER
    "AS $$ #variable_conflict use_column\n"
    " DECLARE now int8; mine int8; r daruma.task; k daruma.key; l daruma.life; a daruma.answer;"
    " digest bytea; has_ended bool; kept int8 := floor(extract(epoch FROM claim_key.keep) * 1000);"
    " leased int8 := floor(extract(epoch FROM claim_key.lease) * 1000);"
    " BEGIN r.queue := daruma.keys_queue(); r.method := ''; r.target := ''; r.headers := '';"
    " r.labels := ''; r.body := ''; r.scope := daruma.bytes_of(claim_key.endpoint);"
    " r.key := daruma.bytes_of(claim_key.key);"
    " r.fingerprint := sha256(daruma.bytes_of(claim_key.request_hash));"
    " IF coalesce(claim_key.key, '') = '' OR r.scope IS NULL OR r.fingerprint IS NULL"
    " OR kept IS NULL OR leased IS NULL THEN"
    " RAISE EXCEPTION 'daruma: endpoint, key, request_hash, keep and lease are needed' USING"
    " ERRCODE = 'invalid_parameter_value'; END IF;"
    " r.options := daruma.bytes_of('keep_ms: ' || kept || E'\\n');"
    " digest := daruma.key_hash(r.queue, r.scope, r.key);"
    " FOR i IN 1..100 LOOP r.id := daruma.new_row(); r.tail := daruma.new_tail();"
    " INSERT INTO daruma.key (hash, id, fingerprint) VALUES (digest, r.id, r.fingerprint)"
    " ON CONFLICT ON CONSTRAINT key_pkey DO NOTHING;"
    " IF FOUND THEN mine := nextval('daruma.attempt');"
    " PERFORM daruma.put_claim(r, daruma.now_ms() + leased, mine, digest);"
    " RETURN QUERY SELECT 'new', NULL::int4, NULL::text, NULL::text, mine; RETURN; END IF;"
    " SELECT * INTO k FROM daruma.key AS t WHERE t.hash = digest; CONTINUE WHEN NOT FOUND;"
    " SELECT * INTO l FROM daruma.life AS t WHERE t.id = k.id FOR UPDATE; CONTINUE WHEN NOT FOUND;"
    " SELECT * INTO k FROM daruma.key AS t WHERE t.hash = digest AND t.id = l.id;"
    " CONTINUE WHEN NOT FOUND; now := daruma.now_ms();"
    " has_ended := CASE WHEN l.state = 2 THEN coalesce(daruma.kept_until(l) <= now, false)"
    " WHEN l.state IN (0, 1, 3) THEN l.due_at + (SELECT daruma.field_of(t.options,"
    " 'keep_ms')::int8 FROM daruma.task AS t WHERE t.id = l.id) <= now ELSE true END;"
    " IF has_ended THEN mine := nextval('daruma.attempt');"
    " DELETE FROM daruma.ready AS t WHERE t.queue = l.queue AND t.id = l.id AND l.state IN (0, 3);"
    " UPDATE daruma.life AS t SET key_hash = NULL, settled_at = coalesce(t.settled_at, now),"
    " state = CASE WHEN t.state IN (0, 1, 3) THEN 6 ELSE t.state END WHERE t.id = l.id;"
    " UPDATE daruma.key AS t SET id = r.id, fingerprint = r.fingerprint WHERE t.hash = digest;"
    " PERFORM daruma.put_claim(r, now + leased, mine, digest);"
    " RETURN QUERY SELECT 'new', NULL::int4, NULL::text, NULL::text, mine; RETURN; END IF;"
    " IF k.fingerprint <> r.fingerprint THEN"
    " RETURN QUERY SELECT 'conflict', NULL::int4, NULL::text, NULL::text, NULL::int8; RETURN;"
    " END IF;"
    " IF l.state = 2 THEN SELECT * INTO a FROM daruma.answer AS t WHERE t.id = l.id;"
    " RETURN QUERY SELECT 'completed', a.status, daruma.field_of(a.headers, 'Content-Type'),"
    " daruma.text_of(a.body), NULL::int8; RETURN; END IF;"
    " IF l.state = 1 AND l.due_at > now THEN"
    " RETURN QUERY SELECT 'in_progress', NULL::int4, NULL::text, NULL::text, NULL::int8; RETURN;"
    " END IF; mine := nextval('daruma.attempt');"
    " DELETE FROM daruma.ready AS t WHERE t.queue = l.queue AND t.id = l.id AND l.state IN (0, 3);"
    " UPDATE daruma.task AS t SET options = r.options WHERE t.id = l.id;"
    " UPDATE daruma.life AS t SET state = 1, due_at = now + leased, fence = mine, epoch = 0,"
    " attempts = t.attempts + 1, attempts_all = t.attempts_all + 1 WHERE t.id = l.id;"
    " RETURN QUERY SELECT 'new', NULL::int4, NULL::text, NULL::text, mine; RETURN; END LOOP;"
    " RAISE EXCEPTION 'daruma: the key changes hands too often'; END $$;"
    "COMMENT ON FUNCTION daruma.claim_key IS 'new: it is yours to do, as this attempt; in_progress;"
    " completed: with the answer that was kept; conflict: the key belongs to another request';";

/* Without an attempt a caller cannot be told from the one before it: only while there was one. The
 * hash is made before it is looked for: within the query it would be made for every key there is. */
static const char complete_key[] =
    "DROP FUNCTION daruma.complete_key(text, text, int4, text, text);"
    "CREATE FUNCTION daruma.complete_key(endpoint text, key text, response_status int4,"
    " response_content_type text, response_body text, attempt int8 DEFAULT NULL) RETURNS bool"
    " LANGUAGE plpgsql" AS_OWNER
    "AS $$ DECLARE now int8 := daruma.now_ms(); l daruma.life; digest bytea; BEGIN"
    " digest := daruma.key_hash(daruma.keys_queue(), daruma.bytes_of(complete_key.endpoint),"
    " daruma.bytes_of(complete_key.key));"
    " SELECT f.* INTO l FROM daruma.key AS k JOIN daruma.life AS f ON f.id = k.id"
    " WHERE k.hash = digest FOR UPDATE OF f;"
    " IF NOT FOUND OR l.state <> 1 THEN RETURN false; END IF;"
    " IF complete_key.attempt IS NULL AND l.attempts > 1 THEN"
    " RAISE EXCEPTION 'daruma: the claim was taken over; complete_key needs the attempt that"
    " claim_key gave' USING ERRCODE = 'object_not_in_prerequisite_state'; END IF;"
    " IF complete_key.attempt <> l.fence THEN RETURN false; END IF;"
    " INSERT INTO daruma.answer (id, status, settled_by, headers, body) VALUES (l.id,"
    " complete_key.response_status, '', daruma.bytes_of(coalesce('Content-Type: ' ||"
    " complete_key.response_content_type || E'\\n', '')),"
    " daruma.bytes_of(coalesce(complete_key.response_body, ''))) ON CONFLICT (id) DO UPDATE SET"
    " status = excluded.status, headers = excluded.headers, body = excluded.body;"
    " UPDATE daruma.life AS t SET state = 2, settled_at = now, has_answer = true,"
    " keep_until = now + (SELECT daruma.field_of(o.options, 'keep_ms')::int8 FROM daruma.task AS o"
    " WHERE o.id = l.id) WHERE t.id = l.id; RETURN true; END $$;"
    "COMMENT ON FUNCTION daruma.complete_key IS 'keeps the answer; false: the claim is not the"
    " caller''s any more, or has its answer already';";

const char *const postgres_step_guards[] = {make_days, drop_days,    sweep, put_claim,
                                            claim_key, complete_key, NULL};
