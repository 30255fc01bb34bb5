/* SPDX-License-Identifier: MIT
 *
 * store_json_fixture -- see store_json_fixture.h.
 */
#include "store_json_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

const struct store_keep fixture_keep = {
    .succeeded_ms = 1000, .failed_ms = 1000, .cancelled_ms = 1000};

const char fixture_article[] =
    "{\n"
    "  \"format\": \"daruma tasks\",\n"
    "  \"version\": 1,\n"
    "  \"epoch\": 1,\n"
    "  \"last_row\": 909980467200001,\n"
    "  \"queues\": [\n"
    "    {\n"
    "      \"number\": 1,\n"
    "      \"name\": \"articles\",\n"
    "      \"paused\": true,\n"
    "      \"settings\": \"{\\\"retry\\\": \\\"articles\\\"}\"\n"
    "    }\n"
    "  ],\n"
    "  \"tasks\": [\n"
    "    {\n"
    "      \"queue\": \"articles\",\n"
    "      \"id\": \"01a3185c-5000-7001-8000-000000000001\",\n"
    "      \"state\": \"waiting\",\n"
    "      \"due_at\": \"2027-01-15T08:05:00.000Z\",\n"
    "      \"deadline_at\": \"2027-01-16T08:00:00.000Z\",\n"
    "      \"attempts\": 1,\n"
    "      \"attempts_all\": 1,\n"
    "      \"class_attempts\": {\n"
    "        \"rate_limited\": 1\n"
    "      },\n"
    "      \"previous_ms\": 300000,\n"
    "      \"wait_ms\": 300000,\n"
    "      \"fence\": 1,\n"
    "      \"epoch\": 1,\n"
    "      \"flags\": [\"sent\"],\n"
    "      \"key\": \"article-17\",\n"
    "      \"fingerprint\": \"6100000000000000000000000000000000000000000000000000000000000000\",\n"
    "      \"method\": \"POST\",\n"
    "      \"target\": \"https://api.example.com/v1/chat\",\n"
    "      \"labels\": [\n"
    "        [\"article\", \"17\"],\n"
    "        [\"title\", \"七転び八起き\"]\n"
    "      ],\n"
    "      \"headers\": [\n"
    "        [\"content-type\", \"text/plain\"]\n"
    "      ],\n"
    "      \"body\": \"だるま\\n\\\"eight\\\"\",\n"
    "      \"trail\": [\n"
    "        {\n"
    "          \"attempt\": 1,\n"
    "          \"target\": \"openai\",\n"
    "          \"started_at\": \"2027-01-15T07:59:59.000Z\",\n"
    "          \"ended_at\": \"2027-01-15T08:00:00.000Z\",\n"
    "          \"class\": \"rate_limited\",\n"
    "          \"status\": 429,\n"
    "          \"sent\": \"yes\",\n"
    "          \"sends\": 1,\n"
    "          \"message\": \"429 Too Many Requests\",\n"
    "          \"wait_ms\": 300000\n"
    "        }\n"
    "      ],\n"
    "      \"answer\": {\n"
    "        \"status\": 429,\n"
    "        \"settled_by\": \"openai\",\n"
    "        \"headers\": [\n"
    "          [\"retry-after\", \"5\"]\n"
    "        ],\n"
    "        \"body_base64\": \"/wBh\"\n"
    "      }\n"
    "    }\n"
    "  ]\n"
    "}\n";

