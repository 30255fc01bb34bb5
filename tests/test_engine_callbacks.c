/* SPDX-License-Identifier: MIT
 *
 * Callbacks: born in the commit that settles their task, once for each end of it, and for every way in
 * which a task can end. engineering 1.11.
 */
#include "harness.h"

#include "engine_rig.h"

#include <stdio.h>
#include <string.h>

#define HOUR_MS INT64_C(3600000)

static struct rig rig; /* large */
static int status_now; /* what the task's target answers; callbacks are always taken */

/* Every request: "URL KEY BODY", a line each. */
static char seen[8192];

static struct rig_answer answer_now(struct rig *self, uint32_t attempt)
{
    const char *key = strstr(self->last_headers, "Idempotency-Key: ");
    size_t used = strlen(seen);

    (void)attempt;
    key = key != NULL ? key + strlen("Idempotency-Key: ") : "";
    (void)snprintf(seen + used, sizeof seen - used, "%s %.*s %s\n", self->last_url,
                   (int)strcspn(key, "\n"), key, self->last_body);
    return (struct rig_answer){.status =
                                   strcmp(self->last_url, "http://tell/") == 0 ? 200 : status_now};
}

/* Tells the state; the wish is "failed", "succeeded" or anything else for both. */
static bool tell(void *user, const struct record *record, struct span queue, struct arena *arena,
                 struct submission *ret_submission)
{
    struct task_options options;
    const char *word = task_state_text(record->life.state);

    (void)user;
    options_read(record->task.options, &options);
    bool is_one = span_is(options.callback, "failed") || span_is(options.callback, "succeeded");
    if (is_one && !span_is(options.callback, word)) {
        return false;
    }
    *ret_submission = (struct submission){
        .target = SPAN("http://tell/"),
        .body = arena_printf(arena, "%s %.*s %d", word, SPAN_ARGS(queue), record->answer.status)};
    return true;
}

static void prepare_pull(struct rig *self)
{
    self->settings.target_count = 0;
}

static void open_as(void (*prepare)(struct rig *))
{
    memset(&rig, 0, sizeof rig);
    rig.answer = answer_now;
    rig.callback = tell;
    rig.prepare = prepare;
    rig.keep_ms = HOUR_MS * 1000;
    seen[0] = '\0';
    rig_open(&rig, "sync");
}

static struct task_id add(const char *wish)
{
    rig_submit_as(&rig,
                  &(struct submission){.body = SPAN("x"), .options = {.callback = span_of(wish)}});
    return rig.replies[1].ids[0];
}

static uint64_t born(void)
{
    struct engine_stats stats;

    engine_stats(rig.engine, &stats);
    return stats.callbacks;
}

static uint32_t callback_number(void)
{
    for (size_t i = 0; i < engine_queue_count(rig.engine); i++) {
        struct queue_view view;
        engine_queue_view(rig.engine, i, &view);
        if (span_is(view.name, ENGINE_CALLBACK_QUEUE)) {
            return view.number;
        }
    }
    return 0;
}

static struct life life_of(struct task_id id)
{
    return rig_life(&rig, id);
}

/* How many callbacks about that task are recorded, and that each has the key of its round. */
static int recorded(struct task_id id, uint32_t rounds)
{
    char text[ID_TEXT_LEN + 1];
    int count = 0;

    id_format(id, text);
    for (uint32_t round = 0; round < rounds; round++) {
        char key[ID_TEXT_LEN + 32];
        (void)snprintf(key, sizeof key, " cb:%s:%u ", text, round);
        const char *found = strstr(seen, key);
        count += found != NULL;
        if (found != NULL) {
            assert_null(strstr(found + 1, key));
        }
    }
    return count;
}

static void a_success_and_a_dead_letter_are_told(void **state)
{
    (void)state;
    open_as(NULL);
    status_now = 200;
    struct task_id id = add("both");
    rig_run(&rig, HOUR_MS);
    assert_int_equal(recorded(id, 2), 1);
    assert_non_null(strstr(seen, "succeeded q 200"));
    status_now = 400;
    id = add("both");
    rig_run(&rig, HOUR_MS);
    assert_int_equal(recorded(id, 2), 1);
    assert_non_null(strstr(seen, "failed q 400"));
    status_now = 503; /* not before it is over */
    id = add("both");
    rig_wait(&rig, 3000);
    assert_int_equal(recorded(id, 2), 0);
    rig_run(&rig, HOUR_MS);
    assert_int_equal(recorded(id, 2), 1);
    rig_close(&rig);
}

static void each_round_is_told_once(void **state)
{
    (void)state;
    open_as(NULL);
    status_now = 400;
    struct task_id id = add("both");
    for (uint32_t round = 1; round <= 3; round++) {
        (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_REDRIVE, .exchange = 3, .id = id});
        rig_run(&rig, HOUR_MS);
        assert_int_equal(recorded(id, 5), (int)round + 1);
    }
    assert_int_equal(born(), 4);
    rig_close(&rig);
}

