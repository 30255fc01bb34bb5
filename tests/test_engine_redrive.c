/* SPDX-License-Identifier: MIT
 *
 * Many dead letters sent again at once, under a clock that the test moves: which ones, how fast, how
 * it is stopped, that it goes on after a restart, and that live traffic goes first. Requirement E6.
 */
#include "harness.h"

#include "engine_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_MS INT64_C(1000)
#define ASKED     7 /* the exchange of whoever asks */

static struct rig rig; /* large */
static int status_now; /* what the target answers */

static struct rig_answer answer_now(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = status_now};
}

static void open_for(size_t sends_max, void (*prepare)(struct rig *))
{
    memset(&rig, 0, sizeof rig);
    rig.answer = answer_now;
    rig.prepare = prepare;
    rig.sends_max = sends_max;
    rig.backlog_max = 1000000;
    rig.keep_ms = INT64_C(86400000);
    rig_open(&rig, "sync");
}

/* That many tasks that fail at once, for good. */
static void make_letters(size_t count, int status)
{
    status_now = status;
    for (size_t i = 0; i < count; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
    rig.sent_count = 0;
}

static const struct redrive_view *begin(struct ask wish)
{
    wish.kind = ASK_REDRIVE_MANY;
    wish.exchange = ASKED;
    wish.who = SPAN("ann");
    return &rig_full_ask(&rig, &wish)->redrive;
}

static const struct redrive_view *ask_about(enum ask_kind kind, uint64_t id)
{
    return &rig_full_ask(&rig, &(struct ask){.kind = kind,
                                             .exchange = ASKED + 1,
                                             .id = {.row = (int64_t)id},
                                             .who = SPAN("ann")})
                ->redrive;
}

static uint64_t count_in(enum task_state state)
{
    rig_ask(&rig, ASK_QUEUE);
    return rig.queue_counts[state];
}

/* --- which ------------------------------------------------------------------------------------------- */

static void a_dry_run_counts_and_sends_nothing(void **state)
{
    (void)state;
    open_for(4000, NULL);
    make_letters(700, 400);
    rig_pass(&rig, 10 * SECOND_MS);
    make_letters(30, 401);
    const int64_t from_ms = rig.now_ms;
    assert_int_equal(begin((struct ask){.dry_run = true})->matched, 730);
    assert_int_equal(rig.replies[ASKED].redrive.id, 0);
    const struct store_filter auth = {.failed_class = DARUMA_CLASS_AUTH + 1};
    assert_int_equal(begin((struct ask){.dry_run = true, .filter = auth})->matched, 30);
    const struct store_filter early = {.failed_until_ms = from_ms};
    assert_int_equal(begin((struct ask){.dry_run = true, .filter = early})->matched, 700);
    const struct store_filter late = {.failed_from_ms = from_ms};
    assert_int_equal(begin((struct ask){.dry_run = true, .filter = late})->matched, 30);
    rig_wait(&rig, 60 * SECOND_MS);
    assert_int_equal(rig.sent_count, 0);
    rig.queue = SPAN("nowhere");
    (void)begin((struct ask){.dry_run = true});
    assert_int_equal(rig.replies[ASKED].kind, REPLY_UNKNOWN_QUEUE);
    rig_close(&rig);
}

static void only_what_had_failed_before_it_began_is_taken_and_once(void **state) /* E6 */
{
    (void)state;
    open_for(4000, NULL);
    make_letters(600, 400);
    rig_pass(&rig, SECOND_MS);
    uint64_t id = begin((struct ask){.rate_per_second = 100})->id;
    assert_int_equal(rig.replies[ASKED].redrive.matched, 600);
    rig_wait(&rig, 2 * SECOND_MS);
    rig_submit(&rig, "", "later", 0, 0); /* dies while it is under way */
    rig_wait(&rig, 30 * SECOND_MS);
    const struct redrive_view *view = ask_about(ASK_REDRIVE_STATE, id);
    assert_string_equal(view->state, "done");
    assert_int_equal(view->redriven, 600);
    assert_int_equal(view->skipped, 0);
    assert_int_equal(rig.sent_count, 601); /* each of them once, and they have failed again */
    assert_int_equal(count_in(TASK_DEAD), 601);
    rig_close(&rig);
}

static void what_a_person_has_sent_meanwhile_is_skipped(void **state) /* I2 */
{
    (void)state;
    open_for(4000, NULL);
    make_letters(10, 400);
    struct task_id last = rig.id;
    rig_pass(&rig, SECOND_MS);
    uint64_t id = begin((struct ask){.rate_per_second = 1})->id;
    rig_wait(&rig, 2 * SECOND_MS + 500);
    /* It dies again before its turn: that is another letter, which nobody has asked to send. */
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_REDRIVE, .exchange = 3, .id = last});
    rig_wait(&rig, 20 * SECOND_MS);
    const struct redrive_view *view = ask_about(ASK_REDRIVE_STATE, id);
    assert_string_equal(view->state, "done");
    assert_int_equal(view->redriven, 9);
    assert_int_equal(view->skipped, 1);
    assert_int_equal(rig_life(&rig, last).round, 1);
    rig_close(&rig);
}

