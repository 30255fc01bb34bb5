/* SPDX-License-Identifier: MIT
 *
 * Dead letters and unsettled tasks, one at a time, under a clock that the test moves: what a person
 * can do to them, and that of two who do something exactly one has it their way. Requirements A7, E4,
 * E6; invariants I2, I4.
 */
#include "harness.h"

#include "engine_rig.h"

#include <stdio.h>
#include <string.h>

#define HOUR_MS 3600000

static struct rig rig; /* large */
static int status_now; /* what the target answers */

static struct rig_answer answer_now(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = status_now};
}

static struct rig_answer cut_off(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.sent = TASK_SENT_MAYBE};
}

static void open_with(struct rig_answer (*answer)(struct rig *, uint32_t))
{
    memset(&rig, 0, sizeof rig);
    rig.answer = answer;
    rig_open(&rig, "sync");
}

/* A task that has failed at once, for good: `key` may be empty. */
static struct task_id dead_letter(const char *key)
{
    status_now = 400;
    rig_submit(&rig, key, "first", 0, 0);
    assert_int_equal(rig_life(&rig, rig.id).state, TASK_DEAD);
    return rig.id;
}

static enum reply_kind act(enum ask_kind kind, struct task_id id, uint64_t exchange)
{
    return rig_full_ask(
               &rig,
               &(struct ask){.kind = kind, .exchange = exchange, .id = id, .who = SPAN("ann")})
        ->kind;
}

static enum reply_kind redrive_edited(struct task_id id, struct edit edit)
{
    return rig_full_ask(
               &rig,
               &(struct ask){
                   .kind = ASK_REDRIVE, .exchange = 5, .id = id, .edit = edit, .who = SPAN("ann")})
        ->kind;
}

static bool sent_with(const char *field)
{
    return strstr(rig.last_headers, field) != NULL;
}

/* --- redrive ----------------------------------------------------------------------------------------- */

static void a_redrive_has_fresh_attempts_and_a_new_deadline_and_counts_on(void **state) /* E6 */
{
    (void)state;
    open_with(answer_now);
    status_now = 503;
    rig_submit(&rig, "k", "x", 0, HOUR_MS);
    struct task_id id = rig.id;
    rig_run(&rig, HOUR_MS);
    struct life life = rig_life(&rig, id);
    assert_int_equal(life.state, TASK_DEAD);
    assert_int_equal(life.attempts, 10);
    rig_pass(&rig, 2 * HOUR_MS); /* the first deadline is long over */
    int64_t redriven_ms = rig.now_ms;
    assert_int_equal(act(ASK_REDRIVE, id, 5), REPLY_LETTER);
    life = rig_life(&rig, id);
    assert_int_equal(life.deadline_at_ms, redriven_ms + HOUR_MS);
    assert_int_equal(life.round, 1);
    assert_int_equal(life.attempts, 1); /* it went out at once, and failed */
    assert_int_equal(life.class_attempts[DARUMA_CLASS_TRANSIENT], 1);
    assert_int_equal(life.wait_ms, 1000); /* the backoff begins anew */
    assert_int_equal(letter_status(&life), LETTER_RETRYING);
    assert_true(sent_with("X-Daruma-Attempt: 11\n"));
    assert_true(sent_with("Idempotency-Key: k\n")); /* unedited: the same key */
    rig_run(&rig, HOUR_MS);
    life = rig_life(&rig, id);
    assert_int_equal(life.state, TASK_DEAD);
    assert_int_equal(life.attempts, 10);
    assert_int_equal(life.attempts_all, 20);
    assert_int_equal(life.failed_at_ms, redriven_ms + 511000);
    assert_int_equal(rig.sent_count, 20);
    rig_close(&rig);
}

static void a_redrive_within_a_class_starts_that_class_anew(void **state) /* E3, E6 */
{
    (void)state;
    open_with(answer_now);
    status_now = 429;
    rig_submit(&rig, "", "x", 0, 0);
    struct task_id id = rig.id;
    rig_run(&rig, HOUR_MS);
    assert_int_equal(rig.sent_count, 4);
    (void)act(ASK_REDRIVE, id, 5);
    rig_run(&rig, HOUR_MS);
    assert_int_equal(rig.sent_count, 8);
    assert_int_equal(rig_life(&rig, id).state, TASK_DEAD);
    rig_close(&rig);
}

