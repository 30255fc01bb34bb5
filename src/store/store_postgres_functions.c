/* SPDX-License-Identifier: MIT
 *
 * store_postgres_functions -- the second step of the schema: what programs that have the database
 * open anyway may do and see with SQL. They write the same tables in the caller's own transaction, so
 * that a request is recorded exactly when the caller's data is, and never wait for a node.
 *
 * Functions run with the rights of whoever made the schema; calling them takes USAGE on it.
 */
#include "store/store_postgres_schema.h"

#include <stddef.h>

#define AS_OWNER " SECURITY DEFINER SET search_path = pg_catalog, pg_temp "

/* --- ids and bytes --------------------------------------------------------------------------------- */

static const char ids[] =
    "CREATE FUNCTION daruma.uuid_of(id int8, tail int8) RETURNS uuid LANGUAGE sql IMMUTABLE"
    " PARALLEL SAFE AS $$ SELECT (lpad(to_hex((id >> 12) + 1577836800000), 12, '0') || '7' ||"
    " lpad(to_hex(id & 4095), 3, '0') || to_hex(tail | (-9223372036854775808)))::uuid $$;"
    "CREATE FUNCTION daruma.row_of(id uuid) RETURNS int8 LANGUAGE sql IMMUTABLE PARALLEL SAFE"
    " AS $$ SELECT ((('x' || lpad(substr(h, 1, 12), 16, '0'))::bit(64)::int8 - 1577836800000)"
    " << 12) | ('x' || lpad(substr(h, 14, 3), 16, '0'))::bit(64)::int8"
    " FROM (SELECT replace(id::text, '-', '')) AS t(h) $$;"
    "CREATE FUNCTION daruma.tail_of(id uuid) RETURNS int8 LANGUAGE sql IMMUTABLE PARALLEL SAFE"
    " AS $$ SELECT ('x' || substr(replace(id::text, '-', ''), 17))::bit(64)::int8"
    " & 4611686018427387903 $$;"
    "CREATE FUNCTION daruma.text_of(bytes bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE"
    " PARALLEL SAFE AS $$ BEGIN RETURN convert_from(bytes, 'UTF8');"
    " EXCEPTION WHEN OTHERS THEN RETURN encode(bytes, 'escape'); END $$;"
    "CREATE FUNCTION daruma.bytes_of(words text) RETURNS bytea LANGUAGE sql IMMUTABLE"
    " PARALLEL SAFE AS $$ SELECT convert_to(words, 'UTF8') $$;"
    "CREATE FUNCTION daruma.now_ms() RETURNS int8 LANGUAGE sql AS $$ SELECT"
    " floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 $$;"
    "CREATE FUNCTION daruma.moment_of(ms int8) RETURNS timestamptz LANGUAGE sql IMMUTABLE"
    " PARALLEL SAFE AS $$ SELECT to_timestamp(ms / 1000.0) $$;"
    "CREATE SEQUENCE daruma.row;"
    "CREATE FUNCTION daruma.new_row() RETURNS int8 LANGUAGE sql AS $$ SELECT"
    " ((daruma.now_ms() - 1577836800000) << 12) | (4032 + nextval('daruma.row') % 64) $$;"
    "CREATE FUNCTION daruma.new_tail() RETURNS int8 LANGUAGE sql AS $$ SELECT"
    " daruma.tail_of(gen_random_uuid()) $$;"
    "CREATE FUNCTION daruma.field_of(fields bytea, name text) RETURNS text LANGUAGE sql"
    " IMMUTABLE PARALLEL SAFE AS $$ SELECT (regexp_match(daruma.text_of(fields),"
    " '(?:^|\\n)' || name || ': ([^\\n]*)', 'i'))[1] $$;";

static const char queues[] =
    "ALTER TABLE daruma.queue ADD COLUMN flags int4 NOT NULL DEFAULT 0;"
    "COMMENT ON COLUMN daruma.queue.flags IS 'what its tasks are unless they say: 16 once 32 pull';"
    "INSERT INTO daruma.meta VALUES ('keep_succeeded', 259200000), ('keep_failed', 2592000000),"
    " ('keep_cancelled', 86400000) ON CONFLICT DO NOTHING;"
    /* How long what has ended is kept, in ms; NULL: it has not ended. */
    "CREATE FUNCTION daruma.kept_until(l daruma.life) RETURNS int8 LANGUAGE sql STABLE AS $$"
    " SELECT CASE WHEN l.state IN (2, 4, 6) THEN coalesce(l.keep_until,"
    " coalesce(l.resolved_at, l.settled_at) + (SELECT value FROM daruma.meta WHERE name ="
    " CASE l.state WHEN 2 THEN 'keep_succeeded' WHEN 4 THEN 'keep_failed'"
    " ELSE 'keep_cancelled' END)) END $$;";

