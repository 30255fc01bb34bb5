/* SPDX-License-Identifier: MIT
 *
 * What the engine makes of what its peers did: beats that tell little, and a store that others write
 * to.
 */
#include "engine/engine_internal.h"
#include "engine_rig.h"
#include "harness.h"

#define FAR_MS 1000000

static struct rig rig; /* large */

static void cancel_as_another_node(struct task_id id)
{
    struct op cancel = {.kind = OP_CANCEL, .now_ms = rig.now_ms, .task.id = id};
    struct op *others[] = {&cancel};

    assert_int_equal(store_apply(rig.store, others, 1, NULL), 0);
    assert_int_equal(cancel.result, RESULT_DONE);
}

static struct beat beat_of_two(bool is_fresh)
{
    struct beat seen = rig_beat(&rig, 0, 2);

    seen.is_fresh = is_fresh;
    return seen;
}

static void look_around(bool is_fresh)
{
    const struct beat seen = beat_of_two(is_fresh);

    engine_beat(rig.engine, &seen);
    rig_settle(&rig);
}

static void follow(const struct rig_queues *queues, uint64_t serial, bool is_fresh)
{
    struct beat seen = beat_of_two(is_fresh);

    seen.queues_serial = serial;
    seen.queues = (struct queue_row *)queues->rows;
    seen.queue_count = queues->count;
    engine_beat(rig.engine, &seen);
    rig_settle(&rig);
}

/* A beat after others have changed queues. */
static void look_at_queues(void)
{
    struct rig_queues seen = rig_see_queues(&rig);

    follow(&seen, 7, true);
    assert_int_equal(rig.wish.followed, 7); /* peers may know */
    arena_free(seen.arena);
}

/* Whoever waits here need not wait for the next beat. */
static void who_waits_hears_of_what_others_did_between_two_beats(void **state)
{
    (void)state;
    rig = (struct rig){.keep_ms = 100000};
    rig_open(&rig, "default");
    rig_submit(&rig, "", "later", 100000, 0);
    const struct ask ask = {.kind = ASK_TASK, .exchange = 3, .id = rig.id, .wait_ms = 60000};
    assert_int_equal(rig_full_ask(&rig, &ask)->count, 0);
    look_around(false);
    assert_int_equal(rig.replies[3].count, 0); /* nothing has happened */
    cancel_as_another_node(ask.id);
    rig_settle(&rig);
    assert_int_equal(rig.replies[3].count, 0);
    look_around(false);
    assert_int_equal(rig.replies[3].count, 1);
    assert_int_equal(rig.replies[3].lives[0].state, TASK_CANCELLED);
    rig_close(&rig);
}

/* A word of a peer, and nothing else. */
static void hear_of(int64_t row, bool has_more)
{
    const struct beat word = {.epoch = rig.store->epoch,
                              .moved = &row,
                              .moved_count = row != 0,
                              .has_moved_more = has_more,
                              .is_word = true};

    engine_beat(rig.engine, &word);
    rig_settle(&rig);
}

static struct task_id wait_for_new(uint64_t exchange)
{
    rig_submit(&rig, "", "later", 100000, 0);
    const struct ask ask = {.kind = ASK_TASK, .exchange = exchange, .id = rig.id, .wait_ms = 60000};
    assert_int_equal(rig_full_ask(&rig, &ask)->count, 0);
    return ask.id;
}

static void who_waits_is_told_by_a_peer_s_word_about_that_task(void **state)
{
    struct engine_stats stats;
    (void)state;

    rig = (struct rig){.keep_ms = 100000};
    rig_open(&rig, "default");
    struct task_id one = wait_for_new(3), other = wait_for_new(4);
    cancel_as_another_node(one);
    cancel_as_another_node(other);
    hear_of(0, false);
    hear_of(one.row, false);
    assert_int_equal(rig.replies[3].count, 1);
    assert_int_equal(rig.replies[3].lives[0].state, TASK_CANCELLED);
    assert_int_equal(rig.replies[4].count, 0); /* nothing was said of it, nor looked at */
    hear_of(0, true);                          /* too many to say which */
    assert_int_equal(rig.replies[4].count, 1);
    engine_stats(rig.engine, &stats);
    assert_int_equal(stats.peer_words, 1);
    rig_close(&rig);
}