/* --- how fast ------------------------------------------------------------------------------------------ */

static void hold_rate(double rate, size_t count)
{
    open_for(count + 100, NULL);
    make_letters(count, 400);
    rig_pass(&rig, SECOND_MS);
    status_now = 200;
    uint64_t id = begin((struct ask){.rate_per_second = rate})->id;
    rig_wait(&rig, (int64_t)((double)count / rate * 1100) + SECOND_MS);
    assert_string_equal(ask_about(ASK_REDRIVE_STATE, id)->state, "done");
    assert_int_equal(rig.sent_count, count);
    double took_ms = (double)(rig.sent_at_ms[count - 1] - rig.sent_at_ms[0]);
    double seen = (double)(count - 1) * 1000 / took_ms;
    if (seen > rate * 1.05 || seen < rate * 0.95) {
        fail_msg("%g a second were asked for, %g were seen", rate, seen);
    }
    /* In no second more than that either, but for what a tenth of a second has saved up. */
    double most = rate * 1.1 + 2;
    for (size_t i = 0, first = 0; i < count; i++) {
        while (rig.sent_at_ms[i] - rig.sent_at_ms[first] >= SECOND_MS) {
            first++;
        }
        assert_true((double)(i - first + 1) <= most);
    }
    rig_close(&rig);
}

static void the_rate_is_held_within_five_percent(void **state) /* E6 */
{
    (void)state;
    hold_rate(0.5, 10);
    hold_rate(7, 100);
    hold_rate(50, 1200);
    hold_rate(900, 6000);
    hold_rate(5000, 10000);
}

static void a_busy_server_does_not_put_it_off(void **state) /* E6 */
{
    (void)state;
    open_for(4000, NULL);
    make_letters(100, 400);
    rig_pass(&rig, SECOND_MS);
    status_now = 200;
    uint64_t id = begin((struct ask){.rate_per_second = 10})->id;
    rig_turn(&rig, 11 * SECOND_MS, 3);
    assert_int_equal(rig.sent_count, 100);
    assert_string_equal(ask_about(ASK_REDRIVE_STATE, id)->state, "done");
    rig_close(&rig);
}

static void prepare_narrow(struct rig *self)
{
    self->settings.concurrency = 4;
}

static void live_traffic_goes_first(void **state) /* E6 */
{
    int64_t worst_ms = 0;

    (void)state;
    open_for(8000, prepare_narrow);
    make_letters(2000, 400);
    rig_pass(&rig, SECOND_MS);
    status_now = 200;
    rig.latency_ms = 20; /* 200 a second go through the queue, and 1000 letters a second want to */
    (void)begin((struct ask){.rate_per_second = 1000});
    rig_wait(&rig, SECOND_MS);
    for (int i = 0; i < 200; i++) {
        size_t before = rig.sent_count;
        int64_t asked_ms = rig.now_ms;
        rig_submit_as(&rig, &(struct submission){.body = SPAN("live")});
        while (strcmp(rig.last_body, "live") != 0) {
            rig_wait(&rig, 1);
        }
        int64_t waited_ms = rig.now_ms - asked_ms;
        worst_ms = waited_ms > worst_ms ? waited_ms : worst_ms;
        assert_true(rig.sent_count > before);
        rig_wait(&rig, 13);
        rig.last_body[0] = '\0';
    }
    assert_true(worst_ms <= 1); /* half of the queue is never taken by letters */
    rig_wait(&rig, 60 * SECOND_MS);
    assert_int_equal(count_in(TASK_SUCCEEDED) + count_in(TASK_DEAD), 2200);
    assert_int_equal(count_in(TASK_DEAD), 0);
    rig_close(&rig);
}