/* --- enqueue --------------------------------------------------------------------------------------- */

static const char fields[] =
    "CREATE FUNCTION daruma.fields_of(given jsonb, what text) RETURNS bytea LANGUAGE plpgsql"
    " IMMUTABLE AS $$ DECLARE result bytea := ''; n text; v text; BEGIN"
    " FOR n, v IN SELECT e.key, e.value FROM jsonb_each_text(coalesce(given, '{}')) AS e LOOP"
    " IF n !~ '^[!-9;-~]+$' OR v ~ '[\\n\\r]' THEN"
    " RAISE EXCEPTION 'daruma: % has a name or value that cannot be kept: %', what, n"
    " USING ERRCODE = 'invalid_parameter_value'; END IF;"
    " result := result || daruma.bytes_of(n || ': ' || v || E'\\n'); END LOOP;"
    " RETURN result; END $$;"
    "CREATE FUNCTION daruma.fingerprint(method bytea, target bytea, content_type bytea, body bytea)"
    " RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT"
    " sha256(int8send(length(method)) || method || int8send(length(target)) || target ||"
    " int8send(length(content_type)) || content_type || int8send(length(body)) || body) $$;"
    /* The task that a key belongs to; NULL: nobody's, and it is bound to the new one. */
    "CREATE FUNCTION daruma.bind_key(key_hash bytea, new_id int8, print bytea) RETURNS uuid"
    " LANGUAGE plpgsql AS $$ DECLARE k daruma.key; l daruma.life; BEGIN"
    " FOR i IN 1..100 LOOP"
    " INSERT INTO daruma.key (hash, id, fingerprint) VALUES (key_hash, new_id, print)"
    " ON CONFLICT (hash) DO NOTHING; IF FOUND THEN RETURN NULL; END IF;"
    " SELECT * INTO k FROM daruma.key WHERE hash = key_hash FOR UPDATE; CONTINUE WHEN NOT FOUND;"
    " SELECT * INTO l FROM daruma.life WHERE id = k.id; CONTINUE WHEN NOT FOUND;"
    " IF coalesce(daruma.kept_until(l), 9223372036854775807) <= daruma.now_ms() THEN"
    " UPDATE daruma.life SET key_hash = NULL WHERE id = k.id;"
    " UPDATE daruma.key SET id = new_id, fingerprint = print WHERE hash = key_hash;"
    " RETURN NULL; END IF;"
    " IF k.fingerprint <> print THEN RAISE EXCEPTION 'daruma: the key belongs to another request'"
    " USING ERRCODE = 'unique_violation'; END IF;"
    " RETURN daruma.uuid_of(l.id, l.tail); END LOOP;"
    " RAISE EXCEPTION 'daruma: the key changes hands too often'; END $$;";

