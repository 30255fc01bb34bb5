/* SPDX-License-Identifier: MIT
 *
 * Many queues, made and dropped: those that are there are found, those that are gone leave room. A queue
 * that is being deleted takes a task or is deleted, and whoever lost is told.
 */
#include "harness.h"

#include "engine_rig.h"

#include <stdio.h>
#include <string.h>

static struct rig rig; /* large */

static struct rig_answer answer_200(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 200};
}

static void open_rig(void)
{
    memset(&rig, 0, sizeof rig);
    rig.answer = answer_200;
    rig.keep_ms = 3600000;
    rig_open(&rig, "sync");
}

static enum reply_kind ask(enum ask_kind kind, int number)
{
    char name[32];

    (void)snprintf(name, sizeof name, "q-%d", number);
    engine_ask(
        rig.engine,
        &(struct ask){.kind = kind, .exchange = 3, .queue = span_of(name), .settings = SPAN("{}")});
    rig_settle(&rig);
    return rig.reply_kind;
}

static void queues_that_were_dropped_leave_room_for_others(void **state)
{
    (void)state;
    open_rig();
    for (int i = 0; i < ENGINE_QUEUES_MAX + 20; i++) {
        assert_int_equal(ask(ASK_QUEUE_PUT, i), REPLY_QUEUE);
        (void)ask(ASK_QUEUE_DELETE, i);
        assert_int_equal(ask(ASK_QUEUE, i), REPLY_UNKNOWN_QUEUE);
    }
    assert_int_equal(ask(ASK_QUEUE_PUT, 3), REPLY_QUEUE); /* a name that was there before */
    rig_submit_to(&rig, "q-3");
    assert_int_equal(rig.reply_kind, REPLY_CREATED);
    rig_close(&rig);
}

#define CANCELLED_EVERY 3
#define WAITING_COUNT   90

static struct queue_view view_of_first(void)
{
    struct queue_view view;

    engine_queue_view(rig.engine, 0, &view);
    return view;
}

static void a_task_counts_as_due_when_its_time_has_come_and_not_before(void **state)
{
    (void)state;
    open_rig();
    rig_ask(&rig, ASK_QUEUE_PAUSE);
    rig_submit(&rig, "", "now", 0, 0);
    rig_submit(&rig, "", "soon", 1000, 0);
    rig_submit(&rig, "", "later", 3600000, 0);
    assert_int_equal(view_of_first().due_count, 1);
    rig_wait(&rig, 2000);
    assert_int_equal(view_of_first().due_count, 2);
    rig_ask(&rig, ASK_RUN); /* the last one, by a person's word: it is sent at once */
    assert_int_equal(view_of_first().due_count, 2);
    rig_close(&rig);
}

static void a_paused_queue_does_not_tell_of_cancelled_tasks_as_due(void **state)
{
    struct task_id ids[WAITING_COUNT];
    (void)state;

    open_rig();
    rig_ask(&rig, ASK_QUEUE_PAUSE);
    for (int i = 0; i < WAITING_COUNT; i++) {
        rig_submit(&rig, "", "x", (i * 7919) % 1000, 0); /* due in another order */
        ids[i] = rig.id;
    }
    rig_wait(&rig, 2000);
    assert_int_equal(view_of_first().due_count, WAITING_COUNT);
    assert_true(view_of_first().oldest_due_ms >= 2000);
    for (int i = 0; i < WAITING_COUNT; i += CANCELLED_EVERY) {
        rig.id = ids[i];
        rig_ask(&rig, ASK_CANCEL);
    }
    rig_wait(&rig, 2000);
    assert_int_equal(view_of_first().due_count, WAITING_COUNT - WAITING_COUNT / CANCELLED_EVERY);
    rig_ask(&rig, ASK_QUEUE_RESUME); /* each of the others is still sent, and once */
    rig_wait(&rig, 2000);
    assert_int_equal(rig.sent_count, WAITING_COUNT - WAITING_COUNT / CANCELLED_EVERY);
    assert_int_equal(view_of_first().counts[TASK_SUCCEEDED], rig.sent_count);
    rig_close(&rig);
}

static void a_purged_queue_has_nothing_that_is_overdue(void **state)
{
    (void)state;
    open_rig();
    rig_ask(&rig, ASK_QUEUE_PAUSE);
    rig_submit(&rig, "", "x", 0, 0);
    rig_wait(&rig, 5000);
    assert_true(view_of_first().oldest_due_ms >= 5000);
    rig_ask(&rig, ASK_QUEUE_PURGE);
    rig_submit(&rig, "", "x", 0, 0);
    rig_wait(&rig, 1000);
    assert_int_equal(view_of_first().due_count, 1);
    assert_true(view_of_first().oldest_due_ms < 2000);
    rig_close(&rig);
}