/* --- stop, and go on ------------------------------------------------------------------------------------- */

static void a_cancel_stops_it_for_good(void **state) /* E6, I1 */
{
    (void)state;
    open_for(4000, NULL);
    make_letters(1000, 400);
    rig_pass(&rig, SECOND_MS);
    status_now = 200;
    uint64_t id = begin((struct ask){.rate_per_second = 100})->id;
    rig_wait(&rig, 3 * SECOND_MS);
    const struct redrive_view *view = ask_about(ASK_REDRIVE_CANCEL, id);
    assert_string_equal(view->state, "cancelled");
    uint64_t sent = rig.sent_count;
    assert_true(sent >= 285 && sent <= 315);
    rig_wait(&rig, 10 * SECOND_MS);
    rig_restart(&rig);
    rig_wait(&rig, 10 * SECOND_MS);
    assert_int_equal(rig.sent_count, sent);
    assert_int_equal(count_in(TASK_DEAD), 1000 - sent);
    (void)ask_about(ASK_REDRIVE_STATE, id);
    assert_int_equal(rig.replies[ASKED + 1].kind, REPLY_UNKNOWN_REDRIVE); /* that is over */
    rig_close(&rig);
}

static void a_cancel_is_told_when_it_is_written(void **state) /* I1 */
{
    (void)state;
    open_for(4000, NULL);
    make_letters(100, 400);
    rig_pass(&rig, SECOND_MS);
    uint64_t id = begin((struct ask){.rate_per_second = 10})->id;
    uint64_t told = rig.replies[ASKED + 1].count;
    engine_ask(rig.engine, &(struct ask){.kind = ASK_REDRIVE_CANCEL,
                                         .exchange = ASKED + 1,
                                         .id = {.row = (int64_t)id},
                                         .who = SPAN("ann")});
    assert_int_equal(rig.replies[ASKED + 1].count, told);
    rig_restart(&rig); /* killed before the commit: it was never stopped */
    status_now = 200;
    rig_wait(&rig, 30 * SECOND_MS);
    assert_int_equal(count_in(TASK_SUCCEEDED), 100);
    rig_close(&rig);
}

static void after_a_restart_it_goes_on_and_repeats_nothing(void **state) /* E6, I8 */
{
    (void)state;
    open_for(8000, NULL);
    make_letters(1500, 400);
    rig_pass(&rig, SECOND_MS);
    uint64_t id = begin((struct ask){.rate_per_second = 200})->id;
    for (int i = 0; i < 4; i++) { /* what is redriven fails again: it must not be taken again */
        rig_wait(&rig, SECOND_MS + 137 * i);
        rig_restart(&rig);
    }
    const struct redrive_view *view = ask_about(ASK_REDRIVE_STATE, id);
    assert_int_equal(view->matched, 1500);
    rig_wait(&rig, 20 * SECOND_MS);
    view = ask_about(ASK_REDRIVE_STATE, id);
    assert_string_equal(view->state, "done");
    assert_int_equal(view->matched, 1500);
    assert_int_equal(view->redriven, 1500);
    assert_true(view->rate_per_second == 200);
    assert_int_equal(rig.sent_count, 1500);
    assert_int_equal(count_in(TASK_DEAD), 1500);
    rig_restart(&rig); /* its memo is gone: nothing begins anew */
    rig_wait(&rig, 5 * SECOND_MS);
    assert_int_equal(rig.sent_count, 1500);
    rig_close(&rig);
}

/* A person closes it. */
static void resolve(struct task_id id)
{
    assert_int_equal(
        rig_full_ask(&rig, &(struct ask){.kind = ASK_RESOLVE, .exchange = 3, .id = id})->kind,
        REPLY_LETTER);
}

/* That many more than one page of letters, and more than the store keeps acts of. */
#define LETTERS 1700

