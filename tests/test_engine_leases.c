/* SPDX-License-Identifier: MIT
 *
 * Workers that pull, under a clock that the test moves: what they get, what they may say, and that a
 * word that comes too late changes nothing. Requirement A6.2; invariants I2, I6.
 */
#include "harness.h"

#include "engine_rig.h"

#include <stdio.h>
#include <string.h>

#define MINUTE_MS INT64_C(60000)
#define LEASE_MS  INT64_C(30000)

static struct rig rig; /* large */

static void prepare_pull(struct rig *self)
{
    self->settings.target_count = 0;
}

static void open_with(const char *policy)
{
    memset(&rig, 0, sizeof rig);
    rig.prepare = prepare_pull;
    rig.keep_ms = INT64_C(864000000);
    rig_open(&rig, policy);
}

static struct task_id add(const char *body)
{
    rig_submit(&rig, "", body, 0, 0);
    return rig.id;
}

/* What the worker of that number gets; waits are not waited for here. */
static const struct rig_reply *take(uint64_t worker, size_t max, int64_t lease_ms, int64_t wait_ms)
{
    return rig_full_ask(&rig, &(struct ask){.kind = ASK_LEASE,
                                            .exchange = worker,
                                            .lease_max = max,
                                            .lease_ms = lease_ms,
                                            .wait_ms = wait_ms});
}

/* The lease of the latest task that the worker got. */
static struct lease_word word_of(uint64_t worker, enum lease_word_kind kind)
{
    const struct rig_reply *got = &rig.replies[worker];

    return (struct lease_word){.kind = kind,
                               .lease = SPAN("lease"),
                               .id = got->ids[0],
                               .fence = got->lives[0].fence,
                               .epoch = got->lives[0].epoch,
                               .text = SPAN(""),
                               .delay_ms = -1};
}

static const struct rig_reply *say(const struct lease_word *words, size_t count)
{
    return rig_full_ask(
        &rig, &(struct ask){
                  .kind = ASK_LEASE_SETTLE, .exchange = 9, .words = words, .word_count = count});
}

static enum lease_result say_one(struct lease_word word)
{
    const struct rig_reply *got = say(&word, 1);

    assert_int_equal(got->kind, REPLY_LEASE_RESULTS);
    assert_int_equal(got->result_count, 1);
    return got->results[0];
}

static enum task_state state_of(struct task_id id)
{
    return rig_life(&rig, id).state;
}

/* --- taking ------------------------------------------------------------------------------------------ */

static void a_worker_gets_no_more_than_it_asks_for_oldest_first(void **state)
{
    (void)state;
    open_with("sync");
    struct task_id first = add("a");
    for (int i = 0; i < 9; i++) {
        (void)add("b");
    }
    assert_int_equal(take(10, 3, 0, 0)->record_count, 3);
    assert_int_equal(rig.replies[10].ids[0].row, first.row);
    assert_string_equal(rig.replies[10].body, "a");
    assert_int_equal(rig.replies[10].lives[0].state, TASK_RUNNING);
    assert_int_equal(rig.replies[10].lives[0].attempts, 1);
    assert_int_equal(take(11, 100, 0, 0)->record_count, 7);
    assert_int_equal(take(12, 100, 0, 0)->record_count, 0);
    for (size_t i = 0; i < 7; i++) { /* nobody has what somebody else has */
        for (size_t j = 0; j < 3; j++) {
            assert_int_not_equal(rig.replies[11].ids[i].row, rig.replies[10].ids[j].row);
        }
    }
    rig_close(&rig);
}

static void a_lease_is_as_long_as_asked_for_up_to_the_queues(void **state)
{
    (void)state;
    open_with("sync");
    (void)add("a");
    (void)add("a");
    (void)add("a");
    assert_int_equal(take(10, 1, 5000, 0)->lives[0].due_at_ms, rig.now_ms + 5000);
    assert_int_equal(take(10, 1, 10 * LEASE_MS, 0)->lives[0].due_at_ms, rig.now_ms + LEASE_MS);
    assert_int_equal(take(10, 1, 0, 0)->lives[0].due_at_ms, rig.now_ms + LEASE_MS);
    rig_close(&rig);
}