static void a_letter_is_retrying_and_then_resolved_or_failed_again(void **state) /* E4 */
{
    (void)state;
    open_with(answer_now);
    struct task_id id = dead_letter("");
    struct life life = rig_life(&rig, id);
    assert_int_equal(letter_status(&life), LETTER_FAILED);
    rig_ask(&rig, ASK_QUEUE_PAUSE);
    (void)act(ASK_REDRIVE, id, 5);
    life = rig_life(&rig, id);
    assert_int_equal(letter_status(&life), LETTER_RETRYING);
    rig_pass(&rig, 50);
    rig_ask(&rig, ASK_QUEUE_RESUME);
    life = rig_life(&rig, id);
    assert_int_equal(letter_status(&life), LETTER_FAILED);
    assert_int_equal(life.failed_at_ms, RIG_START_MS + 50);
    assert_int_equal(life.resolved_at_ms, 0);
    status_now = 200;
    rig_pass(&rig, 50);
    (void)act(ASK_REDRIVE, id, 5);
    life = rig_life(&rig, id);
    assert_int_equal(life.state, TASK_SUCCEEDED);
    assert_int_equal(letter_status(&life), LETTER_RESOLVED);
    assert_int_equal(life.resolved_at_ms, RIG_START_MS + 100);
    rig_close(&rig);
}

static void an_edited_body_or_target_goes_out_under_a_key_of_its_own(void **state) /* E6, I3 */
{
    (void)state;
    open_with(answer_now);
    struct task_id id = dead_letter("k");
    (void)redrive_edited(id, (struct edit){.parts = EDIT_BODY, .body = SPAN("second")});
    assert_string_equal(rig.last_body, "second");
    assert_true(sent_with("Idempotency-Key: k~2\n"));
    (void)act(ASK_REDRIVE, id, 5); /* unedited: the edit stands, and so does its key */
    assert_string_equal(rig.last_body, "second");
    assert_true(sent_with("Idempotency-Key: k~2\n"));
    (void)redrive_edited(id, (struct edit){.parts = EDIT_TARGET, .target = SPAN("http://h:2/b")});
    assert_string_equal(rig.last_body, "second");
    assert_string_equal(rig.last_url, "http://h:2/b");
    assert_true(sent_with("Idempotency-Key: k~4\n"));
    rig_submit(&rig, "k", "first", 0, 0); /* the key still belongs to the first request */
    assert_int_equal(rig.reply_kind, REPLY_DUPLICATE);
    rig_submit(&rig, "k", "second", 0, 0);
    assert_int_equal(rig.reply_kind, REPLY_CONFLICT);
    rig_close(&rig);
}

static void edited_headers_keep_the_key(void **state)
{
    (void)state;
    open_with(answer_now);
    struct task_id id = dead_letter("k");
    (void)redrive_edited(id, (struct edit){.parts = EDIT_HEADERS, .headers = SPAN("x-a: 1\n")});
    assert_true(sent_with("x-a: 1\n"));
    assert_true(sent_with("Idempotency-Key: k\n"));
    assert_string_equal(rig.last_body, "first");
    (void)redrive_edited(id, (struct edit){.parts = EDIT_BODY, .body = SPAN("second")});
    assert_true(sent_with("x-a: 1\n")); /* merged, part by part */
    assert_true(sent_with("Idempotency-Key: k~3\n"));
    (void)redrive_edited(id, (struct edit){.parts = EDIT_HEADERS, .headers = SPAN("x-a: 2\n")});
    assert_true(sent_with("x-a: 2\n"));
    assert_string_equal(rig.last_body, "second");
    assert_true(sent_with("Idempotency-Key: k~3\n")); /* the body is what it was */
    rig_close(&rig);
}

static void an_edit_outlives_a_restart_and_a_body_may_become_empty(void **state)
{
    (void)state;
    open_with(answer_now);
    struct task_id id = dead_letter("");
    rig_ask(&rig, ASK_QUEUE_PAUSE);
    (void)redrive_edited(id, (struct edit){.parts = EDIT_BODY, .body = SPAN("")});
    rig_restart(&rig);
    status_now = 200;
    rig_ask(&rig, ASK_QUEUE_RESUME);
    assert_int_equal(rig.sent_count, 2);
    assert_string_equal(rig.last_body, "");
    assert_int_equal(rig_life(&rig, id).state, TASK_SUCCEEDED);
    rig_close(&rig);
}