static void only_what_was_asked_for_is_told(void **state)
{
    (void)state;
    open_as(NULL);
    status_now = 200;
    (void)add("failed");
    (void)add("");
    assert_int_equal(born(), 0);
    (void)add("succeeded");
    assert_int_equal(born(), 1);
    status_now = 400;
    (void)add("succeeded");
    assert_int_equal(born(), 1);
    (void)add("failed");
    assert_int_equal(born(), 2);
    rig_close(&rig);
}

static void what_was_cancelled_is_not_told(void **state)
{
    (void)state;
    open_as(NULL);
    rig_submit_as(&rig,
                  &(struct submission){.options = {.callback = SPAN("both")}, .delay_ms = 1000});
    rig_ask(&rig, ASK_CANCEL);
    assert_int_equal(rig_life(&rig, rig.replies[1].ids[0]).state, TASK_CANCELLED);
    rig_run(&rig, HOUR_MS);
    assert_int_equal(born(), 0);
    rig_close(&rig);
}

static struct rig_answer nobody_listens(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 400};
}

static void nobody_is_called_back_about_a_callback(void **state)
{
    (void)state;
    open_as(NULL);
    status_now = 200;
    rig.answer = nobody_listens;
    (void)add("both");
    rig_run(&rig, HOUR_MS);
    assert_int_equal(born(), 1);
    assert_int_equal(rig.sent_count, 2);
    /* A task that somebody puts there by hand, with a wish of its own, is no exception. */
    rig_submit_as(&rig, &(struct submission){.queue = SPAN(ENGINE_CALLBACK_QUEUE),
                                             .target = SPAN("http://own/"),
                                             .options = {.callback = SPAN("both")}});
    rig_run(&rig, HOUR_MS);
    assert_int_equal(born(), 1);
    rig_close(&rig);
}

static void only_the_engine_itself_records_callbacks(void **state)
{
    (void)state;
    open_as(NULL);
    rig_submit_as(&rig, &(struct submission){.queue = SPAN(ENGINE_CALLBACK_QUEUE),
                                             .key = SPAN("cb:0:0"),
                                             .target = SPAN("http://tell/"),
                                             .body = SPAN("forged")});
    assert_int_equal(rig.replies[1].kind, REPLY_UNKNOWN_QUEUE);
    assert_string_equal(seen, "");
    rig_close(&rig);
}

/* Something else has put a task there under the callback's key: it is not told, but said and counted. */
static void a_callback_whose_key_is_taken_is_counted(void **state)
{
    struct engine_stats stats;
    char id[ID_TEXT_LEN + 1], key[64];

    (void)state;
    open_as(NULL);
    status_now = 200;
    rig_submit_as(&rig, &(struct submission){.body = SPAN("x"),
                                             .delay_ms = HOUR_MS,
                                             .options = {.callback = SPAN("both")}});
    id_format(rig.replies[1].ids[0], id);
    (void)snprintf(key, sizeof key, "cb:%s:0", id);
    struct op op = {.kind = OP_RECORD,
                    .arena = arena_new(1 << 16),
                    .task = {.id = {.row = rig.replies[1].ids[0].row + 1, .tail = 1},
                             .queue = callback_number(),
                             .key = span_of(key),
                             .target = SPAN("http://other/"),
                             .body = SPAN("forged")},
                    .life = {.due_at_ms = INT64_MAX / 2}};
    struct op *ops[] = {&op};
    assert_int_equal(store_apply(rig.store, ops, 1, NULL), 0);
    assert_int_equal(op.result, RESULT_DONE);
    rig_run(&rig, 2 * HOUR_MS);
    engine_stats(rig.engine, &stats);
    assert_int_equal(stats.succeeded, 1);
    assert_int_equal(stats.callbacks, 0);
    assert_int_equal(stats.callbacks_lost, 1);
    arena_free(op.arena);
    rig_close(&rig);
}

static struct lease_word word_for(const struct rig_reply *got, enum lease_word_kind kind)
{
    return (struct lease_word){.kind = kind,
                               .lease = SPAN("l"),
                               .text = SPAN(""),
                               .id = got->ids[0],
                               .fence = got->lives[0].fence,
                               .epoch = got->lives[0].epoch,
                               .delay_ms = 0};
}

static void what_workers_come_to_is_told(void **state) /* A6.2 */
{
    (void)state;
    open_as(prepare_pull);
    struct task_id id = add("both");
    const struct ask take = {.kind = ASK_LEASE, .exchange = 4, .lease_max = 1, .lease_ms = 1000};
    struct lease_word word = word_for(rig_full_ask(&rig, &take), LEASE_ACK);
    const struct ask settle = {
        .kind = ASK_LEASE_SETTLE, .exchange = 5, .words = &word, .word_count = 1};
    (void)rig_full_ask(&rig, &settle);
    rig_settle(&rig);
    assert_int_equal(recorded(id, 1), 1);
    assert_non_null(strstr(seen, "succeeded q 200"));
    (void)rig_full_ask(&rig, &settle); /* stale: told nobody */
    assert_int_equal(born(), 1);
    id = add("both");
    word = word_for(rig_full_ask(&rig, &take), LEASE_RETRY);
    word.error_class = DARUMA_CLASS_INVALID;
    (void)rig_full_ask(&rig, &settle);
    assert_int_equal(recorded(id, 1), 1);
    id = add("both");
    for (int i = 0; i < 10; i++) { /* ten leases run out */
        assert_int_equal(recorded(id, 1), 0);
        assert_int_equal(rig_full_ask(&rig, &take)->record_count, 1);
        rig_wait(&rig, 1000);
        rig_pass(&rig, HOUR_MS);
    }
    assert_int_equal(recorded(id, 1), 1);
    rig_submit_as(&rig,
                  &(struct submission){.options = {.callback = SPAN("both")}, .deadline_ms = 500});
    id = rig.replies[1].ids[0];
    rig_pass(&rig, 500);
    (void)rig_full_ask(&rig, &take); /* past its deadline */
    rig_settle(&rig);
    assert_int_equal(recorded(id, 1), 1);
    rig_close(&rig);
}