static void who_waits_longest_is_served_first(void **state)
{
    (void)state;
    open_with("sync");
    (void)take(10, 5, 0, 20000);
    rig_pass(&rig, 10);
    (void)take(11, 5, 0, 20000);
    assert_int_equal(rig.replies[10].count + rig.replies[11].count, 0);
    (void)add("a");
    assert_int_equal(rig.replies[10].record_count, 1);
    assert_int_equal(rig.replies[11].count, 0);
    (void)add("b");
    assert_int_equal(rig.replies[11].record_count, 1);
    assert_string_equal(rig.replies[11].body, "b");
    (void)take(10, 5, 0, 20000);
    rig_wait(&rig, 19999);
    assert_int_equal(rig.replies[10].count, 1);
    rig_wait(&rig, 1);
    assert_int_equal(rig.replies[10].count, 2); /* empty-handed, on the millisecond */
    assert_int_equal(rig.replies[10].record_count, 0);
    rig_close(&rig);
}

static void a_task_that_becomes_due_goes_to_whoever_waits(void **state) /* I6 */
{
    (void)state;
    open_with("sync");
    rig_submit(&rig, "", "later", 5000, 0);
    (void)take(10, 5, 0, 20000);
    rig_wait(&rig, 4999);
    assert_int_equal(rig.replies[10].count, 0);
    rig_wait(&rig, 1);
    assert_int_equal(rig.replies[10].record_count, 1);
    rig_close(&rig);
}

/* What it was to get is cancelled before its lease is committed. */
static void a_worker_that_was_too_slow_waits_on(void **state)
{
    (void)state;
    open_with("sync");
    struct task_id id = add("a");
    engine_ask(rig.engine, &(struct ask){.kind = ASK_CANCEL, .exchange = 5, .id = id});
    (void)take(10, 5, 0, 20000);
    assert_int_equal(rig.replies[10].count, 0);
    id = add("b");
    assert_int_equal(rig.replies[10].record_count, 1);
    assert_int_equal(rig.replies[10].ids[0].row, id.row);
    id = add("c");
    engine_ask(rig.engine, &(struct ask){.kind = ASK_CANCEL, .exchange = 5, .id = id});
    assert_int_equal(take(11, 5, 0, 0)->count, 1); /* it does not wait */
    rig_close(&rig);
}

static void a_worker_that_has_left_gets_nothing(void **state) /* engineering 1.3 */
{
    (void)state;
    open_with("sync");
    (void)take(10, 5, 0, 20000);
    (void)take(11, 5, 0, 20000);
    engine_leave(rig.engine, 10);
    assert_int_equal(rig.replies[10].record_count, 0);
    struct task_id id = add("a");
    assert_int_equal(rig.replies[10].record_count, 0);
    assert_int_equal(rig.replies[11].ids[0].row, id.row);
    assert_int_equal(rig_life(&rig, id).attempts, 1);
    rig_close(&rig);
}

static void a_queue_that_pushes_has_nothing_to_pull(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    rig_open(&rig, "sync");
    assert_int_equal(take(10, 1, 0, 0)->kind, REPLY_PUSHED);
    rig.queue = SPAN("nowhere");
    assert_int_equal(take(10, 1, 0, 0)->kind, REPLY_UNKNOWN_QUEUE);
    rig_close(&rig);
}

static void nobody_gets_a_task_past_its_deadline(void **state) /* I6 */
{
    (void)state;
    open_with("sync");
    rig_submit(&rig, "", "late", 0, 5000);
    struct task_id late = rig.id;
    struct task_id good = add("good");
    rig_pass(&rig, 5000);
    (void)take(10, 10, 0, 0);
    assert_int_equal(rig.replies[10].record_count, 1);
    assert_int_equal(rig.replies[10].ids[0].row, good.row);
    struct life life = rig_life(&rig, late);
    assert_int_equal(life.state, TASK_DEAD);
    assert_int_equal(life.failed_class, DARUMA_CLASS_EXPIRED + 1);
    assert_int_equal(life.attempts, 0);
    assert_non_null(strstr(rig_trail(&rig, late), "the deadline passed"));
    assert_non_null(strstr(rig.log_text, "event=task_failed_permanently"));
    rig_ask(&rig, ASK_QUEUE);
    assert_int_equal(rig.queue_counts[TASK_RUNNING], 1);
    rig_close(&rig);
}