static const char enqueue[] =
    "CREATE FUNCTION daruma.enqueue(queue text, target text, body text, key text DEFAULT NULL,"
    " due_at timestamptz DEFAULT NULL, method text DEFAULT NULL,"
    " content_type text DEFAULT 'application/json', headers jsonb DEFAULT NULL,"
    " labels jsonb DEFAULT NULL, repeatable bool DEFAULT NULL, deadline interval DEFAULT NULL)"
    " RETURNS uuid LANGUAGE plpgsql" AS_OWNER "AS $$"
    " DECLARE q daruma.queue; now int8 := daruma.now_ms(); new_id int8; new_tail int8;"
    " due int8 := coalesce(floor(extract(epoch FROM enqueue.due_at) * 1000)::int8, now);"
    " url bytea := daruma.bytes_of(coalesce(enqueue.target, ''));"
    " verb bytea := daruma.bytes_of(coalesce(enqueue.method, ''));"
    " kind bytea := daruma.bytes_of(coalesce(enqueue.content_type, ''));"
    " content bytea := daruma.bytes_of(coalesce(enqueue.body, ''));"
    " named bytea := daruma.bytes_of(coalesce(enqueue.key, '')); options text := '';"
    " flags int4; print bytea; hash bytea; bound uuid; BEGIN"
    " SELECT * INTO q FROM daruma.queue WHERE name = daruma.bytes_of(enqueue.queue) AND NOT "
    "dropped;"
    " IF NOT FOUND THEN RAISE EXCEPTION 'daruma: there is no queue %', enqueue.queue"
    " USING ERRCODE = 'invalid_parameter_value'; END IF;"
    " IF enqueue.target !~ '^https?://[^[:space:]]+$' THEN"
    " RAISE EXCEPTION 'daruma: the target is no http URL' USING"
    " ERRCODE = 'invalid_parameter_value'; END IF;"
    " IF enqueue.key !~ '^[!-~]{1,255}$' THEN"
    " RAISE EXCEPTION 'daruma: a key is 1 to 255 visible ASCII characters' USING"
    " ERRCODE = 'invalid_parameter_value'; END IF;"
    " flags := (CASE WHEN enqueue.target IS NULL THEN q.flags & 32 ELSE 0 END) |"
    " (CASE WHEN coalesce(NOT enqueue.repeatable, q.flags & 16 <> 0) THEN 16 ELSE 0 END);"
    " IF enqueue.repeatable IS NOT NULL THEN"
    " options := 'repeatable: ' || enqueue.repeatable::text || E'\\n'; END IF;"
    " print := daruma.fingerprint(verb, url, kind, content);"
    " LOOP new_id := daruma.new_row();"
    " EXIT WHEN NOT EXISTS (SELECT 1 FROM daruma.life WHERE id = new_id); END LOOP;"
    " IF enqueue.key IS NOT NULL THEN hash := daruma.key_hash(q.number, '', named);"
    " bound := daruma.bind_key(hash, new_id, print);"
    " IF bound IS NOT NULL THEN RETURN bound; END IF; END IF;"
    " new_tail := daruma.new_tail();"
    " INSERT INTO daruma.task (id, tail, queue, scope, key, fingerprint, method, target, headers,"
    " labels, options, body) VALUES (new_id, new_tail, q.number, '', named, print, verb, url,"
    " CASE WHEN length(kind) > 0 THEN daruma.bytes_of('Content-Type: ' || enqueue.content_type ||"
    " E'\\n') ELSE '' END || daruma.fields_of(enqueue.headers, 'headers'),"
    " daruma.fields_of(enqueue.labels, 'labels'), daruma.bytes_of(options), content);"
    " INSERT INTO daruma.life (id, tail, due_at, fence, epoch, queue, attempts, attempts_all,"
    " round, flags, trail_count, state, has_answer, has_edit, key_hash, deadline_at) VALUES"
    " (new_id, new_tail, due, 0, 0, q.number, 0, 0, 0, flags, 0, 0, false, false, hash,"
    " now + floor(extract(epoch FROM enqueue.deadline) * 1000)::int8);"
    " INSERT INTO daruma.ready (queue, lane, due, id) VALUES (q.number,"
    " CASE WHEN flags & 32 <> 0 THEN 3 ELSE 1 END, due, new_id);"
    " IF due <= now THEN PERFORM pg_notify('daruma_ready', ''); END IF;"
    " RETURN daruma.uuid_of(new_id, new_tail); END $$;"
    "COMMENT ON FUNCTION daruma.enqueue IS 'records a request that must happen, in the caller''s "
    "own"
    " transaction; the same key again is the same task; target NULL: the queue''s';";

/* --- keys of APIs that answer by themselves ---------------------------------------------------------- */