static void a_second_redrive_that_comes_late_is_told_what_it_found(void **state) /* I2 */
{
    (void)state;
    open_with(answer_now);
    struct task_id id = dead_letter("");
    status_now = 503;
    assert_int_equal(act(ASK_REDRIVE, id, 5), REPLY_LETTER);
    assert_int_equal(act(ASK_REDRIVE, id, 6), REPLY_NOT_DEAD);
    assert_int_equal(rig.life.state, TASK_WAITING);
    assert_int_equal(act(ASK_RESOLVE, id, 6), REPLY_NOT_DEAD);
    assert_int_equal(act(ASK_REDRIVE, (struct task_id){.row = 77}, 6), REPLY_UNKNOWN_TASK);
    rig_close(&rig);
}

/* Both are asked before either is committed. */
static void compete(enum ask_kind first, enum ask_kind second)
{
    open_with(NULL);
    rig.answer = answer_now;
    struct task_id id = dead_letter("");
    rig.answer = NULL; /* what goes out now stays out */
    struct ask ask = {.kind = first, .exchange = 5, .id = id, .queue = SPAN(RIG_QUEUE)};
    engine_ask(rig.engine, &ask);
    ask.kind = second;
    ask.exchange = 6;
    engine_ask(rig.engine, &ask);
    rig_settle(&rig);
    bool first_won = rig.replies[5].kind == REPLY_LETTER;
    bool second_won = rig.replies[6].kind == REPLY_LETTER;
    assert_int_equal(first_won + second_won, 1);
    assert_int_equal(rig.replies[first_won ? 6 : 5].kind, REPLY_NOT_DEAD);
    rig_close(&rig);
}

static void of_two_people_exactly_one_has_it_their_way(void **state) /* I2 */
{
    (void)state;
    compete(ASK_REDRIVE, ASK_REDRIVE);
    compete(ASK_REDRIVE, ASK_RESOLVE);
    compete(ASK_RESOLVE, ASK_REDRIVE);
    compete(ASK_RESOLVE, ASK_RESOLVE);
}

static void a_letter_that_was_purged_cannot_be_redriven(void **state)
{
    (void)state;
    open_with(answer_now);
    struct task_id id = dead_letter("");
    engine_ask(rig.engine, &(struct ask){.kind = ASK_REDRIVE, .exchange = 5, .id = id});
    rig_ask(&rig, ASK_QUEUE_PURGE);
    assert_int_equal(rig_life(&rig, id).state, TASK_STATE_COUNT);
    uint64_t sent = rig.sent_count;
    assert_int_equal(act(ASK_REDRIVE, id, 6), REPLY_UNKNOWN_TASK);
    assert_int_equal(act(ASK_RESOLVE, id, 6), REPLY_UNKNOWN_TASK);
    assert_int_equal(rig.replies[5].count, 1); /* it was answered, one way or the other */
    rig_run(&rig, HOUR_MS);
    assert_int_equal(rig.sent_count, sent);
    rig_close(&rig);
}

static void a_redriven_letter_can_be_cancelled_and_is_resolved_then(void **state)
{
    (void)state;
    open_with(answer_now);
    struct task_id id = dead_letter("");
    rig_ask(&rig, ASK_QUEUE_PAUSE);
    (void)act(ASK_REDRIVE, id, 5);
    assert_int_equal(act(ASK_CANCEL, id, 5), REPLY_TASK);
    struct life life = rig_life(&rig, id);
    assert_int_equal(life.state, TASK_CANCELLED);
    assert_int_equal(letter_status(&life), LETTER_RESOLVED);
    assert_int_equal(act(ASK_REDRIVE, id, 6), REPLY_NOT_DEAD);
    rig_close(&rig);
}