/* A worker asks between two looks at the deadlines. */
static void a_task_that_is_too_late_for_its_worker_is_logged_as_failed(void **state)
{
    (void)state;
    open_with("sync");
    rig_submit(&rig, "", "late", 0, 5000);
    rig_pass(&rig, 4900);
    rig.now_ms += 200;
    (void)take(10, 10, 0, 0);
    assert_int_equal(rig.replies[10].record_count, 0);
    assert_int_equal(rig_life(&rig, rig.id).state, TASK_DEAD);
    assert_non_null(strstr(rig.log_text, "event=task_failed_permanently"));
    assert_non_null(strstr(rig.log_text, "attempts=0"));
    rig_close(&rig);
}

/* --- settling ------------------------------------------------------------------------------------------ */

static void an_ack_settles_it_with_the_workers_answer(void **state) /* A6.2 */
{
    struct record record;
    bool found;

    (void)state;
    open_with("llm_jobs");
    struct task_id id = add("a");
    (void)take(10, 1, 0, 0);
    const struct answer answer = {.status = 201, .body = SPAN("summary")};
    struct lease_word word = word_of(10, LEASE_ACK);
    word.answer = &answer;
    assert_int_equal(say_one(word), LEASE_SETTLED);
    struct arena *arena = arena_new(1 << 16);
    assert_int_equal(store_read_task(rig.store, id, READ_BODIES, arena, &record, &found, NULL), 0);
    assert_int_equal(record.life.state, TASK_SUCCEEDED);
    assert_int_equal(record.answer.status, 201);
    assert_true(span_is(record.answer.body, "summary"));
    arena_free(arena);
    assert_int_equal(say_one(word), LEASE_STALE);
    assert_non_null(strstr(rig.log_text, "event=queue_empty queue=q"));
    rig_close(&rig);
}

static void a_failed_task_waits_2_to_the_attempt_times_60_s_and_dies_at_the_limit(void **state)
{ /* A6.2 */
    static const int64_t waits_ms[] = {2 * MINUTE_MS, 4 * MINUTE_MS, 8 * MINUTE_MS, 16 * MINUTE_MS};

    (void)state;
    open_with("llm_jobs");
    struct task_id id = add("a");
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(take(10, 1, 0, 0)->record_count, 1);
        assert_int_equal(rig.replies[10].lives[0].attempts, i + 1);
        struct lease_word word = word_of(10, LEASE_RETRY);
        word.text = SPAN("the model is busy");
        assert_int_equal(say_one(word), LEASE_WAITING);
        assert_int_equal(rig_life(&rig, id).wait_ms, waits_ms[i]);
        rig_pass(&rig, waits_ms[i] - 1);
        assert_int_equal(take(10, 1, 0, 0)->record_count, 0);
        rig_pass(&rig, 1);
    }
    (void)take(10, 1, 0, 0);
    assert_int_equal(say_one(word_of(10, LEASE_RETRY)), LEASE_SETTLED); /* it is over */
    struct life life = rig_life(&rig, id);
    assert_int_equal(life.state, TASK_DEAD);
    assert_int_equal(life.attempts, 5);
    assert_true(letter_is_retryable(&life));
    assert_non_null(strstr(rig_trail(&rig, id), "1 transient 0 the model is busy 120000\n"));
    assert_non_null(strstr(rig.log_text, "event=task_retry"));
    assert_non_null(strstr(rig.log_text, "event=task_failed_permanently"));
    rig_close(&rig);
}

static void a_delay_replaces_the_wait_but_not_the_limit(void **state)
{
    (void)state;
    open_with("llm_jobs");
    struct task_id id = add("a");
    for (int i = 0; i < 5; i++) {
        (void)take(10, 1, 0, 0);
        struct lease_word word = word_of(10, LEASE_RETRY);
        word.delay_ms = i == 0 ? 0 : 700;
        assert_int_equal(say_one(word), i < 4 ? LEASE_WAITING : LEASE_SETTLED);
        assert_int_equal(rig_life(&rig, id).wait_ms, i == 0 || i == 4 ? 0 : 700);
        rig_pass(&rig, i == 0 ? 0 : 700);
    }
    assert_int_equal(state_of(id), TASK_DEAD);
    rig_close(&rig);
}

static void the_class_that_a_worker_names_decides(void **state) /* A7, E3 */
{
    (void)state;
    open_with("sync");
    struct task_id id = add("a");
    (void)take(10, 1, 0, 0);
    struct lease_word word = word_of(10, LEASE_RETRY);
    word.error_class = DARUMA_CLASS_INVALID;
    assert_int_equal(say_one(word), LEASE_SETTLED);
    struct life life = rig_life(&rig, id);
    assert_int_equal(life.state, TASK_DEAD);
    assert_false(letter_is_retryable(&life));
    rig_close(&rig);
}