const char fixture_letter[] =
    "{\n"
    "  \"format\": \"daruma tasks\",\n"
    "  \"version\": 1,\n"
    "  \"epoch\": 1,\n"
    "  \"last_row\": 909980467200002,\n"
    "  \"queues\": [],\n"
    "  \"tasks\": [\n"
    "    {\n"
    "      \"queue\": 1,\n"
    "      \"id\": \"01a3185c-5000-7002-8000-000000000002\",\n"
    "      \"state\": \"unsettled\",\n"
    "      \"due_at\": \"2027-01-15T08:00:00.000Z\",\n"
    "      \"attempts\": 1,\n"
    "      \"attempts_all\": 1,\n"
    "      \"round\": 1,\n"
    "      \"fence\": 1,\n"
    "      \"epoch\": 1,\n"
    "      \"flags\": [\"letter\", \"edited\", \"route\"],\n"
    "      \"failed_class\": \"quota\",\n"
    "      \"failed_at\": \"2027-01-15T08:00:00.000Z\",\n"
    "      \"resolved_at\": \"2027-01-15T08:00:00.001Z\",\n"
    "      \"keep_until\": \"2027-01-15T08:00:00.002Z\",\n"
    "      \"probe_count\": 2,\n"
    "      \"probe_due\": \"2027-01-15T08:01:00.000Z\",\n"
    "      \"key\": \"letter-2\",\n"
    "      \"key_bound\": false,\n"
    "      \"fingerprint\": \"0000000000000000000000000000000000000000000000000000000000000000\",\n"
    "      \"body\": \"first\",\n"
    "      \"edit\": {\n"
    "        \"changes\": [\"headers\", \"body\"],\n"
    "        \"round\": 1,\n"
    "        \"note\": \"the customer sent a new address\",\n"
    "        \"headers\": [\n"
    "          [\"x-fixed\", \"yes\"]\n"
    "        ],\n"
    "        \"body\": \"second\"\n"
    "      }\n"
    "    }\n"
    "  ],\n"
    "  \"memos\": [\n"
    "    {\n"
    "      \"name\": \"redrive\",\n"
    "      \"value\": \"{\\\"after\\\": 2}\"\n"
    "    }\n"
    "  ],\n"
    "  \"audit\": [\n"
    "    {\n"
    "      \"number\": 1,\n"
    "      \"at\": \"2027-01-15T08:00:00.000Z\",\n"
    "      \"who\": \"alice\",\n"
    "      \"act\": \"redrive\",\n"
    "      \"task\": \"01a3185c-5000-7002-8000-000000000002\",\n"
    "      \"subject\": \"articles\",\n"
    "      \"from\": \"dead\",\n"
    "      \"to\": \"waiting\",\n"
    "      \"note\": \"by hand\"\n"
    "    },\n"
    "    {\n"
    "      \"number\": 2,\n"
    "      \"at\": \"2027-01-15T08:00:00.005Z\",\n"
    "      \"who\": \"bob\",\n"
    "      \"act\": \"pause\"\n"
    "    }\n"
    "  ]\n"
    "}\n";

struct store *open_at(const char *spec)
{
    struct store *store = NULL;
    struct error err = {0};

    if (store_open(span_of(spec), &fixture_keep, &store, &err) != 0) {
        fail_msg("%s: %s", spec, err.text);
    }
    return store;
}

int apply(struct store *store, struct op *op)
{
    return store_apply(store, &op, 1, NULL);
}

void apply_done(struct store *store, struct op *op)
{
    struct error err = {0};

    if (store_apply(store, &op, 1, &err) != 0) {
        fail_msg("apply: %s", err.text);
    }
    assert_int_equal(op->result, RESULT_DONE);
}

struct task_id id_of(int number)
{
    return (struct task_id){.row = id_row_at(NOW_MS) + number, .tail = (uint64_t)number};
}

struct op record_of(int number, struct span body)
{
    return (struct op){.kind = OP_RECORD,
                       .now_ms = NOW_MS,
                       .task = {.id = id_of(number), .queue = 1, .body = body},
                       .life = {.state = TASK_WAITING, .due_at_ms = NOW_MS}};
}

struct op lease_of(int number)
{
    return (struct op){.kind = OP_LEASE, .now_ms = NOW_MS, .task.id = id_of(number), .epoch = 1};
}

void expect_span(struct span got, struct span wanted)
{
    assert_int_equal(got.len, wanted.len);
    assert_memory_equal(got.at, wanted.at, wanted.len);
}

char *file_text(const char *path, size_t *ret_len)
{
    FILE *file = fopen(path, "rb");
    struct stat status;

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &status), 0);
    char *text = malloc((size_t)status.st_size + 1);
    assert_non_null(text);
    size_t len = fread(text, 1, (size_t)status.st_size, file);
    text[len] = '\0';
    fclose(file);
    if (ret_len != NULL) {
        *ret_len = len;
    }
    return text;
}

void put_file(const char *path, struct span text)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(text.at, 1, text.len, file), text.len);
    fclose(file);
}

struct store *open_copy(void)
{
    size_t len;
    char *text = file_text(PATH, &len);

    put_file("copy.json", (struct span){.at = text, .len = len});
    free(text);
    return open_at("json:copy.json");
}

bool copy_has(int number, enum task_state state)
{
    struct store *copy = open_copy();
    struct arena *arena = arena_new(CONTRACT_ARENA_MAX);
    struct record record;
    bool found;

    assert_int_equal(store_read_task(copy, id_of(number), 0, arena, &record, &found, NULL), 0);
    bool is_so = found && record.life.state == state;
    store_close(copy);
    arena_free(arena);
    return is_so;
}
