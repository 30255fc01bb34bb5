/* SPDX-License-Identifier: MIT
 *
 * Tests of the JSON store: the contract of every store, and what is its own: a file that people can
 * read (D1.4), written by each change, read at start, created when missing (D5), from which any bytes
 * and any numbers come back. Damaged files are in test_store_json_damage.c, failures and caps in
 * test_store_json_faults.c.
 */
#include "store_json_fixture.h"

#include "store/store_json_internal.h"

#include <stdlib.h>
#include <unistd.h>

/* --- D5: the queue lives in a file --------------------------------------------------------------- */

static void a_missing_file_is_created(void **state) /* D5.3 */
{
    (void)state;
    assert_int_not_equal(access(PATH, F_OK), 0);
    struct store *store = open_at(SPEC);
    char *text = file_text(PATH, NULL);

    assert_string_equal(text, "{\n"
                              "  \"format\": \"daruma tasks\",\n"
                              "  \"version\": 1,\n"
                              "  \"epoch\": 1,\n"
                              "  \"last_row\": 0,\n"
                              "  \"queues\": [],\n"
                              "  \"tasks\": []\n"
                              "}\n");
    free(text);
    store_close(store);
}

static void each_change_is_in_the_file_when_it_is_acknowledged(void **state) /* D5.1, D5.4, I1 */
{
    struct store *store = open_at(SPEC);
    struct op record = record_of(1, SPAN("hello"));
    struct op lease = lease_of(1);
    struct op settle = {.kind = OP_SETTLE, .task.id = id_of(1), .life.state = TASK_WAITING};
    struct op run = {.kind = OP_RUN, .now_ms = NOW_MS, .task.id = id_of(1)};
    struct op cancel = {.kind = OP_CANCEL, .now_ms = NOW_MS, .task.id = id_of(1)};
    struct op purge = {.kind = OP_PURGE, .now_ms = NOW_MS, .task.id = id_of(1)};
    struct op queue = {.kind = OP_QUEUE, .queue.name = SPAN("articles")};

    (void)state;
    apply_done(store, &record);
    assert_true(copy_has(1, TASK_WAITING));
    apply_done(store, &lease);
    assert_true(copy_has(1, TASK_RUNNING));
    settle.life.fence = lease.life.fence;
    apply_done(store, &settle);
    assert_true(copy_has(1, TASK_WAITING));
    apply_done(store, &run);
    char *text = file_text(PATH, NULL);
    assert_non_null(strstr(text, "\"flags\": [\"forced\"]"));
    free(text);
    apply_done(store, &queue);
    text = file_text(PATH, NULL);
    assert_non_null(strstr(text, "\"queue\": \"articles\""));
    free(text);
    apply_done(store, &cancel);
    assert_true(copy_has(1, TASK_CANCELLED));
    apply_done(store, &purge);
    assert_false(copy_has(1, TASK_CANCELLED));
    store_close(store);
}

static void the_file_is_read_at_start(void **state) /* D5.2 */
{
    struct arena *arena = arena_new(CONTRACT_ARENA_MAX);
    struct store *store = open_at(SPEC);
    struct op record = record_of(1, SPAN("hello"));
    struct record read;
    bool found;

    (void)state;
    apply_done(store, &record);
    store_close(store);
    store = open_at(SPEC);
    assert_int_equal(store_read_task(store, id_of(1), READ_BODIES, arena, &read, &found, NULL), 0);
    assert_true(found);
    expect_span(read.task.body, SPAN("hello"));
    assert_int_equal(store->last_row, id_of(1).row);
    store_close(store);
    arena_free(arena);
}

/* --- the file for people ------------------------------------------------------------------------- */

static void settle_article(struct store *store)
{
    struct op lease = lease_of(1);
    const struct trail_row trail = {.attempt = 1,
                                    .target = SPAN("openai"),
                                    .started_at_ms = NOW_MS - 1000,
                                    .ended_at_ms = NOW_MS,
                                    .error_class = DARUMA_CLASS_RATE_LIMITED,
                                    .status = 429,
                                    .sent = TASK_SENT_YES,
                                    .sends = 1,
                                    .message = SPAN("429 Too Many Requests"),
                                    .wait_ms = 300000};
    const struct answer answer = {.status = 429,
                                  .headers = SPAN("retry-after: 5\n"),
                                  .body = SPAN("\xff\0a"),
                                  .settled_by = SPAN("openai")};

    apply_done(store, &lease);
    struct op settle = {.kind = OP_SETTLE,
                        .now_ms = NOW_MS,
                        .task.id = id_of(1),
                        .life = lease.life,
                        .trail = &trail,
                        .trail_count = 1,
                        .answer = &answer};
    settle.life.state = TASK_WAITING;
    settle.life.due_at_ms = NOW_MS + 300000;
    settle.life.previous_ms = 300000;
    settle.life.wait_ms = 300000;
    settle.life.class_attempts[DARUMA_CLASS_RATE_LIMITED] = 1;
    settle.life.flags = LIFE_SENT;
    apply_done(store, &settle);
}