/* Each event goes through the queues: those that were deleted must not be among them for good. */
static void a_deleted_queue_in_which_nothing_is_left_is_not_gone_through(void **state)
{
    (void)state;
    open_rig();
    size_t before = engine_queue_count(rig.engine);
    for (int i = 1; i <= 40; i++) {
        assert_int_equal(ask(ASK_QUEUE_PUT, i), REPLY_QUEUE);
    }
    rig_submit_to(&rig, "q-7");
    struct task_id kept = rig.id;
    rig_submit_to(&rig, "q-8"); /* what is left in it is purged first */
    for (int i = 1; i <= 40; i++) {
        if (i % 7 != 0) {
            assert_int_equal(ask(ASK_QUEUE_DELETE, i), REPLY_DELETED);
        }
    }
    for (int i = 0; i < 10; i++) {
        rig_pass(&rig, 1000);
    }
    assert_int_equal(engine_queue_count(rig.engine), before + 5);
    for (int i = 1; i <= 40; i++) {
        assert_int_equal(ask(ASK_QUEUE, i), i % 7 == 0 ? REPLY_QUEUE : REPLY_UNKNOWN_QUEUE);
    }
    assert_int_equal(rig_life(&rig, kept).state, TASK_SUCCEEDED);
    assert_int_equal(ask(ASK_QUEUE_PUT, 8), REPLY_QUEUE);
    for (int i = 7; i <= 8; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "q-%d", i);
        rig_submit_to(&rig, name);
        assert_int_equal(rig.reply_kind, REPLY_CREATED);
        assert_int_equal(rig_life(&rig, rig.id).state, TASK_SUCCEEDED);
    }
    rig_restart(&rig);
    assert_int_equal(engine_queue_count(rig.engine), before + 6);
    rig_close(&rig);
}

static void each_of_a_thousand_queues_is_found_and_one_more_is_refused(void **state)
{
    (void)state;
    open_rig(); /* has one already */
    for (int i = 1; i < ENGINE_QUEUES_MAX; i++) {
        assert_int_equal(ask(ASK_QUEUE_PUT, i), REPLY_QUEUE);
    }
    assert_int_equal(ask(ASK_QUEUE_PUT, ENGINE_QUEUES_MAX), REPLY_FAULT);
    rig_restart(&rig);
    for (int i = 1; i < ENGINE_QUEUES_MAX; i += 111) {
        char name[32];
        (void)snprintf(name, sizeof name, "q-%d", i);
        rig_submit_to(&rig, name);
        assert_int_equal(rig.reply_kind, REPLY_CREATED);
        assert_int_equal(ask(ASK_QUEUE, i), REPLY_QUEUE);
        assert_int_equal(rig.queue_counts[TASK_SUCCEEDED], 1);
    }
    rig_close(&rig);
}

/* --- deleting beside creating ---------------------------------------------------------------------- */

#define LATER_MS  600000
#define EX_DELETE 10
#define EX_CREATE 20 /* and following */

static void open_with_queue(void)
{
    open_rig();
    assert_int_equal(ask(ASK_QUEUE_PUT, 1), REPLY_QUEUE);
}

/* Both are only noted down: nothing is committed before rig_settle. */
static void create(uint64_t exchange)
{
    struct arena *arena = arena_new(1 << 16);

    engine_submit(rig.engine, &(struct submission){.exchange = exchange,
                                                   .arena = arena,
                                                   .queue = SPAN("q-1"),
                                                   .delay_ms = LATER_MS});
}

static void delete_queue(bool by_force)
{
    engine_ask(rig.engine, &(struct ask){.kind = ASK_QUEUE_DELETE,
                                         .exchange = EX_DELETE,
                                         .queue = SPAN("q-1"),
                                         .force = by_force});
}

static enum reply_kind reply_to(uint64_t exchange)
{
    return rig.replies[exchange].kind;
}

static bool is_there(struct task_id id)
{
    struct arena *arena = arena_new(1 << 20);
    struct record record;
    bool found = false;

    assert_int_equal(store_read_task(rig.store, id, 0, arena, &record, &found, NULL), 0);
    arena_free(arena);
    return found;
}