#define AWAITS_MS 30000

static void peers_are_asked_for_words_while_somebody_waits_and_a_while_longer(void **state)
{
    (void)state;

    rig = (struct rig){.keep_ms = 100000};
    rig_open(&rig, "default");
    rig_join(&rig);
    look_around(true);
    assert_false(rig.wish.awaits);
    struct task_id id = wait_for_new(3);
    assert_true(rig.wish.awaits);
    rig.now_ms += AWAITS_MS; /* he still waits */
    look_around(true);
    assert_true(rig.wish.awaits);
    cancel_as_another_node(id);
    hear_of(id.row, false);
    assert_int_equal(rig.replies[3].count, 1);
    rig.now_ms += AWAITS_MS - 1;
    look_around(true);
    assert_true(rig.wish.awaits);
    rig.now_ms += 1;
    look_around(true);
    assert_false(rig.wish.awaits);
    rig_close(&rig);
}

/* A queue that peers have made meanwhile is not known here. */
static void a_node_whose_lease_is_over_does_not_say_that_there_is_no_such_queue(void **state)
{
    static const struct store_nodes nodes = {.counts = rig_count_nothing};
    const struct ask asks[] = {
        {.kind = ASK_QUEUE, .exchange = 3, .queue = SPAN("new")},
        {.kind = ASK_QUEUE_RUN, .exchange = 4, .queue = SPAN("new")},
        {.kind = ASK_QUEUE_PAUSE, .exchange = 5, .queue = SPAN("new")},
        {.kind = ASK_LEASE, .exchange = 6, .queue = SPAN("new")},
    };
    (void)state;

    rig = (struct rig){.keep_ms = 100000};
    rig_open(&rig, "default");
    rig.store->nodes = &nodes;
    rig.store->node_lease_ms = FAR_MS;
    look_around(true);
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        assert_int_equal(rig_full_ask(&rig, &asks[i])->kind, REPLY_UNKNOWN_QUEUE);
    }
    rig.now_ms += FAR_MS;
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        assert_int_equal(rig_full_ask(&rig, &asks[i])->kind, REPLY_FAULT);
    }
    rig_close(&rig);
}

#define HOUR_MS 3600000

/* What one node does for all is no reason for the others to wake up. */
static void a_node_without_the_duty_wants_no_tick_for_it(void **state)
{
    (void)state;

    rig = (struct rig){.keep_ms = 100000};
    rig_open(&rig, "default");
    rig_join(&rig);
    look_around(true);
    rig.now_ms += HOUR_MS; /* the janitor's time has come long since */
    look_around(true);
    engine_tick(rig.engine);
    assert_true(engine_next_tick_ms(rig.engine) > 1000);
    rig_close(&rig);
}

/* Between the start, which reads the queues, and the first beat. */
static void a_queue_that_a_peer_paused_before_the_first_beat_is_paused_here_too(void **state)
{
    struct op pause = {.kind = OP_QUEUE, .queue = {.name = SPAN(RIG_QUEUE), .paused = true}};
    struct op *others[] = {&pause};
    (void)state;

    rig = (struct rig){.keep_ms = 100000};
    rig_open(&rig, "default");
    rig_join(&rig);
    assert_int_equal(store_apply(rig.store, others, 1, NULL), 0);
    look_at_queues();
    struct queue_view view;
    engine_queue_view(rig.engine, 0, &view);
    assert_true(view.paused);
    rig_close(&rig);
}