static void make_article(struct store *store)
{
    struct op queue = {.kind = OP_QUEUE,
                       .queue = {.name = SPAN("articles"),
                                 .settings = SPAN("{\"retry\": \"articles\"}"),
                                 .paused = true}};
    struct op record = record_of(1, SPAN("だるま\n\"eight\""));

    apply_done(store, &queue);
    record.task.key = SPAN("article-17");
    record.task.fingerprint[0] = 'a';
    record.task.method = SPAN("POST");
    record.task.target = SPAN("https://api.example.com/v1/chat");
    record.task.labels = SPAN("article: 17\ntitle: 七転び八起き\n");
    record.task.headers = SPAN("content-type: text/plain\n");
    record.life.deadline_at_ms = NOW_MS + 24 * CONTRACT_HOUR_MS;
    apply_done(store, &record);
    settle_article(store);
}

/* D1.4: article, title, content, reason, time of failure, retry count. */
static void a_person_finds_everything_about_a_task_in_the_file(void **state)
{
    struct store *store = open_at(SPEC);

    (void)state;
    make_article(store);
    char *text = file_text(PATH, NULL);
    assert_string_equal(text, fixture_article);
    free(text);
    store_close(store);
}

/* A letter that failed, was sent again with another body, failed again, and let go of its key. */
static void make_letter(struct store *store)
{
    struct op record = record_of(2, SPAN("first"));
    const struct edit edit = {.parts = EDIT_BODY | EDIT_HEADERS,
                              .round = 1,
                              .headers = SPAN("x-fixed: yes\n"),
                              .body = SPAN("second"),
                              .note = SPAN("the customer sent a new address")};
    const struct audit_row act = {.at_ms = NOW_MS,
                                  .who = SPAN("alice"),
                                  .act = SPAN("redrive"),
                                  .subject = SPAN("articles"),
                                  .note = SPAN("by hand")};
    struct op redrive = {
        .kind = OP_REDRIVE, .now_ms = NOW_MS, .task.id = id_of(2), .edit = &edit, .audit = &act};
    struct op lease = lease_of(2);

    record.task.key = SPAN("letter-2");
    record.life = (struct life){.state = TASK_DEAD,
                                .due_at_ms = NOW_MS,
                                .settled_at_ms = NOW_MS,
                                .flags = LIFE_LETTER | LIFE_ROUTE,
                                .failed_class = DARUMA_CLASS_QUOTA + 1,
                                .failed_at_ms = NOW_MS};
    apply_done(store, &record);
    apply_done(store, &redrive);
    apply_done(store, &lease);
    struct op settle = {.kind = OP_SETTLE,
                        .now_ms = NOW_MS,
                        .task.id = id_of(2),
                        .life = lease.life,
                        .releases_key = true};
    settle.life.state = TASK_UNSETTLED;
    settle.life.probe_count = 2;
    settle.life.probe_due_ms = NOW_MS + 60000;
    settle.life.resolved_at_ms = NOW_MS + 1;
    settle.life.keep_until_ms = NOW_MS + 2;
    apply_done(store, &settle);
    struct op memo = {.kind = OP_MEMO,
                      .memo = {.name = SPAN("redrive"), .value = SPAN("{\"after\": 2}")}};
    struct audit_row pause = {.at_ms = NOW_MS + 5,
                              .who = SPAN("bob"),
                              .act = SPAN("pause"),
                              .from_state = -1,
                              .to_state = -1};
    memo.audit = &pause;
    apply_done(store, &memo);
}

static void a_person_finds_what_was_done_about_a_letter(void **state)
{
    struct store *store = open_at(SPEC);

    (void)state;
    make_letter(store);
    char *text = file_text(PATH, NULL);
    assert_string_equal(text, fixture_letter);
    free(text);
    store_close(store);
}

