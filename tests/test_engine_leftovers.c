/* SPDX-License-Identifier: MIT
 *
 * What is left in a queue that was deleted is purged in the end, on whichever node and however often
 * that was cut off; nothing of any other queue is.
 */
#include "engine_rig.h"
#include "harness.h"

#define MANY        1200 /* more than two pages */
#define EVERY_STATE TASK_STATE_COUNT

static struct rig rig; /* large */

static void apply_done(struct op *op)
{
    struct op *list[] = {op};

    assert_int_equal(store_apply(rig.store, list, 1, NULL), 0);
    assert_int_equal(op->result, RESULT_DONE);
}

static bool has_row(int64_t row)
{
    const struct task_id id = {row, ID_ANY_TAIL};

    return rig_life(&rig, id).state != TASK_STATE_COUNT;
}

static void record_in(uint32_t queue, int64_t row, enum task_state state)
{
    struct op op = {.kind = OP_RECORD,
                    .now_ms = RIG_START_MS,
                    .task = {.id = {.row = row}, .queue = queue},
                    .life = {.state = state, .due_at_ms = INT64_MAX, .fence = 1}};

    apply_done(&op);
}

/* A queue that the engine does not know of. */
static uint32_t make_queue(struct span name, struct span settings)
{
    struct op op = {.kind = OP_QUEUE, .queue = {.name = name, .settings = settings}};

    apply_done(&op);
    return op.queue.number;
}

static void drop_queue(uint32_t number, struct span name)
{
    struct op op = {.kind = OP_QUEUE, .queue = {.number = number, .name = name, .dropped = true}};

    apply_done(&op);
}

/* One task for each state. */
static int64_t row_of(enum task_state state)
{
    return (int64_t)state + 1;
}

static void record_every_state(uint32_t queue)
{
    for (int state = 0; state < EVERY_STATE; state++) {
        record_in(queue, row_of((enum task_state)state), (enum task_state)state);
    }
}

static void assert_only_doubt_is_left(void)
{
    for (int state = 0; state < EVERY_STATE; state++) {
        bool is_left = state == TASK_UNSETTLED || state == TASK_RUNNING;
        assert_int_equal(has_row(row_of((enum task_state)state)), is_left);
    }
}

/* --- one process ------------------------------------------------------------------------------------ */

static void a_deletion_that_a_crash_cut_off_is_finished_after_a_start(void **state)
{
    (void)state;
    rig_open(&rig, "sync");
    assert_int_equal(rig_change(&rig), REPLY_QUEUE); /* makes r */
    for (int i = 0; i < MANY; i++) {
        rig_submit_as(&rig, &(struct submission){.queue = SPAN("r"), .delay_ms = 600000});
    }
    struct task_id last = rig.id;
    const struct ask gone = {
        .kind = ASK_QUEUE_DELETE, .exchange = 3, .queue = SPAN("r"), .force = true};
    assert_int_equal(rig_full_ask(&rig, &gone)->kind, REPLY_DELETED);
    assert_int_equal(rig_life(&rig, last).state, TASK_WAITING); /* its page comes later */
    rig_restart(&rig);
    rig_wait(&rig, 1000);
    assert_int_equal(rig_life(&rig, last).state, TASK_STATE_COUNT);
    struct engine_stats stats;
    engine_stats(rig.engine, &stats);
    assert_true(stats.purged > 0);
    rig_close(&rig);
}

static void what_is_settled_after_its_queue_was_deleted_is_purged(void **state)
{
    (void)state;
    rig_open(&rig, "sync");
    uint32_t number = make_queue(SPAN("gone"), SPAN("{}"));
    record_in(number, 1, TASK_UNSETTLED);
    drop_queue(number, SPAN("gone"));
    rig_restart(&rig); /* it has never heard of the queue */
    rig_wait(&rig, 1000);
    assert_true(has_row(1));
    struct ask settle = {.kind = ASK_SETTLE,
                         .exchange = 3,
                         .id = {1, ID_ANY_TAIL},
                         .settlement = SETTLEMENT_NOT_DONE};
    assert_int_equal(rig_full_ask(&rig, &settle)->kind, REPLY_QUEUE_DELETED);
    assert_true(has_row(1)); /* there is nothing to send it by */
    settle.settlement = SETTLEMENT_SUCCEEDED;
    assert_int_equal(rig_full_ask(&rig, &settle)->kind, REPLY_TASK);
    rig_wait(&rig, 1000);
    assert_false(has_row(1));
    rig_close(&rig);
}

static size_t list_fails;
static const struct store_ops *list_works;

static int list_sometimes(struct store *store, const struct store_filter *filter,
                          struct arena *arena, store_record_fn visit, void *user, int64_t *ret_next,
                          struct error *err)
{
    if (list_fails > 0) {
        list_fails--;
        return fail(err, FAULT_IO, "simulated");
    }
    return list_works->list(store, filter, arena, visit, user, ret_next, err);
}