/* What was read before a change of our own was written is older than the change. */
static void a_look_at_the_queues_that_is_older_than_a_change_does_not_undo_it(void **state)
{
    (void)state;

    rig = (struct rig){.keep_ms = 100000};
    rig_open(&rig, "default");
    assert_int_equal(rig_change(&rig), REPLY_QUEUE); /* makes r */
    struct rig_queues open = rig_see_queues(&rig);
    const struct ask pause = {.kind = ASK_QUEUE_PAUSE, .exchange = 5, .queue = SPAN("r")};
    assert_int_equal(rig_full_ask(&rig, &pause)->kind, REPLY_QUEUE);
    follow(&open, 1, false);
    struct queue_view view;
    engine_queue_view(rig.engine, 1, &view);
    assert_true(view.paused);
    const struct ask gone = {.kind = ASK_QUEUE_DELETE, .exchange = 3, .queue = SPAN("r")};
    assert_int_equal(rig_full_ask(&rig, &gone)->kind, REPLY_DELETED);
    follow(&open, 2, false);
    const struct ask look = {.kind = ASK_QUEUE, .exchange = 4, .queue = SPAN("r")};
    assert_int_equal(rig_full_ask(&rig, &look)->kind, REPLY_UNKNOWN_QUEUE);
    assert_int_equal(rig.wish.followed, 2); /* all the same: it knows no less than that */
    arena_free(open.arena);
    rig_close(&rig);
}

static void tell(uint64_t told)
{
    struct beat seen = beat_of_two(false);

    seen.told = told;
    engine_beat(rig.engine, &seen);
    rig_settle(&rig);
}

static void an_operator_is_told_of_a_change_when_every_node_knows(void **state)
{
    static const enum ask_kind kinds[] = {ASK_QUEUE_PUT, ASK_QUEUE_PAUSE, ASK_QUEUE_RESUME,
                                          ASK_QUEUE_DELETE};
    (void)state;

    rig = (struct rig){.keep_ms = 100000};
    rig_open(&rig, "default");
    rig_join(&rig);
    rig.store->node_lease_ms = FAR_MS;
    look_around(true);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct ask ask = {
            .kind = kinds[i], .exchange = 3 + i, .queue = SPAN("r"), .settings = SPAN("{}")};
        assert_int_equal(rig_full_ask(&rig, &ask)->count, 0);
        assert_int_equal(rig.wish.asked, i + 1);
        tell(i);
        assert_int_equal(rig.replies[3 + i].count, 0);
        tell(i + 1);
        assert_int_equal(rig.replies[3 + i].count, 1);
        assert_int_equal(rig.replies[3 + i].kind,
                         kinds[i] == ASK_QUEUE_DELETE ? REPLY_DELETED : REPLY_QUEUE);
    }
    rig_close(&rig);
}

static void prepare_pull(struct rig *self)
{
    self->settings.target_count = 0;
}

/* A peer has paused the queue while the store was at a worker's lease. */
static void what_is_leased_when_its_queue_was_paused_goes_back(void **state)
{
    const struct ask ask = {
        .kind = ASK_LEASE, .exchange = 10, .lease_max = 2, .queue = SPAN(RIG_QUEUE)};
    (void)state;

    rig = (struct rig){.keep_ms = 100000, .prepare = prepare_pull};
    rig_open(&rig, "sync");
    rig_submit(&rig, "", "a", 0, 0);
    struct task_id id = rig.id;
    rig_submit(&rig, "", "b", 0, 0);
    struct task_id run = rig.id;
    (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_RUN, .exchange = 8, .id = run});
    engine_ask(rig.engine, &ask);
    struct rig_queues queues = rig_see_queues(&rig);
    queues.rows[0].paused = true;
    queues.rows[0].version++;
    follow(&queues, 1, false);
    arena_free(queues.arena);
    assert_int_equal(rig.replies[10].record_count, 1); /* what a person wants run */
    assert_int_equal(rig.replies[10].ids[0].row, run.row);
    assert_int_equal(rig_life(&rig, run).state, TASK_RUNNING);
    assert_int_equal(rig_life(&rig, id).state, TASK_WAITING);
    assert_int_equal(rig_life(&rig, id).attempts, 0);
    rig_close(&rig);
}

static bool is_second_once;

static void prepare_two(struct rig *self)
{
    self->settings.target_count = 2;
    self->settings.targets[1] = self->settings.targets[0];
    self->settings.targets[1].url = SPAN("http://b/");
    self->settings.targets[1].repeatable = !is_second_once;
}

static struct rig_answer fail_always(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 503};
}

