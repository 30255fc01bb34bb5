/* SPDX-License-Identifier: MIT
 *
 * Torture: what people and workers do, with the n-th allocation refused, for n = 1, 2, 3 … until
 * nothing is refused any more. Out of memory is an ordinary fault: whoever asked is told, nothing
 * leaks, what was refused was not done, what was told was, and all that is open comes to its end once
 * there is memory again.
 */
#include "harness.h"

#include "alloc_fail.h"
#include "engine_rig.h"

#include <stdio.h>
#include <string.h>

#define MINUTE_MS INT64_C(60000)
#define TASKS     3

static struct rig rig; /* large */
static int status_now; /* what the target answers */
static struct task_id ids[TASKS];

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

static bool tell(void *user, const struct record *record, struct span queue, struct arena *arena,
                 struct submission *ret_submission)
{
    (void)user, (void)record, (void)queue;
    *ret_submission =
        (struct submission){.target = SPAN("http://tell/"), .body = arena_copy(arena, SPAN("b"))};
    return ret_submission->body.at != NULL;
}

static void prepare_pull(struct rig *self)
{
    self->settings.target_count = 0;
}

static void open_as(void (*prepare)(struct rig *))
{
    memset(&rig, 0, sizeof rig);
    rig.prepare = prepare;
    rig.answer = answer_now;
    rig.callback = tell;
    rig.keep_ms = 1000 * MINUTE_MS;
    rig_open(&rig, "sync");
    status_now = 400;
}

static void add_all(struct submission wish)
{
    wish.options.callback = SPAN("{}");
    for (size_t i = 0; i < TASKS; i++) {
        rig_submit_as(&rig, &wish);
        ids[i] = rig.replies[1].ids[0];
    }
    rig_settle(&rig);
}

static bool was_refused(const struct rig_reply *reply)
{
    return reply->count == 0 || (reply->kind == REPLY_FAULT && rig.error.fault != FAULT_UNKNOWN);
}

/* Everything that is counted is there, and everything that is there is counted. */
static void check_counts(void)
{
    uint64_t counts[TASK_STATE_COUNT] = {0};
    struct queue_view view;

    for (size_t i = 0; i < TASKS; i++) {
        counts[rig_life(&rig, ids[i]).state]++;
    }
    engine_queue_view(rig.engine, 0, &view);
    for (int i = 0; i < TASK_STATE_COUNT; i++) {
        assert_int_equal(view.counts[i], counts[i]);
    }
}

struct scenario {
    void (*before)(void);
    void (*act)(void);   /* with the n-th allocation refused */
    void (*after)(void); /* there is memory again */
};

static void drive(const struct scenario *scenario)
{
    struct alloc_count count;
    uint64_t number = 0;

    do {
        scenario->before();
        alloc_fail_start(++number);
        scenario->act();
        count = alloc_fail_stop();
        rig_settle(&rig);
        scenario->after();
        check_counts();
        rig_close(&rig);
    } while (count.refused > 0);
    print_message("%u allocations\n", (unsigned)number - 1);
    assert_true(number > 5);
}

/* --- one letter ---------------------------------------------------------------------------------------- */

static void before_letters(void)
{
    open_as(NULL);
    add_all((struct submission){.body = SPAN("first"), .key = SPAN("")});
    status_now = 200;
    memset(rig.replies, 0, sizeof rig.replies);
}

static void redrive_edited(void)
{
    engine_ask(rig.engine, &(struct ask){.kind = ASK_REDRIVE,
                                         .exchange = 5,
                                         .id = ids[0],
                                         .who = SPAN("ann"),
                                         .edit = {.parts = EDIT_BODY | EDIT_HEADERS,
                                                  .body = SPAN("mended"),
                                                  .headers = SPAN("x-a: 1\n")}});
    rig_settle(&rig);
}

static void after_redrive(void)
{
    if (was_refused(&rig.replies[5])) {
        struct life life = rig_life(&rig, ids[0]);
        assert_int_equal(life.state, TASK_DEAD);
        assert_int_equal(life.round, 0);
        assert_int_equal(rig.replies[5].count, 1);
        return;
    }
    rig_wait(&rig, MINUTE_MS);
    assert_int_equal(rig_life(&rig, ids[0]).state, TASK_SUCCEEDED);
    assert_int_equal(rig.sent_count >= TASKS + 1, 1);
}

static void a_redrive_is_whole_or_not_at_all(void **state) /* I7, I9 */
{
    (void)state;
    drive(&(struct scenario){before_letters, redrive_edited, after_redrive});
}

static void resolve(void)
{
    engine_ask(rig.engine, &(struct ask){.kind = ASK_RESOLVE,
                                         .exchange = 5,
                                         .id = ids[0],
                                         .who = SPAN("ann"),
                                         .note = SPAN("enough")});
    rig_settle(&rig);
}

static void after_resolve(void)
{
    bool is_refused = was_refused(&rig.replies[5]);

    assert_int_equal(rig_life(&rig, ids[0]).state, is_refused ? TASK_DEAD : TASK_FAILED);
}

static void a_resolve_is_done_or_refused(void **state) /* I7 */
{
    (void)state;
    drive(&(struct scenario){before_letters, resolve, after_resolve});
}

/* --- many ------------------------------------------------------------------------------------------------ */

static void redrive_many(void)
{
    engine_ask(rig.engine, &(struct ask){.kind = ASK_REDRIVE_MANY,
                                         .exchange = 5,
                                         .who = SPAN("ann"),
                                         .rate_per_second = 100});
    rig_settle(&rig);
    rig_pass(&rig, 15);
    rig_pass(&rig, 15);
}