static void after_a_restart_it_tells_what_was_skipped(void **state) /* E6, I8 */
{
    static struct task_id ids[LETTERS];

    (void)state;
    open_for(8000, NULL);
    for (size_t i = 0; i < LETTERS; i++) {
        make_letters(1, 400);
        ids[i] = rig.id;
    }
    rig_pass(&rig, SECOND_MS);
    status_now = 200;
    uint64_t id = begin((struct ask){.rate_per_second = 200})->id;
    size_t closed = 0;
    for (size_t turn = 1; turn < 8; turn++) {
        rig_wait(&rig, SECOND_MS);
        /* Of the page it has in hand, and of one that it has not seen yet. */
        resolve(ids[200 * turn + 30]);
        resolve(ids[LETTERS - turn]);
        closed += 2;
        uint64_t redriven = ask_about(ASK_REDRIVE_STATE, id)->redriven;
        rig_restart(&rig);
        rig_settle(&rig);
        assert_string_equal(ask_about(ASK_REDRIVE_STATE, id)->state, "counting");
        rig_wait(&rig, 1); /* it counts */
        const struct redrive_view *view = ask_about(ASK_REDRIVE_STATE, id);
        assert_string_equal(view->state, "running");
        assert_int_equal(view->redriven, redriven);
        assert_int_equal(view->redriven, count_in(TASK_SUCCEEDED));
        assert_int_equal(view->skipped, closed);
    }
    rig_wait(&rig, 10 * SECOND_MS);
    const struct redrive_view *view = ask_about(ASK_REDRIVE_STATE, id);
    assert_string_equal(view->state, "done");
    assert_int_equal(view->redriven, LETTERS - closed);
    assert_int_equal(view->skipped, closed);
    assert_int_equal(rig.sent_count, LETTERS - closed);
    rig_close(&rig);
}

static void what_is_closed_before_it_is_seen_is_skipped_too(void **state)
{
    struct task_id last;

    (void)state;
    open_for(4000, NULL);
    make_letters(600, 400);
    last = rig.id;
    rig_pass(&rig, SECOND_MS);
    uint64_t id = begin((struct ask){.rate_per_second = 300})->id;
    resolve(last); /* on the second page */
    rig_wait(&rig, 5 * SECOND_MS);
    const struct redrive_view *view = ask_about(ASK_REDRIVE_STATE, id);
    assert_string_equal(view->state, "done");
    assert_int_equal(view->redriven, 599);
    assert_int_equal(view->skipped, 1);
    rig_close(&rig);
}

static int lose_all(struct store *store, struct op *given[], size_t count, struct error *err)
{
    (void)store, (void)given, (void)count;
    return fail(err, FAULT_LOST, "gone");
}

/* Letters that the store did not take have another turn, when acts of the first one lie behind its
 * place: none of them counts twice. */
static void a_second_turn_counts_no_letter_twice(void **state) /* I8, I9 */
{
    (void)state;
    open_for(4000, NULL);
    make_letters(700, 400);
    rig_pass(&rig, SECOND_MS);
    status_now = 200;
    uint64_t id = begin((struct ask){.rate_per_second = 200})->id;
    rig_wait(&rig, 300);
    const struct store_ops *real = rig.store->ops;
    struct store_ops full = *real;
    full.apply = lose_all;
    rig.store->ops = &full;
    rig_wait(&rig, 500);
    rig.store->ops = real;
    rig_wait(&rig, 2 * SECOND_MS);
    for (int i = 0; i < 6; i++) { /* through the second page and the second turn */
        rig_wait(&rig, 200);
        uint64_t redriven = ask_about(ASK_REDRIVE_STATE, id)->redriven;
        assert_in_range(redriven, 490 + 30 * i, 699);
        rig_restart(&rig);
        rig_wait(&rig, 1);
        assert_int_equal(ask_about(ASK_REDRIVE_STATE, id)->redriven, redriven);
        assert_int_equal(ask_about(ASK_REDRIVE_STATE, id)->skipped, 0);
    }
    rig_wait(&rig, 5 * SECOND_MS);
    assert_int_equal(ask_about(ASK_REDRIVE_STATE, id)->redriven, 700);
    assert_string_equal(ask_about(ASK_REDRIVE_STATE, id)->state, "done");
    assert_int_equal(rig.sent_count, 700);
    rig_close(&rig);
}

static struct task_id answered; /* a caller has its failure */
static const struct store_ops *real_ops;

static int apply_all_but_answered(struct store *store, struct op *given[], size_t count,
                                  struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (given[i]->kind == OP_REDRIVE && given[i]->task.id.row == answered.row) {
            given[i]->task.id.row = 1; /* what the store does not have is left as it is */
        }
    }
    return real_ops->apply(store, given, count, err);
}