/* Of a task that waits for its next lease, after a first attempt at a target that may be repeated. */
static uint32_t flags_between_two_leases(void)
{
    rig = (struct rig){.keep_ms = 100000, .prepare = prepare_two, .answer = fail_always};
    rig_open(&rig, "default");
    rig_submit(&rig, "", "body", 0, 0);
    rig_settle(&rig);
    struct life life = rig_life(&rig, rig.id);
    assert_int_equal(life.state, TASK_WAITING);
    assert_int_equal(life.attempts, 1);
    rig_close(&rig);
    return life.flags & (LIFE_TARGETS | LIFE_ONCE);
}

/* A node of an older release leases it with the flag as it stands, whichever target is next. */
static void between_two_leases_the_most_careful_target_counts(void **state)
{
    (void)state;
    is_second_once = true;
    assert_int_equal(flags_between_two_leases(), LIFE_TARGETS | LIFE_ONCE);
    is_second_once = false;
    assert_int_equal(flags_between_two_leases(), LIFE_TARGETS);
}

static struct rig_answer say_gone(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 410};
}

static uint32_t stopped_of_made(void)
{
    struct queue_view view;

    engine_queue_view(rig.engine, 1, &view);
    return view.stopped;
}

/* Another target in the same place has not said anything. */
static void a_queue_that_a_peer_changed_has_no_stopped_targets_here(void **state)
{
    struct op change = {.kind = OP_QUEUE,
                        .queue = {.name = SPAN("r"), .settings = SPAN("{\"of\":\"a peer\"}")}};
    struct op *others[] = {&change};
    (void)state;

    is_second_once = false;
    rig = (struct rig){.keep_ms = 100000, .prepare = prepare_two, .answer = say_gone};
    rig_open(&rig, "default");
    assert_int_equal(rig_change(&rig), REPLY_QUEUE); /* makes r */
    rig_submit_to(&rig, "r");
    assert_int_equal(stopped_of_made(), 1);
    rig_join(&rig);
    assert_int_equal(store_apply(rig.store, others, 1, NULL), 0);
    look_at_queues();
    assert_int_equal(stopped_of_made(), 0);
    rig_close(&rig);
}

/* Within a beat neither node knows what the other has done. */
static void a_change_of_a_queue_leaves_what_a_peer_has_changed_of_it(void **state)
{
    struct op pause = {.kind = OP_QUEUE, .queue = {.name = SPAN("r"), .settings = SPAN("{}")}};
    struct op *others[] = {&pause};
    (void)state;

    rig = (struct rig){.keep_ms = 100000};
    rig_open(&rig, "default");
    assert_int_equal(rig_change(&rig), REPLY_QUEUE); /* makes r */
    pause.queue.paused = true;
    assert_int_equal(store_apply(rig.store, others, 1, NULL), 0);
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    struct queue_view view;
    engine_queue_view(rig.engine, 1, &view);
    assert_true(view.paused); /* what is told is what is there */
    rig_restart(&rig);
    engine_queue_view(rig.engine, 1, &view);
    assert_true(view.paused);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_hears_of_what_others_did_between_two_beats),
        cmocka_unit_test(who_waits_is_told_by_a_peer_s_word_about_that_task),
        cmocka_unit_test(a_node_whose_lease_is_over_does_not_say_that_there_is_no_such_queue),
        cmocka_unit_test(peers_are_asked_for_words_while_somebody_waits_and_a_while_longer),
        cmocka_unit_test(a_node_without_the_duty_wants_no_tick_for_it),
        cmocka_unit_test(a_queue_that_a_peer_paused_before_the_first_beat_is_paused_here_too),
        cmocka_unit_test(a_change_of_a_queue_leaves_what_a_peer_has_changed_of_it),
        cmocka_unit_test(a_look_at_the_queues_that_is_older_than_a_change_does_not_undo_it),
        cmocka_unit_test(an_operator_is_told_of_a_change_when_every_node_knows),
        cmocka_unit_test(what_is_leased_when_its_queue_was_paused_goes_back),
        cmocka_unit_test(between_two_leases_the_most_careful_target_counts),
        cmocka_unit_test(a_queue_that_a_peer_changed_has_no_stopped_targets_here),
    };
    return HARNESS_RUN(argc, argv, tests);
}