static void a_page_that_cannot_be_read_is_read_again_later(void **state)
{
    static struct store_ops sometimes;
    (void)state;

    rig_open(&rig, "sync");
    uint32_t number = make_queue(SPAN("gone"), SPAN("{}"));
    record_every_state(number);
    drop_queue(number, SPAN("gone"));
    rig_restart(&rig);
    list_works = rig.store->ops;
    list_fails = 3;
    sometimes = *list_works;
    sometimes.list = list_sometimes;
    rig.store->ops = &sometimes;
    rig_wait(&rig, 500);
    assert_true(has_row(row_of(TASK_WAITING)));
    rig_wait(&rig, 5000);
    assert_int_equal(list_fails, 0);
    assert_false(has_row(row_of(TASK_WAITING)));
    rig.store->ops = list_works;
    rig_close(&rig);
}

/* --- among nodes ------------------------------------------------------------------------------------ */

struct counting {
    store_count_fn visit;
    void *user;
};

static int count_one(void *user, const struct brief *brief)
{
    const struct counting *counting = user;

    return counting->visit(
        counting->user,
        &(struct state_count){.queue = brief->queue, .state = brief->state, .count = 1});
}

static int count_all(struct store *store, store_count_fn visit, void *user, struct error *err)
{
    struct counting counting = {.visit = visit, .user = user};

    return store_scan(store, count_one, &counting, err);
}

static const struct store_nodes nodes = {.counts = count_all};

static void beat(bool has_duty)
{
    struct rig_queues queues = rig_see_queues(&rig);

    rig.now_ms += 2000;
    engine_beat(rig.engine, &(struct beat){.is_fresh = true,
                                           .queues_serial = 1,
                                           .queues = queues.rows,
                                           .queue_count = queues.count,
                                           .epoch = rig.store->epoch,
                                           .server_ms = rig.now_ms,
                                           .seen_ms = rig.now_ms,
                                           .begun_ms = rig.now_ms,
                                           .node_count = 2,
                                           .has_duty = has_duty,
                                           .has_settled_in = true});
    arena_free(queues.arena);
    rig_settle(&rig);
}

static uint32_t open_beside_a_peer_that_died(void)
{
    rig = (struct rig){.keep_ms = 600000};
    rig_open(&rig, "sync");
    rig.store->nodes = &nodes;
    uint32_t number = make_queue(SPAN("gone"), SPAN("{}"));
    record_every_state(number);
    return number;
}

static void
what_a_dead_peer_left_of_a_deleted_queue_is_purged_by_the_node_with_the_duty(void **state)
{
    (void)state;
    uint32_t number = open_beside_a_peer_that_died();
    drop_queue(number, SPAN("gone"));
    for (int i = 0; i < 3; i++) {
        beat(false);
    }
    assert_true(has_row(row_of(TASK_WAITING))); /* another node has it */
    for (int i = 0; i < 3; i++) {
        beat(true);
    }
    assert_only_doubt_is_left();
    record_in(number + 1, MANY, TASK_WAITING); /* of no queue that there is */
    beat(true);
    assert_true(has_row(MANY));
    rig.store->nodes = NULL;
    rig_close(&rig);
}

/* Nothing but its row in the store says that a queue was deleted. */
static void a_queue_that_is_only_missing_from_the_file_keeps_its_tasks(void **state)
{
    (void)state;
    uint32_t number = open_beside_a_peer_that_died();
    uint32_t filed = make_queue(SPAN("was in the file once"), SPAN(""));
    record_in(filed, MANY, TASK_WAITING);
    drop_queue(number, SPAN("gone"));
    for (int i = 0; i < 3; i++) {
        beat(true);
    }
    assert_only_doubt_is_left();
    assert_true(has_row(MANY));
    rig.store->nodes = NULL;
    rig_close(&rig);
}

/* The peer that had leased it did not know of the deletion yet. */
static void a_task_that_is_put_back_after_the_purge_is_purged_too(void **state)
{
    (void)state;
    uint32_t number = open_beside_a_peer_that_died();
    drop_queue(number, SPAN("gone"));
    for (int i = 0; i < 3; i++) {
        beat(true);
    }
    struct op settle = {.kind = OP_SETTLE,
                        .task.id = {row_of(TASK_RUNNING), ID_ANY_TAIL},
                        .life = {.state = TASK_WAITING, .fence = 1, .due_at_ms = INT64_MAX}};
    apply_done(&settle);
    for (int i = 0; i < 2; i++) {
        beat(true);
    }
    assert_false(has_row(row_of(TASK_RUNNING)));
    rig.store->nodes = NULL;
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deletion_that_a_crash_cut_off_is_finished_after_a_start),
        cmocka_unit_test(what_is_settled_after_its_queue_was_deleted_is_purged),
        cmocka_unit_test(a_page_that_cannot_be_read_is_read_again_later),
        cmocka_unit_test(
            what_a_dead_peer_left_of_a_deleted_queue_is_purged_by_the_node_with_the_duty),
        cmocka_unit_test(a_queue_that_is_only_missing_from_the_file_keeps_its_tasks),
        cmocka_unit_test(a_task_that_is_put_back_after_the_purge_is_purged_too),
    };
    return HARNESS_RUN(argc, argv, tests);
}