static const char claim_key[] =
    "CREATE FUNCTION daruma.keys_queue() RETURNS int4 LANGUAGE plpgsql AS $$"
    " DECLARE found int4; BEGIN SELECT number INTO found FROM daruma.queue WHERE name = '_keys';"
    " IF found IS NULL THEN PERFORM pg_advisory_xact_lock(7233188323370467331);"
    " INSERT INTO daruma.queue (number, name, paused, dropped, settings)"
    " SELECT coalesce(max(number), 0) + 1, '_keys', true, false, '' FROM daruma.queue"
    " HAVING NOT EXISTS (SELECT 1 FROM daruma.queue WHERE name = '_keys');"
    " SELECT number INTO found FROM daruma.queue WHERE name = '_keys'; END IF;"
    " RETURN found; END $$;"
    "CREATE FUNCTION daruma.claim_key(endpoint text, key text, request_hash text,"
    " keep interval DEFAULT '24 hours', lease interval DEFAULT '1 minute')"
    " RETURNS TABLE (state text, response_status int4, response_content_type text,"
    " response_body text) LANGUAGE plpgsql" AS_OWNER "AS $$ #variable_conflict use_column\n"
    " DECLARE now int8 := daruma.now_ms(); until int8; new_id int8; new_tail int8; digest bytea;"
    " print bytea := sha256(daruma.bytes_of(claim_key.request_hash)); k daruma.key; l daruma.life;"
    " a daruma.answer; number int4 := daruma.keys_queue(); kept int8;"
    " BEGIN IF coalesce(claim_key.key, '') = '' OR claim_key.endpoint IS NULL OR print IS NULL THEN"
    " RAISE EXCEPTION 'daruma: endpoint, key and request_hash are needed' USING"
    " ERRCODE = 'invalid_parameter_value'; END IF;"
    " until := now + floor(extract(epoch FROM claim_key.lease) * 1000)::int8;"
    " kept := floor(extract(epoch FROM claim_key.keep) * 1000)::int8;"
    " digest := daruma.key_hash(number, daruma.bytes_of(claim_key.endpoint),"
    " daruma.bytes_of(claim_key.key));"
    " LOOP new_id := daruma.new_row();"
    " EXIT WHEN NOT EXISTS (SELECT 1 FROM daruma.life WHERE id = new_id); END LOOP;"
    " INSERT INTO daruma.key (hash, id, fingerprint) VALUES (digest, new_id, print)"
    " ON CONFLICT ON CONSTRAINT key_pkey DO NOTHING;"
    " IF FOUND THEN new_tail := daruma.new_tail();"
    " INSERT INTO daruma.task VALUES (new_id, new_tail, number, "
    "daruma.bytes_of(claim_key.endpoint),"
    " daruma.bytes_of(claim_key.key), print, '', '', '', '',"
    " daruma.bytes_of('keep_ms: ' || kept || E'\\n'), '');"
    " INSERT INTO daruma.life (id, tail, due_at, fence, epoch, queue, attempts, attempts_all,"
    " round, flags, trail_count, state, has_answer, has_edit, key_hash) VALUES (new_id, new_tail,"
    " until, 1, 0, number, 1, 1, 0, 0, 0, 1, false, false, digest);"
    " RETURN QUERY SELECT 'new', NULL::int4, NULL::text, NULL::text; RETURN; END IF;"
    " SELECT * INTO k FROM daruma.key AS t WHERE t.hash = digest;"
    " SELECT * INTO l FROM daruma.life AS t WHERE t.id = k.id FOR UPDATE;"
    " IF l.state = 2 AND l.keep_until > now THEN"
    " IF k.fingerprint <> print THEN RETURN QUERY SELECT 'conflict', NULL::int4, NULL::text,"
    " NULL::text; RETURN; END IF;"
    " SELECT * INTO a FROM daruma.answer AS t WHERE t.id = k.id;"
    " RETURN QUERY SELECT 'completed', a.status, daruma.field_of(a.headers, 'Content-Type'),"
    " daruma.text_of(a.body); RETURN; END IF;"
    " IF l.state = 1 AND l.due_at > now THEN"
    " RETURN QUERY SELECT CASE WHEN k.fingerprint = print THEN 'in_progress' ELSE 'conflict' END,"
    " NULL::int4, NULL::text, NULL::text; RETURN; END IF;"
    " UPDATE daruma.key AS t SET fingerprint = print WHERE t.hash = k.hash;"
    " UPDATE daruma.task AS t SET fingerprint = print, options ="
    " daruma.bytes_of('keep_ms: ' || kept || E'\\n') WHERE t.id = k.id;"
    " UPDATE daruma.life AS t SET state = 1, due_at = until, fence = t.fence + 1, settled_at = "
    "NULL,"
    " keep_until = NULL, has_answer = false WHERE t.id = k.id;"
    " RETURN QUERY SELECT 'new', NULL::int4, NULL::text, NULL::text; END $$;"
    "COMMENT ON FUNCTION daruma.claim_key IS 'new: it is yours to do; in_progress; completed: with "
    "the"
    " answer that was kept; conflict: the key belongs to another request';";

