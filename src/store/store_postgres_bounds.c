/* SPDX-License-Identifier: MIT
 *
 * store_postgres_bounds -- a later step of the schema: what is enqueued or claimed with SQL has the
 * bounds of task/task.h, all but that of the body, which is a server's own. What was recorded before stays as it is.
 */
#include "store/store_postgres_schema.h"
#include "task/task.h"
#include "task/url.h"

#include <stddef.h>

#define WRITTEN(number) #number
#define TEXT_OF(name)   WRITTEN(name)
#define URL_BYTES       TEXT_OF(URL_BYTES_MAX)
#define METHOD_BYTES    TEXT_OF(TASK_METHOD_BYTES_MAX)
#define HEADERS         TEXT_OF(TASK_HEADERS_MAX)
#define HEADERS_BYTES   TEXT_OF(TASK_HEADERS_BYTES_MAX)
#define LABELS          TEXT_OF(TASK_LABELS_MAX)
#define LABEL_BYTES     TEXT_OF(TASK_LABEL_BYTES_MAX)
#define PART_BYTES      TEXT_OF(TASK_PART_BYTES_MAX)

static const char bound[] =
    "CREATE FUNCTION daruma.bound(what text, bytes int, most int) RETURNS void LANGUAGE plpgsql"
    " IMMUTABLE AS $$ BEGIN IF bytes > most THEN"
    " RAISE EXCEPTION 'daruma: % has % bytes, the limit is %', what, bytes, most"
    " USING ERRCODE = 'invalid_parameter_value'; END IF; END $$;";

/* In place of that of the second step. */
static const char fields[] =
    "CREATE OR REPLACE FUNCTION daruma.fields_of(given jsonb, what text) RETURNS bytea"
    " LANGUAGE plpgsql IMMUTABLE AS $$ DECLARE result bytea := ''; n text; v text;"
    " count int := 0; most int := CASE what WHEN 'labels' THEN " LABELS " ELSE " HEADERS " END;"
    " BEGIN FOR n, v IN SELECT e.key, e.value FROM jsonb_each_text(coalesce(given, '{}')) AS e"
    " LOOP count := count + 1; IF count > most THEN"
    " RAISE EXCEPTION 'daruma: there are more than % %', most, what"
    " USING ERRCODE = 'invalid_parameter_value'; END IF;"
    " IF what = 'labels' THEN"
    " PERFORM daruma.bound('the name of one of labels', octet_length(n), " LABEL_BYTES ");"
    " PERFORM daruma.bound('labels.' || n, octet_length(v), " LABEL_BYTES ");"
    " ELSE PERFORM daruma.bound(what,"
    " length(result) + octet_length(n) + octet_length(v) + 3, " HEADERS_BYTES "); END IF;"
    " IF n !~ '^[!-9;-~]+$' OR v ~ '[\\n\\r]' THEN"
    " RAISE EXCEPTION 'daruma: % has a name or value that cannot be kept: %', what, n"
    " USING ERRCODE = 'invalid_parameter_value'; END IF;"
    " result := result || daruma.bytes_of(n || ': ' || v || E'\\n'); END LOOP;"
    " RETURN result; END $$;";

/* enqueue as it stands, whichever step wrote it last. */
static const char enqueue[] =
    "DO $do$ DECLARE was text := pg_get_functiondef('daruma.enqueue'::regproc);"
    " next text := replace(was, ' flags := (CASE WHEN enqueue.target IS NULL THEN',"
    " ' PERFORM daruma.bound(''target'', length(url), " URL_BYTES ");"
    " PERFORM daruma.bound(''method'', length(verb), " METHOD_BYTES ");"
    " PERFORM daruma.bound(''content_type'', length(kind), " HEADERS_BYTES ");"
    " IF enqueue.content_type ~ ''[\\n\\r]'' THEN RAISE EXCEPTION"
    " ''daruma: content_type has a value that cannot be kept''"
    " USING ERRCODE = ''invalid_parameter_value''; END IF;"
    " flags := (CASE WHEN enqueue.target IS NULL THEN'); BEGIN"
    " IF next = was THEN RAISE EXCEPTION 'daruma: enqueue is not as it was made'; END IF;"
    " EXECUTE next; END $do$;";

/* Likewise the two for keys: what they keep has to get through `daruma import`. */
static const char claim_key[] =
    "DO $do$ DECLARE was text := pg_get_functiondef('daruma.claim_key'::regproc);"
    " next text := replace(was, ' r.options := daruma.bytes_of(''keep_ms: ''',"
    " ' PERFORM daruma.bound(''endpoint'', length(r.scope), " PART_BYTES ");"
    " PERFORM daruma.bound(''key'', length(r.key), " PART_BYTES ");"
    " r.options := daruma.bytes_of(''keep_ms: '''); BEGIN"
    " IF next = was THEN RAISE EXCEPTION 'daruma: claim_key is not as it was made'; END IF;"
    " EXECUTE next; END $do$;";

static const char complete_key[] =
    "DO $do$ DECLARE was text := pg_get_functiondef('daruma.complete_key'::regproc);"
    " next text := replace(was, ' digest := daruma.key_hash(',"
    " ' PERFORM daruma.bound(''response_content_type'',"
    " octet_length(complete_key.response_content_type), " HEADERS_BYTES ");"
    " IF complete_key.response_content_type ~ ''[\\n\\r]'' THEN RAISE EXCEPTION"
    " ''daruma: response_content_type has a value that cannot be kept''"
    " USING ERRCODE = ''invalid_parameter_value''; END IF;"
    " digest := daruma.key_hash('); BEGIN"
    " IF next = was THEN RAISE EXCEPTION 'daruma: complete_key is not as it was made'; END IF;"
    " EXECUTE next; END $do$;";

const char *const postgres_step_bounds[] = {bound, fields, enqueue, claim_key, complete_key, NULL};
