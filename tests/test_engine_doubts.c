/* SPDX-License-Identifier: MIT
 *
 * A record whose commit is found after its caller was told that it is not known: what it came to is
 * counted as what it was. A redrive that may be recorded goes on.
 */
#include "engine_rig.h"
#include "harness.h"

static struct rig rig; /* large */

/* A store whose commits are lost on their way back for as long as it is away. */
static struct {
    const struct store_ops *real;
    struct store_ops ops;
    bool is_away;
    int busy_count; /* how often another session has the key yet */
} lost;

static int lose(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    if (lost.busy_count > 0 && ops[0]->kind == OP_RECORD) {
        lost.busy_count--;
        return fail(err, FAULT_BUSY, "simulated: another session has the key");
    }
    return lost.is_away ? fail(err, FAULT_UNKNOWN, "simulated: the connection was lost")
                        : lost.real->apply(store, ops, count, err);
}

static int touch(struct store *store, struct error *err)
{
    return lost.is_away ? fail(err, FAULT_IO, "simulated: no connection")
                        : lost.real->touch(store, err);
}

/* The commit is there. */
static bool recall(struct store *store, struct op *op)
{
    return lost.real->apply(store, &op, 1, NULL) == 0;
}

static void open_rig(void)
{
    rig = (struct rig){.keep_ms = 600000};
    rig_open(&rig, "sync");
    lost.real = rig.store->ops;
    lost.ops = *lost.real;
    lost.ops.apply = lose;
    lost.ops.touch = touch;
    lost.ops.recall = recall;
    lost.is_away = false;
    lost.busy_count = 0;
    rig.store->ops = &lost.ops;
}

static void close_rig(void)
{
    rig.store->ops = lost.real;
    rig_close(&rig);
}

static struct engine_stats stats(void)
{
    struct engine_stats now;

    engine_stats(rig.engine, &now);
    return now;
}

/* A submission that is told "unknown", and whose commit is found then. */
static void submit_in_doubt(struct span queue, const char *key, const char *body)
{
    lost.is_away = true;
    rig_submit_as(
        &rig, &(struct submission){
                  .queue = queue, .key = span_of(key), .body = span_of(body), .delay_ms = 600000});
    rig_pass(&rig, COMMITTER_DOUBT_MS);
    assert_int_equal(rig.replies[1].kind, REPLY_FAULT);
    assert_int_equal(rig.error.fault, FAULT_UNKNOWN);
    lost.is_away = false;
    rig_settle(&rig);
}

static void each_is_counted_as_what_it_was(void **state)
{
    (void)state;
    open_rig();
    submit_in_doubt(SPAN(RIG_QUEUE), "k", "one");
    assert_int_equal(stats().recorded, 1);
    submit_in_doubt(SPAN(RIG_QUEUE), "k", "one");
    assert_int_equal(stats().recorded, 1);
    assert_int_equal(stats().duplicates, 1);
    assert_int_equal(stats().conflicts, 0);
    submit_in_doubt(SPAN(RIG_QUEUE), "k", "two");
    assert_int_equal(stats().duplicates, 1);
    assert_int_equal(stats().conflicts, 1);
    assert_int_equal(stats().refused, 3); /* those that were told that it is not known */
    close_rig();
}

static void one_whose_queue_was_deleted_is_no_duplicate(void **state)
{
    (void)state;
    open_rig();
    assert_int_equal(rig_change(&rig), REPLY_QUEUE); /* makes r */
    struct queue_view view;
    engine_queue_view(rig.engine, 1, &view);
    struct op drop = {.kind = OP_QUEUE,
                      .queue = {.number = view.number, .name = SPAN("r"), .dropped = true}};
    struct op *others[] = {&drop};
    assert_int_equal(store_apply(rig.store, others, 1, NULL), 0);
    submit_in_doubt(SPAN("r"), "", "one");
    assert_int_equal(stats().duplicates, 0);
    assert_int_equal(stats().refused, 1);
    assert_int_equal(rig.replies[1].count, 1);
    const struct ask look = {.kind = ASK_QUEUE, .exchange = 4, .queue = SPAN("r")};
    assert_int_equal(rig_full_ask(&rig, &look)->kind,
                     REPLY_UNKNOWN_QUEUE); /* it has learnt of it */
    close_rig();
}

/* Its memo may be there, and then the next start would go on with it: so this engine does. */
static void a_redrive_that_is_in_doubt_goes_on(void **state)
{
    const struct ask redrive = {.kind = ASK_REDRIVE_MANY, .exchange = 4};
    (void)state;

    open_rig();
    rig_submit(&rig, "", "x", 0, 0);
    rig_answer_one(&rig, 400); /* a letter at once */
    assert_int_equal(rig_life(&rig, rig.id).state, TASK_DEAD);
    lost.is_away = true;
    assert_int_equal(rig_full_ask(&rig, &redrive)->count, 0);
    rig_pass(&rig, COMMITTER_DOUBT_MS);
    assert_int_equal(rig.replies[4].kind, REPLY_FAULT);
    assert_int_equal(rig.error.fault, FAULT_UNKNOWN);
    lost.is_away = false;
    rig_wait(&rig, 10000);
    rig_answer_one(&rig, 200);
    assert_int_equal(rig_life(&rig, rig.id).state, TASK_SUCCEEDED);
    assert_int_equal(stats().redriven, 1);
    close_rig();
}

/* Each commit tries it in the batch, and then by itself. */
static void submit_busy(int commits)
{
    rig.replies[1] = (struct rig_reply){0};
    lost.busy_count = 2 * commits;
    rig_submit_as(&rig, &(struct submission){.queue = SPAN(RIG_QUEUE), .delay_ms = 600000});
    rig_settle(&rig);
    rig_wait(&rig, 1000);
}

static void a_key_that_another_session_has_is_asked_for_a_few_times(void **state)
{
    (void)state;
    open_rig();
    submit_busy(1);
    assert_int_equal(rig.replies[1].kind, REPLY_CREATED);
    submit_busy(2);
    assert_int_equal(rig.replies[1].kind, REPLY_CREATED);
    assert_int_equal(rig.replies[1].count, 1);
    submit_busy(3);
    assert_int_equal(rig.replies[1].kind, REPLY_FAULT);
    assert_int_equal(rig.error.fault, FAULT_BUSY);
    assert_int_equal(lost.busy_count, 0);
    assert_int_equal(stats().recorded, 2);
    assert_int_equal(stats().refused, 1);
    close_rig();
}

static void one_that_stops_asks_for_it_no_more(void **state)
{
    (void)state;
    open_rig();
    lost.busy_count = 2;
    rig_submit_as(&rig, &(struct submission){.queue = SPAN(RIG_QUEUE), .delay_ms = 600000});
    rig_settle(&rig);
    assert_int_equal(rig.replies[1].count, 0);
    lost.busy_count = 2;
    engine_drain(rig.engine);
    rig_wait(&rig, 1000);
    assert_int_equal(rig.replies[1].kind, REPLY_FAULT);
    assert_int_equal(rig.error.fault, FAULT_BUSY);
    assert_true(engine_is_drained(rig.engine));
    close_rig();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_counted_as_what_it_was),
        cmocka_unit_test(one_whose_queue_was_deleted_is_no_duplicate),
        cmocka_unit_test(a_redrive_that_is_in_doubt_goes_on),
        cmocka_unit_test(a_key_that_another_session_has_is_asked_for_a_few_times),
        cmocka_unit_test(one_that_stops_asks_for_it_no_more),
    };
    return HARNESS_RUN(argc, argv, tests);
}