static const char complete_key[] =
    "CREATE FUNCTION daruma.complete_key(endpoint text, key text, response_status int4,"
    " response_content_type text, response_body text) RETURNS bool LANGUAGE plpgsql" AS_OWNER
    "AS $$ DECLARE now int8 := daruma.now_ms(); l daruma.life; BEGIN"
    " SELECT f.* INTO l FROM daruma.key AS k JOIN daruma.life AS f ON f.id = k.id"
    " WHERE k.hash = daruma.key_hash(daruma.keys_queue(),"
    " daruma.bytes_of(complete_key.endpoint), daruma.bytes_of(complete_key.key)) FOR UPDATE OF f;"
    " IF l.id IS NULL OR l.state <> 1 THEN RETURN false; END IF;"
    " INSERT INTO daruma.answer (id, status, settled_by, headers, body) VALUES (l.id,"
    " complete_key.response_status, '', daruma.bytes_of(coalesce('Content-Type: ' ||"
    " complete_key.response_content_type || E'\\n', '')),"
    " daruma.bytes_of(coalesce(complete_key.response_body, ''))) ON CONFLICT (id) DO UPDATE SET"
    " status = excluded.status, headers = excluded.headers, body = excluded.body;"
    " UPDATE daruma.life AS t SET state = 2, settled_at = now, has_answer = true, keep_until = now "
    "+"
    " (SELECT daruma.field_of(o.options, 'keep_ms')::int8 FROM daruma.task AS o"
    " WHERE o.id = l.id) WHERE t.id = l.id; RETURN true; END $$;";

/* --- views ------------------------------------------------------------------------------------------- */

static const char views[] =
    "CREATE VIEW daruma.idempotency_keys AS SELECT daruma.text_of(t.key) AS key,"
    " CASE WHEN daruma.text_of(q.name) = '_keys' THEN daruma.text_of(t.scope) ELSE"
    " coalesce((regexp_match(daruma.text_of(t.target), '^[a-z]+://[^/]*(/[^?#]*)'))[1],"
    " daruma.text_of(q.name)) END AS endpoint,"
    " encode(k.fingerprint, 'hex') AS request_hash,"
    " CASE WHEN l.state = 2 THEN 'succeeded' WHEN l.state IN (4, 5, 6) THEN 'failed'"
    " ELSE 'in_progress' END AS state, a.status AS response_status,"
    " daruma.field_of(a.headers, 'Content-Type') AS response_content_type,"
    " daruma.text_of(a.body) AS response_body,"
    " daruma.moment_of((l.id >> 12) + 1577836800000) AS created_at,"
    " daruma.moment_of(l.settled_at) AS completed_at,"
    " daruma.moment_of(daruma.kept_until(l)) AS expires_at"
    " FROM daruma.key k JOIN daruma.life l ON l.id = k.id JOIN daruma.task t ON t.id = k.id"
    " JOIN daruma.queue q ON q.number = l.queue LEFT JOIN daruma.answer a ON a.id = k.id"
    " AND l.has_answer AND l.state IN (2, 4, 5, 6);"
    "COMMENT ON VIEW daruma.idempotency_keys IS 'keys that are bound, and the answers to them';"
    "CREATE VIEW daruma.failed_jobs AS SELECT daruma.uuid_of(l.id, l.tail) AS id,"
    " daruma.field_of(t.labels, 'bookmark_id') AS bookmark_id,"
    " daruma.field_of(t.labels, 'job_type') AS job_type,"
    " coalesce((SELECT nullif(daruma.text_of(r.message), '') FROM daruma.trail r"
    " WHERE r.task = l.id ORDER BY n DESC LIMIT 1), 'status ' || a.status::text) AS error_message,"
    " daruma.text_of(CASE WHEN e.parts & 4 <> 0 THEN e.body ELSE t.body END) AS payload,"
    " daruma.moment_of(coalesce(l.failed_at, l.settled_at)) AS failed_at,"
    " coalesce(l.failed_class, 0) IN (1, 2, 3, 7) AS retryable"
    " FROM daruma.life l JOIN daruma.task t ON t.id = l.id LEFT JOIN daruma.answer a"
    " ON a.id = l.id AND l.has_answer LEFT JOIN daruma.edit e ON e.id = l.id AND l.has_edit"
    " WHERE l.state = 5;"
    "COMMENT ON VIEW daruma.failed_jobs IS 'dead letters that wait for a person';";