static size_t count_tasks(void)
{
    const struct rig_reply *reply =
        rig_full_ask(&rig, &(struct ask){.kind = ASK_LIST, .exchange = 5, .filter.limit = 50});

    assert_int_equal(reply->kind, REPLY_LIST);
    return reply->record_count;
}

static void a_create_that_comes_while_its_queue_is_being_deleted_is_refused(void **state)
{
    (void)state;
    open_with_queue();
    delete_queue(false);
    create(EX_CREATE);
    create(EX_CREATE + 1);
    rig_settle(&rig);
    assert_int_equal(reply_to(EX_DELETE), REPLY_DELETED);
    assert_int_equal(reply_to(EX_CREATE), REPLY_UNKNOWN_QUEUE);
    assert_int_equal(reply_to(EX_CREATE + 1), REPLY_UNKNOWN_QUEUE);
    assert_int_equal(rig.replies[EX_CREATE].count, 1);
    assert_int_equal(count_tasks(), 0);
    rig_close(&rig);
}

static void a_create_that_was_first_keeps_its_queue(void **state)
{
    (void)state;
    open_with_queue();
    create(EX_CREATE);
    delete_queue(false);
    create(EX_CREATE + 1);
    rig_settle(&rig);
    assert_int_equal(reply_to(EX_DELETE), REPLY_QUEUE_NOT_EMPTY);
    for (uint64_t i = EX_CREATE; i < EX_CREATE + 2; i++) {
        assert_int_equal(reply_to(i), REPLY_CREATED);
        assert_true(is_there(rig.replies[i].ids[0]));
    }
    rig_close(&rig);
}

static void a_forced_delete_purges_what_was_before_it_and_takes_nothing_after(void **state)
{
    (void)state;
    open_with_queue();
    create(EX_CREATE);
    delete_queue(true);
    create(EX_CREATE + 1);
    rig_settle(&rig);
    assert_int_equal(reply_to(EX_DELETE), REPLY_DELETED);
    assert_int_equal(reply_to(EX_CREATE), REPLY_CREATED);
    assert_int_equal(reply_to(EX_CREATE + 1), REPLY_UNKNOWN_QUEUE);
    assert_false(is_there(rig.replies[EX_CREATE].ids[0]));
    assert_int_equal(ask(ASK_QUEUE_PUT, 1), REPLY_QUEUE); /* another one of that name */
    create(EX_CREATE + 2);
    rig_settle(&rig);
    assert_int_equal(reply_to(EX_CREATE + 2), REPLY_CREATED);
    assert_true(is_there(rig.replies[EX_CREATE + 2].ids[0]));
    rig_close(&rig);
}

/* --- another node was first ------------------------------------------------------------------------ */

/* The engine does not know of it. */
static void drop_behind_its_back(void)
{
    struct op op = {.kind = OP_QUEUE, .queue.name = SPAN("q-1")}, *list[] = {&op};

    op.queue.settings = SPAN("{}");
    assert_int_equal(store_apply(rig.store, list, 1, NULL), 0);
    op.queue.dropped = true;
    assert_int_equal(store_apply(rig.store, list, 1, NULL), 0);
    assert_int_equal(op.result, RESULT_DONE);
}

static void a_create_in_a_queue_that_another_node_deleted_is_refused(void **state)
{
    (void)state;
    open_with_queue();
    drop_behind_its_back();
    create(EX_CREATE);
    rig_settle(&rig);
    assert_int_equal(reply_to(EX_CREATE), REPLY_UNKNOWN_QUEUE);
    assert_int_equal(count_tasks(), 0);
    assert_int_equal(ask(ASK_QUEUE, 1), REPLY_UNKNOWN_QUEUE); /* it has learnt of it */
    rig_close(&rig);
}

static struct rig_answer answer_400(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 400};
}

static void a_letter_is_not_redriven_into_a_queue_that_another_node_deleted(void **state)
{
    (void)state;
    open_with_queue();
    rig.answer = answer_400;
    rig_submit_to(&rig, "q-1");
    struct task_id id = rig.id;
    assert_int_equal(rig_life(&rig, id).state, TASK_DEAD);
    drop_behind_its_back();
    engine_ask(rig.engine, &(struct ask){.kind = ASK_REDRIVE, .exchange = EX_CREATE, .id = id});
    rig_settle(&rig);
    assert_int_equal(reply_to(EX_CREATE), REPLY_UNKNOWN_QUEUE);
    assert_false(is_there(id)); /* it is forgotten with its queue */
    rig_close(&rig);
}

