/* SPDX-License-Identifier: MIT
 *
 * What a node takes away of memos that several nodes write: what it has read, or has written itself, and nothing
 * that a peer has written meanwhile.
 */
#include "engine_rig.h"
#include "harness.h"

#include <string.h>

#define FIRST    7001 /* numbers under which targets were let in: see engine/targets.c */
#define SECOND   7002
#define LEASE_MS 1000000
#define PEER     99                        /* its epoch; 100 is the one that it has later */
#define STOP     "stopped:" RIG_QUEUE ":t" /* as the rig has its target */
#define RUN      "node-run:5"

static struct rig rig; /* large */
static const struct store_ops *real_ops;

static struct {
    bool is_held;       /* the memo that is to be written: the store does not take it yet */
    bool comes_first;   /* the peer writes before it, or else after it */
    struct memo theirs; /* that a peer writes then */
} race;

static void write_as_peer(struct memo memo)
{
    struct op op = {.kind = OP_MEMO, .memo = memo};
    struct op *ops[] = {&op};

    assert_int_equal(real_ops->apply(rig.store, ops, 1, NULL), 0);
}

static int apply_in_race(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    bool is_it = false;

    for (size_t i = 0; i < count; i++) {
        is_it |= ops[i]->kind == OP_MEMO && span_equal(ops[i]->memo.name, race.theirs.name);
    }
    if (is_it && race.is_held) {
        return fail(err, FAULT_HELD, "a row is held");
    }
    struct memo theirs = race.theirs;
    race.theirs = is_it ? (struct memo){.name = SPAN("")} : race.theirs; /* once */
    if (is_it && race.comes_first) {
        write_as_peer(theirs);
    }
    int failed = real_ops->apply(store, ops, count, err);
    if (is_it && !race.comes_first) {
        write_as_peer(theirs);
    }
    return failed;
}

static struct rig_answer say_gone(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 410};
}

static void begin(void)
{
    static struct store_ops ops;

    rig = (struct rig){.keep_ms = 100000, .answer = say_gone};
    rig_open(&rig, "default");
    rig_join(&rig);
    rig.store->node_lease_ms = LEASE_MS;
    real_ops = rig.store->ops;
    ops = *real_ops;
    ops.apply = apply_in_race;
    rig.store->ops = &ops;
}

static void look_around(bool sees_peer, uint64_t let_in)
{
    static uint64_t serial;
    struct rig_queues seen = rig_see_queues(&rig);
    uint64_t live[] = {rig.store->epoch, PEER};
    const struct beat beat = {.is_fresh = true,
                              .epoch = rig.store->epoch,
                              .server_ms = rig.now_ms,
                              .seen_ms = rig.now_ms,
                              .begun_ms = rig.now_ms,
                              .node_count = 1 + sees_peer,
                              .live = live,
                              .live_count = 1 + sees_peer,
                              .has_duty = true,
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
    arena_free(seen.arena);
}

static int find(void *user, const struct memo *memo)
{
    struct memo *wanted = user;
    static char value[64];

    if (span_equal(memo->name, wanted->name)) {
        assert_true(memo->value.len < sizeof value);
        span_copy(value, memo->value);
        wanted->value = (struct span){value, memo->value.len};
    }
    return 0;
}

static void expect_memo(struct span name, const char *value)
{
    struct memo wanted = {.name = name};

    assert_int_equal(store_memos(rig.store, find, &wanted, NULL), 0);
    assert_int_equal(wanted.value.len, strlen(value));
    assert_true(span_is(wanted.value, value));
}

/* It is written after the target was let in, and a peer stops that target anew at this very moment. */
static void a_stop_that_came_too_late_takes_no_stop_of_a_peer_with_it(void **state)
{
    (void)state;
    begin();
    look_around(true, FIRST);
    race.is_held = true;
    race.comes_first = false;
    race.theirs = (struct memo){SPAN(STOP), SPAN("gone 7002")};
    rig_submit(&rig, "", "body", 0, 0);
    rig_settle(&rig);
    look_around(true, SECOND);
    race.is_held = false;
    rig_settle(&rig);
    expect_memo(SPAN(STOP), "gone 7002");
    rig_close(&rig);
}

static void a_stop_that_came_too_late_is_forgotten(void **state)
{
    (void)state;
    begin();
    look_around(true, FIRST);
    race.is_held = true;
    race.comes_first = true;
    race.theirs = (struct memo){SPAN(STOP), SPAN("gone 7000")}; /* is overwritten */
    rig_submit(&rig, "", "body", 0, 0);
    rig_settle(&rig);
    look_around(true, SECOND);
    race.is_held = false;
    rig_settle(&rig);
    expect_memo(SPAN(STOP), "");
    rig_close(&rig);
}

/* Its node was taken for dead, and writes it again under another epoch. */
static void the_run_of_a_node_that_has_come_back_is_not_forgotten(void **state)
{
    (void)state;
    begin();
    write_as_peer((struct memo){SPAN(RUN), SPAN("queue: q\nepoch: 99\n")});
    look_around(true, 0);
    race.is_held = false;
    race.comes_first = true;
    race.theirs = (struct memo){SPAN(RUN), SPAN("queue: q\nepoch: 100\n")};
    look_around(false, 0);
    assert_int_equal(race.theirs.name.len, 0); /* it was tried */
    expect_memo(SPAN(RUN), "queue: q\nepoch: 100\n");
    rig_close(&rig);
}

static void the_run_of_a_node_that_is_gone_is_forgotten(void **state)
{
    (void)state;
    begin();
    write_as_peer((struct memo){SPAN(RUN), SPAN("queue: q\nepoch: 99\n")});
    look_around(true, 0);
    expect_memo(SPAN(RUN), "queue: q\nepoch: 99\n");
    race.theirs = (struct memo){.name = SPAN("")};
    look_around(false, 0);
    expect_memo(SPAN(RUN), "");
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_that_came_too_late_takes_no_stop_of_a_peer_with_it),
        cmocka_unit_test(a_stop_that_came_too_late_is_forgotten),
        cmocka_unit_test(the_run_of_a_node_that_has_come_back_is_not_forgotten),
        cmocka_unit_test(the_run_of_a_node_that_is_gone_is_forgotten),
    };

    return HARNESS_RUN(argc, argv, tests);
}