static void a_dead_letter_goes_back_to_the_workers(void **state) /* E6 */
{
    (void)state;
    open_with("sync");
    struct task_id id = add("a");
    (void)take(10, 1, 0, 0);
    struct lease_word word = word_of(10, LEASE_RETRY);
    word.error_class = DARUMA_CLASS_INVALID;
    (void)say_one(word);
    (void)take(11, 1, 0, 20000);
    (void)rig_full_ask(
        &rig,
        &(struct ask){.kind = ASK_REDRIVE,
                      .exchange = 3,
                      .id = id,
                      .edit = {.parts = EDIT_BODY, .body = SPAN("mended"), .target = SPAN("")}});
    assert_int_equal(rig.replies[11].record_count, 1);
    assert_string_equal(rig.replies[11].body, "mended");
    assert_int_equal(rig.replies[11].lives[0].attempts, 1);
    assert_int_equal(rig.replies[11].lives[0].attempts_all, 2);
    assert_int_equal(say_one(word_of(11, LEASE_ACK)), LEASE_SETTLED);
    struct life life = rig_life(&rig, id);
    assert_int_equal(letter_status(&life), LETTER_RESOLVED);
    rig_close(&rig);
}

static void a_lost_lease_is_no_error_for_the_others(void **state)
{
    (void)state;
    open_with("sync");
    (void)add("a");
    (void)add("b");
    (void)take(10, 1, 0, 0);
    (void)take(11, 1, 0, 0);
    struct lease_word words[4] = {word_of(10, LEASE_ACK),
                                  {.lease = SPAN("rubbish")},
                                  word_of(11, LEASE_EXTEND),
                                  word_of(10, LEASE_ACK)};
    words[1].text = SPAN("");
    const struct rig_reply *got = say(words, 4);
    assert_int_equal(got->result_count, 4);
    assert_int_equal(got->results[0] == LEASE_SETTLED, got->results[3] == LEASE_STALE);
    assert_int_equal(got->results[0] == LEASE_STALE, got->results[3] == LEASE_SETTLED);
    assert_int_equal(got->results[1], LEASE_STALE);
    assert_int_equal(got->results[2], LEASE_EXTENDED);
    assert_int_equal(say(words, 0)->kind, REPLY_LEASE_RESULTS);
    rig_close(&rig);
}

static void of_sixteen_who_settle_one_lease_one_wins(void **state) /* I2 */
{
    (void)state;
    open_with("sync");
    struct task_id id = add("a");
    (void)take(10, 1, 0, 0);
    for (uint64_t i = 0; i < 16; i++) {
        struct lease_word word = word_of(10, i % 2 == 0 ? LEASE_ACK : LEASE_RETRY);
        engine_ask(rig.engine, &(struct ask){.kind = ASK_LEASE_SETTLE,
                                             .exchange = 12 + i,
                                             .words = &word,
                                             .word_count = 1});
    }
    rig_settle(&rig);
    int won = 0;
    for (uint64_t i = 0; i < 16; i++) {
        assert_int_equal(rig.replies[12 + i].count, 1);
        won += rig.replies[12 + i].results[0] != LEASE_STALE;
    }
    assert_int_equal(won, 1);
    assert_int_equal(rig_life(&rig, id).attempts, 1);
    rig_ask(&rig, ASK_QUEUE);
    assert_int_equal(rig.queue_counts[TASK_RUNNING], 0);
    assert_int_equal(rig.queue_counts[TASK_SUCCEEDED] + rig.queue_counts[TASK_WAITING], 1);
    rig_close(&rig);
}

static void what_is_returned_is_as_if_it_had_never_been_leased(void **state)
{
    (void)state;
    open_with("llm_jobs");
    struct task_id id = add("a");
    for (int i = 0; i < 20; i++) {
        (void)take(10, 1, 0, 0);
        assert_int_equal(say_one(word_of(10, LEASE_RETURN)), LEASE_WAITING);
    }
    struct life life = rig_life(&rig, id);
    assert_int_equal(life.attempts, 0);
    assert_int_equal(life.state, TASK_WAITING);
    assert_null(strstr(rig.log_text, "event=task_retry"));
    assert_int_equal(say_one(word_of(10, LEASE_ACK)), LEASE_STALE);
    assert_int_equal(take(10, 1, 0, 0)->record_count, 1);
    rig_close(&rig);
}

