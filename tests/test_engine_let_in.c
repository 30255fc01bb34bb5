/* SPDX-License-Identifier: MIT
 *
 * Targets that said they are gone, and the numbers under which operators let them in again at some node
 * (engine/targets.c).
 */
#include "engine_rig.h"
#include "harness.h"

#define FIRST    7001
#define SECOND   7002
#define LEASE_MS 1000000
#define TARGET   "t" /* as the rig has it */

static struct rig rig; /* large */

static struct rig_answer say_gone(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 410};
}

static uint32_t stopped(void)
{
    struct queue_view view;

    engine_queue_view(rig.engine, 0, &view);
    return view.stopped;
}

/* A beat with the queues as a peer has changed them: with that number. */
static void follow(uint64_t let_in)
{
    static uint64_t serial;
    struct rig_queues seen = rig_see_queues(&rig);
    struct beat beat = {.is_fresh = true,
                        .epoch = rig.store->epoch,
                        .server_ms = rig.now_ms,
                        .seen_ms = rig.now_ms,
                        .begun_ms = rig.now_ms,
                        .node_count = 2,
                        .has_settled_in = true,
                        .queues_serial = ++serial,
                        .queues = seen.rows,
                        .queue_count = seen.count};

    for (size_t i = 0; i < seen.count; i++) {
        seen.rows[i].version = serial;
        seen.rows[i].let_in = let_in;
    }
    engine_beat(rig.engine, &beat);
    rig_settle(&rig);
    assert_int_equal(rig.wish.followed, serial); /* peers may know */
    arena_free(seen.arena);
}

static int find_stop(void *user, const struct memo *memo)
{
    char *ret_value = user;

    if (span_starts(memo->name, "stopped:")) {
        assert_true(memo->value.len < 32);
        span_copy(ret_value, memo->value);
        ret_value[memo->value.len] = '\0';
    }
    return 0;
}

/* As it is written down; "": it is not. */
static const char *memo_of_stop(void)
{
    static char value[32];

    value[0] = '\0';
    assert_int_equal(store_memos(rig.store, find_stop, value, NULL), 0);
    return value;
}

static void begin(void)
{
    rig = (struct rig){.keep_ms = 100000, .answer = say_gone};
    rig_open(&rig, "default");
    rig_join(&rig);
    rig.store->node_lease_ms = LEASE_MS;
    follow(0);
}

static void be_told_gone(void)
{
    rig_submit(&rig, "", "body", 0, 0);
    rig_settle(&rig);
    assert_int_equal(stopped(), 1);
}

/* Its memo was written after the peer had cleared the memos: it is there, and does not count. */
static void a_stop_from_before_a_resume_elsewhere_is_over_with_it(void **state)
{
    (void)state;
    begin();
    be_told_gone();
    assert_string_equal(memo_of_stop(), "gone");
    follow(FIRST);
    assert_int_equal(stopped(), 0);
    be_told_gone();
    follow(SECOND);
    assert_int_equal(stopped(), 0);
    rig_close(&rig);
}

static void a_stop_from_after_a_resume_elsewhere_holds(void **state)
{
    (void)state;
    begin();
    follow(FIRST);
    be_told_gone();
    assert_string_equal(memo_of_stop(), "gone 7001");
    follow(FIRST); /* a pause, a node that has started: the row is another, the number is not */
    assert_int_equal(stopped(), 1);
    rig_close(&rig);
}

/* A node of a release without numbers takes the memo away, and no more. */
static void a_stop_whose_memo_is_gone_is_over(void **state)
{
    (void)state;
    begin();
    be_told_gone();
    follow(0);
    assert_int_equal(stopped(), 1);
    struct op forget = {.kind = OP_MEMO, .memo.name = SPAN("stopped:" RIG_QUEUE ":" TARGET)};
    struct op *ops[] = {&forget};
    assert_int_equal(store_apply(rig.store, ops, 1, NULL), 0);
    assert_string_equal(memo_of_stop(), "");
    follow(0);
    assert_int_equal(stopped(), 0);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_from_before_a_resume_elsewhere_is_over_with_it),
        cmocka_unit_test(a_stop_from_after_a_resume_elsewhere_holds),
        cmocka_unit_test(a_stop_whose_memo_is_gone_is_over),
    };

    return HARNESS_RUN(argc, argv, tests);
}