static void expect_same_bytes(const char *contents)
{
    static const char *const files[] = {PATH, "copy.json"};
    char *texts[2];

    put_file(PATH, span_of(contents));
    struct store *store = open_at(SPEC), *other = open_copy();
    assert_int_equal(store_touch(other, NULL), 0);
    store_close(store);
    store_close(other);
    for (int i = 0; i < 2; i++) {
        texts[i] = file_text(files[i], NULL);
        char *epoch = strstr(texts[i], "\"epoch\": ");
        assert_non_null(epoch);
        epoch[sizeof "\"epoch\": " - 1] = '1'; /* each opening raises it */
        assert_string_equal(texts[i], contents);
        free(texts[i]);
    }
}

static void the_same_contents_are_the_same_bytes(void **state)
{
    (void)state;
    expect_same_bytes(fixture_article);
    expect_same_bytes(fixture_letter);
}

static void a_person_may_write_times_and_order_as_they_like(void **state)
{
    struct arena *arena = arena_new(CONTRACT_ARENA_MAX);
    struct record read;
    bool found;

    (void)state;
    put_file(PATH, SPAN("{\"tasks\": [{\"id\": [7, 9], \"attempts\": 0, \"state\": \"dead\","
                        "\"due_at\": \"2027-01-15T17:00:00+09:00\", \"queue\": 3,\n"
                        "\"settled_at\": 1800000000000, \"body_base64\": \"aGVsbG8=\","
                        "\"trail\": [{\"attempt\": 1, \"started_at\": 0, \"ended_at\": 0,"
                        "\"class\": \"quota\", \"sent\": \"yes\"}],"
                        "\"fingerprint\": \"6100000000000000000000000000000000000000000000000000"
                        "000000000000\"}], \"queues\": [], \"last_row\": 0, \"epoch\": 41,\n"
                        "\"version\": 1, \"format\": \"daruma tasks\"}"));
    struct store *store = open_at(SPEC);
    struct task_id id = {.row = 7, .tail = 9};
    assert_int_equal(store_read_task(store, id, READ_BODIES, arena, &read, &found, NULL), 0);
    assert_true(found);
    assert_int_equal(read.life.state, TASK_DEAD);
    assert_int_equal(letter_status(&read.life), LETTER_FAILED); /* the mark came later */
    assert_int_equal(read.life.failed_at_ms, NOW_MS);
    assert_int_equal(read.life.failed_class, DARUMA_CLASS_QUOTA + 1);
    assert_int_equal(read.life.due_at_ms, NOW_MS);
    assert_int_equal(read.life.settled_at_ms, NOW_MS);
    expect_span(read.task.body, SPAN("hello"));
    assert_int_equal(store->epoch, 42);
    assert_int_equal(store->last_row, 7);
    store_close(store);
    arena_free(arena);
}

/* --- any bytes, any numbers ---------------------------------------------------------------------- */

static struct span random_span(struct daruma_dice *dice, struct arena *arena)
{
    static const char *const pieces[] = {"a",    "\"",       "\\", "\n", "\r\n", "\t",       "\x7f",
                                         "\x01", "\xc2\x85", "七", "😀",  ": ",   "name: v\n"};
    size_t count = daruma_dice_roll(dice) % 9;
    struct span text = SPAN("");

    for (size_t i = 0; i < count; i++) {
        uint64_t roll = daruma_dice_roll(dice);
        const char *piece = pieces[roll % (sizeof pieces / sizeof *pieces)];
        text = arena_printf(arena, "%.*s%s", SPAN_ARGS(text), piece);
    }
    if (daruma_dice_roll(dice) % 8 == 0 && text.len > 0) { /* no text at all */
        ((char *)(uintptr_t)text.at)[daruma_dice_roll(dice) % text.len] =
            daruma_dice_roll(dice) % 2 == 0 ? '\0' : (char)0xff;
    }
    return text;
}

static uint64_t random_number(struct daruma_dice *dice)
{
    static const uint64_t edges[] = {0,         1,         UINT32_MAX,          INT64_MAX,
                                     NOW_MS,    INT64_MIN, UINT64_MAX,          253402300799999,
                                     INT32_MAX, 100,       253402300799999 + 1, (uint64_t)-1};
    uint64_t roll = daruma_dice_roll(dice);

    return roll % 4 == 0 ? daruma_dice_roll(dice) : edges[roll % (sizeof edges / sizeof *edges)];
}

static struct op random_record(struct daruma_dice *dice, struct arena *arena)
{
    struct op op = {.kind = OP_RECORD, .now_ms = NOW_MS};
    struct span *spans[] = {&op.task.scope,  &op.task.method,  &op.task.target, &op.task.headers,
                            &op.task.labels, &op.task.options, &op.task.body};
    struct life *life = &op.life;