static void a_queue_that_another_node_deleted_is_not_brought_back_by_a_change(void **state)
{
    static const enum ask_kind kinds[] = {ASK_QUEUE_PAUSE, ASK_QUEUE_RESUME, ASK_QUEUE_DELETE};
    (void)state;

    for (size_t i = 0; i < 3; i++) {
        open_with_queue();
        drop_behind_its_back();
        assert_int_equal(ask(kinds[i], 1), REPLY_UNKNOWN_QUEUE);
        create(EX_CREATE);
        rig_settle(&rig);
        assert_int_equal(reply_to(EX_CREATE), REPLY_UNKNOWN_QUEUE);
        rig_close(&rig);
    }
}

static void a_put_of_a_queue_that_another_node_deleted_makes_a_new_one(void **state)
{
    (void)state;
    open_with_queue();
    drop_behind_its_back();
    assert_int_equal(ask(ASK_QUEUE_PUT, 1), REPLY_QUEUE);
    create(EX_CREATE);
    rig_settle(&rig);
    assert_int_equal(reply_to(EX_CREATE), REPLY_CREATED);
    assert_true(is_there(rig.replies[EX_CREATE].ids[0]));
    rig_restart(&rig);
    assert_int_equal(ask(ASK_QUEUE, 1), REPLY_QUEUE);
    assert_int_equal(rig.queue_counts[TASK_WAITING], 1);
    rig_close(&rig);
}

static struct task_id submit_later(int64_t delay_ms)
{
    rig_submit_as(
        &rig, &(struct submission){.queue = SPAN("r"), .body = SPAN("x"), .delay_ms = delay_ms});
    rig_settle(&rig);
    return rig.id;
}

static enum queue_hold hold_of_r(void)
{
    struct queue_view view = {0};

    for (size_t i = 0; !span_is(view.name, "r"); i++) {
        engine_queue_view(rig.engine, i, &view);
    }
    return view.hold;
}

/* Its targets are gone and two tasks are stranded. While the row of the first is read, a person resumes the
 * queue and the second one is what it is held for. */
static void a_queue_is_held_no_longer_than_its_tasks_are_stranded(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    rig_open(&rig, "default");
    rig.settings.concurrency = 1;
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    struct task_id ids[] = {submit_later(1000), submit_later(1001)};
    rig.settings.target_count = 0;
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    rig.now_ms += 1500; /* both are due: the one that goes back is behind the other one */
    rig_wait(&rig, 10);
    assert_int_equal(hold_of_r(), QUEUE_HOLD_TARGETS);
    rig.holds_reads = true;
    rig_wait(&rig, 2500);
    (void)rig_full_ask(&rig,
                       &(struct ask){.kind = ASK_QUEUE_RESUME, .exchange = 3, .queue = SPAN("r")});
    rig.holds_reads = false;
    rig_settle(&rig);
    for (int i = 0; i < 2; i++) {
        (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_CANCEL, .exchange = 1, .id = ids[i]});
    }
    rig_wait(&rig, 20000);
    assert_int_equal(hold_of_r(), QUEUE_HOLD_NONE);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_counts_as_due_when_its_time_has_come_and_not_before),
        cmocka_unit_test(a_paused_queue_does_not_tell_of_cancelled_tasks_as_due),
        cmocka_unit_test(a_purged_queue_has_nothing_that_is_overdue),
        cmocka_unit_test(queues_that_were_dropped_leave_room_for_others),
        cmocka_unit_test(a_deleted_queue_in_which_nothing_is_left_is_not_gone_through),
        cmocka_unit_test(each_of_a_thousand_queues_is_found_and_one_more_is_refused),
        cmocka_unit_test(a_create_that_comes_while_its_queue_is_being_deleted_is_refused),
        cmocka_unit_test(a_create_that_was_first_keeps_its_queue),
        cmocka_unit_test(a_forced_delete_purges_what_was_before_it_and_takes_nothing_after),
        cmocka_unit_test(a_create_in_a_queue_that_another_node_deleted_is_refused),
        cmocka_unit_test(a_letter_is_not_redriven_into_a_queue_that_another_node_deleted),
        cmocka_unit_test(a_queue_that_another_node_deleted_is_not_brought_back_by_a_change),
        cmocka_unit_test(a_put_of_a_queue_that_another_node_deleted_makes_a_new_one),
        cmocka_unit_test(a_queue_is_held_no_longer_than_its_tasks_are_stranded),
    };
    return HARNESS_RUN(argc, argv, tests);
}