static void after_redrive_many(void)
{
    bool is_refused = was_refused(&rig.replies[5]);

    rig_wait(&rig, MINUTE_MS);
    for (size_t i = 0; i < TASKS; i++) {
        enum task_state state = rig_life(&rig, ids[i]).state;
        assert_int_equal(state, is_refused ? TASK_DEAD : TASK_SUCCEEDED);
    }
}

static void a_redrive_of_many_takes_all_or_none(void **state) /* I7, I9 */
{
    (void)state;
    drive(&(struct scenario){before_letters, redrive_many, after_redrive_many});
}

/* --- unsettled --------------------------------------------------------------------------------------------- */

static void before_unsettled(void)
{
    open_as(NULL);
    rig.answer = cut_off;
    add_all((struct submission){.options = {.has_repeatable = true}});
    rig.answer = answer_now;
    memset(rig.replies, 0, sizeof rig.replies);
}

static void settle_by_hand(void)
{
    const struct answer answer = {.status = 201, .headers = SPAN("a: b\n"), .body = SPAN("made")};

    engine_ask(rig.engine, &(struct ask){.kind = ASK_SETTLE,
                                         .exchange = 5,
                                         .id = ids[0],
                                         .who = SPAN("ann"),
                                         .answer = &answer});
    rig_settle(&rig);
}

static void after_settle(void)
{
    struct arena *arena = arena_new(1 << 16);
    struct record record;
    bool found;

    assert_int_equal(store_read_task(rig.store, ids[0], READ_BODIES, arena, &record, &found, NULL),
                     0);
    if (was_refused(&rig.replies[5])) {
        assert_int_equal(record.life.state, TASK_UNSETTLED);
    } else {
        assert_int_equal(record.life.state, TASK_SUCCEEDED);
        assert_true(span_is(record.answer.body, "made"));
        assert_true(span_is(record.answer.headers, "a: b\n"));
    }
    arena_free(arena);
}

static void a_persons_word_is_kept_whole_or_refused(void **state) /* I7 */
{
    (void)state;
    drive(&(struct scenario){before_unsettled, settle_by_hand, after_settle});
}

/* --- leases ------------------------------------------------------------------------------------------------ */

static void before_pulled(void)
{
    open_as(prepare_pull);
    add_all((struct submission){.body = SPAN("x")});
    memset(rig.replies, 0, sizeof rig.replies);
}

static struct lease_word word_of(size_t at, enum lease_word_kind kind)
{
    const struct rig_reply *got = &rig.replies[5];

    return (struct lease_word){.kind = kind,
                               .lease = SPAN("lease"),
                               .text = SPAN("why"),
                               .id = got->ids[at],
                               .fence = got->lives[at].fence,
                               .epoch = got->lives[at].epoch,
                               .delay_ms = -1,
                               .lease_ms = 20000};
}

static void lease_and_settle(void)
{
    engine_ask(rig.engine, &(struct ask){.kind = ASK_LEASE,
                                         .exchange = 5,
                                         .queue = SPAN(RIG_QUEUE),
                                         .lease_max = TASKS,
                                         .lease_ms = 1000});
    rig_settle(&rig);
    if (rig.replies[5].record_count != TASKS) {
        return;
    }
    const struct lease_word words[] = {word_of(0, LEASE_ACK), word_of(1, LEASE_RETRY),
                                       word_of(2, LEASE_EXTEND)};
    engine_ask(rig.engine,
               &(struct ask){
                   .kind = ASK_LEASE_SETTLE, .exchange = 6, .words = words, .word_count = TASKS});
    rig_settle(&rig);
    rig_pass(&rig, 1000); /* what is not settled or extended is over */
}

/* Whatever happened: no task is lost, and each can be done in the end. */
static void after_leases(void)
{
    assert_int_equal(rig.replies[5].count, 1);
    if (rig.replies[6].kind == REPLY_LEASE_RESULTS && rig.replies[6].count == 1) {
        assert_int_equal(rig.replies[6].results[0], LEASE_SETTLED);
        assert_int_equal(rig_life(&rig, ids[0]).state, TASK_SUCCEEDED);
    }
    for (int i = 0; i < 10; i++) {
        rig_wait(&rig, MINUTE_MS);
        const struct rig_reply *got =
            rig_full_ask(&rig, &(struct ask){.kind = ASK_LEASE, .exchange = 5, .lease_max = 1});
        if (got->record_count > 0) {
            const struct lease_word word = word_of(0, LEASE_ACK);
            (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_LEASE_SETTLE,
                                                   .exchange = 7,
                                                   .words = &word,
                                                   .word_count = 1});
        }
    }
    for (size_t i = 0; i < TASKS; i++) {
        assert_int_equal(rig_life(&rig, ids[i]).state, TASK_SUCCEEDED);
    }
}

static void no_lease_is_lost(void **state) /* I2, I9 */
{
    (void)state;
    drive(&(struct scenario){before_pulled, lease_and_settle, after_leases});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_redrive_is_whole_or_not_at_all),
        cmocka_unit_test(a_resolve_is_done_or_refused),
        cmocka_unit_test(a_redrive_of_many_takes_all_or_none),
        cmocka_unit_test(a_persons_word_is_kept_whole_or_refused),
        cmocka_unit_test(no_lease_is_lost),
    };
    return HARNESS_RUN(argc, argv, tests);
}