static void what_a_caller_has_as_the_answer_is_not_sent_again(void **state) /* I4 */
{
    struct error err = {0};

    (void)state;
    open_with(answer_now);
    struct arena *arena = arena_new(1 << 16);
    struct op op = {.kind = OP_IMPORT,
                    .arena = arena,
                    .now_ms = rig.now_ms,
                    .task = {.id = {.row = 4096, .tail = 1}, .queue = 1, .body = SPAN("x")},
                    .life = {.state = TASK_DEAD,
                             .fence = 1,
                             .flags = LIFE_LETTER | LIFE_ANSWERED,
                             .settled_at_ms = rig.now_ms,
                             .failed_at_ms = rig.now_ms,
                             .failed_class = DARUMA_CLASS_TRANSIENT + 1}};
    struct op *ops[] = {&op};
    assert_int_equal(store_apply(rig.store, ops, 1, &err), 0);
    assert_int_equal(op.result, RESULT_DONE);
    rig_restart(&rig);
    assert_int_equal(act(ASK_REDRIVE, op.task.id, 5), REPLY_ANSWERED);
    assert_int_equal(rig.sent_count, 0);
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_REDRIVE_MANY,
                                           .exchange = 6,
                                           .who = SPAN("ann"),
                                           .rate_per_second = 100});
    int64_t number = (int64_t)rig.replies[6].redrive.id;
    assert_int_equal(rig.replies[6].redrive.matched, 1);
    rig_wait(&rig, 1000);
    (void)rig_full_ask(
        &rig, &(struct ask){.kind = ASK_REDRIVE_STATE, .exchange = 6, .id = {.row = number}});
    assert_string_equal(rig.replies[6].redrive.state, "done");
    assert_int_equal(rig.replies[6].redrive.skipped, 1);
    assert_int_equal(rig.replies[6].redrive.redriven, 0);
    assert_int_equal(rig.sent_count, 0);
    arena_free(arena);
    rig_close(&rig);
}

/* --- resolve ------------------------------------------------------------------------------------------- */

static void
an_open_letter_is_kept_and_a_resolved_one_from_then_on(void **state) /* engineering 1.8 */
{
    (void)state;
    open_with(answer_now);
    struct task_id id = dead_letter("k");
    rig_pass(&rig, 100 * HOUR_MS);
    rig_pass(&rig, 60000);
    assert_int_equal(rig_life(&rig, id).state, TASK_DEAD); /* kept, whatever its age */
    assert_int_equal(rig_full_ask(&rig, &(struct ask){.kind = ASK_RESOLVE,
                                                      .exchange = 5,
                                                      .id = id,
                                                      .who = SPAN("ann"),
                                                      .note = SPAN("paid by hand")})
                         ->kind,
                     REPLY_LETTER);
    struct life life = rig_life(&rig, id);
    assert_int_equal(life.state, TASK_FAILED);
    assert_int_equal(letter_status(&life), LETTER_RESOLVED);
    assert_int_equal(life.resolved_at_ms, rig.now_ms);
    rig_pass(&rig, 999);
    rig_submit(&rig, "k", "first", 0, 0);
    assert_int_equal(rig.reply_kind, REPLY_DUPLICATE);
    rig_pass(&rig, 1);
    rig_pass(&rig, 60000);
    rig_pass(&rig, 60000);
    assert_int_equal(rig_life(&rig, id).state, TASK_STATE_COUNT);
    rig_close(&rig);
}

static void whether_it_would_help_to_send_it_again_is_told_from_the_class(void **state) /* A7 */
{
    static const struct {
        int status;
        bool is_retryable;
    } cases[] = {{503, true},  {429, true},  {408, true},  {400, false},
                 {404, false}, {401, false}, {403, false}, {410, false}};
    struct life life;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_with(answer_now);
        status_now = cases[i].status;
        rig_submit(&rig, "", "x", 0, 0);
        struct task_id id = rig.id;
        rig_run(&rig, HOUR_MS);
        life = rig_life(&rig, id);
        assert_int_equal(life.state, TASK_DEAD);
        assert_int_equal(letter_is_retryable(&life), cases[i].is_retryable);
        rig_close(&rig);
    }
    open_with(answer_now);
    rig_submit(&rig, "", "x", 2000, 1000); /* the deadline is before its time */
    struct task_id id = rig.id;
    rig_run(&rig, HOUR_MS);
    life = rig_life(&rig, id);
    assert_int_equal(life.failed_class, DARUMA_CLASS_EXPIRED + 1);
    assert_true(letter_is_retryable(&life)); /* a redrive starts a new deadline */
    rig_close(&rig);
}

/* --- unsettled ----------------------------------------------------------------------------------------- */

