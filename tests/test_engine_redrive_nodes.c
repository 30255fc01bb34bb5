/* SPDX-License-Identifier: MIT
 *
 * Many dead letters at once, at one of several nodes: what it tells when it has lost the store, how long those
 * wait who cancel, and that its words come to nothing once a peer has the redrive.
 */
#include "engine/memos_internal.h"
#include "engine_rig.h"
#include "harness.h"

#include <stdio.h>

#define LETTERS   100
#define SECOND_MS 1000
#define LEASE_MS  5000
#define WAIT_MS   10000 /* of redrive_end.c */
#define PEER      99    /* its epoch */
#define BEGUN     3     /* exchanges */
#define ASKED     4
#define CANCELLED 5

static struct rig rig; /* large */
static const struct store_nodes nodes = {.counts = rig_count_nothing};
static const struct store_ops *real_ops;
static struct store_ops failing_ops;

static struct rig_answer refuse(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 400};
}

static int apply_nothing(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    (void)store, (void)ops, (void)count;
    return fail(err, FAULT_IO, "no connection");
}

static int lose_commit(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    (void)store, (void)ops, (void)count;
    return fail(err, FAULT_UNKNOWN, "the connection was lost during the commit");
}

static int touch_nothing(struct store *store, struct error *err)
{
    (void)store;
    return fail(err, FAULT_IO, "no connection");
}

static void cut_off(void)
{
    rig.store->ops = &failing_ops;
}

static void come_back(void)
{
    rig.store->ops = real_ops;
}

/* Of two nodes, this one with that epoch, and its peer. */
static void look_around(uint64_t epoch)
{
    uint64_t live[] = {epoch, PEER};
    struct beat seen = rig_beat(&rig, 0, 2);

    seen.epoch = epoch;
    seen.live = live;
    seen.live_count = 2;
    engine_beat(rig.engine, &seen);
    rig_settle(&rig);
}

/* From tick to tick, and a beat each second. */
static void wait_with_beats(int64_t ms)
{
    for (int64_t passed = 0; passed < ms; passed += SECOND_MS) {
        rig_wait(&rig, SECOND_MS);
        look_around(rig.store->epoch);
    }
}

static const struct rig_reply *ask_about(enum ask_kind kind, uint64_t exchange, uint64_t id)
{
    return rig_full_ask(&rig, &(struct ask){.kind = kind,
                                            .exchange = exchange,
                                            .id = {.row = (int64_t)id},
                                            .who = SPAN("ann")});
}