static struct rig_answer cut_off(struct rig *self, uint32_t attempt)
{
    (void)attempt;
    return strcmp(self->last_url, "http://tell/") == 0
               ? answer_now(self, attempt)
               : (struct rig_answer){.sent = TASK_SENT_MAYBE};
}

static void what_a_person_says_of_an_unsettled_task_is_told(void **state)
{
    static const struct {
        enum settlement said;
        uint64_t told;
    } cases[] = {{SETTLEMENT_SUCCEEDED, 1}, {SETTLEMENT_FAILED, 1}, {SETTLEMENT_NOT_DONE, 0}};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        open_as(NULL);
        rig.answer = cut_off;
        rig_submit_as(&rig, &(struct submission){
                                .options = {.callback = SPAN("both"), .has_repeatable = true}});
        struct task_id id = rig.replies[1].ids[0];
        assert_int_equal(life_of(id).state, TASK_UNSETTLED);
        assert_int_equal(born(), 0);
        (void)rig_full_ask(
            &rig, &(struct ask){
                      .kind = ASK_SETTLE, .exchange = 3, .id = id, .settlement = cases[i].said});
        assert_int_equal(born(), cases[i].told);
        assert_int_equal(recorded(id, 1), cases[i].told);
        rig_close(&rig);
    }
}

static void what_ends_in_a_recovery_is_told_and_goes_out_later(void **state) /* I8 */
{
    (void)state;
    open_as(NULL);
    status_now = 503;
    struct task_id id = add("both");
    rig_run(&rig, 400000); /* nine failures; the last one is next */
    assert_int_equal(life_of(id).attempts, 9);
    rig.answer = NULL;
    rig_wait(&rig, 300000);
    assert_int_equal(life_of(id).state, TASK_RUNNING);
    rig_restart(&rig); /* the tenth attempt is lost, and was one */
    assert_int_equal(life_of(id).state, TASK_DEAD);
    assert_non_null(strstr(rig.log_text, "event=task_failed_permanently"));
    rig.answer = answer_now;
    rig_wait(&rig, 1);
    assert_int_equal(recorded(id, 1), 1);
    assert_int_equal(born(), 1);
    rig_close(&rig);
}

static void a_callback_is_there_exactly_when_the_end_is(void **state) /* I1, I8 */
{
    (void)state;
    for (int killed_late = 0; killed_late < 2; killed_late++) {
        open_as(NULL);
        rig.answer = NULL;
        struct task_id id = add("both");
        if (killed_late) {
            rig_answer_one(&rig, 200); /* settled, and the callback is on its way */
            assert_int_equal(life_of(id).state, TASK_SUCCEEDED);
        }
        rig_restart(&rig);
        rig_ask(&rig, ASK_QUEUE);
        rig.queue = SPAN(ENGINE_CALLBACK_QUEUE);
        rig_ask(&rig, ASK_QUEUE);
        uint64_t waiting = rig.queue_counts[TASK_WAITING] + rig.queue_counts[TASK_RUNNING];
        assert_int_equal(waiting, killed_late ? 1 : 0);
        status_now = 200;
        rig.answer = answer_now;
        rig_run(&rig, HOUR_MS);
        assert_int_equal(life_of(id).state, TASK_SUCCEEDED);
        assert_int_equal(recorded(id, 1), 1);
        rig_close(&rig);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_success_and_a_dead_letter_are_told),
        cmocka_unit_test(each_round_is_told_once),
        cmocka_unit_test(only_what_was_asked_for_is_told),
        cmocka_unit_test(what_was_cancelled_is_not_told),
        cmocka_unit_test(nobody_is_called_back_about_a_callback),
        cmocka_unit_test(only_the_engine_itself_records_callbacks),
        cmocka_unit_test(a_callback_whose_key_is_taken_is_counted),
        cmocka_unit_test(what_workers_come_to_is_told),
        cmocka_unit_test(what_a_person_says_of_an_unsettled_task_is_told),
        cmocka_unit_test(what_ends_in_a_recovery_is_told_and_goes_out_later),
        cmocka_unit_test(a_callback_is_there_exactly_when_the_end_is),
    };
    return HARNESS_RUN(argc, argv, tests);
}