/* A task whose request may have arrived, at a target that must not see it twice. */
static struct task_id unsettled(void)
{
    open_with(cut_off);
    rig_submit_as(&rig,
                  &(struct submission){.body = SPAN("x"), .options = {.has_repeatable = true}});
    assert_int_equal(rig_life(&rig, rig.id).state, TASK_UNSETTLED);
    return rig.id;
}

static enum reply_kind say(struct task_id id, enum settlement settlement,
                           const struct answer *answer)
{
    return rig_full_ask(&rig, &(struct ask){.kind = ASK_SETTLE,
                                            .exchange = 5,
                                            .id = id,
                                            .settlement = settlement,
                                            .answer = answer,
                                            .who = SPAN("ann"),
                                            .note = SPAN("asked them")})
        ->kind;
}

static void a_person_can_say_that_it_happened(void **state) /* I2 */
{
    struct record record;
    bool found;

    (void)state;
    struct task_id id = unsettled();
    assert_int_equal(say(id, SETTLEMENT_SUCCEEDED, NULL), REPLY_TASK);
    assert_int_equal(rig_life(&rig, id).state, TASK_SUCCEEDED);
    assert_int_equal(say(id, SETTLEMENT_FAILED, NULL), REPLY_NOT_UNSETTLED);
    rig_close(&rig);
    id = unsettled();
    const struct answer told = {
        .status = 201, .headers = SPAN("x-row: 7\n"), .body = SPAN("made it")};
    (void)say(id, SETTLEMENT_SUCCEEDED, &told);
    struct arena *arena = arena_new(1 << 16);
    assert_int_equal(store_read_task(rig.store, id, READ_BODIES, arena, &record, &found, NULL), 0);
    assert_int_equal(record.answer.status, 201);
    assert_true(span_is(record.answer.body, "made it"));
    assert_true(span_is(record.answer.settled_by, "ann"));
    arena_free(arena);
    rig_close(&rig);
}

static void a_person_can_say_that_it_failed_and_then_it_is_a_dead_letter(void **state) /* D3.3 */
{
    (void)state;
    struct task_id id = unsettled();
    (void)say(id, SETTLEMENT_FAILED, NULL);
    struct life life = rig_life(&rig, id);
    assert_int_equal(life.state, TASK_DEAD);
    assert_int_equal(letter_status(&life), LETTER_FAILED);
    assert_int_equal(life.failed_at_ms, rig.now_ms);
    assert_non_null(strstr(rig.log_text, "event=task_failed_permanently"));
    rig.answer = answer_now;
    status_now = 200;
    assert_int_equal(act(ASK_REDRIVE, id, 6), REPLY_LETTER);
    assert_int_equal(rig_life(&rig, id).state, TASK_SUCCEEDED);
    rig_close(&rig);
}

static void what_a_person_says_was_not_done_is_sent_again_and_not_counted(void **state)
{
    (void)state;
    struct task_id id = unsettled();
    rig.answer = NULL;
    (void)say(id, SETTLEMENT_NOT_DONE, NULL);
    assert_int_equal(rig.sent_count, 2);
    struct life life = rig_life(&rig, id);
    assert_int_equal(life.state, TASK_RUNNING);
    assert_int_equal(life.attempts, 1);
    assert_int_equal(life.attempts_all, 2);
    assert_true(sent_with("X-Daruma-Attempt: 2\n"));
    rig_answer_one(&rig, 200);
    assert_int_equal(rig_life(&rig, id).state, TASK_SUCCEEDED);
    rig_close(&rig);
}

/* The attempt's own answer, come late: it settles by the fence, like everybody else. */
static enum op_result late_answer(struct task_id id, uint64_t fence)
{
    struct arena *arena = arena_new(1 << 16);
    struct op op = {.kind = OP_SETTLE,
                    .arena = arena,
                    .now_ms = rig.now_ms,
                    .task.id = id,
                    .life = {.state = TASK_SUCCEEDED, .fence = fence, .settled_at_ms = 1}};
    struct op *ops[] = {&op};

    assert_int_equal(store_apply(rig.store, ops, 1, NULL), 0);
    arena_free(arena);
    return op.result;
}