/* A letter that stays one is met again in the second turn: it is skipped once. */
static void a_second_turn_skips_no_letter_twice(void **state)
{
    (void)state;
    open_for(4000, NULL);
    make_letters(1, 400);
    answered = rig.id;
    make_letters(699, 400);
    rig_pass(&rig, SECOND_MS);
    status_now = 200;
    real_ops = rig.store->ops;
    struct store_ops ops = *real_ops;
    ops.apply = apply_all_but_answered;
    rig.store->ops = &ops;
    uint64_t id = begin((struct ask){.rate_per_second = 200})->id;
    rig_wait(&rig, 300);
    assert_int_equal(ask_about(ASK_REDRIVE_STATE, id)->skipped, 1);
    ops.apply = lose_all;
    rig_wait(&rig, 500);
    ops.apply = apply_all_but_answered;
    for (int i = 0; i < 10; i++) {
        const struct redrive_view *view = ask_about(ASK_REDRIVE_STATE, id);
        assert_true(view->redriven + view->skipped <= view->matched);
        rig_wait(&rig, SECOND_MS);
    }
    const struct redrive_view *view = ask_about(ASK_REDRIVE_STATE, id);
    assert_string_equal(view->state, "done");
    assert_int_equal(view->matched, 700);
    assert_int_equal(view->redriven, 699);
    assert_int_equal(view->skipped, 1);
    rig.store->ops = real_ops;
    rig_close(&rig);
}

/* Letters that had failed when it began, and were not in the store yet when they were counted. */
static void what_it_takes_in_hand_beyond_the_count_is_matched_too(void **state) /* E6 */
{
    (void)state;
    open_for(4000, NULL);
    make_letters(600, 400);
    uint64_t id = begin((struct ask){.rate_per_second = 200})->id;
    assert_int_equal(rig.replies[ASKED].redrive.matched, 600);
    rig_submit(&rig, "", "late", 0, 0); /* it dies in this very millisecond, on the second page */
    status_now = 200;
    rig_wait(&rig, 2 * SECOND_MS);
    rig_restart(&rig);
    rig_wait(&rig, 5 * SECOND_MS);
    const struct redrive_view *view = ask_about(ASK_REDRIVE_STATE, id);
    assert_string_equal(view->state, "done");
    assert_int_equal(view->redriven, 601);
    assert_int_equal(view->skipped, 0);
    assert_int_equal(view->matched, 601);
    rig_close(&rig);
}

/* With a memo as another store had it, whose acts had other numbers. */
static void a_redrive_that_was_carried_here_knows_its_acts(void **state) /* I8 */
{
    char name[48], value[256];
    struct op op = {.kind = OP_MEMO}, *ops[] = {&op};

    (void)state;
    open_for(4000, NULL);
    make_letters(50, 400);
    rig_pass(&rig, SECOND_MS);
    int64_t began_ms = rig.now_ms + 1;
    uint64_t id = begin((struct ask){.rate_per_second = 10})->id;
    rig_wait(&rig, 2 * SECOND_MS);
    uint64_t redriven = ask_about(ASK_REDRIVE_STATE, id)->redriven;
    assert_in_range(redriven, 15, 25);
    (void)snprintf(name, sizeof name, "redrive:%llu", (unsigned long long)id);
    (void)snprintf(value, sizeof value,
                   "until: %lld\nrate: 10000\nmatched: 50\nredriven: 0\nskipped: 0\nafter: 0\n"
                   "missed: 0\nact: 70000\nwho: ann\n",
                   (long long)began_ms);
    op.memo = (struct memo){.name = span_of(name), .value = span_of(value)};
    assert_int_equal(store_apply(rig.store, ops, 1, NULL), 0);
    rig_restart(&rig);
    rig_wait(&rig, 1);
    assert_int_equal(ask_about(ASK_REDRIVE_STATE, id)->redriven, redriven);
    rig_wait(&rig, 10 * SECOND_MS);
    assert_int_equal(ask_about(ASK_REDRIVE_STATE, id)->redriven, 50);
    assert_int_equal(ask_about(ASK_REDRIVE_STATE, id)->skipped, 0);
    rig_close(&rig);
}