const char *const postgres_step_2[] = {ids,       queues,       fields, enqueue,
                                       claim_key, complete_key, views,  NULL};

/* --- a later step: a queue that is deleted takes nothing -------------------------------------------- */

/* The queue of that name, for as long as the caller's transaction lasts: who deletes it (see
 * store_postgres_queues.c, which has the number of the lock) waits for that, or was first. A statement
 * sees what was committed before it began, unless the transaction looks at one moment throughout: then
 * a row that was changed since cannot be locked (40001). */
static const char open_queue[] =
    "CREATE FUNCTION daruma.open_queue(name text) RETURNS SETOF daruma.queue LANGUAGE plpgsql"
    " AS $$ DECLARE q daruma.queue; BEGIN FOR i IN 1..100 LOOP"
    " SELECT * INTO q FROM daruma.queue AS d WHERE d.name = daruma.bytes_of(open_queue.name)"
    " AND NOT d.dropped; IF NOT FOUND THEN RETURN; END IF;"
    " PERFORM pg_advisory_xact_lock_shared(7233188327665434624 + q.number % 256);"
    " IF current_setting('transaction_isolation') = 'read committed' THEN"
    " PERFORM 1 FROM daruma.queue AS d WHERE d.number = q.number AND NOT d.dropped;"
    " ELSE PERFORM 1 FROM daruma.queue AS d WHERE d.number = q.number FOR SHARE; END IF;"
    " IF FOUND THEN RETURN NEXT q; RETURN; END IF; END LOOP; END $$;"
    "COMMENT ON FUNCTION daruma.open_queue IS 'the queue of that name; until the transaction ends"
    " it cannot be deleted';";

/* enqueue as it stands, whichever step wrote it last, but for how it finds the queue, and that a task
 * which leaves it to the queue's targets whether it may be repeated says so (LIFE_TARGETS). */
static const char enqueue_opens[] =
    "DO $do$ DECLARE was text := pg_get_functiondef('daruma.enqueue'::regproc);"
    " opens text := replace(was, 'FROM daruma.queue WHERE name = daruma.bytes_of(enqueue.queue) AND"
    " NOT dropped;', 'FROM daruma.open_queue(enqueue.queue);');"
    " next text := replace(opens, 'THEN 16 ELSE 0 END);', 'THEN 16 ELSE 0 END) |"
    " (CASE WHEN enqueue.repeatable IS NULL AND enqueue.target IS NULL AND q.flags & 32 = 0"
    " THEN 4096 ELSE 0 END);'); BEGIN"
    " IF opens = was OR next = opens THEN"
    " RAISE EXCEPTION 'daruma: enqueue is not as it was made'; END IF;"
    " EXECUTE next; END $do$;";

/* Entries whose tasks were purged while they were being claimed: hints count them for ever. */
static const char stray_ready[] =
    "DELETE FROM daruma.ready AS r WHERE NOT EXISTS (SELECT 1 FROM daruma.life AS l"
    " WHERE l.id = r.id);";

const char *const postgres_step_open_queue[] = {open_queue, enqueue_opens, stray_ready, NULL};

/* --- a later step: the server's own queues are closed ------------------------------------------------ */

/* Names that begin with _: what is in them is recorded by the server alone, as for every other door. */
static const char own_queues[] =
    "DO $do$ DECLARE was text := pg_get_functiondef('daruma.open_queue'::regproc);"
    " next text := replace(was, 'BEGIN FOR i IN', 'BEGIN"
    " IF starts_with(open_queue.name, ''_'') THEN RETURN; END IF; FOR i IN'); BEGIN"
    " IF next = was THEN RAISE EXCEPTION 'daruma: open_queue is not as it was made'; END IF;"
    " EXECUTE next; END $do$;";

const char *const postgres_step_own_queues[] = {own_queues, NULL};