static void a_run_by_hand_is_tallied_by_what_the_workers_say(void **state) /* D4 */
{
    (void)state;
    open_with("llm_jobs");
    rig_submit(&rig, "", "a", 50 * MINUTE_MS, 0);
    rig_submit(&rig, "", "b", 50 * MINUTE_MS, 0);
    rig_ask(&rig, ASK_QUEUE_RUN);
    int64_t run = (int64_t)rig.run.id;
    (void)take(10, 1, 0, 0);
    (void)say_one(word_of(10, LEASE_RETURN)); /* nobody had it: it is still to be done */
    (void)take(10, 1, 0, 0);
    (void)say_one(word_of(10, LEASE_ACK));
    (void)take(10, 1, 0, 0);
    (void)say_one(word_of(10, LEASE_RETRY));
    rig.id.row = run;
    rig_ask(&rig, ASK_RUN_STATE);
    assert_int_equal(rig.run.succeeded, 1);
    assert_int_equal(rig.run.failed, 1);
    assert_int_equal(rig.run.pending, 0);
    rig_close(&rig);
}

/* --- time ------------------------------------------------------------------------------------------------ */

static void a_lease_that_runs_out_is_a_failed_attempt(void **state) /* engineering 1.12 */
{
    (void)state;
    open_with("llm_jobs");
    struct task_id id = add("a");
    (void)take(10, 1, 5000, 0);
    rig_wait(&rig, 4999);
    assert_int_equal(state_of(id), TASK_RUNNING);
    rig_wait(&rig, 1);
    struct life life = rig_life(&rig, id);
    assert_int_equal(life.state, TASK_WAITING);
    assert_int_equal(life.attempts, 1);
    assert_int_equal(life.due_at_ms, rig.now_ms + 2 * MINUTE_MS);
    assert_string_equal(rig_trail(&rig, id), "1 transient 0 lease expired 120000\n");
    assert_int_equal(say_one(word_of(10, LEASE_ACK)), LEASE_STALE); /* too late */
    assert_int_equal(say_one(word_of(10, LEASE_EXTEND)), LEASE_STALE);
    assert_int_equal(state_of(id), TASK_WAITING);
    rig_close(&rig);
}

static void a_task_that_kills_its_workers_ends_as_a_dead_letter(void **state)
{
    (void)state;
    open_with("llm_jobs");
    struct task_id id = add("a");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(take(10, 1, 1000, 0)->record_count, 1);
        rig_wait(&rig, 1000);
        rig_pass(&rig, 16 * MINUTE_MS);
    }
    struct life life = rig_life(&rig, id);
    assert_int_equal(life.state, TASK_DEAD);
    assert_int_equal(life.attempts, 5);
    assert_int_equal(take(10, 1, 0, 0)->record_count, 0);
    rig_close(&rig);
}

static void a_lease_can_be_extended_up_to_its_last_moment(void **state)
{
    (void)state;
    open_with("sync");
    struct task_id id = add("a");
    (void)take(10, 1, 5000, 0);
    for (int i = 0; i < 4; i++) {
        rig_wait(&rig, 4999);
        struct lease_word word = word_of(10, LEASE_EXTEND);
        word.lease_ms = 5000;
        assert_int_equal(say_one(word), LEASE_EXTENDED);
    }
    rig_wait(&rig, 4999);
    assert_int_equal(state_of(id), TASK_RUNNING);
    assert_int_equal(say_one(word_of(10, LEASE_ACK)), LEASE_SETTLED);
    rig_wait(&rig, MINUTE_MS);
    assert_int_equal(state_of(id), TASK_SUCCEEDED);
    assert_int_equal(rig_life(&rig, id).attempts, 1);
    rig_close(&rig);
}

static void the_first_worker_cannot_settle_what_the_second_one_has(void **state) /* I2 */
{
    (void)state;
    open_with("sync");
    struct task_id id = add("a");
    (void)take(10, 1, 1000, 0);
    rig_wait(&rig, 2000); /* it is over, and the wait after it too */
    assert_int_equal(take(11, 1, 0, 0)->record_count, 1);
    assert_int_equal(say_one(word_of(10, LEASE_ACK)), LEASE_STALE);
    assert_int_equal(say_one(word_of(10, LEASE_RETRY)), LEASE_STALE);
    assert_int_equal(say_one(word_of(10, LEASE_EXTEND)), LEASE_STALE);
    assert_int_equal(say_one(word_of(10, LEASE_RETURN)), LEASE_STALE);
    assert_int_equal(state_of(id), TASK_RUNNING);
    assert_int_equal(say_one(word_of(11, LEASE_ACK)), LEASE_SETTLED);
    rig_close(&rig);
}