static uint64_t begin(void)
{
    rig = (struct rig){.keep_ms = 1000000, .answer = refuse, .sends_max = 4 * LETTERS};
    rig_open(&rig, "sync");
    rig.store->nodes = &nodes;
    rig.store->node_lease_ms = LEASE_MS;
    real_ops = rig.store->ops;
    failing_ops = *real_ops;
    failing_ops.apply = apply_nothing;
    failing_ops.touch = touch_nothing;
    look_around(rig.store->epoch);
    for (size_t i = 0; i < LETTERS; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
    rig_pass(&rig, 1);
    const struct ask wish = {
        .kind = ASK_REDRIVE_MANY, .exchange = BEGUN, .rate_per_second = 1, .who = SPAN("ann")};
    const struct rig_reply *reply = rig_full_ask(&rig, &wish);
    assert_int_equal(reply->kind, REPLY_REDRIVE);
    assert_int_equal(reply->redrive.matched, LETTERS);
    uint64_t id = reply->redrive.id;
    wait_with_beats(3 * SECOND_MS);
    return id;
}

struct looked_for {
    const char *prefix;
    uint64_t id;
    bool is_found;
    char value[1024];
};

static int see_memo(void *user, const struct memo *memo)
{
    struct looked_for *wanted = user;
    uint64_t id;

    if (memos_is(memo->name, wanted->prefix, &id) && id == wanted->id) {
        wanted->is_found = true;
        (void)snprintf(wanted->value, sizeof wanted->value, "%.*s", SPAN_ARGS(memo->value));
    }
    return 0;
}

static struct looked_for find_memo(const char *prefix, uint64_t id)
{
    struct looked_for wanted = {.prefix = prefix, .id = id};

    assert_int_equal(store_memos(rig.store, see_memo, &wanted, NULL), 0);
    return wanted;
}

/* The peer has taken it over, and has come that far. */
static void take_over(uint64_t id, int64_t redriven)
{
    char name[MEMO_NAME_BYTES];
    struct buf value;

    buf_init(&value, MEMO_VALUE_BYTES);
    assert_int_equal(memos_add_number(&value, "matched", LETTERS), 0);
    assert_int_equal(memos_add_number(&value, "redriven", redriven), 0);
    assert_int_equal(memos_add_number(&value, "epoch", PEER), 0);
    struct op op = {.kind = OP_MEMO, .memo = {memos_name("redrive", id, name), buf_span(&value)}};
    struct op *ops[] = {&op};
    assert_int_equal(real_ops->apply(rig.store, ops, 1, NULL), 0);
    buf_done(&value);
}

static void a_node_that_has_lost_the_store_does_not_tell_a_redrive_from_memory(void **state)
{
    (void)state;
    uint64_t id = begin();
    const struct rig_reply *reply = ask_about(ASK_REDRIVE_STATE, ASKED, id);
    assert_int_equal(reply->kind, REPLY_REDRIVE);
    assert_in_range(reply->redrive.redriven, 2, 4);
    cut_off();
    rig_wait(&rig, LEASE_MS);
    assert_int_equal(ask_about(ASK_REDRIVE_STATE, ASKED, id)->kind, REPLY_FAULT);
    assert_int_equal(ask_about(ASK_REDRIVE_CANCEL, CANCELLED, id)->kind, REPLY_FAULT);
    come_back();
    look_around(rig.store->epoch); /* it was not taken for dead */
    reply = ask_about(ASK_REDRIVE_STATE, ASKED, id);
    assert_string_equal(reply->redrive.state, "running"); /* what was refused was not done */
    wait_with_beats(2 * LETTERS * SECOND_MS);
    reply = ask_about(ASK_REDRIVE_STATE, ASKED, id);
    assert_string_equal(reply->redrive.state, "done");
    assert_int_equal(reply->redrive.redriven, LETTERS);
    cut_off();
    rig_wait(&rig, LEASE_MS);
    assert_int_equal(ask_about(ASK_REDRIVE_STATE, ASKED, id)->kind, REPLY_REDRIVE); /* for good */
    come_back();
    rig_close(&rig);
}

static void who_cancels_waits_no_longer_than_the_lease_of_the_node(void **state)
{
    (void)state;
    uint64_t id = begin();
    cut_off();
    assert_int_equal(ask_about(ASK_REDRIVE_CANCEL, CANCELLED, id)->count, 0);
    rig_wait(&rig, LEASE_MS);
    assert_int_equal(rig.replies[CANCELLED].count, 1);
    assert_int_equal(rig.replies[CANCELLED].kind, REPLY_FAULT);
    assert_int_equal(rig.error.fault, FAULT_UNKNOWN);
    come_back();
    wait_with_beats(2 * SECOND_MS);
    assert_int_equal(rig.replies[CANCELLED].count, 1);
    const struct rig_reply *reply = ask_about(ASK_REDRIVE_STATE, ASKED, id);
    assert_string_equal(reply->redrive.state, "cancelled");
    rig_close(&rig);
}

static void who_cancels_does_not_wait_for_ever_for_a_store_that_takes_nothing(void **state)
{
    (void)state;
    uint64_t id = begin();
    cut_off();
    assert_int_equal(ask_about(ASK_REDRIVE_CANCEL, CANCELLED, id)->count, 0);
    wait_with_beats(WAIT_MS - SECOND_MS);
    assert_int_equal(rig.replies[CANCELLED].count, 0);
    wait_with_beats(2 * SECOND_MS);
    assert_int_equal(rig.replies[CANCELLED].count, 1);
    assert_int_equal(rig.error.fault, FAULT_UNKNOWN);
    come_back();
    rig_close(&rig);
}

static void an_end_that_comes_late_changes_nothing_of_what_a_peer_has(void **state) /* I2 */
{
    (void)state;
    uint64_t id = begin();
    cut_off();
    (void)ask_about(ASK_REDRIVE_CANCEL, CANCELLED, id);
    rig_wait(&rig, LEASE_MS);
    take_over(id, 7);
    come_back(); /* and what was under way is applied */
    rig_wait(&rig, SECOND_MS);
    assert_false(find_memo("node-redriven", id).is_found);
    assert_true(find_memo("redrive", id).is_found);
    look_around(rig.store->epoch + 5);
    rig_wait(&rig, SECOND_MS);
    look_around(rig.store->epoch);
    const struct rig_reply *reply = ask_about(ASK_REDRIVE_STATE, ASKED, id);
    assert_int_equal(reply->kind, REPLY_REDRIVE);
    assert_string_equal(reply->redrive.state, "running");
    assert_int_equal(reply->redrive.redriven, 7);
    wait_with_beats(2 * LEASE_MS);
    assert_int_equal(memos_number(span_of(find_memo("redrive", id).value), "redriven"), 7);
    assert_false(find_memo("node-redriven", id).is_found);
    rig_close(&rig);
}

/* Nor what it wrote of its progress. */
static void sums_that_come_late_change_nothing_of_what_a_peer_has(void **state) /* I2 */
{
    (void)state;
    uint64_t id = begin();
    failing_ops.apply = lose_commit;
    rig_wait(&rig, SECOND_MS + SECOND_MS / 2); /* one more is redriven */
    cut_off();
    look_around(rig.store->epoch); /* it writes how far it is, and that is not there, */
    take_over(id, 50);
    come_back(); /* so it is applied again */
    wait_with_beats(2 * LEASE_MS);
    const struct looked_for found = find_memo("redrive", id);
    assert_int_equal(memos_number(span_of(found.value), "redriven"), 50);
    assert_int_equal(memos_number(span_of(found.value), "epoch"), PEER);
    rig_close(&rig);
}

/* It is another node by now, and does not know yet whether it still has the redrive. */
static void a_cancel_in_doubt_is_a_wish_that_is_stored(void **state)
{
    (void)state;
    uint64_t id = begin();
    rig_wait(&rig, LEASE_MS);
    look_around(rig.store->epoch + 5);
    assert_int_equal(ask_about(ASK_REDRIVE_STATE, ASKED, id)->kind, REPLY_REDRIVE);
    assert_int_equal(ask_about(ASK_REDRIVE_CANCEL, CANCELLED, id)->count, 0);
    assert_true(find_memo("node-redrive-stop", id).is_found);
    wait_with_beats(LEASE_MS);
    assert_int_equal(rig.replies[CANCELLED].count, 1);
    assert_int_equal(rig.replies[CANCELLED].kind, REPLY_REDRIVE);
    assert_string_equal(rig.replies[CANCELLED].redrive.state, "cancelled");
    assert_false(find_memo("redrive", id).is_found);
    assert_true(find_memo("node-redriven", id).is_found);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_has_lost_the_store_does_not_tell_a_redrive_from_memory),
        cmocka_unit_test(who_cancels_waits_no_longer_than_the_lease_of_the_node),
        cmocka_unit_test(who_cancels_does_not_wait_for_ever_for_a_store_that_takes_nothing),
        cmocka_unit_test(an_end_that_comes_late_changes_nothing_of_what_a_peer_has),
        cmocka_unit_test(sums_that_come_late_change_nothing_of_what_a_peer_has),
        cmocka_unit_test(a_cancel_in_doubt_is_a_wish_that_is_stored),
    };
    return HARNESS_RUN(argc, argv, tests);
}