    op.task.id.row = (int64_t)(daruma_dice_roll(dice) >> (1 + daruma_dice_roll(dice) % 40)) + 1;
    op.task.id.tail = random_number(dice);
    op.task.id.tail -= op.task.id.tail == ID_ANY_TAIL;
    op.task.queue = (uint32_t)random_number(dice) % 5;
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        *spans[i] = random_span(dice, arena);
    }
    for (size_t i = 0; i < TASK_FINGERPRINT_BYTES; i++) {
        op.task.fingerprint[i] = (unsigned char)daruma_dice_roll(dice);
    }
    *life = (struct life){.state = (enum task_state)(daruma_dice_roll(dice) % TASK_STATE_COUNT),
                          .due_at_ms = (int64_t)random_number(dice),
                          .deadline_at_ms = (int64_t)random_number(dice),
                          .settled_at_ms = (int64_t)random_number(dice),
                          .fence = random_number(dice),
                          .epoch = random_number(dice),
                          .attempts = (uint32_t)random_number(dice),
                          .attempts_all = (uint32_t)random_number(dice),
                          .round = (uint32_t)random_number(dice),
                          .previous_ms = random_number(dice),
                          .wait_ms = (int64_t)random_number(dice),
                          .flags = (uint32_t)random_number(dice) & ~(uint32_t)LIFE_EDITED,
                          .failed_class = (uint32_t)random_number(dice),
                          .failed_at_ms = (int64_t)random_number(dice),
                          .resolved_at_ms = (int64_t)random_number(dice),
                          .keep_until_ms = (int64_t)random_number(dice),
                          .probe_count = (uint32_t)random_number(dice),
                          .probe_due_ms = (int64_t)random_number(dice)};
    life->flags |= life->state == TASK_DEAD ? LIFE_LETTER : 0; /* it is one */
    for (size_t i = 0; i < DARUMA_CLASS_COUNT; i++) {
        life->class_attempts[i] = (uint32_t)random_number(dice);
    }
    return op;
}

static void everything_comes_back_whatever_it_is(void **state)
{
    struct daruma_dice dice = daruma_dice_seed(harness_seed());
    uint64_t runs = harness_size("DARUMA_PROPERTY_RUNS", 400);

    (void)state;
    for (uint64_t run = 0; run < runs; run++) {
        struct arena *arena = arena_new(CONTRACT_ARENA_MAX);
        struct store *store = open_at(SPEC);
        struct op queue = {.kind = OP_QUEUE, .queue.name = random_span(&dice, arena)};
        struct op op = random_record(&dice, arena);
        const struct edit edit = {.parts = (unsigned)random_number(&dice),
                                  .round = (uint32_t)random_number(&dice),
                                  .target = random_span(&dice, arena),
                                  .headers = random_span(&dice, arena),
                                  .body = random_span(&dice, arena),
                                  .note = SPAN("there")};
        struct record read;
        bool found;
        op.kind = run % 2 == 0 ? OP_RECORD : OP_IMPORT;
        op.edit = run % 2 == 0 ? NULL : &edit;

        apply_done(store, &queue);
        apply_done(store, &op);
        store_close(store);
        store = open_at(SPEC);
        assert_int_equal(
            store_read_task(store, op.task.id, READ_BODIES, arena, &read, &found, NULL), 0);
        assert_true(found);
        op.life.flags |= op.edit != NULL ? LIFE_EDITED : 0;
        contract_expect_task(&read.task, &op.task);
        contract_expect_life(&read.life, &op.life);
        contract_expect_edit(&read.edit, op.edit != NULL ? op.edit : &(struct edit){0});
        store_close(store);
        arena_free(arena);
        assert_int_equal(unlink(PATH), 0);
    }
}

int main(int argc, char **argv)
{
    static const struct store_subject subject = {.kind = "json",
                                                 .has_path = true,
                                                 .rows_max = STORE_JSON_TASKS_MAX,
                                                 .audit_kept = STORE_AUDIT_KEPT_FEW};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_file_is_created),
        cmocka_unit_test(each_change_is_in_the_file_when_it_is_acknowledged),
        cmocka_unit_test(the_file_is_read_at_start),
        cmocka_unit_test(a_person_finds_everything_about_a_task_in_the_file),
        cmocka_unit_test(a_person_finds_what_was_done_about_a_letter),
        cmocka_unit_test(the_same_contents_are_the_same_bytes),
        cmocka_unit_test(a_person_may_write_times_and_order_as_they_like),
        cmocka_unit_test(everything_comes_back_whatever_it_is),
    };
    return store_contract_run(argc, argv, &subject, tests, sizeof tests / sizeof *tests);
}