static void its_progress_can_be_followed(void **state)
{
    (void)state;
    open_for(4000, NULL);
    make_letters(400, 400);
    rig_pass(&rig, SECOND_MS);
    status_now = 200;
    rig.log_text[0] = '\0'; /* room for what follows */
    const struct redrive_view *view = begin((struct ask){.rate_per_second = 40});
    uint64_t id = view->id;
    assert_string_equal(view->state, "running");
    for (int i = 1; i <= 9; i++) {
        rig_wait(&rig, SECOND_MS);
        view = ask_about(ASK_REDRIVE_STATE, id);
        assert_string_equal(view->state, "running");
        assert_in_range(view->redriven, 40 * i - 4, 40 * i);
        assert_int_equal(view->redriven, count_in(TASK_SUCCEEDED));
    }
    rig_wait(&rig, 2 * SECOND_MS);
    assert_string_equal(ask_about(ASK_REDRIVE_STATE, id)->state, "done");
    assert_non_null(strstr(rig.log_text, "event=redrive_done"));
    rig_close(&rig);
}

static void each_letter_and_the_whole_are_in_the_audit_trail(void **state) /* E6 */
{
    (void)state;
    open_for(100, NULL);
    make_letters(3, 400);
    rig_pass(&rig, SECOND_MS);
    uint64_t id = begin((struct ask){.rate_per_second = 10})->id;
    rig_wait(&rig, SECOND_MS);
    const char *got =
        rig_full_ask(&rig, &(struct ask){.kind = ASK_AUDIT, .exchange = 9, .audit = {.limit = 100}})
            ->audit;
    char expected[512];
    (void)snprintf(expected, sizeof expected,
                   "ann redrive_many q -1>-1 redrive %llu: matched 3, 10 a second\n"
                   "ann redrive q 5>0 redrive %llu\nann redrive q 5>0 redrive %llu\n"
                   "ann redrive q 5>0 redrive %llu\n",
                   (unsigned long long)id, (unsigned long long)id, (unsigned long long)id,
                   (unsigned long long)id);
    assert_string_equal(got, expected);
    rig_close(&rig);
}

static void many_of_them_can_be_under_way_and_old_ones_are_forgotten(void **state)
{
    (void)state;
    open_for(4000, NULL);
    make_letters(150, 400);
    rig_pass(&rig, SECOND_MS);
    uint64_t slow = begin((struct ask){.rate_per_second = 1})->id; /* the oldest ends last */
    for (int i = 0; i < 120; i++) {
        const struct store_filter none = {.failed_class = DARUMA_CLASS_QUOTA + 1};
        (void)begin((struct ask){.rate_per_second = 100, .filter = none});
        rig_wait(&rig, 10);
    }
    rig_wait(&rig, 200 * SECOND_MS);
    for (int i = 0; i < 3; i++) {
        const struct store_filter none = {.failed_class = DARUMA_CLASS_QUOTA + 1};
        (void)begin((struct ask){.rate_per_second = 100, .filter = none});
        rig_wait(&rig, 10);
    }
    (void)ask_about(ASK_REDRIVE_STATE, slow);
    assert_int_equal(rig.replies[ASKED + 1].kind, REPLY_UNKNOWN_REDRIVE);
    assert_int_equal(rig.sent_count, 150);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dry_run_counts_and_sends_nothing),
        cmocka_unit_test(only_what_had_failed_before_it_began_is_taken_and_once),
        cmocka_unit_test(what_a_person_has_sent_meanwhile_is_skipped),
        cmocka_unit_test(the_rate_is_held_within_five_percent),
        cmocka_unit_test(a_busy_server_does_not_put_it_off),
        cmocka_unit_test(live_traffic_goes_first),
        cmocka_unit_test(a_cancel_stops_it_for_good),
        cmocka_unit_test(a_cancel_is_told_when_it_is_written),
        cmocka_unit_test(after_a_restart_it_goes_on_and_repeats_nothing),
        cmocka_unit_test(after_a_restart_it_tells_what_was_skipped),
        cmocka_unit_test(what_is_closed_before_it_is_seen_is_skipped_too),
        cmocka_unit_test(a_second_turn_counts_no_letter_twice),
        cmocka_unit_test(a_second_turn_skips_no_letter_twice),
        cmocka_unit_test(what_it_takes_in_hand_beyond_the_count_is_matched_too),
        cmocka_unit_test(a_redrive_that_was_carried_here_knows_its_acts),
        cmocka_unit_test(its_progress_can_be_followed),
        cmocka_unit_test(each_letter_and_the_whole_are_in_the_audit_trail),
        cmocka_unit_test(many_of_them_can_be_under_way_and_old_ones_are_forgotten),
    };
    return HARNESS_RUN(argc, argv, tests);
}