static void a_late_answer_and_a_person_do_not_both_win(void **state) /* I2 */
{
    static const enum settlement words[] = {SETTLEMENT_SUCCEEDED, SETTLEMENT_FAILED,
                                            SETTLEMENT_NOT_DONE};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct task_id id = unsettled();
        uint64_t fence = rig_life(&rig, id).fence;
        rig.answer = NULL;
        (void)say(id, words[i], NULL);
        assert_int_equal(late_answer(id, fence), RESULT_STALE);
        rig_close(&rig);
        id = unsettled();
        assert_int_equal(late_answer(id, fence), RESULT_DONE);
        assert_int_equal(say(id, words[i], NULL), REPLY_NOT_UNSETTLED);
        assert_int_equal(rig.sent_count, 1);
        rig_close(&rig);
    }
}

static void of_many_who_settle_one_task_one_wins(void **state) /* I2 */
{
    (void)state;
    struct task_id id = unsettled();
    for (uint64_t i = 0; i < 16; i++) {
        engine_ask(rig.engine, &(struct ask){.kind = ASK_SETTLE,
                                             .exchange = 5 + i,
                                             .id = id,
                                             .settlement = (enum settlement)(i % 2),
                                             .who = SPAN("ann")});
    }
    rig_settle(&rig);
    int won = 0;
    for (uint64_t i = 0; i < 16; i++) {
        won += rig.replies[5 + i].kind == REPLY_TASK;
        assert_int_equal(rig.replies[5 + i].count, 1);
    }
    assert_int_equal(won, 1);
    rig_close(&rig);
}

/* --- the audit trail ----------------------------------------------------------------------------------- */

static void every_act_of_a_person_is_kept(void **state) /* E6 */
{
    (void)state;
    struct task_id id = unsettled();
    (void)say(id, SETTLEMENT_FAILED, NULL);
    rig.answer = answer_now;
    status_now = 400;
    (void)redrive_edited(id, (struct edit){.parts = EDIT_BODY, .body = SPAN("b")});
    (void)act(ASK_REDRIVE, id, 5);
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_RESOLVE,
                                           .exchange = 5,
                                           .id = id,
                                           .who = SPAN("bob"),
                                           .note = SPAN("enough")});
    (void)act(ASK_REDRIVE, id, 5); /* refused: no trace */
    rig_restart(&rig);
    const struct rig_reply *got = rig_full_ask(
        &rig, &(struct ask){.kind = ASK_AUDIT, .exchange = 7, .audit = {.limit = 100}});
    assert_string_equal(got->audit, "ann settle_failed q 3>5 asked them\n"
                                    "ann redrive_edited q 5>0 changed: body\n"
                                    "ann redrive q 5>0 \n"
                                    "bob resolve q 5>4 enough\n");
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_redrive_has_fresh_attempts_and_a_new_deadline_and_counts_on),
        cmocka_unit_test(a_redrive_within_a_class_starts_that_class_anew),
        cmocka_unit_test(a_letter_is_retrying_and_then_resolved_or_failed_again),
        cmocka_unit_test(an_edited_body_or_target_goes_out_under_a_key_of_its_own),
        cmocka_unit_test(edited_headers_keep_the_key),
        cmocka_unit_test(an_edit_outlives_a_restart_and_a_body_may_become_empty),
        cmocka_unit_test(a_second_redrive_that_comes_late_is_told_what_it_found),
        cmocka_unit_test(of_two_people_exactly_one_has_it_their_way),
        cmocka_unit_test(a_letter_that_was_purged_cannot_be_redriven),
        cmocka_unit_test(a_redriven_letter_can_be_cancelled_and_is_resolved_then),
        cmocka_unit_test(what_a_caller_has_as_the_answer_is_not_sent_again),
        cmocka_unit_test(an_open_letter_is_kept_and_a_resolved_one_from_then_on),
        cmocka_unit_test(whether_it_would_help_to_send_it_again_is_told_from_the_class),
        cmocka_unit_test(a_person_can_say_that_it_happened),
        cmocka_unit_test(a_person_can_say_that_it_failed_and_then_it_is_a_dead_letter),
        cmocka_unit_test(what_a_person_says_was_not_done_is_sent_again_and_not_counted),
        cmocka_unit_test(a_late_answer_and_a_person_do_not_both_win),
        cmocka_unit_test(of_many_who_settle_one_task_one_wins),
        cmocka_unit_test(every_act_of_a_person_is_kept),
    };
    return HARNESS_RUN(argc, argv, tests);
}
