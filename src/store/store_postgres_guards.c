/* SPDX-License-Identifier: MIT
 *
 * store_postgres_guards -- the sixth step of the schema: what two sessions do to the same rows at the
 * same time. A function here first takes the lock that the other session needs, and decides by what
 * the next statement sees; what it saw before the lock is a hint and nothing more.
 *
 *   days     rows that came before the partition of their day was made stand in the default one
 *            (task_rest, answer_rest). They are moved when there are few of them, else that day is left
 *            to the default partition, so that neither a start nor the days after it fail for them
 */
#include "store/store_postgres_schema.h"

#include <stddef.h>

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
    /* False: it is there, or the default partition has too much of it. */
    "CREATE FUNCTION daruma.make_day(day int8) RETURNS bool LANGUAGE plpgsql AS $$"
    " DECLARE parent text; low int8 := daruma.first_row(day); many int8; bytes int8;"
    " high int8 := daruma.first_row(day + 1); BEGIN" LOCK_DAYS
    " IF to_regclass(format('daruma.%I', 'task_' || day)) IS NOT NULL THEN RETURN false; END IF;"
    " SELECT count(*), coalesce(sum(size), 0) INTO many, bytes FROM"
    " ((SELECT length(body) + length(headers) AS size FROM daruma.task_rest"
    " WHERE id >= low AND id < high LIMIT " MOVE_ROWS ") UNION ALL"
    " (SELECT length(body) + length(headers) FROM daruma.answer_rest"
    " WHERE id >= low AND id < high LIMIT " MOVE_ROWS ")) AS held;"
    " IF many >= " MOVE_ROWS " OR bytes > " MOVE_BYTES " THEN RETURN false; END IF;"
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

const char *const postgres_step_guards[] = {make_days, drop_days, sweep, NULL};