static void a_lease_outlives_a_restart_but_not_its_end(void **state) /* engineering 1.9 */
{
    (void)state;
    open_with("sync");
    struct task_id id = add("a");
    struct task_id other = add("b");
    (void)take(10, 1, 10000, 0);
    (void)take(11, 1, 10000, 0);
    rig_wait(&rig, 5000);
    rig_restart(&rig);
    rig_wait(&rig, 1);
    assert_int_equal(take(12, 10, 0, 0)->record_count, 0); /* both are still held */
    assert_int_equal(say_one(word_of(10, LEASE_ACK)), LEASE_SETTLED);
    assert_int_equal(state_of(id), TASK_SUCCEEDED);
    rig_restart(&rig);
    rig_wait(&rig, 4998);
    assert_int_equal(state_of(other), TASK_RUNNING);
    rig_wait(&rig, 2);
    assert_int_equal(state_of(other), TASK_WAITING);
    assert_int_equal(say_one(word_of(11, LEASE_ACK)), LEASE_STALE);
    rig_close(&rig);
}

static void what_a_worker_says_during_a_restart_is_settled_or_not_but_never_twice(void **state)
{
    (void)state;
    open_with("sync");
    struct task_id id = add("a");
    (void)take(10, 1, 10000, 0);
    struct lease_word word = word_of(10, LEASE_ACK);
    engine_ask(
        rig.engine,
        &(struct ask){.kind = ASK_LEASE_SETTLE, .exchange = 9, .words = &word, .word_count = 1});
    rig_restart(&rig); /* killed before it was committed: the worker was told nothing */
    assert_int_equal(state_of(id), TASK_RUNNING);
    assert_int_equal(say_one(word), LEASE_SETTLED);
    assert_int_equal(say_one(word), LEASE_STALE);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_gets_no_more_than_it_asks_for_oldest_first),
        cmocka_unit_test(a_lease_is_as_long_as_asked_for_up_to_the_queues),
        cmocka_unit_test(who_waits_longest_is_served_first),
        cmocka_unit_test(a_task_that_becomes_due_goes_to_whoever_waits),
        cmocka_unit_test(a_worker_that_was_too_slow_waits_on),
        cmocka_unit_test(a_worker_that_has_left_gets_nothing),
        cmocka_unit_test(a_queue_that_pushes_has_nothing_to_pull),
        cmocka_unit_test(nobody_gets_a_task_past_its_deadline),
        cmocka_unit_test(a_task_that_is_too_late_for_its_worker_is_logged_as_failed),
        cmocka_unit_test(an_ack_settles_it_with_the_workers_answer),
        cmocka_unit_test(a_failed_task_waits_2_to_the_attempt_times_60_s_and_dies_at_the_limit),
        cmocka_unit_test(a_delay_replaces_the_wait_but_not_the_limit),
        cmocka_unit_test(the_class_that_a_worker_names_decides),
        cmocka_unit_test(a_dead_letter_goes_back_to_the_workers),
        cmocka_unit_test(a_lost_lease_is_no_error_for_the_others),
        cmocka_unit_test(of_sixteen_who_settle_one_lease_one_wins),
        cmocka_unit_test(what_is_returned_is_as_if_it_had_never_been_leased),
        cmocka_unit_test(a_run_by_hand_is_tallied_by_what_the_workers_say),
        cmocka_unit_test(a_lease_that_runs_out_is_a_failed_attempt),
        cmocka_unit_test(a_task_that_kills_its_workers_ends_as_a_dead_letter),
        cmocka_unit_test(a_lease_can_be_extended_up_to_its_last_moment),
        cmocka_unit_test(the_first_worker_cannot_settle_what_the_second_one_has),
        cmocka_unit_test(a_lease_outlives_a_restart_but_not_its_end),
        cmocka_unit_test(what_a_worker_says_during_a_restart_is_settled_or_not_but_never_twice),
    };
    return HARNESS_RUN(argc, argv, tests);
}
